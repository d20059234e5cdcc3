"""The reference engine: the meaning of a bounded query, one row at a time, in plain Python.

Slow and obvious on purpose: it shares with the default engine the reading of in-memory tables and
the doubles of a code, and nothing else. Tests require the two to return the same integers.

Limits. Everything is held in memory. A date or timestamp outside the years 1 to 9999 is null, but for
its text.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.core.errors import InternalError
from dprelease.core.secret import Secret
from dprelease.engines.clean_rows import key_of, nearest_step
from dprelease.engines.reference_rows import UNIT, Row, load_rows, naive
from dprelease.engines.request import (
    check_query,
    declared_labels,
    listed_keys,
    row_cap,
)
from dprelease.engines.source import Source
from dprelease.query.answer import TALLY_COLUMNS, Answer
from dprelease.query.bounded import BoundedQuery, Condition, Cross, Fixed, Label, Near, Primitive
from dprelease.query.expression import evaluate
from dprelease.schema.column import Kind
from dprelease.schema.naming import found_key


class ReferenceEngine:
    """Exact primitives, row by row. For tests and for reading; `DuckDBEngine` is the fast one."""

    name = "reference"
    timeout = None

    def preflight(self, source: Source, query: BoundedQuery) -> None:
        """Check that the columns exist and fit. Unlike the default engine, this opens the rows.

        Raises:
            SourceError: as `DuckDBEngine.preflight`.
            PlanError: the query is unsafe to run (DPR230 to DPR236).
        """
        check_query(query)
        load_rows(source, query)

    def compute(self, source: Source, query: BoundedQuery, salt: bytes) -> Secret[Answer]:
        """Return exact integers, 0 for a group without rows.

        Raises:
            InternalError: anything failed while rows were read (DPR900).
            PlanError: the query is unsafe to run (DPR230 to DPR236).
        """
        check_query(query)
        out: Answer | None
        try:
            rows = list(coded_rows(source, query))
            numbered = (
                [(row, 1) for row in rows] if query.user is None else _bound(rows, query, salt)
            )
            out = _sum(numbered, query)
        except Exception:  # noqa: BLE001 - dropped, not chained: it may quote a cell
            out = None
        if out is None:
            raise InternalError("the rows could not be aggregated", code="DPR900")
        return Secret(out)


def coded_rows(source: Source, query: BoundedQuery) -> Iterator[Coded]:
    """Yield the rows that `query` keeps (steps 1 and 2 of `query.bounded`), in the table's order.

    For engines that bound and sum in their own way. Call it inside the engine's own guard: what
    it raises may quote a cell.
    """
    return (coded for row in load_rows(source, query) if (coded := _code(row, query)) is not None)


@dataclass(frozen=True, slots=True)
class Coded:
    """One row that a query keeps: its unit ("" for the row unit), its group, its codes.

    `interval` is the first day of its interval where the unit has one, as 2013-01-28, else "".
    """

    unit: str
    group: int
    codes: tuple[int | None, ...]
    interval: str = ""

    @property
    def bounded(self) -> tuple[str, ...]:
        """What contributions are bounded within: the texts that hashes begin with."""
        return (self.unit, self.interval) if self.interval else (self.unit,)


def _code(read: tuple[Row, Row], query: BoundedQuery) -> Coded | None:
    """Return the row's unit, group and codes, or None when the row is left out."""
    row, clean = read
    unit = "" if query.user is None else row[UNIT]
    if unit is None or not _in_window(row, query):
        return None
    if query.where is not None and evaluate(query.where, clean) is not True:
        return None
    labels = []
    for place, column in enumerate(query.groups.columns):
        label = _label(row[column.name], query, place)
        if label is None:
            return None
        labels.append(label)
    found = query.groups.found
    group: Any = labels[0] if found else None
    if not found:
        key = () if query.groups.whole else tuple(labels)
        known = (label in query.groups.labels(i) for i, label in enumerate(labels))
        if key not in query.groups.keys or not all(known):
            return None
        group = query.groups.keys.index(key)
    codes = tuple(
        _cell(code, query, labels) if isinstance(code, Cross) else _value(code, row, clean)
        for code in query.codes
    )
    if query.per is None:
        return Coded(str(unit), group, codes)
    moment = _moment(row[query.per.column])
    if moment is None:
        return None
    first = query.per.first_day(moment.replace(tzinfo=UTC))
    return Coded(str(unit), group, codes, first.isoformat())


def _cell(code: Cross, query: BoundedQuery, labels: list[str]) -> int:
    """Return the row's cell of a cross."""
    named, cell = {c.name: i for i, c in enumerate(query.groups.columns)}, 0
    for name, size in zip(code.crossed, code.sizes, strict=True):
        place = named[name]
        cell = cell * size + query.groups.labels(place).index(labels[place])
    return cell


def _in_window(row: Row, query: BoundedQuery) -> bool:
    if query.window is None:
        return True
    moment = _moment(row[query.window.column])
    return moment is not None and naive(query.window.start) <= moment < naive(query.window.end)


def _moment(cell: object) -> datetime | None:
    """Return a date's midnight, or a timestamp, without a zone: UTC."""
    if cell is None or isinstance(cell, datetime):
        return cell
    assert isinstance(cell, date)
    return datetime(cell.year, cell.month, cell.day)  # noqa: DTZ001 - naive is UTC


def _label(value: object, query: BoundedQuery, place: int) -> str | None:
    column = query.groups.columns[place]
    if query.groups.found:
        return found_key(None if value is None else str(value), column.other, column.null_key)
    if value is None:
        return column.null_key
    if column.values and column.kind is not Kind.boolean:
        return key_of(column, value)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if text in declared_labels(query, place) else column.other


def _value(code: Fixed | Condition | Label, row: Row, clean: Row) -> int | None:
    if isinstance(code, Condition):
        truth = evaluate(code.expression, clean)
        return None if truth is None else int(bool(truth))
    if isinstance(code, Label):
        value = clean[code.column]
        return code.values.index(str(value)) if value in code.values else None
    value = row[code.column]
    if value is None:
        return code.default
    return nearest_step(code, float(value)) - code.grid.lower  # type: ignore[arg-type]


def _hash(salt: bytes, *parts: object) -> str:
    text = "|".join([salt.hex(), *map(str, parts)])
    return hashlib.md5(text.encode()).hexdigest()[::-1]  # noqa: S324 - an order, not a seal


def _bound(rows: list[Coded], query: BoundedQuery, salt: bytes) -> list[tuple[Coded, int]]:
    """Return the rows that a unit may contribute, each with its number in (unit, group)."""
    units: dict[tuple[str, ...], dict[int, list[Coded]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        units[row.bounded][row.group].append(row)
    most = max((row_cap(query, p) for p in query.primitives), default=1)
    out = []
    for unit, groups in units.items():
        order = sorted(groups, key=lambda g: (_hash(salt, *unit, g), g))[: query.max_groups]
        chosen = []
        for rank, group in enumerate(order):
            cells = [(_hash(salt, *unit, group, *_cells(r)), r) for r in groups[group]]
            cells.sort(key=lambda pair: pair[0])
            chosen += [(n, rank, r) for n, (_, r) in enumerate(cells, start=1) if n <= most]
        chosen.sort(key=lambda c: (c[0], c[1]))
        out += [(r, n) for n, _, r in chosen[: query.max_rows_total]]
    return out


def _cells(row: Coded) -> list[str]:
    return ["-" if c is None else str(c) for c in row.codes]


def _sum(rows: list[tuple[Coded, int]], query: BoundedQuery) -> Answer:
    if query.groups.found:
        once = {(r.group, r.unit if query.user else i) for i, (r, _) in enumerate(rows)}
        return listed_keys([[*Counter(group for group, _ in once).items()]])
    out = np.zeros((len(query.groups.keys), len(query.primitives)), dtype=object)
    tables: dict[int, np.ndarray[tuple[int, int], np.dtype[np.int64]]] = {}
    tallies: dict[int, np.ndarray[tuple[int, int], np.dtype[np.int64]]] = {}
    for place, primitive in enumerate(query.primitives):
        within = [r for r, n in rows if query.user is None or n <= row_cap(query, primitive)]
        known = [(r.group, c) for r in within if (c := _code_of(primitive, r)) is not None]
        match primitive.kind:
            case "edges":
                tables[place] = _edges(primitive, within)
            case "tally":
                tallies[place] = _tally(known, primitive.near)
            case "distinct":
                for group, _ in set(known):
                    out[group, place] += 1
            case "persons" if query.user is not None:
                for group, _ in {(row.group, row.unit) for row in within}:
                    out[group, place] += 1
            case "persons_in_cells" if query.user is not None:
                for group in _first_groups(primitive, within):
                    out[group, place] += 1
            case _:
                for row in within:
                    out[row.group, place] += _summand(primitive, row.codes)
    return Answer(out, tables, tallies)


def _first_groups(primitive: Primitive, rows: list[Coded]) -> list[int]:
    """Return of each user and cell the first group with a row of theirs."""
    found: dict[tuple[str, int], int] = {}
    for row in rows:
        key = row.unit, primitive.cells[row.group]
        found[key] = min(row.group, found.get(key, row.group))
    return list(found.values())


def _tally(
    known: list[tuple[int, int]], near: Near | None
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the codes of each group that come near a rank, `(codes, 5)`."""
    out = []
    for group in sorted({g for g, _ in known}):
        codes = sorted(c for g, c in known if g == group)
        total = len(codes)
        for code in sorted(set(codes)):
            below, upto = sum(c < code for c in codes), sum(c <= code for c in codes)
            if near is not None:
                rank = min(
                    max(Fraction(near.a * total + near.offset, near.b), Fraction(0)),
                    Fraction(total),
                )
                if max(below - rank, rank - upto) > Fraction(near.last, near.b):
                    continue
            out.append((group, code, below, upto, total))
    return np.array(out, dtype=np.int64).reshape(-1, TALLY_COLUMNS)


def _edges(
    primitive: Primitive, rows: list[Coded]
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Return the simple graph that the rows name, `(edges, 2)`, smaller node first, sorted."""
    assert primitive.code is not None
    assert primitive.other is not None
    edges = set()
    for row in rows:
        one, other = row.codes[primitive.code], row.codes[primitive.other]
        if one is not None and other is not None and one != other:
            edges.add((min(one, other), max(one, other)))
    return np.array(sorted(edges), dtype=np.int64).reshape(-1, 2)


def _code_of(primitive: Primitive, row: Coded) -> int | None:
    return None if primitive.code is None else row.codes[primitive.code]


def _summand(primitive: Primitive, codes: tuple[int | None, ...]) -> int:
    if primitive.kind in ("rows", "persons", "persons_in_cells"):
        return 1
    assert primitive.code is not None
    code = codes[primitive.code]
    if code is None:
        return 0
    if primitive.kind == "between":
        return int(primitive.low <= code <= primitive.high)
    if primitive.kind == "product":
        assert primitive.other is not None
        other = codes[primitive.other]
        return 0 if other is None else int(code**primitive.power * other**primitive.other_power)
    return int(code**primitive.power)
