"""The Python door: what it takes, what it returns, what it records."""

from __future__ import annotations

import inspect
import warnings
from pathlib import Path
from types import SimpleNamespace

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import (
    ArgumentError,
    BudgetError,
    LedgerError,
    SourceError,
    UnledgeredWarning,
)
from dprelease.results.validate import gx_process
from tests.end_to_end.projects import ROOT, repeatable

FAIR = ROOT / "examples" / "data" / "fair_1978.csv"
SCHEMA = ROOT / "schemas" / "fair.yaml"


@pytest.fixture(scope="module")
def frame():
    return pd.read_csv(FAIR)


def doors(frame, folder):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    parquet = folder / "fair.parquet"
    frame.to_parquet(parquet)
    connection = duckdb.connect()
    connection.register("fair", table)
    return {
        "pandas": frame,
        "polars": pl.from_arrow(table),
        "polars lazy": pl.from_arrow(table).lazy(),
        "arrow": table,
        "duckdb": connection.sql("SELECT * FROM fair"),
        "parquet": parquet,
        "parquet text": str(parquet),
        "csv": FAIR,
    }


def test_every_door_gives_the_same_numbers_from_the_same_bits(frame, tmp_path, monkeypatch):
    tables, schema = {}, dp.Schema.load(SCHEMA)
    for name, data in doors(frame, tmp_path).items():
        repeatable(monkeypatch, "one stream")
        tables[name] = dp.release(data, schema).table
    for name, table in tables.items():
        assert table.equals(tables["pandas"]), name
    repeatable(monkeypatch, "another stream")  # the control: the numbers do depend on the bits
    assert not dp.release(frame, schema).table.equals(tables["pandas"])


def test_wide_and_tidy_tables(frame):
    released = frame.dp.release(SCHEMA)
    wide, tidy = released.to_pandas(), released.table
    assert wide.shape == (1, 40)
    assert list(wide)[:4] == ["mean_age", "mean_age_lower", "mean_age_upper", "mean_age_status"]
    bare = released.to_pandas(intervals=False, status=False)
    assert bare.shape == (1, 10)
    assert list(bare)[:5] == [
        "mean_age",
        "variance_age",
        "mean_yrs_married",
        "mean_children",
        "had_affair",
    ]
    assert tidy.column_names == [
        "statistic", "value", "lower", "upper", "estimate", "unbiased", "consistent",
        "mechanism", "block", "epsilon", "status",
    ]  # fmt: skip
    assert tidy.num_rows == 10
    values = dict(zip(tidy["statistic"].to_pylist(), tidy["value"].to_pylist(), strict=True))
    assert values["mean_age"] == wide["mean_age"][0]
    assert abs(values["mean_age"] - frame.age.mean()) < 2  # ± 0.05 expected
    assert set(tidy["status"].to_pylist()) == {"ok"}


def test_groups_are_rows_and_overrides_merge(frame):
    schema = dp.Schema.load(SCHEMA)
    released = frame.dp.release(schema, statistics=["count"], where="age >= 30", epsilon=2)
    assert list(released.to_pandas(intervals=False, status=False)) == ["count"]
    assert float(released.plan.epsilon) == pytest.approx(2)
    assert released.plan.where is not None
    flights = dp.plan(ROOT / "schemas" / "flights.yaml")
    assert len(flights.keys) == 16


@pytest.mark.parametrize("make", [str, Path, dp.Schema.load], ids=["str", "Path", "Schema"])
def test_a_schema_is_a_path_or_loaded(make):
    assert dp.plan(make(SCHEMA)).hash == dp.plan(SCHEMA).hash


def test_other_schemas_and_other_tables_are_refused():
    with pytest.raises(ArgumentError) as caught:
        dp.plan(42)
    assert caught.value.code == "DPR678"
    with pytest.raises(SourceError) as caught:
        dp.release([1, 2, 3], SCHEMA)
    assert caught.value.spent == "nothing"
    with pytest.raises(SourceError):
        dp.release("none.parquet", SCHEMA)


class TestUnledgered:
    @pytest.mark.parametrize("door", ["function", "accessor"])
    def test_one_warning_at_the_callers_line(self, frame, door):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            line = inspect.currentframe().f_lineno + 1
            dp.release(frame, SCHEMA) if door == "function" else frame.dp.release(SCHEMA)
        assert [w.category for w in caught] == [UnledgeredWarning]
        assert (caught[0].filename, caught[0].lineno) == (__file__, line)
        assert "without a ledger" in str(caught[0].message)

    def test_the_receipt_says_so_and_publish_refuses(self, frame, tmp_path):
        released = frame.dp.release(SCHEMA)
        assert "ledger: none" in str(released.receipt)
        assert released.manifest["ledger"] is None
        with pytest.raises(ArgumentError) as caught:
            released.publish(tmp_path)
        assert caught.value.code == "DPR676"
        assert not list(tmp_path.iterdir())

    def test_a_dataset_without_a_ledger_is_refused(self, frame):
        with pytest.raises(ArgumentError) as caught:
            frame.dp.release(SCHEMA, dataset="fair")
        assert caught.value.code == "DPR676"

    def test_as_an_error_it_stops_before_anything_is_drawn(self, frame, monkeypatch):
        from dprelease.wall import execute

        monkeypatch.setattr(execute, "drawn", lambda *_a, **_k: pytest.fail("drew"))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UnledgeredWarning)
            with pytest.raises(UnledgeredWarning):
                frame.dp.release(SCHEMA)


class TestLedgered:
    @pytest.fixture
    def place(self, tmp_path):
        ledger = dp.create_ledger(tmp_path / "ledger.db", SCHEMA, epsilon=2, dataset="survey")
        return {"ledger": ledger, "dataset": "survey", "period": "wave-1"}

    def test_the_same_key_returns_the_same_values_and_costs_nothing(self, frame, place):
        first = frame.dp.release(SCHEMA, **place)
        again = frame.dp.release(SCHEMA, **place)
        assert again.table.equals(first.table)
        assert "spent epsilon 1 · 1 of 2 spent on survey" in str(first.receipt)
        assert "cost nothing" in str(again.receipt)
        assert Ledger.open(place["ledger"]).budget("survey").spent == 1

    def test_a_frame_that_is_not_read_is_named_once_for_each_such_call(self, frame, place):
        """The numbers are not those of the frame that is at hand."""
        with warnings.catch_warnings():
            warnings.simplefilter("error", dp.NotReadWarning)
            first = frame.dp.release(SCHEMA, **place)
            frame.dp.release(SCHEMA, **{**place, "period": "wave-2"})
        said = r"your frame was not read: wave-1 of fair was drawn before.*another `period`"
        for other in (frame, frame.assign(age=15), frame.iloc[::-1]):
            with pytest.warns(dp.NotReadWarning, match=said) as told:
                again = dp.release(other, SCHEMA, **place)
            assert again.table.equals(first.table)
            assert [Path(w.filename).name for w in told] == ["test_facade.py"]

    def test_a_frame_that_finishes_a_crashed_call_is_read(self, frame, place, monkeypatch):
        with monkeypatch.context() as patch:
            patch.setattr(Ledger, "draw_once", lambda *_a, **_k: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                frame.dp.release(SCHEMA, **place)
        with warnings.catch_warnings():
            warnings.simplefilter("error", dp.NotReadWarning)
            again = frame.dp.release(SCHEMA, **place)
        assert not again.receipt.fresh
        with pytest.warns(dp.NotReadWarning):
            frame.dp.release(SCHEMA, **place)

    def test_a_notebook_shows_receipt_and_verification_as_they_print(self, frame, place, tmp_path):
        release = frame.dp.release(SCHEMA, **place)
        for shown in (release.receipt, dp.verify(release.publish(tmp_path / "public"))):
            said = []
            shown._repr_pretty_(SimpleNamespace(text=said.append), False)
            assert said == [str(shown)]

    def test_another_period_costs_and_the_third_is_refused(self, frame, place):
        first = frame.dp.release(SCHEMA, **place)
        second = frame.dp.release(SCHEMA, **{**place, "period": "wave-2"})
        assert not second.table.equals(first.table)
        with pytest.raises(BudgetError, match="spent 2 of 2, asked 1, left 0"):
            frame.dp.release(SCHEMA, **{**place, "period": "wave-3"})

    def test_what_is_refused_before_the_charge_says_that_the_frame_was_not_read(self, frame, place):
        """In a traceback and in a notebook: who sees a refusal asks whether the rows were looked at."""
        other = {**place, "period": "wave-2"}
        asked = {"column": "religion", "epsilon": 1, "delta": 1e-6}
        refused = [
            lambda: frame.dp.release(
                SCHEMA, statistics=["count_distinct(religion)"], epsilon=50, **other
            ),
            lambda: frame.dp.release(SCHEMA, statistics=["mean(nothing)"]),
            lambda: frame.dp.release(SCHEMA, ledger="none.db"),
            lambda: frame.dp.release("none.yaml"),
            lambda: frame[[]].dp.release(SCHEMA, **other),
            lambda: frame.dp.keys(SCHEMA, **asked, **other),
            lambda: frame.dp.sql("SELECT 1 FROM df", SCHEMA, **other),
            lambda: dp.release(frame.age, SCHEMA, **other),
        ]
        for call in refused:
            with pytest.raises(dp.DpreleaseError) as caught:
                call()
            assert caught.value.__notes__ == ["  rows   your frame was not read"]
            shown = caught.value._render_traceback_()
            assert shown[-2:] == [*caught.value.__notes__, "  spent  nothing was spent"]
        plain = LedgerError("something")
        assert "not read" not in "".join(plain._render_traceback_())

    @pytest.mark.parametrize(
        "refused",
        [SourceError("of another size", code="DPR508"), dp.WithheldError("it is not valid")],
    )
    def test_rows_that_were_counted_or_paid_for_are_not_called_unread(self, refused):
        refused.frame_not_read()
        assert not hasattr(refused, "__notes__")

    def test_rows_that_were_counted_for_a_public_size_are_not_called_unread(self, frame, place):
        """The count of rows is what sums are priced for: it is checked before the budget is asked."""
        frame.dp.release(SCHEMA, **place)
        other = {**place, "period": "wave-2"}
        refused = {
            "DPR410": lambda: frame.dp.release(SCHEMA, epsilon=0.5, **place),
            "DPR301": lambda: frame.dp.release(SCHEMA, epsilon=50, **other),
            "DPR508": lambda: frame[1:].dp.release(SCHEMA, **other),
        }
        for code, call in refused.items():
            with pytest.raises(dp.DpreleaseError) as caught:
                call()
            assert (caught.value.code, hasattr(caught.value, "__notes__")) == (code, False)

    def test_another_plan_under_the_same_key_is_refused(self, frame, place):
        frame.dp.release(SCHEMA, **place)
        with pytest.raises(LedgerError, match="another plan"):
            frame.dp.release(SCHEMA, epsilon=0.5, **place)

    def test_publish_without_a_great_expectations_that_judges_says_what_is_spent_and_what_to_do(
        self, frame, place, tmp_path, monkeypatch
    ):
        released = frame.dp.release(SCHEMA, **place)
        with monkeypatch.context() as broken:
            broken.setattr(gx_process, "begin", lambda: True)
            broken.setattr(gx_process, "ready", lambda: False)
            with pytest.raises(dp.WithheldError) as caught:
                released.publish(tmp_path / "public")
        assert (caught.value.code, caught.value.spent) == ("DPR717", "charged")
        assert "DPR173" in caught.value.why
        assert "pip install 'great-expectations" in caught.value.fix
        assert "a repeat costs nothing" in caught.value.fix
        folder = released.publish(tmp_path / "public")
        assert dp.verify(folder, ledger=place["ledger"]).ok

    def test_publish_is_repeatable_and_verifies(self, frame, place, tmp_path):
        released = frame.dp.release(SCHEMA, **place)
        folder = released.publish(tmp_path / "public")
        assert folder == tmp_path / "public" / "fair" / "wave-1"
        assert frame.dp.release(SCHEMA, **place).publish(tmp_path / "public") == folder
        assert dp.verify(folder, ledger=place["ledger"]).ok
        assert released.manifest["guarantee"]["adjacency"] == "substitution"

    def test_a_missing_ledger_or_budget_says_how_to_make_it(self, frame, place, tmp_path):
        with pytest.raises(LedgerError, match=r"dp\.create_ledger") as caught:
            frame.dp.release(SCHEMA, ledger=tmp_path / "none.db")
        assert caught.value.code == "DPR401"
        assert not (tmp_path / "none.db").exists()
        with pytest.raises(LedgerError, match="it holds budgets of: survey") as caught:
            frame.dp.release(SCHEMA, ledger=place["ledger"], dataset="servey")
        assert caught.value.code == "DPR407"

    def test_creating_twice_is_a_no_op_and_never_another_budget(self, place):
        dp.create_ledger(place["ledger"], SCHEMA, epsilon=2, dataset="survey")
        with pytest.raises(LedgerError, match="another budget"):
            dp.create_ledger(place["ledger"], SCHEMA, epsilon=3, dataset="survey")


def test_html_is_escaped(frame):
    schema = {
        "dprelease": "schema/1",
        "name": "odd",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 10000, "expected": 1000},
        "columns": {"age": {"kind": "number", "range": [15, 60], "measure": "<b>years</b>"},
                    "k": {"kind": "category", "values": ["<script>alert(1)</script>", "b"]}},
        "release": {"epsilon": 1, "by": ["k"], "statistics": ["count", "mean(age)"]},
    }  # fmt: skip
    released = frame.assign(k="b").dp.release(schema)
    for page in (released._repr_html_(), released.plan._repr_html_()):
        assert "<table" in page
        assert "<script>" not in page
        assert "<b>years" not in page
    assert "&lt;script&gt;" in released._repr_html_()
    assert "epsilon=1" in released._repr_html_()


def test_repr_is_one_line_and_validate_runs_great_expectations(frame):
    released = frame.dp.release(SCHEMA)
    assert "\n" not in repr(released)
    assert "6 statistics over one group" in repr(released)
    one = frame.dp.release(SCHEMA, statistics=["count"])
    assert "<Release of 1 statistic over one group; spent" in repr(one)
    rare = frame.dp.release(SCHEMA, where="age < 0", statistics=["mean(age)", "count"], epsilon=50)
    assert "<Release of 2 statistics over one group; 1 of 2 values say nothing; spent" in repr(rare)
    verdict = released.validate()
    assert (verdict.ok, verdict.engine) == (True, "great_expectations")


def test_intervals_cover_the_exact_statistic(frame, monkeypatch):
    """95 % of 60 releases times 5 statistics: 300 in all, 5 deviations below is 266."""
    from dprelease.core.entropy import ReplayBits
    from dprelease.engines.source import as_source
    from dprelease.pipeline import preflight
    from dprelease.results.draw import assemble
    from dprelease.wall import execute

    plan = dp.plan(SCHEMA)
    exact = preflight.engine_named("duckdb").compute(as_source(frame), plan.query, bytes(32))
    truth = {
        "mean_age": frame.age.mean(), "variance_age": frame.age.var(ddof=0),
        "mean_yrs_married": frame.yrs_married.mean(), "mean_children": frame.children.mean(),
        "had_affair": (frame.affairs >= 0.05).mean(),  # conditions read cells on their step, 0.1
    }  # fmt: skip
    label = iter(range(1000))

    class Replay(ReplayBits):
        def __init__(self):
            super().__init__(f"fair {next(label)}")

    monkeypatch.setattr(execute, "SystemBits", Replay)
    covered = halved = 0
    for _ in range(60):
        cells = execute.draw(plan, exact)
        table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells).to_pandas()
        for row in table.itertuples():
            if row.statistic in truth:
                half = (row.upper - row.lower) / 2
                off = abs(truth[row.statistic] - (row.upper + row.lower) / 2)
                covered += off <= half
                halved += off <= half / 4
    assert covered >= 266
    assert halved < 266  # the control: a quarter of the interval is too short
    assert np.isfinite(covered)
