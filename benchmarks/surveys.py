"""Accuracy and speed of every two-way table of a survey: `python benchmarks/surveys.py [--opendp PYTHON]` writes results/surveys.md.

Questions with five answers each, 20,000 people, epsilon 2, delta 1e-6. The release goes through the door: rows, scan, draw,
fit and intervals. Beside it, by numpy and in the same run: each table by itself with normal noise (the analytic scale) and with
Laplace noise; and ResidualPlanner's bound of the mean variance. Seconds are the processor's. `--opendp` names an interpreter with OpenDP, which then
answers the real survey too (`benchmarks/surveys_opendp.py`).
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import platform
import subprocess
import time
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from peak import peak_bytes

import dprelease as dp
from dprelease.budget.normal import normal_rho
from dprelease.fitting.certificate import node_faults
from dprelease.fitting.estimate import ONE
from dprelease.fitting.margin_sets import (
    designs,
    drawn_for,
    estimator_of,
    fit,
    parts_of,
    tables_first,
)
from dprelease.intervals.noise import Gaussian

PAGE = Path(__file__).parents[1] / "benchmarks" / "results" / "surveys.md"
ANSWERS = [f"a{i}" for i in range(5)]
PEOPLE, EPSILON, DELTA = 20_000, 2, 1e-6
QUESTIONS, ROUNDS = (15, 25), 10_000


def people(questions: int, rng: np.random.Generator) -> pd.DataFrame:
    kind = rng.integers(0, 5, PEOPLE)
    own = rng.random((PEOPLE, questions)) < 0.5
    some = rng.choice(5, (PEOPLE, questions), p=[0.5, 0.25, 0.15, 0.07, 0.03])
    codes = np.where(own, kind[:, None], some)
    return pd.DataFrame({f"q{j + 1}": np.array(ANSWERS)[codes[:, j]] for j in range(questions)})


def bound(questions: int) -> float:
    """Return ResidualPlanner's bound of a two-way cell's RMSE, one row per unit."""
    pairs = math.comb(questions, 2)
    spaces = [(1, pairs / 25, 1 / 25), (questions, (questions - 1) * 4 / 25, 4 / 25), (pairs, 16 / 25, 16 / 25)]  # fmt: skip
    total = sum(count * math.sqrt(adds * cost) for count, adds, cost in spaces) ** 2
    return math.sqrt(
        total / pairs / (2 * float(normal_rho(Fraction(EPSILON), Fraction(str(DELTA)))))
    )


def survey(questions: int, rng: np.random.Generator) -> list[str]:
    pairs, normal, pure, rmse, _, covered, moved, planned, released = released_of(
        people(questions, rng), rng
    )
    return [
        str(questions), str(pairs), f"{rmse:.2f}", f"{bound(questions):.2f}", f"{normal:.1f}", f"{pure:.1f}", f"{covered:.4f}",
        str(moved), f"{planned:.1f}", f"{released:.1f}", f"{peak_bytes() / 2**20:.0f}",
    ]  # fmt: skip


def wives() -> pd.DataFrame:
    """Return a real survey: 6,366 wives of 1974, eight questions, by statsmodels (Fair, 1978)."""
    from statsmodels.datasets import fair

    frame: pd.DataFrame = fair.load_pandas().data.drop(columns="affairs")
    return frame.astype(int).astype(str).radd("a")


def affairs(frame: pd.DataFrame, rng: np.random.Generator) -> list[str]:
    """Return the same of a real survey."""
    pairs, normal, pure, rmse, clipped, covered, moved, *_ = released_of(frame, rng)
    return [
        str(len(frame.columns)), str(pairs), f"{rmse:.2f}", f"{normal:.1f}", f"{clipped:.1f}", f"{pure:.1f}", f"{covered:.4f}", str(moved)
    ]  # fmt: skip


def beside(python: str, frame: pd.DataFrame) -> list[str]:
    """Return OpenDP's answers to the real survey beside ours: one table whole, and what of all tables is wrong in itself."""
    pairs = list(itertools.combinations(frame, 2))
    exact = {f"{a}_{b}": pd.crosstab(frame[a], frame[b]) for a, b in pairs}
    asked = {"epsilon": EPSILON, "delta": DELTA, "tables": {n: np.ravel(x).tolist() for n, x in exact.items()}}  # fmt: skip
    script = Path(__file__).with_name("surveys_opendp.py")
    run = subprocess.run([python, str(script)], input=json.dumps(asked), capture_output=True, text=True, check=True)  # fmt: skip
    found = json.loads(run.stdout.splitlines()[-1])
    theirs = {n: np.array(found["tables"][n]).reshape(x.shape) for n, x in exact.items()}
    off = np.concatenate([np.ravel(theirs[n] - x) for n, x in exact.items()])
    below = sum(int((x < 0).sum()) for x in theirs.values())
    totals = {int(x.sum()) for x in theirs.values()}
    made = frame.dp.release(_schema(frame))
    name = (
        "religious_rate_marriage"
        if "religious_rate_marriage" in exact
        else "rate_marriage_religious"
    )
    own, truth = made.tables[name].to_pandas(), exact[name]
    cells = own.set_index([truth.index.name, truth.columns.name])
    rows = [
        [a[1:], *(f"{truth.loc[a, b]:,} · {cells.loc[(a, b), 'value']:,.0f} ({cells.loc[(a, b), 'lower']:,.0f} to {cells.loc[(a, b), 'upper']:,.0f}) · {theirs[name][i, j]:,}"
            for j, b in enumerate(truth.columns))]
        for i, a in enumerate(truth.index)
    ]  # fmt: skip
    return [
        f"The same survey by OpenDP {found['version']}: every two-way table with discrete normal noise of scale {found['scale']:.2f}, the least by its own composition. Its RMSE is",
        f"{math.sqrt(np.mean(np.square(off))):.2f}; {below} of its {off.size:,} cells are below 0, its {len(theirs)} tables have {len(totals)} different totals, and no cell has an interval.",
        f"One table of {len(theirs)}, `{truth.index.name}` down and `{truth.columns.name}` across; per cell the exact number · ours (interval) · OpenDP's:",
        "",
        *table([truth.index.name, *(b[1:] for b in truth.columns)], rows),
    ]  # fmt: skip


def _schema(frame: pd.DataFrame) -> dp.Schema:
    columns = {name: {"kind": "category", "values": sorted(frame[name].unique())} for name in frame}
    release = {"epsilon": EPSILON, "delta": DELTA, "tables": [{"all_pairs": list(frame), "statistics": ["count"]}]}  # fmt: skip
    return dp.Schema.from_dict(
        {"dprelease": "schema/1", "name": "survey", "unit": "row", "adjacency": "add_remove", "rows": {"max": 100_000}, "columns": columns, "release": release}
    )  # fmt: skip


def released_of(frame: pd.DataFrame, rng: np.random.Generator) -> tuple[Any, ...]:
    answers = {name: sorted(frame[name].unique()) for name in frame}
    schema = _schema(frame)
    start = time.process_time()
    frame.dp.plan(schema)
    planned = time.process_time() - start
    start = time.process_time()
    made = frame.dp.release(schema)
    released = time.process_time() - start
    off, beside, inside, moved = [], [], [], 0
    pairs = math.comb(len(answers), 2)
    normal = math.sqrt(pairs / (2 * float(normal_rho(Fraction(EPSILON), Fraction(str(DELTA))))))
    for a, b in itertools.combinations(frame, 2):
        table = made.tables[f"{a}_{b}"].to_pandas().sort_values([a, b])
        truth = np.ravel(pd.crosstab(frame[a], frame[b]).reindex(index=answers[a], columns=answers[b], fill_value=0))  # fmt: skip
        off.append(table["value"].to_numpy() - truth)
        beside.append(np.maximum(truth + np.rint(rng.normal(0, normal, truth.size)), 0) - truth)
        inside.append((table["lower"].to_numpy() <= truth) & (truth <= table["upper"].to_numpy()))
        for one in (a, b):
            sums = table.groupby(one)["value"].sum()
            own = made.tables[one].to_pandas().set_index(one)["value"].reindex(sums.index)
            moved += int((sums != own).sum())
        moved += int((table["value"] < 0).sum())
    each = [math.sqrt(np.mean(np.square(np.concatenate(errors)))) for errors in (off, beside)]
    pure = math.sqrt(2) * pairs / EPSILON
    return pairs, normal, pure, *each, np.mean(np.concatenate(inside)), moved, planned, released


def draws(rounds: int, rng: np.random.Generator) -> list[str]:
    """Return what many draws of a small case break, and how many of its cells they cover."""
    sizes, truth = (2, 3, 3), rng.poisson(2, (2, 3, 3)).astype(object)
    tables = [t for t in itertools.product((0, 1), repeat=3) if sum(t) < 3]
    design = designs(tuple((tuple(range(n)),) for n in sizes), tables)[1]
    order, structure = tables_first(tables), design.structure()

    def summed(cells: np.ndarray, table: tuple[int, ...]) -> np.ndarray:
        return np.asarray(cells.sum(axis=tuple(a for a, k in enumerate(table) if not k)), object)

    exact = np.array(drawn_for(design, [summed(truth, t).reshape(-1) for t in design.counted]))
    square = 90_000
    fitted = estimator_of(design, structure, Gaussian(Fraction(square)))
    half = {
        t.level: 1.96 * math.sqrt(fitted.variance(t.name).max()) for t in fitted.structure.tables
    }
    apart = below = unproved = covered = cells = 0
    for _ in range(rounds):
        noisy = (exact + np.rint(rng.normal(0, math.sqrt(square), exact.size)).astype(int)).tolist()
        aims = fitted.estimated(parts_of(design, noisy), {}, [t for t, _ in order])
        values, nodes = fit(structure, order, aims, 10**6)
        flat = [{t: v.tolist() for t, v in part.items()} for part in (aims, values)]
        unproved += len(node_faults(structure.axes, order, *flat, nodes))
        for table, margins in order:
            below += int((values[table] < 0).sum())
            own = values[table].reshape([n if k else 1 for n, k in zip(sizes, table, strict=True)])
            for margin in margins:
                apart += int((summed(own, margin).reshape(-1) != values[margin]).sum())
            off = np.asarray(aims[table]) / ONE - summed(truth, table).reshape(-1)
            near = np.abs(off.astype(float)) <= half[table]
            covered, cells = covered + int(near.sum()), cells + near.size
    return [f"{rounds:,}", str(apart), str(below), str(unproved), f"{covered / cells:.4f}"]


def table(titles: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in [titles, ["---"] * len(titles), *rows]] + [""]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure every two-way table of a survey.")
    parser.add_argument("--opendp", help="an interpreter with OpenDP")
    peer = parser.parse_args().opendp
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(23)
    rows, real = [survey(questions, rng) for questions in QUESTIONS], wives()
    text = [
        "# Every two-way table of a survey",
        "",
        f"Written by `benchmarks/surveys.py`: {PEOPLE:,} people, five answers a question, ε = {EPSILON}, δ = {DELTA}. RMSE per two-way cell, of one release.",
        f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}. Seconds are the processor's.",
        "",
        *table(
            ["questions", "two-way tables", "RMSE", "ResidualPlanner's bound", "separate, normal", "separate, pure", "coverage", "sums apart or below 0", "plan, s", "release, s", "peak, MB"],
            rows,
        ),
        "The answers of 6,366 women to eight questions (`statsmodels.datasets.fair`; 4 to 7 answers each, most cells of few rows):",
        "",
        *table(
            ["questions", "two-way tables", "RMSE", "separate, normal", "the same, cut at 0", "separate, pure", "coverage", "sums apart or below 0"],
            [affairs(real, rng)],
        ),
        *(beside(peer, real) if peer else []),
        "A small case (2 x 3 x 3, all pairs), noise by numpy; certificates by `fitting.certificate`:",
        "",
        *table(["draws", "margins that disagree", "negatives", "not proved nearest", "estimates within 1.96 s"], [draws(ROUNDS, rng)]),
    ]  # fmt: skip
    PAGE.write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


if __name__ == "__main__":
    main()
