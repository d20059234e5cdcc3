"""An engine that bounds contributions by sorting one Arrow table, and sums by group with numpy.

What a row means (its unit, its group, its codes) is read by dprelease itself, so that every make of
table is read as all engines read it. The bounding follows `dprelease.query.bounded` word for word:
a unit's groups in the order of md5(salt | unit | group), the first `max_groups` of them (the unit is
a user, or a user and an interval); the rows of
one in the order of md5(salt | unit | group | codes), numbered from 1; `max_rows_total` takes the
lowest numbers first, and of equal ones the earlier group.

Units    codes in steps; sums are Python integers, so that none overflows or rounds.
Limits   everything is held in memory.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.core.secret import Secret
from dprelease.engines.reference import Coded, ReferenceEngine, coded_rows
from dprelease.engines.request import check_query, row_cap
from dprelease.engines.source import Source
from dprelease.engines.tally import near_rows
from dprelease.errors import InternalError
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery, Near, Primitive

Ints = npt.NDArray[np.int64]


class ArrowSortedEngine:
    """Exact primitives from one sorted table."""

    name = "arrow_sorted"
    timeout = None

    def preflight(self, source: Source, query: BoundedQuery) -> None:
        """Check that the columns exist and fit; see `ReferenceEngine.preflight` for errors."""
        ReferenceEngine().preflight(source, query)

    def compute(self, source: Source, query: BoundedQuery, salt: bytes) -> Secret[Answer]:
        """Return exact integers, 0 for a group without rows.

        Raises:
            InternalError: anything failed while rows were read (EXA002); no detail is given, and
                nothing is chained: a message could quote a cell.
            PlanError: the query is unsafe to run (DPR230 to DPR236).
        """
        check_query(query)
        found: Answer | None
        try:
            found = _answer(list(coded_rows(source, query)), query, salt)
        except Exception:  # noqa: BLE001 - dropped, not chained
            found = None
        if found is None:
            raise InternalError("the rows could not be aggregated", code="EXA002")
        return Secret(found)


def _answer(rows: list[Coded], query: BoundedQuery, salt: bytes) -> Answer:
    numbers = np.ones(len(rows), dtype=np.int64)
    if query.user is not None:
        rows, numbers = _bounded(rows, query, salt)
    groups = np.array([r.group for r in rows], dtype=np.int64)
    codes = np.array([r.codes for r in rows], dtype=object).reshape(len(rows), len(query.codes))
    sums = np.zeros((len(query.groups.keys), len(query.primitives)), dtype=object)
    tables: dict[int, Ints] = {}
    tallies: dict[int, Ints] = {}
    for place, primitive in enumerate(query.primitives):
        kept = np.full(len(rows), True)
        if query.user is not None:
            kept = numbers <= row_cap(query, primitive)
        for name in (primitive.code, primitive.other):
            if name is not None:
                kept &= np.array([c is not None for c in codes[:, name]], dtype=bool)
        g, own = groups[kept], codes[kept]
        match primitive.kind:
            case "edges":
                pairs = {tuple(sorted(p)) for p in own[:, [primitive.code, primitive.other]]}
                simple = sorted((a, b) for a, b in pairs if a != b)
                tables[place] = np.array(simple, dtype=np.int64).reshape(-1, 2)
            case "tally":
                tallies[place] = _tally(g, own[:, primitive.code].astype(np.int64), primitive.near)
            case "distinct":
                for group, _ in set(zip(g.tolist(), own[:, primitive.code], strict=True)):
                    sums[group, place] += 1
            case "persons" if query.user is not None:
                persons = [rows[i].unit for i in np.flatnonzero(kept)]
                for group, _ in set(zip(g.tolist(), persons, strict=True)):
                    sums[group, place] += 1
            case "persons_in_cells" if query.user is not None:
                persons = [rows[i].unit for i in np.flatnonzero(kept)]
                cells = np.array(primitive.cells, dtype=np.int64)[g].tolist()
                first: dict[tuple[str, int], int] = {}
                for person, cell, group in sorted(zip(persons, cells, g.tolist(), strict=True)):
                    first.setdefault((person, cell), group)
                for group in first.values():
                    sums[group, place] += 1
            case _:
                np.add.at(sums, (g, place), _summands(primitive, own))
    return Answer(sums, tables, tallies)


def _tally(groups: Ints, codes: Ints, near: Near | None) -> Ints:
    """Return the rows at each code around a rank; see `Primitive`."""
    pairs, counts = np.unique(np.stack([groups, codes], axis=1), axis=0, return_counts=True)
    totals = np.bincount(groups, minlength=1)
    before = np.concatenate([[0], np.cumsum(totals)])[pairs[:, 0]]
    upto = np.cumsum(counts) - before
    table = np.stack([*pairs.T, upto - counts, upto, totals[pairs[:, 0]]], axis=1)
    return table if near is None else table[near_rows(table, near)]


def _summands(primitive: Primitive, codes: npt.NDArray[np.object_]) -> npt.NDArray[np.object_]:
    """Return what each row adds, Python integers; shape `(rows,)`."""
    if primitive.code is None:
        return np.ones(len(codes), dtype=np.int64).astype(object)
    own = codes[:, primitive.code]
    if primitive.kind == "between":
        inside = [int(primitive.low <= c <= primitive.high) for c in own]
        return np.array(inside, dtype=object)
    out = own**primitive.power
    if primitive.other is not None:
        out = out * codes[:, primitive.other] ** primitive.other_power
    return np.asarray(out)


def _bounded(rows: list[Coded], query: BoundedQuery, salt: bytes) -> tuple[list[Coded], Ints]:
    """Return the rows that units may contribute, and each one's number in (unit, group)."""
    groups = sorted({(_unit(r), r.group) for r in rows})
    order = [(u, _order(salt, u, g), g) for u, g in groups]
    turn = _numbered(order, by=1)
    rank = {(u, g): int(n) for (u, _, g), n in zip(order, turn, strict=True)}
    kept = [r for r in rows if rank[_unit(r), r.group] <= query.max_groups]
    units = [_unit(r) for r in kept]
    within = [
        (u, r.group, _order(salt, u, r.group, *map(_cell, r.codes)))
        for u, r in zip(units, kept, strict=True)
    ]
    numbers = _numbered(within, by=2)
    most = max((row_cap(query, p) for p in query.primitives), default=1)
    few = np.flatnonzero(numbers <= most)
    kept, numbers = [kept[i] for i in few], numbers[few]
    if query.max_rows_total is not None:
        turns = [
            (_unit(r), int(n), rank[_unit(r), r.group]) for r, n in zip(kept, numbers, strict=True)
        ]
        few = np.flatnonzero(_numbered(turns, by=1) <= query.max_rows_total)
        kept, numbers = [kept[i] for i in few], numbers[few]
    return kept, numbers


def _numbered(keys: list[tuple[Any, ...]], *, by: int) -> Ints:
    """Return each row's place, from 1, among the rows equal in the first `by` keys."""
    if not keys:
        return np.zeros(0, dtype=np.int64)
    names = [f"k{i}" for i in range(len(keys[0]))]
    table = pa.table([pa.array(column) for column in zip(*keys, strict=True)], names=names)
    order = pc.sort_indices(table, [(name, "ascending") for name in names]).to_numpy()
    places = np.empty(len(keys), dtype=np.int64)
    last, place = None, 0
    for i in order:
        place = place + 1 if keys[i][:by] == last else 1
        last, places[i] = keys[i][:by], place
    return places


def _order(salt: bytes, *parts: object) -> str:
    text = "|".join([salt.hex(), *map(str, parts)])
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()[::-1]


def _unit(row: Coded) -> str:
    """Return what contributions are bounded within; an interval's text has one width, so no two meet."""
    return "|".join(row.bounded)


def _cell(code: int | None) -> str:
    return "-" if code is None else str(code)
