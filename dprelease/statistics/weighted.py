"""Weighted count, sum, mean and proportion: every row counts as much as its column of weights says.

Written `{statistic: "mean(age)", weighted_by: w}`, or `weighted_mean(age, w)`. S is the sum over the rows
where value and weight are both known:

    weighted_count(w)           S(w)
    weighted_sum(x, w)          S(w x)
    weighted_mean(x, w)         S(w x) / S(w), between the least and the greatest x
    weighted_proportion(c, w)   the same of a condition's 0 or 1

A weight is 0 or above, so a weighted mean is a quotient of two sums like the mean, with the products w x in
place of the values and S(w) in place of the rows: it is measured by the same families, with the same intervals,
and moves as many times further as the heaviest weight is above 1 (`statistics.weighted_sums`). The total weight is
private where the number of rows is public, too: a replaced row brings another weight.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#weighted-sums`,
`docs/theory/domains-and-grids.md#induced-domains`.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.core.numeric import shown
from dprelease.query.arguments import NumberColumn, RequestContext, RowCondition, Syntax
from dprelease.query.resolved import Statistic
from dprelease.query.weight import WithWeight, weight_of
from dprelease.schema.column import Column
from dprelease.schema.domain import Domain
from dprelease.schema.naming import quoted
from dprelease.schema.release_spec import StatisticSpec
from dprelease.statistics.base import Planned
from dprelease.statistics.mean import Mean
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.scalar import require_cap
from dprelease.statistics.sum import Sum
from dprelease.statistics.weighted_sums import (
    centred_sums,
    ends_of_products,
    two_sums,
    weighted_product,
)


class WeightAlone(NumberColumn):
    """A column of weights."""

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        weight_of(spec, context.schema.columns[spec.arguments[0]])
        return super().resolve(spec, context)


class WeightedMean(Mean):
    """A mean, or the share of the weight that lies on the rows of a condition."""

    sums = ("", "")

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        return two_sums(context), centred_sums(context)

    def quotient(self, context: Context) -> None:
        """Return None: tables that add up are not fitted to weighted means."""
        del context

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        return (*super().notes(planned, measurement), *_weight_notes(planned.statistic))

    def stated_for(self, planned: Planned) -> str:
        weight = planned.statistic.weight
        assert weight is not None
        middle = Fraction(weight.least + weight.most, 2) * weight.step
        return f"for rows that weigh {shown(middle)} on average"

    def without_point_masses(self) -> str:
        return "remove `spikes: forbid`: a quotient of two noisy sums has no other form"

    def instead_in_tables(self, statistic: Statistic) -> str:
        return _in_tables(statistic, f"ratio({_PRODUCT}, {_name(statistic)})")


class WeightedSum(Sum):
    """A sum of products."""

    name = "weighted_sum"
    syntax = Syntax(
        2, 2, "weighted_sum(age, weight)", WithWeight(NumberColumn()), ("WEIGHTED_SUM",)
    )
    heading = "Sum of {0}, weighted by {1}"
    adds_up = False
    within = None

    def unit(self, statistic: Statistic) -> str:
        assert statistic.weight is not None
        columns = (statistic.column, statistic.weight.column)
        return "·".join(c.measure for c in columns if c is not None and c.measure)

    def cap(self, low: Fraction, high: Fraction, column: Column | None) -> None:
        """Return None: no cap of rows follows from a domain of products."""
        del low, high, column

    def domain(self, context: Context) -> Domain:
        cap, (low, high) = require_cap(context), ends_of_products(context)
        assert context.weight is not None
        step = context.step * context.weight.step
        if context.public_rows is None:
            low, high = min(low, 0), max(high, 0)
        return Domain(cap * low * step, cap * high * step)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        return (weighted_product(context),)

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        return (*super().notes(planned, measurement), *_weight_notes(planned.statistic))

    def instead_in_tables(self, statistic: Statistic) -> str:
        return _in_tables(statistic, f"sum({_PRODUCT})")


class WeightedCount(Sum):
    """The sum of the weights."""

    name = "weighted_count"
    syntax = Syntax(1, 1, "weighted_count(weight)", WeightAlone(), ("WEIGHTED_COUNT",))
    heading = "Number of rows, weighted by {}"
    counting = True
    adds_up = False
    within = None

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        column = planned.statistic.column
        assert column is not None
        known = (
            () if column.null_default is not None else (f"over rows whose {column.name} is known",)
        )
        return (*super().notes(planned, measurement), *known)

    def instead_in_tables(self, statistic: Statistic) -> str:
        return f"ask for sum({', '.join(statistic.spec.arguments)}), which is the same number"


_PRODUCT = "product"


def _in_tables(statistic: Statistic, then: str) -> str:
    """Return how tables that add up hold the product of value and weight: as a column."""
    condition, name = statistic.condition, _name(statistic)
    source = f"{statistic.spec.arguments[0]} * {name}"
    if condition is not None:
        source = f"case when {statistic.spec.arguments[0]} then {name} else 0 end"
    return (
        f'declare the product as a column, `{_PRODUCT}: {{kind: number, from: "{source}", range: [...], step: ...}}`,'
        f" and ask for {then}; or publish it in a release of its own"
    )


def _name(statistic: Statistic) -> str:
    assert statistic.weight is not None
    return quoted(statistic.weight.column.name)


def _weight_notes(statistic: Statistic) -> tuple[str, ...]:
    """Return the notes of a weighted statistic: to which range weights are clamped, and which rows enter."""
    weight, column = statistic.weight, statistic.column
    assert weight is not None
    name = weight.column.name
    notes = [f"weighted by {name}: weights are clamped to {weight.column.domain or '[0, 1]'}"]
    missing = [name] if weight.code.default is None else []
    if column is not None and column.null_default is None:
        missing.insert(0, column.name)
    if statistic.condition is not None:
        missing.insert(0, "the condition")
    if missing:
        notes.append(
            f"over rows where {' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} known"
        )
    return tuple(notes)


weighted_count = WeightedCount()
weighted_mean = WeightedMean(
    "weighted_mean",
    Syntax(
        2,
        2,
        "weighted_mean(age, weight)",
        WithWeight(NumberColumn()),
        ("WEIGHTED_AVG", "WEIGHTED_MEAN"),
    ),
    "Mean of {0}, weighted by {1}",
)
weighted_proportion = WeightedMean(
    "weighted_proportion",
    Syntax(
        2,
        2,
        "weighted_proportion(age > 65, weight)",
        WithWeight(RowCondition()),
        ("WEIGHTED_PROPORTION",),
    ),
    "Share with {0}, weighted by {1}",
)
weighted_sum = WeightedSum()
