"""The wall's own loss of keys that are found: from the weights in a block's JSON, and what one unit moves.

The law counts its loss pair by pair (`kernels/selecting.py`). Here it is counted with e^-epsilon, from the weights
and their sum, over all of them; no number that the law claims is used.

Units: epsilon in nats. Source: `docs/theory/found-keys.md#the-law`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dprelease.budget.composition import Proof
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall.ending_noise import ONE, root


def as_counted(proof: Proof, law: Mapping[str, Any], moved: Sensitivity) -> Proof:
    """Return the proof of a law with what the wall finds itself, where that is more."""
    weights = [int(weight) for weight in law["law"]["weights"]]
    epsilon, keys = Fraction(law["law"]["epsilon"]), moved.l1_over_groups
    kept = (1 - delta_of_a_key(weights, epsilon)) ** keys
    pure = max(epsilon * keys, sum(proof.pure, Fraction(0)))
    return replace(proof, pure=(pure,), delta=max(1 - kept, proof.delta))


def delta_of_a_key(weights: list[int], epsilon: Fraction) -> Fraction:
    """Return the delta, rounded up, of one key: the most of S max(0, P - e^epsilon P') over both orders of neighbours."""
    (_, r), total = root(epsilon), sum(weights)  # e^-epsilon, rounded up
    pairs = list(pairwise([0, *weights, 0]))
    more = sum(max(0, b * r - a * ONE) for a, b in pairs)
    fewer = sum(max(0, a * r - b * ONE) for a, b in pairs)
    return Fraction(max(more, fewer), total * r)
