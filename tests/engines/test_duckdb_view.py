"""Views on rows: the engines agree, one row moves one row, and a repeated public key is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import ConfigError, DpreleaseError, InternalError, SourceError
from dprelease.engines import duckdb_view
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source, duckdb_table, tables_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.query.read_view import parse_view
from dprelease.query.view import UNPROVEN, View
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.sizes import FULL, some
from tests.sizes import whole as times

COLUMNS = (
    Column("pid", Kind.identifier),
    Column(
        "region", Kind.category, values=("n", "s"), other="other", nulls="as", null_label="none"
    ),
    Column("age", Kind.integer),
    Column("score", Kind.number),
)
REGION = COLUMNS[1]
VIEWS = [
    (
        "SELECT v.pid, p.region, v.age, v.age / p.weight AS score FROM visits v "
        "LEFT JOIN postcodes p ON p.code = v.postcode"
    ),
    (
        "SELECT v.pid, p.region, v.age, p.weight AS score FROM visits v "
        "JOIN postcodes p ON v.postcode = p.code AND p.year = v.year WHERE v.age > 10 OR p.weight < 3"
    ),
    (
        "SELECT pid, if(age > 40, 'n', 'elsewhere') AS region, age, floor(age / 10) AS score FROM visits "
        "WHERE not (age between 20 and 30)"
    ),
    (
        "SELECT v.pid, a.region, v.age, if(p.weight is null, -1, p.weight) AS score FROM visits v "
        "LEFT JOIN postcodes p ON p.code = v.postcode LEFT JOIN areas a ON a.id = p.area"
    ),
    (
        "SELECT v.pid, coalesce(p.region, 'n') AS region, v.age, p.weight AS score FROM visits v "
        "JOIN postcodes p ON p.code = v.postcode WHERE p.area = 'A' or v.age > 20"
    ),
]


def view(sql: str, *allow: str) -> View:
    return parse_view(sql, private=("visits",), public=("postcodes", "areas"), allow=allow)


def query(found: View, **changes: Any) -> BoundedQuery:
    codes = tuple(
        Fixed(name, Domain(0, 120).on_grid(Fraction(step)), Fraction(step))
        for name, step in (("age", "1"), ("score", "0.1"))
    )
    out: dict[str, Any] = {
        "columns": COLUMNS,
        "groups": GroupKeys((REGION,), tuple((k,) for k in REGION.keys)),
        "codes": codes,
        "primitives": (
            Primitive("rows"),
            Primitive("persons"),
            *(Primitive("power", j, p) for j in (0, 1) for p in (0, 1)),
        ),
        "view": found,
    }
    return BoundedQuery(**{**out, **changes})


def visits(rng: random.Random, count: int) -> pa.Table:
    def any_of(values: list[Any]) -> list[Any]:
        return [rng.choice([*values, None]) for _ in range(count)]

    code: list[Any] = rng.choice([[1, 2, 3, 9], [1.0, 2.0, 3.0], ["1", "2", "x"]])
    return pa.table(
        {
            "pid": pa.array(any_of(["a", "b", "c"]), pa.string()),
            "postcode": any_of(code),
            "year": any_of([2020, 2021]),
            "age": any_of([5, 15, 25, 45, 200]),
        }
    )


PUBLIC = {
    "postcodes": pa.table(
        {
            "code": ["1", "2", "3", None, None],
            "year": [2020, 2021, 2020, 1, 1],
            "region": ["n", "s", None, "n", "n"],
            "weight": [2.0, 0.0, float("nan"), 1.0, 1.0],
            "area": ["A", "B", None, "A", "A"],
        }
    ),
    "areas": pa.table({"id": ["A", "B"], "region": ["s", "w"]}),
}


def sources(table: pa.Table, folder: Path, kind: str = "arrow") -> Any:
    made = {}
    for name, rows in {"visits": table, **PUBLIC}.items():
        path = folder / f"{name}.{kind}"
        if kind == "arrow":
            made[name] = as_source(rows)
        elif kind == "parquet":
            pq.write_table(rows, path)
            made[name] = as_source(path)
        elif kind == "csv":
            path.write_text(rows.to_pandas().convert_dtypes().to_csv(index=False), encoding="utf-8")
            made[name] = as_source(path)
        else:
            import duckdb

            path.unlink(missing_ok=True)
            with duckdb.connect(str(path)) as connection:
                connection.register("t", rows)
                connection.execute("CREATE TABLE kept AS SELECT * FROM t")
            made[name] = duckdb_table(path, "kept")
    return tables_source(made)


def sums(engine: Any, source: Any, task: BoundedQuery) -> Any:
    return engine.compute(source, task, b"salt").reveal_to_mechanism().sums


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv", "duckdb"])
def test_the_engines_agree(kind: str, tmp_path: Path) -> None:
    nonzero = 0
    # a CSV column that the schema does not declare is text: no arithmetic with it
    views = {"arrow": VIEWS, "csv": [VIEWS[2], VIEWS[4]]}.get(kind, some(VIEWS, 3))
    for seed, sql in enumerate(views * times(1, 2)):
        rng = random.Random(seed)
        source = sources(visits(rng, (25, 25, 1, 40)[seed % 4]), tmp_path, kind)
        user = rng.choice([None, "pid"])
        task = query(view(sql), user=user, max_rows=2, max_groups=rng.choice([1, 3]))
        DuckDBEngine().preflight(source, task)
        ReferenceEngine().preflight(source, task)
        found = sums(DuckDBEngine(), source, task)
        assert (found == sums(ReferenceEngine(), source, task)).all(), (kind, seed)
        nonzero += bool(found.any())
    assert nonzero >= 2


@pytest.mark.parametrize("sql", VIEWS)
def test_one_private_row_moves_one_row_of_the_view(sql: str, tmp_path: Path) -> None:
    table = visits(random.Random(sql), 30)
    task = query(view(sql))
    kept = view(sql).keeps_rows
    whole = sums(DuckDBEngine(), sources(table, tmp_path), task)[:, 0]
    moved = []
    for gone in range(12):
        fewer = pa.concat_tables([table.slice(0, gone), table.slice(gone + 1)])
        less = sums(DuckDBEngine(), sources(fewer, tmp_path), task)[:, 0]
        moved.append(int(np.abs(whole - less).sum()))
        if not FULL and gone and max(moved):
            break
    assert max(moved) == 1
    if kept:
        assert int(whole.sum()) == 30
        assert set(moved) == {1}


REPEATED = pa.table(
    {
        "code": ["1", "1", "2"],
        "year": [2020, 2021, 2020],
        "region": ["n", "s", "n"],
        "weight": [1.0, 1.0, 1.0],
        "area": ["A", "A", "A"],
    }
)


def repeated(folder: Path) -> Any:
    table = pa.table({"pid": ["a"], "postcode": ["1"], "year": [2020], "age": [5]})
    named: Any = sources(table, folder).payload
    return tables_source({**named, "postcodes": as_source(REPEATED)})


def test_a_public_key_that_repeats_is_refused_before_the_charge(tmp_path: Path) -> None:
    for engine in (DuckDBEngine(), ReferenceEngine()):
        with pytest.raises(SourceError) as caught:
            engine.preflight(repeated(tmp_path), query(view(VIEWS[0])))  # type: ignore[attr-defined]
        assert caught.value.code == "DPR510"
        with pytest.raises(InternalError):  # the table changed after the preflight
            engine.compute(repeated(tmp_path), query(view(VIEWS[0])), b"")  # type: ignore[attr-defined]
    # together the two columns are a key
    DuckDBEngine().preflight(repeated(tmp_path), query(view(VIEWS[1])))


def test_without_that_check_one_row_would_become_two(tmp_path: Path, monkeypatch: Any) -> None:
    """Broken twin: what the refusal is for."""
    from sqlglot import exp

    nothing = exp.select("1").where("false")
    monkeypatch.setattr(duckdb_view, "repeated_key", lambda *_: nothing)
    assert sums(DuckDBEngine(), repeated(tmp_path), query(view(VIEWS[0])))[:, 0].sum() == 2


def test_faults_are_found_before_the_charge(tmp_path: Path) -> None:
    source = sources(visits(random.Random(1), 3), tmp_path)
    for sql, code in {
        VIEWS[0].replace("v.age,", "v.agee AS age,"): "DPR503",
        VIEWS[0].replace("p.code =", "p.cod ="): "DPR503",
        VIEWS[2].replace("age > 40", "agee > 40"): "DPR122",
        VIEWS[2].replace("age > 40", "pid > 40"): "DPR123",
        VIEWS[0].replace("p.region,", ""): "DPR503",
    }.items():
        with pytest.raises((SourceError, ConfigError)) as caught:
            DuckDBEngine().preflight(source, query(view(sql)))
        assert (caught.value.code, caught.value.spent) == (code, "nothing"), sql
    for broken in (as_source(pa.table({"age": [1]})), source):
        task = query(view(VIEWS[0]))
        with pytest.raises(SourceError) as caught:
            DuckDBEngine().preflight(
                broken, task if broken is not source else replace(task, view=None)
            )
        assert caught.value.code == "DPR509"


def test_no_text_of_the_view_reaches_the_engine(tmp_path: Path) -> None:
    sql = "SELECT vvv.pid, if(vvv.age > 12345, 'canary', 'n') AS region, vvv.age, vvv.age AS score FROM visits vvv"
    engine = DuckDBEngine()
    sums(engine, sources(visits(random.Random(2), 5), tmp_path), query(view(sql)))
    for statement in engine.statements:
        assert not any(word in statement for word in ("canary", "12345", "vvv"))


def test_an_accepted_view_runs_behind_the_lock(tmp_path: Path) -> None:
    sql = (
        "SELECT pid, 'n' AS region, max(age) AS age, CAST(count(*) AS INT) AS score "
        "FROM visits GROUP BY pid"
    )
    table = pa.table(
        {"pid": ["a", "a", "b"], "postcode": [1, 1, 1], "year": [1, 1, 1], "age": [3, 9, 4]}
    )
    task = query(view(sql, UNPROVEN))
    for kind in ("arrow", "parquet", "csv", "duckdb"):
        source = sources(table, tmp_path, kind)
        DuckDBEngine().preflight(source, task)
        assert sums(DuckDBEngine(), source, task).tolist()[0] == [2, 2, 2, 13, 2, 30]
    slow = DuckDBEngine()._answer(sources(table, tmp_path, "parquet"), task, b"", None, exact=True)
    assert slow is not None
    assert slow.sums[0].tolist() == [2, 2, 2, 13, 2, 30]
    with pytest.raises(SourceError) as caught:
        ReferenceEngine().preflight(source, task)
    assert caught.value.code == "DPR511"
    missing = query(view(sql.replace("max(age) AS age, ", ""), UNPROVEN))
    with pytest.raises(DpreleaseError) as caught_missing:
        DuckDBEngine().preflight(source, missing)
    assert caught_missing.value.code == "DPR503"


@pytest.mark.parametrize("collation", some(["NOCASE.NOACCENT", "NOCASE", "NOACCENT"], 3))
def test_keys_are_joined_by_their_bytes(collation: str, tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        kind = f"VARCHAR COLLATE {collation}"
        connection.execute(
            f"CREATE TABLE visits (pid VARCHAR, code {kind}); CREATE TABLE postcodes (code {kind}, region {kind})"
        )
        connection.execute(
            "INSERT INTO visits VALUES ('1', 'a'), ('2', 'A'), ('3', 'á'), ('4', 'b')"
        )
        connection.execute("INSERT INTO postcodes VALUES ('a', 'n'), ('A', 's'), ('á', 'N')")
    found = view(
        "SELECT v.pid AS pid, p.region AS region FROM visits v LEFT JOIN postcodes p ON p.code = v.code"
    )
    asked = replace(query(found), codes=(), primitives=(Primitive("rows"),))
    source = tables_source({name: duckdb_table(path, name) for name in ("visits", "postcodes")})
    for engine in (DuckDBEngine(), ReferenceEngine()):
        engine.preflight(source, asked)  # no key is there twice
        assert engine.compute(source, asked, b"").reveal_to_mechanism().sums.tolist() == [
            [1],
            [1],
            [1],
            [1],
        ]
