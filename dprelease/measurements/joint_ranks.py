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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats, Reading
from dprelease.aggregates.graph import one_cell
from dprelease.aggregates.joint_ranks import LEVELS, PARTS, Positions, joint_ranks
from dprelease.aggregates.measurement import BY_RANK, Measurement
from dprelease.aggregates.ranks import spreads, target
from dprelease.codec import Always, AtLeast
from dprelease.entropy import RandomBits
from dprelease.measurements.base import Moved
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.draw import Draw, Objects, underclaimed
from dprelease.measurements.members import Member
from dprelease.measurements.ranks import (
    ExponentialDraw,
    Ranks,
    exponential_notes,
    moved_text,
    rank_error_text,
)
from dprelease.measurements.ranks_price import exponential_error
from dprelease.mechanisms.forms.joint_scores import Blocks, JointExponential, work
from dprelease.mechanisms.forms.scores import OUTCOME_LIMIT, ScoreLaw
from dprelease.numeric import counted, shown
from dprelease.query.bounded import Fixed
from dprelease.schema.domain import GridSet
from dprelease.schema.unit import Adjacency
from dprelease.sensitivity import Sensitivity

__all__ = ["JointExponentialDraw", "JointRanks", "OrderedDraw", "able", "may_join", "outcomes"]

Ints = npt.NDArray[np.int64]
_KEPT = 4
"""Laws of groups that are kept for further groups with equal rows."""
_MOST_WORK = 2**23
"""Products that a draw may take over all groups, a microsecond each."""
_LEVEL = 0.95
_SLACK = Fraction(1, 64)
"""Share of the chance of a miss that is left for weights above r^k: theory, "Several quantiles together"."""


def outcomes(points: int, many: int) -> int:
    """Return how many sequences of `many` candidates in order there are."""
    return math.comb(points * LEVELS + many - 1, many)


def _placed(blocks: Blocks, first: Ints, block: int, place: int) -> int:
    """Return the place among all points of the candidate at `place` of a block."""
    many = int(blocks.counts[block])
    return int(first[block]) + (place // LEVELS if many > 1 else 0)


@dataclass(frozen=True, slots=True)
class OrderedDraw(ExponentialDraw):
    """`many` of the points of `allowed` (in steps) per group, in order."""

    many: Annotated[int, AtLeast(1), Always()] = 1

    def cells(self, raw: Objects) -> Floats:
        num, den = self.step.as_integer_ratio()
        points = self.allowed.at(raw.ravel().astype(np.int64)).reshape(raw.shape)
        return np.asarray(points.astype(np.float64) * num / den)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        del level
        unknown = np.full(raw.shape, np.nan)
        return unknown, unknown

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        inside = ((raw >= 0) & (raw < len(self.allowed))).astype(bool).all(axis=1)
        rising = (raw[:, 1:] >= raw[:, :-1]).astype(bool).all(axis=1)
        return np.asarray(inside & rising, dtype=bool)


@dataclass(frozen=True, slots=True)
class JointExponentialDraw(OrderedDraw):
    """Points in order by one law over their scores.

    The law's candidates are the outcomes: all sequences.
    """

    tag: ClassVar[str] = "joint_exponential"
    levels: ClassVar[int] = LEVELS
    constants: ClassVar[Mapping[str, str]] = {"draw": "tag", "levels": "levels"}

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.many < 1 or self.law.candidates != outcomes(len(self.allowed), self.many):
            raise underclaimed("number of candidates")
        if self.step <= 0 or self.law.spread < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        return self.law.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty((exact.shape[0], self.many), dtype=object)
        made: dict[tuple[bytes, bytes], tuple[JointExponential, Blocks, Ints]] = {}
        for group, (rows,) in enumerate(exact):
            same = rows.codes.tobytes(), rows.upto.tobytes()  # equal rows have one law
            if same not in made:
                blocks, first = self.blocks(rows)
                made = made if len(made) < _KEPT else {}
                made[same] = JointExponential(self.law, blocks), blocks, first
            choice, blocks, first = made[same]
            out[group] = [_placed(blocks, first, *one) for one in choice.draw(bits)]
        return out

    def blocks(self, rows: Positions) -> tuple[Blocks, Ints]:
        """Return the candidates of one group in blocks of equal rank, and each block's first point."""
        places = self.allowed.places(rows.codes + self.allowed.lower)
        counts, ranks, first = rows.blocks(places, len(self.allowed))
        return Blocks(counts, ranks, *rows.aims), first

    def rank_error(self, denominator: int, level: float, sharing: int = 1) -> int | None:
        """Return r: each chosen value is at most r rows from its target rank, all of them at `level`.

        For data of which no more than `sharing` rows have one value. None for more than `most_sharing`.
        See `docs/theory/quantiles.md#several-quantiles-together`.
        """
        error = self._score_error(level)
        if error is None or sharing > self.most_sharing(denominator, level):
            return None
        least = 2 * denominator * self.many * sharing  # what the best outcome may err, in steps
        return -(-(error + least) // (2 * denominator * PARTS))

    def most_sharing(self, denominator: int, level: float) -> int:
        """Return how many rows may have one value for `rank_error` to be known; 0 for none."""
        error = self._score_error(level)
        if error is None:
            return 0
        seen = self.law.geometric_to(_SLACK / (self.many + 1))
        return max(0, seen - error - 1) // (2 * denominator * self.many)

    def _score_error(self, level: float) -> int | None:
        return self.law.score_error(1 - (1 - level) * float(1 - _SLACK))

    @classmethod
    def calibrate(
        cls, allowed: GridSet, step: Fraction, many: int, *, spread: int, epsilon: Fraction
    ) -> JointExponentialDraw:
        """Return the choice of largest rate whose loss is at most `epsilon`; as `ScoreLaw.calibrate`."""
        law = ScoreLaw.calibrate(
            outcomes(len(allowed), many), spread=spread, epsilon=epsilon, joint=True
        )
        return cls(law, allowed, step, many)


class JointRanks(Ranks):
    """The rows of one column value by value, for several ranks chosen together."""

    family = "joint_ranks"
    draws = ("joint_exponential",)
    forms = ("joint_ranks",)
    mechanisms = ("exponential",)
    one_law = True

    def priced(self, asked: Pricing) -> list[Candidate]:
        """Return the choice of all values together; a miss of one rank costs two gaps."""
        measurement, size, loss = asked.measurement, asked.size, asked.loss
        code = measurement.measures[0].code
        assert isinstance(code, Fixed)
        many, spread = len(measurement.weights), asked.sensitivity.l1_over_groups
        draw = JointExponentialDraw.calibrate(
            code.grid, code.step, many, spread=spread, epsilon=asked.epsilon
        )
        rate = 2 * draw.law.rate * PARTS
        width = float(code.grid.hull_steps * code.step)
        unit = width if loss == "absolute" else width * width
        aims = [target(measurement, m.view).weights[0] for m in asked.block.members]
        errors = tuple(unit * exponential_error(rate, len(code.grid), size, a, loss) for a in aims)
        note = f"{many} values chosen together, in order"
        return [Candidate(measurement, draw, errors, (None,) * len(errors), note=note)]

    def beside(self, member: Member, best: Candidate, asked: Pricing, moved: Moved) -> list[Option]:
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
        code = joint.measures[0].code
        assert isinstance(code, Fixed)
        spread = moved(one).l1_over_groups
        law = ScoreLaw.calibrate(len(code.grid), spread=spread, epsilon=asked.epsilon / many)
        said = rank_error_text(ExponentialDraw(law, code.grid, code.step), one)
        return [Option(law.family, None, None, f"by itself at epsilon/{many}: {said}")]

    def together(self, members: list[Member], adjacency: Adjacency) -> list[Member]:
        """Return `members`, those that are chosen together with one measurement and their place in it."""
        found: dict[object, dict[Fraction, Member]] = {}
        for member in members:
            if may_join(member):
                (measurement,) = member.options
                key = (measurement.measures[0].code, member.max_rows, member.statistic.spec.spikes)
                share = Fraction(measurement.weights[0][0], measurement.weights[0][1])
                found.setdefault(key, {}).setdefault(share, member)  # of equal ones the first
        views: dict[str, tuple[Measurement, int]] = {}
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

    def error_text(self, draw: Draw, measurement: Measurement, view: int | None) -> str:
        said = Ranks.error_text(self, draw, measurement, view)
        assert isinstance(draw, JointExponentialDraw)
        known = draw.rank_error(measurement.weights[0][1], _LEVEL) is not None
        return f"{said} if no two rows share a value" if known else said

    def notes(self, draw: Draw, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        assert isinstance(draw, JointExponentialDraw)
        return joint_notes(draw, target(measurement, view))

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        return moved_text(Fraction(s.l1_over_groups, best.measurement.weights[0][1] * PARTS))

    def seen(
        self, measurement: Measurement, cells: Floats, reading: Reading, view: int
    ) -> tuple[Measurement, Floats, Reading]:
        return one_cell(measurement, cells, reading, view)


def joint_notes(draw: JointExponentialDraw, aimed: Measurement) -> tuple[str, ...]:
    """Return the report's sentences: as of a single choice, but for what rows of one value do to its error."""
    b = aimed.weights[0][1]
    choice, error, *rest = exponential_notes(draw, aimed)
    most, rows = draw.most_sharing(b, _LEVEL), draw.rank_error(b, _LEVEL)
    if most and rows is not None:
        more = shown(Fraction(draw.many, PARTS))
        error = (
            f"with 95 % probability its rank is at most {counted(rows, 'row')} from that aim if no two rows share "
            f"a value; {more} rows further per row of the commonest value, which may have {most:,} of them: where one "
            "has more, nothing is known of its rank"
        )
    choice = choice.replace(";", f", together with {draw.many - 1} others;", 1)
    once = (
        "one choice for all of them: their values never fall, and the bound holds for all at once; where many rows share a "
        "value, name `mechanism: exponential` for each: chosen by itself, its bound holds for any data"
    )
    return (choice, error, once, *rest)


def may_join(member: Member) -> bool:
    """Return whether a statistic is a quantile that others may be chosen with."""
    spec = member.statistic.spec
    own = spec.share is not None or spec.max_error is not None or spec.mechanism is not None
    return not own and len(member.options) == 1 and member.options[0].form in BY_RANK


def able(points: int, many: int, groups: int) -> bool:
    """Return whether sequences of so many points are not too much work to draw."""
    products = groups * work(points * (LEVELS + 1) + 1, many)
    return outcomes(points, many) <= OUTCOME_LIMIT and products <= _MOST_WORK


def _better(alone: Sequence[Measurement], groups: int, adjacency: Adjacency) -> bool:
    """Return whether one choice of sequences misses ranks by less than single choices at a share each."""
    joint, many = joint_ranks(alone), len(alone)
    code = alone[0].measures[0].code
    assert isinstance(code, Fixed)
    points = len(code.grid)
    if not able(points, many, groups):
        return False
    sequences = outcomes(points, many)
    which = 0 if adjacency is Adjacency.add_remove else 1
    room = -math.log(1 - _LEVEL)
    moved = (joint.l1_added_row, joint.l1_replaced_row)[which] / (joint.weights[0][1] * PARTS)
    by_one = (math.log(sequences) + room) * moved / 2
    each = [spreads(*e.weights[0])[which] / e.weights[0][1] for e in alone]
    return by_one <= many * (math.log(points) + room) * sum(each) / many
