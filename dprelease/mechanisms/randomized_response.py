"""Randomised response over K bins: report the answer's own bin, or any other one, by chance.

The hull is cut into K bins of (nearly) equal width, each with one public allowed value. For an
answer in bin i the value of bin i has weight e^epsilon, every other one weight 1.

Privacy. The chance of any value changes by a factor of at most e^epsilon between *any* two
answers, so the sensitivity does not matter: this is the family for sensitivities of half the
hull and more. Which bin an answer lies in is an exact integer comparison.

Place    no noise: explicit rows; form `forms/rows.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#randomised-response`;
         `docs/theory/certificates.md#explicit-rows`.
Erratum  none known.
Units    domain's unit for locations; grid steps on a grid; epsilon in nats.
Sources  Warner, "Randomized response: a survey technique for eliminating evasive answer bias";
         K and the values are chosen by price
         (`docs/theory/kernels-and-boundaries.md#randomised-response`).
Limits   finite domains; at most `BIN_LIMIT` bins. Its values are point masses: they must be allowed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.errors import ArgumentError
from dprelease.mechanisms.arguments import FloatArray, check_domain, check_locations
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.law import GridLaw, GridRequest, Loss
from dprelease.mechanisms.unit_law import UnitLaw, on_grid
from dprelease.numeric import Number, exp_lower, positive, ranking
from dprelease.schema.domain import Domain, GridSet

BIN_LIMIT = 16
_TOTAL = 2**50
_PLANNED_BINS = 8
_FINE = 512


@dataclass(frozen=True, slots=True, init=False)
class RandomizedResponse:
    """Randomised response over `bins` equal bins of `domain`'s hull, at `epsilon`."""

    domain: Domain
    epsilon: Fraction
    bins: int | None
    sensitivity: Fraction | None

    def __init__(
        self,
        domain: Domain,
        *,
        epsilon: Number | None = None,
        bins: int | None = None,
        scale: Number | None = None,
        sensitivity: Number | None = None,
    ) -> None:
        """Build from `epsilon`, or from `scale` = hull width / epsilon; `bins` None: by price.

        Raises:
            ArgumentError: not a finite Domain (DPR629, DPR681), not exactly one of epsilon and
                scale, or bins outside 2..16 (DPR681); numbers not above 0 (DPR606).
        """
        check_domain(domain)
        if not isinstance(domain.width, Fraction):
            raise ArgumentError(
                "randomised response needs a finite domain",
                fix="declare both ends of the range",
                code="DPR681",
            )
        if (epsilon is None) == (scale is None):
            raise ArgumentError(
                "randomised response needs either epsilon or a scale",
                fix="use RandomizedResponse.calibrate(domain, sensitivity=..., epsilon=...)",
                code="DPR681",
            )
        if bins is not None and not 2 <= bins <= BIN_LIMIT:
            raise ArgumentError(
                f"bins lies between 2 and {BIN_LIMIT}",
                fix="leave it out: the planner chooses it",
                code="DPR681",
            )
        if epsilon is None:
            budget = max(domain.width, Fraction(1, 10**9)) / positive(scale, "scale")
        else:
            budget = positive(epsilon, "epsilon")
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "epsilon", budget)
        object.__setattr__(self, "bins", bins)
        distance = None if sensitivity is None else positive(sensitivity, "sensitivity")
        object.__setattr__(self, "sensitivity", distance)

    @classmethod
    def calibrate(
        cls, domain: Domain, *, sensitivity: Number, epsilon: Number, bins: int | None = None
    ) -> RandomizedResponse:
        """Return the mechanism of loss `epsilon`, for every distance; see `__init__` for errors."""
        return cls(domain, epsilon=epsilon, bins=bins, sensitivity=sensitivity)

    @property
    def scale(self) -> float:
        """Hull width / epsilon, in the domain's unit."""
        return float(Fraction(self.domain.width) / self.epsilon)

    def loss(self, *, sensitivity: Number) -> float:
        """Return epsilon: neighbouring answers may lie in different bins, however close."""
        positive(sensitivity, "sensitivity")
        return 0.0 if self.domain.width == 0 else float(self.epsilon)

    def pdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return 0: the law consists of point masses, which show in `cdf`."""
        points, _ = np.broadcast_arrays(
            np.asarray(x, float), check_locations(self.domain, location)
        )
        return np.zeros(points.shape)

    def cdf(self, x: npt.ArrayLike, location: npt.ArrayLike) -> FloatArray:
        """Return P(Y <= x), vectorised over `x` and `location`."""
        points, q = np.broadcast_arrays(
            np.asarray(x, dtype=float), check_locations(self.domain, location)
        )
        values, chance = self._table(q.ravel())
        below = values[None, :] <= points.ravel()[:, None]
        out: FloatArray = np.minimum((below * chance).sum(axis=1), 1.0)
        return out.reshape(points.shape)

    def mean(self, location: npt.ArrayLike) -> FloatArray:
        """Return the mean of the released value per location."""
        q = check_locations(self.domain, location)
        values, chance = self._table(q.ravel())
        out: FloatArray = (values * chance).sum(axis=1)
        return out.reshape(q.shape)

    def variance(self, location: npt.ArrayLike) -> FloatArray:
        """Return the variance of the released value per location (unit squared)."""
        q = check_locations(self.domain, location)
        values, chance = self._table(q.ravel())
        mean = (values * chance).sum(axis=1, keepdims=True)
        out: FloatArray = ((values - mean) ** 2 * chance).sum(axis=1)
        return out.reshape(q.shape)

    def mass(self, location: npt.ArrayLike) -> FloatArray:
        """Return the chance that the answer's own bin is reported."""
        q = check_locations(self.domain, location)
        law = self._fine().law
        assert isinstance(law, RowLaw)
        row = law.rows[0]
        return np.full(q.shape, max(row) / sum(row))

    def _fine(self) -> UnitLaw:
        """The law on a fine grid stands for the continuous one in the curves."""
        width = Fraction(self.domain.width)
        step = width / _FINE if width else Fraction(1)
        points = [a for a, b in self.domain.exact_pieces if a == b]
        if points:  # isolated values must be on the grid
            step = Fraction(
                1, math.lcm(*(Fraction(p).denominator for p in points), step.denominator)
            )
        return self.on_grid(step)

    def _table(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        unit = self._fine()
        law = unit.law
        assert isinstance(law, RowLaw)
        chance = np.array(law.rows, dtype=float)
        chance /= chance.sum(axis=1, keepdims=True)
        begins = np.array([float(s * unit.step) for s in law.starts])
        row = np.maximum(np.searchsorted(begins, q, side="right") - 1, 0)
        return np.array([float(y * unit.step) for y in law.outputs]), chance[row]

    def on_grid(self, step: Number, *, loss: Loss = "absolute") -> UnitLaw:
        """Return the certified law on multiples of `step` (see `unit_law.on_grid`)."""

        def build(request: GridRequest) -> list[GridLaw]:
            return [_best(request, self.bins)]

        distance = self.sensitivity or max(Fraction(self.domain.width), Fraction(1))
        return on_grid(self.domain, step, distance, self.epsilon, build, loss=loss)

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the best number of bins, unless point masses are forbidden or coordinates add up."""
        if not request.point_masses or request.splits:
            return []
        return [_best(request, None)]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the table law."""
        return RowLaw.from_json(value)


def _best(request: GridRequest, bins: int | None) -> RowLaw:
    points = request.allowed.hull_steps + 1
    most = min(_PLANNED_BINS, points)
    counts = range(2, most + 1) if bins is None else [min(bins, points)]
    laws = [
        _law(request, max(count, 1), balance)
        for count in counts or [1]
        for balance in ((0, 1, 2) if request.criterion == "worst" else (0,))
    ]
    return min(laws, key=lambda law: ranking(law.expected_error().by(request.criterion)))


def _law(request: GridRequest, count: int, balance: int) -> RowLaw:
    """Return the law with `count` bins; `balance` moves values from Bayes' towards bin centres.

    The values are fixed functions of public numbers: they cost accuracy at worst.
    """
    allowed = request.allowed
    low, points = allowed.lower, allowed.hull_steps + 1
    starts = [low + points * i // count for i in range(count)]
    own, other = _weights(request.epsilon, count)
    centres = []
    for i, start in enumerate(starts):
        end = (starts[i + 1] if i + 1 < count else low + points) - 1
        bayes = _posterior(request, start, end, own, other)
        centres.append(
            Fraction(bayes * (2 - balance) + balance * Fraction(start + end, 2), 2)
            if balance
            else bayes
        )
    values = _allowed_near(allowed, centres)
    outputs = sorted(set(values))
    rows = []
    for i in range(count):
        weight = dict.fromkeys(outputs, 0)
        for k, y in enumerate(values):
            weight[y] += own if k == i else other
        rows.append(tuple(weight[y] for y in outputs))
    return RowLaw(
        allowed, request.sensitivity, request.epsilon, request.loss, "randomized_response",
        tuple(starts), tuple(outputs), tuple(rows),
    )  # fmt: skip


def _weights(epsilon: Fraction, count: int) -> tuple[int, int]:
    """Return (own, other) with own / other at most e^epsilon, slack included, total about 2**50."""
    limit = exp_lower(min(epsilon, Fraction(34))) * (1 - Fraction(1, 2**40))
    other = max(1, math.ceil(_TOTAL / (limit + count - 1)))
    return max(other, math.floor(other * limit)), other


def _posterior(request: GridRequest, start: int, end: int, own: int, other: int) -> Fraction:
    """Return the posterior median or mean of the answer, uniform on the hull, given one bin."""
    low, points = request.allowed.lower, request.allowed.hull_steps + 1
    inside = end - start + 1
    total = other * points + (own - other) * inside
    if request.loss == "squared":
        first = other * points * Fraction(2 * low + points - 1, 2)
        return (first + (own - other) * inside * Fraction(start + end, 2)) / total

    # The least answer up to which half of the mass lies, in front of the bin, inside or behind it.
    half = -(-total // 2)
    front, within = other * (start - low), own * inside
    if half <= front:
        return Fraction(low - 1 - (-half // other))
    if half <= front + within:
        return Fraction(start - 1 - ((front - half) // own))
    return Fraction(end - ((front + within - half) // other))


def _allowed_near(allowed: GridSet, centres: Sequence[Fraction]) -> list[int]:
    """Return the allowed point nearest to each centre, the lower one of two."""
    rounded = np.array([[math.floor(c), math.ceil(c)] for c in centres], dtype=np.int64)
    pairs = allowed.nearest(rounded).tolist()
    return [
        min(pair, key=lambda y: (abs(y - c), y)) for pair, c in zip(pairs, centres, strict=True)
    ]
