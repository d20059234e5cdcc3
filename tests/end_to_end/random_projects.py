"""Projects nobody chose: a schema, a table and a pipeline drawn from a seed, as users might write them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

ROWS = 600
PERIODS = {"week": ["2026-W02", "2026-W03"], "month": ["2026-01", "2026-02"]}
KEYS = (
    "town", "ok", "band", "part", "day", "month(day)", "week(day)", "weekday(day)", "month(at)",
    "hour(at)", "quarter(day)",
)  # fmt: skip
STATISTICS = (
    "count", "mean(age)", "sum(amount)", "median(age)", "quantile(amount, 0.9)", "variance(age)",
    "std(amount)", "proportion(age >= 65)", "histogram(amount, range(0, 500, 100))",
    "histogram(town)", "histogram(age, [0, 18, 65, 110])", "cdf(age, [18, 65])",
    "covariance(age, amount)", "correlation(age, amount)", "weighted_mean(amount, weight)",
    "ratio(amount, weight)", "count_distinct(part)", "max(age)", "min(amount)",
    "winsorised_mean(amount, 0.05)", "winsorised_sum(amount, 0.05)", "proportion(ok)",
    "sum(stars)", "mean(ok)", "proportion(town = 'oslo')",
)  # fmt: skip
WHERES = ("age >= 18", "ok = true", "stars > 2 AND town = 'oslo'", "part = 'x'")
RULES: tuple[dict[str, Any], ...] = (
    {"suppress": {"below": 10}},
    {"round": 5},
    {"suppress": {"below": 10}, "round": 5},
    {"suppress": {"below": 8}, "sparse": True},
)
FORMATS = ("csv", "parquet", "html", "datapackage", "sdmx", "registry")


def columns(pick: Random) -> dict[str, Any]:
    """Return the columns of a schema: each kind, with and without what may be said of it."""

    def perhaps(**words: Any) -> dict[str, Any]:
        return words if pick.random() < 0.4 else {}

    amount = {"kind": "number", "range": [0, 500], "step": "0.5", "measure": "euro"}
    amount |= perhaps(nulls={"default": 0}) | perhaps(forbidden=[[0, 10]], step=1)
    town = {"kind": "category", "values": ["oslo", "bergen", "<b>&x", "NO"]}
    return {
        "who": {"kind": "identifier"},
        "town": town | pick.choice([{}, {"other": "drop"}, {"other": {"as": "elsewhere"}}]),
        "ok": {"kind": "boolean"},
        "stars": {"kind": "integer", "range": [1, 5], **perhaps(nulls={"default": 3})},
        "day": {"kind": "date", "range": ["2026-01-01", "2026-02-28"]},
        "at": {"kind": "timestamp"},
        "amount": amount,
        "weight": {"kind": "number", "range": [1, 3], "step": "0.1", "nulls": {"default": 1}},
        "age": {
            "kind": "integer",
            "measure": "years",
            "range": [0, 110],
            **perhaps(title="Age of <i>"),
        },
        "band": {"kind": "integer", "from": "age / 10", "range": [0, 11]},
        "part": {"kind": "category", "values": ["x", "y", "z"]},
    }


def unit(pick: Random) -> Any:
    if pick.random() < 0.5:
        return "row"
    user = {
        "user": "who",
        "max_groups": pick.choice([1, 2]),
        "max_rows_per_group": pick.choice([1, 3]),
    }
    return user | pick.choice([{}, {}, {"max_rows": 3}, {"per": "week"}])


def statistic(pick: Random, name: str, persons: bool) -> dict[str, Any]:
    """Return one statistic as it stands in a release, with some of the options it takes."""
    chosen = pick.choice([*STATISTICS, *["count(persons)"] * persons])
    said: dict[str, Any] = {"statistic": chosen, "as": name}
    options: list[dict[str, Any]] = [
        {"where": pick.choice(WHERES)},
        {"title": "Title <i> of it"},
        {"max_error": pick.choice([1, 5, 50])},
    ]
    if chosen in {"count", "sum(amount)"}:
        options.append({"certain": True})
    if chosen == "count":
        options.append({"domain": {"range": [0, 3000], "forbidden": [[0, 10]]}})
    if chosen.startswith(("median", "quantile")):
        options.append({"interval": True})
    for option in options:
        said |= option if pick.random() < 0.15 else {}
    return said


def release(pick: Random, schema: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the form (by, tables, pairs or keys) and the release; a form adds to the schema what it needs."""
    form = pick.choice(["by"] * 6 + ["tables"] * 2 + ["pairs", "keys"])
    said: dict[str, Any] = {"epsilon": pick.choice([0.1, 1, 4])}
    said |= pick.choice([{}, {"delta": "0.000001"}])
    if form == "keys":
        schema["columns"]["page"] = {"kind": "category"}
        most = pick.choice([{}, {"max_keys": 3}])
        return form, {
            "keys": {"column": "page", "delta": "0.000001", **said, **most},
        }
    if pick.random() < 0.15:
        said |= {"composition": "zcdp", "delta": "0.000001"}
    if form == "by":
        persons = isinstance(schema["unit"], dict)
        said["by"] = pick.sample(KEYS, pick.choice([0, 1, 1, 1, 2]))
        said["statistics"] = [
            statistic(pick, f"s{i}", persons) for i in range(pick.choice([1, 2, 4]))
        ]
        said |= {"where": pick.choice(WHERES[:2])} if pick.random() < 0.2 else {}
    elif form == "tables":
        keys = [["A", "x"], ["A", "y"], ["B", "z"]]
        schema["hierarchies"] = {"place": {"levels": ["land", "part"], "keys": keys}}
        more = ["sum(amount)", "mean(age)", "proportion(age >= 65)", "ratio(amount, weight)"]
        each = [
            {"statistic": "count", **pick.choice([{}, {"certain": True}])},
            *pick.sample([*more, "median(age)"], pick.choice([0, 1, 2])),
        ]
        second = pick.choice(["ok", "band", "town", "month(day)"])
        said["tables"] = [
            {"name": name, "by": by, "statistics": each}
            for name, by in (("all", []), ("lands", ["land"]), ("parts", ["part", second]))
        ]
    else:
        pairs = pick.sample(["town", "ok", "part", "band"], 3)
        said["tables"] = [{"all_pairs": pairs, "statistics": ["count"]}]
    if form != "pairs" and pick.random() < 0.3:
        said["rules"] = pick.choice(RULES)
    return form, said


def table(pick: Random) -> pd.DataFrame:
    """Return rows that are not all as declared: other towns, ages out of range, missing cells."""
    r = np.random.default_rng(pick.randrange(10**9))
    start, days = pd.Timestamp("2026-01-01"), 59
    found = pd.DataFrame(
        {
            "who": r.integers(0, 300, ROWS),
            "town": r.choice(["oslo", "bergen", "<b>&x", "NO", "paris"], ROWS),
            "ok": r.choice([True, False], ROWS),
            "stars": r.integers(0, 7, ROWS),
            "day": start + pd.to_timedelta(r.integers(0, days, ROWS), unit="D"),
            "at": start + pd.to_timedelta(r.integers(0, days * 86_400, ROWS), unit="s"),
            "amount": np.round(r.exponential(60, ROWS), 2),
            "weight": np.round(r.uniform(1, 3, ROWS), 1),
            "age": r.integers(-2, 115, ROWS).astype(float),
            "part": r.choice(["x", "y", "z"], ROWS).astype(object),
            "page": r.choice(["/a", "/b", "/c d", "/é"], ROWS, p=[0.5, 0.3, 0.15, 0.05]),
        }
    )
    if pick.random() < 0.4:
        for column, missing in (("age", np.nan), ("amount", np.nan), ("part", None)):
            found.loc[r.choice(ROWS, 20), column] = missing
    return found


def write(root: Path, seed: int) -> tuple[str, list[str | None], dict[str, Any], pd.DataFrame]:
    """Write the project of this seed into a folder: job.yaml, schema.yaml and its table.

    Return the form of its release, its periods (None where it has none), the pipeline, the table.
    """
    pick = Random(seed)
    schema: dict[str, Any] = {
        "dprelease": "schema/1",
        "name": "guests",
        "unit": unit(pick),
        "adjacency": pick.choice(["add_remove"] * 3 + ["substitution"]),
        "rows": {"max": 3000, "expected": pick.choice([20, 200])},
        "columns": columns(pick),
    }
    by_week = isinstance(schema["unit"], dict) and "per" in schema["unit"]
    every = "week" if by_week else pick.choice([None, "week", "month"])
    if every:
        schema["time"] = {"column": "at", "timezone": pick.choice(["UTC", "Europe/Oslo"])}
        schema["time"] |= pick.choice([{"immutable": True}] * 3 + [{}])
    elif schema["unit"] == "row" and schema["adjacency"] == "substitution":
        schema["rows"] = pick.choice([schema["rows"], {"exact": ROWS}])
    if pick.random() < 0.3:
        schema["title"] = "Guests of <hotels>"
        schema["publisher"] = {"name": "An office", "url": "https://example.org"}
    form, said = release(pick, schema)
    stored = pick.choice(["csv", "parquet"])
    budget = {"ledger": "ledger.db", "dataset": "guests", "epsilon": 20, "delta": "0.0001"}
    if "composition" in said:
        budget["composition"] = said["composition"]
    job: dict[str, Any] = {
        "dprelease": "pipeline/1",
        "name": "guests",
        "source": {stored: f"data.{stored}"},
        "schema": "schema.yaml",
        "release": said,
        "budget": budget,
        "publish": {"to": "public", "formats": pick.sample(FORMATS, pick.choice([2, 4, 6]))},
    }
    if every:
        job["period"] = {"column": "at", "every": every, "first": PERIODS[every][0]}
    rows = table(pick)
    if stored == "csv":
        rows.assign(day=rows["day"].dt.date).to_csv(root / "data.csv", index=False)
    else:
        rows.to_parquet(root / "data.parquet")
    (root / "schema.yaml").write_text(json.dumps(schema, indent=1), encoding="utf-8")
    (root / "job.yaml").write_text(json.dumps(job, indent=1), encoding="utf-8")
    return form, list(PERIODS[every]) if every else [None], job, rows
