"""Layer A: what a law really draws, from its integers, and its largest likelihood ratio.

`law_rows` reads the numbers that the sampler uses (weight tables, rows, decay integers, rates) and
lays out P(y | q) for every answer of the hull, without asking the law for its certificate. Rational
laws give exact probabilities; laws with a power of e give rational bounds 2**-200 apart.

`worst_ratio` is the largest P(y | q) / P(y | q') over all pairs of answers at most `distance` apart and
all outputs. Float64 logarithms only choose: every pair within 1e-9 of their maximum is computed
again in exact rationals, far more than the logarithms can be wrong.

Laws of infinite support. A raw staircase draw repeats itself with its width, so a window of two
widths beyond the answers shows every ratio. Raw discrete Laplace noise has the rational loss
rate * distance, no table needed (`Worst.loss`). What is published is the raw draw, so it is audited
raw; the remap is a fixed function of it.

Units    grid steps; losses in nats. Shapes: `(answers, outputs)`.
Sources  `docs/theory/certificates.md#audits`.
Limits   beyond 2**27 comparisons a choice of answers and distances; of two answers, at most 128 of
         the outputs whose ratios tie to 1e-9. `Worst.complete` says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dprelease.audit.powers import exp_above, exp_below, powers, rounded
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.certifiers.closed_form_gaussian import BoundedGaussianWideLaw
from dprelease.mechanisms.certifiers.closed_form_laplace import BoundedLaplaceWideLaw
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.forms.reflected import ReflectedLaplaceLaw
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.forms.table import SymmetricTable
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.staircase import StaircaseNoise
from dprelease.mechanisms.law import GridLaw, choose_answers

FloatArray = npt.NDArray[np.float64]
_WORK = 2**27
_TIE = 1e-9
_TIES = 128
_FLOAT_ROOM = Fraction(1, 2**40)


@dataclass(frozen=True, slots=True)
class LawRows:
    """P(y | q) for some answers.

    Attributes:
        answers, outputs: in steps; shapes `(answers,)`, `(outputs,)`.
        logs: natural logarithms, to choose by; shape `(answers, outputs)`.
        exact: (row, column) -> rational bounds of the probability, up to a factor that the rows of a
            column share.
        sound: the normalisers that the sampler uses are the sums of its weights.
    """

    answers: IntArray
    outputs: IntArray
    logs: FloatArray
    exact: Callable[[int, int], tuple[Fraction, Fraction]]
    sound: bool = True


@dataclass(frozen=True, slots=True)
class Worst:
    """The largest likelihood ratio.

    Attributes:
        ratio: a rational upper bound of it, exact for rational laws; None where `loss` is.
        loss: its logarithm, where that is rational.
        pairs: pairs of answers compared; complete: all of them.
        sound: as in `LawRows`.
    """

    ratio: Fraction | None
    loss: Fraction | None
    pairs: int
    complete: bool = True
    sound: bool = True

    def within(self, epsilon: Fraction) -> bool:
        """Return whether the ratio is at most a rational lower bound of e^epsilon."""
        if self.loss is not None:
            return self.sound and self.loss <= epsilon
        assert self.ratio is not None
        return self.sound and self.ratio <= exp_below(epsilon)

    @property
    def nats(self) -> float:
        return float(self.loss) if self.loss is not None else log_of(cast("Fraction", self.ratio))


def log_of(value: Fraction) -> float:
    """Return the natural logarithm of a positive fraction, however long its numbers."""
    shift = value.numerator.bit_length() - value.denominator.bit_length()
    return math.log(value / Fraction(2) ** shift) + shift * math.log(2)


def capped_sensitivity(law: GridLaw) -> int:
    """Return how far apart two clamped neighbouring answers can be."""
    if getattr(law, "splits", False):
        return law.sensitivity
    return max(1, min(law.sensitivity, law.allowed.hull_steps))


def law_rows(law: GridLaw, answers: Sequence[int] | None = None) -> LawRows | Fraction:
    """Return the law's rows for `answers` (default: the whole hull).

    A fraction is the rate of raw discrete Laplace noise, which says all there is.
    """
    low, high = law.allowed.lower, law.allowed.upper
    q = np.arange(low, high + 1) if answers is None else np.clip(np.array(answers), low, high)
    q = q.astype(np.int64)
    table = getattr(law, "table", None)
    match law:
        case AdditiveLaw(noise=StaircaseNoise()):
            return _staircase(law, q)
        case AdditiveLaw(noise=DiscreteLaplaceNoise(rate=rate)):
            return rate
        case RowLaw():
            return _stored(law, q)
        case ReflectedLaplaceLaw():
            return _reflected(law, q)
        case BoundedLaplaceWideLaw():
            return _truncated(law, q, law.rate, 1)
        case BoundedGaussianWideLaw():
            return _truncated(law, q, law.noise.rate, 2)
        case _ if isinstance(table, SymmetricTable):
            return _symmetric(table, q)
        case _:
            return _stated(law, q)


def _symmetric(table: SymmetricTable, q: IntArray) -> LawRows:
    outputs = table.allowed.points()
    weights, lowest = table.weights, table.allowed.lower
    totals = {int(a): int(weights[np.abs(outputs - a)].sum()) for a in q}
    sound = all(int(table.mass[a - lowest]) == total for a, total in totals.items())
    log_weights = np.log(weights.astype(np.float64))
    logs = log_weights[np.abs(outputs[None, :] - q[:, None])]
    logs = logs - np.log(np.array([totals[int(a)] for a in q], dtype=np.float64))[:, None]

    def exact(i: int, j: int) -> tuple[Fraction, Fraction]:
        p = Fraction(int(weights[abs(int(outputs[j] - q[i]))]), totals[int(q[i])])
        return p, p

    return LawRows(q, outputs, logs, exact, sound and int(weights.min()) >= 1)


def _stored(law: RowLaw, q: IntArray) -> LawRows:
    place = [max(i for i, start in enumerate(law.starts) if start <= a) for a in q.tolist()]
    totals = [sum(row) for row in law.rows]
    logs = np.log(np.array([law.rows[i] for i in place], dtype=np.float64))
    logs -= np.log(np.array([totals[i] for i in place], dtype=np.float64))[:, None]

    def exact(i: int, j: int) -> tuple[Fraction, Fraction]:
        p = Fraction(law.rows[place[i]][j], totals[place[i]])
        return p, p

    return LawRows(q, np.array(law.outputs, dtype=np.int64), logs, exact)


def _staircase(law: AdditiveLaw, q: IntArray) -> LawRows:
    noise = cast("StaircaseNoise", law.noise)
    margin = 2 * noise.width + noise.j
    outputs = np.arange(int(q.min()) - margin, int(q.max()) + margin + 1)
    away = np.abs(outputs[None, :] - q[:, None])
    level = (away + noise.width - noise.j) // noise.width
    # Only rows of one output are ever compared, so each output may have a factor of its own.
    above = level - level.min(axis=0, keepdims=True)
    step = Fraction(noise.p, 2**64)
    known: dict[int, Fraction] = {}

    def exact(i: int, j: int) -> tuple[Fraction, Fraction]:
        n = int(above[i, j])
        p = known.setdefault(n, step**n)
        return p, p

    return LawRows(q, outputs, level * log_of(step), exact)


def staircase_worst(noise: StaircaseNoise, apart: int) -> Worst:
    """Return the largest ratio of raw staircase draws of two answers at most `apart` steps apart.

    An output a steps from one answer is at most a + apart from the other (triangle inequality), and
    its level, (a + width - j) // width, rises by most where a is the last step of a tread. So a few
    outputs decide over a support of any length, and the farthest answers over the nearer ones.
    """
    ends = {0, max(0, noise.j - 1), noise.j, noise.j - 1 + noise.width}
    level = noise.width - noise.j
    most = max((a + apart + level) // noise.width - (a + level) // noise.width for a in ends)
    return Worst((1 / Fraction(noise.p, 2**64)) ** most, None, len(ends))


def _reflected(law: ReflectedLaplaceLaw, q: IntArray) -> LawRows:
    """The images of y lie at y - q and -(y + 1) - q, every 2 (n + 1) steps; sums are geometric."""
    low, n = law.allowed.lower, law.allowed.hull_steps
    turn = 2 * (n + 1)
    power = powers(law.noise.rate, turn + 1)
    x = np.arange(n + 1)
    start = (q - low)[:, None]
    places = [np.abs(x - start), turn - np.abs(x - start), x + start + 1, turn - x - start - 1]
    rate = float(law.noise.rate)
    logs = np.logaddexp.reduce([-rate * p for p in places])

    def exact(i: int, j: int) -> tuple[Fraction, Fraction]:
        at = [power[int(p[i, j])] for p in places]
        return sum((a for a, _ in at), Fraction(0)), sum((b for _, b in at), Fraction(0))

    return LawRows(q, low + x, logs, exact)


def _truncated(law: GridLaw, q: IntArray, rate: Fraction, order: int) -> LawRows:
    """P(y | q) = e^(-rate |y - q|^order) / Z(q) on the allowed points, without a table."""
    outputs = law.allowed.points()
    away = np.abs(outputs[None, :] - q[:, None]) ** order
    known: dict[int, tuple[Fraction, Fraction]] = {}

    def power(d: int) -> tuple[Fraction, Fraction]:
        if d not in known:
            known[d] = (
                rounded(1 / exp_above(rate * d), up=False),
                rounded(1 / exp_below(rate * d), up=True),
            )
        return known[d]

    sums: dict[int, tuple[Fraction, Fraction]] = {}

    def exact(i: int, j: int) -> tuple[Fraction, Fraction]:
        if i not in sums:
            parts = [power(int(d)) for d in away[i]]
            sums[i] = (
                sum((a for a, _ in parts), Fraction(0)),
                sum((b for _, b in parts), Fraction(0)),
            )
        low, high = power(int(away[i, j]))
        return low / sums[i][1], high / sums[i][0]

    logs = -float(rate) * away
    logs = logs - np.logaddexp.reduce(logs, axis=1)[:, None]
    return LawRows(q, outputs, logs, exact)


def _stated(law: GridLaw, q: IntArray) -> LawRows:
    """A family that is not built in: what its own `pmf` states, floats with room."""
    stated: list[dict[int, Any]] = [law.pmf(int(a)) for a in q]
    outputs = np.array(sorted({y for row in stated for y in row}), dtype=np.int64)
    same = all(len(row) == outputs.size and min(row.values()) > 0 for row in stated)
    tiny = Fraction(1, 2**1000)
    chances = [[Fraction(row.get(y, 0)) or tiny for y in outputs.tolist()] for row in stated]

    def exact(i: int, j: int) -> tuple[Fraction, Fraction]:
        p = chances[i][j]
        room = 0 if isinstance(stated[i].get(int(outputs[j])), Fraction) else _FLOAT_ROOM
        return p * (1 - room), p * (1 + room)

    logs = np.array([[log_of(p) for p in row] for row in chances])
    return LawRows(q, outputs, logs, exact, same)


def worst_ratio(law: GridLaw, distance: int | None = None) -> Worst:
    """Return the largest likelihood ratio of answers at most `distance` (default: its sensitivity) apart."""
    distance = capped_sensitivity(law) if distance is None else distance
    hull = law.allowed.hull_steps
    outputs = len(law.allowed)
    noise = getattr(law, "noise", None)
    if isinstance(noise, StaircaseNoise) and hull * outputs > _WORK:
        return staircase_worst(noise, distance)
    answers, complete = None, True
    lags = list(range(1, min(distance, max(hull, 1)) + 1))
    if hull * outputs * len(lags) > _WORK:
        lags = sorted({*lags[:4], *[2**i for i in range(40) if 2**i < distance], lags[-1]})
        complete = False
    if hull * outputs * len(lags) > _WORK:
        few = choose_answers(law.allowed, 17)[0].tolist()
        near = {a + s * k for a in few for k in lags for s in (1, -1)}
        answers = sorted(
            {a for a in near if law.allowed.lower <= a <= law.allowed.upper} | set(few)
        )
    rows = law_rows(law, answers)
    if isinstance(rows, Fraction):
        return Worst(None, rows * distance, hull * len(lags))
    return _largest(rows, lags, complete=complete)


def worst_between(rows: LawRows, one: int, other: int) -> Worst:
    """Return the largest ratio, either way, between two of the rows, over all outputs."""
    apart = np.abs(rows.logs[one] - rows.logs[other])
    ties = np.flatnonzero(apart >= apart.max() - _TIE)
    chosen = ties[:: -(-ties.size // _TIES)]
    worst = Fraction(1)
    for j in chosen.tolist():
        p, r = rows.exact(one, j), rows.exact(other, j)
        worst = max(worst, p[1] / r[0], r[1] / p[0])
    return Worst(worst, None, 1, chosen.size == ties.size, rows.sound)


def _largest(rows: LawRows, lags: Sequence[int], *, complete: bool) -> Worst:
    """Return the largest ratio of rows whose answers are one of `lags` apart."""
    at = {int(a): i for i, a in enumerate(rows.answers)}
    found: list[tuple[float, IntArray, IntArray]] = []
    pairs = 0
    for lag in lags:
        one = np.array([i for a, i in at.items() if a + lag in at], dtype=np.int64)
        other = np.array([at[a + lag] for a in at if a + lag in at], dtype=np.int64)
        if not one.size:
            continue
        pairs += one.size
        apart = np.abs(rows.logs[one] - rows.logs[other])
        found.append((float(apart.max()), one, other))
    if not found:
        return Worst(Fraction(1), None, 0, complete, rows.sound)
    top = max(f[0] for f in found)
    worst = Fraction(1)
    for most, one, other in found:
        if most < top - _TIE:
            continue
        apart = rows.logs[one] - rows.logs[other]
        seen = set()
        for i, j in np.argwhere(np.abs(apart) >= top - _TIE).tolist():
            a, b = (one[i], other[i]) if apart[i, j] >= 0 else (other[i], one[i])
            p, r = rows.exact(int(a), j), rows.exact(int(b), j)
            if (p, r) not in seen:
                seen.add((p, r))
                worst = max(worst, p[1] / r[0])
    return Worst(worst, None, pairs, complete, rows.sound)
