"""Rules act on released numbers: what is suppressed, rounded and listed, and that every interval still covers."""

from __future__ import annotations

import itertools
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dprelease as dp
from dprelease.core.errors import PlanError
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import assemble
from dprelease.results.fitted import noised_of
from dprelease.results.receipt import Receipt
from dprelease.results.rules import level
from dprelease.results.validate.rules import check
from dprelease.schema.release_spec import Rules, Suppress
from tests.end_to_end.projects import repeatable
from tests.redrawn import redrawn
from tests.rules_alone import built_in_rules_only
from tests.sizes import whole

BELOW = 10
BASE: dict[str, Any] = {
    "dprelease": "schema/1",
    "name": "visits",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 5000, "expected": 60},
    "columns": {
        "region": {"kind": "category", "values": list("abcdef")},
        "sex": {"kind": "category", "values": ["f", "m"]},
        "age": {"kind": "integer", "range": [0, 100]},
    },
}
ONE: dict[str, Any] = {"epsilon": 1, "by": ["region"], "statistics": ["count", "mean(age)"]}
SEVERAL: dict[str, Any] = {
    "epsilon": 1,
    "tables": [
        {"name": "all", "by": [], "statistics": ["count"]},
        {"name": "regions", "by": ["region"], "statistics": ["count"]},
        {"name": "cells", "by": ["region", "sex"], "statistics": ["count"]},
    ],
}


@pytest.fixture(autouse=True)
def validated_by_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in_rules_only(monkeypatch)


def schema(release: dict[str, Any], **other: Any) -> dp.Schema:
    return dp.Schema.from_dict({**BASE, **other, "release": release})


def plan(release: dict[str, Any], **other: Any) -> ReleasePlan:
    return dp.plan(schema(release, **other))


def frame(seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "region": rng.choice(list("abcde"), 300, p=[0.5, 0.3, 0.15, 0.04, 0.01]),
            "sex": rng.choice(["f", "m"], 300),
            "age": rng.integers(0, 101, 300),
        }
    )


def released(release: dict[str, Any]) -> dp.Release:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        return frame().dp.release(schema(release))


def geometric(rate: float, far: int) -> tuple[np.ndarray, np.ndarray]:
    """Discrete Laplace noise, written here anew: P(d) = tanh(rate / 2) exp(-rate |d|)."""
    d = np.arange(-far, far + 1)
    return d, math.tanh(rate / 2) * np.exp(-rate * np.abs(d))


def shown(made: ReleasePlan, numbers: np.ndarray, rules: Rules | None) -> pd.DataFrame:
    """What a plan of one count shows of these noisy numbers, each in a group of its own."""
    keys = [(str(i),) for i in range(len(numbers))]
    cells = {made.blocks[0].name: [(int(x),) for x in numbers]}
    return assemble(("g",), keys, made.statistics, made.blocks, cells, rules).to_pandas()


# --- what a plan says ---------------------------------------------------------------------------


@pytest.mark.parametrize("release", [ONE, SEVERAL], ids=["one table", "tables"])
@pytest.mark.parametrize(
    "rules", [{"suppress": {"below": BELOW}}, {"round": 5}], ids=["suppress", "round"]
)
def test_rules_cost_nothing_and_change_no_law(
    release: dict[str, Any], rules: dict[str, Any]
) -> None:
    """Epsilon, delta, shares, laws and sensitivities are those of the plan without rules."""
    bare, ruled = plan(release), plan({**release, "rules": rules})
    assert ruled.epsilon == bare.epsilon
    assert ruled.delta == bare.delta
    assert ruled.blocks == bare.blocks
    assert ruled.hash != bare.hash  # what is published differs, so the ledger tells them apart
    said = " ".join(ruled.notes)
    assert ("fitted number decides" in said) == ("tables" in release and "suppress" in rules)


def test_a_stated_error_of_rounded_numbers_is_the_exact_mean_error() -> None:
    """Noise summed term by term, over all places of an answer within a step."""
    bare = plan({**ONE, "statistics": ["count"]})
    rate = float(bare.blocks[0].law.slope)
    d, p = geometric(rate, 400)
    for base in (5, 10, 25):
        found = plan({**ONE, "statistics": ["count"], "rules": {"round": base}})
        answers = 500 + np.arange(base)
        rounded = base * np.floor((answers[:, None] + d) / base + 0.5)
        exact = float((np.abs(rounded - answers[:, None]) * p).sum(axis=1).mean())
        assert found.statistics[0].planned_error == pytest.approx(exact, rel=0.05)
        assert found.statistics[0].step == base


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ({**ONE, "statistics": ["mean(age)"], "rules": {"suppress": {"below": 5}}}, "no count"),
        ({**ONE, "rules": {"suppress": {"below": 5, "statistic": "persons"}}}, "no count"),
        ({**ONE, "statistics": ["mean(age)"], "rules": {"round": 5}}, "nothing to round"),
        (
            {
                **ONE,
                "statistics": [
                    {"statistic": "count", "domain": {"range": [0, 5000], "forbidden": [[0, 9]]}}
                ],
                "rules": {"suppress": {"below": 5}},
            },
            "forbidden interval",
        ),
        (
            {
                **ONE,
                "statistics": [{"statistic": "count", "domain": {"step": 10}}],
                "rules": {"round": 5},
            },
            "step",
        ),
        (
            {
                **ONE,
                "statistics": [{"statistic": "count", "mechanism": "reflected_laplace"}],
                "rules": {"suppress": {"below": 5}},
            },
            "additive",
        ),
        (
            {
                **ONE,
                "statistics": [{"statistic": "count", "max_error": 2}, "mean(age)"],
                "rules": {"round": 25},
            },
            "max_error",
        ),
        ({**SEVERAL, "rules": {"suppress": {"below": 5}, "sparse": True}}, "one table"),
        (
            {
                **ONE,
                "statistics": [{"statistic": "count", "domain": {"range": [0, 14]}}],
                "rules": {"suppress": {"below": 11}, "round": 5},
            },
            "could reach 11",
        ),
    ],
)
def test_a_rule_that_cannot_act_is_refused_before_anything_is_spent(
    release: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError, match=said) as refused:
        plan(release)
    assert refused.value.code == "DPR297"


def test_suppression_by_persons_names_their_count_in_its_fix() -> None:
    persons: dict[str, Any] = {"unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 1}}
    persons["columns"] = {**BASE["columns"], "who": {"kind": "identifier"}}
    release = {**ONE, "statistics": [{"statistic": "count(persons)", "as": "visitors"}]}
    with pytest.raises(PlanError) as refused:
        plan({**release, "rules": {"suppress": {"below": 10}}}, **persons)
    assert "`suppress: {below: 10, statistic: visitors}`" in str(refused.value)
    followed = plan(
        {**release, "rules": {"suppress": {"below": 10, "statistic": "visitors"}}}, **persons
    )
    assert followed.rules is not None


def test_sparse_without_suppression_is_refused_with_its_place() -> None:
    with pytest.raises(PlanError, match="none is suppressed") as refused:
        plan({**ONE, "rules": {"sparse": True}})
    assert refused.value.code == "DPR297"


# --- suppress -----------------------------------------------------------------------------------


def test_intervals_cover_every_answer_suppressed_or_not() -> None:
    """Exact, noise summed term by term; an interval that stops at the threshold does not cover."""
    made = plan({**ONE, "statistics": ["count"]})
    rules = Rules(Suppress(BELOW))
    rate = float(made.blocks[0].law.slope)
    d, p = geometric(rate, 60)
    worst, control = 1.0, 1.0
    for answer in range(60):
        table = shown(made, answer + d, rules)
        gone = (table["status"] == "suppressed").to_numpy()
        assert (gone == (answer + d < BELOW)).all()
        assert table["value"].isna().to_numpy()[gone].all()
        low, high = table["lower"].to_numpy(), table["upper"].to_numpy()
        inside = (low <= answer) & (answer <= high)
        worst = min(worst, float(p[inside].sum() / p.sum()))
        short = np.where(gone, answer < BELOW, inside)
        control = min(control, float(p[short].sum() / p.sum()))
    assert worst >= 0.95
    assert control < 0.75


def test_the_highest_end_of_a_suppressed_count_is_the_least_that_covers() -> None:
    made = plan({**ONE, "statistics": ["count"]})
    d, p = geometric(float(made.blocks[0].law.slope), 60)
    table = shown(made, np.array([0]), Rules(Suppress(BELOW)))
    most = int(table["upper"][0])
    chance = [float(p[answer + d < BELOW].sum()) for answer in (most, most + 1)]
    assert chance[0] >= 0.025 > chance[1]


@pytest.mark.parametrize(("below", "base"), [(11, 5), (10, 5), (8, 5), (12, 5), (3, 10), (16, 10)])
def test_no_number_is_rounded_to_less_than_the_threshold_and_published(
    below: int, base: int
) -> None:
    """The threshold is then the least number that is not, and every answer is covered."""
    asked = {**ONE, "statistics": ["count"], "rules": {"suppress": {"below": below}, "round": base}}
    made = plan(asked)
    numbers = np.arange(-10, 60)
    table = shown(made, numbers, made.rules)
    rounded = base * np.floor(numbers / base + 0.5)
    gone = (table["status"] == "suppressed").to_numpy()
    assert (gone == ((numbers < below) | (rounded < below))).all()
    assert (table["value"][~gone] == rounded[~gone]).all()
    least = int(numbers[~gone].min())
    assert (
        f"below {least}, and would be rounded to less than {below}," in " ".join(made.notes)
    ) == (least > below)
    noise, chance = geometric(float(made.blocks[0].law.slope), 60)
    for answer in range(40):
        drawn = shown(made, answer + noise, made.rules)
        covers = ((drawn["lower"] <= answer) & (answer <= drawn["upper"])).to_numpy()
        kept = (drawn["status"] != "suppressed").to_numpy()
        assert chance[covers].sum() >= 0.95 * chance.sum()
        assert chance[covers & kept].sum() >= 0.95 * chance[kept].sum()


def test_another_count_decides_and_all_else_of_the_cell_is_left_out() -> None:
    people = {"user": "who", "max_groups": 2, "max_rows_per_group": 3}
    columns = {**BASE["columns"], "who": {"kind": "identifier"}}
    release = {
        **ONE,
        "statistics": ["count", "count(persons)", "histogram(age, [0, 20, 50, 100])"],
        "rules": {"suppress": {"below": 40, "statistic": "persons"}},
    }
    made = schema(release, unit=people, columns=columns)
    data = frame().assign(who=np.arange(300) % 180)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dp.UnledgeredWarning)
        table = data.dp.release(made).table.to_pandas()
    gone = table[table["status"] == "suppressed"]
    assert set(gone["region"]) >= {"e", "f"}
    assert gone.groupby("region").size().eq(5).all()
    persons = gone["statistic"] == "count_persons"
    assert (gone.loc[~persons, "lower"] == 0).all()
    assert (gone.loc[~persons & (gone["statistic"] == "count"), "upper"] == 5000).all()
    assert (gone.loc[persons, "upper"] < 200).all()


def test_ends_of_a_suppressed_cell_are_multiples_of_the_step() -> None:
    """Whose domain ends between two of them: else the release is withheld after the charge."""
    persons = {"statistic": "count", "domain": {"range": [3, 1003]}}
    release = {**ONE, "statistics": [persons, "histogram(age, [0, 20, 50, 100])"]}
    mean = {"statistic": "mean(age)", "domain": {"range": [1, 100], "step": 7}}
    for asked in ({**release, "rules": {"round": 5}}, {**ONE, "statistics": ["count", mean]}):
        rules = {**asked.get("rules", {}), "suppress": {"below": 1000}}  # type: ignore[dict-item]
        found = released({**asked, "rules": rules})
        assert check(found.noised).ok
        table = found.table.to_pandas()
        assert (table["status"] == "suppressed").all()


# --- published cells ------------------------------------------------------------------------------


NOISES: dict[str, dict[str, Any]] = {
    "laplace": {"epsilon": 1},
    "narrow": {"epsilon": 5},
    "normal": {"epsilon": 1, "delta": "1e-6"},
    "staircase": {"epsilon": 5},
}


def counted(noise: str) -> ReleasePlan:
    count: dict[str, Any] = {"statistic": "count"}
    if noise == "normal":
        count["mechanism"] = "rectified_gaussian"
    if noise == "staircase":
        count["mechanism"] = "staircase"
        people = {"user": "who", "max_groups": 1, "max_rows_per_group": 10}
        columns = {**BASE["columns"], "who": {"kind": "identifier"}}
        return plan({**ONE, **NOISES[noise], "statistics": [count]}, unit=people, columns=columns)
    return plan({**ONE, **NOISES[noise], "statistics": [count]})


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("noise", NOISES)
def test_a_published_number_is_covered_among_the_draws_that_publish_it(
    noise: str, sparse: bool
) -> None:
    """Exact, noise summed term by term for every answer; usual intervals of small cells nearly all miss."""
    made = counted(noise)
    fitted = made.blocks[0].law.added.noise  # type: ignore[union-attr]
    far = 40 + 3 * fitted.quantile(1 - 1e-9)
    d = np.arange(-far, far + 1)
    p = -np.diff(fitted.survival(np.arange(0.0, far + 1)))
    p = np.concatenate([p[::-1], [1 - 2 * p.sum()], p])
    worst, usual = 1.0, 1.0
    for answer in range(2 * BELOW + fitted.quantile(0.95)):
        table = shown(made, answer + d, Rules(Suppress(BELOW), sparse))
        plain = shown(made, answer + d, None)
        kept = (table["status"] != "suppressed").to_numpy()
        covers = [
            ((t["lower"] <= answer) & (answer <= t["upper"])).to_numpy()[kept]
            for t in (table, plain)
        ]
        assert (table["upper"] == plain["upper"]).to_numpy()[kept].all()
        shares = [float(p[kept][c].sum() / p[kept].sum()) for c in covers]
        worst, usual = min(worst, shares[0]), min(usual, shares[1])
    assert worst >= 0.95 - 1e-9
    assert usual < 0.5


def test_of_published_cells_alone_at_most_one_in_twenty_is_expected_to_miss() -> None:
    """5,000 cells of few rows, by noise of another generator; usual intervals miss far more."""
    made = plan({**ONE, "statistics": ["count"]})
    rate = float(made.blocks[0].law.slope)
    rng = np.random.default_rng(8)
    answers = np.where(rng.random(5000) < 0.995, rng.integers(0, 4, 5000), 60)
    shares: list[list[float]] = []
    for _ in range(whole(20, 40)):
        noise = rng.geometric(-math.expm1(-rate), 5000) - rng.geometric(-math.expm1(-rate), 5000)
        row = []
        for rules in (Rules(Suppress(8), sparse=True), Rules(Suppress(8)), None):
            table = shown(made, answers + noise, rules)
            kept = answers + noise >= 8
            low, high = table["lower"].to_numpy()[kept], table["upper"].to_numpy()[kept]
            mine = answers[kept]
            row.append(float(1 - ((low <= mine) & (mine <= high)).mean()))
        shares.append(row)
    *ruled, usual = np.mean(shares, axis=0)
    errors = np.std(shares, axis=0, ddof=1) / math.sqrt(len(shares))
    assert all(mean <= 0.05 + 5 * error for mean, error in zip(ruled, errors, strict=False))
    assert usual > 0.15


def test_in_tables_that_add_up_a_published_number_may_be_a_small_one() -> None:
    """Where its interval, less what the fit took off, reaches down to a row above the threshold it reaches to 0."""
    usual, near, clear = released(SEVERAL), 0, 0
    plain = usual.tables["cells"].to_pandas()
    for below in range(5, 100, 5):
        made = plan({**SEVERAL, "rules": {"suppress": {"below": below}}})
        drawn = noised_of(made, dict(usual.noised.cells), Receipt("1", "0", ""))
        table = drawn.parts["cells"].table.to_pandas()
        kept = table["status"] != "suppressed"
        fell = np.ceil(np.maximum(plain["unbiased"] - plain["value"], 0))
        reaches = kept & (plain["lower"] <= below + 1 + fell)
        assert (table["lower"][reaches] == 0).all()
        assert (table["lower"][kept & ~reaches] == plain["lower"][kept & ~reaches]).all()
        near, clear = near + int(reaches.sum()), clear + int((kept & ~reaches).sum())
    assert near and clear


def trees(regions: int, rules: dict[str, Any]) -> tuple[np.ndarray, pd.DataFrame]:
    """Regions of fifty cells, 40 rows in one of these: the exact cells, and what rules make of one draw.

    Each region is a tree of its own. Its total is known well and its cells are not, so that the fit takes off what
    empty cells have of noise.
    """
    columns = {
        "region": {"kind": "category", "values": [f"r{i}" for i in range(regions)]},
        "cell": {"kind": "category", "values": [f"c{i}" for i in range(50)]},
    }
    tables = [
        {"name": "regions", "by": ["region"], "statistics": ["count"], "share": 0.8},
        {"name": "cells", "by": ["region", "cell"], "statistics": ["count"], "share": 0.2},
    ]
    made = plan({"epsilon": 1, "tables": tables, "rules": rules or None}, columns=columns)
    exact, rng, cells = np.tile([40] + [0] * 49, regions), np.random.default_rng(4), {}
    answers = exact.reshape(regions, 50).sum(axis=1), exact
    for block, mine in zip(made.blocks, answers, strict=True):
        p = -math.expm1(-float(block.law.slope))
        noise = rng.geometric(p, mine.size) - rng.geometric(p, mine.size)
        cells[block.name] = [(int(x),) for x in mine + noise]
    found = noised_of(made, cells, Receipt("1", "0", "")).parts["cells"].table
    return exact, found.to_pandas()


@pytest.mark.parametrize("rules", [{}, {"round": 5}], ids=["whole", "rounded"])
def test_in_tables_that_add_up_no_published_number_is_below_the_threshold(
    rules: dict[str, Any],
) -> None:
    """A cell that its fitted number leaves out keeps the upper end that its estimate has."""
    below = 12
    estimate = trees(30, {})[1]["unbiased"]
    _, usual = trees(30, rules)
    _, table = trees(30, {**rules, "suppress": {"below": below}})
    gone = table["status"] == "suppressed"
    assert (table["value"][~gone] >= below).all()
    assert (gone == ((estimate < below) | (usual["value"] < below))).all()
    fell, least = gone & (estimate >= below), table["upper"][gone].min()
    assert fell.sum() > 20
    assert (table["upper"][gone & ~fell] == least).all()
    assert (table["upper"][fell] == np.maximum(least, usual["upper"][fell])).all()
    assert (table["lower"][gone] == 0).all()


def test_of_tables_that_add_up_suppressed_and_published_cells_are_covered() -> None:
    """7,500 cells by noise of another generator, and what would miss were only estimates looked at."""

    def misses(inside: pd.Series, part: pd.Series) -> float:
        """By how many standard errors more than one in twenty of these cells miss."""
        n = int(part.sum())
        return float(((~inside)[part].sum() - 0.05 * n) / math.sqrt(0.05 * 0.95 * n))

    exact, usual = trees(150, {})
    empty = pd.Series(exact == 0)
    for below in (3, 24):
        _, table = trees(150, {"suppress": {"below": below}})
        gone = table["status"] == "suppressed"
        covers = (table["lower"] <= exact) & (exact <= table["upper"])
        assert max(misses(covers, part) for part in (empty, ~empty, empty & gone)) < 5
        if below == 3:  # of empty cells that are published, whose estimates are far above it
            assert misses(covers, ~gone & empty) < 5
            reached = usual["lower"].where(usual["lower"] > below + 1, 0)
            assert misses((reached <= exact) & (exact <= usual["upper"]), ~gone & empty) > 5
        else:  # of cells just above the end that noise alone gives those that are left out
            short = covers.where(~gone, exact <= table["upper"][gone].min())
            assert misses(short, ~empty) > 5


@pytest.mark.parametrize(
    ("table", "share", "counts"),
    [("regions", 0.6, (10, 10)), ("cells", 0.4, (10, 10)), ("cells", 0.6, (2, 0))],
)
def test_an_estimate_of_narrow_noise_is_covered_among_the_draws_that_publish_it(
    table: str, share: float, counts: tuple[int, int]
) -> None:
    """Each region is a tree of its own with one triple of noise, and all triples are summed.

    Where an interval is less than a row wide, the lattices of the two tables show: .82 and .87 were covered. Beside an
    empty cell the fit takes off rows.
    """
    triples = np.array(list(itertools.product(range(-4, 5), repeat=3)))
    codes = [f"r{i}" for i in range(len(triples))]
    columns = {**BASE["columns"], "region": {"kind": "category", "values": codes}}
    by = {"regions": ["region"], "cells": ["region", "sex"]}
    shares = {"regions": share, "cells": 1 - share}
    tables = [{"name": n, "by": by[n], "statistics": ["count"], "share": shares[n]} for n in by]
    exact = {"regions": np.array([sum(counts)]), "cells": np.array(counts)}
    noisy = {"regions": triples[:, :1] + exact["regions"], "cells": triples[:, 1:] + exact["cells"]}
    answer, worst, every = int(exact[table][0]), 1.0, 1.0
    for below in range(answer - 1, answer + 2):
        asked = {"epsilon": 7, "tables": tables, "rules": {"suppress": {"below": below}}}
        made = plan(asked, columns=columns)
        chance, cells = np.ones(len(triples)), {}
        for block in made.blocks:
            name = block.name.split(".")[0]
            off = np.abs(noisy[name] - exact[name]).sum(axis=1)
            chance *= np.exp(-float(block.law.slope) * off)
            cells[block.name] = [(int(x),) for x in noisy[name].ravel()]
        found = noised_of(made, cells, Receipt("1", "0", "")).parts[table].table.to_pandas()
        first = found[:: len(found) // len(triples)]  # of two cells the first
        kept = (first["status"] != "suppressed").to_numpy()
        covers = ((first["lower"] <= answer) & (answer <= first["upper"])).to_numpy()
        worst = min(worst, float(chance[kept & covers].sum() / chance[kept].sum()))
        every = min(every, float(chance[covers].sum() / chance.sum()))
    assert min(worst, every) >= 0.95


def test_a_public_number_is_published_as_it_is_and_suppressed_as_it_is() -> None:
    """No noise lifted it over the threshold: at the threshold itself its interval is the number."""
    totals = {"table": "regions", "statistic": "count", "values": [[c, BELOW] for c in "abcdef"]}
    tables = SEVERAL["tables"]
    asked = {"epsilon": 1, "tables": tables, "totals": [totals]}
    found = []
    for below in (BELOW, BELOW + 1):
        release = {**asked, "rules": {"suppress": {"below": below}}}
        made = plan(release, adjacency="substitution", rows={"exact": 60})
        cells = {b.name: [(5,)] * made.groups(b) for b in made.blocks}
        found.append(
            noised_of(made, cells, Receipt("1", "0", "")).parts["regions"].table.to_pandas()
        )
    at, under = found
    assert (at["lower"] == BELOW).all()
    assert (at["upper"] == BELOW).all()
    assert (under["status"] == "suppressed").all()
    assert (under["lower"] == 0).all()
    assert (under["upper"] == BELOW + 1).all()


def test_where_noise_ends_a_published_number_is_no_further_down_than_is_certain() -> None:
    count = {"statistic": "count", "certain": True}
    made = plan({**ONE, "epsilon": 6, "delta": "1e-6", "statistics": [count]})
    bound = int(made.blocks[0].law.bound or 0)
    at = np.arange(BELOW, BELOW + 4 * bound)
    table = shown(made, at, Rules(Suppress(BELOW)))
    assert (table["lower"] >= table["certain_lower"]).all()
    near = table["lower"] <= BELOW
    assert (table["lower"] == np.maximum(at - bound, 0))[near].all()


def test_a_published_number_that_may_be_anything_says_nothing() -> None:
    """Its interval is the whole domain once it reaches to 0; one that ends below the cap says something."""
    made = plan({**ONE, "epsilon": 0.03, "statistics": ["count"]}, rows={"max": 120})
    at = np.arange(BELOW, 400, 5)
    table, plain = shown(made, at, Rules(Suppress(BELOW))), shown(made, at, None)
    whole = (table["lower"] == 0) & (table["upper"] == 120)
    assert (table["status"] == "uninformative").equals(whole)
    assert (plain["status"] == "uninformative").sum() < whole.sum() < len(at)


def test_intervals_of_other_values_of_published_cells_are_wider_where_these_alone_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the same noise."""
    narrow, wide = [], []
    for draw in range(5):
        for sparse, widths in ((False, narrow), (True, wide)):
            repeatable(monkeypatch, str(draw))
            made = released({**ONE, "rules": {"suppress": {"below": 40}, "sparse": sparse}})
            table = made.table.to_pandas()
            means = table[(table["statistic"] == "mean_age") & (table["status"] != "suppressed")]
            widths += list(means["upper"] - means["lower"])
    assert len(narrow) == len(wide) >= 5
    assert all(a <= b for a, b in zip(narrow, wide, strict=True))
    assert 0 < sum(narrow) < sum(wide)
    rules = Rules(Suppress(5), sparse=True)
    assert level(Rules(Suppress(5)), 3, 100) == 0.95
    assert level(rules, 400, 300_000) == pytest.approx(1 - 0.05 * 400 / 300_000)


# --- round --------------------------------------------------------------------------------------


def test_rounded_tables_are_multiples_and_still_add_up() -> None:
    found = released({**SEVERAL, "rules": {"round": 5}})
    whole, regions, cells = (found.tables[n].to_pandas() for n in ("all", "regions", "cells"))
    for table in (whole, regions, cells):
        assert (table["value"] % 5 == 0).all()
        assert (table["lower"] % 5 == 0).all()
        assert (table["upper"] % 5 == 0).all()
    assert whole["value"].sum() == regions["value"].sum() == cells["value"].sum()
    up = cells.groupby("region")["value"].sum()
    assert (up == regions.set_index("region")["value"]).all()


def test_an_interval_of_rounded_tables_reaches_an_exact_number_beyond_the_last_multiple() -> None:
    """300 rows of at most 300, in multiples of 7: the last one is 294, and every 95 % interval would end there."""
    made = schema({**SEVERAL, "epsilon": 10, "rules": {"round": 7}}, rows={"max": 300})
    found = [r.tables["all"].to_pandas() for r in redrawn(frame(), made, 20)]
    assert all(table["value"][0] <= 294 for table in found)
    assert sum(table["lower"][0] <= 300 <= table["upper"][0] for table in found) >= 15


def test_rounding_is_refused_where_means_are_made_of_the_number() -> None:
    columns = {
        **BASE["columns"],
        "age": {"kind": "integer", "range": [0, 100], "nulls": {"default": 0}},
    }
    both = [{**t, "statistics": ["count", "mean(age)"]} for t in SEVERAL["tables"]]
    with pytest.raises(PlanError, match="means of the same rows") as refused:
        plan({**SEVERAL, "tables": both, "rules": {"round": 5}}, columns=columns)
    assert refused.value.code == "DPR297"


@pytest.mark.parametrize("release", [ONE, SEVERAL], ids=["one table", "tables"])
def test_a_rounded_number_stands_beside_no_unrounded_one(release: dict[str, Any]) -> None:
    found = released({**release, "rules": {"round": 5}})
    for table in map(pa.Table.to_pandas, found.tables.values()):
        count = table["statistic"] == "count"
        assert table.loc[count, ["estimate", "unbiased"]].isna().all(axis=None)
        assert table.loc[~count, "estimate"].notna().any() or count.all()


# --- publication --------------------------------------------------------------------------------


CASES = [
    {**ONE, "rules": {"suppress": {"below": BELOW}}},
    {**ONE, "rules": {"suppress": {"below": BELOW}, "sparse": True, "round": 5}},
    {**ONE, "rules": {"suppress": {"below": 5000}, "sparse": True}},
    {**SEVERAL, "rules": {"suppress": {"below": BELOW}, "round": 5}},
]


@pytest.mark.parametrize("release", CASES, ids=["suppress", "sparse", "nothing left", "tables"])
def test_a_ruled_folder_verifies_and_is_read_back(release: dict[str, Any], tmp_path: Path) -> None:
    made, ledger = schema(release), tmp_path / "ledger.db"
    dp.create_ledger(ledger, made, dataset="d", epsilon=9)
    found = frame().dp.release(made, ledger=ledger, dataset="d", period="p")
    folder = found.publish(tmp_path / "public")
    assert dp.verify(folder).ok
    read = dp.read(folder)
    for name, table in found.tables.items():
        assert read.tables[name].equals(table)
    sparse = release["rules"].get("sparse", False)
    text = (folder / "report.html").read_text()
    if "tables" not in release:
        rows = (folder / "wide.csv").read_text().splitlines()[1:]
        gone = 6 - len(rows)
        assert all("suppressed" not in row for row in rows) or not sparse
        assert (f"{gone} of 6 groups are suppressed and not listed" in text) == sparse
    index = (folder.parent / "index.html").read_text()
    assert "p" in index


def test_a_value_put_back_into_a_file_does_not_verify(tmp_path: Path) -> None:
    made, ledger = schema(CASES[0]), tmp_path / "ledger.db"
    dp.create_ledger(ledger, made, dataset="d", epsilon=9)
    folder = (
        frame().dp.release(made, ledger=ledger, dataset="d", period="p").publish(tmp_path / "o")
    )
    file = folder / "data.csv"
    lines = file.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.startswith("f,count,"))
    assert lines[at].startswith("f,count,,0,")
    lines[at] = lines[at].replace("f,count,,0,", "f,count,3,0,")
    file.chmod(0o644)
    file.write_text("".join(lines))
    assert not dp.verify(folder).ok


def test_derived_numbers_of_suppressed_cells_have_no_value(tmp_path: Path) -> None:
    """What the noise of a suppressed cell says was not published: neither value nor its own interval."""
    del tmp_path
    found = released({**ONE, "rules": {"suppress": {"below": BELOW}}})
    rows = found.derive("count * 2").table.to_pandas().set_index("region")
    assert rows.loc["f", "status"] == "suppressed"
    assert math.isnan(rows.loc["f", "value"])
    assert tuple(rows.loc["f", ["lower", "upper"]]) == (0.0, 10_000.0)
    whole = found.derive("count", by=[]).table.to_pandas()
    assert whole["status"][0] == "suppressed"
    own = found.derive("count").table.to_pandas().set_index("region").loc["f"]
    table = found.table.to_pandas().set_index(["region", "statistic"]).loc[("f", "count")]
    assert (own["lower"], own["upper"]) == (table["lower"], table["upper"])
    note, part = found.derive("count * 2").notes
    assert "by its noise alone" in note and "a suppressed cell is part of" in part
    assert found.derive("count", level=0.99).notes == (note,)
    assert not found.derive("count").notes
    assert not released(ONE).derive("count * 2").notes


def test_a_number_below_the_threshold_in_tables_that_add_up_is_refused() -> None:
    """The built-in rules: whatever made the table, no number that decides is published below the threshold."""
    found = released({**SEVERAL, "rules": {"suppress": {"below": BELOW}}}).noised
    bare = replace(found.plan, rules=None)
    whole = noised_of(bare, dict(found.cells), Receipt("1", "0", ""), found.fits).parts["cells"]
    assert pc.min(whole.table["value"]).as_py() < BELOW
    part = replace(found.parts["cells"], table=whole.table)
    forged = replace(found, parts={**found.parts, "cells": part})
    assert check(found).ok
    assert [r.name for r in check(forged).rules if r.failed] == ["status"]


def test_a_missing_value_without_a_rule_is_refused() -> None:
    """The built-in rules: a status of its own lets nothing through."""
    found = released({**ONE, "statistics": ["count"]})
    table = found.noised.table
    forged = table
    for name, kind in (
        ("value", pa.float64()),
        ("consistent", pa.float64()),
        ("status", pa.utf8()),
    ):
        said = "suppressed" if name == "status" else None
        new = pa.array([said] * table.num_rows, kind)
        forged = forged.set_column(forged.column_names.index(name), name, new)
    verdict = check(type(found.noised)(found.plan, forged, found.noised.cells))
    assert not verdict.ok
