"""A block that shares one size among several columns: intervals, statuses, what readers derive, and when it is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import dprelease  # noqa: F401 - registers df.dp
from dprelease.allocation.spend import spend
from dprelease.planning.again import plan_again
from dprelease.planning.layout import layouts
from dprelease.planning.make import make_plan
from dprelease.planning.prices import Prices
from dprelease.planning.write import write_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import Query, resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from tests.sizes import whole

MEANS = ["count", "mean(x)", "mean(y)", "mean(z)"]
PAIRS = ["covariance(x, y)", "covariance(x, z)", "covariance(y, z)"]
ALL = [*MEANS, *PAIRS, "variance(x)", "variance(y)"]
DRAWS = whole(1000, 3000)
LEVEL, FAR = 0.95, 5.0


COLUMN = {"kind": "number", "range": [10, 30], "step": 0.5, "nulls": {"default": 10}}
REQUEST: dict[str, Any] = {
    "dprelease": "schema/1",
    "name": "visits",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 10_000, "expected": 300},
    "columns": {"x": COLUMN, "y": {**COLUMN, "range": [10, 50]}, "z": COLUMN},
    "release": {"epsilon": 4, "statistics": MEANS},
}


def asked(statistics: list[Any], **more: Any) -> Query:
    release = {"epsilon": 4, "statistics": statistics, **more}
    schema = Schema.from_dict({**REQUEST, "release": release})
    return resolve(schema, merge_release(schema))


def planned(statistics: list[Any], **more: Any) -> ReleasePlan:
    return make_plan(asked(statistics, **more))


def together(statistics: list[Any], **more: Any) -> ReleasePlan:
    """Return the plan whose statistics share one block, the better one or not."""
    query = asked(statistics, **more)
    prices = Prices(query, brief=True)
    blocks = layouts(query)[-1]
    spending = spend(blocks, query.epsilon, query.spec.delta, query.loss, prices)
    return write_plan(query, spending, prices)


def exact_cells(plan: ReleasePlan, codes: dict[str, npt.NDArray[np.int64]]) -> list[int]:
    """Return the exact cells of the plan's one block, of rows with these codes."""
    (block,) = plan.blocks
    sums = []
    for place in block.measurement.primitives:
        p = plan.query.primitives[place]
        names = [plan.query.codes[c].column for c in (p.code, p.other) if c is not None]  # type: ignore[union-attr]
        powers = [p.power, p.other_power]
        each = [codes[n].astype(object) ** q for n, q in zip(names, powers, strict=False)]
        sums.append(int(np.prod(each, axis=0).sum()) if each[0].size else 0)
    return [sum(w * s for w, s in zip(row, sums, strict=True)) for row in block.measurement.weights]


def noise(plan: ReleasePlan, rng: np.random.Generator, wider: float) -> npt.NDArray[np.object_]:
    (block,) = plan.blocks
    scale, shape = float(block.law.noise_scale or 0) * wider, (DRAWS, len(block.cells))
    drawn = (
        rng.normal(scale=scale, size=shape)
        if block.law.gaussian
        else rng.laplace(scale=scale, size=shape)
    )
    return np.rint(drawn).astype(object)


def covered(plan: ReleasePlan, n: int, wider: float = 1.0) -> dict[str, float]:
    """Return how often each statistic's interval holds it, over draws of the law alone."""
    rng = np.random.default_rng(3)
    x = rng.integers(0, 41, n)
    codes = {"x": x, "y": np.minimum(80, x + rng.integers(0, 41, n)), "z": rng.integers(0, 9, n)}
    exact = np.array(exact_cells(plan, codes), dtype=object)
    cells = {plan.blocks[0].name: (exact + noise(plan, rng, wider)).tolist()}
    keys = [(str(i),) for i in range(DRAWS)]
    table = assemble(("draw",), keys, plan.statistics, plan.blocks, cells).to_pandas()
    values = {name: 10 + k / 2 for name, k in codes.items()}
    truth = {"count": float(n)}
    for name, column in values.items():
        truth |= {f"mean_{name}": column.mean(), f"variance_{name}": column.var()}
    for a, b in ("xy", "xz", "yz"):
        truth[f"covariance_{a}_{b}"] = float(np.cov(values[a], values[b], bias=True)[0, 1])
    return {
        str(name): float(
            ((rows["lower"] <= truth[name] + 1e-9) & (truth[name] <= rows["upper"] + 1e-9)).mean()
        )
        for name, rows in table.groupby("statistic")
    }


@pytest.mark.parametrize("more", [{}, {"delta": 1e-6}, {"delta": 1e-6, "epsilon": 8}], ids=str)
def test_intervals_of_a_shared_block_cover(more: dict[str, Any]) -> None:
    plan = together(ALL, **more)
    assert [b.family for b in plan.blocks] == ["shared_rows"]
    least = LEVEL - FAR * np.sqrt(LEVEL * (1 - LEVEL) / DRAWS)
    for n in (3, 60, 2000):
        found = covered(plan, n)
        assert len(found) == len(ALL) and min(found.values()) >= least, (n, found)


def test_noise_that_is_wider_than_planned_is_not_covered() -> None:
    found = covered(together(ALL), 2000, wider=2)
    assert max(found[name] for name in ("count", "mean_x", "mean_y", "mean_z")) < 0.9


def test_a_count_beside_a_mean_is_read_from_its_cells() -> None:
    plan = planned(["count", "mean(x)"])
    apart = planned([{"statistic": "count", "weight": 2}, "mean(x)"])
    assert [b.family for b in plan.blocks] == ["two_sums"]
    assert len(apart.blocks) == 2
    errors = [{s.name: s.planned_error or 0 for s in p.statistics} for p in (plan, apart)]
    assert errors[0]["count"] < 0.5 and errors[0]["mean_x"] < 0.6 * errors[1]["mean_x"]
    least = LEVEL - FAR * np.sqrt(LEVEL * (1 - LEVEL) / DRAWS)
    assert min(covered(plan, 300).values()) >= least


def test_both_forms_are_compared() -> None:
    assert [b.family for b in planned(["mean(x)", "mean(y)"]).blocks] == ["two_sums"] * 2
    assert [b.family for b in planned(["mean(x)", "mean(y)", "mean(z)"]).blocks] == ["shared_rows"]


@pytest.mark.parametrize(
    "own",
    [{"weight": 2}, {"share": 0.5}, {"max_error": 3}, {"mechanism": "discrete_laplace"}],
    ids=str,
)
def test_what_asks_for_something_of_its_own_stays_apart(own: dict[str, Any]) -> None:
    plan = planned([{"statistic": "mean(x)", **own}, "mean(y)", "mean(z)", "count"])
    assert plan.blocks[0].name == "mean_x"
    assert [b.family for b in plan.blocks][1:] == ["shared_rows"]


def test_a_plan_is_made_again_in_either_form() -> None:
    for statistics in (MEANS, ["mean(x)", "mean(y)"], ["count", "mean(x)"]):
        query = asked(statistics)
        plan = make_plan(query)
        assert plan_again(query, plan.to_json()).to_json() == plan.to_json()


def test_no_rows_say_so_and_a_count_of_them_is_one() -> None:
    plan = together(ALL)
    (block,) = plan.blocks
    cells = {block.name: [[-5 * abs(row[0]) for row in block.measurement.weights]]}
    table = (
        assemble((), [()], plan.statistics, plan.blocks, cells).to_pandas().set_index("statistic")
    )
    assert table.loc["count", "status"] == "at_bound" and table.loc["count", "value"] == 0
    assert (table.drop("count")["status"] == "empty_signal").all()


def test_a_reader_derives_the_published_ends() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(20, 60, 400) / 2
    frame = pd.DataFrame({"x": x, "y": np.minimum(50, x + 5), "z": 30 - x / 2})
    released = frame.dp.release(REQUEST)
    table = released.noised.table.to_pandas().set_index("statistic")
    for name in table.index:
        (row,) = released.derive(str(name)).to_pandas().to_dict("records")
        step = float(next(s.step for s in released.plan.statistics if s.name == name))
        assert abs(row["lower"] - table.loc[name, "lower"]) <= step * 1.01, name
        assert abs(row["upper"] - table.loc[name, "upper"]) <= step * 1.01, name
    both = released.derive("mean_x - mean_z").to_pandas()
    assert both["upper"][0] - both["lower"][0] < 4


def test_errors_that_are_stated_are_those_of_the_law() -> None:
    plan = together(ALL)
    rng, n = np.random.default_rng(5), 300
    codes = {"x": rng.integers(0, 41, n), "y": rng.integers(0, 81, n), "z": rng.integers(0, 41, n)}
    cells = np.array(exact_cells(plan, codes), dtype=object) + noise(plan, rng, 1.0)
    keys = [(str(i),) for i in range(DRAWS)]
    made = assemble(
        ("draw",), keys, plan.statistics, plan.blocks, {plan.blocks[0].name: cells.tolist()}
    )
    table = made.to_pandas()
    truth = {"count": n, "mean_x": 10 + codes["x"].mean() / 2, "variance_x": codes["x"].var() / 4}
    for name, value in truth.items():
        off = (table[table["statistic"] == name]["value"] - value).abs().mean()
        said = next(s.planned_error for s in plan.statistics if s.name == name)
        assert said is not None and 0.6 < off / said < 1.3, (name, off, said)
