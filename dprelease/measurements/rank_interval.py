"""The draw of a quantile with its interval: three draws of the exponential mechanism, one after the other, at one rate.

What one unit can move the scores of all three adds up, so one certificate at that total covers them, over all groups.
The ends aim so many rows outside that either misses with a chance of at most (1 - 0.95) / 2, for all data.

Units and shapes as `measurements.ranks`; exact `(groups, 1)`, the `joint_ranks.Positions` of each group; raw
`(groups, 3)`, places of the value, of the lower and of the upper end.
Source: `docs/theory/quantiles.md#an-interval-for-the-value`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from dprelease.budget.composition import Proof
from dprelease.core.codec_notes import AtLeast
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import ArgumentError
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.law import Law, Objects, underclaimed
from dprelease.measurements.members import Member
from dprelease.measurements.ranks import (
    ExponentialLaw,
    Ranks,
    aim,
    code_of,
    exponential_notes,
    rank_error_text,
    unit_of,
)
from dprelease.measurements.ranks_price import exponential_error
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.query.bounded import MOST_FOUND, Fixed
from dprelease.query.spec import Query
from dprelease.statistics.base import Floats
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.rank_interval import CHOICES, interval_scores
from dprelease.statistics.ranks import Stretches
from dprelease.statistics.sensitivity import Sensitivity

LEVEL = 0.95
"""Of the interval; a union bound over its two ends."""


@dataclass(frozen=True, slots=True)
class IntervalLaw(ExponentialLaw):
    """Three of the points of `allowed` per group; the law's spread is that of all three draws.

    Attributes:
        inside: k, the rows between the value's aim and that of either end.
    """

    tag: ClassVar[str] = "exponential_interval"

    inside: Annotated[int, AtLeast(1)] = 1

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if not 1 <= self.inside <= MOST_FOUND:
            raise underclaimed("distance of its ends")
        return ExponentialLaw.certify(self, sensitivity)

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, and the rho of three choices, each with a third of the range."""
        plain = ExponentialLaw.proof(self, sensitivity)
        assert plain.tight is not None
        return replace(plain, tight=plain.tight / CHOICES)

    def scores(self, rows: Positions) -> tuple[Stretches, ...]:
        return interval_scores(rows, self.allowed.hull_steps, self.inside)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty((exact.shape[0], CHOICES), dtype=object)
        for group, (rows,) in enumerate(exact):
            for i, scores in enumerate(self.scores(rows)):
                first, counts, apart = self.runs(scores)
                run, place = self.law.draw_runs(counts, apart, bits)
                out[group, i] = int(first[run]) + place
        return out

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        """Return the interval of the value in its place; beyond the level it was aimed for, the whole range."""
        cells = self.cells(raw)
        low, high = cells.copy(), cells.copy()
        low[:, 0], high[:, 0] = cells[:, 1], cells[:, 2]
        if level > LEVEL:
            ends = self.cells(np.array([[0, self.law.candidates - 1]], dtype=object))[0]
            low[:, 0], high[:, 0] = ends
        return low, high

    @classmethod
    def calibrate(cls, code: Fixed, b: int, *, spread: int, epsilon: Fraction) -> IntervalLaw:
        """Return the draw of largest rate whose loss is at most `epsilon`.

        Raises:
            ArgumentError: as `ScoreLaw.calibrate`, or no ends can be found at this epsilon (DPR684).
        """
        law = ScoreLaw.calibrate(len(code.grid), spread=spread, epsilon=epsilon)
        error = law.score_error((1 + LEVEL) / 2)
        if error is None:
            raise ArgumentError(
                "no interval of a quantile can be found at this epsilon",
                why="the column has so many values that, at this epsilon, any of them may be chosen",
                fix="use a larger epsilon, a coarser step, or leave out `interval`",
                code="DPR684",
            )
        return cls(law, code.grid, code.step, inside=error // b + 1)


class RankInterval(Ranks):
    """The rows of one column value by value, for a quantile and both ends of its interval."""

    family = "rank_interval"
    draws = ("exponential_interval",)
    forms = ("rank_interval",)
    mechanisms = ("exponential",)
    interval = True

    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return one way; the price is that of the value, as if it were drawn by itself."""
        measurement, size, loss = pricing.measurement, pricing.size, pricing.loss
        code = code_of(measurement)
        (target,) = measurement.weights
        spread = pricing.sensitivity.l1_over_groups
        law = IntervalLaw.calibrate(code, target[1], spread=spread, epsilon=pricing.epsilon)
        error = exponential_error(law.law.rate, law.law.candidates, size, target, loss)
        error *= unit_of(code, loss)
        note = f"{aim(measurement)}, and {law.inside:,} rows before and after it"
        return [Candidate(measurement, law, (error,), (None,), note=note)]

    def together(self, members: list[Member], query: Query) -> list[Member]:
        """Return `members`, each of this family with the place of its value among the three."""
        del query
        own = [m.options[0].form in self.forms for m in members]
        return [replace(m, view=0) if mine else m for m, mine in zip(members, own, strict=True)]

    def error_text(self, law: Law, measurement: Measurement, view: int | None) -> str:
        del view
        assert isinstance(law, IntervalLaw)
        within = f"95 % interval within {2 * law.inside:,} rows in rank on either side"
        return f"{rank_error_text(law, measurement)}; {within}"

    def notes(self, law: Law, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        del view
        assert isinstance(law, IntervalLaw)
        said = [n for n in exponential_notes(law, measurement) if not n.startswith("no interval")]
        return (
            *said,
            f"its interval is made of two more choices, aimed {law.inside:,} rows before and after it; where fewer rows lie there, the domain's end",
            "both cost what the value itself does: without `interval` a third of epsilon would do for the same error in rank",
        )

    def typical(
        self, best: Candidate, member: Member, size: int, *, narrow: bool
    ) -> tuple[float, ...]:
        del member, size, narrow
        law = best.law
        assert isinstance(law, IntervalLaw)
        return (float(len(law.allowed) // 2),) * CHOICES


family = RankInterval()
