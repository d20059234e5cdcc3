"""Tables, schemas and requests for `test_plain_answers`: each request in the library's words and in ours."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pandas as pd

from tests.reference import plain_answers as plain
from tests.reference.plain_answers import Row, Test, both, either, holds, no

ROWS = 240


@dataclass(frozen=True)
class Case:
    """One release: the schema as a mapping, the raw rows, and the same request for the reference."""

    schema: dict[str, Any]
    frame: pd.DataFrame
    where: Test | None
    asked: list[tuple[str, list[Any]]]
    """The reference's name and arguments, statistic by statistic."""
    columns: dict[str, dict[str, Any]]
    by: list[str]
    derived: dict[str, Any] = field(default_factory=dict)


def _decade(row: Row) -> float | None:
    return None if row["age"] is None else math.floor(row["age"] / 10) * 10.0


def _band(row: Row) -> str | None:
    if row["heavy"] is True:
        return "heavy"
    return "light" if row["bmi"] is None or row["bmi"] >= 18 else "thin"


DERIVED = {
    "decade": _decade,
    "heavy": lambda row: holds(lambda x: x >= 27.5, row["bmi"]),
    "ratio": lambda row: (
        None if None in (row["age"], row["bmi"]) else row["age"] / row["bmi"] + 0.00123
    ),
    "band": _band,
}

CONDITIONS: list[tuple[str, Test]] = [
    ("age >= 40", lambda r: holds(lambda x: x >= 40, r["age"])),
    ("smoker", lambda r: r["smoker"]),
    ("not smoker or bmi <= 22.5", lambda r: either(no(r["smoker"]), holds(lambda x: x <= 22.5, r["bmi"]))),
    ("bmi > 25 and age < 70", lambda r: both(holds(lambda x: x > 25, r["bmi"]), holds(lambda x: x < 70, r["age"]))),
    ("heavy or age is null", lambda r: either(r["heavy"], r["age"] is None)),
    ("decade in (30, 50, 90)", lambda r: holds(lambda x: x in (30, 50, 90), r["decade"])),
    ("bmi not between 20.3 and 30", lambda r: no(holds(lambda x: 20.3 <= x <= 30, r["bmi"]))),
    ("region != 'north'", lambda r: holds(lambda x: x != "north", r["region"])),
    ("band in ('heavy', 'thin')", lambda r: holds(lambda x: x in ("heavy", "thin"), r["band"])),
    ("month(day) = 3 or day < '2024-01-20'", lambda r: either(
        holds(lambda d: d.month == 3, r["day"]), holds(lambda d: d < date(2024, 1, 20), r["day"]))),
    ("hour(at) < 12", lambda r: holds(lambda t: t.hour < 12, r["at"])),
    ("ratio > 2 or smoker is null", lambda r: either(holds(lambda x: x > 2, r["ratio"]), r["smoker"] is None)),
    ("coalesce(age, 0) + bmi > 60", lambda r: holds(lambda b: (r["age"] or 0) + b > 60, r["bmi"])),
    ("case when smoker then age > 50 else bmi > 24 end", lambda r: (
        holds(lambda x: x > 50, r["age"]) if r["smoker"] is True else holds(lambda x: x > 24, r["bmi"]))),
]  # fmt: skip


def rows(rng: random.Random, count: int = ROWS) -> pd.DataFrame:
    """Return raw rows: nulls, values out of range, in gaps, off the step, undeclared.

    No value, nor a derived one, lies half-way between two steps: doubles need not agree with decimals there.
    """

    def some(make: Any, nulls: float) -> list[Any]:
        return [None if rng.random() < nulls else make() for _ in range(count)]

    first = datetime(2024, 1, 1, tzinfo=UTC)
    return (
        pd.DataFrame(
            {
                "who": [f"p{i // 2:04d}" for i in range(count)],
                "region": some(
                    lambda: rng.choice(["north", "south", "east", "West", "nowhere", "rest"]), 0.1
                ),
                "smoker": some(lambda: rng.random() < 0.4, 0.2),
                "age": some(
                    lambda: float(rng.choice([-5, 130, 66, 68, 69, rng.randint(0, 110)])), 0.15
                ),
                "bmi": some(
                    lambda: round(rng.uniform(9, 64), 1) + rng.choice([0, 0.02, -0.03]), 0.15
                ),
                "day": some(lambda: date(2024, 1, 1) + timedelta(days=rng.randrange(91)), 0.05),
                "at": some(lambda: first + timedelta(minutes=rng.randrange(91 * 1440)), 0.05),
            }
        )
        .astype(object)
        .where(lambda f: f.notna(), None)
    )


def columns(rng: random.Random, *, whole: bool = False) -> dict[str, dict[str, Any]]:
    """Return declarations with random policies; `whole`: no null of a number drops its row."""

    def nulls(*policies: Any) -> dict[str, Any]:
        found = rng.choice(policies)
        return {} if found is None else {"nulls": found}

    default = [{"default": 30}] if whole else [None, "drop", {"default": 30}]
    bmi_default = [{"default": 22.5}] if whole else [None, {"default": 22.5}]
    return {
        "who": {"kind": "identifier"},
        "region": {
            "kind": "category", "values": ["north", "south", "east"],
            **rng.choice([{}, {"other": "drop"}, {"other": {"as": "rest"}}]),
            **nulls(None, {"as": "unknown"}, {"as": "rest"}),
        },
        "smoker": {"kind": "boolean", **nulls(None, {"default": True}, {"default": False}, {"as": "unsaid"})},
        "age": {
            "kind": "integer", "range": [0, 100], **rng.choice([{}, {"forbidden": [[65, 70]]}, {"step": 5}]),
            **nulls(*default),
        },
        "bmi": {
            "kind": "number", "range": [10, 60], "step": rng.choice([0.1, 0.5]),
            **rng.choice([{}, {"forbidden": [[40, 45], [50, 52]]}]), **nulls(*bmi_default),
        },
        "day": {"kind": "date"},
        "at": {"kind": "timestamp"},
        "decade": {
            "kind": "integer", "from": "floor(age / 10) * 10", "range": [0, 90], "step": 10, **nulls(None, {"default": 30}),
        },
        "heavy": {"kind": "boolean", "from": "bmi >= 27.5", **nulls(None, {"default": True})},
        "ratio": {"kind": "number", "from": "age / bmi + 0.00123", "range": [0, 6], "step": 0.01, **nulls(None, {"default": 1})},
        "band": {
            "kind": "category", "from": "case when heavy then 'heavy' when bmi < 18 then 'thin' else 'light' end",
            "values": ["heavy", "light"], **rng.choice([{}, {"other": {"as": "slim"}}]),
        },
    }  # fmt: skip


def _asked(
    rng: random.Random, declared: dict[str, dict[str, Any]], *, user: bool
) -> list[tuple[str, str, list[Any]]]:
    """Return a few statistics: as written, the reference's name, its arguments."""
    number = rng.choice(["age", "bmi", "ratio", "decade"])
    other = rng.choice([name for name in ("age", "bmi", "ratio") if name != number])
    text, test = _fitting(rng, declared)
    low, high = declared[number]["range"]
    edges = [low, (low + high) // 3, (low + high) // 2, high]
    pool: list[tuple[str, str, list[Any]]] = [
        ("count", "count", []),
        (f"sum({number})", "sum", [number]),
        (f"mean({number})", "mean", [number]),
        ("mean(smoker)", "mean", ["smoker"]),
        ("sum(heavy)", "sum", ["heavy"]),
        (f"variance({number})", "variance", [number]),
        (f"std({number})", "std", [number]),
        (f"proportion({text})", "proportion", [test]),
        (f"histogram({number}, {edges})", "histogram", [number, edges]),
        (f"median({number})", "median", [number]),
        (f"quantile({number}, 0.9)", "quantile", [number, "0.9"]),
        (f"min({number})", "min", [number]),
        (f"max({number})", "max", [number]),
        ("count_distinct(region)", "count_distinct", ["region", declared["region"]["values"]]),
        ("count_distinct(decade)", "count_distinct", ["decade", list(range(0, 100, 10))]),
        (f"covariance({number}, {other})", "covariance", [number, other]),
        (f"correlation({number}, {other})", "correlation", [number, other]),
        (f"eigenvalues({number}, {other})", "eigenvalues", [number, other]),
    ]
    if user:
        pool.append(("count(persons)", "persons", ["who"]))
    return rng.sample(pool, 3)


def _fitting(rng: random.Random, declared: dict[str, dict[str, Any]]) -> tuple[str, Test]:
    """Return a condition whose texts are keys of the columns it reads."""
    choice = rng.choice(CONDITIONS)
    thin = "slim" in plain.keys_of(declared["band"])
    if "'thin'" in choice[0]:  # an undeclared text is `slim`, or null
        if not thin:
            return "band = 'heavy'", lambda r: holds(lambda x: x == "heavy", r["band"])
        return "band in ('heavy', 'slim')", lambda r: holds(
            lambda x: x in ("heavy", "slim"), r["band"]
        )
    return choice


def case(seed: object, *, unit: str | None = None) -> Case:
    """Return a random case.

    Args:
        unit: row, user, or public (substitution with a public size); drawn by default.
    """
    rng = random.Random(f"case {seed}")
    unit = unit or rng.choice(["row", "row", "row replaced", "user", "public"])
    declared = columns(rng, whole=unit == "public")
    by = (
        []
        if unit == "public"
        else rng.choice(
            [[], ["region"], ["smoker"], ["band", "smoker"], ["heavy"], ["region", "heavy"]]
        )
    )
    where = None if unit == "public" or rng.random() < 0.4 else _fitting(rng, declared)
    asked = _asked(rng, declared, user=unit == "user")
    frame = rows(rng)
    size = {"exact": len(frame)} if unit == "public" else {"max": 1000, "expected": 100}
    protected: Any = (
        {"user": "who", "max_groups": 2, "max_rows_per_group": 2} if unit == "user" else "row"
    )
    schema = {
        "dprelease": "schema/1",
        "name": "survey",
        "unit": protected,
        "adjacency": "substitution" if unit in ("public", "row replaced") else "add_remove",
        "rows": size,
        "columns": declared,
        "release": {
            "epsilon": 600,
            "by": by,
            "statistics": [
                {"statistic": text, "as": f"s{i}", "share": 0.33}
                for i, (text, _, _) in enumerate(asked)
            ],
            **({"where": where[0]} if where is not None else {}),
        },
    }
    return Case(
        schema,
        frame,
        None if where is None else where[1],
        [(name, arguments) for _, name, arguments in asked],
        declared,
        by,
        DERIVED,
    )


def members(case: Case) -> dict[tuple[str, ...], list[plain.Row]]:
    """Return the cleaned rows of every group."""
    kept = plain.cleaned_rows(case.frame, case.columns, case.derived)
    if case.where is not None:
        kept = [row for row in kept if case.where(row) is True]
    return plain.grouped(kept, case.by, case.columns)


def answers(
    case: Case, groups: Mapping[tuple[str, ...], list[plain.Row]]
) -> dict[tuple[tuple[str, ...], int], list[float] | None]:
    """Return the reference's numbers by group and place of the statistic."""
    return {
        (key, place): plain.statistic(name, arguments, rows)
        for key, rows in groups.items()
        for place, (name, arguments) in enumerate(case.asked)
    }
