"""Counts of runs of bins beside those of the bins, for sums of many of them.

The law is that of any integer cells, with independent noise; what is new is which counts are measured
(`statistics.tree_shape`), and that they are read together, signs and all, by least squares. Where units are
replaced, the bins alone may have noise that adds up to zero: few bins are better so than any tree over them.

Units: rows; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#trees-over-bins`,
`docs/theory/publications-that-add-up.md#bins-whose-noise-adds-up-to-zero`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.measurements.balanced import BalancedLaw, balanced_noise
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellLaw, PublicLaw
from dprelease.measurements.gaussian import NAME, GaussianLaw, gaussian_text, read_together
from dprelease.measurements.law import Ends, Law, Objects, floats
from dprelease.measurements.linear import LinearCells
from dprelease.measurements.members import Loss, Member
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.schema.unit import Adjacency
from dprelease.statistics.base import Floats
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Bounds, Sensitivity, sensitivity_of_levels
from dprelease.statistics.tree_shape import published, tree_of

_NORMAL = math.sqrt(2 / math.pi)
"""E|X| of a normal X, in standard deviations: sums of several draws are near it."""
_CLEAR = 2.0
"""Standard deviations of about half an interval."""


@dataclass(frozen=True, slots=True)
class TreeLaw(PublicLaw):
    """Integer cells with independent discrete Laplace noise, read with their signs."""

    tag: ClassVar[str] = "tree_cells"


@dataclass(frozen=True, slots=True)
class BalancedTreeLaw(BalancedLaw):
    """Bins alone whose noise adds up to zero, read with their signs."""

    tag: ClassVar[str] = "balanced_tree"

    def _hull(self, values: Objects) -> Floats:
        return floats(values)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return Law.empty(self, raw)

    def companions(self, raw: Objects) -> tuple[Floats, Floats]:
        return Law.companions(self, raw)


class _Tree(LinearCells):
    """A tree over bins."""

    widest: ClassVar[float] = math.inf
    """The most that a value may be off, on average: a standard deviation."""
    draws = ("balanced_tree", "tree_cells", "gaussian")
    forms = ("binned_tree",)
    mechanisms = ("discrete_laplace", "rectified_gaussian")
    nowhere_negative = True

    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return independent noise, and of the bins alone noise that adds up to zero where it may."""
        if pricing.pin == NAME:
            return []
        measurement, levels = pricing.measurement, len(pricing.measurement.weights[0])
        count = len(measurement.cells)
        noise = CellNoise.calibrate(pricing.sensitivity.l1_over_groups, pricing.epsilon)
        note = f"{levels} levels" if levels > 1 else "the bins alone"
        found = [self.candidate(pricing, TreeLaw(noise, count, None), note)]
        balanced = balanced_noise(measurement, pricing.sensitivity, pricing.epsilon)
        if levels == 1 and balanced is not None and self.takes_balanced(pricing.sensitivity):
            rows = measurement.public_rows if balanced.cells == count else None
            law = BalancedTreeLaw(balanced, count, None, rows=rows)
            note = f"{note}: their noise adds up to zero"
            found.append(self.candidate(pricing, law, note))
        return found

    def takes_balanced(self, sensitivity: Sensitivity) -> bool:
        """Return whether an interval is known of noise that adds up to zero."""
        del sensitivity
        return True

    def errors(self, member: Member, law: CellLaw, pricing: Pricing) -> tuple[float, ...]:
        return self.tree_errors(pricing.measurement, law, pricing.size, pricing.loss)

    def tree_errors(
        self, measurement: Measurement, law: Law, size: int, loss: Loss
    ) -> tuple[float, ...]:
        """Return one: the expected error with that noise."""
        found = self.noisy(measurement, law, size)
        found = found / (1 + found / self.widest**2)
        if loss == "squared":
            return (float(np.mean(found)),)
        return (float(np.mean(np.sqrt(found))) * _NORMAL,)

    def noisy(self, measurement: Measurement, law: Law, size: int) -> Floats:
        """Return the variances that its error is an average of."""
        if law.balanced is None:
            assert law.variance is not None
            return self.variances(measurement, size) * law.variance
        tree = tree_of(measurement)
        each = [law.balanced.variance_of_sum(k + 1) for k in range(tree.bins)]
        return self.of_sums(measurement, np.array(each), size)

    def of_sums(self, measurement: Measurement, variances: Floats, size: int) -> Floats:
        """Return what is averaged, from the variances of the sums from the first bin on."""
        del measurement, size
        return variances

    @abstractmethod
    def variances(self, measurement: Measurement, size: int) -> Floats:
        """Return them of independent noise, in its variance on a cell."""

    def sensitivity(
        self, measurement: Measurement, bounds: Bounds, adjacency: Adjacency, groups: int
    ) -> Sensitivity:
        """Return the sensitivity of the bins, as many times as there are levels; bins of a public sum keep it."""
        levels = len(measurement.weights[0])
        worst = sensitivity_of_levels(measurement, bounds, adjacency, groups, levels)
        return replace(worst, sum_is_fixed=levels == 1 and measurement.public_rows is not None)

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> GaussianLaw:
        return read_together(measurement, noise, joint=False)

    def gaussian_errors(
        self, member: Member, measurement: Measurement, law: Law, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        """Return the same errors as of other noise; the worst is unknown."""
        return self.tree_errors(measurement, law, size, loss), None

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        if best.law.gaussian:
            return gaussian_text(best.law, s, member)
        levels = len(best.measurement.weights[0])
        return f"{s.l1_over_groups} over all bins" + (
            f" and their {levels - 1} coarser levels" if levels > 1 else ""
        )

    def notes(self, law: Law, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        return (law.described,) if isinstance(law, BalancedLaw) else ()

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        tree = tree_of(best.measurement)
        return np.array([size * (after - first) / tree.bins for _, first, after in tree.parts()])


class TreeOfBins(_Tree):
    """A tree whose bins are published."""

    counts = True

    def variances(self, measurement: Measurement, size: int) -> Floats:
        """Return those of all prefixes."""
        del size
        return tree_of(measurement).variances()[0]

    def mute(
        self, law: Law, measurement: Measurement, size: int, *, view: int | None
    ) -> bool | None:
        """Return whether no interval of a bin leaves anything out, near enough."""
        del size, view
        assert law.variance is not None
        assert measurement.upper is not None
        return _CLEAR * math.sqrt(law.variance) / len(measurement.weights[0]) >= measurement.upper


class TreeOfShares(_Tree):
    """A tree whose prefixes are published as shares of the whole."""

    widest = 1 / 3 / _NORMAL  # a share that is anywhere in [0, 1], whatever it should be
    sized = True

    def exact_ends(self, measurement: Measurement) -> Ends:
        del measurement
        return Fraction(0), Fraction(1)

    def takes_balanced(self, sensitivity: Sensitivity) -> bool:
        """Return whether the whole is public: a quotient of two noisy sums needs the law of both together."""
        return sensitivity.sum_is_fixed

    def variances(self, measurement: Measurement, size: int) -> Floats:
        """Return those of the published shares where the rows lie evenly over the bins."""
        return self._shares(measurement, tree_of(measurement).shares(), size)

    def of_sums(self, measurement: Measurement, variances: Floats, size: int) -> Floats:
        return self._shares(measurement, variances, size)

    def _shares(self, measurement: Measurement, variances: Floats, size: int) -> Floats:
        return np.asarray(variances[: published(measurement)] / size**2)

    def mute(
        self, law: Law, measurement: Measurement, size: int, *, view: int | None
    ) -> bool | None:
        """Return whether no interval of a share leaves anything out, near enough."""
        del view
        assert law.variance is not None
        whole = _CLEAR * math.sqrt(law.variance * tree_of(measurement).variances()[2])
        widest = _CLEAR * math.sqrt(self.noisy(measurement, law, size).min())
        return bool(whole >= size or widest >= 1)


tree_of_bins = TreeOfBins("tree_of_bins")
tree_of_shares = TreeOfShares("tree_of_shares")
