"""Parquet columns that DuckDB does not read exactly, and claims of a file that decide nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines import duckdb as duckdb_engine
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.parquet_rows import ParquetRows, stored_columns
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, tables_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive, Window
from dprelease.query.expression import parse_condition
from dprelease.query.read_view import parse_view
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.sizes import FULL

ROWS = (Primitive("rows"),)
AT, ID, X = Column("at", Kind.timestamp), Column("id", Kind.identifier), Column("x", Kind.integer)
ALL = {c.name: c for c in (AT, ID, X)}
MONTH = Window("at", datetime(2020, 1, 1), datetime(2020, 2, 1))
INSIDE, OUTSIDE = 1_578_000_000_000, 1_600_000_000_000  # milliseconds
HARD = [2**62, -(2**62), 2**63 - 1, -(2**63)]


def query(*columns: Column, **changes: Any) -> BoundedQuery:
    return BoundedQuery(columns or (AT, ID, X), GroupKeys((), ((),)), (), ROWS, **changes)


def counted(
    source: Source,
    asked: BoundedQuery,
    engines: tuple[Callable[[], Any], ...] = (DuckDBEngine, ReferenceEngine),
) -> list[int]:
    out = []
    for make in engines:
        engine = make()
        engine.preflight(source, asked)
        out.append(engine.compute(source, asked, b"").reveal_to_mechanism().sums[0, 0])
    return out


ZONES = (None, "UTC")


@pytest.mark.parametrize(
    ("odd", "zone"),
    [(odd, zone) for i, odd in enumerate(HARD) for zone in (ZONES if FULL else (ZONES[i // 2],))],
)
def test_one_odd_millisecond_stops_no_neighbour(zone: str | None, odd: int, tmp_path: Path) -> None:
    for cells, rows in [*([([INSIDE, OUTSIDE], 1)] if FULL else []), ([INSIDE, OUTSIDE, odd], 1)]:
        at = pa.array(cells, pa.int64()).view(pa.timestamp("ms", zone))
        pq.write_table(pa.table({"at": at, "x": cells}), tmp_path / "t.parquet")
        source = as_source(tmp_path / "t.parquet")
        assert counted(source, query(AT, window=MONTH)) == [rows, rows]
        where = parse_condition("year(at) = 2020 or x = 0", ALL, origin="test")
        assert counted(source, query(AT, X, where=where)) == [2, 2]
        assert (
            counted(source, query(X, where=parse_condition("x > 0", ALL, origin="test")))
            == [2 + (odd in cells and odd > 0)] * 2
        )


def test_only_files_that_need_it_are_read_by_arrow(tmp_path: Path) -> None:
    wide = pa.array([Decimal(10**50)], pa.decimal256(60, 0))
    nested = pa.array([[1]]).cast(pa.list_(pa.timestamp("ms")))
    for name, odd, by_arrow in (("wide", wide, False), ("wide", nested, True), ("x", wide, True)):
        cells: dict[str, Any] = {"x": [1]} | {name: odd}
        pq.write_table(pa.table(cells), tmp_path / "t.parquet")
        engine = DuckDBEngine()
        engine.compute(
            as_source(tmp_path / "t.parquet"),
            query(X, where=parse_condition("x > 0", ALL, origin="test")),
            b"",
        )
        assert any("DROP VIEW" in sql for sql in engine.statements) == by_arrow


def test_texts_that_are_no_text_stay_apart(tmp_path: Path) -> None:
    cells = [b"\xff", b"\xfe", b"?", b"\xff", b"ok", b"\xef\xbf\xbd"]
    pq.write_table(
        pa.table({"id": pa.array(cells, pa.binary()).view(pa.string())}), tmp_path / "t.parquet"
    )
    assert counted(as_source(tmp_path / "t.parquet"), query(ID, user="id")) == [5, 5]


def test_files_with_and_without_a_column_and_folders_are_read_alike(tmp_path: Path) -> None:
    def write(folder: str, name: str, **columns: Any) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        pq.write_table(pa.table(columns), tmp_path / folder / name)

    at = pa.array([INSIDE, OUTSIDE], pa.int64()).view(pa.timestamp("ms"))
    write("id=a", "1.parquet", at=at, x=pa.array([1, 2], pa.int8()))
    write("id=a", "2.parquet", at=at)
    write("id=__HIVE_DEFAULT_PARTITION__", "3.parquet", at=pa.nulls(2), x=pa.array([1, 2**40]))
    source = as_source(str(tmp_path / "*" / "*.parquet"))
    assert counted(source, query()) == [6, 6]
    assert counted(source, query(window=MONTH)) == [2, 2]
    assert counted(source, query(user="id", max_rows=9)) == [4, 4]
    assert counted(
        source,
        query(
            where=parse_condition("at is null and x > 1 or x = 1", ALL, origin="test"), missing=True
        ),
    ) == [3, 3]
    paths: Any = source.payload
    rows = ParquetRows(paths, ("id", "at", "x"), source.in_folders)
    assert [str(kind) for kind in rows.schema.types] == ["large_string", "timestamp[us]", "int64"]


def test_a_public_table_in_milliseconds_is_read_twice_and_whole(tmp_path: Path) -> None:
    at = pa.array([INSIDE, 2**62], pa.int64()).view(pa.timestamp("ms"))
    pq.write_table(pa.table({"code": ["a", "b"], "at": at}), tmp_path / "p.parquet")
    pq.write_table(pa.table({"code": ["a", "a", "b", None]}), tmp_path / "v.parquet")
    view = parse_view(
        "SELECT v.code AS id, p.at AS at FROM v v LEFT JOIN p p ON p.code = v.code",
        private=("v",),
        public=("p",),
        allow=(),
    )
    source = tables_source(
        {"v": as_source(tmp_path / "v.parquet"), "p": as_source(tmp_path / "p.parquet")}
    )
    assert counted(source, query(AT, ID, view=view, window=MONTH)) == [2, 2]


def test_decimals_of_many_digits_are_ids_and_numbers(tmp_path: Path) -> None:
    cells = [Decimal(10**50), Decimal(10**50 + 1), Decimal(3)]
    pq.write_table(pa.table({"x": pa.array(cells, pa.decimal256(60, 0))}), tmp_path / "t.parquet")
    source = as_source(tmp_path / "t.parquet")
    assert counted(source, query(X, user="x")) == [3, 3]
    assert counted(source, query(X, where=parse_condition("x > 3", ALL, origin="test"))) == [2, 2]


def test_nested_columns_are_passed_over(tmp_path: Path) -> None:
    import duckdb

    nested = pa.array([{"a": {"b": 1, "c": [1]}, "d": 2}])
    pq.write_table(
        pa.table({"s": nested, "at": pa.array([1]).view(pa.timestamp("ms")), "l": [[1]], "x": [1]}),
        tmp_path / "t.parquet",
    )
    found = stored_columns(duckdb.connect().execute, f"['{tmp_path}/t.parquet']")
    assert list(found) == ["s", "at", "l", "x"]
    assert [one.exact for columns in found.values() for one in columns] == [True, False, True, True]


# -- claims ----------------------------------------------------------------------------------------


def lying(path: Path) -> Source:
    """Write 1,000 rows with x = 700,000,001 in a file whose footer claims that none is over 700,000,000."""
    value, claimed = 700_000_001, 700_000_000
    pq.write_table(
        pa.table({"x": pa.array([value] * 1000)}), path, use_dictionary=False, compression="none"
    )
    content = path.read_bytes()
    footer = content.rindex(b"PAR1") - 4
    start = footer - int.from_bytes(content[footer : footer + 4], "little")
    told = value.to_bytes(8, "little")
    assert content[start:].count(told) >= 2
    path.write_bytes(content[:start] + content[start:].replace(told, claimed.to_bytes(8, "little")))
    return as_source(path)


def test_what_a_file_claims_of_its_values_filters_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = lying(tmp_path / "t.parquet")
    asked = query(X, where=parse_condition("x > 700000000", ALL, origin="test"))
    assert counted(source, asked) == [1000, 1000]
    left = tuple(name for name in duckdb_engine._HARMFUL if name != "filter_pushdown")
    monkeypatch.setattr(duckdb_engine, "_HARMFUL", left)
    assert counted(source, asked, (DuckDBEngine,)) == [
        0
    ]  # the guard's broken twin believes the file


def stepped(low: int, high: int) -> BoundedQuery:
    """Return the sum of x in steps above `low`."""
    fixed = Fixed("x", Domain(low, high).on_grid(Fraction(1)), Fraction(1))
    return BoundedQuery((X,), GroupKeys((), ((),)), (fixed,), (Primitive("power", 0, 1),))


def test_values_are_clamped_whatever_a_file_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = lying(tmp_path / "t.parquet")
    above, below = stepped(0, 700_000_000), stepped(700_000_006, 700_000_009)
    assert counted(source, above) == [1000 * 700_000_000] * 2
    assert counted(source, below) == [0, 0]
    left = tuple(name for name in duckdb_engine._HARMFUL if name != "statistics_propagation")
    monkeypatch.setattr(duckdb_engine, "_HARMFUL", left)
    # the broken twin believes the file, and finds nothing to clamp
    assert counted(source, above, (DuckDBEngine,)) == [1000 * 700_000_001]


def test_a_join_believes_no_claim(tmp_path: Path) -> None:
    source = lying(tmp_path / "t.parquet")
    label = Column("x", Kind.category, values=("700000001",))
    asked = BoundedQuery((label,), GroupKeys((label,), (("700000001",),)), (), ROWS)
    assert counted(source, asked) == [1000, 1000]


def test_a_file_that_stores_a_column_otherwise_is_refused_before_the_charge(tmp_path: Path) -> None:
    for i, cells in enumerate((pa.array([Decimal("1.5")]), pa.array([2.5]))):
        pq.write_table(pa.table({"x": cells}), tmp_path / f"{i}.parquet")
    with pytest.raises(SourceError) as refused:
        DuckDBEngine().preflight(
            as_source(str(tmp_path / "*.parquet")),
            query(X, where=parse_condition("x > 1", ALL, origin="test")),
        )
    assert refused.value.code == "DPR506"


@pytest.mark.parametrize("last", [b"1", b"\xff"])
def test_a_column_that_a_file_has_twice_is_refused(tmp_path: Path, last: bytes) -> None:
    """Else one text that is not UTF-8 has the file read in the other way, and all other rows with it."""
    raw = pa.array([*[b"1"] * 9, last], pa.binary()).buffers()
    texts = pa.StringArray.from_buffers(10, raw[1], raw[2], raw[0])
    halves = [pa.array([1] * 10), pa.array([2] * 10)]
    pq.write_table(pa.table([*halves, texts], names=["x", "x", "id"]), tmp_path / "f.parquet")
    pq.write_table(pa.table([halves[0], texts], names=["x", "id"]), tmp_path / "g.parquet")
    for name, wanted, refusal in (
        ("f.parquet", "x", "DPR505"), ("*.parquet", "x", "DPR505"),
        ("f.parquet", "x_1", "DPR503"),  # as DuckDB calls the second one
    ):  # fmt: skip
        code = Fixed(wanted, Domain(0, 9).on_grid(Fraction(1)), Fraction(1))
        columns = (ID, Column(wanted, Kind.integer))
        power = (Primitive("power", 0, 1),)
        asked = BoundedQuery(columns, GroupKeys((), ((),)), (code,), power)
        with pytest.raises(SourceError) as caught:
            DuckDBEngine().preflight(as_source(str(tmp_path / name)), asked)
        assert caught.value.code == refusal
    other = query(ID)  # a column of which there is one is read as ever
    source = as_source(str(tmp_path / "f.parquet"))
    DuckDBEngine().preflight(source, other)
    table = DuckDBEngine().compute(source, other, b"").reveal_to_mechanism()
    assert table.sums[0, 0] == 10
