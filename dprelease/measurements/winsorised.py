"""Two draws, one after the other: limits by rank, then cells of the rows clamped to them.

The first draw chooses two limits, one near the quantile p and one near 1 - p, each by the exponential mechanism at
one rate; they cost what one unit can move both scores together. The second draw adds discrete Laplace noise to two
sums (or Bernstein cells) of the rows clamped to these limits. In units of w^degree, w the width between them in
steps, one unit moves the cells by `total` whatever the limits are, so noise of rate r / w^degree costs r `total` at
every outcome of the first draw, and the losses add up. All those laws exist before the charge: w is a whole number of at least 1, because equal
limits are moved one candidate apart.

Units: codes in steps above the lowest candidate; epsilon in nats. Shapes: exact `(groups, 1)`, the
`joint_ranks.Positions` of each group; raw `(groups, 2 + degree + 1)`, Python integers: both codes, then noisy cells.
Sources: `docs/theory/winsorised-statistics.md#two-draws`, `#what-the-interval-is-for`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.budget.composition import Proof
from dprelease.budget.concentrated import zcdp_of_pure
from dprelease.budget.exact_rho import rho_of_laplace
from dprelease.core.codec_notes import AtLeast
from dprelease.core.entropy import RandomBits
from dprelease.measurements.base import Claim, MeasurementFamily
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.law import RAW_LIMIT, Law, Objects, floats, underclaimed
from dprelease.measurements.members import Loss, Member
from dprelease.measurements.spread import spreads
from dprelease.measurements.winsorised_price import (
    LimitLaw,
    cells_at,
    cells_error,
    power_of,
    stretches_of,
)
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.query.bounded import BoundedQuery, Fixed
from dprelease.query.spec import Query
from dprelease.schema.domain import LongRuns
from dprelease.schema.unit import Adjacency
from dprelease.statistics.base import Floats, Reading
from dprelease.statistics.clipped import DEGREES, clipped, limit_points, limit_scores
from dprelease.statistics.joint_ranks import Positions
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Bounds, Sensitivity, between_limits
from dprelease.statistics.winsorised import Limit, degree_of

_PARTS = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4), Fraction(9, 10))
"""Parts of epsilon that may draw the limits: all are priced."""
_LEVEL = 0.95
_BOTH = Fraction(5, 9)
"""Of the rho of one exponential mechanism with the range of both: (2/3)^2 + (1/3)^2."""


@dataclass(frozen=True, slots=True)
class WinsorisedLaw(Law):
    """Two limits per group by their ranks, then noisy cells of the rows clamped to them.

    Attributes:
        choice: the exponential mechanism that draws one limit, and then the other; its spread is that of both together.
        noise: of the cells where w^degree is 1.
        allowed: the column's values in steps of `step`, of which `clipped.limit_points` may be limits.
    """

    tag: ClassVar[str] = "winsorised"

    choice: ScoreLaw
    noise: CellNoise
    degree: Annotated[int, AtLeast(1)]
    allowed: LongRuns
    step: Fraction

    @property
    def mechanism(self) -> str:
        return self.noise.family

    @property
    def noise_scale(self) -> float | None:
        """The scale in units of one row between the limits: the same for all groups."""
        return float(self.noise.scale)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        return sum(self._parts(sensitivity), Fraction(0))

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, and the rho of its parts: exponential mechanisms of bounded range, then noise on cells.

        The ranges of both draws add up to their loss, and none is more than two thirds of it. Noise between wider
        limits costs no more than where w is 1.
        """
        chosen, noise = self._parts(sensitivity)
        l1, square = sensitivity.l1_over_groups, sensitivity.l2_squared
        square = None if square is None else max(square, l1)
        tight = _BOTH * zcdp_of_pure(chosen, bounded_range=True)
        tight += rho_of_laplace(self.noise.noise.rate, l1, square)
        return Proof(pure=(chosen + noise,), tight=tight)

    def _parts(self, sensitivity: Sensitivity) -> tuple[Fraction, Fraction]:
        """Return the loss of both limits together, and that of the cells at any limits."""
        if sensitivity.score_spread < 1 or self.choice.spread < sensitivity.score_spread:
            raise underclaimed("spread of its limits")
        if (
            self.step <= 0
            or self.choice.candidates != self.codes.size
            or self.degree not in DEGREES
        ):
            raise underclaimed("number of candidates")
        if self.noise.l1_sensitivity < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        return self.choice.certify().epsilon_upper, self.noise.certify().epsilon_upper

    @property
    def codes(self) -> npt.NDArray[np.int64]:
        """The codes that may be limits, rising."""
        return limit_points(self.allowed) - self.allowed.lower

    def noise_at(self, low: int, high: int) -> DiscreteLaplaceNoise:
        """Return the noise of the cells between two limits."""
        return DiscreteLaplaceNoise(self.noise.noise.rate / (high - low) ** self.degree)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty((exact.shape[0], self.degree + 3), dtype=object)
        for group, (rows,) in enumerate(exact):
            low, high = self.pair(*self._places(rows, bits))
            cells = clipped(rows, low, high, self.degree)
            noise = self.noise_at(low, high).draws(len(cells), bits).tolist()
            noisy = (
                min(max(c + n, -RAW_LIMIT), RAW_LIMIT) for c, n in zip(cells, noise, strict=True)
            )
            out[group] = [low, high, *noisy]
        return out

    def _places(self, rows: Positions, bits: RandomBits) -> list[int]:
        """Return the places of both limits among the candidates, in the order of their targets."""
        out = []
        for scores in limit_scores(rows, self.codes):
            first = np.concatenate([[0], 1 + np.flatnonzero(np.diff(scores))])
            counts = np.diff(first, append=scores.size)
            run, place = self.choice.draw_runs(counts, scores[first], bits)
            out.append(int(first[run]) + place)
        return out

    def pair(self, one: int, other: int) -> tuple[int, int]:
        """Return the codes of two drawn places, in order, and a candidate apart where they are the same."""
        codes = self.codes
        low, high = min(one, other), max(one, other)
        if low == high:
            low, high = (low, low + 1) if low + 1 < codes.size else (low - 1, low)
        return int(codes[low]), int(codes[high])

    def cells(self, raw: Objects) -> Floats:
        return floats(raw)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        """Return both limits as they are, and the bounds of the cells between them."""
        known = {}
        for low, high in {(int(a), int(b)) for a, b in raw[:, :2]}:
            share = 1 - (1 - level) / (self.degree + 1)
            known[low, high] = self.noise_at(low, high).quantile(share)
        away = np.zeros(raw.shape, dtype=object)
        away[:, 2:] = [[known[int(a), int(b)]] * (self.degree + 1) for a, b in raw[:, :2]]
        return floats(raw - away), floats(raw + away)

    def empty(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray((raw[:, 2:] <= 0).all(axis=1)).astype(bool)

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        limits = np.clip(raw[:, :2], -1, RAW_LIMIT)
        known = np.isin(limits.astype(object), self.codes.astype(object)).all(axis=1)
        return np.asarray(known & (limits[:, 0] < limits[:, 1]).astype(bool), dtype=bool)

    def published_step(self, member: Member) -> Fraction | None:
        return self.step if isinstance(member.kind, Limit) else None

    def evidence(self) -> dict[str, Any]:
        return {
            "limits": self.choice.certificate.to_json(),
            "law": self.noise.certificate.to_json(),
            "groups_charged": 1,
        }

    @classmethod
    def calibrate(
        cls, code: Fixed, degree: int, sensitivity: Sensitivity, limit: Fraction, rest: Fraction
    ) -> WinsorisedLaw:
        """Return the draw whose limits cost at most `limit` together, and its cells `rest`; as `ScoreLaw.calibrate`."""
        points = limit_points(code.grid).size
        choice = ScoreLaw.calibrate(points, spread=sensitivity.score_spread, epsilon=limit)
        noise = CellNoise.calibrate(sensitivity.l1_over_groups, rest)
        return cls(choice, noise, degree, code.grid, code.step)


class WinsorisedCells(MeasurementFamily):
    """Two limits, drawn first, then cells of the rows clamped to them."""

    family = "winsorised"
    draws = ("winsorised",)
    forms = ("winsorised",)
    mechanisms = ("discrete_laplace",)
    point_masses = True
    sized = True

    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return the ways to part epsilon between the limits and the cells."""
        measurement, out = pricing.measurement, []
        code = measurement.measures[0].code
        assert isinstance(code, Fixed)
        for part in _PARTS:
            limit, rest = pricing.epsilon * part, pricing.epsilon * (1 - part)
            law = WinsorisedLaw.calibrate(
                code, degree_of(measurement), pricing.sensitivity, limit, rest
            )
            stated = tuple(self._errors(m, law, pricing) for m in pricing.block.members)
            worst = tuple(self._worst(m, law, pricing) for m in pricing.block.members)
            note = f"{part} of epsilon draws the limits"
            # Who winsorises expects the rows close together: the last error is of such rows.
            errors = tuple(each[-1] for each in stated)
            out.append(Candidate(measurement, law, errors, worst, stated, note))
        return out

    def _errors(self, member: Member, law: WinsorisedLaw, pricing: Pricing) -> tuple[float, ...]:
        """Return the errors of one statistic for rows that lie as far apart as `measurements.spread` supposes."""
        if isinstance(member.kind, Limit):
            return (0.0,)
        scale = _scale(law.noise, pricing.loss)
        power = power_of(member, pricing.loss)
        widths = self._widths(member, law, pricing.measurement, pricing.size, power)
        return tuple(
            cells_error(member, law.degree, w, pricing.size, scale, pricing.loss) for w in widths
        )

    def _worst(self, member: Member, law: WinsorisedLaw, pricing: Pricing) -> float | None:
        """Return the error where the limits are the ends of the range, as they may be whatever is declared."""
        if isinstance(member.kind, Limit):
            return None
        scale = _scale(law.noise, pricing.loss)
        return cells_error(member, law.degree, 1.0, pricing.size, scale, pricing.loss)

    def _widths(
        self,
        member: Member,
        law: WinsorisedLaw,
        measurement: Measurement,
        size: int,
        power: int = 1,
    ) -> list[float]:
        limits = _limits(law, measurement)
        return [limits.width(s, size, power) for s in stretches_of(member)]

    def rivals(
        self, member: Member, best: Candidate, pricing: Pricing, claimed: Claim
    ) -> list[Option]:
        """Return what the statistic of the declared range would cost at the same epsilon: no other than this is asked for."""
        law = best.law
        assert isinstance(law, WinsorisedLaw)
        if isinstance(member.kind, Limit):
            return []
        scale = _scale(
            CellNoise.calibrate(pricing.sensitivity.l1_over_groups, pricing.epsilon), pricing.loss
        )
        error = max(
            cells_error(member, law.degree, 1.0, pricing.size, scale, pricing.loss, spread=s)
            for (s,) in spreads(member)
        )
        return [
            Option(
                "discrete_laplace",
                error,
                None,
                "not winsorised: another statistic, of the declared range",
            )
        ]

    def together(self, members: list[Member], query: Query) -> list[Member]:
        """Return `members`, those with the same limits with one degree: the least that all can be computed from."""
        del query
        least: dict[object, int] = {}
        for member, key in _with_limits(members):
            own = min(map(degree_of, member.options))
            least[key] = max(own, least.get(key, 1))
        known = {id(m): least[key] for m, key in _with_limits(members)}
        return [_of_degree(m, known[id(m)]) if id(m) in known else m for m in members]

    def refusal(
        self, measurement: Measurement, law: Law, task: BoundedQuery, at: Sequence[int]
    ) -> str:
        """Limits are chosen among exactly the codes whose rows are summed, and cells are of the law's degree."""
        why = MeasurementFamily.refusal(self, measurement, law, task, at)
        if why or not isinstance(law, WinsorisedLaw):
            return why
        if law.degree != degree_of(measurement):
            return "its law is of other cells"
        codes = [task.codes[p.code] for p in (task.primitives[i] for i in at) if p.code is not None]
        known = [(c.grid, c.step) for c in codes if isinstance(c, Fixed)]
        if known != [(law.allowed, law.step)]:
            return "its limits belong to exactly the codes of one column"
        return ""

    def sensitivity(
        self, measurement: Measurement, bounds: Bounds, adjacency: Adjacency, groups: int
    ) -> Sensitivity:
        return between_limits(measurement, bounds, adjacency, groups)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        del member
        ranks = Fraction(s.score_spread, best.measurement.weights[0][1])
        return f"{_rows(ranks)} in rank, then {_rows(Fraction(s.l1_over_groups))} between the drawn limits"

    def error_text(self, law: Law, measurement: Measurement, view: int | None) -> str | None:
        return None if view is None else "exact: the limit that was used"

    def notes(self, law: Law, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        """Return the report's sentences on the limits: which ranks they are for, and how near."""
        assert isinstance(law, WinsorisedLaw)
        a, b, _ = measurement.weights[view or 0]
        error = law.choice.score_error(_LEVEL)
        near = (
            "nothing is known of their ranks at this epsilon"
            if error is None
            else f"with 95 % probability each is at most {_rows(Fraction(-(-error // b)))} further from its rank than the best of them"
        )
        wanted = f"{float(Fraction(a, b)):.6g} of the rows"
        if view is None:
            wanted += f" and {float(1 - Fraction(a, b)):.6g} of them"
        known = law.choice.candidates
        return (f"limits are chosen by rank among {known:,} values; aimed at {wanted}; {near}",)

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        law, measurement = best.law, best.measurement
        assert isinstance(law, WinsorisedLaw)
        width = self._widths(member, law, measurement, size)[-1 if narrow else 0]
        steps = max(1.0, round(width * measurement.scale))
        low = math.floor((measurement.scale - steps) / 2)
        cells = cells_at(law.degree, size, np.array([0.5]))[0] * steps**law.degree
        return np.concatenate([[low, low + steps], cells])

    def counts_known(self, measurement: Measurement) -> bool:
        del measurement
        return True

    def known_rows(
        self, measurement: Measurement, reading: Reading
    ) -> tuple[Floats, Floats] | None:
        """Return what the cells between the limits add up to: each row adds the same to all of them together."""
        each = (reading.raw[:, 1] - reading.raw[:, 0]) ** degree_of(measurement)
        return reading.low[:, 2:].sum(axis=1) / each, reading.high[:, 2:].sum(axis=1) / each

    def mute(
        self, law: Law, measurement: Measurement, size: int, *, view: int | None
    ) -> bool | None:
        return None if view is None else False


def _limits(law: WinsorisedLaw, measurement: Measurement) -> LimitLaw:
    """Return the law of the limits as shares of their candidates' range."""
    a, b, _ = measurement.weights[0]
    codes, whole = law.codes, max(1, law.allowed.hull_steps)
    zero = min(max(-law.allowed.lower / whole, 0.0), 1.0)
    return LimitLaw(codes / whole, zero, law.choice.rate * b, a / b)


def _with_limits(members: Sequence[Member]) -> Iterator[tuple[Member, object]]:
    for member in members:
        (first, *_) = member.options
        if first.form == "winsorised":
            spec = member.statistic.spec
            yield member, (first.key[1:3], member.max_rows, spec.mechanism)


def _of_degree(member: Member, degree: int) -> Member:
    options = tuple(o for o in member.options if degree_of(o) == degree)
    limit = member.kind
    return replace(member, options=options, view=limit.side if isinstance(limit, Limit) else None)


def _scale(noise: CellNoise, loss: Loss) -> float:
    """Return the scale of continuous noise with this one's mean error: prices simulate that."""
    return noise.mean_abs() if loss == "absolute" else math.sqrt(noise.variance() / 2)


def _rows(count: Fraction) -> str:
    return f"{float(count):,.6g} row" + ("" if count == 1 else "s")


family = WinsorisedCells()
