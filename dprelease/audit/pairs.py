"""Layer A for a whole plan: the exact loss between two neighbouring tables.

The engine sums both tables, and every block's law is laid out at both answers (`audit.laws`). Cells
and groups are drawn independently, so the ratios of all of them multiply:

    loss(pair) = sum over blocks, groups, cells of log max_y P(y | q) / P(y | q')

For a plan without delta this must be at most its epsilon; the comparison is of rationals. With a
delta it is not what is promised: then delta(epsilon) of the pair is computed from the losses of all
parts together, each rounded *down* to a grid, so that the result is a lower bound of the true delta
(`PairLoss.delta_at_least`), and must be at most the plan's.

Nothing here asks a law, a block or the plan for its price, and no sensitivity enters: what a pair
costs follows from the rows, the engine and the integers that are drawn.

Units    grid steps inside, nats outside. Both directions of a pair are covered.
Sources  `docs/theory/certificates.md#audits`.
Limits   a mean of private size is bounded by its size's worst ratio times the worst ratio of its
         second law over a ladder of sizes; winsorised cells by the worst of the limits that are tried. Gaussian tails are cut 12 scales out: less than 1e-30.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.audit.flips import flip_chances, flip_worst
from dprelease.audit.found import key_losses
from dprelease.audit.joint import joint_worst
from dprelease.audit.laws import Worst, law_rows, log_of, staircase_worst, worst_between
from dprelease.audit.powers import exp_below
from dprelease.audit.recursive import recursive_worst
from dprelease.measurements.balanced import BalancedLaw
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.constant import ConstantLaw
from dprelease.measurements.ending import EndingLaw
from dprelease.measurements.found import FoundLaw
from dprelease.measurements.gaussian import GaussianLaw
from dprelease.measurements.graph_box import GraphBoxLaw
from dprelease.measurements.joint_ranks import JointLaw
from dprelease.measurements.law import Objects
from dprelease.measurements.rank_interval import IntervalLaw
from dprelease.measurements.ranks import ExponentialLaw, PermuteAndFlipLaw
from dprelease.measurements.recursive_ranks import RecursiveRanksLaw
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.measurements.truncated_mean import MeanLaw
from dprelease.measurements.winsorised import WinsorisedLaw
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.mechanisms.kernels.ending_laplace import EndingLaplaceNoise
from dprelease.mechanisms.kernels.staircase import StaircaseNoise
from dprelease.mechanisms.law import GridLaw
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.clipped import clipped, limit_scores
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.ranks import Stretches

FloatArray = npt.NDArray[np.float64]
_MOST_ENDS = 2**20
_LIMITS = 64
"""Most codes that are tried as limits of winsorised rows, one by one."""
_CELLS = 20_000
_STEPS = 10_000
"""Most points of a composed loss distribution."""
_WIDE = 1_000
"""Steps of a staircase beyond which its outputs are not laid out one by one."""


@dataclass(frozen=True, slots=True)
class DifferingCell:
    """One cell that differs between the tables.

    Attributes:
        block: its block; worst: its largest likelihood ratio (infinite if `impossible`).
        losses, chances: the privacy loss under the first table and its probabilities, and the same
            with the tables exchanged; for plans with a delta.
    """

    block: str
    worst: Worst | None
    losses: tuple[tuple[FloatArray, FloatArray], tuple[FloatArray, FloatArray]] | None = None


@dataclass(frozen=True, slots=True)
class PairLoss:
    """What a pair of tables costs; `parts` are the cells that differ."""

    parts: tuple[DifferingCell, ...]

    @property
    def complete(self) -> bool:
        """Whether every ratio that ties for the largest was computed exactly (`audit.laws`)."""
        return all(p.worst is None or p.worst.complete for p in self.parts)

    @property
    def nats(self) -> float:
        """The pure loss; infinite where normal noise has none."""
        if any(p.worst is None for p in self.parts):
            return math.inf
        return sum(p.worst.nats for p in self.parts if p.worst is not None)

    def within(self, epsilon: Fraction) -> bool:
        """Return whether the pure loss is proved to be at most `epsilon`, in rationals."""
        rational, ratio = Fraction(0), Fraction(1)
        for part in self.parts:
            if part.worst is None or not part.worst.sound:
                return False
            if part.worst.loss is not None:
                rational += part.worst.loss
            else:
                ratio *= part.worst.ratio or 1
        return rational <= epsilon and ratio <= exp_below(epsilon - rational)

    def delta_at_least(self, epsilon: Fraction) -> float:
        """Return a lower bound of delta at `epsilon`, the larger of the two directions."""
        curves = [p.losses for p in self.parts if p.losses is not None]
        return max(
            (_delta([c[side] for c in curves], float(epsilon)) for side in (0, 1)), default=0.0
        )


def pair_loss(plan: ReleasePlan, first: Sequence[Objects], second: Sequence[Objects]) -> PairLoss:
    """Return the loss of `plan` between two answers, exact cells per block (`audit.answers`)."""
    parts: list[DifferingCell] = []
    curves = plan.delta > 0
    for block, here, there in zip(plan.blocks, first, second, strict=True):
        law: Any = block.law
        differ = np.flatnonzero(np.asarray(here != there).any(axis=1))
        for group in differ.tolist():
            made = _block(law, here[group].tolist(), there[group].tolist(), curves=curves)
            parts += [DifferingCell(block.name, worst, losses) for worst, losses in made]
    return PairLoss(tuple(parts))


_Made = list[tuple[Worst | None, Any]]


def _block(whole: Any, here: list[Any], there: list[Any], *, curves: bool) -> _Made:
    """Return the parts of one group of one block."""
    match whole:
        case ConstantLaw():
            return []  # one number for all tables
        case ScalarCellLaw():
            return _law(
                whole.law,
                _answer(whole, here[0]),
                _answer(whole, there[0]),
                curves=curves,
            )
        case CellLaw():
            if isinstance(whole, BalancedLaw) and whole.rows is None:  # what the hidden cell takes
                here, there = [*here, -sum(here)], [*there, -sum(there)]
            rate = whole.noise.noise.rate
            return [
                (Worst(None, rate * abs(k), 1), _laplace(float(rate), k) if curves else None)
                for k in _moves(here, there)
            ]
        case GaussianLaw():
            return [(None, _gaussian(whole.noise, k)) for k in _moves(here, there)]
        case EndingLaw():
            return [(None, _ending(whole.noise, k)) for k in _moves(here, there)]
        case FoundLaw():
            return [(None, key_losses(whole.noise, here[0], there[0]))]
        case IntervalLaw():
            return [
                part
                for one, other in zip(whole.scores(here[0]), whole.scores(there[0]), strict=True)
                for part in _choice(whole, one, other, curves=curves)
            ]
        case JointLaw():
            worst = Worst(joint_worst(whole, here[0], there[0]), None, 1)
            return [(worst, _response(worst.nats) if curves else None)]
        case RecursiveRanksLaw():
            return [recursive_worst(whole, here[0], there[0], curves=curves)]
        case ExponentialLaw():
            return _choice(whole, here[0], there[0], curves=curves)
        case WinsorisedLaw():
            return _winsorised(whole, here[0], there[0], curves=curves)
        case GraphBoxLaw():
            made: _Made = []
            for law, a, b in zip(whole.law.laws, here, there, strict=True):
                made += _law(law, a, b, curves=curves)
            return made
        case MeanLaw():
            return _mean(whole, here, there, curves=curves)
    raise AssertionError(f"no audit for {type(whole).__name__}")


def _moves(here: list[int], there: list[int]) -> list[int]:
    return [b - a for a, b in zip(here, there, strict=True) if a != b]


def _answer(law: ScalarCellLaw, cell: int) -> int:
    """Return the grid answer of a cell: R((offset + step_size cell - origin) / step)."""
    return _rounded((law.offset + law.step_size * cell - law.origin) / law.step)


def _rounded(value: Fraction) -> int:
    return math.floor(value + Fraction(1, 2))


def _law(law: GridLaw, a: int, b: int, *, curves: bool) -> _Made:
    low, high = law.allowed.lower, law.allowed.upper
    one, other = min(max(a, low), high), min(max(b, low), high)
    if one == other:
        return []
    noise = getattr(law, "noise", None)
    if isinstance(noise, StaircaseNoise) and noise.width > _WIDE and not curves:
        return [(staircase_worst(noise, abs(one - other)), None)]
    rows = law_rows(law, [one, other])
    if isinstance(rows, Fraction):
        loss = _laplace(float(rows), other - one) if curves else None
        return [(Worst(None, rows * abs(one - other), 1), loss)]
    p, r = (np.exp(line - np.logaddexp.reduce(line)) for line in rows.logs)
    return [(worst_between(rows, 0, 1), _both(p, r) if curves else None)]


def _mean(law: MeanLaw, here: list[int], there: list[int], *, curves: bool) -> _Made:
    made = _block(law.size, here[:1], there[:1], curves=curves)
    top = max(1, law.size.law.allowed.upper)
    sizes = sorted({min(top, math.ceil(1.3**i)) for i in range(200)} | {top})
    centre = law.offset + Fraction(law.scale, 2) * law.step_size
    found: list[Worst] = []
    for size in sizes:
        a, b = (
            _rounded((centre + law.step_size * (s - Fraction(law.scale, 2) * n) / size) / law.step)
            for n, s in (here, there)
        )
        found += [w for w, _ in _law(law.law(size), a, b, curves=False) if w is not None]
    if found:
        worst = max(found, key=lambda w: w.nats)
        # For curves the worst ratio stands for the whole law: randomised response of that loss.
        made.append((worst, _response(worst.nats) if curves else None))
    return made


def _choice(law: ExponentialLaw, here: Stretches, there: Stretches, *, curves: bool) -> _Made:
    if isinstance(law, PermuteAndFlipLaw):
        return _flips(law, here, there, curves=curves)
    counts, p, r = _choices(law, here, there)
    ratio = max(max(a / b, b / a) for a, b in zip(p, r, strict=True))
    return [(Worst(ratio, None, 1), _both(_floats(p), _floats(r), counts) if curves else None)]


def _flips(law: PermuteAndFlipLaw, here: Stretches, there: Stretches, *, curves: bool) -> _Made:
    runs = [law.runs(scores) for scores in (here, there)]
    starts, places = _starts(runs)
    tables = [(counts, scores) for _, counts, scores in runs]
    both = list(zip(*(at.tolist() for at in places), strict=True))
    worst = flip_worst(law.law, tables[0], tables[1], both)
    if not curves:
        return [(worst, None)]
    p, r = (flip_chances(law.law, *one)[at] for one, at in zip(tables, places, strict=True))
    sizes = np.diff(np.append(starts, law.law.candidates)).astype(np.float64)
    return [(worst, _both(p, r, sizes))]


def _winsorised(law: WinsorisedLaw, here: Positions, there: Positions, *, curves: bool) -> _Made:
    """Return both limits' worst ratios, and the loss of the cells at the limits where they move by most."""
    made: _Made = []
    for scores in zip(*(limit_scores(rows, law.codes) for rows in (here, there)), strict=True):
        p, r = (law.choice.pmf(s) for s in scores)
        ratio = max(max(a / b, b / a) for a, b in zip(p, r, strict=True))
        made.append((Worst(ratio, None, 1), _both(_floats(p), _floats(r)) if curves else None))
    most, pairs = Fraction(0), 0
    for low, high in combinations(_limits_tried(law, here, there), 2):
        cells = (clipped(rows, low, high, law.degree) for rows in (here, there))
        apart = sum(abs(a - b) for a, b in zip(*cells, strict=True))
        most, pairs = max(most, apart * law.noise_at(low, high).rate), pairs + 1
    if most:
        made.append((Worst(None, most, pairs), _response(float(most)) if curves else None))
    return made


def _limits_tried(law: WinsorisedLaw, here: Positions, there: Positions) -> list[int]:
    """Return the codes that are tried as limits: all of a small grid, else the rows' own and the ends."""
    if law.codes.size <= _LIMITS:
        return [int(code) for code in law.codes]
    found = {0, law.allowed.hull_steps, *here.codes.tolist(), *there.codes.tolist()}
    return sorted(found)[:: max(1, len(found) // _LIMITS)]


def _floats(p: Sequence[Fraction]) -> FloatArray:
    return np.array([math.exp(log_of(v)) for v in p])


def _both(p: FloatArray, r: FloatArray, counts: FloatArray | float = 1.0) -> Any:
    """Return (losses, chances) of a pair of laws, in both directions; `counts` outcomes of each chance."""
    return (np.log(p / r), counts * p), (np.log(r / p), counts * r)


def _choices(
    law: ExponentialLaw, here: Stretches, there: Stretches
) -> tuple[FloatArray, list[Fraction], list[Fraction]]:
    """Return the candidates of each stretch that both tables score alike, and the chance of one of them."""
    runs = [law.runs(scores) for scores in (here, there)]
    starts, places = _starts(runs)
    chances = []
    for (_, counts, scores), at in zip(runs, places, strict=True):
        weights = law.law.weights(scores - scores[counts > 0].min())
        total = int((counts.astype(object) * weights).sum())
        chances.append([Fraction(int(w), total) for w in weights[at]])
    sizes = np.diff(np.append(starts, law.law.candidates)).astype(np.float64)
    return sizes, chances[0], chances[1]


def _starts(runs: Sequence[tuple[Any, Any, Any]]) -> tuple[Any, list[Any]]:
    """Return the first candidate of each stretch that all tables score alike, and its run in each table."""
    starts = np.unique(np.concatenate([first[counts > 0] for first, counts, _ in runs]))
    places = []
    for first, counts, _ in runs:
        some = np.flatnonzero(counts > 0)
        places.append(some[np.searchsorted(first[some], starts, side="right") - 1])
    return starts, places


def _response(loss: float) -> Any:
    p = np.array([1.0, math.exp(-loss)]) / (1 + math.exp(-loss))
    return _both(p, p[::-1])


def _laplace(rate: float, steps: int) -> Any:
    k = abs(steps)
    cutoff = k + math.ceil(80 / rate)
    d = (
        np.arange(-cutoff, k + cutoff + 1)
        if cutoff < 2**20
        else np.linspace(-cutoff, k + cutoff, 2**21)
    )
    p, r = -rate * np.abs(d), -rate * np.abs(d - k)
    total = np.logaddexp.reduce(p)
    return (p - r, np.exp(p - total)), (r - p, np.exp(r - np.logaddexp.reduce(r)))


def _ending(noise: EndingLaplaceNoise, steps: int) -> Any:
    """The loss of a draw that one table alone can give is infinite: here so large that nothing of it is lost."""
    rate, bound, few = float(noise.rate), noise.bound, noise.bound < _MOST_ENDS
    d = np.arange(-bound, bound + 1.0) if few else np.linspace(-bound, bound, 2 * _MOST_ENDS)
    p, other = np.exp(-rate * np.abs(d)), np.abs(d - abs(steps))
    losses = np.where(other <= bound, rate * (other - np.abs(d)), 60.0 + rate * abs(steps))
    one = losses, p / p.sum()
    return one, one  # symmetric noise: both directions are alike


def _gaussian(noise: GaussianCells, steps: int) -> Any:
    """The loss of wide noise is linear in it: (2 d k + k^2) / (2 square) at d under the first table; else step by step."""
    k, square = abs(steps), float(noise.square)
    cutoff = math.ceil(12 * noise.scale) + 1
    d = np.arange(-cutoff, cutoff + 1.0, max(1, cutoff // 50_000))
    logs = -d * d / (2 * square), -((d + k) ** 2) / (2 * square)
    if noise.bits and cutoff < _STEPS:
        beyond = noise.fitted.survival(np.arange(-1.0, cutoff + k + 2))
        chance = np.log(beyond[:-1] - beyond[1:])
        logs = chance[np.abs(d).astype(int)], chance[np.abs(d + k).astype(int)]
    p = np.exp(logs[0])
    one = (logs[0] - logs[1], p / p.sum())
    return one, one  # symmetric noise: both directions are alike


def _delta(parts: Sequence[tuple[FloatArray, FloatArray]], epsilon: float) -> float:
    """Return a lower bound of E[(1 - e^(epsilon - L))+], L the sum of independent losses."""
    span = sum(float(losses.max() - losses.min()) for losses, _ in parts)
    step_size = max(span, 1e-12) / _CELLS
    total, first = np.ones(1), 0
    for losses, chances in parts:
        at = np.floor(losses / step_size).astype(np.int64)
        mass = np.bincount(at - at.min(), weights=chances)
        total, first = np.convolve(total, mass), first + int(at.min())
    loss = (first + np.arange(total.size)) * step_size
    return float(total @ -np.expm1(np.minimum(epsilon - loss, 0.0)))
