"""What a format is, and what it says of releases of several tables.

A format is a function of the release and its manifest. Called for one table, it needs to say nothing.
One that can also write a release of several `tables:` says how by its attribute `tables`:

* "each": it is called once per table, with that table as a release of its own, and its files get the
  table's name (`table_files.table_file`);
* "all": it is called once, and finds the tables in `noised.parts`.

A format without the attribute writes releases of one table only. A release of several tables that names it is
refused before the charge (`unfit`): nothing that is known beforehand may fail after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from dprelease.core import registry

if TYPE_CHECKING:
    from dprelease.results.draw import Draw

Tables = Literal["one", "each", "all"]
_SAID: tuple[Tables, ...] = ("each", "all")
F = TypeVar("F", bound=Callable[..., object])


class Format(Protocol):
    """What writes the files of one format: equal arguments give equal bytes."""

    def __call__(self, noised: Draw, manifest: Mapping[str, object], /) -> Mapping[str, bytes]:
        """Return every file's bytes by its plain name."""


def several_tables(how: Tables) -> Callable[[F], F]:
    """Mark a format as one that writes releases of several tables, "each" by itself or "all" at once."""

    def marked(write: F) -> F:
        vars(write)["tables"] = how
        return write

    return marked


def tables_of(write: object) -> Tables:
    """Return how a format takes several tables; "one" if it does not say, or says something else."""
    said = getattr(write, "tables", None)
    return next((how for how in _SAID if how == said), "one")


def unfit(name: str, *, many_tables: bool) -> str | None:
    """Load a format; return why it cannot write such a release, or None.

    Args:
        many_tables: the release has several tables.
    """
    try:
        write = registry.load("formats", name)
    except Exception as error:  # noqa: BLE001 - foreign code, before the charge
        return f"what offers it cannot be loaded: {type(error).__name__}"
    if not callable(write):
        return "what is offered is not a function"
    if many_tables and tables_of(write) == "one":
        return 'it writes one table; one for several says so: `write.tables = "each"` or "all"'
    return None


def of_today(manifest: Mapping[str, Any]) -> bool:
    """Return whether a folder is of today's edition; the files of an older one are made as they were published."""
    return "report" in (manifest.get("request") or {})


def table_file(file: str, table: str | None) -> str:
    """Return what the file of one table is called where there are several.

    The table's name stands for `data`, and before any other name.

    >>> table_file("data.csv", "regions"), table_file("wide.csv", "regions"), table_file("wide.csv", None)
    ('regions.csv', 'regions_wide.csv', 'wide.csv')
    """
    if table is None:
        return file
    stem, dot, end = file.partition(".")
    return f"{table}{dot}{end}" if stem == "data" else f"{table}_{file}"
