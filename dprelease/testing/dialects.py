"""What the SQL of a warehouse must answer before an engine can be written for it.

Each question is one SELECT of constants, in DuckDB's dialect, with the integers that every engine has
to return. Anybody with an account can ask them:

    from dprelease.testing import check_dialect

    def ask(sql):                       # a function of yours: text in, rows out
        return cursor.execute(sql).fetchall()

    for found in check_dialect(ask, "snowflake"):
        print(found)

sqlglot writes each question in the warehouse's dialect. "differs" and "fails" name what an engine has
to spell in another way there, or guard against; none of them is a fault of the warehouse. The engines
that ship here differ too: `engines.spark_sql` and `engines.postgres_sql` say in what, and how they
get the same integers all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Question:
    """One property that the bounded statement stands on.

    Attributes:
        name: the property, in words.
        sql: a SELECT in DuckDB's dialect.
        expected: its rows, of integers; None for null.
        matters: what goes wrong where the answer is another one.
    """

    name: str
    sql: str
    expected: tuple[tuple[int | None, ...], ...]
    matters: str


@dataclass(frozen=True, slots=True)
class DialectFinding:
    """What came of one question.

    Attributes:
        sql: as it was asked, in the warehouse's dialect.
        verdict: "holds", "differs" or "fails" (the warehouse, or sqlglot, refused the question).
        found: the rows that came, as integers where they are whole; empty where it fails.
    """

    question: Question
    sql: str
    verdict: Literal["holds", "differs", "fails"]
    found: tuple[tuple[Any, ...], ...] = ()

    def __str__(self) -> str:
        shown = f"{self.verdict:8} {self.question.name}"
        if self.verdict == "holds":
            return shown
        answer = f": {self.found} in place of {self.question.expected}" if self.found else ""
        return f"{shown}{answer} ({self.question.matters})"


def _values(name: str, columns: str, *rows: str) -> str:
    """Return a table of constants, as SELECTs: VALUES as a table is not known everywhere."""
    first, *rest = rows
    named = ", ".join(
        f"{value} AS {column}"
        for value, column in zip(first.split(", "), columns.split(", "), strict=True)
    )
    return (
        f"WITH {name} AS ("
        + " UNION ALL ".join([f"SELECT {named}", *(f"SELECT {r}" for r in rest)])
        + ") "
    )


_IDS = _values("t", "u", "'a'", "'A'", "'\u00e4'", "'a '", "'a'")
_NUMBERS = _values("t", "x", "'1'", "' 7 '", "'abc'", "''", "'1e3'", "'0x1'", "'1d'")
_WIDE = _values("t", "n", *["CAST(9007199254740993 AS BIGINT)"] * 3)
_GROUPS = _values("t", "g, v", "1, 10", "1, 20", "2, 30")

QUESTIONS: tuple[Question, ...] = (
    Question(
        "texts are equal by their bytes",
        _IDS + "SELECT COUNT(DISTINCT u) FROM t",
        ((4,),),
        "two people with ids that a collation takes for one would be one unit",
    ),
    Question(
        "a join compares texts by their bytes",
        _IDS + ", l AS (SELECT 'a' AS k) SELECT COUNT(*) FROM t JOIN l ON t.u = l.k",
        ((2,),),
        "one row would be counted under two labels",
    ),
    Question(
        "a null joins nothing",
        "SELECT COUNT(*), COUNT(b.x) FROM (SELECT CAST(NULL AS INT) AS x UNION ALL SELECT 1) AS a "
        "LEFT JOIN (SELECT CAST(NULL AS INT) AS x UNION ALL SELECT NULL UNION ALL SELECT 1) AS b ON a.x = b.x",
        ((2, 1),),
        "a row would become several where a public table has empty keys",
    ),
    Question(
        "whole numbers beyond 2^53 stay apart",
        "SELECT COUNT(DISTINCT n) FROM (SELECT CAST(9007199254740992 AS BIGINT) AS n "
        "UNION ALL SELECT CAST(9007199254740993 AS BIGINT)) AS t",
        ((2,),),
        "two people with such ids would be one unit",
    ),
    Question(
        "a sum of whole numbers is exact",
        _WIDE + "SELECT CAST(SUM(n) - 27021597764222979 AS BIGINT) FROM t",
        ((0,),),
        "a sum through doubles has another sensitivity than the one that is charged",
    ),
    Question(
        "a sum beyond 2^63 is exact",
        "SELECT CAST(SUM(CAST(n AS HUGEINT)) - CAST(9223372036854775807 AS HUGEINT) AS BIGINT) FROM "
        "(SELECT CAST(9223372036854775807 AS BIGINT) AS n UNION ALL SELECT CAST(5 AS BIGINT)) AS t",
        ((5,),),
        "a sum that wraps or fails would end a release after its charge",
    ),
    Question(
        "a cast that fails is null",
        _NUMBERS + "SELECT COUNT(TRY_CAST(TRIM(x) AS DOUBLE)) FROM t",
        ((3,),),
        "one odd cell would end a release after its charge; 0x1 and 1d are numbers to some",
    ),
    Question(
        "an overflow of doubles is not a failure",
        "SELECT CASE WHEN CAST(1e308 AS DOUBLE) * CAST(x AS DOUBLE) <= 1.7976931348623157e308 THEN 1 ELSE 0 END "
        "FROM (SELECT 10 AS x) AS t",
        ((0,),),
        "one large cell would end a release after its charge",
    ),
    Question(
        "a division by zero is not a failure",
        "SELECT CASE WHEN CAST(1 AS DOUBLE) / CAST(x AS DOUBLE) <= 1.7976931348623157e308 THEN 1 ELSE 0 END "
        "FROM (SELECT 0 AS x) AS t",
        ((0,),),
        "one cell of zero would end a release after its charge",
    ),
    Question(
        "floor of a double rounds down, below zero too",
        "SELECT CAST(FLOOR(CAST(-2.5 AS DOUBLE)) AS BIGINT), CAST(FLOOR(CAST(2.5 AS DOUBLE)) AS BIGINT)",
        ((-3, 2),),
        "codes on the grid would be others, and with them every sum",
    ),
    Question(
        "a double of decimal text is the nearest one",
        "SELECT CASE WHEN CAST('0.1' AS DOUBLE) + CAST('0.2' AS DOUBLE) = CAST('0.30000000000000004' AS DOUBLE) "
        "THEN 1 ELSE 0 END",
        ((1,),),
        "codes at the middle between two steps would differ from those of other engines",
    ),
    Question(
        "LEAST and GREATEST skip nulls",
        "SELECT LEAST(GREATEST(x, 0), 9) FROM (SELECT CAST(NULL AS BIGINT) AS x) AS t",
        ((0,),),
        "nulls are tested first here, so this only tells which way a mistake would go",
    ),
    Question(
        "the MD5 of a text is that of its UTF-8 bytes",
        "SELECT CASE WHEN MD5('\u00e4|1') = '03f9720be7ee4e2387fded103b4773a8' THEN 1 ELSE 0 END",
        ((1,),),
        "other rows of a person would count than in other engines, with the same privacy",
    ),
    Question(
        "the digits of an MD5 can be read from the last to the first, and are ordered by their bytes",
        "SELECT CASE WHEN REVERSE('0a1f') = 'f1a0' AND 'B' < 'a' AND '9' < 'a' THEN 1 ELSE 0 END",
        ((1,),),
        "other rows of a person would count than in other engines, with the same privacy",
    ),
    Question(
        "bits of a whole number are shifted and masked",
        "SELECT (CAST(1099516870656 AS BIGINT) >> 20) & 1023",
        ((5,),),
        "sums of wide products are made of digits, which would be others",
    ),
    Question(
        "a remainder of doubles takes the sign of the dividend",
        "SELECT CASE WHEN CAST(-7.5 AS DOUBLE) % CAST(2 AS DOUBLE) = CAST(-1.5 AS DOUBLE) THEN 1 ELSE 0 END",
        ((1,),),
        "filters and derived columns with % would mean something else",
    ),
    Question(
        "no comparison takes NaN for a number of ordinary size",
        "SELECT CASE WHEN ABS(CAST('NaN' AS DOUBLE)) <= 1.7976931348623157e308 THEN 1 ELSE 0 END",
        ((0,),),
        "a result that is not a number would be counted as one",
    ),
    Question(
        "row numbers follow their order within each unit",
        _GROUPS
        + "SELECT g, v FROM (SELECT g, v, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC) AS n FROM t) AS s "
        "WHERE n <= 1 ORDER BY g",
        ((1, 20), (2, 30)),
        "contribution bounding rests on it",
    ),
    Question(
        "dense ranks count groups",
        "SELECT COUNT(*) FROM (SELECT DENSE_RANK() OVER (ORDER BY x) AS r FROM "
        "(SELECT 1 AS x UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3) AS t) AS s WHERE r <= 2",
        ((3,),),
        "a person would keep more groups than the plan says",
    ),
    Question(
        "grouping sets tell a total from a group of nulls",
        "SELECT GROUPING(x), COUNT(*) FROM (SELECT CAST(NULL AS INT) AS x UNION ALL SELECT 1) AS t "
        "GROUP BY GROUPING SETS ((x), ()) ORDER BY 1, 2",
        ((0, 1), (0, 1), (1, 2)),
        "tallies for quantiles are read from them",
    ),
    Question(
        "a running sum is of rows, not of ties",
        "SELECT MAX(s) - MIN(s) FROM (SELECT SUM(1) OVER (ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) "
        "AS s FROM (SELECT 1 AS x UNION ALL SELECT 1) AS t) AS r",
        ((1,),),
        "ranks near a quantile would be counted wrongly",
    ),
)


def check_dialect(
    ask: Callable[[str], Sequence[Sequence[Any]]], dialect: str, *, stop: bool = False
) -> tuple[DialectFinding, ...]:
    """Ask every question and return what came of it.

    Args:
        ask: runs one SELECT and returns its rows; whatever it raises counts as a failure.
        dialect: sqlglot's name of the warehouse's dialect, e.g. "snowflake", "bigquery", "redshift".
        stop: raise at the first question that does not hold.

    Raises:
        AssertionError: with `stop`, a question does not hold.
        ValueError: sqlglot has no such dialect.
    """
    import sqlglot

    sqlglot.Dialect.get_or_raise(dialect)
    out = []
    for question in QUESTIONS:
        sql = sqlglot.transpile(question.sql, read="duckdb", write=dialect)[0]
        try:
            rows = tuple(tuple(_plain(cell) for cell in row) for row in ask(sql))
            verdict: Literal["holds", "differs"] = (
                "holds" if rows == question.expected else "differs"
            )
            found = DialectFinding(question, sql, verdict, rows)
        except Exception:  # noqa: BLE001 - whatever a driver raises
            found = DialectFinding(question, sql, "fails")
        assert not stop or found.verdict == "holds", str(found)
        out.append(found)
    return tuple(out)


def _plain(cell: Any) -> Any:
    """Return whole numbers as integers: drivers give Decimals, floats and booleans of their own."""
    if cell is None or isinstance(cell, str):
        return cell
    whole = int(cell)
    return whole if whole == cell else cell
