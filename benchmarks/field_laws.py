"""How wrong a plan's numbers are on given rows: the law's own expectation where it can be summed, else draws of it.

Of one integer through a grid law the chances of all outputs are known (`audit.sampler.chances_of`), of one choice by
rank those of all runs of candidates. What follows the draw (finishing, rounding to the published step, the domain) is
the library's own. Everything else is drawn by the system's generator, all at once: no release is made.

    error   mean |published - exact| over groups and columns; of a median or quantile the rows between its target and
            the nearest rank that the value has

`exact` is computed here with numpy from the rows; the cells that enter a law are the engine's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from field_corpus import Array, Asked, Table

from dprelease.audit.flips import flip_chances
from dprelease.audit.sampler import chances_of
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.measurements.base import seen_by
from dprelease.measurements.candidate import Candidate
from dprelease.measurements.members import Member
from dprelease.measurements.ranks import ExponentialLaw, PermuteAndFlipLaw
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.measurements.steps import publish_step
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.mechanisms.kernels.staircase import StaircaseNoise
from dprelease.results.consistency import to_domain

__all__ = ["DRAWS", "FEW_DRAWS", "FIRST_DRAWS", "SLOW", "Error", "Rows", "errors"]

DRAWS = 8_000
"""Of a law of noise, over all groups together."""
FEW_DRAWS = 2_000
"""Of pins."""
FIRST_DRAWS = 200
"""Of a pin at first: one that is clearly worse needs no more."""
SLOW, FEWER = ("joint_ranks", "recursive_ranks"), 16
"""Several values by rank, a draw of which takes as long as a hundred others: it is drawn so many times less often."""
_MOST = 2**14
"""Outputs that are summed; of more, draws are as good and faster."""
BY_RANK = {"median": 0.5, "quantile": None}


@dataclass(frozen=True)
class Error:
    """A mean error and its own standard error, 0 where it was summed."""

    mean: float
    sd: float = 0.0


class Rows:
    """The rows of one group: exact statistics, and ranks of values."""

    def __init__(self, table: Table, group: int) -> None:
        first, last = np.searchsorted(table.group, [group, group + 1])
        self.columns = {n: v[first:last] for n, v in table.columns.items()}
        self.count = int(last - first)
        self._sorted: dict[str, Array] = {}

    def known(self, *names: str) -> list[Array]:
        """Return the columns' values in rows where none of them is null."""
        values = [self.columns[n] for n in names]
        kept = ~np.isnan(values).any(axis=0)
        return [v[kept] for v in values]

    def exact(self, asked: Asked) -> Array:
        """Return the exact statistic, one number per published column; NaN where there is none."""
        if asked.function == "count":
            return np.array([float(self.count)])
        values = self.known(*asked.columns)
        if not values[0].size and asked.function not in ("sum", "histogram", "count_distinct"):
            return np.array([math.nan])
        return np.atleast_1d(np.asarray(_EXACT[asked.function](asked, *values), dtype=float))

    def missed(self, asked: Asked, chosen: Array) -> Array:
        """Return the rows between a value's target and the nearest rank that each of `chosen` has."""
        (name,) = asked.columns
        if name not in self._sorted:
            self._sorted[name] = np.sort(self.known(name)[0])
        ordered = self._sorted[name]
        target = ordered.size * (asked.argument or 0.5)
        below = np.searchsorted(ordered, chosen - 1e-9, "left")
        upto = np.searchsorted(ordered, chosen + 1e-9, "right")
        return np.maximum(0, np.maximum(below - target, target - upto))


def _quotient(x: Array, y: Array) -> float:
    spread = x.std() * y.std()
    return float(np.mean((x - x.mean()) * (y - y.mean())) / spread) if spread else 0.0


_CONDITIONS: dict[str, Any] = {
    "": lambda x: x > 0,
    "year({}) = 2021": lambda x: (x >= 18_628) & (x < 18_993),
    "weekday({}) >= 6": lambda x: (x + 3) % 7 >= 5,
    "quarter({}) = 1": lambda x: _quarter(x) == 1,
    "{} >= '2022-01-01'": lambda x: x >= 18_993,
    "{} = 'c0'": lambda x: x == 0,
    "{} = 'c2'": lambda x: x == 2,
}


def _quarter(days: Array) -> Array:
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(int) % 12 // 3 + 1


def _holds(condition: str, x: Array) -> Array:
    """Return where a condition of the corpus holds."""
    if condition in _CONDITIONS:
        return np.asarray(_CONDITIONS[condition](x))
    if condition == "{}":
        return x > 0
    _, sign, bound = condition.split()
    compared = {"<": np.less, ">=": np.greater_equal, ">": np.greater, "=": np.equal}[sign]
    return np.asarray(compared(x, float(bound)))


_EXACT: dict[str, Any] = {
    "sum": lambda _, x: x.sum(),
    "mean": lambda _, x: x.mean(),
    "std": lambda _, x: x.std(),
    "variance": lambda _, x: x.var(),
    "min": lambda _, x: x.min(),
    "max": lambda _, x: x.max(),
    "median": lambda _, x: np.sort(x)[(x.size - 1) // 2],
    "quantile": lambda a, x: np.sort(x)[max(0, math.ceil(round(a.argument * x.size, 6)) - 1)],
    "count_distinct": lambda _, x: np.unique(x).size,
    "histogram": lambda a, x: np.diff(np.searchsorted(np.sort(x), a.argument, "left")),
    "cdf": lambda a, x: np.searchsorted(np.sort(x), a.argument, "right") / x.size,
    "proportion": lambda a, x: _holds(a.argument, x).mean(),
    "covariance": lambda _, x, y: ((x - x.mean()) * (y - y.mean())).mean(),
    "correlation": lambda _, x, y: _quotient(x, y),
}


def errors(
    candidate: Candidate,
    members: Sequence[Member],
    asked: Sequence[Asked],
    cells: Sequence[Array],
    rows: Sequence[Rows],
    draws: int = DRAWS,
    bits: RandomBits | None = None,
) -> list[tuple[Error, Fraction]]:
    """Return, per member of a block, its mean error over groups, and the step in which it is published.

    Args:
        cells: the exact cells of each group, `(1, cells)`; rows: of the same groups.
    """
    parts: list[list[tuple[float, float]]] = [[] for _ in members]
    steps = [_step(candidate, i, m) for i, m in enumerate(members)]
    if candidate.law.tag in SLOW:
        draws //= FEWER
    for each, group in zip(cells, rows, strict=True):
        exact = [group.exact(a) for a in asked]
        if all(np.isnan(e).any() for e in exact):
            continue
        values, chance = _law(
            candidate, members, steps, each, draws // len(rows), bits or SystemBits()
        )
        for i, wanted in enumerate(asked):
            if np.isnan(exact[i]).any():
                continue
            if wanted.function in BY_RANK:
                off = group.missed(wanted, values[i][:, 0])
            else:
                off = np.abs(values[i] - exact[i]).mean(axis=1)
            if chance is None:
                parts[i].append((float(off.mean()), float(off.var()) / off.size))
            else:
                parts[i].append((float(chance @ off), 0.0))
    return [(_mean(p), s) for p, s in zip(parts, steps, strict=True)]


def _mean(parts: Sequence[tuple[float, float]]) -> Error:
    if not parts:
        return Error(math.nan)
    means, variances = np.array(parts).T
    return Error(float(means.mean()), float(np.sqrt(variances.sum())) / len(parts))


def _step(candidate: Candidate, index: int, member: Member) -> Fraction:
    stated = candidate.stated[index] if candidate.stated else (candidate.errors[index],)
    return member.statistic.spec.step or publish_step(candidate.law, member, max(stated))


def _law(
    candidate: Candidate,
    members: Sequence[Member],
    steps: Sequence[Fraction],
    cells: Array,
    many: int,
    bits: RandomBits,
) -> tuple[list[Array], Array | None]:
    """Return the published values of each member, `(outcomes, columns)`, and the chances; None for equal ones."""
    draw = candidate.law
    if isinstance(draw, ExponentialLaw) and draw.many == 1 and cells.shape[1] == 1 and hasattr(cells[0, 0], "between"):  # fmt: skip
        values, chance = _by_rank(draw, cells[0, 0])
        return [values[:, None]] * len(members), chance
    summed = _outputs(draw, cells) if isinstance(draw, ScalarCellLaw) else None
    if summed is None:
        raw, chance = draw.draw(np.repeat(cells, many, axis=0), bits), None
    else:
        raw, chance = summed
    read, reading = draw.cells(raw), draw.reading(raw[:1], 0.95)
    out = []
    for member, step in zip(members, steps, strict=True):
        measurement, seen, _ = seen_by(member.view, candidate.measurement, read, reading)
        out.append(to_domain(member.kind.finish(measurement, seen), member.domain, step))
    return out, chance


def _by_rank(draw: ExponentialLaw, scores: Any) -> tuple[Array, Array]:
    """Return the values and chances of the runs of candidates, by the middle of each run."""
    first, counts, apart = draw.runs(scores)
    kept = counts > 0
    first, counts, apart = first[kept], counts[kept], apart[kept]
    if isinstance(draw, PermuteAndFlipLaw):
        chance = counts * flip_chances(draw.law, counts, apart)
    else:
        weights = counts.astype(object) * draw.law.weights(apart - apart.min())
        chance = (weights / weights.sum()).astype(float)
    low = draw.allowed.points_at(first).astype(float)
    high = draw.allowed.points_at(first + counts - 1).astype(float)
    return (low + high) / 2 * float(draw.step), chance / chance.sum()


def _outputs(draw: ScalarCellLaw, cells: Array) -> tuple[Array, Array] | None:
    """Return the raw outputs and chances of one integer; None where there are too many."""
    law: Any = draw.law
    noise = law.noise if isinstance(law, AdditiveLaw) else None
    if isinstance(noise, DiscreteLaplaceNoise):
        wide = 120 / float(noise.rate)
    elif isinstance(noise, StaircaseNoise):
        wide = 120.0 * noise.width / -math.log(noise.decay) if noise.decay > 0 else 2.0 * noise.width  # fmt: skip
    else:
        wide = float(law.allowed.hull_steps)
    if wide > _MOST:
        return None
    cell = draw.offset + draw.step_size * int(cells[0, 0])
    answer = math.floor((cell - draw.origin) / draw.step + Fraction(1, 2))
    outputs, chance = chances_of(law, answer)
    return outputs.astype(object)[:, None], chance / chance.sum()
