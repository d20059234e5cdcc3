"""What OpenDP and Google's library err on some thirty requests of the corpus: beside the default, on the page only.

Requests of one group, row by row, without a delta, of at most 10,000 rows. Each library is asked for every statistic
that it has a call for, at an equal share of epsilon; rows whose cell is null are left out before. Draws are from the
libraries' own generators, each library in an environment of its own (`requirements-speed.txt`, `requirements-google.txt`).

    field.py runs it:  PYTHON benchmarks/field_peers.py OpenDP < job.json
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

__all__ = ["LIBRARIES", "MANY", "comparable", "errors"]

Values = list[float] | list[list[float]] | None
"""Drawn values of one statistic; None where a library has no call for it."""
MANY = 30
"""Requests that are compared."""
_CANDIDATES = 1_001
_DRAWS = 200


def opendp(job: dict[str, Any], draws: int) -> Values:
    """Draw once per group of one table; a histogram's bins by one vector of noise."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    x, low, high, name = job["values"], job["low"], job["high"], job["function"]
    if name == "histogram":
        edges = job["argument"]
        place = [sum(v >= e for e in edges[1:-1]) for v in x]
        bins = dp.t.make_count_by_categories(
            dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance(),
            list(range(len(edges) - 2)), MO=dp.L1Distance[int],
        )  # fmt: skip
        law = dp.binary_search_chain(lambda s: bins >> dp.m.then_laplace(s), 1, job["epsilon"])
        return [law(place) for _ in range(draws)]
    whole = name in ("sum", "mean") and all(v == int(v) for v in (*x, low, high, job["step"]))
    low, high = (int(low), int(high)) if whole else (float(low), float(high))
    cell = pl.col.x.fill_null(0 if whole else 0.0)
    points = min(_CANDIDATES, round((high - low) / job["step"]) + 1)
    candidates = [low + (high - low) * i / (points - 1) for i in range(points)]
    asked: dict[str, Callable[[], Any]] = {
        "count": dp.len,
        "sum": lambda: cell.dp.sum((low, high)),
        "mean": lambda: cell.dp.mean((low, high)),
        "median": lambda: cell.dp.quantile(0.5, candidates),
        "quantile": lambda: cell.dp.quantile(job["argument"], candidates),
    }
    if name not in asked:
        return None
    frame = pl.LazyFrame(
        {"g": range(draws), "x": [[int(v) if whole else float(v) for v in x]] * draws}
    ).explode("x")
    context = dp.Context.compositor(
        data=frame.collect().lazy(),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=job["epsilon"]),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["g"], max_length=job["most"])],
    )
    keys = pl.LazyFrame({"g": list(range(draws))})
    found = context.query().group_by("g").agg(asked[name]().alias("v")).with_keys(keys)
    values: list[float] = found.release().collect()["v"].cast(float).to_list()
    return values


def google(job: dict[str, Any], draws: int) -> Values:
    """Draw by one object per draw."""
    from pydp.algorithms import laplacian as dp

    x, name, epsilon = [float(v) for v in job["values"]], job["function"], job["epsilon"]
    ends = {"lower_bound": job["low"], "upper_bound": job["high"], "dtype": "float"}
    asked: dict[str, Callable[[], Any]] = {
        "count": lambda: dp.Count(epsilon=epsilon, dtype="float"),
        "sum": lambda: dp.BoundedSum(epsilon=epsilon, **ends),
        "mean": lambda: dp.BoundedMean(epsilon=epsilon, **ends),
        "variance": lambda: dp.BoundedVariance(epsilon=epsilon, **ends),
        "std": lambda: dp.BoundedStandardDeviation(epsilon=epsilon, **ends),
        "median": lambda: dp.Median(epsilon=epsilon, **ends),
        "quantile": lambda: dp.Percentile(epsilon=epsilon, percentile=job["argument"], **ends),
        "min": lambda: dp.Min(epsilon=epsilon, **ends),
        "max": lambda: dp.Max(epsilon=epsilon, **ends),
    }
    if name == "histogram":
        edges = job["argument"]
        bins = [[v for v in x if a <= v < b] for a, b in itertools.pairwise(edges)]
        count = asked["count"]
        return [[float(count().quick_result(b)) for b in bins] for _ in range(draws)]
    if name not in asked:
        return None
    return [float(asked[name]().quick_result(x)) for _ in range(draws)]


LIBRARIES: dict[str, Callable[[dict[str, Any], int], Values]] = {"OpenDP": opendp, "Google": google}


def comparable(request: Any) -> bool:
    """Return whether libraries without groups, persons and a delta can be asked the same."""
    plain = (request.groups, request.delta, request.unit) == (1, 0, "row")
    return (
        plain and request.adjacency == "add_remove" and request.possible and request.rows <= 10_000
    )


def errors(library: str, python: str, requests: list[Any]) -> dict[int, list[float | None]]:
    """Return, per request, the mean error of each statistic; None where the library has no call for it."""
    import numpy as np
    from field_corpus import COLUMNS, table_of
    from field_laws import BY_RANK, Rows

    out = {}
    for request in requests:
        rows, jobs = Rows(table_of(request), 0), []
        for asked in request.asked:
            name = asked.columns[0] if asked.columns else request.columns[0]
            declared = COLUMNS[name].declared
            low, high = declared.get("range", (0, 1))
            counted = asked.function == "count"
            known = [0.0] * rows.count if counted else rows.known(*asked.columns)[0].tolist()
            jobs.append({
                "function": asked.function, "argument": asked.argument, "values": known, "low": low, "high": high,
                "step": declared.get("step", 1), "epsilon": request.epsilon / len(request.asked),
                "most": request.schema()["rows"]["max"],
            })  # fmt: skip
        found: list[float | None] = []
        drawn = _drawn(library, python, jobs, _DRAWS)
        for asked, values in zip(request.asked, drawn, strict=True):
            if values is None:
                found.append(None)
            elif asked.function in BY_RANK:
                found.append(float(rows.missed(asked, np.array(values)).mean()))
            else:
                off = np.array(values).reshape(len(values), -1) - rows.exact(asked)
                found.append(float(np.abs(off).mean()))
        out[request.number] = found
    return out


def _drawn(library: str, python: str, jobs: list[dict[str, Any]], draws: int) -> list[Values]:
    """Return what a library of another environment draws for each job."""
    done = subprocess.run(
        [python, __file__, library, str(draws)],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=True,
        timeout=1200,
    )
    found: list[Values] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    warnings.simplefilter("ignore")
    library, draws = LIBRARIES[sys.argv[1]], int(sys.argv[2])
    found = []
    with contextlib.redirect_stdout(sys.stderr):
        for job in json.load(sys.stdin):
            try:
                found.append(library(job, draws))
            except Exception as problem:  # noqa: BLE001 - what they refuse, and how, differs
                print(f"{sys.argv[1]}: {job['function']}: {problem!r}"[:400], file=sys.stderr)
                found.append(None)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
