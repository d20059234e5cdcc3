"""How far is the planner's choice from the best private law there is?

For 105 public plans (sensitivity / width .01 to 1, epsilon .1 to 4, gaps narrower and wider than
the sensitivity, answers anywhere in the hull) the expected |error| of each family's grid law is
divided by the optimum of the linear programme over *all* private laws on that grid. Where the
programme is small the planner takes its solution (`optimal_grid`); the second row leaves that
family out and says what larger grids get.

    python benchmarks/utility.py            # prints the tables, writes results/utility.md
    python benchmarks/utility.py --peers PY # and results/baselines.md, of other libraries by that interpreter
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dprelease.mechanisms.calibration.grid_program import optimum
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.schema.domain import GridSet

CRITERIA: tuple[Literal["worst", "average"], ...] = ("worst", "average")
EPSILONS = [Fraction(n, 10) for n in (1, 3, 10, 20, 40)]
SIZES = [(100, 1), (40, 1), (40, 2), (40, 4), (40, 10), (40, 20), (40, 40)]
"""(hull steps, sensitivity in steps)"""


def plans() -> list[tuple[str, GridRequest]]:
    """Return 105 named plans."""
    out = []
    for (width, sensitivity), epsilon in itertools.product(SIZES, EPSILONS):
        narrow, wide = max(2, sensitivity // 2), min(2 * sensitivity + 2, 18)
        for name, gap in (("none", 0), ("narrow", narrow), ("wide", wide)):
            runs = [(0, width)]
            if gap:
                left = width * 2 // 5 - gap // 2
                runs = [(0, left), (left + gap, width)]
            out.append((name, GridRequest(GridSet.from_runs(runs), sensitivity, epsilon)))
    return out


def ratios(request: GridRequest) -> dict[str, float]:
    """Return each family's expected |error| over the optimum's, by the request's criterion."""
    limit = math.exp(request.epsilon)
    found = optimum(
        request.allowed, request.capped_sensitivity, limit, request.loss, request.criterion
    )
    assert found is not None
    return {
        law.family: law.expected_error().by(request.criterion) / found[1]
        for law in grid_laws(request)
    }


def summary(name: str, values: list[float]) -> str:
    array = np.array(values)
    within = int((array <= 1.05).sum())
    return (
        f"| {name} | {array.mean():.3f} | {np.median(array):.3f} | {array.max():.3f} "
        f"| {within} of {array.size} |"
    )


def report(
    criterion: Literal["worst", "average"], chosen: list[tuple[str, GridRequest]]
) -> list[str]:
    """Return the lines of one table."""
    best: list[float] = []
    planned: list[float] = []
    by_family: dict[str, list[float]] = {}
    over_clamped: list[float] = []
    picks: dict[str, int] = {}
    hardest = (0.0, "")
    for gap, plan in chosen:
        found = ratios(replace(plan, criterion=criterion))
        planned.append(min(found.values()))
        found.pop("optimal_grid", None)
        first = min(found, key=lambda family: found[family])
        picks[first] = picks.get(first, 0) + 1
        best.append(found[first])
        over_clamped.append(found[first] / found["rectified_laplace"])
        for family, ratio in found.items():
            by_family.setdefault(family, []).append(ratio)
        text = f"{plan.allowed.runs}, sensitivity {plan.sensitivity}, epsilon {float(plan.epsilon)}, gap {gap}"
        hardest = max(hardest, (found[first], f"{text}: {first}"))
    title = (
        "largest |error| over answers" if criterion == "worst" else "|error| averaged over answers"
    )
    return [
        f"### Expected {title}, divided by the optimum's",
        "",
        "| law | mean | median | worst | within 1.05 |",
        "|---|---|---|---|---|",
        summary("**planner's choice**", planned),
        summary("**the same without optimal_grid**", best),
        *(summary(f, by_family[f]) for f in sorted(by_family, key=lambda f: np.mean(by_family[f]))),
        "",
        f"Without optimal_grid, over clamped Laplace noise: {np.mean(over_clamped):.3f} on average, "
        f"never above {max(over_clamped):.3f}. Chosen: "
        + ", ".join(f"{f} {n}" for f, n in sorted(picks.items(), key=lambda p: -p[1]))
        + f". Hardest plan ({hardest[0]:.3f}): {hardest[1]}.",
        "",
    ]


def baselines() -> Any:
    """Return the script of that name beside this one."""
    place = Path(__file__).with_name("baselines.py")
    spec = importlib.util.spec_from_file_location("benchmark_baselines", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Print the tables and write them down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--quick", action="store_true", help="every eleventh plan")
    parser.add_argument("--peers", help="an interpreter that has OpenDP and diffprivlib")
    chosen = parser.parse_args()
    picked = plans()[:: 11 if chosen.quick else 1]
    lines = [
        (
            f"{len(picked)} plans: sensitivity / width 0.01 to 1, epsilon 0.1 to 4, no gap, a gap narrower "
            "and one wider than the sensitivity; answers anywhere in the hull."
        ),
        "",
    ]
    for criterion in CRITERIA:
        lines += report(criterion, picked)
    text = "\n".join(lines)
    print(text)
    chosen.to.mkdir(parents=True, exist_ok=True)
    (chosen.to / "utility.md").write_text(text, encoding="utf-8")
    if chosen.peers:
        baselines().write(chosen.to, chosen.peers)


if __name__ == "__main__":
    main()
