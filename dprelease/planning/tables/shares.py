"""Which tables are measured, and with which part of the budget: public, and chosen before any row is read.

Every family gets a part by its weight; within a family `fitting.levels` chooses the parts that make
the fitted errors least. Shares are whole thousandths, so that no rounding tips what is charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from dprelease.allocation.goals import goal_missed
from dprelease.budget.concentrated import zcdp_rho
from dprelease.budget.normal import normal_rho
from dprelease.core.errors import PlanError
from dprelease.fitting.levels import Kind, choose, expected
from dprelease.fitting.structure import Structure
from dprelease.measurements.members import BlockLayout
from dprelease.planning.tables.families import Family
from dprelease.planning.tables.fitting import stated
from dprelease.query.spec import Query
from dprelease.statistics.sensitivity import Sensitivity

_PARTS = 1000
_TRIES = 5
_FAR = 64
_ROOM = 0.99
"""Goals are looked for a little lower, as shares are rounded; and lower again while rounding misses one."""


Split = Callable[[Family, Fraction], Mapping[str, Fraction]]


def family_parts(
    families: Sequence[Family], query: Query, split: Split, whole: Fraction = Fraction(1)
) -> tuple[Fraction, ...]:
    """Return each family's part of the budget, in thousandths.

    Families with goals get the least part that meets them, the others share the rest by weight.

    Args:
        split: divides a family's part among its tables, and refuses one that misses a goal.
        whole: what they get together, in whole thousandths.

    Raises:
        PlanError: there are too many families (DPR224), or goals need more than there is (DPR240).
    """
    goals = [f for f in families if f.goals(query.loss)]
    most = int(whole * _PARTS)
    if not goals or len(families) == 1:
        return _by_weight(families, query.loss, most)
    others = [f for f in families if f not in goals]
    least = {f.name: _least(f, split, most) for f in goals}
    left = most - sum(least.values())
    if left < len(others):
        raise goal_missed(
            goals[0].asking(), query.epsilon, (sum(least.values()) + len(others)) / most
        )
    if others:
        shared = _by_weight(others, query.loss, left)
        parts = {f.name: Fraction(least[f.name], _PARTS) for f in goals}
        parts |= {f.name: part for f, part in zip(others, shared, strict=True)}
    else:
        parts = {name: Fraction(n, _PARTS) for name, n in least.items()}
        parts[goals[0].name] += Fraction(left, _PARTS)
    return tuple(parts[f.name] for f in families)


def own_part(families: Sequence[Family], own: Sequence[BlockLayout], loss: str) -> Fraction:
    """Return the part of what is fitted to nothing, in thousandths: each statistic counts once, in however many tables."""
    members = [m.statistic.spec for block in own for m in block.members]
    power = 1 / 2 if loss == "absolute" else 1 / 3
    wanted = sum(float(weight) ** power for weight in {s.text: s.weight for s in members}.values())
    fitted = sum(family.weight**power for family in families)
    return Fraction(math.floor(_PARTS * wanted / (wanted + fitted)), _PARTS)


def _by_weight(families: Sequence[Family], loss: str, whole: int) -> tuple[Fraction, ...]:
    """Return parts of `whole` thousandths; the first family takes what rounding leaves."""
    power = 1 / 2 if loss == "absolute" else 1 / 3
    wanted = [family.weight**power for family in families]
    parts = [max(1, math.floor(whole * w / sum(wanted))) for w in wanted]
    parts[0] += whole - sum(parts)
    if parts[0] < 1:
        raise PlanError(
            f"{len(families)} statistics are too many for one release of tables",
            fix="ask for fewer",
            code="DPR224",
        )
    return tuple(Fraction(part, _PARTS) for part in parts)


def _least(family: Family, split: Split, most: int) -> int:
    """Return the least thousandths with which the family meets its goals, more than `most` if it takes more.

    Raises:
        PlanError: many times `most` do not (DPR240), or as `split` for other reasons.
    """

    def meets(part: int) -> bool:
        try:
            split(family, Fraction(part, _PARTS))
        except PlanError as found:
            if part == most and found.code != "DPR240":
                raise
            return False
        return True

    low, high = 0, most
    while not meets(high):
        if high > _FAR * most:
            split(family, Fraction(most, _PARTS))  # says what it would take
            break
        low, high = high, 2 * high
    while high - low > max(1, high // most):
        middle = (low + high) // 2
        low, high = (low, middle) if meets(middle) else (middle, high)
    return high


def shares_of(
    query: Query,
    family: Family,
    part: Fraction,
    structure: Structure,
    sensitivities: Mapping[str, Sensitivity],
    kind: Kind,
    fitted: Mapping[str, int],
) -> dict[str, Fraction]:
    """Return the part of the release's budget for each table of the family that is measured.

    Args:
        fitted: how many families have a number in each table.

    Raises:
        PlanError: the declared shares leave nothing for the finest table (DPR220), or a `max_error` is
            missed (DPR240).
    """
    fixed = _declared(query, family, part, fitted)
    if len(fixed) == len(family.members):
        return fixed
    known = _stated(query, family)
    goals = family.goals(query.loss)
    worth = zcdp_rho if goals or query.spec.composition == "zcdp" else normal_rho  # goals: at least
    rho = worth(query.epsilon, query.spec.delta) if kind == "zcdp" else Fraction(0)
    zcdp = rho > 0  # of a tiny epsilon nothing is left of it: pure noise then
    kind, budget = ("zcdp", rho) if zcdp else ("pure", query.epsilon)
    moves = {
        n: 0 if n in known else (s.l2_squared if zcdp else s.l1_over_groups) or 0
        for n, s in sensitivities.items()
    }
    wanted = {name: _ROOM * goal for name, goal in goals.items()}
    for _ in range(_TRIES):
        choice = choose(
            structure,
            moves,
            budget=budget * part,
            kind=kind,
            fixed={name: share / part for name, share in fixed.items()},
            weights={n: float(m.statistic.spec.weight) for n, m in family.members.items()},
            goals=wanted,
        )
        out = _whole(family, part, choice.shares, fixed)
        after = expected(structure, moves, out, budget=budget, kind=kind)
        over = {name: after[name] / goal for name, goal in goals.items()}
        if all(ratio <= 1 for ratio in over.values()):
            return out
        wanted = {n: w * _ROOM / over[n] if over[n] > 1 else w for n, w in wanted.items()}
    worst = max(over, key=lambda name: over[name])
    raise goal_missed(family.asking(worst), query.epsilon, math.sqrt(over[worst]))


def _declared(
    query: Query, family: Family, part: Fraction, fitted: Mapping[str, int]
) -> dict[str, Fraction]:
    """Return the shares that tables declare; PlanError where they leave nothing (DPR220)."""
    assert query.tables is not None
    fixed = {}
    for name in family.members:
        spec = query.tables.named(name).spec
        if spec.share is not None:  # what is measured of it divides it
            fixed[name] = _thousandths(spec.share / fitted[name])
    if sum(fixed.values(), Fraction(0)) > part or (
        family.finest not in fixed and sum(fixed.values(), Fraction(0)) >= part
    ):
        raise PlanError(
            f"the declared shares of the tables leave too little for {family.name}",
            where=query.spec.origin,
            why=f"it has {float(part):.3g} of the budget in all, and `{family.finest}`, the finest"
            " table, is always measured",
            fix="lower a `share`, or leave one out",
            code="DPR220",
        )
    return fixed


def _whole(
    family: Family,
    part: Fraction,
    shares: Mapping[str, Fraction],
    fixed: Mapping[str, Fraction],
) -> dict[str, Fraction]:
    """Return shares in thousandths of the release's budget; the finest table takes what is left."""
    out = {
        name: _thousandths(share * part)
        for name, share in shares.items()
        if share > 0 and name != family.finest
    }
    out |= fixed
    out = {name: share for name, share in out.items() if share > 0}
    if family.finest not in fixed:
        out[family.finest] = part - sum(out.values(), Fraction(0))
    return {name: out[name] for name in family.members if name in out}


def _stated(query: Query, family: Family) -> set[str]:
    """Return the tables whose totals are public: to measure them would buy nothing."""
    return {total.table for total in stated(query, family)} - {family.finest}


def _thousandths(share: Fraction) -> Fraction:
    return Fraction(math.floor(share * _PARTS), _PARTS)
