"""`top(value, k)`: who is shown, and that its confidence holds, by enumeration of every draw."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from functools import cache

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.intervals.noise import Laplace
from dprelease.reading import ranking
from dprelease.reading.derive import derive
from dprelease.reading.forms import Linear, NoisyInteger
from dprelease.reading.quantity import Quantity
from dprelease.reading.ranking import topmost
from tests.reading.drawn import REGIONS, pair, release, schema, table
from tests.rules_alone import built_in_rules_only

RATE = Fraction(1)
REACH = 8
_LED = ranking._led_by_noise


def quantity(i: int, raw: int, rate: Fraction = RATE) -> Quantity:
    cell = NoisyInteger("r", "b", i, 0, raw, Laplace(rate))
    return Quantity(Linear(Fraction(0), {cell: Fraction(1)}), float(raw), (-1000.0, 1000.0))


def mass(n: int, rate: Fraction = RATE) -> float:
    """Return P(N = n), by the definition of discrete Laplace noise."""
    q = math.exp(-rate)
    return (1 - q) / (1 + q) * q ** abs(n)


@cache
def led(lead: int) -> float:
    """Return what `ranking` finds of a lead: among groups of one law it depends on nothing else."""
    return _LED(quantity(0, lead), quantity(1, 0))


@pytest.fixture
def priced_once(monkeypatch):
    """Ask for the chance of each lead once: in thousands of draws there are a few dozen."""
    monkeypatch.setattr(
        ranking, "_led_by_noise", lambda one, other: led(round(one.value - other.value))
    )


@cache
def shown(rest: tuple[int, ...], count: int) -> dict[int, float]:
    return dict(topmost([quantity(i, x) for i, x in enumerate((0, *rest))], count))


def confidences(drawn: tuple[int, ...], count: int) -> dict[int, float]:
    """Return what is said; it depends on differences alone, so few cases are computed."""
    return shown(tuple(x - drawn[0] for x in drawn[1:]), count)


def reached(true: tuple[int, ...], count: int, group: int) -> list[tuple[float, float]]:
    """Return (confidence, probability) of a group over every draw; what lies beyond counts as sure."""
    out, known = [], 0.0
    for noise in itertools.product(range(-REACH, REACH + 1), repeat=len(true)):
        chance = math.prod(map(mass, noise))
        known += chance
        said = confidences(tuple(t + n for t, n in zip(true, noise, strict=True)), count)
        out.append((said.get(group, 0.0), chance))
    return [*out, (1.0, max(0.0, 1 - known))]


def overstated(true: tuple[int, ...], count: int, group: int) -> float:
    """Return the most by which P(confidence >= c) exceeds 1 - c, for a group that does not belong."""
    at = sorted(reached(true, count, group), reverse=True)
    total, worst = 0.0, 0.0
    for i, (said, chance) in enumerate(at):
        total += chance
        if said > 0 and (i + 1 == len(at) or at[i + 1][0] < said):
            worst = max(worst, total - (1 - said))
    return worst


BEYOND = 2e-3
"""What all draws beyond `REACH` have together."""


@pytest.mark.parametrize("true", [(0, 0, 0), (0, 0, 3), (0, 1, 1), (0, 5, 9)])
@pytest.mark.parametrize("count", [1, 2])
def test_a_group_that_does_not_belong_is_hardly_ever_said_to(true, count, priced_once):
    for group, own in enumerate(true):
        others = [x for j, x in enumerate(true) if j != group]
        if sum(x >= own for x in others) >= count:
            assert overstated(true, count, group) <= BEYOND


def test_without_the_factor_of_the_places_it_would_be_said_too_often(monkeypatch, priced_once):
    monkeypatch.setattr(ranking, "_led_by_noise", _halved(ranking._led_by_noise))
    shown.cache_clear()
    assert overstated((0, 0, 0), 2, 0) > 10 * BEYOND
    shown.cache_clear()


def _halved(made):
    return lambda one, other: made(one, other) / 2


def test_a_group_that_leads_is_nearly_always_said_to_belong(priced_once):
    sure = sum(chance for said, chance in reached((14, 0, 0), 1, 0) if said >= 0.95)
    assert sure > 0.98


def test_a_confidence_is_the_law_of_the_difference_rounded_down():
    def chance(lead: int) -> float:
        reach = range(-60, 61)
        return sum(mass(n) * mass(m) for n in reach for m in reach if n - m >= lead)

    for lead, count in ((3, 1), (6, 1), (6, 2), (11, 3)):
        found = [quantity(0, lead), *(quantity(j, 0) for j in range(1, 5))]
        said, exact = topmost(found, count)[0], 1 - count * chance(lead)
        assert max(0.0, 1 - 1.2 * count * chance(lead)) - 2e-4 <= said <= max(0.0, exact)


def test_all_that_tie_at_the_end_are_there_and_none_of_them_is_sure():
    found = [quantity(i, x) for i, x in enumerate((50, 7, 90, 7, 7, 1))]
    said = topmost(found, 3)
    assert list(said) == [2, 0, 1, 3, 4]
    assert said[2] > 0.99
    assert said[1] == said[3] == said[4] == 0.0
    assert topmost(found, 6) == dict.fromkeys([2, 0, 1, 3, 4, 5], 1.0)
    assert list(topmost(found, 9)) == [2, 0, 1, 3, 4, 5]


def test_groups_of_one_law_are_compared_with_those_nearest_alone(monkeypatch):
    """Of one law only the largest draws matter; another law is compared whatever its draw is."""
    found = [quantity(i, 100 - i) for i in range(40)]
    found += [quantity(40 + i, -90, Fraction(1, 50)) for i in range(3)]
    some = topmost(found, 5)
    monkeypatch.setattr(ranking, "_rivals", lambda given, count: list(range(len(given))))
    assert topmost(found, 5) == some
    near = [quantity(i, 10 * i) for i in range(4)]
    wide = [*near, *(quantity(4 + i, 0, Fraction(1, 50)) for i in range(2))]
    monkeypatch.undo()
    assert topmost(near, 2)[3] > 0.99
    assert topmost(wide, 2)[3] < 0.5  # what is drawn widely may be the larger one


@pytest.mark.parametrize("asked", ["count", {"statistic": "count", "domain": {"range": [0, 9]}}])
@pytest.mark.parametrize("epsilon", [0.2, 8])
def test_of_published_values_too(monkeypatch, asked, epsilon):
    held = release(statistics=[asked], epsilon=epsilon)
    some = [held.derive(f"top(count, {count})").to_json() for count in (1, 2, 3)]
    monkeypatch.setattr(ranking, "_rivals", lambda given, count: list(range(len(given))))
    assert [held.derive(f"top(count, {count})").to_json() for count in (1, 2, 3)] == some


def test_a_release_s_top_has_its_rows_in_order_with_their_intervals():
    found = derive(pair(), "top(count, 3)").table.to_pylist()
    every = {(r["region"], r["half"]): r for r in derive(pair(), "count").table.to_pylist()}
    values = sorted((r["value"] for r in every.values()), reverse=True)
    assert [r["value"] for r in found] == values[:3]
    for row in found:
        assert 0 <= row["confidence"] <= 1
        own = every[row["region"], row["half"]]
        assert row == {**own, "confidence": row["confidence"]}
    assert found[0]["region"] == "west"
    assert found[0]["confidence"] > 0.99


@pytest.mark.parametrize("text", ["top(mean(x), 2)", "top(mean_x, 2)", "top(late / count, 2)"])
def test_any_expression_has_a_top(text):
    text = text.replace("mean(x)", "mean_x").replace("late", "sum_late")
    found = derive(pair(), text, by=["region"]).table.to_pylist()
    assert len(found) == 2
    assert {r["region"] for r in found} <= set(REGIONS)
    assert all(0 <= r["confidence"] <= 1 for r in found)


def test_pooled_groups_and_another_period():
    found = derive(pair(), "top(count, 1)", by=["region"]).table.to_pylist()
    assert [(r["region"], r["confidence"] > 0.99) for r in found] == [("west", True)]
    assert derive(pair(), "top(count@previous, 1)", by=["region"]).table.num_rows == 1


def test_certain_gives_those_that_belong_for_certain():
    asked = [{"statistic": "count", "certain": True}]
    held = release(statistics=asked, epsilon=8, delta="0.000001")
    ends = {
        (r["region"], r["half"]): (r["lower"], r["upper"])
        for r in held.derive("count", certain=True).table.to_pylist()
    }
    for count in (1, 2, 3, 5):
        sure = {
            key
            for key, (low, _) in ends.items()
            if sum(high >= low for other, (_, high) in ends.items() if other != key) < count
        }
        found = held.derive(f"top(count, {count})", certain=True)
        rows = found.table.to_pylist()
        assert {(r["region"], r["half"]) for r in rows} == sure
        assert all(r["confidence"] == 1 and r["method"] == "certain" for r in rows)
    with pytest.raises(dp.errors.ArgumentError) as caught:
        release().derive("top(count, 2)", certain=True)
    assert caught.value.code == "DPR662"


def test_a_suppressed_value_is_not_shown_and_may_be_larger():
    open_ = Quantity(Linear(Fraction(0), {}), None, (0.0, 1000.0), suppressed=True)
    found = [quantity(0, 90), quantity(1, 50), open_]
    assert topmost(found, 1) == {0: 0.0}
    assert topmost(found, 2) == {0: topmost(found, 2)[0], 1: 0.0}
    assert topmost(found, 2)[0] > 0.99
    assert topmost([open_], 3) == {}


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("top(count)", "`top` takes 2, not 1", "top(cases, 10)"),
        ("top(count, 2.5)", "whole number of groups", "top(cases, 10)"),
        ("top(count, 0)", "whole number of groups", "top(cases, 10)"),
        ("top(count, count)", "whole number of groups", "top(cases, 10)"),
        ("1 + top(count, 3)", "`top` stands alone", "top(expression, 10)"),
        ("top(count, 3) + 1", "`top` stands alone", "top(expression, 10)"),
    ],
)
def test_a_faulty_top_says_how_it_is_written(text, what, fix):
    with pytest.raises(dp.errors.ConfigError) as caught:
        derive(pair(), text)
    assert what in str(caught.value)
    assert fix in str(caught.value.fix)


def test_its_files_and_the_command_show_the_confidence(tmp_path, monkeypatch):
    built_in_rules_only(monkeypatch)
    ledger = dp.create_ledger(tmp_path / "l.db", schema(), epsilon=9)
    held = table().to_pandas().dp.release(schema(), ledger=ledger, dataset="trips", period="1")
    folder = held.publish(tmp_path / "out")
    top = dp.read(folder).derive("top(count, 2)")
    page = top.write(tmp_path / "a.html").read_text()
    assert ">confidence</th>" in page
    assert f"{top.table.column('confidence')[0].as_py():.4g}"[:4] in page
    assert "confidence" in top.write(tmp_path / "a.csv").read_text().splitlines()[0]
    assert top.plot().svg
    said = CliRunner().invoke(app, ["derive", str(folder), "top(count, 2)", "--json"])
    assert json.loads(said.stdout) == top.to_json()
    assert "at most 1 less its confidence" in top.notes[0]
    assert "at most 1 less its confidence" in page
    said = CliRunner().invoke(app, ["derive", str(folder.parent), "top(count, 1)"])
    assert (said.exit_code, "confidence" in said.stdout) == (0, True)


def test_the_command_shows_keys_as_they_are(tmp_path, monkeypatch):
    """Found keys are texts of rows, and terminals read some texts as markup."""
    built_in_rules_only(monkeypatch)
    asked = schema(["count"]) | {"name": "marked"}
    regions = ["[a] of b", "[/bold]", "[bold]c"]
    asked["columns"] = {"[red]": {"kind": "category", "values": regions}}
    asked["release"]["by"] = ["[red]"]
    rows = pa.table({"[red]": [region for region in regions for _ in range(90)]})
    ledger = dp.create_ledger(tmp_path / "l.db", asked, epsilon=9, dataset="trips")
    held = dp.release(rows, asked, ledger=ledger, dataset="trips", period="1")
    folder = held.publish(tmp_path / "out")
    for width in ("140", "30"):
        monkeypatch.setenv("COLUMNS", width)
        said = CliRunner().invoke(app, ["derive", str(folder), "top(count, 3)"])
        assert said.exit_code == 0
        assert all(text in said.stdout for text in regions)
        assert ("[red]" in said.stdout) == (width == "140")
