"""How large are the errors of other libraries on the same rows, at the same epsilon, and what do they promise?

A thousand ages of a declared range 0 to 120, each statistic alone at epsilon 1, drawn many times: mean |value - exact|,
for a histogram summed over its bins. Two worlds, since libraries differ in what they hide:

    public     the number of rows is public, one row is replaced
    private    it is not, one row is added or removed

A library is asked in the worlds that its own documentation or source supports, by the call that is meant for it. The
exact values are of the same rows; a quantile's is the row of that rank.

    python benchmarks/baselines.py --peers .bench/peers/bin/python   # writes results/baselines.md
    .bench/peers/bin/python benchmarks/baselines.py OpenDP 200       # one library's values, as JSON

OpenDP and diffprivlib live in an environment of their own (`requirements-speed.txt`). Draws are from the libraries'
own generators.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

LOW, HIGH, ROWS, EPSILON = 0, 120, 1000, 1.0
EDGES = list(range(0, 130, 10))
QUANTILE = 0.9
STATISTICS = ("count", "sum", "mean", "variance", "median", "quantile 0.9", "histogram")
WORLDS = ("public", "private")

PROMISES = {
    "dprelease": (
        "pure epsilon, each law certified in whole numbers and drawn exactly; values in the declared domain and on a step; "
        "public or private number of rows"
    ),
    "OpenDP": (
        "pure epsilon by composed proofs, exact sampling (noise on floats is drawn on a fine grid); values may leave the range; "
        "a mean of a private number of rows is its noisy sum over its noisy count"
    ),
    "diffprivlib": (
        "pure epsilon over the reals, computed and drawn in floats; mean and variance take the true number of rows as public, "
        "counts and bins one row more or less; values are mapped into what so many rows can have, so that a count is never above the true one"
    ),
}
"""What each says of itself (documentation and source of the versions named in the table)."""

Values = dict[str, list[Any]]
"""Drawn values by "world, statistic"."""


def ages() -> list[int]:
    """Return the rows: the same on every machine, without numpy's generators."""
    state, out = 12345, []
    for _ in range(ROWS):
        draws = []
        for _ in range(4):
            state = (1103515245 * state + 12345) % 2**31
            draws.append(state / 2**31)
        out.append(min(HIGH, max(LOW, round(45 + 70 * (sum(draws) / 4 - 0.5)))))
    return out


def exact(x: list[int]) -> dict[str, Any]:
    """Return the exact statistics of the rows."""
    ordered, n = sorted(x), len(x)
    mean = sum(x) / n
    return {
        "count": n,
        "sum": sum(x),
        "mean": mean,
        "variance": sum((v - mean) ** 2 for v in x) / n,
        "median": ordered[(n - 1) // 2],
        "quantile 0.9": ordered[int(QUANTILE * n) - 1],
        "histogram": [sum(a <= v < b for v in x) for a, b in itertools.pairwise(EDGES)],
    }


def opendp(x: list[int], draws: int) -> Values:
    """Return OpenDP's draws: its data frames for a private number of rows, its transformations for a public one."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    frame = pl.LazyFrame({"g": [g for g in range(draws) for _ in x], "age": x * draws})
    keys = pl.LazyFrame({"g": list(range(draws))})
    age = pl.col.age.fill_null(0)
    candidates = list(range(LOW, HIGH + 1))
    asked = {
        "count": dp.len(),
        "sum": age.dp.sum((LOW, HIGH)),
        "mean": age.dp.mean((LOW, HIGH)),
        "median": age.dp.quantile(0.5, candidates),
        "quantile 0.9": age.dp.quantile(QUANTILE, candidates),
    }
    out: Values = {}
    for name, query in asked.items():
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=EPSILON),
            split_evenly_over=1,
            margins=[dp.polars.Margin(by=[], max_length=1_000_000)],
        )
        found = context.query().group_by("g").agg(query.alias("found")).with_keys(keys)
        out[f"private, {name}"] = found.release().collect()["found"].cast(float).to_list()

    def noisy(made: Any, distance: int) -> Any:
        return dp.binary_search_chain(
            lambda scale: made >> dp.m.then_laplace(scale), distance, EPSILON, bounds=(1e-6, 1e6)
        )

    metric = dp.symmetric_distance()
    bins = dp.t.make_count_by_categories(
        dp.vector_domain(dp.atom_domain(T=int)), metric, list(range(len(EDGES) - 2)),
        MO=dp.L1Distance[int],
    )  # fmt: skip
    place = [min(v // 10, len(EDGES) - 2) for v in x]
    law = noisy(bins, 1)
    out["private, histogram"] = [law(place) for _ in range(draws)]
    sized = dp.vector_domain(
        dp.atom_domain(bounds=(float(LOW), float(HIGH)), nan=False), size=len(x)
    )
    floats = [float(v) for v in x]
    for name, make in (
        ("mean", dp.t.make_mean),
        ("variance", dp.t.make_variance),
        ("sum", dp.t.make_sum),
    ):
        more = {"ddof": 0} if name == "variance" else {}
        law = noisy(make(sized, metric, **more), 2)  # a replaced row: one less, one more
        out[f"public, {name}"] = [law(floats) for _ in range(draws)]
    return out


def diffprivlib(x: list[int], draws: int) -> Values:
    """Return diffprivlib's draws; its quantile takes the true number of rows for its rank."""
    import numpy as np
    from diffprivlib import tools

    column, ends = np.array(x, dtype=float), (LOW, HIGH)

    def bins() -> list[float]:
        found: list[float] = tools.histogram(column, epsilon=EPSILON, bins=EDGES)[0].tolist()
        return found

    calls: dict[str, Callable[[], Any]] = {
        "private, count": lambda: tools.count_nonzero(np.ones(len(x), bool), epsilon=EPSILON),
        "private, sum": lambda: tools.sum(column, epsilon=EPSILON, bounds=ends),
        "public, mean": lambda: tools.mean(column, epsilon=EPSILON, bounds=ends),
        "public, variance": lambda: tools.var(column, epsilon=EPSILON, bounds=ends),
        "public, median": lambda: tools.median(column, epsilon=EPSILON, bounds=ends),
        "public, quantile 0.9": lambda: tools.quantile(
            column, QUANTILE, epsilon=EPSILON, bounds=ends
        ),
        "private, histogram": bins,
    }
    out: Values = {}
    for name, call in calls.items():
        drawn = [call() for _ in range(draws)]
        out[name] = [v if isinstance(v, list) else float(v) for v in drawn]
    return out


def dprelease(x: list[int], draws: int) -> Values:
    """Return the planner's draws of both worlds, by the laws of its plans."""
    import numpy as np
    import pyarrow as pa

    from dprelease.audit.answers import answer_of, cells_of
    from dprelease.core.entropy import SystemBits
    from dprelease.engines.reference import ReferenceEngine
    from dprelease.planning.make import make_plan
    from dprelease.query.load import Schema
    from dprelease.query.merge import merge_release
    from dprelease.query.spec import resolve
    from dprelease.results.consistency import to_domain
    from dprelease.statistics.base import kind_named

    texts = {
        "count": "count", "sum": "sum(x)", "mean": "mean(x)", "variance": "variance(x)",
        "median": "median(x)", "quantile 0.9": f"quantile(x, {QUANTILE})",
        "histogram": f"histogram(x, {EDGES})",
    }  # fmt: skip
    table, bits, out = pa.table({"x": pa.array(x, pa.float64())}), SystemBits(), {}
    for world in WORLDS:
        for name, text in texts.items():
            public = world == "public"
            if public and name == "count":
                continue
            top = EDGES[-1] if name == "histogram" else HIGH  # the last bin is [120, 130)
            schema = Schema.from_dict({
                "dprelease": "schema/1", "name": "ages", "unit": "row",
                "adjacency": "substitution" if public else "add_remove",
                "rows": {"exact": len(x)} if public else {"max": 1_000_000, "expected": len(x)},
                "columns": {"x": {
                    "kind": "integer", "range": [LOW, top], **({"nulls": {"default": 0}} if public else {}),
                }},
                "release": {"epsilon": EPSILON, "statistics": [text]},
            })  # fmt: skip
            plan = make_plan(resolve(schema, merge_release(schema)))
            (block,), statistic = plan.blocks, plan.statistics[0]
            draw = block.law
            (cells,) = cells_of(plan, answer_of(plan, table, ReferenceEngine()))
            raw = draw.cells(draw.draw(np.repeat(cells, draws, axis=0), bits))
            measurement = block.measurement
            values = kind_named(statistic.function).finish(measurement, raw)
            values = to_domain(values, statistic.domain, statistic.step)
            one = values.shape[1] == 1
            out[f"{world}, {name}"] = [float(v[0]) if one else v.tolist() for v in values]
    return out


LIBRARIES: dict[str, Callable[[list[int], int], Values]] = {
    "dprelease": dprelease,
    "OpenDP": opendp,
    "diffprivlib": diffprivlib,
}


def error(values: list[Any], truth: Any) -> float:
    """Return the mean |value - exact|, summed over the cells of a histogram."""
    each = [
        sum(abs(a - b) for a, b in zip(v, truth, strict=False))
        if isinstance(truth, list)
        else abs(v - truth)
        for v in values
    ]
    return float(sum(each) / len(each))


def table(found: dict[str, Values], versions: dict[str, str]) -> list[str]:
    """Return the errors and what each library promises, as lines of a page."""
    truths = exact(ages())
    out = [
        f"| statistic | number of rows | {' | '.join(found)} |",
        "|---|---|" + "---|" * len(found),
    ]
    for world in WORLDS:
        for name in STATISTICS:
            place = f"{world}, {name}"
            if any(place in values for values in found.values()):
                cells = [
                    f"{error(v[place], truths[name]):.4g}" if place in v else ""
                    for v in found.values()
                ]
                out.append(f"| {name} | {world} | {' | '.join(cells)} |")
    out += ["", "| library | promises |", "|---|---|"]
    out += [f"| {name} {versions.get(name, '')} | {PROMISES[name]} |" for name in found]
    return [*out, ""]


def of_peer(name: str, python: str, draws: int) -> tuple[Values, str]:
    """Return the values of one library of another environment, and its version."""
    done = subprocess.run(
        [python, __file__, name, str(draws)],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    return said["values"], said["version"]


def lines(peers: str | None, draws: int = 1000) -> list[str]:
    """Return the page: dprelease, and the others where `peers` is their interpreter."""
    versions: dict[str, str] = {}
    found = {"dprelease": dprelease(ages(), draws)}
    for name in ("OpenDP", "diffprivlib") if peers else ():
        few = min(draws, 200) if name == "OpenDP" else draws  # its rows are copied for every draw
        found[name], versions[name] = of_peer(name, str(peers), few)
    return [
        (
            f"Mean |value - exact| of {ROWS:,} ages of 0 to {HIGH}, epsilon {EPSILON:g} each; a histogram's is summed "
            f"over {len(EDGES) - 1} bins. {draws:,} draws, of OpenDP 200. Empty: it has no call for that."
        ),
        "",
        *table(found, versions),
    ]


def write(folder: Path, peers: str) -> None:
    """Measure, and write baselines.md into `folder`."""
    text = "\n".join(lines(peers))
    print(text)
    (folder / "baselines.md").write_text(text, encoding="utf-8")


def values_of(name: str, draws: int) -> None:
    """Print one library's values, as JSON."""
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        values = LIBRARIES[name](ages(), draws)
    print(json.dumps({"values": values, "version": metadata.version(name.lower())}))


if __name__ == "__main__":
    sys.path = [
        p for p in sys.path if Path(p) != Path(__file__).parent
    ]  # its own names stand there
    if sys.argv[1:2] == ["--peers"]:
        write(Path(__file__).parent / "results", sys.argv[2])
    else:
        values_of(sys.argv[1], int(sys.argv[2]))
