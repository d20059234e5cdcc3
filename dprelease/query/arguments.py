"""What a statistic's arguments are: how they are written, checked against a schema, and resolved.

Each statistic says it in its own file, with a `Syntax`; the statistic language, the SELECT door and
the resolution of a request ask it there, through the registry, and know no statistic by name.

    Syntax        how many arguments, an example, the SQL names, what the arguments are
    Arguments     one kind of arguments; a statistic with arguments of its own subclasses it

What they become, columns, codes over them, a condition or a graph, is a `query.resolved.Statistic`.

Kinds that several statistics share are here: `Column`, `Columns`, `RowCondition`.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Literal

from dprelease.core import registry
from dprelease.core.errors import ConfigError, PlanError
from dprelease.core.strict_json import json_text
from dprelease.query.bounded import Condition, Fixed
from dprelease.query.cleaning import code_of
from dprelease.query.expression import parse_condition, type_of
from dprelease.query.never_null import never_null
from dprelease.query.nodes import Expression, Type
from dprelease.query.resolved import Statistic
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import GridSet
from dprelease.schema.naming import nearest, quoted
from dprelease.schema.release_spec import ReleaseSpec, StatisticSpec
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import EdgeUnit

PRODUCT_STEPS = 1024
"""Most steps of a column whose codes are multiplied with another one's."""
NUMERIC = frozenset({Kind.integer, Kind.number, Kind.boolean})
Written = Literal["columns", "number", "text"]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a request is resolved against; `size`: its number of rows, where that is public."""

    schema: TableSchema
    release: ReleaseSpec
    size: int | None


class Arguments(ABC):
    """One kind of arguments.

    Attributes:
        of_edges: the statistic is of a graph, so of a table with the edge unit.
        sql: how the SELECT door writes them: names of columns, a column and a number, or as they
            stand ("text").
        crossed: without any, the statistic may stand in tables of which none is the finest.
    """

    of_edges: bool = False
    crossed: bool = False
    sql: Written = "text"

    def read(self, texts: tuple[str, ...], origin: str) -> tuple[str, ...]:
        """Return the arguments as they are kept; ConfigError DPR133 where one is faulty."""
        del origin
        return tuple(map(unquoted, texts))

    def named(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """Return those that the statistic is published under, if it has no name of its own."""
        return arguments

    def weighable(self, arguments: tuple[str, ...]) -> bool:
        """Return whether `weighted_by` may stand beside these, where the statistic has a weighted form."""
        del arguments
        return True

    def check(self, spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
        """Return `spec`, its condition parsed; refuse arguments that the schema lacks (DPR122, DPR133)."""
        del schema  # by default no column is named
        return spec

    @abstractmethod
    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        """Return the statistic; PlanError where it does not fit its columns (DPR20x)."""


class NumberColumn(Arguments):
    """One column of numbers, the first argument."""

    sql: Written = "columns"

    def check(self, spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
        found = find_column(schema, spec.arguments[0], spec.origin)
        if not self.fits(found):
            raise _refused(spec, found, self.instead(found))
        return spec

    def fits(self, column: Column) -> bool:
        return column.kind in NUMERIC

    def instead(self, column: Column) -> str:
        """Return what to ask of a column that does not fit."""
        return _instead(column)

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        column = context.schema.columns[spec.arguments[0]]
        code = code_of(column)
        if code is None:
            raise no_range(spec, column)
        # A null that keeps its row (nulls: {default: x}) keeps n; a dropped one makes n private.
        public = context.size if code.default is not None else None
        return Statistic(spec, spec.function, column=column, code=code, public_rows=public)


class NumberColumns(Arguments):
    """Two columns of numbers or more, in the order of their names; no column twice."""

    sql: Written = "columns"

    def check(self, spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
        names = spec.arguments
        for name in names:
            found = find_column(schema, name, spec.origin)
            if found.kind not in NUMERIC:
                raise _refused(spec, found, _instead(found))
        if len(set(names)) < len(names):
            raise ConfigError(
                f"`{spec.text}` names a column twice",
                where=spec.origin,
                fix=f'for one column write "variance({names[0]})"',
                code="DPR133",
            )
        return spec

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        """Resolve a statistic of several columns; its rows are those where all of them are known."""
        columns = tuple(context.schema.columns[name] for name in sorted(spec.arguments))
        codes: list[Fixed] = []
        for column in columns:
            code = code_of(column)
            if code is None:
                raise no_range(spec, column)
            if code.grid.hull_steps == 0:
                raise PlanError(
                    f"{spec.text} needs columns that vary: `{column.name}` can hold one value only",
                    where=spec.origin,
                    why="its variance and covariances are 0 whatever the rows are",
                    fix=f"leave `{column.name}` out, or widen its range",
                    code="DPR222",
                )
            codes.append(_coarse(column, code))
        complete = all(c.default is not None for c in codes)
        return Statistic(
            spec,
            spec.function,
            public_rows=context.size if complete else None,
            columns=columns,
            codes=tuple(codes),
        )


def condition_of(text: str, schema: TableSchema, *, origin: str) -> Expression:
    """Return `text` as a condition on the schema's rows; what its own release says was read with it.

    Raises:
        ConfigError: as `parse_condition`.
    """
    for known in schema.conditions:
        if known.source == text:
            return known
    return parse_condition(text, schema.columns, origin=origin)


def where_checked(spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
    """Return a checked statistic of the rows where a condition holds; it is a part of its own condition, if it has one.

    Raises:
        ConfigError: as `parse_condition` and `Arguments.check`; it is of a graph (DPR133).
    """
    syntax = syntax_of(spec.function)
    assert syntax is not None  # it was parsed
    found = syntax.arguments.check(spec, schema)
    if isinstance(schema.unit, EdgeUnit):
        raise not_of_rows(spec.text, spec.origin)
    condition_of(spec.where, schema, origin=spec.origin)
    if found.condition is None:
        return found
    text = f"case when ({spec.where}) then ({spec.arguments[0]}) end"
    return replace(found, condition=parse_condition(text, schema.columns, origin=spec.origin))


class RowCondition(Arguments):
    """One condition on a row, kept as it was written."""

    def read(self, texts: tuple[str, ...], origin: str) -> tuple[str, ...]:
        del origin
        return texts

    def check(self, spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
        condition = condition_of(spec.arguments[0], schema, origin=spec.origin)
        return replace(spec, condition=condition)

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        # A condition that may be unknown (null) on a row leaves the row out: n is private.
        columns = context.schema.columns
        condition = spec.condition
        assert condition is not None  # it was checked
        public = context.size if never_null(condition, columns.values()) else None
        code = Condition(condition)
        return Statistic(spec, spec.function, condition=condition, code=code, public_rows=public)


ONE_NUMBER = NumberColumn()


@dataclass(frozen=True, slots=True)
class Syntax:
    """How a statistic is written.

    Attributes:
        least, most: how many arguments it takes; example: one that parses.
        arguments: what they are.
        sql: its functions in a SELECT, in capitals.
        guess: the option `expected` is a public guess of it.
        accurate_for: what the option of that name may say.
        interval: the option of that name asks for an interval, which costs a part of epsilon.
        certain: the option of that name may ask for noise that ends.
        winsorised: the statistic that the option `winsorize` makes of it; "" where there is none.
        weighted: the statistic that the option `weighted_by` makes of it; "" where there is none.
        companions: statistics that are published with it: the end of the name, and the statistic.
        option: what most columns need beside it, as YAML.
    """

    least: int
    most: int
    example: str
    arguments: Arguments = ONE_NUMBER
    sql: tuple[str, ...] = ()
    guess: bool = False
    accurate_for: tuple[str, ...] = ()
    interval: bool = False
    certain: bool = False
    winsorised: str = ""
    weighted: str = ""
    companions: tuple[tuple[str, str], ...] = ()
    option: str = ""

    @property
    def arity(self) -> str:
        """How many arguments it takes, in words."""
        many = f"{self.least} to {self.most}" if self.least < self.most else self.most or "no"
        return f"{many} argument{'' if self.least == self.most < 2 else 's'}"


def syntax_of(function: str) -> Syntax | None:
    """Return how `function` is written; None for what is not a statistic, or has no name to write.

    One of another package is of one column of numbers, and is not loaded for that.
    """
    if function in registry.names("aggregates"):
        default = Syntax(1, 1, f"{function}(column)")
        found: Syntax | None = getattr(registry.load("aggregates", function), "syntax", default)
        return found
    if function in registry.third_party_names("aggregates"):
        return Syntax(1, 1, f"{function}(column)")
    return None


def syntaxes() -> dict[str, Syntax]:
    """Return every statistic of this package that can be written, with its syntax; loads them all."""
    found = {name: syntax_of(name) for name in registry.names("aggregates")}
    return {name: syntax for name, syntax in found.items() if syntax is not None}


@cache
def sql_functions() -> dict[str, tuple[str, Syntax]]:
    """Return every function of a SELECT: the statistic that it asks for, and how that is written."""
    return {sql: (name, syntax) for name, syntax in syntaxes().items() for sql in syntax.sql}


def find_column(schema: TableSchema, name: str, where: str) -> Column:
    """Return the column called `name`; ConfigError DPR122 where there is none."""
    column = schema.columns.get(name)
    if column is None:
        known = f"declare it, or use a declared column: {', '.join(schema.columns)}"
        near = nearest(name, schema.columns, alike=0.9 if "(" in name else 0.6)
        raise ConfigError(
            f"unknown column `{name}`",
            where=where,
            fix=_computed(schema, name) or (f"did you mean `{near}`?" if near else known),
            code="DPR122",
        )
    return column


def _computed(schema: TableSchema, text: str) -> str | None:
    """Return what to write for an expression where a column's name is needed; None for anything else."""
    found, shown = type_of(text, schema.columns), json_text(text)[1:-1]
    if found is Type.boolean:
        return f'for the share of rows write "proportion({shown})", for their number "count where {shown}"'
    made = f'`NAME: {{kind: number, from: "{shown}", range: [0, 100]}}`'
    return f"declare a column for it: {made}, with its own range" if found is Type.number else None


def unquoted(argument: str) -> str:
    """Return the column an argument names: plain, or in double quotes."""
    if len(argument) >= 2 and argument[0] == argument[-1] == '"':
        return argument[1:-1].replace('""', '"')
    return argument


def not_of_rows(text: str, origin: str) -> ConfigError:
    """Return why a statistic has no `where` of its own."""
    return ConfigError(
        f"`{text}` is no statistic of some rows",
        where=origin,
        why="a graph, and a person of several rows, would have to be taken apart",
        fix="filter the release with `where`, or count rows",
        code="DPR133",
    )


def no_range(spec: StatisticSpec, column: Column) -> PlanError:
    return PlanError(
        f"cannot bound {spec.text}: `{column.name}` has no finite range",
        where=spec.origin,
        why="one row could change the statistic by any amount, so no finite noise would hide it",
        fix=f"give `{column.name}` a range in the schema, e.g. `range: [0, 100]`; rows are clamped to it",
        code="DPR202",
    )


def _refused(spec: StatisticSpec, column: Column, fix: str) -> ConfigError:
    return ConfigError(
        f"`{spec.text}` does not take `{column.name}`, a column of kind {column.kind}",
        where=spec.origin,
        fix=fix,
        code="DPR133",
    )


def _instead(column: Column) -> str:
    if column.kind is Kind.category:
        whole = [int(v) for v in column.values if re.fullmatch("0|-?[1-9][0-9]{0,14}", v)]
        if len(whole) == len(column.values) > 1 and column.derived is None:
            domain = f"{{kind: integer, range: [{min(whole)}, {max(whole)}]}}"
            return f"declare it as a number in the schema: `{quoted(column.name)}: {domain}`"
        value = column.values[0].replace("'", "''") if column.values else "x"
        return f"for a share of rows write \"proportion({quoted(column.name)} = '{value}')\""
    if column.kind is Kind.boolean:
        return f'for the share of rows where it is true write "proportion({quoted(column.name)})"'
    if column.kind in NUMERIC:
        return f"declare another range for `{column.name}`, or ask for another statistic of it"
    if column.kind in (Kind.date, Kind.timestamp):
        return f"declare a part of it, `month: {{kind: integer, from: 'month({quoted(column.name)})', range: [1, 12]}}`"
    return f"declare `{column.name}` as integer or number with a range"


def _coarse(column: Column, code: Fixed) -> Fixed:
    """Return `code` on a step that leaves at most `PRODUCT_STEPS`, if one fits the column's edges.

    Products of finer codes outgrow the integers that noise is drawn in. Any map of rows keeps
    neighbouring tables neighbours, and rounding by a share h of the range moves a variance by about
    h^2 / 12 of its square: far below the noise. The plan names the step.
    """
    if code.grid.hull_steps <= PRODUCT_STEPS or column.domain is None:
        return code
    least = -(-code.grid.hull_steps // PRODUCT_STEPS)
    common = math.gcd(*(edge for run in code.grid.runs for edge in run))
    for parts in range(common // least, 0, -1):  # at most PRODUCT_STEPS of them
        factor = common // parts
        if common % parts or factor > 8 * least:
            continue
        step = code.step * factor
        grid = GridSet(tuple((a // factor, b // factor) for a, b in code.grid.runs))
        default = None
        if code.default is not None:
            at = Fraction(code.default + code.grid.lower, factor)
            ends = [min(max(at, Fraction(a)), Fraction(b)) for a, b in grid.runs]
            nearest = min(ends, key=lambda end: (abs(end - at), end))
            default = math.floor(nearest + Fraction(1, 2)) - grid.lower
        return Fixed(code.column, grid, step, default)
    return code
