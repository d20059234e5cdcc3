"""The page of best forms: known forms have their laws, every row above 1.1 has a computed reason, every statistic is named."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dprelease.core import registry
from tests.benchmarks.test_scripts import load

load("best_forms")  # puts the folder of its modules on the path
PAGE = Path(__file__).parents[2] / "benchmarks" / "results" / "best_forms.md"


def page_rows(script: Any, page: str) -> list[list[str]]:
    lines = [line for line in page.splitlines() if len(line.split("|")) == len(script.HEADER) + 2]
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines]
    return [c for c in cells if c[0] in script.STATISTICS]


def test_no_row_above_is_without_a_computed_reason() -> None:
    script = load("best_forms")
    rows = page_rows(script, PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 90
    for row in rows:
        ratios = [row[9], row[14], row[16].split(",")[0]]
        above = any(float(r) > script.KEPT for r in ratios if r != "–")
        kind = row[17].partition(":")[0]
        assert (kind in script.KINDS) == above, row
        if above:  # what is said is what the row shows, or was found beyond it
            assert re.search(r"\d\.\d\d", row[17]), row
        if kind == "few rows":
            assert min(float(c.split(",")[0]) for c in row[15:17] if c != "–") <= script.KEPT, row
        if kind == "best known":
            assert float(row[14]) <= script.KEPT, row
    assert "not separated" not in PAGE.read_text(encoding="utf-8")


def test_every_statistic_that_the_library_offers_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    script = load("best_forms")
    named = {row[0].partition("(")[0] for row in page_rows(script, page)}
    pointed = [[c.strip() for c in line.strip("|").split("|")] for line in script.elsewhere(page)]
    missing = set(registry.names("aggregates")) - named - {name for name, _, _ in pointed}
    assert missing == set(), (
        "say in the last table of benchmarks/results/best_forms.md what each is measured against"
    )
    again = "the page is not what the script makes of it: python benchmarks/best_forms.py --page"
    assert page == script.merged(page, []), again
    for _, against, where in pointed:
        assert against
        assert all(PAGE.with_name(result).exists() for result in re.findall(r"[a-z_]+\.md", where))


def test_the_conclusion_counts_the_rows_by_their_reason() -> None:
    script = load("best_forms")
    row = "| {} | w | 1 | 5 | 55 | 5 | f | 1 | 1 | 1.0 | 1 | 1 | 1.0 | g | 1.0 | – | – | {} | d |"
    said = [f"{kind}: 1.00" for kind in script.KINDS[:-1]] + ["", "planned for the average"]
    said += ["loss: this by permute-and-flip is better by 1.70; by place: so"]
    text = "\n".join(script.concluded([row.format("sum(x)", w) for w in said]))
    assert text.startswith("2 of 6 rows are at most 1.1")
    assert "* 1 **loss**, by up to 1.70:" in text
    assert "    * 1 *by place*: " in text
    assert "    * 0 *not built*: " in text
    assert all(f"* 1 **{kind}**" in text for kind in script.KINDS)


def test_only_what_is_measured_anew_is_replaced() -> None:
    script = load("best_forms")
    name, other = list(script.WORLDS)[:2]
    row = "| sum(x) | {} | 1 | 5 | 55 | 5 | f | 1 | 1 | {} | 1 | 1 | 1.0 | g | 1.0 | – | – | {} | {} |"
    before = [row.format(w, "1.3", "loss: 1.30", "old") for w in (other, name)]
    page = script.merged("\n".join(before), [])
    again = script.merged(page, [row.format(name, "1.0", "", "new")])
    rows = [line for line in again.splitlines() if line.startswith("| sum(x) |")]
    assert [(name in row, "| new |" in row) for row in rows] == [(True, True), (False, False)]
    assert script.merged(again, []) == again


@pytest.mark.parametrize(
    ("bound", "there", "here", "kind"),
    [
        (1.05, 1.5, 1.5, "few rows"),
        (1.30, 1.0, 1.0, "best known"),
        (1.30, 1.0, 1.2, "few rows"),
        (1.30, 1.2, 1.0, "loss"),  # however good with few rows
        (None, None, 1.05, "best known"),
    ],
)
def test_a_reason_is_told_from_a_loss(
    bound: float | None, there: float | None, here: float, kind: str
) -> None:
    script = load("best_forms")
    world = script.World("w", **script.WORLDS["row, add or remove"], rows=4)
    known = None if there is None else ("form", there)
    found, said = script.reason(world, "covariance(x, y)", 1.0, ("form", here), (bound, known))
    assert found == kind
    assert said.startswith(f"{kind}: ")


def test_counts_that_add_up_have_the_law_that_is_stated() -> None:
    """Three counts: all points within reach, weighed one by one; noise of another rate is told apart."""
    known = load("best_known")
    rate, cells = 0.8, 3
    drawn = known._adding_up(cells, rate, np.random.default_rng(1))
    assert (drawn.sum(axis=1) == 0).all()
    points = np.array([p for p in itertools.product(range(-40, 41), repeat=cells) if not sum(p)])
    for wrong, near in ((1.0, True), (0.7, False)):
        chance = np.exp(-rate * wrong * np.abs(points).sum(axis=1))
        chance /= chance.sum()
        mean = float(chance @ np.abs(points).sum(axis=1))
        spread = math.sqrt(float(chance @ np.abs(points).sum(axis=1) ** 2) - mean**2)
        off = abs(np.abs(drawn).sum(axis=1).mean() - mean) / spread * math.sqrt(len(drawn))
        assert (off < 5) == near


def test_known_forms_are_private_and_no_better_than_the_optimum() -> None:
    """What is summed: chances of neighbours within e^epsilon; what is drawn: not below the linear programme."""
    script, known = load("best_forms"), load("best_known")
    for name, text, epsilon in (
        ("row, replace, public size", "median(x)", 1.0),
        ("row, add or remove", "std(x)", 3.0),
    ):
        world = script.World(name, **script.WORLDS[name], rows=3)
        truths = np.stack([script.truth(text, s) for s in world.states(text)])
        far, answers = known.distances(world, text, truths)
        weights = np.exp(-epsilon / 2 * far)
        chances = weights / weights.sum(axis=1, keepdims=True)
        flipped = np.stack([load("best_worlds").flips(w) for w in weights])
        assert flipped.sum(axis=1) == pytest.approx(1)
        for i, j in world.pairs(text):
            for law in (chances, flipped):
                assert (law[i] <= math.exp(epsilon) * law[j] * (1 + 1e-9)).all()
        cost = np.abs(truths[:, None, 0] - answers[None, :, 0])
        share = script.weights_of(truths)
        least = script.best(world.pairs(text), cost, share, epsilon, worst=False)
        found = known.known(world, text, epsilon)
        assert float(found["inverse sensitivity"] @ share) >= least
        assert float(found["randomised response"] @ share) >= least * (1 - 1e-6)


def test_the_bound_for_many_rows_is_that_of_the_known_optima() -> None:
    """Of moves by one the geometric law is best (Ghosh, Roughgarden & Sundararajan), of wide moves the staircase."""
    bound = load("best_programmes").of_many_rows
    for epsilon in (0.7, 3.0):
        one = [[Fraction(1)], [Fraction(-1)]]
        geometric = 1 / math.sinh(epsilon)
        assert bound(one, epsilon, alike=False) == pytest.approx(geometric, rel=1e-3)
        fine = [[Fraction(k, 12)] for k in range(-12, 13) if k]
        staircase = math.exp(epsilon / 2) / math.expm1(epsilon)
        assert bound(fine, epsilon, alike=False) == pytest.approx(staircase, rel=0.03)


def test_a_long_row_of_tables_comes_down_to_the_bound() -> None:
    """The optimum over 41 tables, each a step from the next, lies above the bound's share of the inner ones."""
    programmes, epsilon, tables = load("best_programmes"), 1.0, 41
    near = [(i, j) for i in range(tables) for j in range(tables) if abs(i - j) == 1]
    cost = np.abs(np.subtract.outer(np.arange(tables), np.arange(tables))).astype(float)
    least = programmes.best(near, cost, np.full(tables, 1 / tables), epsilon, worst=False)
    bound = programmes.of_many_rows([[Fraction(1)], [Fraction(-1)]], epsilon, alike=False)
    assert 0.94 * bound < least < bound  # at the ends of the row there is less room for error


def test_the_limit_of_inverse_sensitivity_is_that_of_its_law() -> None:
    """|u| in (k - 1, k] weighs e^(-epsilon k / 2): the mean of |u|, summed."""
    known, script = load("best_known"), load("best_forms")
    epsilon = 1.0
    world = script.World("w", **script.WORLDS["row, add or remove"], rows=4)
    k = np.arange(1, 400)
    weights = np.exp(-epsilon / 2 * k)
    mean = float(weights @ (k - 0.5) / weights.sum())
    found = known.known_of_many_rows(world, "count", script.large("count", 800), epsilon)
    assert found["inverse sensitivity"] == pytest.approx(mean)


def test_the_noise_of_known_forms_has_its_mean() -> None:
    known = load("best_known")
    rng = np.random.default_rng(2)
    staircase = np.abs(known._staircase(1.0, (200_000,), rng))
    assert staircase.mean() == pytest.approx(math.exp(0.5) / math.expm1(1.0), rel=0.02)
    geometric = np.abs(known._geometric(0.5, (200_000,), rng))
    assert geometric.mean() == pytest.approx(1 / math.sinh(0.5), rel=0.02)
