"""Which tables are measured, and with which part of the budget: public, and chosen before any row is read.

Every family gets a part by its weight; within a family `fitting.levels` chooses the parts that make
the fitted errors least. Shares are whole thousandths, so that no rounding tips what is charged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from dprelease.budget.concentrated import zcdp_rho
from dprelease.errors import PlanError
from dprelease.fitting.levels import choose
from dprelease.fitting.structure import Structure
from dprelease.planning.table_families import Family
from dprelease.query.spec import Query
from dprelease.sensitivity import Sensitivity

__all__ = ["family_parts", "shares_of"]

_PARTS = 1000


def family_parts(families: Sequence[Family], loss: str) -> tuple[Fraction, ...]:
    """Return each family's part of the budget, in thousandths; the first one takes what rounding leaves."""
    power = 1 / 2 if loss == "absolute" else 1 / 3
    wanted = [family.weight**power for family in families]
    parts = [max(1, math.floor(_PARTS * w / sum(wanted))) for w in wanted]
    parts[0] += _PARTS - sum(parts)
    if parts[0] < 1:
        raise PlanError(
            f"{len(families)} statistics are too many for one release of tables",
            fix="ask for fewer",
            code="DPR221",
        )
    return tuple(Fraction(part, _PARTS) for part in parts)


def shares_of(
    query: Query,
    family: Family,
    part: Fraction,
    structure: Structure,
    sensitivities: Mapping[str, Sensitivity],
    counts: Mapping[str, int],
) -> dict[str, Fraction]:
    """Return the part of the release's budget for each table of the family that is measured.

    Args:
        counts: how many families each table has: they divide its declared share.

    Raises:
        PlanError: the declared shares leave nothing for the finest table (DPR220).
    """
    assert query.tables is not None
    fixed = {}
    for name in family.members:
        share = query.tables.named(name).spec.share
        if share is not None:
            fixed[name] = _thousandths(share / counts[name])
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
    if len(fixed) == len(family.members):
        return fixed
    known = _stated(query, family)
    delta = query.spec.delta
    rho = zcdp_rho(query.epsilon, delta) if delta else Fraction(0)
    concentrated = rho > 0  # of a tiny epsilon nothing is left of it: pure noise then
    choice = choose(
        structure,
        {
            n: 0 if n in known else (s.square if concentrated else s.total) or 0
            for n, s in sensitivities.items()
        },
        budget=(rho if concentrated else query.epsilon) * part,
        kind="zcdp" if concentrated else "pure",
        fixed={name: share / part for name, share in fixed.items()},
        weights={n: float(m.statistic.spec.weight) for n, m in family.members.items()},
    )
    out = {
        name: _thousandths(share * part)
        for name, share in choice.shares.items()
        if share > 0 and name != family.finest
    }
    out |= fixed
    out = {name: share for name, share in out.items() if share > 0}
    if family.finest not in fixed:
        out[family.finest] = part - sum(out.values(), Fraction(0))
    return {name: out[name] for name in family.members if name in out}


def _stated(query: Query, family: Family) -> set[str]:
    """Return the tables whose totals are public: to measure them would buy nothing."""
    names = {t: m.statistic.spec.name for t, m in family.members.items() if t != family.finest}
    return {t.table for t in query.spec.totals if names.get(t.table) == t.statistic}


def _thousandths(share: Fraction) -> Fraction:
    return Fraction(math.floor(share * _PARTS), _PARTS)
