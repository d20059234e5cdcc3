"""The contract of a mechanism: its certificate holds over every pair of answers, by enumeration.

For every request the family takes, and every law it makes:

    certificate   at most the epsilon asked for, the same when recomputed and when read back
    privacy       P(y | q) <= ratio P(y | q') for all hull answers at most `distance` apart, gaps
                  included, and all outputs y, from the law's own `pmf`
    splits        for a law that covers them: the losses of several draws, whose answers are together at
                  most the sensitivity apart, add up to at most the certificate, however they are apart
    outputs       allowed points only; probabilities sum to 1
    interval      inside the hull, and at least its level over the law, from every answer
    draws         fit the pmf (chi-square, p > 1e-6, repeatable bits), and a shifted one does not

Units    grid steps. Limits  `pmf` and the certificate are the author's: a law that draws otherwise
than its pmf says is found by the fit of draws only, where the deviation is large enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, cast

import numpy as np
from scipy.stats import chi2

from dprelease.core import registry
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exp_lower
from dprelease.core.strict_json import json_text, read_json
from dprelease.mechanisms.law import (
    GridLaw,
    GridRequest,
    covers_splits,
    family_laws,
    law_from_json,
)
from dprelease.schema.domain import GridSet

DRAWS = 4000
_ROUNDING = 1e-9

_SETS = ([(0, 6)], [(-5, 12)], [(0, 3), (8, 11)], [(0, 0), (5, 9)], [(-4, -2), (3, 3), (7, 12)])

REQUESTS: tuple[GridRequest, ...] = tuple(
    GridRequest(GridSet.from_runs(runs), sensitivity, epsilon, loss, point_masses, splits)  # type: ignore[arg-type]
    for runs in _SETS
    for sensitivity in (1, 3, 40)
    for epsilon, loss, point_masses, splits in (
        (Fraction(1, 4), "absolute", True, False),
        (Fraction(1), "squared", True, False),
        (Fraction(3), "absolute", False, False),
        (Fraction(1, 2), "absolute", True, True),
    )
)
"""Small grids with and without gaps, sensitivities below and above the hull."""


def check_mechanism(name: str, requests: Iterable[GridRequest] = REQUESTS) -> int:
    """Check the family registered as `name`; return how many laws were checked.

    Raises:
        AssertionError: a law breaks the contract, or the family takes none of the requests.
        ArgumentError: no kind of that name (DPR610).
    """
    registry.load("mechanisms", name)
    checked = 0
    for request in requests:
        try:
            laws = family_laws(request, name)
        except ArgumentError as refusal:
            if refusal.code == "DPR617":
                raise AssertionError(str(refusal)) from None
            continue  # a refusal is an answer
        for law in laws:
            check_law(law, request)
            checked += 1
    assert checked, f"{name} takes none of the requests"
    return checked


def check_law(law: GridLaw, request: GridRequest) -> None:
    """Check one law against the request it was made for.

    Raises:
        AssertionError: it breaks the contract.
    """
    said = f"{law.describe()} on {request.allowed.runs}, sensitivity {request.sensitivity}"
    certificate = law.certify()
    assert certificate == law.certificate, f"{said}: the certificate is not the recomputed one"
    assert certificate.epsilon_upper <= request.epsilon, f"{said}: proves more than was asked for"
    assert (law.allowed, law.sensitivity, law.epsilon) == (
        request.allowed,
        request.sensitivity,
        request.epsilon,
    ), f"{said}: answers another request"
    stored = read_json(json_text(law.to_json()))
    again = law_from_json(stored)
    assert again.to_json() == law.to_json(), f"{said}: does not read back what it writes"
    assert again.certify() == certificate, f"{said}: proves something else when read back"
    table = {q: law.pmf(q) for q in range(request.allowed.lower, request.allowed.upper + 1)}
    _outputs(table, request, said)
    _privacy(table, request, certificate.epsilon_upper, said)
    if covers_splits(law):
        _splits(table, law.sensitivity, certificate.epsilon_upper, said)
    _intervals(law, table, request, said)
    _draws(law, table, said)


def _outputs(table: dict[int, dict[int, Any]], request: GridRequest, said: str) -> None:
    points = set(request.allowed.points().tolist())
    for q, chances in table.items():
        assert {y for y, p in chances.items() if p > 0} <= points, f"{said}: leaves the allowed set"
        assert abs(float(sum(chances.values())) - 1) < _ROUNDING, f"{said}: P(. | {q}) is not a law"


def _privacy(
    table: dict[int, dict[int, Any]], request: GridRequest, epsilon: Fraction, said: str
) -> None:
    limit = exp_lower(epsilon)
    for q, chances in table.items():
        for other in range(q - request.capped_sensitivity, q + request.capped_sensitivity + 1):
            for y, p in chances.items() if other in table else ():
                q_chance = table[other].get(y, 0)
                exact = isinstance(p, Fraction) and isinstance(q_chance, Fraction)
                bound = limit * q_chance if exact else float(limit) * float(q_chance)
                assert p <= bound or (not exact and float(p) <= float(bound) * (1 + _ROUNDING)), (
                    f"{said}: P({y} | {q}) is more than e^{float(epsilon):.6g} P({y} | {other})"
                )


def _splits(
    table: dict[int, dict[int, Any]], sensitivity: int, epsilon: Fraction, said: str
) -> None:
    """Add the worst losses of single draws up, over every way to split the sensitivity."""
    points = sorted({y for chances in table.values() for y in chances})
    chances = np.array([[float(table[q].get(y, 0)) for y in points] for q in sorted(table)])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(chances)
        apart = [  # by how far the answers are apart; an output of neither is no loss
            float(np.nanmax(np.abs(logs[d:] - logs[:-d])))
            for d in range(1, min(sensitivity, len(table) - 1) + 1)
        ]
    together = [0.0]
    for total in range(1, sensitivity + 1):
        ways = [together[total - d] + loss for d, loss in enumerate(apart[:total], start=1)]
        together.append(max(ways, default=0.0))
    assert max(together) <= float(epsilon) * (1 + _ROUNDING), (
        f"{said}: over several coordinates it loses {max(together):.6g}, not {float(epsilon):.6g}"
    )


def _intervals(
    law: GridLaw, table: dict[int, dict[int, Any]], request: GridRequest, said: str
) -> None:
    """Draw many, ask for their intervals: the share that holds the answer may not be too small."""
    level = 0.95
    for q in table:
        raw = law.draw_raw(np.full(400, q, dtype=np.int64), ReplayBits(f"interval {q}"))
        low, high = law.interval(raw, level)
        hull = request.allowed.lower, request.allowed.upper
        assert hull[0] <= low.min(), f"{said}: an interval leaves the hull"
        assert high.max() <= hull[1], f"{said}: an interval leaves the hull"
        share = float(((low <= q) & (q <= high)).mean())
        # 400 draws at 0.95: a share below 0.88 has a chance below 1e-7
        assert share >= 0.88, f"{said}: intervals hold {q} in {share:.0%} of draws only"


def _draws(law: GridLaw, table: dict[int, dict[int, Any]], said: str) -> None:
    for q in (min(table), max(table)):
        bits = ReplayBits(f"contract {q}")
        drawn = law.finish(law.draw_raw(np.full(DRAWS, q, dtype=np.int64), bits))
        counts = Counter(int(y) for y in drawn)
        assert _fit(counts, table[q]) > 1e-6, f"{said}: draws at {q} do not follow the pmf"


def _fit(counts: Counter[int], law: dict[int, Any]) -> float:
    """Return the chi-square p-value of `counts` under `law`, rare outputs pooled."""
    total, pooled, seen, value, cells = sum(counts.values()), 0.0, 0, 0.0, 0
    for y, p in law.items():
        expected = total * float(p)
        if expected < 10:
            pooled, seen = pooled + expected, seen + counts[y]
            continue
        value, cells = value + (counts[y] - expected) ** 2 / expected, cells + 1
    if pooled >= 5:
        value, cells = value + (seen - pooled) ** 2 / pooled, cells + 1
    if any(y not in law for y in counts):
        return 0.0
    return 1.0 if cells < 2 else cast("float", chi2.sf(value, cells - 1))
