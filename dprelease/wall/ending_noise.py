"""The wall's own loss of noise that ends: from a block's JSON, and what one unit moves.

Of cells. The law proves its loss by powers of e in closed form (`kernels/ending_laplace.py`). Here e^-rate is enclosed
between two whole numbers of 2^-BITS, and the masses are sums of its powers, made by doubling.
Of keys that are found. The law counts its loss pair by pair (`kernels/selecting.py`). Here it is counted with e^-epsilon,
from the weights and their sum, over all of them.
No number that a law claims is used.

Units: epsilon in nats. Sources: `docs/theory/certain-intervals.md#the-loss`, `docs/theory/found-keys.md#the-law`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dprelease.budget.composition import Proof
from dprelease.statistics.sensitivity import Sensitivity

_BITS = 384
_ONE = 1 << _BITS


def of_cells(proof: Proof, law: Mapping[str, Any], sensitivity: Sensitivity) -> Proof:
    """Return the proof of cells' noise with what the wall finds itself, where that is more."""
    return _raised(proof, *ended_loss(law, sensitivity))


def of_keys(proof: Proof, law: Mapping[str, Any], sensitivity: Sensitivity) -> Proof:
    """Return the same of keys that are found."""
    return _raised(proof, *found_loss(law, sensitivity))


def _raised(proof: Proof, epsilon: Fraction, delta: Fraction) -> Proof:
    pure = max(epsilon, sum(proof.pure, Fraction(0)))
    return replace(proof, pure=(pure,), delta=max(delta, proof.delta))


def ended_loss(law: Mapping[str, Any], sensitivity: Sensitivity) -> tuple[Fraction, Fraction]:
    """Return (epsilon, delta) of one unit's moves, the second rounded up."""
    rate, bound = Fraction(law["law"]["rate"]), int(law["law"]["bound"])
    total, most = sensitivity.l1_over_groups, sensitivity.in_a_cell or sensitivity.l1_per_group
    most = max(1, min(most, total))
    possible = _possible(rate, bound, most) ** (total // most)
    if total % most:
        possible *= _possible(rate, bound, total % most)
    return rate * total, 1 - possible


def found_loss(law: Mapping[str, Any], sensitivity: Sensitivity) -> tuple[Fraction, Fraction]:
    """Return (epsilon, delta) of the keys that one unit moves, the second rounded up."""
    epsilon, keys = Fraction(law["law"]["epsilon"]), sensitivity.l1_over_groups
    weights = [int(weight) for weight in law["law"]["weights"]]
    return epsilon * keys, 1 - (1 - delta_of_a_key(weights, epsilon)) ** keys


def delta_of_a_key(weights: list[int], epsilon: Fraction) -> Fraction:
    """Return the delta, rounded up, of one key: the most of S max(0, P - e^epsilon P') over both orders of neighbours."""
    (_, r), total = _root(epsilon), sum(weights)  # e^-epsilon, rounded up
    pairs = list(pairwise([0, *weights, 0]))
    more = sum(max(0, b * r - a * _ONE) for a, b in pairs)
    fewer = sum(max(0, a * r - b * _ONE) for a, b in pairs)
    return Fraction(max(more, fewer), total * r)


def _possible(rate: Fraction, bound: int, steps: int) -> Fraction:
    """Return the probability, rounded down, that a draw of one cell can be one of a table `steps` steps away.

    Of weights r^|d| it loses r^(bound + 1 - moved) + ... + r^bound; all together are 1 + 2 (r + ... + r^bound).
    """
    if steps > bound:
        return Fraction(0)
    low, high = _root(rate)
    first = _powers(high, bound + 1 - steps, up=True)[1]
    lost = (_powers(high, steps, up=True)[0] * first >> _BITS) + 1
    every = 2 * _powers(low, bound + 1, up=False)[0] - _ONE
    return max(Fraction(0), 1 - Fraction(lost, every))


def _root(rate: Fraction) -> tuple[int, int]:
    """Return whole numbers of 2^-BITS below and above e^-rate: an alternating series of falling terms."""
    halvings = max(0, rate.numerator.bit_length() - rate.denominator.bit_length() + 1)
    p, q = rate.numerator, rate.denominator << halvings  # p / q is below 1
    term = total = _ONE
    n = 0
    while term:
        n += 1
        term = term * p // (q * n)
        total += term if n % 2 == 0 else -term
    low, high = total - 2 * n - 4, total + 2 * n + 4  # every term is less than two units too small
    for _ in range(halvings):
        low, high = max(low, 0) ** 2 >> _BITS, (high * high >> _BITS) + 1
    return max(low, 0), min(high, _ONE)


def _powers(r: int, count: int, *, up: bool) -> tuple[int, int]:
    """Return 1 + r + ... + r^(count - 1) and r^count in units of 2^-BITS, by doubling, rounded down or `up`."""
    total, power = 0, _ONE
    for bit in f"{count:b}":
        total, power = total + (power * total >> _BITS) + up, (power * power >> _BITS) + up
        if bit == "1":
            total, power = total + power, (power * r >> _BITS) + up
    return total, power
