"""The canonical text: of every date and timestamp the same as DuckDB's, and different where cells are."""

from __future__ import annotations

import random
import struct
from datetime import date, datetime

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.engines.code_sql import column
from dprelease.engines.identity import Moment, float_text, text_of
from dprelease.engines.physical import of_arrow
from dprelease.engines.typed_sql import canonical

EDGES = [
    0,
    1,
    -1,
    2**63 - 1,
    2**63 - 2,
    -(2**63),
    -(2**63) + 1,
    -9_223_372_022_400_000_000,
    -9_223_372_022_400_000_001,
]


def _written(array: pa.Array) -> list[str | None]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("t", pa.table({"x": array}))
        sql = canonical(of_arrow(array.type), lambda: column("x")).sql("duckdb")
        return [row[0] for row in connection.execute(f"SELECT {sql} FROM t").fetchall()]


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC"])
def test_timestamps_are_written_as_duckdb_writes_them(unit: str, zone: str | None) -> None:
    rng = random.Random(1)
    ticks = EDGES + [
        rng.randint(-(10 ** rng.randint(1, 18)), 10 ** rng.randint(1, 18)) for _ in range(3000)
    ]
    ticks += [rng.randint(-(2**63), 2**63 - 1) for _ in range(3000)]
    per_second = {"us": 10**6, "ns": 10**9}[unit]
    expected = [Moment(n, per_second, zone is not None).text() for n in ticks]
    assert _written(pa.array(ticks, pa.int64()).view(pa.timestamp(unit, zone))) == expected
    assert sum(text is None for text in expected) >= 2  # the infinite ones, and what lies beyond


def test_dates_are_written_as_duckdb_writes_them() -> None:
    rng = random.Random(2)
    days = [
        -(2**31),
        -(2**31) + 1,
        2**31 - 1,
        *range(-719_900, -719_000),
        *(rng.randint(-(2**31), 2**31 - 1) for _ in range(3000)),
    ]
    assert _written(pa.array(days, pa.int32()).view(pa.date32())) == [
        Moment(n, 0).text() for n in days
    ]


def test_doubles_are_written_as_duckdb_writes_them() -> None:
    rng = random.Random(3)
    values = [struct.unpack("d", rng.randbytes(8))[0] for _ in range(5000)]
    values += [rng.uniform(-1, 1) * 10 ** rng.randint(-8, 20) for _ in range(5000)]
    values += [float(2**53 + n) for n in range(-4, 5)] + [
        0.0,
        -0.0,
        5e-324,
        float("inf"),
        float("-inf"),
        float("nan"),
    ]
    assert _written(pa.array(values)) == [float_text(value) for value in values]


@given(st.datetimes())
def test_a_moment_is_its_datetime(moment: datetime) -> None:
    ticks = (moment - datetime(1970, 1, 1)).days * 86_400_000_000
    ticks += (
        (moment.hour * 60 + moment.minute) * 60 + moment.second
    ) * 1_000_000 + moment.microsecond
    found = Moment(ticks, 1_000_000)
    assert found.datetime() == moment
    assert found.date() == moment.date()
    assert found.text() == text_of(moment)


def test_a_moment_beyond_python_is_not_a_datetime() -> None:
    assert Moment(2**62, 1_000_000).datetime() is None
    assert Moment(10**9, 0).date() is None
    assert Moment(-1, 1_000_000_000).datetime() == datetime(1969, 12, 31, 23, 59, 59, 999_999)
    assert Moment(0, 0).datetime() == datetime(1970, 1, 1)
    assert Moment(0, 0).date() == date(1970, 1, 1)
