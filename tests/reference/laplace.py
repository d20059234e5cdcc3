"""Bounded Laplace by its definition, in 40 digits: integrals by quadrature, maxima by brute force.

Nothing here shares a formula with `dprelease.mechanisms`: the normaliser is a numerical integral
of exp(-|x - q| / b), and the loss is the largest |log p_q - log p_q'| over a list of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import mpmath as mp

Pieces = Sequence[tuple[float, float]]


def normaliser(pieces: Pieces, q: float, b: float) -> mp.mpf:
    """Return the integral of exp(-|x - q| / b) over the pieces."""
    with mp.workdps(40):
        total = mp.mpf(0)
        for a, c in pieces:
            nodes = sorted({mp.mpf(a), mp.mpf(c), min(max(mp.mpf(q), mp.mpf(a)), mp.mpf(c))})
            total += sum(
                mp.quad(lambda x: mp.exp(-abs(x - mp.mpf(q)) / mp.mpf(b)), [u, v])
                for u, v in pairwise(nodes)
            )
        return total


def moment(pieces: Pieces, q: float, b: float, order: int) -> mp.mpf:
    """Return E Y^order of the bounded law."""
    with mp.workdps(40):
        total = mp.mpf(0)
        for a, c in pieces:
            nodes = sorted({mp.mpf(a), mp.mpf(c), min(max(mp.mpf(q), mp.mpf(a)), mp.mpf(c))})
            total += sum(
                mp.quad(lambda x: x**order * mp.exp(-abs(x - mp.mpf(q)) / mp.mpf(b)), [u, v])
                for u, v in pairwise(nodes)
            )
        return total / normaliser(pieces, q, b)


def pair_loss(pieces: Pieces, q: float, other: float, b: float) -> mp.mpf:
    """Return the largest |log p_q(x) - log p_other(x)|: attained at an end of the hull."""
    with mp.workdps(40):
        change = mp.log(normaliser(pieces, other, b) / normaliser(pieces, q, b))
        ends = (pieces[0][0], pieces[-1][1])
        return max(
            abs((abs(x - mp.mpf(other)) - abs(x - mp.mpf(q))) / mp.mpf(b) + change) for x in ends
        )


def interval_scale(width: float, shift: float, epsilon: float) -> mp.mpf:
    """Return the scale at which the loss of the pair (0, shift) on [0, width] is epsilon."""
    with mp.workdps(40):
        w, d, e = mp.mpf(width), min(mp.mpf(shift), mp.mpf(width)), mp.mpf(epsilon)

        def mass(q: mp.mpf, b: mp.mpf) -> mp.mpf:
            return 2 - mp.exp(-q / b) - mp.exp(-(w - q) / b)

        low, high = d / e, 2 * d / e
        for _ in range(130):
            b = (low + high) / 2
            loss = d / b + mp.log(mass(d, b) / mass(mp.mpf(0), b))
            low, high = (b, high) if loss > e else (low, b)
        return high


def hockey_stick(pieces: Pieces, q: float, other: float, b: float, epsilon: float) -> mp.mpf:
    """Return the integral of (p_q - e^epsilon p_other)+ on a fine grid of sub-intervals."""
    with mp.workdps(20):
        first, second = normaliser(pieces, q, b), normaliser(pieces, other, b)
        factor = mp.exp(mp.mpf(epsilon))
        total = mp.mpf(0)
        for a, c in pieces:
            count = 4000
            step = (mp.mpf(c) - mp.mpf(a)) / count
            for i in range(count):
                x = mp.mpf(a) + (i + mp.mpf("0.5")) * step
                p = mp.exp(-abs(x - q) / b) / first - factor * mp.exp(-abs(x - other) / b) / second
                total += max(p, mp.mpf(0)) * step
        return total
