"""Names of tables with quoted parts, which may hold dots, quotes, colons and capitals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines.columns import stored_columns
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, duckdb_table, postgres_table
from dprelease.engines.table_names import quoted_name, table_parts
from dprelease.pipeline.drafted import draft_schema, named_source
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind

X = {"x": Column("x", Kind.integer)}
QUERY = BoundedQuery(
    tuple(X.values()), GroupKeys((), ((),)), (), (Primitive("rows"),),
    where=parse_condition("x >= 1", X, origin="test"),
)  # fmt: skip
TABLES = {  # as it is named -> its parts; each holds as many rows as its place
    "plain": ("plain",),
    "clinic.the visits": ("clinic", "the visits"),
    '"a.b"': ("a.b",),
    '"My Schema"."My.Table"': ("My Schema", "My.Table"),
    '"My Schema".plain': ("My Schema", "plain"),
    'clinic."5"" pipes.x"': ("clinic", '5" pipes.x'),
    '"a:b"': ("a:b",),
    't"; drop table t; --': ('t"; drop table t; --',),
}


@pytest.mark.parametrize(("name", "parts"), TABLES.items())
def test_parts(name: str, parts: tuple[str, ...]) -> None:
    assert table_parts(name) == parts


@pytest.mark.parametrize(
    "name", ["", ".", "a.", ".a", "a..b", '"a', '"a"b', '""', 'a."b', 'a."b"c.d']
)
def test_what_names_no_table_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        table_parts(name)
    assert caught.value.code == "DPR502"
    duckdb.connect(str(tmp_path / "d.duckdb")).close()
    with pytest.raises(SourceError, match="does not name a table"):
        DuckDBEngine().preflight(duckdb_table(tmp_path / "d.duckdb", name), QUERY)


def create(run: Any) -> None:
    for schema in ("clinic", '"My Schema"'):
        run(f"CREATE SCHEMA {schema}")
    for rows, parts in enumerate(TABLES.values(), start=1):
        name = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
        values = ", ".join(["(1)"] * rows)
        run(f"CREATE TABLE {name} AS SELECT * FROM (VALUES {values}) AS t(x)")


def counted(source: Source, *engines: Any) -> list[int]:
    out = []
    for engine in engines:
        engine.preflight(source, QUERY)
        out.append(int(engine.compute(source, QUERY, b"").reveal_to_mechanism().sums[0, 0]))
    return out


def test_tables_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as connection:
        create(connection.execute)
    for rows, name in enumerate(TABLES, start=1):
        found = counted(duckdb_table(path, name), DuckDBEngine(), ReferenceEngine())
        assert found == [rows, rows], name
        source, called = named_source(f"{path}:{name}")
        assert called == TABLES[name][-1]
        assert list(stored_columns(source)) == ["x"]
        assert "x: " in draft_schema(source, name=called)


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    psycopg = pytest.importorskip("psycopg")
    from tests.engines.postgres_server import binaries, server

    if binaries() is None:
        pytest.skip("no PostgreSQL server is installed (Debian: apt-get install postgresql)")
    with server() as where:
        with psycopg.connect(where, autocommit=True) as connection:
            create(connection.execute)
        yield where


def test_tables_of_postgresql(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dprelease.engines.postgres_engine import PostgresEngine

    monkeypatch.setenv("CLINIC_DSN", dsn)
    for rows, name in enumerate(TABLES, start=1):
        source = postgres_table(lambda: dsn, name)
        found = counted(source, PostgresEngine(), DuckDBEngine(), ReferenceEngine())
        assert found == [rows, rows, rows], name
        assert list(stored_columns(named_source("${env:CLINIC_DSN}:" + name)[0])) == ["x"]


def test_a_name_is_quoted_whole() -> None:
    assert quoted_name('a."b.c"') == '"a"."b.c"'
