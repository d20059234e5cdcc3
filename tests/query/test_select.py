"""The SQL door: one plan and one hash with the YAML form, and refusals that point."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import ConfigError, DpreleaseError, PlanError
from dprelease.query.load import load_schema, schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.select import parse_select
from dprelease.schema.table import TableSchema
from tests.sizes import whole

BASE: dict[str, Any] = {
    "dprelease": "schema/1",
    "name": "visits",
    "unit": {"user": "pid", "max_groups": 1, "max_rows_per_group": 2},
    "adjacency": "add_remove",
    "rows": {"max": 1000},
    "columns": {
        "pid": {"kind": "identifier"},
        "region": {"kind": "category", "values": ["n", "s"]},
        "age": {"kind": "integer", "range": [0, 120]},
        "my bmi": {"kind": "number", "range": [10, 80], "step": 1},
        "smoker": {"kind": "boolean"},
    },
    "release": {"epsilon": 5},
}
SQL = """SELECT v.region, COUNT(*) AS n, -- rows
       COUNT(DISTINCT pid), AVG(v.age), VAR_POP("my bmi") v2
FROM visits AS v WHERE v.age >= 18 /* adults */ AND region IN ('n', 's') GROUP BY region;"""
BLOCK: dict[str, Any] = {
    "by": ["region"],
    "where": "age>=18 and region in ('n','s')",
    "statistics": [
        {"statistic": "count", "as": "n"},
        "count(persons)",
        "mean(age)",
        {"statistic": 'variance("my bmi")', "as": "v2"},
    ],
}


def schema(**release: Any) -> TableSchema:
    return schema_from_dict({**BASE, "release": {**BASE["release"], **release}})


def statistics(item: str) -> list[Any]:
    found = parse_select(f"SELECT {item} FROM visits", schema()).block["statistics"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ("count(*)", "count"),
        ("COUNT()", "count"),
        ("COUNT(1)", "count"),
        ("COUNT(DISTINCT pid)", "count(persons)"),
        ("COUNT(DISTINCT v.region)", "count_distinct(region)"),
        ("COUNT_DISTINCT(region)", "count_distinct(region)"),
        ("SUM(age)", "sum(age)"),
        ('Avg("age")', "mean(age)"),
        ("MIN(age)", "min(age)"),
        ("MAX(age)", "max(age)"),
        ("MEDIAN(age)", "median(age)"),
        ('VAR_POP("my bmi")', 'variance("my bmi")'),
        ("STDDEV_POP(age)", "std(age)"),
        ("QUANTILE_DISC(age, 0.9)", "quantile(age, 0.9)"),
        ("PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY v.age ASC)", "quantile(age, 0.9)"),
        ('COVAR_POP(age, "my bmi")', 'covariance(age, "my bmi")'),
        ("CORR(a, b)", "correlation(a, b)"),
        ("PROPORTION(v.age > 65)", "proportion(age > 65)"),
        ("AVG(CAST(age > 65 AS INT))", "proportion(age > 65)"),
        ("AVG(CASE WHEN age > 65 THEN 1 ELSE 0 END)", "proportion(coalesce(age > 65, false))"),
        ("AVG(CASE WHEN (a, 1) THEN 1.0 ELSE 0.0 END)", "proportion(coalesce((a, 1), false))"),
        ("HISTOGRAM(age, [0, 18, 65])", "histogram(age, [0, 18, 65])"),
        ("EIGENVALUES(a, b, c)", "eigenvalues(a, b, c)"),
        ("COUNT(*) FILTER (WHERE v.age > 65)", "count where age > 65"),
        ("SUM(age) FILTER (WHERE smoker)", "sum(age) where smoker"),
    ],
)
def test_a_select_item_becomes_the_statistic_that_it_asks_for(item: str, text: str) -> None:
    found = parse_select(f"SELECT {item}, {item} AS b FROM visits v", schema()).block
    assert [" ".join(str(s).split()) for s in found["statistics"]][:1] == [text]  # type: ignore[attr-defined]


def test_a_distinct_count_of_the_unit_needs_a_user_unit() -> None:
    rows = schema_from_dict({**BASE, "unit": "row"})
    block = parse_select("SELECT COUNT(DISTINCT pid) FROM visits", rows).block
    assert block["statistics"] == ["count_distinct(pid)"]


def test_a_share_with_else_counts_unknown_rows_as_no() -> None:
    people = pd.DataFrame({"pid": range(4), "smoker": [True, None, None, None]})
    declared = schema()

    def primitives(item: str) -> Any:
        from dprelease.engines.duckdb import DuckDBEngine
        from dprelease.engines.source import as_source

        query = dp.plan(declared, **statistics_of(item)).query
        return DuckDBEngine().compute(as_source(people), query, b"").reveal_to_mechanism().sums

    def statistics_of(item: str) -> dict[str, Any]:
        return {
            "statistics": parse_select(f"SELECT {item} FROM visits", declared).block["statistics"]
        }

    assert primitives("AVG(CAST(smoker AS INT))").max() == 1
    assert primitives("AVG(CASE WHEN smoker THEN 1 ELSE 0 END)").max() == 4


def test_one_plan_and_one_hash_with_the_block_that_says_the_same(tmp_path: Path) -> None:
    asked = dp.plan(schema(**BLOCK))
    people = pd.DataFrame(
        {"pid": range(8), "region": ["n", "s"] * 4, "age": [30] * 8, "my bmi": [25.0] * 8}
    )
    assert dp.sql(SQL, BASE, visits=people).plan.hash == asked.hash
    assert dp.sql(SQL.replace("visits", "t"), BASE, t=people).plan == asked
    assert dp.plan(schema(sql=SQL)).hash == asked.hash
    file = tmp_path / "s.yaml"
    indented = SQL.replace("\n", "\n      ")
    head = "dprelease: schema/1\nname: visits\nunit: row\nadjacency: add_remove\ncolumns:\n"
    columns = '  age: {kind: integer, range: [0, 9]}\n  "my bmi": {kind: number, range: [0, 1]}\n'
    columns += "  region: {kind: category, values: [n, s]}\n  pid: {kind: identifier}\n"
    text = f"{head}{columns}release:\n  epsilon: 1\n  sql: |\n      {indented}\n"
    file.write_text(text.replace("VAR_POP", "SUM"), encoding="utf-8")
    release = load_schema(file).release
    assert release is not None
    assert [s.name for s in release.statistics] == ["n", "count_distinct_pid", "mean_age", "v2"]
    file.write_text(text.replace("VAR_POP", "VAR_SAMP"), encoding="utf-8")
    with pytest.raises(PlanError) as caught:
        load_schema(file)
    assert caught.value.where == f"{file}:12, line 2, column 41"


def test_sql_replaces_the_block_and_is_replaced_key_by_key() -> None:
    over = merge_release(schema(**BLOCK), {"sql": "SELECT SUM(age) FROM visits"})
    assert (over.by, over.where, [s.name for s in over.statistics]) == ((), None, ["sum_age"])
    under = merge_release(schema(sql=SQL), {"statistics": ["count"]})
    assert (under.by, under.where is None, len(under.statistics)) == (("region",), False, 1)
    with pytest.raises(ConfigError) as caught:
        schema(sql=SQL, by=["region"])
    assert caught.value.code == "DPR137"


def test_a_key_file_stays_only_with_its_columns(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "keys.csv").write_text("region\nn\n")
    listed = schema(by=["region"], statistics=["count"], keys_from="keys.csv")
    same = merge_release(listed, {"sql": "SELECT COUNT(*) FROM visits GROUP BY region"})
    assert same.keys_from == (("n",),)
    assert merge_release(listed, {"sql": "SELECT COUNT(*) FROM visits"}).keys_from is None


FAULTS = {
    "": ("DPR250", 1),
    "WITH a AS (SELECT 1) SELECT 1": ("DPR252", 11),
    "INSERT INTO visits VALUES (1)": ("DPR250", 1),
    "SELECT * FROM visits": ("DPR250", 8),
    "SELECT DISTINCT region FROM visits": ("DPR250", 8),
    "SELECT": ("DPR252", 7),
    "SELECT COUNT(*)": ("DPR252", 16),
    "SELECT COUNT(*) FROM (SELECT 1)": ("DPR252", 22),
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')": ("DPR252", 22),
    "SELECT COUNT(*) FROM '/etc/passwd'": ("DPR252", 22),
    "SELECT COUNT(*) FROM s.visits": ("DPR252", 22),
    "SELECT COUNT(*) FROM visits v, other": ("DPR252", 30),
    "SELECT COUNT(*) FROM visits JOIN b ON true": ("DPR252", 29),
    "SELECT COUNT(*) FROM visit": ("DPR252", 22),
    "SELECT AVG(age) / 2 FROM visits": ("DPR256", 17),
    "SELECT 1 + COUNT(*) FROM visits": ("DPR253", 8),
    "SELECT (SELECT 1) FROM visits": ("DPR253", 8),
    "SELECT CASE WHEN 1 THEN 2 END FROM visits": ("DPR253", 8),
    "SELECT VAR_SAMP(age) FROM visits": ("DPR257", 8),
    "SELECT VARIANCE(age) FROM visits": ("DPR257", 8),
    "SELECT QUANTILE_CONT(age, 0.5) FROM visits": ("DPR257", 8),
    "SELECT read_text('/etc/passwd') FROM visits": ("DPR257", 8),
    "SELECT COUNT(*) FILTER (smoker) FROM visits": ("DPR253", 17),
    "SELECT COUNT(*) FILTER (WHERE) FROM visits": ("DPR253", 17),
    "SELECT SUM(a) / SUM(b) FILTER (WHERE smoker) FROM visits": ("DPR253", 24),
    "SELECT COUNT(*) OVER () FROM visits": ("DPR253", 17),
    "SELECT region FROM visits GROUP BY region": ("DPR253", 8),
    "SELECT AVG(age * 2) FROM visits": ("DPR254", 12),
    "SELECT SUM(DISTINCT age) FROM visits": ("DPR254", 12),
    "SELECT COUNT(age) FROM visits": ("DPR254", 14),
    "SELECT AVG(age, age) FROM visits": ("DPR254", 8),
    "SELECT QUANTILE_DISC(age, age) FROM visits": ("DPR254", 27),
    "SELECT PERCENTILE_DISC(0.1) FROM visits": ("DPR254", 29),
    "SELECT PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY age DESC) FROM visits": ("DPR254", 52),
    "SELECT AVG(CASE WHEN smoker THEN 2 ELSE 0 END) FROM visits": ("DPR254", 12),
    "SELECT AVG(CASE WHEN smoker THEN 1 WHEN age > 3 THEN 1 ELSE 0 END) FROM visits": (
        "DPR254",
        12,
    ),
    "SELECT age, COUNT(*) FROM visits": ("DPR255", 8),
    "SELECT region AS r, COUNT(*) FROM visits GROUP BY region": ("DPR255", 15),
    "SELECT COUNT(*) FROM visits GROUP BY 1": ("DPR255", 38),
    "SELECT COUNT(*) FROM visits GROUP BY ALL": ("DPR255", 38),
    "SELECT COUNT(*) FROM visits HAVING COUNT(*) > 3": ("DPR251", 29),
    "SELECT COUNT(*) FROM visits ORDER BY 1": ("DPR251", 29),
    "SELECT COUNT(*) FROM visits WHERE smoker LIMIT 3": ("DPR251", 42),
    "SELECT COUNT(*) FROM visits UNION SELECT 1": ("DPR251", 29),
    "SELECT COUNT(*) FROM visits; DROP TABLE visits": ("DPR251", 28),
    "SELECT 'abc FROM visits": ("DPR120", 0),
    "SELECT AVG(agge) FROM visits": ("DPR122", 8),
    "SELECT COUNT(*) FROM visits WHERE agee > 1": ("DPR122", 35),
    "SELECT COUNT(*) FROM visits WHERE age > (SELECT 1)": ("DPR122", 35),
    "SELECT COUNT(*) FROM visits WHERE": ("DPR120", 34),
    "SELECT COUNT(*) FROM visits GROUP BY age": ("DPR136", 38),
    "SELECT COUNT(*) FROM visits GROUP BY region, sex LIMIT 1, 2": ("DPR251", 50),
    "SELECT COUNT(*) FROM visits GROUP region": ("DPR251", 29),
    "SELECT COUNT(*) FROM visits GROUP BY DISTINCT region": ("DPR255", 38),
    "SELECT COUNT(*) FROM visits GROUP BY region,": ("DPR255", 45),
    "SELECT COUNT(*) FROM visits AS": ("DPR251", 29),
    "SELECT COUNT(*) FROM visits v (age)": ("DPR251", 31),
    "SELECT COUNT(*) FROM ONLY visits": ("DPR252", 22),
    "SELECT COUNT(*) FROM visits TABLESAMPLE 10%": ("DPR251", 29),
    "SELECT ALL COUNT(*) FROM visits": ("DPR250", 8),
    "SELECT COUNT(*), FROM visits": ("DPR253", 18),
    "SELECT COUNT(*) AS FROM visits": ("DPR253", 20),
    "SELECT n: COUNT(*) FROM visits": ("DPR253", 9),
    "FROM visits SELECT COUNT(*)": ("DPR250", 1),
    'SELECT "count"(*) FROM visits': ("DPR253", 15),
    'SELECT COUNT("1") FROM visits': ("DPR254", 14),
    "SELECT SUM(ALL age) FROM visits": ("DPR254", 12),
    "SELECT AVG(CAST(age > 1 AS INT) ORDER BY age) FROM visits": ("DPR254", 12),
    "SELECT QUANTILE_DISC(age, 0.5 ORDER BY age) FROM visits": ("DPR254", 27),
    "SELECT PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY age NULLS LAST) FROM visits": (
        "DPR254",
        52,
    ),
    "SELECT COUNT(*) FROM visits v WHERE v.v.age > 1": ("DPR120", 37),
    "SELECT COUNT(*) FROM visits v WHERE 'v'.age > 1": ("DPR126", 37),
    "SELECT COUNT(* FROM visits": ("DPR120", 13),
    "SELECT COUNT(*)) FROM visits": ("DPR120", 16),
    "SELECT HISTOGRAM(age, [1, 2)] FROM visits": ("DPR120", 28),
    "(" * 60_000: ("DPR120", 60_000),
}


@pytest.mark.parametrize("sql", FAULTS, ids=lambda sql: sql[:60])
def test_everything_else_is_refused_where_it_stands(sql: str) -> None:
    code, column = FAULTS[sql]
    with pytest.raises(DpreleaseError) as caught:
        merge_release(schema(), {"sql": sql})
    assert caught.value.code == code
    assert caught.value.fix
    assert (caught.value.where or "").startswith(
        f"SQL, line 1, column {column}" if column else "SQL"
    )


@pytest.mark.parametrize("by", ["date_trunc('month', day)", "EXTRACT(MONTH FROM day)"])
def test_a_month_in_another_dialect_is_told_how_it_is_written(by: str) -> None:
    for sql in (f"SELECT {by}, COUNT(*) FROM visits GROUP BY {by}", f"SELECT COUNT(*) FROM visits GROUP BY {by}"):  # fmt: skip
        with pytest.raises(PlanError) as caught:
            merge_release(schema(), {"sql": sql})
        assert "MONTH(c)" in str(caught.value.fix)


def test_exactly_one_table_under_its_name() -> None:
    frame = pd.DataFrame({"age": [1]})
    for tables in ({}, {"visits": frame, "others": frame}):
        with pytest.raises(dp.errors.ArgumentError) as caught:
            dp.sql("SELECT COUNT(*) FROM visits", BASE, **tables)  # type: ignore[arg-type]
        assert caught.value.code == "DPR638"
    with pytest.raises(PlanError, match="the table is called `people`"):
        dp.sql("SELECT COUNT(*) FROM visits", BASE, people=frame)


def test_fuzz_never_raises_anything_else() -> None:
    pieces = [
        *SQL.split(),
        "(",
        ")",
        ",",
        "'",
        '"',
        "FROM",
        "WHERE",
        ".",
        "*",
        "CASE",
        "--",
        "/*",
        "é",
        ";",
        "$1",
    ]
    accepted = 0
    for seed in range(whole(500, 1500)):
        rng = random.Random(seed)
        words = SQL.replace("-- rows", "").split()
        for _ in range(rng.randint(0, 3)):
            words[rng.randrange(len(words))] = rng.choice(pieces)
        try:
            merge_release(schema(), {"sql": " ".join(words)})
            accepted += 1
        except (PlanError, ConfigError):
            continue
    assert accepted > 100
