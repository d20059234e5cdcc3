"""Expressions in PostgreSQL: every operator, function and kind of the language, with the reference's answers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import Any, get_args, get_type_hints

import pytest

from dprelease.engines.code_sql import column
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.postgres_engine import PostgresEngine
from dprelease.engines.postgres_remainder import remainder
from dprelease.engines.reference import ReferenceEngine
from dprelease.query import nodes as n
from dprelease.query.bounded import BoundedQuery, Condition, GroupKeys, Primitive
from dprelease.query.expression import evaluate, parse_condition, parse_expression
from dprelease.query.nodes import Expression
from dprelease.schema.column import Column, Kind
from dprelease.testing.engines import answer
from tests.engines.postgres_server import binaries, server
from tests.engines.postgres_tables import load, table
from tests.sizes import FULL, some

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with server() as running:
        yield running


# -- the whole language ------------------------------------------------------------------------

COLUMNS = {
    "x": Column("x", Kind.number),
    "y": Column("y", Kind.integer),
    "flag": Column("flag", Kind.boolean),
    "word": Column("word", Kind.category, values=("a", "B", "ä")),
    "day": Column("day", Kind.date),
    "at": Column("at", Kind.timestamp),
}
CELLS: dict[str, list[Any]] = {
    "x": [0.0, -0.0, 2.5, -7.25, 1e308, -1e308, 5e-324, 0.1, float("inf"), float("-inf"), float("nan"), None],
    "y": [0, 1, -3, 7, 2**53, -(2**62), None],
    "flag": [True, False, None],
    "word": ["a", "A", "B", "ä", "", "a ", None],
    "day": [date(2020, 2, 29), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31), None],
    "at": [datetime(2020, 2, 29, 23, 59, 59, 999_999), datetime(1969, 12, 31, 12), datetime(1, 1, 1),
           datetime(9999, 12, 31, 23, 59), None],
}  # fmt: skip
CONDITIONS = (
    "x + y > 0", "x - y < 1", "x * y >= 0", "x / y <= 2", "x % y = 0", "x % 2 != 0", "-x > y", "abs(x) > 2",
    "floor(x) = x", "ceil(x) - floor(x) = 1", "year(day) = 2020", "quarter(at) = 1", "month(day) > 6", "week(at) = 9",
    "day(at) = 31", "hour(at) >= 12", "minute(at) = 59", "weekday(day) = 6", "weekday(at) < 4",
    "days_between(day, at) > 0", "hours_between(at, day) >= 12", "minutes_between('2020-01-01', at) > 1.5",
    "seconds_between(at, '2020-03-01 00:00:00') = 1e-6", "timestamp(day) < at", "timestamp(day) = at",
    "x between y and 3", "day between date '1969-01-01' and date '2020-12-31'", "word in ('a', 'ä')",
    "y in (1, 7, 0.1)", "word = 'a'", "word < 'a'", "word >= 'ä'", "x is null", "not (word is not null)",
    "flag and x > 0", "flag or y = 1", "not flag", "if(flag, x, y) > 1",
    "case when x > 1 then word when flag then 'B' else null end = 'B'", "coalesce(x, y, 4) > 3",
    "coalesce(word, 'none') = 'none'", "coalesce(day, date '2020-02-29') = date '2020-02-29'", "flag = true", "day = at",
)  # fmt: skip


def parts(tree: Any) -> Iterator[Any]:
    """Yield every node of an expression."""
    if is_dataclass(tree):
        yield tree
        for field in fields(tree):
            yield from parts(getattr(tree, field.name))
    elif isinstance(tree, tuple):
        for one in tree:
            yield from parts(one)


def spelt(node: Any) -> tuple[str, str]:
    """Return a node's class and which of its operators it is."""
    which = next((getattr(node, at) for at in ("op", "part", "unit") if hasattr(node, at)), "")
    return type(node).__name__, which


def language() -> set[tuple[str, str]]:
    """Return every class of nodes with each of its operators."""
    found = set()
    for kind in get_args(n.Node):
        names = {f.name for f in fields(kind)}
        at = next((name for name in ("op", "part", "unit") if name in names), None)
        choices = [""] if at is None else get_args(get_type_hints(kind)[at])
        found |= {(kind.__name__, one) for one in choices}
    return found


def test_every_operator_and_function_is_asked() -> None:
    read = [parse_condition(text, COLUMNS, origin="test") for text in CONDITIONS]
    used = {spelt(node) for expression in read for node in parts(expression.tree)}
    assert used == language()


def asked(conditions: tuple[Expression, ...], where: Expression | None) -> BoundedQuery:
    codes = tuple(Condition(one) for one in conditions)
    primitives = [Primitive("power", j, power) for j in range(len(codes)) for power in (0, 1)]
    return BoundedQuery(
        tuple(COLUMNS.values()), GroupKeys((), ((),)), codes, (Primitive("rows"), *primitives), where=where
    )  # fmt: skip


def test_every_operator_and_function_answers_as_everywhere(dsn: str) -> None:
    rng = random.Random("language")
    rows = {name: [rng.choice(cells) for _ in range(400)] for name, cells in CELLS.items()}
    with psycopg.connect(dsn) as connection:
        load(connection, rows, "language")
    read = tuple(parse_condition(text, COLUMNS, origin="test") for text in CONDITIONS)
    last = parse_condition("not (x % y > 0) or flag", COLUMNS, origin="test")
    for where in (read[0], None, last) if FULL else (last,):
        query = asked(read, where)
        PostgresEngine().preflight(table(dsn, "language"), query)
        found = answer(PostgresEngine(), table(dsn, "language"), query)
        assert found == answer(ReferenceEngine(), table(dsn, "language"), query)
        assert found == answer(DuckDBEngine(), table(dsn, "language"), query)
    known, true = found[0][1::2], found[0][2::2]
    assert all(0 < o < k for o, k in zip(true, known, strict=True))


# -- arithmetic --------------------------------------------------------------------------------

EXTREMES = [0.0, 5e-324, 1e-310, 1e-200, 1e-160, 1e-150, 0.1, 1.0, 3.0, 1e150, 1e154, 1.3e154, 1.35e154,
            1e200, 1e290, 8.9e307, 8.98846567431158e307, 1e308, 1.7976931348623157e308, float("inf")]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "x + y",
        "x - y",
        "x * y",
        "x / y",
        "x % y",
        "x % 2.5",
        "(x * y) / y",
        "x + y + 1 - y",
        "(x / y) % (x - y)",
    ],
)
def test_arithmetic_raises_for_no_doubles_and_is_pythons(dsn: str, text: str) -> None:
    pairs = [
        (s * a, t * b)
        for n, (a, b) in enumerate(itertools.product(EXTREMES, repeat=2))
        for s in ((1, -1) if FULL else (1 - 2 * (n % 2),))  # a sign and its mirror image are alike
        for t in (1, -1)
    ]
    columns = {name: Column(name, Kind.number) for name in "xy"}
    expression = parse_expression(text, columns, origin="test")
    values = [evaluate(expression, {"x": x, "y": y}) for x, y in pairs]
    at = [
        f"{text} {sign} {c}" for sign in ("<", "=") for c in some(("0", "1e300", "1", "-1e300"), 2)
    ]
    codes = tuple(Condition(parse_condition(one, columns, origin="test")) for one in at)
    with psycopg.connect(dsn) as connection:
        load(connection, {"x": [x for x, _ in pairs], "y": [y for _, y in pairs]}, "extremes")
    query = BoundedQuery(
        tuple(columns.values()), GroupKeys((), ((),)), codes,
        tuple(Primitive("power", j, p) for j in range(len(at)) for p in (0, 1)),
    )  # fmt: skip
    found = answer(PostgresEngine(), table(dsn, "extremes"), query)
    assert found == answer(ReferenceEngine(), table(dsn, "extremes"), query)
    assert any(value is None for value in values)
    assert any(value is not None for value in values)


def test_remainders_are_those_of_c(dsn: str) -> None:
    rng = random.Random("remainders")
    sizes = [*EXTREMES, 2.0**53, 2.0**53 + 2, 1 / 3, 2.2250738585072014e-308]
    sizes += [rng.random() * 10.0 ** rng.randint(-320, 308) for _ in range(40)]
    pairs = [(s * a, b) for a, b in itertools.product(sizes, repeat=2) for s in (1, -1)]

    def fmod(a: float, b: float) -> float | None:
        return None if b == 0 or math.isinf(a) else math.fmod(a, b)

    sql = remainder(lambda: column("x"), lambda: column("y")).sql("postgres")
    with psycopg.connect(dsn) as connection:
        rows = connection.execute(
            f"SELECT {sql} FROM unnest(%s::float8[], %s::float8[]) AS rows(x, y)",
            [[a for a, _ in pairs], [b for _, b in pairs]],
        ).fetchall()
    assert [value for (value,) in rows] == [fmod(*pair) for pair in pairs]
