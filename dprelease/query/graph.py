"""What a statistic of a graph is asked of: public numbers and node labels only.

The node set is public: a count n (nodes are written 0, 1, ..., n - 1) or a list of labels. Rows
become a simple graph in one fixed way (`docs/theory/graphs-and-spectra.md#simple-graphs`): an end
that is null or no declared node
drops the row, direction is forgotten, self-loops are dropped, an edge that several rows name counts
once. A filter or a period takes rows away before that, so an edge is in the graph if any of its
rows passes. All rows of one undirected edge therefore stand or fall together: one edge more or less
changes this graph by that edge and nothing else.

Units: nodes are numbered from 0 in the order of their labels.
"""

from __future__ import annotations

from dataclasses import dataclass

from dprelease.core.errors import PlanError
from dprelease.query.arguments import Arguments, RequestContext, unquoted
from dprelease.query.bounded import Label
from dprelease.query.resolved import Statistic
from dprelease.schema.column import Kind
from dprelease.schema.release_spec import ReleaseSpec, StatisticSpec
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import EdgeUnit

SPARSE = "sparse-eigenvalue"
"""The opt-in to an eigenvalue whose numerical error is observed, not proved."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A resolved statistic of a graph.

    Attributes:
        k: undirected edges that one unit stands for.
        source, target: codes of an edge's ends: node numbers, null for no node.
        node: the number of the node that a degree is of.
        sparse: the publisher accepts an eigenvalue without a proved numerical error.
    """

    k: int
    source: Label
    target: Label
    node: int | None = None
    sparse: bool = False

    @property
    def nodes(self) -> int:
        return len(self.source.values)


class Edges(Arguments):
    """The whole graph: no argument."""

    of_edges = True

    def resolve(self, spec: StatisticSpec, context: RequestContext) -> Statistic:
        """Resolve a statistic of a graph.

        Raises:
            PlanError: groups are asked for (DPR270), an unknown node (DPR271), or an end of a kind
                that is not read as text (DPR273).
        """
        schema, release = context.schema, context.release
        unit = schema.unit
        assert isinstance(unit, EdgeUnit)
        _check(spec, schema, release, unit)
        labels = unit.node_labels
        graph = Graph(
            unit.k,
            Label(unit.source, labels),
            Label(unit.target, labels),
            self.node(spec, unit),
            sparse=SPARSE in release.allow,
        )
        return Statistic(spec, spec.function, graph=graph)

    def node(self, spec: StatisticSpec, unit: EdgeUnit) -> int | None:
        """Return the number of the node that is asked about, if one is."""
        del spec, unit
        return None


class DeclaredNode(Edges):
    """One declared node."""

    def node(self, spec: StatisticSpec, unit: EdgeUnit) -> int:
        labels, node = unit.node_labels, unquoted(spec.arguments[0])
        node = node[1:-1] if len(node) > 1 and node[0] == node[-1] == "'" else node
        if node not in labels:
            raise PlanError(
                f"`{node}` is not a node of this graph",
                where=spec.origin,
                fix=f"nodes are {labels[0]} to {labels[-1]}"
                if not unit.labels
                else f"declared nodes begin with {', '.join(labels[:5])}",
                code="DPR271",
            )
        return labels.index(node)


def _check(spec: StatisticSpec, schema: TableSchema, release: ReleaseSpec, unit: EdgeUnit) -> None:
    if release.by:
        raise PlanError(
            f"{spec.text} cannot be released by group",
            where=spec.origin,
            why="an edge in two groups would make two graphs of one, and every group would cost again",
            fix="leave out `by`; for a graph per kind of edge use `where` in releases of their own",
            code="DPR270",
        )
    for name in (unit.source, unit.target):
        if schema.columns[name].kind is Kind.integer:
            raise PlanError(
                f"`{name}` holds nodes and is declared as integer",
                where=schema.columns[name].origin,
                why="node ids are compared as written, never rounded or clamped",
                fix=f"declare `{name}: {{kind: node}}`",
                code="DPR273",
            )
