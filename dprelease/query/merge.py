"""The release block: a schema's default, with a pipeline's or a caller's merged over it.

Keys are merged one by one: a list replaces a list, and null removes a key. In either block `sql: "SELECT …"` stands for
`by`, `where` and `statistics`, or for `where` and `tables` (`query.select`). The result is checked against the schema's
columns, so that a wrong name is found with its line before anything is planned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dprelease.core.errors import ConfigError, PlanError
from dprelease.core.numeric import exact, plain
from dprelease.query.arguments import condition_of, syntax_of, syntaxes, where_checked
from dprelease.query.bounded import MOST_FOUND
from dprelease.query.keys import unfit_key
from dprelease.query.read_tables import TableReader, check_name
from dprelease.query.statistic import parse_statistics
from dprelease.query.statistic_options import not_certain
from dprelease.schema.block_paths import with_paths
from dprelease.schema.column import Kind
from dprelease.schema.paths import confined, read_keys
from dprelease.schema.release_spec import ReleaseSpec, StatisticSpec, TableSpec
from dprelease.schema.table import TableSchema
from dprelease.schema.table_models import rules_of
from dprelease.schema.unit import EdgeUnit

if TYPE_CHECKING:
    from dprelease.query.nodes import Expression
    from dprelease.schema.models import ReleaseModel
    from dprelease.schema.table_models import FoundModel

Lines = Mapping[tuple[str | int, ...], str]


def merge_release(
    schema: TableSchema,
    override: Mapping[str, object] | None = None,
    origin: str = "arguments",
    lines: Lines | None = None,
    *,
    table: str | None = None,
) -> ReleaseSpec:
    """Return the schema's release block with `override` merged over it, checked.

    Args:
        schema: a loaded schema; its `release_raw` may be empty.
        override: keys of a release block (epsilon, delta, sql, by, keys_from, where, loss,
            statistics, allow, rules); a single text stands for a list of one. None as a value removes a key.
        origin: where the override comes from, for messages.
        lines: place in the override to `file:line`.
        table: what the override's `sql` must call the table; the schema's name by default.

    Raises:
        PlanError: `sql` asks for more than a release can give (DPR250 to DPR257).
        ConfigError: an unknown key (DPR110), no epsilon or statistics (DPR111), wrong values
            (DPR112, DPR113), two keys that say the same thing (DPR137), epsilon, delta or shares out of
            range (DPR119), unknown column (DPR122), faulty expression (DPR12x) or statistic (DPR13x), unusable key (DPR136).
    """
    if not override and schema.release is not None:
        return schema.release
    return _Merge(schema, override or {}, origin, lines or {}, table or schema.name).spec()


class _Merge:
    def __init__(
        self,
        schema: TableSchema,
        override: Mapping[str, object],
        origin: str,
        lines: Lines,
        table: str,
    ) -> None:
        self.schema = schema
        self.origin = origin
        below, below_lines = _with_sql(
            schema, schema.release_raw, schema.release_lines, schema.origin, schema.name
        )
        from_sql = override.get("sql") is not None
        override, lines = _with_sql(schema, override, lines, origin, table)
        if from_sql and "keys_from" not in override and override.get("by") != below.get("by"):
            override = {**override, "keys_from": None}  # the schema's file is of its own `by`
        if from_sql and "totals" not in override:
            override = {**override, "totals": None}  # the schema's totals name its own tables
        self.own = frozenset(override)
        gone = self._replaced(override, lines)
        inherited = {k: v for k, v in below.items() if k not in override and k not in gone}
        own = {k: [v] if k in _LISTS and isinstance(v, str) else v for k, v in override.items()}
        self.inherited = frozenset(inherited) if schema.release is not None else frozenset()
        merged = {**inherited, **own}
        self.lines = {
            **{k: v for k, v in below_lines.items() if k and k[0] in inherited},
            **lines,
        }
        self.raw = with_paths(self._path, {k: v for k, v in merged.items() if v is not None})

    def _replaced(self, override: Mapping[str, object], lines: Lines) -> tuple[str, ...]:
        """Return the inherited keys that `override` leaves out: one table replaces several, and the other way round.

        Raises:
            ConfigError: a block says both (DPR137).
        """
        for block, at in ((self.schema.release_raw, {}), (override, lines)):
            both = [k for k in _ONE_TABLE if block.get(k) is not None]
            if block.get("tables") is not None and both:
                where = at.get((both[0],)) or self.schema.release_lines.get((both[0],), self.origin)
                raise ConfigError(
                    f"`tables` and `{both[0]}` both say what is released",
                    where=where,
                    fix=f"keep one: each table has its own `by` and statistics, without `{both[0]}`"
                    if both[0] != "keys_from"
                    else "leave `keys_from` out: tables add up over all declared groups",
                    code="DPR137",
                )
        if override.get("keys") is not None:
            return _NOT_WITH_KEYS
        if override.get("tables") is not None:
            return *_ONE_TABLE, "keys"
        one = any(override.get(k) is not None for k in _ONE_TABLE)
        return (*_SEVERAL, "keys") if one else ()

    def line_of(self, *place: str | int) -> str:
        """Return `file:line` of the deepest known part of `place`."""
        for size in range(len(place), 0, -1):
            if place[:size] in self.lines:
                return self.lines[place[:size]]
        if (place and place[0] in self.own) or not self.schema.release_raw:
            return f"{self.origin}: {place[0]}" if place else self.origin
        return self.lines.get((), self.origin)

    def _path(self, text: str, *place: str | int) -> Path:
        """Return the path of a caller's text; paths in files are resolved when the file is read."""
        folder = self.schema.root or Path.cwd()
        return confined(text, base=folder, root=folder, origin=self.line_of(*place))

    def _fail(self, what: str, *place: str | int, fix: str | None, code: str) -> NoReturn:
        raise ConfigError(what, where=self.line_of(*place), fix=fix, code=code)

    def spec(self) -> ReleaseSpec:
        """Return the merged block, checked; errors as `merge_release`."""
        from dprelease.schema.faults import checked
        from dprelease.schema.models import ReleaseModel

        model = checked(ReleaseModel, self.raw, self)
        if model.keys is not None:
            model = self._found(model, model.keys)
        if model.tables is not None:
            return self._several(model)
        if model.totals is not None:
            self._fail(
                "`totals` need `tables`",
                "totals",
                fix="list the tables they stand in",
                code="DPR154",
            )
        if not model.statistics:
            self._epsilon(())  # a missing epsilon is said first
            self._fail(
                "the release has no statistics",
                "statistics",
                fix="add e.g. `statistics: [count]`",
                code="DPR111",
            )
        statistics = self._statistics(model.statistics)
        epsilon = self._epsilon(statistics)
        found = 0 if model.keys is None else model.keys.max_keys
        self._keys(model.by, statistics, found=found > 0)
        statistics = tuple(map(self._statistic, statistics))
        if found:
            statistics = (replace(statistics[0], found=found),)
        self._shares(statistics)
        by = tuple(model.by)
        made = self._made(model, statistics, epsilon)
        return replace(made, by=by, keys_from=self._key_file(by), found=found)

    def _made(
        self, model: ReleaseModel, statistics: tuple[StatisticSpec, ...], epsilon: Fraction
    ) -> ReleaseSpec:
        """Return the keys that a release of one table shares with one of several tables."""
        return ReleaseSpec(
            statistics=statistics,
            epsilon=epsilon,
            delta=self._delta(statistics, model.composition),
            where=self._where(model),
            loss=model.loss or "absolute",
            judge=model.judge or "average",
            composition=model.composition or "basic",
            allow=tuple(model.allow),
            rules=None if model.rules is None else rules_of(model.rules),
            origin=self.line_of(),
        )

    def _statistics(self, items: Sequence[object]) -> tuple[StatisticSpec, ...]:
        """Return the statistics; those of the schema as they were read with it."""
        if self.schema.release is not None and "statistics" in self.inherited:
            return self.schema.release.statistics
        below = {k[1:]: v for k, v in self.lines.items() if k and k[0] == "statistics"}
        return parse_statistics(
            items, origin=self.line_of("statistics"), lines=below, schema=self.schema
        )

    def _where(self, model: ReleaseModel) -> Expression | None:
        if model.where is None:
            return None
        if self.schema.release is not None and "where" in self.inherited:
            return self.schema.release.where
        return condition_of(model.where, self.schema, origin=self.line_of("where"))

    def _found(self, model: ReleaseModel, keys: FoundModel) -> ReleaseModel:
        """Return a release of found keys (`keys`) as what it is: one count of persons per key."""
        both = next(filter(self.raw.get, _NOT_WITH_KEYS), None)
        if both is not None:
            what = f"`keys` and `{both}` both say what is released"
            fix = "keep one: a list of keys has an epsilon and a delta of its own"
            self._fail(what, both, fix=fix, code="DPR137")
        self.raw = {**self.raw, "epsilon": keys.epsilon, "delta": keys.delta}
        persons = {"statistic": "count(persons)", "as": "persons", "certain": True}
        domain = {"range": [0, MOST_FOUND]}
        return model.model_copy(
            update={"by": [keys.column], "statistics": [{**persons, "domain": domain}]}
        )

    def _several(self, model: ReleaseModel) -> ReleaseSpec:
        """Return the release of several tables."""
        reader = TableReader(self.schema, self.line_of, self.lines, self._statistic)
        tables = reader.tables(model.tables or [])
        self._add_up(tables, "tables")
        statistics = tuple(s for table in tables for s in table.statistics)
        made = self._made(model, statistics, self._epsilon(()))
        return replace(made, tables=tables, totals=reader.totals(model.totals or [], tables))

    def _epsilon(self, statistics: tuple[StatisticSpec, ...]) -> Fraction:
        if "epsilon" not in self.raw:
            if statistics and all(s.max_error is not None for s in statistics):
                return Fraction(0)  # what the goals need: the plan answers with it
            self._fail(
                "the release has no epsilon",
                "epsilon",
                fix="add e.g. `epsilon: 1.0`, or a `max_error` to every statistic",
                code="DPR111",
            )
        value = exact(self.raw["epsilon"])
        if not isinstance(value, Fraction) or value <= 0:
            self._fail(
                f"epsilon is {plain(value)}",
                "epsilon",
                fix="give a finite number above 0, e.g. `epsilon: 1.0`",
                code="DPR119",
            )
        if value > MAX_EPSILON:
            self._fail(
                f"epsilon is above {MAX_EPSILON}",
                "epsilon",
                fix="give a smaller one: beyond 10 a release protects next to nothing",
                code="DPR119",
            )
        return value

    def _delta(self, statistics: Sequence[StatisticSpec], composition: str | None) -> Fraction:
        value = exact(self.raw.get("delta", 0))
        if not isinstance(value, Fraction) or not 0 <= value < 1:
            self._fail(
                f"delta is {plain(value)}",
                "delta",
                fix="give a number from 0 to below 1, e.g. `delta: 0.000001`",
                code="DPR119",
            )
        for certain in statistics if value == 0 or composition == "zcdp" else ():
            if certain.certain:
                raise not_certain(certain, value)
        return value

    def _shares(self, statistics: tuple[StatisticSpec, ...]) -> None:
        # Shares that add up to 1 may leave none for other statistics: one in a shared block needs none
        # (the planner knows which).
        both = next((s for s in statistics if s.max_error and s.share), None)
        if both is not None:
            raise ConfigError(
                f"`max_error` and `share` both fix what {both.text} gets",
                where=both.origin,
                fix="keep one: `max_error` states its accuracy, `share` its part of epsilon",
                code="DPR135",
            )
        self._add_up(statistics, "statistics")

    def _add_up(self, parts: Sequence[TableSpec | StatisticSpec], place: str) -> None:
        total = sum((p.share for p in parts if p.share is not None), Fraction(0))
        if total > 1:
            what = f"the shares add up to {plain(total)}"
            fix = "lower a share: together they are parts of one epsilon"
            self._fail(what, place, fix=fix, code="DPR119")

    # --- names

    def _keys(self, by: list[str], statistics: tuple[StatisticSpec, ...], *, found: bool) -> None:
        for i, name in enumerate(by):
            unfit = unfit_key(self.schema, name, levels=False, found=found)
            if unfit is not None:
                self._fail(unfit[0], "by", i, fix=unfit[1], code=unfit[2])
            if name in by[:i]:
                self._fail(f"`{name}` appears twice in `by`", "by", i, fix=None, code="DPR136")
        for statistic in statistics:
            check_name(statistic, by)

    def _statistic(self, spec: StatisticSpec) -> StatisticSpec:
        graph = isinstance(self.schema.unit, EdgeUnit)
        syntax = syntax_of(spec.function)
        assert syntax is not None  # it was parsed
        if syntax.arguments.of_edges != graph:
            of_edges = (name for name, f in syntaxes().items() if f.arguments.of_edges)
            raise ConfigError(
                f"`{spec.function}` needs {'an edge table' if not graph else 'a table of rows'}",
                where=spec.origin,
                fix=f"with the edge unit: {', '.join(of_edges)}"
                if graph
                else "declare `unit: {edge: …}` for a table of edges",
                code="DPR133",
            )
        return (where_checked if spec.where else syntax.arguments.check)(spec, self.schema)

    def _key_file(self, by: tuple[str, ...]) -> tuple[tuple[str, ...], ...] | None:
        value = self.raw.get("keys_from")
        if value is None:
            return None
        origin = self.line_of("keys_from")
        if not by:
            self._fail("`keys_from` needs `by`", "keys_from", fix="add `by: […]`", code="DPR136")
        if not isinstance(value, Path):
            self._fail("`keys_from` is a path", "keys_from", fix="e.g. keys.csv", code="DPR112")
        keys = read_keys(value, by, origin)
        for i, name in enumerate(by):
            if name not in self.schema.columns or self.schema.columns[name].kind is Kind.integer:
                continue  # which values it has is known with the period
            known = frozenset(self.schema.columns[name].keys)
            strange = next((key[i] for key in keys if key[i] not in known), None)
            if strange is not None:
                self._fail(
                    f"the key file's `{strange}` is not a declared value of `{name}`",
                    "keys_from",
                    fix=f"add it to the values of `{name}`, or correct it",
                    code="DPR117",
                )
        return keys


MAX_EPSILON = 1000
"""Beyond it a law has no noise, and numbers leave what doubles can hold."""

_LISTS = ("by", "statistics", "allow")
_ONE_TABLE = ("by", "statistics", "keys_from", "sql")
_SEVERAL = ("tables", "totals")
_NOT_WITH_KEYS = ("epsilon", "delta", "rules", *_ONE_TABLE, *_SEVERAL)


def _with_sql(
    schema: TableSchema, block: Mapping[str, object], lines: Lines, origin: str, table: str
) -> tuple[Mapping[str, object], Lines]:
    """Return `block` with its `sql` replaced by the keys that say the same."""
    sql = block.get("sql")
    if not isinstance(sql, str):
        return block, lines
    from dprelease.query.select import parse_select

    at = lines.get(("sql",), origin)
    rest = {k: v for k, v in block.items() if k != "sql"}
    twice = next(
        (k for k in ("by", "where", "statistics", "tables") if rest.get(k) is not None), None
    )
    if twice is not None:
        raise ConfigError(
            f"`sql` and `{twice}` both say what is released",
            where=lines.get((twice,), at),
            fix=f"put `{twice}` into the SELECT, or leave `sql` out",
            code="DPR137",
        )
    found = parse_select(sql, schema, at if ("sql",) in lines else "SQL")
    if found.table != table:
        raise PlanError(
            f"the SELECT is from `{found.table}`, the table is called `{table}`",  # noqa: S608 - a message
            where=found.table_at,
            fix=f"write FROM {table}",
            code="DPR252",
        )
    return {**rest, **found.block}, {**lines, **found.lines}
