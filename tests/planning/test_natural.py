"""Natural schemas are planned, and what a plan states is what its draws are off by.

A stated error is an expectation at the declared size over public answers (`natural._answers`). It is
compared from both sides; of variances, standard deviations, covariances and correlations, whose stated
error is a bound for other data too, from below. The control: half the stated error would be refused.
"""

from __future__ import annotations

from collections import Counter

import pytest

from dprelease.core.entropy import ReplayBits
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import Schema
from dprelease.wall import execute
from tests.planning import natural
from tests.sizes import FULL

COUNT = 560 if FULL else 10
DRAWS = 300 if FULL else 150
SPREADS = ("variance", "std", "covariance", "correlation")
SLACK = 0.15
SIGMAS = 6


def believable(function: str, stated: float, drawn: float, deviation: float) -> bool:
    """Return whether the drawn error may be the stated one."""
    room = SLACK * stated + SIGMAS * deviation
    return drawn <= stated + room and (function in SPREADS or drawn >= stated - room)


def test_natural_schemas_are_planned_and_their_errors_are_drawn(evidence):
    kinds: Counter[str] = Counter()
    wrong, told = [], 0
    for i, schema in enumerate(natural.requests(COUNT)):
        plan = plan_release(Schema.from_dict(schema))
        execute.check(plan)
        rows = schema["rows"]
        size = rows.get("exact") or rows["expected"]
        for statistic, drawn, deviation in natural.drawn_errors(
            plan, DRAWS, size, ReplayBits(f"natural {i}")
        ):
            stated = statistic.planned_error
            if stated is None or statistic.spikes is False:
                continue
            kinds[statistic.function] += 1
            if not believable(statistic.function, stated, drawn, deviation):
                wrong.append((i, statistic.text, statistic.mechanism, stated, drawn, deviation))
            told += not believable(statistic.function, stated / 2, drawn, deviation)
    assert not wrong, wrong[:20]
    checked = sum(kinds.values())
    assert told >= 0.6 * checked, (told, checked)  # the control
    assert checked >= COUNT // 2
    evidence(
        "natural schemas",
        f"{COUNT} requests, {checked} stated errors drawn {DRAWS} times per answer",
        f"none refused, every stated error as drawn; half of it would be refused {told} times",
    )


@pytest.mark.parametrize("name", ["salary", "turnover", "share", "millidegrees", "wealth"])
@pytest.mark.parametrize("epsilon", [0.1, 1])
@pytest.mark.parametrize(
    "statistics", [["variance({})"], ["mean({})", "variance({})"], ["std({})"]]
)
def test_squares_of_fine_columns_are_planned(name, epsilon, statistics):
    schema = next(natural.requests(1))
    schema["columns"][name] = dict(natural.COLUMNS[name])
    schema["release"] = {"epsilon": epsilon, "statistics": [s.format(name) for s in statistics]}
    execute.check(plan_release(Schema.from_dict(schema)))
