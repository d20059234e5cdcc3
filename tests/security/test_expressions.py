"""Generated filters: only ConfigError comes out, one SELECT goes in, and both readings agree.

Texts are built from the grammar, mostly well typed, and from token soup. What parses becomes SQL in
which no constant of the text appears; DuckDB sees one SELECT, runs it on any row without raising,
and gives the value of the plain evaluation.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from dprelease.core.errors import ConfigError, DpreleaseError
from dprelease.query.expression import evaluate, parse_condition, parse_expression
from dprelease.query.load import Schema
from dprelease.query.nodes import Expression
from dprelease.query.read_view import parse_view
from dprelease.query.select import parse_select
from dprelease.query.sql import to_sql
from dprelease.schema.column import Column, Kind
from tests.sizes import sized, whole

CANARY = "Zq9canary"
KINDS = {
    "age": "integer",
    "x": "number",
    'a"; drop table t; --': "identifier",
    "select": "category",
    "f'); --": "boolean",
    "at": "timestamp",
    "day": "date",
}
COLUMNS = {name: Column(name, Kind(kind)) for name, kind in KINDS.items()}
TYPES = ["DOUBLE", "DOUBLE", "VARCHAR", "VARCHAR", "BOOLEAN", "TIMESTAMP", "DATE"]
STORED = {name: f"c{i}" for i, name in enumerate(KINDS)}
POOLS: dict[str, list[Any]] = {
    "DOUBLE": [None, 0.0, -0.0, 1.0, -2.5, 1e308, -1e308, 5e-324, math.inf, -math.inf, 2.0**53],
    "VARCHAR": [None, "", "a", "'", '"', "--", CANARY, "\U0001f600"],
    "BOOLEAN": [None, True, False],
    "TIMESTAMP": [None, datetime(1, 1, 1), datetime(2020, 2, 29, 23, 59), datetime(9999, 12, 31)],
    "DATE": [None, date(1, 1, 1), date(2020, 2, 29), date(9999, 12, 31)],
}
PICK = random.Random(3)
ROWS = [
    {name: PICK.choice(POOLS[kind]) for name, kind in zip(KINDS, TYPES, strict=True)}
    for _ in range(12)
]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def joined(parts: Any, *words: str) -> Any:
    return st.tuples(parts, st.sampled_from(words), parts).map(" ".join)


def bracketed(part: Any) -> Any:
    return part.map("({})".format)


def texts() -> Any:
    """Return a strategy of expression texts by type: numbers, texts, times, conditions."""
    number = st.sampled_from(
        ["age", "x", '"x"', "0", "1", "-3", "2.5", "1e308", "1e-300", "0.1", "year(at)", "month(day)",
         "days_between(day, at)", "null"]
    )  # fmt: skip
    word = st.sampled_from(
        [quoted('a"; drop table t; --'), '"select"', f"'{CANARY}'", "''", "'it''s'", "'; drop table t; --'",
         "'\\'", "'$p0'", "'%s'", "null"]
    )  # fmt: skip
    time = st.sampled_from(
        [
            "at",
            "day",
            "date '2020-02-29'",
            "'2020-01-01'",
            "'2020-01-01 10:00:00'",
            "timestamp(day)",
        ]
    )
    truth = st.sampled_from(['"f\'); --"', "true", "false"])

    def deeper(condition: Any) -> Any:
        sums = st.recursive(
            number,
            lambda n: st.one_of(
                joined(bracketed(n), "+", "-", "*", "/", "%"),
                bracketed(n).map("-{}".format),
                n.map("abs({})".format),
                n.map("floor({})".format),
                st.tuples(condition, n, n).map(lambda t: f"if({t[0]}, {t[1]}, {t[2]})"),
                st.tuples(n, n).map(lambda t: f"coalesce({t[0]}, {t[1]})"),
            ),
            max_leaves=4,
        )
        compared = st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="])
        return st.one_of(
            *(
                st.tuples(bracketed(kind), compared, bracketed(kind)).map(" ".join)
                for kind in (sums, word, time)
            ),
            st.tuples(bracketed(sums), bracketed(sums), bracketed(sums)).map(
                lambda t: f"{t[0]} between {t[1]} and {t[2]}"
            ),
            st.tuples(word, word, word).map(lambda t: f"{t[0]} not in ({t[1]}, {t[2]})"),
            st.one_of(sums, word, time).map("({}) is not null".format),
            joined(bracketed(condition), "and", "or"),
            bracketed(condition).map("not {}".format),
            st.tuples(condition, condition).map(
                lambda t: f"case when {t[0]} then {t[1]} else null end"
            ),
        )

    return st.recursive(truth, deeper, max_leaves=5)


SOUP = st.lists(
    st.sampled_from(
        ["age", "x", "(", ")", "and", "or", "not", "in", "between", "is", "null", "case", "when", "end", ",",
         "'", '"', ";", "--", "/*", "*/", "$p0", "?", "select", "from", "union", "random()", "now()",
         "error('x')", "read_csv('/etc/passwd')", "getenv('HOME')", "::", "cast(x as int)", "\\", "\0", "=",
         "<", "%", "1", "1e999", "0x1", "é", "\u202e", "current_date", "x.y", "*", "@x", "#", "{", "`x`",
         "over ()", "(select 1)", "x[1]", "lambda", "'\\u0000'", "sum(x)", "exists", "pragma", "attach 'x'"]
    ),
    max_size=9,
).map(" ".join)  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> Any:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET disabled_optimizers = 'statistics_propagation'")
    columns = ", ".join(f"{STORED[n]} {k}" for n, k in zip(KINDS, TYPES, strict=True))
    connection.execute(f"CREATE TABLE t (i INTEGER, {columns})")
    for i, row in enumerate(ROWS):
        marks = ", ".join("?" * (len(row) + 1))
        connection.execute(f"INSERT INTO t VALUES ({marks})", [i, *row.values()])
    yield connection
    connection.close()


def column_sql(name: str) -> exp.Expression:
    return exp.column(STORED[name])


def one_select(parsed: list[Expression]) -> tuple[str, dict[str, Any]]:
    """Return the statement of several conditions; it is one SELECT and holds no text of theirs."""
    parameters: dict[str, Any] = {}
    trees = []
    for i, expression in enumerate(parsed):
        tree, bound = to_sql(expression, column_sql, prefix=f"p{i}_")
        trees.append(tree)
        parameters |= bound
    statement = exp.select("i", *trees).from_("t").order_by("i").sql(dialect="duckdb")
    found = duckdb.extract_statements(statement)
    assert [s.type for s in found] == [duckdb.StatementType.SELECT]
    assert not any(
        word in statement.lower() for word in (CANARY.lower(), "drop", "--", "it's", ";", "2020")
    )
    return statement, {k: v for k, v in parameters.items() if f"${k}" in statement}


def same(got: Any, wanted: Any) -> bool:
    return (got is None and wanted is None) or (type(got) is bool and got == wanted)


CONDITIONS = sized(whole(80, 500), 5000)
SELECTS = sized(whole(150, 1000), 20_000)
PARSED: list[int] = []
BEGAN: list[float] = []


@settings(
    max_examples=CONDITIONS, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(st.lists(st.one_of(texts(), texts(), texts(), SOUP), min_size=10, max_size=10))
def test_ten_generated_conditions(rows: Any, batch: list[str]) -> None:
    parsed = []
    BEGAN.append(time.perf_counter())
    for text in batch:
        try:
            parsed.append(parse_condition(text, COLUMNS, origin="f.yaml:3"))
        except ConfigError as error:
            assert error.code.startswith("DPR12") and (error.where or "").startswith("f.yaml:3")
    PARSED.append(len(parsed))
    if not parsed:
        return
    statement, bound = one_select(parsed)
    answered = rows.execute(statement, bound).fetchall()
    for row, (_, *got) in zip(ROWS, answered, strict=True):
        for expression, value in zip(parsed, got, strict=True):
            assert same(value, evaluate(expression, row)), (expression.source, row)
    for expression in parsed:  # one fixed spelling that means the same
        again = parse_expression(expression.canonical, COLUMNS, origin="again")
        assert again.tree == expression.tree


def test_enough_of_them_were_conditions(evidence: Callable[..., None]) -> None:
    """Control: the generator above makes conditions, not only errors."""
    assert len(PARSED) >= CONDITIONS
    assert sum(PARSED) > 4 * len(PARSED)
    evidence(
        "expressions",
        f"{10 * len(PARSED):,} generated conditions, {sum(PARSED):,} of them sound",
        "one SELECT each, DuckDB as the reference on every row; 0 tracebacks",
        seconds=BEGAN[-1] - BEGAN[0],
    )


REFUSED = [
    "age > (select max(age) from t)", "random() < 0.5", "now() > at", "error('x')", "age > 1; drop table t",
    "age > 1 -- drop", "age > 1 /* x */", "read_csv('/etc/passwd') is null", "exists (select 1)", "sum(age) > 1",
    "row_number() over () > 1", "age > $1", "age > ?", "cast(age as varchar) = '1'", "age::int = 1",
    "getvariable('x') = 1", "getenv('HOME') = 'x'", "pg_sleep(9)", "\"select\" like '%a'", "age in (select 1)",
    "x[1] > 1", "current_date > day", "lag(age) > 1", "secret_frame.age > 1", "age > all (1)", "t.age > 1",
    "regexp_matches(\"select\", '(a+)+$')", "repeat('x', 1000000000) = 'x'", "1 = 1 union select 1", "age @> 1",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_reaches_beyond_one_row_cannot_be_said(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_condition(text, COLUMNS, origin="f.yaml:3")
    assert caught.value.code.startswith("DPR12")


SCHEMA = Schema.from_dict(
    {
        "dprelease": "schema/1",
        "name": "t",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 9},
        "columns": {
            "age": {"kind": "integer", "range": [0, 9]},
            "g": {"kind": "category", "values": ["a"]},
        },
    }
)


def test_mutated_selects_and_views_raise_nothing_else(evidence: Callable[..., None]) -> None:
    """The two doors that take SQL text: the release's SELECT, and a curator's view."""
    pick = random.Random(5)
    select = "SELECT g, COUNT(*) AS n, AVG(age) FROM t WHERE age >= 1 GROUP BY g"
    view = "SELECT v.age, p.g FROM v JOIN p ON v.code = p.code WHERE v.age > 1"
    extra = [";", "--", "/*", "UNION", "(SELECT 1)", "random()", "'", '"', "*", "read_csv('x')", "\0", "ATTACH",
             "COPY", "INSTALL", "v", "p", "t", "JOIN", "OVER ()", "LIMIT 1", "é", ",", "(", ")", "DISTINCT"]  # fmt: skip
    sound = 0
    for _ in range(SELECTS):
        for text, read in (
            (select, lambda s: parse_select(s, SCHEMA, "sql")),
            (
                view,
                lambda s: parse_view(
                    s, private={"v": None}, public={"p": None}, allow=(), origin="view"
                ),
            ),
        ):
            words = text.split(" ")
            for _ in range(pick.choice([1, 1, 2, 4])):
                at = pick.randrange(len(words))
                words[at : at + pick.randrange(2)] = [pick.choice(extra)]
            try:
                read(" ".join(words))
                sound += 1
            except DpreleaseError as error:
                assert error.spent == "nothing" and error.code[3] in "12"
    assert sound
    size = f"{SELECTS:,} mutants each of a SELECT and of a view"
    evidence("SQL text", size, f"{sound:,} still sound, the others refused; 0 tracebacks")
