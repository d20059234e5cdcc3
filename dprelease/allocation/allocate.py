"""How the budget is split: declared shares and goals first, of the rest an equal part for each statistic.

Statistics that share a block put their parts together. Errors in minutes and in rows are compared without
a scale for either: each with its own at an equal part. No price, no width of a domain, no guess of a
size and no `rows.max` enters, so a split is one of public whole numbers, the same on every machine. With
weights w the sum of w x (error / error at an equal part)^q is made least (q = 1, or 2 under squared
loss) where errors fall as 1 / epsilon, or as 1 / sqrt(rho) under zCDP: a block of s statistics of the total weight w gets

    s (w / s)^(1 / (q + 1)),     under zCDP s (w / s)^(1 / (q / 2 + 1))

parts (`docs/theory/composition.md#allocation`). Results are whole nano-units rounded down: their sum never
exceeds the request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np

from dprelease.allocation.goals import too_little
from dprelease.core.errors import PlanError
from dprelease.core.numeric import NANO, plain
from dprelease.measurements.base import family_of
from dprelease.measurements.members import BlockLayout, Loss

_ROUNDS = 500
_LEAST = 1e-9


def allocate(
    blocks: Sequence[BlockLayout],
    epsilon: Fraction,
    loss: Loss,
    *,
    concentrated: bool = False,
    needed: Mapping[int, Fraction] | None = None,
) -> tuple[Fraction, ...]:
    """Return each block's epsilon, in block order; public constants get 0.

    Args:
        needed: amounts that are fixed beforehand, by the block's place (accuracy goals).
        concentrated: `epsilon` and the results are amounts of rho; shares are parts of it.

    Raises:
        PlanError: `needed` is more than there is (DPR240), fixed shares exceed 1 or leave nothing for the others (DPR220), or a block
            would get nothing (DPR221).
    """
    needed = needed or {}
    shares = {
        i: s for i, b in enumerate(blocks) if i not in needed and (s := _share(b)) is not None
    }
    settled = {*needed, *shares, *(i for i, b in enumerate(blocks) if _constant(b))}
    free = [i for i in range(len(blocks)) if i not in settled]
    fixed = sum(shares.values(), Fraction(0))
    if fixed > 1 or (fixed == 1 and free):
        raise _overdrawn(fixed, [blocks[i] for i in free])
    out = [Fraction(0)] * len(blocks)
    for i, share in shares.items():
        out[i] = Fraction(0) if _constant(blocks[i]) else share * epsilon
    for i, amount in needed.items():
        out[i] = amount
    for_goals = sum(needed.values(), Fraction(0))
    rest = (1 - fixed) * epsilon - for_goals
    if needed and (rest < 0 or (rest == 0 and free)):
        raise too_little(for_goals + fixed * epsilon, epsilon, blocks)
    if len(free) == 1:
        out[free[0]] = rest
    elif free:
        power = (1 if loss == "absolute" else 2) / (2 if concentrated else 1)
        parts = [_parts(blocks[i], power) for i in free]
        each = rest / sum(parts)
        for i, part in zip(free, parts, strict=True):
            out[i] = each * part
    whole = [whole_nano(e) for e in out]
    if free and fixed < 1:  # nano-units lost to rounding go to the last free block: no loss
        whole[free[-1]] += whole_nano(epsilon) - sum(whole, Fraction(0))
    result = tuple(whole)
    for block, e in zip(blocks, result, strict=True):
        if e <= 0 and not _constant(block):
            raise _too_little(block)
    return result


def widened(shares: Sequence[float], types: Sequence[Sequence[float]]) -> tuple[float, ...]:
    """Return larger shares, of which for every one of `types` the parts that it costs add up to at most 1.

    `shares` add up to 1 and say what each block is worth: they are the answer where every type costs all of them.
    The sum of share x log(wider) is made greatest by weights of the types that grow where a type costs more.
    """
    parts, worth = np.array(types), np.array(shares)
    weights = np.full(len(parts), 1 / len(parts))
    for _ in range(_ROUNDS):
        wider = worth / np.maximum(weights @ parts, _LEAST)
        sums = parts @ wider
        weights *= sums
    return tuple((wider / (sums.max() * (1 + _LEAST))).tolist())


def _overdrawn(fixed: Fraction, free: Sequence[BlockLayout]) -> PlanError:
    """Return the refusal of declared shares that exceed 1, or leave nothing for the blocks `free`."""
    without = ", ".join(block.name for block in free)
    return PlanError(
        f"the declared shares add up to {plain(fixed)} of the budget",
        where=free[0].members[0].statistic.spec.origin if free else None,
        why=f"nothing is left for {without}" if free else "a budget has only one whole",
        fix="lower a `share`, or leave one out so that the rest is divided automatically",
        code="DPR220",
    )


def _parts(block: BlockLayout, power: float) -> Fraction:
    """Return how many parts a block asks for: one per statistic, more or fewer where these are weighted.

    Args:
        power: an error, or its square, falls with the budget to this power.
    """
    specs = [m.statistic.spec for m in block.members]
    count = sum(spec.weight > 0 for spec in specs) or 1
    weight = sum((spec.weight for spec in specs), Fraction(0))
    factor = float(weight / count) ** (1 / (power + 1))
    return count * Fraction(max(1, round(factor * NANO)), NANO)  # no last digit of a float counts


def _too_little(block: BlockLayout) -> PlanError:
    return PlanError(
        f"{block.name} would get less than one nano-unit of epsilon",
        where=block.members[0].statistic.spec.origin,
        fix="raise epsilon, its share or its weight, or drop the statistic",
        code="DPR221",
    )


def whole_nano(epsilon: Fraction) -> Fraction:
    return Fraction(math.floor(epsilon * NANO), NANO)


def _constant(block: BlockLayout) -> bool:
    return family_of(block.options[0]).free


def _share(block: BlockLayout) -> Fraction | None:
    """A block's share is the sum of its members' shares; members without one ride along."""
    shares = [m.statistic.spec.share for m in block.members if m.statistic.spec.share is not None]
    return sum(shares, Fraction(0)) if shares else None
