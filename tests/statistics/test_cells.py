"""Bernstein cells and two sums: domains by construction, and boxes that hold every point of theirs."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dprelease.statistics.cells import bernstein_variance, bernstein_variance_box
from dprelease.statistics.moments import bernstein2, two_sums

Floats = npt.NDArray[np.float64]

ROUNDING = 1e-12


def moments(values: Floats) -> Floats:
    """Return the exact Bernstein cells of rows in [0, 1], shape (1, 3)."""
    t = values
    return np.array([[((1 - t) ** 2).sum(), (2 * t * (1 - t)).sum(), (t**2).sum()]])


class TestExactCells:
    @given(st.lists(st.integers(0, 64), min_size=1, max_size=12))
    def test_exact_cells_give_the_mean_and_the_variance(self, codes: list[int]) -> None:
        t = np.array(codes) / 64
        assert bernstein2.share(moments(t), (0, 1))[0] == pytest.approx(t.mean(), abs=ROUNDING)
        assert bernstein_variance(moments(t))[0] == pytest.approx(t.var(), abs=ROUNDING)
        pair = np.array([[t.sum(), (1 - t).sum()]])
        assert two_sums.share(pair, (0, 1))[0] == pytest.approx(t.mean(), abs=ROUNDING)

    def test_nothing_at_all_is_the_centre_and_no_spread(self) -> None:
        none = np.array([[0.0, 0.0, 0.0], [-5.0, -1.0, -2.0]])
        assert bernstein2.share(none, (0, 1)).tolist() == [0.5, 0.5]
        assert bernstein_variance(none).tolist() == [0.0, 0.0]
        assert two_sums.share(none[:, :2], (0, 1)).tolist() == [0.5, 0.5]


def noisy(count: int) -> Floats:
    """Return cells of random tables, 0 to 50 rows, with Laplace noise from tiny to huge."""
    random = np.random.default_rng(20_070_101)
    n = random.integers(0, 51, count)
    t = random.beta(0.3, 0.3, (count, 2))
    share = random.random(count)
    mean = share * t[:, 0] + (1 - share) * t[:, 1]
    square = share * t[:, 0] ** 2 + (1 - share) * t[:, 1] ** 2
    cells = n[:, None] * np.stack([1 - 2 * mean + square, 2 * (mean - square), square], axis=1)
    scale = 10.0 ** random.uniform(-3, 4, count)
    return np.asarray(cells + random.laplace(size=(count, 3)) * scale[:, None])


class TestJointDomain:
    def test_every_noisy_pair_lies_in_it(self) -> None:
        cells = noisy(200_000)
        mean, variance = bernstein2.share(cells, (0, 1)), bernstein_variance(cells)
        assert ((mean >= 0) & (mean <= 1)).all()
        assert (variance >= 0).all() and (variance <= 0.25).all()
        assert (variance <= mean * (1 - mean) + 1e-15).all()
        assert 0.05 < (variance == 0).mean() < 0.95  # the boundary is exercised, and the inside

    def test_twin_raw_moments_leave_it(self) -> None:
        """(n, S x, S x^2) with noise: the variance leaves [0, 1/4], or is not a number."""
        cells = noisy(20_000)
        n = cells.sum(axis=1)
        with np.errstate(all="ignore"):
            mean = (cells[:, 1] / 2 + cells[:, 2]) / n
            variance = cells[:, 2] / n - mean**2
        assert (~((variance >= 0) & (variance <= 0.25))).mean() > 0.1

    def test_twin_cells_that_are_not_raised_to_zero_leave_it(self) -> None:
        cells = noisy(20_000)
        n = cells.sum(axis=1)
        mean = (cells[:, 1] / 2 + cells[:, 2]) / n
        assert (~((mean >= 0) & (mean <= 1))).mean() > 0.05


ends = st.tuples(
    *[
        st.tuples(
            st.floats(-5, 100, allow_subnormal=False).map(lambda v: round(v, 3)),
            st.floats(0, 100, allow_subnormal=False).map(lambda v: round(v, 3)),
        )
        for _ in range(3)
    ]
)


def box(sides: tuple[tuple[float, float], ...]) -> tuple[Floats, Floats]:
    low = np.array([[a for a, _ in sides]])
    return low, low + np.array([[width for _, width in sides]])


def inside(low: Floats, high: Floats, density: int) -> Floats:
    """Return a dense lattice of the box, corners included, `(density**3, 3)`."""
    axes = [np.linspace(a, b, density) for a, b in zip(low[0], high[0], strict=True)]
    return np.array(list(itertools.product(*axes)))


class TestVarianceBox:
    @given(ends)
    @example(((0.0, 10.0), (1.0, 0.0), (3.0, 0.0)))  # the maximum lies inside the side of c0
    @example(((3.0, 0.0), (1.0, 0.0), (0.0, 10.0)))  # its mirror image
    @example(((0.0, 0.0), (0.0, 5.0), (0.0, 0.0)))
    @example(((-5.0, 0.0), (-5.0, 0.0), (-5.0, 0.0)))
    def test_holds_every_point_of_the_box(self, sides: tuple[tuple[float, float], ...]) -> None:
        low, high = box(sides)
        bottom, top = bernstein_variance_box(low, high)
        values = bernstein_variance(inside(low, high, 13))
        assert bottom[0] <= values.min() + ROUNDING
        assert values.max() <= top[0] + ROUNDING

    @pytest.mark.parametrize(
        "sides",
        [
            ((0.0, 10.0), (1.0, 0.0), (3.0, 0.0)),
            ((3.0, 0.0), (1.0, 0.0), (0.0, 10.0)),
            ((2.0, 6.0), (1.0, 3.0), (1.0, 2.0)),
            ((0.5, 1.0), (4.0, 4.0), (7.0, 20.0)),
            ((0.0, 1.0), (0.0, 1.0), (0.0, 1.0)),
        ],
    )
    def test_the_lower_and_the_upper_end_are_attained(
        self, sides: tuple[tuple[float, float], ...]
    ) -> None:
        low, high = box(sides)
        bottom, top = bernstein_variance_box(low, high)
        best_low, best_high = (
            f(bernstein_variance(inside(low, high, 41))) for f in (np.min, np.max)
        )
        # refine around the stationary points on the faces where the maximum can lie
        for a, b in ((0, 2), (2, 0)):
            fine = np.repeat(low, 200_001, axis=0)
            fine[:, a] = np.linspace(low[0, a], high[0, a], 200_001)
            fine[:, b] = high[0, b]
            best_high = max(best_high, bernstein_variance(fine).max())
        assert bottom[0] == pytest.approx(best_low, abs=1e-9)
        assert top[0] == pytest.approx(best_high, abs=1e-9)

    def test_twin_corners_alone_miss_an_interior_maximum(self) -> None:
        low, high = box(((0.0, 10.0), (1.0, 0.0), (3.0, 0.0)))
        corners = bernstein_variance(inside(low, high, 2)).max()
        assert corners < bernstein_variance_box(low, high)[1][0] - 0.01
