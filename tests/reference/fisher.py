"""Fisher information and Rényi divergence by their definitions, in 50 digits.

Densities and point masses are written out with `mpmath.ncdf`, the score is a numerical derivative of
log p, and every expectation is a quadrature. Nothing is shared with `dprelease.diagnostics`.

`python -m tests.reference.fisher` prints the frozen table `fisher_table.csv` (about 2 minutes).
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import mpmath as mp

Pieces = tuple[tuple[float, float], ...]
TABLE = Path(__file__).with_name("fisher_table.csv")
DIGITS = 50


def parts(
    kind: str, pieces: Pieces, s: mp.mpf
) -> tuple[Pieces, Callable[[mp.mpf, mp.mpf], mp.mpf], list[Callable[[mp.mpf], mp.mpf]]]:
    """Return the kept intervals, the density p(x, t) on them, and the point masses' masses P(t)."""

    def normal(x: mp.mpf, t: mp.mpf) -> mp.mpf:
        return mp.npdf(x, t, s)

    def mass(a: mp.mpf, b: mp.mpf) -> Callable[[mp.mpf], mp.mpf]:
        def upper(x: mp.mpf) -> mp.mpf:
            return mp.erfc(x / mp.sqrt(2)) / 2

        def share(t: mp.mpf) -> mp.mpf:
            low, high = (a - t) / s, (b - t) / s
            return upper(low) - upper(high) if low > 0 else upper(-high) - upper(-low)

        return share

    if kind == "sign":
        return (), normal, [mass(mp.ninf, mp.mpf(0)), mass(mp.mpf(0), mp.inf)]
    exact = tuple((mp.mpf(a), mp.mpf(b)) for a, b in pieces)
    if kind == "truncated":
        shares = [mass(a, b) for a, b in exact]
        return exact, lambda x, t: normal(x, t) / sum(f(t) for f in shares), []
    walls = [mp.ninf]
    walls += [(exact[i][1] + exact[i + 1][0]) / 2 for i in range(len(exact) - 1)]
    walls += [mp.inf]
    point_masses = []
    for i, (a, b) in enumerate(exact):
        point_masses += [mass(walls[i], a), mass(b, walls[i + 1])]
    return exact, normal, point_masses


def _nodes(a: mp.mpf, b: mp.mpf, centres: list[mp.mpf], s: mp.mpf) -> list[mp.mpf]:
    inside = {a, b}
    for c in centres:
        nearest = min(max(c, a), b)
        for k in (0, 1, 3, 7, 14):
            for sign in (-1, 1):
                x = nearest + sign * k * s
                if a < x < b:
                    inside.add(x)
    return sorted(inside)


def eta(kind: str, pieces: Pieces, scale: float, location: float) -> mp.mpf:
    """Return the Fisher information loss."""
    with mp.workdps(DIGITS):
        s, t = mp.mpf(scale), mp.mpf(location)
        kept, density, point_masses = parts(kind, pieces, s)

        def term(f: Callable[[mp.mpf], mp.mpf]) -> mp.mpf:
            slope = mp.diff(lambda r: mp.log(f(r)), t, h=mp.mpf(10) ** -18 * s)
            return f(t) * slope**2

        total = sum(term(f) for f in point_masses)
        with mp.workdps(25):
            for a, b in kept:

                def at(x: mp.mpf) -> mp.mpf:
                    with mp.workdps(DIGITS):
                        return term(lambda r: density(x, r))

                total += mp.quad(at, _nodes(a, b, [t], s), maxdegree=5)
        return mp.sqrt(total)


def divergence(
    kind: str, pieces: Pieces, scale: float, location: float, other: float, alpha: float
) -> mp.mpf:
    """Return D_alpha(law at `location` || law at `other`)."""
    with mp.workdps(DIGITS):
        s, t, u, order = (mp.mpf(x) for x in (scale, location, other, alpha))
        kept, density, point_masses = parts(kind, pieces, s)
        total = sum(f(t) ** order * f(u) ** (1 - order) for f in point_masses)
        centres = [t, u, order * t + (1 - order) * u]
        for a, b in kept:
            total += mp.quad(
                lambda x: density(x, t) ** order * density(x, u) ** (1 - order),
                _nodes(a, b, centres, s),
            )
        return mp.log(total) / (order - 1)


ONE: Pieces = ((-1.0, 1.0),)
SHIFTED: Pieces = ((0.0, 10.0),)
GAP: Pieces = ((0.0, 4.0), (6.0, 12.0))
ISLANDS: Pieces = ((0.0, 1e-3), (1.0, 1.001))


def cases() -> Iterator[tuple[str, str, Pieces, float, float, float | None, float | None]]:
    """Yield quantity, kind, pieces, scale, location, other, alpha."""
    for kind in ("rectified", "truncated", "sign"):
        for scale, location in ((0.5, 0.0), (1.0, 2.0), (1.0, 0.3), (0.25, -3.0)):
            yield "eta", kind, ONE, scale, location, None, None
    for kind in ("rectified", "truncated"):
        for scale, location in ((3.0, 0.0), (50.0, 4.0), (2.0, 25.0)):
            yield "eta", kind, SHIFTED, scale, location, None, None
        for scale, location in ((1.0, 5.0), (0.5, 4.5), (2.0, 6.0)):
            yield "eta", kind, GAP, scale, location, None, None
    yield "eta", "truncated", ISLANDS, 0.25, 0.5, None, None
    for kind in ("rectified", "truncated", "sign"):
        for scale, location, other, alpha in (
            (1.0, 0.3, 1.3, 2.0),
            (1.0, 1.3, 0.3, 2.0),
            (0.5, 0.0, -1.0, 2.0),
            (1.0, 2.0, 3.0, 1.5),
            (0.5, -2.5, -1.5, 8.0),
            (1.0, 0.4, 0.401, 4.0),
            (300.0, 250.0, 250.05, 16.0),
        ):
            yield "renyi", kind, ONE, scale, location, other, alpha
    for kind in ("rectified", "truncated"):
        for scale, location, other, alpha in (
            (2.0, 3.0, 3.5, 2.0),
            (2.0, 9.0, 8.0, 30.0),
            (1.0, 4.9, 5.1, 2.0),
            (1.5, 5.0, 5.0001, 3.0),
        ):
            yield "renyi", kind, GAP, scale, location, other, alpha
    yield "renyi", "truncated", ISLANDS, 0.25, 0.45, 0.55, 2.0


def rows() -> Iterator[list[str]]:
    """Yield the table's rows, values with 20 digits."""
    for quantity, kind, pieces, scale, location, other, alpha in cases():
        if other is None or alpha is None:
            value = eta(kind, pieces, scale, location)
        else:
            value = divergence(kind, pieces, scale, location, other, alpha)
        ends = " ".join(repr(x) for piece in pieces for x in piece)
        yield [
            quantity,
            kind,
            ends,
            repr(scale),
            repr(location),
            "" if other is None else repr(other),
            "" if alpha is None else repr(alpha),
            mp.nstr(value, 20),
        ]


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["quantity", "kind", "ends", "scale", "location", "other", "alpha", "value"])
    writer.writerows(rows())
