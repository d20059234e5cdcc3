"""Known private forms of a statistic, computed on small tables and at 1,000 rows: what a planner's choice is held against.

Each is a law that somebody could use, with its error from that law: summed where outputs are few, else by `DRAWS`
draws per table from a fixed stream.

    inverse sensitivity    the exponential mechanism by how many units must change before the answer is that one, at
                           the standard rate epsilon / 2 (Asi & Duchi 2020); also by permute-and-flip
    counts of values       how many rows hold each value, with noise e^(-epsilon |z|) in the norm of what one unit
                           moves (Hardt & Talwar 2010): two-sided geometric counters, adding up to zero where rows
                           are replaced; the statistic of the noisy counts
    noisy sums             rows, values, squares, products about the middle, each by geometric noise of an equal part
                           of epsilon (as OpenDP's sums and counts are put together)
    Laplace, staircase,    on the number itself by the most that one unit moves it on these tables, clamped to the
    geometric, response    answers there are; the staircase is Geng & Viswanath's

With 1,000 rows those of the number itself are left out where one unit can move it far only in a small table; inverse
sensitivity is its limit there, steps of one unit's largest move.

Not held against: methods that hold for some tables only, and those that spend a delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from best_worlds import Floats, State, World, flips, largest_move, truth, values_of

__all__ = ["DRAWS", "distances", "known", "known_of_many_rows", "least"]

DRAWS = 4_000
_FAR = 12
"""Noise beyond e^-12 of its peak is left out."""
_ONE_NUMBER_SUMS = ("mean", "proportion", "variance", "std", "covariance")


def known(world: World, text: str, epsilon: float) -> dict[str, Floats]:
    """Return the mean |error| of every known form on every table of the world, `(tables,)` each."""
    states = world.states(text)
    truths = np.stack([truth(text, s) for s in states])
    rng = np.random.default_rng(16)
    found = _by_distance(world, text, truths, epsilon)
    found["counts of values"] = _counts(world, text, states, truths, epsilon, rng)
    if text.partition("(")[0] in _ONE_NUMBER_SUMS:
        found["noisy sums"] = _sums(world, text, states, truths, epsilon, rng)
    if truths.shape[1] == 1:
        found.update(_of_the_number(world, text, truths[:, 0], epsilon, rng))
    return found


def known_of_many_rows(
    world: World, text: str, tables: Sequence[State], epsilon: float
) -> dict[str, float]:
    """Return the mean |error| of the known forms over tables of many rows."""
    truths = np.stack([truth(text, s) for s in tables])
    rng = np.random.default_rng(16)
    found = {"counts of values": float(_counts(world, text, tables, truths, epsilon, rng).mean())}
    name = text.partition("(")[0]
    if name in _ONE_NUMBER_SUMS:
        found["noisy sums"] = float(_sums(world, text, tables, truths, epsilon, rng).mean())
    moved = [m for table in tables if (m := largest_move(world, text, table)) is not None]
    if moved:
        step = float(np.mean(moved))
        within = 1 / (1 - math.exp(-epsilon / 2)) - 0.5  # mean of |u| under e^(-epsilon/2 ceil|u|)
        found["inverse sensitivity"] = step * within
        if name in ("count", "sum"):
            found["staircase"] = step * math.exp(epsilon / 2) / math.expm1(epsilon)
            found["geometric"] = 1 / math.sinh(epsilon / step)
    return found


def distances(world: World, text: str, truths: Floats) -> tuple[Floats, Floats]:
    """Return how many units must change before a table has an answer, `(tables, answers)`, and the answers."""
    tables = len(truths)
    apart = np.full((tables, tables), np.inf)
    pairs = np.array(world.pairs(text))
    apart[pairs[:, 0], pairs[:, 1]] = 1
    np.fill_diagonal(apart, 0)
    for k in range(tables):
        apart = np.minimum(apart, apart[:, k : k + 1] + apart[k : k + 1, :])
    answers, place = np.unique(truths, axis=0, return_inverse=True)
    have = place.ravel()
    return np.stack([apart[:, have == i].min(axis=1) for i in range(len(answers))], axis=1), answers


def _by_distance(world: World, text: str, truths: Floats, epsilon: float) -> dict[str, Floats]:
    far, answers = distances(world, text, truths)
    cost = np.abs(truths[:, None, :] - answers[None, :, :]).sum(axis=2)
    weights = np.exp(-epsilon / 2 * far)
    chances = weights / weights.sum(axis=1, keepdims=True)
    flipped = np.stack([flips(w) for w in weights])
    return {
        "inverse sensitivity": (chances * cost).sum(axis=1),
        "inverse sensitivity by permute-and-flip": (flipped * cost).sum(axis=1),
    }


def _groups(text: str, many: int) -> list[list[int]]:
    """Return which values a form of counts need not tell apart."""
    both = text.startswith("proportion") or text == "histogram(x, [0, 1, 2])"
    return [[0], list(range(1, many))] if both else [[i] for i in range(many)]


def _counts(
    world: World,
    text: str,
    states: Sequence[State],
    truths: Floats,
    epsilon: float,
    rng: np.random.Generator,
) -> Floats:
    groups, out = _groups(text, len(states[0])), []
    whole = [np.array([sum(s[i] for i in g) for g in groups]) for s in states]
    for counts, true in zip(whole, truths, strict=True):
        noise = _count_noise(world, len(groups), epsilon, rng)
        found = _statistic(text, np.maximum(counts + noise, 0).astype(np.float64))
        out.append(np.abs(found - true).sum(axis=1).mean())
    return np.array(out)


def _count_noise(world: World, cells: int, epsilon: float, rng: np.random.Generator) -> Floats:
    """Return noise e^(-epsilon |z|), |z| the least number of units that move the counts by z, `(DRAWS, cells)`.

    Where rows are replaced what enters the counts and what leaves are each at most one per unit: with one count
    more for what no count holds, independent noise of half the rate given that it adds up to zero.
    """
    if world.adjacency == "add_remove":
        return _geometric(epsilon / world.m, (DRAWS, cells), rng)
    return _adding_up(cells + (not world.public), epsilon / (2 * world.m), rng)[:, :cells]


def _adding_up(cells: int, rate: float, rng: np.random.Generator) -> Floats:
    """Return e^(-rate |z_1| - ..) on the integers that add up to zero, cell after cell by its chance given the sum."""
    width = math.ceil(_FAR / rate)
    each = np.arange(-width, width + 1)
    one = np.exp(-rate * np.abs(each))
    rest = [np.ones(1)]  # of the sum of no cells, then of one, two, ..
    for _ in range(cells):
        rest.append(np.convolve(rest[-1], one))
        rest[-1] /= rest[-1].max()
    total, out = np.zeros(DRAWS, dtype=np.int64), []
    for left in range(cells - 1, -1, -1):
        middle = len(rest[left]) // 2
        place = middle - total[:, None] - each[None, :]
        inside = (place >= 0) & (place < len(rest[left]))
        chance = np.where(inside, rest[left][np.where(inside, place, 0)], 0.0) * one[None, :]
        upto = np.cumsum(chance, axis=1)
        drawn = each[(upto < rng.random(DRAWS)[:, None] * upto[:, -1:]).sum(axis=1)]
        total = total + drawn
        out.append(drawn)
    return np.stack(out, axis=1).astype(np.float64)


def _geometric(rate: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    p = 1 - math.exp(-rate)
    return np.asarray(rng.geometric(p, shape) - rng.geometric(p, shape), dtype=np.float64)


def _statistic(text: str, counts: Floats) -> Floats:
    """Return the statistic of noisy counts, `(draws, cells)`; of no rows at all, of one of each value."""
    name = text.partition("(")[0]
    if name == "histogram":
        return counts
    if name in ("count", "sum"):
        each = np.arange(counts.shape[1]) if name == "sum" else np.ones(counts.shape[1])
        return np.asarray(counts @ each)[:, None]
    counts = np.where(counts.sum(axis=1, keepdims=True) > 0, counts, 1.0)
    total = counts.sum(axis=1)
    upto = np.cumsum(counts, axis=1)
    if name == "cdf":
        return np.asarray(upto[:, :2] / total[:, None])
    last = counts.shape[1] - 1
    one: dict[str, Callable[[], Any]] = {
        "proportion": lambda: counts[:, 1] / total,
        "median": lambda: np.argmax(upto >= total[:, None] / 2 - 1e-9, axis=1),
        "quantile": lambda: np.argmax(upto >= 0.9 * total[:, None] - 1e-9, axis=1),
        "min": lambda: np.argmax(counts > 0, axis=1),
        "max": lambda: last - np.argmax(counts[:, ::-1] > 0, axis=1),
        "count_distinct": lambda: (counts > 0).sum(axis=1),
    }
    if name in one:
        return np.asarray(one[name](), dtype=np.float64)[:, None]
    shares = counts / total[:, None]
    value = np.array(values_of(text, counts.shape[1]), dtype=np.float64)
    x = value[:, 0]
    mean = shares @ x
    if name == "mean":
        return mean[:, None]
    spread = np.maximum(shares @ (x * x) - mean**2, 0)
    if name in ("covariance", "correlation"):
        y = value[:, 1]
        other = shares @ y
        both = shares @ (x * y) - mean * other
        if name == "covariance":
            return np.asarray(both)[:, None]
        most = np.sqrt(spread * np.maximum(shares @ (y * y) - other**2, 0))
        return np.divide(both, most, out=np.zeros_like(both), where=most > 1e-9)[:, None]
    return (np.sqrt(spread) if name == "std" else spread)[:, None]


def _moments(text: str, many: int) -> Floats:
    """Return what a row of each value adds to each sum, `(values, sums)`, the first one the rows.

    Values are half steps from the middle of the range: whole numbers.
    """
    value = np.array(values_of(text, many), dtype=np.float64)
    one = np.ones(len(value))
    x = 2 * value[:, 0] - (many - 1)
    match text.partition("(")[0]:
        case "mean":
            sums = [one, x]
        case "proportion":
            sums = [one, np.where(value[:, 0] > 0, 1.0, -1.0)]
        case "covariance":
            a, b = 2 * value[:, 0] - 1, 2 * value[:, 1] - 1
            sums = [one, a, b, a * b]
        case _:
            sums = [one, x, x * x]
    return np.stack(sums, axis=1)


def _sums(
    world: World,
    text: str,
    states: Sequence[State],
    truths: Floats,
    epsilon: float,
    rng: np.random.Generator,
) -> Floats:
    added = _moments(text, len(states[0]))
    most = world.m * (
        np.abs(added).max(axis=0)
        if world.adjacency == "add_remove"
        else np.maximum(np.ptp(added, axis=0), 0 if world.public else np.abs(added).max(axis=0))
    )
    noisy = most > 0
    width = np.abs(added).max(axis=0)[1:]
    out = []
    for state, true in zip(states, truths, strict=True):
        sums = np.tile(np.array(state) @ added, (DRAWS, 1))
        for j in np.flatnonzero(noisy):
            sums[:, j] += _geometric(epsilon / noisy.sum() / most[j], (DRAWS,), rng)
        rows = np.maximum(sums[:, 0], 1)
        means = np.clip(sums[:, 1:] / rows[:, None], -width, width)
        out.append(np.abs(_of_means(text, means, width[0]) - true).mean())
    return np.array(out)


def _of_means(text: str, means: Floats, width: float) -> Floats:
    match text.partition("(")[0]:
        case "mean":
            return np.asarray((means[:, 0] + width) / 2)
        case "proportion":
            return np.asarray((means[:, 0] + 1) / 2)
        case "covariance":
            found = (means[:, 2] - means[:, 0] * means[:, 1]) / 4
            return np.asarray(np.clip(found, -0.25, 0.25))
        case name:
            spread = np.clip(means[:, 1] - means[:, 0] ** 2, 0, width**2) / 4
            return np.asarray(np.sqrt(spread) if name == "std" else spread)


def _of_the_number(
    world: World, text: str, true: Floats, epsilon: float, rng: np.random.Generator
) -> dict[str, Floats]:
    """Return noise on the number itself, clamped to the answers there are."""
    pairs = np.array(world.pairs(text))
    move = float(np.abs(true[pairs[:, 0]] - true[pairs[:, 1]]).max())
    low, high = float(true.min()), float(true.max())
    answers = np.unique(true)
    stay = math.exp(epsilon) / (math.exp(epsilon) + len(answers) - 1)
    found = {}
    shape = (len(true), DRAWS)
    noises = {
        "Laplace": rng.laplace(0, move / epsilon, shape),
        "staircase": move * _staircase(epsilon, shape, rng),
    }
    if np.allclose(true, np.round(true)):
        noises["geometric"] = _geometric(epsilon / move, shape, rng)
    for name, noise in noises.items():
        drawn = np.clip(true[:, None] + noise, low, high)
        found[name] = np.abs(drawn - true[:, None]).mean(axis=1)
    off = np.abs(true[:, None] - answers[None, :]).sum(axis=1)
    found["randomised response"] = off * (1 - stay) / max(len(answers) - 1, 1)
    return found


def _staircase(epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return staircase noise of sensitivity 1, with the width of least |error|."""
    narrow = 1 / (1 + math.exp(epsilon / 2))
    steps = rng.geometric(1 - math.exp(-epsilon), shape) - 1
    inner = narrow / (narrow + math.exp(-epsilon) * (1 - narrow))
    first = rng.random(shape) < inner
    u = rng.random(shape)
    size = steps + np.where(first, narrow * u, narrow + (1 - narrow) * u)
    return np.asarray(np.where(rng.random(shape) < 0.5, -size, size))


def least(found: dict[str, Any], weights: Floats | None = None) -> tuple[str, float]:
    """Return the best form and its mean error, by `weights` of the tables."""
    errors = {n: float(e @ weights if weights is not None else e) for n, e in found.items()}
    name = min(errors, key=errors.__getitem__)
    return name, errors[name]
