"""How the budget is split: fixed shares first, the rest by the closed form.

With absolute error c / epsilon_j per block, sum w_j c_j / epsilon_j is least at epsilon_j
proportional to sqrt(w_j c_j); with squared error, at (w_j c_j^2)^(1/3)
(`docs/theory/composition.md#allocation`). Under zCDP
the budget is rho and errors fall as its root: (w_j c_j)^(2/3) and c_j sqrt(w_j). c_j is the
block's expected error relative to the width of its domain at an equal split, a public number, so
that minutes and counts can be compared. The closed form is a start: `refine` takes one step from it on
the planner's own prices. Results are whole nano-units rounded down: their sum never
exceeds the request.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Literal

from dprelease.allocation.goals import too_little
from dprelease.allocation.refine import refine
from dprelease.errors import PlanError
from dprelease.measurements.base import family_of
from dprelease.measurements.members import BlockLayout
from dprelease.numeric import NANO, plain, ranking

__all__ = ["allocate"]

_STARVED = 4


def allocate(
    blocks: Sequence[BlockLayout],
    epsilon: Fraction,
    loss: Literal["absolute", "squared"],
    relative_error: Callable[[BlockLayout, Fraction], float],
    *,
    concentrated: bool = False,
    needed: Mapping[int, Fraction] | None = None,
) -> tuple[Fraction, ...]:
    """Return each block's epsilon, in block order; public constants get 0.

    Args:
        needed: amounts that are fixed beforehand, by the block's place (accuracy goals).
        concentrated: `epsilon` and the results are amounts of rho; shares are parts of it.
        relative_error: prices one block at one epsilon, as a share of its domain's width.

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
    asked = sum(needed.values(), Fraction(0))
    rest = (1 - fixed) * epsilon - asked
    if needed and (rest < 0 or (rest == 0 and free)):
        raise too_little(asked + fixed * epsilon, epsilon, blocks)
    if len(free) == 1:
        out[free[0]] = rest
    elif free:
        better = _divided([blocks[i] for i in free], rest, loss, relative_error, concentrated)
        for i, amount in zip(free, better, strict=True):
            out[i] = amount
    whole = [_whole(e) for e in out]
    if free and fixed < 1:  # nano-units lost to rounding go to the last free block: no loss
        whole[free[-1]] += _whole(epsilon) - sum(whole, Fraction(0))
    result = tuple(whole)
    for block, e in zip(blocks, result, strict=True):
        if e <= 0 and not _constant(block):
            raise _too_little(block)
    return result


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


def _divided(
    blocks: Sequence[BlockLayout],
    rest: Fraction,
    loss: Literal["absolute", "squared"],
    relative_error: Callable[[BlockLayout, Fraction], float],
    concentrated: bool,
) -> Sequence[Fraction]:
    """Return what each of `blocks` gets of `rest`: the closed form, refined by one step."""
    even = _whole(rest / len(blocks))
    if even == 0:
        raise _too_little(blocks[0])
    parts: list[Fraction] = []
    weights = [float(sum(m.statistic.spec.weight for m in block.members)) for block in blocks]
    for block, weight in zip(blocks, weights, strict=True):
        c = min(max(relative_error(block, even), 1e-12), 1.0)
        if concentrated:
            root = (weight * c) ** (2 / 3) if loss == "absolute" else c * math.sqrt(weight)
        else:
            root = math.sqrt(weight * c) if loss == "absolute" else math.cbrt(weight * c * c)
        parts.append(Fraction(root))
    total = sum(parts, Fraction(0))  # exact, so that the quotients cannot sum to more than 1
    closed = [rest * part / total for part in parts]
    power = 1 if loss == "absolute" else 2

    def price(place: int, amount: Fraction) -> float:
        return relative_error(blocks[place], amount)

    found = refine(closed, weights, price, power)
    if min(closed) * _STARVED >= even:
        return found
    other = refine([even] * len(blocks), weights, price, power)
    return min(found, other, key=lambda split: ranking(_cost(split, weights, price, power)))


def _cost(
    split: Sequence[Fraction],
    weights: Sequence[float],
    price: Callable[[int, Fraction], float],
    power: int,
) -> float:
    """Return the weighted total of a split; infinite where an error is not known or a share is nothing."""
    if min(_whole(amount) for amount in split) <= 0:
        return math.inf
    total = sum(
        w * price(i, e) ** power for i, (w, e) in enumerate(zip(weights, split, strict=True))
    )
    return total if math.isfinite(total) else math.inf


def _too_little(block: BlockLayout) -> PlanError:
    return PlanError(
        f"{block.name} would get less than one nano-unit of epsilon",
        where=block.members[0].statistic.spec.origin,
        fix="raise epsilon, its share or its weight, or drop the statistic",
        code="DPR221",
    )


def _whole(epsilon: Fraction) -> Fraction:
    return Fraction(math.floor(epsilon * NANO), NANO)


def _constant(block: BlockLayout) -> bool:
    return family_of(block.options[0]).free


def _share(block: BlockLayout) -> Fraction | None:
    """A block's share is the sum of its members' shares; members without one ride along."""
    shares = [m.statistic.spec.share for m in block.members if m.statistic.spec.share is not None]
    return sum(shares, Fraction(0)) if shares else None
