"""Certain intervals from rows to a verified folder: every file and page holds them, and no exact number lies outside."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import dprelease as dp
from dprelease.core.errors import ArgumentError, BudgetError, PlanError
from tests import several_tables
from tests.planning.requests import declared
from tests.redrawn import redrawn
from tests.sizes import whole

GROUPS = ["a", "b", "c"]
ASKED = [
    {"statistic": "count", "certain": True},
    {"statistic": "sum(x)", "certain": True},
    {"statistic": "histogram(x, [0, 3, 7, 10])", "certain": True},
    "mean(x)",
]
WITHIN: dict[str, Any] = {"by": ["g"], "groups": GROUPS, "rows": {"max": 5000}}
SCHEMA = declared(ASKED, epsilon=2, delta="0.000001", **WITHIN)
OFTEN = declared(ASKED, epsilon=4, delta="0.01", **WITHIN)
"""Whose draws reach the ends of the noise now and then."""


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(11)
    values = np.round(rng.uniform(0, 10, 900) * 2) / 2
    return pd.DataFrame({"x": values, "g": rng.choice(GROUPS, 900)})


def exact(rows: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return every exact number, by group and column."""
    out: dict[tuple[str, str], float] = {}
    for group, part in rows.groupby("g"):
        x = part["x"]
        out[str(group), "count"] = len(part)
        out[str(group), "sum_x"] = float(x.sum())
        out[str(group), "histogram_x[0,3)"] = int((x < 3).sum())
        out[str(group), "histogram_x[3,7)"] = int(((x >= 3) & (x < 7)).sum())
        out[str(group), "histogram_x[7,10]"] = int((x >= 7).sum())
    return out


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dp.Release]:
    home = tmp_path_factory.mktemp("certain")
    ledger = dp.create_ledger(home / "l.db", SCHEMA, epsilon=5, delta="0.001", dataset="small")
    release = frame().dp.release(SCHEMA, ledger=ledger, dataset="small", period="p1")
    return release.publish(home / "out"), release


def test_every_file_and_page_holds_them(published: tuple[Path, dp.Release]) -> None:
    folder, release = published
    tidy = release.table
    names = tidy.column_names
    assert names[names.index("upper") + 1 :][:2] == ["certain_lower", "certain_upper"]
    assert parquet.read_table(folder / "data.parquet").column_names == names
    with (folder / "data.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row, drawn in zip(rows, tidy.to_pylist(), strict=True):
        assert (row["certain_lower"] == "") is (drawn["certain_lower"] is None)
        assert (
            drawn["certain_lower"] is None or float(row["certain_lower"]) == drawn["certain_lower"]
        )
        assert (drawn["certain_lower"] is None) is (drawn["statistic"] == "mean_x")
    with (folder / "wide.csv").open(encoding="utf-8-sig") as file:
        wide = next(csv.reader(file))
    assert wide[1:7] == [
        "count", "count_lower", "count_upper", "count_certain_lower", "count_certain_upper", "count_status",
    ]  # fmt: skip
    assert wide[-4:] == ["mean_x", "mean_x_lower", "mean_x_upper", "mean_x_status"]
    assert list(release.to_pandas().columns) == wide
    package = json.loads((folder / "datapackage.json").read_text())
    fields = {r["path"]: [f["name"] for f in r["schema"]["fields"]] for r in package["resources"]}
    assert (fields["data.csv"], fields["wide.csv"]) == (names, wide)
    report = (folder / "report.html").read_text()
    assert "certain from" in report
    assert "never more than" in report
    assert "the number then says more about one" in report
    index = json.loads((folder.parent / "index.json").read_text())
    found = {track["column"]: track["groups"][0]["values"][0] for track in index["tracks"]}
    first = {row["statistic"]: row for row in tidy.to_pylist()[: len(found)]}
    assert found["count"][4:] == [first["count"]["certain_lower"], first["count"]["certain_upper"]]
    assert len(found["mean_x"]) == 4
    assert "for certain" in (folder.parent / "index.html").read_text()


def test_the_folder_verifies_and_one_with_another_end_does_not(
    published: tuple[Path, dp.Release], tmp_path: Path
) -> None:
    folder, _ = published
    assert dp.verify(folder).ok

    other = tmp_path / "other"
    shutil.copytree(folder, other)
    rows = [line.split(",") for line in (folder / "data.csv").read_text().splitlines()]
    rows[1][5] = str(int(float(rows[1][5])) + 1)
    (other / "data.csv").write_text("\n".join(",".join(row) for row in rows) + "\n")
    assert not dp.verify(other).ok


def test_exact_numbers_lie_in_every_certain_interval() -> None:
    """Of draws that reach their ends in one of a hundred: and so some 95 % intervals miss, as they must."""
    rows, missed, cells = frame(), 0, 0
    numbers = exact(rows)
    for release in redrawn(rows, OFTEN, whole(12, 200)):
        for row in release.table.to_pylist():
            if row["statistic"] == "mean_x":
                continue
            number = numbers[row["g"], row["statistic"]]
            assert row["certain_lower"] <= number <= row["certain_upper"]
            missed += not row["lower"] <= number <= row["upper"]
            cells += 1
    assert 0 < missed < cells / 8


def test_derived_values_lie_in_their_certain_intervals() -> None:
    rows = frame()
    numbers = exact(rows)
    counts = [numbers[g, "count"] for g in GROUPS]
    sums = [numbers[g, "sum_x"] for g in GROUPS]
    wanted = {
        "total(count)": [sum(counts)],
        "sum_x / count": [s / n for s, n in zip(sums, counts, strict=True)],
        "share(count)": [n / sum(counts) for n in counts],
        "count - 2 * sum_x": [n - 2 * s for s, n in zip(sums, counts, strict=True)],
        "rank(count)": [1.0 + sum(other > n for other in counts) for n in counts],
    }
    for release in redrawn(rows, OFTEN, whole(5, 100)):
        for expression, values in wanted.items():
            found = release.derive(expression, certain=True)
            assert found.level == 1
            for row, value in zip(found.table.to_pylist(), values, strict=True):
                assert row["lower"] <= value <= row["upper"], expression
                assert row["method"] == "certain"
    whole_count = release.derive("total(count)", certain=True).table.to_pylist()[0]
    own = release.table.to_pandas().query("statistic == 'count'")
    assert whole_count["upper"] == own["certain_upper"].sum()
    with pytest.raises(ArgumentError, match="has no certain interval") as refused:
        release.derive("mean_x", certain=True)
    assert refused.value.code == "DPR662"


TABLES = [
    {"name": "nation", "by": [], "statistics": [{"statistic": "count", "certain": True}]},
    {
        "name": "regions",
        "by": ["region"],
        "statistics": [{"statistic": "count", "certain": True}, {"statistic": "sum(income)", "certain": True}],
    },
    {
        "name": "districts",
        "by": ["district", "sex"],
        "statistics": [{"statistic": "count", "certain": True}, {"statistic": "sum(income)", "certain": True}],
    },
]  # fmt: skip


def tables_schema(tables: list[dict[str, Any]]) -> dict[str, Any]:
    return several_tables.schema(tables, release={"delta": "0.001", "epsilon": 3})


def test_fitted_cells_lie_where_measured_ones_leave_them(tmp_path: Path) -> None:
    rows = several_tables.people()
    rows["region"] = rows["district"].map(several_tables.REGION)
    rows["income"] = rows["income"].fillna(0).clip(-20, 100)
    known = rows[rows["region"].notna() & (rows["sex"] != "?")]
    schema = tables_schema(TABLES)
    for release in redrawn(rows, schema, whole(4, 60)):
        for name, by in (
            ("nation", []),
            ("regions", ["region"]),
            ("districts", ["district", "sex"]),
        ):
            for row in release.tables[name].to_pylist():
                part = known
                for column in by:
                    part = part[part[column] == row[column]]
                number = len(part) if row["statistic"] == "count" else part["income"].sum()
                assert row["certain_lower"] <= number <= row["certain_upper"]
    nation = release.tables["nation"].to_pylist()[0]
    fine = release.tables["districts"].to_pandas().query("statistic == 'count'")
    assert nation["certain_upper"] <= fine["certain_upper"].sum()
    ledger = dp.create_ledger(tmp_path / "l.db", schema, epsilon=5, delta="0.01", dataset="d")
    folder = rows.dp.release(schema, ledger=ledger, dataset="d", period="p").publish(tmp_path / "o")
    assert dp.verify(folder).ok


def test_a_number_is_certain_in_all_of_its_tables_or_in_none() -> None:
    mixed = [{**TABLES[0], "statistics": ["count"]}, *TABLES[1:]]
    with pytest.raises(PlanError, match="certain in one table and not in another") as refused:
        dp.plan(tables_schema(mixed))
    assert refused.value.code == "DPR292"


def test_a_mean_beside_it_has_no_certain_interval_of_its_own() -> None:
    tables = [TABLES[0], {**TABLES[2], "statistics": [*TABLES[2]["statistics"], "mean(income)"]}]  # type: ignore[misc]
    release = several_tables.people().dp.release(tables_schema(tables))
    found = release.tables["districts"].to_pandas().groupby("statistic")["certain_lower"].count()
    assert found["mean_income"] == 0
    assert found["count"] > 0


def test_a_ledger_by_rho_refuses_it(tmp_path: Path) -> None:
    ledger = dp.create_ledger(
        tmp_path / "l.db", SCHEMA, epsilon=5, delta="0.001", dataset="small", composition="zcdp"
    )
    with pytest.raises(BudgetError, match="the release has no rho") as refused:
        frame().dp.release(SCHEMA, ledger=ledger, dataset="small", period="p1")
    assert refused.value.code == "DPR304"


def test_a_lost_ledger_takes_the_folder_back(
    published: tuple[Path, dp.Release], tmp_path: Path
) -> None:
    """Its manifest records no rho, which says that there is none."""
    from dprelease.budget.citation import Citation

    folder, _ = published
    found = Citation.from_manifest((folder / "release.json").read_bytes())
    assert found.entry.rho is None
    assert found.entry.delta > 0


def test_a_release_without_them_has_no_such_column() -> None:
    plain = declared(["count", "mean(x)"], epsilon=2, delta="0.000001", by=["g"], groups=GROUPS)
    release = frame().dp.release(plain)
    assert not [name for name in release.table.column_names if "certain" in name]
    assert "certain" not in json.dumps(release.manifest)
