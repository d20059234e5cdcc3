"""Measurements of two columns: soft tables, the tensor of Bernstein cells, the cross product.

With codes a in 0..Ka and b in 0..Kb, over the rows where both are known (complete cases):

    soft_table   S(ab), S(a(Kb - b)), S((Ka - a)b), S((Ka - a)(Kb - b))
    tensor       S(B_i(a) B_j(b)), i, j in {0, 1, 2}, B = ((K - k)^2, 2 k (K - k), k^2)
    cross        n S(ab) - S(a) S(b) = n^2 cov / (step_a step_b), public n

Soft table and tensor are partitions of unity: no summand is negative and a row's summands add up
to ((Ka - a) + a)((Kb - b) + b) = Ka Kb, and to (Ka Kb)^2, whatever the row is. Hence a row moves
the cells by exactly that in L1 and a replaced row by at most twice that (attained by opposite
corners). The tensor holds every moment a^p b^q with p, q <= 2, so the means and variances of both
columns, their covariance and their correlation come from one budget. Its margins are the Bernstein
cells of each column: S_j B_i(a) B_j(b) = B_i(a) Kb^2.

Cross, one row replaced, the other n - 1 with means x and y of a and b. Up to a constant the row
(a, b) adds (n - 1)((a - x)(b - y)). Over the box that product lies between -max(x(Kb - y), (Ka - x)y)
and max(xy, (Ka - x)(Kb - y)), and each of the four sums of one term of either kind is at most Ka Kb
(as xy + x(Kb - y) = x Kb). So it moves by at most (n - 1) Ka Kb, attained at x = Ka. It lies within
+-Ka Kb floor(n^2 / 4): it is bilinear in the values of the two columns, so its extremes are at
corners, where it is n |A & B| - |A| |B| <= |A| (n - |A|) for row sets A and B.

Units: codes in steps of their columns.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#partitions-of-unity`, `#scalars`;
enumerated by the contract tests.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product

from dprelease.core.numeric import plain
from dprelease.query.bounded import Code, Fixed
from dprelease.query.resolved import Statistic
from dprelease.statistics.measurement import Context, Measure, Measurement


def pair_measures(a: Code, b: Code, degree: int) -> tuple[Measure, ...]:
    """Return S(a^p b^q) for p, q up to `degree`, q running fastest."""
    powers = range(degree + 1)
    return tuple(
        Measure("product", a, p, other=b, other_power=q) for p, q in product(powers, powers)
    )


def bernstein_weights(k: int) -> tuple[tuple[int, ...], ...]:
    """Return the Bernstein-2 cells of one column as weights of code^0, code^1, code^2."""
    return (k * k, -2 * k, 1), (0, 2 * k, -2), (0, 0, 1)


def soft_weights(k: int) -> tuple[tuple[int, ...], ...]:
    """Return K - code and code as weights of code^0, code^1."""
    return (k, -1), (0, 1)


def kron(
    left: tuple[tuple[int, ...], ...], right: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(u * v for u in one for v in two) for one in left for two in right)


def soft_table(context: Context) -> Measurement:
    """Four cells of which a row adds Ka Kb in total; a replaced row 2 Ka Kb."""
    a, b = context.axes
    names = tuple(c.name for c in context.columns)
    total = a.scale * b.scale
    return Measurement(
        family="soft_table",
        key=("soft_table", context.subject),
        cells=tuple(
            f"{names[0]} {i}, {names[1]} {j}" for i, j in product(("low", "high"), repeat=2)
        ),
        measures=pair_measures(context.codes[0], context.codes[1], 1),
        weights=kron(soft_weights(a.scale), soft_weights(b.scale)),
        l1_added_row=total,
        l1_replaced_row=2 * total,
        axes=(a, b),
    )


def tensor(context: Context) -> Measurement:
    """Nine cells of which a row adds (Ka Kb)^2 in total; a replaced row twice that."""
    a, b = context.axes
    names = tuple(c.name for c in context.columns)
    total = (a.scale * b.scale) ** 2
    return Measurement(
        family="tensor",
        key=("tensor", context.subject),
        cells=tuple(
            f"Bernstein cell {i} of {names[0]} times {j} of {names[1]}"
            for i, j in product(range(3), repeat=2)
        ),
        measures=pair_measures(context.codes[0], context.codes[1], 2),
        weights=kron(bernstein_weights(a.scale), bernstein_weights(b.scale)),
        l1_added_row=total,
        l1_replaced_row=2 * total,
        axes=(a, b),
    )


def cross(context: Context) -> Measurement:
    """Public n: n S(ab) - S(a) S(b); a replaced row moves it by at most (n - 1) Ka Kb.

    The rows are counted too: the wall refuses a table of any other size.
    """
    n = context.public_rows
    assert n is not None
    a, b = context.axes
    move, bound = a.scale * b.scale * (n - 1), a.scale * b.scale * (n * n // 4)
    one, other = context.codes
    return Measurement(
        family="scalar",
        key=("cross", context.subject),
        cells=(f"cross scatter of {context.subject}",),
        measures=tuple(
            Measure("product", one, p, other=other, other_power=q)
            for p, q in ((1, 1), (1, 0), (0, 1), (0, 0))
        ),
        weights=(),
        l1_added_row=move,
        l1_replaced_row=move,
        lower=-bound,
        upper=bound,
        step_size=a.step_size * b.step_size / Fraction(n * n),
        form="cross",
        public_rows=n,
        axes=(a, b),
    )


def column_notes(statistic: Statistic) -> list[str]:
    """Return how the rows of several columns are taken, for a report."""
    notes = [
        f"rows of {c.name} are clamped to {c.domain or '[0, 1]'} before use"
        for c in statistic.columns
    ]
    for column, code in zip(statistic.columns, statistic.codes, strict=True):
        if isinstance(code, Fixed) and column.step is not None and code.step != column.step:
            notes.append(f"{column.name} is rounded to steps of {plain(code.step)} before use")
    if any(isinstance(c, Fixed) and c.default is None for c in statistic.codes):
        names = " and ".join(c.name for c in statistic.columns)
        notes.append(f"over rows where {names} are known")
    return notes
