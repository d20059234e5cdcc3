"""The audit of one plan: its laws, made-up neighbours, draws. Reads no private row.

    exact laws     every law of the plan over all answers, against its own epsilon           (A)
    exact pairs    the whole plan between neighbouring tables, through the engine            (A)
    draws          every law's draws against its table                                       (B)
    black box      the real wall on the pairs that cost most, tested by what comes out       (C)

A finding says what was looked at, what was claimed, what was found and how much was covered. What
could not be audited is a finding as well (`ok` None): it neither passes nor fails.

Units    nats. Sources: reliability 5.
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

from dprelease import execute
from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.black_box import ALPHA, strongest_event
from dprelease.audit.laws import worst_ratio
from dprelease.audit.neighbours import Pair, neighbouring_tables
from dprelease.audit.pairs import PairLoss, pair_loss
from dprelease.audit.sampler import choice_fit, draws_fit, noise_fit
from dprelease.engines.reference import ReferenceEngine
from dprelease.entropy import SystemBits
from dprelease.mechanisms.law import GridLaw
from dprelease.noised import Cells, assemble
from dprelease.numeric import plain
from dprelease.planning.draws import (
    BoxDraw,
    CellDraw,
    ChoiceDraw,
    GaussianDraw,
    MeanDraw,
    ScalarDraw,
    draw_from_json,
)
from dprelease.planning.model import ReleasePlan
from dprelease.query.answer import Answer
from dprelease.secret import Secret

__all__ = ["Evidence", "Finding", "audit_plan", "features_of", "shown_of"]

Progress = Callable[[str], None]
_UNLIKELY = 1e-6
_BLACK_BOXES = 3
_GROUPS = 2
_SHOWN = 2_000
_CONFIRMED = 4
_ODD = ("None", "nan", "1e+308", "no declared", "back and forth", "self-loops")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at.

    Attributes:
        layer: "A exact laws", "A exact pairs", "B draws" or "C black box".
        subject: block or pair; ok: None where it could not be audited.
        claimed, found: in words; size: how much was covered.
    """

    layer: str
    subject: str
    ok: bool | None
    claimed: str
    found: str
    size: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """All findings of one plan."""

    plan_hash: str
    guarantee: str
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
    progress: Progress | None = None,
) -> Evidence:
    """Audit `plan` on made-up rows.

    Args:
        engine: what sums the rows (`pipeline.stages.engine_named`).
        draws: per law and per table of the black box.
        pairs: steers how many mixed contents of a unit are tried.
    """
    start = time.perf_counter()
    tell = progress or (lambda _: None)
    findings: list[Finding] = []
    for part in (_laws(plan), _draws(plan, draws), _tables(plan, engine, draws, pairs)):
        for finding in part:
            findings.append(finding)
            tell(f"{finding.layer}: {finding.subject}")
    return Evidence(plan.hash, plan.guarantee, tuple(findings), time.perf_counter() - start)


_Law = tuple[str, GridLaw, Fraction]


def _parts(plan: ReleasePlan) -> Iterator[_Law]:
    """Yield (name, law, epsilon it is held to) of every grid law of the plan."""
    for block in plan.blocks:
        draw = draw_from_json(block.law)
        match draw:
            case ScalarDraw():
                yield block.name, draw.law, draw.law.epsilon
            case MeanDraw():
                yield f"{block.name}, size", draw.size.law, draw.size.law.epsilon
                top = draw.size.law.allowed.upper
                for size in sorted({1, max(1, math.isqrt(max(1, top))), max(1, top)}):
                    yield f"{block.name}, mean at size {size:,}", draw.law(size), draw.epsilon
            case BoxDraw():  # the sides share the box's epsilon; the pairs see their sum
                for i, (law, moved) in enumerate(zip(draw.law.laws, draw.law.moved, strict=True)):
                    if moved:
                        yield f"{block.name}, side {i + 1}", replace(law, shift=moved), draw.law.epsilon
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
            f"epsilon {_short(claim)}",
            f"largest loss {worst.nats:.9g}",
            f"{worst.pairs:,} pairs of {hull:,} answers" + ("" if worst.complete else ", a choice"),
        )


def _draws(plan: ReleasePlan, count: int) -> Iterator[Finding]:
    tests: list[tuple[str, str, list[float]]] = []
    for name, law, _ in _parts(plan):
        low, high = law.allowed.lower, law.allowed.upper
        answers = sorted({low, (low + high) // 2, high})
        tests.append((name, law.family, [draws_fit(law, a, count) for a in answers]))
    for block in plan.blocks:
        draw = draw_from_json(block.law)
        if isinstance(draw, CellDraw | GaussianDraw):
            tests.append((block.name, draw.mechanism, [noise_fit(draw.noise, count)]))
        elif isinstance(draw, ChoiceDraw):
            rising = np.arange(draw.law.candidates, dtype=np.int64)
            few = min(count, 2**24 // draw.law.candidates)
            found = [choice_fit(draw.law, s, few) for s in (rising, rising[::-1].copy())]
            tests.append((block.name, draw.mechanism, found))
    total = sum(len(p) for _, _, p in tests)
    for name, family, p in tests:
        yield Finding(
            "B draws",
            f"{name}: {family}",
            min(p) >= _UNLIKELY / total,
            "its own table",
            f"smallest p-value {min(p):.3g}",
            f"{len(p)} times {count:,} draws",
        )


_Found = tuple[float, bool, Pair, tuple[Answer, Answer]]


def _tables(plan: ReleasePlan, engine: Any, draws: int, most: int) -> Iterator[Finding]:
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
        all(ok for _, ok, _, _ in found),
        f"{of} {_short(claim)}" + (f" at epsilon {_short(plan.epsilon)}" if plan.delta else ""),
        f"{of} {share * float(claim):.6g}",
        f"{len(found)} pairs of tables, reference engine",
    )
    odd = [f for f in found if any(word in f[2].name for word in _ODD)]
    again = list({f[2].name: f for f in [*found[:_CONFIRMED], *odd[:_CONFIRMED]]}.values())
    alike, costs = True, []
    confirmed: list[tuple[str, tuple[Answer, Answer]]] = []
    for _, _, pair, both in again:
        own = answer_of(plan, pair.first, engine), answer_of(plan, pair.second, engine)
        alike &= all(_same(a, b) for a, b in zip(both, own, strict=True))
        costs.append(_judged(plan, pair_loss(plan, cells_of(plan, own[0]), cells_of(plan, own[1]))))
        confirmed.append((pair.name, own))
    yield Finding(
        "A exact pairs",
        "the pipeline's own engine",
        alike and all(ok for _, ok in costs),
        f"the same integers, {of} {_short(claim)}",
        f"{'the same' if alike else 'OTHER'} integers, {of} {max(c for c, _ in costs) * float(claim):.6g}",
        f"{len(again)} pairs of tables",
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
        both = answer(pair.first), answer(pair.second)
        cost = pair_loss(plan, cells_of(plan, both[0]), cells_of(plan, both[1]))
        found.append((*_judged(plan, cost), pair, both))
    return sorted(found, key=lambda f: -f[0])


def _same(one: Answer, other: Answer) -> bool:
    tables = (np.array_equal(t, other.tables[i]) for i, t in one.tables.items())
    return np.array_equal(one.sums, other.sums) and all(tables)


def _judged(plan: ReleasePlan, cost: PairLoss) -> tuple[float, bool]:
    """Return (share of the claim, within it)."""
    if plan.delta:
        at = cost.delta_at_least(plan.epsilon)
        return at / float(plan.delta), at <= plan.delta
    return cost.nats / float(plan.epsilon), cost.within(plan.epsilon)


def _black_box(plan: ReleasePlan, name: str, both: tuple[Answer, Answer], draws: int) -> Finding:
    delta = float(plan.delta)
    few = min(draws, _SHOWN)
    bounds = [
        strongest_event(*(made(plan, a, both, n) for a in both), alpha=ALPHA / 2, delta=delta)
        for made, n in ((features_of, draws), (shown_of, few))
    ]
    bound = max(bounds, key=lambda b: b.epsilon)
    return Finding(
        "C black box",
        name,
        all(b.epsilon <= plan.epsilon for b in bounds),
        f"epsilon {_short(plan.epsilon)}",
        f"epsilon at least {bound.epsilon:.4g} ({bound.event})",
        f"{draws:,} draws per table, {few:,} of whole tables, half of them test; alpha {ALPHA:g}",
    )


Columns = dict[str, np.ndarray[Any, Any]]


def features_of(
    plan: ReleasePlan, answer: Answer, both: tuple[Answer, Answer], draws: int
) -> Columns:
    """Return the noisy integers that `draws` releases of `answer` publish, `(draws,)` each.

    The query was run once; the wall draws a plan with every group `draws` times. Only groups where
    the two answers differ are drawn (at most two): the others have the same law under both.
    """
    _, cells, groups = _drawn(plan, answer, both, draws)
    out: Columns = {}
    for block in plan.blocks:
        raw = np.array(cells[block.name], dtype=np.float64).reshape(draws, -1)
        assert raw.shape[1] == groups * len(block.cells)
        out |= {f"{block.name}[{j}]": raw[:, j] for j in range(raw.shape[1])}
    return out


def shown_of(
    plan: ReleasePlan, answer: Answer, both: tuple[Answer, Answer], draws: int
) -> Columns:
    """Return what the tidy table of `draws` releases shows: numbers, their texts, statuses."""
    wide, cells, _ = _drawn(plan, answer, both, draws)
    table = assemble(wide.by, wide.keys, wide.statistics, wide.blocks, cells)
    out: Columns = {}
    for column in ("value", "lower", "upper", "consistent", "estimate", "status"):
        values = table[column].to_numpy(zero_copy_only=False).reshape(draws, -1)
        for j in range(values.shape[1]):
            out[f"{column}[{j}]"] = values[:, j]
            if column == "value":
                texts = [repr(v) for v in values[:, j].tolist()]
                out[f"text of {column}[{j}]"] = np.array(texts, dtype=object)
    return out


def _drawn(
    plan: ReleasePlan, answer: Answer, both: tuple[Answer, Answer], draws: int
) -> tuple[ReleasePlan, Cells, int]:
    """Return (plan with its groups `draws` times, their noisy integers, groups per release)."""
    groups = _differing(*both)
    wide = replace(plan, keys=tuple(plan.keys[g] for g in groups) * draws)
    if all(t.shape[0] == len(plan.keys) for t in answer.tables.values()):
        # the wall itself, once for all draws
        tables = {i: np.tile(t[groups], (draws, 1)) for i, t in answer.tables.items()}
        many = Secret(Answer(np.tile(answer.sums[groups], (draws, 1)), tables))
        return wide, execute.draw(wide, many), len(groups)
    cells: Cells = {}  # a graph's answer has no row per group: its cells are repeated instead
    for block, exact in zip(plan.blocks, cells_of(plan, answer), strict=True):
        drawn = draw_from_json(block.law).draw(np.tile(exact, (draws, 1)), SystemBits())
        cells[block.name] = tuple(tuple(line) for line in drawn.tolist())
    return wide, cells, len(groups)


def _differing(first: Answer, second: Answer) -> list[int]:
    differ = np.asarray(first.sums != second.sums).any(axis=1)
    for i, table in first.tables.items():
        other = second.tables[i]
        if table.shape == other.shape and table.shape[0] == differ.size:
            differ |= (table != other).any(axis=1)
    return np.flatnonzero(differ)[:_GROUPS].tolist() or [0]


def _short(value: Fraction) -> str:
    shown = plain(value)
    return f"{float(value):.6g}" if isinstance(shown, str) else str(shown)
