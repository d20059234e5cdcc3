"""How numbers of a CSV file are written is stated where the header leaves it open, and then read so everywhere."""

from __future__ import annotations

import gzip
import itertools
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import ArgumentError, ConfigError, SourceError
from dprelease.engines.csv_header import dialect, read_header
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, tables_source
from dprelease.inspection.rows import inspect_rows
from dprelease.pipeline.drafted import draft_schema
from dprelease.pipeline.run import init_ledger, load_pipeline, run
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.query.expression import parse_condition
from dprelease.query.read_view import parse_view
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.contracts.cells import answer_of
from tests.rules_alone import built_in_rules_only
from tests.sizes import whole

SCHEMA: dict[str, Any] = {
    "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "add_remove", "rows": {"max": 1000},
    "columns": {"k": {"kind": "category", "values": ["a", "1,5"]},
                "x": {"kind": "number", "range": [0, 2000], "step": 0.1}},
    "release": {"epsilon": 900, "by": ["k"], "statistics": ["count", "sum(x)"]},
}  # fmt: skip


@pytest.fixture(autouse=True)
def rules(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in_rules_only(monkeypatch)


def released(data: Any) -> list[tuple[int, int]]:
    """Return per key the number of rows and the sum in hundreds, far beyond the noise at this epsilon."""
    table = dp.release(data, SCHEMA).to_pandas(intervals=False)
    return [(round(c), round(s / 100)) for c, s in zip(table["count"], table["sum_x"], strict=True)]


def european(folder: Path) -> str:
    """As a spreadsheet writes it in most of Europe; the key is a text and keeps its comma."""
    (folder / "f.csv").write_text("k;x\n" + "a;12,5\na;1.234,50\n1,5;700\n" * 5, encoding="utf-8")
    return str(folder / "f.csv")


RIGHT = [(10, 62), (5, 35)]  # 5 * (12.5 + 1234.5) and 5 * 700


def test_a_header_with_semicolons_is_refused_before_the_charge(tmp_path: Path) -> None:
    path = european(tmp_path)
    ledger = dp.create_ledger(tmp_path / "l.db", SCHEMA, epsilon=100000)
    with pytest.raises(SourceError) as caught:
        dp.release(path, SCHEMA, ledger=ledger)
    assert caught.value.code == "DPR526"
    assert Ledger.open(ledger).budget("t").spent == 0
    with pytest.raises(SourceError, match="how numbers are written"):
        inspect_rows(dp.plan(SCHEMA), as_source(path))
    assert "x:" in draft_schema(path)  # names alone: nothing is read


def test_the_fix_works_in_python(tmp_path: Path) -> None:
    path = european(tmp_path)
    assert released({"csv": {"path": path, "decimal": ","}}) == RIGHT
    assert released({"csv": {"path": path, "decimal": ",", "delimiter": ";"}}) == RIGHT
    (tmp_path / "p.csv").write_text("k,x\na,1200\n")
    assert released({"csv": str(tmp_path / "p.csv")})[0] == (1, 12)
    for wrong in ({"csv": {"path": path, "sep": ";"}}, {"csv": 5}, {"csv": {}}):
        with pytest.raises(SourceError) as caught:
            as_source(wrong)
        assert '"decimal": ","' in str(caught.value.fix)
    # with a point 12,5 is no number: groups have three digits; 1.234,50 is none
    assert released({"csv": {"path": path, "decimal": "."}}) == [(10, 0), (5, 35)]
    seen = inspect_rows(dp.plan(SCHEMA), as_source({"csv": {"path": path, "decimal": ","}}))
    assert all(f.rows == 0 for f in seen if f.of)
    seen = inspect_rows(dp.plan(SCHEMA), as_source({"csv": {"path": path, "decimal": "."}}))
    unread = {(f.column, f.what.partition(",")[0]): f.rows for f in seen}
    assert unread["x", "unreadable as number"] == 10  # and no null
    assert unread["x", "null"] == 0


PIPELINE = """\
dprelease: pipeline/1
name: t
source: {{csv: {{path: f.csv, {signs}}}}}
schema: schema.yaml
budget: {{ledger: ledger.db, dataset: t, epsilon: 100000}}
publish: {{to: public, formats: [csv]}}
"""
TEXT = """\
dprelease: schema/1
name: t
unit: row
adjacency: add_remove
rows: {max: 1000}
columns: {k: {kind: category, values: [a, "1,5"]}, x: {kind: number, range: [0, 2000], step: 0.1}}
release: {epsilon: 900, by: [k], statistics: [count, sum(x)]}
"""


def test_the_fix_works_in_a_pipeline(tmp_path: Path) -> None:
    european(tmp_path)
    (tmp_path / "schema.yaml").write_text(TEXT)
    file = tmp_path / "t.yaml"
    file.write_text(PIPELINE.format(signs="delimiter: ';'"))
    init_ledger(load_pipeline(file))
    with pytest.raises(SourceError, match="how numbers are written"):
        run(file)
    file.write_text(PIPELINE.format(signs='decimal: ","'))
    done = run(file)
    values = pd.read_csv(done.folder / "data.csv")
    sums = values[values["statistic"] == "sum_x"]["value"].tolist()
    assert [round(s / 100) for s in sums] == [s for _, s in RIGHT]


def test_tables_of_a_view_in_a_pipeline_have_signs_too(tmp_path: Path) -> None:
    european(tmp_path)
    (tmp_path / "p.csv").write_text("code|name\na|b\n")
    (tmp_path / "schema.yaml").write_text(TEXT)
    file = tmp_path / "t.yaml"
    source = """source:
  view: SELECT v.k AS k, v.x AS x FROM v v LEFT JOIN p p ON p.code = v.k
  tables: {v: {csv: {path: f.csv, decimal: ","}}}
  public_tables: {p: {csv: {path: p.csv, delimiter: "|", decimal: "."}}}
"""
    whole = PIPELINE.format(signs="decimal: ','").splitlines(keepends=True)
    file.write_text("".join([*whole[:2], source, *whole[3:]]))
    init_ledger(load_pipeline(file))
    values = pd.read_csv(run(file).folder / "data.csv")
    sums = values[values["statistic"] == "sum_x"]["value"].tolist()
    assert [round(s / 100) for s in sums] == [s for _, s in RIGHT]


@pytest.mark.parametrize(
    "signs", ["decimal: ';'", "delimiter: ab", "delimiter: '1'", "delimiter: é", "decimals: ','"]
)
def test_other_signs_are_refused_with_their_line(tmp_path: Path, signs: str) -> None:
    (tmp_path / "schema.yaml").write_text(TEXT)
    file = tmp_path / "t.yaml"
    file.write_text(PIPELINE.format(signs=signs))
    with pytest.raises(ConfigError) as caught:
        load_pipeline(file)
    assert caught.value.where == f"{file}:3"
    assert caught.value.code == ("DPR110" if "decimals" in signs else "DPR140")


@pytest.mark.parametrize(
    ("delimiter", "decimal"), [("", None), ("\n", None), ('"', None), (None, ""), (None, 5)]
)
def test_other_signs_are_refused_in_python(tmp_path: Path, delimiter: Any, decimal: Any) -> None:
    path = european(tmp_path)
    with pytest.raises(ArgumentError) as caught:
        as_source({"csv": {"path": path, "delimiter": delimiter, "decimal": decimal}})
    assert caught.value.code == "DPR643"


def test_a_header_of_the_usual_sign_needs_no_word(tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("k,x\na,1234.5\n")
    assert released(str(tmp_path / "f.csv"))[0] == (1, 12)
    (tmp_path / "f.csv").write_text('k,x\na,"1,234.5"\na,"12,5"\n')
    assert released(str(tmp_path / "f.csv"))[0] == (2, 0)
    assert released({"csv": {"path": str(tmp_path / "f.csv"), "decimal": "."}})[0] == (2, 12)


@pytest.mark.parametrize(("sign", "word"), [("\t", "a tab"), ("|", "`|`"), (":", "`:`")])
def test_another_sign_between_cells_says_nothing_of_numbers(
    tmp_path: Path, sign: str, word: str
) -> None:
    path = str(tmp_path / "f.csv")
    Path(path).write_text(f"k{sign}x\na{sign}1234,5\n")
    stated = {"delimiter": sign} if sign == ":" else {}
    for data in ({"csv": {"path": path, **stated}}, *(() if stated else (path,))):
        with pytest.raises(SourceError, match=re.escape(word)) as caught:
            dp.release(data, SCHEMA)
        assert caught.value.code == "DPR526"
    for decimal, number in ((",", 12), (".", 0)):
        said = {"csv": {"path": path, "decimal": decimal, **stated}}
        assert released(said)[0] == (1, number)
    of_counts = {**SCHEMA, "release": {"epsilon": 900, "by": ["k"], "statistics": ["count"]}}
    dp.release({"csv": {"path": path, **stated}}, of_counts)  # no number is read


def test_whole_numbers_have_signs_too(tmp_path: Path) -> None:
    """Beside an empty cell pandas writes 12 as 12,0, and offices write 12.000 for twelve thousand."""
    path = str(tmp_path / "f.csv")
    schema = {
        **SCHEMA,
        "columns": {**SCHEMA["columns"], "x": {"kind": "integer", "range": [0, 20000]}},
    }
    for sign in "\t|":
        Path(path).write_text(f"k{sign}x\na{sign}12,0\na{sign}12.000\n")
        with pytest.raises(SourceError) as caught:
            dp.release(path, schema)
        assert caught.value.code == "DPR526"
        for decimal, right in ((",", 12012), (".", 12)):
            table = dp.release({"csv": {"path": path, "decimal": decimal}}, schema).to_pandas()
            assert abs(table["sum_x"][0] - right) < 500


def test_a_category_of_numbers_meets_the_cells_of_a_file_with_a_decimal_comma(
    tmp_path: Path,
) -> None:
    cells = ["12,5", "12.5", " 12,50 ", "7", "7,0", "-0,5", "north", "1,2,3", "12,5\u00b2", "+12,5"]
    (tmp_path / "f.csv").write_text("k;x\n" + "".join(f"1;{c}\n" for c in cells), encoding="utf-8")
    comma, point = (
        as_source({"csv": {"path": str(tmp_path / "f.csv"), "decimal": sign}}) for sign in ",."
    )
    for source, values, right in (
        (comma, ("12.5", "7", "-0.5", "north"), (4, 2, 1, 1, 2)),
        (point, ("12.5", "7", "-0.5", "north"), (1, 1, 0, 1, 7)),
        (comma, ("12,5", "12.5", "7"), (1, 1, 1, 7)),  # declared as it is written: by its text
        (comma, ("12.5", "07"), (1, 0, 9)),  # codes are compared by their texts
    ):
        for engine in (DuckDBEngine(), ReferenceEngine()):
            assert answer_of(engine, source, Kind.category, values) == right, values


COLUMNS = {"x": Column("x", Kind.number), "k": Column("k", Kind.identifier)}
X = Fixed("x", Domain(-10_000_000, 10_000_000).on_grid(Fraction(1, 1000)), Fraction(1, 1000))


def answers(source: Source, **more: Any) -> list[list[int]]:
    """Return how many numbers there are and their sum above the least, by DuckDB and the reference."""
    query = BoundedQuery(
        tuple(COLUMNS.values()), GroupKeys((), ((),)), (X,),
        (Primitive("rows"), Primitive("power", 0, 0), Primitive("power", 0, 1)), **more,
    )  # fmt: skip
    engines = (DuckDBEngine(), ReferenceEngine())
    for engine in engines:
        engine.preflight(source, query)
    return [e.compute(source, query, b"").reveal_to_mechanism().sums[0].tolist() for e in engines]


NUMBERS = {  # cell -> with a comma, with a point; None is no number
    "12,5": (12.5, None), "12.5": (None, 12.5), "-0,25": (-0.25, None), "+,5": (0.5, None), "5,": (5, None),
    "1.234": (1234, 1.234), "1,234": (1.234, 1234), "1.234,50": (1234.5, None), "1,234.50": (None, 1234.5),
    "1.234.567,125": (1234567.125, None), "12.34,5": (None, None), "1234.567,5": (None, None),
    "1 234,5": (1234.5, None), "1 234.5": (None, 1234.5), "1\u202f234,5": (1234.5, None),
    "1\u00a0234": (1234, 1234), "1'234.5": (None, 1234.5), "1’234,5": (1234.5, None), "12 34": (None, None),
    "1.234 567,5": (None, None), "7": (7, 7), "1e3": (1000, 1000), "1,5e3": (1500, None), " 12,5 ": (12.5, None),
    "1,2,3": (None, None), "12,5x": (None, None), ",": (None, None), ".": (None, None), "": (None, None),
    "1_000": (1000, 1000), "x": (None, None), "1. 5": (None, None), "-1.234,5": (-1234.5, None), "1,": (1, None),
    "--1,5": (None, None), "1.2345": (None, 1.234), "²,5": (None, None), "٣,5": (None, None), "1.234,5.6": (None, None),
}  # fmt: skip


def answers_of_each(folder: Path, cells: list[str], decimal: str) -> list[list[list[int]]]:
    """Return rows, numbers and the sum above the least of each cell, by DuckDB and the reference: each is a group."""
    lines = [f'{place};"{cell}"\n' for place, cell in enumerate(cells)]
    (folder / "f.csv").write_text("".join(["k;x\n", *lines]), encoding="utf-8")
    source = as_source({"csv": {"path": str(folder / "f.csv"), "decimal": decimal}})
    names = tuple(map(str, range(len(cells))))
    key = Column("k", Kind.category, values=names)
    query = BoundedQuery(
        (COLUMNS["x"], key), GroupKeys((key,), tuple((name,) for name in names)), (X,),
        (Primitive("rows"), Primitive("power", 0, 0), Primitive("power", 0, 1)),
    )  # fmt: skip
    engines = (DuckDBEngine(), ReferenceEngine())
    engines[0].preflight(source, query)
    return [e.compute(source, query, b"").reveal_to_mechanism().sums.tolist() for e in engines]


@pytest.mark.parametrize(("decimal", "place"), [(",", 0), (".", 1)])
def test_every_spelling_is_read_alike_by_both_engines(
    tmp_path: Path, decimal: str, place: int
) -> None:
    cells = [cell for cell in NUMBERS if (cell, place) not in (("5,", 1), ("1,", 1))]
    expected = []
    for cell in cells:
        number = NUMBERS[cell][place]
        code = 0 if number is None else int(Fraction(str(number)) * 1000) + 10_000_000_000
        half = cell == "1.2345" and place == 1  # half a step
        expected.append([1, int(number is not None), code + half])
    for found in answers_of_each(tmp_path, cells, decimal):
        assert dict(zip(cells, found, strict=True)) == dict(zip(cells, expected, strict=True))


def test_whatever_is_made_of_these_signs_is_read_alike_by_both_engines(tmp_path: Path) -> None:
    for decimal in ",.":
        cells = [
            "".join(one)
            for size in (1, 2, 3, 4)[: whole(3, 4)]
            for one in itertools.product("1-.,' ", repeat=size)
        ]
        cells += [f"1{a}111{b}111{c}1" for a, b, c in itertools.product(".,' e", repeat=3)]
        one, other = answers_of_each(tmp_path, cells, decimal)
        assert dict(zip(cells, one, strict=True)) == dict(zip(cells, other, strict=True))
        assert 0 < sum(numbers for _, numbers, _ in one) < len(cells)


def test_tables_of_a_view_have_signs_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("code;k;y\n1;a;0,5\n2;b;1.000,25\n")
    (tmp_path / "p.csv").write_text("code;x;name\n1;12,5;A,1\n2;7,25;B\n")
    pq.write_table(
        pa.table({"code": ["1", "2"], "x": [12.5, 7.25], "name": ["A,1", "B"]}),
        tmp_path / "p.parquet",
    )
    signs = {
        name: {"csv": {"path": str(tmp_path / f"{name}.csv"), "decimal": ","}} for name in "vp"
    }
    passed = parse_view("SELECT v.k AS k, p.x AS x FROM v v LEFT JOIN p p ON p.code = v.code",
                        private=("v",), public=("p",), allow=())  # fmt: skip
    own = parse_view("SELECT v.k AS k, v.y AS x FROM v v LEFT JOIN p p ON p.code = v.code WHERE p.name = 'A,1'",
                     private=("v",), public=("p",), allow=())  # fmt: skip
    right = [2, 2, int((12.5 + 7.25) * 1000) + 2 * 10_000_000_000]
    for public in (as_source(signs["p"]), as_source(tmp_path / "p.parquet")):
        tables = tables_source({"v": as_source(signs["v"]), "p": public})
        assert answers(tables, view=passed) == [right, right]
        assert answers(tables, view=own) == [[1, 1, 500 + 10_000_000_000]] * 2
    open_ = tables_source({"v": as_source(tmp_path / "v.csv"), "p": as_source(signs["p"])})
    with pytest.raises(SourceError, match="how numbers are written"):
        DuckDBEngine().preflight(open_, BoundedQuery(tuple(COLUMNS.values()), GroupKeys((), ((),)), (X,), (Primitive("power", 0, 1),), view=passed))  # fmt: skip


def test_a_view_that_cannot_keep_the_signs_apart_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("k;x\na;0,5\n")
    (tmp_path / "p.csv").write_text("x,y\n0.5,1\n")
    tables = tables_source(
        {
            "v": as_source({"csv": {"path": str(tmp_path / "v.csv"), "decimal": ","}}),
            "p": as_source(tmp_path / "p.csv"),
        }
    )
    for select, allow in (
        ("SELECT v.k AS k, v.x AS x FROM v v LEFT JOIN p p ON p.x = v.x", ()),
        ("SELECT v.k AS k, max(v.x) AS x FROM v v GROUP BY v.k", ("unproven-view",)),
    ):
        view = parse_view(select, private=("v",), public=("p",), allow=allow)
        with pytest.raises(SourceError) as caught:
            DuckDBEngine().preflight(
                tables,
                BoundedQuery(tuple(COLUMNS.values()), GroupKeys((), ((),)), (X,), (Primitive("power", 0, 1),), view=view),
            )  # fmt: skip
        assert caught.value.code == "DPR511"


def test_filters_see_the_numbers(tmp_path: Path) -> None:
    source = as_source({"csv": {"path": european(tmp_path), "decimal": ","}})
    where = parse_condition("x > 12 and x < 13", COLUMNS, origin="test")
    assert [found[0] for found in answers(source, where=where)] == [5, 5]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        ("k;x\na;1\n".encode("utf-16"), "UTF-16"),
        ("k;x\na;1\n".encode("utf-16-le"), "UTF-16"),
        ("k;x\na;1\n".encode("utf-32"), "UTF-32"),
        (b"\nk,x\n", "its first line is empty"),
        ("käse,x\n".encode("latin-1"), "not UTF-8"),
        (b'"k\n",x\n', "holds a line end"),
    ],
)
def test_a_file_without_a_header_says_what_it_is(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "f.csv").write_bytes(content)
    with pytest.raises(SourceError) as caught:
        read_header((tmp_path / "f.csv",), dialect(None, None))
    assert caught.value.code == "DPR518"
    assert why in str(caught.value.why)
    assert caught.value.fix


def test_a_file_that_does_not_open_is_not_to_be_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f.csv").write_text("k;x\n")
    (tmp_path / "g.csv.gz").write_bytes(gzip.compress(b"k;x\n" * 99)[:-12])

    def denied(*_args: Any, **_more: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    for name, why in (("g.csv.gz", "it is damaged"), ("f.csv", "Permission denied")):
        if name == "f.csv":
            monkeypatch.setattr(Path, "open", denied)
        with pytest.raises(SourceError) as caught:
            read_header((tmp_path / name,), dialect(None, None))
        assert caught.value.code == "DPR518"
        assert why in str(caught.value.why)
        assert "let this user read it" in str(caught.value.fix)


def alone(folder: Path, end: str, *cells: str) -> str:
    """A file of one column: its header shows no delimiter."""
    (folder / "alone.csv").write_bytes(end.join(["x", *cells, ""]).encode("utf-8"))
    return str(folder / "alone.csv")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_line_of_a_file_of_one_column_is_one_cell(tmp_path: Path, end: str) -> None:
    schema = {
        **SCHEMA,
        "columns": {"x": SCHEMA["columns"]["x"]},
        "release": {"epsilon": 900, "statistics": ["sum(x)"]},
    }
    path = alone(tmp_path, end, "12,5", "12,50", '"1.234,5"', "1.234,5", "7,", "a,700", "")
    ledger = dp.create_ledger(tmp_path / "l.db", schema, epsilon=100000)
    with pytest.raises(SourceError, match="one column") as caught:  # 12,5 was read as 12
        dp.release(path, schema, ledger=ledger)
    assert caught.value.code == "DPR526"
    assert Ledger.open(ledger).budget("t").spent == 0
    comma = as_source({"csv": {"path": path, "decimal": ","}})
    alike = BoundedQuery(
        (COLUMNS["x"],), GroupKeys((), ((),)), (X,), (Primitive("rows"), Primitive("power", 0, 0), Primitive("power", 0, 1)),
    )  # fmt: skip
    right = [7, 5, int((12.5 + 12.5 + 1234.5 + 1234.5 + 7) * 1000) + 5 * 10_000_000_000]
    for engine in (DuckDBEngine(), ReferenceEngine()):
        engine.preflight(comma, alike)
        seen = engine.compute(comma, alike, b"").reveal_to_mechanism().sums[0].tolist()
        assert seen == right
    for signs, cell, value in (
        ({"decimal": "."}, "700.5", 700.5),
        ({"delimiter": ",", "decimal": "."}, "700.5,1", 700.5),  # stated, so it counts
    ):
        path = alone(tmp_path, end, cell)
        (total,) = dp.release({"csv": {"path": path, **signs}}, schema).to_pandas(intervals=False)[
            "sum_x"
        ]
        assert abs(total - value) < 10


def test_texts_and_whole_numbers_alone_need_no_word(tmp_path: Path) -> None:
    for kind in (
        {"kind": "integer", "range": [0, 2000]},
        {"kind": "category", "values": ["1,5", "2"]},
    ):
        column = {"x": kind}
        schema = {**SCHEMA, "columns": column, "release": {"epsilon": 900, "statistics": ["count"]}}
        path = alone(tmp_path, "\n", "1,5", "2")
        if kind["kind"] == "category":
            schema["release"] = {"epsilon": 900, "statistics": ["count"], "by": ["x"]}
            assert list(dp.release(path, schema).to_pandas(intervals=False)["count"]) == [1, 1]
        else:
            schema["release"] = {"epsilon": 900, "statistics": ["count", "sum(x)"]}
            (row,) = dp.release(path, schema).to_pandas(intervals=False).to_dict("records")
            assert (row["count"], round(row["sum_x"] / 100)) == (2, 0)
