"""Eigenvalues of a symmetric matrix with an error bound that is public before the matrix is seen.

Claim. For every symmetric matrix A of order n with |A|_2 <= norm, value i of `symmetric_eigenvalues`
differs from eigenvalue i of A by at most tau = `backward_error(n, norm)`. Nothing else about A is
assumed, and nothing is raised: what a release adds noise to must neither fail nor be wrong for one
matrix out of many.

Proof. A is scaled by a power of two (exact) so that its largest entry lies in [1/2, 1). LAPACK
proposes values w and vectors V; nothing is believed of them. With exact R = A V - V diag(w) and
eta >= |V'V - I|_2, eta < 1, let V = Q H be the polar decomposition. H's eigenvalues h have
|h - 1| <= |h^2 - 1|, so |H - I| <= eta and |H^-1| <= 1 / (1 - eta). For D = diag(w) and any c,

    A Q - Q D = (R + Q (H D - D H)) H^-1,    H D - D H = (H - I)(D - c) - (D - c)(H - I),

so with c the middle of w, Weyl's inequality for Q'AQ and D gives for sorted w and eigenvalues l

    |l_i - w_i| <= err = (|R| + eta (max w - min w)) / (1 - eta).

R and eta come from floating-point products whose terms are summed in blocks of `_BLOCK`: whatever
the order inside a block, fused or not, the computed product of X and Y is within g |X||Y|, entry by
entry, g = m u / (1 - m u), m = block + number of blocks ([H02] section 3.5), u = 2^-53; so within
g |X|_F |Y|_F in norm. A proposal is accepted if err <= c(n) (max|w| - err): as max|w| - err <= |A|_2,
err <= c(n) |A|_2 <= tau. c(n) = (4 n m + 128 n + 128) u exceeds what a backward stable algorithm
needs: the products' share is at most 3 n m u, since |A|_F |V|_F <= n |A|_2 |V|_2.

Divide and conquer is asked first, then the QR iteration (another algorithm), and last, should both
be refused, eigenvalues are bisected with inertias counted in rational arithmetic (Sylvester), which
is slow and cannot be wrong. No matrix is known to get there; only the running time would tell.

Units: those of the matrix. Shapes: `(n, n)` -> `(n,)`, float64.
Sources: `docs/theory/graphs-and-spectra.md#certified-eigenvalues`;
[H02] N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed. (bounds of
products); S. Rump, verification methods (the idea of checking a proposal afterwards); Weyl;
Sylvester. The argument above is complete without them.
Limits: conventional matrix products (no Strassen), IEEE double, rounding to nearest; n below 2^20.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_ROUNDOFF = Fraction(1, 2**53)
_BLOCK = 256
_DRIVERS = ("evd", "ev")
_NORM_SLACK = Fraction(1_000_001, 1_000_000)
"""Covers the rounding of a Frobenius norm: relative n^2 u < 2.5e-7 below n = 45,000."""


def _terms(n: int) -> int:
    """Return m: most roundings that one term of a blocked inner product of length n meets."""
    return min(n, _BLOCK) + -(-n // _BLOCK) + 1


def _relative(n: int) -> Fraction:
    """Return c(n) = tau / norm."""
    return (4 * n * _terms(n) + 128 * n + 128) * _ROUNDOFF


def backward_error(n: int, norm: Fraction | float) -> Fraction:
    """Return tau: the most a computed eigenvalue of order n can be off if |A|_2 <= `norm`.

    >>> float(backward_error(34, 34)) < 1e-10
    True
    """
    return _relative(n) * Fraction(norm)


def symmetric_eigenvalues(matrix: Floats) -> Floats:
    """Return the eigenvalues in ascending order, each within `backward_error` of the truth.

    Args:
        matrix: shape `(n, n)`; its lower triangle is read and counts for both; entries that are
            not finite count as 0 (total by contract).

    Returns:
        shape `(n,)`, float64.
    """
    lower = np.tril(np.nan_to_num(np.asarray(matrix, dtype=np.float64), posinf=0.0, neginf=0.0))
    a = lower + np.tril(lower, -1).T
    largest = float(np.max(np.abs(a), initial=0.0))
    if largest == 0.0:
        return np.zeros(a.shape[0])
    exponent = int(np.frexp(largest)[1])
    a = np.ldexp(a, -exponent)
    values = None
    for driver in _DRIVERS:
        values = _proposed(a, driver)
        if values is not None:
            break
    if values is None:
        values = _bisected(a)
    return np.asarray(np.ldexp(values, exponent))


def _proposed(a: Floats, driver: str) -> Floats | None:
    """Return LAPACK's values if their error is proved small enough, else None."""
    from scipy.linalg import LinAlgError, eigh

    try:
        with np.errstate(all="ignore"):
            w, v = eigh(a, driver=driver, check_finite=False)
    except (LinAlgError, ValueError):
        return None
    return w if _accepted(a, w, v) else None


def _accepted(a: Floats, w: Floats, v: Floats) -> bool:
    """Return whether err <= c(n) (max|w| - err) is proved for the proposal (w, v)."""
    n = a.shape[0]
    sane = (np.abs(w) <= 2 * n).all() and (np.abs(v) <= 2).all()  # NaN and overflow end here
    if not sane or (np.diff(w) < 0).any():
        return False
    error = error_bound(a, w, v)
    if error is None:
        return False
    return error <= _relative(n) * (Fraction(float(np.abs(w).max())) - error)


def error_bound(a: Floats, w: Floats, v: Floats) -> Fraction | None:
    """Return a proved bound err of |eigenvalue i of a - w_i|, or None if V is not nearly orthogonal.

    Shapes: a, v `(n, n)`, w `(n,)` ascending.
    """
    n = a.shape[0]
    m = _terms(n) + 2
    gamma = m * _ROUNDOFF / (1 - m * _ROUNDOFF)
    size_v = _frobenius(v)
    top = Fraction(float(np.abs(w).max()))
    residual = _product(a, v)
    residual -= v * w
    r = _frobenius(residual) + _ROUNDOFF * size_v * top * 2 + gamma * _frobenius(a) * size_v
    gram = _product(v.T, v)
    gram[np.diag_indices(n)] -= 1.0
    eta = _frobenius(gram) + gamma * size_v * size_v
    if eta >= Fraction(1, 2):
        return None
    spread = Fraction(float(w[-1])) - Fraction(float(w[0]))
    return (r + eta * spread) / (1 - eta)


def _product(x: Floats, y: Floats) -> Floats:
    """Return x @ y, summed over blocks of the inner index: fewer roundings per term."""
    out = np.zeros((x.shape[0], y.shape[1]))
    for start in range(0, x.shape[1], _BLOCK):
        out += x[:, start : start + _BLOCK] @ y[start : start + _BLOCK]
    return out


def _frobenius(x: Floats) -> Fraction:
    """Return an upper bound of the Frobenius norm of a matrix with entries far below overflow."""
    # squares below the least float vanish: 1e-150 per entry is more than their root
    return Fraction(float(np.linalg.norm(x))) * _NORM_SLACK + x.size * Fraction(1, 10**150)


def _bisected(a: Floats) -> Floats:
    """Return eigenvalues by bisection on exact inertias; `a` has a largest entry of at least 1/2."""
    n = a.shape[0]
    exact = [[Fraction(float(v)) for v in row] for row in a]
    bound = max(sum((abs(v) for v in row), Fraction(0)) for row in exact)
    tolerance = _relative(n) / 4  # half of c(n) |A|, as |A| >= 1/2; the rest covers the float
    counts: dict[Fraction, int] = {}

    def below(s: Fraction) -> int:
        if s not in counts:
            counts[s] = _negative(
                [[v - s if i == j else v for j, v in enumerate(row)] for i, row in enumerate(exact)]
            )
        return counts[s]

    out = np.empty(n)
    for i in range(n):
        low, high = -bound, bound + Fraction(1)
        while high - low > tolerance:
            middle = (low + high) * Fraction(1, 2)
            if below(middle) > i:
                high = middle
            else:
                low = middle
        out[i] = float((low + high) / 2)
    return out


def _negative(m: list[list[Fraction]]) -> int:
    """Return the number of negative eigenvalues of a symmetric rational matrix (consumed)."""
    count = 0
    while m:
        size = len(m)
        pivot = next((i for i in range(size) if m[i][i] != 0), None)
        if pivot is None:
            pair = next(((i, j) for i in range(size) for j in range(i) if m[i][j] != 0), None)
            if pair is None:
                return count
            pivot, other = pair  # congruence: add row and column `other`, diagonal becomes 2 m_ij
            m[pivot] = [x + y for x, y in zip(m[pivot], m[other], strict=True)]
            for row in m:
                row[pivot] += row[other]
        d = m[pivot][pivot]
        count += d < 0
        column = [row[pivot] for row in m]
        rest = [i for i in range(size) if i != pivot]
        m = [[m[i][j] - column[i] * column[j] / d for j in rest] for i in rest]
    return count
