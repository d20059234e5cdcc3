"""Price every admissible law of a block and keep the best.

Scalars. `grid_laws` prices every family on the grid law itself. When one unit can touch several
groups there are two sound ways to cover it: one law whose loss is linear in the shift at the L1
sensitivity over all groups, or any law at epsilon / touched per group (sequential composition);
both are priced.

Cells. Discrete Laplace at the L1 sensitivity. A mean also has the released-size truncated form
(semantics 4.2); without spikes it is the only one.

The grid. A scalar's cell is an integer already; where its sensitivity is thousands of cells, 1,024
or a few more grid steps per sensitivity lose at most 0.1 % and keep tables small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

from dprelease import registry
from dprelease.aggregates.encoding import Encoding
from dprelease.errors import ArgumentError, PlanError
from dprelease.mechanisms.discrete_laplace_noise import CellNoise
from dprelease.mechanisms.exponential_scores import ScoreLaw
from dprelease.mechanisms.law import Criterion, GridLaw, GridRequest, family_laws, grid_laws
from dprelease.planning.box_draw import box_errors
from dprelease.planning.choice_price import choice_error, rows_inside
from dprelease.planning.choice_words import aim
from dprelease.planning.draws import (
    BoxDraw,
    CellDraw,
    ChoiceDraw,
    ConstantDraw,
    Draw,
    MeanDraw,
    ScalarDraw,
    mean_reach,
    steps_moved,
)
from dprelease.planning.layout import WITHOUT_ATOMS, BlockLayout, Member
from dprelease.planning.model import Option
from dprelease.planning.pair_price import pair_error
from dprelease.planning.price import cell_error
from dprelease.planning.several import WAYS
from dprelease.query.bounded import Fixed
from dprelease.schema.domain import Domain, GridSet
from dprelease.sensitivity import Sensitivity

__all__ = ["Candidate", "Loss", "best_step", "candidates", "rooted"]

Loss = Literal["absolute", "squared"]
_FINE = 1024
_MOST_POINTS = 2**15
_SIZE_SHARE = Fraction(1, 5)
"""Part of a truncated mean's epsilon that pays for its size (semantics 4.1, table)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to draw a block, with the error of each member (statistic's unit, or its square)."""

    encoding: Encoding
    draw: Draw
    errors: tuple[float, ...]
    worst: tuple[float | None, ...]

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
        same = (self.encoding.key, self.encoding.per_row, self.encoding.per_swap)
        return next(s for e, s in known.items() if (e.key, e.per_row, e.per_swap) == same)

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
) -> list[Candidate]:
    """Return every admissible candidate of `block` at `epsilon`, best first.

    Args:
        size: public guess of rows per group (pricing only).
        sensitivities: of each encoding in `block.options`.
        judge: by the error averaged over answers, or at the worst one.

    Raises:
        PlanError: none is admissible (DPR212), or the grid is too fine or misses the domain
            (DPR213).
    """
    found: list[Candidate] = []
    refusals: list[ArgumentError] = []
    for encoding in block.options:
        try:
            found += _priced(block, encoding, epsilon, loss, size, sensitivities[encoding], judge)
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
) -> list[Candidate]:
    """Return the candidates of one encoding; ArgumentError if its laws cannot be built."""
    match encoding.family:
        case "constant":
            draw = ConstantDraw(int(encoding.value))
            free = (0.0,) * len(block.members)
            return [Candidate(encoding, draw, free, free)]
        case "scalar":
            return _scalars(block, encoding, epsilon, loss, s, judge)
        case "truncated_mean":
            return _means(block, encoding, epsilon, loss, size, s)
        case "ranks":
            return [_choice(encoding, epsilon, loss, size, s)]
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
) -> list[Candidate]:
    spikes = all(m.statistic.spec.spikes for m in block.members)
    domain = _scalar_domain(block, encoding)
    found = []
    pin = _pinned(block)
    foreign = pin if pin is not None and pin not in registry.names("mechanisms") else None
    if spikes:
        step, origin, allowed = _additive_grid(encoding, domain, s)
    else:
        step, origin, allowed = _truncated_grid(block, encoding, domain, s)
    ways = [(False, epsilon / s.touched)]
    if s.touched > 1 and spikes:
        ways.append((True, epsilon))
    for linear, each in ways:
        shift = steps_moved(s, encoding.pitch, step, linear=linear)
        request = GridRequest(allowed, max(1, shift), each, loss, spikes, linear, judge)
        laws = _pinned_laws(request, foreign) if foreign else _cached_laws(request)
        for law in laws:
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
            error = law.expected_error()
            unit = float(step) if loss == "absolute" else float(step) ** 2
            found.append(
                Candidate(
                    encoding,
                    draw,
                    tuple(rooted(m, error.average * unit) for m in block.members),
                    tuple(rooted(m, error.worst * unit) for m in block.members),
                )
            )
    return [c for c in found if pin is None or c.draw.mechanism == pin]


def rooted(member: Member, error: float) -> float:
    """A standard deviation from a noisy variance: |sqrt(a) - sqrt(b)| <= sqrt(|a - b|).

    Squared, that is |a - b|, whose mean is at most the root of its mean square: a root both ways.
    """
    return math.sqrt(error) if member.statistic.function == "std" else error


def _scalar_domain(block: BlockLayout, encoding: Encoding) -> Domain:
    """The domain the law itself respects: the first member's, or the cell's hull for std."""
    first = block.members[0]
    if len(block.members) > 1 or first.statistic.function == "std":
        low, high = encoding.lower, encoding.upper
        assert high is not None
        return Domain(encoding.offset + encoding.pitch * low, encoding.offset + encoding.pitch * high)
    return first.domain


def _laws(
    allowed: GridSet,
    shift: int,
    epsilon: Fraction,
    loss: Loss,
    spikes: bool,
    linear: bool,
    judge: Criterion = "average",
) -> tuple[GridLaw, ...]:
    return _cached_laws(GridRequest(allowed, max(1, shift), epsilon, loss, spikes, linear, judge))


@lru_cache(maxsize=4096)
def _cached_laws(request: GridRequest) -> tuple[GridLaw, ...]:
    return tuple(grid_laws(request))


@lru_cache(maxsize=256)
def _pinned_laws(request: GridRequest, family: str) -> tuple[GridLaw, ...]:
    """Return the laws of a family that is no built-in one: it is priced only where it is pinned."""
    return tuple(family_laws(request, family))


def _additive_grid(
    encoding: Encoding, domain: Domain, s: Sensitivity
) -> tuple[Fraction, Fraction, GridSet]:
    """Return (step, origin, allowed): cells as they are, or coarsened to about 1,024 per shift."""
    factor = max(1, s.in_group // _FINE) if s.in_group > 4 * _FINE else 1
    divisors = [f for f in range(factor, factor // 2, -1) if s.in_group % f == 0]
    for f in (*divisors[:1], factor, 1):
        step = encoding.pitch * f
        if f > 1 and any(b - a < step for a, b in domain.exact_pieces):
            continue
        return step, encoding.offset, domain.on_grid(step, encoding.offset)
    raise AssertionError("the last factor is 1")  # pragma: no cover


def _truncated_grid(
    block: BlockLayout, encoding: Encoding, domain: Domain, s: Sensitivity
) -> tuple[Fraction, Fraction, GridSet]:
    """Return a grid on which outputs are published as drawn: no rounding may make atoms."""
    spec = block.members[0].statistic.spec
    delta = s.in_group * encoding.pitch
    step = spec.step or _law_step(domain, delta, encoding.pitch if encoding.offset == 0 else None)
    return step, Fraction(0), domain.on_grid(step)


def _law_step(domain: Domain, delta: Fraction, pitch: Fraction | None) -> Fraction:
    """Return a step with about 16 steps per sensitivity and at most 2**15 points."""
    width = Fraction(domain.width)
    if pitch is not None and width / pitch <= _MOST_POINTS and pitch.denominator <= 10**6:
        return pitch
    return best_step(max(delta / 16, width / _MOST_POINTS), domain)


# --- cells ----------------------------------------------------------------------------------


def _cells(
    block: BlockLayout, encoding: Encoding, epsilon: Fraction, loss: Loss, size: int, s: Sensitivity
) -> Candidate:
    noise = CellNoise.calibrate(s.total, epsilon)
    bins = encoding.family in ("bins", "laplacian")
    priced = pair_error if encoding.axes else _single_error
    name = _pinned(block) or "discrete_laplace"
    draw = CellDraw(noise, len(encoding.cells), encoding.upper if bins else None, name)
    if bins:
        error = noise.mean_abs() if loss == "absolute" else noise.variance()
        error *= float(encoding.pitch if loss == "absolute" else encoding.pitch**2)
        errors: tuple[float, ...] = (error,) * len(block.members)
    else:
        errors = tuple(
            priced(m, encoding, float(noise.scale), size, loss) for m in block.members
        )
    return Candidate(encoding, draw, errors, (None,) * len(errors))


def _box(
    block: BlockLayout, encoding: Encoding, epsilon: Fraction, loss: Loss, s: Sensitivity
) -> Candidate:
    """Return one bounded Gaussian law over the members' domains, in the order of the cells."""
    pitches = (encoding.pitch, *([Fraction(1)] * (len(block.members) - 1)))
    draw = BoxDraw.calibrate([m.domain for m in block.members], pitches, s.each, epsilon)
    errors = box_errors(draw, loss)
    return Candidate(encoding, draw, tuple(e[0] for e in errors), tuple(e[1] for e in errors))


def _single_error(member: Member, encoding: Encoding, scale: float, size: int, loss: Loss) -> float:
    return cell_error(member.aggregate, encoding, scale, size, loss)


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
        max(reach / max(1, size) / 16, Fraction(member.domain.width) / _MOST_POINTS), member.domain
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
        best = next((law.family for law in priced if law.family in WITHOUT_ATOMS), draw.mechanism)
        draw = replace(draw, mechanism=best)
    inner = draw.law(size).expected_error()
    off = float(width) / 4 * sizes.law.expected_error().average / max(1, size)
    if loss == "absolute":
        error = math.hypot(inner.average * float(step), off)
    else:
        error = inner.average * float(step) ** 2 + off**2
    return [Candidate(encoding, draw, (error,), (None,))]


def _choice(
    encoding: Encoding, epsilon: Fraction, loss: Loss, size: int, s: Sensitivity
) -> Candidate:
    code = encoding.measures[0].code
    assert isinstance(code, Fixed)
    law = ScoreLaw.calibrate(len(code.grid), spread=s.total, epsilon=epsilon)
    ((a, b, shift),) = encoding.weights
    if a in (0, b) and shift:
        shift = rows_inside(law.rate, law.candidates, size, (a, b), loss)
        encoding = replace(encoding, weights=((a, b, shift),))
    error = choice_error(law.rate, law.candidates, size, (a, b, shift), loss)
    width = float(code.grid.hull_steps * code.step)
    error *= width if loss == "absolute" else width * width
    return Candidate(encoding, ChoiceDraw(law, code.grid, code.step), (error,), (None,))


def _size_draw(epsilon: Fraction, s: Sensitivity, member: Member) -> ScalarDraw:
    cap = member.context.cap or 2**40
    allowed = GridSet(((0, cap),))
    ways = [(False, s.in_group, epsilon / s.touched)]
    if s.touched > 1:
        ways.append((True, s.total, epsilon))
    options = [
        (law, linear, shift)
        for linear, shift, each in ways
        for law in _laws(allowed, shift, each, "absolute", True, linear)
    ]
    law, linear, shift = min(options, key=lambda o: o[0].expected_error().average)
    one = Fraction(1)
    return ScalarDraw(law, linear, s.touched, shift, one, Fraction(0), one, Fraction(0))


def best_step(target: Fraction, domain: Domain) -> Fraction:
    """Return the largest 1, 2 or 5 times a power of ten that is at most `target`.

    It is made finer until every decimal edge of `domain` is a multiple of it (nine decimals).
    """
    if target <= 0:
        target = Fraction(1)
    power = math.floor(math.log10(target))
    step = max(
        (m * Fraction(10) ** p for p in (power - 1, power, power + 1) for m in (1, 2, 5)
         if m * Fraction(10) ** p <= target),
    )
    for a, b in domain.exact_pieces:
        for edge in (a, b):
            if isinstance(edge, Fraction) and 10**9 % edge.denominator == 0:
                while edge % step:
                    step = _finer(step)
    return step


def _finer(step: Fraction) -> Fraction:
    """Return the next smaller 1, 2 or 5 times a power of ten."""
    lead = step / Fraction(10) ** math.floor(math.log10(step) + 1e-9)
    return step * (Fraction(2, 5) if lead == 5 else Fraction(1, 2))
