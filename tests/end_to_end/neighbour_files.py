"""Pairs of neighbouring tables as files: the extremal ones of every kind of statistic.

A `World` is one schema, its tables by name, and which of them differ in one protected unit. They are
pairs that often break a release: both ends of a range, empty and one row, another group, null, not a
number, out of range, no number at all, an unknown key, a unit with all the rows it may give and
more, a complete graph without a star, all rows equal and one that differs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from tests.planning.requests import PUBLIC_X, USER, X
from tests.sizes import some


@dataclass(frozen=True)
class World:
    """One schema, tables by name (CSV), and pairs of names."""

    schema: str
    tables: dict[str, str]
    pairs: tuple[tuple[str, str], ...]


def schema(statistics: object, **declared: Any) -> str:
    """Return a schema file (JSON is YAML): a user `who`, numbers `x` and `y`, a category `g`."""
    release = {
        "epsilon": declared.pop("epsilon", 1),
        "statistics": statistics,
        **{k: declared.pop(k) for k in ("by", "where", "delta") if k in declared},
    }
    x = declared.pop("x", X)
    return json.dumps(
        {
            "dprelease": "schema/1",
            "name": "small",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"max": 40},
            "columns": {
                "who": {"kind": "identifier"},
                "x": dict(x),
                "y": {
                    **x,
                    "range": [0, 4],
                    "step": 1,
                    **({"nulls": {"default": 2}} if "nulls" in x else {}),
                },
                "g": {"kind": "category", "values": ["a", "b"]},
            },
            **declared,
            "release": release,
        },
        indent=1,
    )


def rows(*lines: str) -> str:
    """Return a CSV file of lines `who,x,y,g`."""
    return "\n".join(("who,x,y,g", *lines, ""))


BASE = ("u1,5,1,a", "u2,0,4,a", "u3,10,3,b", "u4,2.5,0,b", "u5,7,2,a")
EXTRA = {
    "a row at the upper end": "n,10,4,a",
    "a row at the lower end": "n,0,0,a",
    "a row in the other group": "n,10,0,b",
    "an empty cell": "n,,,a",
    "not a number": "n,NaN,NaN,a",
    "a huge number": "n,1e308,1e308,a",
    "a huge negative number": "n,-1e308,-1e308,a",
    "no number at all": "n,many,few,a",
    "an unknown group": "n,10,4,nowhere",
    "no group": "n,10,4,",
    "infinity": "n,inf,-inf,a",
}


def one_more(schema_: str, *names: str, alone: tuple[str, ...] = ()) -> World:
    """Return a world in which one row comes to others, or (`alone`) to an empty table."""
    tables = {"some rows": rows(*BASE)} if names else {}
    tables |= {"no row": rows()} if alone else {}
    tables |= {name: rows(*BASE, EXTRA[name]) for name in names}
    tables |= {f"{name}, alone": rows(EXTRA[name]) for name in alone}
    pairs = [("some rows", name) for name in names]
    return World(schema_, tables, (*pairs, *(("no row", f"{name}, alone") for name in alone)))


def _row() -> World:
    statistics = ["count", "sum(x)", "mean(x)"]
    ends = ("a row at the upper end", "a row at the lower end")
    return one_more(schema(statistics, by=["g"]), *EXTRA, alone=ends)


def _user() -> World:
    statistics = ["count", {"statistic": "count(persons)", "as": "people"}, "sum(x)"]
    many = {
        "one row": ("n,10,4,a",),
        "all rows in one group": ("n,10,4,a",) * 3,
        "all rows in every group": ("n,10,4,a",) * 3 + ("n,10,4,b",) * 3,
        "far too many rows": ("n,10,4,a",) * 50 + ("n,10,4,b",) * 50,
        "rows of nobody": (",10,4,a",) * 9,
    }
    tables = {"others": rows(*BASE)} | {n: rows(*BASE, *lines) for n, lines in many.items()}
    return World(
        schema(statistics, by=["g"], unit=USER), tables, tuple(("others", n) for n in many)
    )


def _substitution() -> World:
    lines = {
        "upper": "n,10,4,a", "lower": "n,0,0,a", "moved": "n,10,4,b", "null": "n,,,a",
        "nan": "n,NaN,NaN,a", "unknown": "n,10,4,nowhere",
    }  # fmt: skip
    tables = {name: rows(*BASE, line) for name, line in lines.items()}
    pairs = [
        (a, b)
        for a, b in combinations(lines, 2)
        if "upper" in (a, b) or {a, b} == {"lower", "null"}
    ]
    text = schema(["count", "sum(x)", "mean(x)"], by=["g"], adjacency="substitution")
    return World(text, tables, tuple(pairs))


def _public() -> World:
    equal = tuple(f"u{i},10,4,a" for i in range(8))
    last = {
        "all equal": "n,10,4,a",
        "one differs": "n,0,0,a",
        "one is null": "n,,,a",
        "one is not a number": "n,NaN,NaN,a",
    }
    tables = {name: rows(*equal, line) for name, line in last.items()}
    text = schema(
        ["variance(x)", "mean(x)", "std(y)"],
        adjacency="substitution",
        rows={"exact": 9},
        x=PUBLIC_X,
    )
    return World(text, tables, tuple(("all equal", n) for n in last if n != "all equal"))


ENDS = ("a row at the upper end", "a row at the lower end")


def _gap(spikes: str) -> World:
    count = {
        "statistic": "count",
        "spikes": spikes,
        "domain": {"range": [0, 40], "forbidden": [[0, 6]]},
    }
    total = {
        "statistic": "sum(x)",
        "spikes": spikes,
        "domain": {"range": [0, 60], "forbidden": [[20, 29]]},
    }
    return one_more(schema([count, total]), ENDS[0], alone=ENDS[:1])


def _pinned(mechanism: str) -> World:
    """A sum of nothing and of one row: the whole of a narrow range apart."""
    spec = {"statistic": "sum(x)", "mechanism": mechanism, "domain": {"range": [0, 20]}}
    return one_more(schema([spec]), alone=ENDS[:1])


def graph(edges: list[tuple[int, int]]) -> str:
    return "\n".join(("a,b", *(f"{a},{b}" for a, b in edges), ""))


def _graph(*statistics: object) -> World:
    nodes, k = 6, 2
    complete = list(combinations(range(nodes), 2))
    star = [(0, j) for j in range(1, k + 1)]
    path = [(i, i + 1) for i in range(nodes - 1)]
    away = [(0, 3), (0, 4)]
    tables = {
        "complete": complete, "a star less": [e for e in complete if e not in star],
        "no edge": [], "a star": star, "a path": path, "a path and a star": path + away,
        "a path and a star both ways": path + away + [(b, a) for a, b in away],
    }  # fmt: skip
    text = {
        "dprelease": "schema/1",
        "name": "graph",
        "unit": {"edge": {"source": "a", "target": "b", "k": k, "nodes": nodes}},
        "adjacency": "add_remove",
        "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}},
        "release": {"epsilon": 2, "statistics": list(statistics)},
    }
    return World(
        json.dumps(text),
        {name: graph(edges) for name, edges in tables.items()},
        (
            ("complete", "a star less"),
            ("no edge", "a star"),
            ("a path", "a path and a star"),
            ("a path", "a path and a star both ways"),
        ),
    )


PINNED = (
    "bounded_gaussian", "bounded_laplace", "discrete_laplace",
    "rectified_laplace", "reflected_laplace", "staircase",
)  # fmt: skip

WORLDS = {
    "rows, add or remove": _row(),
    "users, add or remove": _user(),
    "rows, replace": _substitution(),
    "a public number of rows": _public(),
    "ranks": one_more(
        schema(["median(x)", "quantile(x, 0.9)", *some(("max(x)", "min(x)"), 2)], epsilon=2),
        *ENDS, "an empty cell", alone=ENDS,
    ),
    "pairs of columns": one_more(
        schema(["covariance(x, y)", "correlation(x, y)", "eigenvalues(x, y)"], epsilon=2),
        *ENDS, "an empty cell", "a huge number", alone=ENDS[:1],
    ),
    "bins, shares and distinct values": one_more(
        schema(["histogram(x, [0, 2, 5, 10])", "proportion(x > 4)", "count_distinct(g)"], where="y >= 0"),
        *ENDS, "a row in the other group", "an empty cell", alone=ENDS[:1],
    ),
    "with a delta": one_more(
        schema(
            [{"statistic": "histogram(x, [0, 2, 5, 10])", "mechanism": "rectified_gaussian"}],
            delta=0.000001, by=["g"],
        ),
        ENDS[0], "an unknown group", alone=ENDS[:1],
    ),
    "gaps, point masses allowed": _gap("allow"),
    "gaps, point masses forbidden": _gap("forbid"),
    **{f"a sum by {m}": _pinned(m) for m in PINNED},
    "a graph's box": _graph(
        {"statistic": "algebraic_connectivity", "as": "lambda_2", "mechanism": "bounded_gaussian"},
        {"statistic": "degree(0)", "as": "degree", "mechanism": "bounded_gaussian"},
    ),
    "a graph's spectrum": _graph("laplacian_eigenvalues"),
}  # fmt: skip
