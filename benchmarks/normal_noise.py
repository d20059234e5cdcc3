"""The scale of normal noise in whole plans, beside the analytic Gaussian, Google's dp_accounting and conversion through zCDP.

Every statistic is a count or a sum, of a table or per group, with its noise pinned to be normal. The plan's L2 move in scales
follows from its units. `exact` is the scale of the analytic Gaussian (Balle & Wang) for the plan's own moves, solved here in 40
digits; `accounting` is the least of dp_accounting's privacy loss distributions, in an environment of its own; `zCDP` is what
this library drew until now: discrete Gaussian noise of a whole square, at the rho that converts to the budget.

Run: `python benchmarks/normal_noise.py --accounting .bench/accounting/bin/python` (see the Makefile).
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp

from dprelease.budget.concentrated import zcdp_rho
from dprelease.measurements.gaussian import GaussianLaw
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute

PAGE = Path(__file__).parent / "results" / "normal_noise.md"
BUDGETS = [("0.1", "1e-6"), ("1", "1e-6"), ("1", "1e-10"), ("4", "1e-6"), ("10", "1e-9")]
SIZES = (1, 2, 5, 20, 100)
GROUPS = [f"g{i}" for i in range(30)]
UNITS: dict[str, dict[str, Any]] = {
    "rows": {},
    "rows, replaced": {"adjacency": "substitution"},
    "persons in 5 of 30 groups": {
        "unit": {"user": "who", "max_groups": 5, "max_rows_per_group": 3},
        "by": ["g"],
    },
    "persons in 5 of 30 groups, replaced": {
        "adjacency": "substitution",
        "unit": {"user": "who", "max_groups": 5, "max_rows_per_group": 3},
        "by": ["g"],
    },
}
ACCOUNTANT = """
import json, sys
from dp_accounting import dp_event, mechanism_calibration as mc
from dp_accounting.pld import pld_privacy_accountant as pld
out = []
for epsilon, delta in json.load(sys.stdin):
    make = lambda: pld.PLDAccountant(value_discretization_interval=1e-4 * min(1.0, epsilon))
    out.append(mc.calibrate_dp_mechanism(make, dp_event.GaussianDpEvent, epsilon, delta, tol=1e-6 / epsilon))
json.dump(out, sys.stdout)
"""


def planned(count: int, unit: dict[str, Any], epsilon: str, delta: str) -> ReleasePlan:
    """Return the plan of so many counts and sums, checked by the wall."""
    kinds = ["count", "sum(x)"]
    wanted = [
        {"statistic": kinds[i % 2], "as": f"s{i}", "mechanism": "rectified_gaussian"}
        for i in range(count)
    ]
    more = {k: v for k, v in unit.items() if k != "by"}
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "normal",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"max": 10**6, "expected": 10_000},
            "columns": {
                "who": {"kind": "identifier"},
                "g": {"kind": "category", "values": GROUPS},
                "x": {"kind": "number", "range": [0, 100], "step": 1},
            },
            **more,
            "release": {
                "epsilon": epsilon,
                "delta": delta,
                "statistics": wanted,
                "by": unit.get("by", []),
            },
        }
    )
    plan = make_plan(resolve(schema, merge_release(schema)))
    assert execute.check(plan) <= Fraction(epsilon)
    return plan


def exact_mu(epsilon: str, delta: str) -> float:
    """Return the largest mu of which the analytic formula allows the budget."""
    with mp.workdps(40):
        e, d = mp.mpf(epsilon), mp.mpf(delta)
        low, high = mp.mpf(0), mp.mpf(20)
        for _ in range(120):
            mu = (low + high) / 2
            found = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
            low, high = (mu, high) if found <= d else (low, mu)
        return float(low)


def scales(plan: ReleasePlan, epsilon: str, delta: str) -> tuple[float, float, bool]:
    """Return (mu of the plan, mu that whole squares at the rho of zCDP leave, whether some noise is a step), over all blocks."""
    ours, before, least = 0.0, 0.0, False
    rho = zcdp_rho(Fraction(epsilon), Fraction(delta))
    total = sum(
        (b.law.noise.rho for b in plan.blocks if isinstance(b.law, GaussianLaw)), Fraction(0)
    )
    for block in plan.blocks:
        assert isinstance(block.law, GaussianLaw)
        noise = block.law.noise
        least |= noise.square == 1
        ours += noise.l2_square / float(noise.square)
        share = rho * noise.rho / total
        before += noise.l2_square / max(1, math.ceil(noise.l2_square / (2 * share)))
    return math.sqrt(ours), math.sqrt(before), least


def accounted(python: str) -> dict[tuple[str, str], float]:
    """Return dp_accounting's largest mu per budget."""
    asked = json.dumps([[float(e), float(d)] for e, d in BUDGETS])
    done = subprocess.run(
        [python, "-c", ACCOUNTANT], input=asked, capture_output=True, text=True, check=True
    )
    return {b: 1 / scale for b, scale in zip(BUDGETS, json.loads(done.stdout), strict=True)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--accounting", required=True)
    peer = accounted(parser.parse_args().accounting)
    began = time.process_time()
    lines = [
        "# Normal noise",
        "",
        "`python benchmarks/normal_noise.py`: scales of whole plans of counts and sums in parts of the analytic Gaussian's (1.000 is exact;",
        "smaller would not be private). `plan` is the largest over 1, 2, 5, 20 and 100 statistics. `zCDP` is what was drawn until now, `accounting` Google's",
        "dp_accounting with its privacy loss distributions for one continuous Gaussian.",
        "",
        "| ε, δ | unit | plan, by statistics | plan | zCDP | accounting |",
        "|---|---|---|---|---|---|",
    ]
    worst = 0.0
    for epsilon, delta in BUDGETS:
        best = exact_mu(epsilon, delta)
        for name, unit in UNITS.items():
            found = [scales(planned(n, unit, epsilon, delta), epsilon, delta) for n in SIZES]
            ours = [best / mu for mu, _, _ in found]
            before = max(best / mu for _, mu, _ in found)
            worst = max(worst, *(best / mu for mu, _, least in found if not least))
            each = ", ".join(f"{best / mu:.4f}{'*' if least else ''}" for mu, _, least in found)
            lines.append(
                f"| {epsilon}, {delta} | {name} | {each} | {max(ours):.4f} | {before:.4f} | {best / peer[epsilon, delta]:.4f} |"
            )
    lines += [
        "",
        f"The widest is {100 * (worst - 1):.3f} % wider than the analytic Gaussian.",
        "`*`: noise is never narrower than a step, which some counts would need here. Unless it is pinned, as here, Laplace noise is taken then: at ε = 10 it is 0 in 9,999 of 10,000 draws.",
        f"{len(BUDGETS) * len(UNITS) * len(SIZES)} plans were made and checked by the wall in {time.process_time() - began:.0f} seconds.",
        "",
    ]
    PAGE.write_text("\n".join(lines), encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
