"""Scores by rank: how far a candidate value is from the rank that is asked for.

Rows are snapped to a public grid of candidate values. For target rank t = (a n + shift) / b among
n rows, a candidate y with `below` rows under it and `upto` rows at or under it scores, times b,

    s(y) = max(0, f, g),   f = b below(y) - (a n + shift),   g = (a n + shift) - b upto(y):

the distance of the target from the ranks that y has. f + g <= 0, so at most one is positive. The
exponential law needs the *spread*: how far one row moves the difference of two candidates' scores.

    adding a row at v   y < v:  f - a, g + a                    s moves by -a .. a
                        y = v:  f - a, g - (b - a)              s falls by at most M
                        y > v:  f + (b - a), g - (b - a)        s moves by -(b - a) .. b - a
                        so all moves lie in [-M, M], M = max(a, b - a), and the spread is 2 M.
    replacing v by w    the target stays; `below` and `upto` move by one row the same way on the
                        candidates between v and w, and nowhere else: moves in [-b, b], spread 2 b.

2 b >= 2 M, so a replacement by nothing is covered. Spreads add up along a chain of rows and over
groups (the law's loss is linear in them), as L1 moves do, so `sensitivity` applies unchanged. All
three are attained. A spread of half that, the largest move of *one* score, is not enough: scores
on the two sides of the target move opposite ways. `shift` is a public constant and drops out.

One side only. With a = b and shift 0 (the last row), f <= 0 and s = b #{x > y}: all moves of one
row have one sign, whether it is added or replaced, and the spread is b; likewise for the first row
(a = 0, s = b #{x < y}). But beyond the data all candidates score 0 then; with the target |shift|
rows inside they do not, and the score has two sides. The planner prices both.

Snapping costs nothing: x -> nearest candidate never decreases, and the quantile of snapped rows
is the snapped quantile. Any total map of rows keeps neighbours neighbours, gaps included.

Without rows all scores are alike and every candidate is equally likely.

Units: codes and candidates in steps above the lowest candidate; ranks in rows; scores in rows / b.
Shapes: tally `(groups, K + 1)`, scores the same.
Sources: semantics 2.5, 3.1 (rank utility), 5.3; McSherry & Talwar for the law.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from dprelease.aggregates.encoding import Context, Encoding, Measure
from dprelease.errors import ArgumentError, PlanError
from dprelease.numeric import Exact, floor_half_up, plain
from dprelease.query.answer import TABLE_LIMIT
from dprelease.query.bounded import Fixed
from dprelease.schema.domain import Domain, GridSet

__all__ = ["allowed_values", "rank_scores", "ranks", "spreads"]

_MOST = 4096
"""Candidates when no step is declared."""

_MOST_DECLARED = 2**20
_LARGEST_DENOMINATOR = 1000
_CHUNK = 2**20

Ints = npt.NDArray[np.int64]
Piece = tuple[Exact, Exact]


def spreads(a: int, b: int, shift: int) -> tuple[int, int]:
    """Return the spread of one added row and of one replaced row (module docstring)."""
    if shift == 0 and a in (0, b):
        return b, b
    return 2 * max(a, b - a), 2 * b


def rank_scores(tally: Ints, a: int, b: int, shift: int) -> Ints:
    """Return s(y) for every code, from the rows per code.

    Exact for fewer than 2**53 rows, which no source reaches, as b is at most 1,000.
    """
    scores = np.empty_like(tally)
    rows = max(1, _CHUNK // max(1, tally.shape[1]))
    for start in range(0, tally.shape[0], rows):
        part = tally[start : start + rows]
        upto = np.cumsum(part, axis=1)
        target = a * upto[:, -1:] + shift
        apart = np.maximum(b * (upto - part) - target, target - b * upto)
        scores[start : start + rows] = np.maximum(apart, 0)
    return scores


def ranks(context: Context, probability: Fraction, shift: int = 0) -> Encoding:
    """Return the encoding of the value at rank `probability` n + shift, on its grid of candidates.

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
    code = _candidates(context)
    per_row, per_swap = spreads(a, b, shift)
    return Encoding(
        family="ranks",
        key=("ranks", context.subject, context.spec.name),
        cells=(f"candidate chosen for {context.spec.text}",),
        measures=(Measure("tally", code),),
        weights=((a, b, shift),),
        per_row=per_row,
        per_swap=per_swap,
        scale=code.grid.hull_steps,
        offset=code.grid.lower * code.step,
        pitch=code.step,
        form="ranks",
    )


def allowed_values(context: Context) -> Domain:
    """Return U, the values a row can have: value gaps carry over to quantiles (semantics 2.5)."""
    column = context.column
    assert column is not None
    return column.domain or Domain.from_pieces([(0, 0), (1, 1)])


def _candidates(context: Context) -> Fixed:
    column, spec = context.column, context.spec
    assert column is not None
    domain = allowed_values(context)
    common = None if spec.domain is None else domain.intersect(spec.domain)
    domain = common or domain  # nothing in common was refused before (DPR206)
    finest = column.step or Fraction(1)
    most = min(_MOST_DECLARED if spec.step else _MOST, TABLE_LIMIT // context.groups)
    step = spec.step or _step(domain, finest, most)
    grid = None if step is None else _grid(domain, step)
    if step is None or grid is None or not 0 < grid.hull_steps < most:
        raise PlanError(
            f"no grid of 2 to {most:,} candidates for {spec.text}",
            where=spec.origin,
            why=f"its domain is {domain}"
            + (f", in steps of {plain(step)}" if step is not None else "")
            + (f", for each of {context.groups:,} groups" if context.groups > 1 else ""),
            fix="declare a `step` and a `domain` for the statistic that leave so many values",
            code="DPR214",
        )
    default = None
    if column.null_default is not None:
        at = np.array([floor_half_up(column.null_default / step)], dtype=np.int64)
        default = int(grid.nearest(at)[0]) - grid.lower
    return Fixed(column.name, grid, step, default)


def _grid(domain: Domain, step: Fraction) -> GridSet | None:
    try:
        return domain.on_grid(step)
    except ArgumentError:
        return None


def _step(domain: Domain, finest: Fraction, most: int) -> Fraction | None:
    """Return the column's step, or a coarser decimal one that keeps every allowed interval.

    One of which all edges are multiples is preferred, up to ten times coarser than needed. None
    when an allowed interval is too narrow to hold a multiple.
    """
    width = Fraction(domain.width)
    if width < finest * most and all(_meets(p, finest) for p in domain.exact_pieces):
        return finest
    least = width / (most - 1)
    power = math.floor(math.log10(least)) if least else 0
    steps = [m * Fraction(10) ** (power + i) for i in range(3) for m in (1, 2, 5)]
    steps = [s for s in steps if s >= least and all(_meets(p, s) for p in domain.exact_pieces)]
    edges = [Fraction(edge) for piece in domain.exact_pieces for edge in piece]
    exact = [s for s in steps if s < 10 * least and not any(edge % s for edge in edges)]
    return next(iter(exact or steps), None)


def _meets(piece: Piece, step: Fraction) -> bool:
    low, high = Fraction(piece[0]), Fraction(piece[1])
    return math.ceil(low / step) * step <= high
