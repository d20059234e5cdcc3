"""Scores by rank: how far a candidate value is from the rank that is asked for.

Candidates are all points of the column's own grid (of every tenth of it, hundredth, ... where its ends
are more than 2**53 steps from 0) that its domain and the published one allow; rows are snapped to the nearest of them. For target rank t = (a n + offset) / b among n rows, a candidate y
with `below` rows under it and `upto` rows at or under it scores, times b,

    s(y) = max(f, g),   f = b below(y) - (a n + offset),   g = (a n + offset) - b upto(y):

the distance of the target from the ranks that y has, and below 0 how far inside them it lies: a value with
many rows is told from its neighbours by both. The exponential law needs the *spread*: how far one row moves
the difference of two candidates' scores.

    adding a row at v   y < v:  f - a, g + a                    s moves by -a .. a
                        y = v:  f - a, g - (b - a)              s falls by at most M
                        y > v:  f + (b - a), g - (b - a)        s moves by -(b - a) .. b - a
                        so all moves lie in [-M, M], M = max(a, b - a), and the spread is 2 M.
    replacing v by w    the target stays; `below` and `upto` move by one row the same way on the
                        candidates between v and w, and nowhere else: moves in [-b, b], spread 2 b.

2 b >= 2 M, so a replacement by nothing is covered. Spreads add up along a chain of rows and over
groups (the law's loss is linear in them), as L1 sensitivities do, so `sensitivity` applies unchanged. All
three are attained. A spread of half that, the largest change of *one* score, is not enough: scores
on the two sides of the target move opposite ways. `offset` is a public constant and drops out.

One side only. With a = b and offset 0 (the last row), f <= 0 and s = b #{x > y}: all changes of one
row have one sign, whether it is added or replaced, and the spread is b; likewise for the first row
(a = 0, s = b #{x < y}). But beyond the data all candidates score 0 then. With the target k - 1/2
rows inside the end (b = 2, offset odd) they score at least 1, and so does every candidate but the k-th
value from the end, which alone scores 0: the score has two sides. The planner prices both.

Stretches. Scores are alike on all candidates between two neighbouring values of rows, so a group is
known by its different values and the rows at or below each. Scores beyond `last` weigh alike in the
law, so values that no rank so near has are not needed either (`query.bounded.Near`): they and the
candidates around them score more than `last`, and are given the score of the stretch next to them,
which is more than `last` too. The law sees scores relative to the least, and t may be kept to [0, n]:
that moves all scores of a group alike, and then the least score is at most 0.

Snapping costs nothing: x -> nearest candidate never decreases, and the quantile of snapped rows
is the snapped quantile. Any total map of rows keeps neighbours neighbours, gaps included.

Without rows all scores are alike and every candidate is equally likely.

Units: codes and candidates in steps above the lowest candidate; ranks in rows; scores in rows / b.
Sources: `docs/theory/quantiles.md#scores-by-rank`, `#spread-of-the-scores`, `#stretches-of-candidates`; McSherry & Talwar for the law; stretches:
Smith, "Privacy-preserving statistical estimation with optimal convergence rates".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError, PlanError
from dprelease.core.numeric import floor_half_up, plain
from dprelease.query.answer import Objects
from dprelease.query.bounded import Fixed, Near
from dprelease.schema.domain import Domain, GridSet
from dprelease.statistics.exact import CellForm
from dprelease.statistics.measurement import Context, Measure, Measurement

_LARGEST_DENOMINATOR = 1000
_MOST_CANDIDATES = 2**60
_EXACT_STEPS = 2**53

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Stretches:
    """The scores of one group.

    Attributes:
        codes: of the values near the rank, rising, `(m,)`; at: the score of each.
        between: scores before, between and after them, `(m + 1,)`.
    """

    codes: Ints
    at: Ints
    between: Ints

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stretches) and all(
            np.array_equal(a, b)
            for a, b in (
                (self.codes, other.codes), (self.at, other.at), (self.between, other.between)
            )
        )  # fmt: skip


def spreads(a: int, b: int, offset: int) -> tuple[int, int]:
    """Return the spread of one added row and of one replaced row (module docstring)."""
    if offset == 0 and a in (0, b):
        return b, b
    return 2 * max(a, b - a), 2 * b


def stretches(tally: Ints, groups: int, a: int, b: int, offset: int) -> Objects:
    """Return the `Stretches` of each group, `(groups, 1)`, from a tally's codes.

    Exact for fewer than 2**53 rows, which no source reaches, as b is at most 2,000.
    """
    out = np.empty((groups, 1), dtype=object)
    ends = np.searchsorted(tally[:, 0], np.arange(groups + 1))
    for group in range(groups):
        part = tally[ends[group] : ends[group + 1]]
        below, upto = part[:, 2], part[:, 3]
        total = int(part[0, 4]) if len(part) else 0
        target = min(max(a * total + offset, 0), b * total)
        at = np.maximum(b * below - target, target - b * upto)
        first = below[:1] if len(part) else np.zeros(1, dtype=np.int64)
        between = np.abs(b * np.concatenate([first, upto]) - target)
        out[group, 0] = Stretches(part[:, 1], at, between)
    return out


exact = CellForm(lambda measurement, tally: stretches(*tally, *measurement.weights[0]))


def target(measurement: Measurement, view: int | None) -> Measurement:
    """Return `measurement` with the target of one value alone, where several are chosen together."""
    return (
        measurement if view is None else replace(measurement, weights=(measurement.weights[view],))
    )


def near(measurement: Measurement, last: int) -> Measurement:
    """Return `measurement` measured by the codes alone whose score at its rank is at most `last`."""
    ((a, b, offset),) = measurement.weights
    (measure,) = measurement.measures
    narrowed = replace(measure, near=Near(a, b, offset, last))
    return replace(measurement, measures=(narrowed,))


def whole(measurement: Measurement) -> Measurement:
    """Return `measurement` measured by all codes."""
    return replace(measurement, measures=tuple(replace(m, near=None) for m in measurement.measures))


def ranks(context: Context, probability: Fraction, inside: int = 0) -> Measurement:
    """Return the measurement of the value at rank `probability` n, on the column's grid.

    Args:
        inside: of the least and greatest value: aim at the row so far from the end, counted from 1;
            0 aims at the very end, one-sidedly.

    Raises:
        PlanError: no grid of candidates (DPR214), or a probability of too many decimals (DPR215).
    """
    a, b = probability.as_integer_ratio()
    if b > _LARGEST_DENOMINATOR:
        raise PlanError(
            f"{context.spec.text} asks for a share of too many decimals",
            where=context.spec.origin,
            why=f"as a fraction its denominator is {b:,}; at most {_LARGEST_DENOMINATOR:,} is supported",
            fix="write at most three decimals, e.g. 0.995",
            code="DPR215",
        )
    code = candidates(context)
    target = aimed(a, b, inside)
    l1_added_row, l1_replaced_row = spreads(*target)
    return Measurement(
        family="ranks",
        key=("ranks", context.subject, context.spec.name),
        cells=(f"candidate chosen for {context.spec.text}",),
        measures=(Measure("tally", code),),
        weights=(target,),
        l1_added_row=l1_added_row,
        l1_replaced_row=l1_replaced_row,
        scale=code.grid.hull_steps,
        offset=code.grid.lower * code.step,
        step_size=code.step,
        form="ranks",
    )


def aimed(a: int, b: int, inside: int) -> tuple[int, int, int]:
    """Return (a, b, offset) of a target `inside` - 1/2 rows inside the end that a / b is."""
    if not inside:
        return a, b, 0
    return 2 * a, 2 * b, (2 * inside - 1) * (1 if a == 0 else -1)


def allowed_values(context: Context) -> Domain:
    """Return U, the values a row can have: value gaps carry over to quantiles."""
    column = context.column
    assert column is not None
    return column.domain or Domain.from_pieces([(0, 0), (1, 1)])


def candidates(context: Context, most: int | None = None) -> Fixed:
    """Return the column's code on the grid of candidates, coarser by tens where engines could not tell them apart.

    Args:
        most: its steps at most, of all the column's own values whatever the statistic declares; None: those of
            the declared domain and step.

    Raises:
        PlanError: no grid of candidates (DPR214).
    """
    column, spec = context.column, context.spec
    assert column is not None
    domain = allowed_values(context)
    own = most is None
    common = None if spec.domain is None or not own else domain.intersect(spec.domain)
    domain = common or domain  # nothing in common was refused before (DPR206)
    declared = spec.step if own else None
    step = declared or column.step or Fraction(1)
    grid = _grid(domain, step)
    while declared is None and grid is not None and _too_fine(grid, most):
        step *= 10
        grid = _grid(domain, step)
    if grid is None or not 0 < grid.hull_steps <= _MOST_CANDIDATES:
        raise PlanError(
            f"no grid of 2 to 2**60 candidates for {spec.text}",
            where=spec.origin,
            why=f"its domain is {domain}, in steps of {plain(step)}",
            fix="declare a `step` and a `domain` for the statistic that leave so many values"
            if own
            else "ask for fewer groups, or give the column's domain ends and gaps at round values",
            code="DPR214",
        )
    default = None
    if column.null_default is not None:
        at = np.array([floor_half_up(column.null_default / step)], dtype=np.int64)
        default = int(grid.nearest(at)[0]) - grid.lower
    return Fixed(column.name, grid, step, default)


def _too_fine(grid: GridSet, most: int | None) -> bool:
    """Return whether engines tell its points apart no more, or there are too many."""
    return _ends(grid) > _EXACT_STEPS or (most is not None and grid.hull_steps > most)


def _ends(grid: GridSet) -> int:
    return max(abs(grid.lower), abs(grid.upper))


def _grid(domain: Domain, step: Fraction) -> GridSet | None:
    try:
        return domain.on_grid(step)
    except ArgumentError:
        return None
