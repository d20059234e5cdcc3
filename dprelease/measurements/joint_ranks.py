"""The draw of several quantiles of one column together, in order: one choice per group.

One certificate at the total spread covers every way to distribute it over groups, as for a single choice
(`measurements.ranks`): the product of weights falls by at most r^spread whatever the unit moves, and groups
are drawn independently. The law is drawn for every group, empty ones too.

Units: candidates in steps of `step`; scores in rows / (b (LEVELS - 1)), b the targets' denominator.
Shapes: exact `(groups, 1)`, the `joint_ranks.Positions` of each group; raw `(groups, many)`, places of the
chosen points among the allowed ones, never falling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.aggregates.joint_ranks import LEVELS, Positions
from dprelease.entropy import RandomBits
from dprelease.errors import ConfigError
from dprelease.measurements.draw import Objects, underclaimed
from dprelease.measurements.ranks import ChoiceDraw
from dprelease.mechanisms.forms.joint_scores import Blocks, JointChoice
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.numeric import whole_from_json
from dprelease.schema.domain import GridSet
from dprelease.sensitivity import Sensitivity

__all__ = ["JointChoiceDraw", "outcomes"]

Ints = npt.NDArray[np.int64]
_KEPT = 4
"""Laws of groups that are kept for further groups with equal rows."""


def outcomes(points: int, many: int) -> int:
    """Return how many sequences of `many` candidates in order there are."""
    return math.comb(points * LEVELS + many - 1, many)


def _placed(blocks: Blocks, first: Ints, block: int, place: int) -> int:
    """Return the place among all points of the candidate at `place` of a block."""
    many = int(blocks.counts[block])
    return int(first[block]) + (place // LEVELS if many > 1 else 0)


@dataclass(frozen=True, slots=True)
class JointChoiceDraw(ChoiceDraw):
    """`many` of the points of `allowed` (in steps) per group, in order, by one law over their scores.

    The law's candidates are the outcomes: all sequences.
    """

    tag: ClassVar[str] = "joint_choice"
    chooses: ClassVar[str] = "joint_ranks"

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.many < 1 or self.law.candidates != outcomes(len(self.allowed), self.many):
            raise underclaimed("number of candidates")
        if self.step <= 0 or self.law.spread < sensitivity.total:
            raise underclaimed("sensitivity")
        return self.law.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty((exact.shape[0], self.many), dtype=object)
        made: dict[tuple[bytes, bytes], tuple[JointChoice, Blocks, Ints]] = {}
        for group, (rows,) in enumerate(exact):
            same = rows.codes.tobytes(), rows.upto.tobytes()  # equal rows have one law
            if same not in made:
                blocks, first = self.blocks(rows)
                made = made if len(made) < _KEPT else {}
                made[same] = JointChoice(self.law, blocks), blocks, first
            choice, blocks, first = made[same]
            out[group] = [_placed(blocks, first, *one) for one in choice.draw(bits)]
        return out

    def blocks(self, rows: Positions) -> tuple[Blocks, Ints]:
        """Return the candidates of one group in blocks of equal rank, and each block's first point."""
        places = self.allowed.places(rows.codes + self.allowed.lower)
        counts, ranks, first = rows.blocks(places, len(self.allowed))
        return Blocks(counts, ranks, *rows.aims), first

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

    def rank_error(self, denominator: int, level: float) -> int | None:
        """Return r: each chosen value is at most r rows from its target rank, all of them at `level`.

        A target that is missed by k rows costs its two gaps k rows each. Some rows more where many
        have one value, which no candidate splits exactly. None as for a single choice.
        """
        reach = self.law.reach(level)
        return None if reach is None else -(-reach // (2 * denominator * (LEVELS - 1)))

    def to_json(self) -> dict[str, Any]:
        return {**ChoiceDraw.to_json(self), "draw": self.tag, "many": self.many, "levels": LEVELS}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JointChoiceDraw:
        """Rebuild a choice.

        Raises:
            ConfigError: its law does not parse, is one for numbers, or has other levels (DPR180).
        """
        alone = ChoiceDraw.from_json(value)
        if whole_from_json(value["levels"]) != LEVELS:
            raise ConfigError(
                "a stored choice splits equal rows in another way than this version",
                fix="use the file as it was written",
                code="DPR180",
            )
        many = whole_from_json(value["many"], least=1)
        return cls(alone.law, alone.allowed, alone.step, many)

    @classmethod
    def calibrate(
        cls, allowed: GridSet, step: Fraction, many: int, *, spread: int, epsilon: Fraction
    ) -> JointChoiceDraw:
        """Return the choice of largest rate whose loss is at most `epsilon`; as `ScoreLaw.calibrate`."""
        law = ScoreLaw.calibrate(
            outcomes(len(allowed), many), spread=spread, epsilon=epsilon, joint=True
        )
        return cls(law, allowed, step, many)
