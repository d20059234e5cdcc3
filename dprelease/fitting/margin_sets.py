"""Any set of tables of a cross: in which order they are fitted, what measures them, and their whole numbers.

A table is its level on every axis. Tables are fitted smallest first, each between its margins that are fitted already; at
most two of those may be maximal, and then the table is their join: a transportation problem in every cell of what the
two share, so whole tables exist for whatever was drawn. Meets, and joins where they help, are fitted too.

A design measures the largest tables, or the residuals of every margin alone: whole numbers, of which a row moves every
cell's share alike. Least squares over either is `fitting.cross`.

Units    steps; values in 1 / `ONE` step.
Sources  `docs/theory/publications-that-add-up.md#any-set-of-tables`; Xiao, He, Zhang & Kifer, ResidualPlanner,
         arXiv:2305.08175.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dprelease.fitting.cross import CrossEstimator, KnownTable, Spaces, up_to
from dprelease.fitting.estimate import ONE, Objects
from dprelease.fitting.shares import FINE, shared
from dprelease.fitting.structure import Design, Level, MarginSource, Structure, coarser, within
from dprelease.fitting.transport import nearest_whole
from dprelease.intervals.noise import Noise

_ANY = ((0, 2**60),)
_FINE = 8
"""The least scale of a residual: others are whole numbers of a row as well."""

Order = Sequence[tuple[Level, Sequence[Level]]]


def tables_first(tables: Iterable[Level]) -> list[tuple[Level, tuple[Level, ...]]]:
    """Return all tables to fit, in order, each with its one or two maximal margins (none: the total).

    Raises:
        LookupError: whole tables may not exist: a table, and its maximal margins.
    """
    wanted = set(tables)
    found = _closed(wanted | {tuple(0 for _ in t) for t in wanted})
    while True:
        margins = {t: _maximal([s for s in found if s != t and within(s, t)]) for t in found}
        wrong = [t for t in sorted(found, key=_size) if not _fits(t, margins[t])]
        if not wrong:
            return [(t, tuple(margins[t])) for t in sorted(found, key=_size)]
        pairs = itertools.combinations(margins[wrong[0]], 2)
        joins = sorted((-sum(map(min, a, b)), tuple(map(max, a, b))) for a, b in pairs)
        inner = next((j for _, j in joins if j != wrong[0]), None)
        if inner is None:
            raise LookupError(wrong[0], margins[wrong[0]])
        found = _closed({*found, inner})


def _size(level: Level) -> tuple[int, Level]:
    return sum(level), level


def _fits(table: Level, margins: Sequence[Level]) -> bool:
    return len(margins) < 2 or (len(margins) == 2 and tuple(map(max, *margins)) == table)


def _closed(tables: set[Level]) -> set[Level]:
    """Return the tables with all meets of theirs."""
    new = tables
    while new:
        met = {tuple(map(min, a, b)) for a in new for b in tables}
        new = met - tables
        tables = tables | new
    return tables


def _maximal(tables: Sequence[Level]) -> list[Level]:
    return sorted(t for t in tables if not any(s != t and within(t, s) for s in tables))


def estimator_of(design: Design, structure: Structure, noise: Noise) -> CrossEstimator:
    """Return the estimator of tables over the axes of a design, all of whose sources have one noise."""
    fans = Spaces(structure.axes).fans
    sources = []
    for i, s in enumerate(design.sources):
        factor = s.scale * (math.prod(fans(s.level)) if s.residual else 1)
        sources.append(KnownTable(str(i), s.level, noise, "", factor, s.residual))
    return CrossEstimator(structure, {}, (), sources)


def parts_of(design: Design, noisy: Sequence[int]) -> dict[str, Sequence[int]]:
    """Return the noisy integers of a design by its sources."""
    places = Spaces(design.structure().axes)
    ends = list(itertools.accumulate(math.prod(places.shape(s.level)) for s in design.sources))
    return {str(i): noisy[a:b] for i, (a, b) in enumerate(itertools.pairwise([0, *ends]))}


def drawn_for(design: Design, tables: Sequence[Objects]) -> list[int]:
    """Return the exact integers of all sources, from the finest cells of the tables that are counted."""
    spaces = Spaces(design.structure().axes)
    out: list[int] = []
    for source in design.sources:
        at = next(i for i, t in enumerate(design.counted) if within(source.level, t))
        full = tuple(
            k and len(axis) for k, axis in zip(design.counted[at], design.axes, strict=True)
        )
        cells = spaces.summed(tables[at].reshape(spaces.shape(full)), full, source.level)
        cells = spaces.residuals(cells, source.level) if source.residual else cells
        out += np.ravel(cells * source.scale).tolist()
    return out


def fit(
    structure: Structure, order: Order, aims: Mapping[Level, Objects], most: int
) -> tuple[dict[Level, Objects], dict[Level, Any]]:
    """Return the whole numbers of every table in the order of fit, and their node numbers, margin by margin.

    Args:
        aims: the estimates; most: the greatest number of all rows.
    """
    values: dict[Level, Objects] = {}
    nodes: dict[Level, Any] = {}
    for table, margins in order:
        aim = (aims[table] + ONE // FINE // 2) // (ONE // FINE)
        if not margins:
            values[table] = np.clip((2 * aim + FINE) // (2 * FINE), 0, most)
            nodes[table] = []
            continue
        first, last = margins[0], margins[-1]
        rows, columns = (coarser(structure.axes, table, t) for t in (first, last))
        if len(margins) == 1:
            each = [1] * aim.size, [_ANY] * aim.size
            split = shared(aim.tolist(), *each, rows, values[first].tolist())
            values[table] = np.array(split.values, dtype=object)
            nodes[table] = [[2 * m for m in split.multipliers]]
            continue
        values[table] = np.empty(aim.size, dtype=object)
        numbers = np.empty_like(values[first]), np.empty_like(values[last])
        blocks = coarser(structure.axes, table, tuple(map(min, first, last)))
        places = np.lexsort((columns, rows, blocks))
        for part in np.split(places, np.flatnonzero(np.diff(blocks[places])) + 1):
            own, other = np.unique(rows[part]), np.unique(columns[part])
            sums = values[first][own], values[last][other]
            made = nearest_whole(aim[part].reshape(own.size, -1), *sums)
            values[table][part] = made.values.reshape(-1)
            numbers[0][own], numbers[1][other] = made.rows, made.columns
        nodes[table] = [part.tolist() for part in numbers]
    return values, nodes


def designs(
    axes: tuple[tuple[tuple[int, ...], ...], ...], tables: Iterable[Level]
) -> tuple[Design, ...]:
    """Return the ways to measure a set: its maximal tables as they are; and, of even hierarchies, residuals of all margins.

    Scales of residuals give the least mean variance for normal noise: with f cells of a level in each of the level above a
    row costs scale^2 prod f (f - 1), and a table of c cells in each of a space's has prod (f - 1) / (scale^2 prod f^3 c^2)
    of it, products over the axes of the space.
    """
    levels = tuple(sorted(set(tables), key=_size))
    whole = Design(
        axes, counted := tuple(_maximal(levels)), tuple(map(MarginSource, counted)), levels
    )
    spaces = Spaces(whole.structure().axes)
    if not all(a.axis.even for a in spaces.axes):
        return (whole,)
    sizes: dict[Level, float] = {}
    for t in levels:
        for r in up_to(t):
            sizes[r] = sizes.get(r, 0.0) + (spaces.merged(t) / spaces.merged(r)) ** 2
    wanted = {r: s**0.25 / math.prod(spaces.fans(r)) for r, s in sizes.items()}
    least = min(wanted.values())
    rest = tuple(
        MarginSource(r, round(_FINE * wanted[r] / least), residual=True)
        for r in sorted(wanted, key=_size)
        if 1 not in spaces.fans(r)
    )
    return whole, Design(axes, counted, rest, levels)
