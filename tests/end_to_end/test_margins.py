"""Every two-way table of a survey, and other sets of which no table is the finest: published, and made again."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dprelease as dp
from dprelease.core.errors import ArgumentError, ConfigError, DpreleaseError, PlanError
from tests.folders import sealed, write
from tests.sizes import FULL

VALUES = ["x", "y", "z"]
NAMES = ["q1", "q2", "q3", "q4"]
PAIRS = [{"all_pairs": NAMES, "statistics": ["count"]}]
USER = {"user": "id", "max_groups": 2, "max_rows_per_group": 2}


def schema(tables: list[dict[str, Any]], **changed: Any) -> dp.Schema:
    columns: dict[str, Any] = {n: {"kind": "category", "values": VALUES} for n in NAMES}
    columns["age"] = {"kind": "integer", "range": [0, 100]}
    columns["id"] = {"kind": "identifier"}
    release = {"epsilon": 1, "tables": tables} | changed.pop("release", {})
    said = {"name": "survey", "unit": "row", "adjacency": "add_remove", "rows": {"max": 1000}}
    said = {"dprelease": "schema/1", "columns": columns, **said, **changed}
    return dp.Schema.from_dict({**said, "release": release})


def rows(count: int = 200) -> pd.DataFrame:
    chance = np.random.default_rng(4)
    found = {
        name: chance.choice([*VALUES, "other"], count, p=[0.6, 0.3, 0.06, 0.04]) for name in NAMES
    }
    return pd.DataFrame({**found, "id": chance.integers(0, 90, count).astype(str)})


def released(tmp_path: Path, tables: list[dict[str, Any]], **changed: Any) -> tuple[Any, Path]:
    declared = schema(tables, **changed)
    ledger = dp.create_ledger(tmp_path / "l.db", declared, epsilon=3, delta="0.00001", dataset="s")
    release = rows().dp.release(declared, ledger=ledger, dataset="s", period="p1")
    release.publish(tmp_path / "out")
    folder = next((tmp_path / "out").rglob("release.json")).parent
    assert dp.verify(folder, ledger=ledger).ok
    return release, folder


def _by(*sets: str) -> list[dict[str, Any]]:
    return [{"by": each.split(), "statistics": ["count"]} for each in sets]


def _cells(release: Any, name: str, by: list[str]) -> pd.Series[Any]:
    table = release.tables[name].to_pandas()
    return table.set_index(by)["value"] if by else table["value"]


_UNITS, _DELTAS, _ADJACENCIES = ("row", USER), (0, 1e-6), ("add_remove", "substitution")


@pytest.mark.parametrize(
    ("unit", "delta", "adjacency"),
    [
        (_UNITS[i], _DELTAS[j], _ADJACENCIES[k])
        for i, j, k in itertools.product(range(2), repeat=3)
        if FULL or (i + j + k) % 2 == 0
    ],
)
def test_every_pair_of_columns_adds_up_and_is_made_again(
    tmp_path: Path, unit: Any, delta: float, adjacency: str
) -> None:
    """With every pair of unit, delta and relation; all eight in `make evidence`."""
    changed = {"unit": unit, "adjacency": adjacency, "release": {"delta": delta}}
    release, folder = released(tmp_path, PAIRS, **changed)
    pairs = list(itertools.combinations(NAMES, 2))
    wanted = ["total", *NAMES, *("_".join(p) for p in pairs)]
    assert list(release.tables) == wanted
    assert all((folder / f"{name}.csv").exists() for name in wanted)
    whole = _cells(release, "total", [])[0]
    with pytest.raises(ArgumentError, match="none is the finest"):
        release.derive("share(count)", table="q1_q2")
    frame, said = release.to_pandas("q1_q2"), release._repr_html_()
    assert list(frame["count"]) == release.tables["q1_q2"].column("value").to_pylist()
    assert release.long("q1_q2")["lower"].tolist() == frame["count_lower"].tolist()
    assert "<svg" in release.plot("count", table="q1_q2").svg
    assert all(f"<p>{name}</p>" in said for name in wanted)
    assert list(dp.read(folder).to_pandas("q1_q2")["count"]) == list(frame["count"])
    for a, b in pairs:
        cells = _cells(release, f"{a}_{b}", [a, b])
        assert (cells >= 0).all()
        for one in (a, b):
            own = _cells(release, one, [one])
            assert (cells.groupby(level=one).sum() == own.reindex(sorted(own.index))).all()
            assert own.sum() == whole


@pytest.mark.filterwarnings("ignore")
def test_keys_that_are_made_of_other_columns_are_crossed_too() -> None:
    """A derived number as a key has another name where rows are counted: such sets passed a plan and no run."""
    columns = {
        "q1": {"kind": "category", "values": VALUES},
        "age": {"kind": "integer", "range": [0, 100]},
        "band": {"kind": "integer", "from": "age / 50", "range": [0, 2]},
        "day": {"kind": "date", "range": ["2026-01-01", "2026-03-31"]},
    }
    by = ["q1", "band", "month(day)"]
    table = rows().assign(age=np.arange(200) % 101)
    table["day"] = [f"2026-0{1 + i % 3}-07" for i in range(200)]
    declared = schema([{"all_pairs": by, "statistics": ["count"]}], columns=columns)
    release = table.dp.release(declared, epsilon=1000)
    truth = table.assign(
        band=[str(int(a / 50 + 0.5)) for a in table["age"]], **{"month(day)": table["day"].str[:7]}
    )
    for a, b in itertools.combinations(by, 2):
        cells = _cells(release, f"{a}_{b}", [a, b])
        kept = truth[truth["q1"].isin(VALUES)].groupby([a, b]).size()
        assert (cells - kept.reindex(cells.index, fill_value=0)).abs().max() <= 1


@pytest.mark.parametrize(
    "sets",
    [
        ("q1 q2", "q2 q3"),
        ("q1 q2", "q2 q3", "q1 q3"),
        ("q1 q2", "q2 q3", "q1 q2 q3", "q4"),
        ("q1 q2 q3", "q2 q3 q4"),
        ("q1", "q2"),
    ],
)
def test_other_sets_without_a_finest_table_add_up(tmp_path: Path, sets: tuple[str, ...]) -> None:
    release, _ = released(tmp_path, _by(*sets), release={"delta": 1e-6})
    for one, other in itertools.combinations(sets, 2):
        shared = sorted(set(one.split()) & set(other.split()))
        sums = [
            cells.groupby(level=shared).sum() if shared else cells.sum()
            for cells in (
                _cells(release, each.replace(" ", "_"), each.split()) for each in (one, other)
            )
        ]
        assert np.all(sums[0] == sums[1])


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_levels_of_a_hierarchy_stand_in_a_set(tmp_path: Path, delta: float, uneven: bool) -> None:
    keys = [["n", "n1"], ["n", "n2"], ["s", "s1"], ["s", "s2"], *([["s", "s3"]] if uneven else [])]
    places = [key[1] for key in keys]
    columns: dict[str, Any] = {n: {"kind": "category", "values": VALUES} for n in NAMES[:2]}
    columns["district"] = {"kind": "category", "values": places}
    said = {
        "dprelease": "schema/1", "name": "survey", "unit": "row", "adjacency": "add_remove", "columns": columns,
        "rows": {"max": 1000}, "hierarchies": {"place": {"levels": ["region", "district"], "keys": keys}},
        "release": {"epsilon": 1, "delta": delta, "tables": _by("district q1", "region q2", "q1 q2", "region")},
    }  # fmt: skip
    frame = rows()[NAMES[:2]]
    frame["district"] = np.random.default_rng(5).choice(places, len(frame))
    declared = dp.Schema.from_dict(said)
    ledger = dp.create_ledger(tmp_path / "l.db", declared, epsilon=3, delta="0.00001", dataset="s")
    release = frame.dp.release(declared, ledger=ledger, dataset="s", period="p1")
    release.publish(tmp_path / "out")
    assert dp.verify(next((tmp_path / "out").rglob("release.json")).parent, ledger=ledger).ok
    cells = {name: _cells(release, name, by) for name, by in (
        ("district_q1", ["district", "q1"]), ("region_q2", ["region", "q2"]), ("q1_q2", ["q1", "q2"]), ("region", ["region"]),
    )}  # fmt: skip
    assert all((found >= 0).all() for found in cells.values())
    up = {district: region for region, district in keys}
    regions = cells["district_q1"].groupby(lambda key: up[key[0]]).sum()
    assert (regions.sort_index() == cells["region"].sort_index()).all()
    assert (cells["region_q2"].groupby(level="region").sum() == cells["region"].sort_index()).all()
    assert (
        cells["district_q1"].groupby(level="q1").sum() == cells["q1_q2"].groupby(level="q1").sum()
    ).all()


def test_a_folder_with_other_values_or_another_proof_does_not_verify(tmp_path: Path) -> None:
    _, folder = released(tmp_path, PAIRS, release={"delta": 1e-6})
    files = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    manifest = json.loads(files["release.json"])
    fit = manifest["draw"]["fits"]["count"]
    for wrong in ("values", "proof"):
        changed = json.loads(json.dumps(manifest))
        if wrong == "values":  # a table with the same margins
            cells = changed["draw"]["fits"]["count"]["values"]["q1_q2"]
            cells[0], cells[1], cells[3], cells[4] = (
                cells[0] + 1, cells[1] - 1, cells[3] - 1, cells[4] + 1,
            )  # fmt: skip
        else:
            proof = changed["draw"]["fits"]["count"]["proof"]
            proof[next(reversed(proof))][0][0] += 1
        assert changed["draw"]["fits"]["count"] != fit
        place = write(tmp_path / wrong, sealed(files, changed))
        said = str(dp.verify(place))
        assert "fitted values do not follow" in said


def test_what_a_set_cannot_hold_is_refused_before_any_charge() -> None:
    four = _by("q1 q2", "q2 q3", "q1 q3", "q1 q2 q3", "q1 q4")
    with pytest.raises(PlanError, match="may be those of no whole table") as refused:
        rows().dp.plan(schema(four))
    assert (refused.value.code, refused.value.fix) == (
        "DPR290",
        "leave out the table `q1_q2`; where it is one of `all_pairs`, list the others one by one",
    )
    cases: list[tuple[list[dict[str, Any]], dict[str, Any]]] = [
        ([{"all_pairs": NAMES, "statistics": ["count", "mean(age)"]}], {}),
        ([{"all_pairs": NAMES, "statistics": ["count(persons)"]}], {}),
        (
            [{"all_pairs": NAMES, "statistics": [{"statistic": "count", "certain": True}]}],
            {"delta": 1e-6},
        ),
        ([{"all_pairs": NAMES, "statistics": [{"statistic": "count", "max_error": 9}]}], {}),
        ([{"all_pairs": NAMES, "statistics": [{"statistic": "count", "where": "age > 9"}]}], {}),
        (
            [
                {
                    "all_pairs": NAMES,
                    "statistics": [{"statistic": "count", "mechanism": "discrete_laplace"}],
                }
            ],
            {},
        ),
        (PAIRS, {"rules": {"round": 5}}),
        (PAIRS, {"rules": {"suppress": {"below": 10}}}),
    ]
    for tables, release in cases:
        with pytest.raises(DpreleaseError) as other:
            rows().dp.plan(schema(tables, release=release))
        assert other.value.fix


@pytest.mark.parametrize(
    ("tables", "said"),
    [
        ([{"all_pairs": ["q1"], "statistics": ["count"]}], "two columns or more"),
        ([{"all_pairs": NAMES, "name": "x", "statistics": ["count"]}], "two columns or more"),
        ([{"all_pairs": NAMES, "by": [], "statistics": ["count"]}], "`by` or `all_pairs`"),
        ([{"statistics": ["count"]}], "`by` or `all_pairs`"),
        ([{"by": [], "statistics": ["count"]}], "needs a `name`"),
        ([*PAIRS, {"by": ["q1"], "statistics": ["count"]}], "share a file"),
    ],
)
def test_entries_of_tables_are_checked(tables: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        schema(tables)
