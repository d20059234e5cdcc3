"""Exact sums of products too wide for an engine's integers, by digits; and of many bins, by one tally.

A code v is written in digits of `bits` binary places, v = sum of v_i 2**(i bits), so that a product of
codes to their powers is a sum of weight * (product of digits) over a few tuples of digits:

    sum over rows of a^p b^q  =  sum over tuples of  2**shift * multiplicity * sum over rows of digits,

and the engine sums the right-hand side, whose products stay below 2**64. The outer sum is in Python's
integers. So no step, and no two steps together, are too fine for an exact sum: digits get shorter until
a product of them fits.

A sum per bin of a histogram takes time by rows times bins, and a database bounds the columns of a statement. More
than `FEW` bins of one code are therefore one tally of the rows by code, which takes time by rows: a bin's rows are
those up to its upper end less those below its lower one. Where codes are many and bins few, sums take less time.

Bounds. With products below 2**64 a sum over fewer than 2**63 rows stays below 2**127, the HUGEINT of
DuckDB; over 2**48 rows below 2**112 < 10**38, the DECIMAL of Spark (`spark_sql`).

Units    codes in steps of their column. Shapes: sums `(groups, primitives)`, Python integers.
Limits   a product of at most `MOST_FACTORS` codes; squares of pairs (four) are the most that any
         statistic asks for. 53-bit codes then take 60 digit products, ordinary ones 1 to 18.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product

import numpy as np

from dprelease.core.numeric import FEW
from dprelease.query.answer import MOST_SUMS, TABLE_LIMIT, Answer
from dprelease.query.bounded import BoundedQuery, Primitive, largest_code

WIDEST = 2**64
"""What one row adds to any sum of an engine is below this."""

MOST_FACTORS = 4


@dataclass(frozen=True, slots=True)
class Digit:
    """Binary places `low` to `low + bits - 1` of the code numbered `code`; all from `low` on if None."""

    code: int
    low: int = 0
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class DigitProduct(Primitive):
    """A "power" or "product" primitive of which only the product of these digits is summed."""

    digits: tuple[Digit, ...] = ()


def factors(primitive: Primitive) -> tuple[tuple[int, int], ...]:
    """Return (code, power) of a "power" or "product" primitive; empty for any other."""
    if primitive.kind not in ("power", "product") or primitive.code is None:
        return ()
    own = ((primitive.code, primitive.power),)
    return own if primitive.other is None else (*own, (primitive.other, primitive.other_power))


def widest(query: BoundedQuery, primitive: Primitive) -> int:
    """Return the most that one row can add to `primitive` (1 where it only counts)."""
    if isinstance(primitive, DigitProduct):
        tops = (
            _top(query, d.code) >> d.low if d.bits is None else (1 << d.bits) - 1
            for d in primitive.digits
        )
        return math.prod(max(1, top) for top in tops)
    return math.prod(_top(query, code) ** power for code, power in factors(primitive))


def _top(query: BoundedQuery, code: int) -> int:
    return max(1, largest_code(query.codes[code]))


def apart(query: BoundedQuery) -> tuple[BoundedQuery, Callable[[Answer], Answer]]:
    """Return the query that an engine runs, and what makes its answer that of `query`.

    But for bins the primitives keep their places; further digit products stand behind them.
    """
    added_up = None
    if len(query.primitives) > FEW:
        query, added_up = _counted_by_code(query)
    made: list[Primitive] = list(query.primitives)
    terms: dict[int, list[tuple[int, int]]] = {}  # place -> (weight, place of the digit product)
    for place, primitive in enumerate(query.primitives):
        if widest(query, primitive) < WIDEST:
            continue
        terms[place] = []
        for weight, digits in _terms(query, primitive):
            part = _part(primitive, digits)
            at = place if not terms[place] else len(made)
            made[at : at + 1] = [part]
            terms[place].append((weight, at))
    count = len(query.primitives)

    def together(answer: Answer) -> Answer:
        out = answer.sums[:, :count].copy()
        for place, parts in terms.items():
            out[:, place] = sum(weight * answer.sums[:, at] for weight, at in parts)
        whole = replace(answer, sums=out)
        return whole if added_up is None else added_up(whole)

    return (replace(query, primitives=tuple(made)) if terms else query), together


def _counted_by_code(query: BoundedQuery) -> tuple[BoundedQuery, Callable[[Answer], Answer]]:
    """Return the query with one tally in place of many bins of a code, and what adds it up."""
    found: dict[tuple[int, int | None], list[int]] = {}
    for place, p in enumerate(query.primitives):
        if p.kind == "between" and p.code is not None:
            found.setdefault((p.code, p.max_rows), []).append(place)
    groups = len(query.groups.keys)
    many = {}
    for (code, cap), places in found.items():
        codes = groups * (largest_code(query.codes[code]) + 1)
        most = TABLE_LIMIT if len(places) > MOST_SUMS else MOST_SUMS * len(places)
        if len(places) > FEW and codes <= most:
            many[code, cap] = places
    if not many:
        return query, lambda answer: answer
    binned = {place for places in many.values() for place in places}
    others = [place for place in range(len(query.primitives)) if place not in binned]
    tallies = [Primitive("tally", code, max_rows=cap) for code, cap in many]
    less = replace(query, primitives=(*(query.primitives[place] for place in others), *tallies))

    def added_up(answer: Answer) -> Answer:
        sums = np.zeros((groups, len(query.primitives)), dtype=object)
        sums[:, others] = answer.sums[:, : len(others)]
        for at, ((code, _), places) in enumerate(many.items(), len(others)):
            top, bins = largest_code(query.codes[code]) + 1, [query.primitives[p] for p in places]
            low = np.array([min(max(b.low, 0), top) for b in bins])
            high = np.array([min(max(b.high + 1, 0), top) for b in bins])
            tally = answer.tallies[at]
            ends = np.searchsorted(tally[:, 0], np.arange(groups + 1))
            for group in range(groups):
                part = tally[ends[group] : ends[group + 1]]
                upto = np.concatenate([[0], part[:, 3]])
                rows = upto[np.searchsorted(part[:, 1], [low, np.maximum(low, high)])]
                sums[group, places] = (rows[1] - rows[0]).tolist()
        left = {place: answer.tallies[i] for i, place in enumerate(others) if i in answer.tallies}
        return Answer(sums, answer.tables, left)

    return less, added_up


def _part(primitive: Primitive, digits: tuple[Digit, ...]) -> DigitProduct:
    fields = {name: getattr(primitive, name) for name in Primitive.__slots__}
    return DigitProduct(**fields, digits=digits)


def _terms(query: BoundedQuery, primitive: Primitive) -> Iterable[tuple[int, tuple[Digit, ...]]]:
    """Return (weight, digits) whose weighted products add up to the product of the codes."""
    powers = Counter[int]()
    for code, power in factors(primitive):
        powers[code] += power
    lengths = {code: _top(query, code).bit_length() for code in powers}
    counts = dict.fromkeys(powers, 1)

    def each(code: int) -> int:
        return -(-lengths[code] // counts[code])

    while sum(each(code) * power for code, power in powers.items()) >= WIDEST.bit_length():
        longest = max(powers, key=lambda code: each(code) * (powers[code] > 0))
        counts[longest] += 1
    choices = [
        [
            (
                math.factorial(power) // math.prod(math.factorial(n) for n in Counter(at).values()),
                code,
                at,
            )
            for at in combinations_with_replacement(range(counts[code]), power)
        ]
        for code, power in powers.items()
    ]
    for chosen in product(*choices):
        weight, digits = 1, []
        for times, code, at in chosen:
            bits = each(code)
            weight *= times << (bits * sum(at))
            last = counts[code] - 1
            digits += [Digit(code, bits * i, None if i == last else bits) for i in at]
        yield weight, tuple(digits)
