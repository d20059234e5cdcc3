"""What a measurement is: one object per family of measurements, and the list of them.

A family says all that planning, the wall and readers need to know of its measurements: which laws draw
them, what they cost and how wrong they are, how a typical group looks, what its sensitivity *claim* is
and in which words. One family is one file plus one line in `dprelease.core.registry`; nothing else
knows a family by name, but for `recompute` and `audit.laws`, which check it and must not ask it.

The exact integers of a family follow from a measurement by the public maps of `statistics.exact`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from dprelease.core import registry
from dprelease.intervals.few import normal_quantiles, sum_quantile
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.query.bounded import BoundedQuery
from dprelease.schema.domain import Domain
from dprelease.schema.unit import Adjacency
from dprelease.statistics.base import Floats, Reading, SeenCells
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Bounds, Sensitivity, sensitivity

if TYPE_CHECKING:
    from dprelease.measurements.candidate import Candidate, Option, Pricing
    from dprelease.measurements.law import Ends, Law
    from dprelease.measurements.members import Loss, Member
    from dprelease.query.spec import Query

Hull = tuple[int | None, Fraction, Fraction]
"""The view, lower and upper end of a column."""
Claim = Callable[[Measurement], Sensitivity]
"""What a plan claims of a measurement in a block's place."""


class MeasurementFamily(ABC):
    """One family of measurements. What most of them say is said here; a family's file says what differs.

    Attributes:
        family: as measurements and plans name it.
        draws: names of the laws that may draw it (`Law.tag`); forms: how its cells may be made.
        mechanisms: those that can draw it.
        free: a public number: nothing is drawn or charged.
        point_masses: it is post-processed from noisy cells, which puts mass on the ends of its domain.
        shared: it holds more than one statistic: whoever can be computed from it, is.
        one_law: it is one law over the domains of all its members.
        sized: its error depends on a size that nobody may know.
        counts: without a column, its values are numbers of rows.
        placed: its errors depend on where the answer lies, and are stated near the likely ones.
        direct: its statistic is a rising function of one cell, so that a median stays one.
        centred: the mean of what is drawn is the exact cell, where the law's is.
        interval: its values have an interval.
        ending: the law that draws it with noise that ends; empty where none does.
        judged: its errors say how wrong a value is; else they only rank the ways to draw it.
        nowhere_negative: its several cells never are, which lowers their L2 sensitivity.
        counting: which of its cells add up to a multiple of the rows whose value is known.
    """

    family: str
    draws: tuple[str, ...]
    forms: tuple[str, ...] = ("linear",)
    mechanisms: tuple[str, ...] = ()
    free: bool = False
    point_masses: bool = False
    shared: bool = False
    one_law: bool = False
    sized: bool = False
    counts: bool = False
    direct: bool = False
    placed: bool = False
    centred: bool = True
    interval: bool = True
    ending: str = ""
    judged: bool = True
    nowhere_negative: bool = False
    counting: Literal["first", "all"] | None = None

    def pins(self) -> tuple[str, ...]:
        """Return the mechanisms that a request may name for it."""
        return self.mechanisms

    def takes(self, mechanism: str) -> bool:
        """Return whether a pin to `mechanism` leaves this family."""
        return mechanism in self.pins()

    @abstractmethod
    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return the ways to draw it with a pure loss; ArgumentError if its laws cannot be built."""

    def ended(self, pricing: Pricing, delta: Fraction) -> list[Candidate]:
        """Return the ways to draw it with noise that ends, of the loss (epsilon, delta)."""
        of_keys = pricing.block.members[0].statistic.spec.found
        law: Any = registry.load("draws", "found_keys" if of_keys else self.ending)
        found: list[Candidate] = law.candidates(pricing, delta)
        return found

    def rivals(
        self, member: Member, best: Candidate, pricing: Pricing, claimed: Claim
    ) -> list[Option]:
        """Return options that the plan names for comparison only: none of them can be chosen."""
        del member, best, pricing, claimed
        return []

    def together(self, members: list[Member], query: Query) -> list[Member]:
        """Return all members of a request, those changed that this family may hold together."""
        del query
        return members

    def refusal(
        self, measurement: Measurement, law: Law, task: BoundedQuery, at: Sequence[int]
    ) -> str:
        """Return why the wall must not draw `measurement` by `law`; empty where nothing speaks against it.

        What one unit can move is not part of this: the wall recomputes it without asking.

        Args:
            task: what the engine computes; at: the places of the measurement's primitives in it.
        """
        del task, at
        if measurement.form not in self.forms:
            return f"{self.family} is not made of {measurement.form[:40]} cells"
        if law.tag not in self.draws:
            return f"{self.family} has laws of its own"
        return ""

    def exact_ends(self, measurement: Measurement) -> Ends:
        """Return where exact statistics lie, by public facts: by default where their cells do."""
        start, each = measurement.offset, measurement.step_size
        high = math.inf if measurement.upper is None else start + each * measurement.upper
        return start + each * measurement.lower, high

    def cell_unit(self, measurement: Measurement) -> Fraction:
        """Return what one step of a cell is in the unit in which cells are read."""
        del measurement
        return Fraction(1)

    def counted(self, measurement: Measurement) -> tuple[tuple[int, ...], ...]:
        """Return the weights of the cells whose L1 sensitivity the claim is about: by default all."""
        return measurement.weights

    def sensitivity(
        self, measurement: Measurement, bounds: Bounds, adjacency: Adjacency, groups: int
    ) -> Sensitivity:
        """Return the sensitivity that a plan claims; `recompute` proves it without asking."""
        positive = self.nowhere_negative and measurement.lower >= 0  # a sum about its middle is not
        return sensitivity(measurement, bounds, adjacency, groups, positive=positive)

    @abstractmethod
    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        """Return how far one unit moves what the noise is added to, in the statistic's words."""

    def error_text(self, law: Law, measurement: Measurement, view: int | None) -> str | None:
        """Return the error of a drawn value in words, where it is not a number in the statistic's unit."""
        del law, measurement, view
        return None

    def notes(self, law: Law, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        """Return the report's sentences on how the statistic at `view` is drawn."""
        del law, measurement, view
        return ()

    @abstractmethod
    def typical(
        self, best: Candidate, member: Member, size: int, *, narrow: bool
    ) -> Floats | Sequence[float]:
        """Return the noisy integers of a group of `size` rows as they would be without noise."""

    def mute(
        self, law: Law, measurement: Measurement, size: int, *, view: int | None
    ) -> bool | None:
        """Return whether a value says nothing in a group of `size` rows; None: its interval tells."""
        del law, measurement, size, view
        return None

    def seen(
        self, measurement: Measurement, cells: Floats, reading: Reading, view: int
    ) -> tuple[Measurement, Floats, Reading]:
        """Return what the statistic at `view` sees of a block of several: by default everything."""
        del view
        return measurement, cells, reading

    def counts_known(self, measurement: Measurement) -> bool:
        """Return whether its cells count the rows with a known value."""
        return self.counting is not None and measurement.public_rows is None

    def part(self, measurement: Measurement, view: int | None) -> SeenCells | None:
        """Return what the statistic at `view` sees, where that are sums of drawn cells: by default the rows counted."""
        if view is None or self.counting is None:
            return None
        most = len(measurement.cells) if self.counting == "all" else 1
        return part_of_size(measurement, range(most))

    def known_rows(
        self, measurement: Measurement, reading: Reading
    ) -> tuple[Floats, Floats] | None:
        """Return the least and the most rows with a known value, `(groups,)`; None where no cell counts them."""
        if not self.counts_known(measurement):
            return None
        cells = slice(None) if self.counting == "all" else slice(1)
        each = float(sum(weights[0] for weights in measurement.weights[cells]))
        return reading.low[:, cells].sum(axis=1) / each, reading.high[:, cells].sum(axis=1) / each

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> Law | None:
        """Return its draw with normal noise; None where it has none."""
        del measurement, noise
        return None

    def gaussian_errors(
        self, member: Member, measurement: Measurement, law: Law, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        """Return (average per spread, worst) expected errors under normal noise, where it has a draw."""
        del member, measurement, law, size, loss
        return (), None

    def near_errors(
        self, law: Law, measurement: Measurement, member: Member, loss: Loss
    ) -> tuple[float, ...] | None:
        """Return the expected errors over likely answers, one per spread; None where they are those over all answers."""
        del law, measurement, member, loss
        return None

    def farthest_error(
        self, law: Any, measurement: Measurement, member: Member, size: int, loss: Loss
    ) -> float | None:
        """Return the expected error at the worst place of the rows; None where it is that of the law's worst answer."""
        del law, measurement, member, size, loss
        return None

    def hulls(self, measurement: Measurement) -> tuple[Hull, ...]:
        """Return the columns whose means and variances it holds together."""
        del measurement
        return ()


def part_of_size(measurement: Measurement, places: Sequence[int]) -> SeenCells:
    """Return what a number of rows sees of the cells at `places`, which add up to a multiple of it."""
    each = Fraction(1, sum(measurement.weights[place][0] for place in places))
    seen = replace(measurement, family="scalar", cells=("rows",), weights=(), axes=())
    return SeenCells(seen, tuple(places), ((each,) * len(places),))


def cell_hull(measurement: Measurement) -> Domain:
    """Return the range of a scalar's cell, in the statistic's unit."""
    low, high = measurement.lower, measurement.upper
    assert high is not None
    return Domain(
        measurement.offset + measurement.step_size * low,
        measurement.offset + measurement.step_size * high,
    )


@lru_cache(maxsize=64)
def family_named(family: str) -> MeasurementFamily:
    """Return the family of that name; ArgumentError if there is none (DPR610)."""
    return cast("MeasurementFamily", registry.load("measurements", family))


def family_of(measurement: Measurement) -> MeasurementFamily:
    """Return the family that `measurement` is of."""
    return family_named(measurement.family)


def seen_by(
    view: int | None, measurement: Measurement, cells: Floats, reading: Reading
) -> tuple[Measurement, Floats, Reading]:
    """Return what a statistic sees: everything, or column `view` of a block of several."""
    if view is None:
        return measurement, cells, reading
    kind = family_of(measurement)
    part = kind.part(measurement, view)
    if part is None:
        return kind.seen(measurement, cells, reading, view)
    places, mix, scale = list(part.places), np.array(part.mix, dtype=float), reading.scale or 0.0
    raw = reading.raw[:, places]
    size = np.abs(mix[:1])  # bounds are read of a number of rows alone, which is one sum
    if reading.gaussian:
        half = float(normal_quantiles(size, scale, reading.level)[0])
    else:
        half = scale * sum_quantile(tuple(size[0].tolist()), reading.level) + size.sum()
    own, rows = raw @ mix.T, tuple(map(tuple, mix.tolist()))
    read = replace(reading, low=own - half, high=own + half, raw=raw, mix=rows)
    return part.seen, cells[:, places] @ mix.T, read


def counts_values(of: Measurement, chosen: Measurement) -> bool:
    """Return whether known values that `of` counts are those that `chosen` is drawn among: of no column, all rows."""
    same = of.key[1:2] == chosen.key[1:2] or (not of.key[1:] and bool(chosen.data.get("complete")))
    return same and of.max_rows == chosen.max_rows
