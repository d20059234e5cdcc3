"""Eigenvalues of released symmetric matrices: Jacobi rotations, the same bits everywhere.

Post-processing only: the matrix is made of noisy integers. A fixed number of sweeps, elementwise
IEEE operations alone (no library whose last bit depends on the processor) and no test that could
fail, so that files are a function of the draw. A sweep meets every pair of indices once, in rounds of
disjoint pairs (a round robin), whose rotations commute and are done together. Off-diagonal norms
fall quadratically (Golub and Van Loan, Matrix Computations, 8.5); ten sweeps reach rounding for 64
columns.

Shapes: matrices `(groups, n, n)`; results `(groups, n)`, greatest first.
Sources: `docs/theory/graphs-and-spectra.md#eigenvalues-of-released-matrices`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dprelease.statistics.base import Floats

_SWEEPS = 10

Places = npt.NDArray[np.intp]


def jacobi_eigenvalues(matrices: Floats) -> Floats:
    """Return the eigenvalues of symmetric matrices, descending.

    >>> jacobi_eigenvalues(np.array([[[2.0, 1.0], [1.0, 2.0]]])).round(12).tolist()
    [[3.0, 1.0]]
    """
    a = np.array(matrices, dtype=float)
    rounds = _rounds(a.shape[1])
    for _ in range(_SWEEPS):
        for p, q in rounds:
            _rotate(a, p, q)
    return np.asarray(-np.sort(-np.diagonal(a, axis1=1, axis2=2), axis=1))


def _rounds(count: int) -> list[tuple[Places, Places]]:
    """Return every pair of indices below `count` once, in rounds of disjoint pairs."""
    players = list(range(count + count % 2))  # one stands out if they are odd
    half = len(players) // 2
    rounds = []
    for _ in range(len(players) - 1):
        pairs = [(a, b) for a, b in zip(players[:half], players[: half - 1 : -1], strict=True)]
        real = [sorted(pair) for pair in pairs if max(pair) < count]
        one, other = ([pair[k] for pair in real] for k in (0, 1))
        rounds.append((np.array(one, dtype=np.intp), np.array(other, dtype=np.intp)))
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


def _rotate(a: Floats, p: Places, q: Places) -> None:
    """Make every a[p, q] zero in every matrix by one rotation each, in place."""
    x = a[:, p, q]
    some = x != 0
    with np.errstate(over="ignore"):  # a ratio or square beyond doubles only makes t zero
        ratio = np.divide(a[:, q, q] - a[:, p, p], 2 * x, out=np.zeros_like(x), where=some)
        t = np.where(ratio >= 0, 1.0, -1.0) / (np.abs(ratio) + np.sqrt(ratio * ratio + 1))
    t = np.where(some, t, 0.0)
    c = 1 / np.sqrt(t * t + 1)
    s = t * c
    one, two = a[:, p, :], a[:, q, :]  # copies: indices are arrays
    a[:, p, :] = c[:, :, None] * one - s[:, :, None] * two
    a[:, q, :] = s[:, :, None] * one + c[:, :, None] * two
    one, two = a[:, :, p], a[:, :, q]
    a[:, :, p] = c[:, None, :] * one - s[:, None, :] * two
    a[:, :, q] = s[:, None, :] * one + c[:, None, :] * two
    a[:, p, q] = 0.0
    a[:, q, p] = 0.0
