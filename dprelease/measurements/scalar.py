"""One integer per group through a grid law.

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, 1)`, Python integers.
Sources: `docs/theory/certificates.md#additive-noise`,
`docs/theory/sensitivities-and-contribution-bounding.md#several-groups`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.budget.composition import Proof
from dprelease.budget.exact_rho import rho_of_laplace
from dprelease.core import registry
from dprelease.core.codec_notes import AtLeast
from dprelease.core.entropy import RandomBits
from dprelease.core.numeric import shown
from dprelease.measurements.base import MeasurementFamily
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.gaussian import GaussianLaw, gaussian_text, read_apart, rectified_errors
from dprelease.measurements.law import AddedNoise, Ends, Law, Objects, placed, underclaimed
from dprelease.measurements.members import Loss, Member
from dprelease.measurements.of_scalar import (
    finished_errors,
    finished_worst,
    scalar_of,
    typical_cell,
)
from dprelease.measurements.scalar_grid import (
    additive_grid,
    grid_sensitivity,
    rounded_error,
    scalar_domain,
    truncated_grid,
)
from dprelease.mechanisms.companion import median_unbiased, unbiased
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.forms.base import ScalarLaw
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import (
    GridLaw,
    GridRequest,
    WrittenLaw,
    covers_splits,
    family_laws,
    grid_laws,
)
from dprelease.statistics.base import Floats
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class ScalarCellLaw(Law):
    """One integer per group through a grid law.

    The exact cell c stands for `offset + step_size * c`; the law works on k = R((value - origin)/step).
    """

    tag: ClassVar[str] = "scalar"

    law: WrittenLaw
    linear: bool
    changed_groups: Annotated[int, AtLeast(1)]
    sensitivity: Annotated[int, AtLeast(0)]
    step_size: Fraction
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
        return self.changed_groups

    @property
    def slope(self) -> Fraction | None:
        steps, noise = self.step_size / self.step, self._laplace
        return None if noise is None or steps.denominator > 1 else noise.rate * steps

    @property
    def _laplace(self) -> DiscreteLaplaceNoise | None:
        noise = self.law.noise if isinstance(self.law, AdditiveLaw) else None
        return noise if isinstance(noise, DiscreteLaplaceNoise) else None

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.step_size <= 0 or self.step <= 0:
            raise underclaimed("step")
        needed = grid_sensitivity(sensitivity, self.step_size, self.step, linear=self.linear)
        if self.law.sensitivity < needed or (
            not self.linear and self.changed_groups < sensitivity.changed_groups
        ):
            raise underclaimed("sensitivity")
        # A law made for one group may cap its sensitivity at its hull; an L1 total may not.
        if self.linear and sensitivity.changed_groups > 1 and not covers_splits(self.law):
            raise underclaimed("loss")
        times = 1 if self.linear else self.changed_groups
        return times * self.law.certify().epsilon_upper

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, or one of each changed group: they are drawn by themselves.

        One unit moves at most `changed_groups` of them, so these are that many independent pure losses,
        which composition may use.
        """
        if self.linear:
            found = Law.proof(self, sensitivity)
        else:
            total = self.certify(sensitivity)
            found = Proof(pure=(total / self.changed_groups,) * self.changed_groups)
        return replace(found, tight=self._concentrated(sensitivity))

    def _concentrated(self, s: Sensitivity) -> Fraction | None:
        """Return the rho of all groups together, for discrete Laplace noise; None for other laws."""
        if (noise := self._laplace) is None:
            return None
        q, p = (self.step_size / self.step).as_integer_ratio()
        total = grid_sensitivity(s, self.step_size, self.step, linear=True)
        each = grid_sensitivity(s, self.step_size, self.step, linear=False)
        square = total * min(each, max(1, self.law.allowed.hull_steps))
        if s.l2_squared is not None and p == 1:  # nothing is rounded
            square = min(square, q * q * s.l2_squared)
        return rho_of_laplace(noise.rate, total, square)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        num = (self.step_size / self.step).as_integer_ratio()
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
        """The noise of an additive law; None for others: what truncation or reflection adds depends on the answer."""
        if not isinstance(self.law, AdditiveLaw):
            return None
        half = Fraction(1, 2) if self.rounded else Fraction(0)
        return AddedNoise(self.law.noise.fitted, self.step, self.origin, half)

    @property
    def ends(self) -> Ends:
        allowed = self.law.allowed
        return self.origin + self.step * allowed.lower, self.origin + self.step * allowed.upper

    @property
    def rounded(self) -> float:
        """The most by which rounding to the grid moved the answer before the draw."""
        num, den = self.step.as_integer_ratio()
        spacings = (self.step_size, self.offset - self.origin if self.offset != self.origin else 0)
        exact = all(x.numerator * den % (x.denominator * num) == 0 for x in spacings)
        return 0.0 if exact else float(self.step) / 2

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        k = raw[:, 0].astype(np.int64)
        listed = getattr(self.law, "outputs", None)  # of a law that draws some allowed points only
        if listed is not None:
            return np.isin(k, listed)
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
            "groups_charged": 1 if self.linear else self.changed_groups,
        }

    def published_step(self, member: Member) -> Fraction | None:
        cell = scalar_of(member.kind, member.options) is None
        drawn = not member.statistic.spec.spikes and cell
        return self.step if drawn or (self.origin == 0 and member.kind.additive) else None

    def error(self, steps: float, loss: Loss, *, worst: bool = False) -> float:
        """Return an expected error of the law, in the statistic's unit (or its square), with that of rounding."""
        unit = float(self.step) ** (2 if loss == "squared" else 1)
        return rounded_error(steps * unit, 2 * self.rounded, squared=loss == "squared", worst=worst)

    def own_errors(self, members: Sequence[Member], loss: Loss) -> tuple[float, ...]:
        average = self.error(self.law.expected_error().average, loss)
        return tuple(max(finished_errors(member, average, loss)) for member in members)


class Scalar(MeasurementFamily):
    """One integer per group, of which the statistic is a public function: mostly itself.

    Every family is priced on the grid law itself. When one unit can change several groups there are
    two sound ways to cover it: one law whose loss is linear in the sensitivity at the L1 sensitivity over
    all groups, or any law at epsilon / changed_groups per group (sequential composition); both are priced.
    """

    family = "scalar"
    draws = ("scalar", "gaussian", "ending", "found_keys")
    ending = "ending"
    forms = ("linear", "scatter", "cross", "degree", "connectivity", "sparse_connectivity")
    counts = True
    direct = True
    placed = True

    def pins(self) -> tuple[str, ...]:
        return registry.names("mechanisms") + registry.third_party_names("mechanisms")

    def priced(self, pricing: Pricing) -> list[Candidate]:
        block, measurement, s, pin = (
            pricing.block,
            pricing.measurement,
            pricing.sensitivity,
            pricing.pin,
        )
        point_masses = all(m.statistic.spec.spikes for m in block.members)
        domain = scalar_domain(block, measurement)
        alone = pin if pin is not None and pin not in registry.names("mechanisms") else None
        if point_masses:
            step, origin, allowed = additive_grid(measurement, domain, s, pricing.epsilon)
        else:
            step, origin, allowed = truncated_grid(block, measurement, domain, s, pricing.epsilon)
        ways = [(False, pricing.epsilon / s.changed_groups)]
        if s.changed_groups > 1 and point_masses:
            ways.append((True, pricing.epsilon))
        model = None if pricing.only_as is None else pricing.only_as.law
        if isinstance(model, ScalarCellLaw):
            ways = [one for one in ways if one[0] == model.linear]
            alone = model.mechanism
        found = []
        for linear, each in ways:
            steps = grid_sensitivity(s, measurement.step_size, step, linear=linear)
            request = GridRequest(
                allowed, max(1, steps), each, pricing.loss, point_masses, linear, pricing.judge
            )
            for law in priced_laws(request, alone):
                whole = ScalarCellLaw(
                    law=law,
                    linear=linear,
                    changed_groups=s.changed_groups,
                    sensitivity=steps,
                    step_size=measurement.step_size,
                    offset=measurement.offset,
                    step=step,
                    origin=origin,
                )
                found.append(_candidate(pricing, whole))
        return [c for c in found if pin is None or c.law.mechanism == pin]

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> GaussianLaw:
        return read_apart(measurement, noise)

    def gaussian_errors(
        self, member: Member, measurement: Measurement, law: Law, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        return rectified_errors(member, measurement, law, loss)

    def near_errors(
        self, law: Law, measurement: Measurement, member: Member, loss: Loss
    ) -> tuple[float, ...] | None:
        expected = None if member.statistic.graph else member.statistic.expected
        likely = measurement.likely(expected, of_rows=member.kind.of_rows)
        if likely is None:
            return None
        if isinstance(law, GaussianLaw):
            return rectified_errors(member, measurement, law, loss, likely)[0]
        if not isinstance(law, ScalarCellLaw) or not isinstance(law.law, ScalarLaw):
            return None
        places = ((law.offset + law.step_size * c - law.origin) / law.step for c in likely)
        error = law.law.expected_error((round(next(places)), round(next(places))))
        return finished_errors(member, law.error(error.average, loss), loss)

    def cell_unit(self, measurement: Measurement) -> Fraction:
        """Return the step of the statistic's own unit."""
        return measurement.step_size

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        law = best.law
        if law.gaussian:
            return gaussian_text(law, s, member)
        cells = s.l1_per_group if law.apart else s.l1_over_groups
        unit = f" {member.measure}" if member.measure else ""
        unit = unit[:-1] if cells == 1 and unit in (" rows", " units", " values") else unit
        where = (
            f" in each of {s.changed_groups} groups" if s.changed_groups > 1 and law.apart else ""
        )
        return f"{shown(cells * best.measurement.step_size)}{unit}{where}"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        law, measurement = best.law, best.measurement
        low, high = member.domain.hull
        counted = member.statistic.code is None and member.statistic.graph is None
        value = min(max(float(size), low), high) if counted else (low + high) / 2
        if scalar_of(member.kind, (measurement,)) is not None:
            value = typical_cell(member, measurement)
        if isinstance(law, ScalarCellLaw):
            place = (value - float(law.origin)) / float(law.step)
            allowed = law.law.allowed
            return np.array([min(max(place, allowed.lower), allowed.upper)])
        return np.array([(value - float(measurement.offset)) / float(measurement.step_size)])


def _candidate(pricing: Pricing, law: ScalarCellLaw) -> Candidate:
    members, loss, error = pricing.block.members, pricing.loss, law.law.expected_error()
    stated = tuple(finished_errors(m, law.error(error.average, loss), loss) for m in members)
    farthest = law.error(error.worst, loss, worst=True)
    worst = tuple(finished_worst(m, farthest, loss) for m in members)
    split = (
        f"epsilon split over {law.changed_groups} groups"
        if law.changed_groups > 1 and law.apart
        else ""
    )
    return Candidate(pricing.measurement, law, tuple(map(max, stated)), worst, stated, split)


@lru_cache(maxsize=4096)
def priced_laws(request: GridRequest, family: str | None = None) -> tuple[GridLaw, ...]:
    """Return the laws on a grid, best first: made once for all statistics with an equal request.

    Args:
        family: its laws alone: another package's where it is pinned, or those of a known winner.
    """
    return tuple(family_laws(request, family) if family else grid_laws(request))


family = Scalar()
