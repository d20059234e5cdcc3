"""A law stored as an explicit table of integers: one row per answer, or per bin of answers.

    P(y_k | q) = rows[i][k] / sum(rows[i]),    i = the row whose answers hold q.

Privacy. Every weight is at least 1, so all answers have the same support. The certificate is the
largest ratio over *all* pairs of rows that hold answers at most `reach` steps apart (answers in
gaps included) and over all outputs. It is found in float64, recomputed exactly, and widened by
2**-46, more than the float comparison can err.

Units    answers, outputs: grid steps; epsilon in nats.
Sources  `docs/theory/certificates.md#explicit-rows`.
Limits   few rows (`ROW_LIMIT`): randomised response and small optimal tables. The law need not be
         monotone in the answer, so intervals invert acceptance sets instead of tail chances.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.entropy import RandomBits
from dprelease.mechanisms.arguments import FloatArray, check_level
from dprelease.mechanisms.kernels.sampling import uniform_each
from dprelease.mechanisms.law import (
    Certificate,
    ExpectedError,
    GridRequest,
    IntArray,
    Loss,
    allowed_from_json,
    certify_ratio,
    choose_answers,
)
from dprelease.numeric import fraction_from_json, fraction_to_json
from dprelease.schema.domain import GridSet

__all__ = ["ROW_LIMIT", "RowLaw"]

ROW_LIMIT = 64
_TOTAL_LIMIT = 2**55
_SLACK = 1 + Fraction(1, 2**46)


@dataclass(frozen=True, slots=True)
class RowLaw:
    """An integer table. Satisfies `GridLaw`.

    Attributes:
        starts: first answer of each row, increasing; the last row ends at the hull's upper end.
        outputs: allowed points, increasing, shape `(outputs,)`.
        rows: integer weights, at least 1, shape `(rows, outputs)`.
    """

    family: str
    allowed: GridSet
    shift: int
    epsilon: Fraction
    loss: Loss
    starts: tuple[int, ...]
    outputs: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]

    @property
    def certificate(self) -> Certificate:
        return _certificate(self)

    def certify(self) -> Certificate:
        """Recompute the proof from the integers: every pair of rows within reach."""
        reach = GridRequest(self.allowed, self.shift, self.epsilon).reach
        chance = np.array(self.rows, dtype=np.float64)
        chance /= np.array([sum(row) for row in self.rows], dtype=np.float64)[:, None]
        ends = np.array([*self.starts[1:], self.allowed.upper + 1], dtype=np.int64) - 1
        begins = np.array(self.starts, dtype=np.int64)
        worst, pairs = Fraction(1), 0
        for lag in range(1, len(self.rows)):
            near = np.flatnonzero(begins[lag:] - ends[:-lag] <= reach)
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
            "largest weight ratio over all pairs of rows within reach, widened by 2**-46",
            rows=len(self.rows), outputs=len(self.outputs), reach=reach, pairs=pairs,
        )  # fmt: skip

    def _chance(self, row: int, k: int) -> Fraction:
        return Fraction(self.rows[row][k], sum(self.rows[row]))

    def _row_of(self, answers: IntArray) -> npt.NDArray[np.intp]:
        clamped = np.clip(answers, self.allowed.lower, self.allowed.upper)
        begins = np.array(self.starts, dtype=np.int64)
        return np.searchsorted(begins, clamped, side="right") - 1

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

    def finish(self, raw: IntArray) -> IntArray:
        """Return `raw`: every draw is allowed already."""
        return raw

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return the hull of {q : y in A(q)}, A(q) the likeliest outputs of chance >= level.

        Covers every answer at `level`, monotone law or not.
        """
        check_level(level)
        lows, highs = _accepting(self, level)
        column = np.searchsorted(np.array(self.outputs, dtype=np.int64), raw)
        column = np.minimum(column, len(self.outputs) - 1)
        return lows[column], highs[column]

    def expected_error(self) -> ExpectedError:
        """Return the error over answers uniform on the hull (a subset of them if it is large)."""
        return _expected_error(self)

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: exact probability}, Fractions that sum to 1."""
        row = int(self._row_of(np.array([answer], dtype=np.int64))[0])
        return {y: self._chance(row, k) for k, y in enumerate(self.outputs)}

    def to_json(self) -> dict[str, Any]:
        """Return all integers of the law."""
        return {
            "family": self.family,
            "allowed": [list(run) for run in self.allowed.runs],
            "shift": self.shift,
            "epsilon": fraction_to_json(self.epsilon),
            "loss": self.loss,
            "starts": list(self.starts),
            "outputs": list(self.outputs),
            "rows": [list(row) for row in self.rows],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RowLaw:
        """Rebuild a law; ValueError if the numbers are no table over the allowed set."""
        allowed = allowed_from_json(value["allowed"])
        starts = tuple(int(q) for q in value["starts"])
        outputs = tuple(int(y) for y in value["outputs"])
        rows = tuple(tuple(int(w) for w in row) for row in value["rows"])
        sound = (
            value["loss"] in ("absolute", "squared")
            and 1 <= len(starts) == len(rows) <= ROW_LIMIT
            and starts[0] == allowed.lower
            and starts[-1] <= allowed.upper
            and all(a < b for line in (starts, outputs) for a, b in pairwise(line))
            and all(y in allowed for y in outputs)
            and all(len(row) == len(outputs) and min(row) >= 1 for row in rows)
            and all(sum(row) <= _TOTAL_LIMIT for row in rows)
        )
        if not sound or not outputs:
            raise ValueError("rows")
        return cls(
            str(value["family"]), allowed, int(value["shift"]),
            fraction_from_json(value["epsilon"]), value["loss"], starts, outputs, rows,
        )  # fmt: skip

    def describe(self) -> str:
        """Return one line for a plan."""
        return f"{self.family} ({len(self.rows)} rows, {len(self.outputs)} outputs)"


@lru_cache(maxsize=64)
def _certificate(law: RowLaw) -> Certificate:
    return law.certify()


@lru_cache(maxsize=64)
def _sums(law: RowLaw) -> tuple[IntArray, IntArray]:
    """Return totals per row, and the running sum over the flattened table; below 2**62."""
    table = np.array(law.rows, dtype=np.int64)
    return table.sum(axis=1), np.cumsum(table.ravel())


@lru_cache(maxsize=64)
def _accepting(law: RowLaw, level: float) -> tuple[IntArray, IntArray]:
    chance = np.array(law.rows, dtype=np.float64)
    chance /= chance.sum(axis=1, keepdims=True)
    order = np.argsort(-chance, axis=1, kind="stable")
    before = np.cumsum(np.take_along_axis(chance, order, axis=1), axis=1)
    before -= np.take_along_axis(chance, order, axis=1)
    chosen = np.zeros(chance.shape, dtype=bool)
    # Keep an output while what stands before it misses the level, with room for rounding.
    np.put_along_axis(chosen, order, before < level + 1e-9, axis=1)
    begins = np.array(law.starts, dtype=np.int64)
    ends = np.array([*law.starts[1:], law.allowed.upper + 1], dtype=np.int64) - 1
    some = chosen.any(axis=0)
    lows = np.where(some, begins[chosen.argmax(axis=0)], law.allowed.lower)
    highs = np.where(some, ends[len(law.rows) - 1 - chosen[::-1].argmax(axis=0)], law.allowed.upper)
    return lows, highs


@lru_cache(maxsize=256)
def _expected_error(law: RowLaw) -> ExpectedError:
    answers, share = choose_answers(law.allowed, 1025)
    edges = {*law.starts, *(q - 1 for q in law.starts[1:])}
    marks = np.array(sorted(edges), dtype=np.int64)  # the error is convex within a row
    at_ends = _errors(law, marks)
    errors = _errors(law, answers)
    return ExpectedError(float(errors @ share), float(max(errors.max(), at_ends.max())))


def _errors(law: RowLaw, answers: IntArray) -> FloatArray:
    chance = np.array(law.rows, dtype=np.float64)
    chance /= chance.sum(axis=1, keepdims=True)
    gap = np.abs(answers[:, None] - np.array(law.outputs, dtype=np.int64)[None, :])
    cost = gap.astype(np.float64) if law.loss == "absolute" else gap.astype(np.float64) ** 2
    out: FloatArray = (cost * chance[law._row_of(answers)]).sum(axis=1)  # noqa: SLF001
    return out
