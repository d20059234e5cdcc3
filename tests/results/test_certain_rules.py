"""Rules beside noise that ends: a suppressed cell has no certain interval, a rounded one has it outward."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.measurements.ending import EndingLaw
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.validate.rules import check
from dprelease.schema.release_spec import Rules, Suppress
from tests.results.test_rules import BELOW, SEVERAL, frame, plan, released, schema, shown
from tests.rules_alone import built_in_rules_only

CERTAIN = {"statistic": "count", "certain": True}
ONE: dict[str, Any] = {
    "epsilon": 1,
    "delta": "0.0001",
    "by": ["region"],
    "statistics": [CERTAIN, {"statistic": "sum(age)", "certain": True}],
}
SUPPRESSED: dict[str, Any] = {**ONE, "epsilon": 6, "rules": {"suppress": {"below": BELOW}}}
ENDS = ["certain_lower", "certain_upper"]


@pytest.fixture(autouse=True)
def validated_by_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in_rules_only(monkeypatch)


def tables(**rules: Any) -> dict[str, Any]:
    each = [{**table, "statistics": [CERTAIN]} for table in SEVERAL["tables"]]
    return {**SEVERAL, "delta": "0.001", "tables": each, "rules": rules}


def law_of(made: ReleasePlan) -> tuple[EndingLaw, np.ndarray, np.ndarray]:
    """Return the law of a plan of one count, and its noise written here anew, term by term."""
    law = made.blocks[0].law
    assert isinstance(law, EndingLaw)
    d = np.arange(-law.bound, law.bound + 1)
    p = np.exp(-float(law.slope) * np.abs(d))
    return law, d, p / p.sum()


@pytest.mark.parametrize("delta", ["0.0001", "0.02", "0.2"])
def test_a_count_whose_noise_ends_may_decide(delta: str) -> None:
    """Exact: intervals cover, a suppressed cell has no certain one, and no answer is suppressed that lies beyond its end."""
    made = plan({**ONE, "delta": delta, "statistics": [CERTAIN]})
    law, d, p = law_of(made)
    reach = law.bound + 2 * BELOW
    most = float(shown(made, np.array([0]), Rules(Suppress(BELOW)))["upper"][0])
    for answer in range(reach):
        table = shown(made, answer + d, Rules(Suppress(BELOW)))
        gone = (table["status"] == "suppressed").to_numpy()
        assert (gone == (answer + d < BELOW)).all()
        low, high = table["lower"].to_numpy(), table["upper"].to_numpy()
        assert p[(low <= answer) & (answer <= high)].sum() >= 0.95
        assert answer <= most or p[gone].sum() <= 0.025
        least, greatest = (table[name].to_numpy() for name in ENDS)
        assert np.isnan(least[gone]).all()
        assert np.isnan(greatest[gone]).all()
        assert ((least <= answer) & (answer <= greatest))[~gone].all()
    assert most < reach - 1  # answers beyond it were looked at


@pytest.mark.parametrize("base", [5, 7])
def test_certain_ends_are_rounded_outward(base: int) -> None:
    """Of every draw, at both ends of the domain too; ends rounded to the nearest multiple miss."""
    made = plan({**ONE, "statistics": [CERTAIN], "rules": {"round": base}})
    _, d, _ = law_of(made)
    missed = 0
    for answer in (0, 1, 2, 3, 98, 99, 100, 101, 4998, 4999, 5000):
        table = shown(made, answer + d, made.rules)
        least, greatest = (table[name].to_numpy() for name in ENDS)
        assert not (np.concatenate([least, greatest]) % base).any()
        assert ((least <= answer) & (answer <= greatest)).all()
        near = np.rint((answer + d - d.max()) / base) * base, np.rint((answer + d + d.max()) / base)
        missed += int(((near[0] > answer) | (near[1] * base < answer)).sum())
    assert missed


def test_rounded_tables_hold_an_exact_number_that_is_no_multiple() -> None:
    """300 rows of at most 300, rounded to 7: the greatest multiple that may be published is below them."""
    release, rows = tables(round=7), frame()
    made = schema(release, rows={"max": 300, "expected": 300})
    for _ in range(3):
        with pytest.warns(dp.UnledgeredWarning):
            found = rows.dp.release(made)
        for name, by in (("all", []), ("regions", ["region"]), ("cells", ["region", "sex"])):
            for row in found.tables[name].to_pylist():
                part = rows
                for column in by:
                    part = part[part[column] == row[column]]
                assert row["certain_lower"] <= len(part) <= row["certain_upper"]
                assert row["certain_lower"] % 7 == row["certain_upper"] % 7 == 0


@pytest.mark.parametrize(
    "release",
    [SUPPRESSED, {**SUPPRESSED, "rules": {"suppress": {"below": BELOW}, "sparse": True}},
     tables(suppress={"below": BELOW})],
    ids=["suppressed", "sparse", "tables"],
)  # fmt: skip
def test_no_file_of_a_folder_says_where_a_suppressed_number_lies_for_certain(
    release: dict[str, Any], tmp_path: Path
) -> None:
    made, ledger = schema(release), tmp_path / "ledger.db"
    dp.create_ledger(ledger, made, dataset="d", epsilon=9, delta="0.1")
    found = frame().dp.release(made, ledger=ledger, dataset="d", period="p")
    folder = found.publish(tmp_path / "o")
    assert dp.verify(folder).ok
    several = "tables" in release
    told = list(found.tables.values()) if several else [found.noised.table]
    gone = [row for table in told for row in table.to_pylist() if row["status"] == "suppressed"]
    kept = [row for table in told for row in table.to_pylist() if row["status"] != "suppressed"]
    assert gone
    assert all(row[end] is None for row in gone for end in ENDS)
    assert all(row[end] is not None for row in kept for end in ENDS)
    for file in folder.rglob("data*.csv"):
        with file.open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                assert (row["certain_lower"] == "") is (row["status"] == "suppressed")
    for file in folder.rglob("*wide.csv"):
        with file.open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                none = row["count_status"] == "suppressed"
                assert (row["count_certain_lower"] == row["count_certain_upper"] == "") is none
    assert json.loads((folder.parent / "index.json").read_text())["tracks"]


def test_a_certain_end_put_back_into_a_file_does_not_verify(tmp_path: Path) -> None:
    made, ledger = schema(SUPPRESSED), tmp_path / "ledger.db"
    dp.create_ledger(ledger, made, dataset="d", epsilon=9, delta="0.1")
    released = frame().dp.release(made, ledger=ledger, dataset="d", period="p")
    folder = released.publish(tmp_path / "o")
    file = folder / "data.csv"
    rows = [line.split(",") for line in file.read_text().splitlines()]
    at, end = (
        next(i for i, row in enumerate(rows) if row[:2] == ["f", "count"]),
        rows[0].index(ENDS[0]),
    )
    assert rows[at][end] == ""
    rows[at][end] = "0"
    file.chmod(0o644)
    file.write_text("\n".join(map(",".join, rows)) + "\n")
    assert not dp.verify(folder).ok


def test_validation_refuses_a_suppressed_cell_with_certain_ends() -> None:
    drawn = released(SUPPRESSED).noised
    assert check(drawn).ok
    table, name = drawn.table, ENDS[0]
    known = pa.array([0.0] * table.num_rows, pa.float64())
    forged = table.set_column(table.column_names.index(name), name, known)
    assert not check(type(drawn)(drawn.plan, forged, drawn.cells)).ok


def test_of_what_a_suppressed_cell_enters_all_that_it_can_be_is_certain() -> None:
    found = released(SUPPRESSED)
    own = found.table.to_pandas().query("statistic == 'count'").set_index("region")
    one = found.derive("count", certain=True).table.to_pandas().set_index("region")
    for region, row in one.iterrows():
        none = row["status"] == "suppressed"
        assert none is (own.loc[region, "status"] == "suppressed")
        wanted = (0.0, 5000.0) if none else tuple(own.loc[region, ENDS])
        assert (row["lower"], row["upper"]) == wanted
        assert row["method"] == "certain"
    assert one.loc["f", "status"] == "suppressed"
    whole = found.derive("count", by=[], certain=True).table.to_pylist()[0]
    assert whole["value"] is None
    assert (whole["lower"], whole["upper"]) == (0.0, 30_000.0)
    mean = found.derive("sum_age / count", certain=True).table.to_pandas().set_index("region")
    assert mean.loc["f", "status"] == "suppressed"
    assert math.isnan(mean.loc["f", "value"])
    ranks = found.derive("rank(count)", certain=True).table.to_pandas().set_index("region")
    assert tuple(ranks.loc["f", ["lower", "upper"]]) == (1.0, 6.0)
