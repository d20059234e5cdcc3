"""The PostgreSQL engine beside plain SQL in the same server, and beside pulling the rows.

    python benchmarks/postgres.py            # 10,000,000 rows, 3 turns; writes results/postgres.md
    python benchmarks/postgres.py --rows 300000 --turns 1 --to -

It needs PostgreSQL's server programs. Five tasks: a count and a sum by region of the row unit; the same
of a user unit with ten rows a person; of one with one row a person, which no bound cuts; of numbers
stored as texts, twice. Baselines in the same run, in turns with the engine's:

    plain    what one would write by hand: the same sums with clamped values, for user units the same
             bounding by two windows ordered by md5 under a salt of the same length. Texts are cast by
             `::float8`, which ends the statement at the first odd cell; and, as "texts, any cell", behind a
             pattern that lets only numbers through, as the engine must
    pulled   `engine: duckdb` on the same table: every row of the columns passes the connection

The server runs in a folder of its own with its own defaults. Its processor seconds are those of all its
processes, and of what they started; the ratio is of them, as the wall says little on a loaded machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.engine import Engine
from dprelease.engines.postgres_engine import PostgresEngine
from dprelease.engines.source import postgres_table
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from tests.engines.postgres_server import server

RESULT = Path(__file__).parent / "results" / "postgres.md"
REGIONS = tuple(f"r{i}" for i in range(20))
MAKE = """
CREATE TABLE visits AS SELECT
  i AS visit, (i * 2654435761 % %(people)s)::bigint AS who,
  'r' || (i * 40503 %% 20) AS region,
  (i * 7919 %% 140 - 10)::float8 / 2 AS pay,
  ((i * 7919 %% 140 - 10)::float8 / 2)::text AS written
FROM generate_series(1::bigint, %(rows)s) AS s(i)
"""
CLAMPED = "floor(least(greatest(pay, 0), 60) + 0.5)::bigint"
SALT = "5a" * 32
"""As long as the library's own: a shorter one is hashed in half the time, and hides less."""
BY_HAND = f"""
    SELECT region, count(*), sum(v) FROM (
      SELECT *, dense_rank() OVER (PARTITION BY who ORDER BY md5('{SALT}|' || who || '|' || region), region) AS g FROM (
        SELECT who, region, v, row_number() OVER (PARTITION BY who, region ORDER BY md5('{SALT}|' || who || '|' || region || '|' || v)) AS n
        FROM (SELECT who, region, {CLAMPED} AS v FROM visits) a) b WHERE n <= 2) c
    WHERE g <= 2 GROUP BY region"""
TOTAL = r"CASE WHEN length(written) <= 300 AND written ~ '^-?[0-9]+(\.[0-9]*)?$' THEN written::float8 END"
PLAIN = {
    "row unit": f"SELECT region, count(*), sum({CLAMPED}) FROM visits GROUP BY region",
    "user unit": BY_HAND,
    "one row a person": BY_HAND.replace(
        "SELECT who, region, floor", "SELECT visit AS who, region, floor"
    ),
    "texts": f"SELECT region, count(*), sum({CLAMPED.replace('pay', 'written::float8')}) FROM visits GROUP BY region",
    "texts, any cell": f"SELECT region, count(*), sum({CLAMPED}) FROM (SELECT region, {TOTAL} AS pay FROM visits) a GROUP BY region",
}
AGAIN = ("texts, any cell",)
"""Tasks that another one has pulled already."""


@dataclass(frozen=True, slots=True)
class Took:
    """What one statement took: seconds of the wall, and of the server's processes."""

    wall: float
    server: float


def query(task: str) -> BoundedQuery:
    """Return the task as the engine gets it."""
    value = "written" if task.startswith("texts") else "pay"
    unit = {"user unit": "who", "one row a person": "visit"}.get(task)
    region = Column("region", Kind.category, values=REGIONS)
    columns = (region, Column(unit or "who", Kind.identifier), Column(value, Kind.number))
    code = Fixed(value, Domain(0, 60).on_grid(Fraction(1)), Fraction(1))
    return BoundedQuery(
        columns, GroupKeys((region,), tuple((r,) for r in REGIONS)), (code,),
        (Primitive("rows"), Primitive("power", 0, 1)), user=unit, max_groups=2, max_rows=2,
    )  # fmt: skip


def processor(dsn: str) -> float:
    """Return the processor seconds of a server's processes so far, ended ones included."""
    home = dsn.split(maxsplit=1)[0].removeprefix("host=")
    first = int(Path(home, "data", "postmaster.pid").read_text().split(maxsplit=1)[0])
    children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
    ticks = 0
    for process in (first, *map(int, children)):
        try:
            found = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # it has just ended: the next call finds its time in the first one's
            continue
        ticks += sum(map(int, found[11:15] if process == first else found[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def took(dsn: str, work: Callable[[], Any]) -> Took:
    """Run one statement to its end."""
    time.sleep(0.3)  # until the processes of the last one have ended
    before, start = processor(dsn), time.perf_counter()
    work()
    wall = time.perf_counter() - start
    time.sleep(0.3)
    return Took(wall, processor(dsn) - before)


def measured(rows: int, turns: int) -> list[str]:
    """Return the lines of the table."""
    lines = []
    with server() as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        people = str(max(1, rows // 10))
        make = MAKE.replace("%(people)s", people).replace("%(rows)s", str(rows)).replace("%%", "%")
        connection.execute(make)
        connection.execute("VACUUM ANALYZE visits")
        source = postgres_table(lambda: dsn, "visits")
        for task, sql in PLAIN.items():
            wanted = query(task)

            def by_hand(sql: str = sql) -> Any:
                return connection.execute(sql).fetchall()

            def by(engine: Engine, asked: BoundedQuery = wanted) -> Any:
                return engine.compute(source, asked, bytes.fromhex(SALT))

            ours, plain = list[Took](), list[Took]()
            for _ in range(turns):
                plain.append(took(dsn, by_hand))
                ours.append(took(dsn, lambda by=by: by(PostgresEngine())))  # type: ignore[misc]
            pulled = ""
            if task not in AGAIN:
                pulled = f"{took(dsn, lambda by=by: by(DuckDBEngine())).wall:.2f}"  # type: ignore[misc]
            walls = [statistics.median(one.wall for one in every) for every in (ours, plain)]
            servers = [statistics.median(one.server for one in every) for every in (ours, plain)]
            cells = " | ".join(f"{seconds:.2f}" for seconds in (*walls, *servers))
            ratio = servers[0] / max(servers[1], 0.01)
            lines.append(f"| {task} | {cells} | {ratio:.2f} | {pulled} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--to", default=str(RESULT))
    given = parser.parse_args()
    load = os.getloadavg()[0]
    lines = measured(given.rows, given.turns)
    made = (
        f"Made by `benchmarks/postgres.py` in one run: {platform.machine()}, {os.cpu_count()} processors, "
        f"load average {load:.1f} before and {os.getloadavg()[1]:.1f} meanwhile; {given.rows:,} rows; "
        f"median of {given.turns}. The ratio is of the server's processor seconds."
    )
    titles = (
        "task", "engine: postgres, s", "plain SQL, s", "engine, processor s", "plain, processor s", "ratio", "pulled, s"
    )  # fmt: skip
    head = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    page = "\n".join(["# PostgreSQL", "", made, "", *head, *lines, ""])
    print(page)
    if given.to != "-":
        Path(given.to).write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
