"""How a release's (epsilon, delta) is spent: which blocks get what, and how that adds up.

Every way below that may be used is priced, all by the same declared errors, and the least total error wins:

    basic/1   pure losses that sum to epsilon; delta is not used
    types/1   of replaced units, the same losses raised until the largest sum for one type of change is epsilon; no delta
    kov/1     the same losses, all raised by one factor as far as optimal composition allows; laws
              that cover several groups are proved group by group if that is better
    normal/1  a total rho worth (epsilon, delta), split in the same way; normal noise where it is better than the pure
              laws. It counts by the analytic formula, they at the rho that is proved of them
    types+normal/1  of replaced units, the same rho raised until its largest sum for one type of change is the total
    zcdp/1    the same, where all count by their rho: no noise is normal, or the ledger adds up rho

Blocks whose noise ends come first: each gets a part of epsilon as in the first way, and an equal part of delta. The
other blocks are spent on as above, with what is left; where they use no delta those that end have all of it.

A way that uses delta must lower the total error by at least 1 %: below that, a pure guarantee is
worth more. The wall adds everything up again from the certificates (`release_plan.guarantee`).

Units: epsilon and rho in nats. In a total each error is a part of its own in the first way, weighted.
Sources: `docs/theory/composition.md#optimal-composition`, `docs/theory/composition.md#allocation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.allocation.allocate import allocate, whole_nano, widened
from dprelease.allocation.goals import has_goal, largest, least_budget, too_little
from dprelease.allocation.share import Priced, Pricer, Share
from dprelease.budget.composition import SUMS, WORDS, Proof, compose, parts_by_type, total_rho
from dprelease.budget.concentrated import zcdp_rho
from dprelease.budget.normal import normal_epsilon, normal_rho
from dprelease.core.errors import PlanError, VerificationError
from dprelease.core.numeric import NANO, first_holding, nano_up, plain
from dprelease.measurements.base import family_of
from dprelease.measurements.members import BlockLayout, Loss
from dprelease.release_plan.block import Composition, JointEvidence
from dprelease.release_plan.promise import certain_notes

_WORTH = 0.99
"""A way that uses delta wins below this multiple of the pure way's total error."""

TYPES = {"basic/1": "types/1", "normal/1": "types+normal/1"}
"""Ways whose losses are raised by types of change, and what they are called then."""

_TRIES, _LEAST = 12, Fraction(1, 1000)
"""No goal is funded with less epsilon than this, or the rho of it."""


@dataclass(frozen=True, slots=True)
class Spending:
    """The chosen way.

    Attributes:
        priced: every block at its share, in order.
        epsilon: what the release guarantees and is charged.
        composition: how it adds up; None for a sum without a delta.
        raised: by how much types of change raised its blocks' losses, all together.
    """

    priced: tuple[Priced, ...]
    epsilon: Fraction
    composition: Composition | None
    raised: Fraction = Fraction(1)

    def notes(self, delta: Fraction) -> tuple[str, ...]:
        """Return the plan's sentence about composition; none of a sum without a delta."""
        if self.composition is None:
            return ()
        method = self.composition.method
        ended = [p.block.name for p in self.priced if p.share.delta]
        if ended:
            others = "" if method in SUMS else f", those of the other blocks by {WORDS[method]}"
            return certain_notes(ended, self.composition.evidence.epsilon_upper, delta, others)
        if method == "basic/1":
            return ("every mechanism here is pure: the guarantee holds with delta 0 as well",)
        total = plain(self.composition.evidence.epsilon_upper)
        at = f" at delta={float(delta):.3g}" if method not in SUMS else ""
        said = f"the blocks together cost epsilon {total}{at} by {WORDS[method]}; their own epsilons do not add up to it"
        by_rho = "a ledger that adds up rho would charge the rho of all blocks: `composition: zcdp` makes a plan for it"
        return (said, by_rho) if method in TYPES.values() else (said,)


def spend(
    blocks: Sequence[BlockLayout], epsilon: Fraction, delta: Fraction, loss: Loss, pricer: Pricer
) -> Spending:
    """Spend (epsilon, delta) on `blocks`.

    Statistics with a `max_error` get the least budget that meets it, the others share the rest.
    Epsilon 0 stands for what the goals need, where every statistic has one.

    Raises:
        PlanError: as `allocate`, a block has no admissible law (DPR212, DPR213), or a goal cannot
            be paid for, planned for or met (DPR240, DPR241, DPR242).
    """
    certain = [i for i, b in enumerate(blocks) if b.members[0].statistic.spec.certain]
    ended = [i for i in certain if not family_of(blocks[i].options[0]).free]
    if ended:
        return _with_ended(blocks, ended, epsilon, delta, loss, pricer)
    goals = [i for i, b in enumerate(blocks) if has_goal(b)]
    free = any(i not in goals and not family_of(b.options[0]).free for i, b in enumerate(blocks))
    problem: PlanError | None = None
    found: list[_Split] = []
    short: list[Fraction] = []
    for look in (_summed, _concentrated) if delta > 0 else (_summed,):
        try:
            split = look(blocks, epsilon, delta, loss, pricer, goals)
        except PlanError as refusal:  # counts only if no other way has a law
            problem = problem or refusal
        else:
            (found if isinstance(split, _Split) else short).append(split)  # type: ignore[arg-type]
    if short and not found:
        raise too_little(min(short), epsilon, blocks)
    if found and found[0].method == "basic/1" and delta > 0 and not goals:
        found += _raised(found[0].priced, epsilon, delta, pricer)
    if pricer.uses_types:
        found += [way for each in found for way in _by_type(each, epsilon, delta, pricer)]
    if not found:
        assert problem is not None
        raise problem
    if free or epsilon > 0:
        errors = [_total(w.priced, found[0].priced, loss, pricer) for w in found]
    else:  # every goal is met: the least epsilon wins
        errors = [float(w.epsilon) for w in found]
    best = min(range(len(found)), key=errors.__getitem__)
    if found[0].method == "basic/1" and errors[best] >= _WORTH * errors[0]:
        best = 0  # also where all statistics have goals: any way that can pay meets them
    split = found[best]
    if delta == 0 and split.method == "basic/1":
        return Spending(split.priced, split.epsilon, None)
    compared: dict[str, float] = {}
    for other, error in zip(found, errors, strict=True):
        compared[other.method] = min(error, compared.get(other.method, math.inf))
    return _spending(split, delta, pricer, tuple(compared.items()))


def _with_ended(
    blocks: Sequence[BlockLayout],
    ended: Sequence[int],
    epsilon: Fraction,
    delta: Fraction,
    loss: Loss,
    pricer: Pricer,
) -> Spending:
    """Spend on blocks of which some have noise that ends, as `spend` does."""
    others = [i for i in range(len(blocks)) if i not in ended]
    paid = any(not family_of(blocks[i].options[0]).free for i in others)
    goals = [i for i in ended if has_goal(blocks[i])]

    def each(parts: int) -> dict[int, Priced]:
        def priced_at(block: BlockLayout, amount: Fraction) -> Priced:
            return pricer.priced(block, Share(amount, delta=delta / parts))

        needed = _needed(blocks, goals, _LEAST, priced_at, pricer)
        amounts = allocate(blocks, epsilon, loss, needed=needed) if epsilon else needed
        return {i: priced_at(blocks[i], amounts[i]) for i in ended}

    found = each(len(ended) + paid)
    mine = sum((p.share.epsilon for p in found.values()), Fraction(0))
    left = delta * Fraction(int(paid), len(ended) + paid)
    rest = None
    if others:
        own = epsilon - mine if epsilon else Fraction(0)
        rest = spend([blocks[i] for i in others], own, left, loss, pricer)
        found |= dict(zip(others, rest.priced, strict=True))
    method = "basic/1" if rest is None or rest.composition is None else rest.composition.method
    if paid and method in SUMS:
        found |= each(len(ended))
    priced = tuple(found[i] for i in range(len(blocks)))
    total = mine + (Fraction(0) if rest is None else rest.epsilon)
    return _spending(_Split(method, priced, total), delta, pricer)


def _spending(
    split: _Split, delta: Fraction, pricer: Pricer, compared: tuple[tuple[str, float], ...] = ()
) -> Spending:
    proofs, raised = pricer.proofs(split.priced), Fraction(1)
    ended, method, total = any(p.delta for p in proofs), split.method, split.epsilon
    if method in TYPES.values():
        whole = total if method in SUMS else normal_rho(total, delta, len(proofs))
        raised = sum(map(split.part, split.priced), Fraction(0)) / whole
    record = Composition(
        method=method,
        evidence=JointEvidence(
            epsilon_upper=compose(method, proofs, delta),
            rho=None if ended else Fraction(nano_up(total_rho(proofs)), NANO),
        ),
        compared=compared,
    )
    return Spending(split.priced, total, record, raised)


def added_up(
    method: str,
    priced: tuple[Priced, ...],
    epsilon: Fraction,
    delta: Fraction,
    pricer: Pricer,
) -> Spending:
    """Return a spending that was chosen before, added up again; it says what `spend` said.

    Raises:
        VerificationError: no release of this epsilon and delta is spent like that (DPR805).
    """
    goals = sum(has_goal(p.block) for p in priced)
    if method == "basic/1":
        total = sum((p.share.epsilon for p in priced), Fraction(0))
    elif method in ("zcdp/1", "normal/1") and not (epsilon and goals < len(priced)):
        total = _charged(method, [p.proof for p in priced], delta)
    else:
        total = epsilon
    if method not in (WORDS if delta else SUMS) or (epsilon and total > epsilon):
        raise VerificationError(
            "the budget is not spent as the request allows",
            why=f"{plain(epsilon)} may be spent, by {method[:20]} it is {plain(total)}",
            fix="ask the publisher; a plan that was made from this request passes this check",
            code="DPR805",
        )
    if delta == 0 and method == "basic/1":
        return Spending(priced, total, None)
    return _spending(_Split(method, priced, total), delta, pricer)


@dataclass(frozen=True, slots=True)
class _Split:
    """One way to spend: the blocks at their shares, and what is charged for them."""

    method: str
    priced: tuple[Priced, ...]
    epsilon: Fraction

    def part(self, priced: Priced) -> Fraction:
        """Return what a block may cost: an epsilon, or a rho."""
        return priced.share.epsilon if self.method in SUMS else priced.share.rho or Fraction(0)


def _summed(
    blocks: Sequence[BlockLayout],
    epsilon: Fraction,
    delta: Fraction,
    loss: Loss,
    pricer: Pricer,
    goals: Sequence[int],
) -> _Split | Fraction:
    """Return the way of pure losses that sum to epsilon (0: what the goals need), or the epsilon that goals would need."""
    del delta  # the sum is pure
    needed: dict[int, Fraction] = {}
    if goals:
        needed = _needed(blocks, goals, _LEAST, lambda b, e: pricer.priced(b, Share(e)), pricer)
    for_goals = sum(needed.values(), Fraction(0))
    if epsilon and (for_goals > epsilon or (for_goals == epsilon and len(goals) < len(blocks))):
        return for_goals
    shares = allocate(blocks, epsilon or for_goals, loss, needed=needed)
    priced = tuple(pricer.priced(b, Share(e)) for b, e in zip(blocks, shares, strict=True))
    return _Split("basic/1", priced, sum(shares, Fraction(0)))


def _needed(
    blocks: Sequence[BlockLayout],
    goals: Sequence[int],
    lowest: Fraction,
    priced_at: Callable[[BlockLayout, Fraction], Priced],
    pricer: Pricer,
) -> dict[int, Fraction]:
    """Return what the goals of these blocks need, by block."""

    def errors(block: BlockLayout, amount: Fraction) -> Sequence[float | None]:
        return pricer.errors(priced_at(block, amount), farthest=True)

    return {i: least_budget(blocks[i], errors, lowest) for i in goals}


def _total(priced: Sequence[Priced], first: Sequence[Priced], loss: Loss, pricer: Pricer) -> float:
    """Return the weighted sum of a way's expected errors, each a part of its own in the first way."""
    power, total = 1 if loss == "absolute" else 2, 0.0
    for mine, other in zip(priced, first, strict=True):
        errors = pricer.comparable(mine), pricer.comparable(other)
        for member, error, least in zip(mine.block.members, *errors, strict=True):
            ratio = 1.0 if error == least else error / least if least > 0 else math.inf
            total += float(member.statistic.spec.weight) * ratio**power
    return total


def _by_type(split: _Split, epsilon: Fraction, delta: Fraction, pricer: Pricer) -> list[_Split]:
    """Return a way with its losses, or its rho, raised until the largest sum for one type of change is what it was."""
    method, by_rho = TYPES.get(split.method), split.method not in SUMS
    costs = parts_by_type(pricer.proofs(split.priced), normal=by_rho)
    if method is None or not costs:
        return []
    had = [*map(split.part, split.priced)]
    total = sum(had, Fraction(0)) if by_rho else epsilon
    wider = widened([float(h / total) for h in had], costs)
    shares = [whole_nano(total * Fraction(w)) for w in wider]
    if sum(shares) <= total:
        return []
    share_of = Share.concentrated if by_rho else Share
    raised = tuple(
        pricer.priced(p.block, share_of(s)) if h else p
        for p, s, h in zip(split.priced, shares, had, strict=True)
    )
    fits = compose(method, pricer.proofs(raised), delta) <= epsilon  # of other laws perhaps
    return [_Split(method, raised, epsilon)] if fits else []


def _raised(
    pure: Sequence[Priced], epsilon: Fraction, delta: Fraction, pricer: Pricer
) -> list[_Split]:
    """Return the pure way with all losses raised as far as optimal composition allows."""
    out: list[_Split] = []
    for split in (False, True):
        counts = [p.best.law.covered if split else 1 for p in pure]
        if split and all(c == 1 for c in counts):
            break

        def parts(factor: Fraction, counts: Sequence[int] = counts) -> list[Proof]:
            return [
                Proof(pure=(factor * p.share.epsilon / c,) * c)
                for p, c in zip(pure, counts, strict=True)
            ]

        least = Fraction(100, 99)
        if compose("kov/1", parts(least), delta) > epsilon:
            continue
        factor = largest(lambda f, of=parts: compose("kov/1", of(f), delta), least, epsilon)  # type: ignore[misc]
        shares = [Share(whole_nano(factor * p.share.epsilon), split=split) for p in pure]
        try:
            raised = tuple(pricer.priced(p.block, s) for p, s in zip(pure, shares, strict=True))
        except PlanError:  # a law that covers groups together has no proof group by group
            continue
        if compose("kov/1", [p.proof for p in raised], delta) <= epsilon:
            out.append(_Split("kov/1", raised, epsilon))
    return out


def _concentrated(
    blocks: Sequence[BlockLayout],
    epsilon: Fraction,
    delta: Fraction,
    loss: Loss,
    pricer: Pricer,
    goals: Sequence[int],
) -> _Split | Fraction:
    """Return the way of normal noise: a total rho worth (epsilon, delta), split over the blocks.

    A total that is worth it if all noise is normal is tried first, then as much of it as the blocks chosen allow,
    then what zCDP allows. A number is the epsilon that the goals would need, where there is less.
    """

    def priced_at(block: BlockLayout, rho: Fraction) -> Priced:
        return pricer.priced(block, Share.concentrated(rho))

    needed = _needed(blocks, goals, _LEAST**2 / 2, priced_at, pricer)
    for_goals = sum(needed.values(), Fraction(0))
    least = zcdp_rho(epsilon, delta) if epsilon else for_goals
    most = normal_rho(epsilon, delta, len(blocks)) if epsilon and not pricer.by_rho else least
    total = most
    while True:
        if goals and (for_goals > total or (for_goals == total and len(goals) < len(blocks))):
            proofs = [priced_at(blocks[i], rho).proof for i, rho in needed.items()]
            return compose(_by_normal(proofs, pricer), proofs, delta)
        rhos = allocate(blocks, total, loss, concentrated=True, needed=needed)
        priced = tuple(priced_at(b, r) for b, r in zip(blocks, rhos, strict=True))
        proofs = [p.proof for p in priced]
        method = _by_normal(proofs, pricer)
        cost = _charged(method, proofs, delta)
        if total <= least or cost <= epsilon:
            break
        fits = _affordable(priced, proofs, epsilon, delta) if total == most else least
        total = max(least, fits, for_goals if total == most else least)
    return _Split(method, priced, epsilon if epsilon and len(goals) < len(blocks) else cost)


def _by_normal(proofs: Sequence[Proof], pricer: Pricer) -> str:
    return "normal/1" if any(p.normal for p in proofs) and not pricer.by_rho else "zcdp/1"


def _affordable(
    priced: Sequence[Priced], proofs: Sequence[Proof], epsilon: Fraction, delta: Fraction
) -> Fraction:
    """Return how much rho blocks may cost together where each has as large a part of it as it had."""
    had = [
        (p.share.rho or Fraction(0), proof.normal) for p, proof in zip(priced, proofs, strict=True)
    ]
    normal, total = sum(r for r, n in had if n), sum(r for r, _ in had)
    count = sum(n for _, n in had)

    def too_much(tries: int) -> bool:
        part = Fraction(tries, 1 << _TRIES)
        return normal_epsilon(part * normal, part * (total - normal), delta, count) > epsilon

    return total * Fraction(first_holding(too_much, 0, 1 << _TRIES) - 1, 1 << _TRIES)


def _charged(method: str, proofs: Sequence[Proof], delta: Fraction) -> Fraction:
    """Return what is charged where goals alone decide: no budget is 0, though a delta may pay for all."""
    return max(compose(method, proofs, delta), Fraction(1, NANO))
