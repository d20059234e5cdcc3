"""Generated plans, exact enumeration, and stuck sources, shared by the mechanism tests."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np

from dprelease.mechanisms.law import GridLaw, GridRequest
from dprelease.schema.domain import GridSet

EPSILONS = [Fraction(n, 100) for n in (1, 5, 10, 30, 50, 100, 200, 400, 700, 1000)]


def corpus(count: int = 120) -> list[GridRequest]:
    """Return plans with 1-4 intervals, width-0 islands, and sensitivities up to the hull."""
    pick = random.Random("plans")
    plans = []
    for i in range(count):
        runs, at = [], pick.randint(-9, 9)
        for _ in range(1 + i % 4):
            width = 0 if pick.random() < 0.3 else pick.randint(1, 6)
            runs.append((at, at + width))
            at += width + pick.randint(2, 7)
        allowed = GridSet.from_runs(runs)
        sensitivity = pick.choice(
            [1, 2, max(1, allowed.hull_steps // 3), max(1, allowed.hull_steps)]
        )
        loss: Any = "absolute" if i % 2 else "squared"
        plans.append(GridRequest(allowed, sensitivity, EPSILONS[i % len(EPSILONS)], loss))
    return plans


def hull(allowed: GridSet) -> range:
    return range(allowed.lower, allowed.upper + 1)


def worst_ratio(pmfs: dict[int, dict[int, Any]], distance: int) -> Any:
    """Return the largest P(y | q) / P(y | q') over all pairs at most `distance` apart, exactly.

    Floats tell only which quotients are far below the largest: those are not divided exactly.
    """
    worst: Any = 0
    floats = {q: {y: float(w) for y, w in p.items()} for q, p in pmfs.items()}
    about = 0.0
    for q, p in pmfs.items():
        for other in range(q - distance, q + distance + 1):
            if other in pmfs and other != q:
                r, near = pmfs[other], floats[other]
                for y, w in floats[q].items():
                    if near[y] < 1e-290 or w > about * near[y]:
                        worst = max(worst, p[y] / r[y])
                        about = float(worst) * (1 - 1e-9)
    return worst


def enumerate_law(law: GridLaw) -> dict[int, dict[int, Any]]:
    """Return {answer: {output: probability}} for every hull answer."""
    return {q: law.pmf(q) for q in hull(law.allowed)}


def renyi_rate(law: dict[int, dict[int, Fraction]], distance: int) -> float:
    """Return the largest D_alpha / alpha over pairs within `distance` and a list of alphas."""
    logs = {q: np.log([float(w) for w in row.values()]) for q, row in law.items()}
    worst = 0.0
    for q, p in logs.items():
        for k in range(-distance, distance + 1):
            if k and q + k in logs:
                r = logs[q + k]
                for alpha in (1.001, 1.5, 2.0, 5.0, 30.0):
                    terms = alpha * p + (1 - alpha) * r
                    peak = float(terms.max())
                    total = peak + math.log(float(np.exp(terms - peak).sum()))
                    worst = max(worst, total / (alpha - 1) / alpha)
    return worst


class StuckBits:
    """A broken source: the same byte for ever."""

    def __init__(self, byte: int) -> None:
        self.byte = byte

    @property
    def system(self) -> bool:
        return False

    def read(self, count: int) -> bytes:
        return bytes([self.byte]) * count
