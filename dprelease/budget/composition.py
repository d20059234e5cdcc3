"""What several releases cost together: every way that is proved, from the plain sum to zCDP.

Each block of a release states what is proved about it alone (`Proof`): one or more independent
pure losses, a loss with a delta of its own, or a rho. The ways to add them up, by the names that plans record:

    basic/1       the sum of the pure losses; delta 0. Always valid, always what a ledger records.
    kov/1         optimal composition of pure losses ([KOV]; different losses: [MV]): randomised
                  response dominates every pure mechanism, so the composed curve is the exact one
                  of the product of randomised responses, here on a lattice, rounded up.
    types/1       of replaced units: the largest, over the types of a change, of the sum of the blocks' losses; delta 0.
    zcdp/1        sum of rho, that of a pure loss as `exact_rho` or its law has it, then the tight conversion.
    basic+zcdp/1  pure losses summed, the rest by zCDP at the whole delta; epsilons add.
    kov+zcdp/1    pure losses by kov, the rest by zCDP, half of delta each; both add.
    normal/1      the analytic formula of normal noise, of all blocks that have it together; the others by their rho.
    types+normal/1  of replaced units: the same, of the largest sum of normal noise's rho over the types of a change.

Privacy  basic+zcdp and kov+zcdp are basic composition of an (epsilon_1, delta_1) with an (epsilon_2, delta_2)
         release. All hold for the blocks of a release, which are fixed beforehand. Every result is an
         upper bound in whole nano-units, none is below what the integers confirm, kov never
         exceeds the sum, and normal never zcdp, which hold too. Losses with a delta of their
         own are added by basic composition, in every way: their epsilons to that of the others, which have
         what their deltas leave.
Not here Advanced composition: kov is never worse. Characteristic functions and FFTs: floats.
Units    epsilon and rho in nats, `Fraction`s.
Sources  `docs/theory/composition.md#optimal-composition`, `#zcdp`, `#losses-on-a-lattice`, `#normal-noise`;
         [KOV] Kairouz, Oh & Viswanath, arXiv:1311.0776. [MV] Murtagh & Vadhan, "The complexity of
         computing the optimal composition of differential privacy", arXiv:1507.03113: exact
         heterogeneous composition is #P-hard, hence the lattice. `concentrated`, `loss_lattice`, `normal`.
Limits   different pure losses are rounded up to about 1/8192 of their sum: k of them lose at most
         k/4096 of it, less where losses repeat.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from dprelease.budget.concentrated import zcdp_epsilon
from dprelease.budget.exact_rho import rho_of_pure
from dprelease.budget.loss_lattice import CELLS, LossLattice
from dprelease.budget.normal import normal_epsilon
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import NANO, nano_up

_MANY = 6

METHODS = (
    *("basic/1", "types/1", "kov/1", "zcdp/1"),
    *("basic+zcdp/1", "kov+zcdp/1", "normal/1", "types+normal/1"),
)
"""Ways to compose; the arithmetic behind a name never changes."""

SUMS = METHODS[:2]
"""Those of pure losses alone, which need no delta."""

WORDS = {
    "basic/1": "the sum of pure losses",
    "types/1": "the largest sum of pure losses over the types of a change",
    "kov/1": "optimal composition of pure losses",
    "zcdp/1": "zero-concentrated privacy",
    "normal/1": "the analytic formula of normal noise",
    "types+normal/1": "the analytic formula of normal noise, for the most that it costs over the types of a change",
}
"""The same, for people."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What is proved about one block: independent pure losses, or one rho.

    Attributes:
        pure: losses of independent parts (one per group a unit can touch, say); () if none.
        rho: the zCDP cost of a block without a pure loss; None otherwise.
        normal: this is the rho of rounded normal noise.
        delta: with what probability at most the pure loss may be passed: of noise that ends.
        types: the loss, or the rho, for each type of change; () where every type may cost the whole.
        tight: a rho that the law of the pure parts has by a proof of its own, all of them together.
    """

    pure: tuple[Fraction, ...] = ()
    rho: Fraction | None = None
    normal: bool = False
    tight: Fraction | None = None
    types: tuple[Fraction, ...] = ()
    delta: Fraction = Fraction(0)

    @property
    def whole(self) -> Fraction:
        """The sum of its pure losses, or its rho."""
        return basic(self.pure) if self.rho is None else self.rho

    @property
    def concentrated(self) -> Fraction:
        """The block's rho: its pure parts cost what any such losses cost, or less by their own proof."""
        plain = sum(map(rho_of_pure, self.pure), Fraction(0))
        return (self.rho or Fraction(0)) + (plain if self.tight is None else min(plain, self.tight))


def basic(epsilons: Sequence[Fraction]) -> Fraction:
    """Return the plain sum of pure losses."""
    return sum(epsilons, Fraction(0))


def total_rho(proofs: Sequence[Proof]) -> Fraction:
    """Return the sum of rho, pure losses included.

    Raises:
        ArgumentError: a loss has a delta of its own, and no rho (DPR657).
    """
    if any(p.delta for p in proofs):
        raise _wrong("noise that ends has no rho")
    return sum((p.concentrated for p in proofs), Fraction(0))


def by_type(proofs: Sequence[Proof]) -> list[list[Fraction]]:
    """Return the losses of all blocks, or the rho of normal ones, for each type of change; [] where no block knows any."""
    count = max((len(p.types) for p in proofs), default=0)
    return [[p.types[i] if p.types else p.whole for p in proofs] for i in range(count)]


def parts_by_type(proofs: Sequence[Proof], *, normal: bool) -> list[list[float]]:
    """Return the same in parts of each block's whole; with `normal` other blocks cost theirs in every type."""
    found = [replace(p, types=()) if normal and not p.normal else p for p in proofs]
    return [
        [float(t / (p.whole or 1)) for t, p in zip(types, found, strict=True)]
        for types in by_type(found)
    ]


def pure_delta(epsilons: Sequence[Fraction], epsilon: Fraction) -> Fraction:
    """Return a certified delta at `epsilon` for pure losses under optimal composition.

    Raises:
        ArgumentError: a negative number (DPR657).
    """
    _check([*epsilons, epsilon], None)
    if basic(epsilons) <= epsilon:
        return Fraction(0)
    return _composed(_sorted(epsilons)).delta(epsilon)


def pure_epsilon(epsilons: Sequence[Fraction], delta: Fraction) -> Fraction:
    """Return a certified epsilon at `delta` for pure losses under optimal composition.

    It is never above the plain sum. With delta 0 it is the sum.

    Raises:
        ArgumentError: a negative number, or delta >= 1 (DPR657).
    """
    _check(epsilons, delta)
    plain = basic(epsilons)
    if delta == 0 or len([e for e in epsilons if e]) <= 1:
        return plain
    found = _composed(_sorted(epsilons)).epsilon(delta)
    return plain if found is None else min(plain, found)


def compose(method: str, proofs: Sequence[Proof], delta: Fraction) -> Fraction:
    """Return the certified epsilon of all `proofs` together at `delta`, composed by `method`.

    Raises:
        ArgumentError: an unknown method, a block without a pure loss under basic/1 or kov/1, or
            delta 0 where the method needs some (DPR657).
    """
    ended = [p for p in proofs if p.delta]
    if ended:
        others, rest = [p for p in proofs if not p.delta], delta - basic([p.delta for p in ended])
        if rest < 0:
            raise _wrong("the deltas of its blocks are more than delta")
        used = method if others else METHODS[0]
        return basic([e for p in ended for e in p.pure]) + compose(used, others, rest)
    pure = [e for p in proofs for e in p.pure]
    rhos = [p.rho for p in proofs if p.rho is not None]
    if method not in METHODS:
        raise _wrong("there is no composition of that name")
    if method in METHODS[:3] and rhos:
        raise _wrong("a Gaussian block has no pure loss to add up")
    if method not in SUMS and delta <= 0:
        raise _wrong("this composition needs a delta above 0")
    _check(pure, delta)
    match method:
        case "basic/1":
            return basic(pure)
        case "types/1":
            return min(basic(pure), max(map(basic, by_type(proofs)), default=basic(pure)))
        case "kov/1":
            return pure_epsilon(pure, delta)
        case "zcdp/1":
            return zcdp_epsilon(total_rho(proofs), delta)
        case "basic+zcdp/1":
            return basic(pure) + zcdp_epsilon(sum(rhos, Fraction(0)), delta)
        case "kov+zcdp/1":
            return pure_epsilon(pure, delta / 2) + zcdp_epsilon(sum(rhos, Fraction(0)), delta / 2)
        case _:
            normal = [p for p in proofs if p.normal]
            rest, rho = total_rho([p for p in proofs if not p.normal]), total_rho(normal)
            if method != "normal/1":
                rho = min(rho, max(map(basic, by_type(normal)), default=rho))
            return normal_epsilon(rho, rest, delta, len(normal))


def _sorted(epsilons: Sequence[Fraction]) -> tuple[int, ...]:
    return tuple(sorted(nano_up(e) for e in epsilons if e > 0))


@lru_cache(maxsize=256)
def _composed(nanos: tuple[int, ...]) -> LossLattice:
    """Return the composed randomised responses of losses given in nano-units, at least one."""
    common = math.gcd(*nanos)
    if sum(nanos) > CELLS * common:
        common = _coarse(nanos)
    half = Fraction(common, NANO)
    out = LossLattice.nothing(2 * half)
    counted = sorted(Counter(-(-n // common) for n in nanos).items())
    if len(counted) == 1:
        return LossLattice.two_points(counted[0][0] * half, half).times(counted[0][1])
    for cells, count in counted:
        one = LossLattice.two_points(cells * half, half)
        if count >= _MANY:
            out = out.compose(one.times(count))
        else:
            for _ in range(count):
                out = out.compose(one)
    return out


def _coarse(nanos: tuple[int, ...]) -> int:
    """Return a lattice width that keeps the sum within `CELLS` and rounds up least.

    Any width is sound; losses that repeat are nearly multiples of some of them.
    """
    least = -(-sum(nanos) // CELLS)
    widths = {least + least * i // 64 for i in range(64)}
    return min(widths, key=lambda w: (sum(-(-n // w) * w for n in nanos), w))


def _check(epsilons: Sequence[Fraction], delta: Fraction | None) -> None:
    if any(e < 0 for e in epsilons):
        raise _wrong("a privacy loss is at least 0")
    if delta is not None and not 0 <= delta < 1:
        raise _wrong("delta is at least 0 and below 1")


def _wrong(what: str) -> ArgumentError:
    return ArgumentError(what, fix="see `dprelease.budget.composition`", code="DPR657")
