"""Exact numbers, and the one place where exactness is left.

Declared numbers become `Fraction`s through their decimal form. Losses leave exactness only
through the bounds below, which never understate a loss: a lower bound of e^x, an upper bound of a
loss, nano-units rounded up.

Units: epsilon in nats; one nano-unit is 1e-9 of epsilon (or of rho).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol

from dprelease.core.errors import ArgumentError


class NumpyNumber(Protocol):
    """One of numpy's integers or floats, by its shape: numpy need not be installed to check a call."""

    @property
    def shape(self) -> tuple[()]: ...

    def is_integer(self) -> bool: ...

    def __float__(self) -> float: ...


Number = int | float | str | Decimal | Fraction | NumpyNumber
"""What may be given for a number: a float by its shortest decimal form, text as a decimal or "p/q"."""

Exact = Fraction | float
"""A `Fraction`, or one of the two float infinities."""

NANO = 10**9

MOST_DIGITS = 4000
"""Digits of a number that is read from anywhere: more would only keep its reader busy."""

_TOO_LARGE = 10**MOST_DIGITS

_RATIONAL = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}(/[0-9]{{1,{MOST_DIGITS}}})?", re.ASCII)


FEW = 64
"""Lists of up to so many items are always listed."""

MOST_EDGES = 100_001

_EDGES = re.compile(r"\s*(range\s*\(|\[)(.*)[\])]\s*", re.DOTALL)


def exact(value: object, name: str = "value") -> Exact:
    """Return `value` as a `Fraction` (floats through their shortest decimal form) or ±inf.

    Raises:
        ArgumentError: NaN, a boolean, or not a number (DPR605).
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool):
        raise ArgumentError(
            f"{name} is {value}, not a number", fix="write a decimal", code="DPR605"
        )
    if isinstance(value, int):
        return Fraction(_bounded(value, name))
    text = str(value).strip() if not isinstance(value, str) or len(value) <= 2 * MOST_DIGITS else ""
    if _RATIONAL.fullmatch(text):
        top, _, bottom = text.partition("/")
        if int(bottom or 1):
            return Fraction(int(top), int(bottom or 1))
    try:
        decimal = value if isinstance(value, Decimal) else Decimal(text)
    except InvalidOperation:
        raise ArgumentError(
            f"{name} is not a number", fix="write a decimal", code="DPR605"
        ) from None
    if decimal.is_nan():
        raise ArgumentError(f"{name} is NaN", fix="write a number", code="DPR605")
    if decimal.is_infinite():
        return math.inf if decimal > 0 else -math.inf
    if abs(decimal.adjusted()) > 400 or len(decimal.as_tuple().digits) > MOST_DIGITS:
        raise ArgumentError(
            f"{name} is out of range", why="its exponent exceeds 400", code="DPR605"
        )
    return Fraction(decimal)


def _bounded(value: int, name: str) -> int:
    if abs(value) >= _TOO_LARGE:
        raise ArgumentError(f"{name} is out of range", why="it has too many digits", code="DPR605")
    return value


def positive(value: object, name: str, *, allow_zero: bool = False) -> Fraction:
    """Return a finite number above 0 (or at least 0) as a `Fraction`.

    Raises:
        ArgumentError: otherwise (DPR605, DPR606).
    """
    number = exact(value, name)
    if not isinstance(number, Fraction) or number < 0 or (number == 0 and not allow_zero):
        raise ArgumentError(
            f"{name} must be a finite number {'of at least' if allow_zero else 'above'} 0",
            fix=f"give {name} a positive value",
            code="DPR606",
        )
    return number


def plain(value: Exact) -> int | float | str:
    """Return the shortest faithful JSON form: int, float if it round-trips, else "p/q"."""
    if not isinstance(value, Fraction):
        return "inf" if value > 0 else "-inf"
    if value.denominator == 1:
        return int(value)
    try:
        as_float = float(value)
        if Fraction(Decimal(repr(as_float))) == value:
            return as_float
    except OverflowError:
        pass
    return f"{value.numerator}/{value.denominator}"


def short(value: Fraction) -> str:
    """Return a loss for readers: exact if it is short, else six digits, rounded up."""
    exact = str(plain(value))
    if "/" not in exact and "e" not in exact and len(exact) <= 8:
        return exact
    if value <= 0:
        return "0"
    places = max(0, 5 - math.floor(math.log10(float(value))))
    return f"{math.ceil(value * 10**places) / 10**places:.6g}"


def shown(value: Fraction) -> str:
    """Return the number for a reader: exact where its JSON form is a number, else six digits."""
    number = plain(value)
    return f"{float(value):.6g}" if isinstance(number, str) else str(number)


def fraction_to_json(value: Fraction) -> str:
    """Return "p/q" (or "p"), exact."""
    return str(value)


def fraction_from_json(text: object, name: str = "a stored number") -> Fraction:
    """Return an exact number that a file holds: "p", "p/q", a decimal, or a JSON integer.

    Every number that is read from a file goes through here (or `whole_from_json`): a forged one of
    a billion digits is refused by its length, not computed with.

    Raises:
        ArgumentError: not a finite number, or of too many digits (DPR605).
    """
    if not isinstance(text, str | int) or isinstance(text, bool):
        raise ArgumentError(f"{name} is not a number", fix="write an exact one", code="DPR605")
    number = exact(text, name)
    if not isinstance(number, Fraction):
        raise ArgumentError(f"{name} is not finite", fix="write a number", code="DPR605")
    return number


def whole_from_json(
    value: object, name: str = "a stored number", *, least: int | None = None
) -> int:
    """Return a whole number that a file holds, as a JSON integer or its text.

    Raises:
        ArgumentError: not a whole number, below `least`, or of too many digits (DPR605).
    """
    number = fraction_from_json(value, name)
    if number.denominator != 1 or (least is not None and number < least):
        kind = "a whole number" if least is None else f"a whole number of at least {least}"
        raise ArgumentError(f"{name} is not {kind}", fix="write one", code="DPR605")
    return number.numerator


def figure(value: float) -> str:
    """Return three significant digits, thousands separated, no exponent where one can do without.

    >>> figure(4123.4), figure(0.012345), figure(3e-9)
    ('4,120', '0.0123', '3e-09')
    """
    if not 1e-6 <= value < 1e12:
        return f"{value:.3g}"
    decimals = max(0, 2 - math.floor(math.log10(value)))
    return f"{float(f'{value:.3g}'):,.{decimals}f}"


def ranking(value: float) -> float:
    """Return a figure to rank by: of nine digits, so that the last ones do not decide.

    They differ between processors. Where figures tie, the first of them is taken; on all machines, unless a
    figure lies within its last digit of where nine digits round up: about one in 10^7.
    """
    return float(f"{value:.9g}")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return so many of something: "1 row", "1,234 rows"; `plural` where that is not the noun and an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def floor_half_up(value: Fraction) -> int:
    """Return floor(value + 1/2): monotone (`docs/theory/domains-and-grids.md#rounding-to-a-grid`)."""
    return (2 * value.numerator + value.denominator) // (2 * value.denominator)


def exp_lower(x: Fraction, bits: int = 128) -> Fraction:
    """Return a rational lower bound of e^x, x >= 0, within a relative 2**-(bits - 4).

    Truncated Taylor series of e^(x / 2**k), every term rounded down to `work` bits, then squared
    k times, rounding down each time.
    """
    if x < 0:
        raise AssertionError("exp_lower needs x >= 0")
    halvings = max(0, math.ceil(x).bit_length() + 1)
    work = bits + 2 * halvings + 16
    one = 1 << work
    y = (x.numerator << work) // (x.denominator << halvings)
    total, term, n = one, one, 1
    while term:
        term = (term * y >> work) // n  # as one division by both rounds, and faster
        total += term
        n += 1
    for _ in range(halvings):
        total = total * total >> work
    return Fraction(total, one)


def exp_upper(x: Fraction, bits: int = 128) -> Fraction:
    """Return a rational upper bound of e^x, x >= 0: `exp_lower` plus its proven error."""
    return exp_lower(x, bits + 8) * (1 + Fraction(1, 1 << (bits - 4)))


def nano_up(value: Fraction) -> int:
    """Return `value` in nano-units, rounded up (ledger arithmetic)."""
    return math.ceil(value * NANO)


@lru_cache(maxsize=64)
def edges_of(text: str) -> tuple[Fraction, ...]:
    """Return the edges that `text` writes: `[0, 5, 20]`, or `range(first, last, step)` with both ends.

    >>> edges_of("range(0, 1, 0.5)") == edges_of("[0, 0.5, 1]")
    True

    Raises:
        ValueError: it writes none, or fewer than two, or more than `MOST_EDGES`.
    """
    written = _EDGES.fullmatch(text)
    try:
        edges = [Fraction(exact(part, "edge")) for part in written[2].split(",")] if written else []
        if written and written[1] != "[":
            first, last, step = edges
            count = (last - first) / step if step else Fraction(-1)
            whole = count.denominator == 1 and 0 < count < MOST_EDGES
            edges = [first + i * step for i in range(int(count) + 1)] if whole else []
    except (ArgumentError, OverflowError):
        edges = []
    if not 2 <= len(edges) <= MOST_EDGES or any(a >= b for a, b in pairwise(edges)):
        raise ValueError("no edges")
    return tuple(edges)


def edges_text(edges: Sequence[Fraction | int]) -> str:
    """Return the text of edges: of more than `FEW` in equal steps their range."""
    if all(edge.denominator == 1 for edge in edges):
        edges = [edge.numerator for edge in edges]  # of fractions it takes ten times as long
    step = edges[1] - edges[0]
    steps = len(edges) > FEW and all(b - a == step for a, b in pairwise(edges))
    listed = (edges[0], edges[-1], step) if steps else edges
    text = ", ".join(str(e if isinstance(e, int) else plain(Fraction(e))) for e in listed)
    return f"range({text})" if steps else f"[{text}]"


@lru_cache(maxsize=64)
def whole_edges(text: str) -> tuple[int, ...]:
    """Return edges that are whole numbers; ValueError where one is not."""
    edges = edges_of(text)
    if any(edge.denominator != 1 for edge in edges):
        raise ValueError("not whole")
    return tuple(map(int, edges))


@lru_cache(maxsize=64)
def bins(name: str, edges: str) -> tuple[str, ...]:
    """Return the labels of half-open bins, the last one closed: `[5,9)`, ...; `edges` as `edges_of` reads them."""
    ends = [str(plain(edge)) for edge in edges_of(edges)]
    labels = [f"{name}[{low},{high})" for low, high in pairwise(ends)]
    return (*labels[:-1], f"{labels[-1][:-1]}]")


@lru_cache(maxsize=64)
def _named_edges(labels: tuple[str, ...]) -> tuple[str, str] | None:
    """Return the name and the edges' text of bins; None for other labels."""
    name, _, _ = labels[0].rpartition("[")
    lows = [label[len(name) + 1 :].partition(",")[0] for label in labels]
    try:
        edges = edges_text(edges_of(f"[{','.join([*lows, labels[-1].rpartition(',')[2][:-1]])}]"))
    except ValueError:
        return None
    return (name, edges) if bins(name, edges) == labels else None


def short_list(items: tuple[Any, ...]) -> Any:
    """Return a list as JSON: labels of many bins by their edges, many whole numbers in a row as their range."""
    if len(items) <= FEW:
        return list(items)
    if type(items[0]) is int:
        return edges_text(items) if items == (*range(items[0], items[-1] + 1),) else list(items)
    found = _named_edges(items)
    return list(items) if found is None else {"name": found[0], "edges": found[1]}


def long_list(value: Any) -> tuple[Any, ...]:
    """Return the list that `short_list` wrote short."""
    if isinstance(value, str):
        return whole_edges(value)
    name, edges = value["name"], value["edges"]
    if len(value) > 2 or not isinstance(name, str) or not isinstance(edges, str):
        raise ValueError("a list is needed, or bins by their edges")
    return bins(name, edges)


def first_holding(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least integer above `low` for which it holds, `high` if none below does: once it holds, it goes on."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
