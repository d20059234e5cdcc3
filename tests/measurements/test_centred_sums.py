"""Means of a private size under replacement: rows, and their sum about the middle of the range."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.pairs import pair_loss
from dprelease.core.errors import InternalError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.cells import CentredLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.base import Reading
from dprelease.statistics.mean import statistic as mean
from dprelease.statistics.measurement import Measurement
from dprelease.wall import execute
from tests.planning.requests import planned
from tests.sizes import some

USER = {"user": "who", "max_groups": 1, "max_rows_per_group": 3}
SHARE = "proportion(x > 4)"


def private(text: str = SHARE, **more: object) -> ReleasePlan:
    request = {"adjacency": "substitution", "rows": {"max": 900}, **more}
    return planned([text], **request)  # type: ignore[arg-type]


def parts(plan: ReleasePlan) -> tuple[Measurement, CentredLaw]:
    (block,) = plan.blocks
    draw = block.law
    assert isinstance(draw, CentredLaw)
    assert CentredLaw.from_json(draw.to_json()) == draw
    return block.measurement, draw


@pytest.mark.parametrize("text", [SHARE, "mean(x)"])
@pytest.mark.parametrize("more", [{}, {"unit": USER}, {"where": "x > 1"}])
def test_a_mean_of_a_private_size_has_a_quarter_less_error(
    text: str, more: dict[str, object]
) -> None:
    plan = private(text, **more)
    measurement, _ = parts(plan)
    assert measurement.family == "centred_sums"
    best, other = plan.statistics[0].chosen[:2]
    assert best.expected_error is not None
    assert other.expected_error is not None
    assert best.expected_error < 0.75 * other.expected_error
    assert "about the middle" in best.note
    assert execute.check(plan) <= 1


@pytest.mark.parametrize(
    "more",
    [
        {"adjacency": "add_remove"},
        {"adjacency": "add_remove", "unit": USER},
        {"by": ["g"]},  # a row may leave one group for another
        {"by": ["g"], "unit": USER},
    ],
)
def test_elsewhere_two_sums_stay(more: dict[str, object]) -> None:
    (block,) = private(SHARE, **more).blocks
    assert block.measurement.family == "two_sums"


def test_a_mean_beside_its_variance_shares_its_cells() -> None:
    plan = planned(
        ["mean(x)", "variance(x)"], adjacency="substitution", rows={"max": 900, "expected": 400}
    )
    assert [b.measurement.family for b in plan.blocks] == ["centred_squares"]


def tables(rows: int) -> list[pa.Table]:
    values = [None, 0.0, 5.0, 10.0]
    return [
        pa.table({"who": list("abcd")[:rows], "x": pa.array(x, pa.float64()), "g": ["a"] * rows})
        for x in itertools.combinations_with_replacement(values, rows)
    ]


def test_exact_cells_of_both_engines_give_the_mean_and_its_form() -> None:
    plan = private("mean(x)")
    measurement, _ = parts(plan)
    (form,) = mean.form(measurement) or ()
    assert form.bottom is not None
    for table in some(tables(3), 3):
        (exact,) = cells_of(plan, answer_of(plan, table, ReferenceEngine()))
        (other,) = cells_of(plan, answer_of(plan, table, DuckDBEngine()))
        assert exact.tolist() == other.tolist()
        here = [v for v in table["x"].to_pylist() if v is not None]
        value = float(mean.finish(measurement, exact.astype(float))[0, 0])
        assert value == pytest.approx(np.mean(here) if here else 5)
        if here:
            top, bottom = (
                sum(w * int(c) for w, c in zip(weights, exact[0], strict=True))
                for weights in (form.top, form.bottom)
            )
            assert top / bottom == Fraction(sum(map(Fraction, here)), len(here))


def test_no_pair_of_tables_that_differ_in_one_row_costs_more_than_epsilon() -> None:
    """All tables of three rows, nulls too: the audit's own losses, attained by a row that is exchanged."""
    plan = private("mean(x)", epsilon=1)
    every = [
        (t["x"].to_pylist(), cells_of(plan, answer_of(plan, t, ReferenceEngine())))
        for t in tables(3)
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


def noisy(draw: CentredLaw, exact: tuple[int, int], cutoff: int) -> tuple[np.ndarray, np.ndarray]:
    """Return all noisy cells within `cutoff` of the exact ones, and their chances."""
    rate = float(draw.noise.noise.rate)
    z = np.arange(-cutoff, cutoff + 1)
    one = np.exp(-rate * np.abs(z)) * np.tanh(rate / 2)
    grid = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
    return grid + np.array(exact), np.outer(one, one).ravel()


def covered(rows: int, hits: int, *, wrong: float = 1.0) -> tuple[float, float, float]:
    """Return the chance that the interval holds the share, that the estimate is below it, and above."""
    measurement, draw = parts(private(epsilon=2))
    raw, chance = noisy(draw, (rows, 2 * hits - rows), 40)
    share, scale = hits / rows, draw.noise_scale
    assert scale is not None
    reading = Reading(raw, raw, raw.astype(float), scale * wrong, 0.95)
    low, high = mean.interval(measurement, reading)
    inside = (low[:, 0] <= share) & (share <= high[:, 0])
    found = mean.estimate(measurement, reading)[:, 0]
    return (
        float(chance[inside].sum()),
        float(chance[found < share - 1e-12].sum()),
        float(chance[found > share + 1e-12].sum()),
    )


@pytest.mark.parametrize("rows", [1, 4, 30])
def test_intervals_hold_the_share_by_enumeration(rows: int) -> None:
    for hits in sorted({0, 1, rows // 2, rows}):
        assert covered(rows, hits)[0] >= 0.95 - 1e-9


def test_twin_of_half_the_noise_does_not_hold_it() -> None:
    assert covered(30, 15, wrong=0.4)[0] < 0.95


def test_the_estimate_is_as_often_too_low_as_too_high() -> None:
    for hits in (9, 15, 28):
        _, below, above = covered(30, hits)
        assert below == pytest.approx(above, abs=0.02)


def test_the_range_over_a_box_is_that_of_its_points() -> None:
    measurement, _ = parts(private())
    low, high = np.array([[2.0, -3.0], [0.0, 1.0]]), np.array([[5.0, 4.0], [3.0, 2.0]])
    least, most = mean.over_box(measurement, low, high)
    for group in range(2):
        axes = [np.linspace(a, b, 41) for a, b in zip(low[group], high[group], strict=True)]
        points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        values = mean.finish(measurement, points[points[:, 0] > 0])[:, 0]
        assert least[group, 0] <= values.min()
        assert values.max() <= most[group, 0]
    assert least[0, 0] == 0
    assert (least[1, 0], most[1, 0]) == (0, 1)  # no row may be left


def test_too_little_noise_is_refused_at_the_wall() -> None:
    plan = private("mean(x)")
    measurement, draw = parts(plan)
    weak = replace(draw, noise=CellNoise.calibrate(measurement.scale, Fraction(1)))
    with pytest.raises(InternalError) as refused:
        execute.check(replace(plan, blocks=(replace(plan.blocks[0], law=weak),)))
    assert refused.value.code == "DPR901"
