"""Population covariance (1/n) and correlation of two clamped columns, over complete cases.

A row counts where both columns are known. Private n: soft 2x2 cells for a covariance alone, the
nine-cell tensor for a correlation, and for both together (`pairs`). Public n: the cross product
n S(ab) - S(a) S(b) itself, sensitivity Ra Rb (n - 1)/n^2; the correlation still comes from the
tensor, because a direct one moves by 2, its whole range
(`docs/theory/sensitivities-and-contribution-bounding.md#scalars`).

Domain of the covariance: +-Ra Rb / 4, with public n +-Ra Rb floor(n^2/4)/n^2 (attained by half of
the rows at each of two corners). Of the correlation: [-1, 1], 0 where a released variance is 0.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.aggregates.base import Floats, Reading
from dprelease.aggregates.direct import own_name
from dprelease.aggregates.encoding import Context, Encoding
from dprelease.aggregates.pair_cells import pair_correlation, pair_covariance
from dprelease.aggregates.pair_pivot import correlation_interval, covariance_interval
from dprelease.aggregates.pairs import cross, soft_table, tensor
from dprelease.schema.domain import Domain

__all__ = ["Correlation", "Covariance", "aggregate", "correlation"]


def _unit(encoding: Encoding) -> float:
    """Return Ra Rb, the covariance's unit for codes as shares of their ranges."""
    a, b = encoding.axes
    return float(a.width * b.width)


class Covariance:
    name = "covariance"

    def domain(self, context: Context) -> Domain:
        a, b = context.axes
        n = context.public_rows
        reach = a.width * b.width
        reach *= Fraction(1, 4) if n is None else Fraction(n * n // 4, n * n)
        return Domain(-reach, reach)

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        if context.public_rows is not None:
            return cross(context), tensor(context)
        return soft_table(context), tensor(context)

    columns = staticmethod(own_name)

    def finish(self, encoding: Encoding, cells: Floats) -> Floats:
        if encoding.family == "scalar":
            return cells
        return _unit(encoding) * pair_covariance(cells)[:, None]

    def interval(self, encoding: Encoding, reading: Reading) -> tuple[Floats, Floats]:
        if encoding.family == "scalar":
            return reading.low, reading.high
        assert reading.scale is not None
        low, high = covariance_interval(reading.raw, reading.scale, reading.level)
        unit = _unit(encoding)
        return unit * low[:, None], unit * high[:, None]


class Correlation:
    name = "correlation"

    def domain(self, context: Context) -> Domain:
        del context  # a pure number
        return Domain(-1, 1)

    def encodings(self, context: Context) -> tuple[Encoding, ...]:
        return (tensor(context),)

    columns = staticmethod(own_name)

    def finish(self, encoding: Encoding, cells: Floats) -> Floats:
        del encoding  # a pure number
        return pair_correlation(cells)[:, None]

    def interval(self, encoding: Encoding, reading: Reading) -> tuple[Floats, Floats]:
        del encoding
        assert reading.scale is not None
        low, high = correlation_interval(reading.raw, reading.scale, reading.level)
        return low[:, None], high[:, None]


aggregate = Covariance()
correlation = Correlation()
