"""The draw of one candidate per group by its score: quantiles, least and greatest values.

Two laws choose by the same weights and the same proof of epsilon: the exponential mechanism, and permute-and-flip,
whose rank error is never larger. The first is of bounded range and counts an eighth of epsilon squared under zCDP,
the second what any pure law does, up to four times as much. So where losses add up by epsilon the second is taken, and
where they add up by rho the first: it has up to twice the epsilon then.

The exponential law's loss is linear in the spread, and spreads add up over the groups that a unit
changes, so one certificate at the total spread covers every way to distribute it, as for cells with
Laplace noise; permute-and-flip has the same bound. The law is drawn for every group, empty ones too: their
candidates are all alike.

A value chosen by rank has no interval in its own unit (see `statistics.quantile`): `box` is not-a-number. What
holds for all data is `rank_error`.

Units: candidates in steps of `step`; scores in rows times the target's denominator.
Shapes: exact `(groups, 1)`, the `ranks.Stretches` of each group; raw `(groups, 1)`, the candidate's
place among the allowed ones.

Sources: `docs/theory/quantiles.md#rank-errors`, `#scores-by-rank`, `docs/theory/certificates.md#scores`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.budget.composition import Proof
from dprelease.budget.concentrated import zcdp_of_pure
from dprelease.core.codec_notes import Note
from dprelease.core.entropy import RandomBits
from dprelease.core.numeric import counted, shown
from dprelease.measurements.base import MeasurementFamily
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.law import Law, Objects, underclaimed
from dprelease.measurements.members import Loss, Member
from dprelease.measurements.ranks_price import exponential_error, rows_inside
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.query.answer import TABLE_LIMIT
from dprelease.query.bounded import BoundedQuery, Fixed
from dprelease.schema.domain import LongRuns
from dprelease.statistics.base import Floats, Reading
from dprelease.statistics.graph import one_cell
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.ranks import Stretches, aimed, near, target
from dprelease.statistics.sensitivity import Sensitivity

_LEVEL = 0.95
_FLIPS = "by permute-and-flip: under zCDP it costs what any law of its epsilon may, up to four times an exponential mechanism's rho"

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ExponentialLaw(Law):
    """One of the points of `allowed` (in steps) per group, by a law over their scores."""

    tag: ClassVar[str] = "exponential"

    law: ScoreLaw
    allowed: LongRuns
    step: Fraction

    many: Annotated[int, Note.unstored] = 1

    @property
    def mechanism(self) -> str:
        return self.law.family

    @property
    def slope(self) -> Fraction | None:
        return self.law.certify().epsilon_upper / self.law.spread

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.step <= 0 or self.law.candidates != len(self.allowed):
            raise underclaimed("number of candidates")
        if self.law.spread < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        return self.law.certify().epsilon_upper

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, and the rho of its choices: the losses of one pair differ by no more than it."""
        return self._by_group(sensitivity, bounded_range=True)

    def _by_group(self, s: Sensitivity, *, bounded_range: bool) -> Proof:
        """Return one loss, and the rho of one choice per group, of which each has the part that its scores move."""
        plain = Law.proof(self, s)
        whole, rest = divmod(s.l1_over_groups, max(1, s.l1_per_group))
        part = Fraction(whole * s.l1_per_group**2 + rest**2, self.law.spread**2)
        loss = sum(plain.pure, Fraction(0))
        return replace(plain, tight=part * zcdp_of_pure(loss, bounded_range=bounded_range))

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty((exact.shape[0], 1), dtype=object)
        for group, (scores,) in enumerate(exact):
            first, counts, apart = self.runs(scores)
            run, place = self.law.draw_runs(counts, apart, bits)
            out[group, 0] = int(first[run]) + place
        return out

    def runs(self, scores: Stretches) -> tuple[Ints, Ints, Ints]:
        """Return (place of the first, number, score) of the runs of candidates of one group.

        Points inside a gap have a score too, and no row: they are simply no candidates.
        """
        at = self.allowed.places(scores.codes + self.allowed.lower)
        edges = np.concatenate([[-1], at, [self.law.candidates]])
        first, counts, apart = (np.zeros(2 * at.size + 1, dtype=np.int64) for _ in range(3))
        first[0::2], first[1::2] = edges[:-1] + 1, at
        counts[0::2], counts[1::2] = np.diff(edges) - 1, 1
        apart[0::2], apart[1::2] = scores.between, scores.at
        return first, counts, apart

    def cells(self, raw: Objects) -> Floats:
        num, den = self.step.as_integer_ratio()
        points = self.allowed.points_at(raw.ravel().astype(np.int64)).reshape(raw.shape)
        return np.asarray(points.astype(np.float64) * num / den)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        del level
        unknown = np.full(raw.shape, np.nan)
        return unknown, unknown

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        return np.asarray(((raw >= 0) & (raw < len(self.allowed))).astype(bool).all(axis=1))

    def rank_error(self, denominator: int, level: float) -> int | None:
        """Return r: the chosen value is at most r rows from the target rank, at `level`.

        A value has the ranks of all rows that share it, and the nearest counts. For all data that reach the
        target rank (n rows and more, for one n rows inside an end). None where the law does not tell
        candidates so far away apart.
        """
        error = self.law.score_error(level)
        return None if error is None else (error + denominator - 1) // denominator

    def typical_scale(self, denominator: int, view: int) -> float:
        """Return the mean rank error, about, of rows that differ and lie evenly over the domain; `rate` is above 0."""
        del view
        return 1 / (self.law.rate * denominator)

    def published_step(self, member: Member) -> Fraction:
        del member
        return self.step

    def evidence(self) -> dict[str, Any]:
        return {"law": self.law.certificate.to_json(), "groups_charged": 1}


@dataclass(frozen=True, slots=True)
class PermuteAndFlipLaw(ExponentialLaw):
    """The draw of the same value by permute-and-flip."""

    tag: ClassVar[str] = "permute_and_flip"

    law: FlipLaw

    @classmethod
    def from_exponential(cls, law: ExponentialLaw) -> PermuteAndFlipLaw:
        """Return permute-and-flip with the weights of `law`."""
        return cls(FlipLaw.from_scores(law.law), law.allowed, law.step)

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, and the rho of any pure choices: the losses of one pair may differ by twice that."""
        return self._by_group(sensitivity, bounded_range=False)


class Ranks(MeasurementFamily):
    """A score per candidate value: how far its rank is from the one asked for."""

    family = "ranks"
    draws: tuple[str, ...] = ("exponential", "permute_and_flip")
    forms = ("ranks",)
    mechanisms: tuple[str, ...] = ("exponential", "permute_and_flip")
    interval = False
    judged = False

    def priced(self, pricing: Pricing) -> list[Candidate]:
        measurement, size, loss = pricing.measurement, pricing.size, pricing.loss
        code = code_of(measurement)
        ((a, b, offset),) = measurement.weights
        # what the engine hands over must fit in memory, whatever the rows; scores beyond weigh alike
        each = TABLE_LIMIT // pricing.block.members[0].statistic.groups
        most = None if code.grid.hull_steps < each else max(0, b * ((each - 3) // 2))
        spread = pricing.sensitivity.l1_over_groups
        law = ScoreLaw.calibrate(len(code.grid), spread=spread, epsilon=pricing.epsilon, most=most)
        if a in (0, b) and offset:
            k = rows_inside(law.rate, law.candidates, size, (a // b, 1), loss)
            measurement = replace(measurement, weights=(aimed(a // b, 1, k),))
        error = exponential_error(law.rate, law.candidates, size, measurement.weights[0], loss)
        measurement = near(measurement, law.last)
        error *= unit_of(code, loss)
        plain = ExponentialLaw(law, code.grid, code.step)
        return [
            Candidate(measurement, whole, (error,), (None,), note=aim(measurement))
            for whole in (PermuteAndFlipLaw.from_exponential(plain), plain)
            if pricing.pin in (None, whole.mechanism)
        ]

    def seen(
        self, measurement: Measurement, cells: Floats, reading: Reading, view: int
    ) -> tuple[Measurement, Floats, Reading]:
        return one_cell(measurement, cells, reading, view)

    def refusal(
        self, measurement: Measurement, law: Law, task: BoundedQuery, at: Sequence[int]
    ) -> str:
        """Scores belong to a draw among exactly the codes whose rows it counts, as far as it can see."""
        why = MeasurementFamily.refusal(self, measurement, law, task, at)
        if why or not isinstance(law, ExponentialLaw):
            return why
        used = [task.primitives[i] for i in at]
        codes = [task.codes[p.code] for p in used if p.code is not None]
        if not all(p.near is None or p.near.last >= law.law.last for p in used):
            return "its scores are not counted as far from the rank as its law weighs them"
        if [(c.grid, c.step) for c in codes if isinstance(c, Fixed)] != [(law.allowed, law.step)]:
            return "scores by rank belong to a choice among exactly the codes of one column"
        return ""

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        return sensitivity_text(Fraction(s.l1_over_groups, best.measurement.weights[0][1]))

    def error_text(self, law: Law, measurement: Measurement, view: int | None) -> str:
        assert isinstance(law, ExponentialLaw)
        return rank_error_text(law, target(measurement, view), view or 0)

    def notes(self, law: Law, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        assert isinstance(law, ExponentialLaw)
        said = exponential_notes(law, target(measurement, view), view or 0)
        return (*said, _FLIPS) if isinstance(law, PermuteAndFlipLaw) else said

    def typical(
        self, best: Candidate, member: Member, size: int, *, narrow: bool
    ) -> Sequence[float]:
        law = best.law
        assert isinstance(law, ExponentialLaw)
        return (float(len(law.allowed) // 2),) * law.many

    def mute(self, law: Law, measurement: Measurement, size: int, *, view: int | None) -> bool:
        assert isinstance(law, ExponentialLaw)
        return any_rank(law, target(measurement, view), size, view or 0)


def code_of(measurement: Measurement) -> Fixed:
    """Return the values that are chosen among."""
    code = measurement.measures[0].code
    assert isinstance(code, Fixed)
    return code


def unit_of(code: Fixed, loss: Loss) -> float:
    """Return the error of a value that misses by the whole width of the column."""
    width = float(code.grid.hull_steps * code.step)
    return width if loss == "absolute" else width * width


def any_rank(law: ExponentialLaw, measurement: Measurement, size: int, view: int) -> bool:
    """Return whether the 95 % range of ranks of a drawn value is all of `size` rows, if they differ."""
    a, b, offset = measurement.weights[0]
    error = typical_error(law, b, view)
    if error is None:
        return True
    aimed = min(size, abs(offset) // 2) if a in (0, b) else size * min(a, b - a) / b
    return bool(error >= max(aimed, size - aimed))


# What a plan and a report say of a value drawn by rank: its aim and its error, in rows. The rank error
# holds for all data; an error in the column's unit would need the data's density.


def aim(measurement: Measurement) -> str:
    """Return which rank is aimed at: "the value with 19 rows above it"."""
    a, b, offset = measurement.weights[0]
    if a not in (0, b):
        return f"the value at {float(Fraction(a, b)):.6g} of the rows"
    end, beyond = ("first", "below") if a == 0 else ("last", "above")
    if not offset:
        return f"the {end} row's value or any value beyond"
    if abs(offset) == 1:
        return f"the {end} row's value"
    return f"the value with {counted(_beyond(offset), 'row')} {beyond} it"


def sensitivity_text(rows: Fraction) -> str:
    """Return how far one unit moves a rank: "3 rows in rank"."""
    return f"{shown(rows)} row{'s' if rows > 1 else ''} in rank"


def typical_error(law: ExponentialLaw, denominator: int, view: int) -> int | None:
    """Return the rank error at 95 % of rows that differ and lie evenly over the domain; None as `rank_error`.

    Source: `docs/theory/quantiles.md#rank-errors`.
    """
    error = law.rank_error(denominator, _LEVEL)
    if not error or not law.law.rate:
        return error
    return min(error, math.ceil(-math.log1p(-_LEVEL) * law.typical_scale(denominator, view)))


def evenly(law: ExponentialLaw, denominator: int, view: int) -> str:
    """Return what a report says of rows that differ, behind the bound for all data."""
    typical = typical_error(law, denominator, view)
    if typical is None:
        return ""
    return f"; {counted(typical, 'row')} if the rows differ and lie evenly over the domain"


def rank_error_text(law: ExponentialLaw, measurement: Measurement, view: int = 0) -> str:
    """Return the rank errors for a plan's table: "±3 rows in rank where rows differ, ±23 at most (95 %)"."""
    a, b, offset = measurement.weights[0]
    error, typical = law.rank_error(b, _LEVEL), typical_error(law, b, view)
    if error is None or typical is None:
        return "any rank"
    if a not in (0, b):
        return f"±{counted(typical, 'row')} in rank where rows differ, ±{error:,} at most (95 %)"
    where = "from the end where rows differ"
    if not offset:
        return (
            f"0 to {counted(typical, 'row')} {where}, {error:,} at most (95 %), or beyond the data"
        )
    return f"{_beyond(offset):,} ±{counted(typical, 'row')} {where}, ±{error:,} at most (95 %)"


def exponential_notes(
    law: ExponentialLaw, measurement: Measurement, view: int = 0
) -> tuple[str, ...]:
    """Return the report's sentences: aim, error, what is not known."""
    a, b, offset = measurement.weights[0]
    error = law.rank_error(b, _LEVEL)
    data = f"any data of at least {counted(_beyond(offset) + 1, 'row')}" if offset else "any data"
    notes = [
        f"chosen by rank among {len(law.allowed):,} allowed values; it aims at {aim(measurement)}",
        (
            "nothing is known of its rank at this epsilon"
            if error is None
            else f"with 95 % probability its rank is at most {counted(error, 'row')} from that aim, for {data}"
        )
        + evenly(law, b, view),
        "no interval: how far some rows are in values depends on how dense the data are",
        "a group without rows gives any allowed value, and that cannot be seen from the value",
    ]
    if a in (0, b) and abs(offset) > 1:
        notes.append(
            "aiming at the very end would land anywhere beyond the data; "
            "the distance is chosen by public numbers only"
        )
    elif a in (0, b) and not offset:
        notes.append("if the declared range reaches far beyond the data, so may this value")
    elif a not in (0, b):
        notes.append(
            "inverse distribution function: between two equally good rows any value may come"
        )
    return tuple(notes)


def _beyond(offset: int) -> int:
    """Return the rows beyond the one that is aimed at; see `statistics.ranks.aimed`."""
    return abs(offset) // 2


family = Ranks()
