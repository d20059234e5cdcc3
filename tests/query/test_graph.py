"""Statistics of a graph against its schema: nodes, ends, groups."""

from __future__ import annotations

import pytest

from dprelease.core.errors import ConfigError, PlanError
from dprelease.query.load import Schema
from dprelease.query.spec import resolve
from dprelease.schema.table import TableSchema

EDGE = {"source": "a", "target": "b", "k": 1, "nodes": 4}


def schema(*, kind: str = "node", edge: dict[str, object] | None = None) -> TableSchema:
    return Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "graph",
            "unit": {"edge": {**EDGE, **(edge or {})}},
            "adjacency": "add_remove",
            "columns": {
                "a": {"kind": kind},
                "b": {"kind": kind},
                "g": {"kind": "category", "values": ["x", "y"]},
                "w": {"kind": "number"},
            },
        }
    )


def graphs(table: TableSchema, *statistics: str, **release: object) -> list[object]:
    from dprelease.query.merge import merge_release

    spec = merge_release(table, {"epsilon": 1, "statistics": list(statistics), **release})
    return [s.graph for s in resolve(table, spec).statistics]


def test_a_degree_is_of_a_declared_node() -> None:
    for text in ("degree(3)", "degree('3')", 'degree("3")'):
        (found,) = graphs(schema(), text)
        assert found.node == 3  # type: ignore[attr-defined]
    named = schema(edge={"nodes": ["Mr Hi", "Officer"]})
    assert graphs(named, 'degree("Officer")')[0].node == 1  # type: ignore[attr-defined]
    for table, text in ((schema(), "degree(4)"), (schema(), "degree(-1)"), (named, "degree(0)")):
        with pytest.raises(PlanError) as caught:
            graphs(table, text)
        assert caught.value.code == "DPR271"


def test_ends_share_one_public_node_set() -> None:
    (found,) = graphs(schema(), "algebraic_connectivity")
    assert found.source.values == found.target.values == ("0", "1", "2", "3")  # type: ignore[attr-defined]
    assert (found.source.column, found.target.column) == ("a", "b")  # type: ignore[attr-defined]
    assert found.nodes == 4  # type: ignore[attr-defined]


def test_groups_are_refused_and_filters_are_not() -> None:
    with pytest.raises(PlanError) as caught:
        graphs(schema(), "algebraic_connectivity", by=["g"])
    assert caught.value.code == "DPR270"
    assert graphs(schema(), "algebraic_connectivity", where="w > 1 and g = 'x'")


def test_numbers_as_ends_are_refused() -> None:
    with pytest.raises(PlanError) as caught:
        graphs(schema(kind="integer"), "algebraic_connectivity")
    assert caught.value.code == "DPR273"


def test_the_opt_in_is_read_from_allow() -> None:
    assert graphs(schema(), "degree(0)", allow=["sparse-eigenvalue"])[0].sparse  # type: ignore[attr-defined]
    assert not graphs(schema(), "degree(0)")[0].sparse  # type: ignore[attr-defined]


def test_rows_are_not_counted_in_edge_tables() -> None:
    with pytest.raises(ConfigError) as caught:
        graphs(schema(), "count")
    assert caught.value.code == "DPR133"
