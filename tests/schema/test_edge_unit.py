"""The edge unit: how nodes are declared, and what is not offered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dprelease.core.errors import ConfigError
from dprelease.query.load import Schema
from dprelease.schema.unit import EdgeUnit, unit_from_json, unit_to_json


def load(folder: Path, nodes: str) -> EdgeUnit:
    path = folder / "graph.yaml"
    path.write_text(
        "dprelease: schema/1\nname: graph\n"
        f"unit: {{edge: {{source: a, target: b, k: 2, nodes: {nodes}}}}}\n"
        "adjacency: add_remove\ncolumns:\n  a: {kind: node}\n  b: {kind: node}\n",
        encoding="utf-8",
    )
    unit = Schema.load(path).unit
    assert isinstance(unit, EdgeUnit)
    return unit


def test_nodes_are_counted_listed_or_in_a_file(tmp_path: Path) -> None:
    counted = load(tmp_path, "3")
    assert (counted.nodes, counted.labels, counted.node_labels) == (3, (), ("0", "1", "2"))
    listed = load(tmp_path, "[Ann, 'é', 7]")
    assert (listed.nodes, listed.node_labels) == (3, ("Ann", "é", "7"))
    (tmp_path / "nodes.csv").write_text("node\nAnn\nBob\n", encoding="utf-8")
    filed = load(tmp_path, "{values_from: nodes.csv}")
    assert filed.node_labels == ("Ann", "Bob")


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        ("1", "DPR115"),
        ("[Ann]", "DPR115"),
        ("[Ann, Ann]", "DPR115"),
        ("0", "DPR113"),
        ("{values_from: missing.csv}", "DPR117"),
        ("{values_from: ../nodes.csv}", "DPR116"),
        ("{count: 3}", "DPR110"),
    ],
)
def test_faulty_nodes_are_refused(tmp_path: Path, nodes: str, code: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, nodes)
    assert caught.value.code == code


def test_json_keeps_the_unit() -> None:
    for unit in (EdgeUnit("a", "b", 2, 34), EdgeUnit("a", "b", 1, 2, ("Ann", "Bob"))):
        assert unit_from_json(json.loads(json.dumps(unit_to_json(unit)))) == unit


def test_a_node_as_unit_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError) as caught:
        Schema.from_dict(
            {
                "dprelease": "schema/1",
                "name": "graph",
                "unit": {"node": {"source": "a", "target": "b"}},
                "adjacency": "add_remove",
                "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}},
            }
        )
    assert caught.value.code == "DPR115"
    assert "whole domain" in str(caught.value)
