"""The grid of candidates: steps, gaps, limits. Scores themselves: tests/contracts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.core.errors import PlanError
from dprelease.planning.layout import layout
from dprelease.query.bounded import Fixed
from dprelease.schema.domain import GridSet
from dprelease.statistics.ranks import stretches
from tests.planning.requests import asked
from tests.statistics.dense_ranks import rank_scores, sparse


def grid_of(statistic: object, x: dict[str, Any], groups: int = 1) -> Fixed:
    names = [f"g{i}" for i in range(groups)]
    by = {"by": ["g"]} if groups > 1 else {}
    query = asked([statistic], x={"kind": "number", **x}, groups=names, **by)
    code = layout(query)[0].options[0].measures[0].code
    assert isinstance(code, Fixed)
    return code


@pytest.mark.parametrize(
    ("x", "step", "candidates"),
    [
        ({"range": [0, 10], "step": 0.5}, "1/2", 21),
        ({"range": [-3, 4], "step": 1, "forbidden": [[0, 2]]}, "1", 7),
        ({"range": [0, 1_000_000], "step": 0.01}, "1/100", 10**8 + 1),
        ({"range": [0, 50_000_000], "step": 1}, "1", 5 * 10**7 + 1),
        ({"range": [0, 0.5], "step": 0.0001}, "1/10000", 5001),
        ({"range": [0, 100_000], "step": 1, "forbidden": [[40_025, 60_000]]}, "1", 80_027),
        ({"range": [-(2**52), 2**52], "step": 1}, "1", 2**53 + 1),
    ],
)
def test_candidates_are_the_column_s_own_grid(
    x: dict[str, Any], step: str, candidates: int
) -> None:
    code = grid_of("median(x)", x)
    assert (code.step, len(code.grid)) == (Fraction(step), candidates)
    assert grid_of("median(x)", x, groups=10_000) == code


def test_an_island_of_one_value_stays_a_candidate() -> None:
    code = grid_of(
        "median(x)", {"range": [0, 50_000], "step": 0.1, "forbidden": [[0, 40], [40, 90]]}
    )
    assert {run for run in code.grid.runs if run[0] == run[1]} == {(0, 0), (400, 400)}


def test_a_declared_step_and_domain_are_used() -> None:
    wide = {"range": [0, 1_000_000], "step": 0.01}
    spec = {
        "statistic": "median(x)",
        "domain": {"range": [100, 200], "forbidden": [[120, 180]], "step": 4},
    }
    code = grid_of(spec, wide)
    assert (code.step, code.grid.runs) == (4, ((25, 30), (45, 50)))
    assert len(grid_of({"statistic": "max(x)", "domain": {"step": 10}}, wide).grid) == 100_001


def test_a_boolean_has_two_candidates() -> None:
    query = asked(["max(flag)"], columns={"flag": {"kind": "boolean", "nulls": {"default": True}}})
    code = layout(query)[0].options[0].measures[0].code
    assert code == Fixed("flag", GridSet(((0, 1),)), Fraction(1), 1)


def test_null_defaults_follow_to_the_candidates() -> None:
    code = grid_of("median(x)", {"range": [0, 100_000], "step": 1, "nulls": {"default": 77}})
    assert code.default == 77


@pytest.mark.parametrize(
    ("statistic", "x", "code"),
    [
        ({"statistic": "median(x)", "domain": {"range": [3, 3]}}, {}, "DPR214"),
        ({"statistic": "median(x)", "domain": {"range": [3.3, 3.3]}}, {}, "DPR214"),
        ({"statistic": "median(x)", "domain": {"range": [30, 40]}}, {}, "DPR206"),
        ({"statistic": "median(x)", "domain": {"step": 100}}, {}, "DPR214"),
        ("quantile(x, 0.12345)", {}, "DPR215"),
        ("median(x)", {"range": [2, 2]}, "DPR208"),
    ],
)
def test_what_has_no_grid_is_refused(statistic: object, x: dict[str, Any], code: str) -> None:
    with pytest.raises(PlanError) as caught:
        grid_of(statistic, {"range": [0, 10], "step": 0.5, **x})
    assert caught.value.code == code
    assert caught.value.fix


@given(st.lists(st.integers(0, 5), min_size=6, max_size=6), st.integers(0, 7), st.integers(-9, 9))
def test_scores_are_unimodal_in_the_candidates(counts: list[int], a: int, offset: int) -> None:
    scores = rank_scores(np.array([counts, counts[::-1]], dtype=np.int64), a, 7, offset)
    for row in scores.tolist():
        low = row.index(min(row))
        assert row[:low] == sorted(row[:low], reverse=True)
        assert row[low:] == sorted(row[low:])


def test_stretches_of_a_group_without_rows_score_alike() -> None:
    (one,), (other,) = stretches(sparse([[0, 0, 0], [0, 2, 0]]), 2, 2, 2, -7).tolist()
    assert (one.codes.size, one.at.size, one.between.tolist()) == (0, 0, [0])
    assert (other.codes.tolist(), other.at.tolist(), other.between.tolist()) == ([1], [0], [0, 4])
    assert one == stretches(sparse([[0, 0, 0]]), 1, 2, 2, -7)[0, 0]
    assert one != other
