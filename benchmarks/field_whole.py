"""Twenty requests of the corpus end to end: plan, engine, wall and table, drawn many times, beside the errors of the laws alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from field_corpus import Request, table_of
from field_laws import BY_RANK, FEW_DRAWS, Rows

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.planning.make import make_plan
from dprelease.query.spec import Query
from dprelease.results.draw import assemble
from dprelease.wall import execute

__all__ = ["chosen", "compared"]

WHOLE = 20
_DRAWS = 200


def chosen(requests: Iterable[Request]) -> list[Request]:
    """Return twenty requests of all kinds that are quickly drawn again and again."""
    small = (r for r in requests if r.possible and r.rows <= 100_000 and r.groups <= 50)
    return [r for r, _ in zip((r for r in small if r.statistics <= 8), range(WHOLE), strict=False)]


def compared(
    request: Request, query: Query, groups: list[int], found: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return, per statistic, the mean error of whole releases, that of the law alone, and how many standard errors lie between."""
    plan, table = make_plan(query, brief=True), table_of(request)
    exact = DuckDBEngine().compute(as_source(table.arrow()), plan.query, b"\\0" * 32)
    columns = [(i, c) for i, s in enumerate(plan.statistics) for c in s.columns]
    values = np.empty((_DRAWS, len(plan.keys), len(columns)))
    for draw in range(_DRAWS):
        cells = execute.draw(plan, exact)
        drawn = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
        values[draw] = drawn["value"].to_numpy().reshape(len(plan.keys), -1)
    out = []
    for i, (asked, alone) in enumerate(zip(request.asked, found, strict=True)):
        mine = values[:, :, [j for j, (s, _) in enumerate(columns) if s == i]]
        errors = []
        for group in groups:
            rows = Rows(table, group)
            wanted = rows.exact(asked)
            if np.isnan(wanted).any():
                continue
            if asked.function in BY_RANK:
                errors.append(rows.missed(asked, mine[:, group, 0]))
            else:
                errors.append(np.abs(mine[:, group] - wanted).mean(axis=1))
        if errors:
            each = np.mean(errors, axis=0)
            # what is rarely far off may not be among so few: the law's own spread counts, too
            spread = max(float(each.std()), alone["sd"] * math.sqrt(FEW_DRAWS))
            sd = math.hypot(spread / math.sqrt(_DRAWS), alone["sd"])
            mean = float(each.mean())
            off = (mean - alone["error"]) / sd if sd else 0.0
            out.append({"text": asked.text, "whole": mean, "law": alone["error"], "off": off})
    return out
