"""The reference of Python: the public names in the order of a task, each with a table of its parameters.

Signatures and docstrings are the code's own. A public name without a task fails the build.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import dprelease as dp

TASKS: dict[str, tuple[str, ...]] = {
    "Describe a table": ("Schema", "draft_schema", "Domain", "Box"),
    "Plan a release": ("plan", "ReleasePlan"),
    "Keep a budget": ("create_ledger", "open_ledger"),
    "Release": ("release", "sql", "keys", "Accessor", "Release", "Keys"),
    "Run a pipeline": ("run", "Released"),
    "Verify and read what is published": (
        "verify", "read", "read_series", "diff", "Publication", "Series", "Derived",
    ),
    "What can go wrong": (
        "errors", "DpreleaseError", "ArgumentError", "ConfigError", "PlanError", "SourceError", "BudgetError",
        "LedgerError", "WithheldError", "VerificationError", "InternalError", "NotReadWarning", "UnledgeredWarning",
    ),
    "Look closer": ("diagnostics", "accessor", "__version__"),
}  # fmt: skip
"""Task -> public names of `dprelease`."""

_MADE = ("dp.Domain", "dp.Box", "dp.Accessor")
"""Classes that a user makes; the others are returned, or read from a file."""

_ENTRY = re.compile(r"^ {4}(?=\w)((?:\w+, )*\w+): ", re.MULTILINE)
_NEXT = re.compile(r"(?<=[.;]) ((?:\w+, )*\w+): ")


def page() -> str:
    """Return the page, in Markdown."""
    out = ["# Python", "", "`import dprelease as dp` registers the accessor `df.dp`.", ""]
    left = set(dp.__all__) - {"mechanisms"}
    for task, names in TASKS.items():
        out += [f"## {task}", ""]
        for name in names:
            left.discard(name)
            out += list(_public(f"dp.{name}", getattr(dp, name)))
    if left:
        raise ValueError(f"docs/python_page.py names no task for {', '.join(sorted(left))}")
    out += ["## Mechanisms alone", "", _prose(inspect.getdoc(dp.mechanisms) or ""), ""]
    for name in dp.mechanisms.__all__:
        out += list(_public(f"dp.mechanisms.{name}", getattr(dp.mechanisms, name)))
    return "\n".join(out)


def _public(path: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, str):
        yield from (f"### `{path}`", "", "The version of the package.", "")
        return
    yield from _entry("###", path, thing)
    if inspect.isclass(thing):
        short = path.rsplit(".", 1)[-1]
        for name, value in vars(thing).items():
            inner = getattr(value, "__func__", value)
            if not name.startswith("_") and inspect.isfunction(inner) and inner.__doc__:
                yield from _entry("####", f"{short}.{name}", inner)


def _entry(mark: str, path: str, thing: Any) -> Iterator[str]:
    called = callable(thing) and not inspect.ismodule(thing)
    made = not inspect.isclass(thing) or path.startswith("dp.mechanisms.") or path in _MADE
    yield from (f"{mark} `{path}{'()' if called and not inspect.isclass(thing) else ''}`", "")
    parts = sections(inspect.getdoc(thing) or "")
    yield from (_prose(parts.pop("")), "")
    known = meanings(parts.pop("Args", ""))
    if called and made and known:
        yield from ("| parameter | type | default | meaning |", "|---|---|---|---|")
        yield from (*_rows(thing, known), "")
    elif called and made:
        yield from _signature(path, thing)
    for title, text in parts.items():
        items = re.split(r"\n(?=\w)", inspect.cleandoc(text).strip())
        yield from (f"*{title}*:", "", *(f"* {_prose(' '.join(i.split()))}" for i in items), "")


def _signature(path: str, thing: Any) -> Iterator[str]:
    try:
        found = str(inspect.signature(thing)).replace("'", "")
    except (TypeError, ValueError):
        return
    found = re.sub(r"^\((?:self|cls)(?:, )?", "(", found)
    yield from ("```text", f"{path.removeprefix('dp.mechanisms.')}{found}", "```", "")


def sections(text: str) -> dict[str, str]:
    """Return a docstring's parts: the text itself under "", then Args, Returns, Raises and the like."""
    found = re.split(r"^([A-Z][a-z]+):\n(?=    )", text, flags=re.MULTILINE)
    return {"": found[0].strip()} | dict(zip(found[1::2], found[2::2], strict=True))


def meanings(text: str) -> dict[str, str]:
    """Return each parameter of an Args section and what it means; several names before a colon share it."""
    out: dict[str, str] = {}
    pieces = _ENTRY.split("\n" + text)[1:]
    for names, meaning in zip(pieces[::2], pieces[1::2], strict=True):
        said = _NEXT.split(" ".join(meaning.split()))
        for several, one in zip([names, *said[1::2]], said[::2], strict=True):
            out |= dict.fromkeys(several.split(", "), one)
    return out


def _rows(thing: Any, known: dict[str, str]) -> Iterator[str]:
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return
    for one in parameters:
        if one.name in ("self", "cls") or one.name.startswith("_"):
            continue
        kind = "" if one.annotation is one.empty else f"`{one.annotation}`".replace("'", "")
        default = "required" if one.default is one.empty else f"`{one.default!r}`"
        if one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
            default = ""
        yield f"| `{str(one).split(':')[0].split('=')[0].strip()}` | {_cell(kind)} | {_cell(default)} | {_cell(known.get(one.name, ''))} |"


def _prose(text: str) -> str:
    """Return a docstring as Markdown: examples of a prompt stand in a block, and no text is HTML."""
    parts = re.split(r"((?:^>>> .*\n?)(?:^.+\n?)*)", text, flags=re.MULTILINE)
    for at, part in enumerate(parts):
        if at % 2:
            parts[at] = f"\n```text\n{part.rstrip()}\n```\n"
        else:
            outside = part.split("`")
            outside[::2] = [piece.replace("<", "&lt;") for piece in outside[::2]]
            parts[at] = "`".join(outside)
    return "".join(parts).strip()


def _cell(text: str) -> str:
    """Return a cell of a table: a bar between backticks separates no cells, and a backslash before it would be seen."""
    parts = text.replace("\n", " ").split("`")
    parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
    return "`".join(parts)
