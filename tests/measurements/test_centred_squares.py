"""Variances where units are replaced: sums and squares about the middle of the range."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.pairs import pair_loss
from dprelease.core.errors import InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.cells import CentredLaw, PublicLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.planning.layout import layout
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.base import Reading
from dprelease.statistics.mean import statistic as mean
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.variance import statistic as variance
from dprelease.statistics.variance import std
from dprelease.wall import execute
from dprelease.wall.code_sensitivity import code_range, code_sensitivity
from tests.planning.requests import asked, planned
from tests.sizes import some

USER = {"user": "who", "max_groups": 1, "max_rows_per_group": 3}
KNOWN = {"kind": "integer", "range": [0, 10], "nulls": {"default": 5}}
WAYS = [{"rows": {"max": 900, "expected": 400}}, {"rows": {"exact": 60}, "x": KNOWN}]
REST = [2.0] * 57


def replaced(*texts: str, **more: Any) -> ReleasePlan:
    request = {"adjacency": "substitution", "rows": {"max": 900, "expected": 400}, **more}
    return planned(list(texts or ["variance(x)"]), **request)


def parts(plan: ReleasePlan) -> tuple[Measurement, CentredLaw]:
    (block,) = plan.blocks
    draw = block.law
    assert isinstance(draw, CentredLaw)
    assert type(draw).from_json(draw.to_json()) == draw
    return block.measurement, draw


@pytest.mark.parametrize("text", ["variance(x)", "std(x)"])
@pytest.mark.parametrize("more", [{}, {"unit": USER}, {"where": "x > 1"}])
def test_a_variance_of_a_private_size_has_less_error(text: str, more: dict[str, Any]) -> None:
    plan = replaced(text, **more)
    assert parts(plan)[0].family == "centred_squares"
    best, other = plan.statistics[0].chosen[:2]
    assert best.expected_error is not None
    assert other.expected_error is not None
    assert best.expected_error < 0.95 * other.expected_error
    assert "about the middle" in best.note
    assert execute.check(plan) <= 1


def test_of_a_public_size_it_is_a_tenth_better_than_the_scatter_but_not_at_the_worst_answer() -> (
    None
):
    plan = replaced(rows={"exact": 400}, x=KNOWN)
    measurement, draw = parts(plan)
    assert (measurement.family, type(draw)) == ("centred_squares", PublicLaw)
    best, other = plan.statistics[0].chosen[:2]
    assert (best.expected_error or 0) < 0.95 * (other.expected_error or 0)
    assert execute.check(plan) <= 1
    judged = replaced(rows={"exact": 400}, x=KNOWN, judge="worst")
    assert judged.blocks[0].family == "scalar"


@pytest.mark.parametrize(
    "more",
    [
        {"adjacency": "add_remove"},
        {"by": ["g"]},  # a row may leave one group for another
        {"by": ["g"], "unit": USER},
    ],
)
def test_elsewhere_bernstein_cells_stay(more: dict[str, Any]) -> None:
    assert replaced(**more).blocks[0].family == "bernstein2"


def test_a_mean_beside_its_variance_shares_the_cells_and_alone_it_does_not() -> None:
    assert [b.family for b in replaced("mean(x)", "variance(x)").blocks] == ["centred_squares"]
    assert [b.family for b in replaced("mean(x)").blocks] == ["centred_sums"]


def tables(*values: float | None) -> list[pa.Table]:
    """Return all tables of three rows of these values, beside 57 rows that are the same in all."""
    return [
        pa.table({"who": ["a"] * 60, "x": pa.array([*x, *REST], pa.float64()), "g": ["a"] * 60})
        for x in itertools.combinations_with_replacement(values, 3)
    ]


@pytest.mark.parametrize("more", WAYS)
def test_exact_cells_of_both_engines_give_variance_root_and_mean(more: dict[str, Any]) -> None:
    plan = replaced(**more)
    measurement, _ = parts(plan)
    for table in some(tables(None, 0.0, 3.0, 10.0), 3):
        (exact,) = cells_of(plan, answer_of(plan, table, ReferenceEngine()))
        (other,) = cells_of(plan, answer_of(plan, table, DuckDBEngine()))
        assert exact.tolist() == other.tolist()
        null = [5.0] if "x" in more else []
        here = [w for v in table["x"].to_pylist() for w in ([v] if v is not None else null)]
        cells = exact.astype(float)
        want = np.var(here)
        assert variance.finish(measurement, cells)[0, 0] == pytest.approx(want)
        assert std.finish(measurement, cells)[0, 0] == pytest.approx(want**0.5)
        low, high = variance.over_box(measurement, cells, cells)
        assert low[0, 0] == pytest.approx(want)
        assert high[0, 0] == pytest.approx(want)
        if measurement.public_rows is None:
            assert mean.finish(measurement, cells)[0, 0] == pytest.approx(np.mean(here))


@pytest.mark.parametrize("more", WAYS)
def test_no_pair_of_tables_that_differ_in_one_row_costs_more_than_epsilon(
    more: dict[str, Any],
) -> None:
    """All tables of three rows: attained where a row moves from one end to a quarter from the other."""
    wide = {
        "kind": "integer",
        "range": [0, 8],
        **({"nulls": {"default": 4}} if "x" in more else {}),
    }
    plan = replaced(**{**more, "x": wide}, epsilon=1)
    every = [
        (t["x"].to_pylist(), cells_of(plan, answer_of(plan, t, ReferenceEngine())))
        for t in tables(None, 0.0, 2.0, 6.0, 8.0)
    ]
    worst, beyond = 0.0, 0.0
    for (x, one), (y, other) in itertools.combinations(every, 2):
        left = [*x]
        for v in y:
            if v in left:
                left.remove(v)
        cost = pair_loss(plan, one, other)
        if len(left) <= 1:
            assert cost.within(Fraction(1))
            worst = max(worst, cost.nats)
        else:
            beyond = max(beyond, cost.nats)
    assert worst == pytest.approx(1, abs=1e-6)
    assert beyond > 1.5  # control: two rows


@pytest.mark.parametrize("absent", [True, False])
def test_the_walls_bound_of_quadratic_cells_is_attained(absent: bool) -> None:
    rng = np.random.default_rng(7)
    for _ in range(200):
        cells = [tuple(int(c) for c in rng.integers(-6, 7, 3)) for _ in range(rng.integers(1, 5))]
        codes = (0, int(rng.integers(1, 9)))
        rows = [[a + b * k + c * k * k for a, b, c in cells] for k in range(codes[1] + 1)]
        others = [*rows, [0] * len(cells)] if absent else rows
        row, swap = code_sensitivity(cells, codes, absent=absent)  # type: ignore[arg-type]
        assert row == max(sum(map(abs, r)) for r in rows)
        assert swap == max(
            sum(abs(x - y) for x, y in zip(a, b, strict=True)) for a in others for b in others
        )
        for place, cell in enumerate(cells):
            seen = [r[place] for r in rows]
            assert code_range(cell, codes) == (min(seen), max(seen))  # type: ignore[arg-type]


def noisy(draw: CentredLaw, exact: list[int], cutoff: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all noisy cells within `cutoff` of the exact ones, and their chances."""
    rate, count = float(draw.noise.noise.rate), len(exact)
    z = np.arange(-cutoff, cutoff + 1)
    one = np.exp(-rate * np.abs(z)) * np.tanh(rate / 2)
    grid = np.stack(np.meshgrid(*[z] * count, indexing="ij"), axis=-1).reshape(-1, count)
    chance = one
    for _ in range(count - 1):
        chance = np.multiply.outer(chance, one)
    return grid + np.array(exact), chance.ravel()


def covered(x: list[int], *, public: bool, wrong: float = 1.0) -> float:
    """Return the chance that the interval of the variance of codes 0 to 2, or 0 and 1, holds it."""
    column = {"kind": "integer", "range": [0, 2 if public else 1], "nulls": {"default": 0}}
    rows = {"exact": len(x)} if public else {"max": 99}
    query = asked(["variance(x)"], adjacency="substitution", rows=rows, x=column)
    measurement = layout(query)[0].options[1]
    noise = CellNoise.calibrate(measurement.l1_replaced_row, Fraction(4 if public else 9))
    law = CentredLaw(noise, len(measurement.cells))
    t = np.array(x)
    sums = [int((t**p).sum()) for p in range(3)]
    exact = [sum(w * s for w, s in zip(row, sums, strict=True)) for row in measurement.weights]
    raw, chance = noisy(law, exact, 40 if public else 14)
    reading = Reading(raw, raw, raw.astype(float), float(noise.scale) * wrong, 0.95)
    low, high = variance.interval(measurement, reading)
    inside = (low[:, 0] <= t.var() + 1e-9) & (t.var() - 1e-9 <= high[:, 0])
    return float(chance[inside].sum())


SAMPLES = [[0] * 6, [0, 1, 1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 1]]


@pytest.mark.parametrize("x", SAMPLES)
@pytest.mark.parametrize("public", [True, False])
def test_intervals_hold_the_variance_by_enumeration(x: list[int], public: bool) -> None:
    values = [2 * v for v in x] if public else x
    assert covered(values, public=public) >= 0.95 - 1e-6


@pytest.mark.parametrize("public", [True, False])
def test_twin_of_half_the_noise_does_not_hold_it(public: bool) -> None:
    x = [0, 1, 2, 2] * 10 if public else [0, 1] * 40
    assert covered(x, public=public) >= 0.95 - 1e-6
    assert covered(x, public=public, wrong=0.3) < 0.95


@pytest.mark.parametrize("more", WAYS)
def test_the_range_over_a_box_holds_its_points(more: dict[str, Any]) -> None:
    measurement, _ = parts(replaced(**more))
    count, rng = len(measurement.cells), np.random.default_rng(3)
    unit = float(measurement.scale**2)
    for _ in range(40):
        a, b = np.sort(rng.uniform(-6, 6, (2, 1, count)), axis=0) * unit
        least, most = variance.over_box(measurement, a, b)
        points = a + (b - a) * rng.uniform(0, 1, (300, count))
        values = variance.finish(measurement, points)[:, 0]
        assert least[0, 0] - 1e-9 <= values.min()
        assert values.max() <= most[0, 0] + 1e-9


def test_too_little_noise_is_refused_at_the_wall() -> None:
    plan = replaced()
    measurement, draw = parts(plan)
    weak = replace(draw, noise=CellNoise.calibrate(8 * measurement.scale**2, Fraction(1)))
    with pytest.raises(InternalError) as refused:
        execute.check(replace(plan, blocks=(replace(plan.blocks[0], law=weak),)))
    assert refused.value.code == "DPR901"
