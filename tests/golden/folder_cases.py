"""The releases behind the folders of `tests/golden/folders`: for each its schema, its pipeline and what is done.

Every project reads the made-up rows beside it (`rows.csv`, `people.csv`, `edges.csv`). Together they use every unit,
adjacency, way to add up losses, mechanism and statistic that a version has.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

__all__ = ["CASES", "Case", "rows_csv"]

Json = dict[str, Any]

PEOPLE = {"user": "who", "max_groups": 2, "max_rows_per_group": 3}
PUBLIC = {"exact": 240}
SHORT = ("csv",)
WHOLE = ("parquet", "csv", "html")


@dataclass(frozen=True)
class Case:
    """One project.

    Attributes:
        release: the release block. schema: what else its schema says. pipeline: what else its pipeline says.
        periods: what is run, in this order. corrected: what is recorded of a period afterwards.
        left: a step at which the last period's run is left, as a crash leaves it: "charged", "drawn", "committed".
    """

    release: Json
    schema: Json = field(default_factory=dict)
    pipeline: Json = field(default_factory=dict)
    formats: Sequence[str] = SHORT
    periods: Sequence[str] = ("once",)
    corrected: Mapping[str, str] = field(default_factory=dict)
    approved: bool = False
    early: bool = False
    left: str | None = None
    frame: bool = False


def _asked(*statistics: object, **more: Any) -> Json:
    return {"epsilon": 2, "statistics": list(statistics), **more}


def _pinned(*mechanisms: str, **more: Any) -> list[Json]:
    """Return one mean of each mechanism."""
    return [{"statistic": "mean(x)", "as": m, "mechanism": m, **more} for m in mechanisms]


def _quantiles(column: str, many: int) -> list[Json]:
    return [
        {"statistic": f"quantile({column}, {i / (many + 1):.3g})", "as": f"q{i}"}
        for i in range(1, many + 1)
    ]


def _nulls(*columns: str) -> Json:
    """Return the columns with a default for nulls, as a public number of rows needs it."""
    return {name: COLUMNS[name] | {"nulls": {"default": 2}} for name in columns}


COLUMNS: Mapping[str, Json] = {
    "who": {"kind": "identifier"},
    "at": {"kind": "timestamp"},
    "region": {"kind": "category", "values": ["north", "south", "east"], "title": "Region"},
    "age": {"kind": "integer", "measure": "years", "range": [0, 100], "title": "Age"},
    "x": {"kind": "number", "range": [0, 10], "step": 0.5, "measure": "m"},
    "y": {"kind": "integer", "range": [-4, 8]},
    "z": {"kind": "number", "range": [0, 1], "step": 0.01},
    "smoker": {"kind": "category", "values": ["yes", "no"]},
    "weight": {"kind": "number", "range": [0, 4], "step": 0.5},
}
WEEKS = {"every": "week", "delay": "1d", "timezone": "Europe/Dublin"}
WEEKLY = {"period": WEEKS | {"column": "at"}}
_DOMAIN = {"range": [0, 500], "forbidden": [[0, 10]]}
_REGIONS = [["land", "north"], ["land", "south"], ["sea", "east"]]

CASES: Mapping[str, Case] = {
    "counts": Case(
        _asked(
            {"statistic": "count", "domain": _DOMAIN, "title": "Visits"},
            "sum(age)",
            "mean(age)",
            "proportion(age >= 65)",
            by=["region"],
            where="age >= 18",
        ),
        formats=WHOLE,
    ),
    "survey": Case(
        _asked(
            "mean(x)", "variance(x)", "std(y)", "histogram(y, [-4, 0, 2, 8])", "proportion(y > 2)"
        ),
        {"adjacency": "substitution", "rows": PUBLIC, "columns": _nulls("x", "y")},
        formats=("parquet", "csv"),
    ),
    "persons": Case(
        _asked(
            "count", "count(persons)", "count_distinct(region)", "mean(x)", "sum(y)", by=["smoker"]
        ),
        {"unit": PEOPLE},
        formats=("parquet", "csv"),
    ),
    "persons_replaced": Case(
        _asked("sum(x)", "mean(y)", "histogram(x, [0, 2, 5, 10])", "cdf(z, [0, 0.2, 0.5, 0.9, 1])"),
        {"unit": PEOPLE, "adjacency": "substitution"},
    ),
    "weeks": Case(
        _asked("count", "mean(x)", by=["region"], epsilon=0.5),
        {
            "unit": PEOPLE | {"per": "week"},
            "time": {"column": "at", "timezone": "Europe/Dublin", "immutable": True},
        },
        {
            "period": WEEKS,
            "schedule": {"cron": "0 6 * * TUE", "timezone": "Europe/Dublin", "catch_up": 4},
        },
        formats=WHOLE,
        periods=("2026-W02", "2026-W03", "2026-W04"),
    ),
    "corrected": Case(
        _asked("count", "sum(x)", epsilon=1),
        {},
        WEEKLY,
        periods=("2026-W02", "2026-W03", "2026-W04"),
        corrected={"2026-W02": "withdraw", "2026-W03": "supersede"},
    ),
    "early": Case(
        _asked("count", epsilon=1),
        {},
        {"period": WEEKS | {"column": "at", "every": "month", "delay": "2d"}},
        periods=("2026-01",),
        early=True,
    ),
    "approved": Case(
        _asked("count", "mean(age)", by=["region"], epsilon=1),
        {},
        WEEKLY,
        periods=("2026-W02", "2026-W03"),
        approved=True,
    ),
    "optimal_composition": Case(
        _asked(*(f"mean({c})" for c in ("age", "x", "y", "z", "weight")), delta=1e-4, epsilon=0.2)
    ),
    "medians_with_delta": Case(
        _asked(
            *(f"median({c})" for c in ("age", "x", "y", "z", "weight")),
            *_quantiles("age", 9),
            delta=1e-5,
            epsilon=1,
        )
    ),
    "zcdp": Case(
        _asked(
            "mean(x)", "histogram(y, [-4, 0, 2, 8])", "median(z)", "count", delta=1e-7, epsilon=0.5
        ),
        {"unit": PEOPLE},
        {**WEEKLY, "budget": {"epsilon": 8, "delta": 1e-6, "composition": "zcdp"}},
        periods=("2026-W02", "2026-W03"),
    ),
    "by_rank": Case(
        _asked(
            "median(age)",
            "min(x)",
            "max(y)",
            {"statistic": "median(z)", "mechanism": "permute_and_flip"},
            {"statistic": "quantile(weight, 0.9)", "mechanism": "exponential"},
            by=["smoker"],
            epsilon=8,
        ),
    ),
    "nested_quantiles": Case(_asked(*_quantiles("age", 3), "count"), formats=("parquet", "csv")),
    "many_quantiles": Case(_asked(*_quantiles("z", 9), by=["smoker"], epsilon=4), {"unit": PEOPLE}),
    "joint_quantiles": Case(
        _asked(*_quantiles("y", 2), epsilon=1),
        {"adjacency": "substitution", "rows": PUBLIC, "columns": _nulls("y")},
    ),
    "rank_interval": Case(
        _asked(
            {"statistic": "median(age)", "interval": True},
            {"statistic": "quantile(x, 0.9)", "interval": True},
            epsilon=4,
        ),
        formats=("parquet", "csv"),
    ),
    "ranges": Case(
        _asked(
            {
                "statistic": "histogram(z, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])",
                "accurate_for": "ranges",
            },
            {"statistic": "cdf(age, [0, 18, 40, 65, 100])", "as": "ages"},
        ),
    ),
    "ratios": Case(
        _asked(
            {"statistic": "ratio(x, weight)", "domain": {"range": [0, 10]}},
            {"statistic": "mean(age)", "weighted_by": "weight"},
            {"statistic": "count", "weighted_by": "weight"},
            {"statistic": "proportion(y > 2)", "weighted_by": "weight"},
            epsilon=4,
        ),
    ),
    "moments": Case(
        _asked("covariance(x, y)", "correlation(x, y)", "eigenvalues(x, y)", "mean(z)", epsilon=4)
    ),
    "winsorised": Case(
        _asked(
            *(
                {"statistic": s, "winsorize": 0.1}
                for s in ("mean(age)", "sum(x)", "variance(y)", "std(z)")
            ),
            epsilon=4,
        ),
    ),
    "graph": Case(
        _asked(
            {
                "statistic": "algebraic_connectivity",
                "as": "lambda_2",
                "domain": {"range": [0, 10]},
                "mechanism": "bounded_gaussian",
            },
            {
                "statistic": "degree(0)",
                "as": "degree_0",
                "domain": {"range": [1, 17]},
                "mechanism": "bounded_gaussian",
            },
            "degree(33)",
            "laplacian_eigenvalues",
            epsilon=4,
        ),
        {
            "unit": {"edge": {"source": "a", "target": "b", "k": 2, "nodes": 34}},
            "rows": None,
            "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}},
        },
        {"source": {"csv": "../edges.csv"}},
    ),
    "laplace_family": Case(
        _asked(
            *_pinned(
                "bounded_laplace",
                "rectified_laplace",
                "reflected_laplace",
                "discrete_laplace",
                "staircase",
            ),
            epsilon=6,
        ),
        {"rows": PUBLIC, "adjacency": "substitution", "columns": _nulls("x")},
    ),
    "public_rows": Case(
        _asked(
            "count",
            *_pinned("bounded_gaussian"),
            epsilon=6,
        ),
        {"rows": PUBLIC, "adjacency": "substitution", "columns": _nulls("x")},
    ),
    "best_table": Case(
        _asked(
            {"statistic": "count", "mechanism": "optimal_grid", "domain": {"range": [0, 10]}},
            "proportion(y > 2)",
        ),
    ),
    "rectified": Case(_asked(*_pinned("rectified_gaussian"), by=["region"], delta=1e-6)),
    "gaps": Case(
        _asked(
            {
                "statistic": "mean(x)",
                "domain": {"range": [0, 10], "forbidden": [[4, 6]], "step": 0.1},
            },
            {
                "statistic": "mean(z)",
                "domain": {"range": [0, 1], "forbidden": [[0.4, 0.5]], "step": 0.01},
                "spikes": "forbid",
            },
            "median(hours)",
            {"statistic": "count", "domain": _DOMAIN},
            loss="squared",
            epsilon=4,
        ),
        {
            "columns": {
                "hours": {
                    "kind": "number",
                    "range": [0, 10],
                    "step": 0.5,
                    "forbidden": [[3, 6]],
                    "from": "x",
                }
            }
        },
        formats=("parquet", "csv"),
    ),
    "derived": Case(
        _asked("count", "mean(minutes)", by=["decade"], where="smoker = 'yes'"),
        {
            "columns": {
                "minutes": {
                    "kind": "number",
                    "from": "x * 60",
                    "range": [0, 600],
                    "step": 1,
                    "measure": "min",
                },
                "decade": {
                    "kind": "category",
                    "values": ["young", "old"],
                    "from": "case when age < 40 then 'young' else 'old' end",
                },
            }
        },
    ),
    "view": Case(
        _asked("count", "mean(x)", "sum(price)", by=["coast"]),
        {
            "columns": {
                "price": {"kind": "number", "range": [0, 20], "step": 0.5},
                "coast": {"kind": "category", "values": ["yes", "no"]},
            }
        },
        {
            "source": {
                "view": "SELECT v.who, v.x, v.x * p.price AS price, coalesce(p.coast, 'no') AS coast FROM visits v LEFT JOIN places p ON p.code = v.region",
                "tables": {"visits": {"csv": "../rows.csv"}},
                "public_tables": {"places": {"csv": "../places.csv"}},
            }
        },
    ),
    "tables": Case(
        {
            "epsilon": 3,
            "tables": [
                {"name": "nation", "by": [], "statistics": ["count", "sum(y)", "mean(y)"]},
                {
                    "name": "coasts",
                    "by": ["coast"],
                    "statistics": ["count", "sum(y)", "proportion(y > 2)"],
                },
                {"name": "regions", "by": ["region", "smoker"], "statistics": ["count", "sum(y)"]},
            ],
        },
        {
            "hierarchies": {"place": {"levels": ["coast", "region"], "keys": _REGIONS}},
            "columns": {"y": COLUMNS["y"] | {"nulls": {"default": 0}}},
        },
        formats=WHOLE,
    ),
    "tables_of_persons": Case(
        {
            "epsilon": 2,
            "delta": 1e-6,
            "tables": [
                {"name": "everybody", "by": [], "statistics": ["histogram(y, [-4, 0, 2, 8])"]},
                {
                    "name": "regions",
                    "by": ["region"],
                    "statistics": ["histogram(y, [-4, 0, 2, 8])"],
                },
                {
                    "name": "both",
                    "by": ["region", "smoker"],
                    "statistics": ["histogram(y, [-4, 0, 2, 8])"],
                },
            ],
        },
        {"unit": PEOPLE, "adjacency": "substitution"},
    ),
    "goals": Case(
        {
            "statistics": [
                {"statistic": "count", "max_error": 2},
                {"statistic": "mean(age)", "max_error": 1.5},
            ]
        },
        formats=("parquet", "csv", "html"),
    ),
    "frame": Case(
        _asked("count", "mean(age)", "median(x)", by=["region"]),
        frame=True,
        periods=("final", "next"),
        formats=WHOLE,
    ),
    "left_charged": Case(
        _asked("mean(age)", "variance(x)", *_quantiles("y", 3), by=["region"]),
        {},
        WEEKLY,
        periods=("2026-W02", "2026-W03"),
        left="charged",
    ),
    "left_drawn": Case(
        _asked("mean(age)", "variance(x)", by=["region"], delta=1e-6),
        {},
        WEEKLY,
        periods=("2026-W02", "2026-W03"),
        left="drawn",
    ),
    "left_committed": Case(
        _asked("mean(age)", "count", by=["region"]),
        {"unit": PEOPLE},
        WEEKLY,
        periods=("2026-W02", "2026-W03"),
        left="committed",
    ),
}


def rows_csv() -> str:
    """Return the made-up rows: nulls, values outside their range, unknown keys, people with many rows."""
    pick = random.Random("golden folders")

    def some(value: object) -> str:
        return "" if pick.random() < 0.03 else str(value)

    lines = ["who,at,region,age,x,y,z,smoker,weight"]
    for _ in range(240):
        at = datetime(2026, 1, 5) + timedelta(hours=pick.randrange(24 * 21))
        cells = (
            some(f"u{min(pick.randrange(90), pick.randrange(90))}"),
            at.isoformat(),
            some(pick.choice(["north", "north", "south", "east", "west"])),
            some(pick.randrange(12, 104)),
            some(pick.randrange(-2, 24) / 2),
            some(pick.randrange(-6, 10)),
            some(pick.randrange(104) / 100),
            some(pick.choice(["yes", "no", "no"])),
            some(pick.randrange(0, 9) / 2),
        )
        lines.append(",".join(cells))
    return "\n".join(lines) + "\n"
