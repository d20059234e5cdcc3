"""Counts of runs of bins beside those of the bins, for sums of many of them.

The law is that of any integer cells, with independent noise; what is new is which counts are measured
(`aggregates.tree_shape`), and that they are read together, signs and all, by least squares.

Units: rows; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Source: `docs/theory/sensitivities-and-contribution-bounding.md#trees-over-bins`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.base import Floats
from dprelease.aggregates.measurement import Measurement
from dprelease.aggregates.tree_shape import published, tree_of
from dprelease.measurements.base import Moved, Normal
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.cells import CellDraw, Cells
from dprelease.measurements.draw import RAW_LIMIT, Draw, Objects, floats
from dprelease.measurements.gaussian import NAME, GaussianDraw, gaussian_text
from dprelease.measurements.members import Loss, Member
from dprelease.mechanisms.forms.balanced import MOST_CELLS, BalancedNoise
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.schema.unit import Adjacency
from dprelease.sensitivity import Bounds, Sensitivity, sensitivity, stacked

__all__ = ["TreeDraw", "TreeOfBins", "TreeOfShares"]

_NORMAL = math.sqrt(2 / math.pi)
"""E|X| of a normal X, in standard deviations: sums of several draws are near it."""
_CLEAR = 2.0
"""Standard deviations of about half an interval."""


@dataclass(frozen=True, slots=True)
class TreeDraw(CellDraw):
    """Integer cells with independent discrete Laplace noise, read with their signs."""

    tag: ClassVar[str] = "tree_cells"

    def _hull(self, values: Objects) -> Floats:
        return floats(values)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return Draw.empty(self, raw)


class _Tree(Cells, Normal):
    """A tree over bins."""

    widest: ClassVar[float] = math.inf
    """The most that a value may be off, on average: a standard deviation."""
    draws = ("tree_cells", "gaussian")
    forms = ("binned_tree",)
    mechanisms = ("discrete_laplace", "rectified_gaussian")
    nowhere_negative = True

    def priced(self, asked: Pricing) -> list[Candidate]:
        if asked.pin == NAME:
            return []
        measurement, levels = asked.measurement, len(asked.measurement.weights[0])
        noise = CellNoise.calibrate(asked.sensitivity.total, asked.epsilon)
        draw = TreeDraw(noise, len(measurement.cells), None)
        stated = tuple(
            self.tree_errors(m, measurement, draw.variance, asked.size, asked.loss)
            for m in asked.block.members
        )
        note = f"{levels} levels" if levels > 1 else "the bins alone"
        unknown = (None,) * len(stated)
        return [Candidate(measurement, draw, tuple(map(max, stated)), unknown, stated, note)]

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        return self.tree_errors(member, asked.measurement, draw.variance, asked.size, asked.loss)

    def tree_errors(
        self, member: Member, measurement: Measurement, variance: float, size: int, loss: Loss
    ) -> tuple[float, ...]:
        """Return one: the expected error where a cell's noise has that variance."""
        found = self.variances(measurement, size) * variance
        found = found / (1 + found / self.widest**2)
        if loss == "squared":
            return (float(np.mean(found)),)
        return (float(np.mean(np.sqrt(found))) * _NORMAL,)

    @abstractmethod
    def variances(self, measurement: Measurement, size: int) -> Floats:
        """Return the variances that its error is an average of, in those of a cell's noise."""

    def sensitivity(
        self, measurement: Measurement, bounds: Bounds, adjacency: Adjacency, groups: int
    ) -> Sensitivity:
        """Return the sensitivity of the bins, as many times as there are levels."""
        bins = replace(measurement, form="linear", l1_per_row=1, l1_per_swap=2)
        one = sensitivity(bins, bounds, adjacency, groups, positive=True)
        return stacked(one, len(measurement.weights[0]))

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> GaussianDraw:
        one, zero = Fraction(1), Fraction(0)
        return GaussianDraw(noise, len(measurement.cells), -RAW_LIMIT, None, one, zero, joint=False)

    def gaussian_errors(
        self, member: Member, measurement: Measurement, draw: Draw, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        """Return the same errors as of other noise; the worst is unknown."""
        assert draw.variance is not None
        return self.tree_errors(member, measurement, draw.variance, size, loss), None

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        if best.draw.gaussian:
            return gaussian_text(best.draw, s, member)
        levels = len(best.measurement.weights[0])
        return f"{s.total} over all bins" + (
            f" and their {levels - 1} coarser levels" if levels > 1 else ""
        )

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        tree = tree_of(best.measurement)
        return np.array([size * (after - first) / tree.bins for _, first, after in tree.parts()])


class TreeOfBins(_Tree):
    """A tree whose bins are published."""

    family = "tree_of_bins"
    counts = True

    def variances(self, measurement: Measurement, size: int) -> Floats:
        """Return those of all prefixes."""
        del size
        return tree_of(measurement).variances()[0]

    def beside(self, member: Member, best: Candidate, asked: Pricing, moved: Moved) -> list[Option]:
        """Return the same sums' error from a plain histogram, where its noise adds up to zero and is better.

        Where rows are replaced, one that enters a bin leaves another: few bins by themselves are then better
        than counts of runs beside them, and the request may leave `accurate_for` out.
        """
        plain = member.aggregate.plain(member.context)  # type: ignore[attr-defined]
        error, own = _balanced_error(plain, moved(plain), asked), best.errors[0]
        if error is None or own is None or error >= own:
            return []
        note = "without `accurate_for: ranges`: the noise of all bins adds up to zero"
        return [Option("discrete_laplace", error, None, note)]

    def mute(
        self, draw: Draw, measurement: Measurement, size: int, *, view: int | None
    ) -> bool | None:
        """Return whether no interval of a bin leaves anything out, near enough."""
        del size, view
        assert draw.variance is not None
        assert measurement.upper is not None
        return _CLEAR * math.sqrt(draw.variance) / len(measurement.weights[0]) >= measurement.upper


def _balanced_error(plain: Measurement, moved: Sensitivity, asked: Pricing) -> float | None:
    """Return the expected error of sums from the first bin on of bins whose noise adds up to zero, if they may have it.

    Cells that are alike, of variance v each and m together, of which k are summed: v k (m - k) / (m - 1).
    """
    bins = len(plain.cells)
    kept = plain.public_rows is not None and moved.kept
    cells = bins + (not kept)
    if not (moved.kept if kept else moved.halves) or bins < 2 or cells > MOST_CELLS:
        return None
    one = BalancedNoise.keeping(cells, moved.total, asked.epsilon).variance()
    k = np.arange(1, bins + 1)
    found = one * k * (cells - k) / (cells - 1)
    if asked.loss == "squared":
        return float(np.mean(found))
    return float(np.mean(np.sqrt(found))) * _NORMAL


class TreeOfShares(_Tree):
    """A tree whose prefixes are published as shares of the whole."""

    family = "tree_of_shares"
    widest = 1 / 3 / _NORMAL  # a share that is anywhere in [0, 1], whatever it should be
    sized = True

    def variances(self, measurement: Measurement, size: int) -> Floats:
        """Return those of the published shares where the rows lie evenly over the bins."""
        return np.asarray(tree_of(measurement).shares()[: published(measurement)] / size**2)

    def mute(
        self, draw: Draw, measurement: Measurement, size: int, *, view: int | None
    ) -> bool | None:
        """Return whether no interval of a share leaves anything out, near enough."""
        del view
        assert draw.variance is not None
        off = _CLEAR * math.sqrt(draw.variance)
        _, _, whole = tree_of(measurement).variances()
        widest = np.sqrt(self.variances(measurement, size)).min()
        return bool(off * math.sqrt(whole) >= size or off * widest >= 1)
