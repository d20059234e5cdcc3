"""Every aggregate without noise: exact cells finish to the statistic, inside its induced domain.

The domains of `docs/theory/domains-and-grids.md#induced-domains` by brute force: no small table
leaves them, and their ends are attained wherever a table of one to four rows can attain them.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.planning.layout import layout
from dprelease.query.bounded import Fixed
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import PrimitivePlaces, bounded_query
from tests.contracts.brute_cases import matrix
from tests.contracts.test_sensitivities import AGGREGATES, OPTIONS
from tests.planning.requests import asked
from tests.sizes import some

COLUMNS = {
    "across zero": {"range": [-3, 4], "step": 1},
    "above zero": {"range": [2, 5], "step": 1},
    "below zero": {"range": [-7, -4], "step": 1},
    "with a gap": {"range": [-2, 6], "forbidden": [[0, 3]], "step": 1},
    "half steps": {"range": [-0.5, 1], "step": 0.5},
}
TEXTS = {
    "count": "count",
    "count_persons": "count(persons)",
    "count_where": "count where x > 0",
    "proportion": "proportion(x > 0)",
    "histogram": "histogram(x, [{low}, {middle}, {high}])",
    "histogram_of_ranges": "histogram(x, [{low}, {middle}, {high}])",
    "cdf": "cdf(x, [{low}, {middle}, {high}])",
}


def statistic(name: str, rows: tuple[Fraction, ...], edges: tuple[Fraction, ...]) -> list[float]:
    """Return the slow, obvious answer; nothing for a mean of no rows."""
    n = len(rows)
    if name in ("count", "count_persons"):
        return [n]
    if name == "count_where":
        return [sum(r > 0 for r in rows)]
    if name == "sum":
        return [float(sum(rows))]
    if name in ("histogram", "histogram_of_ranges"):
        last = len(edges) - 2
        return [
            sum(edges[i] <= r < edges[i + 1] or (i == last and r == edges[-1]) for r in rows)
            for i in range(last + 1)
        ]
    if n == 0:
        return []
    if name == "cdf":
        return [sum(r <= e for r in rows) / n for e in edges]
    mean = sum(rows) / Fraction(n)
    variance = sum((r - mean) ** 2 for r in rows) / Fraction(n)
    chosen = {
        "mean": float(mean),
        "variance": float(variance),
        "std": math.sqrt(variance),
        "proportion": float(Fraction(sum(r > 0 for r in rows), n)),
    }
    assert name in chosen, f"say here what {name} is, in the slow, obvious way"
    return [chosen[name]]


@pytest.mark.parametrize(
    ("name", "column", "public"), some(itertools.product(AGGREGATES, COLUMNS, [False, True]), 3)
)
def test_exact_cells_finish_to_the_statistic(name: str, column: str, public: bool) -> None:
    declared: dict[str, Any] = {"kind": "number", **COLUMNS[column]}
    low, high = (Fraction(str(e)) for e in declared["range"])
    edges = (low, low + Fraction(str(declared["step"])), high)
    text = TEXTS.get(name, f"{name}(x)").format(
        low=float(low), middle=float(edges[1]), high=float(high)
    )
    seen: dict[int, list[float]] = {}
    for n in (1, 2, 3):
        more: dict[str, Any] = {"rows": {"max": 3}}
        if public:
            declared["nulls"] = {"default": float(high)}
            more = {"rows": {"exact": n}, "adjacency": "substitution"}
        query = asked([{"statistic": text, **OPTIONS.get(name, {})}], x=declared, **more)
        (block,) = layout(query)
        member = block.members[0]
        domain = query.schema.columns["x"].domain
        assert domain is not None
        values = sorted(
            {e for piece in domain.exact_pieces for e in piece if isinstance(e, Fraction)}
        )
        for rows in itertools.combinations_with_replacement(values, n):
            expected = statistic(name, rows, edges)
            seen.setdefault(n, []).extend(expected)
            assert all(
                member.domain.lower - 1e-12 <= e <= member.domain.upper + 1e-12 for e in expected
            )
            for measurement in block.options:
                if measurement.family != "truncated_mean":
                    got = finished(query, member, measurement, rows)
                    assert got == pytest.approx(expected, abs=1e-9)
        if public and n > 1 and name in ("mean", "sum", "variance"):
            assert (min(seen[n]), max(seen[n])) == pytest.approx(member.domain.hull)


def finished(
    query: Any, member: Any, measurement: Measurement, rows: tuple[Fraction, ...]
) -> list[float]:
    """Return the statistic's values from the exact cells of `rows`."""
    if measurement.family == "constant":
        return [float(measurement.value)]
    task = bounded_query(query, ((measurement, None),))
    sums = [0] * len(task.primitives)
    for row in rows:
        for j, p in enumerate(task.primitives):
            code = 0
            if p.code is not None:
                known = task.codes[p.code]
                code = int(row > 0)
                if isinstance(known, Fixed):
                    code = int(row / known.step) - known.grid.lower
            if p.kind == "power":
                sums[j] += code**p.power
            elif p.kind == "between":
                sums[j] += int(p.low <= code <= p.high)
            else:
                sums[j] += 1
    chosen = [sums[i] for i in PrimitivePlaces(task).find(measurement, 1)]
    if measurement.form == "scatter":
        n = measurement.public_rows or 0
        cells = [n * chosen[1] - chosen[0] ** 2]
    else:
        cells = [
            sum(w * c for w, c in zip(row, chosen, strict=True)) for row in matrix(measurement)
        ]
    if measurement.family == "scalar":
        cells = [float(measurement.offset + measurement.step_size * c) for c in cells]  # type: ignore[misc]
    out = member.kind.finish(measurement, np.array([cells], dtype=float))
    return [float(v) for v in out[0]]
