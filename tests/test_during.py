"""`during=` in Python: it filters, it is the window of the loss, and a label is neither."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pandas as pd
import pytest

import dprelease as dp
from dprelease.errors import ArgumentError, BudgetError

pytestmark = pytest.mark.filterwarnings("ignore::dprelease.errors.UnledgeredWarning")


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
    with pytest.raises(BudgetError):
        dp.release(visits(), schema(), during="2026-W46", period="again", **given)
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


@pytest.mark.parametrize(("during", "code"), [("2026-46", "DPR640"), ("../x", "DPR640")])
def test_what_names_no_period_is_refused(during, code):
    with pytest.raises(ArgumentError) as caught:
        dp.plan(schema(), during=during)
    assert caught.value.code == code
    bare = {k: v for k, v in schema().items() if k != "time"}
    with pytest.raises(ArgumentError, match="when a row was") as caught:
        dp.plan(bare, during="2026-W46")
    assert caught.value.code == "DPR639"
