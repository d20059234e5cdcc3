"""Raw-row inspection on a curator's screen: a terminal or a notebook, and nowhere else.

The numbers are exact and have no privacy guarantee, so nothing is returned, written or logged. A notebook
keeps what it shows in its file: the last line says to clear it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dprelease.core.errors import ArgumentError

if TYPE_CHECKING:
    from rich.console import Console

    from dprelease.engines.source import Source
    from dprelease.inspection.rows import RawCount
    from dprelease.release_plan.plan import ReleasePlan


def in_notebook() -> bool:
    """Return whether a notebook's kernel runs this."""
    shell = sys.modules.get("IPython")
    found = None if shell is None else shell.get_ipython()
    return type(found).__name__ == "ZMQInteractiveShell"


def must_be_watched(how: str) -> None:
    """Refuse to look at raw rows where nobody watches: standard output is not a terminal.

    Args:
        how: what the curator calls, for the message.

    Raises:
        ArgumentError: it is none (DPR616).
    """
    if in_notebook() or sys.stdout.isatty():
        return
    raise ArgumentError(
        "raw-input checks are shown at a terminal or in a notebook only",
        why="their numbers are exact: in a file, a pipe or a log they would be a leak",
        fix=f"run {how} yourself, without a pipe or redirection",
        code="DPR616",
    )


def show(plan: ReleasePlan, source: Source, out: Console) -> None:
    """Print what the raw rows look like against the plan's schema."""
    from rich.panel import Panel
    from rich.text import Text

    from dprelease.inspection.rows import MARK, inspect_rows

    found = inspect_rows(plan, source)
    out.print(Panel(Text(MARK), title="PRIVATE", border_style="bold red", expand=False))
    out.print(_table(found))
    what = (
        "this output before you save the notebook"
        if in_notebook()
        else "your screen when you are done"
    )
    out.print(Text(f"PRIVATE: clear {what}", style="bold red"))


def _table(found: tuple[RawCount, ...]) -> object:
    from rich.table import Table
    from rich.text import Text

    table = Table(show_lines=False, header_style="bold", expand=False)
    filtered = any(f.passing is not None for f in found)
    numbers = ("rows", "share", *(("pass the filter",) if filtered else ()))
    for header in ("column", "PRIVATE: what", *numbers):
        table.add_column(header, justify="right" if header in numbers else "left")
    for f in found:
        share = f"{f.rows / f.of:.2%}" if f.of else ""
        style = "yellow" if f.rows and f.of else ""
        cells = [f"{f.rows:,}", share]
        if filtered:
            cells.append("" if f.passing is None else f"{f.passing:,}")
        table.add_row(Text(f.column), Text(f.what), *cells, style=style)
    return table
