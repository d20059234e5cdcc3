"""Cells of several columns, from which covariances, correlations and eigenvalues are computed.

soft_table        S(ab) of two columns and its mirror images: one row adds exactly Ka Kb, Ka the greatest code of a.
tensor            products of two columns' Bernstein cells: one row adds exactly (Ka Kb)^2; both columns' moments
follow too.
pairs             one set of Bernstein cells per column and four cells per pair of columns.
matrix, spectrum  the upper triangle of a covariance matrix, or its eigenvalues, in steps of a public grid,
over a public number of rows.

shared_rows       has, with s_j in [-1, 1] the place of a row in column j's range and whole numbers as large as each other
(`_FINE`), the sums over rows of 1, of every s_j, of 2 s_j^2 - 1 where a variance is asked for, and of s_i s_j
where a covariance is. All are largest at a corner of the box, so a row that comes or goes moves them by
the sum of their largest values. How much the four kinds get of that is public: where n are of one kind and C is
what its noise adds to the members' squared errors, (C/n)^(1/3) is least for noise by L1, and near it by L2. A
member sees soft tables or Bernstein cells of its columns, which are linear in these sums. Its views: below the
number d of columns a column, d the size, above it the pairs in order. A size's unit is a row.

Source of the last: `docs/theory/sensitivities-and-contribution-bounding.md#shared-rows`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from itertools import combinations
from typing import Any

import numpy as np

from dprelease.core.numeric import counted
from dprelease.measurements.base import Hull, part_of_size
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellLaw, CentredLaw
from dprelease.measurements.law import floats
from dprelease.measurements.linear import LinearCells, Moments
from dprelease.measurements.members import Loss, Member
from dprelease.measurements.pair_price import pair_error, simulated_columns
from dprelease.measurements.price import cell_error, mixed_noise
from dprelease.measurements.spread import spreads
from dprelease.query.answer import Answer
from dprelease.query.bounded import Code, Fixed
from dprelease.query.spec import Query
from dprelease.statistics.base import Floats, Reading, SeenCells
from dprelease.statistics.exact import exact_cells
from dprelease.statistics.jacobi import jacobi_eigenvalues
from dprelease.statistics.measurement import Axis, Family, Form, Measure, Measurement
from dprelease.statistics.pair_cells import one_column
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.statistics.spectrum import square_width
from dprelease.statistics.spectrum_cells import matrix_shift

Powers = tuple[int, Mapping[Code, Axis]]
"""What a member is a function of: the highest moment, and its columns; none of a size."""

_FINE, _PARTS = 1024, 64
"""Cells of one kind differ by less than a thousandth in what a row adds; the kinds' parts are whole 64ths."""

_ERRORS = {
    (0, 0): (0.5, 0.0, 0.0, 0.0),
    (1, 1): (0.12, 0.38, 0.0, 0.0),
    (2, 1): (0.08, 0.2, 0.042, 0.0),
    (2, 2): (0.013, 0.088, 0.0, 0.147),
}
"""What noise on the size, the sums, the squares and the products adds to a member's squared error, as a part of what it is
where it is drawn alone at an equal epsilon; of a mean anywhere in its range. Half of it counts of a size, which is drawn for all."""

_SEEN: dict[tuple[int, int], tuple[Family, int, int, Sequence[tuple[int, ...]]]] = {
    (1, 2): ("two_sums", 1, 2, ((1, 1), (1, -1))),
    (1, 3): ("bernstein2", 2, 8, ((3, -4, 1), (2, 0, -2), (3, 4, 1))),
    (2, 4): ("soft_table", 1, 4, ((1, -1, -1, 1), (1, -1, 1, -1), (1, 1, -1, -1), (1, 1, 1, 1))),
}
"""By how many columns and drawn cells: what a member sees, in which power of the ranges, and its cells as so many parts of
combinations of the size, the sums, and the product or the squares."""


class Columns(LinearCells):
    """Cells to which one row adds what lies in the box of its columns."""

    sized = True

    def __init__(self, family: str, note: str, form: Form = "linear") -> None:
        super().__init__(family, note)
        self.forms = (form,)
        self.nowhere_negative = form == Columns.forms[0]

    def exact(self, measurement: Measurement, size: int, *where: Any) -> Floats:
        """Return the exact cells of `size` rows distributed as `simulated_columns(*where)`."""
        return _exact(measurement, size, *where)

    def errors(self, member: Member, law: CellLaw, pricing: Pricing) -> tuple[float, ...]:
        measurement, scale = pricing.measurement, law.simulated_scale(pricing.loss)
        exact = partial(self.exact, measurement, pricing.size)
        return tuple(
            pair_error(member, measurement, exact, scale, pricing.loss, spread)
            for spread in spreads(member, len(measurement.axes))
        )

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        measurement = best.measurement
        spread = spreads(member, len(measurement.axes))[-1 if narrow else 0]
        return self.exact(measurement, size, spread, 0.5, 0.0)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        """Return the sensitivity of cells in words: rows of the columns' boxes."""
        measurement = best.measurement
        rows = s.l1_over_groups // measurement.l1_added_row
        measures = [c.measure for c in member.statistic.columns] or [None] * len(measurement.axes)
        spans = []
        for axis, measure in zip(measurement.axes, measures, strict=True):
            low, high = float(axis.offset), float(axis.offset + axis.width)
            spans.append(f"[{low:g}, {high:g}]" + (f" {measure}" if measure else ""))
        shown = spans if len(spans) <= 3 else [*spans[:2], "…"]
        return f"{counted(rows, 'row')} in {' × '.join(shown)}"


class Spectral(Columns):
    """A covariance matrix's entries or eigenvalues in grid steps; the number of rows does not matter."""

    sized = False

    def exact(self, measurement: Measurement, size: int, *where: Any) -> Floats:
        del size
        widths = np.array([float(a.width) for a in measurement.axes])
        values = (
            simulated_columns(*where)
            * widths
            / float(np.sqrt(float(square_width(measurement.axes))))
        )
        centred = values - values.mean(axis=0)
        covariance, grid = centred.T @ centred / len(values), float(measurement.step_size)
        if len(measurement.cells) == len(measurement.axes):  # as many eigenvalues as columns
            return np.asarray(jacobi_eigenvalues(covariance[None])[0] / grid)
        upper = covariance[np.triu_indices(len(widths))]
        return np.asarray(upper / grid + float(matrix_shift(measurement)))

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        """Return it in the squared unit."""
        measurement = best.measurement
        move = float(s.l1_over_groups * measurement.step_size * square_width(measurement.axes))
        unit = f" {member.measure}" if member.measure else ""
        all_of = len(measurement.cells) == len(measurement.axes)
        where = "all eigenvalues" if all_of else "the matrix"
        return f"{move:.4g}{unit} over {where}"


class Tensor(Columns):
    """Nine cells, from which both columns' moments follow too."""

    shared = True

    def together(self, members: list[Member], query: Query) -> list[Member]:
        """Let moments of one column be computed from the noisy cells of a tensor that a correlation draws anyway.

        With covariances drawn as soft tables or cross products a tensor costs them nothing extra
        either: it serves as soon as a moment of one of the two columns, over the same rows, is asked for.
        """
        del query
        tensors = [o for m in members for o in m.options if o.family == self.family and _shares(m)]
        wanted = {o.key for m in members for o in m.options[:1] if o.family == self.family}
        seen = {}
        for member in members:
            if not _shares(member) or not member.kind.moment:
                continue
            code = member.statistic.code
            for tensor in tensors:
                codes = (tensor.measures[0].code, tensor.measures[0].other)
                complete = all(isinstance(c, Fixed) and c.default is not None for c in codes)
                if complete and code in codes:
                    wanted.add(tensor.key)
                    seen[member.statistic.spec.name] = tensor, codes.index(code)
                    break

        def settled(member: Member) -> Member:
            found = seen.get(member.statistic.spec.name)
            if found is not None:
                return replace(member, options=(found[0],), view=found[1])
            if _shares(member) and any(o.key in wanted for o in member.options):
                return replace(member, options=tuple(o for o in member.options if o.key in wanted))
            return member

        return [settled(m) for m in members]

    def seen(
        self, measurement: Measurement, cells: Floats, reading: Reading, view: int
    ) -> tuple[Measurement, Floats, Reading]:
        return one_column(measurement, cells, reading, view)

    def hulls(self, measurement: Measurement) -> tuple[Hull, ...]:
        return _hulls(measurement)


class Shared(Moments):
    """One size, and a sum, a square or a product of each column or pair, all but the size of either sign."""

    normal = True

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
        if member.kind.of_rows:
            return super().simulated(member, measurement, scale, size, loss, gaussian=gaussian)
        part, member = self.part(measurement, member.view), replace(member, view=None)
        assert part is not None
        noises, mix = mixed_noise(part.mix, gaussian=gaussian), np.array(part.mix, dtype=float)
        most = [size * float(abs(measurement.weights[place][0])) for place in part.places]

        def seen(values: Sequence[Any]) -> Floats:
            return np.asarray(np.stack(values[: len(most)], axis=-1) * most @ mix.T)

        def of_column(mean: Floats, square: Floats) -> Floats:
            return seen([np.ones_like(mean), 2 * mean - 1, 8 * (square - mean) + 1])

        def of_pair(*where: Any) -> Floats:
            s = 2 * simulated_columns(*where) - 1
            return seen([1.0, *s.mean(axis=0), s.prod(axis=1).mean()])

        of, each = part.seen, spreads(member)
        if of.axes:
            return tuple(pair_error(member, of, of_pair, scale, loss, s, noises) for s in each)
        price = partial(cell_error, member.kind, of, of_column, scale, loss, noises=noises)
        return tuple(
            price(spread=spread, farthest=farthest)
            for (spread,) in each[: None if member.kind.moment == 2 else 1]
        )

    def part(self, measurement: Measurement, view: int | None) -> SeenCells | None:
        """Return what a member sees; what a cell can be at most is what a row at no corner adds to it, but for the sign."""
        d, rows = len(measurement.axes), enumerate(measurement.weights)
        columns = _views(d)[view or 0]
        if not columns:
            return part_of_size(measurement, (0,))
        own = [measurement.axes[j] for j in columns]
        second = (r for r, row in rows if r > d and _columns_of(row, d) == columns)
        places = 0, *(1 + j for j in columns), *second
        family, power, parts, table = _SEEN[len(columns), len(places)]
        unit = math.prod(axis.scale for axis in own) ** power
        each = [Fraction(unit, parts * abs(measurement.weights[place][0])) for place in places]
        mix = tuple(tuple(w * m for w, m in zip(row, each, strict=True)) for row in table)
        seen = replace(
            measurement,
            family=family,
            cells=("",) * len(mix),
            weights=(),
            scale=own[0].scale,
            offset=own[0].offset,
            step_size=own[0].step_size,
            axes=tuple(own) if len(own) == 2 else (),
        )
        return SeenCells(seen, places, mix)

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        """Return cells of columns with the same moments, which are not correlated."""
        spread, *_ = spreads(replace(member, view=None))[-1 if narrow else 0]
        weights, d = np.array(best.measurement.weights, dtype=object), len(best.measurement.axes)
        square = 8 * spread**2 - 1
        second = [square if len(_columns_of(w, d)) == 1 else 0.0 for w in weights[1 + d :]]
        return np.asarray(size * abs(weights[:, 0]) * [1.0, *[0.0] * d, *second], dtype=float)

    def hulls(self, measurement: Measurement) -> tuple[Hull, ...]:
        return _hulls(measurement)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        """Return the sensitivity of cells in words: rows of all columns."""
        rows = s.l1_over_groups // best.measurement.l1_added_row
        return f"{counted(rows, 'row')} of {len(best.measurement.axes)} columns together"


def _hulls(measurement: Measurement) -> tuple[Hull, ...]:
    ends = enumerate(measurement.axes)
    return tuple((view, a.offset, a.offset + a.width) for view, a in ends)


@lru_cache(maxsize=2048)
def _exact(measurement: Measurement, size: int, *where: Any) -> Floats:
    """Return what `Columns.exact` does: a search over budgets asks for the same cells at each."""
    sums = [size * mean for mean in _means(measurement, *where)]
    answer = Answer(np.array([sums], dtype=object))
    return floats(exact_cells(measurement, range(len(sums)), answer, 1)[0])


@lru_cache(maxsize=2048)
def _means(measurement: Measurement, *where: Any) -> tuple[float, ...]:
    """Return the mean of each measure over the rows of `simulated_columns(*where)`."""
    shares, codes = simulated_columns(*where), list[Code | None]([None])
    for m in measurement.measures:
        codes += [c for c in (m.code, m.other) if c not in codes]
    scales = [float(axis.scale) for axis in measurement.axes]
    columns = [np.ones(len(shares)), *(shares * scales).T]

    def power(code: Code | None, of: int) -> Floats:
        return np.asarray(columns[codes.index(code)] ** of)

    return tuple(
        float((power(m.code, m.power) * power(m.other, m.other_power)).mean())
        for m in measurement.measures
    )


def _shares(member: Member) -> bool:
    spec = member.statistic.spec
    return spec.spikes and spec.mechanism is None and spec.max_rows is None


def _views(d: int) -> list[tuple[int, ...]]:
    """Return which columns the statistic at each view sees; it sees a size of none."""
    return [*((j,) for j in range(d)), (), *combinations(range(d), 2)]


def _columns_of(row: Sequence[int], d: int) -> tuple[int, ...]:
    return tuple(j for j in range(d) if row[1 + j])


def shared_rows(powers: Sequence[Powers]) -> tuple[tuple[Measurement], list[int | None]]:
    """Return the measurement of all that is asked of two columns or more, and each one's view of it."""
    axes = {code: axis for _, columns in powers for code, axis in columns.items()}
    codes, k = list(axes), [axis.scale for axis in axes.values()]
    own = [tuple(sorted(map(codes.index, columns))) for _, columns in powers]
    pairs = {(c[0], c[-1]) for (degree, _), c in zip(powers, own, strict=True) if degree == 2}
    second = sorted(pairs, key=lambda pair: (pair[0] != pair[1], pair))
    of = [(), *((j,) for j in range(len(k))), *second]
    kinds = [len(c) + (len({*c}) == 2) for c in of]
    totals = [sum(_ERRORS[degree, len(c)][i] for degree, c in powers) for i in range(4)]
    wanted = [(c / max(1, kinds.count(i))) ** (1 / 3) for i, c in enumerate(totals)]
    parts = [max(1, round(_PARTS * w / max(wanted))) for w in wanted]
    whole = [math.prod(k[j] for j in columns) for columns in of]
    rows = np.zeros((len(of),) * 2, dtype=object)
    for r, columns in enumerate(of):
        rows[r, r] = (1, 2, 8, 4)[kinds[r]]
        rows[r, 0] = (-1) ** len(columns) * whole[r]
        for one, other in (columns, columns[::-1]) if len(columns) == 2 else ():
            rows[r, 1 + one] -= rows[r, r] // 2 * k[other]
        rows[r] *= parts[kinds[r]] * _FINE * max(whole) // whole[r]
    most = [abs(int(m)) for m in rows[:, 0]]
    square = sum(m * m for m in most)
    measures = [Measure("power", codes[0], 0), *(Measure("power", code, 1) for code in codes)]
    for i, j in second:
        product = Measure("product", codes[i], 1, other=codes[j], other_power=1)
        measures.append(Measure("power", codes[i], 2) if i == j else product)
    measurement = Measurement(
        family="shared_rows",
        key=("shared_rows",),
        cells=("rows", *(f"sum {i} of {len(k)} columns" for i in range(1, len(most)))),
        measures=tuple(measures),
        weights=tuple(map(tuple, rows.tolist())),
        l1_added_row=sum(most),
        l1_replaced_row=max(sum(most), 2 * sum(most[1:])),
        axes=tuple(axes.values()),
        squares=(square, max(square, 4 * (square - most[0] ** 2))),
    )
    return (measurement,), [*map(_views(len(k)).index, own)]


soft_table = Columns("soft_table", "four cells of both columns")
tensor = Tensor("tensor", "nine cells of both columns")
pairs = Columns("pairs", "cells of every column and pair", "pairs")
matrix = Spectral("matrix", "noise on the covariance matrix", "matrix")
spectrum = Spectral("spectrum", "noise on the eigenvalues", "spectrum")
sharing = Shared("shared_rows", "one size for all of the columns", CentredLaw)
