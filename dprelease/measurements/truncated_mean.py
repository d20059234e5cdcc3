"""The draw of a mean without point masses when the size is private: size first, then a truncated law.

Units: grid steps and the column's unit as named; epsilon in nats. Shapes: `(groups, cells)`.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#truncated-mean`.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from dprelease.core import registry
from dprelease.core.codec_notes import AtLeast, Digits, Note
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import floor_half_up, ranking, shown
from dprelease.measurements.base import MeasurementFamily
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.law import Law, Objects, underclaimed
from dprelease.measurements.members import Member
from dprelease.measurements.scalar import ScalarCellLaw, priced_laws
from dprelease.measurements.scalar_grid import MOST_POINTS
from dprelease.measurements.steps import best_step
from dprelease.mechanisms.companion import median_unbiased
from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.query.bounded import BoundedQuery
from dprelease.schema.domain import GridSet, LongRuns
from dprelease.statistics.base import Floats
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity

_WITHOUT_POINT_MASSES = ("bounded_laplace", "reflected_laplace", "bounded_gaussian")
"""Families that draw a mean without point masses at whatever size is released."""

_SIZE_SHARE = Fraction(1, 5)
"""Part of a truncated mean's epsilon that pays for its size; measured, no theorem."""


@dataclass(frozen=True, slots=True)
class MeanLaw(Law):
    """A mean without point masses when the size is private.

    Source: `docs/theory/sensitivities-and-contribution-bounding.md#truncated-mean`.

    First a noisy size n' >= 1 is released, then clamp(c + S(x - c)/n', l, u) through a truncated
    law, with c the middle of the range [l, u] and w = u - l. One elementary change (at most m rows more
    or fewer in one group) moves that quotient by at most `sum_sensitivity` / n' = m w / (2 n'), for *any* n',
    because n' is already a differentially private output. Any change of one unit is a chain of at most
    `chain_length` such changes through answers inside the hull, so the second law loses at most
    chain_length * epsilon. The integer sensitivity is rounded up to three significant bits, so that few
    laws serve many groups.

    Units: `step`, `step_size`, `offset` and `sum_sensitivity` in the column's unit; `scale` in codes.

    Raw cells per group: (noisy size, output step).
    """

    tag: ClassVar[str] = "mean"

    size: ScalarCellLaw
    allowed: LongRuns
    step: Fraction
    sum_sensitivity: Fraction
    epsilon: Fraction
    chain_length: Annotated[int, AtLeast(1)]
    scale: Annotated[Digits, AtLeast(1)]
    step_size: Fraction
    offset: Fraction
    mechanism: str
    loss: Annotated[str, Note.always] = "absolute"

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.chain_length < sensitivity.chain_length:
            raise underclaimed("chain length")
        if min(self.epsilon, self.step, self.step_size) <= 0:
            raise underclaimed("loss")
        if self.sum_sensitivity < sum_sensitivity(sensitivity, self.scale * self.step_size):
            raise underclaimed("sensitivity")
        return self.size.certify(sensitivity) + self.chain_length * self.epsilon

    def law(self, size: int) -> GridLaw:
        """Return the certified law for the released size."""
        return _mean_law(
            self.allowed, self.sensitivity_at(size), self.epsilon, self.mechanism, self.loss
        )

    def check(self) -> None:
        """Build the laws of the smallest and the largest size that can be released.

        Laplace noise has a law in every gap. Gaussian noise has none where it is narrow against a gap, and
        it only gets narrower as sizes grow. So if both ends have a law, every size has one, and after the
        charge no released size can lack it.

        Raises:
            ArgumentError: one of them cannot be built (DPR622, DPR626, DPR627, DPR628).
        """
        for size in (1, self.size.law.allowed.upper):
            self.law(size)

    def sensitivity_at(self, size: int) -> int:
        """Return the sensitivity in grid steps for the released size, rounded up."""
        exact = -(-self.sum_sensitivity // (max(1, size) * self.step))
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
        centre = self.offset + half * self.step_size
        answers = np.array(
            [
                min(
                    max(
                        floor_half_up(
                            (centre + self.step_size * (s - half * n) / size) / self.step
                        ),
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
        found = np.array([self.sensitivity_at(s) for s in sizes], dtype=np.int64)
        out = []
        for sensitivity in sorted(set(found.tolist())):
            rows = np.flatnonzero(found == sensitivity)
            out.append((rows, self.law(sizes[int(rows[0])])))
        return out

    def _pair(self, raw: Objects, k: npt.NDArray[np.int64] | Floats) -> Floats:
        num, den = self.step.as_integer_ratio()
        return np.stack(
            [self.size.cells(raw[:, :1])[:, 0], k.astype(np.float64) * num / den], axis=1
        )

    def cells(self, raw: Objects) -> Floats:
        return self._pair(raw, raw[:, 1].astype(np.int64))

    def median(self, raw: Objects) -> Floats:
        """Return (size, median-unbiased estimate of the answer at the released size)."""
        sizes, outputs = self._sizes(raw), raw[:, 1].astype(np.int64)
        middle = np.zeros(raw.shape[0])
        for rows, law in self._by_law(sizes):
            middle[rows] = median_unbiased(law, outputs[rows])
        return self._pair(raw, middle)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        """Invert the second law at the released size, then undo the noise of that size.

        The law's answer is c + (mean - c) n/n', clamped; with n in the size's own interval,
        mean - c = (answer - c) n'/n. Where the interval reaches an end of the hull, the answer
        may have been clamped there, and so does the result.
        """
        each = 1 - (1 - level) / 2  # half of what may fail for the size, half for the mean
        low = np.zeros(raw.shape[0], dtype=np.int64)
        high = np.zeros(raw.shape[0], dtype=np.int64)
        outputs = raw[:, 1].astype(np.int64)
        sizes = self._sizes(raw)
        for rows, law in self._by_law(sizes):
            low[rows], high[rows] = law.interval(outputs[rows], each)
        size_low, size_high = self.size.box(raw[:, :1], each)
        lower, upper = self._pair(raw, low), self._pair(raw, high)
        lower[:, 1] -= float(self.step) / 2  # the answer was rounded to the grid before the draw
        upper[:, 1] += float(self.step) / 2
        centre = float(self.offset + self.scale * self.step_size / 2)
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
        """Return where the released size is 0: the mean then is drawn around its centre."""
        return np.asarray(self.size.cells(raw[:, :1])[:, 0] <= 0)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        mean = self.allowed.contains(raw[:, 1].astype(np.int64))
        return self.size.drawable(raw[:, :1]) & mean

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        return self.median(raw), np.full(raw.shape, np.nan)

    def published_step(self, member: Member) -> Fraction:
        del member
        return self.step

    def evidence(self) -> dict[str, Any]:
        return {
            **self.size.evidence(),
            "mean": {"epsilon_per_move": str(self.epsilon), "chain_length": self.chain_length},
        }


def sum_sensitivity(sensitivity: Sensitivity, width: Fraction) -> Fraction:
    """Return n' times the most one move changes c + S(x - c)/n'; `width` = u - l.

    `l1_per_group` is the rows of an elementary change; each lies within half a range of c.
    """
    return sensitivity.l1_per_group * width / 2


@lru_cache(maxsize=512)
def _mean_law(
    allowed: GridSet, sensitivity: int, epsilon: Fraction, mechanism: str, loss: str
) -> GridLaw:
    request = GridRequest(allowed, sensitivity, epsilon, loss=loss, point_masses=False)  # type: ignore[arg-type]
    family = cast("Any", registry.load("mechanisms", mechanism))
    laws: list[GridLaw] = family.grid_laws(request)
    for law in laws:
        if law.family == mechanism:
            if law.certify().epsilon_upper > epsilon:
                raise underclaimed("loss")
            return law
    raise ArgumentError(
        f"`{mechanism}` offers no law without point masses for this domain",
        fix="use mechanism: bounded_laplace",
        code="DPR628",
    )


class TruncatedMean(MeasurementFamily):
    """S(1) and S(code): first the count is released, then a truncated mean."""

    family = "truncated_mean"
    counting = "first"
    draws = ("mean",)
    mechanisms = _WITHOUT_POINT_MASSES
    sized = True
    direct = True
    centred = False

    def priced(self, pricing: Pricing) -> list[Candidate]:
        if len(pricing.block.members) > 1:
            return []
        member, s, size = pricing.block.members[0], pricing.sensitivity, pricing.size
        spec, measurement = member.statistic.spec, pricing.measurement
        width = measurement.scale * measurement.step_size
        change = sum_sensitivity(s, width)
        step = spec.step or best_step(
            max(change / max(1, size) / 16, Fraction(member.domain.width) / MOST_POINTS),
            member.domain,
        )
        noisy_size = _size_law(pricing.epsilon * _SIZE_SHARE, s, member)
        law = MeanLaw(
            size=noisy_size,
            allowed=member.domain.on_grid(step),
            step=step,
            sum_sensitivity=change,
            epsilon=pricing.epsilon * (1 - _SIZE_SHARE) / s.chain_length,
            chain_length=s.chain_length,
            scale=measurement.scale,
            step_size=measurement.step_size,
            offset=measurement.offset,
            mechanism=spec.mechanism or "bounded_laplace",
            loss=pricing.loss,
        )
        if spec.mechanism is None:
            law = _with_best_family(law, size, pricing)
        inner = law.law(size).expected_error()
        # what the size's error adds to a mean that lies a quarter of the range from its middle
        off = float(width) / 4 * noisy_size.law.expected_error().average / max(1, size)
        if pricing.loss == "absolute":
            error = math.hypot(inner.average * float(step), off)
            worst = inner.worst * float(step) + off
        else:
            error = inner.average * float(step) ** 2 + off**2
            worst = (math.sqrt(inner.worst) * float(step) + off) ** 2
        note = "size first, then a truncated mean"
        stated = (worst if pricing.judge == "worst" else None,)
        return [Candidate(measurement, law, (error,), stated, note=note)]

    def refusal(
        self, measurement: Measurement, law: Law, task: BoundedQuery, at: Sequence[int]
    ) -> str:
        """Refuse a law at another scale too: the wall proves the size, and the law bounds the sum by its scale."""
        why = MeasurementFamily.refusal(self, measurement, law, task, at)
        if not why and isinstance(law, MeanLaw) and law.scale != measurement.scale:
            why = "its law has another scale than its column"
        return why

    def counted(self, measurement: Measurement) -> tuple[tuple[int, ...], ...]:
        """Return the weights of the size alone: the law itself bounds the sum."""
        return tuple((w, *(0 for _ in rest)) for w, *rest in measurement.weights[:1])

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        law = best.law
        assert isinstance(law, MeanLaw)
        return f"{shown(law.sum_sensitivity)} {member.measure} / released size".replace("  ", " ")

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        law = best.law
        assert isinstance(law, MeanLaw)
        return np.array([size, (law.allowed.lower + law.allowed.upper) / 2])


def _with_best_family(law: MeanLaw, size: int, pricing: Pricing) -> MeanLaw:
    """Return the law of the family that is best at the guessed `size`, among those with a law for every size."""
    request = GridRequest(
        law.allowed,
        law.sensitivity_at(size),
        law.epsilon,
        pricing.loss,
        point_masses=False,
        criterion=pricing.judge,
    )
    for name in (priced.family for priced in priced_laws(request)):
        if name in _WITHOUT_POINT_MASSES:
            found = replace(law, mechanism=name)
            with contextlib.suppress(ArgumentError):
                found.check()
                return found
    return law


def _size_law(epsilon: Fraction, s: Sensitivity, member: Member) -> ScalarCellLaw:
    """Return the best law of the size: proved group by group, or over all groups where its loss is linear."""
    cap = member.statistic.cap or 2**40
    allowed = GridSet(((0, cap),))
    proofs = [(False, s.l1_per_group, epsilon / s.changed_groups)]
    if s.changed_groups > 1:
        proofs.append((True, s.l1_over_groups, epsilon))
    options = [
        (law, linear, sensitivity)
        for linear, sensitivity, each in proofs
        for law in priced_laws(GridRequest(allowed, max(1, sensitivity), each, splits=linear))
    ]
    best, linear, sensitivity = min(options, key=lambda o: ranking(o[0].expected_error().average))
    one = Fraction(1)
    return ScalarCellLaw(
        best, linear, s.changed_groups, sensitivity, one, Fraction(0), one, Fraction(0)
    )


family = TruncatedMean()
