"""Draws: what rounding adds to a sensitivity over several groups, and truncated means at every released size."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dprelease as dp
from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, InternalError, PlanError
from dprelease.core.numeric import floor_half_up
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.constant import ConstantLaw
from dprelease.measurements.law import placed
from dprelease.measurements.scalar import ScalarCellLaw, grid_sensitivity
from dprelease.measurements.truncated_mean import MeanLaw
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.planning import prices
from dprelease.schema.domain import GridSet
from dprelease.statistics.sensitivity import Sensitivity
from tests.planning.requests import USER, planned


def rounded_changes(per_group: int, total: int, changed_groups: int, factor: int) -> int:
    """Return the most steps that answers rounded to multiples of `factor` move, by enumeration."""
    worst_of = [0] * (per_group + 1)
    for d in range(per_group + 1):
        worst_of[d] = max(
            abs(floor_half_up(Fraction(q + d, factor)) - floor_half_up(Fraction(q, factor)))
            for q in range(factor)
        )
    return max(
        sum(worst_of[d] for d in parts)
        for parts in itertools.product(range(per_group + 1), repeat=changed_groups)
        if sum(parts) <= total
    )


@pytest.mark.parametrize("runs", [((0, 6),), ((0, 2), (5, 9))])
def test_noise_that_is_said_to_be_added_is_the_same_for_every_answer(
    runs: tuple[tuple[int, int], ...],
) -> None:
    """Readers add such noises up. What reflection or truncation adds depends on the answer, so it is no such noise."""
    allowed = GridSet(runs)
    seen = {True: set(), False: set()}  # type: ignore[var-annotated]
    for point_masses in (True, False):
        request = GridRequest(allowed, 2, Fraction(1), point_masses=point_masses)
        for law in grid_laws(request):
            draw = ScalarCellLaw(law, False, 1, 2, *(Fraction(n) for n in (1, 0, 1, 0)))  # type: ignore[arg-type]
            answers = np.arange(allowed.lower, allowed.upper + 1)
            drawn = [
                draw.draw(np.full((200, 1), q, dtype=object), ReplayBits("the same bits"))[:, 0] - q
                for q in answers
            ]
            alike = all((noise == drawn[0]).all() for noise in drawn)
            assert alike is (draw.added is not None), law.describe()
            seen[alike].add(law.family)
    assert {"discrete_laplace", "rectified_laplace", "staircase"} <= seen[True]
    reflected = {"reflected_laplace"} if len(runs) == 1 else set()
    assert {"bounded_laplace"} | reflected <= seen[False]


class TestDrawable:
    """What a law cannot draw, whatever the answer, is told from what it can."""

    RAW = np.array([[k] for k in range(-2, 8)], dtype=object)

    @pytest.mark.parametrize("family", ["bounded_laplace", "optimal_grid"])
    def test_a_law_inside_its_domain(self, family: str) -> None:
        allowed = GridSet(((0, 2), (4, 5)))
        laws = grid_laws(GridRequest(allowed, 1, Fraction(1)))
        law = next(law for law in laws if law.family == family)
        draw = ScalarCellLaw(law, False, 1, 1, *(Fraction(n) for n in (1, 0, 1, 0)))  # type: ignore[arg-type]
        could = {k for q in (0, 1, 2, 4, 5) for k, chance in law.pmf(q).items() if chance > 0}
        assert draw.drawable(self.RAW).tolist() == [k in could for k in range(-2, 8)]

    def test_a_listed_law_draws_what_it_lists(self) -> None:
        law = RowLaw(
            "optimal_grid", GridSet(((0, 5),)), 1, Fraction(1), "absolute", (0,), (1, 4), ((1, 1),)
        )
        draw = ScalarCellLaw(law, False, 1, 1, *(Fraction(n) for n in (1, 0, 1, 0)))  # type: ignore[arg-type]
        assert draw.drawable(self.RAW).tolist() == [k in (1, 4) for k in range(-2, 8)]

    def test_a_constant_is_itself_and_noise_is_anything(self) -> None:
        assert ConstantLaw(3).drawable(self.RAW).tolist() == [k == 3 for k in range(-2, 8)]
        assert CellLaw(CellNoise.calibrate(1, Fraction(1)), 1).drawable(self.RAW).all()


class TestStepsMoved:
    @given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 6), st.integers(0, 9))
    def test_holds_by_enumeration_and_is_tight_but_for_the_last_step(
        self, per_group: int, changed_groups: int, factor: int, less: int
    ) -> None:
        total = max(per_group, per_group * changed_groups - less)
        s = Sensitivity(per_group, total, changed_groups, changed_groups)
        step_size, step = Fraction(1, 7), Fraction(factor, 7)
        got = grid_sensitivity(s, step_size, step, linear=True)
        most = rounded_changes(per_group, total, changed_groups, factor)
        assert most <= got <= most + changed_groups - 1
        alone = Sensitivity(per_group, per_group, 1, 1)
        each = rounded_changes(per_group, per_group, 1, factor)
        assert grid_sensitivity(s, step_size, step, linear=False) == each
        assert grid_sensitivity(alone, step_size, step, linear=True) == each

    def test_twin_the_rounded_total_is_too_little(self) -> None:
        """Semantics 2.3: rounding every cell of a vector moves further than its L1 bound."""
        s = Sensitivity(
            l1_per_group=15_000, l1_over_groups=20_000, changed_groups=2, chain_length=2
        )
        naive = -(-s.l1_over_groups // 12)
        assert rounded_split(9_997, 12) * 2 > naive
        assert (
            grid_sensitivity(s, Fraction(1), Fraction(12), linear=True)
            >= rounded_split(9_997, 12) * 2
        )

    def test_the_planner_pays_for_it(self) -> None:
        plan = planned(
            [{"statistic": "sum(x)", "mechanism": "discrete_laplace"}],
            x={"kind": "number", "range": [-5_000, 10_000], "step": 1},
            adjacency="substitution",
            by=["g"],
        )
        law = plan.blocks[0].law
        assert isinstance(law, ScalarCellLaw)
        s = Sensitivity(15_000, 20_000, 2, 2)
        assert law.law.sensitivity >= grid_sensitivity(
            s, law.step_size, law.step, linear=law.linear
        )


def rounded_split(cells: int, factor: int) -> int:
    return max(
        floor_half_up(Fraction(q + cells, factor)) - floor_half_up(Fraction(q, factor))
        for q in range(factor)
    )


class TestLinear:
    def scalar(self, *, splits: bool, family: str = "discrete_laplace") -> ScalarCellLaw:
        request = GridRequest(GridSet(((0, 3),)), 5, Fraction(1), splits=splits)
        law = next(law for law in grid_laws(request) if law.family == family)
        one, zero = Fraction(1), Fraction(0)
        return ScalarCellLaw(law, True, 5, 5, one, zero, one, zero)

    SPREAD = Sensitivity(l1_per_group=1, l1_over_groups=5, changed_groups=5, chain_length=5)

    def test_a_law_made_for_a_sensitivity_over_groups(self) -> None:
        assert self.scalar(splits=True).certify(self.SPREAD) <= 1

    def test_twin_a_law_whose_hull_caps_the_sensitivity(self) -> None:
        """Five groups of hull 3: the certificate covers 3 steps of the 5 that a unit can move."""
        law = self.scalar(splits=False)
        assert law.law.certify().epsilon_upper <= 1
        with pytest.raises(InternalError) as caught:
            law.certify(self.SPREAD)
        assert caught.value.code == "DPR901"

    def test_twin_a_staircase_over_two_groups(self) -> None:
        with pytest.raises(InternalError) as caught:
            self.scalar(splits=False, family="staircase").certify(self.SPREAD)
        assert caught.value.code == "DPR901"


class TestCells:
    """Noise on cells pays for the rows of a unit in all groups, not in the fullest one."""

    OVER_TWO = Sensitivity(l1_per_group=3, l1_over_groups=6, changed_groups=2, chain_length=2)

    def test_noise_for_all_groups(self) -> None:
        for mechanism in ("discrete_laplace", "rectified_laplace"):
            law = CellLaw(CellNoise.calibrate(6, Fraction(1)), 2, mechanism=mechanism)
            assert law.certify(self.OVER_TWO) == 1

    def test_twin_noise_for_one_group(self) -> None:
        for sensitivity in (3, 5):
            law = CellLaw(CellNoise.calibrate(sensitivity, Fraction(1)), 2)
            with pytest.raises(InternalError) as caught:
                law.certify(self.OVER_TWO)
            assert caught.value.code == "DPR901"

    def test_a_constant_that_moves_is_refused(self) -> None:
        assert ConstantLaw(7).certify(Sensitivity(0, 0, 1, 1)) == 0
        with pytest.raises(InternalError) as caught:
            ConstantLaw(7).certify(self.OVER_TWO)
        assert caught.value.code == "DPR901"


class TestMeanLaw:
    def made(self) -> MeanLaw:
        plan = planned(
            [{"statistic": "mean(x)", "spikes": "forbid", "domain": {"step": 0.1}}],
            unit=USER,
            by=["g"],
            rows={"max": 2_000, "expected": 100},
        )
        law = plan.blocks[0].law
        assert isinstance(law, MeanLaw)
        return law

    def test_every_released_size_has_a_certified_law(self) -> None:
        """Nothing about the released size may fail after the charge."""
        law = self.made()
        sensitivities = {law.sensitivity_at(size) for size in range(2_001)}
        assert len(sensitivities) < 60
        for size in {law.sensitivity_at(s): s for s in range(2_001)}.values():
            made = law.law(size)
            assert made.certify().epsilon_upper <= law.epsilon
            assert made.sensitivity >= min(
                law.sum_sensitivity / (max(1, size) * law.step), made.allowed.hull_steps
            )

    def test_draws_and_boxes_stay_in_the_domain_whatever_the_table(self) -> None:
        law = self.made()
        exact = np.array(
            [[0, 0], [1, 20], [5, 0], [10**9, 20 * 10**9], [40, 333]] * 40, dtype=object
        )
        raw = law.draw(exact, ReplayBits("mean"))
        values = law.cells(raw)[:, 1]
        assert ((values >= 0) & (values <= 10)).all()
        low, high = law.box(raw, 0.95)
        assert (low[:, 1] <= high[:, 1]).all()

    @pytest.mark.parametrize(
        "wrong",
        [{"chain_length": 1}, {"sum_sensitivity": Fraction(1, 9)}, {"epsilon": Fraction(-1)}],
    )
    def test_a_cheaper_one_is_refused(self, wrong: dict[str, object]) -> None:
        law = self.made()
        s = Sensitivity(l1_per_group=3, l1_over_groups=6, changed_groups=2, chain_length=2)
        assert law.certify(s) <= 1
        with pytest.raises(InternalError):
            replace(law, **wrong).certify(s)  # type: ignore[arg-type]


class TestEverySizeHasALaw:
    """A size is drawn after the charge; whatever it is, its law must exist by then."""

    FINE: ClassVar[dict[str, object]] = {
        "statistic": "mean(a)",
        "domain": {"range": [0, 100], "forbidden": [[40, 60]], "step": 0.0001},
    }
    GAUSSIAN: ClassVar[dict[str, object]] = {"spikes": "forbid", "mechanism": "bounded_gaussian"}
    """Laplace noise has a law in every gap; Gaussian noise has none where it is narrow against one."""

    def asked(self, **more: object) -> dict[str, object]:
        return {
            "dprelease": "schema/1",
            "name": "t",
            "unit": "row",
            "adjacency": "add_remove",
            "rows": {"max": 10**6, "expected": 2},
            "columns": {"a": {"kind": "integer", "range": [0, 100]}},
            "release": {"epsilon": 1, "statistics": [{**self.FINE, **more}]},
        }

    def test_a_grid_that_only_small_sizes_can_serve_is_refused_while_planning(self) -> None:
        with pytest.raises(PlanError, match="too wide") as refused:
            dp.plan(self.asked(**self.GAUSSIAN))
        assert refused.value.code == "DPR213"

    def test_the_twin_without_the_check_would_have_planned_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(MeanLaw, "check", lambda _: None)
        # what plans say of intervals looks at a size as well
        monkeypatch.setattr(prices, "says_nothing", lambda *_, **__: False)
        law = dp.plan(self.asked(**self.GAUSSIAN)).blocks[0].law
        assert isinstance(law, MeanLaw)
        with pytest.raises(ArgumentError, match="too wide"):
            law.law(law.size.law.allowed.upper)

    def test_with_spikes_allowed_the_cells_take_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # the budget at which it would say something is searched for among wide laws: half a minute
        monkeypatch.setattr(prices, "says_nothing", lambda *_, **__: False)
        assert dp.plan(self.asked()).statistics[0].mechanism == "discrete_laplace"


parts = st.fractions(-(10**12), 10**12, max_denominator=10**9)


@given(st.integers(-(2**54), 2**54), parts.filter(lambda step: step > 0), parts)
def test_a_point_of_a_grid_is_the_double_nearest_to_it(twice: int, step: Fraction, at: Fraction):
    half = int(float(twice))  # what a double holds
    found = placed(np.array([half / 2]), step, at)[0]
    assert found == float(at + Fraction(half, 2) * step)


def test_two_roundings_leave_what_is_not_a_zero() -> None:
    step, origin = Fraction(1, 10), Fraction(-3, 10)
    assert placed(np.array([3.0]), step, origin)[0] == 0.0
    assert float(origin) + 3.0 * float(step) != 0.0  # the broken twin
    assert np.isnan(placed(np.array([np.nan]), step, origin)).all()
    beyond = placed(np.array([3.0 - 2**-30]), step, origin)[0]
    assert beyond == pytest.approx(-0.1 * 2**-30)
