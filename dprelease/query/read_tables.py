"""The `tables` and `totals` of a release block, read: names, columns or levels, statistics, files.

What holds for one table alone is checked here. Which tables can add up, and how, is `query.tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import exact, plain
from dprelease.query.keys import unfit_key
from dprelease.query.statistic import parse_statistics
from dprelease.schema.paths import read_keys
from dprelease.schema.release_spec import DetailSpec, StatisticSpec, TableSpec, TotalSpec
from dprelease.schema.table import TableSchema
from dprelease.schema.table_models import DetailModel, TableModel, TotalModel

MOST_TABLES = 400
_TAKEN = ("report", "release", "registry", "datapackage", "data", "wide")
"""What the other files of a folder are called."""

Place = Callable[..., str]


def check_name(spec: StatisticSpec, by: Collection[str]) -> None:
    """Refuse a statistic that is called like a column of keys beside it (DPR134)."""
    if spec.name in by:
        raise ConfigError(
            f"`{spec.name}` is published beside a grouping column of that name",
            where=spec.origin,
            fix=f'{{statistic: "{spec.text}", as: OTHER_NAME}}',
            code="DPR134",
        )


@dataclass(frozen=True, slots=True)
class TableReader:
    """Reads the tables of one release block.

    Attributes:
        line_of: from a place in the block to `file:line`; check: returns a statistic
            that fits, its condition parsed.
        lines: place in the block to `file:line`.
    """

    schema: TableSchema
    line_of: Place
    lines: Mapping[tuple[str | int, ...], str]
    check: Callable[[StatisticSpec], StatisticSpec]

    def tables(self, models: list[TableModel]) -> tuple[TableSpec, ...]:
        """Return the tables.

        Raises:
            ConfigError: none or too many, names that meet (DPR154), an unknown column or level (DPR122),
                one that is not a key (DPR136), or a statistic's fault (DPR13x).
        """
        if not 1 <= len(models) <= MOST_TABLES:
            self._fail("tables", f"a release has 1 to {MOST_TABLES} tables", "list at least one")
        listed = [part for i, model in enumerate(models) for part in self._spread(i, model)]
        if len(listed) > MOST_TABLES:
            self._fail(
                "tables", f"{len(listed)} tables, at most {MOST_TABLES}", "name fewer columns"
            )
        self._names([(i, name) for i, name, _, _ in listed])
        detailed = [i for i, model in enumerate(models) if model.detail is not None]
        if len(detailed) > 1:
            self._fail(
                "tables",
                detailed[1],
                "detail",
                "two tables have a `detail`",
                "keep it in the finest",
            )
        return tuple(self._table(i, name, by, model) for i, name, by, model in listed)

    def _spread(
        self, i: int, model: TableModel
    ) -> Sequence[tuple[int, str, tuple[str, ...], TableModel]]:
        """Return the tables that an entry asks for: place, name, columns, and the entry."""
        if (model.by is None) == (model.all_pairs is None):
            self._fail("tables", i, "a table has `by` or `all_pairs`", "write one of them")
        if model.by is not None:
            name = model.name or "_".join(model.by)
            if not name:
                self._fail("tables", i, "a table without columns needs a `name`", "e.g. total")
            return [(i, name, tuple(model.by), model)]
        alone = (model.name, model.share, model.zeros, model.zeros_from, model.detail)
        columns = model.all_pairs or []
        if any(part is not None for part in alone) or len(columns) < 2:
            self._fail(
                "tables", i, "all_pairs", "`all_pairs` is of two columns or more, with `statistics` alone",
                "leave the rest out, or list the tables one by one",
            )  # fmt: skip
        sets = [by for n in range(3) for by in combinations(columns, n)]
        return [(i, "_".join(by) or "total", by, model) for by in sets]

    def _fail(self, *place_what_fix: Any, code: str = "DPR154", why: str | None = None) -> NoReturn:
        *place, what, fix = place_what_fix
        raise ConfigError(what, where=self.line_of(*place), why=why, fix=fix, code=code)

    def _names(self, names: Sequence[tuple[int, str]]) -> None:
        seen: dict[str, str] = {}
        for i, name in names:
            for file in (name.lower(), f"{name.lower()}_wide"):
                if file in seen:
                    self._fail(
                        "tables",
                        i,
                        f"the tables `{seen[file]}` and `{name}` would share a file",
                        "leave one out or rename it (those of `all_pairs` by listing them one by one); a table's"
                        " files are NAME.csv, NAME_wide.csv and NAME.parquet",
                    )
            seen |= {name.lower(): name, f"{name.lower()}_wide": name}
            if name.lower() in _TAKEN:
                self._fail("tables", i, f"`{name}` is the name of another file", "rename the table")

    def _table(self, i: int, name: str, by: tuple[str, ...], model: TableModel) -> TableSpec:
        for j, column in enumerate(by):
            self._key(i, j, column, by)
        below = {k[3:]: v for k, v in self.lines.items() if k[:3] == ("tables", i, "statistics")}
        origin = self.line_of("tables", i, "statistics")
        if not model.statistics:
            self._fail("tables", i, f"table `{name}` has no statistics", "e.g. [count]")
        statistics = parse_statistics(
            model.statistics, origin=origin, lines=below, schema=self.schema
        )
        statistics = tuple(self._statistic(statistic, by) for statistic in statistics)
        detail = None
        if model.detail is not None:
            names = [s.name for s in statistics]
            detail = detail_spec(model.detail, names, self.line_of("tables", i, "detail"))
        return TableSpec(
            name=name,
            by=by,
            statistics=statistics,
            share=self._share(i, model.share),
            zeros=self._zeros(i, model, by),
            detail=detail,
            origin=self.line_of("tables", i),
        )

    def _key(self, i: int, j: int, name: str, by: tuple[str, ...]) -> None:
        unfit = unfit_key(self.schema, name, levels=True)
        if unfit is not None:
            self._fail("tables", i, "by", j, unfit[0], unfit[1], code=unfit[2])
        if name in by[:j]:
            self._fail(
                "tables", i, "by", j, f"`{name}` appears twice in `by`", "keep one", code="DPR136"
            )

    def _statistic(self, spec: StatisticSpec, by: tuple[str, ...]) -> StatisticSpec:
        said = {
            "share": spec.share is not None,
            "max_rows_per_group": spec.max_rows is not None,
            "mechanism": spec.mechanism is not None,
            "spikes: forbid": not spec.spikes,
            "accurate_for": spec.accurate_for is not None,
        }
        why = {
            "share": "a table's `share` is for all its statistics",
            "max_rows_per_group": "one set of kept rows serves all tables, else they could not add up",
            "mechanism": "tables that are fitted need noise that is added and never cut",
            "spikes: forbid": "a fitted value is put into its domain, which makes point masses",
            "accurate_for": "the bins of several tables are fitted to each other already, without coarser bins",
        }
        for option, value in said.items():
            if value:
                raise ConfigError(
                    f"`{option}` of {spec.text} does not go with `tables`",
                    where=spec.origin,
                    why=why[option],
                    fix="leave it out",
                    code="DPR154",
                )
        check_name(spec, by)
        return self.check(spec)

    def _share(self, i: int, value: object) -> Fraction | None:
        if value is None:
            return None
        share = exact(value)
        if not isinstance(share, Fraction) or not 0 < share <= 1:
            self._fail(
                "tables", i, "share", f"the share is {plain(share)}", "a part of epsilon: 0 to 1",
                code="DPR119",
            )  # fmt: skip
        return share

    def _zeros(self, i: int, model: TableModel, by: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        if model.zeros is not None and model.zeros_from is not None:
            self._fail("tables", i, "both `zeros` and `zeros_from` are given", "keep one of them")
        if model.zeros is not None:
            return tuple(tuple(key) for key in model.zeros)
        if model.zeros_from is None:
            return ()
        if not by:
            self._fail("tables", i, "zeros_from", "`zeros_from` needs `by`", "add `by: […]`")
        path = self._path(model.zeros_from, "tables", i, "zeros_from")
        return read_keys(path, by, self.line_of("tables", i, "zeros_from"))

    def _path(self, value: object, *place: str | int) -> Path:
        if not isinstance(value, Path):
            self._fail(*place, "a path is needed here", "e.g. keys.csv", code="DPR112")
        return value

    # --- totals

    def totals(
        self, models: list[TotalModel], tables: tuple[TableSpec, ...]
    ) -> tuple[TotalSpec, ...]:
        """Return the public totals; ConfigError for one of no table or statistic, or no number (DPR154)."""
        out: list[TotalSpec] = []
        for i, model in enumerate(models):
            table = next((t for t in tables if t.name == model.table), None)
            if table is None:
                self._fail(
                    "totals", i, f"there is no table `{model.table}`", "name one of the tables"
                )
            if model.statistic not in [s.name for s in table.statistics]:
                self._fail(
                    "totals",
                    i,
                    f"table `{table.name}` publishes no `{model.statistic}`",
                    f"name one of: {', '.join(s.name for s in table.statistics)}",
                )
            if any((t.table, t.statistic) == (model.table, model.statistic) for t in out):
                self._fail("totals", i, "these totals are stated twice", "keep one of them")
            values = self._values(i, model, table)
            out.append(TotalSpec(model.table, model.statistic, values, self.line_of("totals", i)))
        return tuple(out)

    def _values(
        self, i: int, model: TotalModel, table: TableSpec
    ) -> tuple[tuple[tuple[str, ...], Fraction], ...]:
        if (model.values is None) == (model.values_from is None):
            self._fail(
                "totals", i, "totals need `values_from`, or their lines as `values`", "e.g. f.csv"
            )
        if model.values is not None:
            lines = tuple(tuple(line) for line in model.values)
        else:
            path = self._path(model.values_from, "totals", i, "values_from")
            lines = read_keys(path, (*table.by, "value"), self.line_of("totals", i, "values_from"))
        out = []
        for line in lines:
            number: object = None
            if len(line) == len(table.by) + 1:
                try:
                    number = exact(line[-1])
                except ArgumentError:
                    number = None
            if not isinstance(number, Fraction):
                self._fail("totals", i, "a line is not a group and a number", "e.g. north,1398")
            out.append((line[:-1], number))
        return tuple(out)


# --- `detail`: what decides how fine a table is published; its tables are `planning.tables.detail`'s to find

SHARE = Fraction(1, 20)
"""The part of epsilon that tells sizes, where none is declared."""


def detail_spec(model: DetailModel, names: Sequence[str], origin: str) -> DetailSpec:
    """Return the declaration.

    Args:
        names: published names of the table's statistics.

    Raises:
        ConfigError: no such statistic, no goal, or a number that is none (DPR154, DPR119).
    """
    if model.statistic not in names:
        _no_detail(
            f"the table publishes no `{model.statistic}`",
            f"name one of: {', '.join(names)}",
            origin,
        )
    error = _positive(model.max_error, "max_error", origin)
    relative = _positive(model.max_relative_error, "max_relative_error", origin)
    share = _positive(model.share, "share", origin)
    if error is None and relative is None:
        _no_detail("`detail` has no goal", "add `max_error` or `max_relative_error`", origin)
    if share is not None and relative is None:
        _no_detail(
            "`share` pays for a draw that tells sizes, and `max_error` needs none",
            "leave it out, or add `max_relative_error`",
            origin,
        )
    if share is not None and share >= 1:
        _no_detail(
            f"the share is {plain(share)}", "a part of epsilon: more than 0, less than 1", origin
        )
    if model.levels is not None and not model.levels:
        _no_detail("`levels` names no table", "name a coarser table, or leave it out", origin)
    if relative is not None and share is None:
        share = SHARE
    return DetailSpec(model.statistic, error, relative, share, tuple(model.levels or ()), origin)


def _positive(value: object, name: str, origin: str) -> Fraction | None:
    if value is None:
        return None
    number = exact(value)
    if not isinstance(number, Fraction) or number <= 0:
        _no_detail(f"`{name}` is {plain(number)}", "a number above 0", origin, "DPR119")
    return number


def _no_detail(what: str, fix: str, origin: str, code: str = "DPR154") -> NoReturn:
    raise ConfigError(what, where=origin, fix=fix, code=code)
