"""One block's part of the budget, the laws that it can pay, and the loss recorded of each.

A share is a pure epsilon, or a rho. Under a rho Gaussian noise is priced beside the pure laws, each at the
largest epsilon whose proved rho fits (`dprelease.budget.exact_rho`): for a choice by rank that is twice
the epsilon of a law of which only its loss is known.

Units: epsilon and rho in nats.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Protocol

from dprelease.allocation.choose import as_stated, candidates
from dprelease.budget.composition import Proof, compose
from dprelease.budget.exact_rho import pure_of_rho
from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast
from dprelease.core.errors import PlanError
from dprelease.core.numeric import NANO, nano_up, ranking
from dprelease.measurements.candidate import Candidate
from dprelease.measurements.gaussian import gaussian_candidates, narrow
from dprelease.measurements.law import Law
from dprelease.measurements.members import BlockLayout, Loss
from dprelease.mechanisms.law import Criterion
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity

_NOISY = Fraction(1, 2)
"""Up to this rho Laplace noise is no better than `narrow` assumes; above, wide changes cost it less."""

_STRETCHES = 3
_FULL = Fraction(99, 100)
"""A law that uses so much of its rho stays as it is."""


@dataclass(frozen=True, slots=True)
class Share(Stored):
    """What one block may spend.

    Attributes:
        epsilon: the pure loss of its pure laws.
        rho: what it may cost under zCDP; None for a pure way of composing.
        split: laws over several groups must be proved group by group.
        delta: what noise that ends may cost beside epsilon.
    """

    epsilon: Annotated[Fraction, AtLeast(0)]
    rho: Annotated[Fraction | None, AtLeast(0)] = None
    split: bool = False
    delta: Annotated[Fraction, AtLeast(0)] = Fraction(0)

    @classmethod
    def concentrated(cls, rho: Fraction) -> Share:
        """Return the share whose pure laws cost at most `rho`, whatever they are."""
        return cls(pure_of_rho(rho), rho)

    def times(self, factor: Fraction) -> Share:
        """Return the share of a release with `factor` times the epsilon, its parts kept."""
        if self.rho is not None:
            return Share.concentrated(self.rho * factor * factor)
        return replace(self, epsilon=self.epsilon * factor)


@dataclass(frozen=True, slots=True)
class Priced:
    """A block with its candidates at one share, best first."""

    block: BlockLayout
    share: Share
    ranked: tuple[Candidate, ...]
    sensitivity: Sensitivity

    @property
    def best(self) -> Candidate:
        return self.ranked[0]

    @property
    def proof(self) -> Proof:
        return self.best.law.proof(self.sensitivity)


class Pricer(Protocol):
    """Prices blocks of one query.

    Attributes:
        uses_types: whether pure losses may grow until the largest sum for one type of change is epsilon.
        by_rho: whether rho is what the release is charged.
    """

    uses_types: bool
    by_rho: bool

    def priced(self, block: BlockLayout, share: Share, only_as: Candidate | None = None) -> Priced:
        """Return every candidate at `share`, best first; PlanError if there is none.

        `only_as`: price only the way that this candidate is drawn (pure shares).
        """

    def proofs(self, priced: Sequence[Priced]) -> list[Proof]:
        """Return the proofs of all blocks of a release, with what each type of change costs."""

    def comparable(self, priced: Priced) -> tuple[float, ...]:
        """Return the best candidate's error per member, for comparison with itself at other shares."""

    def errors(self, priced: Priced, *, farthest: bool = False) -> tuple[float | None, ...]:
        """Return the best candidate's error per member, in its unit, or at the worst place; None where it is unknown."""


@dataclass(frozen=True, slots=True)
class BlockCost:
    """What a block's record says: its own epsilon, its rho if that is its proof, what is proved, its own delta."""

    epsilon: Fraction
    rho: Fraction | None
    epsilon_upper: Fraction
    delta: Fraction = Fraction(0)


def cost(priced: Priced, delta: Fraction) -> BlockCost:
    """Return what the block is recorded with: a Gaussian one with its own epsilon at `delta`."""
    found = priced.proof
    if found.rho is not None:
        alone = compose("normal/1", [found], delta)
        return BlockCost(alone, found.rho, alone)
    proved = sum(found.pure, Fraction(0))
    plain = priced.share.rho is None and not priced.share.split
    return BlockCost(
        priced.share.epsilon if plain else Fraction(nano_up(proved), NANO),
        None,
        proved,
        priced.share.delta,
    )


def ways(
    block: BlockLayout,
    share: Share,
    loss: Loss,
    size: int,
    sensitivities: dict[Measurement, Sensitivity],
    judge: Criterion = "average",
    only_as: Candidate | None = None,
) -> list[Candidate]:
    """Return every candidate of `block` at `share`, best first.

    Args:
        size: public guess of rows per group (pricing only).
        sensitivities: of each measurement in `block.options`.
        judge: by the error averaged over answers, or at the worst one.
        only_as: under a pure share, price only the way that this candidate is drawn.

    Raises:
        PlanError: none is admissible (DPR212), or as `candidates`.
    """
    if share.rho is None:
        found = candidates(
            block, share.epsilon, loss, size, sensitivities, judge, only_as, share.delta
        )
        if share.split:
            found = [c for c in found if not _together(c.law)]
        if not found:
            raise _no_law(block, "its law covers several groups together")
        return found
    found = [
        as_stated(c, block, size, loss)
        for c in gaussian_candidates(block, share.rho, loss, size, sensitivities)
    ]
    if found and share.rho <= _NOISY and all(narrow(c, block) for c in found):
        return sorted(found, key=lambda c: ranking(c.price(judge)))

    def priced(epsilon: Fraction, only_as: Candidate | None = None) -> list[Candidate]:
        return candidates(block, epsilon, loss, size, sensitivities, judge, only_as)

    problem: PlanError | None = None
    changed_groups = max((s.changed_groups for s in sensitivities.values()), default=1)
    try:
        found += [_stretched(c, share, sensitivities, priced) for c in priced(share.epsilon)]
    except PlanError as refusal:
        problem = refusal
    if changed_groups > 1:  # group by group each of t losses may cost a t-th of the rho
        with contextlib.suppress(PlanError):
            wide = priced(changed_groups * pure_of_rho(share.rho / changed_groups))
            found += [_stretched(c, share, sensitivities, priced) for c in wide if c.law.apart]
    fits = [c for c in found if c.law.proof(c.sensitivity(sensitivities)).concentrated <= share.rho]
    if not fits:
        raise problem or _no_law(block, "no law is that cheap")
    return sorted(fits, key=lambda c: ranking(c.price(judge)))


def _stretched(
    candidate: Candidate,
    share: Share,
    sensitivities: dict[Measurement, Sensitivity],
    priced: Callable[[Fraction, Candidate | None], list[Candidate]],
) -> Candidate:
    """Return the candidate at about the largest epsilon whose proved rho is the share's.

    A law with a proof of its own costs less than its epsilon tells. Its rho grows no faster than epsilon
    squared, so the root of the room never overshoots; only whole numbers decide.
    """
    assert share.rho is not None
    for _ in range(_STRETCHES):
        found = candidate.law.proof(candidate.sensitivity(sensitivities))
        if found.tight is None or not 0 < found.concentrated < share.rho * _FULL:
            break
        room = share.rho / found.concentrated
        nano = math.isqrt(int(sum(found.pure) ** 2 * room * NANO * NANO))
        try:
            wider = priced(Fraction(nano, NANO), candidate)
        except PlanError:
            break
        same = [c for c in wider if _drawn_alike(c, candidate)]
        fits = [
            c for c in same if c.law.proof(c.sensitivity(sensitivities)).concentrated <= share.rho
        ]
        if not fits:
            break
        candidate = fits[0]
    return candidate


def _drawn_alike(one: Candidate, other: Candidate) -> bool:
    a, b = one.law, other.law
    return (a.tag, a.mechanism, a.apart) == (b.tag, b.mechanism, b.apart)


def _together(law: Law) -> bool:
    """Return whether a law covers several groups by one loss that could be proved group by group."""
    return law.covered > 1 and not law.apart


def _no_law(block: BlockLayout, why: str) -> PlanError:
    spec = block.members[0].statistic.spec
    return PlanError(
        f"no admissible mechanism for {spec.text}",
        where=spec.origin,
        why=why,
        fix="remove the `mechanism` pin, or leave `delta` out",
        code="DPR212",
    )
