"""Spark's leaves against DuckDB's, cell by cell; the texts of statements; what is refused."""

from __future__ import annotations

import hashlib
import math
import random
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import exp

from dprelease.core.errors import SourceError
from dprelease.engines import spark_sql
from dprelease.engines.bounded_sql import BoundedSelect
from dprelease.engines.code_sql import column
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.hash_sql import hash_order
from dprelease.engines.physical import Physical
from dprelease.engines.spark import SparkEngine
from dprelease.engines.spark_sql import PATTERNS, spark_statement
from dprelease.engines.tally import answer_of, whole
from dprelease.engines.typed_sql import typed
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery, Condition, Fixed, GroupKeys, Primitive
from dprelease.query.expression import parse_condition
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.engines.spark_session import needs_spark, session

X = Column("x", Kind.number)
NUMBERS = [
    "1", " 7 ", "2.50", "-0", "1e3", "1e400", "abc", "", "12,5", "nan", "NaN", "-inf", "0x1", "1_0",
    "_1", "1_", "1__0", "1_.5", "1._5", ".5", "5.", "+5", "+.5e-3", "1e", "1e+", "--1", "1d", "1f",
    "1.5D", "inf", "Infinity", "-Infinity", "+inf", "INF", "\t7\n", "\u0661", "1e-400", "9" * 400,
    "0." + "1" * 300, "1 2", "infi", "true", "$5", " - 1", "7\x00", "1e99999999999", "4.9e-324",
    "123456789012345678901234567890", ".", "1_0e1_0", "1_" * 20_000 + "1",
]  # fmt: skip
MOMENTS = [
    "2020-01-01", "2020-1-1", "2020-01-01 10:00:00", "2020-01-01T10:00:00", "2020-01-01T23:30:00Z",
    "2020-01-02T01:00:00+02:00", "2020-01-31 23:59:59.999999", "noon", "2020-13-01", " 2020-01-02 ",
    "2020-02-30", "0001-01-01", "9999-12-31", "2020", "2020-01", "20200101", "01/02/2020",
    "2020-01-01x", "2020-01-01 x", "2020-01-01 10", "2020-01-01 10:00", "2020-01-01T10:00Z",
    "2020-01-01 10:00:00.1234567", "2020-01-01 10:00:00 UTC", "2020-01-01 10:00:00+0200",
    "2020-01-01 10:00:00+02", "2020-01-01 10:00:00-05:30", "2020-01-01 10:00:60", "today", "now",
    "2020-01-01 10:00:00.", "2020-01-01 1:2:3", "2020-001", "2020-01-01T10:00:00.5Z", "",
    "2020-01-01 10:00:00+2", "2020-01-01T10:00:00.123456789+01:00", "2021-02-29", "2020-01-01T",
]  # fmt: skip
TRUTHS = ["true", " T ", "YES", "n", "0", "1", "", "maybe", "\ttrue", "No"]
DOUBLES = [0.1, 2.5, 1e-3, 1e-4, 1.5e-4, 9.99e-5, 1e-5, 1.5e-10, 1e7 + 0.5, 123456789.125, 1e15]
DOUBLES += [2.0**53, 2.0**53 + 2, 1e16, 1.2345e20, 1e100, -0.5, -2.5e-7, 1 / 3, -0.0, 5.0, -7.0]
DOUBLES += [math.inf, -math.inf, math.nan, 0.30000000000000004, 4503599627370495.5, 1e-100]


def cells(kind: Kind, stored: Physical, values: list[Any], ddl: str) -> tuple[list[Any], list[Any]]:
    """Return the typed cells by DuckDB and by Spark, in texts both write alike."""

    def tree() -> exp.Select:
        value = exp.Alias(this=typed(kind, stored, lambda: column("c0")), alias="v")
        return exp.Select(expressions=[value, column("i")]).from_("cells")

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("cells", pa.table({"c0": values, "i": range(len(values))}))
    shown = "epoch_us(v::TIMESTAMP)" if kind in (Kind.date, Kind.timestamp) else "v"
    inner = tree().sql(dialect="duckdb")
    ours = connection.execute(f"SELECT {shown} FROM ({inner}) ORDER BY i").fetchall()
    other = tree()
    for node in reversed(list(other.walk(bfs=False))):
        spark_sql._rewrite(node, {})
    for node in other.find_all(exp.TryCast):
        node.set("safe", True)
    from dprelease.engines.spark_session import quiet, settings

    shown = "unix_micros(CAST(v AS TIMESTAMP))" if kind in (Kind.date, Kind.timestamp) else "v"
    rows = [(v, i) for i, v in enumerate(values)]
    with quiet(), settings(session()):
        session().createDataFrame(rows, f"c0 {ddl}, i INT").createOrReplaceTempView("cells")
        sql = f"SELECT {shown} AS v FROM ({other.sql(dialect='spark')}) ORDER BY i"
        bound = {f"text_{k}": v for k, v in PATTERNS.items()}
        theirs = session().sql(sql, args=bound).collect()
        session().catalog.dropTempView("cells")
    return [row[0] for row in ours], [row[0] for row in theirs]


@needs_spark
@pytest.mark.parametrize(
    ("kind", "stored", "values", "ddl"),
    [
        (Kind.number, Physical.text, NUMBERS, "STRING"),
        (Kind.date, Physical.text, MOMENTS, "STRING"),
        (Kind.timestamp, Physical.text, MOMENTS, "STRING"),
        (Kind.boolean, Physical.text, TRUTHS, "STRING"),
        (Kind.category, Physical.float, DOUBLES, "DOUBLE"),
        (Kind.number, Physical.float, DOUBLES, "DOUBLE"),
        (Kind.category, Physical.boolean, [True, False, None], "BOOLEAN"),
        (Kind.number, Physical.exact, [0, -(2**63), 2**63 - 1, 2**53 + 1], "BIGINT"),
        (Kind.timestamp, Physical.date, [date(2020, 1, 2), date(1, 1, 1), None], "DATE"),
    ],
)
def test_every_cell_means_the_same(
    kind: Kind, stored: Physical, values: list[Any], ddl: str
) -> None:
    ours, theirs = cells(kind, stored, values, ddl)
    different = [(v, a, b) for v, a, b in zip(values, ours, theirs, strict=True) if a != b]
    assert not different
    assert any(v is not None for v in theirs)


@needs_spark
def test_random_doubles_are_spelt_alike() -> None:
    rng = random.Random(5)
    # 15 digits: with more, Java 17 writes one digit too many for some
    values = [float(f"{rng.uniform(-1, 1):.14e}") * 10 ** rng.randint(0, 9) for _ in range(300)]
    values = [float(f"{v:.14e}") for v in values]
    ours, theirs = cells(Kind.category, Physical.float, values, "DOUBLE")
    assert ours == theirs


@needs_spark
def test_expressions_mean_the_same_beyond_ordinary_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from dprelease.engines.source import as_source

    texts = [
        "floor(x) = x", "ceil(x) > 1e17", "floor(-x) < -3", "floor(x / 3) * 3 = x", "ceil(x) = 0",
        "x % 7 > 2", "x / (x - 7) is null", "abs(-x) > 1e300", "x * x is null", "weekday(at) = 7",
        "weekday(at) = 5", "hour(at) * 60 + minute(at) > 600", "quarter(at) = 1", "day(at) = 29",
        "year(at) < 1900", "month(at) = 2", "week(at) = 9", "days_between(at, '2020-03-01') > 1.5",
        "seconds_between('2020-02-29', at) % 60 > 0", "case when x > 1 then x else -x end > 2",
        "coalesce(x, 7) = 7", "x in (2.5, 7)", "x between -3 and 3", "not (x > 1) or at is null",
    ]  # fmt: skip
    columns = {"x": X, "at": Column("at", Kind.timestamp)}
    codes = tuple(Condition(parse_condition(t, columns, origin="test")) for t in texts)
    values = [0.0, -0.0, 2.5, -2.5, 7.0, 9.75, 1e17, 1e300, -1e300, 2.0**53 + 2, 4503599627370495.5]
    values += [math.inf, -math.inf, math.nan, None, 0.1, -0.1]
    moments = [
        datetime(2020, 2, 29, 10, 1, 30),
        datetime(2020, 3, 1),
        datetime(1700, 1, 1, 23, 59, 59, 5),
    ]
    rows = [(x, moments[i % 3] if i % 5 else None) for i, x in enumerate(values * 3)]
    # every row is a group of its own, so that no difference can cancel another
    names = tuple(f"r{i}" for i in range(len(rows)))
    key = Column("key", Kind.category, values=names)
    query = BoundedQuery(
        (key, *columns.values()),
        GroupKeys((key,), tuple((n,) for n in names)),
        codes,
        tuple(Primitive("power", j, p) for j in range(len(codes)) for p in (0, 1)),
    )
    table = pa.table({"key": names, "x": [x for x, _ in rows], "at": [m for _, m in rows]})
    frame = session().createDataFrame(
        [(n, x, m) for n, (x, m) in zip(names, rows, strict=True)],
        "key STRING, x DOUBLE, at TIMESTAMP_NTZ",
    )
    want = DuckDBEngine().compute(as_source(table), query, b"").reveal_to_mechanism().sums
    found = SparkEngine().compute(as_source(frame), query, b"").reveal_to_mechanism().sums
    different = [(texts[j // 2], rows[i]) for i, j in zip(*(want != found).nonzero(), strict=True)]
    assert not different
    trivial = [t for j, t in enumerate(texts) if not 0 < want[:, 2 * j + 1].sum() < len(rows)]
    assert not trivial
    # the control: a FLOOR left as Spark's own differs for large values
    monkeypatch.setattr(spark_sql, "_whole", lambda _: None)
    broken = SparkEngine().compute(as_source(frame), query, b"").reveal_to_mechanism().sums
    assert (broken != want).any()


@needs_spark
def test_the_hash_orders_alike() -> None:
    """Every byte occurs as a last one, where the order is decided."""
    texts = [str(n) for n in range(2000)]
    lasts = {hashlib.md5(t.encode()).digest()[-1] for t in texts}
    assert lasts == set(range(256))
    order = hash_order(column("t")).sql(dialect="duckdb")
    ours = (
        duckdb.connect()
        .execute(f"SELECT t FROM (SELECT unnest($1) AS t) ORDER BY {order}", [texts])
        .fetchall()
    )
    tree = exp.Select(expressions=[hash_order(column("t"))])
    for node in list(tree.walk()):
        spark_sql._rewrite(node, {})
    hashed = tree.expressions[0].sql(dialect="spark")
    frame = session().createDataFrame([(t,) for t in texts], "t STRING")
    frame.createOrReplaceTempView("texts")
    theirs = session().sql(f"SELECT t FROM texts ORDER BY {hashed}").collect()
    plain = session().sql("SELECT t FROM texts ORDER BY MD5(t)").collect()
    session().catalog.dropTempView("texts")
    assert [t for (t,) in ours] == [row[0] for row in theirs]
    assert [t for (t,) in ours] != [row[0] for row in plain]


@needs_spark
def test_a_cast_left_to_spark_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control of the cells' agreement: without the patterns Spark reads `1d` and `2020`."""
    monkeypatch.setattr(spark_sql, "_recast", lambda _: None)
    for kind, values in ((Kind.number, NUMBERS), (Kind.date, MOMENTS)):
        ours, theirs = cells(kind, Physical.text, values, "STRING")
        assert ours != theirs


def statement(
    *primitives: Primitive, condition: str | None = None, high: int = 120
) -> tuple[str, Any]:
    codes: list[Any] = [Fixed("x", Domain(0, high).on_grid(Fraction(1)), Fraction(1))]
    if condition is not None:
        codes.append(Condition(parse_condition(condition, {"x": X}, origin="test")))
    query = BoundedQuery((X,), GroupKeys((), ((),)), tuple(codes), primitives)
    built = BoundedSelect(query, {"x": ("c0", Physical.text)}, b"salt").sums()
    return spark_statement(built, query, {"source_rows": "rows_1"})


def test_a_sum_is_a_bigint_only_where_it_cannot_wrap() -> None:
    for high, kind in ((2**15 - 1, "BIGINT"), (2**15, "DECIMAL(38, 0)")):
        sql, _ = statement(Primitive("power", 0, 1), high=high)
        assert f"AS {kind})), 0) AS `p0`" in sql
    # what the module's docstring proves
    assert (spark_sql.MOST_ROWS - 1) * spark_sql._NARROW < 2**63
    assert (spark_sql.MOST_ROWS - 1) * (2**64 - 1) < 10**38 - 1


def test_no_cast_is_left_that_could_raise() -> None:
    sql, _ = statement(
        Primitive("rows"), Primitive("tally", 0), condition="floor(x) > 2 and x % 3 = 1"
    )
    bare = [part.split(" AS ")[0] for part in sql.split("TRY_CAST(")[0].split(" CAST(")[1:]]
    assert all(part.startswith(":") for part in bare)  # parameters only
    assert "`rows_1`" in sql
    assert "source_rows" not in sql


def test_what_the_user_wrote_is_bound() -> None:
    sql, parameters = statement(Primitive("rows"), condition="x > 41.25")
    assert "41.25" not in sql
    assert 41.25 in parameters.values()


def test_tallies_are_grouping_sets_of_one_statement() -> None:
    sql, _ = statement(Primitive("tally", 0), Primitive("rows"), Primitive("distinct", 0))
    assert sql.count("GROUPING SETS") == 1
    assert "HISTOGRAM" not in sql.upper()


def test_dates_are_bound_as_text() -> None:
    assert spark_sql._plain(datetime(2020, 1, 1, tzinfo=UTC)) == "2020-01-01T00:00:00+00:00"
    assert spark_sql._plain(2.5) == 2.5


def test_a_deep_nest_of_floors_is_refused() -> None:
    text = "x"
    for _ in range(9):
        text = f"floor({text})"
    with pytest.raises(SourceError) as refused:
        statement(Primitive("rows"), condition=f"{text} > 1")
    assert refused.value.code == "DPR519"
    statement(Primitive("rows"), condition="floor(floor(x)) > 1")


@needs_spark
def test_a_lost_row_limit_is_noticed() -> None:
    def answered(rows: list[tuple[int | None, ...]]) -> Answer:
        return answer_of(query, [whole(rows)], spark_sql.MOST_ROWS)

    query = BoundedQuery((X,), GroupKeys((), ((),)), (), (Primitive("rows"),))
    with pytest.raises(OverflowError):
        answered([(0, 5, spark_sql.MOST_ROWS)])
    with pytest.raises(TypeError):  # a DECIMAL sum that overflowed is null, never a number
        answered([(0, None, 5)])
    assert answered([(0, 5, 5)]).sums.tolist() == [[5]]
    assert SparkEngine.name == "spark"
