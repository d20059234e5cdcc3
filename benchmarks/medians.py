"""How many rows is the default median off, beside OpenDP's on the same candidates, and which mechanism should it take?

Rows that differ (every other one of the candidates, from a quarter of the range on) and ages of which many are equal,
30 to 100,000 of them. The plan is the planner's own; its error is the exact mean of its law, and of draws by the
system's generator beside it. OpenDP draws by `make_private_quantile`, told to spend the same epsilon.

    rank error   rows between the middle of all and the nearest rank that the value has
    replaced     the same plan where a row is replaced, by each of the two mechanisms that a request may name

    python benchmarks/medians.py PY         # PY has opendp (requirements-speed.txt); writes results/medians.md
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

EPSILONS = (0.1, 1.0, 4.0)
SIZES = (30, 1_000, 100_000)
DRAWS = {30: 2_000, 1_000: 1_000, 100_000: 60}
TIED = "ages, 0 to 120"


def columns(size: int) -> dict[str, tuple[int, list[int]]]:
    """Return the greatest candidate and the rows of each column."""
    top = 4 * size
    ages = [min(120, round(20 + 25 * math.log1p(5 * i / size))) for i in range(size)]
    return {
        f"differing, {top + 1:,} candidates": (top, [size + 2 * i for i in range(size)]),
        TIED: (120, ages),
    }


def opendp(job: dict[str, Any]) -> list[float]:
    """Return OpenDP's draws."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    candidates = list(range(job["top"] + 1))

    def made(scale: float) -> Any:
        return dp.m.make_private_quantile(
            *space, dp.max_divergence(), candidates=candidates, alpha=0.5, scale=scale
        )

    law = dp.binary_search_chain(made, d_in=1, d_out=job["epsilon"], bounds=(1e-3, 1e4))
    return [float(law(job["rows"])) for _ in range(job["draws"])]


def _laws(worst: float, most: float) -> str:
    return (
        f"Laws: at most 1.05 times OpenDP's error, beyond two standard errors of its draws: {worst:.2f}; "
        f"at most 1.02 times the better mechanism where a row is replaced: {most:.2f}."
    )


def main(python: str) -> None:
    import numpy as np

    from dprelease.audit.flips import flip_chances
    from dprelease.core.entropy import SystemBits
    from dprelease.mechanisms.forms.flips import FlipLaw
    from dprelease.planning.make import make_plan
    from dprelease.query.load import Schema
    from dprelease.query.merge import merge_release
    from dprelease.query.spec import resolve

    def law_of(top: int, size: int, epsilon: float, adjacency: str, mechanism: str | None) -> Any:
        asked = (
            "median(x)" if mechanism is None else {"statistic": "median(x)", "mechanism": mechanism}
        )
        schema = Schema.from_dict({
            "dprelease": "schema/1", "name": "m", "unit": "row", "adjacency": adjacency,
            "rows": {"max": 10 * size, "expected": size},
            "columns": {"x": {"kind": "integer", "range": [0, top]}},
            "release": {"epsilon": epsilon, "statistics": [asked]},
        })  # fmt: skip
        return make_plan(resolve(schema, merge_release(schema)), brief=True).blocks[0].law.law  # type: ignore[attr-defined]

    def scored(top: int, rows: list[int]) -> Any:
        """Return the score of every candidate: twice its rank error, or below 0 how far inside its ranks the middle is."""
        at = np.arange(top + 1)
        below, upto = (np.searchsorted(rows, at, side) for side in ("left", "right"))
        return np.maximum(2 * below - len(rows), len(rows) - 2 * upto)

    def exact(law: Any, scores: Any) -> float:
        apart, many = np.unique(scores, return_counts=True)
        above = apart - apart[0]
        if isinstance(law, FlipLaw):
            chance = flip_chances(law, many, above)
        else:
            weights = law.weights(np.append(above, 0))
            chance = np.array([int(w) / int(weights[-1]) for w in weights[:-1]])
        chance = chance * many
        return float(np.maximum(apart, 0) @ chance / chance.sum() / 2)

    def drawn(law: Any, scores: Any, draws: int) -> float:
        apart, many = np.unique(scores, return_counts=True)
        bits = SystemBits()
        places = [law.draw_runs(many, apart, bits)[0] for _ in range(draws)]
        return float(np.maximum(apart[places], 0).mean() / 2)

    lines = [
        "Mean rank error of a median, one row added or removed: the planner's own law, exactly and of as many draws as OpenDP's.",
        "", "| rows | column | ε | mechanism | exact | drawn | OpenDP, ± 2 s.e. | ours over OpenDP's |", "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    replaced = [
        "Where a row is replaced: each mechanism by itself, and the planner's own.",
        "", "| rows | column | ε | exponential | permute-and-flip | the planner's | over the better |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    worst, most = 0.0, 0.0
    for size in SIZES:
        for name, (top, rows) in columns(size).items():
            scores = scored(top, rows)
            for epsilon in EPSILONS:
                law = law_of(top, size, epsilon, "add_remove", None)
                job = {"top": top, "rows": rows, "epsilon": epsilon, "draws": DRAWS[size]}
                told = subprocess.run(
                    [python, __file__, "--draw"],
                    input=json.dumps(job),
                    capture_output=True,
                    text=True,
                    check=True,
                )
                theirs = np.maximum(scores[np.array(json.loads(told.stdout), dtype=int)], 0) / 2
                mean, doubt = theirs.mean(), 2 * theirs.std() / math.sqrt(theirs.size)
                mine = exact(law, scores)
                ratio = (mine + 0.5) / (mean + 0.5) if mean < 0.5 else mine / mean
                worst = max(worst, ratio - doubt / max(0.5, mean))
                lines.append(
                    f"| {size:,} | {name} | {epsilon} | {law.family} | {mine:.3f} | {drawn(law, scores, DRAWS[size]):.3f} "
                    f"| {mean:.3f} ± {doubt:.3f} | {ratio:.2f} |"
                )
                both = [
                    exact(law_of(top, size, epsilon, "substitution", m), scores)
                    for m in ("exponential", "permute_and_flip")
                ]
                own = exact(law_of(top, size, epsilon, "substitution", None), scores)
                most = max(most, (own + 1e-9) / (min(both) + 1e-9))
                replaced.append(
                    f"| {size:,} | {name} | {epsilon} | {both[0]:.3f} | {both[1]:.3f} | {own:.3f} | {(own + 1e-9) / (min(both) + 1e-9):.2f} |"
                )
                print(lines[-1], replaced[-1], sep="\n", flush=True)
    lines += [
        "",
        "Where OpenDP's error is below half a row, half a row is added to both.",
        _laws(worst, most),
        "",
        *replaced,
    ]
    (Path(__file__).parent / "results" / "medians.md").write_text("\n".join(lines) + "\n")
    if worst > 1.05 or most > 1.02:
        raise SystemExit("a law of the page does not hold")


if __name__ == "__main__":
    if sys.argv[1:] == ["--draw"]:
        print(json.dumps(opendp(json.load(sys.stdin))))
    else:
        main(*sys.argv[1:])
