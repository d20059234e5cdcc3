"""Covariance and correlation against slow definitions, over every small table of two columns."""

from __future__ import annotations

import itertools
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from dprelease.measurements.members import Member
from dprelease.planning.layout import layout
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery
from dprelease.query.spec import Query
from dprelease.statistics.base import kind_named
from dprelease.statistics.exact import exact_cells
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import PrimitivePlaces, bounded_query
from tests.contracts.test_pair_sensitivities import primitives
from tests.kinds import SEVERAL
from tests.planning.requests import asked

X = {"kind": "number", "range": [-3, 4], "step": 1}
Y = {"kind": "number", "range": [0, 1], "step": "0.5"}
Z = {"kind": "integer", "range": [0, 12]}
CORNERS = ((-3.0, 0.0), (4.0, 1.0), (4.0, 0.0), (-3.0, 1.0), (0.0, 0.5))


@lru_cache
def query_of(text: str, public: int | None) -> Query:
    kept: dict[str, Any] = {} if public is None else {"nulls": {"default": 1}}
    more: dict[str, Any] = {"rows": {"max": 9}}
    if public is not None:
        more = {"rows": {"exact": public}, "adjacency": "substitution"}
    columns = {"y": {**Y, **kept}, "z": {**Z, **kept}}
    return asked([text], x={**X, **kept}, columns=columns, **more)


def member_of(text: str, public: int | None) -> Member:
    (block,) = layout(query_of(text, public))
    return block.members[0]


@lru_cache
def task_of(text: str, public: int | None, measurement: Measurement) -> BoundedQuery:
    return bounded_query(query_of(text, public), ((measurement, None),))


def finished(
    member: Member,
    measurement: Measurement,
    rows: tuple[tuple[float, ...], ...],
    public: int | None,
) -> list[float]:
    """Return the published values of exact cells, as the wall and the readers make them."""
    task = task_of(member.statistic.spec.text, public, measurement)
    sums = np.array([primitives(task, r) for r in rows], dtype=object).sum(axis=0)[None, :]
    cells = exact_cells(
        measurement, PrimitivePlaces(task).find(measurement, 1), Answer(sums), 1
    ).astype(float)
    if measurement.family == "scalar":  # what a scalar's draw reads back
        cells = cells * float(measurement.step_size) + float(measurement.offset)
    return [float(v) for v in member.kind.finish(measurement, cells)[0]]


@pytest.mark.parametrize("public", [None, 1, 2, 3])
@pytest.mark.parametrize("name", SEVERAL)
def test_exact_cells_finish_to_the_statistic(name: str, public: int | None) -> None:
    member = member_of(f"{name}(x, y)", public)
    least, most = np.inf, -np.inf
    sizes = (1, 2, 3) if public is None else (public,)
    for rows in (r for n in sizes for r in itertools.combinations_with_replacement(CORNERS, n)):
        matrix = np.cov(np.array(rows).T, ddof=0)
        cov = float(matrix[0, 1])
        spread = float(np.sqrt(matrix[0, 0] * matrix[1, 1]))
        expected = {
            "covariance": [cov],
            "correlation": [cov / spread if spread > 1e-9 else 0.0],
            "eigenvalues": sorted(np.linalg.eigvalsh(matrix).tolist(), reverse=True),
        }[name]
        least, most = min(least, *expected), max(most, *expected)
        for measurement in member.options:
            got = finished(member, measurement, rows, public)
            rounded = measurement.family in ("spectrum", "matrix")
            rounding = 4 * float(measurement.step_size) * 50 if rounded else 0.0
            assert got == pytest.approx(expected, abs=2e-5 + rounding), measurement.family
        assert member.domain.contains(np.clip(expected, *member.domain.hull)).all()
        assert member.domain.lower - 1e-9 <= min(expected)
        assert max(expected) <= member.domain.upper + 1e-9
    if name == "covariance" and public in (2, 3):  # attained by opposite corners
        ends = pytest.approx((float(member.domain.lower), float(member.domain.upper)))
        assert public == 3 or (least, most) == ends


@pytest.mark.parametrize("name", ["covariance", "correlation"])
def test_the_order_of_the_columns_does_not_matter(name: str) -> None:
    one, other = (member_of(f"{name}({a})", None) for a in ("x, y", "y, x"))
    assert one.options == other.options


def test_three_columns_of_a_private_size_assemble_to_the_matrix() -> None:
    member = member_of("eigenvalues(x, y, z)", None)
    rows = ((-3.0, 0.0, 2.0), (4.0, 1.0, 12.0), (1.0, 0.5, 3.0), (2.0, 0.0, 9.0))
    expected = np.linalg.eigvalsh(np.cov(np.array(rows).T, ddof=0))[::-1]
    (measurement,) = member.options
    assert measurement.family == "pairs"
    assert finished(member, measurement, rows, None) == pytest.approx(expected.tolist(), abs=1e-9)


@pytest.mark.parametrize("public", [4, 5])
def test_three_columns_of_a_public_size(public: int) -> None:
    member = member_of("eigenvalues(x, y, z)", public)
    rows = ((-3.0, 0.0, 2.0), (4.0, 1.0, 12.0), (1.0, 0.5, 3.0), (2.0, 0.0, 9.0), (0.0, 1.0, 4.0))
    expected = np.linalg.eigvalsh(np.cov(np.array(rows[:public]).T, ddof=0))[::-1]
    assert {e.family for e in member.options} == {"spectrum", "matrix"}
    for measurement in member.options:
        got = finished(member, measurement, rows[:public], public)
        assert got == pytest.approx(expected.tolist(), abs=2e-2)
        assert max(abs(np.array(got) - expected)) <= 4 * float(measurement.step_size) * 200


def test_names_and_domains_of_a_spectrum() -> None:
    member = member_of("eigenvalues(x, y)", None)
    assert member.kind.columns(member.statistic) == (
        "eigenvalues_x_y[1]",
        "eigenvalues_x_y[2]",
    )
    assert member.domain.upper == Fraction(50, 4)
    assert kind_named("eigenvalues").name == "eigenvalues"
