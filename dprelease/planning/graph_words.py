"""What a plan says of statistics of a graph: sensitivities, and what is proved about their numbers.

Units: numbers of edges.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from dprelease.aggregates.certified_eigen import backward_error
from dprelease.aggregates.encoding import Encoding
from dprelease.aggregates.graph_cells import SPARSE_STEPS
from dprelease.aggregates.graph_moves import CERTIFIED_NODES
from dprelease.numeric import shown
from dprelease.planning.layout import Member
from dprelease.query.graph import SPARSE
from dprelease.query.spec import Statistic
from dprelease.sensitivity import Sensitivity

__all__ = ["graph_notes", "graph_text", "plan_notes"]


_PREPARED = (
    "of the simple graph on the declared nodes: self-loops, unknown nodes and repeated or "
    "reversed edges are left out; an edge counts if any of its rows passes the filter"
)


def graph_text(s: Sensitivity, encoding: Encoding, member: Member) -> str:
    """Return the sensitivity of one statistic of a graph, rounding included."""
    if s.each:
        place = member.view or 0
        moved = s.each[place] * (encoding.pitch if place == 0 else Fraction(1))
        return f"{shown(moved)}, together with {len(s.each) - 1} more"
    if encoding.family == "laplacian":
        return f"{shown(s.total * encoding.pitch)} over the whole spectrum"
    return shown(s.total * encoding.pitch)


def graph_notes(encoding: Encoding, member: Member) -> tuple[str, ...]:
    """Return the sentences that belong beside a statistic of a graph."""
    graph = member.statistic.graph
    if graph is None:
        return ()
    notes = [_PREPARED]
    if encoding.form == "sparse_connectivity":
        notes.append(
            f"observed ({SPARSE}): computed by {SPARSE_STEPS} Lanczos steps, whose numerical error is "
            "taken to be rounding's, which is not proved for every graph"
        )
    elif encoding.form != "degree" and member.statistic.function != "degree":
        tau = float(backward_error(graph.nodes, graph.nodes))
        notes.append(f"eigenvalues are computed within {tau:.2g} of the truth, proved and paid for")
    if encoding.family == "graph_box":
        notes.append("drawn together with what moves together with it, by one law over a box")
    return tuple(notes)


def plan_notes(statistics: Iterable[Statistic]) -> tuple[str, ...]:
    """Return what a whole plan must say of numbers that are observed rather than proved."""
    large = [
        s.spec.name
        for s in statistics
        if s.function == "algebraic_connectivity"
        and s.graph is not None
        and s.graph.nodes > CERTIFIED_NODES
    ]
    said = "observed, not proved: the numerical error of"
    return tuple(f"{said} {name} (allow: {SPARSE})" for name in large)
