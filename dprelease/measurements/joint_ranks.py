"""Several quantiles of one column together, in order: one choice per group, where that is better.

One certificate at the total spread covers every way to distribute it over groups, as for a single choice
(`measurements.ranks`): the product of weights falls by at most r^spread whatever the unit moves, and groups
are drawn independently. The law is drawn for every group, empty ones too.

There are two ways at one epsilon: each of the m values by itself at epsilon / m, or all of them by one choice
of sequences. What both promise of rows that all differ is a rank error at 95 %; the lesser mean wins. A single
choice keeps its error whatever rows share a value; a sequence errs by more rows then, up to a number that is
said, and where very many share one it may land anywhere. Drawing a sequence takes products of whole numbers that grow with the square of the different values, so fine grids and many
groups keep single choices, as do values with a share, a goal or a mechanism of their own.

Units: candidates in steps of `step`; scores in rows / (b PARTS), b the targets' denominator.
Shapes: exact `(groups, 1)`, the `joint_ranks.Positions` of each group; raw `(groups, many)`, places of the
chosen points among the allowed ones, never falling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.codec_notes import AtLeast, Note
from dprelease.core.entropy import RandomBits
from dprelease.measurements.base import Claim
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.law import Law, Objects, underclaimed
from dprelease.measurements.members import Member
from dprelease.measurements.ranks import (
    ExponentialLaw,
    Ranks,
    code_of,
    exponential_notes,
    rank_error_text,
    unit_of,
)
from dprelease.measurements.ranks_price import exponential_error
from dprelease.measurements.several_ranks import bridge
from dprelease.mechanisms.forms.joint_scores import (
    MARGIN,
    Heaps,
    JointExponential,
    SequenceLaw,
    work,
)
from dprelease.mechanisms.forms.scores import LONGEST, OUTCOME_LIMIT, ScoreLaw
from dprelease.query.bounded import BoundedQuery
from dprelease.query.spec import Query
from dprelease.schema.domain import GridSet
from dprelease.schema.unit import Adjacency
from dprelease.statistics.joint_ranks import Positions, joint_ranks
from dprelease.statistics.measurement import BY_RANK, Measurement
from dprelease.statistics.ranks import spreads, target
from dprelease.statistics.sensitivity import Sensitivity, sensitivity, unit_bounds

Ints = npt.NDArray[np.int64]
_CACHED = 4
"""Laws of groups that are kept for further groups with equal rows."""
_MOST_WORK = 2**24
"""Products that a draw may take over all groups, a seventh of a microsecond each."""
_SMALLER = 16
"""A choice's part of epsilon may be so many times smaller than an equal one."""
_LEVEL = 0.95
_SLACK = Fraction(1, 64)
"""Share of the chance of a miss that is left for weights above r^k: theory, "Several quantiles together"."""


def outcomes(points: int, many: int) -> int:
    """Return how many sequences of `many` candidates in order there are."""
    return math.comb(points + many - 1, many)


@dataclass(frozen=True, slots=True)
class OrderedLaw(ExponentialLaw):
    """`many` of the points of `allowed` (in steps) per group, in order."""

    many: Annotated[int, AtLeast(1), Note.always] = 1

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        rising = (raw[:, 1:] >= raw[:, :-1]).astype(bool).all(axis=1)
        return np.asarray(ExponentialLaw.drawable(self, raw) & rising, dtype=bool)


@dataclass(frozen=True, slots=True)
class JointLaw(OrderedLaw):
    """Points in order by one law over their scores.

    The law's candidates are the outcomes: all sequences.
    """

    tag: ClassVar[str] = "joint_ranks"

    law: SequenceLaw

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.many < 1 or self.law.candidates != outcomes(len(self.allowed), self.many):
            raise underclaimed("number of candidates")
        if self.step <= 0 or self.law.spread < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        return self.law.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty((exact.shape[0], self.many), dtype=object)
        made: dict[tuple[bytes, bytes], JointExponential] = {}
        for group, (rows,) in enumerate(exact):
            same = rows.codes.tobytes(), rows.upto.tobytes()  # equal rows have one law
            if same not in made:
                made = made if len(made) < _CACHED else {}
                made[same] = JointExponential(self.law, self.heaps(rows))
            first = self.first(rows)
            out[group] = [int(first[place]) + i for place, i in made[same].draw(bits)]
        return out

    def heaps(self, rows: Positions) -> Heaps:
        """Return the candidates of one group: the values of its rows, and those between them."""
        places = self.allowed.places(rows.codes + self.allowed.lower)
        edges = np.concatenate([[-1], places, [len(self.allowed)]])
        return Heaps(rows.ranks(), np.diff(edges) - 1, rows.aims)

    def first(self, rows: Positions) -> Ints:
        """Return the place among all points of the first candidate of every run and heap, in order."""
        places = self.allowed.places(rows.codes + self.allowed.lower)
        out = np.zeros(2 * places.size + 1, dtype=np.int64)
        out[1::2], out[2::2] = places, places + 1
        return out

    def rank_error(self, denominator: int, level: float) -> int | None:
        """Return r: each chosen value is at most r rows from its target rank, all of them at `level`, for any data.

        See `docs/theory/quantiles.md#several-quantiles-together`.
        """
        error = self.law.score_error(1 - (1 - level) * float(1 - _SLACK))
        if error is None or error >= self.law.geometric_to(_SLACK / (self.many + 1)):
            return None
        return -(-error // (2 * denominator))

    def typical_scale(self, denominator: int, view: int) -> float:
        return math.sqrt(bridge(view, self.many) / 2) / (self.law.rate * denominator)

    @classmethod
    def calibrate(
        cls, allowed: GridSet, step: Fraction, many: int, *, spread: int, epsilon: Fraction
    ) -> JointLaw:
        """Return the choice of largest rate whose loss is at most `epsilon`; as `ScoreLaw.calibrate`."""
        law = SequenceLaw.calibrate(
            outcomes(len(allowed), many), spread=spread, epsilon=epsilon, joint=True
        )
        return cls(law, allowed, step, many)


class JointRanks(Ranks):
    """The rows of one column value by value, for several ranks chosen together."""

    family = "joint_ranks"
    draws = ("joint_ranks",)
    forms = ("joint_ranks",)
    mechanisms = ("exponential",)
    one_law = True

    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return the choice of all values together; a miss of one rank costs two gaps."""
        measurement, size, loss = pricing.measurement, pricing.size, pricing.loss
        code = code_of(measurement)
        many, spread = len(measurement.weights), pricing.sensitivity.l1_over_groups
        law = JointLaw.calibrate(code.grid, code.step, many, spread=spread, epsilon=pricing.epsilon)
        rate = 2 * law.law.rate
        unit = unit_of(code, loss)
        aims = [target(measurement, m.view).weights[0] for m in pricing.block.members]
        errors = tuple(unit * exponential_error(rate, len(code.grid), size, a, loss) for a in aims)
        note = f"{many} values chosen together, in order"
        if (least := tied(len(code.grid), size)) > 1:
            note += f"; if there are {size:,} rows, {least:,} or more of them share a value"
        return [Candidate(measurement, law, errors, (None,) * len(errors), note=note)]

    def rivals(
        self, member: Member, best: Candidate, pricing: Pricing, claimed: Claim
    ) -> list[Option]:
        """Return what one of several values would cost by a choice of its own at an equal share."""
        joint, many = best.measurement, len(best.measurement.weights)
        a, b, _ = target(joint, member.view).weights[0]
        p = Fraction(a, b)
        aimed = (p.numerator, p.denominator, 0)
        l1_added_row, l1_replaced_row = spreads(*aimed)
        one = replace(
            joint,
            form="ranks",
            weights=(aimed,),
            l1_added_row=l1_added_row,
            l1_replaced_row=l1_replaced_row,
        )
        code = code_of(joint)
        spread = claimed(one).l1_over_groups
        law = ScoreLaw.calibrate(len(code.grid), spread=spread, epsilon=pricing.epsilon / many)
        said = rank_error_text(ExponentialLaw(law, code.grid, code.step), one)
        return [Option(law.family, None, None, f"by itself at epsilon/{many}: {said}")]

    def together(self, members: list[Member], query: Query) -> list[Member]:
        """Return `members`, those that are chosen together with one measurement and their place in it."""

        def chosen(rising: Sequence[Member]) -> Measurement | None:
            alone = [m.options[0] for m in rising]
            joint = joint_ranks(alone)
            offered = _offered(joint, rising, query)
            return joint if offered and _better(alone, joint, query.schema.adjacency) else None

        return joined(members, chosen)

    def notes(self, law: Law, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        assert isinstance(law, JointLaw)
        return joint_notes(law, target(measurement, view), view or 0)

    def refusal(
        self, measurement: Measurement, law: Law, task: BoundedQuery, at: Sequence[int]
    ) -> str:
        """Its law draws as many values as the measurement has targets."""
        why = Ranks.refusal(self, measurement, law, task, at)
        if not why and isinstance(law, JointLaw) and law.many != len(measurement.weights):
            return "its law is of other targets"
        return why


def joint_notes(law: JointLaw, aimed: Measurement, view: int) -> tuple[str, ...]:
    """Return the report's sentences: as of a single choice, but for the others."""
    choice, *rest = exponential_notes(law, aimed, view)
    choice = choice.replace(";", f", together with {law.many - 1} others;", 1)
    once = (
        "one choice for all of them: their values never fall, and the bound holds for all at once, however many rows share "
        "a value"
    )
    return (choice, rest[0], once, *rest[1:])


def may_join(member: Member) -> bool:
    """Return whether a statistic is a quantile that others may be chosen with."""
    spec = member.statistic.spec
    own = spec.share is not None or spec.max_error is not None or spec.mechanism is not None
    return not own and len(member.options) == 1 and member.options[0].form in BY_RANK


def share_of(member: Member) -> Fraction:
    """Return the share of the rows at which a quantile is, whether it is drawn alone or with others."""
    a, b, _ = target(member.options[0], member.view).weights[0]
    return Fraction(a, b)


def joined(
    members: Sequence[Member], chosen: Callable[[Sequence[Member]], Measurement | None]
) -> list[Member]:
    """Return `members`, several of one column with the measurement `chosen` for them and their place in it, if any."""
    found: dict[object, dict[Fraction, Member]] = {}
    for member in members:
        if may_join(member):
            (measurement,) = member.options
            key = (measurement.measures[0].code, member.max_rows, member.statistic.spec.spikes)
            found.setdefault(key, {}).setdefault(
                share_of(member), member
            )  # of equal ones the first
    views: dict[str, tuple[Measurement, int]] = {}
    for same in found.values():
        rising = [same[share] for share in sorted(same)]
        made = chosen(rising) if len(rising) > 1 else None
        if made is not None:
            views |= {m.statistic.spec.name: (made, i) for i, m in enumerate(rising)}
    return [
        replace(m, options=(views[name][0],), view=views[name][1])
        if (name := m.statistic.spec.name) in views
        else m
        for m in members
    ]


def able(points: int, many: int, groups: int) -> bool:
    """Return whether sequences of so many points are not too much work to draw."""
    products = groups * work(points, many)
    return outcomes(points, many) <= OUTCOME_LIMIT and products <= _MOST_WORK


def tied(points: int, size: int) -> int:
    """Return how many rows some value is sure to have, if there are `size` rows."""
    return -(-size // points)


def nats_per_step(made: Measurement, rising: Sequence[Member], query: Query) -> float:
    """Return the rate of a choice of them all, per score step, if all statistics of the request have equal shares."""
    groups = rising[0].statistic.groups
    bounds = unit_bounds(query.schema.unit, rising[0].max_rows, groups)
    steps = sensitivity(made, bounds, query.schema.adjacency, groups).l1_over_groups
    return float(query.epsilon) * len(rising) / (steps * max(1, len(query.statistics)))


def _offered(joint: Measurement, rising: Sequence[Member], query: Query) -> bool:
    """Return whether sequences can be drawn, and weights tell apart a bad one from all others (`MARGIN`)."""
    many, points = len(rising), len(code_of(joint).grid)
    rate = nats_per_step(joint, rising, query) / _SMALLER
    far = math.log(outcomes(points, many)) + MARGIN
    return able(points, many, rising[0].statistic.groups) and (not rate or rate * LONGEST >= far)


def _better(alone: Sequence[Measurement], joint: Measurement, adjacency: Adjacency) -> bool:
    """Return whether one choice of sequences misses ranks by less than single choices at a share each."""
    many, points = len(alone), len(code_of(joint).grid)
    which = 0 if adjacency is Adjacency.add_remove else 1
    room = -math.log(1 - _LEVEL)
    steps = (joint.l1_added_row, joint.l1_replaced_row)[which] / joint.weights[0][1]
    by_one = (math.log(outcomes(points, many)) + room) * steps / 2
    each = [spreads(*e.weights[0])[which] / e.weights[0][1] for e in alone]
    return by_one <= many * (math.log(points) + room) * sum(each) / many


family = JointRanks()
