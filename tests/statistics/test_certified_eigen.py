"""The bound holds against closed forms and exact inertias; what LAPACK says is never believed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dprelease.statistics import certified_eigen
from dprelease.statistics.certified_eigen import (
    backward_error,
    error_bound,
    symmetric_eigenvalues,
)
from tests.sizes import whole

square = st.integers(1, 5).flatmap(
    lambda n: arrays(np.float64, (n, n), elements=st.integers(-9, 9).map(float))
)


def symmetric(matrix):
    return np.tril(matrix) + np.tril(matrix, -1).T


def path(n):
    a = np.eye(n, k=1) + np.eye(n, k=-1)
    return np.diag(a.sum(axis=0)) - a


def test_path_and_complete_graph_have_their_closed_forms():
    n = 60
    tau = float(backward_error(n, n))
    truth = 2 - 2 * np.cos(np.pi * np.arange(n) / n)
    assert np.abs(symmetric_eigenvalues(path(n)) - truth).max() <= tau
    complete = n * np.eye(n) - np.ones((n, n))
    assert np.abs(symmetric_eigenvalues(complete) - ([0] + [n] * (n - 1))).max() <= tau
    assert tau < 1e-9


@settings(max_examples=whole(20, 100))
@given(square)
def test_lapack_and_exact_inertias_agree_within_twice_the_bound(matrix):
    a = symmetric(matrix)
    if not a.any():
        assert not symmetric_eigenvalues(a).any()
        return
    tau = backward_error(a.shape[0], float(np.abs(a).max()))  # |A| is at least its largest entry
    scale = 2.0**-4
    exact = certified_eigen._bisected(a * scale) / scale if np.abs(a).max() >= 8 else None
    ours = symmetric_eigenvalues(a)
    if exact is not None:
        assert (
            max(abs(Fraction(x) - Fraction(y)) for x, y in zip(ours, exact, strict=True)) <= 2 * tau
        )


@settings(max_examples=whole(35, 100))
@given(square)
def test_inertia_counts_negative_eigenvalues(matrix):
    a = symmetric(matrix)
    exact = [[Fraction(int(v)) for v in row] for row in a]
    values = np.linalg.eigvalsh(a)
    count = certified_eigen._negative([list(row) for row in exact])
    assert (values < -1e-6).sum() <= count <= (values < 1e-6).sum()


@pytest.mark.parametrize("liar", ["values", "vectors", "order", "nan", "raises"])
def test_a_wrong_proposal_is_refused_and_the_answer_stays_right(monkeypatch, liar):
    import scipy.linalg

    honest = scipy.linalg.eigh

    def lying(a, **options):
        if liar == "raises":
            raise scipy.linalg.LinAlgError("no convergence")
        w, v = honest(a, **options)
        if liar == "values":
            w = w + 1e-9
        elif liar == "vectors":
            v = v.copy()
            v[:, 0] = v[:, 1]
        elif liar == "order":
            w, v = w[::-1], v[:, ::-1]
        else:
            w = w * np.nan
        return w, v

    monkeypatch.setattr(scipy.linalg, "eigh", lying)
    n = 6
    truth = 2 - 2 * np.cos(np.pi * np.arange(n) / n)
    found = symmetric_eigenvalues(path(n))
    assert np.abs(found - truth).max() <= float(backward_error(n, 4))


def test_the_stated_error_is_the_true_one_for_a_moved_value():
    a = path(5)
    w, v = np.linalg.eigh(a)
    moved = w + np.array([0, 0, 0, 0, 1e-3])
    bound = error_bound(a, moved, v)
    assert bound is not None
    assert 1e-3 <= bound < 1.2e-3


def test_a_claim_below_double_precision_would_send_everything_to_the_slow_path(monkeypatch):
    a = path(40) / 4
    w, v = np.linalg.eigh(a)
    assert certified_eigen._accepted(a, w, v)
    monkeypatch.setattr(certified_eigen, "_relative", lambda n: n * Fraction(1, 2**53))
    assert not certified_eigen._accepted(a, w, v)  # twin: a tau that nobody proved


def test_total_on_extreme_entries():
    for a in (np.array([[1e308, 1e308], [1e308, -1e308]]), np.array([[5e-324]]), np.zeros((0, 0))):
        assert np.isfinite(symmetric_eigenvalues(a)).all()
    assert symmetric_eigenvalues(np.array([[np.nan, 0], [np.inf, 1.0]])).tolist() == [0.0, 1.0]
