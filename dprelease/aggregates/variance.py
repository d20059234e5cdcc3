"""Population variance (1/n) of a clamped column, and its square root.

Private n: Bernstein-2 cells, one budget with the mean of the same column. Public
n: the scatter n S(x^2) - S(x)^2, an integer in steps, sensitivity w^2 (n-1)/n^2 in the variance's
unit. Domain [0, w^2/4], with public n [0, w^2 floor(n^2/4)/n^2]. The standard deviation
is released as the square root of the released variance: post-processing, and 1.6 to 50 times
better than noising it directly.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`, `#scalars`;
`docs/theory/domains-and-grids.md#induced-domains`.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from dprelease.aggregates.base import Floats, Reading
from dprelease.aggregates.cells import bernstein_variance, bernstein_variance_box
from dprelease.aggregates.direct import own_name
from dprelease.aggregates.encoding import Context, Encoding
from dprelease.aggregates.pair_pivot import variance_interval as margin_interval
from dprelease.aggregates.scalar import bernstein2, public_scatter
from dprelease.aggregates.variance_pivot import variance_interval
from dprelease.schema.domain import Domain

__all__ = ["Variance", "aggregate", "std"]


class Variance:
    """`variance`, or `std` when `root` is true."""

    def __init__(self, name: str, *, root: bool) -> None:
        self.name = name
        self._root = root

    def domain(self, context: Context) -> Domain:
        width = Fraction(context.hull.width)
        if self._root:
            return Domain(0, width / 2)
        n = context.public_rows
        if n is None:
            return Domain(0, width**2 / 4)
        return Domain(0, width**2 * (n * n // 4) / Fraction(n * n))

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        if context.public_rows is not None:
            return (public_scatter(context),)
        return (bernstein2(context),)

    columns = staticmethod(own_name)

    def finish(self, encoding: Encoding, cells: Floats) -> Floats:
        if encoding.family == "bernstein2":
            return self._value(encoding, bernstein_variance(cells))
        return np.sqrt(np.maximum(cells, 0.0)) if self._root else cells

    def interval(self, encoding: Encoding, reading: Reading) -> tuple[Floats, Floats]:
        low, high = reading.low, reading.high
        if encoding.family == "bernstein2":
            if reading.copies == 1 and reading.scale is not None:
                a, b = variance_interval(
                    reading.raw, reading.scale, reading.level, gaussian=reading.gaussian
                )
            elif reading.scale is not None and not reading.gaussian:
                # margins of a tensor: every cell has several noises
                a, b = margin_interval(reading.raw, reading.scale, reading.level, reading.copies)
            else:
                a, b = bernstein_variance_box(low, high)
            return self._value(encoding, a), self._value(encoding, b)
        if self._root:
            return np.sqrt(np.maximum(low, 0.0)), np.sqrt(np.maximum(high, 0.0))
        return low, high

    def _value(self, encoding: Encoding, variance: Floats) -> Floats:
        width = float(encoding.scale * encoding.pitch)
        return (width * np.sqrt(variance) if self._root else width**2 * variance)[:, None]


aggregate = Variance("variance", root=False)
std = Variance("std", root=True)
