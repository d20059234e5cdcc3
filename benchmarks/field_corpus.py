"""What people ask of tables: the columns, tables and requests of `field.py`.

A request is a choice of one level per factor (`FACTORS`). They are ordered so that the first ones hold every pair of
levels of two factors, and all of them use the levels about equally often: any first part of the list covers as much
as so many requests can. Everything is drawn from numpy's generator with fixed seeds: the corpus is the same everywhere.

    size       rows of the whole table; at least three per group. A real table has its own rows, at most.
    cap        `rows.max`, which is of the whole table, in multiples of its rows; groups have half to one and a half of their mean
    expected   what the schema says of that mean: it, a tenth of it, nothing
    unit       a row, or a person with at most two rows in each of at most two groups
    statistics of the column that is named, a third of them of another one

Real tables are those that `field_tables.py` wrote down; without them their requests are left out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

__all__ = ["FACTORS", "REAL", "Asked", "Request", "Table", "requests", "table_of"]

Array = np.ndarray[Any, Any]
SEED = 2013
REAL = Path(__file__).parents[1] / ".bench" / "field" / "tables"


Draw = Callable[[np.random.Generator, int], Array]


@dataclass(frozen=True)
class Column:
    """A column: its declaration, its rows, and what people ask of it."""

    declared: Mapping[str, Any]
    drawn: Draw
    conditions: tuple[str, ...]
    edges: tuple[float, ...] = ()
    distinct: bool = False

    @property
    def number(self) -> bool:
        return "range" in self.declared

    def rows(self, pick: np.random.Generator, count: int) -> Array:
        """Return cells as the declaration reads them: numbers in steps, within their range."""
        values = self.drawn(pick, count).astype(float)
        if not self.number:
            return values
        parts = round(1 / self.declared.get("step", 1))
        return np.clip(np.rint(values * parts) / parts, *self.declared["range"])


def _numbers(
    ends: tuple[float, float],
    drawn: Draw,
    edges: tuple[float, ...] | int,
    *conditions: str,
    step: float = 1,
    distinct: bool = False,
) -> Column:
    """Return a column of numbers; `edges`, of its histogram, or so many bins."""
    kind = {"kind": "integer"} if step == 1 else {"kind": "number", "step": step}
    if isinstance(edges, int):
        edges = tuple(np.linspace(*ends, edges + 1).tolist())
    return Column({**kind, "range": list(ends)}, drawn, conditions, edges, distinct)


def _categories(count: int) -> Column:
    """Return a column of categories, the first the most frequent."""
    share = 1 / np.arange(1, count + 1)
    share /= share.sum()
    return Column(
        {"kind": "category", "values": [f"c{i}" for i in range(count)]},
        lambda pick, n: pick.choice(count, n, p=share),
        ("{} = 'c0'", "{} = 'c2'"),
        distinct=True,
    )


def _real(table: str, name: str) -> Draw:
    """Return rows of a real table, in another order."""
    return lambda pick, n: pick.permutation(_stored(table)[name])[:n]


@lru_cache(maxsize=8)
def _stored(table: str) -> dict[str, Array]:
    stored = parquet.read_table(REAL / f"{table}.parquet")
    return {n: stored[n].to_numpy(zero_copy_only=False).astype(float) for n in stored.column_names}


COLUMNS: dict[str, Column] = {
    "age": _numbers(
        (0, 120), lambda p, n: p.normal(45, 18, n), 12, "{} >= 65", "{} < 18", distinct=True
    ),
    "rating": _numbers(
        (1, 5), lambda p, n: p.choice(5, n, p=[0.05, 0.1, 0.2, 0.35, 0.3]) + 1,
        (1, 2, 3, 4, 5, 6), "{} >= 4", distinct=True,
    ),
    "yes": Column({"kind": "boolean"}, lambda p, n: p.random(n) < 0.3, ("{}",)),
    "income": _numbers(  # heaped: hundreds
        (0, 1_000_000), lambda p, n: 100 * np.rint(p.lognormal(np.log(300), 0.6, n)),
        (0, 10_000, 20_000, 30_000, 50_000, 100_000, 1_000_001), "{} < 10000", "{} >= 100000",
    ),
    "price": _numbers(  # cents: prices end in 99, 95, 50 or 00
        (0, 1000), lambda p, n: np.floor(p.gamma(2, 20, n)) + p.choice([0.99, 0.95, 0.5, 0], n),
        (0, 10, 20, 50, 100, 200, 1000.01), "{} < 20", step=0.01,
    ),
    "temperature": _numbers(
        (-30, 45), lambda p, n: p.normal(9, 8, n), (-30, -10, 0, 10, 20, 30, 45.1), "{} < 0", step=0.1
    ),
    "duration": _numbers(  # four of ten are 0
        (0, 10_000), lambda p, n: np.where(p.random(n) < 0.4, 0, p.exponential(200, n)),
        (0, 1, 60, 240, 1440, 10_001), "{} > 0",
    ),
    "day": Column(
        {"kind": "date"}, lambda p, n: np.floor(18_262 + 1_000 * p.beta(2, 1, n)),
        ("{} >= '2022-01-01'", "year({}) = 2021", "weekday({}) >= 6", "quarter({}) = 1"),
    ),
    "few": _categories(3),
    "some": _categories(50),
    "many": _categories(1000),
    "body_mass_g": _numbers((2000, 8000), _real("penguins", "body_mass_g"), 6, "{} >= 4000"),
    "flipper_length_mm": _numbers(
        (150, 250), _real("penguins", "flipper_length_mm"), 10, "{} >= 200", distinct=True
    ),
    "wife_age": _numbers((15, 60), _real("fair", "age"), 9, "{} < 25", step=0.5, distinct=True),
    "rate_marriage": _numbers(
        (1, 5), _real("fair", "rate_marriage"), (1, 2, 3, 4, 5, 6), "{} = 5", distinct=True
    ),
    "visits": _numbers(
        (0, 100), _real("randhie", "mdvis"), (0, 1, 2, 5, 10, 101), "{} > 0", distinct=True
    ),
    "disease": _numbers((0, 60), _real("randhie", "disea"), 6, "{} >= 10", step=0.1),
    "diamond_price": _numbers((0, 20_000), _real("diamonds", "price"), 10, "{} >= 5000"),
    "carat": _numbers(
        (0, 10), _real("diamonds", "carat"), (0, 0.5, 1, 1.5, 2, 3, 10), "{} >= 1", step=0.01
    ),
    "length": _numbers(
        (0, 600), _real("movies", "length"), (0, 30, 60, 90, 120, 180, 601), "{} < 60"
    ),
    "film_rating": _numbers((1, 10), _real("movies", "rating"), 9, "{} >= 8", step=0.1, distinct=True),
}  # fmt: skip

DRAWN = ("age", "rating", "yes", "income", "price", "temperature", "duration", "day", "few", "some", "many")  # fmt: skip
TABLES = {
    "penguins": ("body_mass_g", "flipper_length_mm"),
    "fair": ("wife_age", "rate_marriage"),
    "randhie": ("visits", "disease"),
    "diamonds": ("diamond_price", "carat"),
    "movies": ("length", "film_rating"),
}
"""Real tables, each with two of its columns."""

FACTORS: dict[str, tuple[Any, ...]] = {
    "column": (*DRAWN, *TABLES),
    "nulls": (0, 0.05, 0.6),
    "size": (30, 1_000, 100_000, 1_000_000),
    "cap": (2, 100, 10_000),
    "expected": ("right", "a tenth", "absent"),
    "epsilon": (0.1, 1, 10),
    "delta": (0, 1e-6),
    "unit": ("row", "person"),
    "adjacency": ("add_remove", "substitution"),
    "statistics": (1, 3, 8, 20),
    "groups": (1, 3, 50, 1000),
}


@dataclass(frozen=True)
class Asked:
    """One statistic, as it is written and as it is computed: function, columns, and what else it takes."""

    function: str
    columns: tuple[str, ...] = ()
    argument: Any = None

    @property
    def text(self) -> str:
        if self.function == "proportion":
            return f"proportion({self.argument.format(*self.columns)})"
        more = () if self.argument is None else (self.argument,)
        inside = ", ".join([*self.columns, *map(_written, more)])
        return f"{self.function}({inside})" if inside else self.function


def _written(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    return f"{value:g}" if abs(value) < 1e5 else f"{value:.0f}"


@dataclass(frozen=True)
class Request:
    """One request of the corpus: its place in it, and the level of every factor."""

    number: int
    column: str
    nulls: float
    size: int
    cap: int
    expected: str
    epsilon: float
    delta: float
    unit: str
    adjacency: str
    statistics: int
    groups: int

    @property
    def columns(self) -> tuple[str, str]:
        """The column that is asked about, and another one."""
        if self.column in TABLES:
            pair = TABLES[self.column]
            return pair if self.number % 2 else pair[::-1]
        pick = np.random.default_rng((SEED, self.number, 1))
        others = [c for c in DRAWN[:7] if c not in (self.column, "yes")]
        return self.column, str(pick.choice(others))

    @property
    def rows(self) -> int:
        rows = max(self.size, 3 * self.groups)
        if self.column in TABLES:
            rows = min(rows, next(iter(_stored(self.column).values())).size)
        return rows

    @property
    def possible(self) -> bool:
        """Whether its table is here, with rows for its groups."""
        if self.column not in TABLES:
            return True
        return (REAL / f"{self.column}.parquet").exists() and self.rows >= self.groups

    @property
    def asked(self) -> tuple[Asked, ...]:
        """What is asked for: mostly the number of rows, then of both columns."""
        pick = np.random.default_rng((SEED, self.number, 2))
        one, other = (_menu(c) for c in self.columns)
        first = [one[i] for i in pick.permutation(len(one))]
        second = [other[i] for i in pick.permutation(len(other))]
        if all(COLUMNS[c].number for c in self.columns):
            pair = tuple(sorted(self.columns))
            second = [Asked("correlation", pair), Asked("covariance", pair), *second]
            second = [second[i] for i in pick.permutation(len(second))]
        count = [Asked("count")] if pick.random() < (0.25 if self.statistics == 1 else 0.75) else []
        rest = self.statistics - len(count)
        mine = min(len(first), -(-2 * rest // 3))
        chosen = [*count, *first[:mine], *second[: rest - mine]]
        return tuple(chosen + first[mine : mine + self.statistics - len(chosen)])

    def schema(self) -> dict[str, Any]:
        """Return the declaration, its release included."""
        mean = self.rows / self.groups
        size: dict[str, int] = {"max": self.cap * self.rows}
        if self.expected != "absent":
            size["expected"] = max(1, round(mean / (10 if self.expected == "a tenth" else 1)))
        person = {"user": "who", "max_groups": min(2, self.groups), "max_rows_per_group": 2}
        release: dict[str, Any] = {"epsilon": self.epsilon, "delta": self.delta}
        release |= {"by": ["g"]} if self.groups > 1 else {}
        release["statistics"] = [{"statistic": a.text, "as": f"s{i}"} for i, a in enumerate(self.asked)]  # fmt: skip
        return {
            "dprelease": "schema/1",
            "name": "field",
            "unit": "row" if self.unit == "row" else person,
            "adjacency": self.adjacency,
            "rows": size,
            "columns": {
                "who": {"kind": "identifier"},
                "g": {"kind": "category", "values": [f"g{i}" for i in range(self.groups)]},
                **{c: dict(COLUMNS[c].declared) for c in self.columns},
            },
            "release": release,
        }


def _menu(name: str) -> list[Asked]:
    """Return what people ask of a column."""
    column, of = COLUMNS[name], (name,)
    found = [Asked("proportion", of, c) for c in column.conditions]
    found += [Asked("count_distinct", of)] if column.distinct else []
    if not column.number:
        return found
    simple = ("mean", "median", "sum", "std", "variance", "min", "max")
    found += [Asked(f, of) for f in simple]
    found += [Asked("quantile", of, p / 100) for p in (10, 25, 75, 90, 20, 30, 40, 60, 70, 80, 5, 95)]  # fmt: skip
    inner = column.edges[1:-1]
    return [*found, Asked("histogram", of, column.edges), Asked("cdf", of, inner)]


ALIKE = 300
"""From here on requests of many statistics are rarer: one of twenty takes as long as fifty of one."""


def _fewer(number: int, statistics: int) -> int:
    """Return 3 for three of four twenties, and 1 for every second eight."""
    if statistics == 20 and number % 4:
        return 3
    return 1 if statistics == 8 and number % 2 else statistics


@lru_cache(maxsize=4)
def requests(count: int) -> tuple[Request, ...]:
    """Return the first requests: each is, of forty drawn ones, that whose pairs of levels are the least used so far."""
    pick, names = np.random.default_rng(SEED), list(FACTORS)
    pairs = list(itertools.combinations(range(len(names)), 2))
    most = max(map(len, FACTORS.values()))
    used = np.zeros((len(pairs), most, most))
    one, two = (np.array(p) for p in zip(*pairs, strict=True))
    sizes = np.array([len(FACTORS[n]) for n in names])
    fair = np.array([sizes[i] * sizes[j] for i, j in pairs])  # how rare a pair would be
    out = []
    for number in range(count):
        tried = (pick.random((40, len(names))) * sizes).astype(int)
        before = used[np.arange(len(pairs)), tried[:, one], tried[:, two]]
        worth = (before == 0).sum(axis=1) * 1e6 - (before * fair).sum(axis=1)
        best = tried[int(worth.argmax())]
        used[np.arange(len(pairs)), best[one], best[two]] += 1
        levels = {n: FACTORS[n][i] for n, i in zip(names, best, strict=True)}
        if number >= ALIKE:
            levels["statistics"] = _fewer(number, levels["statistics"])
        out.append(Request(number, **levels))
    return tuple(out)


@dataclass(frozen=True)
class Table:
    """The rows of a request: group and person of each, and its columns as numbers, null as NaN."""

    group: Array
    person: Array
    columns: Mapping[str, Array]

    def arrow(self) -> pa.Table:
        """Return the table that is released; categories, dates and truth values as such."""
        cells = {"who": pa.array(self.person), "g": _labels("g", self.group)}
        for name, values in self.columns.items():
            kind, null = COLUMNS[name].declared["kind"], np.isnan(values)
            whole = np.where(null, 0, values)
            if kind == "category":
                cells[name] = _labels("c", whole.astype(np.int64), null)
            elif kind == "date":
                cells[name] = pa.array(whole.astype(np.int32), mask=null).cast(pa.date32())
            else:
                cells[name] = pa.array(whole.astype(bool) if kind == "boolean" else whole, mask=null)  # fmt: skip
        return pa.table(cells)


def _labels(letter: str, codes: Array, null: Array | None = None) -> pa.Array:
    names = pa.array([f"{letter}{i}" for i in range(int(codes.max()) + 1)])
    return names.take(pa.array(codes, mask=null))


def table_of(request: Request) -> Table:
    """Return the request's rows."""
    pick, rows = np.random.default_rng((SEED, request.number, 3)), request.rows
    share = pick.uniform(0.5, 1.5, request.groups)
    group = np.sort(np.searchsorted(np.cumsum(share / share.sum())[:-1], pick.random(rows)))
    columns = {}
    for name in request.columns:
        values = COLUMNS[name].rows(pick, rows)
        values[pick.random(rows) < request.nulls] = np.nan
        columns[name] = values
    first = np.searchsorted(group, group)  # of the row's group
    return Table(group, group // 2 * rows + (np.arange(rows) - first) // 2, columns)
