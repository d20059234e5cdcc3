"""Codes and summands of a bounded query as SQL over one stage's columns.

A code is made in two steps, so that each is one expression over a named column:

    c = floor(clip(x) * den / num + 3/4)      doubles, clipped before and after, then BIGINT
    s = c, or c - 1 where x < (c - 1/2) * num / den; on steps of one by what is behind the point
    s = clip(x)                               the same of whole numbers on steps of one
    v = nearest point of the grid to s, ties to the lower, minus the grid's lower end

c is s or the step above. The half-way point below it is one division of two whole numbers, hence the
double nearest to it: x goes up from that double on, in every engine alike, and a number that was
written as a decimal half-way goes up (`docs/theory/domains-and-grids.md#rows-are-clamped`).

Nothing here can raise: s lies within the grid's hull, |s| <= 2**53, before the only cast, and
`request.check_query` bounds every sum. Nulls are tested first everywhere: LEAST and GREATEST skip
nulls, so a null that reached them would become the lower end.

Units: s in steps of the column from zero, v in steps from the grid's lower end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import pairwise

from sqlglot import exp

from dprelease.engines.digits import Digit, DigitProduct, factors, widest
from dprelease.engines.request import rounding, row_cap
from dprelease.engines.typed_sql import case, number, try_cast
from dprelease.query.bounded import BoundedQuery, Fixed, Primitive, largest_code

Bind = Callable[[object, str], exp.Expression]
"""Binds a value as a parameter of the given SQL type."""


def column(name: str, table: str | None = None) -> exp.Expression:
    """Return a quoted column, of `table` when given."""
    owner = None if table is None else exp.to_identifier(table)
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=owner)


def aliased(tree: exp.Expression, name: str) -> exp.Expression:
    """Return `tree AS "name"`."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def named_table(name: str, alias: str) -> exp.Expression:
    """Return the table or stage `name AS alias`."""
    return exp.Table(
        this=exp.to_identifier(name), alias=exp.TableAlias(this=exp.to_identifier(alias))
    )


def first_row(cells: int) -> str:
    """Return the column that is 1 in one row of each user and cell of a map of the groups."""
    return f"f{cells}"


def is_null(this: exp.Expression) -> exp.Expression:
    """Return `this IS NULL`."""
    return exp.Is(this=this, expression=exp.Null())


def all_of(conditions: Iterable[exp.Expression]) -> exp.Expression:
    """Return the condition that all of them hold; of none it is true."""
    out: exp.Expression | None = None
    for one in conditions:
        out = one if out is None else exp.And(this=out, expression=one)
    return exp.true() if out is None else out


def not_null(this: exp.Expression) -> exp.Expression:
    """Return `NOT this IS NULL`."""
    return exp.Not(this=is_null(this))


def steps(code: Fixed, make: Callable[[], exp.Expression], bind: Bind) -> exp.Expression:
    """Return s as BIGINT, null for null; `make` gives x as DOUBLE, NaN already null."""
    doubles = rounding(code)

    # what stands twice is bound once and lies in no CASE: there DuckDB would compute it twice
    inside = _clip(make(), bind(doubles.low, "DOUBLE"), bind(doubles.high, "DOUBLE"))
    known = case((is_null(make()), exp.Null()), default=try_cast(number(0), "DOUBLE"))
    half = bind(0.5, "DOUBLE")
    whole: exp.Expression
    if code.step == 1:  # what is behind the point is a double, of any double
        floor = exp.Floor(this=inside)
        part = exp.Sub(this=inside.copy(), expression=floor)
        up = exp.GTE(this=part, expression=half)
        whole = exp.Add(this=floor.copy(), expression=try_cast(up, "DOUBLE"))
    else:
        scaled = _times(inside, (doubles.den, doubles.num), bind)
        c = exp.Floor(this=exp.Add(this=scaled, expression=bind(0.75, "DOUBLE")))
        below = exp.Paren(this=exp.Sub(this=c, expression=half))
        middle = _times(below, (doubles.num, doubles.den), bind)
        down = exp.LT(this=inside.copy(), expression=middle)
        whole = exp.Sub(this=c.copy(), expression=try_cast(down, "DOUBLE"))
        # again: the rounding of doubles may step over an end
        low, high = float(code.grid.lower), float(code.grid.upper)
        whole = _clip(whole, bind(low, "DOUBLE"), bind(high, "DOUBLE"))
    return try_cast(exp.Add(this=whole, expression=known), "BIGINT")


def _times(value: exp.Expression, ratio: tuple[float, float], bind: Bind) -> exp.Expression:
    """Return a double times one whole number, over another; what is 1 is left out."""
    times, over = ratio
    if times != 1:
        value = exp.Mul(this=value, expression=bind(times, "DOUBLE"))
    return value if over == 1 else exp.Div(this=value, expression=bind(over, "DOUBLE"))


def whole_steps(code: Fixed, make: Callable[[], exp.Expression]) -> exp.Expression:
    """Return s as BIGINT of a column that stores whole numbers, on steps of one.

    The same integers as `steps`, in two thirds of the time: doubles and LEAST of GREATEST cost more
    than all the sums. What most rows are stands first: a branch that takes a whole batch is free.
    """
    low, high = number(code.grid.lower), number(code.grid.upper)
    # not BETWEEN, which takes a third longer
    inside = exp.And(
        this=exp.GTE(this=make(), expression=low), expression=exp.LTE(this=make(), expression=high)
    )
    clipped = case(
        (inside, make()),
        (exp.LT(this=make(), expression=low.copy()), low.copy()),
        (exp.GT(this=make(), expression=high.copy()), high.copy()),
    )
    return try_cast(clipped, "BIGINT")


def _clip(value: exp.Expression, low: exp.Expression, high: exp.Expression) -> exp.Expression:
    raised = exp.Greatest(this=value, expressions=[low], ignore_nulls=True)
    return exp.Least(this=raised, expressions=[high], ignore_nulls=True)


def code_of_steps(code: Fixed, name: str) -> exp.Expression:
    """Return v from the column `name` that holds s; the default for null."""
    gaps = []
    for (_, left), (right, _) in pairwise(code.grid.runs):
        inside = exp.And(
            this=exp.GT(this=column(name), expression=number(left)),
            expression=exp.LT(this=column(name), expression=number(right)),
        )
        nearer_left = exp.LTE(
            this=exp.Mul(this=number(2), expression=column(name)),
            expression=number(left + right),
        )
        gaps.append((inside, case((nearer_left, number(left)), default=number(right))))
    nearest = case(*gaps, default=column(name)) if gaps else column(name)
    offset = nearest
    if code.grid.lower:
        offset = exp.Sub(this=nearest, expression=number(code.grid.lower))
    if code.default is not None:  # else null already, like everything that is made of it
        offset = case((is_null(column(name)), number(code.default)), default=offset)
    return offset


def aggregated(query: BoundedQuery, primitive: Primitive, most_rows: int) -> exp.Expression:
    """Return `primitive` over the kept rows of one group.

    `distinct` leaves null codes out by itself; a tally is counted apart (`tally`).
    """
    if primitive.kind == "tally":
        return number(0)
    if primitive.kind == "persons" and query.per is not None:
        return _different(column("u"), query, primitive, most_rows)
    if primitive.kind != "distinct":
        added = summand(query, primitive, most_rows)
        ones = primitive.kind in ("rows", "persons", "between", "persons_in_cells")
        if ones or (primitive.kind == "power" and primitive.power == 0):
            # counted, not summed: a HUGEINT sum of ones takes twice as long
            return exp.Count(this=exp.Star() if added == number(1) else added)
        return exp.Coalesce(this=exp.Sum(this=added), expressions=[number(0)])
    return _different(column(f"v{primitive.code}"), query, primitive, most_rows)


def _different(
    value: exp.Expression, query: BoundedQuery, primitive: Primitive, most_rows: int
) -> exp.Expression:
    """Return the number of different values among the rows that `primitive` counts, nulls left out."""
    cap = row_cap(query, primitive)
    if query.user is not None and cap < most_rows:
        few = exp.LTE(this=column("n"), expression=number(cap))
        value = case((few, value), default=exp.Null())
    return exp.Count(this=exp.Distinct(expressions=[value]))


def summand(query: BoundedQuery, primitive: Primitive, most_rows: int) -> exp.Expression:
    """Return what one kept row adds to `primitive`, null for nothing.

    What is counted is not null where it counts. Rows numbered above `most_rows` are gone.
    """
    conditions: list[exp.Expression] = []
    value = number(1)
    cap = row_cap(query, primitive)
    if query.user is not None and cap < most_rows:
        conditions.append(exp.LTE(this=column("n"), expression=number(cap)))
    if isinstance(primitive, DigitProduct):
        # no digit of a code of power 0 is there to be null
        conditions += [
            not_null(column(f"v{code}")) for code, power in factors(primitive) if not power
        ]
        value = _digits(query, primitive)
    elif primitive.kind == "persons_in_cells" and query.user is not None:
        first = column(first_row(query.cell_maps.index(primitive.cells)))
        conditions.append(exp.EQ(this=first, expression=number(1)))
    elif primitive.kind == "between":
        assert primitive.code is not None
        low, high = number(primitive.low), number(primitive.high)
        conditions.append(exp.Between(this=column(f"v{primitive.code}"), low=low, high=high))
    elif primitive.kind == "power":
        assert primitive.code is not None
        value = _product(query, ((primitive.code, primitive.power),))
    elif primitive.kind == "product":
        assert primitive.code is not None
        assert primitive.other is not None
        pair = ((primitive.code, primitive.power), (primitive.other, primitive.other_power))
        conditions += [not_null(column(f"v{code}")) for code, power in pair if not power]
        value = _product(query, pair)
    if not conditions:
        return value
    return case((all_of(conditions), value))


def _product(query: BoundedQuery, factors: tuple[tuple[int, int], ...]) -> exp.Expression:
    """Return the product of codes to their powers; HUGEINT where a BIGINT would raise.

    Null where a code is; of no powers at all it is the first code itself, which only counts.
    """
    most = math.prod(max(1, largest_code(query.codes[code])) ** power for code, power in factors)
    names = [f"v{code}" for code, power in factors for _ in range(power)]
    if not names:
        return column(f"v{factors[0][0]}") if len(factors) == 1 else number(1)
    value = try_cast(column(names[0]), "HUGEINT") if most >= 2**63 else column(names[0])
    for name in names[1:]:
        value = exp.Mul(this=value, expression=column(name))
    return value


def _digits(query: BoundedQuery, primitive: DigitProduct) -> exp.Expression:
    """Return the product of digits of codes; HUGEINT where a BIGINT would raise, null where a code is."""
    digits = [_digit(digit) for digit in primitive.digits]
    value = try_cast(digits[0], "HUGEINT") if widest(query, primitive) >= 2**63 else digits[0]
    for digit in digits[1:]:
        value = exp.Mul(this=value, expression=digit)
    return value


def _digit(digit: Digit) -> exp.Expression:
    """Return binary places of a code, which is never negative."""
    value: exp.Expression = column(f"v{digit.code}")
    if digit.low:
        value = exp.BitwiseRightShift(this=value, expression=number(digit.low))
    if digit.bits is not None:
        if digit.low:
            value = exp.Paren(this=value)
        value = exp.BitwiseAnd(this=value, expression=number((1 << digit.bits) - 1))
    return exp.Paren(this=value)
