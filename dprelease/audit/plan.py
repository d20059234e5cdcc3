"""The audit of one plan: its laws, made-up neighbours, draws. Reads no private row.

    exact laws     every law of the plan over all answers, against its own epsilon           (A)
    exact pairs    the whole plan between neighbouring tables, through the engine            (A)
    draws          every law's draws against its table                                       (B)
    black box      the real wall on the pairs that cost most, tested by what comes out       (C)

A finding says what was looked at, what was claimed, what was found and how much was covered. What
could not be audited is a finding as well (`ok` None): it neither passes nor fails.

Units    nats. Sources: `docs/theory/certificates.md#audits`.
Limits   evidence, not proof: exact pairs are exact for the pairs looked at; the black box bounds
         epsilon from below. The proof is the certificate that the wall recomputes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from dprelease.audit.answers import aligned, answer_of, cells_of
from dprelease.audit.black_box import ALPHA, strongest_event
from dprelease.audit.found import key_fits, worst_delta
from dprelease.audit.joint import joint_fit
from dprelease.audit.laws import worst_ratio
from dprelease.audit.neighbours import Pair, neighbouring_tables
from dprelease.audit.pairs import PairLoss, pair_loss
from dprelease.audit.recursive import recursive_fit
from dprelease.audit.repeated import features_of, shown_of
from dprelease.audit.sampler import balanced_fits, draws_fit, ending_fit, exponential_fit, noise_fit
from dprelease.core.errors import InternalError
from dprelease.core.numeric import counted, shown
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.balanced import BalancedLaw
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.ending import EndingLaw
from dprelease.measurements.found import FoundLaw
from dprelease.measurements.gaussian import GaussianLaw
from dprelease.measurements.graph_box import GraphBoxLaw
from dprelease.measurements.joint_ranks import JointLaw
from dprelease.measurements.ranks import ExponentialLaw
from dprelease.measurements.recursive_ranks import RecursiveRanksLaw
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.measurements.truncated_mean import MeanLaw
from dprelease.measurements.winsorised import WinsorisedLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.law import GridLaw
from dprelease.query.answer import Answer
from dprelease.release_plan.plan import ReleasePlan

Progress = Callable[[str], None]
_UNLIKELY = 1e-6
_BLACK_BOXES = 3
_RUNS = 64
_SHOWN = 2_000
_CONFIRMED = 4
_ODD = ("None", "nan", "1e+308", "no declared", "back and forth", "self-loops")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Attributes:
        layer: "A exact laws", "A exact pairs", "B draws" or "C black box".
        subject: block or pair; ok: None where it could not be audited.
        claimed, found: in words; size: how much was covered; how: what told two tables apart.
    """

    layer: str
    subject: str
    ok: bool | None
    claimed: str
    found: str
    size: str
    how: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All findings of one plan; `engine` is what summed the rows beside the reference engine."""

    plan_hash: str
    guarantee: str
    engine: str
    findings: tuple[Finding, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether nothing was found to break its claim."""
        return all(f.ok is not False for f in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "plan_hash": self.plan_hash,
            "guarantee": self.guarantee,
            "engine": self.engine,
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "findings": [asdict(f) for f in self.findings],
        }


def audit_plan(
    plan: ReleasePlan,
    engine: Any,
    *,
    draws: int = 20_000,
    pairs: int = 12,
    engine_name: str = "the given engine",
    progress: Progress | None = None,
) -> Evidence:
    """Audit `plan` on made-up rows.

    Args:
        engine: what sums the rows (`pipeline.preflight.engine_named`).
        draws: per law and per table of the black box.
        pairs: steers how many mixed contents of a unit are tried.
        engine_name: what the evidence calls the engine.
        progress: told the layer and the subject of every finding.
    """
    start = time.perf_counter()
    report = progress or (lambda _: None)
    findings: list[Finding] = []
    if plan.tables is not None:
        said = "several tables that are fitted to each other are not audited yet"
        findings.append(Finding("A exact laws", "tables", None, plan.guarantee, said, "none", ""))
        return Evidence(plan.hash, plan.in_words(plan.guarantee), engine_name, tuple(findings), 0.0)
    for part in (
        _laws(plan),
        _draws(plan, draws),
        _tables(plan, engine, engine_name, draws, pairs),
    ):
        for finding in part:
            findings.append(finding)
            report(f"{finding.layer}: {finding.subject}")
    return Evidence(
        plan.hash,
        plan.in_words(plan.guarantee),
        engine_name,
        tuple(findings),
        time.perf_counter() - start,
    )


_Law = tuple[str, GridLaw, Fraction]


def _parts(plan: ReleasePlan) -> Iterator[_Law]:
    """Yield (name, law, epsilon it is held to) of every grid law of the plan."""
    for block in plan.blocks:
        whole = block.law
        match whole:
            case ScalarCellLaw():
                yield block.name, whole.law, whole.law.epsilon
            case MeanLaw():
                yield f"{block.name}, size", whole.size.law, whole.size.law.epsilon
                top = whole.size.law.allowed.upper
                for size in sorted({1, max(1, math.isqrt(max(1, top))), max(1, top)}):
                    yield (
                        f"{block.name}, mean at size {size:,}",
                        whole.law(size),
                        whole.epsilon,
                    )
            case GraphBoxLaw():  # the sides share the box's epsilon; the pairs see their sum
                for i, (law, steps) in enumerate(zip(whole.law.laws, whole.law.moved, strict=True)):
                    if steps:
                        yield (
                            f"{block.name}, side {i + 1}",
                            replace(law, sensitivity=steps),
                            whole.law.epsilon,
                        )
            case _:
                continue


def _laws(plan: ReleasePlan) -> Iterator[Finding]:
    for name, law, claim in _parts(plan):
        worst = worst_ratio(law)
        hull = law.allowed.hull_steps + 1
        yield Finding(
            "A exact laws",
            f"{name}: {law.family}",
            worst.within(claim),
            f"epsilon {shown(claim)}",
            f"largest loss {worst.nats:.9g}",
            f"{worst.pairs:,} pairs of {hull:,} answers" + ("" if worst.complete else ", a choice"),
        )

    for block, found in ((b, b.law) for b in plan.blocks if isinstance(b.law, FoundLaw)):
        delta = 1 - (1 - worst_delta(found.noise, block.epsilon / found.keys)) ** found.keys
        yield Finding(
            "A exact laws",
            f"{block.name}: {found.tag}",
            delta <= block.delta,
            f"delta {shown(block.delta)} at epsilon {shown(block.epsilon)}",
            f"delta {float(delta):.9g}",
            f"{counted(found.keys, 'key')} of any number of persons and one more",
        )


def _draws(plan: ReleasePlan, count: int) -> Iterator[Finding]:
    tests: list[tuple[str, str, list[float]]] = []
    for name, law, _ in _parts(plan):
        low, high = law.allowed.lower, law.allowed.upper
        answers = sorted({low, (low + high) // 2, high})
        tests.append((name, law.family, [draws_fit(law, a, count) for a in answers]))
    for block in plan.blocks:
        match whole := block.law:
            case BalancedLaw():
                fits = balanced_fits(whole.noise, count)
            case CellLaw() | GaussianLaw():
                fits = [noise_fit(whole.noise, count)]
            case EndingLaw():
                fits = [ending_fit(whole.noise, count)]
            case FoundLaw():
                fits = key_fits(whole.noise, count)
            case JointLaw():
                fits = [joint_fit(whole, min(count, 2**13))]
            case RecursiveRanksLaw():
                fits = recursive_fit(whole, min(count, 2**13))
            case WinsorisedLaw():
                wide = replace(whole.noise, noise=whole.noise_at(0, whole.allowed.hull_steps))
                fits = [noise_fit(n, count) for n in (whole.noise, wide)]
                tests.append(
                    (f"{block.name}, limits", "exponential", _choice_fits(whole.choice, count))
                )
            case ExponentialLaw():
                fits = _choice_fits(whole.law, count)
            case _:
                continue
        tests.append((block.name, whole.mechanism, fits))
    total = sum(len(p) for _, _, p in tests)
    for name, family, p in tests:
        yield Finding(
            "B draws",
            f"{name}: {family}",
            min(p) >= _UNLIKELY / total,
            "its own table",
            f"smallest p-value {min(p):.3g}",
            f"{count:,} draws" + (f" at each of {len(p)} answers" if len(p) > 1 else ""),
        )


def _choice_fits(law: ScoreLaw, count: int) -> list[float]:
    """Return the p-values of draws of one choice at rising and at falling scores."""
    runs = min(law.candidates, _RUNS)
    counts = np.full(runs, law.candidates // runs, dtype=np.int64)
    counts[-1] += law.candidates - int(counts.sum())
    rising, few = np.arange(runs, dtype=np.int64), min(count, 2**22 // runs)
    return [exponential_fit(law, counts, s, few) for s in (rising, rising[::-1].copy())]


_Found = tuple[float, PairLoss, Pair, tuple[Answer, Answer]]


def _tables(
    plan: ReleasePlan, engine: Any, engine_name: str, draws: int, most: int
) -> Iterator[Finding]:
    found = _searched(plan, most)
    if not found:
        yield Finding(
            "A exact pairs", "neighbouring tables", None, plan.guarantee,
            "not audited: the plan reads a view, whose tables are not made up", "0 pairs",
        )  # fmt: skip
        return
    share, _, worst, _ = found[0]
    of = "delta" if plan.delta else "epsilon"
    claim = plan.delta or plan.epsilon
    yield Finding(
        "A exact pairs",
        f"worst: {worst.name}",
        all(_holds(plan, cost) for _, cost, _, _ in found),
        f"{of} {shown(claim)}" + (f" at epsilon {shown(plan.epsilon)}" if plan.delta else ""),
        f"{of} {share * float(claim):.6g}",
        f"{len(found)} pairs, reference engine"
        + (
            ""
            if all(cost.complete for _, cost, _, _ in found)
            else ", a choice of ratios that tie to 1e-9"
        ),
    )
    odd = [f for f in found if any(word in f[2].name for word in _ODD)]
    again = list({f[2].name: f for f in [*found[:_CONFIRMED], *odd[:_CONFIRMED]]}.values())
    alike, costs = True, []
    confirmed: list[tuple[str, tuple[Answer, Answer]]] = []
    try:
        for _, _, pair, both in again:
            own = aligned(*(answer_of(plan, rows, engine) for rows in (pair.first, pair.second)))
            alike &= all(_same(a, b) for a, b in zip(both, own, strict=True))
            costs.append(pair_loss(plan, cells_of(plan, own[0]), cells_of(plan, own[1])))
            confirmed.append((pair.name, own))
        said = "same" if alike else "OTHER"
        most_said = (
            f"{said} integers, {of} {max(_share(plan, c) for c in costs) * float(claim):.6g}"
        )
    except InternalError as failed:  # an engine is total, so made-up rows may not stop it
        alike, most_said = False, f"it fails on made-up rows ({failed.code})"
    yield Finding(
        "A exact pairs",
        f"engine: {engine_name}",
        alike and all(_holds(plan, c) for c in costs),
        f"same integers, {of} {shown(claim)}",
        most_said,
        f"{len(again)} of the pairs",
    )
    for name, own in confirmed[:_BLACK_BOXES]:
        yield _black_box(plan, name, own, draws)


def _searched(plan: ReleasePlan, most: int) -> list[_Found]:
    """Return all pairs with their cost by the slow obvious engine, the most costly first."""
    engine = ReferenceEngine()
    known: dict[str, Answer] = {}

    def answer(rows: pa.Table) -> Answer:
        key = repr(rows.to_pydict())
        if key not in known:
            known[key] = answer_of(plan, rows, engine)
        return known[key]

    found: list[_Found] = []
    for pair in neighbouring_tables(plan, most=most):
        both = aligned(answer(pair.first), answer(pair.second))
        cost = pair_loss(plan, cells_of(plan, both[0]), cells_of(plan, both[1]))
        found.append((_share(plan, cost), cost, pair, both))
    return sorted(found, key=lambda f: -f[0])


def _same(one: Answer, other: Answer) -> bool:
    both = [(t, other.tables[i]) for i, t in one.tables.items()]
    both += [(t, other.tallies[i]) for i, t in one.tallies.items()]
    tables = (np.array_equal(t, o) for t, o in both)
    return one.keys == other.keys and np.array_equal(one.sums, other.sums) and all(tables)


def _share(plan: ReleasePlan, cost: PairLoss) -> float:
    """Return the share of the claim that a pair costs."""
    if plan.delta:
        return cost.delta_at_least(plan.epsilon) / float(plan.delta)
    return cost.nats / float(plan.epsilon)


def _holds(plan: ReleasePlan, cost: PairLoss) -> bool:
    return (
        cost.delta_at_least(plan.epsilon) <= plan.delta if plan.delta else cost.within(plan.epsilon)
    )


def _black_box(plan: ReleasePlan, name: str, both: tuple[Answer, Answer], draws: int) -> Finding:
    delta = float(plan.delta)
    few = 0 if plan.query.groups.found else min(draws, _SHOWN)  # a list shows its noisy integers
    bounds = [
        strongest_event(*(made(plan, a, both, n) for a in both), alpha=ALPHA / 2, delta=delta)
        for made, n in ((features_of, draws), (shown_of, few))
        if n
    ]
    bound = max(bounds, key=lambda b: b.epsilon)
    return Finding(
        "C black box",
        name,
        all(b.epsilon <= plan.epsilon for b in bounds),
        f"epsilon {shown(plan.epsilon)}",
        f"epsilon at least {bound.epsilon:.4g}",
        f"{draws:,} draws per table, {few:,} of whole tables, half of them test; alpha {ALPHA:g}",
        bound.event,
    )
