"""Measurements of weighted rows: sums of products of a value's code and a weight, per row and in steps.

A row has a code a in 0..K and a weight v in v0..V (steps of its column, counted from 0; its code is v - v0).

    two_sums      S(v a), S(v (K - a)): neither is negative, a row adds v K in all: at most V K, a replaced row 2 V K
    centred_sums  K S(v), S(v (2 a - K)): a row adds (K v, v t), |t| <= K: at most 2 V K, a replaced row no more
    product       S(v (k0 + a)), k0 the value of code 0: one integer, with its extremes at corners of the box

Of two replaced rows of weights v >= v' the centred cells are K (v - v') + |v t - v' t'| <= K (v - v') + K (v + v')
= 2 K v apart: the rows' total costs nothing beside the sum. Source:
`docs/theory/sensitivities-and-contribution-bounding.md#weighted-sums`; enumerated by the contract tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from dprelease.query.weight import Weight
from dprelease.statistics.measurement import Axis, Context, Measure, Measurement
from dprelease.statistics.scalar import column_cells, require_cap

_POWERS = tuple(product(range(2), repeat=2))
"""Powers of the value's code and of the weight's, in the order of the measures."""


def two_sums(context: Context) -> Measurement:
    """S(v a), S(v (K - a)): a row adds at most V K; a replaced one moves 2 V K."""
    most, k, subject = _weight(context).most, context.scale, context.subject
    cells = f"sum of {subject}, above its lower end", "the same below its upper end"
    measures, weights = _made(context, ((0, 1), (k, -1)))
    made = column_cells(context, "two_sums", cells, weights, (most * k, 2 * most * k))
    return replace(made, measures=measures, axes=(_axis(context),))


def centred_sums(context: Context) -> Measurement:
    """K S(v), S(v (2 a - K)): a row, come, gone or replaced, moves 2 V K at most."""
    most, k, subject = _weight(context).most, context.scale, context.subject
    cells = f"weight of rows with {subject}", f"sum of {subject} about its middle"
    measures, weights = _made(context, ((k, 0), (-k, 2)))
    made = column_cells(context, "centred_sums", cells, weights, (2 * most * k, 2 * most * k))
    return replace(made, measures=measures, axes=(_axis(context),))


def weighted_product(context: Context) -> Measurement:
    """S(v (k0 + a)): a row moves it by the largest product, a replaced one by how far two can be apart."""
    weight, cap, n = _weight(context), require_cap(context), context.public_rows
    low, high = ends_of_products(context)
    gone = (low, high) if n is not None else (min(low, 0), max(high, 0))
    measures, weights = _made(context, ((int(context.lowest / context.step), 1),))
    return Measurement(
        family="scalar",
        key=("scalar", "weighted sum", context.subject, context.spec.name),
        cells=(f"sum of {context.subject}",),
        measures=measures,
        weights=weights,
        l1_added_row=max(abs(low), abs(high)),
        l1_replaced_row=gone[1] - gone[0],
        lower=cap * gone[0],
        upper=cap * gone[1],
        scale=context.scale,
        step_size=context.step * weight.step,
        public_rows=n,
    )


def ends_of_products(context: Context) -> tuple[int, int]:
    """Return the least and the greatest product of one row, in steps of both columns."""
    weight, low = _weight(context), int(context.lowest / context.step)
    corners = [v * x for v in (weight.least, weight.most) for x in (low, low + context.scale)]
    return min(corners), max(corners)


def _weight(context: Context) -> Weight:
    assert context.weight is not None
    return context.weight


def _axis(context: Context) -> Axis:
    weight = _weight(context)
    return Axis(weight.code.grid.hull_steps, weight.least * weight.step, weight.step)


def _made(
    context: Context, cells: Sequence[tuple[int, int]]
) -> tuple[tuple[Measure, ...], tuple[tuple[int, ...], ...]]:
    """Return measures and weights of cells i S(v) + j S(v a), given as pairs (i, j).

    With v = v0 + b: S(v) = v0 S(1) + S(b) and S(v a) = v0 S(a) + S(a b), all over the rows where both codes are
    known. What no cell needs is not summed.
    """
    weight = _weight(context)
    least = weight.least
    parts = (
        (least, 0),
        (1, 0),
        (0, least),
        (0, 1),
    )  # of S(v) and S(v a), in the order of the powers
    rows = [[i * total + j * products for total, products in parts] for i, j in cells]
    used = [at for at in range(len(_POWERS)) if any(row[at] for row in rows)]
    measures = tuple(
        Measure("product", context.code, p, other=weight.code, other_power=q)
        for p, q in (_POWERS[at] for at in used)
    )
    return measures, tuple(tuple(row[at] for at in used) for row in rows)
