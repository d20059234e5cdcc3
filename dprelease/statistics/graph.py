"""Statistics of a simple graph: lambda_2 of its Laplacian, a node's degree, the whole spectrum.

Domains (`docs/theory/domains-and-grids.md#induced-domains`): a degree lies in {0..n - 1}; lambda_2
in [0, n - 2] or at n, as only the
complete graph passes n - 2; every eigenvalue in [0, n]. Eigenvalues become integer cells on a public
grid of step size 1/d, fine against their sensitivity and always coarser than their numerical error; what
both cost is in `graph_sensitivity`. lambda_1 = 0 in every graph and is not released.

Values are published as drawn; `dprelease.results.consistency` sorts a spectrum and lowers lambda_2 to the
least released degree beside them.

Units: eigenvalues and degrees are numbers of edges. Shapes: cells and values `(1, cells)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dprelease.core.errors import PlanError
from dprelease.query.arguments import Syntax
from dprelease.query.graph import SPARSE, DeclaredNode, Edges, Graph
from dprelease.query.resolved import Statistic
from dprelease.schema.domain import Domain
from dprelease.statistics.base import Floats, Planned, Reading, StatisticKind
from dprelease.statistics.certified_eigen import backward_error
from dprelease.statistics.graph_cells import SPARSE_STEPS
from dprelease.statistics.graph_sensitivity import CERTIFIED_NODES, OBSERVED, graph_sensitivity
from dprelease.statistics.measurement import Context, Form, Measure, Measurement

if TYPE_CHECKING:
    from dprelease.results.consistency import StatisticValues

_MOST_POINTS = 2**15
_FINEST = 1000
_SMALL = 50
"""Rounding a spectrum may cost one part in so many of its sensitivity."""


def _graph(context: Context) -> Graph:
    assert context.graph is not None
    return context.graph


def _edges(graph: Graph) -> tuple[Measure, ...]:
    return (Measure("edges", graph.source, other=graph.target),)


def _steps(least: Fraction, tau: Fraction) -> int:
    """Return the least 1, 2 or 5 times a power of ten that is at least `least`, unless below `tau`.

    No grid is finer than the numerical error `tau`: then the finest that is not.
    """
    den: int = 1
    for power in range(19):
        for lead in (1, 2, 5):
            before, den = den, lead * int(10**power)
            if Fraction(1, den) < tau:
                return before
            if den >= least:
                return den
    return den


def _grid(context: Context) -> int:
    """Return d: at most `_FINEST` steps per unit, and about 2**15 over the declared domain."""
    nodes = _graph(context).nodes
    domain = context.spec.domain
    width = Fraction(nodes)
    if domain is not None and domain.is_finite:
        width = min(width, Fraction(domain.width))
    wanted = min(Fraction(_FINEST), Fraction(_MOST_POINTS) / max(width, Fraction(1)))
    den = _steps(wanted, backward_error(nodes, nodes))
    return den if den <= wanted else _coarser(den)


def _coarser(den: int) -> int:
    """Return the next smaller 1, 2 or 5 times a power of ten, at least 1."""
    finer = den * 2 // 5 if str(den).startswith("5") else den // 2
    return max(1, finer)


_PREPARED = (
    "of the simple graph on the declared nodes: self-loops, unknown nodes and repeated or "
    "reversed edges are left out; an edge counts if any of its rows passes the filter"
)


def rising(released: Sequence[StatisticValues]) -> dict[str, Floats]:
    """Put a Laplacian's eigenvalues in their order, smallest first."""
    return {
        one.statistic.name: np.sort(one.values, axis=1)
        for one in released
        if one.function == LaplacianSpectrum.name
    }


def below_degrees(released: Sequence[StatisticValues]) -> dict[str, Floats]:
    """Move lambda_2 to at most the least released degree, unless it says the graph is complete.

    lambda_2 <= min degree for every graph but the complete one, where lambda_2 = n
    (`docs/theory/domains-and-grids.md#joint-constraints`).
    A released n is left alone: no released degree contradicts it for certain.
    """
    out: dict[str, Floats] = {}
    degrees = [r.values[:, :1] for r in released if r.function == Degree.name]
    for one in (r for r in released if r.function == Connectivity.name and degrees):
        top = one.statistic.domain.hull[1]
        step = float(one.statistic.step)
        least = np.floor(np.minimum.reduce(degrees) / step) * step
        # Where the top of the domain is not a gap's far end it says nothing about completeness.
        complete = (one.values >= top) & bool(one.statistic.domain.forbidden)
        out[one.statistic.name] = np.where(complete, one.values, np.minimum(one.values, least))
    return out


class OfGraph(StatisticKind):
    """A statistic of a graph; `spectral` ones are computed from eigenvalues."""

    spectral = True

    def notes(self, planned: Planned, measurement: Measurement) -> tuple[str, ...]:
        graph = planned.statistic.graph
        assert graph is not None
        notes = [_PREPARED]
        if measurement.form in OBSERVED:
            notes.append(
                f"observed ({SPARSE}): computed by {SPARSE_STEPS} Lanczos steps, whose numerical "
                "error is taken to be rounding's, which is not proved for every graph"
            )
        elif self.spectral:
            tau = float(backward_error(graph.nodes, graph.nodes))
            notes.append(
                f"eigenvalues are computed within {tau:.2g} of the truth, proved and paid for"
            )
        if measurement.family == "graph_box":
            notes.append("drawn together with what moves together with it, by one law over a box")
        return tuple(notes)


class Connectivity(OfGraph):
    """lambda_2, the algebraic connectivity (Fiedler value)."""

    name = "algebraic_connectivity"
    syntax = Syntax(0, 0, "algebraic_connectivity", Edges())
    heading = "Algebraic connectivity"
    rules = (below_degrees,)

    def plan_note(self, statistic: Statistic) -> str | None:
        if statistic.graph is None or statistic.graph.nodes <= CERTIFIED_NODES:
            return None
        said = "observed, not proved: the numerical error of"
        return f"{said} {statistic.spec.name} (allow: {SPARSE})"

    def domain(self, context: Context) -> Domain:
        n = _graph(context).nodes
        return Domain(0, n, forbidden=[(n - 2, n)])

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        graph, den = _graph(context), _grid(context)
        form: Form = "connectivity"
        if graph.nodes > CERTIFIED_NODES:
            form = "sparse_connectivity"
            if not graph.sparse:
                raise PlanError(
                    f"{context.spec.text} of {graph.nodes:,} nodes has no proved numerical error",
                    where=context.spec.origin,
                    why=f"a proof needs the dense matrix, which ends at {CERTIFIED_NODES:,} nodes; "
                    "a sparse eigenvalue's error is observed only",
                    fix=f"accept that with `allow: [{SPARSE}]`; the release will say so",
                    code="DPR274",
                )
        n, weights = graph.nodes, ((graph.nodes, den),)
        l1_added_row, l1_replaced_row, _ = graph_sensitivity(form, weights, n, graph.k)
        return (
            Measurement(
                family="scalar",
                key=(form, context.spec.name),
                cells=("lambda_2",),
                measures=_edges(graph),
                weights=weights,
                l1_added_row=l1_added_row,
                l1_replaced_row=l1_replaced_row,
                upper=n * den,
                step_size=Fraction(1, den),
                form=form,
            ),
        )


class Degree(OfGraph):
    """The degree of one node."""

    name = "degree"
    syntax = Syntax(1, 1, "degree(node)", DeclaredNode())
    heading = "Degree of node {}"
    whole = True
    spectral = False

    def domain(self, context: Context) -> Domain:
        return Domain(0, _graph(context).nodes - 1)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        graph = _graph(context)
        assert graph.node is not None
        weights = ((graph.nodes, graph.node),)
        l1_added_row, l1_replaced_row, _ = graph_sensitivity(
            "degree", weights, graph.nodes, graph.k
        )
        return (
            Measurement(
                family="scalar",
                key=("degree", context.spec.name),
                cells=(f"degree of {graph.source.values[graph.node]}",),
                measures=_edges(graph),
                weights=weights,
                l1_added_row=l1_added_row,
                l1_replaced_row=l1_replaced_row,
                upper=graph.nodes - 1,
                form="degree",
            ),
        )


class LaplacianSpectrum(OfGraph):
    """lambda_2, ..., lambda_n of the Laplacian."""

    name = "laplacian_eigenvalues"
    syntax = Syntax(0, 0, "laplacian_eigenvalues", Edges())
    heading = "Laplacian spectrum"
    rules = (rising,)

    def domain(self, context: Context) -> Domain:
        return Domain(0, _graph(context).nodes)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        graph = _graph(context)
        n = graph.nodes
        if n > CERTIFIED_NODES:
            raise PlanError(
                f"{context.spec.text} of {n:,} nodes cannot be computed with a proved error",
                where=context.spec.origin,
                why=f"a whole spectrum needs the dense matrix, which ends at {CERTIFIED_NODES:,} nodes",
                fix="ask for algebraic_connectivity",
                code="DPR275",
            )
        den = _steps(Fraction(_SMALL * (n - 1), graph.k), backward_error(n, n))
        weights = ((n, den),)
        l1_added_row, l1_replaced_row, _ = graph_sensitivity("laplacian", weights, n, graph.k)
        return (
            Measurement(
                family="laplacian",
                key=("laplacian",),
                cells=tuple(f"lambda_{i}" for i in range(2, n + 1)),
                measures=_edges(graph),
                weights=weights,
                l1_added_row=l1_added_row,
                l1_replaced_row=l1_replaced_row,
                upper=n * den,
                step_size=Fraction(1, den),
                form="laplacian",
            ),
        )

    def columns(self, context: Context) -> tuple[str, ...]:
        return tuple(f"{context.spec.name}[{i}]" for i in range(2, _graph(context).nodes + 1))

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        return np.asarray(cells * float(measurement.step_size))

    def interval(self, measurement: Measurement, reading: Reading) -> tuple[Floats, Floats]:
        step_size = float(
            measurement.step_size
        )  # half a step: the answer was rounded before the draw
        return (reading.low - 0.5) * step_size, (reading.high + 0.5) * step_size


def graph_box(parts: Sequence[Measurement]) -> Measurement:
    """Return lambda_2 and degrees as one measurement whose cells are bounded one by one.

    Args:
        parts: the measurement of lambda_2 first, then at least one of a degree.
    """
    first = parts[0]
    weights = tuple(row for p in parts for row in p.weights)
    return Measurement(
        family="graph_box",
        key=("graph_box", *(k for p in parts for k in p.key)),
        cells=tuple(c for p in parts for c in p.cells),
        measures=first.measures,
        weights=weights,
        l1_added_row=sum(p.l1_added_row for p in parts),
        l1_replaced_row=sum(p.l1_replaced_row for p in parts),
        step_size=first.step_size,
        form="graph_box",
        linf_per_component=tuple(p.l1_added_row for p in parts),
    )


def one_cell(
    measurement: Measurement, cells: Floats, reading: Reading, view: int
) -> tuple[Measurement, Floats, Reading]:
    """Return what the statistic of cell `view` sees of a box."""
    at = [view]
    seen = replace(
        reading, low=reading.low[:, at], high=reading.high[:, at], raw=reading.raw[:, at]
    )
    return measurement, cells[:, at], seen


connectivity = Connectivity()
degree = Degree()
laplacian = LaplacianSpectrum()
