"""How ε is split: by no scale but each error's own. So a cap that is far above the rows costs no statistic its share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from dprelease.allocation.spend import spend
from dprelease.measurements.base import family_of
from dprelease.planning.layout import layouts
from dprelease.planning.make import make_plan
from dprelease.planning.prices import Prices
from dprelease.query.arguments import syntaxes
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import Query, resolve
from tests.kinds import GRAPH
from tests.planning import natural
from tests.several_tables import schema as several
from tests.sizes import FULL, some, whole

FAR = 10**4
SAME = 0.05
USER = {"user": "who", "max_groups": 1, "max_rows_per_group": 2}
COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier"},
    "age": {"kind": "integer", "range": [0, 110]},
    "bmi": {"kind": "number", "range": [10, 60], "step": 0.1},
    "hour": {"kind": "integer", "range": [0, 24]},
    "income": {"kind": "integer", "range": [1, 100]},
    "weight": {"kind": "integer", "range": [1, 50]},
    "deaths": {"kind": "integer", "range": [0, 3], "nulls": {"default": 0}},
    "person_years": {"kind": "integer", "range": [1, 24], "nulls": {"default": 1}},
    "region": {"kind": "category", "values": ["n", "s", "w"]},
    "g": {"kind": "category", "values": ["a", "b", "c"]},
}
WORLDS: tuple[dict[str, Any], ...] = (
    {"unit": "row", "adjacency": "add_remove"},
    {"unit": USER, "adjacency": "add_remove", "by": ["g"]},
    {"unit": "row", "adjacency": "substitution", "by": ["g"]},
    {"unit": {**USER, "max_groups": 2}, "adjacency": "substitution", "by": ["g"], "delta": 1e-6},
    {"unit": "row", "adjacency": "add_remove", "delta": 1e-6},
    {"unit": "row", "adjacency": "substitution", "loss": "squared"},
)
_ADDITIVE = ("count", "sum", "histogram", "weighted_count", "weighted_sum", "winsorised_sum")
EPSILONS, CAPS = (1, 10, 0.1), (10, 2)


def every() -> Iterator[Any]:
    """Yield each statistic of the registry, and each with the options that measure it in another way."""
    for function, form in syntaxes().items():
        if function.startswith(("winsorised_", "weighted_")):  # asked for by the options below
            continue
        if function in GRAPH:
            yield form.example.replace("(node)", "(0)")
            continue
        yield form.example
        if form.winsorised:
            yield {"statistic": form.example, "winsorize": 0.05}
        if form.weighted:
            yield {"statistic": form.example, "weighted_by": "weight"}
        if form.interval:
            yield {"statistic": form.example, "interval": True}
        yield from ({"statistic": form.example, "accurate_for": v} for v in form.accurate_for)
        if function in ("count", "sum"):
            yield {"statistic": form.example, "spikes": "forbid"}


def asked(statistic: Any, world: dict[str, Any], epsilon: float, most: int) -> Query:
    """Return a request of the statistic beside a count and a mean, or alone of a graph; of 100 rows per group."""
    text = statistic if isinstance(statistic, str) else statistic["statistic"]
    release = {k: v for k, v in world.items() if k in ("by", "delta", "loss")}
    schema: dict[str, Any] = {
        "unit": world["unit"],
        "adjacency": world["adjacency"],
        "columns": COLUMNS,
    }
    beside: list[Any] = [{"statistic": "count", "as": "n"}, {"statistic": "mean(hour)", "as": "m"}]
    if text.split("(")[0] in GRAPH:
        schema["unit"] = {"edge": {"source": "a", "target": "b", "k": 1, "nodes": 6}}
        schema["columns"] = {"a": {"kind": "node"}, "b": {"kind": "node"}}
        beside = []
        release = {k: v for k, v in release.items() if k != "by"}
    return query_of(
        {
            "dprelease": "schema/1",
            "name": "split",
            "rows": {"max": most, "expected": 100},
            "release": {"epsilon": epsilon, "statistics": [statistic, *beside], **release},
            **schema,
        }
    )


def query_of(schema: dict[str, Any]) -> Query:
    found = Schema.from_dict(schema)
    return resolve(found, merge_release(found))


def errors(query: Query) -> dict[str, float]:
    """Return the expected error of each statistic at its part of ε: of one by rank too, in its own unit."""
    prices = Prices(query, brief=True)
    way = spend(layouts(query)[0], query.epsilon, query.spec.delta, query.loss, prices)
    return {
        member.statistic.spec.name: every if stated is None else stated
        for priced in way.priced
        for member, every, stated in zip(
            priced.block.members, prices.comparable(priced), prices.errors(priced), strict=True
        )
        if not family_of(priced.best.measurement).free
    }


def taken() -> list[tuple[Any, dict[str, Any], float, int]]:
    """Return the cases of this run: all, or every third statistic once, in worlds by turns."""
    crossed = list(itertools.product(EPSILONS, CAPS, WORLDS))
    out = []
    for i, statistic in some(enumerate(every()), 3):
        mine = crossed if FULL else [crossed[7 * i % len(crossed)]]
        out += [(statistic, world, epsilon, cap) for epsilon, cap, world in mine]
    return out


def test_a_cap_far_above_the_rows_moves_no_error(evidence: Any) -> None:
    """Where the law of a count or a sum is cut at the cap itself, its plan says by how much; ε may be split anew beside it."""
    compared, cut = 0, 0
    for statistic, world, epsilon, cap in taken():
        near = asked(statistic, world, epsilon, 100 * cap)
        far = asked(statistic, world, epsilon, 100 * cap * FAR)
        here, there = errors(near), errors(far)
        compared += len(here)
        moved = [n for n, error in here.items() if abs(there[n] - error) > SAME * error]
        advice = make_plan(near).advice if moved else []
        for name in moved:
            case = (name, statistic, world, epsilon, cap, here[name], there[name])
            own = name if name.startswith(_ADDITIVE) else "n"
            assert own in moved, case
            assert epsilon == 0.1 or cap == 2, case  # noise that meets the cap
            assert any(f"the law of {own} is cut" in line for line in advice), case
            cut += 1
    assert compared > 2 * len(taken()) > 2 * cut > 0  # most move by nothing, and some cases are cut
    evidence(
        "a cap 10,000 times as large",
        f"{compared} planned errors",
        f"{cut} laws are cut, and say it",
    )


_ADJACENCIES, _DELTAS = ("add_remove", "substitution"), (0, 1e-6)
_UNITS: tuple[Any, ...] = ("row", {"user": "id", "max_groups": 1, "max_rows_per_group": 2})


@pytest.mark.parametrize(
    ("adjacency", "unit", "delta"),
    [
        (_ADJACENCIES[i], _UNITS[j], _DELTAS[k])
        for i, j, k in itertools.product(range(2), repeat=3)
        if FULL or (i + j + k) % 2 == 0
    ],
)
def test_in_tables_that_add_up_no_error_depends_on_the_cap(
    adjacency: str, unit: Any, delta: float
) -> None:
    """Every pair of relation, unit and delta, statistics by turns; all eight of all in `make evidence`."""
    every_one = [
        "count",
        "sum(income)",
        "mean(income)",
        "histogram(age, [0, 50, 101])",
        "proportion(age > 40)",
    ]
    each = every_one if FULL else every_one[unit != "row" :: 2]
    tables = [
        {"name": "nation", "by": [], "statistics": each},
        {"name": "districts", "by": ["district"], "statistics": each},
    ]
    found = [
        [
            (s.table, s.name, s.planned_error)
            for s in make_plan(
                query_of(
                    several(
                        tables, adjacency=adjacency, unit=unit, rows={"max": most, "expected": 100},
                        release={"delta": delta} if delta else {},
                    )
                )
            ).statistics
        ]
        for most in (1200, 1200 * FAR)
    ]  # fmt: skip
    assert found[0] == found[1]
    assert len(found[0]) == 2 * len(each)
    assert all(error is not None for *_, error in found[0])


# --- beside equal shares, each drawn alone ------------------------------------------------------

_COUNT, _MEANS, _MOST = whole(3, 150), 1.1, 1.5
_MIXES: tuple[list[Any], ...] = (
    ["count", "mean(hour)", "histogram(hour, [0, 6, 12, 18, 25])"],
    ["count", "mean(age)", "mean(bmi)", *(f"quantile(age, {p / 10})" for p in range(1, 10))],
    ["sum(age)", "cdf(income, [10, 20, 50])", {"statistic": "mean(bmi)", "weighted_by": "weight"}],
    ["count", "std(age)", "mean(age)", "correlation(age, bmi)", "count_distinct(region)"],
)


def requests() -> Iterator[dict[str, Any]]:
    """Yield requests of several statistics: caps 2, 100 and 10,000 times; `expected` right, too small, absent."""
    found = [_mix(statistics, world) for statistics in _MIXES for world in WORLDS[: whole(1, 6)]]
    several_each = (s for s in natural.requests(6 * _COUNT) if len(s["release"]["statistics"]) > 1)
    found += itertools.islice(several_each, _COUNT)
    for i, schema in enumerate(found):
        size = schema["rows"].get("expected")
        if size is not None:
            schema["rows"] = {"max": size * (2, 100, 10**4)[i % 3]}
            if i % 4 != 2:
                schema["rows"]["expected"] = size if i % 4 < 2 else size // 10
        yield schema


def _mix(statistics: list[Any], world: dict[str, Any]) -> dict[str, Any]:
    wide = {"kind": "category", "values": [f"v{i}" for i in range(50)]}
    return {
        "dprelease": "schema/1",
        "name": "mix",
        "rows": {"max": 200, "expected": 100},
        "columns": {**COLUMNS, "g": wide},
        **{k: world[k] for k in ("unit", "adjacency")},
        "release": {
            "epsilon": 1,
            "statistics": statistics,
            **{k: v for k, v in world.items() if k in ("by", "delta", "loss")},
        },
    }


def moments_of_public_rows(query: Query) -> set[str]:
    """Return what is drawn together with other moments of the column, where alone another form is better.

    Of a public number of rows a variance alone is one number, beside its mean it is three: up to 3.7 times the error at
    ε = 0.0005 each. That is a matter of forms, not of the split.
    """
    if query.schema.rows.exact is None:
        return set()
    blocks = [block.members for block in layouts(query)[0] if len(block.members) > 1]
    return {member.statistic.spec.name for members in blocks for member in members}


def test_no_statistic_errs_much_more_than_alone_with_an_equal_share(evidence: Any) -> None:
    ratios: list[list[float]] = []
    for schema in requests():
        query = query_of(schema)
        together, specs, left_out = (
            errors(query),
            query.spec.statistics,
            moments_of_public_rows(query),
        )
        ratios.append([])
        for statistic in specs:
            epsilon, delta = query.epsilon / len(specs), query.spec.delta / len(specs)
            spec = replace(query.spec, statistics=(statistic,), epsilon=epsilon, delta=delta)
            alone = errors(resolve(query.schema, spec))
            if statistic.name in alone and statistic.name not in left_out:
                error, other = together[statistic.name], alone[statistic.name]
                ratios[-1].append(1.0 if error == other else error / other)
    means = [sum(each) / len(each) for each in ratios if each]
    most = max(max(each) for each in ratios if each)
    assert max(means) <= _MEANS
    assert most <= _MOST
    assert sum(map(len, ratios)) >= 3 * len(ratios)
    said = f"mean {sum(means) / len(means):.3f}, the largest of a request {max(means):.3f}, of a statistic {most:.3f}"
    evidence("beside equal shares, each alone", f"{len(means)} natural requests", said)


# --- what the plan says of it -------------------------------------------------------------------


def told(statistics: list[Any], epsilon: float, rows: dict[str, Any]) -> str:
    schema = _mix(statistics, WORLDS[0]) | {"rows": rows}
    schema["release"]["epsilon"] = epsilon
    return " ".join(make_plan(query_of(schema)).__str__().split())


def test_a_share_that_would_help_by_more_than_a_third_is_named() -> None:
    statistics = ["count", "mean(hour)", "sum(age)", "sum(hour)"]
    rows = {"max": 10**6, "expected": 1000}
    assert "a `share` of 0.5" not in told(statistics[:2], 1, rows)  # it has half already
    said = "a `share` of 0.5 for one of count, mean_hour, sum_age, sum_hour would lower its error by 50"
    assert said in told(statistics, 1, rows)
    half = [{"statistic": "count", "share": 0.5}, *statistics[1:]]
    assert "a `share` of 0.5" not in told(half[:3], 1, rows)  # the others have half of what is left
    plan = make_plan(query_of(_mix(half[:3], WORLDS[0])))
    assert [float(b.epsilon) for b in plan.blocks] == [0.5, 0.25, 0.25]


def test_a_law_that_is_cut_at_the_cap_says_what_a_larger_cap_costs() -> None:
    near, far = ({"max": most, "expected": 100} for most in (200, 2_000_000))
    assert "is cut at" not in told(["count"], 1, near)
    assert (
        "the law of count is cut at its domain, which follows from `rows.max`: ±9.50 rows at 200, ±9.98 at 2,000,000"
    ) in told(["count"], 0.1, near)
    assert "±9.98 rows" in told(["count"], 0.1, far)
    assert "is cut at" not in told(["count"], 0.1, far)
    pinned = {"statistic": "count", "mechanism": "bounded_gaussian"}  # its noise grows with the cap
    assert "the law of count is cut at" in told([pinned], 1, {"max": 20_000, "expected": 100})


def test_what_is_assumed_of_the_number_of_rows_is_said() -> None:
    said = "no `rows: expected` is declared: laws and errors are those for 1,000 rows per group"
    assert said in told(["mean(hour)"], 1, {"max": 5000})
    assert "is declared" not in told(
        ["count", "sum(age)"], 1, {"max": 5000}
    )  # no error depends on it
    assert "is declared" not in told(["mean(hour)"], 1, {"max": 5000, "expected": 100})
    tables = [
        {"name": "nation", "by": [], "statistics": ["mean(income)"]},
        {"name": "districts", "by": ["district"], "statistics": ["mean(income)"]},
    ]
    assert f"{said[:-5]}cell" in make_plan(query_of(several(tables))).advice


def test_without_point_masses_a_cap_costs_no_accuracy() -> None:
    """The grid had at most 2^15 points: with a cap of a million, a count was published in steps of 20."""
    asked_for = [{"statistic": "count", "spikes": "forbid"}]
    for epsilon, error in ((1, 0.8466), (10, 9.0e-5)):
        schema = _mix(asked_for, WORLDS[0]) | {"rows": {"max": 10**6, "expected": 100}}
        schema["release"]["epsilon"] = epsilon
        plan = make_plan(query_of(schema))
        assert plan.statistics[0].step == 1
        assert plan.statistics[0].planned_error == pytest.approx(error, rel=0.01)
