"""A plan made again from its request and from what it records as chosen.

Everything in a plan is a function of the request and of the choice: how the budget was split, which
law draws each block with which integers, and the floating point figures of the pricing. Floating
point differs between machines in its last digits, and a difference there could tip a choice. So the
choice is not made again. It is read from the plan, whose hash the ledger held before any row was
read, and held against the request:

    share     declared shares are kept, and declared errors are met; what the blocks may spend is
              added up again
    measurement  one of those that the request admits for the block
    law       a law that is priced for that measurement at that share, on the same grid, for the same
              move. Other integers pass where a solver proposes them, if the law's expected error is
              the same to `CLOSE`; the wall certifies the integers themselves.
    figures   errors of the law and of its rivals, and their order, equal to `CLOSE`

The plan is then written by the same code as ever, with the recorded figures in it; the caller
compares it with the one they hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any, NoReturn

from dprelease.allocation.choose import as_stated
from dprelease.allocation.share import Priced, Share
from dprelease.allocation.spend import Spending, added_up
from dprelease.budget.composition import SUMS
from dprelease.core import registry
from dprelease.core.errors import VerificationError
from dprelease.core.numeric import fraction_from_json
from dprelease.measurements.candidate import Candidate, Option
from dprelease.measurements.law import draw_from_json
from dprelease.measurements.members import BlockLayout
from dprelease.planning.layout import layouts
from dprelease.planning.prices import Figures, Prices
from dprelease.planning.tables.fitting import Critical, Errors
from dprelease.planning.tables.make import frame_of, table_blocks, write_tables
from dprelease.planning.write import write_plan
from dprelease.query.spec import Query
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.measurement import Measurement

CLOSE = 1e-6
"""Relative difference of two figures that say the same on different machines."""


def plan_again(query: Query, stated: Mapping[str, Any]) -> ReleasePlan:
    """Return the plan of `query` with the choice that `stated`, a plan's JSON, records.

    Raises:
        VerificationError: the choice is none that the request admits (DPR805).
        DpreleaseError: the request has no plan; LookupError, TypeError, ValueError: `stated` is
            not of a plan's shape.
    """
    if query.tables is not None:
        return _tables_again(query, stated)
    names = [b["name"] for b in stated["blocks"]]
    ways = layouts(query)
    blocks = next((w for w in ways if [b.name for b in w] == names), ways[0])
    if names != [b.name for b in blocks]:
        _other("blocks", f"the request makes the blocks {', '.join(b.name for b in blocks)[:200]}")
    said = {s["name"]: s for s in stated["statistics"]}
    figures = {
        member.statistic.spec.name: _figures(said, member.statistic.spec.name)
        for block in blocks
        for member in block.members
    }
    prices = Prices(query)
    priced = [
        _priced(prices, block, part, figures)
        for block, part in zip(blocks, stated["blocks"], strict=True)
    ]
    return write_plan(query, _spent(query, stated, priced, prices), Prices(query, figures))


def _tables_again(query: Query, stated: Mapping[str, Any]) -> ReleasePlan:
    """Return the plan of several tables with the recorded choice of what is measured."""
    frame = frame_of(query)
    if "impossible" not in stated["tables"]:  # plans before published them as 0
        frame = replace(frame, tables=replace(frame.tables, impossible=False))
    names = [b["name"] for b in stated["blocks"]]
    blocks = table_blocks(frame, names)
    if [b.name for b in blocks] != names:
        _other("blocks", "they are not blocks of the request's tables, in their order")
    for family in frame.families if frame.set is None else ():
        if not any(b.name == family.layout(family.finest, None).name for b in blocks):
            _other(family.name, f"its finest table {family.finest} is not measured")
    said = _AsRecorded(stated)
    own, priced = {block.name for block in frame.own}, []
    for block, part in zip(blocks, stated["blocks"], strict=True):
        names = [m.statistic.spec.name for m in block.members]
        of = block.table or ""
        figures = {n: said.figures(of, n) for n in names} if block.name in own else None
        priced.append(_priced(frame.prices, block, part, figures))
    return write_tables(frame, _spent(query, stated, priced, frame.prices), said)


def _spent(
    query: Query, stated: Mapping[str, Any], priced: Sequence[Priced], prices: Prices
) -> Spending:
    """Return the recorded way to spend, added up again."""
    composition = stated.get("composition")
    method = "basic/1" if composition is None else composition["method"]
    found = added_up(method, tuple(priced), query.epsilon, query.spec.delta, prices)
    _check_shares(query, priced, method)
    return found


class _AsRecorded:
    """The figures that a plan of several tables records, where those found here say the same."""

    def __init__(self, stated: Mapping[str, Any]) -> None:
        self._statistics = stated["statistics"]
        self._halves = {
            (part["table"], part["statistic"]): tuple(map(fraction_from_json, part["halves"]))
            for fit in stated["tables"]["fits"]
            for part in fit["tables"]
        }
        self._critical = {
            (part["table"], part["statistic"]): tuple(
                tuple(map(fraction_from_json, pieces)) for pieces in part["critical"]
            )
            for part in stated["tables"].get("ratios", ())
        }
        self._errors = {
            (part["table"], part["name"]): tuple(o["expected_error"] for o in part["options"])
            for part in stated["statistics"]
        }

    def figures(self, table: str, statistic: str) -> Figures:
        """Return those of a statistic that is drawn by itself; `_priced` compares them."""
        said = {s["name"]: s for s in self._statistics if s["table"] == table}
        return _figures(said, statistic)

    def halves(
        self, table: str, statistic: str, found: tuple[Fraction, ...]
    ) -> tuple[Fraction, ...]:
        said = self._halves.get((table, statistic), ())
        _hold_intervals(table, statistic, (said,), (found,))
        return said

    def critical(self, table: str, statistic: str, found: Critical) -> Critical:
        said = self._critical.get((table, statistic), ())
        _hold_intervals(table, statistic, said, found)
        return said

    def errors(self, table: str, statistic: str, found: Errors) -> Errors:
        said = iter(self._errors.get((table, statistic), ()))
        taken = [None if error is None else next(said, None) for error in found]
        if next(said, None) is not None or not all(map(near, taken, found)):
            _other(statistic, f"its stated errors in table {table} are not those of its laws")
        fitted, before, alone = taken
        return _number(fitted), None if before is None else _number(before), _number(alone)


def _hold_intervals(table: str, statistic: str, said: Critical, found: Critical) -> None:
    alike = [len(pieces) for pieces in said] == [len(pieces) for pieces in found]
    both = (map(float, chain(*ends)) for ends in (said, found))
    if not alike or not all(map(near, *both)):
        _other(statistic, f"its intervals in table {table} are not those of its laws")


def near(one: object, other: object) -> bool:
    """Return whether two figures, or two None, say the same."""
    if one is None or other is None:
        return one is other
    return _close(_number(one), _number(other))


# --- a block ----------------------------------------------------------------------------------


def _priced(
    prices: Prices,
    block: BlockLayout,
    part: Mapping[str, Any],
    figures: Mapping[str, Figures] | None,
) -> Priced:
    """Return the block as recorded, held against its prices at the recorded share.

    Args:
        figures: recorded figures of its statistics; None where they are compared elsewhere.
    """
    share = Share.from_json(part["share"])
    if share.rho is not None and share != Share.concentrated(share.rho):
        _other(block.name, "the epsilon of its share is not that of its rho")
    fresh = prices.priced(block, share)
    at = next((i for i, c in enumerate(fresh.ranked) if _drawn_as(c, part)), None)
    if at is None:
        _other(block.name, "no law that is priced for the request draws like that")
    ranked = (fresh.ranked[at], *fresh.ranked[:at], *fresh.ranked[at + 1 :])
    best = ranked[0]
    judged = [c.price(block.judged_by(prices.query.judge)) for c in ranked]
    if judged[0] > min(judged) and not _close(judged[0], min(judged)):
        _other(block.name, f"{best.law.mechanism} is not the best of its laws")
    if best.law.to_json() != part["law"]:
        best = _with_law(block, best, part["law"], prices)
    chosen = Priced(block, share, (best, *ranked[1:]), prices.sensitivity(best.measurement, block))
    if figures is None:
        return chosen
    for i, member in enumerate(block.members):
        name = member.statistic.spec.name
        if not _same_figures(figures[name], prices.figures(chosen, i)):
            _other(name, "its stated errors are not those of its laws")
    _check_goals(block, prices.errors(chosen, farthest=True))
    stated = tuple(
        f.options[0].expected_error for f in (figures[m.statistic.spec.name] for m in block.members)
    )
    errors = tuple(e if s is None else s for s, e in zip(stated, best.errors, strict=True))
    return replace(chosen, ranked=(replace(best, errors=errors),))


def _drawn_as(candidate: Candidate, part: Mapping[str, Any]) -> bool:
    """Return whether the candidate is drawn in the recorded way: measurement and law, on one grid."""
    if _measurement(candidate.measurement) != {
        k: part["measurement"].get(k) for k in _measurement(candidate.measurement)
    }:
        return False
    law = candidate.law
    return bool(law.decided(law.to_json()) == law.decided(part["law"]))


def _measurement(measurement: Measurement) -> dict[str, Any]:
    """Return a measurement as it is recorded, whatever its place in a plan is."""
    said = measurement.to_json()
    return {
        key: said[key] for key in said.keys() - {"primitives", "max_rows", "data", "sensitivity"}
    }


def _with_law(
    block: BlockLayout, fresh: Candidate, law: Mapping[str, Any], prices: Prices
) -> Candidate:
    """Return the candidate with other integers, if they serve as well as those found here."""
    whole, loss = draw_from_json(law), prices.query.loss
    own = whole.own_errors(block.members, loss)
    again = None if own is None else replace(fresh, law=whole, errors=own, stated=())
    errors = (
        None
        if again is None
        else as_stated(again, block, prices.sizes[block.table][0], loss).errors
    )
    if errors is None or not all(_close(a, b) for a, b in zip(errors, fresh.errors, strict=True)):
        _other(block.name, "its law has other integers, and is another law")
    return replace(fresh, law=whole)


# --- shares and figures -----------------------------------------------------------------------


def _check_shares(query: Query, priced: Sequence[Priced], method: str) -> None:
    """Hold declared shares against the split; what is not declared was the planner's to choose."""
    for each in priced:
        shares = [m.statistic.spec.share for m in each.block.members]
        declared = sum((s for s in shares if s is not None), Fraction(0))
        if declared and method in SUMS and each.share.epsilon not in (0, declared * query.epsilon):
            _other(each.block.name, "its declared share of epsilon is another one")


def _check_goals(block: BlockLayout, errors: Sequence[float | None]) -> None:
    """Hold the errors of the law that is drawn against those that the request allows."""
    for member, error in zip(block.members, errors, strict=True):
        goal = member.statistic.spec.max_error
        if goal is not None and (error is None or error > float(goal) * (1 + CLOSE)):
            _other(member.statistic.spec.name, "its law does not meet the declared `max_error`")


def _figures(said: Mapping[str, Any], name: str) -> Figures:
    """Return the recorded figures of one statistic."""
    if name not in said:
        _other(name, "it is not among the plan's statistics")
    part = said[name]
    options = tuple(
        Option(
            str(o["mechanism"]),
            None if o["expected_error"] is None else _number(o["expected_error"]),
            None if o["worst_error"] is None else _number(o["worst_error"]),
            str(o["note"]),
            str(o.get("advice", "")),
        )
        for o in part["options"]
    )
    groups = part["group_errors"]
    return Figures(options, None if groups is None else tuple(map(_number, groups)))


def _same_figures(stated: Figures, found: Figures) -> bool:
    """Return whether the options are the same laws with the same errors, in an order of price.

    A rival that no version offers any more is not priced here: it stands in that order, and nothing follows from it.
    """
    by_law = {(o.mechanism, o.note): o for o in found.options}
    offered = [o for o in stated.options if o.mechanism not in registry.REMOVED]
    if len(offered) != len(found.options) or not offered or offered[0] is not stated.options[0]:
        return False
    if len(offered) < len(stated.options) and not _in_order(stated.options):
        return False
    for place, (option, there) in enumerate(zip(offered, found.options, strict=True)):
        law = option.mechanism, option.note
        other = by_law.pop(law, None)
        if other is None or not (
            near(option.expected_error, other.expected_error)
            and near(option.worst_error, other.worst_error)
            and option.advice == other.advice
        ):
            return False
        # Rivals may change places where they are equal; the law that is drawn stands first.
        tied = place > 0 and near(option.expected_error, there.expected_error)
        if law != (there.mechanism, there.note) and not tied:
            return False
    one, two = stated.group_errors, found.group_errors
    if one is None or two is None:
        return one is two
    return len(one) == len(two) and all(map(near, one, two))


def _in_order(options: Sequence[Option]) -> bool:
    """Return whether no option is better than the one before it, by the errors that are stated of both."""
    errors = [(o.expected_error, o.worst_error) for o in options]
    return any(
        all(a is not None and b is not None and a <= b * (1 + CLOSE) for a, b in pairwise(column))
        for column in zip(*errors, strict=True)
    )


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= CLOSE * max(abs(one), abs(other))


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("a figure is a number")
    return float(value)


def _other(name: str, why: str) -> NoReturn:
    raise VerificationError(
        f"the plan of {name} was not made from its request",
        why=why,
        fix="ask the publisher; a plan that was made from this request passes this check",
        code="DPR805",
    )
