"""One person is one id, whatever the id is stored as: no two different ones meet, and equal ones do.

Crossed: storage types with their hardest neighbours, declared kinds, sources, engines. Each table
gives every id one row, some of them two, so the number of persons and the rows kept under one row
per person tell how many different ids the engine saw.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines import row_sql, typed_sql
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, duckdb_table, object_source
from dprelease.engines.typed_sql import try_cast
from dprelease.query.bounded import BoundedQuery, Code, GroupKeys, Label, Primitive
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from tests.sizes import FULL, some

ENGINES: dict[str, Callable[[], Any]] = {"duckdb": DuckDBEngine, "reference": ReferenceEngine}
EVERY = {"duckdb": 1, "reference": 3}
"""The engine that releases meets every type with every change, the reference every third."""
HARD = (0, 1, 999, 2**53, 2**53 + 1, 2**62, -(2**62), 2**63 - 2, -(2**63) + 2)
LEAST = -9_223_372_022_400_000_000
BYTES = (
    b"\xff",
    b"\xfe",
    b"\\xff",
    b"\\xFF",
    b"?",
    b"",
    b"\0ff",
    b"\0\xff",
    b"a",
    b"A",
    "é".encode(),
    "\ufffd".encode(),
)


@dataclass(frozen=True)
class Stored:
    """A column of different ids, some of them twice, in one storage type."""

    name: str
    array: Any
    different: int
    kind: Kind = Kind.identifier


def stored(name: str, cells: Any, kind: pa.DataType, different: int | None = None) -> Stored:
    """Return a column of all `cells` and the first two again; `different` of them are ids."""
    array = cells if isinstance(cells, pa.Array) else pa.array(list(cells), kind)
    array = pa.concat_arrays([array, array.slice(0, 2)])
    return Stored(name, array, len(array) - 2 if different is None else different)


def counts(cells: tuple[int, ...], kind: pa.DataType, different: int | None = None) -> Stored:
    width = pa.int32() if kind in (pa.date32(),) else pa.int64()
    return stored(str(kind), pa.array(cells, width).view(kind), kind, different)


def _storages() -> Iterator[Stored]:
    for bits in (8, 16, 32, 64):
        top = 2 ** (bits - 1)
        yield stored(
            f"int{bits}", (0, 1, top - 1, top - 2, -top, -top + 1), getattr(pa, f"int{bits}")()
        )
        yield stored(f"uint{bits}", (0, 1, 2 * top - 1, 2 * top - 2), getattr(pa, f"uint{bits}")())
    yield stored("doubled int64", HARD, pa.int64())
    yield stored(
        "double",
        (
            0.5,
            1.0,
            2.0**53,
            2.0**53 + 2,
            0.1,
            np.nextafter(0.1, 1),
            1e300,
            -1e300,
            5e-324,
            float("inf"),
        ),
        pa.float64(),
    )
    yield stored("float", (0.5, 0.1, 16777216.0, 16777218.0), pa.float32())
    yield stored("decimal(38, 0)", (Decimal(10**37), Decimal(10**37 + 1)), pa.decimal128(38, 0))
    yield stored(
        "decimal(38, 30)",
        (Decimal("1E-30"), Decimal("2E-30"), Decimal("1E-7")),
        pa.decimal128(38, 30),
    )
    yield stored(
        "decimal(76, 3)",
        (Decimal(10**50), Decimal(f"{10**50}.001"), Decimal("0.001")),
        pa.decimal256(76, 3),
    )
    yield stored(
        "text",
        ("a", "A", "á", "a ", " a", "", "1", "1.0", "01", "\\xff", "ß", "ss", "İ", "i"),
        pa.string(),
    )
    yield stored("large text", ("a", "A"), pa.large_string())
    yield stored("text view", ("a", "A"), pa.string_view())
    yield stored("dictionary", pa.array(["a", "A", "b"]).dictionary_encode(), pa.string())
    yield stored("binary", BYTES, pa.binary())
    yield stored("fixed binary", (b"\xff\xff", b"\xff\xfe", b"ab", b"AB"), pa.binary(2))
    yield stored(
        "text that is not text", pa.array(BYTES, pa.binary()).view(pa.string()), pa.string()
    )
    yield stored(
        "uuid", pa.array([UUID(int=1).bytes, UUID(int=2).bytes, b"\xff" * 16], pa.uuid()), pa.uuid()
    )
    yield stored("boolean", (True, False), pa.bool_())
    yield counts((0, 1, -1, 2**31 - 2, -(2**31), -719_529), pa.date32())
    for zone in (None, "UTC", "America/New_York"):
        yield counts(
            (0, 1, -1, LEAST, LEAST + 1, 2**63 - 2, 2**53, 2**53 + 1), pa.timestamp("us", zone)
        )
        yield counts(
            (0, 1, -1, 1000, 1001, 2**63 - 2, -(2**63), 2**53 + 1, 2**53 + 2),
            pa.timestamp("ns", zone),
        )
        yield counts(
            (0, 1, -1, 2**53 // 1000, 2**62, -(2**62), 2**63 - 1), pa.timestamp("ms", zone), 4
        )


def _beyond_parquet() -> Iterator[Stored]:
    for zone in (None, "UTC"):
        yield counts((0, 1, -1, 2**33, 2**33 + 1, 2**62, 2**62 + 2**44), pa.timestamp("s", zone), 5)
    yield counts((0, 86_400_000, -86_400_000, 86_400_001, 2**62), pa.date64(), 3)


_UNREAD = ("date64",)
STORED = {one.name: one for one in _storages()}
IN_MEMORY = STORED | {one.name: one for one in _beyond_parquet()}
KINDS = dict.fromkeys(IN_MEMORY, (Kind.identifier, Kind.category))
for _name in KINDS:
    if (
        "int" in _name
        or _name in ("double", "float", "text", "binary", "boolean", "text that is not text")
        or "decimal" in _name
    ):
        KINDS[_name] = (Kind.identifier, Kind.category, Kind.integer, Kind.number)


def persons(
    engine: Any, source: Source, kind: Kind, *, missing: bool = False
) -> tuple[int, int, int]:
    """Return the rows with an id, the persons, and the rows left at one row per person: in one statement."""
    sums = (Primitive("rows", max_rows=9), Primitive("persons"), Primitive("rows", max_rows=1))
    query = BoundedQuery(
        (Column("id", kind),),
        GroupKeys((), ((),)),
        (),
        sums,
        user="id",
        max_rows=9,
        missing=missing,
    )
    engine.preflight(source, query)
    rows, found, kept = engine.compute(source, query, b"salt").reveal_to_mechanism().sums[0]
    return rows, found, kept


def sources(column: Stored, folder: Path) -> Iterator[Callable[[], Source]]:
    """Yield what makes each source of the column."""
    table = pa.table({"id": column.array})

    def parquet(dictionary: bool) -> Source:
        path = folder / f"{dictionary}.parquet"
        pq.write_table(table, path, version="2.6", use_dictionary=dictionary)
        return as_source(path)

    def objects() -> Source:
        name = Path(parquet(True).payload[0]).name
        store = pyarrow.fs.SubTreeFileSystem(str(folder.parent), pyarrow.fs.LocalFileSystem())
        return object_source(f"s3://{folder.name}/{name}", store=store)

    yield lambda: as_source(table)
    if column.name in STORED:
        yield from (partial(parquet, True), partial(parquet, False), objects)
    # what a relation cannot give is its own: here, one over Arrow that DuckDB itself does not read,
    # and instants with a zone, which are refused (test_duckdb.py)
    unread = column.name.startswith(_UNREAD) or "tz=" in column.name
    if column.name not in ("text that is not text", "decimal(76, 3)") and not unread:
        yield lambda: as_source(duckdb.connect().from_arrow(table))


def turn_of(name: str, names: Iterable[str]) -> int:
    """Return where a name stands; every third or fourth of them still takes every turn."""
    place = list(names).index(name)
    return place + place // 3


def kinds_of(kinds: tuple[Kind, ...], turn: int) -> tuple[Kind, ...]:
    """Return an identifier and one more kind in turn; all kinds in `make evidence`."""
    first, *others = kinds
    return kinds if FULL else (first, others[turn % len(others)])


@pytest.mark.parametrize(
    ("engine", "name"),
    [(engine, name) for engine in ENGINES for name in some(IN_MEMORY, EVERY[engine])],
)
def test_no_two_stored_ids_meet_and_equal_ones_do(name: str, engine: str, tmp_path: Path) -> None:
    """Arrow as one kind in turn or one more source as an identifier, in turn; all of all in `make evidence`."""
    column, turn = IN_MEMORY[name], turn_of(name, IN_MEMORY)
    arrow, *others = sources(column, tmp_path)
    more = others if FULL else others[turn // 2 % max(len(others), 1) :][:1]
    both = (arrow, *more)
    for make in both if FULL else both[turn % len(both) :][:1]:
        source, kinds = make(), kinds_of(KINDS[name], turn)
        for kind in kinds if FULL else kinds[-1:] if make is arrow else kinds[:1]:
            rows, found, kept = persons(ENGINES[engine](), source, kind)
            assert (rows, found, kept) == (
                column.different + 2,
                column.different,
                column.different,
            ), (source.name, kind)


TYPES = {
    "HUGEINT": (2**126, 2**126 + 1, -(2**126)),
    "UHUGEINT": (2**127, 2**127 + 1),
    "UBIGINT": (2**64 - 1, 2**64 - 2),
    "BIGINT": (2**53, 2**53 + 1),
    "DECIMAL(38,2)": ("1.00", "1.01", "999999999999999999999999999999999999.99"),
    "DOUBLE": (2.0**53, 2.0**53 + 2, 0.1),
    "UUID": (UUID(int=1), UUID(int=2)),
    "ENUM('a', 'A', 'á')": ("a", "A", "á"),
    "BLOB": (b"\xff", b"\xfe", b"\\xff", b"a", b"A", b"\0ff"),
    "TIMESTAMP_NS": ("2020-01-01 00:00:00.000000001", "2020-01-01 00:00:00.000000002"),
    "TIMESTAMP_S": ("2020-01-01 00:00:01", "2020-01-01 00:00:02"),
    "TIMESTAMP_MS": ("2020-01-01 00:00:00.001", "2020-01-01 00:00:00.002"),
    "TIMESTAMPTZ": ("2020-01-01 00:00:00.000001+00", "2020-01-01 00:00:00.000002+00"),
    "DATE": ("2020-01-01", "2020-01-02"),
    "BOOLEAN": (True, False),
    "VARCHAR": ("a", "A", "á", "Á", "ss", "ß", "a "),
    **{
        f"VARCHAR COLLATE {collation}": ("a", "A", "á", "Á", "ss", "ß", "a ", "ä", "ae")
        for collation in ("NOCASE", "NOACCENT", "NFC", "NOCASE.NOACCENT", "de", "de.NOACCENT")
    },
}


def database(columns: dict[str, tuple[Any, ...]], folder: Path) -> dict[str, Source]:
    """Return a table for each column type: of its cells and the first two again."""
    path = folder / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("BEGIN")
        for place, (kind, cells) in enumerate(columns.items()):
            connection.execute(f"CREATE TABLE t{place} (id {kind}, x INTEGER)")
            for cell in (*cells, *cells[:2]):
                connection.execute(f"INSERT INTO t{place} VALUES ($1, 1)", [cell])
        connection.execute("COMMIT")
    return {kind: duckdb_table(path, f"t{place}") for place, kind in enumerate(columns)}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    return database(TYPES, tmp_path_factory.mktemp("types"))


@pytest.mark.parametrize(
    ("engine", "kind"),
    [(engine, kind) for engine in ENGINES for kind in some(TYPES, EVERY[engine])],
)
def test_no_two_ids_of_a_database_meet(kind: str, engine: str, tables: dict[str, Source]) -> None:
    kinds: tuple[Kind, ...] = (Kind.identifier, Kind.category)
    if (
        "INT" in kind
        or kind in ("DOUBLE", "BLOB", "BOOLEAN")
        or "VARCHAR" in kind
        or "DECIMAL" in kind
    ):
        kinds += (Kind.integer, Kind.number)
    turn = turn_of(kind, TYPES)
    both = kinds_of(kinds, turn)
    for declared in both if FULL else both[turn % 2 :][:1]:
        found = persons(ENGINES[engine](), tables[kind], declared)
        assert found == (len(TYPES[kind]) + 2, len(TYPES[kind]), len(TYPES[kind])), declared


def test_no_two_objects_of_pandas_meet() -> None:
    cells = [
        b"\xff",
        "\\xff",
        "\0ff",
        "\ud800",
        "a",
        "A",
        2**53,
        2**53 + 1,
        2.0**53,
        "1.0",
        Decimal("1.50"),
        None,
    ]
    source = as_source(pd.DataFrame({"id": pd.Series([*cells, *cells[:2]], dtype=object)}))
    for engine in ENGINES.values():
        assert persons(engine(), source, Kind.identifier) == (
            len(cells) + 1,
            len(cells) - 1,
            len(cells) - 1,
        )


def test_folders_of_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    for value in ("%FF", "%FE"):
        folder = tmp_path / f"id={value}"
        folder.mkdir()
        pq.write_table(pa.table({"x": [1]}), folder / "a.parquet")
    query = BoundedQuery(
        (Column("id", Kind.identifier),),
        GroupKeys((), ((),)),
        (),
        (Primitive("persons"),),
        user="id",
    )
    with pytest.raises(SourceError) as refused:  # both would be U+FFFD
        DuckDBEngine().preflight(as_source(str(tmp_path / "*" / "*.parquet")), query)
    assert "id=%F" in str(refused.value.where)
    assert "rename the folder" in str(refused.value.fix)


@pytest.mark.parametrize("name", [b"id=\xff", b"plain\xff"])
def test_a_folder_whose_bytes_are_no_text_is_refused_for_that(tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / os.fsdecode(name)
    folder.mkdir()
    with open(folder / "a.parquet", "wb") as file:
        pq.write_table(pa.table({"x": [1]}), file)
    with pytest.raises(SourceError, match="is not UTF-8") as refused:
        as_source(str(tmp_path / "*" / "*.parquet"))
    assert refused.value.code == "DPR513"
    str(refused.value).encode("utf-8")  # what a terminal can show


def test_equal_decimals_are_one_person_however_many_zeros_they_end_in() -> None:
    texts = (
        "1.5",
        "1.50",
        "0",
        "-0",
        "0.00",
        "-0.0",
        "1E+2",
        "100",
        "100.000",
        "1E-7",
        "1.0E-7",
        "1E2000",
        "1.0E2000",
        "10",
        "NaN",
        "Infinity",
    )
    cells = [Decimal(text) for text in texts]
    frames: list[Any] = [pd.DataFrame({"id": pd.Series(cells, dtype=object)})]
    polars = pytest.importorskip("polars")
    frames.append(polars.DataFrame({"id": polars.Series("id", cells, dtype=polars.Object)}))
    for frame in frames:
        for engine in ENGINES.values():
            assert persons(engine(), as_source(frame), Kind.identifier) == (15, 7, 7)


def test_equal_objects_of_polars_are_one_person() -> None:
    polars = pytest.importorskip("polars")
    people = [UUID(int=1), UUID(int=2), UUID(int=3)]
    columns = {
        "UUIDs": polars.Series(
            "id", [UUID(int=i.int) for i in (*people, *people[:2])]
        ),  # each an object of its own
        "texts": polars.Series("id", ["ann", "ANN", "b", "ann", "ANN"], dtype=polars.Object),
        "whole": polars.Series(
            "id", [2**100, 2**100 + 1, -1, 2**100, 2**100 + 1], dtype=polars.Int128
        ),
        "unsigned": polars.Series(
            "id", [2**127, 2**127 + 1, 1, 2**127, 2**127 + 1], dtype=polars.UInt128
        ),
    }
    for name, column in columns.items():
        for frame in (polars.DataFrame({"id": column}), polars.LazyFrame({"id": column})):
            for engine in ENGINES.values():
                assert persons(engine(), as_source(frame), Kind.identifier) == (5, 3, 3), name


def test_columns_that_differ_in_case_are_two_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [2**53, 2**53 + 1, 2**53]}), tmp_path / "a.parquet")
    for other in (
        [0.5, 0.5, 0.5],
        [7, 7, 7],
    ):  # DuckDB reads both files' columns as one, of doubles here
        pq.write_table(pa.table({"ID": other}), tmp_path / "b.parquet")
        for engine in ENGINES.values():
            both = as_source(str(tmp_path / "[ab].parquet"))
            assert persons(engine(), both, Kind.identifier, missing=True) == (3, 2, 2)
    for names in (("id", "ID"), ("ID", "id")):
        path = tmp_path / "c.parquet"
        pq.write_table(
            pa.table([[1, 2, 1] if name == "id" else [5, 5, 5] for name in names], names=names),
            path,
        )
        for engine in ENGINES.values():
            assert persons(engine(), as_source(path), Kind.identifier) == (3, 2, 2)
    # what DuckDB would call the second of two columns is not a column of the files
    query = BoundedQuery(
        (Column("ID_1", Kind.identifier),),
        GroupKeys((), ((),)),
        (),
        (Primitive("persons"),),
        user="ID_1",
    )
    with pytest.raises(SourceError) as refused:
        DuckDBEngine().preflight(as_source(tmp_path / "c.parquet"), query)
    assert refused.value.code == "DPR503"
    relation = (
        duckdb.connect().sql("SELECT 1 AS ID, i AS x FROM range(3) t(i)").select('ID, x AS "id"')
    )
    query = BoundedQuery(
        (Column("id", Kind.identifier),),
        GroupKeys((), ((),)),
        (),
        (Primitive("persons"),),
        user="id",
    )
    with pytest.raises(SourceError) as refused:  # it has no name for the second one
        DuckDBEngine().preflight(as_source(relation), query)
    assert refused.value.code == "DPR505"


# -- labels, constants, nodes and keys -----------------------------------------------------------

REGION = Column("id", Kind.category, values=("a", "A", "b"))


COLLATIONS = ("NOCASE", "NOACCENT", "NOCASE.NOACCENT", "de")
COMPARED = (
    ("id = 'A'", 0),
    ("id < 'a'", 0),
    ("id in ('A', 'b')", 1),
    ("id != 'a'", 1),
    ("id = 'a'", 5),
)
"""Conditions and how many rows meet them: two in turn of each collation, all in `make evidence`."""


@pytest.fixture(scope="module")
def collated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    """Return a table for each collation, of 'a' five times, 'b' and 'á'."""
    cells = ("a", "a", "a", "b", "á")
    columns = {f"VARCHAR COLLATE {collation}": cells for collation in COLLATIONS}
    return database(columns, tmp_path_factory.mktemp("collations"))


@pytest.mark.parametrize(
    ("engine", "collation"),
    [(engine, collation) for engine in ENGINES for collation in some(COLLATIONS, EVERY[engine])],
)
def test_a_label_a_constant_and_a_code_are_compared_by_their_bytes(
    collation: str, engine: str, collated: dict[str, Source]
) -> None:
    source = collated[f"VARCHAR COLLATE {collation}"]
    keys = tuple((key,) for key in REGION.keys)
    codes: tuple[Code, ...] = (Label("id", ("A", "a", "b")),)
    for x in (None, Column("x", Kind.integer)):  # by one key, and by a join of two
        columns = (REGION,) if x is None else (REGION, Column("x", Kind.category, values=("1",)))
        query = BoundedQuery(
            (REGION, *columns[1:]),
            GroupKeys(columns, keys if x is None else tuple((*k, "1") for k in keys)),
            codes,
            (Primitive("rows"), Primitive("distinct", 0), Primitive("tally", 0)),
        )
        answer = ENGINES[engine]().compute(source, query, b"").reveal_to_mechanism()
        assert answer.sums[:, :2].tolist() == [[5, 1], [0, 0], [1, 1]]
        assert answer.tallies[2].tolist() == [
            [0, 1, 0, 5, 5],
            [2, 2, 0, 1, 1],
        ]  # group, code, rows below, of it, in all
    place = COLLATIONS.index(collation)
    for text, rows in COMPARED if FULL else (COMPARED[place], COMPARED[place - 1]):
        where = parse_condition(text, {"id": REGION}, origin="test")
        query = BoundedQuery((REGION,), GroupKeys((), ((),)), (), (Primitive("rows"),), where=where)
        assert ENGINES[engine]().compute(
            source, query, b""
        ).reveal_to_mechanism().sums.tolist() == [[rows]]


# -- the neighbouring tables of each hole, and the broken twins ------------------------------------


Kept = Callable[[tuple[Any, ...]], int]
"""How many rows of a table are kept at one row per person."""


def kept_of(source: Callable[[list[Any]], Source], kind: Kind) -> Kept:
    """Return what counts the rows kept of a table; each table is asked for once."""
    query = BoundedQuery(
        (Column("id", kind),), GroupKeys((), ((),)), (), (Primitive("rows"),), user="id"
    )

    @cache
    def kept(cells: tuple[Any, ...]) -> int:
        if not cells:
            return 0
        answer = DuckDBEngine().compute(source(list(cells)), query, b"").reveal_to_mechanism()
        return int(answer.sums[0, 0])

    return kept


def loss(ids: tuple[Any, ...], kept: Kept) -> int:
    """Return the most that one id's rows move the count of rows at one row per person."""
    return max(abs(kept(ids) - kept(tuple(i for i in ids if i != one))) for one in set(ids))


def _of_database(kind: str, folder: Path) -> Callable[[list[Any]], Source]:
    def make(cells: list[Any]) -> Source:
        (folder / "t.duckdb").unlink(missing_ok=True)
        return _filled(kind, cells, folder)

    return make


def _filled(kind: str, cells: list[Any], folder: Path) -> Source:
    path = folder / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t (id {kind})")
        connection.executemany("INSERT INTO t VALUES ($1)", [[cell] for cell in cells])
    return duckdb_table(path, "t")


def test_adding_a_person_moves_no_other_ones_rows(tmp_path: Path) -> None:
    for kind in (Kind.integer, Kind.number, Kind.identifier):
        kept = kept_of(lambda cells: as_source(pa.table({"id": pa.array(cells, pa.int64())})), kind)
        for size in (1, 2, 3):
            for ids in combinations((2**53, 2**53 + 1, 7), size):
                assert loss((*ids, *ids), kept) == 1
    collated = kept_of(_of_database("VARCHAR COLLATE NOCASE", tmp_path), Kind.identifier)
    assert loss(("ann", "ANN", "ann", "bob"), collated) == 1


def _kept(column: str, cells: list[Any], tmp_path: Path) -> int:
    found = persons(
        DuckDBEngine(),
        _filled(column, cells, tmp_path),
        Kind.integer if column == "BIGINT" else Kind.identifier,
    )
    return found[1]


def test_the_double_cast_and_the_kept_collation_are_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _kept("BIGINT", [2**53, 2**53 + 1], tmp_path) == 2
    (tmp_path / "t.duckdb").unlink()
    assert _kept("VARCHAR COLLATE NOCASE", ["a", "A"], tmp_path) == 2
    (tmp_path / "t.duckdb").unlink()
    with monkeypatch.context() as broken:
        broken.setattr(row_sql, "_WHOLE", ())
        broken.setattr(row_sql, "canonical", lambda _, make: try_cast(make(), "DOUBLE"))
        assert _kept("BIGINT", [2**53, 2**53 + 1], tmp_path) == 1
    (tmp_path / "t.duckdb").unlink()
    with monkeypatch.context() as broken:
        broken.setattr(typed_sql, "_uncollated", lambda text: try_cast(text, "VARCHAR"))
        assert _kept("VARCHAR COLLATE NOCASE", ["a", "A"], tmp_path) == 1


def test_an_id_in_timestamps_of_96_bits_and_files_of_two_types_are_refused(tmp_path: Path) -> None:
    query = BoundedQuery(
        (Column("id", Kind.identifier),),
        GroupKeys((), ((),)),
        (),
        (Primitive("persons"),),
        user="id",
    )
    moments = pa.array([0, 1], pa.int64()).view(pa.timestamp("ns"))
    pq.write_table(
        pa.table({"id": moments}), tmp_path / "a.parquet", use_deprecated_int96_timestamps=True
    )
    with pytest.raises(SourceError) as refused:
        DuckDBEngine().preflight(as_source(tmp_path / "a.parquet"), query)
    assert refused.value.code == "DPR504"
    pq.write_table(pa.table({"id": [2**53 + 1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [0.5]}), tmp_path / "b.parquet")
    with pytest.raises(SourceError) as refused:  # DuckDB would read both as doubles
        DuckDBEngine().preflight(as_source(str(tmp_path / "*.parquet")), query)
    assert refused.value.code == "DPR506"
    pq.write_table(pa.table({"id": pa.array([1], pa.int8())}), tmp_path / "b.parquet")
    assert persons(DuckDBEngine(), as_source(str(tmp_path / "*.parquet")), Kind.integer) == (
        2,
        2,
        2,
    )
