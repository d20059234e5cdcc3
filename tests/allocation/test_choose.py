"""Which way a block is drawn: the one of least error, and of equal ones the same on every machine."""

from __future__ import annotations

import pytest

from dprelease.core.numeric import ranking
from dprelease.measurements.candidate import Candidate
from dprelease.planning.make import make_plan
from tests.planning.requests import asked

LAST = 4e-16
"""The last digit of a double, by which processors differ."""


def mechanisms(monkeypatch: pytest.MonkeyPatch, other: str = "", by: float = 0.0) -> list[str]:
    """Return what a plan chooses where the errors of one mechanism are a little higher."""
    honest = Candidate.price

    def price(self: Candidate, judge: str) -> float:
        return honest(self, judge) * (1 + by * (self.law.mechanism == other))  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Candidate, "price", price)
        plan = make_plan(asked(["count"], rows={"max": 400}))
    return [block.mechanism for block in plan.blocks]


def test_the_last_digit_of_an_error_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """With it another plan would be made on another processor, and the same period could not be run again."""
    chosen = mechanisms(monkeypatch)
    assert mechanisms(monkeypatch, chosen[0], LAST) == chosen
    assert (
        mechanisms(monkeypatch, chosen[0], 1e-3) != chosen
    )  # the control: a real difference decides


def test_figures_are_ranked_by_nine_digits() -> None:
    assert ranking(1 / 3) == ranking(1 / 3 * (1 + LAST)) != ranking(1 / 3 * (1 + 1e-8))
    assert ranking(0.0) == 0.0 and ranking(float("inf")) == float("inf")
    assert sorted([0.1, 0.3, 0.2], key=ranking) == [0.1, 0.2, 0.3]


def test_the_candidates_of_the_test_really_tie() -> None:
    (statistic,) = make_plan(asked(["count"], rows={"max": 400})).statistics
    first, second = statistic.chosen[:2]
    assert first.mechanism != second.mechanism
    assert ranking(first.expected_error or 0) == ranking(second.expected_error or 0)
