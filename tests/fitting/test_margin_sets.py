"""Sets of margins: their order, least squares against dense algebra, whole numbers, and their intervals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from dprelease.fitting import transport
from dprelease.fitting.certificate import node_faults
from dprelease.fitting.cross import CrossEstimator
from dprelease.fitting.estimate import ONE, Objects
from dprelease.fitting.margin_sets import (
    Order,
    designs,
    drawn_for,
    estimator_of,
    fit,
    parts_of,
    tables_first,
)
from dprelease.fitting.structure import Design, Level, MarginSource, Structure, apart, coarser
from dprelease.fitting.transport import FINE, nearest_whole
from dprelease.intervals.noise import Gaussian, Laplace, Noise
from tests.sizes import whole

Axes = tuple[tuple[tuple[int, ...], ...], ...]


def plain(*sizes: int) -> Axes:
    return tuple((tuple(range(size)),) for size in sizes)


AXES = plain(2, 3, 4)
LEVELS = (((0, 0, 1, 1), (0, 1, 2, 3)), *plain(3, 2))
UNEVEN = (((0, 0, 1, 1, 1), (0, 1, 2, 3, 4)), *plain(3, 2))
PAIRS = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1)]
CHAIN, APART = [(1, 1, 0), (0, 1, 1)], [(1, 1, 0), (0, 0, 1)]
DEEP = [(2, 1, 0), (1, 0, 1), (0, 1, 1), (2, 0, 0)]
MIXED = Design(
    AXES,
    tuple(CHAIN),
    (
        MarginSource((1, 1, 0)),
        MarginSource((0, 1, 1), 3),
        MarginSource((0, 1, 0), 2, residual=True),
    ),
    tuple(CHAIN),
)
EVEN = [
    *designs(AXES, PAIRS), *designs(AXES, CHAIN), MIXED, *designs(AXES, APART), *designs(LEVELS, DEEP),
]  # fmt: skip
CASES = [*EVEN, *designs(UNEVEN, DEEP)]


def _sums(design: Design, table: Level, *, residual: bool = False) -> np.ndarray:
    """Return the map from cells of the full cross to a table's, or to its residuals."""
    out = np.ones((1, 1))
    for levels, k in zip(design.axes, table, strict=True):
        maps = [(0,) * len(levels[-1]), *levels]
        own = (np.array(maps[k]) == np.arange(max(maps[k]) + 1)[:, None]).astype(float)
        if residual and k:
            over = (np.array(maps[k - 1]) == np.arange(max(maps[k - 1]) + 1)[:, None]).astype(float)
            up = over @ own.T > 0
            own = up.sum(axis=1).max() * own - up.T.astype(float) @ over
        out = np.kron(out, own)
    return out


def _rows(design: Design) -> np.ndarray:
    return np.concatenate(
        [s.scale * _sums(design, s.level, residual=s.residual) for s in design.sources]
    )


def _made(design: Design, noise: Noise) -> tuple[Structure, Order, CrossEstimator]:
    order = tables_first(design.tables)
    axes = design.structure().axes
    structure = apart(axes, {str(i): level for i, (level, _) in enumerate(order)})
    return structure, order, estimator_of(design, structure, noise)


def _aims(made: CrossEstimator, design: Design, noisy: Sequence[int]) -> dict[Level, Objects]:
    return made.estimated(parts_of(design, noisy), {}, [t.level for t in made.structure.tables])


def _drawn(design: Design, truth: np.ndarray) -> list[int]:
    full = [k and len(axis) for k, axis in zip((1, 1, 1), design.axes, strict=True)]
    counted = [
        [deep if k else 0 for k, deep in zip(level, full, strict=True)] for level in design.counted
    ]
    cells = [np.rint(_sums(design, tuple(t)) @ truth).astype(int).astype(object) for t in counted]
    return drawn_for(design, cells)


@pytest.mark.parametrize("design", EVEN)
def test_estimates_and_their_variances_are_those_of_dense_least_squares(design: Design) -> None:
    noise, rows = Laplace(Fraction(1, 3)), _rows(design)
    noisy = [int(k) for k in np.random.default_rng(7).integers(-50, 900, len(rows))]
    structure, _, made = _made(design, noise)
    found = _aims(made, design, noisy)
    for table in structure.tables:
        form = _sums(design, table.level) @ np.linalg.pinv(rows)
        assert np.allclose(found[table.level].astype(float) / ONE, form @ noisy, atol=1e-7)
        spread = (form**2).sum(axis=1) * float(noise.variance())
        assert np.allclose(spread, made.variance(table.name))
        for cell in range(table.cells):
            exact = sum(t.draws * t.weight**2 for t in made.terms(table.name, cell))
            assert math.isclose(float(exact * noise.variance()), spread[cell], rel_tol=1e-9)


@pytest.mark.parametrize("design", CASES)
def test_without_noise_every_table_is_exact_and_each_draw_moves_it_by_its_weight(
    design: Design,
) -> None:
    truth = np.random.default_rng(3).integers(0, 9, _sums(design, (0, 0, 0)).size)
    drawn = _drawn(design, truth)
    assert drawn == np.rint(_rows(design) @ truth).astype(int).tolist()
    structure, order, made = _made(design, Gaussian(Fraction(4)))
    aims = _aims(made, design, drawn)
    values, _ = fit(structure, order, aims, 10**6)
    moved = [_aims(made, design, [v + (i == j) * 10**6 for j, v in enumerate(drawn)]) for i in range(len(drawn))]  # fmt: skip
    for table in structure.tables:
        exact = np.rint(_sums(design, table.level) @ truth).astype(int)
        assert (values[table.level] == exact).all()
        assert (aims[table.level] == exact * ONE).all()
        for cell in range(table.cells):
            weights = [int(m[table.level][cell] - aims[table.level][cell]) / ONE / 10**6 for m in moved]  # fmt: skip
            terms = made.terms(table.name, cell)
            said = sorted(float(t.weight) for t in terms for _ in range(t.draws))
            assert np.allclose(sorted(w for w in weights if abs(w) > 1e-9), said)


def test_only_even_hierarchies_are_measured_by_residuals() -> None:
    assert len(designs(LEVELS, DEEP)) == 2
    assert len(designs(UNEVEN, DEEP)) == 1


def test_orders_have_two_margins_at_most_and_inner_tables_where_they_help() -> None:
    assert tables_first(CHAIN) == [
        ((0, 0, 0), ()), ((0, 1, 0), ((0, 0, 0),)), ((0, 1, 1), ((0, 1, 0),)), ((1, 1, 0), ((0, 1, 0),)),
    ]  # fmt: skip
    full = dict(tables_first([*CHAIN, (1, 1, 1)]))
    assert full[1, 1, 1] == ((0, 1, 1), (1, 1, 0))
    assert dict(tables_first(PAIRS))[1, 0, 1] == ((0, 0, 1), (1, 0, 0))
    chained = dict(tables_first([(1, 1, 0, 0), (0, 1, 1, 0), (0, 0, 1, 1), (1, 1, 1, 1)]))
    assert all(len(margins) < 3 for margins in chained.values())
    assert any(sum(t) == 3 for t in chained)  # an inner table of two of them
    levels = dict(tables_first([(2, 1), (1, 2)]))  # districts by sex, and regions by age
    assert levels[2, 1] == levels[1, 2] == ((1, 1),)
    with pytest.raises(LookupError) as refused:
        tables_first([*PAIRS, (1, 1, 1)])
    assert refused.value.args == ((1, 1, 1), [(0, 1, 1), (1, 0, 1), (1, 1, 0)])


@pytest.mark.parametrize("design", CASES)
def test_drawn_tables_add_up_are_proved_nearest_and_are_covered(design: Design) -> None:
    rng, count = np.random.default_rng(11), 60
    truth = rng.integers(0, 4, _sums(design, (0, 0, 0)).size)
    structure, order, made = _made(design, Gaussian(Fraction(9)))
    exact = np.array(_drawn(design, truth), dtype=object)
    missed = cells = 0
    own = {t.level: np.rint(_sums(design, t.level) @ truth).astype(int) for t in structure.tables}
    half = {t.level: 1.96 * np.sqrt(made.variance(t.name)) for t in structure.tables}
    for draw in range(count):
        drawn = (exact + np.rint(rng.normal(0, 3, exact.size)).astype(int)).tolist()
        aims = _aims(made, design, drawn)
        for table, wanted in own.items():
            off = np.abs((aims[table] - wanted * ONE).astype(float) / ONE) > half[table]
            missed, cells = missed + int(off.sum()), cells + off.size
        if draw % whole(3, 1):
            continue
        values, nodes = fit(structure, order, aims, 10**6)
        flat = [{t: v.tolist() for t, v in part.items()} for part in (aims, values)]
        assert node_faults(structure.axes, order, *flat, nodes) == []
        for table, margins in order:
            assert (values[table] >= 0).all()
            for margin in margins:
                of = coarser(structure.axes, table, margin)
                sums = np.zeros(int(of.max()) + 1, dtype=object)
                np.add.at(sums, of, values[table])
                assert (sums == values[margin]).all()
    assert missed < 0.05 * cells + 6 * math.sqrt(0.05 * cells * len(order) * 4)


def test_the_certificate_sees_another_table_or_another_number() -> None:
    design = EVEN[0]
    structure, order, made = _made(design, Gaussian(Fraction(9)))
    aims = _aims(made, design, [7 * i % 23 for i in range(len(_rows(design)))])
    values, nodes = fit(structure, order, aims, 10**6)
    flat = [{t: v.tolist() for t, v in part.items()} for part in (aims, values)]
    assert node_faults(structure.axes, order, *flat, nodes) == []
    worse = {**flat[1], (0, 1, 1): list(flat[1][0, 1, 1])}
    for at, by in ((0, 1), (1, -1), (4, -1), (5, 1)):  # margins are kept
        worse[0, 1, 1][at] += by
    assert node_faults(structure.axes, order, flat[0], worse, nodes)
    nodes[0, 1, 1][0][0] += 10 * FINE
    assert node_faults(structure.axes, order, *flat, nodes)


def _all_tables(rows: list[int], columns: list[int]) -> list[tuple[tuple[int, ...], ...]]:
    if len(rows) == 1:
        return [(tuple(columns),)] if sum(columns) == rows[0] else []
    firsts = itertools.product(*(range(min(rows[0], c) + 1) for c in columns))
    return [
        (first, *rest)
        for first in firsts
        if sum(first) == rows[0]
        for rest in _all_tables(rows[1:], [c - f for c, f in zip(columns, first, strict=True)])
    ]


def test_transported_tables_are_the_nearest_of_all() -> None:
    rng = np.random.default_rng(5)
    for trial in range(60):
        height, width = (int(k) for k in rng.integers(1, 4, 2))
        some = rng.integers(0, 4, (height, width))
        rows, columns = some.sum(axis=1).tolist(), some.sum(axis=0).tolist()
        aims = np.rint((some + rng.normal(0, 2, some.shape)) * FINE).astype(int).astype(object)
        if trial % 3 == 0:
            aims = aims // FINE * FINE  # ties
        kept = np.array(rows, dtype=object), np.array(columns, dtype=object)
        both = nearest_whole(aims, *kept)
        best = min(
            sum(
                (FINE * x - t) ** 2 for x, t in zip(itertools.chain(*table), aims.flat, strict=True)
            )
            for table in _all_tables(rows, columns)
        )
        assert ((FINE * both.values - aims) ** 2).sum() == best
        again = nearest_whole(aims, *kept)
        assert (again.values == both.values).all()  # a fixed rule for ties
        assert (again.rows == both.rows).all()


def test_machine_integers_make_the_same_table_as_integers_of_any_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(6)
    for _ in range(20):
        some = rng.poisson(rng.choice([0.1, 2, 50]), rng.integers(1, 12, 2))
        aims = np.rint((some + rng.normal(0, 5, some.shape)) * FINE).astype(int).astype(object)
        kept = some.sum(axis=1).astype(object), some.sum(axis=0).astype(object)
        quick = nearest_whole(aims, *kept)
        with monkeypatch.context() as patch:
            patch.setattr(transport, "_NEAR", 0)
            slow = nearest_whole(aims, *kept)
        assert {each.dtype for each in quick} == {np.dtype(np.int64)}
        assert {each.dtype for each in slow} == {np.dtype(object)}
        assert all((a == b).all() for a, b in zip(quick, slow, strict=True))
    far = np.array([[2**62, 0], [0, 2**62]], dtype=object)  # beyond what is added up safely
    assert (nearest_whole(far * FINE, *[far.sum(axis=0)] * 2).values == far).all()


def test_residuals_reach_the_bound_that_tables_do_not() -> None:
    """ResidualPlanner's bound of the sum of variances: (sum over spaces of sqrt(cost x what it adds))^2."""
    pairs = [tuple(int(a in p) for a in range(6)) for p in itertools.combinations(range(6), 2)]
    least = _bound(6, pairs)
    found = []
    for design in designs(plain(*(5,) * 6), pairs):
        square = sum(s.scale**2 * (20 if s.residual else 1) ** sum(s.level) for s in design.sources)
        structure = design.structure()
        made = estimator_of(design, structure, Gaussian(Fraction(10**6)))
        spread = sum(made.variance(t.name).mean() for t in structure.tables)
        found.append(square * spread / (10**6 + 1 / 12) / least)
    tables, residuals = found
    assert 1 <= residuals <= 1.02
    assert tables > 1.1


def _bound(axes: int, pairs: list[Level]) -> float:
    total = 0.0
    for n in range(3):
        part = (4 / 5) ** n  # of a row's square, and of a cell's variance
        for r in itertools.combinations(range(axes), n):
            inside = sum(all(p[a] for a in r) for p in pairs)
            total += part * math.sqrt(inside * 25.0 ** (n - 2))
    return total**2
