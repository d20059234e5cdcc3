"""Bounded Gaussian by its definition, in 50 digits: nothing shared with `dprelease.mechanisms`.

The normaliser is a difference of normal distribution functions, at a precision where that is fine,
moments are numerical integrals, losses are the largest |log p_q - log p_r| over a list of pairs,
and smallest scales come from plain bisection.

Run as a script, this file rewrites `gaussian_values.json`, the frozen table of the tests.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import mpmath as mp

Pieces = Sequence[tuple[float, float]]
TABLE = Path(__file__).with_name("gaussian_values.json")


def mass(pieces: Pieces, q: float, s: float) -> mp.mpf:
    """Return P(q + N(0, s^2) lands in the pieces), in the current precision."""
    return _mass(tuple((a, c) for a, c in pieces), q, s, mp.mp.prec)


@lru_cache(maxsize=16_384)
def _mass(pieces: tuple[tuple[float, float], ...], q: float, s: float, bits: int) -> mp.mpf:
    del bits  # the current precision: what is kept of one is not given at another
    total = mp.mpf(0)
    for a, c in pieces:
        low, high = (mp.mpf(a) - mp.mpf(q)) / mp.mpf(s), (mp.mpf(c) - mp.mpf(q)) / mp.mpf(s)
        if low > 0:  # the tail beyond, not one minus it
            low, high = -high, -low
        total += mp.ncdf(high) - mp.ncdf(low)
    return total


def integral(pieces: Pieces, q: float, s: float, f: Any) -> mp.mpf:
    """Return the integral of f times the density of the bounded law."""
    total = mp.mpf(0)
    for a, c in pieces:
        marks = [mp.mpf(q) + k * mp.mpf(s) for k in (-30, -12, -6, -3, -1, 0, 1, 3, 6, 12, 30)]
        nodes = [mp.mpf(a), *sorted(m for m in marks if a < m < c), mp.mpf(c)]
        for u, v in pairwise(nodes):
            total += mp.quad(
                lambda x: f(x) * mp.exp(-((x - mp.mpf(q)) ** 2) / (2 * mp.mpf(s) ** 2)), [u, v]
            )
    return total / (mp.mpf(s) * mp.sqrt(2 * mp.pi)) / mass(pieces, q, s)


def mean(pieces: Pieces, q: float, s: float) -> mp.mpf:
    return integral(pieces, q, s, lambda x: x)


def variance(pieces: Pieces, q: float, s: float) -> mp.mpf:
    middle = mean(pieces, q, s)
    return integral(pieces, q, s, lambda x: (x - middle) ** 2)


def cdf(pieces: Pieces, x: float, q: float, s: float) -> mp.mpf:
    left = [(a, min(c, x)) for a, c in pieces if a < x]
    return mass(left, q, s) / mass(pieces, q, s) if left else mp.mpf(0)


def pair_loss(pieces: Pieces, q: float, r: float, s: float) -> mp.mpf:
    """Return the largest |log p_q(x) - log p_r(x)|: it is linear in x, so at an end."""
    q, r, s = mp.mpf(q), mp.mpf(r), mp.mpf(s)
    change = mp.log(mass(pieces, r, s) / mass(pieces, q, s))
    ends = (mp.mpf(pieces[0][0]), mp.mpf(pieces[-1][1]))
    return max(abs(((x - r) ** 2 - (x - q) ** 2) / (2 * s * s) + change) for x in ends)


def hull_loss(pieces: Pieces, distance: float, s: float, starts: int = 5) -> mp.mpf:
    """Return the largest pair loss over an even list of hull answers `distance` apart."""
    low, high = mp.mpf(pieces[0][0]), mp.mpf(pieces[-1][1])
    c = min(mp.mpf(distance), high - low)
    room = high - low - c
    points = [low + room * i / (starts - 1) for i in range(starts)]
    return max(pair_loss(pieces, q, q + c, s) for q in points)


def smallest_scale(pieces: Pieces, distance: float, epsilon: float) -> mp.mpf:
    """Return the scale at which `hull_loss` falls to epsilon, by bisection."""
    width = mp.mpf(pieces[-1][1]) - mp.mpf(pieces[0][0])
    c = min(mp.mpf(distance), width)
    low, high = mp.sqrt(c * width / epsilon / 4), mp.sqrt(2 * c * width / epsilon)
    while high - low > high * mp.mpf(10) ** -18:
        middle = (low + high) / 2
        low, high = (
            (low, middle) if hull_loss(pieces, distance, middle) <= epsilon else (middle, high)
        )
    return high


def hockey_stick(pieces: Pieces, q: float, r: float, s: float, epsilon: float) -> mp.mpf:
    """Return max over half-lines of P_q - e^epsilon P_r: the ratio is monotone in x."""
    q, r, s = mp.mpf(q), mp.mpf(r), mp.mpf(s)
    change = mp.log(mass(pieces, r, s) / mass(pieces, q, s))
    cut = (q + r) / 2 + s * s * (mp.mpf(epsilon) - change) / (q - r)
    parts = []
    for a, c in pieces:
        u, v = (max(mp.mpf(a), cut), mp.mpf(c)) if q > r else (mp.mpf(a), min(mp.mpf(c), cut))
        if u < v:
            parts.append((u, v))
    if not parts:
        return mp.mpf(0)
    first, second = mass(parts, q, s) / mass(pieces, q, s), mass(parts, r, s) / mass(pieces, r, s)
    return first - mp.exp(epsilon) * second


def pair_line(pieces: Pieces, q: float, r: float, s: float) -> tuple[mp.mpf, mp.mpf]:
    """Return (slope, constant) of log p_q(x) - log p_r(x), linear in x."""
    q, r, s = mp.mpf(q), mp.mpf(r), mp.mpf(s)
    change = mp.log(mass(pieces, r, s) / mass(pieces, q, s))
    return (q - r) / s**2, change - (q * q - r * r) / (2 * s * s)


Place = tuple[Pieces, float, float, float]


def joint_hockey_stick(places: Sequence[Place], epsilon: float) -> mp.mpf:
    """Return the divergence of independent sides (pieces, q, r, s), by nested quadrature.

    The innermost side is the closed form; every outer integral is cut where that one starts or
    stops to matter.
    """
    (pieces, q, r, s), rest = places[0], places[1:]
    if not rest:
        return hockey_stick(pieces, q, r, s, epsilon)
    slope, constant = pair_line(pieces, q, r, s)
    ends = []
    for part, a, b, c in rest:
        k, d = pair_line(part, a, b, c)
        ends.append(sorted((k * part[0][0] + d, k * part[-1][1] + d)))
    marks = [(mp.mpf(epsilon) - sum(e[i] for e in ends) - constant) / slope for i in (0, 1)]
    total = mp.mpf(0)
    for low, high in pieces:
        nodes = sorted({mp.mpf(low), mp.mpf(high), *(m for m in marks if low < m < high)})
        total += mp.quad(
            lambda x: (
                mp.exp(-((x - mp.mpf(q)) ** 2) / (2 * mp.mpf(s) ** 2))
                * joint_hockey_stick(rest, epsilon - slope * x - constant)
            ),
            nodes,
            maxdegree=5,
        )
    return total / (mp.mpf(s) * mp.sqrt(2 * mp.pi)) / mass(pieces, q, s)


def worst_joint(
    sides: Sequence[Pieces],
    distances: Sequence[float],
    scales: Sequence[float],
    e: float,
    count: int,
) -> mp.mpf:
    """Return the largest joint divergence over a lattice of places, both signs of every distance."""
    choices = []
    for pieces, c, s in zip(sides, distances, scales, strict=True):
        low, room = pieces[0][0], pieces[-1][1] - pieces[0][0] - c
        starts = [low + room * i / (count - 1) for i in range(count)]
        up = [(pieces, a + c, a, s) for a in starts]
        # An interval looks the same from both ends.
        down = [(pieces, a, a + c, s) for a in starts] if len(pieces) > 1 else []
        choices.append(up + down)
    return max(joint_hockey_stick(places, e) for places in product(*choices))


UNIONS: list[Pieces] = [
    [(0.0, 1.0)],
    [(-3.0, 5.0)],
    [(0.0, 4.0), (6.0, 12.0)],
    [(0.0, 1e-6), (1.0, 1.001), (4.0, 4.01)],
    [(0.0, 1.0), (999.0, 1000.0)],
]


def values() -> list[dict[str, Any]]:
    """Return the frozen table: what is computed, from what, and the value in 20 digits."""
    pick, out = random.Random("gaussian"), []
    with mp.workdps(50):
        for i in range(18):
            pieces = UNIONS[i % len(UNIONS)]
            low, high = pieces[0][0], pieces[-1][1]
            width = high - low
            q = low + width * round(pick.random(), 3)
            s = width * float(f"{10 ** pick.uniform(-1.5, 1.5):.3g}")
            x = low + width * round(pick.random(), 3)
            c = width * float(f"{10 ** pick.uniform(-3, 0):.3g}")
            at = {"pieces": pieces, "q": q, "s": s, "x": x, "c": c}
            found = {
                "mass": mass(pieces, q, s),
                "mean": mean(pieces, q, s),
                "variance": variance(pieces, q, s),
                "cdf": cdf(pieces, x, q, s),
                "loss": hull_loss(pieces, c, s, 2),
            }
            for name, value in found.items():
                out.append(at | {"name": name, "value": mp.nstr(value, 20)})
        for pieces, c, e in (
            ([(0.0, 1.0)], 0.1, 1.0),
            ([(0.0, 1.0)], 0.7, 0.01),
            ([(0.0, 1.0)], 1e-6, 1e-6),
            ([(-3.0, 5.0)], 8.0, 2.0),
            ([(0.0, 4.0), (6.0, 12.0)], 0.5, 1.0),
            ([(0.0, 1.0), (999.0, 1000.0)], 30.0, 3.0),
        ):
            value = smallest_scale(pieces, c, e)
            out.append(
                {"pieces": pieces, "c": c, "e": e, "name": "scale", "value": mp.nstr(value, 17)}
            )
        for q, r, s, e in ((0.3, 0.4, 0.2, 0.3), (0.9, 0.5, 0.1, 2.0), (0.5, 0.6, 0.3, 0.01)):
            value = hockey_stick([(0, 1)], q, r, s, e)
            out.append(
                {"q": q, "r": r, "s": s, "e": e, "name": "delta", "value": mp.nstr(value, 20)}
            )
    return out + joint_values()


GAPPED: Pieces = [(0.0, 0.3), (0.8, 1.0)]
UNIT: Pieces = [(0.0, 1.0)]


def joint_values() -> list[dict[str, Any]]:
    """Return divergences of unions (given pairs) and of boxes (full distances, and worst places)."""
    out: list[dict[str, Any]] = []
    with mp.workdps(30):
        for pieces, q, r, s, e in (
            (GAPPED, 0.9, 0.5, 0.2, 0.5),
            (GAPPED, 0.5, 0.9, 0.2, 0.5),
            (GAPPED, 0.0, 0.25, 0.1, 1.0),
            (GAPPED, 0.25, 0.0, 0.1, 1.0),
            (UNIONS[2], 5.0, 4.0, 1.0, 0.3),
            (UNIONS[2], 0.0, 12.0, 6.0, 0.7),
            (UNIONS[4], 500.0, 501.0, 90.0, 0.01),
            (UNIT, 0.0, 0.02, 0.01, 8.0),
        ):
            value = hockey_stick(pieces, q, r, s, e)
            at = {"pieces": pieces, "q": q, "r": r, "s": s, "e": e}
            out.append(at | {"name": "delta", "value": mp.nstr(value, 20)})
    with mp.workdps(15):
        for sides, distances, scales, e in (
            ([UNIT, UNIT], [1.0, 1.0], [0.5, 0.8], 1.0),
            ([UNIT, UNIT], [1.0, 1.0], [0.5, 0.8], 5.0),
            ([UNIT, [(0.0, 3.0)]], [1.0, 3.0], [2.0, 1.5], 0.1),
            ([GAPPED, UNIT], [1.0, 1.0], [0.4, 1.0], 2.0),
            ([GAPPED, GAPPED], [1.0, 1.0], [0.3, 0.6], 6.0),
        ):
            value = worst_joint(sides, distances, scales, e, 2)
            at = {"sides": sides, "c": distances, "s": scales, "e": e}
            out.append(at | {"name": "joint", "value": mp.nstr(value, 12)})
        for sides, distances, scales, e in (
            ([UNIT, UNIT], [0.2, 0.2], [0.5, 0.3], 1.0),
            ([UNIT, UNIT], [0.1, 0.3], [0.3, 0.4], 1.0),
            ([UNIT, UNIT], [0.5, 0.1], [0.5, 0.5], 0.2),
            ([GAPPED, UNIT], [0.3, 0.2], [0.4, 0.5], 0.5),
        ):
            value = worst_joint(sides, distances, scales, e, 7)
            at = {"sides": sides, "c": distances, "s": scales, "e": e}
            out.append(at | {"name": "worst", "value": mp.nstr(value, 12)})
    with mp.workdps(8):
        for distances, scales, e in (
            ([1.0] * 3, [0.8, 1.0, 1.5], 1.0),
            ([1.0] * 3, [2.0] * 3, 0.1),
        ):
            value = worst_joint([UNIT] * 3, distances, scales, e, 2)
            at = {"sides": [UNIT] * 3, "c": distances, "s": scales, "e": e}
            out.append(at | {"name": "joint", "value": mp.nstr(value, 6)})
    return out


def main() -> None:
    rows = ",\n".join(json.dumps(row) for row in values())
    TABLE.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
