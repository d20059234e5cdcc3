"""The engine's connection after its set-up: everything but the one SELECT is refused.

Each attempt runs inside the connection of a real computation, in the instant before its statement.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.engines import duckdb as engine_module
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain

private_frame = pd.DataFrame({"a": [1]})  # a Python variable that SQL must not find by name
NAMES = [
    "x", 'a"; drop table t; --', "a'; drop table t; --", "select", "", " ", "a b", "é", "\U0001f600", "x\\", "$p0", "?",
    "{x}", "%s", "/*", "--", "[0]", "c0", "source_rows", "a.b", "NULL", "*", "x\x00y", "`x`", "@x", "a\nb",
]  # fmt: skip


def query(*names: str) -> BoundedQuery:
    names = names or ("x",)
    grid = Domain(0, 10).on_grid(1)  # type: ignore[arg-type]
    return BoundedQuery(
        columns=tuple(Column(name, Kind.number) for name in names),
        groups=GroupKeys((), ((),)),
        codes=tuple(Fixed(name, grid, 1) for name in names),  # type: ignore[arg-type]
        primitives=(Primitive("rows"), *(Primitive("power", i, 1) for i in range(len(names)))),
    )


def total(source: Any, asked: BoundedQuery) -> list[int]:
    found: list[int] = (
        DuckDBEngine(threads=1).compute(source, asked, b"s").reveal_to_mechanism().sums[0].tolist()
    )
    return found


def attempts(folder: Path) -> list[str]:
    file = folder / "f.csv"
    file.write_text("a\n1\n")
    pq.write_table(pa.table({"a": [1]}), folder / "f.parquet")
    return [
        # other files
        f"SELECT * FROM read_csv('{file}')", f"SELECT * FROM read_csv_auto('{file}')", f"SELECT * FROM '{file}'",
        f"SELECT * FROM read_text('{file}')", f"SELECT * FROM read_blob('{file}')", f"SELECT * FROM glob('{folder}/*')",
        f"SELECT * FROM read_parquet('{folder}/f.parquet')", f"SELECT * FROM parquet_schema('{folder}/f.parquet')",
        f"SELECT * FROM parquet_metadata('{folder}/f.parquet')", f"SELECT * FROM sniff_csv('{file}')",
        f"SELECT * FROM read_json('{file}')", f"SELECT * FROM read_ndjson('{file}')", "SELECT * FROM '/proc/self/environ'",
        "SELECT * FROM read_text('/etc/passwd')", f"COPY (SELECT 1) TO '{folder}/out.csv'",
        f"COPY (SELECT 1) TO '{folder}/out.parquet' (FORMAT parquet)", f"ATTACH '{folder}/other.duckdb'",
        f"ATTACH '{folder}/other.duckdb' (READ_ONLY)", f"EXPORT DATABASE '{folder}/dump'", f"IMPORT DATABASE '{folder}'",
        f"CREATE TABLE stolen AS SELECT * FROM read_csv('{file}')",
        # the network and code
        "SELECT * FROM read_csv('https://example.org/x.csv')", "SELECT * FROM 's3://bucket/x.parquet'", "INSTALL httpfs",
        "INSTALL spatial FROM community", "FORCE INSTALL httpfs", "LOAD httpfs", f"LOAD '{folder}/evil.duckdb_extension'",
        "ATTACH 'host=127.0.0.1' AS pg (TYPE postgres)", "CREATE PERSISTENT SECRET s (TYPE s3, KEY_ID 'k', SECRET 'v')",
        # Python
        "SELECT * FROM private_frame", "SELECT * FROM globals()",
        # settings
        "SET enable_external_access = true", "SET python_enable_replacements = true", "SET lock_configuration = false",
        "RESET lock_configuration", "SET allowed_paths = ['/etc/passwd']", "SET allowed_directories = ['/']",
        "SET allow_community_extensions = true", "SET allow_unsigned_extensions = true",
        "SET autoinstall_known_extensions = true", "SET autoload_known_extensions = true", "SET threads = 3",
        "SET memory_limit = '100GB'", f"SET temp_directory = '{folder}'", f"SET home_directory = '{folder}'",
        f"SET secret_directory = '{folder}'", f"SET log_query_path = '{folder}/log'", "SET http_proxy = 'example.org'",
        "SET max_temp_directory_size = '100GB'", f"SET extension_directory = '{folder}'", "PRAGMA enable_profiling",
        f"PRAGMA profiling_output = '{folder}/profile'", "CALL enable_logging()", "PRAGMA enable_checkpoint_on_shutdown",
        f"SET GLOBAL temp_directory = '{folder}'", "SET allowed_configs = ['threads']",
    ]  # fmt: skip


def refused_in(source: Any, tried: list[str], patch: pytest.MonkeyPatch) -> list[str]:
    refused: list[str] = []
    run = DuckDBEngine._run

    def probing(self: Any, connection: Any, sql: str, parameters: Any = None) -> Any:
        if sql.startswith("WITH"):
            for attempt in tried:
                try:
                    connection.execute(attempt)
                except duckdb.Error:
                    refused.append(attempt)
        return run(self, connection, sql, parameters)

    patch.setattr(DuckDBEngine, "_run", probing)
    assert total(source, query()) == [3, 6]
    return refused


TABLE = pa.table({"x": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv"])
def test_every_attempt_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs, tries = tmp_path / "in", tmp_path / "tries"
    inputs.mkdir()
    tries.mkdir()
    source: Any = as_source(TABLE)
    if kind == "parquet":
        pq.write_table(TABLE, inputs / "t.parquet")
        source = as_source(inputs / "t.parquet")
    if kind == "csv":
        (inputs / "t.csv").write_text("x,y\n1,\n2,\n3,\n")
        source = as_source(inputs / "t.csv")
    tried = attempts(tries)
    assert refused_in(source, tried, monkeypatch) == tried
    assert sorted(p.name for p in tries.iterdir()) == ["f.csv", "f.parquet"]


@pytest.mark.parametrize(
    ("left_out", "done"),
    [
        (("enable_external_access",), "SELECT * FROM read_text('/etc/passwd')"),
        (("lock_configuration",), "SET threads = 3"),
        # the first of them switches Python's variables off too: the second stands behind it
        (("enable_external_access", "python_enable_replacements"), "SELECT * FROM private_frame"),
    ],
)
def test_each_part_of_the_lock_is_needed(
    left_out: tuple[str, ...], done: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broken twin: without one of these settings, an attempt succeeds."""
    assert refused_in(as_source(TABLE), [done], monkeypatch) == [done]
    rest = tuple(s for s in engine_module.LOCK if not any(name in s for name in left_out))
    assert len(rest) == len(engine_module.LOCK) - len(left_out)
    monkeypatch.setattr(engine_module, "LOCK", rest)
    assert refused_in(as_source(TABLE), [done], monkeypatch) == []


@pytest.mark.parametrize("kind", ["arrow", "parquet", "relation"])
def test_a_column_s_name_is_only_a_name(kind: str, tmp_path: Path) -> None:
    names = NAMES if kind == "arrow" else [n for n in NAMES if n and "\x00" not in n]
    table = pa.table({name: [1.0, 2.0, float(i)] for i, name in enumerate(names)})
    source: Any = as_source(table)
    if kind == "parquet":
        pq.write_table(table, tmp_path / "t.parquet")
        source = as_source(tmp_path / "t.parquet")
    if kind == "relation":
        source = as_source(duckdb.connect().from_arrow(table))
    engine, asked = DuckDBEngine(threads=1), query(*names)
    engine.preflight(source, asked)
    sums = engine.compute(source, asked, b"s").reveal_to_mechanism().sums[0].tolist()
    assert sums == [3, *(3 + min(i, 10) for i in range(len(names)))]
    for statement in engine.statements:
        assert len(duckdb.extract_statements(statement)) == 1
    assert duckdb.extract_statements(engine.statements[-1])[0].type == duckdb.StatementType.SELECT


@pytest.mark.parametrize(
    "name", ["f'; DROP TABLE t; --.csv", "a'b.csv", 'a"b.csv', "a b;.csv", "é$p0.csv", "a\nb.csv"]
)
def test_a_file_s_name_is_only_a_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("x,y\n1,\n2,\n3,\n")
    assert total(as_source(tmp_path / name), query()) == [3, 6]


@pytest.mark.parametrize("name", ['t"; drop table t; --', "t'", "a b", "select"])
def test_a_database_s_table_is_only_a_name(name: str, tmp_path: Path) -> None:
    from dprelease.engines.source import duckdb_table

    path = tmp_path / "d'b.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("v", TABLE)
        quoted = '"' + name.replace('"', '""') + '"'
        connection.execute(f"CREATE TABLE {quoted} AS SELECT * FROM v")
    assert total(duckdb_table(path, name), query()) == [3, 6]
