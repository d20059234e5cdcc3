"""The rows of objects in a store: the integers of files, and no more bytes than the question needs."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import InternalError, SourceError
from dprelease.engines import object_rows
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, object_source, tables_source
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive, Window
from dprelease.query.expression import parse_condition
from dprelease.query.read_view import parse_view
from dprelease.schema.column import Column, Kind
from tests.engines.object_server import SECRET, ObjectServer, configured, served
from tests.engines.test_parquet_rows import lying
from tests.sizes import FULL

AT, ID = Column("at", Kind.timestamp), Column("id", Kind.identifier)
X, NOTE = Column("x", Kind.integer), Column("note", Kind.identifier)
ALL = {c.name: c for c in (AT, ID, X, NOTE)}
ROWS = (Primitive("rows"),)
DAY = 86_400 * 10**6
FIRST = Window("at", datetime(2020, 1, 1), datetime(2020, 1, 2))
START = int(datetime(2020, 1, 1, tzinfo=UTC).timestamp()) * 10**6


def query(*columns: Column, **changes: Any) -> BoundedQuery:
    return BoundedQuery(columns, GroupKeys((), ((),)), (), ROWS, **changes)


def condition(text: str) -> Any:
    return parse_condition(text, ALL, origin="test")


def parquet(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with served() as state:
        configured(monkeypatch, state)
        yield state


def counted(source: Source, asked: BoundedQuery) -> list[int]:
    out = []
    for make in (DuckDBEngine, ReferenceEngine):
        engine = make()
        engine.preflight(source, asked)
        out.append(engine.compute(source, asked, b"salt").reveal_to_mechanism().sums[0, 0])
    return out


def days(count: int, rows: int, **more: Any) -> pa.Table:
    """Return `rows` rows of each of `count` days, with a wide column that nothing asks for."""
    at = [START + day * DAY + i for day in range(count) for i in range(rows)]
    made = {
        "at": pa.array(at, pa.int64()).view(pa.timestamp("us")),
        "id": [f"u{i % 97}" for i in range(len(at))],
        "note": [f"{i:032d}" * 4 for i in range(len(at))],
    }
    return pa.table({**made, **more})


def test_only_used_columns_and_row_groups_of_the_period_are_read(server: ObjectServer) -> None:
    whole = parquet(days(20, 1_000), row_group_size=1_000, compression="none")
    server.objects["clinic/v/a.parquet"] = whole
    source = as_source("s3://clinic/v/*.parquet")
    engine, sent = DuckDBEngine(), {}
    asked = {
        "all": query(AT, NOTE, user="note"),
        "columns": query(AT, ID, user="id"),
        "period": query(AT, NOTE, user="note", window=FIRST),
        "rows": query(AT),
    }
    for name, one in asked.items():
        engine.preflight(source, one)
        before = server.sent
        engine.compute(source, one, b"")
        sent[name] = server.sent - before
    at = 20 * 1_000 * 8
    assert sent["all"] > len(whole) / 2
    assert sent["columns"] < sent["all"] / 4
    # the column of the period, and of the others one row group of twenty
    assert at < sent["period"] < 2 * at + sent["all"] / 10
    assert sent["rows"] == 0
    assert counted(source, asked["period"]) == [1_000, 1_000]


TIMES: dict[str, Any] = {
    "microseconds": lambda cells: pa.array(cells, pa.int64()).view(pa.timestamp("us")),
    "instants": lambda cells: pa.array(cells, pa.int64()).view(pa.timestamp("us", "UTC")),
    "nanoseconds": lambda cells: pa.array([c * 1000 for c in cells]).view(pa.timestamp("ns")),
    "milliseconds": lambda cells: pa.array([c // 1000 for c in cells]).view(pa.timestamp("ms")),
    "texts": lambda cells: pa.array([str(datetime.fromtimestamp(c / 1e6, UTC))[:19] for c in cells]),
    "dates": lambda cells: pa.array([c // DAY for c in cells], pa.int32()).cast(pa.date32()),
}  # fmt: skip


@pytest.mark.parametrize("kind", TIMES)
def test_no_row_of_the_period_is_left_out(kind: str, server: ObjectServer) -> None:
    """One row of the period among many that are not, in the first or last row group, or none at all."""
    every = (0, 19, None)
    at = list(TIMES).index(kind) % 3
    for place in every if FULL else every[at : at + 1]:
        cells = [START + 5 * DAY] * 20
        if place is not None:
            cells[place] = START + 3_600 * 10**6
        at = TIMES[kind](cells)
        blank = pa.concat_arrays([at, pa.nulls(1, at.type)])
        table = pa.table({"at": blank, "id": [str(i) for i in range(21)]})
        server.objects["clinic/v/a.parquet"] = parquet(table.slice(0, 9), row_group_size=4)
        server.objects["clinic/v/b.parquet"] = parquet(table.slice(9), row_group_size=4)
        source = as_source("s3://clinic/v/*.parquet")
        wanted = 0 if place is None else 1
        assert counted(source, query(AT, ID, user="id", window=FIRST)) == [wanted, wanted]
        where = condition("year(at) = 2020 and id != '3'")
        assert counted(source, query(AT, ID, window=FIRST, where=where)) == [wanted, wanted]


def test_claims_of_a_file_decide_nothing(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The footer claims that no value is over 700,000,000; read as a time, that would be outside."""
    lying(tmp_path / "t.parquet")
    content = (tmp_path / "t.parquet").read_bytes()
    server.objects["clinic/v/1.parquet"] = server.objects["clinic/v/2.parquet"] = content
    source = as_source("s3://clinic/v/*.parquet")
    assert counted(source, query(X, where=condition("x > 700000000"))) == [2_000, 2_000]
    at = pa.array([START] * 1_000, pa.int64()).view(pa.timestamp("us"))
    told = parquet(pa.table({"at": at}), use_dictionary=False, compression="none")
    footer = told.rindex(b"PAR1") - 4
    start = footer - int.from_bytes(told[footer : footer + 4], "little")
    ends = (START.to_bytes(8, "little"), (START + 9 * DAY).to_bytes(8, "little"))
    for name in ("1", "2"):
        server.objects[f"clinic/v/{name}.parquet"] = told[:start] + told[start:].replace(*ends)
    source = as_source("s3://clinic/v/*.parquet")
    objects: Any = source.payload
    claims = objects[0].footer.row_group(0).column(0).statistics
    assert claims.min.date() == claims.max.date() == datetime(2020, 1, 10).date()  # it does lie
    assert counted(source, query(AT, window=FIRST)) == [2_000, 2_000]

    def believing(_: Any, source: Source, __: Any) -> Source:
        found: Any = source.payload
        left = tuple(
            one.only(tuple(
                i for i in one.row_groups
                if one.footer.row_group(i).column(0).statistics.min < FIRST.end
            ))
            for one in found
        )  # fmt: skip
        return Source("objects", left, source.name)

    monkeypatch.setattr(object_rows, "with_groups_of_period", believing)
    assert counted(source, query(AT, window=FIRST)) == [0, 2_000]  # the guard's broken twin


def test_folders_are_columns_and_leave_files_out(server: ObjectServer) -> None:
    for month in ("01", "02", "__HIVE_DEFAULT_PARTITION__"):
        for region in ("n", "s%2Fe"):
            key = f"clinic/v/month={month}/region={region}/a.parquet"
            server.objects[key] = parquet(days(1, 10))
    source = as_source("s3://clinic/v/**/*.parquet")
    month, region = Column("month", Kind.integer), Column("region", Kind.category, values=("s/e",))
    names = {**ALL, "month": month, "region": region}

    def where(text: str) -> Any:
        return parse_condition(text, names, origin="test")

    assert counted(source, query(month, region, ID)) == [60, 60]
    for text, rows in (("month = 2", 20), ("region = 's/e'", 30), ("month is null", 20)):
        asked = query(month, region, ID, where=where(text), user="id", max_rows=9)
        assert counted(source, asked) == [rows, rows], text
    engine = DuckDBEngine()
    asked = query(month, region, ID, where=where("month = 2 and region = 's/e'"), user="id")
    engine.preflight(source, asked)
    server.read.clear()
    engine.compute(source, asked, b"")
    assert list(server.read) == ["clinic/v/month=02/region=s%2Fe/a.parquet"]


def test_views_join_private_and_public_objects(server: ObjectServer) -> None:
    server.objects["clinic/v.parquet"] = parquet(pa.table({"code": ["a", "a", "b", "c", None]}))
    server.objects["clinic/p.parquet"] = parquet(pa.table({"code": ["a", "b"], "x": [1, 2]}))
    sources = {name: as_source(f"s3://clinic/{name}.parquet") for name in ("v", "p")}
    select = "SELECT v.code AS id, p.x AS x FROM v v LEFT JOIN p p ON p.code = v.code"
    view = parse_view(select, private=("v",), public=("p",), allow=())
    asked = query(ID, X, view=view, where=condition("x >= 1"))
    assert counted(tables_source(sources), asked) == [3, 3]
    wide = (
        "SELECT v.code AS id, max(p.x) AS x FROM v v JOIN p p ON p.code >= v.code GROUP BY v.code"
    )
    view = parse_view(wide, private=("v",), public=("p",), allow=("unproven-view",))
    engine = DuckDBEngine()
    asked = query(ID, X, view=view)
    engine.preflight(tables_source(sources), asked)
    found = engine.compute(tables_source(sources), asked, b"").reveal_to_mechanism()
    assert found.sums[0, 0] == 2
    server.objects["clinic/p.parquet"] = parquet(pa.table({"code": ["a", "a"], "x": [1, 2]}))
    sources["p"] = as_source("s3://clinic/p.parquet")
    view = parse_view(select, private=("v",), public=("p",), allow=())
    with pytest.raises(SourceError) as caught:
        DuckDBEngine().preflight(tables_source(sources), query(ID, X, view=view))
    assert caught.value.code == "DPR510"


@pytest.mark.parametrize(
    ("one", "other", "code"),
    [
        ({"x": [1]}, {"x": ["1"]}, "DPR506"),
        ({"x": [1]}, {"x": pa.array([1], pa.int8())}, None),
        ({"x": [1]}, {"x": pa.array([1], pa.uint64())}, "DPR506"),
        ({"x": [1]}, {"x": [1.5]}, "DPR506"),
        ({"x": [1]}, {"y": [1]}, "DPR503"),
        ({"x": [1]}, {"x": pa.nulls(1)}, None),
        ({"y": [1]}, {"y": [1]}, "DPR503"),
        ({"x": [[1]]}, {"x": [[1]]}, "DPR504"),
    ],
)
def test_columns_that_do_not_fit_are_refused_as_those_of_files_are(
    one: Any, other: Any, code: str | None, server: ObjectServer, tmp_path: Path
) -> None:
    for i, cells in enumerate((one, other)):
        content = parquet(pa.table(cells))
        server.objects[f"clinic/{i}.parquet"] = content
        (tmp_path / f"{i}.parquet").write_bytes(content)
    for source in (as_source("s3://clinic/*.parquet"), as_source(str(tmp_path / "*.parquet"))):
        engine = DuckDBEngine()
        asked = query(X, where=condition("x >= 0 or x is null"))
        if code is None:
            engine.preflight(source, asked)
            assert engine.compute(source, asked, b"").reveal_to_mechanism().sums[0, 0] == 2
            continue
        with pytest.raises(SourceError) as caught:
            engine.preflight(source, asked)
        assert caught.value.code == code


def test_a_column_that_is_there_twice_is_refused(server: ObjectServer) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    server.objects["clinic/a.parquet"] = parquet(twice)
    server.objects["clinic/b.parquet"] = parquet(pa.table({"x": [1]}))
    for pattern in ("a", "*"):
        with pytest.raises(SourceError) as caught:
            DuckDBEngine().preflight(
                as_source(f"s3://clinic/{pattern}.parquet"), query(X, where=condition("x > 0"))
            )
        assert caught.value.code == "DPR505"


def test_times_of_96_bits_beyond_nanoseconds_stop_nothing(
    server: ObjectServer, tmp_path: Path
) -> None:
    """Read as nanoseconds, the year 9000 would stop the release after the charge."""
    cells = pa.array([START, 221_845_392_000 * 10**6], pa.int64()).view(pa.timestamp("us"))
    odd = pa.array([b"\xff", b"\xfe"], pa.binary()).view(pa.string())
    content = parquet(pa.table({"at": cells, "id": odd}), use_deprecated_int96_timestamps=True)
    server.objects["clinic/a.parquet"] = content
    (tmp_path / "a.parquet").write_bytes(content)
    engine = DuckDBEngine()
    for source in (as_source("s3://clinic/a.parquet"), as_source(tmp_path / "a.parquet")):
        for asked, rows in (
            (query(AT, ID, user="id"), 2),
            (query(AT, ID, user="id", where=condition("year(at) = 9000")), 1),
            (query(AT, ID, user="id", window=FIRST), 1),
        ):
            engine.preflight(source, asked)
            assert engine.compute(source, asked, b"").reveal_to_mechanism().sums[0, 0] == rows
    identifier = query(Column("at", Kind.identifier), user="at")
    with pytest.raises(SourceError) as caught:
        engine.preflight(as_source("s3://clinic/a.parquet"), identifier)
    assert caught.value.code == "DPR504"


def test_a_store_that_fails_while_rows_are_read_ends_in_the_one_message(
    server: ObjectServer, capfd: pytest.CaptureFixture[str]
) -> None:
    server.objects["clinic/a.parquet"] = parquet(days(4, 2_000), compression="none")
    source = as_source("s3://clinic/a.parquet")
    asked = query(AT, NOTE, user="note")
    engine = DuckDBEngine()
    engine.preflight(source, asked)
    server.cut = server.sent + 1_000
    with pytest.raises(InternalError) as caught:
        engine.compute(source, asked, b"")
    assert caught.value.code == "DPR900"
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    told = (str(caught.value), *capfd.readouterr())
    assert not any(SECRET in text or "clinic" in text or "127.0.0.1" in text for text in told)
    server.cut = None
    assert engine.compute(source, asked, b"").reveal_to_mechanism().sums[0, 0] == 8_000


def test_the_database_itself_reaches_no_store(server: ObjectServer) -> None:
    server.objects["clinic/a.parquet"] = parquet(days(2, 10), row_group_size=5)
    source = as_source("s3://clinic/a.parquet")
    engine = DuckDBEngine()
    engine.compute(source, query(AT, ID, user="id", window=FIRST), b"")
    said = "\n".join(engine.statements)
    assert "SET enable_external_access = false" in said and "SET lock_configuration = true" in said
    assert "allowed_paths" not in said and "s3" not in said and "httpfs" not in said


def test_a_store_in_memory_reads_as_a_cloud_does(tmp_path: Path) -> None:
    """The same code for every file system of Arrow's: here one over a folder, as gs and az have no server here."""
    (tmp_path / "clinic").mkdir()
    (tmp_path / "clinic" / "a.parquet").write_bytes(parquet(days(3, 10), row_group_size=10))
    store = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    for scheme in ("gs", "az"):
        source = object_source(f"{scheme}://clinic/*.parquet", store=store)
        assert counted(source, query(AT, ID, user="id", max_rows=9, window=FIRST)) == [10, 10]
