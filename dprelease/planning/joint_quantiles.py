"""Which quantiles are chosen together: those of one column, where that is better and not too much work.

Two ways at one epsilon: each of the m values by itself at epsilon / m, or all of them by one choice of
sequences (`measurements.joint_ranks`). What both promise for all data is a rank error at 95 %; the lesser mean
wins. Drawing a sequence takes products of whole numbers that grow with the square of the different values, so
fine grids and many groups keep single choices, as do values with a share, a goal or a mechanism of their own.

Units: ranks in rows; epsilon in nats (both bounds fall as 1 / epsilon, so the comparison needs none).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dprelease.aggregates.encoding import CHOICES, Encoding
from dprelease.aggregates.joint_ranks import LEVELS, joint_ranks
from dprelease.aggregates.ranks import spreads, target
from dprelease.measurements.joint_ranks import outcomes
from dprelease.measurements.ranks import ChoiceDraw
from dprelease.mechanisms.forms.joint_scores import work
from dprelease.mechanisms.forms.scores import OUTCOME_LIMIT, ScoreLaw
from dprelease.planning.choice_words import rank_error_text
from dprelease.planning.model import Option
from dprelease.query.bounded import Fixed
from dprelease.schema.unit import Adjacency
from dprelease.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dprelease.planning.layout import BlockLayout, Member
    from dprelease.planning.share import Priced

__all__ = ["by_itself", "together"]

_MOST_WORK = 2**23
"""Products that a draw may take over all groups, a microsecond each."""
_LEVEL = 0.95


def together(members: list[Member], adjacency: Adjacency) -> list[Member]:
    """Return `members`, those that are chosen together with one encoding and their place in it."""
    found: dict[object, dict[Fraction, Member]] = {}
    for member in members:
        if _may_join(member):
            (encoding,) = member.options
            key = (encoding.measures[0].code, member.max_rows, member.statistic.spec.spikes)
            share = Fraction(encoding.weights[0][0], encoding.weights[0][1])
            found.setdefault(key, {}).setdefault(share, member)  # of equal ones the first
    views: dict[str, tuple[Encoding, int]] = {}
    for same in found.values():
        rising = [same[share] for share in sorted(same)]
        alone = [m.options[0] for m in rising]
        if len(alone) < 2 or not _better(alone, rising[0].context.groups, adjacency):
            continue
        joint = joint_ranks(alone)
        views |= {m.statistic.spec.name: (joint, i) for i, m in enumerate(rising)}
    return [
        replace(m, options=(views[name][0],), view=views[name][1])
        if (name := m.statistic.spec.name) in views
        else m
        for m in members
    ]


def by_itself(
    priced: Priced, index: int, moved: Callable[[Encoding, BlockLayout], Sensitivity]
) -> Option:
    """Return what one of several values would cost by a choice of its own at an equal share.

    Args:
        moved: an encoding and an override of m -> how far one unit moves it.
    """
    joint, block = priced.best.encoding, priced.block
    a, b, _ = target(joint, block.members[index].view).weights[0]
    p = Fraction(a, b)
    aimed = (p.numerator, p.denominator, 0)
    per_row, per_swap = spreads(*aimed)
    one = replace(joint, form="ranks", weights=(aimed,), per_row=per_row, per_swap=per_swap)
    code, many = joint.measures[0].code, len(joint.weights)
    assert isinstance(code, Fixed)
    spread = moved(one, block).total
    law = ScoreLaw.calibrate(len(code.grid), spread=spread, epsilon=priced.share.epsilon / many)
    said = rank_error_text(ChoiceDraw(law, code.grid, code.step), one)
    return Option(law.family, None, None, f"by itself at epsilon/{many}: {said}")


def _may_join(member: Member) -> bool:
    spec = member.statistic.spec
    own = spec.share is not None or spec.max_error is not None or spec.mechanism is not None
    return not own and len(member.options) == 1 and member.options[0].form in CHOICES


def _better(alone: Sequence[Encoding], groups: int, adjacency: Adjacency) -> bool:
    """Return whether one choice of sequences misses ranks by less than single choices at a share each."""
    joint, many = joint_ranks(alone), len(alone)
    code = alone[0].measures[0].code
    assert isinstance(code, Fixed)
    points = len(code.grid)
    sequences = outcomes(points, many)
    if sequences > OUTCOME_LIMIT or groups * work(points * (LEVELS + 1) + 1, many) > _MOST_WORK:
        return False
    which = 0 if adjacency is Adjacency.add_remove else 1
    room = -math.log(1 - _LEVEL)
    moved = (joint.per_row, joint.per_swap)[which] / (joint.weights[0][1] * (LEVELS - 1))
    by_one = (math.log(sequences) + room) * moved / 2
    each = [spreads(*e.weights[0])[which] / e.weights[0][1] for e in alone]
    return by_one <= many * (math.log(points) + room) * sum(each) / many
