"""Released values made to fit each other: each rule against brute force, and what it must not do."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from dprelease.core.entropy import ReplayBits
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.consistency import StatisticValues, consistent, to_domain
from dprelease.results.validate.rules import on_step
from dprelease.schema.domain import Domain
from dprelease.statistics.cells import bernstein_variance
from dprelease.statistics.covariance import within_variances
from dprelease.statistics.eigenvalues import falling
from dprelease.statistics.graph import below_degrees, rising
from dprelease.statistics.histogram import fit_parts
from dprelease.statistics.moments import bernstein2
from tests.planning.requests import planned, public
from tests.results.formats import releases
from tests.sizes import whole

Floats = npt.NDArray[np.float64]
FULL = {"kind": "number", "range": [0, 10], "step": 0.5, "nulls": {"default": 5}}
GAP = {**FULL, "forbidden": [[3, 7]], "nulls": {"default": 8}}


def fitted(plan: ReleasePlan, **values: list[Any]) -> dict[str, list[Any]]:
    """Return the consistent values of a plan whose published values are these, per group."""
    given = [
        np.array(values[s.name], dtype=float).reshape(-1, len(s.columns)) for s in plan.statistics
    ]
    out = consistent(plan.statistics, plan.blocks, given)
    for s, v in zip(plan.statistics, out, strict=True):
        assert s.domain.contains(v).all()
        assert np.array_equal(v, to_domain(v, s.domain, s.step))
    return {s.name: v.tolist() for s, v in zip(plan.statistics, out, strict=True)}


@pytest.mark.parametrize(
    ("end", "step"), [(2.4e15, Fraction(3, 10)), (1e24, Fraction(10**13)), (1e150, 10**136)]
)
def test_what_is_mapped_into_a_domain_lies_on_its_step_as_validation_asks(end, step):
    """Two roundings left a neighbour of the nearest double: withheld, after the charge."""
    values = end * np.random.default_rng(1).random(999)
    assert on_step(
        to_domain(values, Domain(0, Fraction(end)), Fraction(step)), Fraction(step)
    ).all()


class TestQuantiles:
    PLAN = planned(["quantile(x, 0.9)", "median(x)", "min(x)", "mean(x)"], x=GAP, epsilon=3)
    NAMES = ("min_x", "median_x", "quantile_x_0_9")

    def rising(self, *three: float) -> list[float]:
        names = [s.name for s in self.PLAN.statistics]
        low, mid, high = three
        given = dict(
            zip(
                (names[2], names[1], names[0], names[3]), ([low], [mid], [high], [5.0]), strict=True
            )
        )
        out = fitted(self.PLAN, **given)
        return [out[names[i]][0][0] for i in (2, 1, 0)]

    def test_values_in_order_stay(self) -> None:
        assert self.rising(1.0, 2.0, 7.0) == [1.0, 2.0, 7.0]

    def test_a_crossing_is_pooled_and_stays_out_of_the_gap(self) -> None:
        assert self.rising(1.0, 9.0, 8.0) == [1.0, 8.5, 8.5]
        assert self.rising(1.0, 9.0, 2.0) == [1.0, 7.0, 7.0]  # 5.5 is forbidden

    @given(st.lists(st.sampled_from([0, 0.5, 1, 2, 3, 7, 8, 9.5, 10]), min_size=3, max_size=3))
    def test_every_outcome_rises(self, three: list[float]) -> None:
        out = self.rising(*three)
        assert all(a <= b for a, b in pairwise(out))
        assert out == three or any(a > b for a, b in pairwise(three))

    def test_another_column_is_another_group(self) -> None:
        columns = {"y": {"kind": "number", "range": [0, 10], "step": 0.5}}
        plan = planned(["median(x)", "max(y)"], x=FULL, columns=columns)
        names = [s.name for s in plan.statistics]
        assert fitted(plan, **{names[0]: [9.0], names[1]: [1.0]}) == {
            names[0]: [[9.0]],
            names[1]: [[1.0]],
        }


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.integers(0, 30),
    st.sampled_from([0.0, 0.5, 2.0, 50.0]),
)
def test_parts_are_the_least_squares_fit_rounded(
    parts: list[int], total: int, ratio: float
) -> None:
    got = fit_parts(np.array([parts], float), np.array([total], float), ratio, 100)[0]
    assert (got >= 0).all()
    assert np.array_equal(got, np.floor(got))

    if ratio == 0:
        assert got.sum() == total
    # the real-valued optimum, by a solver that knows nothing of the closed form
    weight = 1 / np.sqrt(max(ratio, 1e-8))
    system = np.vstack([np.eye(len(parts)), np.full(len(parts), weight)])
    best, _ = nnls(system, np.array([*parts, total * weight], dtype=float))
    assert abs(got - best).max() < 1 + 1e-3
    assert abs(got.sum() - best.sum()) <= 0.5 + 1e-3


class TestHistogram:
    STATISTICS = ("count", "histogram(x, [0, 5, 10])")

    def plan(self, **more: Any) -> ReleasePlan:
        return planned(list(self.STATISTICS), x=more.pop("x", FULL), by=["g"], **more)

    def test_bins_add_up_to_the_count(self) -> None:
        out = fitted(
            self.plan(),
            count=[100, 5, 0],
            histogram_x=[[25, 5], [40, 0], [0, 0]],
        )
        for count, bins in zip(out["count"], out["histogram_x"], strict=True):
            assert sum(bins) == count[0]
        assert 30 < out["count"][0][0] < 100  # both give way, by their noise
        assert out["count"][2] == [0.0]

    def test_bins_that_do_not_hold_every_row_are_left_alone(self) -> None:
        """Dropped nulls, edges inside the range, suppressed counts, other rows: no theorem."""
        drops = {"kind": "number", "range": [0, 10], "step": 0.5}
        cases = [
            self.plan(x=drops),
            planned(["count", "histogram(x, [0, 4, 9])"], x=FULL, by=["g"]),
            planned(
                [{"statistic": "count", "domain": {"range": [0, 9000], "forbidden": [[0, 10]]}}, self.STATISTICS[1]],
                x=FULL, by=["g"],
            ),
            planned(
                ["count", {"statistic": self.STATISTICS[1], "max_rows_per_group": 1}],
                x=FULL, by=["g"], unit={"user": "who", "max_groups": 2, "max_rows_per_group": 3},
            ),
        ]  # fmt: skip
        for plan in cases:
            values: dict[str, list[Any]] = {
                "count": [100.0, 50, 20],
                "histogram_x": [[60.0, 30]] * 3,
            }
            out = fitted(plan, **values)
            assert out["histogram_x"] == values["histogram_x"]

    def test_a_public_count_is_exact_and_does_not_move(self) -> None:
        plan = public(["count", "histogram(x, [0, 5, 10])"], n=900)
        out = fitted(plan, count=[900], histogram_x=[[700, 100]])
        assert out == {"count": [[900.0]], "histogram_x": [[750.0, 150.0]]}


class TestMoments:
    STATISTICS = ("mean(x)", "variance(x)", "std(x)")

    def test_variance_is_bounded_by_the_mean(self) -> None:
        plan = planned(list(self.STATISTICS), x=FULL, by=["g"])
        out = fitted(plan, mean_x=[1, 5, 0], variance_x=[20, 20, 3], std_x=[4.4, 4.4, 1])
        assert out["variance_x"] == [[9.0], [20.0], [0.0]]
        assert [v[0] for v in out["std_x"]] == pytest.approx([3.0, 4.4, 0.0])
        assert out["mean_x"] == [[1.0], [5.0], [0.0]]

    def test_a_gap_forces_spread(self) -> None:
        """No value lies in (3, 7): a mean of 5 needs a variance of (5 - 3)(7 - 5) = 4 at least."""
        plan = planned(list(self.STATISTICS), x=GAP, by=["g"])
        out = fitted(plan, mean_x=[5, 2, 5], variance_x=[1, 1, 9], std_x=[0, 1, 3])
        assert out["variance_x"] == [[4.0], [1.0], [9.0]]
        assert [v[0] for v in out["std_x"]] == pytest.approx([2.0, 1.0, 3.0], abs=0.02)

    @pytest.mark.parametrize("n", [2, 3, 4])
    def test_no_table_s_true_moments_are_moved(self, n: int) -> None:
        """Exhaustive: the rule is a theorem about tables, so the truth always satisfies it."""
        plan = planned(["mean(x)", "variance(x)"], x=GAP)
        allowed = [0, 1.5, 3, 7, 8.5, 10]
        rows = np.array(list(product(allowed, repeat=n)))
        steps = [replace(s, step=Fraction(1, 5040 * 144)) for s in plan.statistics]
        values = [rows.mean(axis=1)[:, None], rows.var(axis=1)[:, None]]
        out = consistent(steps, plan.blocks, values)
        assert abs(out[1] - values[1]).max() < 1e-5
        # the twin: a bound for a wider gap moves true tables
        wide = [
            replace(b, measurement=replace(b.measurement, data=data))
            for data in [{"complete": True, "forbidden": [["2", "8"]]}]
            for b in plan.blocks
        ]
        assert abs(consistent(steps, wide, values)[1] - values[1]).max() > 0.5

    def test_a_cut_domain_takes_part_in_no_rule(self) -> None:
        cut = {"statistic": "mean(x)", "domain": {"range": [0, 4]}}
        plan = planned([cut, "variance(x)"], x=FULL)
        assert fitted(plan, mean_x=[0.0], variance_x=[9.0])["variance_x"] == [[9.0]]

    def test_separate_blocks_of_a_public_size(self) -> None:
        plan = public(["mean(x)", "variance(x)"], n=900)
        assert len(plan.blocks) == 2
        step = float(plan.statistics[1].step)
        got = fitted(plan, mean_x=[1.0], variance_x=[20.0])["variance_x"][0][0]
        assert 9 - step <= got <= 9


def made(
    function: str, name: str, columns: int, domain: Domain, step: str = "1/10"
) -> StatisticValues:
    """Return a released statistic without a plan, for rules about values alone."""
    statistic = PlannedStatistic(
        name=name, text=function, function=function.partition("(")[0], block=name,
        columns=tuple(f"{name}{i}" for i in range(columns)), domain=domain, step=Fraction(step),
        measure="", mechanism="", chosen=(), planned_error=None, error_text="", sensitivity="",
    )  # fmt: skip
    block = releases.block(name, measurement={"data": {"complete": True}})
    return StatisticValues(statistic, block, np.zeros((1, columns)))


def valued(one: StatisticValues, *values: float) -> StatisticValues:
    return replace(one, values=np.array([values]))


def test_spectra_are_sorted_and_connectivity_is_at_most_the_least_degree() -> None:
    spectrum = made("eigenvalues(a, b)", "e", 2, Domain(0, 9))
    laplacian = made("laplacian_eigenvalues", "l", 3, Domain(0, 9))
    both = [valued(spectrum, 1, 3), valued(laplacian, 5, 0, 2)]
    out = {**falling(both), **rising(both)}
    assert out["e"].tolist() == [[3.0, 1.0]]
    assert out["l"].tolist() == [[0.0, 2.0, 5.0]]
    link = made("algebraic_connectivity", "c", 1, Domain(0, 10, forbidden=[(8, 10)]))
    degrees = [
        valued(made(f"degree({i})", f"d{i}", 1, Domain(0, 9), "1"), d) for i, d in ((0, 4), (1, 2))
    ]
    for value, want in ((6.3, 2.0), (1.7, 1.7), (10.0, 10.0)):
        found = below_degrees([valued(link, value), *degrees])
        assert found["c"].tolist() == [[want]]
    assert below_degrees([valued(link, 6.3)]) == {}


def test_a_covariance_is_at_most_what_the_variances_allow() -> None:
    cov = made("covariance(a, b)", "cov", 1, Domain(-25, 25))
    a, b = (made(f"variance({n})", n, 1, Domain(0, 25)) for n in "ab")
    for value, want in ((9.0, 6.0), (-9.0, -6.0), (5.0, 5.0)):
        out = within_variances([valued(cov, value), valued(a, 4), valued(b, 9)])
        assert out["cov"].tolist() == [[want]]
    assert within_variances([valued(cov, 9.0), valued(a, 4)]) == {}


@pytest.mark.statistical
@pytest.mark.parametrize("rows", [0, 1, 3, 12, 500])
def test_a_hundred_thousand_pairs_of_bernstein_cells_lie_in_the_joint_domain(rows: int) -> None:
    """0 <= var <= mean (1 - mean) <= 1/4 by construction, tiny and empty groups too."""
    k = 20
    codes = np.arange(rows) * 7 % (k + 1)
    exact = np.array([((k - codes) ** 2).sum(), (2 * codes * (k - codes)).sum(), (codes**2).sum()])
    noise = CellNoise.calibrate(k * k, Fraction(1, 2))
    count = whole(60_000, 300_000)
    drawn = exact + noise.sample(count, ReplayBits(f"pairs {rows}")).reshape(-1, 3)
    cells = drawn.astype(np.float64)
    mean, variance = bernstein2.share(cells, (0, 1)), bernstein_variance(cells)
    slack = 2.0**-50
    assert ((mean >= 0) & (mean <= 1)).all()
    assert ((variance >= 0) & (variance <= mean * (1 - mean) + slack)).all()
    if rows <= 12:  # the twin: the same cells, not raised to 0 first, leave the domain
        n = np.where(cells.sum(axis=1) == 0, 1, cells.sum(axis=1))
        m = (cells[:, 1] / 2 + cells[:, 2]) / n
        v = (cells[:, 0] * cells[:, 2] - cells[:, 1] ** 2 / 4) / n**2
        assert ((m < 0) | (m > 1) | (v < 0) | (v > m * (1 - m) + slack)).mean() > 0.1
