"""Cells that DuckDB stops at are null in every declared kind, and hide no other row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, duckdb_table
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from tests.sizes import FULL, some


def table(kind: str, array: pa.Array, folder: Path) -> Source:
    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as connection:
        connection.register("rows", pa.table({"x": array}))
        connection.execute(f"CREATE TABLE t (x {kind}); INSERT INTO t SELECT x FROM rows")
    return duckdb_table(path, "t")


def counted(
    source: Source, column: Column, where: str | None = None, **changes: Any
) -> list[list[int]]:
    condition = None if where is None else parse_condition(where, {"x": column}, origin="test")
    query = BoundedQuery(
        (column,),
        GroupKeys((), ((),)),
        (),
        (Primitive("rows"), Primitive("persons")),
        where=condition,
        max_rows=9,
        **changes,
    )
    out = []
    for engine in (DuckDBEngine(), ReferenceEngine()):
        engine.preflight(source, query)
        out.append(engine.compute(source, query, b"").reveal_to_mechanism().sums[0].tolist())
    return out


BYTES = [
    b"1",
    b" 2.5 ",
    b"\xff",
    b"1\xff",
    b"true",
    b"2020-01-01",
    b"",
    b"\0",
    b"2020-01-01T00:00:00Z",
    None,
]


@pytest.mark.parametrize(
    ("kind", "where", "rows"),
    [
        (Kind.number, "x > 0", 3),
        (Kind.integer, "x is null", 7),
        (Kind.boolean, "x", 2),
        (Kind.date, "x = date '2020-01-01'", 2),
        (Kind.timestamp, "x = timestamp '2020-01-01 00:00'", 2),
        (Kind.category, "x = '2020-01-01'", 1),
        (Kind.identifier, "x is null", 1),
    ],
)
def test_bytes_are_read_as_every_kind(kind: Kind, where: str, rows: int, tmp_path: Path) -> None:
    source = table("BLOB", pa.array(BYTES, pa.binary()), tmp_path)
    assert [found[0] for found in counted(source, Column("x", kind), where)] == [rows, rows]
    assert counted(source, Column("x", kind), user="x") == [[9, 9], [9, 9]]


@pytest.mark.parametrize(("stored", "unit", "odd"), [
    ("TIMESTAMP_S", "s", [2**53, 2**62, -(2**63), 2**63 - 1, -(2**63) + 1]),
    ("TIMESTAMP_MS", "ms", [2**62, -(2**63), 2**63 - 1, -(2**63) + 1]),
    ("TIMESTAMP", "us", [-(2**63), -(2**63) + 1, 2**63 - 1, -9_223_372_022_400_000_001]),
])  # fmt: skip
def test_instants_out_of_range_are_null(
    stored: str, unit: str, odd: list[int], tmp_path: Path
) -> None:
    others = [[], *([one] for one in odd)] if FULL else []  # each by itself in `make evidence`
    for more in (*others, odd):
        cells = [0, 1, 1, *more]
        source = table(stored, pa.array(cells, pa.int64()).view(pa.timestamp(unit)), tmp_path)
        for kind in some((Kind.identifier, Kind.category, Kind.node), 3):
            assert counted(source, Column("x", kind), user="x") == [[3, 2], [3, 2]]
            assert [found[0] for found in counted(source, Column("x", kind), "x is null")] == [
                len(cells) - 3
            ] * 2
        for kind in (Kind.date, Kind.timestamp):
            assert [found[0] for found in counted(source, Column("x", kind), "year(x) = 1970")] == [
                3,
                3,
            ]


def test_nanoseconds_are_cut_and_not_rounded_into_the_next_day(tmp_path: Path) -> None:
    for stored, zone in (("TIMESTAMP_NS", None), ("TIMESTAMPTZ_NS", "UTC")):
        last = 86_400 * 10**9 - 1  # 1970-01-01 23:59:59.999999999
        source = table(
            stored,
            pa.array([last, -1, -(2**63), 2**63 - 1], pa.int64()).view(pa.timestamp("ns", zone)),
            tmp_path,
        )
        assert [n for n, _ in counted(source, Column("x", Kind.date), "x = date '1970-01-01'")] == [
            1,
            1,
        ]
        assert [
            n
            for n, _ in counted(
                source, Column("x", Kind.timestamp), "x < timestamp '1970-01-01 00:00'"
            )
        ] == [2, 2]


DECIMALS = {
    "DECIMAL(38, 38)": (("0.5", "-0." + "9" * 38), ("0",)),
    "DECIMAL(38, 37)": (("-1", "0.5"), ("1." + "0" * 36 + "1", "0." + "9" * 37, "1", "0")),
    "DECIMAL(38, 0)": (("10", "100", "-1", "9" * 38), ("1", "0")),
    "DECIMAL(4, 4)": (("0.5", "0.1"), ("0",)),
    "DECIMAL(3, 2)": (("1.01", "-1", "9.99"), ("1", "0")),
    "HUGEINT": (("10", "-1", "100"), ("1", "0")),
}


@pytest.mark.parametrize("kind", DECIMALS)
def test_a_decimal_is_a_boolean_where_it_is_the_double_one_or_zero(
    kind: str, tmp_path: Path
) -> None:
    others, answers = DECIMALS[kind]
    column = Column("x", Kind.boolean)
    cells = pa.array([*others, *answers, None])
    source = table(kind, cells, tmp_path)
    for where, wanted in (
        ("x", len([a for a in answers if float(a) == 1])),
        ("not x", 1),
        *([("x is null", len(others) + 1)] if FULL else []),
    ):
        assert counted(source, column, where) == [[wanted, wanted]] * 2, (kind, where)


SPACES = "\t\n\v\f\r\u00a0\u1680\u2000\u2003\u2007\u2009\u200b\u2028\u202f\u205f\u3000\ufeff"


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        (Column("x", Kind.category, values=("north", "1")), "north"),
        (Column("x", Kind.category, values=("north", "01")), "01"),
        (Column("x", Kind.category, values=("north", "1")), "1"),
        (Column("x", Kind.boolean), "yes"),
        (Column("x", Kind.boolean), "true"),
        (Column("x", Kind.number), "true"),
        (Column("x", Kind.number), "5"),
        (Column("x", Kind.date), "2020-01-01"),
        (Column("x", Kind.timestamp), "2020-01-01 10:00"),
    ],
)
def test_a_blank_is_the_same_letter_for_every_engine(
    column: Column, cell: str, tmp_path: Path
) -> None:
    """DuckDB's TRIM takes off every space of Unicode, Python's reference and PostgreSQL the blank."""
    cells = [f" {cell} ", *(s + cell for s in SPACES), *(cell + s for s in SPACES)]
    source = table("VARCHAR", pa.array(cells, pa.string()), tmp_path)
    found, expected = counted(source, column, "x is not null")
    ascii_of_numbers = 10 if column.kind is Kind.number and cell == "5" else 0
    assert found[0] == expected[0] == 1 + ascii_of_numbers
