"""Totality: whatever a cell holds, a run of a table that passed preflight ends in the same way.

Crossed are storage types x declared kinds x cells x doors x units. The draw is fixed and the exact
cells are zeros, so two tables of the same types must agree in everything that can be seen: exit
status, streams, and every byte that is published. All hostile cells of a type stand in one table;
its neighbour has none, and a third one has a single hostile row.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import secrets
import shutil
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dprelease import facade
from dprelease.cli import app
from dprelease.core.errors import DpreleaseError
from dprelease.engines.physical import fits, of_arrow, of_duckdb
from dprelease.engines.source import duckdb_table, object_source
from dprelease.pipeline import run as run_module
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import Schema
from dprelease.schema.column import Kind
from dprelease.statistics.ranks import Stretches, stretches
from dprelease.wall import execute
from tests.end_to_end.projects import repeatable, tree
from tests.end_to_end.stored_types import ARROW, CANARY, LINES, OBJECTS, ROWS, SQL, Stored
from tests.rules_alone import built_in_rules_only
from tests.sizes import FULL, NIGHTLY, some, whole

LABELS = [
    "a",
    "b",
    "1",
    "2.5",
    "true",
    "2020-01-01",
    "2020-01-01 00:00:00",
    "2020-01-01 00:00:00+00",
]
KINDS: dict[str, dict[str, Any]] = {
    "who": {"kind": "identifier"},
    "cat": {"kind": "category", "values": LABELS, "other": {"as": "rest"}, "nulls": {"as": "none"}},
    "x": {"kind": "number", "range": [0, 10], "step": 0.5},
    "k": {"kind": "integer", "range": [0, 10]},
    "flag": {"kind": "boolean"},
    "day": {"kind": "date"},
    "at": {"kind": "timestamp"},
}


def by_one_law(*statistics: str) -> list[dict[str, str]]:
    """Return statistics that name their mechanism: plans need not compare the others."""
    return [{"statistic": text, "mechanism": "discrete_laplace"} for text in statistics]


SHARES = by_one_law(
    "proportion(flag)",
    "proportion(at >= '2020-01-01')",
    "proportion(day >= '2020-01-01')",
    "proportion(who = 'a')",
)
ROW: dict[str, Any] = {
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 100, "expected": ROWS},
}
WORLDS: dict[str, dict[str, Any]] = {
    "a public number of rows": {
        "unit": "row",
        "adjacency": "substitution",
        "rows": {"exact": ROWS},
        "release": {"statistics": ["count", *by_one_law("mean(x)", "sum(k)", "count_distinct(cat)"), *SHARES]},
    },
    "rows": {
        **ROW,
        "release": {"by": ["cat"], "where": "flag or flag is null or day > '2000-01-01'", "statistics": by_one_law("count", "sum(x)")},
    },
    "users": {
        "unit": {"user": "who", "max_groups": 2, "max_rows_per_group": 2},
        "adjacency": "add_remove",
        "rows": {"max": 100, "expected": ROWS},
        "release": {"by": ["flag"], "statistics": ["median(x)", *by_one_law("count", "sum(k)", "count_distinct(cat)")]},
    },
    "unused": {
        "unit": "row",
        "adjacency": "substitution",
        "rows": {"exact": ROWS},
        "release": {"statistics": ["count", "sum(x)"]},
    },
}  # fmt: skip
PLAIN = {
    "who": pa.array([f"u{i}" for i in range(ROWS)]),
    "cat": pa.array(["a", "b"] * (ROWS // 2)),
    "x": pa.array([float(i) for i in range(ROWS)]),
    "k": pa.array(list(range(ROWS))),
    "flag": pa.array([True, False] * (ROWS // 2)),
    "day": pa.array([18262] * ROWS, pa.int32()).cast(pa.date32()),
    # the first half and the last row lie in the period
    "at": pa.array([1794304800 * 10**6] * 6 + [0] * 5 + [1794304800 * 10**6]).cast(
        pa.timestamp("us")
    ),
}
PERIOD = "2026-W46"
RAN: dict[str, list[int]] = {}
"""Door -> how many pairs of tables were compared, and how many were refused alike."""


def document(world: str) -> dict[str, Any]:
    given = WORLDS[world]
    release = {"epsilon": 5, **given["release"]}
    columns = {"x": KINDS["x"]} if world == "unused" else KINDS
    return {
        "dprelease": "schema/1",
        "name": "total",
        "columns": columns,
        **given,
        "release": release,
    }


@cache
def plan(world: str) -> Any:
    return plan_release(Schema.from_dict(document(world)))


def placed(world: str, kind: Any) -> list[str]:
    """Return the columns that a world stores as `kind`: all that it fits, or an undeclared one."""
    stored = of_duckdb(kind) if isinstance(kind, str) else of_arrow(kind)
    names = [n for n, said in KINDS.items() if fits(Kind(said["kind"]), stored)]
    return ["y"] if world == "unused" else names


# -- tables ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A storage type in one world."""

    name: str
    stored: Stored
    world: str

    def table(self, hostile: int) -> pa.Table:
        columns = dict(PLAIN)
        plain = self.stored.array(hostile)
        for name in placed(self.world, _arrow_of(self.stored)):
            columns[name] = plain
        return pa.table(columns)

    def sql(self, hostile: int) -> str:
        """Return a SELECT of the table, of types of DuckDB."""
        kind, _, collation = self.stored.kind.partition(" COLLATE ")
        names, cells = placed(self.world, kind), self.stored.cells(hostile)
        ending = f" COLLATE {collation}" if collation else ""
        rows = ", ".join(f"({i}, CAST({cell} AS {kind}){ending})" for i, cell in enumerate(cells))
        plain = {
            "who": "'u' || i", "cat": "CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END", "x": "i::DOUBLE", "k": "i::BIGINT",
            "flag": "i % 2 = 0", "day": "DATE '2020-01-01'",
            "at": "CASE WHEN i < 6 OR i = 11 THEN TIMESTAMP '2026-11-10 10:00:00' ELSE TIMESTAMP '1970-01-01' END",
        }  # fmt: skip
        parts = [f"{'c' if n in names else e} AS {n}" for n, e in plain.items()] + ["c AS y"] * (
            "y" in names
        )
        return f"SELECT {', '.join(parts)} FROM (VALUES {rows}) t(i, c)"


def _arrow_of(stored: Stored) -> Any:
    from dprelease.engines.in_memory import plain_array

    return plain_array(pa.array([], stored.kind)).type


def _quoted_cells(column: pa.Array) -> list[bytes]:
    """Return the cells of a column as CSV text; text that is not UTF-8 stays as it is."""
    raw_types = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if column.type in raw_types:
        column = column.view(raw_types[column.type])
    elif not pa.types.is_binary(column.type) and not pa.types.is_nested(column.type):
        column = column.cast(pa.string())
    texts = (c if isinstance(c, bytes) else "" if c is None else str(c) for c in column.to_pylist())
    raw = (c if isinstance(c, bytes) else c.encode() for c in texts)
    return [b'"' + c.replace(b'"', b'""') + b'"' for c in raw]


def csv_bytes(case: Case, hostile: int) -> bytes:
    """Return the table as a CSV file."""
    table = case.table(hostile)
    cells = [_quoted_cells(column.combine_chunks()) for column in table.columns]
    lines = [
        ",".join(table.column_names).encode(),
        *(b",".join(row) for row in zip(*cells, strict=True)),
    ]
    return b"\n".join(lines) + b"\n"


# -- doors -------------------------------------------------------------------------------------


def _parquet(case: Case, hostile: int, folder: Path) -> object:
    path = folder / "t.parquet"
    pq.write_table(case.table(hostile), path)
    return str(path)


def _object_store(case: Case, hostile: int, folder: Path) -> object:
    (folder / "clinic").mkdir(exist_ok=True)
    pq.write_table(case.table(hostile), folder / "clinic" / "t.parquet", row_group_size=5)
    store = pyarrow.fs.SubTreeFileSystem(str(folder), pyarrow.fs.LocalFileSystem())
    return object_source("s3://clinic/*.parquet", store=store)


def _csv(case: Case, hostile: int, folder: Path) -> object:
    path = folder / "t.csv"
    path.write_bytes(csv_bytes(case, hostile))
    return str(path)


def _pandas(case: Case, hostile: int, _: Path) -> object:
    return case.table(hostile).to_pandas(types_mapper=pd.ArrowDtype)


def _objects(case: Case, hostile: int, _: Path) -> object:
    table = case.table(hostile)
    names = placed(case.world, _arrow_of(case.stored))
    cells = pd.Series(case.stored.cells(hostile), dtype=object)
    return pd.DataFrame(
        {n: cells if n in names else table.column(n).to_pandas() for n in table.column_names}
    )


def _database(case: Case, hostile: int, folder: Path) -> object:
    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(str(path)) as made:
        made.execute(f"CREATE TABLE t AS {case.sql(hostile)}")
    return duckdb_table(path, "t")


def _record_batch(case: Case, hostile: int, _: Path) -> object:
    return case.table(hostile).combine_chunks().to_batches()[0]


def quiet() -> duckdb.DuckDBPyConnection:
    """Return a connection without DuckDB's progress bar, which a slow machine shows and a fast one does not."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


Door = Callable[[Case, int, Path], object]
ARROW_DOORS: dict[str, Door] = {
    "arrow": lambda case, hostile, _: case.table(hostile),
    "record batch": _record_batch,
    "pandas on Arrow": _pandas,
    "pandas objects": _objects,
    "polars": lambda case, hostile, _: pl.from_arrow(case.table(hostile)),
    "polars, lazy": lambda case, hostile, _: pl.from_arrow(case.table(hostile)).lazy(),  # type: ignore[union-attr]
    "relation over Arrow": lambda case, hostile, _: quiet().from_arrow(case.table(hostile)),
    "parquet": _parquet,
    "object store": _object_store,
    "csv": _csv,
}
SQL_DOORS: dict[str, Door] = {
    "relation": lambda case, hostile, _: quiet().sql(case.sql(hostile)),
    "database": _database,
}


@contextlib.contextmanager
def blind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let exact cells be zeros, random bits and nonces repeat: only what leaks depends on rows."""
    honest, nonces = execute._cells, itertools.count()

    def no_signal(*arguments: Any) -> Any:
        cells = honest(*arguments)
        if isinstance(cells.flat[0], Stretches):  # the scores of no rows
            return stretches(np.zeros((0, 5), dtype=np.int64), len(cells), 1, 2, 0)
        return np.zeros_like(cells)

    with monkeypatch.context() as patch:
        patch.setattr(execute, "_cells", no_signal)
        patch.setattr(secrets, "token_hex", lambda n: f"{next(nonces):0{2 * n}x}")
        repeatable(patch, "one stream")
        yield


def outcome(
    data: object, world: str, capfd: pytest.CaptureFixture[str], patch: pytest.MonkeyPatch
) -> Any:
    """Return all that can be seen of `dp.release` of a table."""
    patch.setattr(facade, "plan_release", lambda *_, **__: plan(world))
    patch.setattr(facade, "as_schema", lambda _: None)
    with blind(patch), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        seen: Any
        try:
            seen = facade.release(data, "").table.to_pydict()  # type: ignore[arg-type]
        except DpreleaseError as error:
            seen = (error.code, str(error), error.spent)
    said = [str(w.message) for w in warned]
    assert not isinstance(seen, tuple) or seen[2] == "nothing"
    streams = capfd.readouterr()
    assert CANARY not in repr((seen, said, streams))
    return seen, said, streams


def made(door: str, make: Door, case: Case, hostile: int, folder: Path) -> object:
    """Return the table; None where the library has no such type or cannot hold the cells."""
    if door.startswith("polars") and case.name.startswith("decimal256"):
        return None  # it panics
    try:
        return make(case, hostile, folder)
    except KeyboardInterrupt:
        raise
    except BaseException:  # polars panics by a class of its own
        return None


def _tried(case: Case, door: str) -> tuple[int, ...]:
    """Return how many rows are hostile: all but one, which has every hostile cell; beside that a single one.

    That a single one differs from none is tried for a quarter of the cases, for all in `make evidence`.
    """
    alone = FULL or zlib.crc32(f"{case.name} {case.world} {door}".encode()) % 4 == 0
    return (1, ROWS - 1) if alone else (ROWS - 1,)


def compared(
    case: Case,
    door: str,
    make: Door,
    folder: Path,
    capfd: pytest.CaptureFixture[str],
    patch: pytest.MonkeyPatch,
) -> int:
    """Assert that tables with and without hostile cells end alike; return how many were compared."""
    data = made(door, make, case, 0, folder)
    if data is None:
        return 0
    base, counts = outcome(data, case.world, capfd, patch), RAN.setdefault(door, [0, 0])
    for hostile in _tried(case, door):
        data = made(door, make, case, hostile, folder)
        if data is not None:
            assert outcome(data, case.world, capfd, patch) == base, (
                case.name,
                case.world,
                door,
                hostile,
            )
            counts[0] += 1
            counts[1] += isinstance(base[0], tuple)
    return counts[0]


CASES = [
    (Case(name, stored[name], world), door, doors[door])
    for stored, doors in ((ARROW, ARROW_DOORS), (SQL, SQL_DOORS))
    for name in stored
    for world in WORLDS
    for door in doors
]
SAMPLE = whole(40, 80)
ALIKE = {
    "int16", "int32", "uint16", "uint32", "float32", "decimal64", "decimal128", "large bytes", "bytes view",
    "timestamp s UTC", "timestamp s Europe/Dublin", "timestamp ms None", "timestamp ms Europe/Dublin",
    "timestamp us None", "timestamp us UTC", "timestamp ns Europe/Dublin",
    "SMALLINT", "USMALLINT", "INTEGER", "UINTEGER", "FLOAT", "TIMESTAMP_S", "TIMESTAMP_MS",
}  # fmt: skip
"""Types of which another one is tried with every change that differs in its width or unit alone."""


def chosen(count: int) -> list[tuple[Case, str, Door]]:
    """Return all cases, or `count` of them in which every type, world and door occurs.

    Of types that differ in their width or unit alone, some wait for `make evidence`.
    """
    if NIGHTLY:
        return CASES
    first = {
        case.name: (case, door, make)
        for case, door, make in random.Random(2).sample(CASES, len(CASES))
        if FULL or case.name not in ALIKE
    }
    return [*first.values(), *random.Random(3).sample(CASES, max(0, count - len(first)))]


def _named(value: object) -> str | None:
    return (
        f"{value.name}, {value.world}"
        if isinstance(value, Case)
        else value
        if isinstance(value, str)
        else ""
    )


@pytest.mark.parametrize(("case", "door", "make"), chosen(SAMPLE), ids=_named)
def test_no_cell_changes_how_a_release_ends(
    case: Case,
    door: str,
    make: Door,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared(case, door, make, tmp_path, capfd, monkeypatch)


@pytest.mark.parametrize("world", WORLDS)
def test_no_object_in_a_pandas_column_changes_how_a_release_ends(
    world: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All columns at once, as objects and as a Categorical that got an odd category."""
    usual: list[Any] = ["a", 1, 2.5, True, pd.Timestamp("2026-11-10 10:00"), "2020-01-01"] * 2
    names = list(KINDS) if world != "unused" else ["x", "y"]

    def frame(cells: list[Any], **dtype: Any) -> pd.DataFrame:
        return pd.DataFrame({name: pd.Series(cells, **dtype) for name in names})

    base = outcome(frame(usual, dtype=object), world, capfd, monkeypatch)
    assert isinstance(base[0], dict)
    # as a category each object is tried in one world; in all of them in `make evidence`
    tried = set(range(len(OBJECTS)))
    if not FULL:
        tried = set(range(list(WORLDS).index(world), len(OBJECTS), len(WORLDS)))
    categoricals = 0

    def coded(odd: list[Any]) -> list[tuple[pd.DataFrame, int]]:
        """Return a table of categories with all these, or one for each of them; none where none can be made."""
        try:
            return [
                (
                    frame(pd.Categorical(pd.Series([*usual[len(odd) :], *odd], dtype=object))),
                    len(odd),
                )
            ]  # type: ignore[arg-type]
        except (TypeError, ValueError, ArithmeticError):
            return [made for cell in odd for made in coded([cell])] if len(odd) > 1 else []

    at_once = whole(8, 4)
    for i in range(0, len(OBJECTS), at_once):
        odd = list(OBJECTS[i : i + at_once])
        cells = [*usual[: ROWS - len(odd)], *odd]
        if FULL or (i // at_once + list(WORLDS).index(world)) % 2:  # else in two of the four worlds
            assert outcome(frame(cells, dtype=object), world, capfd, monkeypatch) == base, i
        cells = [OBJECTS[j] for j in range(i, i + len(odd)) if j in tried]
        for together in [[c] for c in cells] if FULL else [cells]:  # all two of these eight
            for table, count in coded(together):
                categoricals += count
                assert outcome(table, world, capfd, monkeypatch) == base, i
    assert categoricals > len(tried) / 2
    RAN["pandas, any objects"] = [len(OBJECTS), 0]


@pytest.mark.parametrize("world", WORLDS)
def test_no_object_in_a_polars_column_changes_how_a_release_ends(
    world: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Polars would hand an object's place in memory over, as eight bytes."""
    usual: list[Any] = ["a", 1, 2.5, True, "2020-01-01", None] * 2
    names = list(KINDS) if world != "unused" else ["x", "y"]

    def frame(cells: list[Any]) -> pl.DataFrame:
        return pl.DataFrame({name: pl.Series(cells, dtype=pl.Object) for name in names})

    base = outcome(frame(usual), world, capfd, monkeypatch)
    assert isinstance(base[0], dict)
    for i in range(0, len(OBJECTS), 10):
        odd = list(OBJECTS[i : i + 10])
        cells = [*usual[: ROWS - len(odd)], *odd]
        both = (frame(cells), frame(cells).lazy())
        turn = i // 10 + list(WORLDS).index(world)
        # one of the two in every second world; both in all of them in `make evidence`
        for made_of in both if FULL else both[turn // 2 % 2 :][: turn % 2]:
            assert outcome(made_of, world, capfd, monkeypatch) == base, i
    RAN["polars, any objects"] = [len(OBJECTS), 0]


def test_every_door_holds_nearly_every_type_and_its_hostile_cells(tmp_path: Path) -> None:
    """Not vacuous: a library that cannot make a table is passed over in silence above."""
    for stored, doors in ((ARROW, ARROW_DOORS), (SQL, SQL_DOORS)):
        for door, make in doors.items():
            for hostile in (0, ROWS - 1) if FULL else (ROWS - 1,):  # one cell is ordinary then
                cases = [Case(name, stored[name], "users") for name in some(stored, 2)]
                missing = [c.name for c in cases if made(door, make, c, hostile, tmp_path) is None]
                assert len(missing) <= len(cases) / 4, (door, hostile, missing)


# -- the command line --------------------------------------------------------------------------

SOURCES = {
    "parquet": ("{parquet: t.parquet}", ARROW),
    "csv": ("{csv: t.csv}", ARROW),
    "arrow": ("{arrow: t.arrow}", ARROW),
    "duckdb": ("{duckdb: {database: t.duckdb, table: t}}", SQL),
}


class Project:
    """One pipeline, run again and again from a new ledger over other tables."""

    def __init__(self, folder: Path, world: str, source: str, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch, self.world, self.source = folder, patch, world, source
        folder.mkdir(parents=True)
        (folder / ".dprelease").mkdir()
        (folder / "schema.yaml").write_text(json.dumps(document(world)))
        exact = "exact" in WORLDS[world]["rows"]
        period = "" if exact else "period: {column: at, every: week}\n"
        self.period = [] if exact else ["--period", PERIOD]
        (folder / "p.yaml").write_text(
            f"dprelease: pipeline/1\nname: total\nsource: {SOURCES[source][0]}\nschema: schema.yaml\n{period}"
            "budget: {ledger: .dprelease/ledger.db, dataset: total, epsilon: 5}\n"
            "publish: {to: public, formats: [csv]}\n"
        )
        patch.setattr(run_module, "plan_pipeline", self._planned_once(run_module.plan_pipeline))
        if not FULL:  # both validators see what is drawn alone; in `make evidence` both are there
            built_in_rules_only(patch)
        assert CliRunner().invoke(app, ["ledger", "init", str(folder / "p.yaml")]).exit_code == 0
        shutil.copytree(folder / ".dprelease", folder.parent / f"{folder.name} ledger")

    @staticmethod
    def _planned_once(honest: Callable[..., Any]) -> Callable[..., Any]:
        made: list[Any] = []

        def planned(*arguments: Any) -> Any:
            if not made:
                made.append(honest(*arguments))
            return made[0]

        return planned

    def run(self) -> Any:
        """Return exit status, streams and published bytes of one run."""
        shutil.rmtree(self.folder / "public", ignore_errors=True)
        shutil.rmtree(self.folder / ".dprelease")
        shutil.copytree(
            self.folder.parent / f"{self.folder.name} ledger", self.folder / ".dprelease"
        )
        with blind(self.patch):
            said = CliRunner().invoke(app, ["run", str(self.folder / "p.yaml"), *self.period])
        seen = said.exit_code, said.stdout, said.stderr, tree(self.folder / "public")
        assert CANARY not in repr(seen)
        assert said.exit_code in (0, 1), said.output
        return seen

    def write(self, case: Case, hostile: int) -> object:
        def make(case: Case, hostile: int, folder: Path) -> object:
            if self.source == "arrow":
                with (
                    pa.OSFile(str(folder / "t.arrow"), "wb") as file,
                    pa.ipc.new_file(file, case.table(hostile).schema) as out,
                ):
                    out.write_table(case.table(hostile))
                return True
            return {"parquet": _parquet, "csv": _csv, "duckdb": _database}[self.source](
                case, hostile, folder
            )

        return made(self.source, make, case, hostile, self.folder)


def _projects() -> list[tuple[str, str]]:
    every = list(itertools.product(SOURCES, WORLDS))
    return every if NIGHTLY else [*zip(SOURCES, WORLDS, strict=True)]


@pytest.mark.parametrize(("source", "world"), _projects())
def test_no_cell_changes_how_a_run_ends(
    source: str, world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same through the command line, with a period: configuration to published folder."""
    project, stored = Project(tmp_path / "project", world, source, monkeypatch), SOURCES[source][1]
    names = list(stored) if NIGHTLY else random.Random(source).sample(list(stored), whole(1, 5))
    counts = RAN.setdefault(f"dprelease run, {source}", [0, 0])
    for name in names:
        case, seen = Case(name, stored[name], world), []
        for hostile in (0, 1, ROWS - 1) if FULL else (0, ROWS - 1):
            if project.write(case, hostile) is not None:
                if not seen:
                    project.run()  # what is planned once for a type is planned: it takes a random name
                seen.append(project.run())
                assert seen[-1] == seen[0], (name, hostile)
        counts[0] += max(0, len(seen) - 1)
        counts[1] += bool(seen) and seen[0][0] == 1


@pytest.mark.parametrize(
    "world", list(WORLDS) if NIGHTLY else ["unused", "users"] if FULL else ["users"]
)
def test_no_line_of_a_csv_file_changes_how_a_run_ends(
    world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line in the place of another one, three at once, and one by one in `make evidence`: also under a public number of rows."""
    project, case = (
        Project(tmp_path / "project", world, "csv", monkeypatch),
        Case("text", ARROW["text"], world),
    )
    project.write(case, 0)
    path = project.folder / "t.csv"
    lines = path.read_bytes().splitlines()
    base = project.run()
    assert base[0] == 0
    tried, at_once = some(LINES, 2), whole(3, 1)
    for i in range(
        0, len(tried), at_once
    ):  # what is open to the end of the file is the last of them
        odd = sorted(tried[i : i + at_once], key=lambda line: line.count(b'"') % 2)
        changed, apart = list(lines), ROWS // at_once
        for j, line in enumerate(odd):
            changed[1 + i % apart + apart * j] = line
        path.write_bytes(b"\n".join(changed) + b"\n")
        assert project.run() == base, [line[:20] for line in odd]
    RAN["dprelease run, lines of a CSV file"] = [len(tried), 0]


def test_the_cross_is_counted(evidence: Callable[..., None]) -> None:
    """A row of evidence once all tests above ran in this process."""
    if len(RAN) >= len(ARROW_DOORS) + len(SQL_DOORS) + len(SOURCES) + 1:
        pairs, alike = (sum(counts[i] for counts in RAN.values()) for i in (0, 1))
        size = f"{len(ARROW) + len(SQL)} storage types, {len(RAN)} doors, {pairs:,} pairs of tables"
        evidence("totality cross", size, f"0 differ; {alike:,} refused alike, nothing spent")


# -- controls ----------------------------------------------------------------------------------


def test_the_cross_sees_a_cell_that_raises(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken twin: with CAST in the place of TRY_CAST the same comparison fails."""
    from sqlglot import exp

    monkeypatch.setattr(exp, "TryCast", exp.Cast)
    case = Case("text", ARROW["text"], "a public number of rows")
    with pytest.raises((AssertionError, DpreleaseError)):
        compared(case, "arrow", ARROW_DOORS["arrow"], tmp_path, capfd, monkeypatch)


def test_the_cross_sees_a_row_that_vanishes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken twin: a reader that leaves out a record with a missing cell."""
    from dprelease.engines.csv_rows import CsvRows

    honest = CsvRows.batches

    def dropping(self: CsvRows) -> Iterator[pa.RecordBatch]:
        whole = CsvRows(self.paths, self.delimiter, tuple(range(8)))
        bad = [None in row.values() for batch in honest(whole) for row in batch.to_pylist()]
        for batch in honest(self):
            yield batch.filter(pa.array([not b for b in bad]))

    monkeypatch.setattr(CsvRows, "batches", dropping)
    case = Case("text", ARROW["text"], "unused")
    with pytest.raises(AssertionError):
        compared(case, "csv", _csv, tmp_path, capfd, monkeypatch)
