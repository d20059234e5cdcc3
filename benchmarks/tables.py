"""Accuracy and speed of publications that add up: `python benchmarks/tables.py [--mbi PYTHON]` writes results/tables.md.

Synthetic census of 50 uneven regions, 3,000 districts and 100,000 cells, and a cross of 16 carriers,
3 origins, 12 months in quarters. Noise is drawn by numpy here (nothing is released); structure,
planning, estimates, published values, intervals and certificates are the library's. Seconds are the processor's.

`--mbi` names an interpreter with `opendp[mbi]`: mbi, which OpenDP's contingency tables call, is then given the same
noisy tables of the cross (`benchmarks/tables_mbi.py`).
"""

from __future__ import annotations

import argparse
import json
import platform
import runpy
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from peak import peak_bytes

import dprelease as dp
from dprelease.fitting.certificate import gaps, violations
from dprelease.fitting.estimate import ONE
from dprelease.fitting.feasible import feasible
from dprelease.fitting.interval import ends, half_widths
from dprelease.fitting.least_squares import estimator
from dprelease.fitting.levels import Kind, choose
from dprelease.fitting.nearest import nearest
from dprelease.fitting.structure import Dimension, Structure, crossed, nested
from dprelease.intervals.noise import Gaussian, Laplace, Noise

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "benchmarks" / "results" / "tables.md"
WIDE, GAP = ((0, 10**8),), ((0, 0), (10, 10**8))
LEVEL = 0.95
ROUNDS = 200
MBI_SEED, MBI_ROUNDS = 11, 50
"""Draws that mbi is given as well."""


@dataclass
class World:
    """A structure, its exact finest cells, and what may be published."""

    name: str
    structure: Structure
    truth: np.ndarray
    domain: tuple[tuple[int, int], ...] = WIDE

    def exact(self) -> dict[str, np.ndarray]:
        return {
            t.name: np.bincount(t.of, self.truth, minlength=t.cells).astype(np.int64)
            for t in self.structure.tables
        }


def census(n: int, districts: int, regions: int, rng: np.random.Generator) -> Structure:
    def spread(cells: int, groups: int) -> np.ndarray:
        return np.sort(np.append(np.arange(groups), rng.integers(0, groups, cells - groups)))

    region, district = spread(districts, regions), spread(n, districts)
    return nested(
        {
            "nation": np.zeros(n, dtype=np.int64),
            "region": region[district],
            "district": district,
            "leaf": np.arange(n),
        }
    )


def flights() -> Structure:
    month = np.arange(12)
    axes = [Dimension((np.arange(16),)), Dimension((np.arange(3),)), Dimension((month // 3, month))]
    return crossed(
        axes,
        {
            "all": (0, 0, 0),
            "carrier": (1, 0, 0),
            "origin": (0, 1, 0),
            "both": (1, 1, 0),
            "month": (1, 1, 2),
        },
    )


def noise_of(kind: Kind, budget: Fraction, share: Fraction) -> Noise | None:
    if not share:
        return None
    if kind == "pure":
        return Laplace(budget * share)
    return Gaussian(round(1 / (2 * budget * share)))


def drawn(noise: Noise, cells: int, rng: np.random.Generator) -> np.ndarray:
    if isinstance(noise, Laplace):
        p = -np.expm1(-float(noise.rate))
        return rng.geometric(p, cells) - rng.geometric(p, cells)
    return np.round(rng.normal(0, noise.square**0.5, cells)).astype(np.int64)


def timed(seconds: list[float], call: Callable[[], object]) -> object:
    start = time.process_time()
    out = call()
    seconds.append(time.process_time() - start)
    return out


def tried(world: World, kind: Kind, budget: Fraction, rounds: int, seed: int) -> list[list[str]]:
    """Fit `rounds` draws; return a row of the page per table."""
    rng = np.random.default_rng(seed)
    structure, exact = world.structure, world.exact()
    choice = choose(structure, {t.name: 1 for t in structure.tables}, budget=budget, kind=kind)
    noises = {name: noise_of(kind, budget, share) for name, share in choice.shares.items()}
    made = estimator(structure, noises)
    variances = {t.name: made.variance(t.name) for t in structure.tables}
    halves = {}
    for t in structure.tables:
        per_class = half_widths(made, t.name, LEVEL)
        halves[t.name] = [
            per_class[k] for k in np.unique(made.classes(t.name), return_inverse=True)[1]
        ]
    domains = {t.name: world.domain for t in structure.tables}
    reachable = feasible(structure, domains)
    squares: dict[str, tuple[list[float], list[float]]] = {
        t.name: ([], []) for t in structure.tables
    }
    covered: dict[str, list[float]] = {t.name: [] for t in structure.tables}
    broken, over = 0, dict.fromkeys((structure.tables[j].name for j in structure.chain), 0.0)
    for _ in range(rounds):
        noisy = {
            name: (exact[name] + drawn(noise, exact[name].size, rng)).tolist()
            for name, noise in noises.items()
            if noise
        }
        found = made.estimates(noisy, {})
        fit = nearest(structure, reachable, found, variances)
        broken += len(violations(structure, domains, {}, fit.values))
        some = gaps(structure, reachable.sets, found.values, variances, fit.values, fit.proof)
        over = {name: over[name] + float(some[name]) for name in over}
        for name, truth in exact.items():
            estimate = np.array(found.values[name], dtype=float) / ONE
            low, high = ends(found.values[name], halves[name], (0, 10**8), slack=found.slack)
            squares[name][0].append(float(np.mean((estimate - truth) ** 2)))
            squares[name][1].append(float(np.mean((np.array(fit.values[name]) - truth) ** 2)))
            covered[name].append(
                float(((np.array(low) <= truth) & (truth <= np.array(high))).mean())
            )
    ratio = "" if choice.bound is None else f"{(choice.reached / choice.bound) ** 0.5:.3f}"
    rows = []
    for t in structure.tables:
        own = choice.alone[t.name] ** 0.5
        estimate, published = (float(np.mean(s)) ** 0.5 for s in squares[t.name])
        distance = f"{(over[t.name] / rounds / t.cells):.2g}" if t.name in over else "sums"
        error = 3 * float(np.std(covered[t.name])) / rounds**0.5
        spread = (
            3 * float(np.std(squares[t.name][0]) / np.mean(squares[t.name][0])) / 2 / rounds**0.5
        )
        rows.append(
            [
                world.name, kind, t.name, f"{float(choice.shares[t.name]):.3f}", f"{own:.2f}",
                f"{choice.after[t.name] ** 0.5:.2f}", f"{estimate:.2f}", f"{published:.2f}",
                f"{np.mean(covered[t.name]):.4f}", str(broken), distance, ratio,
                f"{error:.4f}", f"{spread:.3f}",
            ]
        )  # fmt: skip
    return rows


def large(domain: tuple[tuple[int, int], ...], rng: np.random.Generator) -> list[str]:
    """Return seconds of estimates, fit, intervals and certificate over 100,000 leaves."""
    structure = census(100_000, 3_000, 50, rng)
    truth = rng.poisson(rng.gamma(0.5, 30, structure.n))
    truth = np.where(truth < 10, 0, truth) if len(domain) > 1 else truth
    world = World("", structure, truth, domain)
    noise = Laplace(Fraction(1, 8))
    made = estimator(structure, {t.name: noise for t in structure.tables})
    variances = {t.name: made.variance(t.name) for t in structure.tables}
    domains = {t.name: domain for t in structure.tables}
    noisy = {n: (x + drawn(noise, x.size, rng)).tolist() for n, x in world.exact().items()}
    seconds: list[float] = []
    reachable = timed(seconds, lambda: feasible(structure, domains))
    halves = timed(seconds, lambda: {t.name: half_widths(made, t.name) for t in structure.tables})
    found = timed(seconds, lambda: made.estimates(noisy, {}))
    fit = timed(seconds, lambda: nearest(structure, reachable, found, variances))

    def intervals() -> None:
        for t in structure.tables:
            cells = [halves[t.name][k] for k in made.classes(t.name)]
            ends(found.values[t.name], cells, (0, 10**8), slack=found.slack)

    timed(seconds, intervals)
    timed(
        seconds,
        lambda: gaps(structure, reachable.sets, found.values, variances, fit.values, fit.proof),
    )
    broken = violations(structure, domains, {}, fit.values)
    assert not broken
    words = "0 or at least 10" if len(domain) > 1 else "at least 0"
    return [words, *[f"{s:.1f}" for s in seconds], str(fit.mended)]


def faint(rng: np.random.Generator, rounds: int) -> list[str]:
    """Noise about as large as the signal: a root of 500 over 3,000 leaves.

    Returns the RMSE of the published root beside that of its own noisy number in the same draws, the
    same less three standard errors, and how often the root's interval held the published value.
    """
    structure = nested({"root": np.zeros(3000, dtype=np.int64), "leaf": np.arange(3000)})
    noise = Laplace(Fraction(1, 2))
    made = estimator(structure, {"root": noise, "leaf": noise})
    variances = {t.name: made.variance(t.name) for t in structure.tables}
    reachable = feasible(structure, {"leaf": WIDE})
    half = half_widths(made, "root")
    truth = np.bincount(rng.integers(0, 3000, 500), minlength=3000)
    errors, own, inside = [], [], 0
    for _ in range(rounds):
        own.append(int(drawn(noise, 1, rng)[0]))
        noisy = {
            "root": [500 + own[-1]],
            "leaf": (truth + drawn(noise, 3000, rng)).tolist(),
        }
        found = made.estimates(noisy, {})
        fit = nearest(structure, reachable, found, variances)
        low, high = ends(found.values["root"], half, (0, 10**8), slack=found.slack)
        value = fit.values["root"][0]
        errors.append(value - 500)
        inside += low[0] <= value <= high[0]
    squares, alone = np.square(errors, dtype=float), np.square(own, dtype=float)
    error = 3 * float(np.std(squares - alone)) / rounds**0.5
    ratio = float(np.mean(squares) / np.mean(alone))
    least = float((np.mean(squares) - error) / np.mean(alone))
    return [f"{ratio**0.5:.4f}", f"{max(least, 0.0) ** 0.5:.4f}", f"{inside / rounds:.3f}"]


def through_the_door() -> list[str]:
    """Return cells, seconds of `dp.release` with plan and scan, and of the plan alone, of examples/census.py."""
    example = runpy.run_path(str(ROOT / "examples" / "census.py"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        people = example["make"](folder, example["DISTRICTS"])
        schema = folder / "census.yaml"
        shutil.copy(ROOT / "examples" / "census.yaml", schema)
        ledger = dp.create_ledger(folder / "ledger.db", schema, epsilon=2)
        seconds: list[float] = []
        timed(seconds, lambda: dp.plan(schema))
        release = timed(seconds, lambda: dp.release(people, schema, ledger=ledger, period="2026"))
        cells = sum(t.num_rows for t in release.tables.values())  # type: ignore[attr-defined]
    return [f"{cells:,}", *(f"{s:.1f}" for s in reversed(seconds))]


def beside(python: str, world: World, budget: Fraction) -> list[str]:
    """Return what mbi makes of the same noisy tables: with the shares of the plan, and with those that OpenDP gives."""
    names = [t.name for t in world.structure.tables]
    chosen = choose(world.structure, dict.fromkeys(names, 1), budget=budget, kind="zcdp").shares
    equal = {name: Fraction(name != "all", len(names) - 1) for name in names}
    rows, seconds = [], []
    for words, shares in (("of the plan", chosen), ("equal, `all` without one", equal)):
        squares: dict[tuple[str, str], list[float]] = {}
        found = _paired(python, world, budget, shares, squares)
        seconds.append(float(found["seconds"]))
        for name in names:
            mbi, estimate, own = (
                float(np.mean(squares[name, k])) ** 0.5 for k in ("mbi", "estimate", "own")
            )
            ratio = own / mbi
            off = np.array(squares[name, "own"]) - ratio**2 * np.array(squares[name, "mbi"])
            error = (
                float(np.std(off))
                / len(off) ** 0.5
                / float(np.mean(squares[name, "mbi"]))
                / 2
                / ratio
            )
            kept = _kept(ratio <= 1.02 or own - mbi <= 0.3)
            rows.append(
                [
                    words,
                    name,
                    f"{mbi:.2f}",
                    f"{estimate:.2f}",
                    f"{own:.2f}",
                    f"{ratio:.3f}",
                    f"{3 * error:.3f}",
                    kept,
                ]
            )
    return [
        f"The same noisy tables of the cross (ρ = 1/50, normal noise) fitted by mbi {found['version']} (private-pgm), which OpenDP's contingency",
        f"tables call, {MBI_ROUNDS} draws, {np.mean(seconds):.1f} processor seconds each: root of the mean squared error per cell. Both are given the same",
        "numbers, so that the ratio is of the fits alone. mbi's tables are margins of one model: they add up and are not negative,",
        "but they are no whole numbers and have no intervals. Asked: at most 1.02 of mbi's error, or within 0.3 rows of it.",
        "",
        *table(["shares", "table", "mbi", "estimate here", "published here", "published / mbi", "3 s.e.", "kept"], rows),
    ]  # fmt: skip


def _paired(
    python: str,
    world: World,
    budget: Fraction,
    shares: dict[str, Fraction],
    squares: dict[tuple[str, str], list[float]],
) -> dict[str, Any]:
    """Fit the same draws here and by mbi, and add their mean squared errors; return what mbi's side says."""
    rng, structure, exact = np.random.default_rng(MBI_SEED), world.structure, world.exact()
    noises = {n: x for n, part in shares.items() if (x := noise_of("zcdp", budget, part))}
    draws = [
        {n: (exact[n] + drawn(x, exact[n].size, rng)).tolist() for n, x in noises.items()}
        for _ in range(MBI_ROUNDS)
    ]
    columns = ("carrier", "origin", "month")
    asked = {
        "sizes": {c: axis.size for c, axis in zip(columns, structure.axes, strict=True)},
        "tables": {t.name: [c for c, k in zip(columns, t.level, strict=True) if k] for t in structure.tables},
        "noise": {n: float(x.variance()) ** 0.5 for n, x in noises.items()},
        "draws": draws,
    }  # fmt: skip
    found = _asked(python, asked)
    made = estimator(structure, noises)
    variances = {t.name: made.variance(t.name) for t in structure.tables}
    reachable = feasible(structure, {t.name: world.domain for t in structure.tables})
    for noisy, other in zip(draws, found["draws"], strict=True):
        estimates = made.estimates(noisy, {})
        fit = nearest(structure, reachable, estimates, variances)
        for name, truth in exact.items():
            each = {
                "mbi": np.array(other[name]),
                "estimate": np.array(estimates.values[name], dtype=float) / ONE,
                "own": np.array(fit.values[name]),
            }
            for kind, values in each.items():
                squares.setdefault((name, kind), []).append(float(np.mean((values - truth) ** 2)))
    return found


def _asked(python: str, asked: dict[str, Any]) -> dict[str, Any]:
    run = subprocess.run(
        [python, str(ROOT / "benchmarks" / "tables_mbi.py")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [titles, ["---"] * len(titles), *rows]
    return [f"| {' | '.join(line)} |" for line in lines] + [""]


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure publications that add up.")
    parser.add_argument("--mbi", help="an interpreter with opendp[mbi]")
    peer = parser.parse_args().mbi
    rng = np.random.default_rng(17)
    small = census(600, 60, 6, rng)
    small_truth = rng.poisson(rng.gamma(0.5, 30, small.n))
    cross = flights()
    cross_truth = rng.poisson(rng.gamma(0.4, 90, cross.n))
    worlds = [
        World("census", small, small_truth),
        World("census, gaps", small, np.where(small_truth < 10, 0, small_truth), GAP),
        World("flights", cross, cross_truth),
    ]
    rows = [
        row
        for k, world in enumerate(worlds)
        for kind, budget in (("pure", Fraction(1, 2)), ("zcdp", Fraction(1, 50)))
        for row in tried(world, kind, budget, ROUNDS, 100 + k)  # type: ignore[arg-type]
    ]
    speed = [large(domain, rng) for domain in (WIDE, GAP)]
    door = through_the_door()
    peak = peak_bytes() / 2**20
    root = faint(rng, 400)
    worst = min(float(row[8]) + float(row[12]) for row in rows)
    share = max(float(row[11]) for row in rows if row[11])
    after = max(float(row[6]) / float(row[4]) * (1 - float(row[13])) for row in rows)
    fitted = max(sum(float(x) for x in row[3:6]) for row in speed)
    goals = [
        ["violations of sums and domains", "0", str(max(int(row[9]) for row in rows)), _kept(all(row[9] == "0" for row in rows))],
        ["coverage of intervals: the least of any table, plus three standard errors", "at least 0.95", f"{worst:.4f}", _kept(worst >= 0.95)],
        ["weighted error beside the residual planner's bound (zCDP)", "at most 1.1", f"{share:.3f}", _kept(share <= 1.1)],
        ["RMSE of estimates beside every table measured alone: the largest, less three standard errors", "at most 1", f"{after:.3f}", _kept(after <= 1)],
        ["estimates, fit and intervals of 100,000 leaves, seconds", "at most 10", f"{fitted:.1f}", _kept(fitted <= 10)],
        ["`dp.release` of the example census, plan and scan included, seconds", "at most 10", door[1], _kept(float(door[1]) <= 10)],
        ["peak memory of the process, MB", "at most 2,000", f"{peak:.0f}", _kept(peak <= 2000)],
        ["a root of 500 over 3,000 leaves: RMSE beside its own noise in the same draws", "at most 1, less three standard errors", root[0], _kept(float(root[1]) <= 1)],
        ["the same root inside its interval", "always", root[2], _kept(root[2] == "1.000")],
    ]  # fmt: skip
    text = [
        "# Publications that add up",
        "",
        "Written by `benchmarks/tables.py`; noise drawn by numpy, everything else by the library.",
        f"Python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}. Seconds are the processor's, of one run.",
        "",
        *table(["goal", "asked", "measured", "kept"], goals),
        f"{ROUNDS} draws each; budget ε = 1/2 or ρ = 1/50 over all tables; errors are roots of mean squares per cell, in rows.",
        "*alone*: every table measured alone with an equal part of the budget. *planned*: after fitting, in closed form.",
        "*distance*: what the certificate leaves open, in squared steps per cell (0: the nearest point).",
        "",
        *table(
            [
                "data",
                "noise",
                "table",
                "share",
                "alone",
                "planned",
                "estimate",
                "published",
                "coverage",
                "violations",
                "distance",
                "beside bound",
                "3 s.e. of coverage",
                "3 s.e. of RMSE",
            ],
            rows,
        ),
        *(beside(peer, worlds[2], Fraction(1, 50)) if peer else []),
        f"`examples/census.py`, {door[0]} published numbers in five tables: `dp.release` {door[1]} s, of which the plan {door[2]} s.",
        "",
        "1 nation, 50 uneven regions, 3,000 uneven districts, 100,000 leaves; seconds. *half widths* belong to the plan, before the charge.",
        "",
        *table(
            [
                "domain",
                "feasible",
                "half widths",
                "estimates",
                "fit",
                "intervals",
                "certificate",
                "parents mended",
            ],
            speed,
        ),
    ]
    PAGE.write_text("\n".join(text), encoding="utf-8")
    print("\n".join(text))


def _kept(yes: bool) -> str:
    return "yes" if yes else "**no**"


if __name__ == "__main__":
    main()
