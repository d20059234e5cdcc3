"""`dprelease derive` and `dprelease diff`: compute with published folders; no data, no budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dprelease.cli.terminal import AsJson, console, print_json, say
from dprelease.core.numeric import counted

if TYPE_CHECKING:
    from dprelease.reading.derived import Derived

To = Annotated[Path | None, typer.Option(help="Write it: .csv, .parquet, .json or .html.")]


def derive(
    folder: Annotated[
        Path, typer.Argument(help="A published period, `latest`, or a pipeline's folder.")
    ],
    expression: Annotated[str, typer.Argument(help="late / count, share(count), growth(count) …")],
    to: To = None,
    by: Annotated[
        str | None, typer.Option(help="Key columns of the result, with commas; '' for one row.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="Which table, of a release of several.")] = None,
    public: Annotated[
        Path | None, typer.Option(help="A public table: CSV or Parquet with denominators, weights.")
    ] = None,
    level: Annotated[float, typer.Option(help="Level of the intervals.")] = 0.95,
    name: Annotated[str | None, typer.Option(help="Title of the result.")] = None,
    certain: Annotated[
        bool, typer.Option("--certain", help="Where values lie for certain, if their noise ends.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compute with published values, with intervals that cover the noise. Costs no privacy.

    Example: dprelease derive public/flights_weekly/latest "share(count)"
    """
    from dprelease.reading.publication import read, read_series
    from dprelease.results.formats.json_ import FILE

    published = read(folder) if (folder / FILE).is_file() else read_series(folder)
    keys = None if by is None else [part.strip() for part in by.split(",") if part.strip()]
    found = published.derive(
        expression,
        by=keys,
        table=table,
        public=public,
        level=level,
        name=name,
        certain=certain,
    )
    _shown(found, to, as_json=as_json)


def diff(
    a: Annotated[Path, typer.Argument(help="The earlier published folder.")],
    b: Annotated[Path, typer.Argument(help="The later one.")],
    adjust: Annotated[
        str, typer.Option(help="holm: for all comparisons together; none: each by itself.")
    ] = "holm",
    to: To = None,
    as_json: AsJson = False,
) -> None:
    """Say what changed between two published folders beyond their noise.

    Example: dprelease diff public/flights_weekly/2013-W05 public/flights_weekly/2013-W06
    """
    from dprelease.reading.changes import diff as compared

    _shown(compared(a, b, adjust=adjust), to, as_json=as_json)  # type: ignore[arg-type]


def _shown(found: Derived, to: Path | None, *, as_json: bool) -> None:
    if to is not None:
        found.write(to)
    if as_json:
        print_json(found.to_json())
        return
    if to is not None:
        say(f"wrote {to}: {counted(found.table.num_rows, 'row')}")
        return
    from rich.table import Table
    from rich.text import Text

    title = Text(f"{found.name}  ({found.said} intervals)")
    table = Table(title=title, title_justify="left")
    for column in found.table.column_names:
        table.add_column(Text(column), justify="left" if column in found.keys else "right")
    for row in found.table.to_pylist():
        table.add_row(
            *(
                Text("" if v is None else f"{v:.6g}" if isinstance(v, float) else str(v))
                for v in row.values()
            )
        )
    out = console()
    if out.width < 12 * len(found.table.column_names):
        table = Table(title=title, title_justify="left", show_header=False, box=None)
        table.add_column(overflow="fold")
        for row in found.table.to_pylist():
            words = [str(v) for v in row.values() if isinstance(v, str)]
            numbers = [f"{k} {v:.6g}" for k, v in row.items() if isinstance(v, int | float)]
            table.add_row(Text(", ".join(words), style="bold"))
            table.add_row(Text("  " + ", ".join(numbers)))
    out.print(table)
    for note in found.notes:
        say(note, "dim")
