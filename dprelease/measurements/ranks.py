"""The draw of one candidate per group by its score: quantiles, least and greatest values.

The exponential law's loss is linear in the spread, and spreads add up over the groups that a unit
touches, so one certificate at the total spread covers every way to distribute it, as for cells with
Laplace noise. The law is drawn for every group, empty ones too: their candidates are all alike.

A choice has no interval in its own unit (see `aggregates.quantile`): `box` is not-a-number. What
holds for all data is `rank_error`.

Units: candidates in steps of `step`; scores in rows times the target's denominator.
Shapes: exact `(groups, 1)`, the `ranks.Stretches` of each group; raw `(groups, 1)`, the candidate's
place among the allowed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.aggregates.ranks import Stretches
from dprelease.entropy import RandomBits
from dprelease.errors import ConfigError
from dprelease.measurements.draw import Draw, Objects, underclaimed
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.law import allowed_from_json, law_from_json
from dprelease.numeric import fraction_from_json
from dprelease.schema.domain import GridSet
from dprelease.sensitivity import Sensitivity

__all__ = ["ChoiceDraw"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ChoiceDraw(Draw):
    """One of the points of `allowed` (in steps) per group, by a law over their scores."""

    tag: ClassVar[str] = "choice"
    chooses: ClassVar[str] = "ranks"

    law: ScoreLaw
    allowed: GridSet
    step: Fraction

    many: int = 1

    @property
    def mechanism(self) -> str:
        return self.law.family

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.step <= 0 or self.law.candidates != len(self.allowed):
            raise underclaimed("number of candidates")
        if self.law.spread < sensitivity.total:
            raise underclaimed("sensitivity")
        return self.law.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty((exact.shape[0], 1), dtype=object)
        for group, (scores,) in enumerate(exact):
            first, counts, apart = self.runs(scores)
            run, place = self.law.draw_runs(counts, apart, bits)
            out[group, 0] = int(first[run]) + place
        return out

    def runs(self, scores: Stretches) -> tuple[Ints, Ints, Ints]:
        """Return (place of the first, number, score) of the runs of candidates of one group.

        Points inside a gap have a score too, and no row: they are simply no candidates.
        """
        at = self.allowed.places(scores.codes + self.allowed.lower)
        edges = np.concatenate([[-1], at, [self.law.candidates]])
        first, counts, apart = (np.zeros(2 * at.size + 1, dtype=np.int64) for _ in range(3))
        first[0::2], first[1::2] = edges[:-1] + 1, at
        counts[0::2], counts[1::2] = np.diff(edges) - 1, 1
        apart[0::2], apart[1::2] = scores.between, scores.at
        return first, counts, apart

    def cells(self, raw: Objects) -> Floats:
        num, den = self.step.as_integer_ratio()
        points = self.allowed.at(raw[:, 0].astype(np.int64))
        return np.asarray(points.astype(np.float64) * num / den)[:, None]

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        del level
        unknown = np.full((raw.shape[0], 1), np.nan)
        return unknown, unknown

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray((raw[:, 0] >= 0) & (raw[:, 0] < self.law.candidates), dtype=bool)

    def rank_error(self, denominator: int, level: float) -> int | None:
        """Return r: the chosen value is at most r rows from the target rank, at `level`.

        For all data that reach the target rank (n rows and more, for one n rows inside an end). None
        where the law does not tell candidates so far away apart.
        """
        reach = self.law.reach(level)
        return None if reach is None else (reach + denominator - 1) // denominator

    def evidence(self) -> dict[str, Any]:
        return {"law": self.law.certificate.to_json(), "groups_charged": 1}

    def to_json(self) -> dict[str, Any]:
        return {
            "draw": self.tag,
            "law": self.law.to_json(),
            "allowed": [[str(a), str(b)] for a, b in self.allowed.runs],
            "step": str(self.step),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ChoiceDraw:
        """Rebuild a choice.

        Raises:
            ConfigError: its law does not parse, or is one for numbers (DPR180).
        """
        law = law_from_json(value["law"])
        if not isinstance(law, ScoreLaw):
            raise ConfigError(
                "a stored choice has a law for numbers",
                fix="use the file as it was written",
                code="DPR180",
            )
        return cls(law, allowed_from_json(value["allowed"]), fraction_from_json(value["step"]))
