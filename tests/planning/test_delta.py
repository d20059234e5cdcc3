"""Plans with a delta: which way wins, what the wall adds up again, and twins that must fail."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.budget.composition import compose
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import InternalError, PlanError
from dprelease.measurements.gaussian import GaussianLaw
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.planning.make import make_plan
from dprelease.release_plan.block import Composition, JointEvidence
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall import execute
from tests.planning.requests import asked, drawn, planned, public

DELTA = Fraction(1, 10**6)
GROUPS = [f"k{i}" for i in range(60)]
WIDE: dict[str, Any] = {
    "unit": {"user": "who", "max_groups": 40, "max_rows_per_group": 3},
    "by": ["g"],
    "groups": GROUPS,
    "delta": DELTA,
}
MANY = [{"statistic": "count", "as": f"c{i}"} for i in range(40)]


def method(plan: ReleasePlan) -> str:
    assert plan.composition is not None
    return plan.composition.method


def test_few_statistics_stay_pure_and_say_so() -> None:
    plan = planned(["count", "mean(x)"], delta=DELTA)
    bare = planned(["count", "mean(x)"])
    assert method(plan) == "basic/1"
    assert [b.to_json() for b in plan.blocks] == [b.to_json() for b in bare.blocks]
    assert any("every mechanism here is pure" in n for n in plan.notes)
    assert "also priced" in str(plan)  # the runner-up, to who plans
    assert "normal noise" in str(plan)
    assert "normal noise" not in str(plan.to_json())  # nobody could make its figures again


def test_without_a_delta_nothing_is_said_about_composition() -> None:
    plan = planned(["count", "mean(x)"])
    assert plan.composition is None
    assert "composition" not in plan.to_json()
    assert all("rho" not in b for b in plan.to_json()["blocks"])


def test_many_scalars_are_gaussian_and_better() -> None:
    plan, pure = planned(MANY, delta=DELTA), planned(MANY)
    assert method(plan) == "normal/1"
    assert {b.mechanism for b in plan.blocks} == {"rectified_gaussian"}
    one, two = plan.statistics[0].planned_error, pure.statistics[0].planned_error
    assert one is not None
    assert two is not None
    assert one < 0.65 * two
    assert not any("pure" in n and "every" in n for n in plan.notes)
    assert plan.epsilon == 1
    assert "delta=1e-06" in plan.guarantee


def test_wide_units_are_gaussian_on_all_kinds_of_cells() -> None:
    plan = planned(["count", "variance(x)", "histogram(x, [0, 5, 10])"], **WIDE)
    assert method(plan) == "normal/1"
    assert {b.family for b in plan.blocks if b.rho is not None} == {"scalar", "bernstein2", "bins"}
    for block in plan.blocks:
        assert block.rho is not None
        noise = block.law.to_json()["law"]
        assert Fraction(noise["l2_square"]) / (2 * Fraction(noise["square"])) == block.rho


def test_spike_free_laws_over_many_groups_use_optimal_composition() -> None:
    wanted = [{"statistic": "count", "spikes": "forbid"}]
    plan, pure = planned(wanted, **WIDE), planned(wanted, **{**WIDE, "delta": 0})
    assert method(plan) == "kov/1"
    assert plan.blocks[0].epsilon > 1 == plan.epsilon
    assert plan.statistics[0].planned_error < 0.8 * pure.statistics[0].planned_error  # type: ignore[operator]


@pytest.mark.parametrize("loss", ["absolute", "squared"])
def test_the_composed_epsilon_is_within_the_request(loss: str) -> None:
    for statistics, more in ((MANY, {}), (["count", "mean(x)"], WIDE)):
        plan = planned(statistics, loss=loss, **{"delta": DELTA, **more})
        assert execute.check(plan) <= plan.epsilon == 1
        assert plan.composition is not None
        assert execute.check(plan) == plan.composition.evidence.epsilon_upper


def test_public_sizes_may_be_gaussian_too() -> None:
    wanted = [{"statistic": f, "mechanism": "rectified_gaussian", "as": f"s{i}"}
              for i, f in enumerate(["sum(x)", "mean(x)", "variance(x)"])]  # fmt: skip
    plan = public(wanted, delta=DELTA)
    assert all(b.rho is not None for b in plan.blocks)


def test_a_pinned_gaussian_needs_a_delta() -> None:
    for text in ("mean(x)", "count"):
        wanted = [{"statistic": text, "mechanism": "rectified_gaussian"}]
        with pytest.raises(PlanError, match="delta") as error:
            make_plan(asked(wanted))
        assert error.value.code == "DPR212"
        assert planned(wanted, delta=DELTA).blocks[0].mechanism == "rectified_gaussian"


def test_json_round_trip_and_hash() -> None:
    for plan in (planned(MANY, delta=DELTA), planned(["count"], **WIDE)):
        value = json.loads(json.dumps(plan.to_json(), allow_nan=False))
        again = ReleasePlan.from_json(value)
        assert again == plan
        assert again.hash == plan.hash
        assert execute.check(again) == execute.check(plan)


def test_values_and_intervals_of_gaussian_blocks() -> None:
    """True cells inside the intervals about as often as stated, with a control on both sides."""
    plan = planned(
        ["mean(x)", "variance(x)"],
        **{**WIDE, "epsilon": 20, "x": {"kind": "number", "range": [0, 10], "step": 1}},
    )
    block = plan.blocks[0]
    assert block.rho is not None
    n, values = 4000, np.array([2, 3, 3, 4, 9])
    k = 10
    cells = [
        n * int(v)
        for v in (((k - values) ** 2).sum(), (2 * values * (k - values)).sum(), (values**2).sum())
    ]
    raw = drawn(
        plan, block, np.array([cells] * len(GROUPS), dtype=object), ReplayBits("gaussian mean")
    )
    rows = {block.name: tuple(tuple(int(c) for c in r) for r in raw)}
    table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, rows).to_pandas()
    means = table[table.statistic == "mean_x"]
    inside = ((means.lower <= values.mean()) & (means.upper >= values.mean())).mean()
    assert inside > 0.85
    width = (means.upper - means.lower).mean()
    errors = np.abs(means.value - values.mean()).mean()
    assert 2 < width / errors < 8  # neither far too wide nor far too short


# --- broken twins: the wall refuses every plan that claims less than it costs --------------------


def broken(plan: ReleasePlan, **changed: Any) -> None:
    with pytest.raises(InternalError) as error:
        execute.check(replace(plan, **changed))
    assert error.value.code == "DPR901"


def test_twin_a_smaller_rho_or_epsilon_is_claimed() -> None:
    plan = planned(MANY, delta=DELTA)
    block = plan.blocks[0]
    assert block.rho is not None
    for claim in ({"rho": block.rho * Fraction(99, 100)}, {"rho": None},
                  {"epsilon": block.epsilon - Fraction(1, 10**9)}):  # fmt: skip
        broken(plan, blocks=(replace(block, **claim), *plan.blocks[1:]))  # type: ignore[arg-type]


def test_twin_the_same_blocks_for_a_smaller_guarantee() -> None:
    plan = planned(MANY, delta=DELTA)
    broken(plan, epsilon=Fraction(99, 100))
    broken(plan, delta=DELTA / 10)
    broken(plan, delta=Fraction(0))


def test_twin_a_gaussian_block_is_summed_as_pure() -> None:
    plan = planned(MANY, delta=DELTA)
    broken(plan, composition=None)
    broken(plan, composition=replace(plan.composition, method="basic/1"))  # type: ignore[type-var]


def test_twin_the_composition_states_less() -> None:
    plan = planned(MANY, delta=DELTA)
    assert plan.composition is not None
    said = plan.composition.evidence
    for less in (replace(said, epsilon_upper=Fraction(1, 2)), replace(said, rho=said.rho / 2)):
        broken(plan, composition=replace(plan.composition, evidence=less))


def test_twin_discrete_gaussian_noise_is_priced_as_if_it_were_rounded() -> None:
    """The noise of folders of 0.2.0 costs what its rho says, whatever a plan calls it."""
    plan = planned(MANY, delta=DELTA)
    blocks = []
    for block in plan.blocks:
        assert isinstance(block.law, GaussianLaw)
        noise = GaussianCells(
            block.law.noise.l2_square, Fraction(math.ceil(block.law.noise.square))
        )
        blocks.append(replace(block, law=replace(block.law, noise=noise)))
    broken(plan, blocks=tuple(blocks))


def test_twin_noise_for_a_smaller_l2_move() -> None:
    plan = planned(["count"], **WIDE)
    block = plan.blocks[0]
    assert isinstance(block.law, GaussianLaw)
    noise = replace(block.law.noise, l2_square=block.law.noise.l2_square - 1)
    broken(plan, blocks=(replace(block, law=replace(block.law, noise=noise)),))


def test_twin_noise_for_a_move_that_has_no_proved_square() -> None:
    law = planned(["count"], **WIDE).blocks[0].law
    assert isinstance(law, GaussianLaw)
    moved = law.noise.l2_square
    assert law.rho(Sensitivity(1, moved, moved, moved, l2_squared=moved)) > 0
    with pytest.raises(InternalError) as caught:
        law.rho(Sensitivity(1, 1, 1, 1, l2_squared=None))
    assert caught.value.code == "DPR901"


def test_twin_optimal_composition_forgets_groups() -> None:
    """Charged as one loss instead of forty, the same law would pass: the groups must count."""
    plan = planned([{"statistic": "count", "spikes": "forbid"}], **WIDE)
    proved = plan.blocks[0].law
    assert proved.changed_groups == 40  # type: ignore[attr-defined]
    law = replace(proved, changed_groups=1)  # type: ignore[call-arg]
    broken(plan, blocks=(replace(plan.blocks[0], law=law),))


def test_an_unknown_composition_is_refused() -> None:
    plan = planned(MANY, delta=DELTA)
    odd = Composition("advanced/1", JointEvidence(Fraction(1), Fraction(1)))
    with pytest.raises(Exception, match="no composition of that name"):
        execute.check(replace(plan, composition=odd))


def test_the_record_names_what_was_compared() -> None:
    plan = planned(MANY, delta=DELTA)
    assert plan.composition is not None
    compared = dict(plan.composition.compared)
    assert set(compared) == {"basic/1", "kov/1", "normal/1"}
    assert compared["normal/1"] < compared["kov/1"] < compared["basic/1"]
    assert compose("normal/1", [], DELTA) == 0


def test_twin_gaussian_noise_on_a_form_without_a_proved_square() -> None:
    """The wall knows no squared sensitivity of anything but sums over rows and a scatter."""
    plan = planned([{"statistic": "count", "mechanism": "rectified_gaussian"}], delta=DELTA)
    block = plan.blocks[0]
    made = replace(block.measurement, form="cross")
    with pytest.raises(InternalError):
        execute.check(replace(plan, blocks=(replace(block, measurement=made),)))
