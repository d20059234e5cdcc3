"""Round trips, fixed decimals, and the formula corpus."""

from __future__ import annotations

import csv
import io

import pandas as pd
import pyarrow as pa
import pytest

from dprelease.results.formats.csv_ import guarded, unguarded, write
from dprelease.results.formats.wide import wide_table
from dprelease.schema.domain import Domain
from tests.results.formats import releases

GOOD = releases.clinic()
FORMULAS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    '=HYPERLINK("http://x","y")',
    "-",
]


def rows(data: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(data.decode("utf-8"), newline="")))


def test_the_tidy_file_reads_back_as_the_table():
    header, *lines = rows(write(GOOD, {})["data.csv"])
    assert header == GOOD.table.column_names
    for i in range(len(header)):
        cells = GOOD.table.column(i).to_pylist()
        texts = [line[i] for line in lines]
        if pa.types.is_floating(GOOD.table.schema.field(i).type):
            assert [float(t) if t else None for t in texts] == cells
        else:
            assert texts == cells


def _of(edition):
    return {"request": edition, "plan": {}}


def test_a_wide_file_starts_with_the_mark_by_which_excel_reads_utf_8_and_an_older_one_stays():
    made, old = (write(GOOD, _of(edition))["wide.csv"] for edition in ({"report": 2}, {}))
    assert made == b"\xef\xbb\xbf" + old
    assert made.decode("utf-8-sig") == old.decode("utf-8")
    assert pd.read_csv(io.BytesIO(made)).columns[0] == "region"
    assert write(GOOD, _of({"report": 2}))["data.csv"] == write(GOOD, {})["data.csv"]


def test_values_have_the_decimals_of_their_step_and_wide_counts_are_whole():
    header, *lines = rows(write(GOOD, {})["wide.csv"])
    first = dict(zip(header, lines[0], strict=True))
    values = {
        "count": ("1204", "1180", "1228"),
        "mean_bmi": ("26.40", "25.90", "26.90"),
        "bmi_variance": ("30.5", "20.0", "45.0"),
        "std_bmi": ("5.52", "4.40", "6.80"),
        "histogram_age[0,40)": ("400", "380", "420"),
        "histogram_age[40,80)": ("700", "680", "720"),
        "histogram_age[80,120]": ("104", "84", "124"),
    }
    expected = {"region": "north"}
    for name, (value, lower, upper) in values.items():
        expected |= {name: value, f"{name}_lower": lower, f"{name}_upper": upper}
        expected[f"{name}_status"] = "ok"
    assert first == expected
    assert list(first) == list(expected)
    assert len(lines) == 3


def test_no_uninformative_value_of_the_wide_file_stands_alone():
    """A reader who looks at one line sees what its numbers are worth."""
    header, *lines = rows(write(GOOD, {})["wide.csv"])
    east = dict(zip(header, lines[2], strict=True))
    assert (east["mean_bmi"], east["mean_bmi_status"]) == ("45.00", "uninformative")
    assert (east["std_bmi"], east["std_bmi_status"]) == ("0.00", "empty_signal")
    assert (east["mean_bmi_lower"], east["mean_bmi_upper"]) == ("10.00", "80.00")


def test_interval_ends_of_the_tidy_file_have_the_decimals_of_the_step():
    header, *lines = rows(write(GOOD, {})["data.csv"])
    for line in lines:
        row = dict(zip(header, line, strict=True))
        decimals = {len(row[c].partition(".")[2]) for c in ("value", "lower", "upper")}
        assert len(decimals) == 1, row


def test_the_wide_table_is_the_plan_s_shape_whatever_the_row_order():
    wide = wide_table(GOOD)
    assert wide.column("count").to_pylist() == [1204, 10, 0]
    assert str(wide.schema.field("count").type) == "int64"
    assert wide.column("region").to_pylist() == ["north", "south", "east"]
    turned = releases.Draw(
        GOOD.plan, GOOD.table.take(list(range(GOOD.table.num_rows))[::-1]), GOOD.cells
    )
    assert wide_table(turned).equals(wide)


def test_without_its_status_an_uninformative_value_is_missing():
    assert wide_table(GOOD).column("mean_bmi").to_pylist()[2] == 45.0
    bare = wide_table(GOOD, intervals=False, status=False)
    names = [c for s in GOOD.plan.statistics for c in s.columns]
    assert bare.column_names == ["region", *names]
    assert bare.column("mean_bmi").to_pylist() == [26.4, 31.05, None]
    assert bare.column("bmi_variance").to_pylist()[2] is None
    half = wide_table(GOOD, status=False)
    assert half.column("mean_bmi").to_pylist()[2] is None
    assert half.column("mean_bmi_upper").to_pylist()[2] == 80.0
    assert "mean_bmi_status" in wide_table(GOOD, intervals=False).column_names


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_cell_starts_a_formula(text):
    plan = releases.plan(
        [releases.statistic(text, "sum(x)", Domain(-9, 9), "1", block="b", mechanism=text)],
        [releases.block("b")],
        by=(text,),
        keys=[(text,), ("plain",)],
    )
    noised = releases.noised(plan, {text: [(-3.0, -9.0, 5.0, "ok"), (4.0, -9.0, 9.0, "ok")]})
    # The control: a writer without the guard puts the text in a cell as it is.
    assert text in noised.table.column(0).to_pylist()
    for data in write(noised, {}).values():
        for line in rows(data):
            for cell in line:
                number = cell.lstrip("-").replace(".", "").isdigit()
                assert number or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n"))
    assert "-3" in [line[1] for line in rows(write(noised, {})["wide.csv"])]  # numbers stay numbers


def test_the_guard_leaves_other_text_alone():
    assert guarded("north-east") == "north-east"
    assert guarded("") == ""


@pytest.mark.parametrize(
    "text", ["=1", "'=1", "''=1", "'", "''", "'x", "x'", "", "north", *FORMULAS]
)
def test_no_two_texts_meet_in_a_cell(text):
    assert unguarded(guarded(text)) == text  # so the map is injective
    if text.startswith("="):
        assert guarded(text) != guarded("'" + text)


def test_labels_that_differ_by_an_apostrophe_stay_apart_in_every_file():
    labels = ["=1", "'=1", "''=1", "x", "'x"]
    plan = releases.plan(
        [releases.statistic("count", "count", Domain(0, 9), "1", block="b", mechanism="m")],
        [releases.block("b")],
        by=("=k",),
        keys=[(label,) for label in labels],
    )
    noised = releases.noised(plan, {"count": [(float(i), 0.0, 9.0, "ok") for i in range(5)]})
    for data in write(noised, {}).values():
        header, *lines = rows(data)
        assert header[0] == "'=k"
        assert [unguarded(line[0]) for line in lines] == labels


def test_same_release_same_bytes():
    assert write(GOOD, {}) == write(releases.clinic(), {})
