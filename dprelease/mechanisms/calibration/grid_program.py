"""The linear programme of the most accurate private table, and its repair into integers.

Over tables p(y | q), q in the hull, y allowed:

    minimise   the mean over q, or the largest over q, of sum_y p(y | q) cost(q, y)
    subject to p(y | q) <= e^epsilon p(y | q')   for all |q - q'| <= s, both ways,
               sum_y p(y | q) = 1.

A mirror-symmetric allowed set has a mirror-symmetric optimum (average a table with its mirror
image: constraints and objective are convex), which halves the variables.

Repair. A solver's answer is feasible only up to a tolerance, so it proposes and never decides.
Per output the weights become integers and are raised to the smallest integer function above them
whose values at distance <= s, the capped sensitivity, differ by a factor of at most e^epsilon (1 - slack) (a dilation:
raising never lowers a later bound, so it ends). The programme itself is solved at
e^epsilon (1 - 2 slack): tight chains then need no raising, which would add up along the hull and
unbalance the row sums. The exact certificate is taken from the integers; if it fails, the slack
grows and the programme is solved again.

Units    grid steps; epsilon in nats.
Sources  the constraints are the definition of pure differential privacy; solver: HiGHS (interior
         point) through SciPy; `docs/theory/kernels-and-boundaries.md#optimal-tables`.
Limits   `POINT_LIMIT` hull points: seconds. `pairs` tells how large the programme is.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dprelease.core.numeric import exp_lower
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.law import Criterion, GridRequest, Loss
from dprelease.schema.domain import GridSet

FloatArray = npt.NDArray[np.float64]
POINT_LIMIT = 64
_WEIGHT_BITS = 44
_DUST = 1e-8
"""Outputs that no answer gets with a larger chance are dropped: solver noise."""


def pairs(allowed: GridSet, distance: int) -> int:
    """Return the number of ratio constraints of the programme."""
    points = allowed.hull_steps + 1
    near = sum(points - d for d in range(1, min(distance, points - 1) + 1))
    return near * len(allowed) * (1 if _mirrors(allowed) else 2)


def _mirrors(allowed: GridSet) -> bool:
    ends = allowed.lower + allowed.upper
    return all(
        (a + d, b + c) == (ends, ends)
        for (a, b), (c, d) in zip(allowed.runs, allowed.runs[::-1], strict=True)
    )


def costs(allowed: GridSet, loss: Loss) -> FloatArray:
    """Return cost(q, y), shape `(hull points, outputs)`."""
    hull = np.arange(allowed.lower, allowed.upper + 1)
    gap = np.abs(hull[:, None] - allowed.points()[None, :]).astype(np.float64)
    out: FloatArray = gap if loss == "absolute" else gap * gap
    return out


def optimum(
    allowed: GridSet, distance: int, limit: float, loss: Loss, criterion: Criterion
) -> tuple[FloatArray, float] | None:
    """Return (table, its objective) for ratios up to `limit`, or None if the solver gave up.

    The table has shape `(hull points, outputs)`; feasible up to the solver's tolerance.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, vstack

    cost = costs(allowed, loss)
    rows, columns = cost.shape
    index = np.arange(rows * columns).reshape(rows, columns)
    mirrored = _mirrors(allowed)
    if mirrored:
        first = np.minimum(index, index[::-1, ::-1])
        index = np.unique(first, return_inverse=True)[1].reshape(rows, columns)
    own = np.arange((rows + 1) // 2 if mirrored else rows)  # the other rows are their mirrors
    worst = criterion == "worst"
    size = int(index.max()) + 1 + worst

    def sparse(values: Any, row: Any, column: Any, height: int) -> Any:
        return coo_array((values, (row, column)), shape=(height, size))

    each = np.repeat(np.arange(own.size), columns)
    sums = sparse(np.ones(each.size), each, index[own].ravel(), own.size)
    near = _near_pairs(index, min(distance, rows - 1), both=not mirrored)
    count = np.arange(len(near))
    signs = np.concatenate([np.ones(len(near)), np.full(len(near), -limit)])
    bounds = sparse(signs, np.concatenate([count, count]), near.T.ravel(), len(near))
    objective = np.zeros(size)
    if worst:
        objective[-1] = 1
        errors = sparse(
            np.concatenate([cost[own].ravel(), -np.ones(own.size)]),
            np.concatenate([each, np.arange(own.size)]),
            np.concatenate([index[own].ravel(), np.full(own.size, size - 1)]),
            own.size,
        )
        bounds = vstack([bounds, errors])
    else:
        np.add.at(objective, index.ravel(), cost.ravel() / rows)
    # The interior point method is several times faster; the simplex serves where it stalls.
    for method in ("highs-ipm", "highs-ds"):
        found = linprog(
            objective, A_ub=bounds.tocsr(), b_ub=np.zeros(bounds.shape[0]), A_eq=sums.tocsr(),
            b_eq=np.ones(own.size), method=method,
        )  # fmt: skip
        if found.status == 0 and np.isfinite(found.x).all():
            return np.maximum(found.x, 0)[index], float(found.fun)
    return None


def _near_pairs(index: IntArray, distance: int, *, both: bool) -> IntArray:
    """Return index pairs (high, low) with p[high] <= limit p[low] to hold, without repeats."""
    found = []
    for d in range(1, distance + 1):
        after, before = index[d:].ravel(), index[:-d].ravel()
        found.append(np.stack([after, before], axis=1))
        if both:
            found.append(np.stack([before, after], axis=1))
    if not found:
        return np.zeros((0, 2), dtype=np.int64)
    joined = np.unique(np.concatenate(found), axis=0)
    return cast("IntArray", joined[joined[:, 0] != joined[:, 1]])


def integer_rows(
    table: FloatArray, request: GridRequest, slack: Fraction
) -> tuple[npt.NDArray[np.bool_], list[list[int]]]:
    """Return (kept outputs, integer weights): ratios within the capped sensitivity at most about e^eps (1 - slack).

    The weights have shape `(hull points, kept outputs)`; row sums are close to 2**44 but not
    equal, which the exact certificate takes into account.
    """
    columns_used = table.max(axis=0) > _DUST
    limit = exp_lower(request.epsilon) * (1 - slack)
    limit = max(limit, Fraction(1))
    weights = np.rint(table[:, columns_used] * 2.0**_WEIGHT_BITS).astype(np.int64)
    columns = [_dilate(column.tolist(), request.capped_sensitivity, limit) for column in weights.T]
    return columns_used, [list(row) for row in zip(*columns, strict=True)]


def _dilate(column: list[int], distance: int, limit: Fraction) -> list[int]:
    """Return the smallest integers above `column`, at least 1, within `limit` at that distance."""
    floor_of = (limit.denominator, limit.numerator)
    current = [max(w, 1) for w in column]
    while True:
        needed = [-(-w * floor_of[0] // floor_of[1]) for w in current]
        raised = [
            max(w, *needed[max(0, i - distance) : i + distance + 1]) for i, w in enumerate(current)
        ]
        if raised == current:
            return current
        current = raised
