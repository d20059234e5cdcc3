"""Price every admissible law of a block and keep the best.

Scalars. `grid_laws` prices every family on the grid law itself. When one unit can touch several
groups there are two sound ways to cover it: one law whose loss is linear in the shift at the L1
sensitivity over all groups, or any law at epsilon / touched per group (sequential composition);
both are priced.

Cells. Discrete Laplace at the L1 sensitivity. A mean also has the released-size truncated form
(`docs/theory/sensitivities-and-contribution-bounding.md#truncated-mean`); without spikes it is
the only one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

from dprelease import registry
from dprelease.aggregates.encoding import CHOICES, Encoding
from dprelease.aggregates.joint_ranks import LEVELS
from dprelease.aggregates.ranks import aimed, near, target
from dprelease.errors import ArgumentError, PlanError
from dprelease.measurements.cells import CellDraw
from dprelease.measurements.constant import ConstantDraw
from dprelease.measurements.draw import Draw
from dprelease.measurements.graph_box import BoxDraw, box_errors
from dprelease.measurements.joint_ranks import JointChoiceDraw
from dprelease.measurements.ranks import ChoiceDraw
from dprelease.measurements.scalar import ScalarDraw, steps_moved
from dprelease.measurements.truncated_mean import MeanDraw, mean_reach
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.law import (
    Criterion,
    ExpectedError,
    GridLaw,
    GridRequest,
    family_laws,
    grid_laws,
)
from dprelease.planning.choice_price import choice_error, rows_inside
from dprelease.planning.choice_words import aim
from dprelease.planning.law_grid import (
    MOST_POINTS,
    additive_grid,
    rounded_error,
    scalar_domain,
    truncated_grid,
)
from dprelease.planning.layout import WITHOUT_ATOMS, BlockLayout, Member
from dprelease.planning.model import Option
from dprelease.planning.several import WAYS
from dprelease.planning.spread import cells_errors, rooted
from dprelease.planning.steps import best_step
from dprelease.query.answer import TABLE_LIMIT
from dprelease.query.bounded import Fixed
from dprelease.schema.domain import GridSet
from dprelease.sensitivity import Sensitivity

__all__ = ["Candidate", "Loss", "candidates", "rooted_worst"]

Loss = Literal["absolute", "squared"]
_SIZE_SHARE = Fraction(1, 5)
"""Part of a truncated mean's epsilon that pays for its size; measured, no theorem."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to draw a block, with the error of each member (statistic's unit, or its square).

    `stated` holds, per member, the error at each spread of its rows (`planning.spread`), and `errors`
    the largest of them; empty where no error depends on the spread.
    """

    encoding: Encoding
    draw: Draw
    errors: tuple[float, ...]
    worst: tuple[float | None, ...]
    stated: tuple[tuple[float, ...], ...] = ()

    def price(self, judge: Criterion) -> float:
        """Return what the candidates of a block are ranked by, over all members.

        Where an error does not depend on the answer, or its worst is not known, it is the average.
        """
        if judge == "average":
            return sum(self.errors)
        parts = zip(self.errors, self.worst, strict=True)
        return sum(e if w is None else w for e, w in parts)

    def moved(self, known: dict[Encoding, Sensitivity]) -> Sensitivity:
        """Return the sensitivity among `known`, which are of the encodings before they were aimed.

        A shifted target (min, max) moves by as much as the unshifted one: it is a public constant.
        """
        return next(s for e, s in known.items() if self.measures_as(e))

    def measures_as(self, encoding: Encoding) -> bool:
        """Return whether `encoding` is this candidate's, aimed or not."""
        mine = self.encoding
        return (encoding.key, encoding.per_row, encoding.per_swap) == (
            mine.key,
            mine.per_row,
            mine.per_swap,
        )

    def option(self, member: int) -> Option:
        note = WAYS.get(self.encoding.family, "")
        if isinstance(self.draw, MeanDraw):
            note = "size first, then a truncated mean"
        if isinstance(self.draw, ScalarDraw) and self.draw.touched > 1 and not self.draw.linear:
            note = f"epsilon split over {self.draw.touched} groups"
        if isinstance(self.draw, ChoiceDraw):  # its errors rank the ways, they hold for no data
            return Option(self.draw.mechanism, None, None, aim(self.encoding))
        return Option(self.draw.mechanism, self.errors[member], self.worst[member], note)


def candidates(
    block: BlockLayout,
    epsilon: Fraction,
    loss: Loss,
    size: int,
    sensitivities: dict[Encoding, Sensitivity],
    judge: Criterion = "average",
    like: Candidate | None = None,
) -> list[Candidate]:
    """Return every admissible candidate of `block` at `epsilon`, best first.

    Args:
        size: public guess of rows per group (pricing only).
        sensitivities: of each encoding in `block.options`.
        judge: by the error averaged over answers, or at the worst one.
        like: price only the way that this candidate is drawn: its encoding and family.

    Raises:
        PlanError: none is admissible (DPR212), or the grid is too fine or misses the domain
            (DPR213).
    """
    found: list[Candidate] = []
    refusals: list[ArgumentError] = []
    for encoding in block.options:
        if like is not None and not like.measures_as(encoding):
            continue
        try:
            known = sensitivities[encoding]
            found += _priced(block, encoding, epsilon, loss, size, known, judge, like)
        except ArgumentError as refusal:  # counts only if no other encoding takes the block
            refusals.append(refusal)
    ranked = sorted(found, key=lambda c: c.price(judge))
    while ranked and isinstance(ranked[0].draw, MeanDraw):
        try:
            ranked[0].draw.check_sizes()
            break
        except ArgumentError as refusal:
            refusals.append(refusal)
            del ranked[0]
    if ranked:
        return ranked
    spec = block.members[0].statistic.spec
    if refusals:
        raise PlanError(
            f"cannot build a law for {spec.text}: {refusals[0].what}",
            where=spec.origin,
            why=refusals[0].why,
            fix=refusals[0].fix,
            code="DPR213",
        )
    raise PlanError(
        f"no admissible mechanism for {spec.text}",
        where=spec.origin,
        why="pins and `spikes: forbid` leave no law with a proof",
        fix="allow spikes, or remove the `mechanism` pin"
        if spec.mechanism != "rectified_gaussian"
        else "normal noise has no pure loss: declare e.g. `delta: 0.000001`, or remove the pin",
        code="DPR212",
    )


def _priced(
    block: BlockLayout,
    encoding: Encoding,
    epsilon: Fraction,
    loss: Loss,
    size: int,
    s: Sensitivity,
    judge: Criterion,
    like: Candidate | None,
) -> list[Candidate]:
    """Return the candidates of one encoding; ArgumentError if its laws cannot be built."""
    match encoding.family:
        case "constant":
            draw = ConstantDraw(int(encoding.value))
            free = (0.0,) * len(block.members)
            return [Candidate(encoding, draw, free, free)]
        case "scalar":
            return _scalars(block, encoding, epsilon, loss, s, judge, like)
        case "truncated_mean":
            return _means(block, encoding, epsilon, loss, size, s)
        case _ if encoding.form in CHOICES and len(encoding.weights) > 1:
            return [_joint_choice(block, encoding, epsilon, loss, size, s)]
        case _ if encoding.form in CHOICES:
            return [_choice(encoding, epsilon, loss, size, s, block.members[0].context.groups)]
        case "graph_box":
            return [_box(block, encoding, epsilon, loss, s)]
        case _ if _pinned(block) == "rectified_gaussian":
            return []  # normal noise has no pure loss; `planning.gaussian` prices it
        case _:
            return [_cells(block, encoding, epsilon, loss, size, s)]


def _pinned(block: BlockLayout) -> str | None:
    return block.members[0].statistic.spec.mechanism


# --- scalars --------------------------------------------------------------------------------


def _scalars(
    block: BlockLayout,
    encoding: Encoding,
    epsilon: Fraction,
    loss: Loss,
    s: Sensitivity,
    judge: Criterion,
    like: Candidate | None,
) -> list[Candidate]:
    spikes = all(m.statistic.spec.spikes for m in block.members)
    domain = scalar_domain(block, encoding)
    found = []
    pin = _pinned(block)
    alone = pin if pin is not None and pin not in registry.names("mechanisms") else None
    if spikes:
        step, origin, allowed = additive_grid(encoding, domain, s, epsilon)
    else:
        step, origin, allowed = truncated_grid(block, encoding, domain, s, epsilon)
    ways = [(False, epsilon / s.touched)]
    if s.touched > 1 and spikes:
        ways.append((True, epsilon))
    if like is not None and isinstance(like.draw, ScalarDraw):
        ways = [way for way in ways if way[0] == like.draw.linear]
        alone = like.draw.mechanism
    for linear, each in ways:
        shift = steps_moved(s, encoding.pitch, step, linear=linear)
        request = GridRequest(allowed, max(1, shift), each, loss, spikes, linear, judge)
        laws = _family_laws(request, alone) if alone else _cached_laws(request)
        for law, error in laws:
            draw = ScalarDraw(
                law=law,
                linear=linear,
                touched=s.touched,
                shift=shift,
                pitch=encoding.pitch,
                offset=encoding.offset,
                step=step,
                origin=origin,
            )
            squared = loss == "squared"
            unit = float(step) ** 2 if squared else float(step)
            off = 2 * draw.rounded
            average = rounded_error(error.average * unit, off, squared=squared)
            farthest = rounded_error(error.worst * unit, off, squared=squared, worst=True)
            stated = tuple(rooted(m, average, loss) for m in block.members)
            worst = tuple(rooted_worst(m, farthest) for m in block.members)
            found.append(Candidate(encoding, draw, tuple(map(max, stated)), worst, stated))
    return [c for c in found if pin is None or c.draw.mechanism == pin]


def rooted_worst(member: Member, error: float) -> float:
    """A standard deviation from a noisy variance, at worst: |sqrt(a) - sqrt(b)| <= sqrt(|a - b|).

    Squared, that is |a - b|, whose mean is at most the root of its mean square: a root both ways.
    """
    return math.sqrt(error) if member.aggregate.root else error


def _laws(
    allowed: GridSet,
    shift: int,
    epsilon: Fraction,
    loss: Loss,
    spikes: bool,
    linear: bool,
    judge: Criterion = "average",
) -> tuple[PricedLaw, ...]:
    return _cached_laws(GridRequest(allowed, max(1, shift), epsilon, loss, spikes, linear, judge))


class PricedLaw(NamedTuple):
    """A law and its error: both are made once for all statistics with an equal request."""

    law: GridLaw
    error: ExpectedError


@lru_cache(maxsize=4096)
def _cached_laws(request: GridRequest) -> tuple[PricedLaw, ...]:
    return tuple(PricedLaw(law, law.expected_error()) for law in grid_laws(request))


@lru_cache(maxsize=4096)
def _family_laws(request: GridRequest, family: str) -> tuple[PricedLaw, ...]:
    """Return the laws of one family: of another package's where it is pinned, or of a known winner."""
    return tuple(PricedLaw(law, law.expected_error()) for law in family_laws(request, family))


# --- cells ----------------------------------------------------------------------------------


def _cells(
    block: BlockLayout, encoding: Encoding, epsilon: Fraction, loss: Loss, size: int, s: Sensitivity
) -> Candidate:
    noise = CellNoise.calibrate(s.total, epsilon)
    bins = encoding.family in ("bins", "laplacian")
    name = _pinned(block) or "discrete_laplace"
    draw = CellDraw(noise, len(encoding.cells), encoding.upper if bins else None, name)
    if bins:
        error = noise.mean_abs() if loss == "absolute" else noise.variance()
        error *= float(encoding.pitch if loss == "absolute" else encoding.pitch**2)
        stated: tuple[tuple[float, ...], ...] = ((error,),) * len(block.members)
    else:
        stated = tuple(cells_errors(m, encoding, draw, size, loss) for m in block.members)
    return Candidate(encoding, draw, tuple(map(max, stated)), (None,) * len(stated), stated)


def _box(
    block: BlockLayout, encoding: Encoding, epsilon: Fraction, loss: Loss, s: Sensitivity
) -> Candidate:
    """Return one bounded Gaussian law over the members' domains, in the order of the cells."""
    pitches = (encoding.pitch, *([Fraction(1)] * (len(block.members) - 1)))
    draw = BoxDraw.calibrate([m.domain for m in block.members], pitches, s.each, epsilon)
    errors = box_errors(draw, loss)
    return Candidate(encoding, draw, tuple(e[0] for e in errors), tuple(e[1] for e in errors))


def _means(
    block: BlockLayout, encoding: Encoding, epsilon: Fraction, loss: Loss, size: int, s: Sensitivity
) -> list[Candidate]:
    if len(block.members) > 1:
        return []
    member = block.members[0]
    spec = member.statistic.spec
    width = encoding.scale * encoding.pitch
    reach = mean_reach(s, width)
    moving = epsilon * (1 - _SIZE_SHARE) / s.moves
    step = spec.step or best_step(
        max(reach / max(1, size) / 16, Fraction(member.domain.width) / MOST_POINTS), member.domain
    )
    allowed = member.domain.on_grid(step)
    sizes = _size_draw(epsilon * _SIZE_SHARE, s, member)
    draw = MeanDraw(
        size=sizes,
        allowed=allowed,
        step=step,
        reach=reach,
        epsilon=moving,
        moves=s.moves,
        scale=encoding.scale,
        pitch=encoding.pitch,
        offset=encoding.offset,
        mechanism=spec.mechanism or "bounded_laplace",
        loss=loss,
    )
    if spec.mechanism is None:  # the best family at the public guess of the size
        priced = _laws(allowed, draw.shift(size), moving, loss, False, False)
        best = next((p.law.family for p in priced if p.law.family in WITHOUT_ATOMS), draw.mechanism)
        draw = replace(draw, mechanism=best)
    inner = draw.law(size).expected_error()
    off = float(width) / 4 * sizes.law.expected_error().average / max(1, size)
    if loss == "absolute":
        error = math.hypot(inner.average * float(step), off)
    else:
        error = inner.average * float(step) ** 2 + off**2
    return [Candidate(encoding, draw, (error,), (None,))]


def _choice(
    encoding: Encoding, epsilon: Fraction, loss: Loss, size: int, s: Sensitivity, groups: int
) -> Candidate:
    code = encoding.measures[0].code
    assert isinstance(code, Fixed)
    ((a, b, shift),) = encoding.weights
    # what the engine hands over must fit in memory, whatever the rows; scores beyond weigh alike
    each = TABLE_LIMIT // groups
    most = None if code.grid.hull_steps < each else max(0, b * ((each - 3) // 2))
    law = ScoreLaw.calibrate(len(code.grid), spread=s.total, epsilon=epsilon, most=most)
    if a in (0, b) and shift:
        k = rows_inside(law.rate, law.candidates, size, (a // b, 1), loss)
        encoding = replace(encoding, weights=(aimed(a // b, 1, k),))
    error = choice_error(law.rate, law.candidates, size, encoding.weights[0], loss)
    encoding = near(encoding, law.last)
    width = float(code.grid.hull_steps * code.step)
    error *= width if loss == "absolute" else width * width
    return Candidate(encoding, ChoiceDraw(law, code.grid, code.step), (error,), (None,))


def _joint_choice(
    block: BlockLayout, encoding: Encoding, epsilon: Fraction, loss: Loss, size: int, s: Sensitivity
) -> Candidate:
    """Return the choice of all values together; a miss of one rank costs two gaps."""
    code = encoding.measures[0].code
    assert isinstance(code, Fixed)
    many = len(encoding.weights)
    draw = JointChoiceDraw.calibrate(code.grid, code.step, many, spread=s.total, epsilon=epsilon)
    rate = 2 * draw.law.rate * (LEVELS - 1)
    width = float(code.grid.hull_steps * code.step)
    unit = width if loss == "absolute" else width * width
    errors = tuple(
        unit * choice_error(rate, len(code.grid), size, target(encoding, m.view).weights[0], loss)
        for m in block.members
    )
    return Candidate(encoding, draw, errors, (None,) * len(errors))


def _size_draw(epsilon: Fraction, s: Sensitivity, member: Member) -> ScalarDraw:
    cap = member.context.cap or 2**40
    allowed = GridSet(((0, cap),))
    ways = [(False, s.in_group, epsilon / s.touched)]
    if s.touched > 1:
        ways.append((True, s.total, epsilon))
    options = [
        (priced, linear, shift)
        for linear, shift, each in ways
        for priced in _laws(allowed, shift, each, "absolute", True, linear)
    ]
    best, linear, shift = min(options, key=lambda o: o[0].error.average)
    one = Fraction(1)
    return ScalarDraw(best.law, linear, s.touched, shift, one, Fraction(0), one, Fraction(0))
