"""How a block is drawn, certified and read back: one small class per encoding family.

A `Draw` is public: the law, how many groups one unit can touch, the grid. It offers

    certify(s)   the exact loss of the whole block for a sensitivity s, recomputed from scratch
    draw         exact cells -> noisy integers; the wall is its only caller
    cells, box   noisy integers -> cell values and their confidence box: post-processing
    to_json      everything needed to do all of that again, with no data

Privacy of a block. `linear`: the law's loss is linear in the shift (discrete Laplace), so one
certificate at the L1 sensitivity over all groups covers every way a unit can spread it.
Otherwise each touched group is charged by itself, sequentially: touched * loss(in_group).

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Sources: mechanisms 5 and 6; semantics 1.5, 4.1, 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.entropy import RandomBits
from dprelease.errors import ArgumentError, InternalError
from dprelease.mechanisms.discrete_laplace_noise import CellNoise
from dprelease.mechanisms.law import GridLaw, GridRequest, grid_laws, law_from_json
from dprelease.numeric import floor_half_up
from dprelease.schema.domain import GridSet
from dprelease.sensitivity import Sensitivity

__all__ = [
    "CellDraw",
    "ConstantDraw",
    "Draw",
    "MeanDraw",
    "ScalarDraw",
    "draw_from_json",
    "mean_reach",
    "steps_moved",
]

Objects = npt.NDArray[np.object_]
RAW_LIMIT = 2**126
"""Noisy integers saturate here, so that every ledger record has the same width."""


class Draw(Protocol):
    """One block's law."""

    @property
    def mechanism(self) -> str:
        """The family drawn from."""

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        """Return the proved loss of the block; raises InternalError if it claims too little."""

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        """Return noisy integers."""

    def cells(self, raw: Objects) -> Floats:
        """Return the cell values that aggregates post-process."""

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        """Return simultaneous confidence bounds of the cells (Bonferroni)."""

    @property
    def noise_scale(self) -> float | None:
        """Scale of the discrete Laplace noise on every cell, if that is the law."""

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        """Return where the noisy cells hold no signal at all."""

    def to_json(self) -> dict[str, Any]:
        """Return the draw, exactly."""


def _floats(values: Objects) -> Floats:
    return np.asarray(values.astype(np.float64))


def _underclaimed(what: str) -> InternalError:
    return InternalError(
        f"the plan claims a smaller {what} than its query has",
        why="the wall recomputes every sensitivity and trusts no price",
        fix="make the plan again with this version of dprelease",
        code="DPR901",
    )


@dataclass(frozen=True, slots=True)
class ConstantDraw:
    """A public number; nothing is drawn."""

    value: int
    mechanism: str = "public_constant"
    noise_scale: float | None = None

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if sensitivity.total != 0:
            raise _underclaimed("sensitivity")
        return Fraction(0)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        del bits  # nothing is drawn
        return np.full((exact.shape[0], 1), self.value, dtype=object)

    def cells(self, raw: Objects) -> Floats:
        return _floats(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        del level  # it is exact
        return _floats(raw), _floats(raw)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.zeros(raw.shape[0], dtype=bool)

    def to_json(self) -> dict[str, Any]:
        return {"draw": "constant", "value": self.value}


@dataclass(frozen=True, slots=True)
class ScalarDraw:
    """One integer per group through a grid law.

    The exact cell c stands for `offset + pitch * c`; the law works on k = R((value - origin)/step).
    """

    law: GridLaw
    linear: bool
    touched: int
    shift: int
    pitch: Fraction
    offset: Fraction
    step: Fraction
    origin: Fraction

    @property
    def mechanism(self) -> str:
        return self.law.family

    @property
    def noise_scale(self) -> float | None:
        return None

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.pitch <= 0 or self.step <= 0:
            raise _underclaimed("step")
        needed = steps_moved(sensitivity, self.pitch, self.step, linear=self.linear)
        if self.law.shift < needed or (not self.linear and self.touched < sensitivity.touched):
            raise _underclaimed("sensitivity")
        # A law made for one group may cap its shift at its hull; an L1 total may not.
        spread = self.law.family in _LINEAR and getattr(self.law, "splits", False)
        if self.linear and sensitivity.touched > 1 and not spread:
            raise _underclaimed("loss")
        times = 1 if self.linear else self.touched
        return times * self.law.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        num = (self.pitch / self.step).as_integer_ratio()
        shift = ((self.offset - self.origin) / self.step).as_integer_ratio()
        den = 2 * num[1] * shift[1]
        low, high = self.law.allowed.lower, self.law.allowed.upper
        answers = [
            min(max((2 * (int(c) * num[0] * shift[1] + shift[0] * num[1]) + den // 2) // den, low), high)
            for c in exact[:, 0]
        ]
        raw = self.law.draw_raw(np.array(answers, dtype=np.int64), bits)
        return raw.astype(object)[:, None]

    def _values(self, k: npt.NDArray[np.int64]) -> Floats:
        num, den = (self.step).as_integer_ratio()
        scaled = k.astype(np.float64) * num / den
        return (scaled + float(self.origin))[:, None]

    def cells(self, raw: Objects) -> Floats:
        return self._values(self.law.finish(raw[:, 0].astype(np.int64)))

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        low, high = self.law.interval(raw[:, 0].astype(np.int64), level)
        return self._values(low) - self._rounded, self._values(high) + self._rounded

    @property
    def _rounded(self) -> float:
        """The most by which rounding to the grid moved the answer before the draw."""
        exact = (self.pitch / self.step).denominator == 1
        exact = exact and ((self.offset - self.origin) / self.step).denominator == 1
        return 0.0 if exact else float(self.step) / 2

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.zeros(raw.shape[0], dtype=bool)

    def to_json(self) -> dict[str, Any]:
        return {
            "draw": "scalar",
            "law": self.law.to_json(),
            "linear": self.linear,
            "touched": self.touched,
            "shift": self.shift,
            "pitch": str(self.pitch),
            "offset": str(self.offset),
            "step": str(self.step),
            "origin": str(self.origin),
        }


def steps_moved(s: Sensitivity, pitch: Fraction, step: Fraction, *, linear: bool) -> int:
    """Return how many grid steps rounded answers move: in one group, or (linear) in all together.

    A group whose cell moves by the integer c moves by at most ceil(c pitch / step) steps. Over d
    groups that really move (at most the touched ones, at most one per cell step) the sum is *not*
    ceil(total pitch / step): with pitch / step = q / p each ceiling adds up to (p - 1) / p, so it is
    at most floor((q total + d (p - 1)) / p), and at most d times the most of one group (semantics
    2.3). Where nothing is rounded, p = 1 and it is q total.
    """
    q, p = (pitch / step).as_integer_ratio()
    each = -(-s.in_group * q // p)
    if not linear:
        return each
    moving = min(s.touched, s.total)
    return min(moving * each, (q * s.total + moving * (p - 1)) // p)


_LINEAR = ("discrete_laplace", "rectified_laplace")
"""Families whose loss is linear in the shift, the only ones that may cover a spread-out shift."""


@dataclass(frozen=True, slots=True)
class CellDraw:
    """Non-negative integer cells with independent discrete Laplace noise, raised to 0 after."""

    noise: CellNoise
    count: int
    upper: int | None = None
    mechanism: str = "discrete_laplace"  # or "rectified_laplace": raised to 0, it is both

    @property
    def noise_scale(self) -> float | None:
        return float(self.noise.scale)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.noise.l1_shift < sensitivity.total:
            raise _underclaimed("sensitivity")
        return self.noise.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        noise = self.noise.sample(exact.size, bits).astype(object).reshape(exact.shape)
        return np.asarray(np.clip(exact + noise, -RAW_LIMIT, RAW_LIMIT))

    def _hull(self, values: Objects) -> Floats:
        upper = RAW_LIMIT if self.upper is None else self.upper
        return _floats(np.clip(values, 0, upper))

    def cells(self, raw: Objects) -> Floats:
        return self._hull(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        share = 1 if self.upper is not None else self.count
        reach = self.noise.quantile(1 - (1 - level) / share)
        return self._hull(raw - reach), self._hull(raw + reach)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray((raw <= 0).all(axis=1)).astype(bool) & (self.upper is None)

    def to_json(self) -> dict[str, Any]:
        upper = None if self.upper is None else str(self.upper)
        return {
            "draw": "cells",
            "law": self.noise.to_json(),
            "count": self.count,
            "upper": upper,
            "mechanism": self.mechanism,
        }


@dataclass(frozen=True, slots=True)
class MeanDraw:
    """A mean without atoms when the size is private (semantics 4.2).

    First a noisy size n' >= 1 is released, then clamp(c + S(x - c)/n', l, u) through a truncated
    law. One move (at most m rows more or fewer in one group) changes that quotient by at most
    `reach` / n' = m w / (2 n'), for *any* n', because n' is already a differentially private
    output. Any change of one unit is a chain of at most `moves` such moves through answers inside
    the hull, so the losses add up to at most moves * epsilon. The integer shift is rounded up to
    three significant bits, so that few laws serve many groups.

    Raw cells per group: (noisy size, output step).
    """

    size: ScalarDraw
    allowed: GridSet
    step: Fraction
    reach: Fraction
    epsilon: Fraction
    moves: int
    scale: int
    pitch: Fraction
    offset: Fraction
    mechanism: str
    loss: str = "absolute"
    noise_scale: float | None = None

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.moves < sensitivity.moves:
            raise _underclaimed("number of moves")
        if min(self.epsilon, self.step, self.pitch) <= 0:
            raise _underclaimed("loss")
        if self.reach < mean_reach(sensitivity, self.scale * self.pitch):
            raise _underclaimed("sensitivity")
        return self.size.certify(sensitivity) + self.moves * self.epsilon

    def law(self, size: int) -> GridLaw:
        """Return the certified law for the released size."""
        return _mean_law(self.allowed, self.shift(size), self.epsilon, self.mechanism, self.loss)

    def shift(self, size: int) -> int:
        """Return the sensitivity in grid steps for the released size, rounded up."""
        exact = -(-self.reach // (max(1, size) * self.step))
        steps = max(1, min(int(exact), self.allowed.hull_steps))
        block = 1 << max(0, steps.bit_length() - 3)
        return -(-steps // block) * block

    def _sizes(self, raw: Objects) -> list[int]:
        return [max(1, int(v)) for v in self.size.cells(raw[:, :1])[:, 0]]

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        noisy = self.size.draw(exact[:, :1], bits)
        out = np.concatenate([noisy, noisy], axis=1)
        sizes = self._sizes(noisy)
        half = Fraction(self.scale, 2)
        centre = self.offset + half * self.pitch
        answers = np.array(
            [
                min(
                    max(
                        floor_half_up((centre + self.pitch * (s - half * n) / size) / self.step),
                        self.allowed.lower,
                    ),
                    self.allowed.upper,
                )
                for (n, s), size in zip(exact.tolist(), sizes, strict=True)
            ],
            dtype=np.int64,
        )
        for rows, law in self._by_law(sizes):
            out[rows, 1] = law.draw_raw(answers[rows], bits).astype(object)
        return out

    def _by_law(self, sizes: list[int]) -> list[tuple[npt.NDArray[np.int64], GridLaw]]:
        shifts = np.array([self.shift(s) for s in sizes], dtype=np.int64)
        out = []
        for shift in sorted(set(shifts.tolist())):
            rows = np.flatnonzero(shifts == shift)
            out.append((rows, self.law(sizes[int(rows[0])])))
        return out

    def _pair(self, raw: Objects, k: npt.NDArray[np.int64]) -> Floats:
        num, den = self.step.as_integer_ratio()
        return np.stack([self.size.cells(raw[:, :1])[:, 0], k.astype(np.float64) * num / den], axis=1)

    def cells(self, raw: Objects) -> Floats:
        return self._pair(raw, raw[:, 1].astype(np.int64))

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        """Invert the second law at the released size, then undo the noise of that size.

        The law's answer is c + (mean - c) n/n', clamped; with n in the size's own interval,
        mean - c = (answer - c) n'/n. Where the interval reaches an end of the hull, the answer
        may have been clamped there, and so does the result.
        """
        share = 1 - (1 - level) / 2
        low = np.zeros(raw.shape[0], dtype=np.int64)
        high = np.zeros(raw.shape[0], dtype=np.int64)
        outputs = raw[:, 1].astype(np.int64)
        sizes = self._sizes(raw)
        for rows, law in self._by_law(sizes):
            low[rows], high[rows] = law.interval(outputs[rows], share)
        size_low, size_high = self.size.box(raw[:, :1], share)
        lower, upper = self._pair(raw, low), self._pair(raw, high)
        lower[:, 1] -= float(self.step) / 2  # the answer was rounded to the grid before the draw
        upper[:, 1] += float(self.step) / 2
        centre = float(self.offset + self.scale * self.pitch / 2)
        n = np.array(sizes, dtype=np.float64)
        factors = (n / np.maximum(size_low[:, 0], 1.0), n / np.maximum(size_high[:, 0], 1.0))
        ends = [centre + (v[:, 1] - centre) * f for v in (lower, upper) for f in factors]
        hull = self._pair(raw, np.full(raw.shape[0], self.allowed.lower))[:, 1]
        lower[:, 1] = np.where(low == self.allowed.lower, hull, np.minimum.reduce(ends))
        hull = self._pair(raw, np.full(raw.shape[0], self.allowed.upper))[:, 1]
        upper[:, 1] = np.where(high == self.allowed.upper, hull, np.maximum.reduce(ends))
        lower[:, 0], upper[:, 0] = size_low[:, 0], size_high[:, 0]
        return lower, upper

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.zeros(raw.shape[0], dtype=bool)

    def to_json(self) -> dict[str, Any]:
        return {
            "draw": "mean",
            "size": self.size.to_json(),
            "allowed": [[str(a), str(b)] for a, b in self.allowed.runs],
            "step": str(self.step),
            "reach": str(self.reach),
            "epsilon": str(self.epsilon),
            "moves": self.moves,
            "scale": str(self.scale),
            "pitch": str(self.pitch),
            "offset": str(self.offset),
            "mechanism": self.mechanism,
            "loss": self.loss,
        }


def mean_reach(sensitivity: Sensitivity, width: Fraction) -> Fraction:
    """Return n' times the most one move changes c + S(x - c)/n'; `width` = u - l.

    `in_group` counts the rows of a move; each lies within half a range of c (semantics 4.2).
    """
    return sensitivity.in_group * width / 2


@lru_cache(maxsize=512)
def _mean_law(allowed: GridSet, shift: int, epsilon: Fraction, mechanism: str, loss: str) -> GridLaw:
    request = GridRequest(allowed, shift, epsilon, loss=loss, spikes=False)  # type: ignore[arg-type]
    for law in grid_laws(request):
        if law.family == mechanism:
            if law.certify().epsilon_upper > epsilon:
                raise _underclaimed("loss")
            return law
    raise ArgumentError(
        f"`{mechanism}` offers no law without atoms for this domain",
        fix="use mechanism: bounded_laplace",
        code="DPR623",
    )


def draw_from_json(value: Mapping[str, Any]) -> Draw:
    """Rebuild a draw from `to_json`; raises as `law_from_json` does."""
    match value["draw"]:
        case "constant":
            return ConstantDraw(value["value"])
        case "scalar":
            return _scalar_from_json(value)
        case "cells":
            upper = value["upper"]
            return CellDraw(
                CellNoise.from_json(value["law"]),
                value["count"],
                None if upper is None else int(upper),
                value["mechanism"],
            )
        case _:
            return MeanDraw(
                size=_scalar_from_json(value["size"]),
                allowed=GridSet(tuple((int(a), int(b)) for a, b in value["allowed"])),
                step=Fraction(value["step"]),
                reach=Fraction(value["reach"]),
                epsilon=Fraction(value["epsilon"]),
                moves=value["moves"],
                scale=int(value["scale"]),
                pitch=Fraction(value["pitch"]),
                offset=Fraction(value["offset"]),
                mechanism=value["mechanism"],
                loss=value["loss"],
            )


def _scalar_from_json(value: Mapping[str, Any]) -> ScalarDraw:
    return ScalarDraw(
        law=law_from_json(value["law"]),
        linear=value["linear"],
        touched=value["touched"],
        shift=value["shift"],
        pitch=Fraction(value["pitch"]),
        offset=Fraction(value["offset"]),
        step=Fraction(value["step"]),
        origin=Fraction(value["origin"]),
    )
