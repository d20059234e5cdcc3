"""A release with rows of several levels: as published, read, verified; and forged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import DpreleaseError
from dprelease.results.fitted import noised_of
from dprelease.results.formats.json_ import manifest_bytes
from tests.rules_alone import rules_alone
from tests.several_tables import BOTH, people, schema

DETAIL = {
    "statistic": "count",
    "max_relative_error": 0.2,
    "share": 0.25,
    "levels": ["regions", "places"],
}
TABLES = [
    {"name": "nation", "by": [], "statistics": BOTH},
    {"name": "regions", "by": ["region"], "statistics": BOTH},
    {"name": "places", "by": ["district"], "statistics": BOTH},
    {"name": "fine", "by": ["district", "sex"], "statistics": BOTH, "detail": DETAIL},
]
MADE = schema(TABLES, release={"epsilon": 2})
BLOCK = "regions.count-detail"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pipeline's folder with a full and a nearly empty period: rows of other levels."""
    root = tmp_path_factory.mktemp("detail")
    with rules_alone():
        return released(root)


def released(root: Path) -> Path:
    ledger = dp.create_ledger(root / "ledger.db", MADE, epsilon=4)
    for period, rows in (("2024", 6000), ("2025", 12)):
        release = dp.release(people(rows), MADE, ledger=ledger, dataset="people", period=period)
        release.publish(root / "public")
    return root / "public" / "people"


def levels(release: Any) -> set[str]:
    return set(release.to_pandas("fine")["level"])


def test_a_full_and_an_empty_period_stand_at_other_levels_and_add_up(folder: Path) -> None:
    full, empty = (dp.read(folder / period) for period in ("2024", "2025"))
    assert (levels(full), levels(empty)) == ({"fine"}, {"regions"})
    for release in (full, empty):
        fine = release.to_pandas("fine")
        regions = release.to_pandas("regions").set_index("region")
        for column in ("count", "sum_income"):
            assert dict(fine.groupby("region")[column].sum()) == dict(regions[column])
            assert fine[column].sum() == release.to_pandas("nation")[column][0]
        assert list(fine)[:4] == ["region", "district", "sex", "level"]
        assert dp.verify(release.folder).ok
    rows = empty.to_pandas("fine")
    assert rows[["district", "sex"]].eq("all").all(axis=None)
    same = ["region", *(c for c in rows if c.startswith(("count", "sum_income")))]
    pd.testing.assert_frame_equal(rows[same], empty.to_pandas("regions")[same])


@pytest.mark.filterwarnings("ignore::dprelease.core.errors.UnledgeredWarning")
def test_sizes_choose_and_nothing_else_and_are_used_for_nothing_else() -> None:
    release = people(600).dp.release(MADE)
    plan, cells = release.plan, release.noised.cells
    assert release.manifest["validation"]["ok"]
    for block in plan.blocks:
        cut = {**cells, block.name: tuple((-(10**6),) for _ in cells[block.name])}
        other = noised_of(plan, cut, release.receipt)
        if block.name == BLOCK:
            assert other.fits == release.noised.fits  # no value rests on a size
            for name in ("nation", "regions", "places"):
                assert other.parts[name].table == release.noised.parts[name].table
            assert {table for table, _ in other.parts["fine"].rows} == {"regions"}
        else:
            assert other.parts["fine"].rows == release.noised.parts["fine"].rows


def test_files_hold_the_rows_that_were_chosen(folder: Path) -> None:
    for period in ("2024", "2025"):
        frame = dp.read(folder / period).to_pandas("fine")
        wide = pd.read_csv(folder / period / "fine_wide.csv")
        assert list(wide["level"]) == list(frame["level"])
        assert list(wide["count"]) == list(frame["count"])
        tidy = pd.read_parquet(folder / period / "fine.parquet")
        assert len(tidy) == 2 * len(frame)
        package = json.loads((folder / period / "datapackage.json").read_text())
        one = next(r for r in package["resources"] if r["name"] == "fine-wide-csv")
        assert one["schema"]["primaryKey"] == ["region", "district", "sex", "level"]
        foreign = [k["reference"]["resource"] for k in one["schema"]["foreignKeys"]]
        assert foreign == ["regions-wide-csv"]  # the finer ones have no such rows
        (level,) = (f for f in one["schema"]["fields"] if f["name"] == "level")
        assert set(level["constraints"]["enum"]) == set(frame["level"])
    index = json.loads((folder / "index.json").read_text())
    assert index["unreadable"] == []


def test_the_report_says_where_each_group_stands_and_why(folder: Path) -> None:
    page = (folder / "2025" / "report.html").read_text()
    assert "at most 20 % of the average size" in page
    assert "2 at regions, 0 at places, 0 at fine" in page
    assert "used for nothing else, so intervals keep their 95 %" in page
    assert "needed for places" in page
    assert "only which level rows stand at" in page  # what the block of sizes is for
    assert "at most 20 %" in (folder / "2024" / "report.html").read_text()


def test_rows_of_any_level_can_be_computed_with(folder: Path) -> None:
    empty, full = dp.read(folder / "2025"), dp.read(folder / "2024")
    shares = empty.derive("share(count)", table="fine").to_pandas()
    assert list(shares["region"]) == ["r0", "r1"]
    one = "count[region='r0', district='all', sex='all', level='regions']"
    found = empty.derive(one, table="fine").to_pandas()
    regions = empty.derive("count[region='r0']", table="regions").to_pandas()
    assert found["value"][0] == regions["value"][0]
    assert (found["lower"][0], found["upper"][0]) == (regions["lower"][0], regions["upper"][0])
    assert len(full.derive("sum_income / count", table="fine").to_pandas()) == 12
    with pytest.raises(DpreleaseError):  # the row is of another level in that period
        full.derive(one, table="fine")


@pytest.mark.filterwarnings("ignore::dprelease.core.errors.UnledgeredWarning")
def test_great_expectations_takes_rows_of_every_level() -> None:
    release = dp.release(people(300), MADE)
    assert release.validate().ok


@pytest.mark.filterwarnings("ignore::dprelease.core.errors.UnledgeredWarning")
def test_means_stand_beside_them_at_every_level() -> None:
    made = schema([{**t, "statistics": ["count", "mean(income)"]} for t in TABLES])
    for rows in (12, 6000):
        release = dp.release(people(rows), made)
        assert release.manifest["validation"]["ok"]
        fine = release.to_pandas("fine")
        (level,) = set(fine["level"])
        own = release.to_pandas(level)
        ours = fine[[c for c in own if c in fine]].reset_index(drop=True)
        pd.testing.assert_frame_equal(ours, own[list(ours)])
        assert len(release.derive("mean_income", table="fine").to_pandas()) == len(fine)


# --- persons of several groups: each level has values of its own -------------------------------

PEOPLE_ = {"user": "id", "max_groups": 2, "max_rows_per_group": 2}
OF_PERSONS = ["count", "count(persons)"]


@pytest.fixture(scope="module")
def of_persons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose rows stand at several levels at once; the finest names its persons otherwise."""
    tables = [{**t, "statistics": OF_PERSONS} for t in TABLES]
    goal = {**DETAIL, "statistic": "people", "max_relative_error": 0.15}
    named = ["count", {"statistic": "count(persons)", "as": "people"}]
    made = schema([*tables[:-1], {**tables[-1], "statistics": named, "detail": goal}], unit=PEOPLE_)
    made["release"]["epsilon"] = 20
    rows = people(900)
    rows.loc[rows["district"].isin(["d1", "d3", "d5"]).to_numpy().nonzero()[0][8:], "district"] = (
        None
    )
    root = tmp_path_factory.mktemp("persons")
    ledger = dp.create_ledger(root / "ledger.db", made, epsilon=20)
    release = dp.release(rows, made, ledger=ledger, dataset="people", period="2024")
    with rules_alone():
        return Path(release.publish(root / "public"))


def test_a_row_of_persons_is_that_of_its_own_level(of_persons: Path) -> None:
    assert dp.verify(of_persons).ok
    release = dp.read(of_persons)
    fine = release.to_pandas("fine")
    assert set(fine["level"]) == {
        "regions",
        "fine",
    }  # needs are 21 and 42, sizes at most 8 and about 250, ±.4
    tidy = {n: pd.read_csv(of_persons / f"{n}.csv") for n in ("regions", "places", "fine")}
    tidy["regions"] = tidy["regions"].replace("count_persons", "people")
    for row in fine.to_dict("records"):
        keys = {"regions": ["region"], "fine": ["district", "sex"]}[row["level"]]
        here = {
            name: frame[(frame[keys] == [row[k] for k in keys]).all(axis=1)].query(
                "statistic == 'people'"
            )
            for name, frame in tidy.items()
            if name in (row["level"], "fine")
        }
        mine = here["fine"].query(f"level == {row['level']!r}").iloc[0]
        own = here[row["level"]].iloc[0]
        for part in ("value", "lower", "upper", "status", "mechanism", "block", "epsilon"):
            assert mine[part] == own[part], (row, part)
        assert mine["block"] == f"{row['level']}.count_persons".replace(
            "fine.count_persons", "fine.people"
        )
        fixed = ", ".join(f"{k}='{row[k]}'" for k in ("region", "district", "sex", "level"))
        (found,) = release.derive(f"people[{fixed}]", table="fine").to_pandas().to_dict("records")
        assert [found[k] for k in ("value", "lower", "upper")] == [
            mine[k] for k in ("value", "lower", "upper")
        ]
    totals = release.to_pandas("regions").set_index("region")
    sums = fine.groupby("region")
    assert dict(sums["count"].sum()) == dict(totals["count"])  # rows add up, persons do not
    assert sums["people"].sum()["r0"] > totals["count_persons"]["r0"]
    with pytest.raises(DpreleaseError, match="does not follow"):
        release.derive("people", by=["region"], table="fine")


def test_the_page_says_which_rows_add_up(of_persons: Path, folder: Path) -> None:
    said = "the rows add up to every total; count(persons) of the rows does not add up, as a person may be in several of them"
    assert said in (of_persons / "report.html").read_text()
    page = (folder / "2025" / "report.html").read_text()
    assert "the rows add up to every total, and “all” stands" in page


@pytest.mark.parametrize("name", ["sizes", "need", "level", "values of another level"])
def test_a_forged_choice_of_persons_does_not_verify(
    name: str, of_persons: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "people" / "2024"
    shutil.copytree(of_persons, copy)
    manifest = json.loads((copy / "release.json").read_text())
    tables, cells = manifest["plan"]["tables"], manifest["draw"]["cells"]
    if name == "sizes":
        cells["regions.count_persons-detail"] = [["1000000"]] * 2
    elif name == "need":
        tables["detail"]["needed"] = [[0 for _ in each] for each in tables["detail"]["needed"]]
    elif name == "level":
        tables["detail"]["levels"] = ["places", "fine"]
    else:  # as if they added up
        (fit,) = (f for f in tables["fits"] if f["name"] == "count(persons) of fine")
        fit["tables"] += next(
            f for f in tables["fits"] if f["name"] == "count(persons) of regions"
        )["tables"]
    (copy / "release.json").write_bytes(manifest_bytes(manifest))
    assert not dp.verify(copy).ok


# --- forgeries --------------------------------------------------------------------------------


def _sizes(by: int) -> Callable[[dict[str, Any]], None]:
    def forge(manifest: dict[str, Any]) -> None:
        rows = manifest["draw"]["cells"][BLOCK]
        manifest["draw"]["cells"][BLOCK] = [[str(int(row[0]) + by)] for row in rows]

    return forge


def _need(manifest: dict[str, Any]) -> None:
    needed = manifest["plan"]["tables"]["detail"]["needed"]
    manifest["plan"]["tables"]["detail"]["needed"] = [[0 for _ in each] for each in needed]


def _set(**changed: Any) -> Callable[[dict[str, Any]], None]:
    return lambda manifest: manifest["plan"]["tables"]["detail"].update(changed)


def _goal(manifest: dict[str, Any]) -> None:
    for table in manifest["request"]["release"]["tables"]:
        if "detail" in table:
            table["detail"]["max_relative_error"] = 1000


FORGERIES: dict[str, Callable[[dict[str, Any]], None]] = {
    "other sizes": _sizes(10**6),
    "no sizes": lambda manifest: manifest["draw"]["cells"].pop(BLOCK),
    "needs of nothing": _need,
    "no detail": lambda manifest: manifest["plan"]["tables"].pop("detail"),
    "levels left out": _set(levels=["places", "fine"]),
    "sizes of the published draw": _set(block="regions.count"),
    "public errors instead": _set(block=None),
    "another goal in the plan": _set(max_relative_error="1000"),
    "another goal in the request": _goal,
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_choice_does_not_verify(name: str, folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "people" / "2025"
    shutil.copytree(folder / "2025", copy)
    manifest = json.loads((copy / "release.json").read_text())
    FORGERIES[name](manifest)
    (copy / "release.json").write_bytes(manifest_bytes(manifest))
    found = {check.name: check.ok for check in dp.verify(copy).checks}
    assert False in found.values(), found
    if name != "other sizes":  # which make other files, as another draw would
        assert found["values"] is not True, found


def test_what_is_written_again_and_not_changed_verifies(folder: Path, tmp_path: Path) -> None:
    """The control of the forgeries."""
    copy = tmp_path / "people" / "2025"
    shutil.copytree(folder / "2025", copy)
    manifest = json.loads((copy / "release.json").read_text())
    (copy / "release.json").write_bytes(manifest_bytes(manifest))
    assert dp.verify(copy).ok


@pytest.mark.parametrize("file", ["fine.csv", "fine_wide.csv", "fine.parquet"])
def test_rows_of_another_level_do_not_verify(file: str, folder: Path, tmp_path: Path) -> None:
    """The finer rows that were not published, put in place of a region's: they add up, too."""
    copy = tmp_path / "people" / "2025"
    shutil.copytree(folder / "2025", copy)
    shutil.copy(copy / file.replace("fine", "places"), copy / file)
    found = {check.name: check.ok for check in dp.verify(copy).checks}
    assert False in found.values(), found
