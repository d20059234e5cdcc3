"""Each line of a CSV file is one row, whatever it holds, and no line touches another one."""

from __future__ import annotations

import csv
import gzip
import io
import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import SourceError
from dprelease.engines import csv_rows, reference_rows
from dprelease.engines.csv_header import read_header
from dprelease.engines.csv_rows import LONGEST_CELL, CsvRows
from dprelease.engines.source import Source
from tests.sizes import whole

Rows = list[tuple[str | None, ...]]


def read(*paths: Path) -> Rows:
    header = read_header(paths)
    places = tuple(range(len(header.names)))
    batches = CsvRows(paths, header.delimiter, places).batches()
    return [row for b in batches for row in zip(*(c.to_pylist() for c in b.columns), strict=True)]


def by_reference(*paths: Path) -> Rows:
    """The same rows by the reader of the reference engine, which shares the header alone."""
    names, rows = reference_rows._read_csv(Source("csv", paths, "t"))
    return [tuple((row + [None] * len(names))[: len(names)]) for row in rows]


def both(path: Path, data: bytes) -> Rows:
    path.write_bytes(data)
    found = read(path)
    assert found == by_reference(path)
    return found


OTHERS = [
    b"p1,north,5",
    b'"p2","nor""th","6"',
    b'p3,"a,b",7',
    b'p4,"two\nlines",8',
    b'p5,",x",9',
    b"p6,,",
    b'"p7","",""',
]
HOSTILE = {
    "a long cell": b'x,"' + b"z" * (3 << 20) + b'",5',
    "a long plain cell": b"x," + b"z" * (3 << 20) + b",5",
    "not UTF-8": b"x,nor\xffth,5",
    "only bytes that are not UTF-8": b"\xff\xfe\xc3",
    "an open quote": b'"never closed,north',
    "an open quote in the middle": b'x,"north,5',
    "an open quote at the end": b'x,north,"',
    "a quote alone": b'"',
    "three quotes": b'"""',
    "quotes inside": b'x,5" pipe,5',
    "text after a quoted cell": b'x,"a"b,5',
    "too few cells": b"x",
    "too many cells": b"x,north,5,6,7,8",
    "20,000 cells": b"," * 20_000,
    "empty": b"",
    "blanks": b"  ",
    "NUL bytes": b"\0,\0north,\0",
    "a carriage return": b"x,nor\rth,5",
    "carriage returns at the end": b"x,north,5\r\r",
    "a mark of order": b"\xef\xbb\xbfx,north,5",
    "another delimiter": b"x;north;5",
    "a comment": b"# x,north,5",
    "a header again": b"who,region,n",
    "a backslash": b'x,"nor\\"th",5',
}


def _file(lines: list[bytes], end: bytes) -> bytes:
    return b"".join(line + end for line in [b"who,region,n", *lines])


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[bytes, Rows]:
    """Return the rows of the others alone, by the end of lines."""
    place = tmp_path_factory.mktemp("others") / "t.csv"
    return {end: both(place, _file(OTHERS, end)) for end in (b"\n", b"\r\n")}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("place", [0, 3, len(OTHERS)])
def test_a_hostile_line_is_one_row_and_leaves_the_others_alone(
    name: str, end: bytes, place: int, tmp_path: Path, bases: dict[bytes, Rows]
) -> None:
    base = bases[end]
    lines = [*OTHERS[:place], HOSTILE[name], *OTHERS[place:]]
    found = both(tmp_path / "t.csv", _file(lines, end))
    assert len(found) == len(base) + 1 == len(OTHERS) + 1
    assert [*found[:place], *found[place + 1 :]] == base


def test_the_database_s_own_reader_loses_such_lines(tmp_path: Path) -> None:
    """Control: read as before, some of them vanish or take others with them."""

    connection = duckdb.connect()

    def rows(lines: list[bytes]) -> list[tuple[str | None, ...]]:
        (tmp_path / "t.csv").write_bytes(_file(lines, b"\n"))
        return connection.execute(
            f"SELECT * FROM read_csv('{tmp_path / 't.csv'}', auto_detect = false, header = true, "
            "delim = ',', quote = '\"', escape = '\"', columns = {'a': 'VARCHAR', 'b': 'VARCHAR', "
            "'c': 'VARCHAR'}, strict_mode = false, null_padding = true, ignore_errors = true, "
            "parallel = false)"
        ).fetchall()

    base = rows(OTHERS)
    lost = set()
    for name, line in HOSTILE.items():
        found = rows([*OTHERS[:3], line, *OTHERS[3:]])
        if len(found) != len(base) + 1 or not set(base) <= set(found):
            lost.add(name)
    assert {"a long cell", "not UTF-8", "an open quote", "empty"} <= lost


def test_the_bad_cell_alone_is_missing(tmp_path: Path) -> None:
    longest = b"y" * LONGEST_CELL
    lines = [
        b"x,\xff,5",
        b"," + longest + b",6",
        b"z," + longest + b"y,7",
        b'"' + longest + b'",\xc3\xa9,8',
    ]
    found = both(tmp_path / "t.csv", _file(lines, b"\n"))
    long = longest.decode()
    assert found == [("x", None, "5"), (None, long, "6"), ("z", None, "7"), (long, "é", "8")]


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "csv, where needed": lambda f, p: _by_csv(f, p, csv.QUOTE_MINIMAL, "\r\n"),
    "csv, always": lambda f, p: _by_csv(f, p, csv.QUOTE_ALL, "\n"),
    "pandas": lambda f, p: f.to_csv(p, index=False),
    "DuckDB": lambda f, p: duckdb.from_df(f).to_csv(str(p), header=True),
}


def _by_csv(frame: pd.DataFrame, path: Path, quoting: int, end: str) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=quoting, lineterminator=end)  # type: ignore[arg-type]
        writer.writerows([list(frame.columns), *frame.itertuples(index=False, name=None)])


CELL = st.text(st.sampled_from('ab,;"\n\r\t é\0'), max_size=6)


@pytest.mark.parametrize("writer", WRITERS)
@settings(max_examples=whole(25, 60))
@given(cells=st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5))
def test_what_a_writer_that_quotes_writes_comes_back(
    writer: str, cells: list[tuple[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    lost = {"DuckDB": "\0", "pandas": "\r"}.get(writer)  # what this writer does not quote
    if lost is not None:
        cells = [(a.replace(lost, ""), b.replace(lost, "")) for a, b in cells]
    path = tmp_path_factory.mktemp("written") / "t.csv"
    frame = pd.DataFrame(cells, columns=["a", "b"])
    WRITERS[writer](frame, path)
    header, found = read_header((path,)), read(path)
    assert header.names == ("a", "b")
    assert found == by_reference(path) == [(a or None, b or None) for a, b in cells]


def test_any_bytes_read_alike_however_they_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By numpy in blocks of any size, record by record, and by the reference: the same rows."""
    at_once = csv_rows._Splitter._at_once
    pick, path, quick = random.Random(1), tmp_path / "t.csv", 0

    def counted(*arguments: object) -> object:
        nonlocal quick
        found = at_once(*arguments)  # type: ignore[arg-type]
        quick += found is not None
        return found

    for _ in range(whole(100, 400)):
        end = pick.choice(["\n", "\r\n", "\r"])
        signs = pick.choice([
            [",", '"', "\n", "\r", "a", "\0", "é", "\udcff"],
            ['"a"', '""', "a", ",", ",", '"x""y"', '"\n"', end, end, end, '"a,b"'],
            ["a", ",", end],
        ])  # fmt: skip
        body = "".join(pick.choice(signs) for _ in range(pick.randrange(60)))
        path.write_bytes(f"a,b,c{end}{body}".encode("utf-8", "surrogateescape"))
        longest = pick.choice([4, 10, 30, 1000])
        with monkeypatch.context() as patch:
            for module in (csv_rows, reference_rows):
                patch.setattr(module, "LONGEST_RECORD", longest)
                patch.setattr(
                    module,
                    "LONGEST_CELL",
                    pick.choice([2, 100]) if module is csv_rows else csv_rows.LONGEST_CELL,
                )
            expected = by_reference(path)
            patch.setattr(csv_rows, "_BLOCK", pick.choice([3, 8, 20, 1000]))
            patch.setattr(csv_rows, "_READ", pick.choice([1, 5, 50, 1000]))
            patch.setattr(csv_rows._Splitter, "_at_once", counted)
            assert read(path) == expected
            patch.setattr(csv_rows._Splitter, "_at_once", lambda *_: None)
            assert read(path) == expected
    assert quick > whole(100, 400)  # the quick way was taken


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "T.CSV.GZ"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_packed_files_marks_of_order_and_line_ends(name: str, end: str, tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + end.join(['"a",b', "1,2", '"x', "3,4"]).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith("gz") else data)
    assert read(tmp_path / name) == by_reference(tmp_path / name)
    assert read(tmp_path / name) == [("1", "2"), ('"x', None), ("3", "4")]


def test_a_column_alone_and_a_count_alone(tmp_path: Path) -> None:
    assert both(tmp_path / "t.csv", b"a\n1\n\n2\n\n") == [("1",), (None,), ("2",), (None,)]
    counted = CsvRows((tmp_path / "t.csv",), ",", ()).batches()
    assert sum(batch.num_rows for batch in counted) == 4


def test_files_read_together_have_one_header_each_with_its_own_line_ends(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b"a,b\n1,2\r3\n")
    (tmp_path / "2.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n4,5\r\n")
    (tmp_path / "3.csv").write_bytes(b"a,b\r6,7\r")
    paths = tuple(sorted(tmp_path.glob("*.csv")))
    assert read(*paths) == by_reference(*paths) == [("1", "2\r3"), ("4", "5"), ("6", "7")]
    (tmp_path / "4.csv").write_bytes(b"a;b\n8;9\n")
    with pytest.raises(SourceError, match="different headers"):
        read_header((*paths, tmp_path / "4.csv"))


@pytest.mark.parametrize(
    "data", [b"", b"\n1\n", b'"a\nb",c\n1,2\n', b"\xff\xfea\0\n", b"a" * (1 << 20)]
)
def test_a_header_that_does_not_end_or_is_not_text_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(SourceError) as caught:
        read_header((tmp_path / "t.csv",))
    assert caught.value.code == "DPR518"


def test_an_open_quote_costs_a_bounded_look_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked for as far as a record may reach, not to the end of the file."""
    monkeypatch.setattr(csv_rows, "LONGEST_RECORD", 1000)
    monkeypatch.setattr(csv_rows, "_READ", 100)
    monkeypatch.setattr(csv_rows, "_BLOCK", 100)
    longest = 0
    split = csv_rows._Splitter._record

    def measured(self: object, data: bytes, at: int, *, last: bool) -> object:
        nonlocal longest
        longest = max(longest, len(data) - at)
        return split(self, data, at, last=last)  # type: ignore[arg-type]

    monkeypatch.setattr(csv_rows._Splitter, "_record", measured)
    (tmp_path / "t.csv").write_bytes(b'a,b\n"open,1\n' + b"x,y\n" * 10_000)
    assert len(read(tmp_path / "t.csv")) == 10_001
    assert longest < 3000


def test_a_stream_is_read_again_by_every_scan(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    connection = duckdb.connect()
    connection.register("t", CsvRows((tmp_path / "t.csv",), ",", (1,)))
    for _ in range(2):
        assert connection.execute(
            "SELECT sum(x.c1::INT) FROM t x JOIN t y USING (c1)"
        ).fetchone() == (6,)


def test_the_tests_write_what_they_say() -> None:
    assert list(csv.reader(io.StringIO(OTHERS[4].decode()))) == [["p5", ",x", "9"]]
