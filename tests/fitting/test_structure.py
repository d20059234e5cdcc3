"""Structure: which tables form the chain, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.core.errors import PlanError
from dprelease.fitting.structure import Dimension, crossed, nested
from tests.fitting.small import UNEVEN, cube, even, plain, tree


def names(structure, places):
    return [structure.tables[j].name for j in places]


def test_the_chain_is_the_longest_run_of_refinements():
    made = cube()
    assert names(made, made.chain) == ["b", "ab", "all"]
    assert names(made, made.sides) == ["y", "a"]
    assert names(tree(), tree().chain) == ["nation", "region", "leaf"]
    assert tree().parent(2).tolist() == UNEVEN["region"].tolist()


def test_cells_of_a_cross_are_in_c_order():
    made = crossed([plain(2), even(2, 2)], {"r": (1, 1), "all": (1, 2)})
    assert made.finest.of.tolist() == list(range(8))
    assert made.table("r").of.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]


def test_margins_alone_are_refused():
    with pytest.raises(PlanError) as found:
        crossed([plain(2), plain(2)], {"a": (1, 0), "b": (0, 1)})
    assert found.value.code == "DPR280"
    assert "finest" in found.value.what


@pytest.mark.parametrize(
    "make",
    [
        lambda: nested(
            {"a": np.array([0, 0, 1, 1]), "b": np.array([0, 1, 0, 1]), "x": np.arange(4)}
        ),
        lambda: nested({"gap": np.array([0, 2]), "x": np.arange(2)}),
        lambda: crossed([plain(2)], {"x": (2,)}),
        lambda: crossed([plain(2)], {"x": (1, 1)}),
        lambda: Dimension((np.array([0, 1, 0]), np.array([0, 0, 1]))),
        lambda: Dimension((np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1]), np.arange(4))),
        lambda: nested({"x": np.arange(2)}, zeros=np.zeros(3, dtype=bool)),
        lambda: tree().table("missing"),
        lambda: crossed([], {}),
    ],
)
def test_what_cannot_add_up_is_refused(make):
    with pytest.raises(PlanError) as found:
        make()
    assert found.value.code == "DPR280"


def test_a_cell_of_structural_zeros_alone_is_empty():
    made = tree(zeros=np.arange(12) >= 8)
    assert made.empty(made.table("region")).tolist() == [False, False, True]
