"""Any column of any frame becomes plain Arrow; no cell raises, no two ids become one."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.identity import text_of
from dprelease.engines.in_memory import pandas_array, plain_array, plain_table
from dprelease.engines.physical import Physical, of_arrow, of_duckdb
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain


class Rude:
    def __str__(self) -> str:
        raise ValueError("CANARY")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, None),
        (float("nan"), None),
        (np.float32("nan"), None),
        (pd.NaT, None),
        (pd.NA, None),
        (Decimal("NaN"), None),
        (np.datetime64("NaT", "s"), None),
        (Rude(), None),
        (7.0, "7"),
        (-0.0, "0"),
        (7.5, "7.5"),
        (2.0**53, "9007199254740992.0"),
        (float("inf"), "inf"),
        (np.int64(7), "7"),
        (10**30, "1" + "0" * 30),
        (True, "true"),
        (np.bool_(False), "false"),
        (b"ab", "ab"),
        (b"\xff", "\0ff"),
        (b"\\xff", "\\xff"),
        ("\\xff", "\\xff"),
        (b"\0a", "\0" + "0061"),
        ("\ud800", "\0eda080"),
        (date(2020, 1, 2), "2020-01-02"),
        (datetime(2020, 1, 2, 3, tzinfo=UTC), "2020-01-02 03:00:00+00"),
        (datetime(2020, 1, 2, 3, 4, 5, 120_000), "2020-01-02 03:04:05.12"),
        (pd.Timestamp(1), "1970-01-01 00:00:00.000000001"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("1.50"), "1.50"),
        ([1], "[1]"),
    ],
)
def test_text_of_a_cell(cell: object, text: str | None) -> None:
    assert text_of(cell) == text


@given(st.lists(st.binary(max_size=4), unique=True, max_size=8))
def test_two_byte_ids_stay_two(cells: list[bytes]) -> None:
    assert len({text_of(cell) for cell in cells}) == len(cells)


@given(
    st.one_of(
        st.text(),
        st.characters(categories=["Cs"]),
        st.binary(),
        st.floats(),
        st.integers(),
    )
)
def test_text_is_always_utf8(cell: object) -> None:
    text = text_of(cell)
    assert text is None or text.encode("utf-8").decode("utf-8") == text


SERIES: dict[str, tuple[Any, list[object]]] = {
    "int8": (pd.Series([1, 2], dtype="int8"), [1, 2]),
    "uint64": (pd.Series([1, 2**64 - 1], dtype="uint64"), [1, 2**64 - 1]),
    "Int64": (pd.Series([1, None], dtype="Int64"), [1, None]),
    "float16": (pd.Series([1.5, np.nan], dtype="float16"), [1.5, None]),
    "boolean": (pd.Series([True, None], dtype="boolean"), [True, None]),
    "string": (pd.Series(["a", None], dtype="string"), ["a", None]),
    "arrow string": (
        pd.Series(["a", None], dtype=pd.ArrowDtype(pa.string())),
        ["a", None],
    ),
    "invalid arrow string": (
        pd.Series(pd.arrays.ArrowExtensionArray(pa.array([b"\xff", b"a", None]).view(pa.string()))),
        ["\0ff", "a", None],
    ),
    "arrow bytes": (pd.Series([b"\xff", b"a"], dtype=pd.ArrowDtype(pa.binary())), ["\0ff", "a"]),
    "categorical": (pd.Series(["a", None, "b"], dtype="category"), ["a", None, "b"]),
    "categorical numbers": (pd.Series([1, 2], dtype="category"), ["1", "2"]),
    "datetime": (
        pd.Series([datetime(2020, 1, 1), pd.NaT]),
        [datetime(2020, 1, 1), None],
    ),
    "zoned": (
        pd.Series(pd.to_datetime(["2020-07-01"])).dt.tz_localize("Europe/Dublin"),
        [datetime(2020, 6, 30, 23, tzinfo=UTC)],
    ),
    "mixed": (
        pd.Series([1, "x", None, 2.0, b"y", True]),
        ["1", "x", None, "2", "y", "true"],
    ),
    "bytes": (pd.Series([b"a", b"\xff"]), ["a", "\0ff"]),
    "surrogate": (pd.Series(["\ud800", "b"], dtype=object), ["\0eda080", "b"]),
    "categorical with an odd one": (
        pd.Series([1.5, None, "x", True], dtype="category"),
        ["1.5", None, "x", "true"],
    ),
    "categorical days": (pd.Series([date(2020, 1, 2)], dtype="category"), ["2020-01-02"]),
    "long double": (pd.Series(np.array([1.5, 2], dtype=np.longdouble)), ["1.5", "2"]),
    "sparse": (pd.Series(pd.arrays.SparseArray([0, 0, 5])), [0, 0, 5]),
    "fractions": (pd.Series([Fraction(1, 2)]), ["1/2"]),
    "rude": (pd.Series([Rude(), 1], dtype=object), [None, "1"]),
    "empty": (pd.Series([], dtype=object), []),
}


@pytest.mark.parametrize("name", SERIES)
def test_pandas_series_of_every_make(name: str) -> None:
    series, cells = SERIES[name]
    found = pandas_array(series)
    assert found.to_pylist() == cells
    assert of_arrow(found.type) is not Physical.other
    assert of_arrow(pandas_array(series.iloc[:0]).type) is of_arrow(found.type)


@pytest.mark.parametrize(
    ("array", "cells"),
    [
        (pa.array(["a", None]).dictionary_encode(), ["a", None]),
        (pa.array([1.5], pa.float16()), [1.5]),
        (pa.array([Decimal("1.5")], pa.decimal256(60, 1)), ["1.5"]),
        (pa.array([Decimal("1.5"), None], pa.decimal256(38, 1)), [Decimal("1.5"), None]),
        (pa.array([b"\xff", b"a", b"\\xff"]), ["\0ff", "a", "\\xff"]),
        (pa.array([b"ab"], pa.binary(2)), ["ab"]),
        (pa.array(["é"], pa.string_view()), ["é"]),
        (pa.nulls(2), [None, None]),
        (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), ["a", "a", "b"]),
        (pa.array([date(2020, 1, 1)], pa.date64()), [date(2020, 1, 1)]),
        (pa.array([1, 2**62], pa.timestamp("s")), [datetime(1970, 1, 1, 0, 0, 1), None]),
        (pa.array([0, 1], pa.int64()).view(pa.date64()), [date(1970, 1, 1), None]),
        (pa.chunked_array([], pa.binary()), []),
    ],
)
def test_arrow_arrays_of_every_make(array: Any, cells: list[object]) -> None:
    assert plain_array(array).to_pylist() == cells


@pytest.mark.parametrize("digits", range(1, 39, 4))
def test_a_decimal_of_few_digits_is_one_that_engines_read(digits: int) -> None:
    narrow = plain_array(pa.array([Decimal("0.1")], pa.decimal256(digits, 1)))
    assert narrow.type == pa.decimal128(digits, 1)
    with duckdb.connect() as connection:
        connection.register("rows", pa.table({"c": narrow}))
        assert connection.sql("SELECT c FROM rows").fetchall() == [(Decimal("0.1"),)]


def test_instants_beyond_the_range_do_not_raise() -> None:
    huge = pa.array([2**62, -(2**62), 0])
    column = Column("at", Kind.timestamp)
    query = BoundedQuery((column,), GroupKeys((), ((),)), (), (Primitive("rows"),), user="at")
    for kind in (
        pa.timestamp("s"),
        pa.timestamp("ms", "UTC"),
        pa.timestamp("us"),
        pa.date64(),
    ):
        source = as_source(pa.table({"at": huge.view(kind)}))
        DuckDBEngine().preflight(source, query)
        assert DuckDBEngine().compute(source, query, b"").reveal_to_mechanism().sums[0, 0] >= 1


def test_polars_frames_lazy_frames_and_categoricals() -> None:
    column = Column("k", Kind.category, values=("a", "b"))
    x = Column("x", Kind.number)
    code = Fixed("x", Domain(0, 10).on_grid(Fraction(1)), Fraction(1))
    query = BoundedQuery((column, x), GroupKeys((column,), (("a",), ("b",))), (code,),
                         (Primitive("rows"), Primitive("power", 0, 1)))  # fmt: skip
    frame = pl.DataFrame({"k": ["a", "b", None, "a"], "x": [1, 2, 3, 99]}).with_columns(
        pl.col("k").cast(pl.Categorical)
    )
    for data in (frame, frame.lazy()):
        for engine in (DuckDBEngine(), ReferenceEngine()):
            engine.preflight(as_source(data), query)
            found = engine.compute(as_source(data), query, b"").reveal_to_mechanism().sums
            assert found.tolist() == [[2, 11], [1, 2]]


def test_only_the_asked_columns_are_converted() -> None:
    frame = pd.DataFrame({"a": [1], "b": pd.Series([Rude()], dtype=object)})
    assert plain_table(as_source(frame), ["a"]).to_pydict() == {"c0": [1]}


@pytest.mark.parametrize(
    ("name", "physical"),
    [
        ("DECIMAL(18,3)", Physical.exact),
        ("UHUGEINT", Physical.exact),
        ("TINYINT", Physical.whole),
        ("UINTEGER", Physical.whole),
        ("UBIGINT", Physical.unsigned),
        ("FLOAT", Physical.float),
        ("ENUM('a', 'b')", Physical.text),
        ("VARCHAR", Physical.text),
        ('"NULL"', Physical.text),
        ("TIMESTAMP WITH TIME ZONE", Physical.instant),
        ("TIMESTAMP_NS", Physical.nanoseconds),
        ("TIMESTAMPTZ_NS", Physical.nanosecond_instant),
        ("TIMESTAMP_S", Physical.seconds),
        ("BLOB", Physical.bytes),
        ("INTEGER[]", Physical.other),
        ("STRUCT(a INTEGER)", Physical.other),
        ("INTERVAL", Physical.other),
        ("TIME", Physical.other),
        ("MAP(VARCHAR, INTEGER)", Physical.other),
    ],
)
def test_duckdb_type_names(name: str, physical: Physical) -> None:
    assert of_duckdb(name) is physical


def test_a_statement_that_was_planned_chooses_rows_by_the_salt_of_its_run() -> None:
    rows = {"who": ["a"] * 30 + ["b"] * 30, "x": [float(i) for i in range(60)]}
    source = as_source(pa.table(rows))
    code = Fixed("x", Domain(0, 60).on_grid(Fraction(1)), Fraction(1))
    task = BoundedQuery(
        (Column("who", Kind.identifier), Column("x", Kind.number)), GroupKeys((), ((),)), (code,),
        (Primitive("rows"), Primitive("power", 0, 1)), user="who", max_rows=2,
    )  # fmt: skip
    seen = set()
    for salt in (b"", b"one", b"two"):
        engine = DuckDBEngine()
        engine.preflight(source, task)
        found, expected = (
            e.compute(source, task, salt).reveal_to_mechanism().sums.tolist()
            for e in (engine, ReferenceEngine())
        )
        assert found == expected
        assert not any("EXPLAIN" in sql for sql in engine.statements)
        seen.add(found[0][1])
    assert len(seen) == 3
