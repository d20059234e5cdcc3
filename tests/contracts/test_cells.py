"""A cell means what its value means: every value type, declared kind and storage gives one answer, or is refused.

Refused by the stored type, which is public: a table without rows is refused as well, and so is every
table of that type.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.engines.clean_rows import nearest_step
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.query.bounded import Fixed
from dprelease.schema.column import Kind
from dprelease.schema.domain import GridSet
from dprelease.schema.labels import spelt, texts_of
from tests.contracts.cells import (
    CELLS,
    EXPECTED,
    KINDS,
    STORAGES,
    VALUES,
    answer_of,
    query_of,
    refuses,
    stored,
)
from tests.sizes import FULL, some, whole

ENGINES = (DuckDBEngine, ReferenceEngine)
FIRST = ("pandas, objects", "pandas, inferred", "read_csv")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("type_", CELLS)
def test_every_storage_gives_one_answer_or_is_refused(
    type_: str, kind: Kind, tmp_path: Path
) -> None:
    """Two storages, one of them in turn, and one more in turn, the reference the first; all of all in `make evidence`."""
    answers: dict[str, Any] = {}
    others = [name for name in STORAGES if name not in FIRST]
    turn = list(CELLS).index(type_) * len(KINDS) + KINDS.index(kind)
    in_turn = (FIRST[0], FIRST[1 + turn % 2], others[turn % len(others)])
    names = (*FIRST, *others) if FULL else in_turn
    for place, name in enumerate(names):
        source = stored(name, CELLS[type_], tmp_path)
        found = [
            answer_of(engine(), source, kind, VALUES[type_])
            for engine in (ENGINES if FULL or place == 0 else ENGINES[:1])
        ]
        assert len(set(found)) == 1, (name, found)
        answers[name] = found[0]
    given = {answer for answer in answers.values() if answer is not None}
    assert len(given) <= 1, answers
    if (type_, kind) in EXPECTED:
        assert given == {EXPECTED[type_, kind]}, answers


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused_is_refused_without_a_row(kind: Kind, tmp_path: Path) -> None:
    for type_, cells in list(CELLS.items())[:: whole(3, 1)]:
        plain = pd.Series(cells)
        both = (plain, plain.astype("category"))
        place = list(CELLS).index(type_) + KINDS.index(kind)
        for make in both if FULL else both[place % 2 :][:1]:
            frame = pd.DataFrame({"x": make})
            query = query_of(kind, VALUES[type_])
            refused = {
                refuses(DuckDBEngine(), as_source(one), query)
                for one in (frame, frame.iloc[:0], frame.iloc[:1])
            }
            assert len(refused) == 1, (type_, frame.dtypes)


def _counts(cells: Any, values: tuple[str, ...]) -> tuple[int, ...] | None:
    source = as_source(pa.table({"x": cells}))
    found = {answer_of(engine(), source, Kind.category, values) for engine in ENGINES}
    assert len(found) == 1, found
    return found.pop()


def test_codes_and_numbers_that_are_written_alike_are_compared_by_their_texts() -> None:
    texts = pa.array(["01", "1", "1.0", "1.10", "1.1", " 1.1 ", "+1", "1e0", "-0"])
    assert _counts(texts, ("01", "10")) == (1, 0, 8)
    assert _counts(texts, ("1.1", "1.10")) == (2, 1, 6)
    assert _counts(texts, ("1", "x")) == (4, 0, 5)
    assert _counts(texts, ("1.1",)) == (3, 6)
    assert _counts(texts, ("0", "1.0")) == (1, 4, 4)
    wide = pa.array(["12345678901234567890", "12345678901234567891", "12345678901234567890.0"])
    assert _counts(wide, ("12345678901234567890",)) == (2, 1)  # not by doubles
    for values in (("01", "10"), ("1.1", "1.10"), ("1", "x")):
        for cells in (pa.array([1, 10]), pa.array([1.0, 1.1]), pa.array([True])):
            assert _counts(cells, values) is None
    words = pa.array(["True", "true ", "TRUE", "t", "yes", "False"])
    assert _counts(words, ("True", "False")) == (3, 1, 2)
    assert _counts(words, ("True", "true")) == (1, 1, 4)
    assert _counts(pa.array([True, False]), ("True", "true")) is None


def test_numbers_that_a_double_writes_in_its_own_way() -> None:
    small = pa.array([1e-05, 0.1, 1e16, 2.0**53, float("nan")])
    assert _counts(small, ("0.00001", "0.10")) == (1, 1, 2)
    assert _counts(pa.array(["1e-05", "0.00001", "1E-5"]), ("0.00001",)) == (2, 1)
    single = pa.array(np.array([0.1, 5.5, 3], dtype=np.float32))
    assert _counts(single, ("0.1", "5.5", "3")) == (1, 1, 1, 0)
    assert _counts(small, (str(2**53),)) is None
    assert _counts(pa.array([1e15, 1e16]), ("1e+15",)) is None  # no cell is written so
    assert _counts(pa.array([1e15, 1e16]), ("1e+16", "1000000000000000")) == (1, 1, 0)
    tiny = pa.array(np.array([1e-05, 1e16, 2.5e-30], dtype=np.float32))
    assert _counts(tiny, ("1e-05", "1e+16", "2.5e-30")) == (1, 1, 1, 0)
    near = pa.array(np.array([0.1, 0.3], dtype=np.float32))
    assert _counts(near, ("0.100000001", "0.1000000011", "0.3")) == (0, 0, 1, 1)


ROOM = [  # a type, labels that it holds at its ends, and one beyond
    (pa.int8(), ("-128", "127"), "128"),
    (pa.uint8(), ("0", "255"), "-1"),
    (pa.int32(), ("-2147483648", "2147483647.0"), "2147483648"),
    (pa.decimal128(4, 2), ("99.99", "-5.500"), "100"),
    (pa.decimal128(4, 2), ("0.01", "1"), "0.005"),
]


@pytest.mark.parametrize(
    ("room", "door"), some(product(ROOM, ["Arrow", "Parquet", "DuckDB relation"]), 2)
)
def test_a_label_that_a_type_has_no_room_for_is_refused(
    room: tuple[pa.DataType, tuple[str, ...], str], door: str, tmp_path: Path
) -> None:
    kind, held, beyond = room
    cells = pa.table({"x": pa.array([Decimal(label) for label in held]).cast(kind)})
    path = tmp_path / "x.parquet"
    pq.write_table(cells, path)
    relation = duckdb.connect().from_arrow(cells)
    one = as_source({"Arrow": cells, "Parquet": path, "DuckDB relation": relation}[door])
    assert answer_of(DuckDBEngine(), one, Kind.category, held) == (1, 1, 0)
    assert answer_of(DuckDBEngine(), one, Kind.category, (held[0], beyond)) is None


def test_a_column_of_unions_is_refused_as_its_type() -> None:
    relation = duckdb.sql("SELECT union_value(a := 5) AS x")
    table = pa.table({"x": pa.chunked_array([], pa.sparse_union([pa.field("a", pa.int64())]))})
    for one in (relation, table):
        assert answer_of(DuckDBEngine(), as_source(one), Kind.number, ()) is None


def test_decimals_too_wide_for_an_engine_are_texts_without_a_scale() -> None:
    wide = pa.table({"x": pa.array([Decimal("2"), Decimal("2.5"), None], pa.decimal256(60, 4))})
    for engine in ENGINES:
        for values, counts in (("2", "02"), (1, 0, 1)), (("2.5", "2.50"), (1, 0, 1)):
            assert answer_of(engine(), as_source(wide), Kind.category, values) == counts


@pytest.mark.parametrize("name", ["Arrow", "pandas", "objects", "polars", "Parquet"])
def test_numbers_of_half_precision_are_the_decimals_that_name_them(
    name: str, tmp_path: Path
) -> None:
    cells = np.array([0.1, 0.3, 100.3, 5.5, 10008, 65504, 6e-8, -0.0, np.inf], dtype=np.float16)
    table = pa.table({"x": pa.array([*cells, None], pa.float16())})
    pq.write_table(table, tmp_path / "x.parquet")
    made: dict[str, Any] = {
        "Arrow": table,
        "pandas": pd.DataFrame({"x": np.array([*cells, np.nan], dtype=np.float16)}),
        "objects": pd.DataFrame({"x": pd.Series([*cells, None], dtype=object)}),
        "polars": pl.DataFrame({"x": [*map(float, cells), None]}, schema={"x": pl.Float16})
        if hasattr(pl, "Float16")
        else table,
        "Parquet": tmp_path / "x.parquet",
    }
    labels = ("0.1", "0.3", "100.3", "5.5", "10008", "65504", "6e-08", "0", "inf")
    for engine in ENGINES:
        source = as_source(made[name])
        assert answer_of(engine(), source, Kind.category, labels) == (1,) * 9 + (0,)
        # from -10 in hundredths: 0.1, 0.3, 0, 0 and 5.5 are themselves, the others are cut to 10
        assert answer_of(engine(), source, Kind.number, ()) == (9, 9000 + 590 + 4 * 1000)


FAR = (
    "4000-01-01 (BC)",
    "0001-12-31 (BC)",
    "2024-01-01",
    "2024-01-02",
    "infinity",
    "-infinity",
    "10000-01-01",
)


@pytest.mark.parametrize("type_", ["DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_NS", "TIMESTAMP_S", "VARCHAR"])  # fmt: skip
def test_a_day_lies_in_the_years_1_to_9999_whatever_stores_it(type_: str) -> None:
    cells = ", ".join(f"(TRY_CAST('{text}' AS {type_}))" for text in FAR)
    relation = duckdb.sql(f"SELECT x FROM (VALUES {cells}) AS t(x)")
    labels = (*FAR[:2], "infinity", "2024-02-30", "2024-01-01 24:00:00")
    for source in (relation, relation.to_arrow_table()):
        for engine in ENGINES:
            for kind in (Kind.date, Kind.timestamp):
                assert answer_of(engine(), as_source(source), kind, ()) == (2, 1), kind
            # of texts none is refused, so all at once; of other types each is
            for asked in [labels] if type_ == "VARCHAR" else [(label,) for label in labels]:
                found = answer_of(engine(), as_source(source), Kind.category, asked)
                assert (found is None) == (type_ != "VARCHAR"), asked


def test_an_offset_may_carry_a_moment_out_of_the_years() -> None:
    texts = ["9999-12-31 23:59-01", "0001-01-01 00:59+01", "9999-12-31 23:59+01", "2024-01-01"]
    for engine in ENGINES:
        for kind in (Kind.date, Kind.timestamp):
            assert answer_of(engine(), as_source(pd.DataFrame({"x": texts})), kind, ()) == (2, 1)


def test_the_texts_of_a_value_are_its_own() -> None:
    labels = ("5.50", "0", "true", "north", "2024-01-01", "-1.0")
    texts = texts_of(labels)
    assert set(texts.values()) == set(labels)
    assert all(texts[spelt(label)] == label for label in labels)


def _as_written(x: float, step: Fraction) -> int:
    """Return the step of the decimal that `x` is written as; a half goes up."""
    return int((Fraction(repr(x)) / step + Fraction(1, 2)).__floor__())


HALVES = whole(2_000, 200_000)


@pytest.mark.parametrize("step", [Fraction(1), Fraction(1, 100), Fraction(1, 10), Fraction(5, 1), Fraction(1, 4), Fraction(5, 1000)])  # fmt: skip
def test_a_decimal_half_way_goes_up_by_its_digits(step: Fraction) -> None:
    rng = np.random.default_rng(7)
    halves = [(2 * int(k) + 1) * step / 2 for k in rng.integers(-(10**6), 10**6, HALVES)]
    near = [h + Fraction(int(d), 10**9) for h, d in zip(halves, rng.integers(-1, 2, HALVES), strict=True)]  # fmt: skip
    ends = 3 * 10**6
    code = Fixed("x", GridSet(((-ends, ends),)), step)
    cells = [float(x) for x in near]
    cells += [float(np.nextafter(x, np.inf)) for x in cells[:99]]
    cells += [float(np.nextafter(x, -np.inf)) for x in cells[:99]]
    assert [nearest_step(code, x) for x in cells] == [_as_written(x, step) for x in cells]


def test_the_half_below_one_half_is_no_half() -> None:
    code = Fixed("x", GridSet(((-5, 5),)), Fraction(1))
    cells = (0.5, float(np.nextafter(0.5, 0)), -0.5, float(np.nextafter(-0.5, -1)), 2.5, -2.5)
    assert [nearest_step(code, x) for x in cells] == [1, 0, 0, -1, 3, -2]
