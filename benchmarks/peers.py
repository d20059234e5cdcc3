"""What libraries do with a declared range, a forbidden gap and a spent budget, seen from outside.

Made-up tables of a declared age of 0 to 120: three rows (ages 2, 3, 4), a hundred like them, and a
hundred of which one is 1,000,000. Small groups, ends and faulty cells are where a range shows. Each
library is asked, at its defaults, for a count and a mean age at epsilon 1/2 each, many times.

    below zero      share of the released counts below 0, three rows
    outside         share of the released means outside 0 to 120, three rows and a hundred
    clamped         whether a cell of 1,000,000 leaves the median of the means near 0 to 120: within 1,200
    no answer       share of the releases of three rows that came back empty
    forbidden       "0 or at least 10" of three rows: share of the counts in between, if it can be asked for
    asked again     a budget of 1 is spent; then again in the same process, and in a new one

    python benchmarks/peers.py --peers PY --smartnoise PY --tumult PY --google PY

writes results/peers.md. Every library lives in an environment of its own (`requirements-*.txt` beside
this file); one without an environment is left out. Draws are from the libraries' own generators.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

AGES = (2, 3, 4)
MANY = (2, 3, 3, 4) * 25
FAULTY = (*MANY[1:], 1_000_000)
LOW, HIGH = 0, 120
GAP = (0, 10)
HALF = 0.5

Draw = tuple[float, float]
"""A released count and a released mean."""


def dprelease(ages: tuple[int, ...], draws: int) -> Iterator[Draw]:
    import pandas as pd

    import dprelease as dp

    count = {"statistic": "count", "share": 0.5, "domain": {"range": [0, 1000], "forbidden": [GAP]}}
    schema = dp.Schema.from_dict({
        "dprelease": "schema/1", "name": "people", "unit": "row", "adjacency": "add_remove",
        "rows": {"max": 1000, "expected": 3},
        "columns": {"age": {"kind": "integer", "range": [LOW, HIGH]}},
        "release": {"epsilon": 1, "statistics": [count, "mean(age)"]},
    })  # fmt: skip
    frame = pd.DataFrame({"age": ages})
    for _ in range(draws):
        row = dp.release(frame, schema).to_pandas().iloc[0]
        yield float(row["count"]), float(row["mean_age"])


def opendp(ages: tuple[int, ...], draws: int) -> Iterator[Draw]:
    """Draw once per group of one table."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.LazyFrame(
            {"g": [g for g in range(draws) for _ in ages], "age": list(ages) * draws}
        ),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=1.0),
        split_evenly_over=2,
        margins=[dp.polars.Margin(by=[], max_length=1_000_000)],
    )
    keys = pl.LazyFrame({"g": list(range(draws))})
    mean = pl.col.age.fill_null(0).dp.mean((LOW, HIGH))
    asked = (dp.len().alias("found"), mean.alias("found"))
    counts, means = (
        context.query().group_by("g").agg(part).with_keys(keys).release().collect()
        for part in asked
    )
    yield from zip(counts["found"].cast(float), means["found"].cast(float), strict=True)


def diffprivlib(ages: tuple[int, ...], draws: int) -> Iterator[Draw]:
    import numpy as np
    from diffprivlib import tools

    column = np.array(ages)
    for _ in range(draws):
        count = tools.count_nonzero(column >= 0, epsilon=HALF)
        yield float(count), float(tools.mean(column, epsilon=HALF, bounds=(LOW, HIGH)))


def smartnoise(ages: tuple[int, ...], draws: int) -> Iterator[Draw]:
    import pandas as pd
    from snsql import Privacy, from_df

    table = {"row_privacy": True, "age": {"type": "int", "lower": LOW, "upper": HIGH}}
    privacy = Privacy(epsilon=HALF, delta=1e-9)
    reader = from_df(
        pd.DataFrame({"age": ages}), metadata={"": {"s": {"people": table}}}, privacy=privacy
    )
    for _ in range(draws):
        _, *rows = reader.execute("SELECT COUNT(*) AS n, AVG(age) AS a FROM s.people")
        for row in rows:  # none, where its threshold leaves the only group out
            yield float(row[0]), float(row[1])


def tumult(ages: tuple[int, ...], draws: int) -> Iterator[Draw]:
    """Draw once per group of one table: each query is some dozen Spark stages."""
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    frame = spark.createDataFrame([(g, a) for g in range(draws) for a in ages], ["g", "age"])
    session = Session.from_dataframe(PureDPBudget(1.0), "people", frame, AddOneRow())
    groups = QueryBuilder("people").groupby(KeySet.from_dict({"g": list(range(draws))}))
    budget = PureDPBudget(HALF)
    counts = {r["g"]: r["count"] for r in session.evaluate(groups.count(), budget).collect()}
    means = session.evaluate(groups.average("age", LOW, HIGH), budget).collect()
    for row in means:
        yield float(counts[row["g"]]), float(row["age_average"])


def google(ages: tuple[int, ...], draws: int) -> Iterator[Draw]:
    from pydp.algorithms.laplacian import BoundedMean, Count

    for _ in range(draws):
        mean = BoundedMean(epsilon=HALF, lower_bound=LOW, upper_bound=HIGH, dtype="int")
        count = Count(epsilon=HALF, dtype="int")
        yield float(count.quick_result(list(ages))), float(mean.quick_result(list(ages)))


def spend_dprelease(folder: Path, _: dict[str, Any]) -> None:
    import pandas as pd

    import dprelease as dp

    schema = dp.Schema.from_dict({
        "dprelease": "schema/1", "name": "people", "unit": "row", "adjacency": "add_remove",
        "rows": {"max": 1000, "expected": 3},
        "columns": {"age": {"kind": "integer", "range": [LOW, HIGH]}},
        "release": {"epsilon": 1, "statistics": ["count"]},
    })  # fmt: skip
    ledger = dp.create_ledger(folder / "ledger.db", schema, epsilon=1)
    used = len(list(folder.glob("asked-*")))
    (folder / f"asked-{used}").touch()
    dp.release(pd.DataFrame({"age": AGES}), schema, ledger=ledger, period=f"p{used}")


def spend_opendp(_: Path, kept: dict[str, Any]) -> None:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    if not kept:
        kept["context"] = dp.Context.compositor(
            data=pl.LazyFrame({"age": list(AGES)}),
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(epsilon=1.0),
            split_evenly_over=1,
        )
    kept["context"].query().select(dp.len()).release().collect()


def spend_diffprivlib(_: Path, kept: dict[str, Any]) -> None:
    import numpy as np
    from diffprivlib import BudgetAccountant, tools

    if not kept:
        kept["accountant"] = BudgetAccountant(epsilon=1, delta=0)
    tools.count_nonzero(np.array(AGES) >= 0, epsilon=1, accountant=kept["accountant"])


def spend_smartnoise(_: Path, kept: dict[str, Any]) -> None:
    import pandas as pd
    from snsql import Privacy, from_df

    if not kept:
        table = {"row_privacy": True, "age": {"type": "int", "lower": LOW, "upper": HIGH}}
        kept["reader"] = from_df(
            pd.DataFrame({"age": AGES}),
            metadata={"": {"s": {"people": table}}},
            privacy=Privacy(epsilon=1.0, delta=1e-9),
        )
    kept["reader"].execute("SELECT COUNT(*) AS n FROM s.people")


def spend_tumult(_: Path, kept: dict[str, Any]) -> None:
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, PureDPBudget, QueryBuilder, Session

    if not kept:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        spark = SparkSession.builder.master("local[1]").getOrCreate()
        frame = spark.createDataFrame([(a,) for a in AGES], ["age"])
        kept["session"] = Session.from_dataframe(PureDPBudget(1.0), "people", frame, AddOneRow())
    kept["session"].evaluate(QueryBuilder("people").count(), PureDPBudget(1.0)).collect()


def spend_google(_: Path, kept: dict[str, Any]) -> None:
    from pydp.algorithms.laplacian import Count

    if not kept:
        kept["count"] = Count(epsilon=1.0, dtype="int")
    kept["count"].quick_result(list(AGES))


JOBS: dict[str, tuple[str, Callable[..., Iterator[Draw]], Callable[..., None], str]] = {
    "dprelease": ("dprelease", dprelease, spend_dprelease, ""),
    "OpenDP": ("opendp", opendp, spend_opendp, "peers"),
    "diffprivlib": ("diffprivlib", diffprivlib, spend_diffprivlib, "peers"),
    "SmartNoise SQL": ("smartnoise-sql", smartnoise, spend_smartnoise, "smartnoise"),
    "Tumult Analytics": ("tmlt-analytics", tumult, spend_tumult, "tumult"),
    "PyDP (Google's C++)": ("python-dp", google, spend_google, "google"),
}
"""Name -> (package, draws, spending a budget of 1, which environment)."""


def share(hits: Iterable[bool]) -> str:
    """Return the share of true ones as text; a dash of none at all."""
    listed = list(hits)
    return f"{sum(listed) / len(listed):.1%}" if listed else "–"


def word(error: Exception) -> str:
    """Return `refused` for an error that speaks of the budget, else that the call failed, and how."""
    text = f"{type(error).__name__} {error}".lower()
    spent = ("budget", "privacy loss", "privacy spend", "allowance", "exhausted")
    return "refused" if any(part in text for part in spent) else f"failed: {type(error).__name__}"


def run_here(name: str, draws: int, folder: Path) -> dict[str, Any]:
    """Return one library's figures; `folder` is empty, and the same one for both processes."""
    package, draw, spend, _ = JOBS[name]
    if draws:
        small, many = list(draw(AGES, draws)), list(draw(MANY, draws))
        faulty = [abs(mean) for _, mean in draw(FAULTY, min(draws, 100))]
        return {
            "version": metadata.version(package),
            "missing": 1 - len(small) / draws,
            "below": share(count < 0 for count, _ in small),
            "gap": share(GAP[0] < count < GAP[1] for count, _ in small),
            "outside": share(not LOW <= mean <= HIGH for _, mean in small),
            "outside_many": share(not LOW <= mean <= HIGH for _, mean in many),
            "clamped": median(faulty) <= 10 * HIGH,
        }
    kept: dict[str, Any] = {}
    said = []
    for _ in range(2):
        try:
            spend(folder, kept)
            said.append("answered")
        except Exception as refused:  # noqa: BLE001 - what a refusal is called differs
            said.append(word(refused))
            print(f"{name}: {refused!r}", file=sys.stderr)
    return {"said": said}


def asked(python: str, name: str, draws: int, folder: Path) -> dict[str, Any]:
    """Return what a new process of `python` found."""
    command = [
        python,
        "-W",
        "ignore",
        __file__,
        "--one",
        name,
        "--draws",
        str(draws),
        "--folder",
        str(folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr[-800:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


HEADER = (
    "library",
    "no answer (3 rows)",
    "counts below 0 (3 rows)",
    "means outside 0 to 120 (3 rows, 100 rows)",
    "counts 1 to 9 (3 rows)",
    "clamps a cell of 1,000,000",
    "spent budget again: same process",
    "new process",
)


def table(rows: list[tuple[str, dict[str, Any]]], draws: int) -> str:
    """Return the Markdown."""
    out = [
        "# What libraries do with a range, a gap and a spent budget",
        "",
        f"Made by `benchmarks/peers.py`: {draws} draws each, epsilon 1/2 per number, defaults.",
        "Ages of a declared 0 to 120: 2, 3, 4, and a hundred rows like them. Counts are wanted to be 0 or at least",
        "10, where that can be asked: of dprelease only.",
        "",
        f"| {' | '.join(HEADER)} |",
        "|---" * len(HEADER) + "|",
    ]
    for name, found in rows:
        clamped = "yes" if found["clamped"] else "no"
        out.append(
            f"| {name} {found['version']} | {found['missing']:.1%} | {found['below']} | {found['outside']}, "
            f"{found['outside_many']} | {found['gap']} | {clamped} | {found['again']} | {found['new']} |"
        )
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--one", choices=JOBS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    for environment in ("peers", "smartnoise", "tumult", "google"):
        parser.add_argument(
            f"--{environment}", help=f"the Python of the environment with {environment}"
        )
    given = parser.parse_args()
    if given.one:
        with contextlib.redirect_stdout(sys.stderr), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run_here(given.one, given.draws, given.folder)
        print(json.dumps(found))
        return
    rows = []
    for name, (_, _, _, environment) in JOBS.items():
        python = getattr(given, environment) if environment else sys.executable
        if python is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = asked(python, name, given.draws, Path(folder))
            first = asked(python, name, 0, Path(folder))["said"]
            second = asked(python, name, 0, Path(folder))["said"]
        if first[0] != "answered":
            raise SystemExit(f"{name}: the first release was {first[0]}")
        rows.append((name, {**found, "again": first[1], "new": second[0]}))
        print(rows[-1])
    to = Path(__file__).parent / "results" / "peers.md"
    to.write_text(table(rows, given.draws), encoding="utf-8")
    print(f"wrote {os.path.relpath(to)}")


if __name__ == "__main__":
    main()
