"""The default engine's walls: lock-down, silence about cells, public preflight; its mutants."""

from __future__ import annotations

import csv
import gc
import gzip
import os
import random
import shutil
import traceback
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp, parse_one

from dprelease.core.errors import InternalError, SourceError
from dprelease.engines import (
    bounded_sql,
    bounding_sql,
    code_sql,
    csv_rows,
    duckdb_tables,
    in_memory,
    label_sql,
    typed_sql,
)
from dprelease.engines import duckdb as engine_module
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, duckdb_table
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive, Window
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.sizes import whole

CANARY = "CANARY-7f3a"
SALT = b"salt"
X = Column("x", Kind.number)
USER = Column("user", Kind.identifier)
REGION = Column("region", Kind.category, values=("a", "b"), nulls="as", null_label="none")
FIXED = Fixed("x", Domain(0, 10, [(4, 8)]).on_grid(Fraction(1)), Fraction(1))


def query(**changes: Any) -> BoundedQuery:
    base: dict[str, Any] = {
        "columns": (X, USER, REGION),
        "groups": GroupKeys((REGION,), (("a",), ("b",), ("none",))),
        "codes": (FIXED,),
        "primitives": (
            Primitive("rows"),
            Primitive("power", 0, 0),
            Primitive("power", 0, 1),
        ),
    }
    return BoundedQuery(**{**base, **changes})


def total(source: Source, asked: BoundedQuery, engine: Any = None) -> list[list[int]]:
    found = (
        (engine or DuckDBEngine(threads=1)).compute(source, asked, SALT).reveal_to_mechanism().sums
    )
    cells: list[list[int]] = found.tolist()
    return cells


COUNT_X = query(
    columns=(X,),
    groups=GroupKeys((), ((),)),
    primitives=(Primitive("rows"), Primitive("power", 0, 0)),
)
TABLE = pa.table(
    {
        "x": [
            1.0,
            3.0,
            4.5,
            6.0,
            float("nan"),
            None,
            float("inf"),
            9.0,
            2.0,
            0.0,
            5.0,
            7.0,
        ],
        "user": ["u", "u", "u", None, "v", "v", "w", None, "u", "u", "u", "w"],
        "region": ["a", "b", "a", "a", "b", "none", "a", None, "b", None, "a", "z"],
    }
)


# -- lock-down ---------------------------------------------------------------------------------

secret_frame = pd.DataFrame({"a": [1]})  # a Python variable that SQL must not find by name


def _attempts(folder: Path) -> list[str]:
    (folder / "f.csv").write_text("a\n1\n")
    return [
        f"SELECT * FROM read_csv('{folder}/f.csv')",
        f"SELECT * FROM read_text('{folder}/f.csv')",
        f"SELECT * FROM glob('{folder}/*')",
        f"COPY (SELECT 1) TO '{folder}/out.csv'",
        f"ATTACH '{folder}/x.duckdb'",
        f"EXPORT DATABASE '{folder}/dump'",
        "SELECT * FROM secret_frame",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET python_enable_replacements = true",
        "SET allowed_paths = ['/etc/hostname']",
        "SET threads = 3",
        "RESET lock_configuration",
    ]


@pytest.mark.parametrize("kind", ["arrow", "parquet", "duckdb_table"])
def test_after_set_up_nothing_else_can_be_reached(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = _attempts(tmp_path)
    refused: list[str] = []
    run = DuckDBEngine._run

    def probing(self: Any, connection: Any, sql: str, parameters: Any = None) -> Any:
        if sql.startswith("WITH"):
            for attempt in attempts:
                try:
                    connection.execute(attempt)
                except duckdb.Error:
                    refused.append(attempt)
        return run(self, connection, sql, parameters)

    monkeypatch.setattr(DuckDBEngine, "_run", probing)
    if kind == "parquet":
        pq.write_table(TABLE, tmp_path / "t.parquet")
        source = as_source(tmp_path / "t.parquet")
    elif kind == "duckdb_table":
        with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
            connection.register("v", TABLE)
            connection.execute("CREATE TABLE t AS SELECT * FROM v")
        source = duckdb_table(tmp_path / "t.duckdb", "t")
    else:
        source = as_source(TABLE)
    assert total(source, query()) == total(source, query(), ReferenceEngine())
    assert refused == attempts
    assert not (tmp_path / "out.csv").exists()


def test_without_the_lock_the_attempts_succeed(tmp_path: Path) -> None:
    """Control: the attempts above are refused by the lock, not by being faulty."""
    connection = duckdb.connect()
    connection.execute("SELECT * FROM secret_frame")
    for attempt in _attempts(tmp_path)[:5]:
        connection.execute(attempt)
    connection.close()


def test_one_select_whose_text_depends_on_no_row() -> None:
    asked = query(
        user="user",
        where=parse_condition("x > 1", {"x": X}, origin="t"),
        columns=(X, USER, REGION, Column("at", Kind.timestamp)),
        window=Window("at", datetime(2020, 1, 1), datetime(2020, 1, 2)),
    )
    texts = []
    for cells in ([CANARY, None], ["2020-01-01", "2020-01-01"]):
        at = pa.array(cells)
        engine = DuckDBEngine()
        table = TABLE.slice(0, 2).append_column("at", at)
        total(as_source(table), asked, engine)
        texts.append(engine.statements)
    assert texts[0] == texts[1]
    statement = texts[0][-1]
    found = duckdb.extract_statements(statement)
    assert [s.type for s in found] == [duckdb.StatementType.SELECT]
    assert SALT.hex() not in statement
    assert sum(text.startswith("WITH") for text in texts[0]) == 1


def test_no_spill_folder_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spill").mkdir()
    engine = DuckDBEngine(memory_limit="200MB", threads=1, temp_directory=tmp_path / "spill")
    total(as_source(TABLE), query(), engine)
    assert os.listdir(tmp_path) == ["spill"]
    assert os.listdir(tmp_path / "spill") == []


# -- silence -----------------------------------------------------------------------------------


def _silent(error: BaseException) -> bool:
    shown = "".join(traceback.format_exception(error)) + repr(error) + str(error.args)
    return CANARY not in shown and error.__cause__ is None and error.__context__ is None


def test_a_failure_while_reading_says_nothing_about_cells(
    capfd: pytest.CaptureFixture[str],
) -> None:
    connection = duckdb.connect()
    relation = connection.sql(
        f"SELECT CAST(s AS INTEGER) AS x FROM (VALUES ('1'), ('{CANARY}')) t(s)"
    )
    source = as_source(relation)
    DuckDBEngine().preflight(source, COUNT_X)  # types only: does not run the relation
    for engine in (DuckDBEngine(), ReferenceEngine()):
        with pytest.raises(InternalError) as caught:
            engine.compute(source, COUNT_X, SALT)
        assert caught.value.code == "DPR900"
        assert _silent(caught.value)
    assert CANARY not in "".join(capfd.readouterr())


def test_the_dropped_message_did_hold_the_cell() -> None:
    """Control: chaining, even with `from None`, would have kept the cell."""

    def chaining() -> None:
        try:
            duckdb.connect().execute(f"SELECT CAST('{CANARY}' AS INTEGER)").fetchall()
        except duckdb.Error:
            raise InternalError("x") from None

    with pytest.raises(InternalError) as caught:
        chaining()
    assert not _silent(caught.value)


def test_a_statement_that_raises_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(this: exp.Expression, kind: str) -> exp.Expression:
        return exp.Cast(this=this, to=exp.DataType.build(kind, dialect="duckdb"))

    source = as_source(pa.table({"x": [CANARY, "1"]}))
    assert total(source, COUNT_X) == [[2, 1]]
    monkeypatch.setattr(typed_sql, "try_cast", raising)  # mutant: CAST instead of TRY_CAST
    with pytest.raises(InternalError) as caught:
        total(source, COUNT_X)
    assert _silent(caught.value)


# -- preflight ---------------------------------------------------------------------------------


def _codes(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(SourceError) as caught:
        call()
    assert CANARY not in str(caught.value)
    assert caught.value.__context__ is None
    return str(caught.value.code), str(caught.value)


@pytest.mark.parametrize("engine", [DuckDBEngine, ReferenceEngine])
def test_missing_unfit_and_repeated_columns(engine: Callable[[], Any]) -> None:
    def check(table: pa.Table) -> tuple[str, str]:
        return _codes(lambda: engine().preflight(as_source(table), COUNT_X))

    code, text = check(pa.table({"x ": [1]}))
    assert code == "DPR503"
    assert "did you mean 'x '?" in text
    assert check(pa.table({"X": [1]}))[0] == "DPR503"
    assert check(pa.table({"x": [[1]]}))[0] == "DPR504"
    assert check(pa.table({"x": [datetime(2020, 1, 1)]}))[0] == "DPR504"
    assert (
        check(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]))[0] == "DPR505"
    )


def test_files_that_do_not_open(tmp_path: Path) -> None:
    def check(name: str, content: bytes) -> str:
        path = tmp_path / name
        path.write_bytes(content)
        return _codes(lambda: DuckDBEngine().preflight(as_source(path), COUNT_X))[0]

    assert check("a.parquet", CANARY.encode()) == "DPR502"
    assert check("a.csv", b"") == "DPR518"
    assert check("b.csv", b"\xff\xfe\n") == "DPR518"
    assert check("c.csv.gz", b"x\n1\n") == "DPR518"
    assert check("d.csv", b"y\n1\n") == "DPR503"
    assert check("e.csv", b"x,x\n1,2\n") == "DPR505"
    (tmp_path / "f1.csv").write_text("x,y\n")
    (tmp_path / "f2.csv").write_text("y,x\n")
    several = as_source(str(tmp_path / "f?.csv"))
    assert _codes(lambda: DuckDBEngine().preflight(several, COUNT_X))[0] == "DPR506"
    (tmp_path / "g.duckdb").write_text(CANARY)
    database = duckdb_table(tmp_path / "g.duckdb", "t")
    assert _codes(lambda: DuckDBEngine().preflight(database, COUNT_X))[0] == "DPR502"


class _Untouchable:
    def __str__(self) -> str:
        raise AssertionError("a cell was read")


def test_preflight_reads_no_row(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": pd.Series([_Untouchable()], dtype=object)})
    DuckDBEngine().preflight(as_source(frame), COUNT_X)
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": list(range(10_000))}), path, compression="none")
    raw = bytearray(path.read_bytes())
    raw[4:2000] = b"\0" * 1996  # the pages are destroyed, the footer is whole
    path.write_bytes(raw)
    DuckDBEngine().preflight(as_source(path), COUNT_X)
    with pytest.raises(InternalError):
        total(as_source(path), COUNT_X)


# -- hostile tables ----------------------------------------------------------------------------


def test_names_are_identifiers_only(tmp_path: Path) -> None:
    name = 'x"; DROP TABLE t; --'
    column = Column(name, Kind.number)
    asked = query(
        columns=(column,),
        groups=GroupKeys((), ((),)),
        codes=(Fixed(name, FIXED.grid, Fraction(1)),),
        primitives=(Primitive("power", 0, 1),),
    )
    table = pa.table({name: [3], "X": [5], "x": [1]})
    pq.write_table(table, tmp_path / "it's.parquet")
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([[name, "X", "x"], [3, 5, 1]])
    for source in (
        as_source(table),
        as_source(table.to_pandas()),
        as_source(tmp_path / "it's.parquet"),
        as_source(tmp_path / "t.csv"),
    ):
        DuckDBEngine().preflight(source, asked)
        assert total(source, asked) == [[3]]


def test_names_that_differ_in_case_are_two_columns(tmp_path: Path) -> None:
    table = pa.table({"X": [9.0], "x": [1.0]})
    (tmp_path / "t.csv").write_text("X,x\n9,1\n")
    asked = query(columns=(X,), groups=GroupKeys((), ((),)))
    for source in (
        as_source(table),
        as_source(table.to_pandas()),
        as_source(tmp_path / "t.csv"),
    ):
        assert total(source, asked) == [[1, 1, 1]]


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (b"", 0),
        (b"1\r\n2\r\n", 2),
        (b"1\n2", 2),
        (b"1,extra\n2\n", 2),
        (b'"1"\n""\n', 2),
        (b"\xff\xfe\n5\n", 2),
        (b'1\n"open\n2\n', 3),
        (b"1\n\n2\n", 3),
        (b"\x00\n1\n", 2),
    ],
)
def test_broken_csv_lines_never_raise(body: bytes, rows: int, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfx,y\n" + body)
    source = as_source(tmp_path / "t.csv")
    DuckDBEngine().preflight(source, COUNT_X)
    assert total(source, COUNT_X)[0][0] == rows


def test_random_bytes_as_csv_never_raise(tmp_path: Path) -> None:
    for seed in range(whole(10, 30)):
        rng = random.Random(seed)
        body = bytes(rng.choice(b'1,"\n\r\x00\xff\xc3\xa9; ') for _ in range(rng.randrange(150)))
        (tmp_path / "t.csv").write_bytes(b"x,y\n" + body)
        total(as_source(tmp_path / "t.csv"), COUNT_X)


def test_a_cell_that_does_not_parse_keeps_its_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,2\nabc,2\n,2\n")
    assert total(as_source(tmp_path / "t.csv"), COUNT_X) == [[3, 1]]


def test_a_delimiter_comes_from_the_header_alone(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x;y\n" + "1,2,3;4\n" * 50 + "5;6\n")
    source = as_source({"csv": {"path": str(tmp_path / "t.csv"), "decimal": "."}})
    assert total(source, COUNT_X) == [[51, 1]]
    with gzip.open(tmp_path / "t.tsv.gz", "wt") as file:
        file.write("x\ty,z\n1\t2\n")
    source = as_source({"csv": {"path": str(tmp_path / "t.tsv.gz"), "decimal": "."}})
    assert total(source, COUNT_X) == [[1, 1]]


def test_text_that_is_not_utf8_never_raises(tmp_path: Path) -> None:
    offsets = pa.py_buffer(np.array([0, 2, 3], dtype=np.int32).tobytes())
    text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfe7")])
    table = pa.table({"x": text, "user": text})
    pq.write_table(table, tmp_path / "t.parquet")
    asked = query(
        columns=(X, USER),
        groups=GroupKeys((), ((),)),
        user="user",
        primitives=COUNT_X.primitives,
    )
    for source in (as_source(table), as_source(tmp_path / "t.parquet")):
        assert total(source, asked) == [[2, 1]]


def test_counting_reads_no_column(tmp_path: Path) -> None:
    asked = query(
        columns=(),
        groups=GroupKeys((), ((),)),
        codes=(),
        primitives=(Primitive("rows"),),
    )
    pq.write_table(TABLE, tmp_path / "t.parquet")
    frame = TABLE.to_pandas()
    relation = duckdb.connect().from_arrow(TABLE)
    for data in (TABLE, frame, tmp_path / "t.parquet", relation):
        for engine in (DuckDBEngine(), ReferenceEngine()):
            assert total(as_source(data), asked, engine) == [[12]]


BY_MOMENT = query(
    columns=(Column("at", Kind.identifier),),
    groups=GroupKeys((), ((),)),
    codes=(),
    user="at",
    primitives=(Primitive("rows"), Primitive("persons")),
)


def test_instants_with_a_zone_are_refused_where_duckdb_would_convert_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A relation over Arrow, whatever it holds: its type does not say which unit Arrow counts in."""
    far = pa.array([0, 2**62], pa.int64()).view(pa.timestamp("s", "UTC"))
    for moments in (far, far.slice(0, 1)):
        table = pa.table({"at": moments})
        over = duckdb.connect().from_arrow(table)
        with pytest.raises(SourceError) as refused:
            DuckDBEngine().preflight(as_source(over), BY_MOMENT)
        assert refused.value.code == "DPR504"
        assert str(2**62) not in str(refused.value)
        # the way out that the message names takes any value
        DuckDBEngine().preflight(as_source(table), BY_MOMENT)
        assert total(as_source(table), BY_MOMENT)[0][1] == 1
    # the guard's broken twin reads, and ends at the instant far away
    monkeypatch.setattr(duckdb_tables, "_check_instants", lambda *_: None)
    with pytest.raises(InternalError):
        total(as_source(duckdb.connect().from_arrow(pa.table({"at": far}))), BY_MOMENT)


def test_instants_with_a_zone_of_duckdb_are_read() -> None:
    """A database holds them in microseconds: there is nothing to convert."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE moments AS SELECT TIMESTAMPTZ '2024-03-01 00:00:00+00' AS at")
    relation = as_source(connection.table("moments"))
    DuckDBEngine().preflight(relation, BY_MOMENT)
    assert total(relation, BY_MOMENT) == [[1, 1]]


# -- mutants: each breaks one guard, and the comparison with the reference must notice ----------


def _agree(asked: BoundedQuery, table: pa.Table = TABLE) -> bool:
    source = as_source(table)
    return total(source, asked) == total(source, asked, ReferenceEngine())


def test_a_small_memory_limit_spills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 600_000
    table = pa.table(
        {
            "x": np.arange(count) % 11,
            "user": np.arange(count) % 50_000,
            "region": pa.array(["a", "b"] * (count // 2)),
        }
    )
    asked = query(user="user", max_rows=2, primitives=(Primitive("rows"), Primitive("power", 0, 1)))
    small = DuckDBEngine(memory_limit="30MB", threads=1, temp_directory=tmp_path)
    assert total(as_source(table), asked, small) == total(as_source(table), asked)
    monkeypatch.setattr(engine_module, "_HARMFUL", ("type_pushdown",))
    with pytest.raises(InternalError):  # the other optimizer holds every row in memory
        total(as_source(table), asked, small)


def test_sums_over_a_join_are_planned_in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages that use the one before more than once: each took four times as long as the one before."""
    stages = ["s0 AS (SELECT p.code AS k, x AS x0 FROM seen LEFT JOIN places p ON p.code = seen.k)"]
    for i in range(8):
        x = f"CASE WHEN x{i} > {i} THEN x{i} * 2 ELSE x{i} + 1 END AS x{i + 1}"
        stages.append(f"s{i + 1} AS (SELECT t.*, {x} FROM s{i} AS t)")
    stages.append("summed AS (SELECT x8 > 9 AS k, SUM(x8) AS p FROM s8 GROUP BY x8 > 9)")
    sums = "SELECT label, SUM(p) FROM summed LEFT JOIN labels ON value = CAST(k AS TEXT) GROUP BY label"

    def seconds() -> float:
        with DuckDBEngine(threads=1)._connection() as connection:
            for table in (
                "seen(k TEXT, x DOUBLE)",
                "places(code TEXT)",
                "labels(value TEXT, label INT)",
            ):
                connection.execute(f"CREATE TABLE {table}")
            begun = process_time()
            connection.execute(f"EXPLAIN WITH {', '.join(stages)} {sums}")
            return process_time() - begun

    soon = seconds()
    left = tuple(n for n in engine_module._HARMFUL if n != "partial_aggregate_pushdown")
    monkeypatch.setattr(engine_module, "_HARMFUL", left)
    assert seconds() > 5 * soon  # 60 times


def _never(*_: object) -> exp.Expression:
    return exp.false()


def _always(*_: object) -> exp.Expression:
    return exp.true()


def _upper_tie(code: Fixed, name: str) -> exp.Expression:
    (_, left), (right, _) = code.grid.runs
    middle = f'CASE WHEN "{name}" > {left} AND 2 * "{name}" < {left + right} THEN {left} '
    middle += f'WHEN "{name}" BETWEEN {left + 1} AND {right} THEN {right} ELSE "{name}" END'
    return exp.Paren(this=parse_one(middle, dialect="duckdb"))


SPLIT = query(user="user", max_groups=1, max_rows=2)
MUTANTS: dict[str, tuple[object, str, object, BoundedQuery]] = {
    "NaN passes the clamp": (typed_sql, "_is_nan", _never, query()),
    "null passes the clamp": (code_sql, "is_null", _never, query()),
    "a null unit is a unit": (bounded_sql, "not_null", _always, SPLIT),
    "ties go up": (bounded_sql, "code_of_steps", _upper_tie, query()),
    "groups are not capped": (bounding_sql, "_drops_groups", lambda _: False, SPLIT),
    "an undeclared key is the null key": (
        label_sql, "texts_of", lambda *_: {v: v for v in ("a", "b", "none")}, query(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, broken, asked = MUTANTS[name]
    assert _agree(asked)
    monkeypatch.setattr(owner, attribute, broken)
    assert not _agree(asked)


def test_choosing_rows_by_table_order_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 400
    table = pa.table(
        {
            "x": [i % 5 for i in range(count)],
            "user": ["u"] * count,
            "region": ["a"] * count,
        }
    )
    backwards = table.take(list(range(count))[::-1])
    asked = query(user="user", max_rows=3, primitives=(Primitive("power", 0, 1),))

    def answers() -> list[list[list[int]]]:
        return [total(as_source(t), asked) for t in (table, backwards.slice(0, 397))]

    table = table.slice(3)  # the same rows, written forwards and backwards
    same = answers()
    assert same[0] == same[1]
    monkeypatch.setattr(bounding_sql.Bounding, "_hash", lambda *_: exp.Literal.string(""))
    mutant = answers()
    assert mutant[0] != mutant[1]


HELD = pa.table({"x": [1.0], "user": ["u"], "region": ["a"]})


@pytest.mark.parametrize("kind", ["arrow", "pandas", "relation", "csv", "parquet", "table"])
def test_the_very_statement_is_planned_before_the_charge(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old sqlglot wrote a lambda that DuckDB 2 refuses: every release of persons failed after its debit."""
    source = _held(kind, tmp_path)
    engine = DuckDBEngine()
    engine.preflight(source, query())
    planned = engine.statements[-1].removeprefix("EXPLAIN ")
    engine.compute(source, query(), bytes(32))
    assert engine.statements[-1] == planned
    sql = exp.Expression.sql
    unknown = "list_filter([1], y -> y > 0) AS arrow, "
    monkeypatch.setattr(
        exp.Expression,
        "sql",
        lambda *a, **k: sql(*a, **k).replace("SELECT ", f"SELECT {unknown}", 1),
    )
    with pytest.raises(SourceError) as caught:
        engine.preflight(source, query())
    assert (caught.value.code, caught.value.spent) == ("DPR527", "nothing")
    assert "does not take the statement" in caught.value.what


def test_a_view_of_files_in_a_database_is_refused_before_the_charge_and_can_be_made_a_table(
    tmp_path: Path,
) -> None:
    """It was called a fault of DuckDB's version."""
    file, database = tmp_path / "t.parquet", tmp_path / "d.duckdb"
    connection = duckdb.connect(str(database))
    pd.DataFrame({"x": [1], USER.name: ["u"], REGION.name: ["a"]}).to_parquet(file)
    connection.execute(f"CREATE VIEW the_view AS SELECT * FROM '{file}'")
    connection.close()
    with pytest.raises(SourceError) as caught:
        DuckDBEngine().preflight(duckdb_table(database, "the_view"), query())
    assert (caught.value.code, caught.value.spent) == ("DPR528", "nothing")
    connection = duckdb.connect(str(database))
    connection.execute("CREATE TABLE rows AS FROM the_view")
    connection.close()
    for mended in (duckdb_table(database, "rows"), as_source(file)):
        DuckDBEngine().preflight(mended, query())


def test_the_slower_way_over_parquet_is_planned_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, engine, run = _held("parquet", tmp_path), DuckDBEngine(), DuckDBEngine._statement
    ways: list[tuple[bool, bool]] = []

    def statement(*a: Any, exact: bool, empty: bool = False) -> Any:
        ways.append((exact, empty))
        if exact:
            raise duckdb.BinderException("no such function")
        return run(*a, exact=exact, empty=empty)

    monkeypatch.setattr(DuckDBEngine, "_statement", statement)
    monkeypatch.setattr(engine_module, "_SLOWER", [])
    with pytest.raises(SourceError) as caught:
        engine.preflight(source, query())
    assert not engine_module._SLOWER
    assert (caught.value.code, caught.value.spent) == ("DPR502", "nothing")
    assert (True, True) in ways
    engine.preflight(_held("csv", tmp_path), query())  # which has one way only


def test_what_was_planned_over_a_file_runs_on_its_connection_and_reads_the_rows_that_are_there_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *a: (made.append(connect(*a)), made[-1])[1])
    monkeypatch.setattr(engine_module, "_SLOWER", [])
    table = pa.table({"x": [1.0, 2.0], "user": ["u", "v"], "region": ["a", "a"]})
    file = tmp_path / "held.parquet"
    pq.write_table(table, file)
    source, asked = as_source(file), query()
    for opened in (2, 1):  # the slower way is planned once for one task over files of these types
        engine = DuckDBEngine(temp_directory=tmp_path)
        engine.preflight(source, asked)
        assert len(made) == opened
        pq.write_table(pa.concat_tables([table] * 3), file)
        found = engine.compute(source, asked, b"").reveal_to_mechanism().sums
        assert (found[0, 0], len(made)) == (6, opened)
        pq.write_table(table, file)
        assert engine.compute(source, asked, b"").reveal_to_mechanism().sums[0, 0] == 2
        assert len(made) == opened + 1
        made.clear()
    texts = pa.table({**{n: table[n] for n in table.column_names}, "x": ["1", "2"]})
    pq.write_table(texts, file)
    engine.preflight(source, asked)
    assert len(made) == 2
    left = [p for p in tmp_path.iterdir() if p.is_dir()]
    assert len(left) == 1  # until the engine goes
    del engine
    gc.collect()
    assert not any(p.is_dir() for p in tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["arrow", "pandas", "csv"])
def test_planning_the_statement_reads_no_row(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bool] = []
    table, pieces = in_memory.plain_table, csv_rows._Splitter.pieces
    monkeypatch.setattr(
        in_memory, "plain_table", lambda *a, rows=True: (read.append(rows), table(*a, rows=rows))[1]
    )
    monkeypatch.setattr(csv_rows._Splitter, "pieces", lambda *a: (read.append(True), pieces(*a))[1])
    source, engine = _held(kind, tmp_path), DuckDBEngine()
    engine.preflight(source, query())
    assert True not in read
    engine.compute(source, query(), b"")
    assert True in read


def _held(kind: str, folder: Path) -> Source:
    if kind in ("arrow", "pandas"):
        return as_source(HELD if kind == "arrow" else HELD.to_pandas())
    if kind == "relation":
        connection = duckdb.connect()
        connection.register("held", HELD)
        connection.execute("CREATE TABLE stored AS SELECT * FROM held")
        return as_source(connection.table("stored"))
    file = folder / f"held.{kind}"
    if kind == "csv":
        HELD.to_pandas().to_csv(file, index=False)
    elif kind == "parquet":
        pq.write_table(HELD, file)
    else:
        with duckdb.connect(str(file)) as connection:
            connection.register("held", HELD)
            connection.execute("CREATE TABLE stored AS SELECT * FROM held")
        return duckdb_table(file, "stored")
    return as_source(file)


@pytest.mark.parametrize(("then", "anew"), [([2, 3], 0), ([1.5, 2.0], 1), (["x", 2.5], 1)])
def test_a_frame_is_summed_where_it_was_planned_unless_its_types_are_others_by_then(
    then: list[Any], anew: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *a: (made.append(connect(*a)), made[-1])[1])
    frame = pd.DataFrame({"x": [1, 2], "user": ["u", "v"], "region": ["a", "a"]})
    source, asked = as_source(frame), query()
    engine = DuckDBEngine()
    engine.preflight(source, asked)
    frame["x"] = then
    found = engine.compute(source, asked, b"").reveal_to_mechanism().sums
    assert len(made) == 1 + anew
    fresh = DuckDBEngine().compute(source, asked, b"").reveal_to_mechanism().sums
    assert np.array_equal(found, fresh)


@pytest.mark.parametrize(
    ("then", "anew"), [("x,user,region\n2,u,a\n3,v,a\n", 0), ("region,x,user\na,3,u\n", 1)]
)
def test_a_csv_is_summed_where_it_was_planned_unless_its_columns_are_elsewhere_by_then(
    then: str, anew: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    connect = duckdb.connect
    monkeypatch.setattr(duckdb, "connect", lambda *a: (made.append(connect(*a)), made[-1])[1])
    file = tmp_path / "held.csv"
    file.write_text("x,user,region\n1,u,a\n")
    source, asked = as_source(file), query()
    engine = DuckDBEngine()
    engine.preflight(source, asked)
    file.write_text(then)
    found = engine.compute(source, asked, b"").reveal_to_mechanism().sums
    assert len(made) == 1 + anew
    assert found[0, 0] == then.count("\n") - 1
    fresh = DuckDBEngine().compute(source, asked, b"").reveal_to_mechanism().sums
    assert np.array_equal(found, fresh)


def test_settings_are_tried_before_the_charge_though_others_were_accepted(tmp_path: Path) -> None:
    DuckDBEngine().preflight(as_source(HELD), query())
    with pytest.raises(duckdb.Error):
        DuckDBEngine(memory_limit="a lot").preflight(as_source(HELD), query())
    gone = tmp_path / "gone"
    gone.mkdir()
    engine = DuckDBEngine(temp_directory=gone)
    engine.preflight(as_source(HELD), query())
    shutil.rmtree(gone)
    with pytest.raises(FileNotFoundError):
        engine.preflight(as_source(HELD), query())
