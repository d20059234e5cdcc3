"""The PostgreSQL engine beside plain SQL in the same server, and beside pulling the rows.

    python benchmarks/postgres.py [ROWS]     # 10,000,000 unless told; needs PostgreSQL's server programs

Three tasks: a count and a sum by region of the row unit; the same of a user unit; a table of texts.
Baselines in the same run, in turns with the engine's:

    plain    what one would write by hand: the same sums with clamped values, for user units the same
             bounding by two windows ordered by md5 under a salt of the same length
    pulled   `engine: duckdb` on the same table: every row of the columns passes the connection

The server runs in a folder of its own with its own defaults, on two processors here.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.postgres_engine import PostgresEngine
from dprelease.engines.source import postgres_table
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.engines.postgres_server import server

REGIONS = tuple(f"r{i}" for i in range(20))
MAKE = """
CREATE TABLE visits AS SELECT
  (i * 2654435761 % %(people)s)::bigint AS who,
  'r' || (i * 40503 %% 20) AS region,
  (i * 7919 %% 140 - 10)::float8 / 2 AS pay,
  ((i * 7919 %% 140 - 10)::float8 / 2)::text AS written
FROM generate_series(1::bigint, %(rows)s) AS s(i)
"""
CLAMPED = "floor(least(greatest(pay, 0), 60) + 0.5)::bigint"
SALT = "5a" * 32
"""As long as the library's own: a shorter one is hashed in half the time, and hides less."""
PLAIN = {
    "row unit": f"SELECT region, count(*), sum({CLAMPED}) FROM visits GROUP BY region",
    "user unit": f"""
        SELECT region, count(*), sum(v) FROM (
          SELECT *, dense_rank() OVER (PARTITION BY who ORDER BY md5('{SALT}|' || who || '|' || region), region) AS g FROM (
            SELECT who, region, v, row_number() OVER (PARTITION BY who, region ORDER BY md5('{SALT}|' || who || '|' || region || '|' || v)) AS n
            FROM (SELECT who, region, {CLAMPED} AS v FROM visits) a) b WHERE n <= 2) c
        WHERE g <= 2 GROUP BY region""",
    "texts": f"SELECT region, count(*), sum({CLAMPED.replace('pay', 'written::float8')}) FROM visits GROUP BY region",
}


def query(task: str) -> BoundedQuery:
    """Return the task as the engine gets it."""
    value = "written" if task == "texts" else "pay"
    region = Column("region", Kind.category, values=REGIONS)
    columns = (region, Column("who", Kind.identifier), Column(value, Kind.number))
    code = Fixed(value, Domain(0, 60).on_grid(Fraction(1)), Fraction(1))
    user = "who" if task == "user unit" else None
    return BoundedQuery(
        columns, GroupKeys((region,), tuple((r,) for r in REGIONS)), (code,),
        (Primitive("rows"), Primitive("power", 0, 1)), user=user, max_groups=2, max_rows=2,
    )  # fmt: skip


def seconds(work: Callable[[], Any]) -> float:
    """Return how long one call takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(rows: int) -> None:
    """Print the table."""
    print(f"| task, {rows:,} rows | engine: postgres, s | plain SQL, s | ratio | pulled, s |")
    print("|---|---|---|---|---|")
    with server() as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        people = max(1, rows // 10)
        connection.execute(
            MAKE.replace("%(people)s", str(people))
            .replace("%(rows)s", str(rows))
            .replace("%%", "%")
        )
        connection.execute("VACUUM ANALYZE visits")
        source = postgres_table(lambda: dsn, "visits")
        for task, sql in PLAIN.items():
            asked = query(task)
            ours: list[float] = []
            plain: list[float] = []
            for _ in range(3):
                plain.append(seconds(lambda sql=sql: connection.execute(sql).fetchall()))
                ours.append(
                    seconds(
                        lambda asked=asked: PostgresEngine().compute(
                            source, asked, bytes.fromhex(SALT)
                        )
                    )
                )
            pulled = seconds(
                lambda asked=asked: DuckDBEngine().compute(source, asked, bytes.fromhex(SALT))
            )
            one, other = statistics.median(ours), statistics.median(plain)
            print(
                f"| {task} | {one:.2f} | {other:.2f} | {one / other:.2f} | {pulled:.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
