"""A plan of several tables made again takes the recorded figures that say the same, and no others."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import dprelease as dp
from dprelease.core.errors import VerificationError
from dprelease.core.strict_json import canonical_json
from dprelease.planning.again import plan_again
from dprelease.query.request import request_from_json
from dprelease.query.written import request_to_json
from tests.several_tables import schema

Stated = dict[str, Any]


def again(change: Callable[[Stated], None]) -> tuple[Stated, Stated]:
    """Return a changed record and the plan that is made of it."""
    plan = dp.plan(schema())
    request = json.loads(canonical_json(request_to_json(plan.request)))
    stated: Stated = json.loads(canonical_json(plan.to_json()))
    change(stated)
    return stated, plan_again(request_from_json(request), stated).to_json()


def scaled_halves(factor: Fraction) -> Callable[[Stated], None]:
    def change(stated: Stated) -> None:
        for fit in stated["tables"]["fits"]:
            for table in fit["tables"]:
                table["halves"] = [str(Fraction(half) * factor) for half in table["halves"]]

    return change


def scaled_errors(factor: float) -> Callable[[Stated], None]:
    def change(stated: Stated) -> None:
        for statistic in stated["statistics"]:
            statistic["planned_error"] *= factor
            for option in statistic["options"]:
                option["expected_error"] *= factor

    return change


@pytest.mark.parametrize(
    "change",
    [scaled_halves(1 + Fraction(1, 10**9)), scaled_errors(1 + 1e-9)],
    ids=["halves", "errors"],
)
def test_last_digits_of_another_machine_are_taken_as_recorded(
    change: Callable[[Stated], None],
) -> None:
    stated, made = again(change)
    assert made == stated
    assert again(lambda _: None)[1] != stated  # the change is one that could be seen


@pytest.mark.parametrize(
    "change",
    [
        scaled_halves(Fraction(999, 1000)),
        lambda stated: stated["tables"]["fits"][0]["tables"][0]["halves"].pop(),
        scaled_errors(0.999),
        lambda stated: stated["statistics"][0]["options"].append(
            stated["statistics"][0]["options"][0]
        ),
        lambda stated: stated["statistics"][0]["options"].pop(),
    ],
    ids=["narrower", "fewer halves", "smaller errors", "one more", "one less"],
)
def test_other_figures_are_refused(change: Callable[[Stated], None]) -> None:
    with pytest.raises(VerificationError) as caught:
        again(change)
    assert caught.value.code == "DPR805"
