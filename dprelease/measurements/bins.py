"""One count per bin of a histogram: one row adds 1 to at most one of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from dprelease.measurements.balanced import BalancedLaw, balanced_noise
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.gaussian import GaussianLaw, gaussian_text, read_apart, rectified_errors
from dprelease.measurements.law import Law
from dprelease.measurements.linear import LinearCells
from dprelease.measurements.members import Loss, Member
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.law import choose_answers
from dprelease.schema.domain import Domain
from dprelease.schema.unit import Adjacency
from dprelease.statistics.base import Floats
from dprelease.statistics.bin_sensitivity import every_row
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Bounds, Sensitivity


class Topped(LinearCells):
    """Cells that are read one by one, each between 0 and a public top."""

    def upper(self, measurement: Measurement) -> int | None:
        return measurement.upper

    def errors(self, member: Member, law: CellLaw, pricing: Pricing) -> tuple[float, ...]:
        del member
        step = float(pricing.measurement.step_size)
        return (
            _error(law.noise, pricing.loss) * (step if pricing.loss == "absolute" else step**2),
        )


class Bins(Topped):
    """Counts of bins."""

    draws = ("balanced_cells", "cells", "gaussian", "ending")
    ending = "ending"
    counts = True
    direct = True
    placed = True
    nowhere_negative = True

    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return independent noise, and noise that adds up to zero where rows are replaced."""
        found, measurement, sensitivity = (
            Topped.priced(self, pricing),
            pricing.measurement,
            pricing.sensitivity,
        )
        rows = measurement.public_rows if sensitivity.sum_is_fixed else None
        fitted = pricing.block.table is not None  # least squares take cells for independent
        noise = balanced_noise(measurement, sensitivity, pricing.epsilon)
        if not found or fitted or noise is None:
            return found
        plain = found[0].law
        law = BalancedLaw(noise, len(measurement.cells), measurement.upper, plain.mechanism, rows)
        others = "other bins" if rows is not None else "other bins and a hidden one"
        note = f"with the {others}: the noise of all adds up to zero"
        return [*found, self.candidate(pricing, law, note)]

    def sensitivity(
        self, measurement: Measurement, bounds: Bounds, adjacency: Adjacency, groups: int
    ) -> Sensitivity:
        """Return the sensitivity, with whether the bins hold every row of a public number."""
        found = Topped.sensitivity(self, measurement, bounds, adjacency, groups)
        return replace(
            found,
            sum_is_fixed=measurement.public_rows is not None and every_row(measurement.measures),
        )

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> GaussianLaw:
        return read_apart(measurement, noise)

    def gaussian_errors(
        self, member: Member, measurement: Measurement, law: Law, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        return rectified_errors(member, measurement, law, loss)

    def near_errors(
        self, law: Law, measurement: Measurement, member: Member, loss: Loss
    ) -> tuple[float, ...] | None:
        """Return them of bins with up to twice an even part of the declared rows, else with any number of rows."""
        top, expected = measurement.upper, member.statistic.expected
        if top is None or law.bound is not None:
            return None
        likely = 0, top if expected is None else min(top, 2 * expected // len(measurement.cells))
        if not isinstance(law, CellLaw):
            return rectified_errors(member, measurement, law, loss, likely)[0]
        rows, share = choose_answers(Domain(0, top).on_grid(Fraction(1)), near=likely)
        noise, power = law.noise.noise, 1 if loss == "squared" else 0
        inside = noise.between(0, rows)[power] + noise.between(0, top - rows)[power]
        return (float((inside * share).sum()) * _error(law.noise, loss) / _error(noise, loss),)

    def notes(self, law: Law, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        return (law.described,) if isinstance(law, BalancedLaw) else ()

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        if best.law.gaussian:
            return gaussian_text(best.law, s, member)
        return f"{s.l1_over_groups} over all bins"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        count = len(best.measurement.cells)
        return np.full(count, size / count)


def _error(noise: CellNoise | DiscreteLaplaceNoise, loss: Loss) -> float:
    """Return the expected error of one cell, in steps or their squares."""
    return noise.mean_abs() if loss == "absolute" else noise.variance()


family = Bins("bins")
