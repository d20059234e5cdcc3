"""Sums over rows with integer weights, and noise of one scale on each: what statistics made of them err.

The exact cells of a group are `weights @ measures`. So what typical rows add to them follows from typical sums,
and a family says only what no matrix says: what its cells are for, where it may be best, and its law.

Of one column
    two_sums, bernstein2    partitions of unity: no cell is negative, and every row adds as much to all together.
    centred_sums            rows, and twice their sum about the middle of the range. A row that is exchanged moves
                            the second cell only, and one that comes or goes moves both, by as much at most. So the
                            mean, half the quotient from the middle, has about a quarter less error than the shares of
                            two sums, whose cells are moved both at once. Where units are only added or removed
                            two sums are better, and this is not offered.
    centred_squares         the same with squares. A row that is exchanged moves the sum most where it crosses the range,
                            and the squares least there; both together move by 9/4 and not by 2 + 1. The noise of
                            a variance about a mean in the middle is that of the squares alone. So its error is about a
                            quarter less than from Bernstein cells, and of a public number of rows often less than
                            from the scatter itself, whose one number moves by the whole range squared wherever
                            the rows are. Where units are only added or removed Bernstein cells are better.
    Of weighted rows all cells have the weight as a factor, and move as far as the heaviest row.
Of two columns whose sums are divided
    ratio_sums, ratio_ends  a denominator and a numerator about a guess; their sum and their difference. The first is
                            better where a row that is heavy in one is heavy in both, the second where the columns
                            move by themselves (`statistics.ratio_sums`).

Units: grid steps; epsilon in nats; errors in the statistic's unit, squared under squared loss.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`, `#weighted-sums`,
`#centred-sums`, `#centred-squares`, `#ratios-of-sums`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dprelease.core.numeric import counted, shown
from dprelease.measurements.base import Claim, Hull, MeasurementFamily
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.cells import CellLaw, CentredLaw, EndsLaw, PublicLaw
from dprelease.measurements.gaussian import NAME, GaussianLaw, read_together
from dprelease.measurements.law import RAW_LIMIT, Ends, Law
from dprelease.measurements.members import Loss, Member
from dprelease.measurements.price import cell_error, mixed_noise
from dprelease.measurements.spread import spreads
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.query.bounded import Fixed
from dprelease.statistics.base import Floats
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.moments import cells_of, squares_of
from dprelease.statistics.sensitivity import Sensitivity

_LESS = Fraction(3, 4)
"""Of the heaviest weight: the narrower range whose error a plan names."""


class LinearCells(MeasurementFamily):
    """Several integer cells with independent noise, from which statistics are computed.

    Attributes:
        note: what is special about it, in a plan's words; laws: its draws where rows are private, and where public.
    """

    draws: tuple[str, ...] = ("cells",)
    mechanisms: tuple[str, ...] = ("discrete_laplace", "rectified_gaussian", "rectified_laplace")
    point_masses = True
    note = ""
    laws: tuple[type[CellLaw], ...] = (CellLaw,)

    def __init__(self, family: str, note: str = "", *laws: type[CellLaw]) -> None:
        self.family, self.note = family, note
        if laws:  # cells of either sign: nothing raises them to 0
            self.laws, self.draws = laws, tuple(law.tag for law in laws)
            self.mechanisms = LinearCells.mechanisms[:1]

    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return its noise; normal noise has no pure loss, and `measurements.gaussian` prices it."""
        if (
            pricing.pin == NAME
            or pricing.pin not in (None, *self.mechanisms)
            or not self.serves(pricing)
        ):
            return []
        noise = CellNoise.calibrate(pricing.sensitivity.l1_over_groups, pricing.epsilon)
        measurement, name = pricing.measurement, pricing.pin or self.mechanisms[0]
        law = self.laws[0 if measurement.public_rows is None else -1]
        whole = law(noise, len(measurement.cells), self.upper(measurement), name)
        if pricing.only_as and not pricing.only_as.errors:
            of = len(pricing.block.members)
            return [Candidate(measurement, whole, (0.0,) * of, (None,) * of, note=self.note)]
        return [self.candidate(pricing, whole, self.note)]

    def candidate(self, pricing: Pricing, law: CellLaw, note: str) -> Candidate:
        """Return a way to draw it with the errors of all members; the worst are unknown."""
        stated = tuple(self.errors(m, law, pricing) for m in pricing.block.members)
        unknown = (None,) * len(stated)
        return Candidate(pricing.measurement, law, tuple(map(max, stated)), unknown, stated, note)

    def serves(self, pricing: Pricing) -> bool:
        """Return whether it may be the best way to draw what is asked for."""
        del pricing
        return True

    def upper(self, measurement: Measurement) -> int | None:
        """Return the public top of every cell, where cells are read one by one."""
        del measurement
        return None

    @abstractmethod
    def errors(self, member: Member, law: CellLaw, pricing: Pricing) -> tuple[float, ...]:
        """Return the expected errors of a statistic, one per spread of its rows that matters."""


class Moments(LinearCells):
    """Cells of one column that are read together, of which its mean, and its variance, are functions."""

    sized = True
    normal = False

    def __init__(self, family: str, note: str = "", *laws: type[CellLaw]) -> None:
        super().__init__(family, note, *laws)
        self.nowhere_negative = not laws
        self.counting = "first" if laws else "all"
        self.shared = squares_of(family) is not None
        if not laws or self.normal:
            self.draws = (*self.draws, GaussianLaw.tag)

    def serves(self, pricing: Pricing) -> bool:
        """Return whether cells about the middle may be best: where a unit may change inside a group.

        That is where it moves more often than groups change. Those with squares are for a variance, and not
        where it is judged at the worst answer, all rows at one end: a scatter has less error there.
        """
        if self.nowhere_negative or self.normal:
            return True
        s, public = pricing.sensitivity, pricing.measurement.public_rows is not None
        asks = not self.shared or any(m.kind.moment == 2 for m in pricing.block.members)
        late = public and pricing.judge == "worst"
        return (public or s.chain_length > s.changed_groups) and asks and not late

    def exact_ends(self, measurement: Measurement) -> Ends:
        """Return where a statistic of one row's values lies: in the range of the values."""
        start = measurement.offset
        return start, start + measurement.step_size * measurement.scale

    def exact(self, measurement: Measurement, size: int, mean: Floats, square: Floats) -> Floats:
        """Return the exact cells of `size` rows whose mean and mean square, as shares, are these."""
        k, weight = float(measurement.scale), float(typical_weight(measurement))
        powers, sums = (np.ones_like(mean), k * mean, k * k * square), []
        for measure in measurement.measures:
            other = measure.other  # the steps of a weight, counted from the least one
            heavy = weight - other.grid.lower if isinstance(other, Fixed) else 1.0
            sums.append(powers[measure.power] * heavy**measure.other_power)
        weights, rows = np.array(measurement.weights, float), measurement.public_rows or size
        return np.asarray(rows * (weights @ np.stack(sums)).T)

    def errors(self, member: Member, law: CellLaw, pricing: Pricing) -> tuple[float, ...]:
        scale = law.simulated_scale(pricing.loss)
        return self.simulated(member, pricing.measurement, scale, pricing.size, pricing.loss)

    def simulated(
        self,
        member: Member,
        measurement: Measurement,
        scale: float,
        size: int,
        loss: Loss,
        *,
        gaussian: bool = False,
        farthest: bool = False,
    ) -> tuple[float, ...]:
        """Return the expected errors under noise of `scale` steps, one per spread; of a number of rows one.

        On average over means, or at the farthest one. One where the statistic is a mean of these cells: its noise is the same for all rows of one mean.
        """
        part = self.part(measurement, member.view) if member.kind.of_rows else None
        if part is not None:  # a sum of drawn cells, which is whole
            off = np.rint(scale * mixed_noise(part.mix, gaussian=gaussian))
            return (float(np.mean(off**2 if loss == "squared" else np.abs(off))),)
        exact = partial(self.exact, measurement, size)
        return tuple(
            cell_error(
                member.kind,
                measurement,
                exact,
                scale,
                loss,
                spread=spread,
                gaussian=gaussian,
                farthest=farthest,
            )
            for (spread,) in spreads(member)[: None if self.shared else 1]
        )

    def farthest_error(
        self, law: Any, measurement: Measurement, member: Member, size: int, loss: Loss
    ) -> float | None:
        normal = bool(law.gaussian)
        scale = law.noise.scale if normal else law.simulated_scale(loss)
        return max(
            self.simulated(member, measurement, scale, size, loss, gaussian=normal, farthest=True)
        )

    def gaussian(self, measurement: Measurement, noise: GaussianCells) -> GaussianLaw | None:
        if GaussianLaw.tag not in self.draws:
            return None
        return read_together(measurement, noise, 0 if self.nowhere_negative else -RAW_LIMIT)

    def gaussian_errors(
        self, member: Member, measurement: Measurement, law: Law, size: int, loss: Loss
    ) -> tuple[tuple[float, ...], float | None]:
        """Return them; the worst is unknown for ratios of cells."""
        assert isinstance(law, GaussianLaw)
        scale = law.noise.scale
        return self.simulated(member, measurement, scale, size, loss, gaussian=True), None

    def rivals(
        self, member: Member, best: Candidate, pricing: Pricing, claimed: Claim
    ) -> list[Option]:
        """Return the errors of the unweighted statistic, and of one with a narrower range of weights.

        Noise is for the heaviest row there may be, so the error is as many times that of the unweighted mean as
        the heaviest weight is above the average one.
        """
        weight, measurement = member.statistic.weight, best.measurement
        law: Any = best.law
        if weight is None or not isinstance(getattr(law, "noise", None), CellNoise):
            return []
        plain = replace(measurement, axes=())
        said = [(plain, Fraction(1, weight.most), "not weighted: another statistic")]
        if _LESS * weight.most >= typical_weight(measurement):
            note = f"if weights were clamped to {shown(_LESS * weight.most * weight.step)}, and their average stayed"
            said.append((measurement, _LESS, note))
        out = []
        for of, part, note in said:
            total = max(1, int(part * pricing.sensitivity.l1_over_groups))
            noise = CellNoise.calibrate(total, pricing.epsilon)
            error = self.errors(member, replace(law, noise=noise), replace(pricing, measurement=of))
            out.append(Option(law.mechanism, error[0], None, note))
        return out

    def hulls(self, measurement: Measurement) -> tuple[Hull, ...]:
        """Return its column, where it is shared: a mean and a variance are of the same rows then."""
        low = measurement.offset
        ends = low, low + measurement.scale * measurement.step_size
        return ((None, *ends),) if self.shared else ()

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        (spread,) = spreads(replace(member, view=None))[-1 if narrow else 0]
        mean = np.array([0.5])
        cells = self.exact(best.measurement, size, mean, mean * mean + spread**2)
        return np.asarray(cells[0])

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        """Return the sensitivity in words: rows of the column's range."""
        rows = s.l1_over_groups // best.measurement.l1_added_row
        if member.kind.of_rows:
            return counted(rows, "row")
        column, weight = member.statistic.column, member.statistic.weight
        unit = f" {column.measure}" if column and column.measure else ""
        heavy = "" if weight is None else f" of weight {shown(weight.most * weight.step)}"
        return f"{counted(rows, 'row')}{heavy} in {member.statistic.hull}{unit}"


def typical_weight(measurement: Measurement) -> Fraction:
    """Return the middle of a weight's range, in its steps; 1 where rows are counted.

    Nothing private is known, so rows are supposed to weigh as much as that.
    """
    if not measurement.axes:
        return Fraction(1)
    axis = measurement.axes[0]
    return axis.offset / axis.step_size + Fraction(axis.scale, 2)


class RatioSums(LinearCells):
    """Two sums of one row's columns whose quotient is a ratio; the cells may have either sign."""

    sized = True

    def exact_ends(self, measurement: Measurement) -> Ends:
        """Return everything: a plan does not hold which quotients rows allow."""
        del measurement
        return -math.inf, math.inf

    def errors(self, member: Member, law: CellLaw, pricing: Pricing) -> tuple[float, ...]:
        """Return one, averaged over numerators anywhere in their range."""
        scale = law.simulated_scale(pricing.loss)
        return (self._simulated(member, pricing.measurement, scale, pricing.size, pricing.loss),)

    def farthest_error(
        self, law: Any, measurement: Measurement, member: Member, size: int, loss: Loss
    ) -> float | None:
        scale = law.simulated_scale(loss)
        return self._simulated(member, measurement, scale, size, loss, farthest=True)

    def _simulated(
        self,
        member: Member,
        measurement: Measurement,
        scale: float,
        size: int,
        loss: Loss,
        *,
        farthest: bool = False,
    ) -> float:
        def exact(share: Floats, square: Floats) -> Floats:
            del square
            return self.exact(measurement, member, size, share)

        return cell_error(member.kind, measurement, exact, scale, loss, far=True, farthest=farthest)

    def exact(self, measurement: Measurement, member: Member, size: int, share: Floats) -> Floats:
        """Return the cells of rows whose numerator is this share of its range, their denominator its middle."""
        top, bottom = member.statistic.codes
        assert isinstance(top, Fixed)
        assert isinstance(bottom, Fixed)
        middle = float(bottom.step) * (bottom.grid.lower + bottom.grid.upper) / 2
        mean = float(top.step) * (top.grid.lower + share * top.grid.hull_steps)
        width = float(measurement.scale * measurement.step_size)
        of = cells_of(self.family)
        assert of is not None
        t = (mean / middle - float(measurement.offset)) / width
        t = np.clip(t, *of.span(measurement))
        total = size * float(measurement.scale * typical_weight(measurement))
        sums = np.stack([total * t, np.full_like(t, total)])
        return np.asarray(np.linalg.solve(np.array([of.scores, of.parts]), sums).T)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        rows = s.l1_over_groups // best.measurement.l1_added_row
        spans = [
            f"{c.name} in {c.domain or '[0, 1]'}{f' {c.measure}' if c.measure else ''}"
            for c in member.statistic.columns
        ]
        return f"{counted(rows, 'row')} with {' and '.join(spans)}"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        del narrow
        return np.asarray(self.exact(best.measurement, member, size, np.array([0.5]))[0])


two_sums = Moments("two_sums")
bernstein2 = Moments("bernstein2")
centred_sums = Moments(
    "centred_sums", "rows, and their sum about the middle of the range", CentredLaw
)
centred_squares = Moments(
    "centred_squares", "sums and squares about the middle of the range", CentredLaw, PublicLaw
)
ratio_sums = RatioSums("ratio_sums", "the denominator, and the numerator about a guess", CentredLaw)
ratio_ends = RatioSums(
    "ratio_ends", "two multiples of the denominator, less and more the numerator", EndsLaw
)
