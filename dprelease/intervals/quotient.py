"""The interval of a quotient of two linear forms by Fieller's pivot, for many rows of one law at once.

At the true s = T / B the form T - s B is 0, so its noisy value is noise alone, X_s, whatever the cells are. Every s at
which that value is not too far out belongs to the interval: it covers at the level, for tiny denominators too. For
any s and m

    |X_s| <= |X_m| + |s - m| |X_B|,

the first part at level + e, the second at 1 - e (union bound), so the quantile at one `m` bounds the form at every s,
and each s may take the least of these bounds. The `m` are rational, of one grid: weights of X_m then mostly lie on a
lattice. From the low end of the range the interval's end is climbed to: what the bound at the grid's point below a
place rules out next is left out, again and again (mirrored for the high end). Beyond [-1, 1] the form is B + v T with
v = -1 / s, so that a quotient may be infinite, where the noise may outweigh the denominator.

Units: s in units of the larger form (`_Pivot`). Shapes: rows. Sources: Fieller 1954; `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dprelease.intervals.few import quantiles, sum_quantile
from dprelease.intervals.law import quantile
from dprelease.intervals.noise import IntegerNoise, Laplace, Term, noise_of_scale

Floats = npt.NDArray[np.float64]
Ends = tuple[float, float]
Part = tuple[IntegerNoise, int, Fraction, Fraction]
"""A noise, how many draws of it, and their weight in the top and in the bottom: both `short`."""

_GRID = 512
"""The m are whole multiples of 1 / _GRID, of forms in closed form; of others each law takes its time, and every fourth is one."""
_REST_RISK = 0.01
"""e, as a part of the risk."""
_USUAL = 0.5
"""Noise is about as wide as this part of its draws."""
WIDE = 10
"""Laplace noise of so many steps is told by a closed form, a step wider per draw."""
_CLOSED = 3
"""Most draws of a closed form: it cancels where more weights are alike."""
FAR = 2**10
"""Of more draws, each so wide, the quantile is that of continuous noise, a step wider per draw: the same for all scales, so found once."""
_ROUNDS = 24
_POINTS = 2**13
ROOM = 1e-9


def short(weight: Fraction) -> Fraction:
    """Return the weight with 12 digits where it is long: forms that differ by rounding are one (`ROOM`)."""
    return weight if weight.denominator <= 2**32 else Fraction(f"{float(weight):.12g}")


class _Pivot:
    """The noise of a quotient's forms at one level, in one range: its units, and critical values, made once each.

    In these units s = (quotient - centre) / unit, of the forms T - centre B and unit B. A range becomes [-1, 1] if T
    errs about as much as B times its width; else the forms err alike.
    """

    def __init__(self, parts: tuple[Part, ...], level: float, within: Ends) -> None:
        centre = unit = Fraction(0)
        if np.isfinite(within).all() and within[0] < within[1]:
            low, high = map(Fraction, within)
            centre, unit = (low + high) / 2, (high - low) / 2
        squares, scales, draws = np.zeros(3), [], 0
        for noise, n, t, b in parts:
            size = noise.quantile(_USUAL) + 1
            squares += n * (size * np.array([t - centre * b, t, b], dtype=np.float64)) ** 2
            if isinstance(noise, Laplace) and noise.scale >= WIDE:
                scales += [noise.scale] * n
            draws += n
        spread, top, bottom = np.sqrt(squares).tolist()
        if not unit or (bottom and not 0.25 * unit <= spread / bottom <= 4 * unit):
            ratio = top / bottom if top and bottom else 1.0
            centre, unit = Fraction(0), Fraction(2) ** round(math.log2(ratio))
        least = 1
        for _, _, t, b in parts:
            least = math.lcm(least, (t - centre * b).denominator, (unit * b).denominator)
        self._least, self._parts = least, list[tuple[IntegerNoise, int, int, int]]()
        for noise, n, t, b in parts:
            self._parts.append((noise, n, int((t - centre * b) * least), int(unit * b * least)))
        self.centre, self.unit, self._level = float(centre), float(unit), level
        wide = len(scales) == draws
        self._scales = np.array(scales) if wide and draws <= _CLOSED else None
        self._far = scales[0] if wide and FAR <= scales[0] == max(scales) == min(scales) else None
        self._grid = _GRID // 4 if self._scales is None else _GRID
        self._turns = self._quantiles(np.array([0.0, 1.0]), np.array([1.0, 0.0]), 1 - _REST_RISK)
        self.known = np.full((2, 2 * self._grid + 1), np.nan)

    def _quantiles(self, x: Floats, y: Floats, part: float) -> Floats:
        """Return the quantiles of x T + y B in these units, x and y short, beyond which is this part of the risk."""
        level = 1 - part * (1 - self._level)
        out = np.zeros(x.size)
        if self._scales is not None:
            each = []
            for _, n, t, b in self._parts:
                each += [(t / self._least, b / self._least)] * n
            tops, bottoms = np.array(each, dtype=np.float64).T
            weights = np.abs(np.outer(x, tops) + np.outer(y, bottoms))
            some = weights.any(axis=1)
            scaled = weights[some] * self._scales
            out[some] = quantiles(scaled, level) + weights[some].sum(axis=1)
            return out * (1 + ROOM)
        over = self._least * self._grid
        for k in range(x.size):
            one, other = int(x[k] * self._grid), int(y[k] * self._grid)
            sizes = [(noise, n, abs(one * t + other * b)) for noise, n, t, b in self._parts]
            if self._far is None:
                counted: Counter[tuple[IntegerNoise, int]] = Counter()
                for noise, n, size in sizes:
                    counted[noise, size] += n
                terms = (
                    Term(noise, n, Fraction(size, over))
                    for (noise, size), n in counted.items()
                    if size
                )
                out[k] = quantile(tuple(terms), level, points=_POINTS)
            else:
                weights = sorted(s / over for _, n, s in sizes for _ in range(n))
                out[k] = self._far * sum_quantile(tuple(weights), level) + sum(weights)
        return out * (1 + ROOM)

    def lowest(self, sign: int, top: Floats, bottom: Floats, within: Ends, slack: float) -> Floats:
        """Return the least s that is not ruled out; `sign` -1: of the mirrored form, where `top` has the other sign."""
        low, high = within
        out, rows = np.full(top.shape, high), np.arange(top.size)
        for beyond, a, z, t, b in (
            (True, low, min(high, -1.0), bottom, -top),
            (False, max(low, -1.0), min(high, 1.0), top, bottom),
            (True, max(low, 1.0), high, -bottom, top),
        ):
            if rows.size and (a < z or (a == z and not beyond)):
                span = (-1 / a, -1 / z) if beyond else (a, z)
                at = self._climbed(beyond, sign, t[rows], b[rows], span, slack)
                found = (at < span[1]) | (z == high)
                with np.errstate(divide="ignore"):
                    out[rows[found]] = (-1 / at if beyond else at)[found]
                rows = rows[~found]
        return out

    def _climbed(
        self, beyond: bool, sign: int, t: Floats, b: Floats, span: Ends, slack: float
    ) -> Floats:
        """Return the least x in `span` that no bound rules out: t - x b <= q(m) + (x - m) r for the m below it."""
        turn, known, grid = self._turns[int(beyond)], self.known[int(beyond)], self._grid
        at, before = np.full(t.shape, span[0] + 0.0), np.full(t.shape, -2 * grid)
        below, room = b + turn, ROOM * (np.abs(t) + np.abs(b))
        for _ in range(_ROUNDS):
            place = np.floor(at * grid).astype(np.int64)
            place = np.minimum(np.maximum(place, -grid), grid)
            if (place == before).all():
                break
            wanted = sign * place + grid
            q = known[wanted]
            new = wanted[np.isnan(q)]
            if new.size:  # of a closed form all at once: they take about as long as a few
                new = np.unique(new) if self._scales is None else np.arange(known.size)
                m, one = new / grid - 1, np.ones(new.size)
                x, y = (m, one) if beyond else (one, -m)
                known[new] = self._quantiles(x, y, 1 - _REST_RISK)
                q = known[wanted]
            rest = t - (q + slack) + place / grid * turn - room
            bound = np.where(rest > 0, np.inf, -np.inf)
            np.divide(rest, below, out=bound, where=below > 0)
            at, before = np.minimum(np.maximum(at, bound), span[1]), place
        return at


_pivot = lru_cache(maxsize=4096)(_Pivot)


def ends(
    parts: tuple[Part, ...],
    level: float,
    top: Floats,
    bottom: Floats,
    rounding: Ends,
    within: Ends,
) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of `top / bottom` at `level`, inside `within`; infinite where nothing bounds it.

    Args:
        parts: the noise of both forms.
        rounding: how far the two forms may have been moved by rounding.
    """
    pivot = _pivot(parts, level, within)
    centre, unit = pivot.centre, pivot.unit
    top, bottom = top - centre * bottom, bottom * unit
    empty, top, bottom = bottom <= 0, np.where(bottom < 0, -top, top), np.abs(bottom)
    low, high = (within[0] - centre) / unit, (within[1] - centre) / unit
    # An estimate beyond what is possible is moved to the nearest that is: nearer to every s B.
    if math.isfinite(low):
        top = np.maximum(top, low * bottom)
    if math.isfinite(high):
        top = np.minimum(top, high * bottom)
    slack = rounding[0] + rounding[1] * (abs(centre) + unit)
    least = centre + unit * pivot.lowest(1, top, bottom, (low, high), slack)
    most = centre - unit * pivot.lowest(-1, -top, bottom, (-high, -low), slack)
    # Of what lies in a range, such as a mean, the bottom is no less than 0: where it seems so, nothing is said.
    nothing = empty & math.isfinite(low) & math.isfinite(high)
    least, most = np.where(nothing, within[0], least), np.where(nothing, within[1], most)
    return np.maximum(least, within[0]), np.minimum(most, within[1])


def ratio_interval(
    raw: Floats,
    scores: tuple[float, ...],
    scale: float,
    level: float,
    *,
    parts: tuple[float, ...] = (),
    copies: int = 1,
    gaussian: bool = False,
    span: Ends = (0.0, 1.0),
) -> tuple[Floats, Floats]:
    """Return the ends of the intervals of S(u_i a_i) / S(v_i a_i) over cells with noise of one scale.

    Args:
        raw: noisy cells as drawn, not raised to 0, `(rows, cells)`.
        scores: u_i; parts: v_i, by default 1 each.
        scale: the noise's scale, in steps.
        copies: independent noises in every cell.
        gaussian: the noise is rounded normal of this scale.
        span: where the quotient lies.
    """
    drawn, parts = [], parts or (1.0,) * len(scores)
    for u, v in zip(scores, parts, strict=True):
        if u or v:
            noise = noise_of_scale(scale, gaussian=gaussian)
            drawn.append((noise, copies, Fraction(u), Fraction(v)))
    top, bottom = raw @ np.asarray(scores), raw @ np.asarray(parts)
    return ends(tuple(drawn), level, top, bottom, (0.0, 0.0), span)


def middle(top: Floats, bottom: Floats, within: Ends) -> Floats:
    """Return the value that the noise leaves in the middle, NaN where no signal is left.

    Z(s) = T - s B is symmetric around 0 at the true s, so an estimate below s exactly where Z(s) < 0 is
    median-unbiased. Where Z falls from Z(low) >= 0 to Z(high) <= 0 that is its root; where Z has one sign on all of
    [low, high] it is the end, `high` for a positive Z, whatever B. Only where Z rises from Z(low) <= 0 to
    Z(high) >= 0 there is none: every negative noise outweighs the rows. P(too low) and P(too high), of what is
    left, differ from 1/2 by no more than that chance.
    """
    low, high = within
    first, last = top - low * bottom, top - high * bottom
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        root = np.where(bottom > 0, top / bottom, np.nan)
    root = np.where((first > 0) & (last > 0), high, root)
    root = np.where((first < 0) & (last < 0), low, root)
    return np.asarray(np.clip(root, low, high))
