"""A derived quantity: its form, its value from the published values, and where it can lie.

    Linear, Ratio   have a pivot (`forms`), so that their interval is exact
    Measured        a published value without one: a variance, a mean drawn from a truncated law
    Function        anything else, by its operation: its interval is projected from a joint region

Arithmetic keeps a form linear, or a ratio, where it can.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from dprelease.reading.estimated import ratio_domain
from dprelease.reading.forms import Linear, RatioForm, total
from dprelease.reading.per_row import PerRow, quotient_range

Floats = npt.NDArray[np.float64]
Op = Literal["+", "-", "*", "/"]
Ends = tuple[float, float]


class Measured(Protocol):
    """A published value that is not a linear form of its cells."""

    @property
    def key(self) -> Hashable:
        """What tells it from other values."""

    @property
    def measurement(self) -> Hashable:
        """The draw that it was read from: values of one measurement depend on each other."""

    def ends(self, level: float) -> Ends:
        """Return its interval at `level`."""

    def cell_box(self, level: float) -> tuple[Floats, Floats] | None:
        """Return bounds of all its cells together, if its range over such a box is known."""
        del level
        return None

    def over_box(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """Return its range over boxes of cells, `(boxes,)`."""
        del low, high
        raise AssertionError("its range over a box is not known")

    def plus(self, other: Measured) -> Measured | None:
        """Return their sum, if its law is known."""
        del other
        return None


@dataclass(frozen=True)
class Quantity:
    """What an expression yields for one row.

    Attributes:
        value: from the published values; None where it is not defined (a division by 0).
        domain: the values it can have; weak: a value in it says nothing.
        per_row: of a sum over rows, what one of them adds.
        shown: of one published value, its published interval.
        suppressed: it is of a cell that was published without a value, so it has none.
        certain: where it lies for certain; None where some noise has no end, or it is suppressed.
    """

    form: Linear | RatioForm | Measured | Function
    value: float | None
    domain: Ends
    weak: bool = False
    per_row: PerRow | None = None
    shown: Ends | None = None
    suppressed: bool = False
    certain: Ends | None = None


@dataclass(frozen=True)
class Function:
    """`left op right`."""

    op: Op
    left: Quantity
    right: Quantity


def number(value: Fraction) -> Quantity:
    """Return a public number."""
    ends = float(value), float(value)
    return Quantity(Linear(value), ends[0], ends, certain=ends)


def combined(op: Op, left: Quantity, right: Quantity) -> Quantity:
    """Return `left op right`."""
    value = _value(op, left.value, right.value)
    low, high = span(op, _pair(left.domain), _pair(right.domain), outwards=False)
    form = _form(op, left.form, right.form) or Function(op, left, right)
    domain = float(low), float(high)
    if op == "/" and isinstance(form, RatioForm) and not form.cut:
        known = ratio_domain(form, positive=left.domain[0] >= 0 and right.domain[0] >= 0)
        domain = known or domain
    if op == "/":
        domain = within(domain, quotient_range(left.per_row, right.per_row))
    ends = _for_certain(op, left.certain, right.certain)
    certain = None if ends is None else within(ends, domain)
    weak, gone = left.weak or right.weak, left.suppressed or right.suppressed
    each = _per_row(op, left, right)
    return Quantity(form, value, domain, weak, each, suppressed=gone, certain=certain)


def _for_certain(op: Op, left: Ends | None, right: Ends | None) -> Ends | None:
    """Return the range of `left op right` over where both lie for certain; of whole numbers it is exact."""
    if left is None or right is None:
        return None
    whole = op != "/" and all(e.is_integer() and abs(e) < _EXACT for e in left + right)
    low, high = span(op, _pair(left), _pair(right), outwards=not whole)
    return float(low), float(high)


_EXACT = 2.0**26
"""Whole numbers below it have sums and products that are doubles."""


def within(domain: Ends, known: Ends | None) -> Ends:
    """Return what two true statements leave; the narrower one, should rounding have parted them."""
    if known is None:
        return domain
    both = max(domain[0], known[0]), min(domain[1], known[1])
    return both if both[0] <= both[1] else known


def _per_row(op: Op, left: Quantity, right: Quantity) -> PerRow | None:
    """Return what one row adds to a sum, a difference or a multiple of sums over the same rows."""
    a, b = left.per_row, right.per_row
    if op in "+-":
        return None if a is None else a.plus(b, Fraction(1 if op == "+" else -1))
    if a is None and op == "*":
        (a, b), (left, right) = (b, a), (right, left)
    plain = isinstance(right.form, Linear) and not right.form.terms
    if a is None or not plain or not isinstance(right.form, Linear):
        return None
    factor = right.form.constant
    return a.times(factor) if op == "*" else a.times(1 / factor) if factor else None


def added(parts: Sequence[Quantity]) -> Quantity:
    """Return the sum of one quantity or more; of linear forms, thousands of them, in one pass."""
    forms = [q.form for q in parts if isinstance(q.form, Linear)]
    values = [q.value for q in parts if q.value is not None]
    if len(forms) == len(values) == len(parts):
        each = parts[0].per_row
        for part in parts[1:]:
            each = None if each is None else each.plus(part.per_row)
        return summed(parts, total(forms), each, weak=any(q.weak for q in parts))
    out = parts[0]
    for other in parts[1:]:
        out = combined("+", out, other)
    return out


def summed(parts: Sequence[Quantity], form: Linear, each: PerRow | None, *, weak: bool) -> Quantity:
    """Return the sum of quantities, of this form; each: what one row adds to it."""
    values = [q.value for q in parts if q.value is not None]
    value = sum(values) if len(values) == len(parts) else None
    domain = sum(q.domain[0] for q in parts), sum(q.domain[1] for q in parts)
    gone, certain = any(q.suppressed for q in parts), _certain_sum(parts)
    return Quantity(form, value, domain, weak, each, suppressed=gone, certain=certain)


def _certain_sum(parts: Sequence[Quantity]) -> Ends | None:
    """Return where the sum of these lies for certain, rounded outwards; None where one is not known."""
    known = [part.certain for part in parts if part.certain is not None]
    if len(known) < len(parts):
        return None
    low, high = (math.fsum(ends[k] for ends in known) for k in (0, 1))
    whole = low.is_integer() and high.is_integer() and max(abs(low), abs(high)) < 2.0**53
    return (
        (low, high) if whole else (math.nextafter(low, -math.inf), math.nextafter(high, math.inf))
    )


def _pair(ends: Ends) -> tuple[Floats, Floats]:
    return np.asarray(ends[0], dtype=float), np.asarray(ends[1], dtype=float)


_OPERATORS: Mapping[Op, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def _value(op: Op, a: float | None, b: float | None) -> float | None:
    if a is None or b is None or (op == "/" and b == 0):
        return None
    found = _OPERATORS[op](a, b)
    return found if math.isfinite(found) else None


_OTHERS = (Linear, RatioForm, Function)
Form = Linear | RatioForm | Measured | Function


def _form(op: Op, a: Form, b: Form) -> Linear | RatioForm | Measured | None:
    """Return the form, if it is linear, a ratio or a sum of one draw whose law is known."""
    if not isinstance(a, _OTHERS) and not isinstance(b, _OTHERS):
        return a.plus(b) if op == "+" else None
    if isinstance(a, Linear) and isinstance(b, Linear):
        return _linear(op, a, b)
    if isinstance(a, RatioForm) and isinstance(b, RatioForm) and a.bottom == b.bottom:
        if a.cut or b.cut:  # values of two domains: no form of what they are made of
            return None
        if op in "+-":
            return _ratio(a.top.plus(b.top, Fraction(1 if op == "+" else -1)), a.bottom)
        return _ratio(a.top, b.top) if op == "/" else None
    if isinstance(a, RatioForm) and isinstance(b, Linear) and not b.terms:
        return _with_number(op, a, b.constant)
    if isinstance(b, RatioForm) and isinstance(a, Linear) and not a.terms:
        c = a.constant
        if op == "/":
            return None if b.cut else _ratio(b.bottom.times(c), b.top)
        return _with_number("*" if op == "*" else "+", b if op != "-" else _negative(b), c)
    return None


def _negative(ratio: RatioForm) -> RatioForm:
    return replace(ratio, top=ratio.top.times(Fraction(-1)))


def _linear(op: Op, a: Linear, b: Linear) -> Linear | RatioForm | None:
    if op in "+-":
        return a.plus(b, Fraction(1 if op == "+" else -1))
    if op == "*":
        if not b.terms:
            return a.times(b.constant)
        return b.times(a.constant) if not a.terms else None
    if not b.terms:
        return a.times(1 / b.constant) if b.constant else None
    return _ratio(a, b)


def _ratio(top: Linear, bottom: Linear) -> Linear | RatioForm:
    """Return their ratio: a number, if one is a multiple of the other."""
    if len(top.terms) != len(bottom.terms) and top.terms:
        return RatioForm(top, bottom)
    for source, weight in bottom.terms.items():
        factor = top.terms.get(source, Fraction(0)) / weight
        if top == bottom.times(factor):
            return Linear(factor)
        break
    return RatioForm(top, bottom)


def _with_number(op: Op, ratio: RatioForm, c: Fraction) -> RatioForm | None:
    if op in "+-":
        return replace(ratio, top=ratio.top.plus(ratio.bottom, c if op == "+" else -c))
    if op == "*":
        return replace(ratio, top=ratio.top.times(c))
    return replace(ratio, top=ratio.top.times(1 / c)) if c else None


def span(
    op: Op,
    left: tuple[Floats, Floats],
    right: tuple[Floats, Floats],
    *,
    outwards: bool = True,
) -> tuple[Floats, Floats]:
    """Return the range of `left op right` for operands in these ranges, rounded outwards."""
    (a, b), (c, d) = left, right
    with np.errstate(all="ignore"):
        if op == "+":
            low, high = a + c, b + d
        elif op == "-":
            low, high = a - d, b - c
        elif op == "*":
            low, high = _corners(a, b, c, d)
        else:
            low, high = _quotient(a, b, c, d)
    if not outwards:
        return np.asarray(low), np.asarray(high)
    room = 1e-12 * np.maximum(np.abs(low), np.abs(high))
    room = np.where(np.isfinite(room), room, 0.0)
    return np.asarray(low - room), np.asarray(high + room)


def _corners(a: Floats, b: Floats, c: Floats, d: Floats) -> tuple[Floats, Floats]:
    """Return the range of a product; 0 times an unbounded end is 0."""
    ends = [np.where((x == 0) | (y == 0), 0.0, x * y) for x in (a, b) for y in (c, d)]
    return np.minimum.reduce(ends), np.maximum.reduce(ends)


def _quotient(a: Floats, b: Floats, c: Floats, d: Floats) -> tuple[Floats, Floats]:
    """Return the range of a quotient, undefined points left out."""
    inside = (c < 0) & (d > 0)
    low, high = 1 / np.where(d == 0, -0.0, d), 1 / np.where(c == 0, 0.0, c)
    low, high = _corners(a, b, np.where(inside, -np.inf, low), np.where(inside, np.inf, high))
    nowhere = (c == 0) & (d == 0)
    return np.where(nowhere, -np.inf, low), np.where(nowhere, np.inf, high)
