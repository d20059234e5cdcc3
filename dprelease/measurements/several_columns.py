"""Cells of several columns, from which covariances, correlations and eigenvalues are computed.

soft_table        S(ab) of two columns and its mirror images: one row adds exactly Ka Kb.
tensor            products of two columns' Bernstein cells: one row adds exactly (Ka Kb)^2; both columns' moments
follow too.
pairs             one set of Bernstein cells per column and four cells per pair of columns.
matrix, spectrum  the upper triangle of a covariance matrix, or its eigenvalues, in steps of a public grid,
over a public number of rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dprelease.aggregates.base import Floats, Reading
from dprelease.aggregates.exact import exact_cells
from dprelease.aggregates.jacobi import jacobi_eigenvalues
from dprelease.aggregates.measurement import Form, Measurement
from dprelease.aggregates.pair_cells import one_column
from dprelease.aggregates.sensitivity import Sensitivity
from dprelease.aggregates.spectrum import square_width
from dprelease.aggregates.spectrum_cells import matrix_shift
from dprelease.core.numeric import counted
from dprelease.measurements.base import Hull
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.cells import CellDraw
from dprelease.measurements.draw import floats
from dprelease.measurements.linear import LinearCells
from dprelease.measurements.members import Member
from dprelease.measurements.pair_price import pair_error, simulated_columns
from dprelease.measurements.spread import spreads
from dprelease.query.answer import Answer
from dprelease.query.bounded import Fixed
from dprelease.query.spec import Query


class Columns(LinearCells):
    """Cells to which one row adds what lies in the box of its columns."""

    sized = True

    def __init__(self, family: str, way: str, form: Form = "linear") -> None:
        super().__init__(family, way)
        self.forms = (form,)
        self.nowhere_negative = form == Columns.forms[0]

    def exact(self, measurement: Measurement, shares: Floats, size: int) -> Floats:
        """Return the exact cells of `size` rows like these, whose columns are shares of their ranges."""
        codes = dict.fromkeys(
            c for m in measurement.measures for c in (m.code, m.other) if c is not None
        )
        scales = [float(axis.scale) for axis in measurement.axes]
        values = dict(zip(codes, (shares * scales).T, strict=True)) | {None: np.ones(len(shares))}
        sums = [
            size * float(np.mean(values[m.code] ** m.power * values[m.other] ** m.other_power))
            for m in measurement.measures
        ]
        answer = Answer(np.array([sums], dtype=object))
        return floats(exact_cells(measurement, range(len(sums)), answer, 1)[0])

    def errors(self, member: Member, draw: CellDraw, asked: Pricing) -> tuple[float, ...]:
        def exact(shares: Floats) -> Floats:
            return self.exact(asked.measurement, shares, asked.size)

        measurement, scale = asked.measurement, draw.simulated_scale(asked.loss)
        return tuple(
            pair_error(member, measurement, exact, scale, asked.loss, spread)
            for spread in spreads(member, len(measurement.axes))
        )

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        measurement = best.measurement
        spread = spreads(member, len(measurement.axes))[-1 if narrow else 0]
        return self.exact(measurement, simulated_columns(spread, 0.5, 0.0), size)

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

    def exact(self, measurement: Measurement, shares: Floats, size: int) -> Floats:
        del size
        widths = np.array([float(a.width) for a in measurement.axes])
        values = shares * widths / float(np.sqrt(float(square_width(measurement.axes))))
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
        """Let moments of one column look at a tensor that a correlation makes anyway.

        With covariances drawn as soft tables or cross products a tensor costs them nothing extra
        either: it serves as soon as a moment of one of the two columns, over the same rows, is asked for.
        """
        del query
        tensors = [o for m in members for o in m.options if o.family == self.family and _shares(m)]
        wanted = {o.key for m in members for o in m.options[:1] if o.family == self.family}
        seen = {}
        for member in members:
            if not _shares(member) or not member.aggregate.moment:
                continue
            code = member.statistic.code
            for tensor in tensors:
                codes = (tensor.measures[0].code, tensor.measures[0].other)
                kept = all(isinstance(c, Fixed) and c.default is not None for c in codes)
                if kept and code in codes:
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
        ends = enumerate(measurement.axes)
        return tuple((view, a.offset, a.offset + a.width) for view, a in ends)


def _shares(member: Member) -> bool:
    spec = member.statistic.spec
    return spec.spikes and spec.mechanism is None and spec.max_rows is None


soft_table = Columns("soft_table", "four cells of both columns")
tensor = Tensor("tensor", "nine cells of both columns")
pairs = Columns("pairs", "cells of every column and pair", "pairs")
matrix = Spectral("matrix", "noise on the covariance matrix", "matrix")
spectrum = Spectral("spectrum", "noise on the eigenvalues", "spectrum")
