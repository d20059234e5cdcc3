"""Measured tables and pictures of `benchmarks/results/`, shown where a page asks for them.

A line `<!-- results: NAME -->` becomes NAME.md, and NAME.svg if there is one; a rerun of the
command that wrote them is all it takes to update the site. A page that asks for a result that
nobody made fails the build, and so does a result that no page shows.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
MARK = re.compile(r"^<!-- results: ([a-z_]+) -->$", re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pictures, and check that every result is shown somewhere."""
    pages = [f for f in files.documentation_pages() if f.abs_src_path]
    shown = {name for f in pages for name in MARK.findall(f.content_string)}
    for path in sorted(RESULTS.glob("*.md")):
        if path.stem not in shown:
            msg = f"benchmarks/results/{path.name} is shown on no page"
            raise PluginError(msg)
    for path in sorted(RESULTS.glob("*.svg")):
        files.append(File.generated(config, f"results/{path.name}", content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace the marks of one page."""
    del config, files
    up = "../" * page.file.src_uri.count("/")
    return MARK.sub(lambda found: result(found[1], up), markdown)


def result(name: str, up: str = "") -> str:
    """Return one result as a part of a page: its title left out, its headings one level lower."""
    path = RESULTS / f"{name}.md"
    if not path.is_file():
        msg = f"a page shows benchmarks/results/{name}.md, which does not exist"
        raise PluginError(msg)
    text = re.sub(r"\A# .*\n", "", path.read_text(encoding="utf-8"))
    text = re.sub(r"^(#+) ", r"#\1 ", text, flags=re.MULTILINE).strip()
    # a table ends where a blank line stands, and a closing remark may follow without one
    text = re.sub(r"^(\|.*\|)\n(?=[^|\n])", r"\1\n\n", text, flags=re.MULTILINE)
    if (RESULTS / f"{name}.svg").is_file():
        text += f"\n\n![{name}, drawn from the table above]({up}results/{name}.svg)"
    return text
