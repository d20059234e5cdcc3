"""Bounded Laplace by its definition, in 40 digits: integrals by quadrature, maxima by brute force.

Nothing here shares a formula with `dprelease.mechanisms`: the normaliser is a numerical integral
of exp(-|x - q| / b), and the loss is the largest |log p_q - log p_q'| over a list of pairs. The
functions named `exact_...` use the antiderivative, at a precision where subtracting is fine: they
are quick enough for thousands of pairs.

Run as a script, this file rewrites `laplace_values.json`, the frozen table of the tests.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

Pieces = Sequence[tuple[float, float]]
TABLE = Path(__file__).with_name("laplace_values.json")


def normaliser(pieces: Pieces, q: float, b: float) -> mp.mpf:
    """Return the integral of exp(-|x - q| / b) over the pieces."""
    return _normaliser(tuple(pieces), q, b)


@lru_cache(maxsize=4096)
def _normaliser(pieces: tuple[tuple[float, float], ...], q: float, b: float) -> mp.mpf:
    with mp.workdps(40):
        total, at, scale = mp.mpf(0), mp.mpf(q), mp.mpf(b)
        for a, c in pieces:
            nodes = sorted({mp.mpf(a), mp.mpf(c), min(max(at, mp.mpf(a)), mp.mpf(c))})
            total += sum(
                mp.quad(lambda x: mp.exp(-abs(x - at) / scale), [u, v]) for u, v in pairwise(nodes)
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


def interval_scale(width: float, distance: float, epsilon: float) -> mp.mpf:
    """Return the scale at which the loss of the pair (0, distance) on [0, width] is epsilon."""
    with mp.workdps(40):
        w, d, e = mp.mpf(width), min(mp.mpf(distance), mp.mpf(width)), mp.mpf(epsilon)

        def mass(q: mp.mpf, b: mp.mpf) -> mp.mpf:
            return 2 - mp.exp(-q / b) - mp.exp(-(w - q) / b)

        low, high = d / e, 2 * d / e
        for _ in range(130):
            b = (low + high) / 2
            loss = d / b + mp.log(mass(d, b) / mass(mp.mpf(0), b))
            low, high = (b, high) if loss > e else (low, b)
        return high


def hockey_stick(pieces: Pieces, q: float, other: float, b: float, epsilon: float) -> float:
    """Return the integral of (p_q - e^epsilon p_other)+ on a fine grid of sub-intervals, in floats."""
    first, second = (float(normaliser(pieces, v, b)) for v in (q, other))
    total, count = 0.0, 4000
    for a, c in pieces:
        step = (c - a) / count
        x = a + (np.arange(count) + 0.5) * step
        p, r = np.exp(-np.abs(x - q) / b) / first, np.exp(-np.abs(x - other) / b) / second
        total += float(np.maximum(p - math.exp(epsilon) * r, 0.0).sum()) * step
    return total


def exact_mass(pieces: Pieces, q: mp.mpf, b: mp.mpf) -> mp.mpf:
    """Return the integral of exp(-|x - q| / b) / b over the pieces, which may be infinite."""
    total = mp.mpf(0)
    for a, c in pieces:
        low, high = mp.mpf(a), mp.mpf(c)
        if low < q:
            far = mp.mpf(0) if low == -mp.inf else mp.exp((low - q) / b)
            total += mp.exp((min(high, q) - q) / b) - far
        if high > q:
            far = mp.mpf(0) if high == mp.inf else mp.exp((q - high) / b)
            total += mp.exp((q - max(low, q)) / b) - far
    return total


def exact_pair_loss(pieces: Pieces, q: mp.mpf, z: mp.mpf, b: float) -> mp.mpf:
    """Return the loss of the answers q and q + z."""
    at, scale = mp.mpf(q), mp.mpf(b)
    change = mp.log(exact_mass(pieces, at + z, scale) / exact_mass(pieces, at, scale))
    return z / scale + abs(change)


def hull_pairs(pieces: Pieces, distance: float, between: int = 2) -> list[tuple[mp.mpf, mp.mpf]]:
    """Return (q, z) at every kink of q -> C(q + z) / C(q) and `between` points in between."""
    low, high = mp.mpf(pieces[0][0]), mp.mpf(pieces[-1][1])
    z = min(mp.mpf(distance), high - low)
    ends = [mp.mpf(e) for piece in pieces for e in piece if abs(e) != mp.inf]
    marks = sorted(q for e in ends for q in (e, e - z) if low <= q and q + z <= high)
    n = between + 1
    inner = [(u * (n - k) + v * k) / n for u, v in pairwise(marks) for k in range(1, n)]
    return [(q, z) for q in marks + inner]


def hull_loss(pieces: Pieces, distance: float, b: float) -> mp.mpf:
    """Return the largest loss over hull answers: `hull_pairs`, then golden section at the top."""
    pairs = sorted(hull_pairs(pieces, distance, 8))
    losses = [exact_pair_loss(pieces, q, z, b) for q, z in pairs]
    top = max(range(len(pairs)), key=losses.__getitem__)
    low, high = pairs[max(top - 1, 0)][0], pairs[min(top + 1, len(pairs) - 1)][0]
    best, z, ratio = losses[top], pairs[top][1], (mp.sqrt(5) - 1) / 2
    for _ in range(30):
        x, y = high - ratio * (high - low), low + ratio * (high - low)
        at_x, at_y = (exact_pair_loss(pieces, q, z, b) for q in (x, y))
        best = max(best, at_x, at_y)
        low, high = (low, y) if at_x > at_y else (x, high)
    return best


def unit_hockey_stick(q: float, r: float, b: float, epsilon: float) -> mp.mpf:
    """Return the larger divergence of two answers q < r on [0, 1], both directions.

    log p_q - log p_r falls, so p_q exceeds e^epsilon p_r to the left of one point, here a point
    between q and r; the other direction is the mirror image.
    """
    best, scale = mp.mpf(0), mp.mpf(b)
    for low, high in ((mp.mpf(q), mp.mpf(r)), (1 - mp.mpf(r), 1 - mp.mpf(q))):
        first, second = (exact_mass([(0, 1)], v, scale) for v in (low, high))
        cut = (low + high - scale * (mp.mpf(epsilon) + mp.log(first / second))) / 2
        if low < cut < high:
            p, s = (exact_mass([(mp.mpf(0), cut)], v, scale) for v in (low, high))
            best = max(best, p / first - mp.exp(epsilon) * s / second)
    return best


def pair_hockey_stick(pieces: Pieces, q: float, r: float, b: float, epsilon: float) -> mp.mpf:
    """Return the larger divergence of two answers q < r on a union, both directions."""
    best, scale = mp.mpf(0), mp.mpf(b)
    flipped = [(-mp.mpf(c), -mp.mpf(a)) for a, c in reversed(pieces)]
    ways = (([(mp.mpf(a), mp.mpf(c)) for a, c in pieces], mp.mpf(q), mp.mpf(r)),
            (flipped, -mp.mpf(r), -mp.mpf(q)))  # fmt: skip
    for parts, low, high in ways:
        first, second = (exact_mass(parts, v, scale) for v in (low, high))
        cut = (low + high - scale * (mp.mpf(epsilon) + mp.log(first / second))) / 2
        if low < cut < high:
            left = [(a, min(c, cut)) for a, c in parts if a < cut]
            p, s = (exact_mass(left, v, scale) for v in (low, high))
            best = max(best, p / first - mp.exp(epsilon) * s / second)
    return best


def domain_pairs(pieces: Pieces, distance: float) -> list[tuple[mp.mpf, mp.mpf]]:
    """Return (q, z) of all answers inside the domain that are ends or `distance` from one."""
    z = mp.mpf(distance)
    ends = [mp.mpf(e) for piece in pieces for e in piece if abs(e) != mp.inf]
    points = sorted({x for e in ends for x in (e - z, e, e + z)})
    points = [x for x in points if any(a <= x <= c for a, c in pieces)]
    return [(q, r - q) for q in points for r in points if 0 < r - q <= z]


def laplace_tail(t: mp.mpf, b: mp.mpf) -> mp.mpf:
    """Return P(Lap(b) > t)."""
    return mp.exp(-t / b) / 2 if t >= 0 else 1 - mp.exp(t / b) / 2


def staircase_tail(t: mp.mpf, distance: mp.mpf, epsilon: mp.mpf, gamma: mp.mpf) -> mp.mpf:
    """Return P(noise > t): the steps summed one by one until they vanish."""
    if t < 0:
        return 1 - staircase_tail(-t, distance, epsilon, gamma)
    above = whole = mp.mpf(0)
    level, start = 0, mp.mpf(0)
    while mp.exp(-epsilon * level) > mp.mpf(10) ** -45:
        end, height = (gamma + level) * distance, mp.exp(-epsilon * level)
        whole += height * (end - start)
        above += height * max(end - max(start, t), 0)
        level, start = level + 1, end
    return above / whole / 2


def nearest_law(
    pieces: Pieces, q: float, x: float, tail: Callable[[mp.mpf], mp.mpf], kinks: list[mp.mpf]
) -> dict[str, mp.mpf]:
    """Return cdf at x, mean, variance and mass of the allowed point nearest to q + noise.

    `kinks` are the distances at which the noise's density jumps.
    """
    q, low, high = mp.mpf(q), mp.mpf(pieces[0][0]), mp.mpf(pieces[-1][1])
    gaps = [(mp.mpf(c), mp.mpf(a)) for (_, c), (a, _) in pairwise(pieces)]

    def beyond(y: mp.mpf) -> mp.mpf:
        """P(Y > y) for y inside the hull."""
        for left, right in gaps:
            if left <= y < right:
                y = (left + right) / 2
        return tail(y - q)

    nodes = {low, high, q, *(e for g in gaps for e in g)} | {
        q + s * k for k in kinks for s in (1, -1)
    }
    marks = sorted(y for y in nodes if low <= y <= high)
    first = low + sum(mp.quad(beyond, [u, v]) for u, v in pairwise(marks))
    second = low**2 + sum(mp.quad(lambda y: 2 * y * beyond(y), [u, v]) for u, v in pairwise(marks))
    return {
        "cdf": mp.mpf(1) - beyond(mp.mpf(x)) if x < high else mp.mpf(1),
        "mean": first,
        "variance": second - first**2,
        "mass": sum(tail(mp.mpf(a) - q) - tail(mp.mpf(c) - q) for a, c in pieces),
    }


def geometric_law(
    runs: Sequence[tuple[int, int]], q: int, x: int, rate: mp.mpf
) -> dict[str, mp.mpf]:
    """Return pmf and cdf at x, mean and variance of the nearest point to q + discrete Laplace.

    Ties go to the lower edge of a gap.
    """
    points = [k for a, c in runs for k in range(a, c + 1)]
    chance = {k: mp.mpf(0) for k in points}
    size, norm = 0, mp.tanh(rate / 2)  # the sum of e^(-rate |d|) is coth(rate / 2)
    while mp.exp(-rate * size) > mp.mpf(10) ** -40:
        for d in {size, -size}:
            y = min(points, key=lambda k: (abs(k - q - d), k))
            chance[y] += mp.exp(-rate * size) * norm
        size += 1
    mean = sum(k * p for k, p in chance.items())
    return {
        "pmf": chance.get(x, mp.mpf(0)),
        "cdf": sum(p for k, p in chance.items() if k <= x),
        "mean": mean,
        "variance": sum((k - mean) ** 2 * p for k, p in chance.items()),
    }


UNIONS: list[Pieces] = [
    [(0.0, 1.0)],
    [(-3.0, 5.0)],
    [(0.0, 4.0), (6.0, 12.0)],
    [(0.0, 1e-6), (1.0, 1.001), (4.0, 4.01)],
    [(0.0, 1.0), (999.0, 1000.0)],
]


def bounded_values(pick: random.Random) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for i in range(15):
        pieces = UNIONS[i % len(UNIONS)]
        low, width = pieces[0][0], pieces[-1][1] - pieces[0][0]
        q, x = (low + width * round(pick.random(), 3) for _ in range(2))
        b, c = (width * float(f"{10 ** pick.uniform(*ends):.3g}") for ends in ((-2, 3), (-4, 0)))
        at = {"law": "BoundedLaplace", "pieces": pieces, "q": q, "b": b, "x": x, "c": c}
        inside = any(a <= x <= e for a, e in pieces)
        below = [(a, min(e, x)) for a, e in pieces if a < x]
        mean = moment(pieces, q, b, 1)
        found = {
            "mass": normaliser(pieces, q, b) / (2 * mp.mpf(b)),
            "pdf": mp.exp(-abs(mp.mpf(x) - q) / b) / normaliser(pieces, q, b) if inside else 0,
            "cdf": normaliser(below, q, b) / normaliser(pieces, q, b) if below else mp.mpf(0),
            "mean": mean,
            "variance": moment(pieces, q, b, 2) - mean**2,
            "loss": hull_loss(pieces, c, b),
        }
        out += [at | {"name": k, "value": mp.nstr(v, 20)} for k, v in found.items()]
    for w, c, e in ((1.0, 0.1, 1.0), (1e-3, 1e-3, 1e-9), (1e6, 1e-3, 50.0), (7.0, 3.0, 0.02)):
        value = interval_scale(w, c, e)
        at = {"law": "BoundedLaplace", "w": w, "c": c, "e": e}
        out.append(at | {"name": "scale", "value": mp.nstr(value, 20)})
    for q, r, b, e in ((0.0, 0.3, 0.4, 0.3), (0.5, 0.8, 0.2, 0.9), (0.35, 0.65, 2.0, 0.05)):
        value = unit_hockey_stick(q, r, b, e)
        at = {"law": "BoundedLaplace", "q": q, "r": r, "b": b, "e": e}
        out.append(at | {"name": "delta", "value": mp.nstr(value, 20)})
    return out + union_deltas()


def union_deltas() -> list[dict[str, Any]]:
    """Return divergences of pairs on unions: answers in pieces and in gaps, large and tiny."""
    out = []
    gapped, islands = [(0.0, 1.0), (1.5, 2.5)], [(0.0, 0.001), (3.0, 3.5), (10.0, 10.25)]
    half = [(0.0, 2.0), (3.0, float("inf"))]
    for pieces, q, r, b, e in (
        (gapped, 0.5, 0.7, 0.3, 0.3),
        (gapped, 0.9, 1.1, 0.3, 0.3),
        (gapped, 1.1, 1.4, 0.3, 0.9),
        (gapped, 0.0, 2.5, 1.0, 1.0),
        (gapped, 0.4, 0.7, 0.01, 29.0),
        (gapped, 0.4, 0.7, 0.3, 0.99999),
        (islands, 0.0, 3.0, 2.0, 0.4),
        (islands, 1.0, 2.0, 0.5, 1.5),
        (islands, 6.0, 7.5, 4.0, 0.1),
        (islands, 9.0, 10.25, 0.2, 3.0),
        (half, 1.0, 2.5, 1.0, 0.7),
        (half, 4.0, 5.0, 2.0, 0.25),
    ):
        value = pair_hockey_stick(pieces, q, r, b, e)
        at = {"law": "BoundedLaplace", "pieces": pieces, "q": q, "r": r, "b": b, "e": e}
        out.append(at | {"name": "delta", "value": mp.nstr(value, 20)})
    return out


def values() -> list[dict[str, Any]]:
    """Return the frozen table: what is computed, from what, and the value in 20 digits."""
    pick = random.Random("laplace")
    with mp.workdps(40):
        out = bounded_values(pick)
        for i in range(6):
            pieces = UNIONS[i % 3]
            low, width = pieces[0][0], pieces[-1][1] - pieces[0][0]
            q, x = (low + width * round(pick.random(), 3) for _ in range(2))
            e = float(f"{10 ** pick.uniform(-1, 0.7):.3g}")
            c = width * float(f"{10 ** pick.uniform(-1.5, 0):.3g}")
            gamma, at = 0.3, {"pieces": pieces, "q": q, "x": x, "c": c, "e": e}
            b = mp.mpf(c) / mp.mpf(e)
            kinks = [(mp.mpf(gamma) + k) * c for k in range(int(width / c) + 2)]
            laws = {
                "RectifiedLaplace": nearest_law(pieces, q, x, partial(laplace_tail, b=b), []),
                "Staircase": nearest_law(
                    pieces,
                    q,
                    x,
                    partial(
                        staircase_tail, distance=mp.mpf(c), epsilon=mp.mpf(e), gamma=mp.mpf(gamma)
                    ),
                    kinks,
                ),
            }
            for law, found in laws.items():
                row = at | {"law": law} | ({"gamma": gamma} if law == "Staircase" else {})
                out += [row | {"name": k, "value": mp.nstr(v, 20)} for k, v in found.items()]
        for runs in ([(0, 9)], [(-3, 2), (6, 6), (9, 14)]):
            for rate in (0.125, 1.5):
                q, x = pick.randint(runs[0][0], runs[-1][1]), runs[-1][1] - 1
                found = geometric_law(runs, q, x, mp.mpf(rate))
                at = {"law": "DiscreteLaplace", "runs": runs, "q": q, "x": x, "rate": rate}
                out += [at | {"name": k, "value": mp.nstr(v, 20)} for k, v in found.items()]
    return out


def main() -> None:
    rows = ",\n".join(json.dumps(row) for row in values())
    TABLE.write_text(f"[\n{rows}\n]\n")


if __name__ == "__main__":
    main()
