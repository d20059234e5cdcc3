"""What a sum of estimates takes of each noisy integer: exact, and the estimates backwards."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dprelease.fitting.estimate import ONE
from dprelease.fitting.least_squares import estimator
from tests.fitting.small import NOISES, cube, noisy_of, tree

CROSS = dict(zip(("a", "b", "ab", "y", "all"), (*NOISES.values(), *NOISES.values()), strict=False))
ZEROS = np.arange(12) < 4
MADE = {
    "tree": (tree(), NOISES, {}),
    "leaves alone": (tree(), {"leaf": NOISES["leaf"]}, {}),
    "zeros": (tree(zeros=ZEROS), NOISES, {}),
    "totals": (tree(), {**NOISES, "region": None}, {"region": [100, 50, 7]}),
    "cross": (cube(), CROSS, {}),
    "margins": (cube(), {**CROSS, "a": None}, {"a": [40, 50, 60]}),
}


def finest(structure, rng):
    """Return exact cells of every table, from random ones of the finest."""
    cells = np.where(structure.zeros, 0, rng.integers(0, 99, structure.finest.cells))
    return {t.name: np.bincount(t.of, cells, t.cells).astype(int) for t in structure.tables}


@pytest.mark.parametrize("name", MADE)
def test_the_form_behind_a_value_is_the_estimate_before_rounding(name):
    structure, noises, totals = MADE[name]
    made = estimator(structure, noises, list(totals))
    rng = np.random.default_rng(7)
    given = {**noisy_of(structure, noises, rng), **totals}
    found = made.estimates(given, totals)
    for table in structure.tables:
        for cell in range(table.cells):
            weights = made.behind({table.name: {cell: Fraction(1)}}).fractions()
            exact = sum(
                w * int(given[source][k])
                for source, of in weights.items()
                for k, w in enumerate(of)
                if w
            )
            assert abs(exact - Fraction(found.values[table.name][cell], ONE)) <= found.slack


@pytest.mark.parametrize("name", [n for n in MADE if not MADE[n][2]])
def test_of_numbers_that_add_up_it_is_the_cell_itself(name):
    structure, noises, totals = MADE[name]
    made = estimator(structure, noises, list(totals))
    exact = finest(structure, np.random.default_rng(8))
    for table in structure.tables:
        for cell in range(table.cells):
            weights = made.behind({table.name: {cell: Fraction(1)}}).fractions()
            found = sum(
                w * int(exact[source][k])
                for source, of in weights.items()
                for k, w in enumerate(of)
            )
            assert found == exact[table.name][cell]


@pytest.mark.parametrize("name", MADE)
def test_the_form_behind_a_value_has_the_terms_of_the_cell(name):
    structure, noises, totals = MADE[name]
    made = estimator(structure, noises, list(totals))
    for table in structure.tables:
        cell = table.cells - 1
        weights = made.behind({table.name: {cell: Fraction(1)}}).fractions()
        drawn = Counter(
            (noises[source], w)
            for source, of in weights.items()
            if noises.get(source) is not None
            for w in of
            if w
        )
        terms: Counter = Counter()
        for term in made.terms(table.name, cell):
            terms[term.noise, term.weight] += term.draws
        assert drawn == terms


def test_a_sum_of_estimates_is_taken_at_once():
    made = estimator(tree(), NOISES)
    wanted = {"leaf": {2: Fraction(1, 3), 7: Fraction(-2)}, "nation": {0: Fraction(5)}}
    both = made.behind(wanted).fractions()
    for source in both:
        parts = [
            [w * weight for w in made.behind({table: {cell: Fraction(1)}}).fractions()[source]]
            for table, of in wanted.items()
            for cell, weight in of.items()
        ]
        assert both[source] == [sum(each) for each in zip(*parts, strict=True)]
