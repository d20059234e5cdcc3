"""The requests behind the golden plans: named, small, and the same ones every time.

Every statistic is crossed with the unit, the adjacency, the budget, a column with and without a gap,
and a private or public number of rows; then come pinned mechanisms, domains of a statistic's own,
goals, a delta, joint releases, groups and graphs, and what needs more of an engine than sums of a column
(ranges, ratios, weights, limits, intervals of a median). Then every statistic has a delta with each unit,
adjacency and column, and there are units of one week, views, and releases of several tables that add up.
A name says what is asked, e.g. `mean(x) user substitution gap epsilon=2`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from dprelease.core import registry
from tests.kinds import OF_ONE_COLUMN, OF_SOME_COLUMNS
from tests.several_tables import TREE
from tests.several_tables import USER as PERSON
from tests.several_tables import schema as several

__all__ = ["ALWAYS", "SAMPLE_STEP", "cases", "sample", "view_of"]

Case = tuple[str, dict[str, Any]]
SAMPLE_STEP = 37
"""Every so many cases are checked with each change; a prime, so that no dimension is left out."""

ALWAYS = ("tables tree row", "view share row", "count week", "mean(x) week substitution gap delta")
"""Cases that are checked with each change as well: of each kind of source and unit one that is fast."""

_STATISTICS = (
    "count",
    "sum(x)",
    "mean(x)",
    "variance(x)",
    "std(x)",
    "proportion(x > 4)",
    "histogram(x, [0, 2, 5, 10])",
    "median(x)",
    "quantile(x, 0.9)",
    "min(x)",
    "max(x)",
    "count_distinct(g)",
    "covariance(x, y)",
    "correlation(x, y)",
    "eigenvalues(x, y)",
)
_WEIGHED = tuple(
    {"statistic": text, "weighted_by": "w"}
    for text in ("mean(x)", "sum(x)", "count", "proportion(x > 4)")
)
_WINSORISED = tuple(
    {"statistic": text, "winsorize": 0.1} for text in ("mean(x)", "sum(x)", "variance(x)", "std(x)")
)
_NEWER: Mapping[str, object] = {
    "cdf": "cdf(x, [0, 2, 5, 10])",
    "cdf of shares": "cdf(z, [0, 0.2, 0.5, 0.9, 1])",
    "ranges": {
        "statistic": "histogram(z, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1])",
        "accurate_for": "ranges",
    },
    "ratio": {"statistic": "ratio(x, w)", "domain": {"range": [0, 10]}},
    "interval": {"statistic": "median(x)", "interval": True},
    "by coins": {"statistic": "median(x)", "mechanism": "permute_and_flip"},
    "count where": "count where x > 4",
    "mean where": "mean(x) where w > 4",
    **{f"weighted {one['statistic']}": one for one in _WEIGHED},
    **{f"winsorised {one['statistic']}": one for one in _WINSORISED},
    **{
        name: f"{name}({'w' if name in OF_SOME_COLUMNS else 'x'})"  # w is above 0
        for name in OF_ONE_COLUMN
        if f"{name}(x)" not in _STATISTICS
    },
}
"""Newer statistics. One of one column needs no line."""
_USER = {"user": "who", "max_groups": 2, "max_rows_per_group": 3}
_WORLDS: Mapping[str, dict[str, Any]] = {
    "row": {"unit": "row", "adjacency": "add_remove"},
    "row substitution": {"unit": "row", "adjacency": "substitution"},
    "row public": {"unit": "row", "adjacency": "substitution", "rows": {"exact": 60}},
    "user": {"unit": _USER, "adjacency": "add_remove"},
    "user substitution": {"unit": _USER, "adjacency": "substitution"},
}
_VIEWS: Mapping[str, str] = {
    "share": "SELECT who, g, x, y, z / 2 AS z FROM visits",
    "joined": "SELECT v.who, p.area AS g, v.x, v.y, v.z / p.weight AS z FROM visits v "
    "JOIN places p ON p.code = v.g WHERE v.y > -4",
    "looked up": "SELECT v.who, coalesce(p.area, 'c') AS g, v.x, v.y, v.z FROM visits v "
    "LEFT JOIN places p ON p.code = v.g",
}
_BY_RANK = ("exponential", "permute_and_flip")
"""Mechanisms that choose a value by its rank; every other one is recorded as a request that names it."""
_PINS = tuple(name for name in registry.names("mechanisms") if name not in _BY_RANK)
_JOINT: tuple[Sequence[object], ...] = (
    ["count", "sum(x)", "mean(x)"],
    ["mean(x)", "variance(x)", "std(x)"],
    ["count", "proportion(x > 4)", "median(x)"],
    ["mean(x)", "mean(y)", "correlation(x, y)"],
    ["covariance(x, y)", "correlation(x, y)", "variance(y)"],
    ["correlation(x, y)", "correlation(x, z)", "covariance(y, z)"],
    ["eigenvalues(x, y, z)", "mean(z)"],
    ["min(x)", "max(x)", "quantile(y, 0.25)"],
    ["histogram(x, [0, 5, 10])", "count", "count_distinct(g)"],
    ["sum(x)", "sum(y)", {"statistic": "count", "max_error": 4}],
    ["quantile(x, 0.75)", "median(x)", "quantile(x, 0.1)"],
    ["quantile(x, 0.75)", "median(x)", "quantile(x, 0.25)"],
)
_SHARED = (
    ["count", "mean(x)"],
    ["count", "mean(x)", "mean(y)", "mean(z)"],
    [
        *(f"variance({c})" for c in "wxyz"),
        *(f"covariance({a}, {b})" for a, b in itertools.combinations("wxyz", 2)),
    ],
)
_FILLED: Mapping[str, Any] = {
    "x": {"kind": "number", "range": [0, 10], "step": 0.5, "nulls": {"default": 2}},
    "y": {"kind": "integer", "range": [-4, 8], "nulls": {"default": 0}},
    **{c: {"kind": "number", "range": [0, 1], "step": 0.01, "nulls": {"default": 0}} for c in "wz"},
}


def _x(*, gap: bool, public: bool) -> dict[str, Any]:
    x: dict[str, Any] = {"kind": "number", "range": [0, 10], "step": 0.5, "measure": "m"}
    if gap:
        x["forbidden"] = [[3, 6]]
    return x | ({"nulls": {"default": 2}} if public else {})


def _schema(
    statistics: Sequence[object],
    *,
    unit: object = "row",
    adjacency: str = "add_remove",
    rows: Mapping[str, Any] | None = None,
    gap: bool = False,
    more: Mapping[str, Any] | None = None,
    **release: Any,
) -> dict[str, Any]:
    public = rows is not None and "exact" in rows
    null = {"nulls": {"default": 0}} if public else {}
    more = more or {}
    return {
        "dprelease": "schema/1",
        "name": "golden",
        "unit": unit,
        "adjacency": adjacency,
        "rows": {"max": 500, "expected": 40} if rows is None else dict(rows),
        "columns": {
            "who": {"kind": "identifier"},
            "x": _x(gap=gap, public=public),
            "y": {"kind": "integer", "range": [-4, 8], **null},
            "z": {"kind": "number", "range": [0, 1], "step": 0.01, **null},
            "g": {"kind": "category", "values": ["a", "b", "c"]},
            **more,
        },
        "release": {"epsilon": 1, "statistics": list(statistics), **release},
    }


def _crossed() -> Iterator[Case]:
    for text in _STATISTICS:
        for world, told in _WORLDS.items():
            for gap in (False, True):
                for epsilon in (0.3, 2):
                    name = f"{text} {world}{' gap' if gap else ''} epsilon={epsilon}"
                    yield name, _schema([text], gap=gap, epsilon=epsilon, **told)


def _budgets() -> Iterator[Case]:
    for text in _STATISTICS:
        for delta in (1e-6, 1e-9):
            for world in ("row", "user"):
                name = f"{text}, count {world} delta={delta:g}"
                yield name, _schema([text, *{"count"} - {text}], delta=delta, **_WORLDS[world])
        yield f"{text} row squared", _schema([text], loss="squared")


def _domains() -> Iterator[Case]:
    for text in ("count", "sum(x)", "mean(x)", "std(x)", "eigenvalues(x, y)"):
        for spikes in ("allow", "forbid"):
            for world in ("row", "row public", "user"):
                asked = {
                    "statistic": text,
                    "spikes": spikes,
                    "domain": {"range": [1, 200], "forbidden": [[2, 4]]},
                }
                if text in ("mean(x)", "std(x)", "eigenvalues(x, y)"):
                    asked["domain"] = {"range": [0, 8], "forbidden": [[2, 3]]}
                yield f"{text} {world} own domain, {spikes}", _schema([asked], **_WORLDS[world])


def _pinned() -> Iterator[Case]:
    for mechanism in _PINS:
        for text in ("count", "sum(x)", "mean(x)", "histogram(x, [0, 2, 5, 10])"):
            asked: dict[str, Any] = {"statistic": text, "mechanism": mechanism}
            if mechanism in ("optimal_grid", "stochastic_sign"):
                asked["domain"] = {"range": [0, 10]}
            for world in ("row", "user"):
                delta = 1e-6 if mechanism == "rectified_gaussian" else 0
                told = _schema([asked], epsilon=1.5, delta=delta, **_WORLDS[world])
                yield f"{text} {world} by {mechanism}", told


def _joint() -> Iterator[Case]:
    for number, statistics in enumerate(_JOINT):
        for world, told in _WORLDS.items():
            yield f"joint {number} {world}", _schema(statistics, epsilon=4, **told)
        for by in (["g"], []):
            told = _schema(statistics, epsilon=3, by=by, where="x >= 1", **_WORLDS["user"])
            yield f"joint {number} user filtered{' by g' if by else ''}", told


def _shared() -> Iterator[Case]:
    for number, statistics in enumerate(_SHARED):
        for world, told in _WORLDS.items():
            if "public" not in world:
                for delta in (0, 1e-4):
                    said = f"shared rows {number} {world}{' delta' if delta else ''}"
                    yield (
                        said,
                        _schema(
                            statistics,
                            rows={"max": 5000, "expected": 2000},
                            delta=delta,
                            more=_FILLED,
                            **told,
                        ),
                    )


def _newer() -> Iterator[Case]:
    weight = {"w": {"kind": "integer", "range": [1, 4], "nulls": {"default": 1}}}
    for name, asked in _NEWER.items():
        for world, told in _WORLDS.items():
            for gap, delta in ((False, 0), (True, 1e-6)):
                said = f"{name} {world}{' gap' if gap else ''}{' delta' if delta else ''}"
                more = _schema([asked], gap=gap, delta=delta, epsilon=2, more=weight, **told)
                yield said, more


def _graphs() -> Iterator[Case]:
    pin = {"mechanism": "bounded_gaussian"}
    asked: Mapping[str, Sequence[object]] = {
        "connectivity": ["algebraic_connectivity"],
        "degree": ["degree(0)", "degree(2)"],
        "laplacian": ["laplacian_eigenvalues"],
        "box": [
            {"statistic": "algebraic_connectivity", "as": "lambda_2", **pin},
            {"statistic": "degree(0)", "as": "degree_0", **pin},
        ],
    }
    for name, statistics in asked.items():
        small = name == "box"  # seconds each
        for adjacency in ("add_remove", "substitution"):
            for k in (2,) if small else (1, 2):
                for epsilon in (3,) if small else (0.5, 3):
                    schema = {
                        "dprelease": "schema/1",
                        "name": "graph",
                        "unit": {"edge": {"source": "a", "target": "b", "k": k, "nodes": 6}},
                        "adjacency": adjacency,
                        "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}},
                        "release": {"epsilon": epsilon, "statistics": list(statistics)},
                    }
                    yield f"graph {name} {adjacency} k={k} epsilon={epsilon}", schema


def _deltas() -> Iterator[Case]:
    """Yield what `_budgets` has not: a delta where rows are replaced, units are users, or columns have gaps."""
    for text in _STATISTICS:
        for world, told in _WORLDS.items():
            for gap in (False, True):
                if gap or world not in ("row", "user"):
                    name = f"{text}, count {world}{' gap' if gap else ''} delta=1e-06"
                    asked = [text, *{"count"} - {text}]
                    yield name, _schema(asked, gap=gap, delta=1e-6, **told)


def _weeks() -> Iterator[Case]:
    """Yield units of a person's rows of one week."""
    texts = ("count", "count(persons)", "mean(x)", "median(x)", "histogram(x, [0, 2, 5, 10])")
    crossed = [(text, world, delta, "UTC") for text in texts for world in ("", " substitution")
               for delta in (0, 1e-6)]  # fmt: skip
    for text, world, delta, zone in [*crossed, ("count", " of Berlin", 0, "Europe/Berlin")]:
        told = _schema(
            [text],
            unit=_USER | {"per": "week"},
            adjacency="substitution" if world == " substitution" else "add_remove",
            gap=bool(delta),
            delta=delta,
            more={"at": {"kind": "timestamp"}},
        )
        told["time"] = {"column": "at", "timezone": zone}
        yield f"{text} week{world}{' gap delta' if delta else ''}", told


def _views() -> Iterator[Case]:
    """Yield releases through a curator's view, which `view_of` names."""
    for name in _VIEWS:
        for world, told in _WORLDS.items():
            yield f"view {name} {world}", _schema(["sum(y)", "mean(z)"], epsilon=3, **told)
        told = _schema(["sum(y)", "variance(z)"], by=["g"], delta=1e-6, **_WORLDS["user"])
        yield f"view {name} user by g delta", told


def _several() -> Iterator[Case]:
    """Yield releases of several tables that add up."""
    bins = ["histogram(income, [-20, 0, 40, 100])"]
    asked: Mapping[str, Sequence[Mapping[str, Any]]] = {
        "tree": TREE,
        "means": [{**table, "statistics": ["count", "mean(income)"]} for table in TREE],
        "margins": [
            {"name": "everybody", "by": [], "statistics": bins},
            {"name": "sexes", "by": ["sex"], "statistics": bins},
            {"name": "regions", "by": ["region"], "statistics": bins},
            {"name": "both", "by": ["region", "sex"], "statistics": bins},
        ],
    }
    worlds: Mapping[str, Mapping[str, Any]] = {
        "row": {},
        "row substitution": {"adjacency": "substitution"},
        "user": {"unit": PERSON},
        "user substitution": {"unit": PERSON, "adjacency": "substitution"},
    }
    for name, tables in asked.items():
        for world, told in worlds.items():
            for delta in (0,) if world == "row" else (0, 1e-6):
                release = {"delta": delta, "epsilon": 2}
                made = several([dict(table) for table in tables], **told, release=release)
                yield f"tables {name} {world}{' delta' if delta else ''}", made
    for world in ("row substitution", "user substitution"):
        release = {"delta": 1e-3, "epsilon": 1}
        made = several([dict(table) for table in TREE], **worlds[world], release=release)
        yield f"tables tree {world} delta=0.001", made
    for name in ("fair_tables", "flights_tables"):
        path = Path(__file__).parents[2] / "schemas" / f"{name}.yaml"
        yield f"tables of schemas/{name}.yaml", yaml.safe_load(path.read_text(encoding="utf-8"))


def view_of(name: str) -> str | None:
    """Return the SQL of the view that the case called `name` reads its rows through."""
    return next((sql for view, sql in _VIEWS.items() if name.startswith(f"view {view} ")), None)


def cases() -> dict[str, dict[str, Any]]:
    """Return schema texts with a release, by name, in one fixed order."""
    out: dict[str, dict[str, Any]] = {}
    for part in (_crossed, _budgets, _domains, _pinned, _joint, _graphs, _newer):
        for name, schema in part():
            assert name not in out, name
            out[name] = schema
    for world in ("row substitution", "user substitution"):
        asked = ["count", "histogram(x, [0, 2, 5, 10])", "median(x)"]
        out[f"{', '.join(asked)} {world} delta=0.01"] = _schema(
            asked, epsilon=0.3, delta=0.01, **_WORLDS[world]
        )
    for world in ("user", "user substitution"):
        for epsilon in (0.3, 2):
            name = f"count(persons) {world} epsilon={epsilon}"
            out[name] = _schema(["count(persons)"], epsilon=epsilon, **_WORLDS[world])
    for part in (_deltas, _weeks, _views, _several, _shared):
        for name, schema in part():
            assert name not in out, name
            out[name] = schema
    return out


def sample() -> list[str]:
    """Return the names that are checked with every change."""
    return sorted({*list(cases())[::SAMPLE_STEP], *ALWAYS})
