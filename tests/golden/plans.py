"""What is recorded of a golden plan.

A record holds what a redesign may not change: per statistic the chosen mechanism, the figures of its
rivals, domain, step and stated errors; per block the law's numbers, its certificate and cost, the
exact integers that both engines' answers come to; and the table that repeatable bits draw from them.
Long parts are digests; floats keep nine digits, as the last ones differ between machines.

Formats of files are not frozen: a law's numbers are digested without their names and order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import DpreleaseError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source, as_source, tables_source
from dprelease.planning.make import make_plan
from dprelease.query.answer import Answer, Objects
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.read_view import parse_view
from dprelease.query.spec import resolve
from dprelease.query.view import View
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.draw import decode, encode
from dprelease.results.fitted import noised_of
from dprelease.results.receipt import Receipt
from dprelease.statistics.exact import exact_cells, summed
from dprelease.statistics.ranks import Stretches
from dprelease.wall import execute
from tests.golden.plan_cases import cases, view_of
from tests.golden.records import digest, leaves
from tests.golden.rows import places, rows, stored_rows

__all__ = ["record", "records"]

SALT = b"golden"

Record = dict[str, Any]


def records(names: Iterable[str] | None = None) -> dict[str, Record]:
    """Return the records of the cases called `names`, by default of all."""
    schemas = cases()
    return {name: record(name, schemas[name]) for name in (schemas if names is None else names)}


def record(name: str, schema: Mapping[str, Any]) -> Record:
    """Return the record of one request, or the code under which it is refused."""
    try:
        table = Schema.from_dict(schema)
        plan = make_plan(resolve(table, merge_release(table), view=_view(name)))
        proved = execute.check(plan)
    except DpreleaseError as refusal:
        return {"refused": refusal.code}
    source = _source(name, schema)
    answers = [
        engine.compute(source, plan.query, SALT).reveal_to_mechanism()
        for engine in (ReferenceEngine(), DuckDBEngine())
    ]
    cells, same = (_cells(plan, answer) for answer in answers)
    assert list(map(_plain, cells)) == list(map(_plain, same)), f"{name}: the engines disagree"
    return {
        "proved": str(proved),
        **_statistics(plan.statistics),
        **_blocks(plan.blocks),
        "exact": [digest(_plain(c)) for c in cells],
        "first": [[_short(str(c)) for c in _plain(b)[0][:4]] for b in cells],
        "composition": None if plan.composition is None else digest(plan.composition.to_json()),
        "notes": digest(plan.notes),
        "answers": digest(_numbers(answers[0])),
        **_table(name, plan, cells),
    }


def _view(name: str) -> View | None:
    sql = view_of(name)
    return None if sql is None else parse_view(sql, private=["visits"], public=["places"])


def _source(name: str, schema: Mapping[str, Any]) -> Source:
    """Return generated rows; of a view its tables."""
    if "tables" in schema["release"]:
        return as_source(stored_rows(name, schema, schema["rows"].get("exact", 120)))
    made = as_source(rows(name, schema))
    if view_of(name) is None:
        return made
    return tables_source({"visits": made, "places": as_source(places())})


def _statistics(all_of: Sequence[PlannedStatistic]) -> Record:
    return {
        "names": [s.name for s in all_of],
        "functions": [s.function for s in all_of],
        "domains": [str(s.domain) for s in all_of],
        "steps": [str(s.step) for s in all_of],
        "errors": [s.error_text for s in all_of],
        "planned": [_rounded(s.planned_error) for s in all_of],
        "options": [
            [[o.mechanism, _rounded(o.expected_error), _rounded(o.worst_error), o.note]
             for o in s.chosen]
            for s in all_of
        ],
        "words": [
            digest([s.sensitivity, s.notes, s.measure, str(s.uninformative), s.columns])
            for s in all_of
        ],
    }  # fmt: skip


def _blocks(all_of: Sequence[Block]) -> Record:
    return {
        "blocks": [b.name for b in all_of],
        "mechanisms": [b.mechanism for b in all_of],
        "epsilons": [str(b.epsilon) for b in all_of],
        "rhos": [None if b.rho is None else str(b.rho) for b in all_of],
        "certificates": [_short(b.certificate["epsilon_upper"]) for b in all_of],
        "laws": [digest(sorted(map(str, leaves(b.law.to_json())))) for b in all_of],
        "sensitivities": [sorted(map(str, leaves(b.measurement.sensitivity))) for b in all_of],
    }


def _numbers(answer: Answer) -> list[Any]:
    return [
        answer.sums.tolist(),
        [(k, v.tolist()) for k, v in sorted(answer.tables.items())],
        [(k, v.tolist()) for k, v in sorted(answer.tallies.items())],
    ]


def _cells(plan: ReleasePlan, answer: Answer) -> list[Objects]:
    groups, out = len(plan.keys), []
    for b in plan.blocks:
        cells = exact_cells(b.measurement, b.measurement.primitives, answer, groups)
        merge = None if plan.tables is None else plan.tables.sums(b.table)
        out.append(cells if merge is None else summed(cells, *merge))
    return out


def _plain(cells: Objects) -> list[list[Any]]:
    """Return exact cells as plain data; scores by rank are stretches of them."""
    return [
        [
            [c.codes.tolist(), c.at.tolist(), c.between.tolist()] if isinstance(c, Stretches) else c
            for c in row
        ]
        for row in cells.tolist()
    ]


def _table(name: str, plan: ReleasePlan, cells: list[Objects]) -> Record:
    """Return what repeatable bits draw of the exact cells, after all post-processing."""
    bits = ReplayBits(name)
    drawn = b"".join(encode(b.law.draw(c, bits)) for b, c in zip(plan.blocks, cells, strict=True))
    noised = noised_of(plan, decode(plan, drawn), Receipt("0", "0", ""))
    tables = {n: part.table for n, part in noised.parts.items()} or {"": noised.table}
    table = next(iter(tables.values()))
    first = {n: table.column(n)[0].as_py() for n in ("value", "lower", "upper", "status")}
    kept = {
        n: {c: _column(t, c) for c in t.column_names if c != "block"} for n, t in tables.items()
    }
    several = {} if plan.tables is None else {"fits": digest(noised.fits)}
    return {
        **{n: _rounded(v) if isinstance(v, float) else v for n, v in first.items()},
        "table": digest(kept if plan.tables is not None else kept[""]),
        **several,
    }


def _column(table: pa.Table, name: str) -> list[Any]:
    cells = table.column(name).to_pylist()
    return [_rounded(c) if isinstance(c, float) else c for c in cells]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.9g}") + 0.0


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:8]}…{digest(text)}"
