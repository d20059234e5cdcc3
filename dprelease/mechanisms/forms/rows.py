"""A law stored as an explicit table of integers: one row per answer, or per bin of answers.

    P(y_k | q) = rows[i][k] / sum(rows[i]),    i = the row whose answers hold q.

Privacy. Every weight is at least 1, so all answers have the same support. The certificate is the
largest ratio over *all* pairs of rows that hold answers at most `distance` steps apart (answers in
gaps included) and over all outputs. It is found in float64, recomputed exactly, and widened by
2**-46, more than the float comparison can err.

Units    answers, outputs: grid steps; epsilon in nats.
Sources  `docs/theory/intervals.md#explicit-tables`;
         `docs/theory/certificates.md#explicit-rows`.
Limits   few rows (`ROW_LIMIT`): optimal tables of small grids. The law need not be monotone
         in the answer, so intervals invert acceptance sets instead of tail chances.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import RandomBits
from dprelease.mechanisms.arguments import FloatArray, IntArray, check_level
from dprelease.mechanisms.certificate import Certificate, certify_ratio
from dprelease.mechanisms.forms.base import ScalarLaw
from dprelease.mechanisms.forms.hull_interval import MIDDLE
from dprelease.mechanisms.kernels.sampling import uniform_each
from dprelease.mechanisms.law import Ends, ExpectedError, choose_answers

ROW_LIMIT = 64
_TOTAL_LIMIT = 2**55
_SLACK = 1 + Fraction(1, 2**46)


@dataclass(frozen=True, slots=True)
class RowLaw(ScalarLaw):
    """An integer table. Satisfies `GridLaw`.

    Attributes:
        starts: first answer of each row, increasing; the last row ends at the hull's upper end.
        outputs: allowed points, increasing, shape `(outputs,)`.
        rows: integer weights, at least 1, shape `(rows, outputs)`.
    """

    family: str
    starts: tuple[int, ...]
    outputs: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    def certify(self) -> Certificate:
        """Recompute the proof from the integers: every pair of rows within the capped sensitivity."""
        distance = self.capped_sensitivity
        chance = np.array(self.rows, dtype=np.float64)
        chance /= np.array([sum(row) for row in self.rows], dtype=np.float64)[:, None]
        begins, ends = _ranges(self)
        worst, pairs = Fraction(1), 0
        for lag in range(1, len(self.rows)):
            near = np.flatnonzero(begins[lag:] - ends[:-lag] <= distance)
            if not near.size:
                break  # rows further apart hold answers further apart
            pairs += near.size
            ratio = chance[near] / chance[near + lag]
            for up, at in ((True, int(ratio.argmax())), (False, int(ratio.argmin()))):
                i, k = divmod(at, len(self.outputs))
                one, other = int(near[i]), int(near[i]) + lag
                exact = self._chance(one, k) / self._chance(other, k)
                worst = max(worst, exact if up else 1 / exact)
        return certify_ratio(
            self.family, worst * _SLACK if pairs else worst, self.epsilon,
            "largest weight ratio over all pairs of rows within that distance, widened by 2**-46",
            rows=len(self.rows), outputs=len(self.outputs), distance=distance, pairs=pairs,
        )  # fmt: skip

    def _chance(self, row: int, k: int) -> Fraction:
        return Fraction(self.rows[row][k], sum(self.rows[row]))

    def _row_of(self, answers: IntArray) -> npt.NDArray[np.intp]:
        begins = np.array(self.starts, dtype=np.int64)
        return np.searchsorted(begins, self.clamp(answers), side="right") - 1

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Return one exact draw per clamped answer, an allowed point; shape `(groups,)`."""
        totals, cumulated = _sums(self)
        row = self._row_of(answers)
        goal = (
            uniform_each(totals[row], bits)
            + (cumulated[len(self.outputs) - 1 :: len(self.outputs)] - totals)[row]
        )
        column = np.searchsorted(cumulated, goal, side="right") - row * len(self.outputs)
        out: IntArray = np.array(self.outputs, dtype=np.int64)[column]
        return out

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return the hull of {q : y in A(q)}, A(q) the likeliest outputs of chance >= level.

        Covers every answer at `level`, monotone law or not.
        """
        check_level(level)
        lows, highs = _accepting(self, level)
        column = np.searchsorted(np.array(self.outputs, dtype=np.int64), raw)
        column = np.minimum(column, len(self.outputs) - 1)
        return lows[column], highs[column]

    def median_unbiased(self, raw: IntArray) -> FloatArray:
        """Return the middle of the first and the last answer whose median `raw` may be."""
        lows, highs = _medians(self)
        place = np.searchsorted(np.array(self.outputs, dtype=np.int64), raw)
        place = np.minimum(place, len(self.outputs) - 1)
        return np.asarray(lows[place] + (highs[place] - lows[place]) / 2)

    def price(self, near: Ends | None) -> ExpectedError:
        answers, share = choose_answers(self.allowed, 1025, near)
        edges = {*self.starts, *(q - 1 for q in self.starts[1:])}
        marks = np.array(sorted(edges), dtype=np.int64)  # the error is convex within a row
        errors = self._errors(answers)
        worst = max(errors.max(), self._errors(marks).max())
        return ExpectedError(float(errors @ share), float(worst))

    def _errors(self, answers: IntArray) -> FloatArray:
        gap = np.abs(answers[:, None] - np.array(self.outputs, dtype=np.int64)[None, :])
        cost = gap.astype(np.float64) if self.loss == "absolute" else gap.astype(np.float64) ** 2
        out: FloatArray = (cost * _chances(self)[self._row_of(answers)]).sum(axis=1)
        return out

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: exact probability}, Fractions that sum to 1."""
        row = int(self._row_of(np.array([answer], dtype=np.int64))[0])
        return {y: self._chance(row, k) for k, y in enumerate(self.outputs)}

    def completed(self) -> RowLaw:
        """Return the law; ValueError if its numbers are not a table over the allowed set."""
        starts, outputs, rows, allowed = self.starts, self.outputs, self.rows, self.allowed
        sound = (
            1 <= len(starts) == len(rows) <= ROW_LIMIT
            and starts[0] == allowed.lower
            and starts[-1] <= allowed.upper
            and all(a < b for line in (starts, outputs) for a, b in pairwise(line))
            and all(y in allowed for y in outputs)
            and all(len(row) == len(outputs) and min(row) >= 1 for row in rows)
            and all(sum(row) <= _TOTAL_LIMIT for row in rows)
        )
        if not sound or not outputs:
            raise ValueError("rows")
        return self

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} ({len(self.rows)} rows, {len(self.outputs)} outputs)"


def _chances(law: RowLaw) -> FloatArray:
    """Return P(y_k | row i), shape `(rows, outputs)`."""
    out = np.array(law.rows, dtype=np.float64)
    out /= out.sum(axis=1, keepdims=True)
    return out


def _ranges(law: RowLaw) -> tuple[IntArray, IntArray]:
    """Return the first and the last answer of each row."""
    ends = np.array([*law.starts[1:], law.allowed.upper + 1], dtype=np.int64) - 1
    return np.array(law.starts, dtype=np.int64), ends


@lru_cache(maxsize=64)
def _sums(law: RowLaw) -> tuple[IntArray, IntArray]:
    """Return totals per row, and the running sum over the flattened table; below 2**62."""
    table = np.array(law.rows, dtype=np.int64)
    return table.sum(axis=1), np.cumsum(table.ravel())


@lru_cache(maxsize=64)
def _accepting(law: RowLaw, level: float) -> tuple[IntArray, IntArray]:
    chance = _chances(law)
    order = np.argsort(-chance, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(chance, order, axis=1), axis=1)
    before -= np.take_along_axis(chance, order, axis=1)
    chosen = np.zeros(chance.shape, dtype=bool)
    # Keep an output while what stands before it misses the level, with room for rounding.
    np.put_along_axis(chosen, order, before < level + 1e-9, axis=1)
    return _first_and_last(law, chosen, chosen, (law.allowed.lower, law.allowed.upper))


@lru_cache(maxsize=64)
def _medians(law: RowLaw) -> tuple[IntArray, IntArray]:
    """Return, per output, the first answer with P(Y >= y) and the last with P(Y <= y) of half."""
    chance = _chances(law)
    upto = np.cumsum(chance, axis=1)
    half = 0.5 * (1 - MIDDLE)
    up, down = 1 - upto + chance >= half, upto >= half
    return _first_and_last(law, up, down, (law.allowed.upper, law.allowed.lower))


def _first_and_last(
    law: RowLaw,
    first: npt.NDArray[np.bool_],
    last: npt.NDArray[np.bool_],
    none: tuple[int, int],
) -> tuple[IntArray, IntArray]:
    """Return, per output, the first answer of the first row chosen and the last of the last."""
    begins, ends = _ranges(law)
    lows = np.where(first.any(axis=0), begins[first.argmax(axis=0)], none[0])
    highs = np.where(last.any(axis=0), ends[len(law.rows) - 1 - last[::-1].argmax(axis=0)], none[1])
    return lows, highs
