"""What one row adds to a published sum, at least and at most: public, from the declared ranges alone.

A quotient of two sums over the same rows lies between the least and the greatest quotient of what one row adds,
wherever each row adds something to the denominator: the mean of clamped values in the range of the values. Of
a number of units each unit adds 1, and to the other sums what its 1 to `most` rows do.

Units: of the statistics. Source: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce

from dprelease.measurements.base import family_of
from dprelease.query.bounded import BoundedQuery, Fixed, Primitive, largest_code
from dprelease.statistics.exact import form_of
from dprelease.statistics.measurement import Measurement

Ends = tuple[Fraction, Fraction]


@dataclass(frozen=True, slots=True)
class PerRow:
    """What one row adds to a sum: between `low` and `high`. With `most` None it is what one privacy unit adds.

    `rows`: a name of the rows that are summed, equal for the same ones; `most`: the cap of rows per unit.
    """

    rows: Hashable
    most: int | None
    low: Fraction
    high: Fraction

    def plus(self, other: PerRow | None, times: Fraction = Fraction(1)) -> PerRow | None:
        """Return what a row adds to self + times * other; None where they are not over the same rows."""
        if other is None or (self.rows, self.most) != (other.rows, other.most):
            return None
        more = other.times(times)
        return replace(self, low=self.low + more.low, high=self.high + more.high)

    def times(self, factor: Fraction) -> PerRow:
        ends = sorted((self.low * factor, self.high * factor))
        return replace(self, low=ends[0], high=ends[1])

    def per_unit(self) -> PerRow:
        """Return what a privacy unit adds, by one row or by as many as its cap."""
        if self.most is None:
            return self
        low, high = min(self.low, self.low * self.most), max(self.high, self.high * self.most)
        return replace(self, most=None, low=low, high=high)


def quotient_range(top: PerRow | None, bottom: PerRow | None) -> tuple[float, float] | None:
    """Return where top / bottom lies if the bottom is not 0; None where rows do not bound it."""
    if top is None or bottom is None or top.rows != bottom.rows:
        return None
    if top.most != bottom.most:
        top, bottom = top.per_unit(), bottom.per_unit()
    if bottom.low <= 0:
        return None
    found = [a / b for a in (top.low, top.high) for b in (bottom.low, bottom.high)]
    return float(min(found)), float(max(found))


def added_per_row(
    query: BoundedQuery,
    measurement: Measurement,
    weights: Sequence[Fraction],
    rows: Hashable,
) -> PerRow | None:
    """Return what a row adds to the weighted cells; None where they are no sums over rows of one code each."""
    if not form_of(measurement).additive:
        return None
    unit = family_of(measurement).cell_unit(measurement)
    used: dict[int, Fraction] = {}
    if measurement.alone:
        used = {p: w * unit for p, w in zip(measurement.primitives, weights, strict=True)}
    for weight, row in () if used else zip(weights, measurement.weights, strict=True):
        for place, each in zip(measurement.primitives, row, strict=True):
            used[place] = used.get(place, Fraction(0)) + weight * unit * each
    parts = [(query.primitives[place], weight) for place, weight in used.items() if weight]
    kinds = {part.kind for part, _ in parts}
    most = {part.max_rows for part, _ in parts}
    if kinds == {"persons"} and not query.meets_several:  # no cap holds over a person's intervals
        total = sum((weight for _, weight in parts), Fraction(0))
        return PerRow(rows, None, total, total)
    if not parts or len(most) > 1 or not kinds <= {"rows", "power", "between"}:
        return None
    found = _added(query, parts)
    return None if found is None else PerRow(rows, most.pop(), *found)


def _added(query: BoundedQuery, parts: Sequence[tuple[Primitive, Fraction]]) -> Ends | None:
    fixed = sum((weight for part, weight in parts if part.kind == "rows"), Fraction(0))
    ends = [(fixed, fixed)]
    inside = [weight for part, weight in parts if part.kind == "between"]
    if inside:  # bins may overlap
        low = sum((min(w, Fraction(0)) for w in inside), Fraction(0))
        ends.append((low, sum((max(w, Fraction(0)) for w in inside), Fraction(0))))
    for place in {part.code for part, _ in parts if part.kind == "power"}:
        code = query.codes[place] if place is not None else None
        own = [(p.power, w) for p, w in parts if p.kind == "power" and p.code == place]
        if any(power > 1 for power, _ in own):
            return None
        last = 1 if code is None else largest_code(code)
        values = [sum((w * k**power for power, w in own), Fraction(0)) for k in (0, last)]
        if not isinstance(code, Fixed) or code.default is None:
            values.append(Fraction(0))  # of a null
        ends.append((min(values), max(values)))
    return reduce(lambda one, other: (one[0] + other[0], one[1] + other[1]), ends)
