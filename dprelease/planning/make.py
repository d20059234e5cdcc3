"""Make the plan of a request, of one table or of several that add up, and what another budget would buy.

The passes run in this order, each a function of public metadata only:

    layout      statistics -> blocks, measurements, domains
    allocation  a share of the budget per block; every admissible law priced, the best kept
    write       the plan that says what was chosen, and the engine's task
    advice      what the publisher may declare to lower an error by more than a third, or what `rows.max` costs

What another budget would buy is found by making the plan again at half, twice and four times epsilon, the choice
of mechanisms included. So its figures are what a plan would print, not an extrapolation; errors are in the
statistic's unit, root mean squares under squared loss, to six digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from statistics import geometric_mean
from typing import Any

from dprelease.allocation.share import Priced, Share
from dprelease.allocation.spend import Spending, spend
from dprelease.core.errors import ArgumentError, PlanError, VerificationError
from dprelease.core.numeric import figure
from dprelease.measurements.base import family_of
from dprelease.measurements.price import REFERENCE_SIZE
from dprelease.planning.layout import layout, layouts
from dprelease.planning.prices import Prices
from dprelease.planning.write import planned_statistics, write_plan
from dprelease.query.merge import MAX_EPSILON
from dprelease.query.spec import Query
from dprelease.release_plan.curve import expected
from dprelease.release_plan.plan import ReleasePlan

_HELPS, _SAME = 2 / 3, 0.05
_FAR, _MEETS = 10**4, 100

FACTORS = (Fraction(1, 2), Fraction(2), Fraction(4))
"""Other budgets, each a multiple of the epsilon that is asked for."""


def make_plan(query: Query, *, brief: bool = False) -> ReleasePlan:
    """Return the plan for `query`.

    Args:
        brief: of one table, without the rivals of what is chosen and what would make a statistic say
            something: two thirds of the work, and no part of a law, an error or a charge.

    Raises:
        PlanError: no proved, useful plan exists (DPR2xx).
    """
    if query.tables is not None:
        from dprelease.planning.tables.make import plan_tables  # twenty modules for tables alone

        plan = plan_tables(query)
        rows = query.schema.rows
        sized = [b for b in plan.blocks if family_of(b.measurement).sized]
        assumed = (sized or (plan.tables and plan.tables.ratios)) and not (
            rows.expected or rows.exact
        )
        return replace(plan, advice=_assumed(REFERENCE_SIZE, "cell")) if assumed else plan
    prices = Prices(query, brief=brief)
    apart, *together = layouts(query)
    spending = spend(apart, query.epsilon, query.spec.delta, query.loss, prices)
    for blocks in together:
        split = spend(blocks, query.epsilon, query.spec.delta, query.loss, prices)
        spending = min(split, spending, key=partial(mean_error, prices=prices))
    plan = write_plan(query, spending, prices)
    return plan if brief else replace(plan, advice=_advice(query, spending, prices))


def mean_error(spending: Spending, prices: Prices) -> float:
    """Return the geometric mean of the errors, but for those without any."""
    errors = [error for p in spending.priced for error in prices.comparable(p) if error]
    return geometric_mean(errors or [1.0])


# --- advice -----------------------------------------------------------------------------------


def _advice(query: Query, spending: Spending, prices: Prices) -> tuple[str, ...]:
    """Return what a publisher may declare: a size, a larger share that would help, what a larger cap would cost."""
    size, known = prices.sizes[None]
    sized = any(family_of(p.best.measurement).sized for p in spending.priced)
    return (
        *(_assumed(size, "group") if sized and not known else ()),
        *_larger_share(query, spending, prices),
        *_larger_cap(query, spending, prices),
    )


def _assumed(size: int, each: str) -> tuple[str, ...]:
    """Return what is assumed of the number of rows, where laws and errors depend on it and nobody has guessed it."""
    return (
        f"no `rows: expected` is declared: laws and errors are those for {size:,} rows per {each}",
    )


def _larger_share(query: Query, spending: Spending, prices: Prices) -> Iterator[str]:
    """Yield which statistics err less by more than a third with half of what is not fixed."""

    def spent(p: Priced) -> Fraction:
        return p.share.epsilon if p.share.rho is None else p.share.rho

    free = [
        p
        for p in spending.priced
        if spent(p)
        and all(
            m.statistic.spec.share is m.statistic.spec.max_error is None for m in p.block.members
        )
    ]
    half = sum(map(spent, free), Fraction(0)) / 2
    names, gains = [], []
    for p in free if query.epsilon else ():
        factor = half / spent(p)
        if factor <= 1:
            continue
        share = (
            replace(p.share, epsilon=p.share.epsilon * factor)
            if p.share.rho is None
            else Share.concentrated(p.share.rho * factor)
        )
        try:
            after = prices.comparable(prices.priced(p.block, share, p.best))
        except PlanError:
            continue
        for member, old, new in zip(p.block.members, prices.comparable(p), after, strict=True):
            if new < old * _HELPS and member.statistic.spec.weight:
                names.append(member.statistic.spec.name)
                gains.append(1 - new / old)
    if names:
        total = sum(map(spent, spending.priced), Fraction(0))
        low, high = (f"{100 * gain:.0f}" for gain in (min(gains), max(gains)))
        less = f"{low} %" if low == high else f"{low} to {high} %"
        yield (
            f"a `share` of {float(half / total):.3g} for {'one of ' * (len(names) > 1)}{', '.join(names)}"
            f" would lower its error by {less}, and raise the others'"
        )


def _larger_cap(query: Query, spending: Spending, prices: Prices) -> Iterator[str]:
    """Yield by how much a far larger `rows.max` changes the error of a law that needs it.

    Noise that is small against its domain meets no end of it, unless a law was asked for by name.
    """
    rows = query.schema.rows
    if rows.maximum is None:
        return
    far = replace(rows, maximum=rows.maximum * _FAR)
    other = replace(query, schema=replace(query.schema, rows=far))
    there, blocks = Prices(other, brief=True), None
    for p in spending.priced:
        names = {m.statistic.spec.name for m in p.block.members}
        errors = prices.errors(p)
        ends = zip(errors, p.block.members, strict=True)
        near = any((e or 0) * _MEETS > float(m.domain.width) for e, m in ends)
        if not (near or p.block.members[0].statistic.spec.mechanism):
            continue
        try:
            blocks = blocks or layout(other)
            same = next(b for b in blocks if {m.statistic.spec.name for m in b.members} == names)
            after = there.errors(there.priced(same, p.share))
        except (ArgumentError, PlanError, StopIteration):  # a cap that large is no cap
            continue
        for member, old, new in zip(p.block.members, errors, after, strict=True):
            if old and new and abs(new / old - 1) > _SAME:
                unit = f" {member.measure}" if member.measure else ""
                yield (
                    f"the law of {member.statistic.spec.name} is cut at its domain, which follows from `rows.max`:"
                    f" ±{figure(old)}{unit} at {rows.maximum:,}, ±{figure(new)} at {far.maximum:,}"
                )


# --- at other budgets -------------------------------------------------------------------------


def what_if(plan: ReleasePlan) -> list[dict[str, Any]]:
    """Return `{"epsilon": "p/q", "errors": {name: error}}` per other budget, the smallest first.

    No row is read and nothing is spent. A report is written after the charge, so nothing here raises but for a
    verifier whose time is over: a budget without a plan (a goal that cannot be paid for, more than a release may
    spend) is left out, and so is one whose plan fails in any other way. Left out, too, is a statistic without an
    expected error (a quantile's depends on the data).

    Empty where the plan does not know its request (one read back from a manifest), where epsilon follows from
    `max_error` goals, as it then has no other budget, and for several tables: no page shows it, and to plan
    them three times more is dear.
    """
    request = plan.request
    if request is None or not request.epsilon or plan.tables is not None:
        return []

    ways, prices, others = layouts(request), Prices(request, brief=True), []
    for epsilon in (request.epsilon * f for f in FACTORS):
        if epsilon > MAX_EPSILON:
            continue
        query = replace(request, spec=replace(request.spec, epsilon=epsilon))
        try:
            each = (spend(b, epsilon, query.spec.delta, query.loss, prices) for b in ways)
            spending = min(each, key=partial(mean_error, prices=prices))
            found = {
                s.name: expected(s, plan.loss)
                for s in planned_statistics(query, spending, prices)
                if expected(s, plan.loss) is not None
            }
        except VerificationError:  # a verifier's time is over: no plan is left out for that
            raise
        except Exception:  # noqa: BLE001, S112 - see above
            continue
        others.append({"epsilon": str(epsilon), "errors": found})
    return others
