"""How a block is drawn, certified and read back: one small class per law, in its measurement's file.

A `Law` is public: the law, how many groups one unit can touch, the grid. It offers

    certify(s)   the exact loss of the whole block for a sensitivity s, recomputed from scratch
    draw         exact cells -> noisy integers; the wall is its only caller
    cells, box   noisy integers -> cell values and their confidence box: post-processing
    companions   noisy integers -> median-unbiased and unbiased cell values: post-processing
    to_json      everything needed to do all of that again, with no data

Privacy of a block. `linear`: the law's loss is linear in the sensitivity (discrete Laplace), so one
certificate at the L1 sensitivity over all groups covers every way a unit can spread it.
Otherwise the losses of changed groups add up (sequential composition): changed_groups * loss(per_group).

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#several-groups`,
`docs/theory/certificates.md#what-a-certificate-says`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import methodcaller
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from dprelease.budget.composition import Proof
from dprelease.core import registry
from dprelease.core.codec import Stored
from dprelease.core.codec_notes import WrittenAs
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import InternalError
from dprelease.intervals.noise import IntegerNoise
from dprelease.statistics.base import Floats, Reading
from dprelease.statistics.sensitivity import Sensitivity

if TYPE_CHECKING:
    from dprelease.measurements.members import Loss, Member
    from dprelease.mechanisms.forms.balanced import BalancedNoise

Objects = npt.NDArray[np.object_]
Ends = tuple[Fraction | float, Fraction | float]
"""The least and the greatest value, exact where they are finite."""

RAW_LIMIT = 2**254
"""Noisy integers saturate here, so that every ledger record has the same width: products of two squared
columns of 37 bits, at an epsilon of 10**-9 and 2**48 rows, stay far below."""


PROPOSED = frozenset({"p", "m", "rate", "noise", "starts", "outputs", "rows", "multiplier"})
"""Keys of a law's JSON that a solver or a root finder proposes."""


@dataclass(frozen=True, slots=True)
class AddedNoise:
    """What a draw adds to every exact cell: for readers who compute with several values.

    A noisy integer k stands for `offset + step_size * k`, its noise is `step_size` times a draw of `noise`,
    and rounding to the grid moved the cell by at most `rounding` steps before. `noise` is None for a
    public constant.
    """

    noise: IntegerNoise | None
    step_size: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    rounding: Fraction = Fraction(0)


class Law(Stored, ABC):
    """One block's law. What most laws say is said here; a law's file says what is different.

    Attributes:
        tag: names the class in a plan's JSON and in `dprelease.core.registry`.
        gaussian: its noise is normal, which has no pure loss but a rho.
        bound: the most steps that it ever adds to a cell; None for noise without an end.
        of_keys: it says which keys are published that nobody declared.
    """

    __slots__ = ()
    tag: ClassVar[str]
    constants: ClassVar[Mapping[str, str]] = {"draw": "tag"}
    gaussian: ClassVar[bool] = False
    bound: int | None = None
    of_keys: ClassVar[bool] = False

    @property
    @abstractmethod
    def mechanism(self) -> str:
        """The family drawn from."""

    @abstractmethod
    def certify(self, sensitivity: Sensitivity) -> Fraction:
        """Return the proved loss of the block; raises InternalError if it claims too little."""

    @abstractmethod
    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        """Return noisy integers."""

    @abstractmethod
    def cells(self, raw: Objects) -> Floats:
        """Return the cell values that statistics post-process."""

    @abstractmethod
    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        """Return simultaneous confidence bounds of the cells (Bonferroni)."""

    def reading(self, raw: Objects, level: float) -> Reading:
        """Return the noisy integers, `(groups, cells)`, read back for intervals at `level`."""
        low, high = self.box(raw, level)
        cells, scale, noise = raw.astype(float), self.noise_scale, self.balanced
        balanced = None if noise is None else noise.quantile_of_sum
        return Reading(low, high, cells, scale, level, gaussian=self.gaussian, balanced=balanced)

    @abstractmethod
    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        """Return where the noisy cells are some that this law can draw, however unlikely."""

    @abstractmethod
    def evidence(self) -> dict[str, Any]:
        """Return what a stranger needs beside the law to follow the proof."""

    @classmethod
    def decided(cls, law: Any) -> Any:
        """Return a law's JSON without what a solver proposes: what the request decides of it."""
        if not isinstance(law, Mapping):
            return law
        return {k: Law.decided(v) for k, v in law.items() if k not in PROPOSED}

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return what is proved about a whole block, recomputed from scratch: by default one loss.

        Raises:
            InternalError: it claims too little (DPR901).
        """
        total = self.certify(sensitivity)
        return Proof(pure=(total,) if total else ())

    @property
    def slope(self) -> Fraction | None:
        """Its loss per step that one unit moves it in L1, over all groups, where it is proportional to that."""
        return None

    def proved(self, sensitivity: Sensitivity) -> Proof:
        """Return its proof, with the loss of every type of change (`docs/theory/composition.md#types-of-change`).

        Raises:
            InternalError: as `proof`.
        """
        found, classes = self.proof(sensitivity), sensitivity.types
        if self.slope is not None:
            return replace(
                found, types=tuple(self.slope * v for change in classes for v, _ in change)
            )
        if not sensitivity.one_row or found.rho is not None:
            return found
        own = sum(found.pure, Fraction(0))  # of a class that moves it at all, by whatever
        moves = (any(v for v, _ in change) for change in classes for _ in change)
        return replace(found, types=tuple(own * each for each in moves))

    @property
    def apart(self) -> bool:
        """Whether its loss is the sum of one loss for each group that a unit changes."""
        return False

    @property
    def covered(self) -> int:
        """How many groups a unit can change, where one loss could be proved for each; else 1."""
        return 1

    @property
    def noise_scale(self) -> float | None:
        """Scale of the discrete Laplace noise on every cell, if that is the law."""
        return None

    @property
    def balanced(self) -> BalancedNoise | None:
        """The noise of all cells of a group together, where it adds up to zero."""
        return None

    @property
    def added(self) -> AddedNoise | None:
        """What is added to every exact cell; None for a law that is not noise."""
        return None

    @property
    def ends(self) -> Ends | None:
        """Where answers are moved before noise is added; None where they are not moved."""
        return None

    def certain(self, raw: Objects) -> tuple[Objects, Objects]:
        """Return the least and the greatest steps that the exact cells can have, before they are moved into their range."""
        raise AssertionError(f"noise of {self.tag} has no end")

    @property
    def variance(self) -> float | None:
        """The variance of the noise on one cell, near enough for a weight; None if unknown."""
        return None

    def check(self) -> None:
        """Build whatever a drawn integer may ask for, so that nothing can be missing after the charge.

        By default there is nothing.

        Raises:
            ArgumentError: a law cannot be built.
        """
        return

    def published_step(self, member: Member) -> Fraction | None:
        """Return the step of its values, where they are published as drawn."""
        del member
        return None

    def own_errors(self, members: Sequence[Member], loss: Loss) -> tuple[float, ...] | None:
        """Return the expected error per member, where the law alone says it."""
        del members, loss
        return None

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        """Return where the noisy cells hold no signal at all."""
        return np.zeros(raw.shape[0], dtype=bool)

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        """Return (median-unbiased, unbiased) cell values, NaN where there is none.

        Unbiased for the statistic clamped to the range of the draw and rounded to its grid; the
        estimators are derived in `mechanisms.companion`. By default none: means of joint cells have
        an estimate of their own (`statistics.mean`), a choice by rank has none.
        """
        none = np.full(raw.shape, np.nan)
        return none, none


class AddsNoise(Law):
    """The law of cells of which every one gets noise that reaches every integer, or may have any.

    What is read is moved into [lower, upper] after; a cell c stands for `offset + step_size * c`.
    """

    __slots__ = ()
    noise: Any
    lower: Any
    upper: Any
    step_size: Any
    offset: Any

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        noise = self.noise.sample(exact.size, bits).astype(object).reshape(exact.shape)
        return np.asarray(np.clip(exact + noise, -RAW_LIMIT, RAW_LIMIT))

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.ones(raw.shape[0], dtype=bool)

    @property
    def noise_scale(self) -> float | None:
        return float(self.noise.scale)

    @property
    def variance(self) -> float:
        return float(self.noise.variance())

    def reach(self, level: float) -> int:
        """Return how far noise lies from 0 at most, with probability `level`; of cells read together of all of them."""
        return int(self.noise.quantile(level))

    def cells(self, raw: Objects) -> Floats:
        values = floats(np.clip(raw, self.lower, RAW_LIMIT if self.upper is None else self.upper))
        plain = self.step_size == 1 and self.offset == 0
        return values if plain else placed(values, self.step_size, self.offset)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        half = self.reach(level)
        raw = np.clip(raw, self.lower, self.upper)  # nearer to every answer, and never a point
        return self.cells(raw - half), self.cells(raw + half)

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        """Return, of cells that are read one by one, the raw value clipped, and as it is."""
        return self.cells(raw), placed(raw.astype(np.float64), self.step_size, self.offset)


_EXACT = 2**53


def placed(k: Floats, step: Fraction, origin: Fraction) -> Floats:
    """Return `origin + k * step`, the double nearest to it where 2 k is whole.

    Two roundings would leave 5.6e-17 of -0.3 + 3 * 0.1. What 2 k holds beyond a whole number (the
    mean of a tail) is added at last.
    """
    twice = np.rint(2 * k)
    rest = (2 * k - twice) / 2
    common = math.lcm(step.denominator, origin.denominator)
    each, start, whole = int(step * common), int(2 * origin * common), 2 * common
    size = abs(float(start)) + np.abs(twice) * float(each)
    out = np.asarray((float(start) + twice * float(each)) / float(whole))
    # One correctly rounded division while all its numbers are doubles; the others one by one.
    for at in zip(
        *np.nonzero((size >= _EXACT) | (np.isfinite(k) & (whole >= _EXACT))), strict=True
    ):
        out[at] = float(Fraction(start + int(twice[at]) * each, whole))
    return out + rest * float(step) if rest.any() else out


def floats(values: Objects) -> Floats:
    return np.asarray(values.astype(np.float64))


def underclaimed(what: str) -> InternalError:
    return InternalError(
        f"the plan claims a smaller {what} than its query has",
        why="the wall recomputes every sensitivity and trusts no price",
        fix="make the plan again with this version of dprelease",
        code="DPR901",
    )


def draw_from_json(value: Mapping[str, Any]) -> Law:
    """Rebuild a draw from `to_json`; raises as `law_from_json` does, and of a tag that is none."""
    return cast("type[Law]", registry.load("draws", value["draw"])).from_json(value)


WrittenLaw = Annotated[Law, WrittenAs(methodcaller("to_json"), draw_from_json)]
"""A draw in a stored dataclass: its tag names the class that reads it."""
