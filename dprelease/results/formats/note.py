"""The methodology note of a release, for the office that publishes it: HTML to be printed, or Markdown.

It is a function of the manifest and of the release that is made again from it, in the publisher's words where there are some, and its
sentences are those of the report. One template says what stands where; two others, how it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dprelease.results.draw import Draw
from dprelease.results.formats.html import page_of
from dprelease.results.formats.public_words import public_words
from dprelease.results.formats.templates import text_of, with_parts

_MARKS = re.compile(r"[\\`*_\[\]<>|&#~$]|^[-+=]")
_NUMBERED = re.compile(r"^(\d+)(?=[.)](\s|$))")


def note(
    noised: Draw,
    manifest: Mapping[str, Any],
    kind: str,
    *,
    release: str,
    gone: str = "",
) -> bytes:
    """Return the note, `html` or `md`, UTF-8.

    Args:
        release: SHA-256 of the manifest; gone: as for `html.report`.
    """
    environment = with_parts(text_of("report.css") + text_of("note.css"))
    environment.filters["text"] = environment.filters["isolated"]
    if kind == "md":
        environment.autoescape = False
        environment.filters["text"] = _plain
    environment.globals["write"] = environment.from_string(text_of(f"note_{kind}.j2")).module
    page = page_of(noised, manifest, labelled=True)
    request, columns = manifest["request"], list(_columns(manifest))
    made = environment.from_string(text_of("note.j2")).render(
        page=page, request=request, columns=columns, release=release, gone=gone
    )
    return (re.sub(r"\n{3,}", "\n\n", made).strip() + "\n").encode()


def _plain(text: object) -> str:
    """Return a text as Markdown that stands for itself: nothing in it begins markup, a link or a list."""
    marked = _MARKS.sub(lambda found: f"\\{found[0]}", " ".join(str(text).split()))
    return _NUMBERED.sub(r"\1\\", marked)


def _columns(manifest: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what is declared of the columns that the release uses, in their order, with their titles."""
    plan, request, words = manifest["plan"], manifest["request"] or {}, public_words(manifest)
    texts = [*plan["by"], plan["where"] or "", *(s["statistic"] for s in plan["statistics"])]
    for name, said in request.get("schema", {}).get("columns", {}).items():
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", " ".join(texts)):
            yield {**said, "title": words.column(name)}
