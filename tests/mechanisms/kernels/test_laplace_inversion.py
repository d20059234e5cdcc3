"""Inversion: F^-1 of the digits drawn, compared with the law's masses in 120 digits; any acceptance."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dprelease.core.entropy import ReplayBits
from dprelease.core.errors import InternalError
from dprelease.mechanisms.kernels.laplace_inversion import inverse_draw, powers
from dprelease.schema.domain import GridSet
from tests.mechanisms.plans import StuckBits

RUNS = [
    ((0, 6),),
    ((0, 2), (7, 7), (11, 13)),
    ((-5, -5), (4, 9)),
    ((0, 0), (400, 400)),
]


class Digits:
    """A source whose bytes spell the binary digits of one number in [0, 1), the first word first."""

    system = False

    def __init__(self, value: Fraction) -> None:
        self.rest = value

    def read(self, count: int) -> bytes:
        head, rest = divmod(self.rest * 2 ** (8 * count), 1)
        self.rest = rest
        return int(head).to_bytes(count, "little")


def in_order(runs: tuple[tuple[int, int], ...], q: int) -> list[int]:
    """Return the points run by run, of each first those from q upwards, then those below q downwards."""
    out: list[int] = []
    for a, b in runs:
        points = range(a, b + 1)
        out += sorted(y for y in points if y >= q)
        out += sorted((y for y in points if y < q), reverse=True)
    return out


@pytest.mark.parametrize("runs", RUNS)
@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(10**12 + 1, 10**13)])
def test_every_edge_of_the_inverse_lies_where_the_masses_say(runs, rate):
    """2**-150 on either side of every edge, answers in gaps and at the ends included."""
    allowed = GridSet(runs)
    with mpmath.workdps(120):
        r, apart = mpmath.mpf(rate.numerator) / rate.denominator, mpmath.mpf(2) ** -150
        for q in (allowed.lower, allowed.lower + 5, allowed.upper - 1):
            points = in_order(runs, q)
            near = min(abs(y - q) for y in points)
            weights = [mpmath.exp(-r * (abs(y - q) - near)) for y in points]
            total, edge = mpmath.fsum(weights), mpmath.mpf(0)
            for i in range(len(points) - 1):
                edge += weights[i] / total
                if min(weights[i : i + 2]) / total > 2 * apart:
                    for u, y in ((edge - apart, points[i]), (edge + apart, points[i + 1])):
                        digits = Fraction(int(mpmath.floor(u * mpmath.mpf(2) ** 300)), 2**300)
                        assert inverse_draw(allowed, powers(rate), q, Digits(digits)) == y, (q, i)


def test_a_source_that_is_stuck_draws_the_first_point_or_stops():
    allowed = GridSet(((0, 5), (9, 12)))
    assert inverse_draw(allowed, powers(Fraction(1, 2)), 2, StuckBits(0)) == 2
    with pytest.raises(InternalError):
        inverse_draw(allowed, powers(Fraction(1, 2)), 2, StuckBits(0xFF))


def test_2_to_the_60_points_of_one_run_are_drawn_evenly_where_the_rate_is_nothing():
    draws = [
        inverse_draw(GridSet(((0, 2**60),)), powers(Fraction(1, 2**90)), 77, ReplayBits(f"{i}"))
        for i in range(60)
    ]
    assert stats.kstest(np.array(draws) / 2.0**60, "uniform").pvalue > 1e-6


@pytest.mark.statistical
def test_inversion_fits_the_law_and_a_wrong_rate_is_caught():
    allowed, q, bits = GridSet(((0, 4), (9, 12))), 6, ReplayBits("inversion")
    quarter = powers(Fraction(1, 4))
    draws = np.array([inverse_draw(allowed, quarter, q, bits) for _ in range(1500)])

    def p_value(rate: float) -> float:
        weight = np.exp(-rate * np.abs(allowed.points() - q))
        seen = [np.count_nonzero(draws == y) for y in allowed.points()]
        return float(stats.chisquare(seen, 1500 * weight / weight.sum()).pvalue)

    assert p_value(0.25) > 1e-6
    assert p_value(0.1) < 1e-6
    assert p_value(0.45) < 1e-6
