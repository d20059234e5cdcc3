"""What an error tells a user to do, done to the letter: the fix of each refusal at the doors works."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget import read_only
from dprelease.budget.storage import storage_error
from dprelease.cli import app
from dprelease.core.errors import DpreleaseError
from dprelease.query.arguments import syntaxes
from dprelease.schema.naming import nearest

FRAME = pd.DataFrame(
    {
        "k": ["a", "b"] * 6,
        "x": [1.0, 3.0] * 6,
        "m": range(1, 13),
        "at": pd.date_range("2024-01-02", periods=12, freq="MS"),
        "who": [str(i) for i in range(12)],
    }
)
COLUMNS: dict[str, Any] = {
    "k": {"kind": "category", "values": ["a", "b"]},
    "x": {"kind": "number", "range": [0, 10], "step": 1},
    "m": {"kind": "integer", "range": [1, 12]},
    "at": {"kind": "timestamp"},
    "who": {"kind": "identifier"},
}


def declared(release: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    columns = {**COLUMNS, **more.pop("columns", {})}
    return {
        "dprelease": "schema/1",
        "name": "t",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 100, "expected": 12},
        "columns": columns,
        "release": {"epsilon": 60, "statistics": ["sum(x)"], **(release or {})},
        **more,
    }


def refused(act: Any, code: str) -> DpreleaseError:
    with pytest.raises(DpreleaseError) as caught:
        act()
    assert caught.value.code == code, caught.value
    return caught.value


def values(data: Any, schema: dict[str, Any], **more: Any) -> list[Any]:
    return [int(v) for v in dp.release(data, schema, **more).table["value"].to_pylist()]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return dp.create_ledger(tmp_path / "l.db", declared(), epsilon=1000)


# --- names of a ledger's entries


@pytest.mark.parametrize("name", ["period", "dataset"])
def test_an_empty_name_is_refused_and_nothing_is_spent(ledger: Path, name: str) -> None:
    error = refused(lambda: dp.release(FRAME, declared(), ledger=ledger, **{name: ""}), "DPR150")
    assert "is empty" in error.what
    refused(lambda: dp.create_ledger(ledger, declared(), epsilon=1000, dataset=""), "DPR150")
    assert "60 of 1000 spent" in str(dp.release(FRAME, declared(), ledger=ledger).receipt)


def test_without_a_period_there_is_one_entry_and_an_empty_text_is_not_it(ledger: Path) -> None:
    dp.release(FRAME, declared(), ledger=ledger)
    refused(lambda: dp.release(FRAME, declared(), ledger=ledger, period=""), "DPR150")
    timed = declared(time={"column": "at", "timezone": "UTC", "immutable": True})
    refused(lambda: dp.plan(timed, during=""), "DPR640")


@pytest.mark.parametrize("value", [2024, pd.Period("2024-01"), pd.Period("2024-01-02", "D")])
def test_a_period_that_is_no_text_is_written_as_the_fix_says(ledger: Path, value: Any) -> None:
    error = refused(lambda: dp.release(FRAME, declared(), ledger=ledger, period=value), "DPR150")
    [text] = re.findall(r'in quotes: "(.*)"', error.fix or "")
    assert dp.release(FRAME, declared(), ledger=ledger, period=text).receipt
    timed = declared(time={"column": "at", "timezone": "UTC", "immutable": True})
    error = refused(lambda: dp.plan(timed, during=value), "DPR640")
    [text] = re.findall(r'in quotes: "(.*)"', error.fix or "")
    assert dp.plan(timed, during=text).hash


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_path_is_refused_as_one(name: str) -> None:
    for act in (
        lambda: dp.plan(name),
        lambda: dp.release(FRAME, declared(), ledger=name),
        lambda: dp.create_ledger(name, declared(), epsilon=1),
        lambda: dp.read(name),
        lambda: dp.verify(name),
        lambda: dp.run(name),
    ):
        assert "an empty text" in refused(act, "DPR642").what


# --- what the statement asks for


@pytest.mark.parametrize(
    ("where", "count"),
    [
        ("x > 1 & k = 'b'", 6),
        ("x > 1 && k = 'b'", 6),
        ("x > 1 | k = 'a'", 12),
        ("x > 1 || k = 'a'", 12),
        ("~(x > 1)", 6),
        ("! (x > 1)", 6),
    ],
)
def test_the_word_that_the_fix_names_stands_for_the_operator(where: str, count: int) -> None:
    error = refused(lambda: dp.plan(declared(), where=where), "DPR120")
    [word] = re.findall(r"write `(\w+)`", error.fix or "")
    [sign] = re.findall(r"^`(\S+)` is not an operator", error.what)
    mended = where.replace(sign, f" {word} ")
    assert values(FRAME, declared({"statistics": ["count"], "where": mended})) == [count]


@pytest.mark.parametrize(
    ("where", "code", "old", "count"),
    [
        ("x ≥ 3", "DPR120", "≥", 6),
        ("x ≤ 1 or x ≠ 1", "DPR120", "≤", 12),
        ("x > −1", "DPR120", "−", 12),
        ("k = ‘a’", "DPR120", "‘a’", 6),
        ("k = “a”", "DPR120", "“a”", 6),
        ("k in ['b']", "DPR120", "['b']", 6),
        ('k = "a"', "DPR122", '"a"', 6),
        ("k = a", "DPR122", "a", 6),
        ("x == None", "DPR122", "== None", 0),
        ("at > 2024-01-31", "DPR123", "2024-01-31", 12),
    ],
)
def test_what_is_written_in_other_tongues_is_told_in_this_one(
    where: str, code: str, old: str, count: int
) -> None:
    error = refused(lambda: dp.plan(declared(), where=where), code)
    form = re.findall(r"`(.*?)`|('.*?')|(\('a', 'b'\))", error.fix or "")[0]
    new = next(part for part in form if part).replace("2013", "2024")
    if "(" in (error.fix or ""):
        new = "('b')"
    mended = where.replace(old, new).replace("≠", "<>")
    assert values(FRAME, declared({"statistics": ["count"], "where": mended})) == [count]


def test_shapes_that_stand_elsewhere_are_told_the_whole_form() -> None:
    listed = declared({"statistics": {"x": ["sum", "mean"]}})
    assert '["mean(age)", "sum(age)"]' in (refused(lambda: dp.plan(listed), "DPR112").fix or "")
    for key, form in (("other", "{as: KEY}"), ("nulls", "{default: VALUE}")):
        column = {"kind": "category", "values": ["a"], key: "rest"}
        assert form in refused(lambda c=column: dp.plan(declared(columns={"k": c})), "DPR112").what
    known = refused(lambda: dp.plan(declared({"statistics": ["count(x)"]})), "DPR133")
    [text] = re.findall(r'"(.*?)"', known.fix or "")
    frame = FRAME.assign(x=[1.0, None] * 6)
    assert values(frame, declared({"statistics": [text]})) == [6]
    hour = {"kind": "category", "from": "hour(at)", "values": ["00", "12"]}
    made = refused(lambda: dp.plan(declared(columns={"h": hour})), "DPR138")
    assert "whole numbers such as [1, 2, 3]" in (made.fix or "")


def test_a_default_of_a_category_is_told_its_own_form() -> None:
    k: dict[str, Any] = {**COLUMNS["k"], "nulls": {"default": "a"}}
    error = refused(lambda: dp.plan(declared(columns={"k": k})), "DPR158")
    k |= yaml.safe_load(re.findall(r"`(.*?)`", error.fix or "")[0])
    asked = declared({"by": ["k"], "statistics": ["count"]}, columns={"k": k})
    assert values(FRAME.assign(k=["a", None] * 6), asked) == [12, 0]


def test_pandas_form_of_statistics_is_taken() -> None:
    asked: Any = {"x": ["sum", "mean"], "m": "max"}
    assert (
        dp.plan(declared(), statistics=asked).hash
        == dp.plan(declared(), statistics=["sum(x)", "mean(x)", "max(m)"]).hash
    )
    assert FRAME.dp.release(declared(), statistics={"x": "sum"}).table["value"].to_pylist() == [24]


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        ({"total": ("x", "sum")}, [{"statistic": "sum(x)", "as": "total"}]),
        ({"total": pd.NamedAgg("x", "sum")}, [{"statistic": "sum(x)", "as": "total"}]),
        ({"n": ("k", "nunique")}, [{"statistic": "count_distinct(k)", "as": "n"}]),
        ({"x": ("sum", "mean")}, ["sum(x)", "mean(x)"]),
        ({"x": "size", "m": ["size", "max"]}, ["count", "max(m)"]),
        ({"x": [sum, len, np.mean], "m": max}, ["sum(x)", "count", "mean(x)", "max(m)"]),
    ],
)
def test_what_agg_takes_is_taken(asked: Any, listed: list[Any]) -> None:
    assert dp.plan(declared(), statistics=asked).hash == dp.plan(declared(), statistics=listed).hash


@pytest.mark.parametrize(
    "asked",
    [
        {"x": None},
        {"x": 5},
        {"x": ()},
        {"x": lambda rows: 1},
        {"n": ("x", lambda rows: 1)},
        {"x": refused},
    ],
)
def test_what_is_no_name_is_told_names(asked: Any) -> None:
    if asked == {"x": ()}:
        refused(lambda: dp.plan(declared(), statistics=asked), "DPR111")
        return
    error = refused(lambda: dp.plan(declared(), statistics=asked), "DPR112")
    assert dp.plan(declared(), statistics=re.findall(r'"(.*?)"', error.fix or "")).hash


@pytest.mark.parametrize("name", ["count", "quantile"])
def test_what_agg_means_otherwise_is_told_the_line(name: str) -> None:
    asked: Any = {"x": name}
    error = refused(lambda: dp.plan(declared(), statistics=asked), "DPR133")
    [line] = re.findall(r'"(.*)"', error.fix or "")
    assert dp.plan(declared(), statistics=[line]).hash


def test_one_statistic_with_options_is_told_that_a_list_is_needed() -> None:
    asked: Any = {"statistic": "sum(x)", "as": "m"}
    error = refused(lambda: dp.plan(declared(), statistics=asked), "DPR112")
    assert "this mapping in a list" in (error.fix or "")
    assert dp.plan(declared(), statistics=[asked]).statistics[0].name == "m"


TABLES: dict[str, dict[str, Any]] = {
    "numbers": COLUMNS,
    "one number": {name: column for name, column in COLUMNS.items() if name != "m"},
    "no number": {"k": {"kind": "category", "values": ["it's", "b"]}, "who": {"kind": "identifier"}},
    "negative": {
        "born": {"kind": "date"},
        "load kg": {"kind": "number", "range": [-5, 30], "step": 0.5},
        "x": {"kind": "number", "range": [40, 60], "step": 0.1},
        "ok": {"kind": "boolean"},
    },
}  # fmt: skip


def pasted(error: DpreleaseError, columns: dict[str, Any]) -> Any:
    """Return the plan of what a fix shows, with the columns that it says to declare."""
    shown, _, new = (error.fix or "").partition(", and declare ")
    more = [yaml.safe_load(line) for line in re.findall("`(.*?)`(?: and |$)", new)]
    schema = {
        **declared({"statistics": ["count"]}),
        "columns": {**columns, **{n: c for m in more for n, c in m.items()}},
    }
    statistic = yaml.safe_load(shown.removeprefix("write ").removeprefix("e.g. "))
    return dp.plan(schema, statistics=[statistic], epsilon=1)


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", [n for n, s in syntaxes().items() if not s.arguments.of_edges])
def test_an_example_works_as_it_stands(name: str, table: str) -> None:
    columns = TABLES[table]
    schema = {**declared({"statistics": ["count"]}), "columns": columns}
    least = syntaxes()[name].least
    first = next(iter(columns))
    for end in {0: ["(x, x)"], 1: ["", "(x, x)"], 2: ["()", f'("{first}")']}[least]:
        error = refused(partial(dp.plan, schema, statistics=[name + end]), "DPR133")
        assert pasted(error, columns).statistics


@pytest.mark.parametrize(
    "text", ["cdf(x, [3, 1])", "cdf(zz, [3])", "histogram(m, 3)", "quantile(x, 1)"]
)
def test_an_example_of_arguments_is_the_whole_statistic(text: str) -> None:
    error = refused(lambda: dp.plan(declared(), statistics=[text]), "DPR133")
    [made] = pasted(error, COLUMNS).statistics
    assert made.text.partition("(")[0] == text.partition("(")[0]
    assert ("min and max" in (error.why or "")) == text.startswith("quantile")


@pytest.mark.parametrize("text", ["winsorised_mean(x, 0.7)", "mean(x)"])
def test_the_share_of_an_example_fits_where_the_faulty_one_stood(text: str) -> None:
    option = {} if "0.7" in text else {"winsorize": 0.7}
    error = refused(
        lambda: dp.plan(declared(), statistics=[{"statistic": text, **option}]), "DPR133"
    )
    [(old, new)] = re.findall(r"^for (\S+) write e.g. (\S+)$", error.fix or "")
    mended = {"statistic": text.replace(old, new), **{key: float(new) for key in option}}
    assert dp.plan(declared(), statistics=[mended]).statistics


@pytest.mark.parametrize(
    ("text", "works"),
    [
        ("count(x)", "count where x is not null"),
        ("count(x > 2)", "count where x > 2"),
        ("count(X)", "count where x is not null"),
        ("count(zz)", "count"),
        ("count(1)", "count"),
        ("count(distinct K)", "count_distinct(k)"),
        ("count(DISTINCT zz)", "count"),
        ("count(peons)", "count(persons)"),
    ],
)
def test_a_count_of_a_column_is_told_the_condition(text: str, works: str) -> None:
    error = refused(lambda: dp.plan(declared(), statistics=[text]), "DPR133")
    assert [one.text for one in pasted(error, COLUMNS).statistics] == [works]


def test_a_count_of_distinct_numbers_is_told_at_once_which_columns_have_one() -> None:
    error = refused(lambda: dp.plan(declared(), statistics=["count(distinct x)"]), "DPR133")
    assert (error.why or "").endswith(
        "count_distinct of a category, a boolean or an integer with a short range"
    )
    whole = {"x": {"kind": "integer", "range": [0, 10]}}
    assert pasted(error, whole).statistics[0].text == "count_distinct(x)"


def test_a_condition_in_place_of_a_column_is_told_its_share_and_its_count() -> None:
    error = refused(lambda: dp.plan(declared(), statistics=["mean(k = 'a')"]), "DPR122")
    share, number = re.findall(r'"(.*?)"', error.fix or "")
    plan = dp.plan(declared(), statistics=[share])
    assert plan.statistics[0].text == "proportion(k = 'a')"
    assert values(FRAME, declared(), statistics=[number]) == [6]


@pytest.mark.parametrize("inside", ["x + m", "month(at)"])
def test_an_expression_in_place_of_a_column_is_told_to_be_declared(inside: str) -> None:
    error = refused(lambda: dp.plan(declared(), statistics=[f"sum({inside})"]), "DPR122")
    [line] = re.findall("`(NAME: .*)`", error.fix or "")
    mended = declared(columns=yaml.safe_load(f"{{{line}}}"))
    assert values(FRAME, mended, statistics=["sum(NAME)"]) == [102 if "x" in inside else 78]


def test_a_function_of_a_column_that_cannot_be_read_is_not_taken_for_the_column() -> None:
    schema = declared(columns={"wind": {"kind": "number", "range": [0, 9]}})
    error = refused(lambda: dp.plan(schema, statistics=["mean(log(wind))"]), "DPR122")
    assert "did you mean" not in (error.fix or "")


def test_a_name_behind_as_is_told_its_key() -> None:
    error = refused(lambda: dp.plan(declared(), statistics=["sum(x) AS total"]), "DPR130")
    [item] = re.findall("write ({.*})", error.fix or "")
    assert dp.plan(declared(), statistics=[yaml.safe_load(item)]).statistics[0].name == "total"


def test_the_counts_of_values_are_no_eigenvalues() -> None:
    error = refused(lambda: dp.plan(declared(), statistics=["value_counts(k)"]), "DPR131")
    assert error.fix == "did you mean `count`?"


def test_a_count_of_distinct_persons_is_told_its_name() -> None:
    unit = {"user": "who", "max_groups": 1, "max_rows_per_group": 1}
    schema = declared({"statistics": ["count(DISTINCT who)"]}, unit=unit)
    assert refused(lambda: dp.plan(schema), "DPR133").fix == 'write "count(persons)"'


@pytest.mark.parametrize(
    ("condition", "code"),
    [("zz > 2", "DPR122"), ("x >", "DPR120"), ("x > 2 and zz", "DPR122"), ("x + 1", "DPR127")],
)
def test_a_count_of_a_condition_that_cannot_be_read_is_told_so_at_once(
    condition: str, code: str
) -> None:
    inside, after = (
        refused(lambda: dp.plan(declared(), statistics=[asked]), code)  # noqa: B023
        for asked in (f"count({condition})", f"count where {condition}")
    )
    assert (inside.what, inside.why, inside.fix) == (after.what, after.why, after.fix)


def test_a_mean_of_labels_that_are_numbers_is_told_their_range() -> None:
    labels = {"kind": "category", "values": [12, 8, -3], "other": {"as": "rest"}}
    frame = FRAME.assign(m=[12, 8, -3] * 4)
    error = refused(
        lambda: dp.plan(declared(columns={"m": labels}), statistics=["mean(m)"]), "DPR133"
    )
    [line] = re.findall("`(.*)`", error.fix or "")
    assert values(frame, declared(columns=yaml.safe_load(line)), statistics=["sum(m)"]) == [68]
    for other in (["1", "02"], ["1", "x"], ["5"]):  # not one number each, or one that does not vary
        schema = declared(columns={"m": {**labels, "values": other}})
        assert "proportion(m = " in (
            refused(lambda: dp.plan(schema, statistics=["mean(m)"]), "DPR133").fix or ""  # noqa: B023
        )


def test_an_example_of_a_graph_names_one_of_its_nodes() -> None:
    graph = {
        **{
            key: value
            for key, value in declared().items()
            if key not in ("rows", "columns", "unit")
        },
        "unit": {"edge": {"source": "a", "target": "b", "k": 1, "nodes": ["an n", "bo"]}},
        "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}},
        "release": {"epsilon": 1, "statistics": ["algebraic_connectivity"]},
    }
    error = refused(lambda: dp.plan(graph, statistics=["degree"]), "DPR133")
    statistic = yaml.safe_load((error.fix or "").removeprefix("write e.g. "))
    assert dp.plan(graph, statistics=[statistic], epsilon=1).statistics


@pytest.mark.parametrize("column", ["k", "at", "x"])
def test_what_is_no_condition_is_compared(column: str) -> None:
    error = refused(lambda: dp.plan(declared(), statistics=[f"proportion({column})"]), "DPR127")
    [condition] = re.findall("`(.*)`", error.fix or "")
    assert dp.plan(declared(), statistics=[f"proportion({condition})"]).statistics


def test_what_true_and_false_have_no_limits_for_is_told_the_share() -> None:
    schema = declared(columns={"ok": {"kind": "boolean"}})
    asked = {"statistic": "mean(ok)", "winsorize": 0.1}
    error = refused(lambda: dp.plan(schema, statistics=[asked]), "DPR133")
    [share] = re.findall('"(.*)"', error.fix or "")
    assert dp.plan(schema, statistics=[share]).statistics


def test_a_mean_of_a_time_is_told_a_part_of_it() -> None:
    error = refused(lambda: dp.plan(declared(), statistics=["mean(at)"]), "DPR133")
    [line] = re.findall("`(.*?)`", error.fix or "")
    assert dp.plan(declared(columns=yaml.safe_load(line)), statistics=["mean(month)"]).statistics


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM (SELECT t.who AS who,\n t.x AS x FROM t WHERE t.x > 2) AS s",
        "WITH s AS (SELECT t.who AS who,\n t.x AS x FROM t WHERE t.x > 2) SELECT COUNT(*) FROM s",
    ],
)
def test_a_subquery_is_told_the_source_of_a_pipeline(sql: str, tmp_path: Path) -> None:
    error = refused(lambda: dp.sql(sql, declared(), t=FRAME), "DPR252")
    _, _, pasted = (error.fix or "").partition("with\n")
    FRAME.to_parquet(tmp_path / "t.parquet")
    columns = {name: COLUMNS[name] for name in ("who", "x")}
    schema = {**declared({"statistics": ["count"]}), "columns": columns}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(schema))
    file = tmp_path / "p.yaml"
    file.write_text(
        f"dprelease: pipeline/1\nname: p\n{pasted.replace('FILE', 't.parquet')}\nschema: s.yaml\n"
        "budget: {ledger: l.db, dataset: t, epsilon: 60}\npublish: {to: public, formats: [csv]}\n"
    )
    (tmp_path / ".dprelease").mkdir()
    for command in (["ledger", "init", str(file)], ["run", str(file), "--period", "one"]):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    csv = tmp_path / "public" / "p" / "one" / "data.csv"
    table = pd.read_csv(csv)
    assert table["value"].tolist() == [6]


@pytest.mark.parametrize("key", ["step", "range"])
def test_a_key_of_the_domain_is_put_into_it(key: str) -> None:
    value: Any = {"step": 5, "range": [0, 100]}[key]
    item = {"statistic": "count", key: value}
    error = refused(lambda: dp.plan(declared({"statistics": [item]})), "DPR110")
    [option] = re.findall(r"`(domain: .*)`", error.fix or "")
    mended = {"statistic": "count", **yaml.safe_load(option)}
    assert dp.plan(declared({"statistics": [mended]})).statistics[0].domain is not None


def test_the_key_that_a_fix_for_tables_names_is_one() -> None:
    tables = [
        {"name": "all", "by": [], "statistics": [{"statistic": "sum(x)", "domain": {"step": 5}}]},
        {"name": "k", "by": ["k"], "statistics": ["sum(x)"]},
    ]
    error = refused(lambda: dp.plan(declared(), tables=tables), "DPR292")
    assert "leave `step` out of the statistic's `domain`" in (error.fix or "")
    tables[0]["statistics"] = ["sum(x)"]
    assert dp.plan(declared(), tables=tables).hash


@pytest.mark.parametrize(
    "refuse",
    ["AVG(x > 2)", "COUNT(x)", "COUNT_IF(x > 2)", "SUM(x > 2)"],
)
def test_the_item_that_a_select_is_told_to_write_is_read(refuse: str) -> None:
    asked = f"SELECT {refuse} FROM t"
    with pytest.raises(DpreleaseError) as caught:
        dp.sql(asked, declared(), t=FRAME)
    found = re.findall(r"COUNT\(\*\) FILTER \(.*?\)", caught.value.fix or "")
    item = found[0].replace("condition", "x > 2").replace("column", "x")
    number = 12 if "NULL" in item else 6
    assert dp.sql(f"SELECT {item} FROM t", declared(), t=FRAME).table["value"].to_pylist() == [
        number
    ]


# --- keys


def test_the_line_for_a_key_works_as_it_stands() -> None:
    schema = declared({"by": ["m"], "statistics": ["count"]})
    error = refused(lambda: dp.plan(schema), "DPR136")
    [line] = re.findall(r"declare `(.*)` with all", error.fix or "")
    [(key, column)] = yaml.safe_load(f"{{{line}}}").items()
    mended = declared({"by": [key], "statistics": ["count"]}, columns={key: column})
    assert values(FRAME, mended) == [1] * 12


def test_the_part_of_a_date_that_a_fix_names_is_a_key() -> None:
    error = refused(lambda: dp.plan(declared({"by": ["at"], "statistics": ["count"]})), "DPR136")
    [part] = re.findall(r"`(.*)`", error.fix or "")
    for key in (part, "month"):
        columns = {"month": {"kind": "integer", "from": "month(at)", "range": [1, 12]}}
        schema = declared({"by": [key], "statistics": ["count"]}, columns=columns)
        assert values(FRAME, schema) == [1] * 12
    refused(lambda: dp.plan(declared({"by": ["minute(at)"], "statistics": ["count"]})), "DPR136")


def test_a_part_of_a_date_whose_name_has_blanks_is_told_the_quotes() -> None:
    schema = declared(columns={"seen at": {"kind": "timestamp"}})
    frame = FRAME.rename(columns={"at": "seen at"}).assign(at=FRAME["at"])
    error = refused(lambda: dp.plan(schema, by=["month(seen at)"], statistics=["count"]), "DPR136")
    [key] = re.findall("`(.*)`", error.fix or "")
    assert values(frame, schema, by=[key], statistics=["count"]) == [1] * 12


@pytest.mark.parametrize(
    ("key", "meant"),
    [("at.dt.month", "month(at)"), ("at.quarter", "quarter(at)"), ("DayOfWeek(at)", "weekday(at)")],
)
def test_a_part_of_a_date_as_other_programs_write_it_is_told_ours(key: str, meant: str) -> None:
    error = refused(lambda: dp.plan(declared(), by=[key], statistics=["count"]), "DPR136")
    assert error.fix == f"did you mean `{meant}`?"
    assert values(FRAME, declared(), by=[meant], statistics=["count"])


@pytest.mark.parametrize("name", ["sem", "mad", "range"])
def test_a_statistic_that_there_is_not_is_not_taken_for_another(name: str) -> None:
    error = refused(lambda: dp.plan(declared(), statistics=[f"{name}(x)"]), "DPR131")
    assert (error.fix or "").startswith("available: ")


def test_a_day_is_not_told_that_it_has_an_hour() -> None:
    schema = declared(columns={"at": {"kind": "date"}})
    error = refused(lambda: dp.plan(schema, by=["hour(at)"], statistics=["count"]), "DPR136")
    assert (error.fix or "").endswith("or a timestamp's hour")


@pytest.mark.parametrize("key", ["decade(at)", "month(x)"])
def test_what_is_no_part_of_a_date_is_told_the_parts_and_not_another_one(key: str) -> None:
    error = refused(lambda: dp.plan(declared(), by=[key], statistics=["count"]), "DPR136")
    parts = (error.fix or "").removeprefix("group by a part of a date or timestamp: ").split(", ")
    assert {"year", "month", "weekday"} < {*parts}
    assert dp.plan(declared(), by=[f"{parts[2]}(at)"], statistics=["count"]).hash


def test_groups_that_derive_keeps_apart_are_named_as_a_shell_and_its_grammar_read_them() -> None:
    held = dp.release(FRAME, declared(), by=["month(at)"], statistics=["median(x)"])
    error = refused(lambda: held.derive("median_x", by=[]), "DPR663")
    [(option, one)] = re.findall(r"--by (.*); or name one of each: (.*)$", error.fix or "")
    assert shlex.split(option) == ["month(at)"]
    assert held.derive(one.replace("…", "01")).table.num_rows == 1


def test_a_number_outside_its_declared_keys_is_other_and_none_is_null() -> None:
    key = {"kind": "category", "from": "m - 1", "values": [0, 3], "other": {"as": "more"}}
    frame = FRAME.assign(m=[1, 4, 9, None, 4, 1, 1, 1, 1, 1, 1, 1])
    schema = declared({"by": ["key"], "statistics": ["count"]}, columns={"key": key})
    assert values(frame, schema) == [8, 2, 1]
    null: dict[str, Any] = {**key, "nulls": {"as": "none"}}
    schema = declared({"by": ["key"], "statistics": ["count"]}, columns={"key": null})
    assert values(frame, schema) == [8, 2, 1, 1]


def test_a_level_of_a_hierarchy_is_asked_for_in_tables() -> None:
    place = {"place": {"levels": ["region", "k"], "keys": [["north", "a"], ["south", "b"]]}}
    error = refused(lambda: dp.plan(declared({"by": ["region"]}, hierarchies=place)), "DPR122")
    [line] = re.findall(r"`tables: (.*)`", error.fix or "")
    tables = yaml.safe_load(line.replace("…", '"sum(x)"'))
    assert [s.name for s in dp.plan(declared(hierarchies=place), tables=tables).statistics]


@pytest.mark.parametrize("word", ["person", "patient", "customer", "id"])
def test_a_unit_in_other_words_is_told_the_key(word: str) -> None:
    unit = {word: "who", "max_groups": 1, "max_rows_per_group": 1}
    error = refused(lambda: dp.plan(declared(unit=unit)), "DPR110")
    [key] = re.findall(r"did you mean `(\w+)`", error.fix or "")
    assert dp.plan(declared(unit={key: "who", "max_groups": 1, "max_rows_per_group": 1})).hash


# --- frames


@pytest.mark.parametrize(("name", "stored"), [("AGE", "age"), ("Id", "ID"), ("k2", "K2")])
def test_a_column_in_another_case_is_named(name: str, stored: str) -> None:
    schema = declared({"statistics": [f"sum({name})"]}, columns={name: COLUMNS["x"]})
    error = refused(lambda: dp.release(FRAME.rename(columns={"x": stored}), schema), "DPR503")
    assert f"did you mean {stored!r}" in (error.fix or "")
    assert nearest(name, [stored]) == stored


def test_a_column_with_a_blank_in_its_name_is_written_so_wherever_it_is_named() -> None:
    """Written so under `columns` alone, it was the release that named an unknown column."""
    frame = FRAME.rename(columns={"k": " k"})
    release = {"by": ["k"], "statistics": ["count"]}
    error = refused(lambda: dp.release(frame, declared(release)), "DPR503")
    assert error.fix == (
        "did you mean ' k'? Rename it in the source, or write it so wherever the schema names it"
    )
    renamed = frame.rename(columns={" k": "k"})
    columns = {" k": {"kind": "category", "values": list(FRAME["k"].unique())}}
    written = declared({**release, "by": [" k"]}, columns=columns)
    assert values(frame, written) == values(renamed, declared(release))


LABELS: list[tuple[str, Any, str]] = [  # a label, cells of a type that never holds it, how it is spelt there
    ("01", pd.array([1, 2]), "1"),
    ("+1", pd.array([1, 2]), "1"),
    ("1e3", pd.array([1000, 2]), "1000"),
    ("-0", np.array([0.0, 2.5]), "0"),
    ("-0.0", np.array([-0.0, 2.5]), "0"),
    ("1E+3", np.array([1000, 2.5]), "1000"),
    ("10000000000000000", np.array([1e16, 2.5]), "1e+16"),
    ("2,5", np.array([1e16, 2.5]), "2.5"),
    ("2024-01-02T10:00:00", pd.to_datetime(["2024-01-02 10:00", "2024-01-03 00:30"]), "2024-01-02 10:00:00"),
    ("2024-01-02T10:00:00Z", pd.to_datetime(["2024-01-02 10:00Z", "2024-01-03 00:30Z"]), "2024-01-02 10:00:00+00"),
]  # fmt: skip


@pytest.mark.parametrize(("label", "cells", "right"), LABELS)
def test_the_spelling_of_a_label_that_no_cell_can_be_is_named(
    label: str, cells: Any, right: str
) -> None:
    def schema(value: str) -> dict[str, Any]:
        by = {"by": ["k"], "statistics": ["count"]}
        return declared(by, columns={"k": {"kind": "category", "values": [value]}})

    frame = pd.DataFrame({"k": cells})
    error = refused(lambda: dp.release(frame, schema(label)), "DPR504")
    [spelling] = re.findall(r"declare '(.*?)'", error.fix or "")
    assert spelling == right
    assert values(frame, schema(spelling)) == [1]


def test_a_header_whose_names_no_usual_sign_parts_names_the_sign(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    for sign in ":~/":
        path.write_text(f"k{sign}x\na{sign}1\nb{sign}3\n")
        error = refused(
            lambda: dp.release(str(path), declared({"statistics": ["sum(x)"]})), "DPR503"
        )
        [said] = re.findall(r'delimiter: "(.)"', error.fix or "")
        source = {"csv": {"path": str(path), "delimiter": said, "decimal": "."}}
        assert values(source, declared()) == [4]


def test_a_source_without_the_column_shows_what_it_has_and_no_impossible_sign(
    tmp_path: Path,
) -> None:
    path = tmp_path / "f.csv"
    for text, shown in {
        "sep=,\nk,x\n": "'sep=', ''",
        "# made by us\nk,x\n": "'# made by us'",
        "k-x\na-1\n": "'k-x'",
        "k；x\na；1\n": "'k；x'",
    }.items():
        path.write_text(text)
        source = {"csv": {"path": str(path), "decimal": "."}}
        error = refused(lambda source=source: dp.release(source, declared()), "DPR503")
        assert error.fix == f"its columns: {shown}"
    path.write_text("k\tx\na\t1\n")
    source = {"csv": {"path": str(path), "delimiter": ";", "decimal": "."}}
    error = refused(lambda: dp.release(source, declared()), "DPR503")
    [said] = re.findall(r"`csv: (.*)`", error.fix or "")
    source["csv"] |= {"delimiter": yaml.safe_load(said)["delimiter"]}
    assert values(source, declared()) == [1]


def test_a_statistic_that_forbids_is_told_where() -> None:
    for key in ("forbid", "forbidden"):
        item = {"statistic": "sum(x)", key: [[1, 2]]}
        error = refused(lambda: dp.plan(declared({"statistics": [item]})), "DPR110")  # noqa: B023
        domain = yaml.safe_load("{" + (error.fix or "").partition("`")[2].rpartition("`")[0] + "}")
        assert domain == {"domain": {"forbidden": [[1, 2]]}}
    column = {**COLUMNS["x"], "forbid": [[1, 2]]}
    error = refused(lambda: dp.plan(declared(columns={"x": column})), "DPR110")
    assert "did you mean `forbidden`" in (error.fix or "")


@pytest.mark.parametrize("view", ["v.x AS x FROM v WHERE v.n > 5", "v.x * 0 + v.n AS x FROM v"])
def test_a_view_over_a_csv_file_declares_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    path = _project(tmp_path)
    (tmp_path / "data" / "t.csv").write_text("k,n,x\na,7,4\na,3,5\n" * 3)
    text = path.read_text().replace("{csv: ../data/t.csv}", f'{{view: "SELECT v.k AS k, {view}", tables: {{v: {{csv: ../data/t.csv}}}}}}')  # fmt: skip
    path.write_text(text)
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["ledger", "init", str(path)]).exit_code == 0
    error = refused(lambda: dp.run(path), "DPR123")
    [fix] = re.findall(r"`(NAME: .*?)`", error.fix or "")
    schema = tmp_path / "schemas" / "t.yaml"
    said = yaml.safe_load(schema.read_text())
    said["columns"].update(yaml.safe_load(fix.replace("NAME", "n")))
    schema.write_text(yaml.safe_dump(said))
    assert dp.run(path).folder.is_dir()


def _followed(frame: pd.DataFrame, error: DpreleaseError) -> pd.DataFrame:
    """Run the Python that a fix holds."""
    said = error.fix or ""
    [code] = re.findall(r"(frame\.columns = .*), and declare|pass (frame\.\S+\(\))", said)
    there = {"frame": frame.copy()}
    if code[0]:
        exec(code[0], there)
        return there["frame"]
    return eval(code[1], there)


def test_an_index_several_levels_and_numbers_as_labels_are_named() -> None:
    error = refused(lambda: dp.release(FRAME.set_index("x"), declared()), "DPR503")
    assert values(_followed(FRAME.set_index("x"), error), declared()) == [24]

    deep = FRAME[["k", "x"]].set_axis(
        pd.MultiIndex.from_tuples([("a", "k"), ("b", "x")]), axis="columns"
    )
    error = refused(lambda: dp.release(deep, declared()), "DPR503")
    schema = declared({"statistics": ["sum(b_x)"]}, columns={"b_x": COLUMNS["x"]})
    assert values(_followed(deep, error), schema) == [24]

    plain = pd.DataFrame(np.ones((4, 2)))
    schema = declared({"statistics": ['sum("1")']}, columns={"1": COLUMNS["x"]})
    error = refused(lambda: dp.release(plain, schema), "DPR503")
    assert values(_followed(plain, error), schema) == [4]


@pytest.mark.parametrize("door", ["argument", "accessor"])
def test_a_column_or_a_groupby_is_told_to_pass_its_frame(door: str) -> None:
    for part in (FRAME["x"], FRAME.groupby("k"), FRAME.groupby("k")["x"]):
        error = refused(
            (lambda: part.dp.release(declared()))  # noqa: B023
            if door == "accessor"
            else (lambda: dp.release(part, declared())),  # noqa: B023
            "DPR500",
        )
        assert "pass the DataFrame that it comes from" in (error.fix or "")
        assert "to_frame" not in (error.fix or "")  # the schema's other columns would be missing
        assert not hasattr(part.dp, "_repr_html_")
        assert not hasattr(part.dp, "no_such_method")
    said = {}
    for keys in ("k", ["k", "x"], ["secret"] * len(FRAME), FRAME["k"], lambda _: "secret"):
        error = refused(lambda: dp.release(FRAME.groupby(keys), declared()), "DPR500")  # noqa: B023
        assert "secret" not in str(error)  # a list may hold values of rows
        said[str(keys)] = error.fix.rpartition("`by=")[2]
    assert list(said.values()) == ["['k']`", "['k', 'x']`", "[...]`", "[...]`", "[...]`"]
    assert values(FRAME, declared({"statistics": ["count"]}), by=["k"]) == [6, 6]


def test_an_array_of_one_number_is_that_number() -> None:
    assert dp.plan(declared(), epsilon=np.array(2.0)).hash == dp.plan(declared(), epsilon=2).hash
    refused(lambda: dp.plan(declared(), epsilon=np.array([2.0])), "DPR113")  # type: ignore[arg-type]


# --- the ledger's place


def test_each_place_that_is_no_ledger_has_words_of_its_own(tmp_path: Path, ledger: Path) -> None:
    link, empty, other, text = (
        tmp_path / n for n in ("link.db", "empty.db", "other.db", "notes.txt")
    )
    link.symlink_to(ledger)
    empty.touch()
    text.write_text("not a ledger" * 20)
    db = sqlite3.connect(other)
    db.execute("CREATE TABLE t (x)")
    db.commit()
    db.close()
    before = other.read_bytes()

    def opened(place: Path) -> DpreleaseError:
        return refused(lambda: dp.release(FRAME, declared(), ledger=place, period="p"), "DPR403")

    assert opened(tmp_path).what.endswith("is a folder")
    assert opened(text).what.endswith("is a file of another kind")
    assert opened(other).what.endswith("is a database of another program")
    assert other.read_bytes() == before
    for place in (link, empty, tmp_path, other, text):
        refused(lambda: dp.create_ledger(place, declared(), epsilon=1), "DPR403")  # noqa: B023

    error = opened(link)
    [named] = re.findall(r"name the file itself: (.*)", error.fix or "")
    assert dp.release(FRAME, declared(), ledger=named, period="p").receipt
    assert opened(empty).what.endswith("is an empty file")
    empty.unlink()  # "if none ever was, remove the file, then `dprelease ledger init`"
    assert dp.create_ledger(empty, declared(), epsilon=100).is_file()
    assert dp.release(FRAME, declared(), ledger=empty, period="p").receipt


def test_another_plan_under_one_key_is_told_line_by_line(tmp_path: Path, ledger: Path) -> None:
    first = dp.release(FRAME, declared(), ledger=ledger, period="p")
    wider = declared(
        title="Words are no part of a plan",
        columns={"x": {"kind": "number", "range": [0, 20], "step": 1}},
    )

    def said(schema: dict[str, Any], **more: Any) -> list[str]:
        error = refused(
            lambda: dp.release(FRAME, schema, ledger=ledger, period="p", **more), "DPR410"
        )
        assert "dprelease supersede FOLDER --by OTHER" in (error.fix or "")
        assert "dprelease withdraw FOLDER" in (error.fix or "")
        return [line.strip() for line in (error.why or "").splitlines()]

    for where in ("in the debit", "in the published release"):
        lines = said(declared(), epsilon=2, where="x > 1", by=["k"])
        assert lines[0] == f"{where} (recorded) and here (asked)"
        assert sorted(lines[1:]) == [
            "release.by: not recorded, asked k",
            "release.epsilon: recorded 60, asked 2",
            "release.where: not recorded, asked x > 1",
        ]
        assert said(wider)[1:] == ["schema.columns.x.range: recorded [0, 10], asked [0, 20]"]
        folder = first.publish(tmp_path / "public")
    # a request of more text than a debit keeps: two hashes are all that is known
    long = declared(
        columns={
            "k": {"kind": "category", "values": [f"a label of a long list {i}" for i in range(999)]}
        }
    )
    dp.release(FRAME, long, ledger=ledger, period="long")
    error = refused(
        lambda: dp.release(FRAME, long, ledger=ledger, period="long", epsilon=2), "DPR410"
    )
    assert re.fullmatch(r"recorded [0-9a-f]{64}, asked [0-9a-f]{64}", error.why or "")
    # "record a correction: `dprelease supersede FOLDER --by OTHER …`"
    other = dp.release(FRAME, declared(), ledger=ledger, period="p2", epsilon=2)
    newer = other.publish(tmp_path / "public")
    done = CliRunner().invoke(
        app, ["supersede", str(folder), "--by", str(newer), "--reason", "wrong epsilon"]
    )
    assert done.exit_code == 0, done.output


# --- files


def _project(folder: Path) -> Path:
    """A pipeline whose files lie in sibling folders, and nothing that marks a root."""
    for name in ("pipelines", "schemas", "data"):
        (folder / name).mkdir()
    FRAME[["k", "x"]].to_csv(folder / "data" / "t.csv", index=False)
    schema = {**declared(), "columns": {n: COLUMNS[n] for n in ("k", "x")}}
    (folder / "schemas" / "t.yaml").write_text(yaml.safe_dump(schema))
    path = folder / "pipelines" / "p.yaml"
    path.write_text(
        "dprelease: pipeline/1\nname: p\nsource: {csv: ../data/t.csv}\nschema: ../schemas/t.yaml\n"
        "budget: {ledger: ../ledger.db, dataset: t, epsilon: 60}\npublish: {to: ../public}\n"
    )
    return path


def test_a_project_without_a_mark_lies_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _project(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    said = run.invoke(app, ["plan", "pipelines/p.yaml"])
    assert said.exit_code == 0, said.output
    assert said.stderr.count("project root:") == 1
    for command in (["ledger", "init"], ["run"], ["ledger", "show"]):
        done = run.invoke(app, [*command, "pipelines/p.yaml"])
        assert done.exit_code == 0, done.output
        assert done.stderr.count("project root:") == 1, command
    assert run.invoke(app, ["verify", "public/p/once"]).exit_code == 0

    monkeypatch.chdir(tmp_path / "pipelines")  # `..` lies outside: the fix says where to start
    said = run.invoke(app, ["plan", "p.yaml"])
    assert (said.exit_code, "DPR116" in said.output) == (2, True)
    command = re.findall("`(mkdir .*?)`", said.output.replace("\n", " "))[-1]
    assert shlex.split(command) == ["mkdir", str(tmp_path / ".dprelease")]
    (tmp_path / ".dprelease").mkdir()
    assert run.invoke(app, ["plan", "p.yaml"]).exit_code == 0
    shutil.rmtree(tmp_path / ".dprelease")
    monkeypatch.chdir("/")  # the whole machine is no project
    assert run.invoke(app, ["plan", str(tmp_path / "pipelines" / "p.yaml")]).exit_code == 2


def test_a_file_of_the_other_kind_is_told_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _project(tmp_path)
    monkeypatch.chdir(tmp_path)
    run = CliRunner()
    said = run.invoke(app, ["schema", "check", "pipelines/p.yaml"])
    assert (said.exit_code, "this file is a pipeline, not a schema" in said.output) == (2, True)
    [command] = re.findall(r"`dprelease (plan .*?)`", said.output)
    assert run.invoke(app, command.split()).exit_code == 0
    said = run.invoke(app, ["plan", "schemas/t.yaml"])
    assert (said.exit_code, "this file is a schema, not a pipeline" in said.output) == (2, True)
    [command] = re.findall(r"`dprelease (schema check .*?)`", said.output)
    assert run.invoke(app, command.split()).exit_code == 0


def test_a_ledger_named_as_a_pipeline_is_told_its_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dp.create_ledger("l.db", declared(), epsilon=10)
    pd.DataFrame({"x": [1]}).to_parquet("p.parquet")
    run = CliRunner()
    for words in (["ledger", "show"], ["ledger", "verify"], ["plan"], ["schema", "check"]):
        said = run.invoke(app, [*words, "l.db"])
        assert (said.exit_code, "UTF-8" in said.output) == (2, False), said.output
        [command] = re.findall(r"`dprelease (ledger show .*?)`", said.output)
        assert run.invoke(app, command.split()).exit_code == 0
    said = run.invoke(app, ["plan", "p.parquet"])
    assert "name a pipeline or a schema" in said.output


def test_a_folder_for_a_file_names_a_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "b.yml").write_text("dprelease: schema/1\n")
    (tmp_path / "a.csv").write_text("x\n")
    error = refused(lambda: dp.plan(tmp_path), "DPR101")
    assert error.fix == f"name the file in it, e.g. {tmp_path / 'b.yml'}"
    assert "clinic.yaml" in (refused(lambda: dp.plan(tmp_path.parent), "DPR101").fix or "")


def test_a_ledger_that_cannot_be_written_or_read_names_commands_that_work(tmp_path: Path) -> None:
    place = tmp_path / "my l.db"
    dp.create_ledger(place, declared(), epsilon=10)
    fixes = [
        storage_error(place, "SQLite reported SQLITE_FULL", committing=False, debited=False).fix
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_only, "is_read_only", lambda _: True)
        fixes.append(refused(lambda: read_only.must_be_writable(place), "DPR402").fix)
    commands = [c for fix in fixes for c in re.findall(r"`dprelease (ledger .*?)`", fix or "")]
    assert len(commands) == 3
    for command in commands:
        assert CliRunner().invoke(app, shlex.split(command)).exit_code == 0, command


@pytest.mark.parametrize("missing", [pd.NA, pd.NaT, float("nan"), b"p", ()])
@pytest.mark.parametrize("name", ["period", "dataset"])
def test_a_name_that_is_missing_is_refused_as_no_text(
    ledger: Path, name: str, missing: Any
) -> None:
    error = refused(
        lambda: dp.release(FRAME, declared(), ledger=ledger, **{name: missing}), "DPR150"
    )
    assert "not a text" in error.what
    dp.release(FRAME, declared(), ledger=ledger)  # without it


def test_a_relation_whose_connection_was_closed_is_told_so() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 'a' AS k, 1.0 AS x")
    relation = connection.table("t")
    dp.release(relation, declared())
    connection.close()
    assert "connection was closed" in str(
        refused(lambda: dp.release(relation, declared()), "DPR502")
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_given_for_a_schema_is_told_the_command_that_drafts_one(
    tmp_path: Path, ending: str
) -> None:
    table = tmp_path / f"my table.{ending}"
    FRAME.to_csv(table) if ending == "csv" else FRAME.to_parquet(table)
    error = refused(lambda: dp.plan(table), "DPR102")
    [command] = re.findall("`dprelease (schema draft .*?)`", error.fix or "")
    drafted = CliRunner().invoke(app, [*shlex.split(command), "-o", str(tmp_path / "draft.yaml")])
    assert drafted.exit_code == 0, drafted.output


def test_a_draft_without_answers_is_told_to_answer(tmp_path: Path) -> None:
    draft = dp.draft_schema(FRAME[["k"]])
    (tmp_path / "draft.yaml").write_text(str(draft), encoding="utf-8")
    error = refused(lambda: dp.plan(tmp_path / "draft.yaml"), "DPR112")
    assert "answer the lines that begin with `# ANSWER`" in (error.fix or "")
