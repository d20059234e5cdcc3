"""The audit of keys that are found: a law that holds passes, one that publishes too early or claims too little does not."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.answers import aligned
from dprelease.audit.found import key_fits, key_losses, worst_delta
from dprelease.audit.plan import Evidence, audit_plan
from dprelease.audit.powers import exp_above, exp_below
from dprelease.engines.reference import ReferenceEngine
from dprelease.facade import plan
from dprelease.mechanisms.kernels.selecting import TOTAL, SelectingNoise
from dprelease.query.answer import Answer
from dprelease.release_plan.plan import ReleasePlan
from tests.end_to_end.test_keys import PERSON, schema_of

EPSILON, DELTA = Fraction(1), Fraction(1, 100)


def noise_of(delta: Fraction = DELTA) -> SelectingNoise:
    return SelectingNoise.calibrate(EPSILON, delta)


def plan_of(most: int = 2, adjacency: str = "add_remove") -> ReleasePlan:
    schema = schema_of({**PERSON, "max_groups": most}, adjacency)
    asked = {"column": "page", "epsilon": 1, "delta": "0.01", "max_keys": most}
    return plan(schema | {"release": {"keys": asked}})


def audited(made: ReleasePlan, **asked: Any) -> Evidence:
    return audit_plan(made, ReferenceEngine(), pairs=3, **{"draws": 2_000, **asked})


def failed(evidence: Evidence) -> set[str]:
    return {f.layer for f in evidence.findings if not f.ok}


def with_noise(made: ReleasePlan, noise: SelectingNoise) -> ReleasePlan:
    (block,) = made.blocks
    return replace(made, blocks=(replace(block, law=replace(block.law, noise=noise)),))


def published(noise: SelectingNoise, persons: int) -> dict[int, Fraction]:
    """Return the chance of everything that a key of so many persons can show, from the definition; 0 is left out."""
    out: dict[int, Fraction] = {}
    for m, weight in enumerate(noise.weights, 1):
        shown = persons + noise.bound + 1 - m if m <= persons else 0
        out[shown] = out.get(shown, Fraction(0)) + Fraction(weight, TOTAL)
    return out


def told(one: dict[int, Fraction], other: dict[int, Fraction], grown: Fraction) -> Fraction:
    return sum(
        (max(Fraction(0), p - grown * other.get(y, Fraction(0))) for y, p in one.items()),
        Fraction(0),
    )


@pytest.mark.parametrize(
    "weights", [None, (TOTAL // 4, 3 * TOTAL // 4), (3 * TOTAL // 4, TOTAL // 4)]
)
def test_the_worst_delta_is_that_of_all_numbers_of_persons(weights: tuple[int, ...] | None) -> None:
    noise = noise_of() if weights is None else SelectingNoise(EPSILON, 1, weights)
    tables = [published(noise, n) for n in range(len(noise.weights) + 3)]
    both = [pair[::way] for pair in pairwise(tables) for way in (1, -1)]
    found = worst_delta(noise, EPSILON)
    assert max(told(*pair, exp_above(EPSILON)) for pair in both) == found
    assert found <= max(told(*pair, exp_below(EPSILON)) for pair in both)
    assert (found <= DELTA) == (weights is None)


def test_losses_between_two_keys_are_those_of_what_they_show() -> None:
    noise = noise_of()
    for here, there in [(0, 1), (1, 0), (noise.bound, noise.bound + 1), (30, 31), (2, 5)]:
        one, other = published(noise, here), published(noise, there)
        for (loss, chance), p, r in zip(
            key_losses(noise, here, there), (one, other), (other, one), strict=True
        ):
            assert math.isclose(chance.sum(), 1)
            assert np.array_equal(np.sort(chance), np.sort([float(v) for v in p.values() if v]))
            alone = sum(float(v) for y, v in p.items() if not r.get(y))
            assert math.isclose(chance[loss > 100].sum(), alone, abs_tol=1e-15)
            expected = sum(float(v) * math.log(v / r[y]) for y, v in p.items() if v and r.get(y))
            assert math.isclose((chance * loss)[loss < 100].sum(), expected, abs_tol=1e-12)


def test_draws_fit_their_weights_and_no_lower_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = noise_of()
    assert min(key_fits(noise, 20_000)) > 1e-7 / 4
    honest = SelectingNoise.draws

    def early(self: SelectingNoise, persons: Any, bits: Any) -> Any:
        drawn = honest(self, persons + 1, bits)
        return np.where(drawn > 0, drawn - 1, 0)

    monkeypatch.setattr(SelectingNoise, "draws", early)
    assert min(key_fits(noise, 20_000)) < 1e-30


@pytest.mark.parametrize(("most", "adjacency"), [(2, "add_remove"), (1, "substitution")])
def test_nothing_breaks_a_list_of_found_keys(most: int, adjacency: str) -> None:
    evidence = audited(plan_of(most, adjacency))
    assert all(f.ok for f in evidence.findings)
    assert {f.layer for f in evidence.findings} == {
        "A exact laws",
        "A exact pairs",
        "B draws",
        "C black box",
    }
    law, pairs = (
        next(f for f in evidence.findings if f.layer == layer)
        for layer in ("A exact laws", "A exact pairs")
    )
    assert (law.claimed, law.found) == ("delta 0.01 at epsilon 1", "delta 0.01")
    if adjacency == "add_remove":  # attained by a person who alone has keys
        assert pairs.found == "delta 0.01"


def test_a_threshold_that_is_one_lower_is_seen() -> None:
    made = plan_of()
    honest = made.blocks[0].law.noise
    first, second, *rest = honest.weights
    early = replace(honest, weights=(first + second, *rest))
    assert {"A exact laws", "A exact pairs"} <= failed(audited(with_noise(made, early)))


def test_a_delta_that_is_understated_is_seen() -> None:
    made = plan_of()
    (block,) = made.blocks
    half = replace(made, delta=made.delta / 2, blocks=(replace(block, delta=block.delta / 2),))
    assert {"A exact laws", "A exact pairs"} <= failed(audited(half, draws=100))


def test_an_engine_that_names_another_key_is_seen() -> None:
    class Other(ReferenceEngine):
        def compute(self, *given: Any) -> Any:
            answer = super().compute(*given).reveal_to_mechanism()
            names = [f"{key}!" for key in answer.keys.to_pylist()]
            answer = replace(answer, keys=pa.array(names, pa.utf8()))
            return type("Shown", (), {"reveal_to_mechanism": lambda self: answer})()

    evidence = audit_plan(plan_of(), Other(), pairs=3, draws=100)
    assert [f.ok for f in evidence.findings if f.subject.startswith("engine")] == [False]


def test_answers_of_different_keys_stand_under_each_other() -> None:
    def of(**held: int) -> Answer:
        return Answer(
            np.array([*held.values()], dtype=object).reshape(-1, 1),
            keys=pa.array([*held], pa.utf8()),
        )

    one, other = aligned(of(b=2, a=1), of(c=3, a=4))
    assert one.keys == other.keys == ["a", "b", "c"]
    assert (one.sums.tolist(), other.sums.tolist()) == ([[1], [2], [0]], [[4], [0], [3]])
    assert [a.sums.shape for a in aligned(of(), of())] == [(0, 1)] * 2
