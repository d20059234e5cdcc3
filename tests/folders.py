"""Publication folders of all sorts, made in memory: honest ones, and the tools of a forger.

`CASES` names what an honest folder can be of: rows, users, graphs, periods, views, SQL, a delta, goals, few
formats, kinds of other packages. `folder_of` draws it (the noise is real) and returns its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from dprelease.budget.ledger import Key, Ledger
from dprelease.engines.source import as_source
from dprelease.pipeline import files as writing
from dprelease.pipeline import preflight, stages
from dprelease.pipeline.flow import bundle
from dprelease.planning.make import make_plan
from dprelease.query.calendar import Calendar, window_of, zone_tables
from dprelease.query.load import schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.read_view import parse_view
from dprelease.query.spec import resolve
from dprelease.release_plan.identity import plan_hash
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.formats.json_ import FILE, described, manifest_bytes
from dprelease.schema.table import TableSchema

__all__ = [
    "CASES", "COUNT", "FULL", "Files", "folder_of", "manifest_of", "planned", "remade", "schema", "sealed", "write",
]  # fmt: skip

Files = dict[str, bytes]

USER = {"user": "patient", "max_groups": 2, "max_rows_per_group": 2}
COLUMNS = {
    "patient": {"kind": "identifier"},
    "region": {"kind": "category", "values": ["north", "süd", "e=st"], "other": {"as": "rest"}},
    "treated": {"kind": "boolean", "nulls": {"default": False}},
    "age": {"kind": "integer", "measure": "years", "range": [0, 110], "forbidden": [[100, 105]]},
    "bmi": {
        "kind": "number",
        "measure": "kg/m2",
        "range": [10, 60],
        "step": 0.5,
        "nulls": {"default": 25},
    },
    "decade": {"kind": "integer", "from": "floor(age / 10) * 10", "range": [0, 110], "step": 10},
    "day": {"kind": "timestamp"},
}


def schema(release: Mapping[str, Any], **changes: Any) -> TableSchema:
    """Return the clinic's schema with this default release."""
    base = {
        "dprelease": "schema/1",
        "name": "clinic",
        "unit": USER,
        "adjacency": "add_remove",
        "rows": {"max": 500, "expected": 40},
        "columns": COLUMNS,
    }
    return schema_from_dict({**base, **changes, "release": dict(release)})


ROWS = {"unit": "row", "adjacency": "substitution", "rows": {"exact": 60}}
BY_KEY = {"rows": {"max": 500, "expected": {"north": 20, "rest": 300}}}
COUNT = {"statistic": "count", "domain": {"range": [0, 500], "forbidden": [[0, 10]]}}
FULL = {"epsilon": 2, "by": ["region"], "where": "age >= 18", "statistics": [COUNT, "mean(age)"]}
EDGES = {
    "unit": {"edge": {"source": "a", "target": "b", "k": 2, "nodes": 12}},
    "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}},
    "rows": {},
}
GRAPH = {"epsilon": 4, "statistics": ["algebraic_connectivity", "degree(3)"]}
BOX = {
    "epsilon": 4,
    "statistics": [
        {
            "statistic": "algebraic_connectivity",
            "mechanism": "bounded_gaussian",
            "domain": {"range": [0, 12]},
        },
        {"statistic": "degree(3)", "mechanism": "bounded_gaussian", "domain": {"range": [1, 11]}},
    ],
}
WIDE_BINS = "histogram(age, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100])"

CASES: dict[str, Callable[[], ReleasePlan]] = {
    "groups of users": lambda: planned(schema(FULL)),
    "a week": lambda: planned(schema(FULL), week="2026-W46"),
    "rows, public size": lambda: planned(
        schema(
            {"epsilon": 3, "statistics": ["sum(bmi)", "variance(bmi)", "mean(bmi)", "count"]},
            **ROWS,
        )
    ),
    "guesses per key": lambda: planned(
        schema({**FULL, "statistics": ["mean(age)", "std(bmi)"]}, **BY_KEY)
    ),
    "a delta": lambda: planned(
        schema({**FULL, "delta": 1e-6, "statistics": ["count", "mean(age)", "median(age)"]})
    ),
    "normal noise": lambda: planned(
        schema(
            {
                "epsilon": 1,
                "delta": "1/1000000",
                "statistics": [
                    {"statistic": "mean(age)", "mechanism": "rectified_gaussian"},
                    WIDE_BINS,
                ],
            }
        )
    ),
    "goals": lambda: planned(
        schema(
            {
                "statistics": [
                    {"statistic": "count", "max_error": 4},
                    {"statistic": "mean(age)", "max_error": 9},
                ]
            }
        )
    ),
    "no point masses": lambda: planned(
        schema(
            {
                "epsilon": 2,
                "statistics": [
                    {"statistic": "mean(age)", "spikes": "forbid"},
                    {**COUNT, "spikes": "forbid"},
                ],
            }
        )
    ),
    "shares, weights, notes": lambda: planned(
        schema(
            {
                "epsilon": 2,
                "by": ["region", "treated"],
                "statistics": [
                    {"statistic": "count", "share": 0.25, "note": "as every year"},
                    {"statistic": "proportion(bmi >= 30 and treated)", "as": "obese", "weight": 3},
                    {"statistic": "sum(decade)", "max_rows_per_group": 1},
                ],
            }
        )
    ),
    "ranks": lambda: planned(
        schema(
            {
                "epsilon": 2,
                "statistics": ["median(age)", "quantile(bmi, 0.9)", "min(age)", "max(age)"],
            }
        )
    ),
    "persons, distinct, worst answer": lambda: planned(
        schema(
            {
                "epsilon": 2,
                "judge": "worst",
                "loss": "squared",
                "statistics": ["count(persons)", "count_distinct(region)", "std(age)"],
            }
        )
    ),
    "several columns": lambda: planned(
        schema(
            {
                "epsilon": 5,
                "statistics": ["covariance(age, bmi)", "correlation(age, bmi)", "mean(age)"],
            }
        )
    ),
    "eigenvalues": lambda: planned(
        schema({"epsilon": 5, "statistics": ["eigenvalues(age, bmi, decade)"]})
    ),
    "a graph": lambda: planned(schema(GRAPH, **EDGES)),
    "a graph in a box": lambda: planned(schema(BOX, **EDGES)),
    "a view": lambda: planned(schema(FULL), view="SELECT v.patient, v.region, v.age FROM visits v"),
    "SQL": lambda: planned(
        schema(
            {
                "epsilon": 1,
                "sql": "SELECT COUNT(*) AS n, AVG(age) FROM clinic WHERE age >= 30 GROUP BY region",
            }
        )
    ),
    "a public constant": lambda: planned(
        schema({"epsilon": 1, "statistics": ["count", "sum(bmi)"]}, **ROWS)
    ),
}

CASES = {name: cache(made) for name, made in CASES.items()}


def planned(table: TableSchema, *, week: str | None = None, view: str | None = None) -> ReleasePlan:
    """Return the plan of the schema's release: of any rows, of one week, or through a view."""
    calendar = window = read = None
    if week is not None:
        calendar = Calendar("day", "week", "Europe/Berlin", week, zone_tables())
        window = ("day", *window_of(table, calendar))
    if view is not None:
        read = parse_view(view, private=["visits"], public=[])
    return make_plan(
        resolve(table, merge_release(table), window=window, view=read, calendar=calendar)
    )


def rows_for(plan: ReleasePlan) -> pd.DataFrame:
    """Return sixty made-up rows of the clinic, or the edges of a ring."""
    if plan.request is not None and "a" in plan.request.schema.columns:
        return pd.DataFrame({"a": range(12), "b": [(i + 1) % 12 for i in range(12)]})
    count = 60
    return pd.DataFrame(
        {
            "patient": [f"p{i // 2}" for i in range(count)],
            "region": [("north", "süd", "e=st", "Mars")[i % 4] for i in range(count)],
            "treated": [i % 3 == 0 for i in range(count)],
            "age": [20 + (i * 7) % 60 for i in range(count)],
            "bmi": [18.0 + i % 20 for i in range(count)],
            "day": pd.to_datetime(["2026-11-10"] * count),
        }
    )


def folder_of(
    plan: ReleasePlan,
    book: Path,
    formats: tuple[str, ...] = writing.FORMATS,
    period: str = "2026-W46",
) -> Files:
    """Return the files of one release of `plan` under a new ledger at `book`."""
    ledger = Ledger.create(
        book, dataset="clinic", epsilon=100, delta=Fraction(1, 1000),
        adjacency=plan.adjacency.value, unit=json.dumps(_unit(plan)),
    )  # fmt: skip
    request = stages.Request(ledger, Key("clinic", "clinic_weekly", period))
    receipt = stages.charge(plan, request)
    rows = rows_for(plan)
    if plan.query.view is not None:
        from dprelease.engines.source import tables_source

        source = tables_source({"visits": as_source(rows)})
    else:
        source = as_source(rows)
    noised = stages.draw(
        plan, source, preflight.engine_named("duckdb"), request=request, receipt=receipt
    )
    budget = stages.spent_at(ledger, request.key, receipt.seq or 0)
    files = bundle(noised, formats, budget=budget, scheduled="2026-11-17T06:00:00Z")
    ledger.commit_files(request.key, files)
    return files


def _unit(plan: ReleasePlan) -> Any:
    from dprelease.schema.unit import unit_to_json

    return unit_to_json(plan.unit)


def write(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write the files into a new folder."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


# --- the forger's tools -----------------------------------------------------------------------


def manifest_of(files: Mapping[str, bytes]) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(files[FILE])
    return manifest


def sealed(files: Files, manifest: dict[str, Any]) -> Files:
    """Return the files with all hashes made to fit: what a careful forger does last."""
    manifest["plan_hash"] = plan_hash(manifest["plan"])
    others = {name: data for name, data in files.items() if name != FILE}
    manifest["files"] = described(others)
    return {**others, FILE: manifest_bytes(manifest)}


def remade(manifest: Mapping[str, Any], formats: tuple[str, ...] = writing.FORMATS) -> Files:
    """Return every file made again from a forged manifest, by the writers that made the honest ones.

    This is a forger who runs our own code on his own numbers: nothing in his folder disagrees with
    anything else in it.
    """
    from dprelease.core import registry
    from dprelease.results.series.collect import noised_of

    manifest = {**manifest, "plan_hash": plan_hash(manifest["plan"])}
    noised = noised_of(manifest)
    said = {k: v for k, v in manifest.items() if k != "files"}
    files: Files = {}
    for kind in dict.fromkeys((*formats, "registry", "datapackage")):
        made: Any = registry.load("formats", kind)
        files |= made(noised, {**said, "files": described(files)})
    return sealed(files, dict(manifest))
