"""Keys that nobody declared: how many are found beside OpenDP, SmartNoise and Google, and how long a million take.

Found: every person has one key; the keys' numbers of persons fall as Zipf's law, or are alike. Each library is asked once per
world and draw for the keys and their numbers of persons, at the same epsilon and delta. `optimal` is the mean of the rule that
none of this loss exceeds (Desfontaines, Voss & Gipson 2022), computed here in doubles from the paper's recursion.

Time: rows of a log in a Parquet file. Beside it DuckDB's own GROUP BY of the same file in the same run, which protects
nobody. The bar is twice that and two seconds. Each figure is of a process of its own, and so is the most memory it held.

    python benchmarks/keys.py --peers PY --smartnoise PY --google PY

writes results/keys.md. Every library lives in an environment of its own (`requirements-*.txt` beside this file); one without
an environment is left out, and the page says so. Draws are from the libraries' own generators.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

PAGE = Path(__file__).parent / "results" / "keys.md"
EPSILON, DELTA = 1.0, 1e-6
WORLDS = ("Zipf", "alike")
ROWS, KEYS = 5_000_000, 1_000_000
PERSON = {"user": "who", "max_groups": 10, "max_rows_per_group": 1}


def world(name: str) -> list[int]:
    """Return the numbers of persons of all keys, which are public here."""
    if name == "alike":
        rng = random.Random(38)
        return [max(1, sum(rng.random() < 0.2 for _ in range(60))) for _ in range(20_000)]
    return [math.ceil(20_000 / rank) for rank in range(1, 20_001)]


def log(name: str) -> dict[str, list[str]]:
    return {"page": [f"/page/{i}" for i, n in enumerate(world(name)) for _ in range(n)]}


def optimal(name: str) -> float:
    """Return how many keys the best rule is expected to publish."""
    grow, chance = math.exp(EPSILON), [0.0]
    while chance[-1] < 1:
        p = chance[-1]
        chance.append(min(grow * p + DELTA, 1 - (1 - p - DELTA) / grow, 1.0))
    return sum(chance[min(n, len(chance) - 1)] for n in world(name))


def dprelease(name: str) -> int:
    import pandas as pd

    import dprelease as dp

    schema = declared("row")
    frame = pd.DataFrame(log(name))
    return dp.keys(frame, schema, column="page", epsilon=EPSILON, delta=str(DELTA)).table.num_rows


def opendp(name: str) -> int:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.LazyFrame(log(name)),
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(epsilon=EPSILON, delta=DELTA),
        split_evenly_over=1,
    )
    return len(context.query().group_by("page").agg(dp.len()).release().collect())


def smartnoise(name: str) -> int:
    import pandas as pd
    from snsql import Privacy, from_df

    table = {"row_privacy": True, "page": {"type": "string"}}
    reader = from_df(
        pd.DataFrame(log(name)),
        metadata={"": {"s": {"log": table}}},
        privacy=Privacy(epsilon=EPSILON, delta=DELTA),
    )
    _, *rows = reader.execute("SELECT page, COUNT(*) AS n FROM s.log GROUP BY page")
    return len(rows)


def google(rule: str) -> Callable[[str], int]:
    def found(name: str) -> int:
        from pydp.algorithms.partition_selection import create_partition_strategy

        strategy = create_partition_strategy(rule, EPSILON, DELTA, 1)
        return sum(strategy.should_keep(n) for n in world(name))

    return found


PEERS: dict[str, tuple[Callable[[str], int], str, str, str]] = {
    "dprelease": (dprelease, "dprelease", "", "keys and numbers"),
    "OpenDP": (opendp, "opendp", "peers", "keys and numbers"),
    "SmartNoise SQL": (smartnoise, "smartnoise-sql", "smartnoise", "keys and numbers"),
    "Google, Laplace threshold (PyDP)": (
        google("laplace"),
        "python-dp",
        "google",
        "keys alone: a number costs more",
    ),
    "Google, optimal (PyDP)": (
        google("truncated_geometric"),
        "python-dp",
        "google",
        "keys alone: a number costs more",
    ),
}
"""Name -> (what finds, package, environment, what is published)."""


def declared(unit: object) -> dict[str, Any]:
    page = {"kind": "category", "other": {"as": "other pages"}}
    columns = {"page": page, **({} if unit == "row" else {"who": {"kind": "identifier"}})}
    return {
        "dprelease": "schema/1",
        "name": "log",
        "unit": unit,
        "adjacency": "add_remove",
        "columns": columns,
    }


# --- time -----------------------------------------------------------------------------------------


def write(path: Path) -> None:
    """Write a log of a million pages, each at least once, by a million persons."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(38)
    page = np.concatenate([np.arange(KEYS), rng.integers(0, KEYS, ROWS - KEYS)])
    rng.shuffle(page)
    texts = pa.array([f"/shop/item-{i:07d}.html" for i in range(KEYS)])
    who = pa.array(rng.integers(0, ROWS // 5, ROWS))
    pq.write_table(pa.table({"who": who, "page": texts.take(pa.array(page))}), path)


def plain(path: Path, unit: str) -> int:
    """Return the number of groups of DuckDB's own statement, fetched as Arrow."""
    import duckdb

    counted = "COUNT(*)" if unit == "row" else "COUNT(DISTINCT who)"
    asked = f"SELECT page, {counted} AS n FROM '{path}' GROUP BY page"
    return int(duckdb.sql(asked).to_arrow_table().num_rows)


def released(path: Path, unit: str) -> int:
    """Return the number of keys found: planned, read, drawn."""
    import dprelease as dp

    schema = declared("row" if unit == "row" else PERSON)
    keys = 1 if unit == "row" else 10
    asked = {"column": "page", "epsilon": EPSILON, "delta": str(DELTA), "max_keys": keys}
    return dp.keys(path, schema, **asked).table.num_rows


def timed(job: str, path: Path, unit: str) -> dict[str, float]:
    """Return the seconds of a job in this process, its imports done, and the most memory it held."""
    from peak import peak_bytes

    import dprelease as dp  # imported by both: the same memory to begin with

    work = plain if job == "plain" else released
    if work is released:  # modules load at the first release: on a table of one row
        import pandas as pd

        one = pd.DataFrame({"page": ["/"], "who": [1]})
        asked = {"column": "page", "epsilon": EPSILON, "delta": str(DELTA)}
        dp.keys(one, declared("row" if unit == "row" else PERSON), **asked)
    start = time.perf_counter()
    found = work(path, unit)
    return {"seconds": time.perf_counter() - start, "memory": peak_bytes() / 2**20, "keys": found}


# --- the page -------------------------------------------------------------------------------------


def asked(python: str, *words: str) -> dict[str, Any]:
    """Return what a new process of `python` found."""
    command = [python, "-W", "ignore", __file__, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode:
        raise SystemExit(f"{words}: {done.stderr[-800:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def found_lines(environments: dict[str, str | None], draws: int) -> list[str]:
    """Return the table of keys that are found."""
    sizes = {name: world(name) for name in WORLDS}
    out = [
        "## Keys that are found",
        "",
        f"Means of {draws} draws, epsilon {EPSILON:g}, delta {DELTA:g}, one key per person. Keys in truth: "
        + "; ".join(f"{n} {len(s):,}, of {sum(s):,} persons" for n, s in sizes.items())
        + ".",
        "",
        "| rule | what is published | " + " | ".join(WORLDS) + " |",
        "|---" * (2 + len(WORLDS)) + "|",
        "| optimal, computed in this file | – | "
        + " | ".join(f"{optimal(name):,.1f}" for name in WORLDS)
        + " |",
    ]
    for name, (_, package, environment, what) in PEERS.items():
        python = environments[environment] if environment else sys.executable
        if python is None:
            out.append(f"| {name} | {what} |" + " no environment here |" * len(WORLDS))
            continue
        runs = asked(python, "--one", name, "--draws", str(draws))
        means = [f"{mean(runs['found'][w]):,.1f}" for w in WORLDS]
        out.append(f"| {name}, {package} {runs['version']} | {what} | {' | '.join(means)} |")
    return out


def time_lines(repeats: int) -> list[str]:
    """Return the table of times and memory."""
    out = [
        "## A million distinct keys",
        "",
        f"{ROWS:,} rows, {KEYS:,} distinct texts, one Parquet file; {os.cpu_count()} processors ({platform.machine()});",
        f"the least of {repeats} runs each, in turn. The whole of `dp.keys`: plan, engine, texts, threshold.",
        "",
        "| unit | DuckDB's GROUP BY | keys are found | bar: 2 × GROUP BY + 2 s | memory of GROUP BY | memory of `dp.keys` |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write(path)
        for unit, words in (("row", "a row"), ("person", "a person, 10 keys each")):
            runs: dict[str, list[dict[str, Any]]] = {"plain": [], "released": []}
            for _ in range(repeats):
                for job, held in runs.items():
                    held.append(
                        asked(sys.executable, "--job", job, "--path", str(path), "--unit", unit)
                    )
            base, own = (min(r["seconds"] for r in held) for held in runs.values())
            memory = [max(r["memory"] for r in held) for held in runs.values()]
            bar = 2 * base + 2
            out.append(
                f"| {words} | {base:.2f} s | {own:.2f} s | {bar:.2f} s: {'held' if own <= bar else 'MISSED'} | "
                f"{memory[0]:,.0f} MB | {memory[1]:,.0f} MB |"
            )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--unit", help=argparse.SUPPRESS)
    environments = ("peers", "smartnoise", "google")
    for environment in environments:
        parser.add_argument(f"--{environment}", help="the Python of that environment")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.one:
        from importlib.metadata import version

        find, package, *_ = PEERS[given.one]
        found = {name: [find(name) for _ in range(given.draws)] for name in WORLDS}
        print(json.dumps({"version": version(package), "found": found}))
        return
    if given.job:
        print(json.dumps(timed(given.job, given.path, given.unit)))
        return
    lines = ["# Keys that nobody declared", "", "Made by `benchmarks/keys.py`.", ""]
    lines += found_lines({name: getattr(given, name) for name in environments}, given.draws)
    lines += ["", *time_lines(given.repeats)]
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
