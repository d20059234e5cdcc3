"""Ratio of the sums of two clamped columns, S(a) / S(b).

Each sum is over the rows where its own column is known. The denominator is never negative, by its range. Where
every row adds something to it, and nulls of both columns have defaults, the ratio lies between the least and the
greatest quotient of one row; else its domain is declared. It is measured by two cells with one noise
(`statistics.ratio_sums`); in tables that add up it is computed from the two fitted sums, and nothing else is drawn.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#ratios-of-sums`,
`docs/theory/publications-that-add-up.md#quotients-of-fitted-cells`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dprelease.core.errors import ConfigError, PlanError
from dprelease.query.arguments import (
    NUMERIC,
    Arguments,
    RequestContext,
    Syntax,
    Written,
    find_column,
    no_range,
)
from dprelease.query.bounded import Code, Fixed
from dprelease.query.cleaning import code_of
from dprelease.query.resolved import Statistic
from dprelease.schema.domain import Domain
from dprelease.schema.release_spec import StatisticSpec
from dprelease.schema.table import TableSchema
from dprelease.statistics.base import Planned
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.moments import Quotient
from dprelease.statistics.ratio_sums import ratio_measurements
from dprelease.statistics.sum import statistic as sum_of


class TopAndBottom(Arguments):
    """Two different columns of numbers: what is divided, and by what."""

    sql: Written = "columns"

    def check(self, spec: StatisticSpec, schema: TableSchema) -> StatisticSpec:
        found = [find_column(schema, name, spec.origin) for name in spec.arguments]
        if found[0] is found[1] or any(column.kind not in NUMERIC for column in found):
            raise ConfigError(
                f"`{spec.text}` needs two different columns of numbers",
                where=spec.origin,
                fix="name two columns that are declared as integer or number, with a range",
                code="DPR133",
            )
        return spec

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        """Return it; PlanError where the denominator may be negative (DPR296)."""
        columns = tuple(context.schema.columns[name] for name in spec.arguments)
        codes: list[Code] = []
        for column in columns:
            code = code_of(column)
            if code is None:
                raise no_range(spec, column)
            codes.append(code)
        found = Statistic(spec, spec.function, columns=columns, codes=tuple(codes))
        if _ends(codes[1])[0] < 0:
            raise _endless(found, f"`{columns[1].name}` may be negative", declared=False)
        return found


class Ratio(Quotient):
    name = "ratio"
    syntax = Syntax(
        2,
        2,
        "ratio(deaths, person_years)",
        TopAndBottom(),
        ("RATIO",),
        option="domain: {range: [0, 10]}",
    )
    heading = "Ratio of {0} to {1}"
    sums = ("sum", "sum")
    constant = True

    def unit(self, statistic: Statistic) -> str:
        units = [column.measure for column in statistic.columns]
        return "/".join(map(str, units)) if all(units) else ""

    def domain(self, context: Context) -> Domain:
        """Return what quotients of rows allow, or what is declared where they allow anything.

        Raises:
            PlanError: the ratio has no ends (DPR296).
        """
        (low, high), (least, most) = (_ends(code) for code in context.codes)
        complete = all(isinstance(c, Fixed) and c.default is not None for c in context.codes)
        if least > 0 and complete:
            quotients = [top / bottom for top in (low, high) for bottom in (least, most)]
            return Domain(min(quotients), max(quotients))
        if context.spec.domain is None:
            why = "nulls leave rows out of one sum and not of the other"
            if not least:
                why = f"`{context.columns[1].name}` may be 0"
            raise _endless(context, why, declared=True)
        return Domain(*context.spec.domain.hull)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        return ratio_measurements(context, self.domain(context))

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        del measurement
        statistic = planned.statistic
        notes = [
            f"rows of {c.name} are clamped to {c.domain or '[0, 1]'}" for c in statistic.columns
        ]
        if any(isinstance(c, Fixed) and c.default is None for c in statistic.codes):
            notes.append("each sum is over the rows where its own column is known")
        return tuple(notes)

    def without_point_masses(self) -> str:
        return "remove `spikes: forbid`: a quotient of two noisy sums has no other form"

    def stated_for(self, planned: Planned) -> str:
        column = planned.statistic.columns[1]
        return f"for rows whose {column.name} is in the middle of its range"

    def quotient(self, context: Context) -> tuple[Measurement, Measurement]:
        top, bottom = (
            sum_of.measurements(replace(context, column=column, code=code, columns=(), codes=()))[0]
            for column, code in zip(context.columns, context.codes, strict=True)
        )
        return top, bottom


def _ends(code: Code) -> tuple[Fraction, Fraction]:
    assert isinstance(code, Fixed)
    return code.grid.lower * code.step, code.grid.upper * code.step


def _endless(context: Context | Statistic, why: str, *, declared: bool) -> PlanError:
    fix = f"give `{context.columns[1].name}` a range above 0, and nulls of both columns a default"
    if declared:
        fix += "; or declare the ratio's `domain`"
    return PlanError(
        f"{context.spec.text} can be any number",
        where=context.spec.origin,
        why=why,
        fix=fix,
        code="DPR296",
    )


statistic = Ratio()
