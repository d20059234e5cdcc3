"""Squared L2 sensitivities by brute force: what Gaussian noise on cells rests on.

The neighbours are those of `test_sensitivities`: every contribution of one unit, raw values out of
range and null among them, under both adjacencies and all units. Cells that add up over units move
by what one unit adds; a scatter goes over whole tables.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dprelease.measurements.base import family_of
from dprelease.schema.unit import Adjacency
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import sensitivity, unit_bounds
from tests.contracts.brute_cases import COLUMNS, UNITS, Case, matrix
from tests.contracts.test_sensitivities import case, contributions, primitives, scatter_distances

NAMES = (
    "count",
    "count_persons",
    "count_where",
    "sum",
    "mean",
    "proportion",
    "variance",
    "histogram",
    "histogram_of_ranges",
    "cdf",
)
FAMILIES = (
    "scalar",
    "two_sums",
    "bernstein2",
    "bins",
    "tree_of_bins",
    "tree_of_shares",
    "centred_squares",
)


def square(made: Case, measurement: Measurement) -> int:
    """Return the largest squared L2 distance over all groups and cells together."""
    if measurement.form == "scatter":
        return max(
            int((found.sum(axis=1) ** 2).max()) for found in scatter_distances(made, measurement)
        )
    weights = matrix(measurement)
    places = list(made.places(measurement))
    cells = np.unique(contributions(made)[:, :, places] @ weights.T, axis=0)
    if measurement.public_rows is not None:
        rows = np.array([[primitives(made.task, v, 1)] for v in made.values], dtype=np.int64)
        cells = np.unique(rows[:, :, places] @ weights.T, axis=0)
    if made.adjacency is Adjacency.add_remove:
        return int((cells**2).sum(axis=(1, 2)).max())
    return max(int(((cells - one) ** 2).sum(axis=(1, 2)).max()) for one in cells)


def settings(name: str) -> list[tuple[str, str, str, int, int | None]]:
    out: list[tuple[str, str, str, int, int | None]] = []
    for column in COLUMNS:
        out += [(column, "row", "substitution", 1, n) for n in (1, 2, 3)]
        for unit in UNITS:
            groups = {"row": 3, "m=2 G=1": 3}.get(unit, 2)
            out += [(column, unit, a, groups, None) for a in ("add_remove", "substitution")]
    out += [("odd width across zero", u, "substitution", 1, None) for u in UNITS]
    return out if name != "count_persons" else [s for s in out if s[4] is None]


@pytest.mark.parametrize("name", NAMES)
def test_no_neighbour_moves_further_in_l2_than_stated(name: str) -> None:
    tight = looked = 0
    for setting in settings(name):
        made = case(name, *setting)
        for measurement in made.measurements:
            if measurement.family not in FAMILIES:
                continue
            stated = made.claimed(measurement).l2_squared
            moved = square(made, measurement)
            assert stated is not None
            assert moved <= stated, (setting, measurement.family)
            assert stated <= made.claimed(measurement).l1_over_groups ** 2 * 2
            if measurement.family != "centred_squares":  # whose cells move together, not all in one
                looked, tight = looked + 1, tight + (moved == stated)
    assert tight > looked / 2, (tight, looked)


@pytest.mark.parametrize("name", NAMES)
def test_the_wall_finds_the_same_square(name: str) -> None:
    for setting in settings(name):
        made = case(name, *setting)
        for measurement in made.measurements:
            if measurement.family in FAMILIES and measurement.measures:
                assert made.proved(measurement).l2_squared == made.claimed(measurement).l2_squared


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 5, 8])
def test_closed_forms_of_group_counts(m: int, groups: int) -> None:
    """Section 3.2: counts of a user, m sqrt(G) and m sqrt(min(K, 2 G)); histograms sqrt(2)."""
    made = case("count", "from zero", "row", "add_remove", 3)
    measurement = made.measurements[0]
    bounds = replace(unit_bounds(made.query.schema.unit, None, 3), rows=m, groups=groups)
    for k in (groups, groups + 1, 2 * groups, 20):
        one = sensitivity(measurement, bounds, Adjacency.add_remove, k).l2_squared
        two = sensitivity(measurement, bounds, Adjacency.substitution, k).l2_squared
        assert (one, two) == (m * m * groups, m * m * min(k, 2 * groups))
    bins = case("histogram", "from zero", "row", "substitution").measurements[0]
    assert made.claimed(measurement).l2_squared == 1
    row = unit_bounds(made.query.schema.unit, None, 1)
    claim = family_of(bins).sensitivity(bins, row, Adjacency.substitution, 1)
    assert claim.l2_squared == 2


def test_twin_the_l1_move_of_one_group_forgets_the_other_groups() -> None:
    made = case("count", "from zero", "m=2 G=2", "add_remove", 2)
    stated = made.claimed(made.measurements[0])
    assert square(made, made.measurements[0]) > stated.l1_per_group**2


def test_twin_cells_of_both_signs_get_no_root_of_two() -> None:
    """Negative cells would move by the whole swap: the wall must not believe the family."""
    made = case("mean", "from zero", "row", "substitution")
    measurement = made.measurements[0]
    signed = replace(measurement, weights=((-1, 2), (1, -2)))
    assert square(made, signed) > 2 * made.proved(measurement).l1_per_group ** 2 / 4
    assert made.proved(signed).l2_squared >= square(made, signed)
    row = unit_bounds(made.query.schema.unit, None, 1)
    believed = family_of(signed).sensitivity(signed, row, made.adjacency, 1)
    assert believed.l2_squared is not None


def test_twin_a_cell_of_both_signs_moves_by_twice_its_size() -> None:
    """One cell from -t to t: replacing a row moves it by 2 t, which the root of two would forget."""
    made = case("mean", "from zero", "row", "substitution")
    measurement = next(e for e in made.measurements if len(e.cells) == 2)
    size = max(abs(weight) for row in measurement.weights for weight in row)
    signed = replace(measurement, weights=((-size, 2), (0, 0)))
    moved = square(made, signed)
    assert moved == (2 * size) ** 2
    assert made.proved(signed).l2_squared >= moved
    assert (
        made.proved(measurement).l2_squared < (2 * size) ** 2
    )  # control: cells that are never negative
