"""One integer per group through a grid law.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, 1)`, Python integers.
Sources: `docs/theory/certificates.md#additive-noise`,
`docs/theory/sensitivities-and-contribution-bounding.md#several-groups`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.budget.composition import Proof
from dprelease.entropy import RandomBits
from dprelease.measurements.draw import AddedNoise, Draw, Objects, placed, underclaimed
from dprelease.mechanisms.companion import median_unbiased, unbiased
from dprelease.mechanisms.law import GridLaw, law_from_json
from dprelease.numeric import fraction_from_json, whole_from_json
from dprelease.sensitivity import Sensitivity

__all__ = ["ScalarDraw", "steps_moved"]


@runtime_checkable
class _Listed(Protocol):
    """A law that draws some of its allowed points only, and lists them."""

    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScalarDraw(Draw):
    """One integer per group through a grid law.

    The exact cell c stands for `offset + pitch * c`; the law works on k = R((value - origin)/step).
    """

    tag: ClassVar[str] = "scalar"

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
    def apart(self) -> bool:
        return not self.linear

    @property
    def covered(self) -> int:
        return self.touched

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

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, or one of each touched group: they are drawn by themselves.

        One unit moves at most `touched` of them, so these are that many independent pure losses,
        which composition may use.
        """
        if self.linear:
            return Draw.proof(self, sensitivity)
        total = self.certify(sensitivity)
        return Proof(pure=(total / self.touched,) * self.touched)

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
        return placed(k.astype(np.float64), self.step, self.origin)[:, None]

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

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        k = raw[:, 0].astype(np.int64)
        if isinstance(self.law, _Listed):
            return np.isin(k, self.law.outputs)
        return self.law.allowed.contains(self.law.finish(k))

    @property
    def variance(self) -> float:
        error = self.law.expected_error().average
        absolute = getattr(self.law, "loss", "absolute") == "absolute"
        return 2 * error**2 if absolute else error  # exact for a Laplace law

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        steps = raw[:, 0].astype(np.int64)
        pair = median_unbiased(self.law, steps), unbiased(self.law, steps)
        middle, centre = (placed(k, self.step, self.origin)[:, None] for k in pair)
        return middle, centre

    def evidence(self) -> dict[str, Any]:
        return {
            "law": self.law.certificate.to_json(),
            "groups_charged": 1 if self.linear else self.touched,
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "draw": self.tag,
            "law": self.law.to_json(),
            "linear": self.linear,
            "touched": self.touched,
            "shift": self.shift,
            "pitch": str(self.pitch),
            "offset": str(self.offset),
            "step": str(self.step),
            "origin": str(self.origin),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ScalarDraw:
        return cls(
            law=law_from_json(value["law"]),
            linear=value["linear"] is True,
            touched=whole_from_json(value["touched"], least=1),
            shift=whole_from_json(value["shift"], least=0),
            pitch=fraction_from_json(value["pitch"]),
            offset=fraction_from_json(value["offset"]),
            step=fraction_from_json(value["step"]),
            origin=fraction_from_json(value["origin"]),
        )


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
