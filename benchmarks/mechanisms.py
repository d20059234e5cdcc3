"""Speed of calibration, certification and exact draws; diffprivlib beside it in the same run.

    python benchmarks/mechanisms.py               # prints the table, writes results/mechanisms.md

The comparison is optional. diffprivlib also installs a package called `tests`, so it gets a folder
of its own:

    pip install --no-deps --target build/diffprivlib -r benchmarks/requirements.txt
    PYTHONPATH=build/diffprivlib python benchmarks/mechanisms.py

All draws use the operating system's random bits and are exact. Times are the best of a few
repetitions on this machine; the comparison draws float64 values, one call per value.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import dprelease as dp
from dprelease import mechanisms as dpm
from dprelease.core.entropy import SystemBits
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.law import GridLaw, GridRequest, grid_laws, law_from_json
from dprelease.schema.domain import Domain, GridSet

ONE = Fraction(1)


def best_of(count: int, work: Callable[[], object]) -> float:
    """Return the shortest time of `count` runs, in seconds."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def law_of(
    family: str, points: int, *, sensitivity: int | None = None, epsilon: Fraction = ONE
) -> GridLaw:
    """Return one family's law on `points` grid points, sensitivity a hundredth of them."""
    from dprelease.core import registry

    allowed = GridSet.from_runs([(0, points - 1)])
    kind: Any = registry.load("mechanisms", family)
    law: GridLaw = kind.grid_laws(
        GridRequest(allowed, sensitivity or max(1, points // 100), epsilon)
    )[0]
    return law


def calibration(rows: list[str]) -> None:
    pick = np.random.default_rng(0)  # inputs of a benchmark, not noise
    width, sensitivity, epsilon = pick.uniform(1, 100, 10**5), pick.uniform(0.01, 1, 10**5), 1.0
    seconds = best_of(3, lambda: dpm.bounded_laplace_scale(0, width, sensitivity, epsilon))
    rows.append(f"| calibrate 10^5 bounded Laplace intervals | {seconds:.3f} s |")
    union = Domain(0, 120, forbidden=[(40, 60)])
    seconds = best_of(3, lambda: dpm.BoundedLaplace.calibrate(union, sensitivity=1, epsilon=1))
    rows.append(
        f"| calibrate bounded Laplace on a union (answers in the hull) | {seconds * 1e3:.2f} ms |"
    )


def certification(rows: list[str]) -> None:
    for family in ("bounded_laplace", "bounded_gaussian", "reflected_laplace", "staircase"):
        for points in (10**3, 10**6, 10**9):
            start = time.perf_counter()
            try:
                law = law_of(family, points)
            except (ArgumentError, IndexError) as none:
                rows.append(
                    f"| {family}, {points:.0e} points | none: {getattr(none, 'code', 'no law')} |"
                )
                continue
            built = time.perf_counter() - start
            proved = best_of(1, law_from_json(law.to_json()).certify)
            rows.append(
                f"| {family}, {points:.0e} points: calibrate / certify "
                f"| {built:.3f} s / {proved:.4f} s |"
            )


def draws(rows: list[str], count: int) -> None:
    bits = SystemBits()
    for family in (
        "staircase", "bounded_laplace", "reflected_laplace", "rectified_laplace",
        "discrete_laplace", "bounded_gaussian",
    ):  # fmt: skip
        law = law_of(family, 1001, sensitivity=10)
        answers = np.arange(count, dtype=np.int64) % 1001
        seconds = best_of(
            3, lambda law=law, answers=answers: law.finish(law.draw_raw(answers, bits))
        )
        rows.append(
            f"| draw, {family} (10^3 points, epsilon 1) | {count / seconds / 1e6:.2f} M/s |"
        )
    choice = dpm.Exponential.for_scores(1000, spread=1, epsilon=1)
    scores = np.abs(np.arange(1000) - 300)[None, :].repeat(1000, axis=0)
    seconds = best_of(3, lambda: choice.draw_scores(scores, bits))
    rows.append(f"| draw, exponential (1,000 candidates) | {1 / seconds:.0f} k groups/s |")
    for sensitivity in (10**6, 10**18, 10**44):
        noise = CellNoise.calibrate(sensitivity, ONE)
        seconds = best_of(3, lambda noise=noise: noise.sample(count, bits))
        rows.append(
            f"| draw, noise of cells that move by {sensitivity:.0e} steps | {count / seconds / 1e6:.2f} M/s |"
        )


def planning(rows: list[str]) -> None:
    for runs, sensitivity in (([(0, 30)], 4), ([(0, 40), (60, 120)], 10), ([(0, 10**6)], 1000)):

        def price(runs: Any = runs, sensitivity: int = sensitivity) -> list[GridLaw]:
            epsilon = Fraction(1) + Fraction(time.perf_counter_ns() % 10**6, 10**9)  # no cache
            return grid_laws(GridRequest(GridSet.from_runs(runs), sensitivity, epsilon))

        price()
        rows.append(
            f"| price every family on {runs}, sensitivity {sensitivity} | {best_of(3, price) * 1e3:.0f} ms |"
        )


def plans(rows: list[str]) -> None:
    """Whole plans of columns with very many steps."""
    for statistics, high, step in (
        (["sum(x)"], 2**40, 1),
        (["sum(x)"], 2**53, 1),
        (["mean(x)", "variance(x)"], 500_000, 0.01),
        (["variance(x)"], 10**9, 0.01),
    ):

        def make(statistics: Any = statistics, high: int = high, step: Any = step) -> object:
            return dp.plan(
                {
                    "dprelease": "schema/1",
                    "name": "wide",
                    "unit": "row",
                    "adjacency": "add_remove",
                    "rows": {"max": 1000},
                    "columns": {"x": {"kind": "number", "range": [0, high], "step": step}},
                    # no cache
                    "release": {
                        "epsilon": 1 + time.perf_counter_ns() % 10**6 / 10**9,
                        "statistics": statistics,
                    },
                }
            )

        said = f"{', '.join(statistics)} over [0, {high:,}] in steps of {step}"
        rows.append(f"| plan {said} | {best_of(3, make) * 1e3:.0f} ms |")


def comparison(rows: list[str], count: int) -> None:
    if find_spec("diffprivlib") is None:
        rows.append("| diffprivlib | not installed |")
        return
    # Its `models` do not import with recent scikit-learn; its mechanisms need none of them.
    sys.modules.setdefault("diffprivlib.models", ModuleType("diffprivlib.models"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from diffprivlib.mechanisms import LaplaceBoundedDomain
    theirs = LaplaceBoundedDomain(epsilon=1, delta=0.0, sensitivity=10, lower=0, upper=1000)

    def draw() -> None:
        for q in range(count):
            theirs.randomise(q % 1001)

    seconds = best_of(2, draw)
    rows.append(f"| diffprivlib LaplaceBoundedDomain: draw | {count / seconds / 1e6:.4f} M/s |")
    made = [
        LaplaceBoundedDomain(epsilon=1, delta=0.0, sensitivity=s, lower=0, upper=100)
        for s in np.linspace(0.01, 1, 500)
    ]
    seconds = best_of(2, lambda: [m._find_scale() for m in made])  # noqa: SLF001
    rows.append(f"| diffprivlib: calibrate 10^5 intervals (from 500) | {seconds * 200:.2f} s |")
    below = 0
    for epsilon in np.linspace(0.05, 4, 200):
        m = LaplaceBoundedDomain(epsilon=epsilon, delta=0.0, sensitivity=10, lower=0, upper=1000)
        scale = m._find_scale()  # noqa: SLF001
        exact = dpm.BoundedLaplace(Domain(0, 1000), scale=scale)
        below += exact.loss(sensitivity=10) > epsilon
    rows.append(f"| diffprivlib: scales whose exact loss passes epsilon | {below} of 200 |")


def main() -> None:
    """Print the table and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--count", type=int, default=200_000, help="draws per measurement")
    chosen = parser.parse_args()
    rows = [
        f"Python {platform.python_version()}, NumPy {np.__version__}.",
        "",
        "| what | measured |",
        "|---|---|",
    ]
    calibration(rows)
    certification(rows)
    draws(rows, chosen.count)
    planning(rows)
    plans(rows)
    comparison(rows, max(100, chosen.count // 50))
    text = "\n".join(rows) + "\n"
    print(text)
    chosen.to.mkdir(parents=True, exist_ok=True)
    (chosen.to / "mechanisms.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
