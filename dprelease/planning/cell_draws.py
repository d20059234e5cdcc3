"""Draws of cells: a public constant, one integer through a grid law, a vector with Laplace noise.

Each certifies its whole block from scratch and reads its own noisy integers back. The privacy
argument over several groups is in `draws`.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Sources: `docs/theory/certificates.md#additive-noise`,
`docs/theory/sensitivities-and-contribution-bounding.md#several-groups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.entropy import RandomBits
from dprelease.errors import InternalError
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.law import GridLaw, law_from_json
from dprelease.numeric import fraction_from_json, whole_from_json
from dprelease.sensitivity import Sensitivity

__all__ = [
    "RAW_LIMIT",
    "AddedNoise",
    "CellDraw",
    "ConstantDraw",
    "Draw",
    "Objects",
    "ScalarDraw",
    "scalar_from_json",
    "steps_moved",
    "underclaimed",
]

Objects = npt.NDArray[np.object_]
RAW_LIMIT = 2**254
"""Noisy integers saturate here, so that every ledger record has the same width: products of two squared
columns of 37 bits, at an epsilon of 10**-9 and 2**48 rows, stay far below."""


@dataclass(frozen=True, slots=True)
class AddedNoise:
    """What a draw adds to every exact cell: for readers who compute with several values.

    A noisy integer k stands for `offset + pitch * k`, its noise is `pitch` times a draw of `noise`,
    and rounding to the grid moved the cell by at most `moved` steps before. `noise` is None for a
    public constant.
    """

    noise: Any
    pitch: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    moved: Fraction = Fraction(0)


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

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        """Return where the noisy cells are some that this law can draw, however unlikely."""

    def to_json(self) -> dict[str, Any]:
        """Return the draw, exactly."""


def floats(values: Objects) -> Floats:
    return np.asarray(values.astype(np.float64))


def underclaimed(what: str) -> InternalError:
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
            raise underclaimed("sensitivity")
        return Fraction(0)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        del bits  # nothing is drawn
        return np.full((exact.shape[0], 1), self.value, dtype=object)

    def cells(self, raw: Objects) -> Floats:
        return floats(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        del level  # it is exact
        return floats(raw), floats(raw)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.zeros(raw.shape[0], dtype=bool)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(raw[:, 0] == self.value, dtype=bool)

    @property
    def added(self) -> AddedNoise:
        return AddedNoise(None)

    def to_json(self) -> dict[str, Any]:
        return {"draw": "constant", "value": self.value}


@runtime_checkable
class _Listed(Protocol):
    """A law that draws some of its allowed points only, and lists them."""

    outputs: tuple[int, ...]


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
            raise underclaimed("step")
        needed = steps_moved(sensitivity, self.pitch, self.step, linear=self.linear)
        if self.law.shift < needed or (not self.linear and self.touched < sensitivity.touched):
            raise underclaimed("sensitivity")
        # A law made for one group may cap its shift at its hull; an L1 total may not.
        spread = self.law.family in _LINEAR and getattr(self.law, "splits", False)
        if self.linear and sensitivity.touched > 1 and not spread:
            raise underclaimed("loss")
        times = 1 if self.linear else self.touched
        return times * self.law.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        num = (self.pitch / self.step).as_integer_ratio()
        shift = ((self.offset - self.origin) / self.step).as_integer_ratio()
        den = 2 * num[1] * shift[1]
        low, high = self.law.allowed.lower, self.law.allowed.upper
        answers = [
            min(
                max((2 * (int(c) * num[0] * shift[1] + shift[0] * num[1]) + den // 2) // den, low),
                high,
            )
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
        return self._values(low) - self.rounded, self._values(high) + self.rounded

    @property
    def added(self) -> AddedNoise | None:
        """The noise of an additive law; a law truncated to its domain adds none."""
        noise = getattr(self.law, "noise", None)
        half = Fraction(1, 2) if self.rounded else Fraction(0)
        return None if noise is None else AddedNoise(noise, self.step, self.origin, half)

    @property
    def rounded(self) -> float:
        """The most by which rounding to the grid moved the answer before the draw."""
        exact = (self.pitch / self.step).denominator == 1
        exact = exact and ((self.offset - self.origin) / self.step).denominator == 1
        return 0.0 if exact else float(self.step) / 2

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.zeros(raw.shape[0], dtype=bool)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        k = raw[:, 0].astype(np.int64)
        if isinstance(self.law, _Listed):
            return np.isin(k, self.law.outputs)
        return self.law.allowed.contains(self.law.finish(k))

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
    at most floor((q total + d (p - 1)) / p), and at most d times the most of one group
    (`docs/theory/sensitivities-and-contribution-bounding.md#several-groups`). Where nothing is
    rounded, p = 1 and it is q total.
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

    @property
    def added(self) -> AddedNoise:
        return AddedNoise(self.noise.noise)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.noise.l1_shift < sensitivity.total:
            raise underclaimed("sensitivity")
        return self.noise.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        noise = self.noise.sample(exact.size, bits).astype(object).reshape(exact.shape)
        return np.asarray(np.clip(exact + noise, -RAW_LIMIT, RAW_LIMIT))

    def _hull(self, values: Objects) -> Floats:
        upper = RAW_LIMIT if self.upper is None else self.upper
        return floats(np.clip(values, 0, upper))

    def cells(self, raw: Objects) -> Floats:
        return self._hull(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        share = 1 if self.upper is not None else self.count
        reach = self.noise.quantile(1 - (1 - level) / share)
        return self._hull(raw - reach), self._hull(raw + reach)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray((raw <= 0).all(axis=1)).astype(bool) & (self.upper is None)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.ones(raw.shape[0], dtype=bool)  # noise reaches every integer

    def to_json(self) -> dict[str, Any]:
        upper = None if self.upper is None else str(self.upper)
        return {
            "draw": "cells",
            "law": self.noise.to_json(),
            "count": self.count,
            "upper": upper,
            "mechanism": self.mechanism,
        }


def scalar_from_json(value: Mapping[str, Any]) -> ScalarDraw:
    return ScalarDraw(
        law=law_from_json(value["law"]),
        linear=value["linear"] is True,
        touched=whole_from_json(value["touched"], least=1),
        shift=whole_from_json(value["shift"], least=0),
        pitch=fraction_from_json(value["pitch"]),
        offset=fraction_from_json(value["offset"]),
        step=fraction_from_json(value["step"]),
        origin=fraction_from_json(value["origin"]),
    )
