"""Means and shares beside tables that add up: quotients of fitted cells, with intervals of their own."""

from __future__ import annotations

import copy
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dprelease as dp
from dprelease.core.errors import PlanError
from dprelease.planning.again import plan_again
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.fitted import columns_of, fits_of
from tests.fitting.test_draws import TINY, drawn, share
from tests.rules_alone import rules_alone
from tests.several_tables import USER, people, schema
from tests.sizes import whole

pytestmark = pytest.mark.filterwarnings("ignore::dprelease.core.errors.UnledgeredWarning")

SUMS = ["count", "sum(income)"]
MEANS = [*SUMS, "mean(income)"]
SHARE = "proportion(income > 50)"


def tables(*statistics: list[Any]) -> list[dict[str, Any]]:
    by = ([], ["region"], ["district", "sex"])
    names = ("nation", "regions", "districts")
    return [
        {"name": n, "by": b, "statistics": s} for n, b, s in zip(names, by, statistics, strict=True)
    ]


BESIDE = schema(tables(MEANS, MEANS, MEANS))
ALONE = schema(tables(["count"], ["count", SHARE], ["count", "mean(age)", "mean(income)"]))


def with_years(made: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with deaths and person-years of every row."""
    columns = {
        "deaths": {"kind": "integer", "range": [0, 3], "nulls": {"default": 0}},
        "years": {"kind": "number", "range": [0.5, 4], "step": 0.25, "nulls": {"default": 1}},
    }
    return made | {"columns": made["columns"] | columns}


RATIO = "ratio(deaths, years)"


def fits(plan: ReleasePlan) -> dict[str, list[str]]:
    assert plan.tables is not None
    return {f.name: [t.table for t in f.tables] for f in plan.tables.fits}


def said(plan: ReleasePlan, table: str, name: str) -> Any:
    return next(s for s in plan.statistics if (s.table, s.name) == (table, name))


def test_beside_sum_and_count_it_costs_nothing() -> None:
    plan, without = dp.plan(BESIDE), dp.plan(schema(tables(SUMS, SUMS, SUMS)))
    assert [b.law for b in plan.blocks] == [b.law for b in without.blocks]
    assert plan.tables is not None and plan.tables.hidden == ()
    assert said(plan, "regions", "mean_income").notes[-1] == (
        "computed from the fitted sum(income) and count of this table, at no cost"
    )
    assert without.tables is not None
    assert not {"ratios", "hidden"} & set(without.tables.to_json())


def test_what_is_missing_is_fitted_and_not_published() -> None:
    plan = dp.plan(ALONE)
    assert fits(plan) == {
        "count": ["nation", "regions", "districts"],
        "rows where (income > 50)": ["regions"],
        "sum of age around the middle": ["districts"],
        "rows with age": ["districts"],  # a null leaves a row out
        "sum of income around the middle": ["districts"],
    }
    note = said(plan, "districts", "mean_age").notes[-1]
    assert note.endswith(
        "sum of age around the middle and rows with age is fitted for it and not published"
    )
    # -20 to 100 around 40: a row moves it by 60 and not by 100
    moved = {b.name: b.measurement.sensitivity["l1_over_groups"] for b in plan.blocks}
    assert moved["districts.sum of income around the middle"] == "60"
    release = dp.release(people(), ALONE)
    assert list(release.to_pandas("districts", intervals=False, status=False)) == [
        "district", "sex", "count", "mean_age", "mean_income", "region",
    ]  # fmt: skip


def test_a_sum_that_another_table_asks_for_is_the_one() -> None:
    plan = dp.plan(schema(tables(["sum(income)"], ["count"], ["mean(income)"])))
    assert fits(plan) == {
        "sum(income)": ["nation", "districts"],
        "count": ["regions", "districts"],
    }
    hidden = plan.tables.hidden if plan.tables else ()
    assert [(s.table, s.text) for s in hidden] == [
        ("districts", "sum(income)"), ("districts", "count"),
    ]  # fmt: skip


@pytest.mark.parametrize("made", [BESIDE, ALONE, schema(tables(MEANS, MEANS, MEANS), unit=USER)])
def test_a_fitted_ratio_is_the_quotient_of_what_is_published_in_its_domain(
    made: dict[str, Any],
) -> None:
    for seed in range(whole(1, 2)):
        release = dp.release(people(seed=seed), made)
        assert release.manifest["validation"]["ok"]
        for name in release.tables:
            frame = release.to_pandas(name)
            tidy = release.tables[name].to_pandas()
            for mean in ("mean_income", "mean_age"):
                if mean not in frame:
                    continue
                low, high = (-20, 100) if mean == "mean_income" else (0, 100)
                assert frame[mean].between(low, high).all()
                assert (frame[f"{mean}_lower"] <= frame[mean]).all()
                assert (frame[mean] <= frame[f"{mean}_upper"]).all()
                assert tidy[tidy["statistic"] == mean]["unbiased"].isna().all()
                if "sum_income" not in frame:
                    continue
                none = frame["count"] == 0
                assert (frame[f"{mean}_status"][none] == "empty_signal").all()
                some = frame[~none]
                off = np.abs(some[mean] - some["sum_income"] / some["count"])
                assert (off <= float(said(release.plan, name, mean).step)).all()


def test_a_ratio_is_the_quotient_of_two_fitted_sums(tmp_path: Path) -> None:
    both = ["sum(deaths)", "sum(years)", RATIO]
    made = with_years(schema(tables(["count", RATIO], both, ["sum(deaths)", RATIO])))
    frame, chance = people(), np.random.default_rng(4)
    frame["deaths"] = chance.integers(0, 4, len(frame))
    frame["years"] = chance.uniform(0.5, 4, len(frame))
    ledger = dp.create_ledger(tmp_path / "ledger.db", made, epsilon=1)
    release = dp.release(frame, made, ledger=ledger)
    regions = release.to_pandas("regions")
    quotient = regions["sum_deaths"] / regions["sum_years"]
    step = float(said(release.plan, "regions", "ratio_deaths_years").step)
    assert (np.abs(regions["ratio_deaths_years"] - quotient) <= step).all()
    assert fits(release.plan)["sum(years)"] == ["regions", "nation", "districts"]
    assert list(release.to_pandas("nation")) == [
        *(f"count{end}" for end in ("", "_lower", "_upper", "_status")),
        *(f"ratio_deaths_years{end}" for end in ("", "_lower", "_upper", "_status")),
    ]
    assert said(release.plan, "nation", "ratio_deaths_years").domain.hull == (0, 6)
    with rules_alone():
        folder = release.publish(tmp_path / "public")
    assert dp.verify(folder).ok
    read = dp.read(folder)
    derived = read.derive("ratio_deaths_years", table="regions").to_pandas()
    assert list(derived["lower"]) == list(regions["ratio_deaths_years_lower"])
    derived, again = (
        read.derive(text, table="regions", level=0.9).to_pandas()
        for text in ("ratio_deaths_years", "sum_deaths / sum_years")
    )
    assert list(derived["lower"]) == list(again["lower"])
    assert (derived["lower"] <= quotient).all() and (quotient <= derived["upper"]).all()


@pytest.mark.parametrize("text", ["mean(income)", RATIO])
def test_ends_of_a_domain_between_two_steps_withhold_nothing(text: str) -> None:
    """A cell without a published row has the whole range, on its step like all others."""
    asked = {"statistic": text, "domain": {"range": [-0.33333, 1.66666], "step": 0.001}}
    made = with_years(schema(tables(["count"], ["count"], ["count", asked])))
    made["columns"]["deaths"]["range"] = [-2, 3]
    frame = people(40).assign(deaths=1, years=1)
    release = dp.release(frame, made)
    found = release.to_pandas("districts")
    name = release.plan.of_table("districts").statistics[-1].name
    empty = found[found[f"{name}_status"] == "empty_signal"]
    assert len(empty)
    assert set(empty[f"{name}_lower"]) == {-0.334} and set(empty[f"{name}_upper"]) == {1.667}
    assert found[name].between(-0.33333, 1.66666).all()


def test_a_value_keeps_out_of_its_own_forbidden_gap() -> None:
    gap = {"statistic": "mean(income)", "domain": {"range": [-20, 100], "forbidden": [[10, 70]]}}
    release = dp.release(people(), schema(tables(SUMS, [*SUMS, gap], SUMS)))
    assert all(v <= 10 or v >= 70 for v in release.to_pandas("regions")["mean_income"])
    assert release.manifest["validation"]["ok"]


def exact_sums(plan: ReleasePlan, per_row: dict[str, int]) -> dict[str, dict[str, np.ndarray]]:
    assert plan.tables is not None
    return {
        fit.name: {
            part.table: np.bincount(plan.tables.named(part.table).of, TINY * per_row[fit.name])
            for part in fit.tables
        }
        for fit in plan.tables.fits
    }


CASES: dict[str, tuple[dict[str, Any], dict[str, int], dict[str, float]]] = {
    "beside": (
        schema(tables(MEANS, MEANS, MEANS), release={"epsilon": 4}),
        {"count": 1, "sum(income)": 70},
        {"mean_income": 70},
    ),
    "alone": (
        schema(tables(["count"], ["count", SHARE], ["count", "mean(age)"]), release={"epsilon": 6}),
        {
            "count": 1,
            "rows where (income > 50)": 1,
            "sum of age around the middle": -20,
            "rows with age": 1,
        },
        {"proportion_income_gt_50": 1, "mean_age": 30},
    ),
    "a ratio": (
        with_years(
            schema(
                tables(["count", RATIO], ["count", "sum(deaths)"], ["count", RATIO]),
                release={"epsilon": 6},
            )
        ),
        {"count": 1, "sum(deaths)": 1, "sum(years)": 10},  # a death per row, ten quarters of a year
        {"ratio_deaths_years": 0.4},
    ),
    "Gaussian": (
        schema(
            tables(MEANS, MEANS, MEANS),
            unit={"user": "id", "max_groups": 12, "max_rows_per_group": 1},
            release={"epsilon": 8, "delta": "1/1000"},
        ),
        {"count": 1, "sum(income)": 70},
        {"mean_income": 70},
    ),
}
DRAWS = 60


@pytest.mark.parametrize("name", CASES)
def test_draws_are_covered_and_fifths_are_not(name: str) -> None:
    made, per_row, truth = CASES[name]
    plan = dp.plan(made)
    exact, chance = exact_sums(plan, per_row), np.random.default_rng(3)
    covered: dict[tuple[str, str], list[float]] = {}
    short: list[float] = []
    for _ in range(DRAWS):
        cells = drawn(plan, exact, chance)
        columns = columns_of(plan, cells, fits_of(plan, cells))
        for s in plan.statistics:
            if s.name not in truth:
                continue
            column = columns[s.table or "", s.name]
            rows = exact["count"][s.table or ""]
            known = rows > 0
            inside = (column["lower"] <= truth[s.name]) & (truth[s.name] <= column["upper"])
            covered.setdefault((s.table or "", s.name), []).append(float(inside[known].mean()))
            if s.table == "nation":
                half = (column["upper"] - column["lower"]) / 10
                middle = (column["upper"] + column["lower"]) / 2
                short.append(float(abs(truth[s.name] - middle[0]) <= half[0]))
    for found in covered.values():
        mean, error = share(found)
        assert mean >= 0.95 - 4.9 * error
    if short:
        mean, error = share(short)
        assert mean < 0.95 - 4.9 * error


def test_errors_are_those_that_draws_have() -> None:
    made = copy.deepcopy(BESIDE) | {"rows": {"max": 50_000, "expected": 1000}}
    plan = dp.plan(made)
    planned = said(plan, "regions", "mean_income")
    exact = exact_sums(plan, {"count": 1, "sum(income)": 40})
    for of in exact.values():  # every cell 1,000 rows
        for table, cells in of.items():
            size = 12_000 // len(cells)
            of[table] = np.full(len(cells), size * (1 if of is exact["count"] else 40))
    chance, off = np.random.default_rng(8), []
    for _ in range(60):
        cells = drawn(plan, exact, chance)
        value = columns_of(plan, cells, fits_of(plan, cells))["regions", "mean_income"]["value"]
        off += np.abs(value - 40).tolist()
    # the plan's figure is for a value anywhere in the range: t^2 is 2,800 on average, here 1,600
    assert planned.planned_error is not None
    expected = planned.planned_error * math.sqrt((1 + 0.16) / (1 + 0.28))
    assert abs(np.mean(off) / expected - 1) < 0.25
    assert "at n=6,000" in planned.error_text


@pytest.mark.parametrize(
    ("statistics", "code", "words"),
    [
        (["count_distinct(income)"], "DPR292", "nor can it be drawn of sums of groups"),
        (
            [{"statistic": "mean(income)", "max_error": 5}],
            "DPR292",
            "public guess of the number of rows",
        ),
        (
            [{"statistic": "mean(income)", "domain": {"range": [0, 100], "step": 500}}],
            "DPR208",
            "one number",
        ),
    ],
)
def test_what_is_not_a_quotient_is_refused(statistics: list[Any], code: str, words: str) -> None:
    with pytest.raises(PlanError) as caught:
        dp.plan(schema(tables(["count"], ["count"], statistics)))
    assert caught.value.code == code
    assert words in str(caught.value)


def test_too_many_kinds_of_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprelease.fitting.quotient.MOST", 0)
    with pytest.raises(PlanError, match="different error laws") as caught:
        dp.plan(BESIDE)
    assert caught.value.code == "DPR286"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ratios")
    made = schema(tables(["count", "mean(income)"], ["count", SHARE], ["count"]))
    ledger = dp.create_ledger(root / "ledger.db", made, epsilon=1)
    with rules_alone():
        return dp.release(people(), made, ledger=ledger).publish(root / "public")


def test_the_folder_verifies_and_is_computed_with(published: Path) -> None:
    assert dp.verify(published).ok
    read = dp.read(published)
    shown = read.to_pandas("regions").set_index("region")["proportion_income_gt_50"]
    again = read.derive("proportion_income_gt_50", table="regions").to_pandas()
    assert again["value"].tolist() == shown.tolist()
    tidy = read.to_pandas("regions")
    name = "proportion_income_gt_50"
    width = tidy[f"{name}_upper"] - tidy[f"{name}_lower"]
    # the same pivot, in coarser cells of angles
    assert ((again["upper"] - again["lower"]) / width).between(0.98, 1.15).all()
    both = read.derive(f"{name}[region='r0'] - {name}[region='r1']", table="regions").to_pandas()
    assert both["lower"][0] <= both["value"][0] <= both["upper"][0]
    assert read.derive("mean_income", table="nation").to_pandas()["value"].notna().all()


def stated(published: Path) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((published / "release.json").read_text())
    return manifest


@pytest.mark.parametrize("field", ["critical", "low", "offset", "top"])
def test_forged_quotients_are_no_plan_of_the_request(published: Path, field: str) -> None:
    from dprelease.core.errors import VerificationError
    from dprelease.verification.derivation import Derivation

    manifest = stated(published)
    assert Derivation(manifest).plan.to_json() == manifest["plan"]
    ratio = manifest["plan"]["tables"]["ratios"][0]
    ratio[field] = {
        "critical": [[str(Fraction(r) / 2) for r in of] for of in ratio["critical"]],
        "low": "0",
        "offset": "7",
        "top": "count",
    }[field]
    made = Derivation(manifest)
    if field == "critical":
        with pytest.raises(VerificationError, match="not made from its request"):
            plan_again(made.query, manifest["plan"])
    else:
        assert plan_again(made.query, manifest["plan"]).to_json() != manifest["plan"]


def test_every_piece_of_a_ratio_s_range_has_its_own_critical_value() -> None:
    """By sums of two independent noises, written here anew, at the ends and in the middle of each piece."""
    two = [
        {"name": "nation", "by": [], "statistics": ["count"]},
        {"name": "regions", "by": ["region"], "statistics": ["count", RATIO]},
    ]
    plan = dp.plan(with_years(schema(two, release={"epsilon": 6})))
    assert plan.tables is not None
    (ratio,) = plan.tables.ratios
    own = {b.name.partition("sum of ")[2]: float(b.law.noise.noise.rate) for b in plan.blocks}
    top, bottom = (geometric(own[name]) for name in ("deaths", "years"))
    (critical,) = ratio.critical
    at = [(k / len(critical)) ** ratio.bend for k in range(len(critical) + 1)]
    assert ratio.bend > 1  # pieces are not of one length
    for k, far in enumerate(critical):
        for share_of in (0.0, 0.5, 1.0):
            t = ratio.low + (at[k] + share_of * (at[k + 1] - at[k])) * (ratio.high - ratio.low)
            off = np.abs(top[0][:, None] - t * bottom[0][None, :]) <= float(far)
            covered = float(top[1] @ off @ bottom[1])
            assert covered >= 0.95 - 1e-9
            assert covered < 0.99 or k == 0  # nor much more than asked


def geometric(rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Return discrete Laplace noise: its values and their chances."""
    d = np.arange(-math.ceil(30 / rate), math.ceil(30 / rate) + 1)
    chance = np.exp(-rate * np.abs(d))
    return d, chance / chance.sum()
