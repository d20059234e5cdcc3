"""Several quantiles of one column, each chosen between those chosen before it, where that is the best way.

One certificate at the spread over all levels covers every way to distribute it over groups, as for a single choice
(`measurements.ranks`). Under zCDP a level is of bounded range and the levels add up: about a share 1 / levels of the
rho of one choice of that loss.

There are three ways at one epsilon: each of the m values by itself at epsilon / m, all by one choice of sequences
(`measurements.joint_ranks`), or one inside the other. Of the first two the other families take one; this one
takes over where the root mean square of its rank errors is less, by the plain law of each on rows that all differ: two-sided
exponential errors, sums of them that end at zero, or sums of them along the choices. This is arithmetic on public numbers, and the
plan names it. What holds for all data is `rank_error`. Where a single choice is as fine as a fortieth of the rows, the
values have to be twice as near: of a value that many rows share it sees the rows on both sides.

All values of a group are needed, so the grid has at most `TABLE_LIMIT` points over all groups; where the column's own
is finer and the statistic declares no step, every tenth or hundredth point of it is taken.

Units: candidates in steps of `step`; scores in rows / UNITS.
Shapes: exact `(groups, 1)`, the `joint_ranks.Positions` of each group; raw `(groups, many)`, places of the chosen points
among the allowed ones, never falling.
Source: `docs/theory/quantiles.md#one-inside-the-other`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar

import numpy as np

from dprelease.budget.composition import Proof
from dprelease.core.choice_tree import depth
from dprelease.core.codec_notes import AtLeast, Note
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import PlanError
from dprelease.core.numeric import counted
from dprelease.measurements.base import Claim
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.joint_ranks import (
    OrderedLaw,
    able,
    joined,
    nats_per_step,
    share_of,
    tied,
)
from dprelease.measurements.law import Law, Objects, underclaimed
from dprelease.measurements.members import Member
from dprelease.measurements.price import REFERENCE_SIZE
from dprelease.measurements.ranks import (
    ExponentialLaw,
    Ranks,
    code_of,
    evenly,
    exponential_notes,
    sensitivity_text,
    unit_of,
)
from dprelease.measurements.ranks_price import exponential_error
from dprelease.measurements.several_ranks import RankShape, bridge, part_of_rho, shape_of
from dprelease.mechanisms.forms.recursive_scores import Copies
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.query.answer import TABLE_LIMIT
from dprelease.query.bounded import BoundedQuery
from dprelease.query.spec import Query
from dprelease.schema.domain import GridSet
from dprelease.schema.unit import Adjacency
from dprelease.statistics.joint_ranks import Positions, joint_spreads
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.ranks import candidates, spreads, target
from dprelease.statistics.recursive_ranks import (
    UNITS,
    recursive_ranks,
)
from dprelease.statistics.sensitivity import Sensitivity

_LEVEL = 0.95
_MOST = UNITS * 2**17
"""Scores that are told apart: of a node up to 2**17 rows on either side of its aim are looked at."""
COPIES = 2**13
"""Candidates of each point: what the choices part is met within c / 2**14 of c rows that share a value."""
_SHARING = 1000
"""Rows of one value for which an error is stated beside that of rows that all differ."""
_COARSER = 100
"""How much coarser than the column's own a grid may be made."""
_SEQUENCE = 31
"""Values up to which one choice of sequences misses by fewer rows, if rows come and go: `benchmarks/results/quantiles.md`."""
_FINE, _NEARER = 40, 2
"""Single choices whose error is less than that part of the rows find values that so many share; then this one must err that much less."""
_MOST_CHOICES = 2**16
"""Choices that a draw may take over all groups, some milliseconds each."""


@dataclass(frozen=True, slots=True)
class RecursiveRanksLaw(OrderedLaw):
    """As many points per group, in order, as there are `targets`, each chosen between those around it.

    Attributes:
        targets: a_1 .. a_m of the measurement's weights, rising, over `b`.
    """

    tag: ClassVar[str] = "recursive_ranks"
    units: ClassVar[int] = UNITS
    constants: ClassVar[Mapping[str, str]] = {"draw": "tag", "units": "units"}

    targets: tuple[int, ...] = ()
    b: Annotated[int, AtLeast(1)] = 1
    copies: Annotated[int, AtLeast(1), Note.always] = COPIES

    @property
    def weights(self) -> tuple[tuple[int, int, int], ...]:
        """The measurement's weights that it is for."""
        return tuple((a, self.b, 0) for a in self.targets)

    @property
    def shape(self) -> RankShape:
        return shape_of(self.targets, self.b)

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        if self.law.candidates != self.copies * len(self.allowed) or self.many != len(self.targets):
            raise underclaimed("number of candidates")
        if self.step <= 0 or self.law.spread < sensitivity.l1_over_groups:
            raise underclaimed("sensitivity")
        return self.law.certify().epsilon_upper

    def completed(self) -> RecursiveRanksLaw:
        _ = self.shape  # ValueError for targets that do not rise
        return self

    def proof(self, sensitivity: Sensitivity) -> Proof:
        """Return one loss, and the rho of its levels: each is of bounded range, and they add up."""
        plain = ExponentialLaw.proof(self, sensitivity)
        assert plain.tight is not None
        return replace(plain, tight=part_of_rho(self.weights) * plain.tight)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty((exact.shape[0], self.many), dtype=object)
        shape = self.shape
        for group, (rows,) in enumerate(exact):
            chosen = self.candidates_of(rows).draw(self.law, shape.nodes, shape.units, bits)
            out[group] = [copy // self.copies for copy in chosen]
        return out

    def candidates_of(self, rows: Positions) -> Copies:
        """Return the candidates of one group."""
        places = self.allowed.places(rows.codes + self.allowed.lower)
        return Copies(places, rows.below, rows.upto, len(self.allowed), rows.total, self.copies)

    def rank_error(self, denominator: int, level: float, sharing: int = 1) -> int | None:
        """Return r: each chosen value is at most r rows from its target rank, all of them at `level`.

        For all data of which no more than `sharing` rows have one value.
        See `docs/theory/quantiles.md#one-inside-the-other`.
        """
        del denominator
        rate, points = self.law.rate, len(self.allowed)
        near = min(self.law.last, max(1, round(1 / rate))) if rate else self.law.last
        # copies within `near` steps of the aim, and those of all that may be further
        close = max(Fraction(1), Fraction(near * self.copies, max(self.shape.units) * sharing))
        others = Fraction(self.copies * points + self.many) / close + self.many
        room = 1 - (1 - level) / depth(self.many)
        error = self.law.score_error(room, others, near)
        if error is None:
            return None
        own = self.shape.most * Fraction(error + 1, min(self.shape.units))
        return math.ceil(own + self.per_row_shared * sharing)

    def typical_scale(self, denominator: int, view: int) -> float:
        del denominator
        return math.sqrt(self.shape.squares[view]) / (self.law.rate * UNITS)

    @property
    def per_row_shared(self) -> Fraction:
        """How far each row that shares a value moves the aims inside it, at most."""
        return (self.shape.most - 1) / (2 * self.copies)

    @classmethod
    def calibrate(
        cls,
        allowed: GridSet,
        step: Fraction,
        weights: Sequence[Sequence[int]],
        *,
        spread: int,
        epsilon: Fraction,
        copies: int = COPIES,
    ) -> RecursiveRanksLaw:
        """Return the choices of largest rate whose loss is at most `epsilon`; as `ScoreLaw.calibrate`."""
        law = ScoreLaw.calibrate(
            copies * len(allowed), spread=spread, epsilon=epsilon, most=_MOST, joint=True
        )
        targets = tuple(w[0] for w in weights)
        return cls(law, allowed, step, len(targets), targets, weights[0][1], copies)


class RecursiveRanks(Ranks):
    """The rows of one column value by value, for several ranks chosen one inside the other."""

    family = "recursive_ranks"
    draws = ("recursive_ranks",)
    forms = ("recursive_ranks",)
    mechanisms = ("exponential",)
    one_law = True

    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return the choices of all values; each errs by as much as a single one of the same mean square."""
        measurement, size, loss = pricing.measurement, pricing.size, pricing.loss
        code = code_of(measurement)
        weights = measurement.weights
        law = RecursiveRanksLaw.calibrate(
            code.grid,
            code.step,
            weights,
            spread=pricing.sensitivity.l1_over_groups,
            epsilon=pricing.epsilon,
        )
        unit = unit_of(code, loss)
        rate, squares = law.law.rate * UNITS / law.b, law.shape.squares
        views = [m.view or 0 for m in pricing.block.members]
        points = len(code.grid)
        errors = tuple(
            unit * exponential_error(rate / math.sqrt(squares[i]), points, size, weights[i], loss)
            for i in views
        )
        missed = [_missed(math.sqrt(squares[i]) / (law.law.rate * UNITS)) for i in views]
        note = f"{law.many} values chosen one inside the other: {missed[0]}"
        if (least := tied(points, size)) > 1:
            note += f"; if there are {size:,} rows, {least:,} or more of them share a value"
        return [Candidate(measurement, law, errors, (None,) * len(errors), note=note)]

    def rivals(
        self, member: Member, best: Candidate, pricing: Pricing, claimed: Claim
    ) -> list[Option]:
        """Return the other ways to choose the same values, by their errors of rows that all differ."""
        mine, i = best.measurement, member.view or 0
        many, points = len(mine.weights), len(code_of(mine).grid)
        a, b, _ = mine.weights[i]
        p = Fraction(a, b)
        row, swap = spreads(p.numerator, p.denominator, 0)
        one = replace(mine, form="ranks", l1_added_row=row, l1_replaced_row=swap)
        scale = claimed(one).l1_over_groups / (p.denominator * float(pricing.epsilon))
        found = [(f"by itself at epsilon/{many}", many * scale)]
        if able(points, many, member.statistic.groups):
            row, swap = joint_spreads(mine.weights)
            other = replace(mine, form="joint_ranks", l1_added_row=row, l1_replaced_row=swap)
            scale = claimed(other).l1_over_groups / (b * float(pricing.epsilon))
            found.append(("together by one choice", scale * math.sqrt(bridge(i, many) / 2)))
        name = ScoreLaw.family
        return [Option(name, None, None, f"{how}: {_missed(s)}") for how, s in found]

    def together(self, members: list[Member], query: Query) -> list[Member]:
        """Return `members`, those that are chosen one inside the other with one measurement and their place in it."""

        def chosen(rising: Sequence[Member]) -> Measurement | None:
            made = _measured(rising)
            return None if made is None or not _better(rising, made, query) else made

        return joined(members, chosen)

    def refusal(
        self, measurement: Measurement, law: Law, task: BoundedQuery, at: Sequence[int]
    ) -> str:
        """Its law aims at the measurement's own targets."""
        why = Ranks.refusal(self, measurement, law, task, at)
        if not why and isinstance(law, RecursiveRanksLaw) and law.weights != measurement.weights:
            return "its law is of other targets"
        return why

    def error_text(self, law: Law, measurement: Measurement, view: int | None) -> str:
        said = Ranks.error_text(self, law, measurement, view)
        assert isinstance(law, RecursiveRanksLaw)
        known = law.rank_error(law.b, _LEVEL) is not None
        return f"{said} if no two rows share a value" if known else said

    def notes(self, law: Law, measurement: Measurement, view: int | None) -> tuple[str, ...]:
        assert isinstance(law, RecursiveRanksLaw)
        return _notes(law, target(measurement, view), view or 0)

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        return sensitivity_text(Fraction(round(100 * s.l1_over_groups / UNITS), 100))


def _notes(law: RecursiveRanksLaw, aimed: Measurement, view: int) -> tuple[str, ...]:
    """Return the report's sentences: as of a single choice, but for the others and for rows of one value."""
    choice, error, *rest = exponential_notes(law, aimed, view)
    rows, shared = (law.rank_error(law.b, _LEVEL, sharing) for sharing in (1, _SHARING))
    if rows is not None and shared is not None:
        error = (
            f"with 95 % probability its rank is at most {counted(rows, 'row')} from that aim if no two rows "
            f"share a value, and {shared:,} if no more than {_SHARING:,} do, for any data"
        ) + evenly(law, law.b, view)
    choice = choice.replace(";", f", together with {law.many - 1} others;", 1)
    inside = (
        f"chosen one inside the other, in {depth(law.many)} levels of which a row is in one choice each: their values never fall, and the "
        "bound holds for all at once"
    )
    return (choice, error, inside, *rest)


def _missed(scale: float) -> str:
    """Return the root mean square of an error, of a two-sided exponential one of that scale, in words."""
    return f"about {math.sqrt(2) * scale:.3g} rows in rank, root mean square where all rows differ"


def _measured(rising: Sequence[Member]) -> Measurement | None:
    """Return one measurement of all, on a grid whose every point may be counted; None where it is too much work."""
    first, context = rising[0].options[0], rising[0].statistic
    if context.groups * len(rising) > _MOST_CHOICES:
        return None
    code, most = code_of(first), TABLE_LIMIT // context.groups - 1
    if code.grid.hull_steps > most:
        spec = context.spec
        if spec.step is not None or spec.domain is not None:
            return None
        try:
            coarser = candidates(context, most=most)
        except PlanError:
            return None
        if coarser.step > _COARSER * code.step:
            return None
        first = replace(
            first,
            measures=(replace(first.measures[0], code=coarser),),
            scale=coarser.grid.hull_steps,
            offset=coarser.grid.lower * coarser.step,
            step_size=coarser.step,
        )
    cells = [m.options[0].cells[m.view or 0] for m in rising]
    return recursive_ranks(first, cells, [share_of(m) for m in rising])


def _better(rising: Sequence[Member], made: Measurement, query: Query) -> bool:
    """Return whether it misses ranks by less than the way that the members are measured now, on average.

    A choice of sequences is kept up to `_SEQUENCE` values, and for more where rows are replaced, which moves it half as
    far, or some value is sure to have more rows than one step of the law.
    """
    now, many = rising[0].options[0], len(rising)
    if now.form == made.form:
        return False
    which = 0 if query.schema.adjacency is Adjacency.add_remove else 1
    if len(now.weights) == many:
        per_row = nats_per_step(now, rising, query) * now.weights[0][1]
        sure = tied(len(code_of(now).grid), query.expected or 0) * per_row >= 1
        return many > _SEQUENCE and which == 0 and not sure
    squares = shape_of(tuple(w[0] for w in made.weights), made.weights[0][1]).squares
    mine = (made.l1_added_row, made.l1_replaced_row)[which] / UNITS * sum(map(math.sqrt, squares))
    each = ((m.options[0].l1_added_row, m.options[0].l1_replaced_row)[which] for m in rising)
    alone = sum(s / m.options[0].weights[0][1] for s, m in zip(each, rising, strict=True))
    if mine >= many * alone:
        return False
    error, by_rho = _by_itself(rising, query)
    if error * _FINE > (query.expected or REFERENCE_SIZE):
        return True
    times = math.sqrt(many / part_of_rho(made.weights)) if by_rho else many
    return _NEARER * mine < times * alone


def _by_itself(rising: Sequence[Member], query: Query) -> tuple[float, bool]:
    """Return the mean rank error of values that are chosen by themselves, and whether it is less where rho is added up.

    At equal shares of the request, of rows that all differ. Of rho, a choice of epsilon costs epsilon squared over 8.
    """
    epsilon, delta, gain = float(query.epsilon), query.spec.delta, 0.0
    if not epsilon:  # what goals need
        return math.inf, False
    rates = (nats_per_step(m.options[0], [m], query) * m.options[0].weights[0][1] for m in rising)
    if delta:
        root = math.sqrt(epsilon - math.log(delta)) - math.sqrt(-math.log(delta))  # of rho
        gain = root * math.sqrt(8 * len(query.statistics)) / epsilon
    return sum(1 / rate for rate in rates) / len(rising) / max(1.0, gain), gain > 1


family = RecursiveRanks()
