"""`during=` in Python: it filters, it is the window of the loss, and a label is neither."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest
import yaml

import dprelease as dp
from dprelease.core.errors import ArgumentError, BudgetError

pytestmark = pytest.mark.filterwarnings("ignore::dprelease.core.errors.UnledgeredWarning")


def schema(**changes: Any) -> dict[str, Any]:
    base: dict[str, Any] = {
        "dprelease": "schema/1",
        "name": "visits",
        "unit": "row",
        "adjacency": "add_remove",
        "time": {"column": "at", "immutable": True},
        "rows": {"max": 1000},
        "columns": {"who": {"kind": "identifier"}, "at": {"kind": "timestamp"}},
        "release": {"epsilon": 1, "statistics": ["count"]},
    }
    return {**base, **changes}


def visits(weeks: int = 3) -> pd.DataFrame:
    start = datetime(2026, 11, 9, 12, tzinfo=UTC)  # a Monday: 2026-W46
    at = [start + timedelta(weeks=k // 100) for k in range(100 * weeks)]
    return pd.DataFrame({"who": [f"p{k % 50}" for k in range(100 * weeks)], "at": at})


def count(release: Any) -> int:
    return int(release.to_pandas(intervals=False, status=False)["count"].iloc[0])


def test_during_reads_the_rows_of_its_period_alone():
    sure = schema(release={"epsilon": 50, "statistics": ["count"]})
    assert abs(count(dp.release(visits(), sure, during="2026-W46")) - 100) < 10
    assert abs(count(dp.release(visits(), sure, during="2026-Q4")) - 300) < 10
    assert count(dp.release(visits(), sure, during="2026-W30")) < 10
    assert dp.plan(sure, during="2026-W46").window is not None


def test_disjoint_periods_share_a_budget_and_labels_do_not(tmp_path):
    ledger = tmp_path / "ledger.db"
    dp.create_ledger(ledger, schema(), epsilon=1)
    given = {"ledger": ledger, "dataset": "visits"}
    for name in ("2026-W46", "2026-W47", "2026-W48"):
        receipt = visits().dp.release(schema(), during=name, **given).receipt
        assert (receipt.spent, receipt.period) == ("1", name)
    again = schema(name="again")
    with pytest.raises(BudgetError):
        dp.release(visits(), again, during="2026-W46", **given)
    with pytest.raises(BudgetError):
        dp.release(visits(), schema(), period="2026-W49", **given)  # the whole table
    book = dp.open_ledger(ledger)
    assert book.balance("visits", during="2026-W46").left == 0
    assert book.balance("visits", during="2026-W50").left == 1
    assert book.balance("visits").left == 0


def test_fifty_two_calls_over_the_whole_table_are_not_parallel(tmp_path):
    ledger = tmp_path / "ledger.db"
    dp.create_ledger(ledger, schema(), epsilon=3)
    for week in range(1, 4):
        dp.release(visits(1), schema(), period=f"2026-W{week:02d}", ledger=ledger)
    with pytest.raises(BudgetError):
        dp.release(visits(1), schema(), period="2026-W04", ledger=ledger)
    assert dp.open_ledger(ledger).balance("visits").spent == Fraction(3)


def test_rows_of_a_period_are_entered_under_its_name(tmp_path):
    """Under another one the folder would ask for rows that its own name denies: `verify` refuses it."""
    ledger = tmp_path / "ledger.db"
    dp.create_ledger(ledger, schema(), epsilon=1)
    for label in ("first_try", "2026-W12"):
        with pytest.raises(ArgumentError, match="under another name") as caught:
            dp.release(visits(), schema(), during="2026-W46", period=label, ledger=ledger)
        assert caught.value.code == "DPR677"
    assert dp.open_ledger(ledger).balance("visits").spent == 0
    same = dp.release(visits(), schema(), during="2026-W46", period="2026-W46", ledger=ledger)
    assert dp.verify(same.publish(tmp_path / "public"), ledger=ledger)


@pytest.mark.parametrize(
    ("during", "code"),
    [
        ("2026-46", "DPR640"),
        ("../x", "DPR640"),
        (2026, "DPR640"),
        (b"2026", "DPR640"),
        ("0999", "DPR640"),
    ],
)
def test_what_names_no_period_is_refused(during, code):
    with pytest.raises(ArgumentError) as caught:
        dp.plan(schema(), during=during)
    assert caught.value.code == code
    bare = {k: v for k, v in schema().items() if k != "time"}
    with pytest.raises(ArgumentError, match="when a row was") as caught:
        dp.plan(bare, during="2026-W46")
    assert caught.value.code == "DPR639"
    declared = caught.value.fix.partition("`")[2].rstrip("`")
    assert dp.plan({**bare, **yaml.safe_load(declared)}, during="2026-W46").query.window


def test_a_delta_is_that_of_everything_that_counts_against_one_unit(tmp_path):
    """Releases of one week: the second promise of the second one's page is twice the first, delta too."""
    ledger, public = tmp_path / "ledger.db", tmp_path / "public"
    asked = {"epsilon": 1, "delta": "0.000001", "statistics": ["count"]}
    dp.create_ledger(ledger, schema(), epsilon=9, delta="0.0001", dataset="visits")
    folders = []
    for n in range(2):
        given = schema(name=f"v{n}", release=asked)
        one = dp.release(visits(), given, during="2026-W46", ledger=ledger, dataset="visits")
        folders.append(one.publish(public))
    for n, folder in enumerate(folders, 1):
        delta = "1e-06" if n == 1 else f"{n}e-06"
        said = f"one row: ε = {n}, δ = {delta}, over all releases that can have read it"
        manifest = json.loads((folder / "release.json").read_text())
        assert manifest["over_time"] == said
        report = (folder / "report.html").read_text()
        assert f"<strong>Over time</strong>, as of this release: {said}" in report
        assert Fraction(manifest["budget"]["delta"]) == n * Fraction("0.000001")
        assert dp.verify(folder, ledger=ledger)
    # a repeat says what held then, not what holds now
    again = dp.release(
        visits(),
        schema(name="v0", release=asked),
        during="2026-W46",
        ledger=ledger,
        dataset="visits",
    )
    assert "ε = 1, δ = 1e-06" in str(again.receipt)
