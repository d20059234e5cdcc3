"""Mean of a clamped column, and the proportion of rows that meet a condition.

Private n: two sums (or the Bernstein cells that a variance of the same column pays for anyway),
post-processed to a ratio (semantics 4.1); a mean without atoms is drawn from a truncated law after
the size has been released (4.2). Public n: the sum itself, sensitivity w/n (3.1). Domain: the hull
[l, u]; a forbidden interval of the *column* does not forbid means (2.5). A proportion is the mean
of a 0/1 code.
"""

from __future__ import annotations

import numpy as np

from dprelease.aggregates.base import Floats
from dprelease.aggregates.cells import (
    bernstein_mean,
    bernstein_mean_box,
    two_sums_mean,
    two_sums_mean_box,
)
from dprelease.aggregates.encoding import Context, Encoding
from dprelease.aggregates.scalar import bernstein2, public_mean, truncated_mean, two_sums
from dprelease.schema.domain import Domain

__all__ = ["Mean", "aggregate", "proportion"]


class Mean:
    def __init__(self, name: str) -> None:
        self.name = name

    def domain(self, context: Context) -> Domain:
        return context.hull

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        if context.public_rows is not None:
            return (public_mean(context),)
        return (two_sums(context), bernstein2(context), truncated_mean(context))

    def columns(self, context: Context) -> tuple[str, ...]:
        return (context.spec.name,)

    def finish(self, encoding: Encoding, cells: Floats) -> Floats:
        match encoding.family:
            case "two_sums":
                return _value(encoding, two_sums_mean(cells))
            case "bernstein2":
                return _value(encoding, bernstein_mean(cells))
            case "truncated_mean":
                return cells[:, 1:]
            case _:
                return cells

    def box(self, encoding: Encoding, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        match encoding.family:
            case "two_sums":
                a, b = two_sums_mean_box(low, high)
            case "bernstein2":
                a, b = bernstein_mean_box(low, high)
            case "truncated_mean":
                return low[:, 1:], high[:, 1:]
            case _:
                return low, high
        return _value(encoding, a), _value(encoding, b)


def _value(encoding: Encoding, t: Floats) -> Floats:
    """Return the column's unit for t in [0, 1], shape `(groups, 1)`."""
    width = float(encoding.scale * encoding.pitch)
    return np.asarray(float(encoding.offset) + width * t)[:, None]


aggregate = Mean("mean")
proportion = Mean("proportion")
