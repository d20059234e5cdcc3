"""Messages that sent newcomers the wrong way name the right fix now."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dprelease as dp

BASE = {
    "dprelease": "schema/1",
    "name": "t",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 100},
    "columns": {
        "x": {"kind": "number", "range": [0, 10], "step": 1},
        "g": {"kind": "category", "values": ["a", "b"]},
    },
    "release": {"epsilon": 1, "by": ["g"], "statistics": ["count"]},
}


@pytest.mark.parametrize("name", ["nulls", "other"])
@pytest.mark.parametrize(
    ("given", "key"), [({"key": "none"}, "key"), ({"as": "x", "by": "y"}, "by")]
)
def test_an_unknown_word_stands_where_it_is_written(name, given, key):
    """`nulls.default.key` is in no file."""
    with pytest.raises(dp.errors.ConfigError) as caught:
        dp.plan(changed(("columns", "g", name), given))
    assert caught.value.code == "DPR110"
    assert caught.value.where == f"dict: columns.g.{name}.{key}"


def changed(place, value):
    made = copy.deepcopy(BASE)
    inner = made
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    return made


@pytest.mark.parametrize(
    ("place", "value", "fix"),
    [
        (("columns", "x", "kind"), "float", "did you mean `number`?"),
        (("columns", "x", "kind"), "int", "did you mean `integer`?"),
        (("columns", "g", "kind"), "string", "did you mean `category`?"),
        (("columns", "g", "kind"), "zebra", "write one of them: identifier"),
        (("unit",), "person", "`unit: {user: COLUMN"),
        (("release", "statistics"), "mean(x)", 'write ["mean(x)"]'),
        (("release", "by"), "g", 'write ["g"]'),
        (("release", "statistics"), ["var(x)"], "did you mean `variance`?"),
        (("release", "statistics"), ["avg(x)"], "did you mean `mean`?"),
        (("columns", "x", "forbidden"), [[20, 30]], "take it out, or widen the range"),
        (("publisher",), 'The "Office"', r'write {name: "The \"Office\""}'),
        (("licence",), 3, "name one, e.g. CC-BY-4.0"),
        (("contact",), [], "write one, e.g. statistics@example.org"),
        (("unit_name",), "patient", "{one: patient, many: patients}"),
        (("columns", "g", "values"), "a, b", 'write ["a", "b"]'),
        (("release", "by"), "g, h", 'write ["g", "h"]'),
        (("release", "statistics"), "ratio(x, x)", 'write ["ratio(x, x)"]'),
        (("keywords",), " , ", "write [a, b]"),
        (("columns",), ["x"], "write a line `NAME: …` for each"),
        (("release",), {"epsilon": 1, "tables": {"n": {"by": []}}}, "write a line `- …` for each"),
    ],
)
def test_the_fix_is_the_right_one(place, value, fix):
    with pytest.raises(dp.errors.ConfigError) as caught:
        dp.plan(changed(place, value))
    assert fix in str(caught.value.fix)
    assert "identifier`" not in str(caught.value.fix)


def test_a_forbidden_interval_that_reaches_in_is_fine():
    assert dp.plan(changed(("columns", "x", "forbidden"), [[3, 5], [8, 20]]))


def test_a_folder_is_called_one(tmp_path):
    with pytest.raises(dp.errors.ConfigError, match="this is a folder"):
        dp.Schema.load(tmp_path)


def test_messages_stay_short_whatever_is_given():
    for place, value in (
        (("release", "statistics"), ["x" * 100_000]),
        (("release", "by"), "g" * 100_000),
    ):
        with pytest.raises(dp.errors.DpreleaseError) as caught:
            dp.plan(changed(place, value))
        assert len(str(caught.value)) < 2000


def test_a_large_epsilon_is_taken_and_called_weak():
    assert "weak: at epsilon 100 " in str(dp.plan(changed(("release", "epsilon"), 100)))
    assert "weak" not in str(dp.plan(changed(("release", "epsilon"), 10)))


@pytest.mark.parametrize("key", ["by", "statistics", "epsilon", "delta", "where"])
@pytest.mark.parametrize("column", [pd.Series, np.array, pd.Index, pa.array])
def test_a_column_in_place_of_its_name_is_not_printed(key, column):
    """Its text is that of rows, which nobody may see."""
    with pytest.raises(dp.errors.ConfigError) as caught:
        dp.plan(BASE, **{key: column(["Geheimrat", "98765"])})
    assert "Geheimrat" not in str(caught.value) and "98765" not in str(caught.value)


@pytest.mark.filterwarnings("ignore::dprelease.UnledgeredWarning")
@pytest.mark.parametrize(
    "column", [pd.cut([1, 2], [0, 1, 2]), pd.period_range("2026-01", periods=2, freq="M")]
)
def test_intervals_and_periods_are_told_how_they_become_labels(column):
    frame = pd.DataFrame({"g": column, "x": [1, 2]})
    with pytest.raises(dp.errors.SourceError) as caught:
        frame.dp.release(BASE)
    assert "`.astype(str)`" in caught.value.fix
    assert frame.assign(g=frame["g"].astype(str)).dp.release(BASE).table.num_rows == 2


DAYS = [1, 9]
AS_NUMBERS = {
    "durations": (pd.to_timedelta(DAYS, "D"), lambda x: x / pd.Timedelta("1D"), "pd.Timedelta('1D')"),
    "intervals": (pd.IntervalIndex.from_arrays(DAYS, [2, 11]), lambda x: x.array.left, "one end"),
    "complex": (np.array(DAYS, complex), np.real, "real part"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::dprelease.UnledgeredWarning")
@pytest.mark.parametrize(("column", "mended", "said"), AS_NUMBERS.values(), ids=AS_NUMBERS)
def test_what_is_no_number_is_told_how_it_becomes_the_one_that_is_declared(column, mended, said):
    """As texts they were null, row by row: their sum was 0."""
    schema = changed(("release", "epsilon"), 400)
    schema["columns"]["x"] = {"kind": "integer", "range": [0, 10]}
    schema["release"] |= {"statistics": ["sum(x)"], "by": []}
    frame = pd.DataFrame({"g": ["a", "b"], "x": column})
    with pytest.raises(dp.errors.SourceError) as caught:
        frame.dp.release(schema)
    assert caught.value.code == "DPR504"
    assert said in caught.value.fix and "astype(str)" not in caught.value.fix
    found = frame.assign(x=mended(frame["x"])).dp.release(schema)
    assert found.to_pandas()["sum_x"].tolist() == [10]


@pytest.mark.parametrize("kind", ["boolean", "date", "timestamp"])
def test_what_no_kind_reads_is_not_sent_to_texts_that_would_be_null(kind):
    schema = changed(("columns", "t"), {"kind": kind})
    schema["release"]["where"] = "t" if kind == "boolean" else "t is not null"
    frame = pd.DataFrame(
        {"g": ["a"], "x": [1], "t": pd.period_range("2026-01", periods=1, freq="M")}
    )
    with pytest.raises(dp.errors.SourceError) as caught:
        frame.dp.release(schema)
    assert "astype(str)" not in caught.value.fix
