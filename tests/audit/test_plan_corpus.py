"""Generated plans: each passes the wall, and every value it publishes is valid. No exception.

Requests cover epsilon 0.01 to 10, output domains of 1 to 4 intervals with gaps narrower and wider
than the sensitivity, 1 to 4 and thousands of groups, both adjacencies, row and user units, public
and private size, point masses allowed and forbidden, and pins. The exact answers are synthetic tables of
two distinct codes per group, from empty to beyond the declared cap.
"""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.core.errors import PlanError
from dprelease.core.secret import Secret
from dprelease.planning.make import make_plan
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery, Fixed
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.wall import execute
from tests.planning.requests import asked
from tests.sizes import FULL, whole

PLANS = range(108) if FULL else (0, 3, 5, 9, 12, 14, 15, 17, 18, 19, 20, 22, 23)
"""In every run one or more of each number of groups, family, mechanism, epsilon and number of intervals."""
MANY = 600
CAP = 300
EXPECTED_REFUSALS = {"DPR206", "DPR210", "DPR211", "DPR212", "DPR213"}


def gapped(pick: random.Random, low: float, high: float, widest: float) -> dict[str, Any]:
    """Return a domain of 1 to 4 intervals in [low, high], gaps up to `widest`."""
    pieces = pick.randint(1, 4)
    marks = [round(low + (high - low) * (i + 1) / pieces, 2) for i in range(pieces - 1)]
    gaps = []
    for mark in marks:
        width = pick.choice([0.02, 0.1, 0.4]) * widest
        if low < mark and mark + width < high:
            gaps.append([mark, round(mark + width, 2)])
    return {"range": [low, high], "forbidden": gaps}


def statistics(pick: random.Random) -> list[object]:
    low, high = 0.0, 10.0
    count = gapped(pick, 0, CAP, pick.choice([10, 200]))
    count = {**count, "forbidden": [[int(a), int(b) + 1] for a, b in count["forbidden"]]}
    menu: list[object] = [
        "count",
        {"statistic": "count", "domain": count},
        {"statistic": "count", "spikes": pick.choice(["allow", "forbid"]), "domain": count},
        "sum(x)",
        {"statistic": "sum(x)", "domain": gapped(pick, 0, 900, 200)},
        "mean(x)",
        {"statistic": "mean(x)", "domain": gapped(pick, low, high, 2)},
        {
            "statistic": "mean(x)",
            "domain": {**gapped(pick, 2, 7, 1), "step": 0.01},
            "spikes": "forbid",
        },
        {"statistic": "mean(x)", "mechanism": "bounded_laplace", "domain": {"step": 0.02}},
        "variance(x)",
        {"statistic": "variance(x)", "domain": gapped(pick, 0, 25, 3)},
        {"statistic": "std(x)", "domain": gapped(pick, 0, 5, 1)},
        "proportion(x > 4)",
        {"statistic": "proportion(x > 4)", "domain": {**gapped(pick, 0, 1, 0.3), "step": 0.01}},
        "histogram(x, [0, 2, 5, 10])",
        {
            "statistic": "count",
            "mechanism": pick.choice(["staircase", "discrete_laplace", "rectified_laplace"]),
        },
        {"statistic": "sum(x)", "mechanism": pick.choice(["staircase", "bounded_laplace"])},
    ]
    chosen = pick.sample(menu, pick.randint(2, 5))
    return [
        {**({"statistic": s} if isinstance(s, str) else s), "as": f"s{i}"}  # type: ignore[dict-item]
        for i, s in enumerate(chosen)
    ]


def request(number: int) -> dict[str, Any]:
    pick = random.Random(number)
    kind = pick.choice(["row", "user", "user", "public"])
    out: dict[str, Any] = {
        "statistics": statistics(pick),
        "epsilon": pick.choice([0.01, 0.1, 0.5, 1, 3, 10]),
        "loss": pick.choice(["absolute", "squared"]),
        "adjacency": pick.choice(["add_remove", "substitution"]),
        "rows": {"max": CAP, "expected": pick.choice([20, 100, 300])},
    }
    if kind == "public":
        out |= {"adjacency": "substitution", "rows": {"exact": pick.choice([2, 9, 60])}}
        out["x"] = {"kind": "number", "range": [0, 10], "step": 0.5, "nulls": {"default": 5}}
        return out
    if kind == "user":
        out["unit"] = {
            "user": "who",
            "max_groups": pick.randint(1, 2),
            "max_rows_per_group": pick.randint(1, 3),
        }
    groups = pick.choice([1, 2, 4, MANY, MANY])
    if groups > 1:
        out |= {"by": ["g"], "groups": [f"k{i}" for i in range(groups)]}
    if pick.random() < 0.3:
        out["x"] = {"kind": "number", "range": [0, 10], "forbidden": [[3, 6]], "step": 0.5}
    return out


@lru_cache(maxsize=1)
def corpus() -> tuple[dict[int, ReleasePlan], Counter[str]]:
    """Return the plans that exist, by number, and how often which refusal came."""
    plans: dict[int, ReleasePlan] = {}
    refused = Counter[str]()
    for number in PLANS:
        try:
            plans[number] = make_plan(asked(**request(number)))
        except PlanError as problem:
            refused[problem.code if problem.where and problem.fix else "unexplained"] += 1
    return plans, refused


def synthetic(query: BoundedQuery, groups: int, exactly: int | None, label: int) -> execute.Exact:
    """Return the primitives of two-code tables: n1 rows at one code, n2 at another."""
    random_ = np.random.default_rng(label)
    sizes = random_.choice([0, 1, 2, 30, 999, 20_000, 10**9], size=(2, groups)).astype(object)
    if exactly is not None:
        sizes[0] = exactly // 2
        sizes[1] = exactly - exactly // 2
    out = np.zeros((groups, len(query.primitives)), dtype=object)
    codes = []
    for code in query.codes:
        points = code.grid.points() - code.grid.lower if isinstance(code, Fixed) else np.arange(2)
        codes.append(random_.choice(points, size=(2, groups)).astype(object))
    for j, p in enumerate(query.primitives):
        if p.code is None:
            out[:, j] = sizes.sum(axis=0)
            continue
        both = codes[p.code]
        part = (
            both**p.power
            if p.kind == "power"
            else ((both >= p.low) & (both <= p.high)).astype(object)
        )
        out[:, j] = (sizes * part).sum(axis=0)
    return Secret(Answer(out))


def exact_size(plan: ReleasePlan) -> int | None:
    return next((b.measurement.public_rows for b in plan.blocks if b.measurement.public_rows), None)


def violations(plan: ReleasePlan, table: pa.Table) -> int:
    """Return how many published values are not allowed multiples of their step, or lie outside

    their own interval, or have an interval that leaves the hull by a step.
    """
    names = np.array(table["statistic"].to_pylist())
    value, lower, upper = (table[c].to_numpy() for c in ("value", "lower", "upper"))
    bad = ~(np.isfinite(value) & (lower <= value) & (value <= upper))
    for statistic in plan.statistics:
        here = np.isin(names, statistic.columns)
        num, den = statistic.step.as_integer_ratio()
        k = np.round(value[here] * den / num)
        low, high = statistic.domain.hull
        bad[here] |= ~statistic.domain.contains(value[here]) | (k * num / den != value[here])
        # ends are multiples of the step, rounded outward: by less than one step
        bad[here] |= (lower[here] <= low - num / den) | (upper[here] >= high + num / den)
    return int(bad.sum())


def test_the_corpus_is_large_and_covers_what_it_says() -> None:
    made, refused = corpus()
    plans = tuple(made.values())
    assert len(plans) >= whole(13, 100)
    assert set(refused) <= EXPECTED_REFUSALS
    assert {len(p.keys) for p in plans} >= {1, 2, 4, MANY}
    assert {p.adjacency.value for p in plans} == {"add_remove", "substitution"}
    families = {b.family for p in plans for b in p.blocks}
    assert families >= {"scalar", "two_sums", "bernstein2", "bins", "truncated_mean"}
    assert {b.mechanism for p in plans for b in p.blocks} >= {
        "staircase",
        "discrete_laplace",
        "rectified_laplace",
        "bounded_laplace",
    }
    pieces = {len(s.domain.exact_pieces) for p in plans for s in p.statistics}
    assert pieces >= {1, 2, 3, 4}


def test_every_plan_passes_the_wall_and_adds_up() -> None:
    for number, plan in corpus()[0].items():
        charged = execute.check(plan)
        proved = [Fraction(b.certificate["epsilon_upper"]) for b in plan.blocks]
        assert all(p <= b.epsilon for p, b in zip(proved, plan.blocks, strict=True))
        assert sum(proved, Fraction(0)) <= charged <= plan.epsilon
        assert plan.epsilon <= Fraction(str(request(number)["epsilon"]))


def test_no_value_of_any_plan_leaves_its_domain_or_its_step() -> None:
    checked = wrong = 0
    for label, plan in corpus()[0].items():
        exact = synthetic(plan.query, len(plan.keys), exact_size(plan), label)
        cells = execute.draw(plan, exact)
        table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
        checked += table.num_rows
        wrong += violations(plan, table)
    assert wrong == 0
    assert checked > whole(4_000, 50_000)


def test_a_wrong_domain_or_step_is_noticed() -> None:
    """The control: the same count says no when values are moved into a gap or off their step."""
    plan = make_plan(
        asked([{"statistic": "count", "domain": {"range": [0, 100], "forbidden": [[20, 80]]}}])
    )
    exact = synthetic(plan.query, 1, None, 3)
    table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, execute.draw(plan, exact))
    assert violations(plan, table) == 0
    for value in (50.0, 0.5, 101.0, float("nan")):
        moved = table.set_column(
            table.column_names.index("value"), "value", pa.array([value], pa.float64())
        )
        assert violations(plan, moved) == 1


@pytest.mark.parametrize("spikes", ["allow", "forbid"])
def test_a_million_values_of_gapped_statistics(spikes: str) -> None:
    """Two statistics of 250,000 groups, twice: 10**6 values; a twenty-fifth of them in every run."""
    groups = [f"k{i}" for i in range(whole(10_000, 250_000))]
    domain = {"range": [0, 1_000], "forbidden": [[10, 25], [500, 501], [700, 990]]}
    plan = make_plan(
        asked(
            [
                {"statistic": "count", "domain": domain, "spikes": spikes},
                {"statistic": "sum(x)", "domain": domain, "spikes": spikes},
            ],
            by=["g"],
            groups=groups,
            rows={"max": 1_000},
        )
    )
    exact = synthetic(plan.query, len(groups), None, 8)
    table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, execute.draw(plan, exact))
    assert table.num_rows == 2 * len(groups)
    assert violations(plan, table) == 0
