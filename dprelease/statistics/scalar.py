"""Measurements that several statistics share: rows counted, codes summed, moments of one column.

Each function returns a `Measurement`; the sensitivities in its docstring are per row and in steps.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#scalars`, `#partitions-of-unity`,
`#truncated-mean`; enumerated by the contract tests.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dprelease.core.errors import PlanError
from dprelease.statistics.measurement import Context, Family, Measure, Measurement
from dprelease.statistics.pairs import bernstein_weights


def require_cap(context: Context) -> int:
    """Return the public cap N of a count's domain.

    Raises:
        PlanError: neither `rows.max` nor a finite upper end of the domain is declared (DPR203).
    """
    if context.public_rows is not None:
        return context.public_rows
    if context.cap is not None:
        return context.cap
    raise PlanError(
        f"cannot bound {context.spec.text}: no public cap on the number of rows",
        where=context.spec.origin,
        why="the number of rows is private, so its domain needs a declared upper end",
        fix="declare `rows: {max: ...}` in the schema, or a domain for this statistic",
        code="DPR203",
    )


def column_cells(
    context: Context,
    family: Family,
    cells: tuple[str, ...],
    weights: tuple[tuple[int, ...], ...],
    moves: tuple[int, int],
    *own: str,
) -> Measurement:
    """Return cells that are these weights times the sums of one column's powers, in the column's unit.

    Args:
        moves: how far a row that is added, and one that is replaced, moves all cells.
        own: what its key says beside its family and column.
    """
    return Measurement(
        family=family,
        key=(family, context.subject, *own),
        cells=cells,
        measures=tuple(Measure("power", context.code, p) for p in range(len(weights[0]))),
        weights=weights,
        l1_added_row=moves[0],
        l1_replaced_row=moves[1],
        scale=context.scale,
        offset=context.lowest,
        step_size=context.step,
    )


def two_sums(context: Context) -> Measurement:
    """S(code), S(K - code): a row adds (k, K - k), total K; a replaced row moves 2K."""
    k, subject = context.scale, context.subject
    cells = f"sum of {subject} above its lower end", "the same below its upper end"
    return column_cells(context, "two_sums", cells, ((0, 1), (k, -1)), (k, 2 * k))


def centred_sums(context: Context) -> Measurement:
    """K S(1), S(2 code - K): a row adds (K, 2k - K), at most 2K; a replaced row moves (0, 2K) at most."""
    k, subject = context.scale, context.subject
    cells = f"rows with {subject}", f"sum of {subject} about its middle"
    return column_cells(context, "centred_sums", cells, ((k, 0), (-k, 2)), (2 * k, 2 * k))


def centred_squares(context: Context) -> Measurement:
    """3 K^2 S(1), 4 K S(t), 2 S(2 t^2 - K^2) with t = 2 code - K: a row, come, gone or replaced, moves 9 K^2."""
    k, square, subject = context.scale, context.scale**2, context.subject
    cells = (
        f"rows with {subject}",
        f"sum of {subject} about its middle",
        "sum of its squares there, less half of the largest",
    )
    weights = (3 * square, 0, 0), (-4 * square, 8 * k, 0), (2 * square, -16 * k, 16)
    return column_cells(context, "centred_squares", cells, weights, (9 * square, 9 * square))


def public_squares(context: Context) -> Measurement:
    """Public n: K S(t), S(t^2) with t = 2 code - K; a replaced row moves 2 (K - c)(K + 2 c), c beside K/4."""
    n, k, subject = context.public_rows, context.scale, context.subject
    assert n is not None
    move = max(2 * (k - c) * (k + 2 * c) for c in (k // 4, k // 4 + 1))
    cells = f"sum of {subject} about its middle", "sum of its squares there"
    weights = (-k * k, 2 * k, 0), (k * k, -4 * k, 4)
    made = column_cells(context, "centred_squares", cells, weights, (2 * k * k, move))
    return replace(made, key=("public_squares", subject), public_rows=n)


def centred_sum(context: Context) -> Measurement:
    """S(code - K/2), K/2 rounded down: a row moves it by the larger half of K, a replaced one by K."""
    k, cap = context.scale, require_cap(context)
    middle = k // 2
    return Measurement(
        family="scalar",
        key=("scalar", "centred sum", context.subject),
        cells=(f"sum of {context.subject} around the middle",),
        measures=(Measure("power", context.code, 0), Measure("power", context.code, 1)),
        weights=((-middle, 1),),
        l1_added_row=k - middle,
        l1_replaced_row=k,
        lower=-cap * middle,
        upper=cap * (k - middle),
        scale=k,
        step_size=context.step,
    )


def known_rows(context: Context) -> Measurement:
    """S(1) over the rows whose value is known: a row moves it by 1."""
    return Measurement(
        family="scalar",
        key=("scalar", "known rows", context.subject),
        cells=(f"rows with {context.subject}",),
        measures=(Measure("power", context.code, 0),),
        weights=((1,),),
        l1_added_row=1,
        l1_replaced_row=1,
        upper=require_cap(context),
    )


def bernstein2(context: Context) -> Measurement:
    """Cells of a quadratic partition of unity: a row adds K^2 in total; a replaced row 2 K^2."""
    k = context.scale
    cells = tuple(f"Bernstein cell {i} of {context.subject}" for i in range(3))
    moves = k * k, 2 * k * k
    return column_cells(context, "bernstein2", cells, bernstein_weights(k), moves)


def truncated_mean(context: Context) -> Measurement:
    """S(1) is released first; then the mean, centred, divided by that *released* size."""
    cells = f"rows with {context.subject}", f"mean of {context.subject}"
    weights, own = ((1, 0), (0, 1)), context.spec.name
    return column_cells(context, "truncated_mean", cells, weights, (1, 1), own)


def public_mean(context: Context) -> Measurement:
    """Public n: cell = S(code) in 0..nK; a replaced row moves it by K, the mean by w/n."""
    n, k = context.public_rows, context.scale
    assert n is not None
    return Measurement(
        family="scalar",
        key=("public_mean", context.subject),
        cells=(f"sum of {context.subject}",),
        measures=(Measure("power", context.code, 1),),
        weights=((1,),),
        l1_added_row=k,
        l1_replaced_row=k,
        upper=n * k,
        scale=k,
        offset=context.lowest,
        step_size=context.step / n,
        public_rows=n,
    )


def public_scatter(context: Context) -> Measurement:
    """Public n: cell = n S(code^2) - S(code)^2 = n^2 var / step^2; one row moves it by K^2 (n-1).

    The move is K^2 (n - 1) only if n rows are summed, so they are counted too: the wall refuses a
    table of any other size.
    """
    n, k = context.public_rows, context.scale
    assert n is not None
    return Measurement(
        family="scalar",
        key=("public_scatter", context.subject),
        cells=(f"scatter of {context.subject}",),
        measures=tuple(Measure("power", context.code, p) for p in (1, 2, 0)),
        weights=(),
        l1_added_row=k * k * (n - 1),
        l1_replaced_row=k * k * (n - 1),
        upper=k * k * (n * n // 4),
        scale=k,
        step_size=context.step**2 / Fraction(n * n),
        form="scatter",
        public_rows=n,
    )


def as_counts(measurement: Measurement) -> Measurement:
    """Return one number's measurement as an integer cell that is drawn and read by itself, as a bin is."""
    return replace(measurement, family="bins")
