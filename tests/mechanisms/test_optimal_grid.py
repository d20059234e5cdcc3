"""The optimal table: privacy in rationals, optimality against the full programme, fit, twins."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import exp_lower, exp_upper
from dprelease.mechanisms import OptimalGrid, Staircase
from dprelease.mechanisms import optimal_grid as module
from dprelease.mechanisms.calibration import grid_program as programme
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.law import GridRequest, law_from_json
from dprelease.schema.domain import Domain, GridSet
from tests.mechanisms.plans import corpus, enumerate_law, hull, worst_ratio
from tests.sizes import whole

GAPPED = GridSet.from_runs([(0, 3), (7, 7), (9, 12)])


def rows_of(request: GridRequest) -> RowLaw | None:
    found = OptimalGrid.grid_laws(request)
    assert all(isinstance(law, RowLaw) for law in found)
    return found[0] if found else None  # type: ignore[return-value]


@cache
def laws() -> list[tuple[GridRequest, RowLaw]]:
    """Return requests with their laws; made when a test first asks, not while tests are collected."""
    return [
        (r, law)
        for i, plan in enumerate(corpus(whole(60, 120)))
        for r in [replace(plan, criterion="worst" if i % 3 == 0 else "average")]
        if r.allowed.hull_steps < 24 and (law := rows_of(r)) is not None
    ]


def test_enumerated_loss_is_within_epsilon_in_rationals() -> None:
    assert len(laws()) >= whole(30, 60)
    for request, law in laws():
        pmfs = enumerate_law(law)
        assert all(sum(p.values()) == 1 for p in pmfs.values())
        ratio = worst_ratio(pmfs, request.sensitivity)
        assert ratio <= exp_lower(request.epsilon)
        assert law.certificate.ratio is not None
        assert max(ratio, 1) <= law.certificate.ratio
        assert law.certificate.epsilon_upper <= request.epsilon
        assert {w > 0 for p in pmfs.values() for w in p.values()} == {True}


def full_programme(request: GridRequest) -> float:
    """The definition, without symmetry, sparsity or repair."""
    points, answers = request.allowed.points().tolist(), list(hull(request.allowed))
    m, n = len(points), len(answers)
    power = 1 if request.loss == "absolute" else 2
    cost = [[float(abs(y - q) ** power) for y in points] for q in answers]
    worst = request.criterion == "worst"
    upper = []
    for i in range(n):
        for j in range(n):
            if i != j and abs(i - j) <= request.sensitivity:
                for k in range(m):
                    row = np.zeros(n * m + 1)
                    row[i * m + k], row[j * m + k] = 1, -np.exp(float(request.epsilon))
                    upper.append(row)
    objective = np.zeros(n * m + 1)
    if worst:
        objective[-1] = 1
        for i in range(n):
            row = np.zeros(n * m + 1)
            row[i * m : (i + 1) * m], row[-1] = cost[i], -1
            upper.append(row)
    else:
        objective[:-1] = np.ravel(cost) / n
    sums = np.zeros((n, n * m + 1))
    for i in range(n):
        sums[i, i * m : (i + 1) * m] = 1
    found = linprog(
        objective, A_ub=np.array(upper) if upper else None,
        b_ub=np.zeros(len(upper)) if upper else None, A_eq=sums, b_eq=np.ones(n), method="highs-ds",
    )  # fmt: skip
    return float(found.fun)


def test_no_private_table_is_better() -> None:
    checked = 0
    for request, law in laws():
        if request.allowed.hull_steps > 11 or request.epsilon > 4:
            continue
        checked += 1
        best = full_programme(request)
        price = law.expected_error().by(request.criterion)
        assert price == pytest.approx(best, rel=2e-4, abs=1e-9)
    assert checked >= whole(5, 10)


def test_prices_are_those_of_the_enumerated_law() -> None:
    for request, law in laws():
        power = 1 if request.loss == "absolute" else 2
        errors = [
            float(sum(w * abs(y - q) ** power for y, w in law.pmf(q).items()))
            for q in hull(law.allowed)
        ]
        assert law.expected_error().worst == pytest.approx(max(errors), rel=1e-9, abs=1e-12)
        assert law.expected_error().average == pytest.approx(
            sum(errors) / len(errors), rel=1e-9, abs=1e-12
        )


def test_the_optimal_grid_is_never_worse_than_the_staircase() -> None:
    for request, law in laws():
        if (stair := Staircase.grid_laws(request)) and request.epsilon <= 4:
            price = law.expected_error().by(request.criterion)
            assert price <= stair[0].expected_error().by(request.criterion) * (1 + 1e-5) + 1e-9


class TestBrokenTwins:
    request = GridRequest(GAPPED, 3, Fraction(1))
    law = rows_of(request)

    def test_the_solver_s_own_table_rounded_is_not_private(self) -> None:
        """Without the dilation, rounding breaks the constraints that are tight."""
        found = programme.optimum(GAPPED, 3, math.e, "absolute", "average")
        assert found is not None
        weights = np.maximum(np.rint(found[0] * 2.0**20).astype(int), 1)
        assert self.law is not None
        twin = replace(
            self.law,
            outputs=tuple(GAPPED.points().tolist()),
            rows=tuple(tuple(row) for row in weights.tolist()),
        )
        assert worst_ratio(enumerate_law(twin), 3) > exp_upper(Fraction(1))
        assert twin.certify().epsilon_upper > 1

    def test_checking_only_answers_inside_the_allowed_set(self) -> None:
        """A table that is sound between allowed answers and reveals those in the gap."""
        assert self.law is not None
        rows = [list(row) for row in self.law.rows]
        rows[5] = [1] * (len(rows[5]) - 1) + [2**40]
        twin = replace(self.law, rows=tuple(map(tuple, rows)))
        inside = {q: p for q, p in enumerate_law(twin).items() if q in GAPPED}
        assert worst_ratio(inside, 3) <= exp_lower(Fraction(1))
        assert twin.certify().epsilon_upper > 1

    def test_checking_only_the_largest_distance(self) -> None:
        assert self.law is not None
        rows = [[1000, 1000] if q % 2 else [999, 1001] for q in hull(GAPPED)]
        rows[6] = [3000, 1000]
        twin = replace(self.law, outputs=(0, 12), rows=tuple(map(tuple, rows)), sensitivity=12)
        assert twin.certify().ratio is not None
        assert twin.certify().ratio >= Fraction(3, 4) / Fraction(999, 2000)

    def test_a_smaller_sensitivity_than_claimed(self) -> None:
        assert self.law is not None
        assert replace(self.law, sensitivity=4).certify().epsilon_upper > 1
        assert law_from_json(self.law.to_json() | {"epsilon": "1/2"}).certify().epsilon_upper > 0.9


@pytest.mark.statistical
@pytest.mark.parametrize("q", [0, 5, 12])
def test_draws_fit_the_pmf_and_neighbouring_laws_are_caught(q: int) -> None:
    law = rows_of(GridRequest(GAPPED, 3, Fraction(1)))
    assert law is not None
    draws = law.draw_raw(np.full(30_000, q), ReplayBits(f"optimal {q}"))

    def p_value(epsilon: Fraction) -> float:
        other = rows_of(GridRequest(GAPPED, 3, epsilon))
        assert other is not None
        pmf = dict.fromkeys(GAPPED.points().tolist(), 0.0)
        pmf |= {y: float(w) * draws.size for y, w in other.pmf(q).items()}
        cells = [(int((draws == y).sum()), max(e, 1e-3)) for y, e in pmf.items()]
        assert sum(c for c, _ in cells) == draws.size
        statistic = sum((c - e) ** 2 / e for c, e in cells)
        return float(stats.chi2.sf(statistic, len(law.outputs) - 1))

    assert p_value(Fraction(1)) > 1e-6
    assert p_value(Fraction(4, 5)) < 1e-6
    assert p_value(Fraction(6, 5)) < 1e-6


def test_intervals_cover_every_answer_by_enumeration() -> None:
    for _, law in laws()[:40]:
        outputs = np.array(law.outputs)
        low, high = law.interval(outputs)
        for q in hull(law.allowed):
            pmf = law.pmf(q)
            inside = (low <= q) & (q <= high)
            assert sum(pmf[y] for y in outputs[inside].tolist()) >= Fraction(95, 100)
    with pytest.raises(ArgumentError):
        law.interval(outputs, level=1.0)


def test_a_large_epsilon_gives_narrow_intervals() -> None:
    law = rows_of(GridRequest(GridSet.from_runs([(0, 20)]), 1, Fraction(8)))
    assert law is not None
    low, high = law.interval(np.array([10]))
    assert high[0] - low[0] <= 2


@pytest.mark.parametrize(
    "change",
    [
        {"starts": [0]},
        {"starts": list(range(1, 14))},
        {"outputs": [0, 5]},
        {"outputs": []},
        {"rows": [[0]]},
        {"loss": "other"},
        {"rows": None},
    ],
)
def test_a_malformed_table_is_a_config_error(change: dict[str, Any]) -> None:
    law = rows_of(GridRequest(GAPPED, 3, Fraction(1)))
    assert law is not None
    assert law_from_json(json.loads(json.dumps(law.to_json()))) == law
    with pytest.raises(ConfigError):
        law_from_json(law.to_json() | change)


def test_the_planner_prices_only_small_programmes() -> None:
    one = Fraction(1)
    assert OptimalGrid.grid_laws(GridRequest(GridSet.from_runs([(0, 59)]), 40, one)) == []
    assert OptimalGrid.grid_laws(GridRequest(GridSet.from_runs([(0, 64)]), 1, one)) == []
    assert OptimalGrid.grid_laws(GridRequest(GAPPED, 3, one, point_masses=False)) == []
    assert OptimalGrid.grid_laws(GridRequest(GAPPED, 3, one, splits=True)) == []
    assert OptimalGrid.grid_laws(GridRequest(GAPPED, 3, Fraction(1, 10**4))) == []
    assert programme.pairs(GridSet.from_runs([(0, 9)]), 1) == 90
    assert programme.pairs(GridSet.from_runs([(0, 3), (5, 9)]), 1) == 2 * 9 * 9


def test_a_solver_that_gives_up_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    request = GridRequest(GAPPED, 2, Fraction(123, 100))
    monkeypatch.setattr(programme, "optimum", lambda *_: None)
    assert OptimalGrid.grid_laws(request) == []
    module._solve.cache_clear()
    table = np.eye(13)[:, GAPPED.points()]  # no privacy at all, and rows of zeros
    monkeypatch.setattr(programme, "optimum", lambda *_: (table, 0.0))
    monkeypatch.setattr(programme, "_dilate", lambda column, *_: [max(w, 1) for w in column])
    assert OptimalGrid.grid_laws(request) == []
    module._solve.cache_clear()


class TestTheClass:
    m = OptimalGrid.calibrate(
        Domain(0, 6, [(2, 4)]), sensitivity=1, epsilon=1, step=Fraction(1, 2), loss="squared"
    )

    def test_curves_agree_with_each_other(self) -> None:
        x = np.arange(0, 6.5, 0.5)
        pmf = self.m.pmf(x, 3.0)
        assert pmf.sum() == pytest.approx(1)
        assert self.m.cdf(4.0, 3.0) == pytest.approx(pmf[x <= 4].sum())
        assert float(self.m.mean(3.0)) == pytest.approx((x * pmf).sum())
        spread = (x**2 * pmf).sum() - (x * pmf).sum() ** 2
        assert float(self.m.variance(3.0)) == pytest.approx(spread)
        assert self.m.scale == 1.0

    def test_loss_and_draws(self) -> None:
        assert self.m.loss(sensitivity=1) <= 1 < self.m.loss(sensitivity=2)
        unit = self.m.on_grid()
        assert unit.certificate.epsilon_upper <= 1
        assert Domain(0, 6, [(2, 4)]).contains(unit.draw(np.linspace(0, 6, 50))).all()

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"step": Fraction(1, 50)}, "DPR695"),
            ({"epsilon": 20}, "DPR695"),
            ({"loss": "other"}, "DPR682"),
        ],
        ids=str,
    )
    def test_what_it_cannot_do_is_refused(self, change: dict[str, Any], code: str) -> None:
        good: dict[str, Any] = {"sensitivity": 1, "epsilon": 1}
        with pytest.raises(ArgumentError) as caught:
            OptimalGrid.calibrate(Domain(0, 6), **(good | change))
        assert caught.value.code == code


def test_one_point_and_one_row_need_no_pairs() -> None:
    request = GridRequest(GridSet.from_runs([(3, 3)]), 4, Fraction(1))
    law = rows_of(request)
    assert law is not None
    assert law.certify().ratio == 1
    assert law.pmf(99) == {3: 1}
