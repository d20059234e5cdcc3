"""Covariance and correlation from cells: exact on exact cells, in their joint domain on noisy ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.entropy import ReplayBits
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.statistics.pair_cells import (
    moments,
    pair_correlation,
    pair_covariance,
    shares,
)

Floats = npt.NDArray[np.float64]


def soft(s: Floats, t: Floats) -> Floats:
    return np.array(
        [[((1 - s) * (1 - t)).sum(), ((1 - s) * t).sum(), (s * (1 - t)).sum(), (s * t).sum()]]
    )


def bernstein(s: Floats) -> Floats:
    return np.stack([(1 - s) ** 2, 2 * s * (1 - s), s * s])


def tensor(s: Floats, t: Floats) -> Floats:
    return np.asarray((bernstein(s) @ bernstein(t).T).reshape(1, 9))


columns = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12)


@given(columns)
@settings(max_examples=200)
def test_exact_cells_give_the_statistics_of_the_rows(rows: list[tuple[float, float]]) -> None:
    s, t = np.array(rows).T
    cov = float(np.mean(s * t) - s.mean() * t.mean())
    assert pair_covariance(soft(s, t))[0] == pytest.approx(cov, abs=1e-12)
    found, one, other = (float(v[0]) for v in moments(tensor(s, t)))
    assert found == pytest.approx(cov, abs=1e-9)
    assert (one, other) == (pytest.approx(s.var(), abs=1e-12), pytest.approx(t.var(), abs=1e-12))
    if min(one, other) > 1e-3:
        r = float(pair_correlation(tensor(s, t))[0])
        assert r == pytest.approx(cov / np.sqrt(one * other), abs=1e-6)


def noisy(groups: int, scale: float = 40.0) -> Floats:
    """Return tensors of groups of 0 to 2,000 rows with noise that often swamps them."""
    random = np.random.default_rng(11)
    size = random.integers(0, 2_000, groups)[:, None]
    s, t = random.beta(0.5, 0.7, (2, groups, 3))
    cells = np.einsum(
        "gri,grj->gij", bernstein(s).transpose(1, 2, 0), bernstein(t).transpose(1, 2, 0)
    )
    noise = random.laplace(scale=scale, size=(groups, 9))
    return np.asarray(size * cells.reshape(groups, 9) / 3 + noise)


def test_no_violation_of_the_joint_domain_in_a_hundred_thousand_draws() -> None:
    raw = noisy(100_000)
    cov, one, other = moments(raw)
    r = pair_correlation(raw)
    assert (np.abs(cov) <= np.sqrt(one * other)).all()  # positive semidefinite
    assert (np.abs(cov) <= 0.25).all()
    assert (one >= 0).all() and (one <= 0.25).all()
    assert (other >= 0).all() and (other <= 0.25).all()
    assert (np.abs(r) <= 1).all()
    assert (r[one * other == 0] == 0).all()
    assert (np.abs(pair_covariance(raw[:, :4])) <= 0.25).all()
    assert (one * other > 0).mean() > 0.5  # the claim is not about zeros


def test_without_clipping_the_covariance_the_matrix_would_not_be_one() -> None:
    """The control: E[st] - E[s] E[t] from the same cells passes sqrt(var var) in many draws."""
    raw = noisy(10_000)
    c = shares(raw).reshape(-1, 3, 3)
    x = np.array([0.0, 0.5, 1.0])
    free = np.einsum("gij,i,j->g", c, x, x) - (c.sum(axis=2) @ x) * (c.sum(axis=1) @ x)
    _, one, other = moments(raw)
    assert (np.abs(free) > np.sqrt(one * other) + 1e-9).mean() > 0.05


def test_no_signal_gives_zero_by_convention() -> None:
    nothing = np.array([[-3.0] * 9, [0.0] * 9])
    assert pair_covariance(nothing).tolist() == [0.0, 0.0]
    assert pair_correlation(nothing).tolist() == [0.0, 0.0]
    assert pair_covariance(nothing[:, :4]).tolist() == [0.0, 0.0]


def test_integer_noise_keeps_the_domain_too() -> None:
    draws = DiscreteLaplaceNoise.calibrate(1, Fraction(1, 7))
    raw = draws.sample(9_000, ReplayBits("pairs")).reshape(-1, 9).astype(float)
    cov, one, other = moments(raw)
    assert (np.abs(cov) <= np.sqrt(one * other)).all()
