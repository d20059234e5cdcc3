"""A loss on the page of best forms says why it stays, and the row's own figures bear it out."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.test_best_forms import PAGE, page_rows
from tests.benchmarks.test_scripts import load

load("best_forms")  # puts the folder of its modules on the path
THEORY = Path(__file__).parents[2] / "docs" / "theory"


def losses() -> list[list[str]]:
    script = load("best_forms")
    rows = page_rows(script, PAGE.read_text(encoding="utf-8"))
    return [row for row in rows if row[17].startswith("loss:")]


def why_of(row: list[str]) -> str:
    script = load("best_forms")
    (why,) = (w for w in script.WHYS if f"; {w}" in row[17])
    return str(why)


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found, text
    return float(found.group(1))


def test_every_loss_says_its_factor_as_the_row_shows_it_and_one_reason() -> None:
    rows = losses()
    assert rows
    for row in rows:
        assert why_of(row)
        shown, form = (row[14], row[13]) if row[16] == "–" else row[16].split(", ", 1)
        assert row[17].startswith(f"loss: {form} is better by {shown}"), row
        assert float(shown) > load("best_forms").KEPT


def test_other_reasons_hold_where_they_are_given() -> None:
    for row in losses():
        if why_of(row) == "by place":
            assert row[0].startswith(("variance", "std"))
            assert number(r"choice is at most (\d\.\d\d)", row[17]) <= 1.1
        if why_of(row) == "no interval":
            assert "replace" in row[1]
            assert row[16].endswith("counts of values")
            assert (row[0].partition("(")[0], "public" in row[1]) != ("cdf", True)


def test_the_head_counts_the_losses_and_names_the_largest() -> None:
    page, rows = PAGE.read_text(encoding="utf-8"), losses()
    most = max(number(r"is better by (\d+\.\d\d)", row[17]) for row in rows)
    assert f"* {len(rows)} **loss**, by up to {most:.2f}: " in page
    for why in load("best_forms").WHYS:
        assert f"    * {sum(why_of(row) == why for row in rows)} *{why}*: " in page


def test_cited_headings_are_there() -> None:
    cited = {c for row in losses() for c in re.findall(r"\(([a-z-]+\.md#[a-z-]+)\)", row[17])}
    assert len(cited) == 1
    for link in cited:
        name, _, anchor = link.partition("#")
        headings = re.findall(r"^#+ (.+)$", (THEORY / name).read_text(encoding="utf-8"), re.M)
        assert anchor in {h.lower().replace(" ", "-") for h in headings}


def found(ratios: list[float]) -> list[Any]:
    wide = load("best_wide")
    return [wide.Wide(v, "counts of values", r) for v, r in zip(wide.VALUES, ratios, strict=True)]


def test_what_no_reason_holds_for_is_not_built() -> None:
    script, reasons = load("best_forms"), load("best_reasons")
    assert reasons._by_place(found([1, 1, 1, 1, 1, 1.11])) == "not built"
    assert reasons._by_place(found([1.5] + [0.9] * 5)).endswith("by `histogram`")
    for name, text, form, said in (
        ("row, replace, private size", "covariance(x, y)", "counts of values", "no interval"),
        ("row, replace, private size", "covariance(x, y)", "noisy sums", "not built"),
        ("row, add or remove", "covariance(x, y)", "counts of values", "not built"),
        ("row, replace, public size", "cdf(x, [0, 1])", "counts of values", "not built"),
        ("row, replace, private size", "cdf(x, [0, 1])", "counts of values", "no interval"),
    ):
        world = script.World(name, **script.WORLDS[name], rows=4)
        assert reasons._without_a_law(world, text, form).startswith(said)


@pytest.mark.parametrize("text", ["median(x)", "max(x)"])
def test_a_pinned_choice_has_the_weights_that_its_column_is_computed_from(text: str) -> None:
    worlds = load("best_worlds")
    for name, declared in worlds.WORLDS.items():
        world = worlds.World(name, **declared, rows=4)
        mine = worlds.planned(world, text, 1.0)
        pinned = worlds.planned(world, text, 1.0, mechanism="exponential")
        assert (mine.blocks[0].mechanism, pinned.blocks[0].mechanism) == (
            "permute_and_flip", "exponential",
        )  # fmt: skip
        states = world.states(text)
        found = worlds.rank_errors(text, mine, states)
        again = worlds.rank_errors(text, pinned, states)
        assert found["permute_and_flip"] == pytest.approx(again["permute_and_flip"])
        assert (found["permute_and_flip"] <= found["exponential"] + 1e-12).all()


def test_tables_by_place_lie_about_every_tenth() -> None:
    wide = load("best_wide")
    tables = wide.anywhere(129, 1_000)
    assert [sum(t) for t in tables] == [1_000] * 9
    middles = [sum(i * k for i, k in enumerate(t)) / 1_000 / 128 for t in tables]
    assert middles[4] == pytest.approx(0.5, abs=0.01)
    assert all(b - a > 0.06 for a, b in itertools.pairwise(middles))
    assert wide.first_kept([1.2, 1.1, 1.0], 1.1) == 1
    assert wide.first_kept([1.2, 1.0, 1.11], 1.1) == 3
