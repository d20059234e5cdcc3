"""What callers give: numpy's numbers where Python's may stand, and paths that are none."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dprelease as dp
from dprelease.core.caller import path_from, plain_values
from dprelease.core.errors import ArgumentError, ConfigError, DpreleaseError, SourceError
from tests.end_to_end.projects import ROOT

TENTHS = [np.float16(0.1), np.float32(0.1), np.float64(0.1), np.longdouble("0.1"), Decimal("0.1")]
WHOLE = [np.int8(2), np.uint16(2), np.int64(2), np.float32(2), Decimal(2), Fraction(2)]
NO_NUMBERS = [
    True,
    np.bool_(True),
    np.float32("nan"),
    np.float64("nan"),
    Decimal("nan"),
    np.timedelta64(1, "s"),
    np.datetime64("2026-11-09"),
    np.complex64(1),
    pd.NA,
]
FRAME = pd.DataFrame({"age": [30, 40, 50]})


def schema(number=lambda x: x, **release):
    """A schema whose numbers are of the type that `number` makes."""
    return {
        "dprelease": "schema/1",
        "name": "people",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": number(1000), "expected": number(10)},
        "columns": {
            "age": {
                "kind": "number",
                "range": [number(0), number(100)],
                "step": number(0.5),
                "forbidden": [(number(97), number(98))],
                "nulls": {"default": number(1)},
            },
            "ward": {"kind": "category", "values": [number(1), number(2)]},
        },
        "release": {
            "epsilon": number(1),
            "statistics": [
                {"statistic": "count", "share": number(0.5), "domain": {"range": [0, number(9)]}},
                "mean(age)",
            ],
            **release,
        },
    }


def kind(name):
    """Integers as `name`'s integer, others as its float."""
    whole, real = (np.int64, np.float64) if name == "64 bits" else (np.int16, np.float32)
    return lambda x: whole(x) if isinstance(x, int) else real(x)


class TestNumbers:
    @pytest.mark.parametrize("number", TENTHS, ids=lambda n: type(n).__name__)
    def test_a_float_of_any_width_is_the_decimal_that_it_is_printed_as(self, number):
        for plan in (dp.plan(schema(), epsilon=number), FRAME.dp.plan(schema(), epsilon=number)):
            assert plan.epsilon == Fraction(1, 10)
            assert plan.hash == dp.plan(schema(), epsilon=0.1).hash
        assert dp.plan(schema(), delta=number).delta == dp.plan(schema(), delta=0.1).delta

    @pytest.mark.parametrize("number", WHOLE, ids=lambda n: type(n).__name__)
    @pytest.mark.filterwarnings("ignore::dprelease.UnledgeredWarning")
    def test_every_door_takes_it(self, number, tmp_path):
        ledger = dp.create_ledger(tmp_path / "ledger.db", schema(), epsilon=number)
        dp.open_ledger(ledger).add("people", epsilon=number, delta=number / number / 4)
        assert dp.open_ledger(ledger).balance("people").epsilon == 4
        for release in (
            dp.release(FRAME.assign(ward="1"), schema(), epsilon=number),
            FRAME.assign(ward="1").dp.release(schema(), epsilon=number),
            dp.sql("SELECT COUNT(*) FROM t", schema(), epsilon=number, t=FRAME.assign(ward="1")),
        ):
            assert release.plan.epsilon == 2

    @pytest.mark.parametrize("bits", ["64 bits", "16 and 32 bits"])
    def test_a_schema_as_a_dict_holds_them_anywhere(self, bits):
        plain, given = schema(), schema(kind(bits))
        assert type(given["columns"]["age"]["step"]) is not float
        assert plain_values(given) == plain
        assert dp.plan(given).hash == dp.plan(plain).hash
        assert dp.Schema.from_dict(given).columns == dp.Schema.from_dict(plain).columns
        asked = [{"statistic": "count", "max_error": np.float32(0.7)}]
        again = [{"statistic": "count", "max_error": 0.7}]
        assert (
            dp.plan(given, statistics=asked, epsilon=np.int8(3)).hash
            == dp.plan(plain, statistics=again, epsilon=3).hash
        )

    def test_what_is_published_of_them_verifies(self, tmp_path):
        asked = schema(kind("16 and 32 bits"), by=["ward"])
        ledger = dp.create_ledger(tmp_path / "ledger.db", asked, epsilon=np.float32(2.5))
        held = dp.release(FRAME.assign(ward=[1, 1, 2]), asked, ledger=ledger, period="one")
        folder = held.publish(tmp_path / "public")
        assert dp.verify(folder, ledger=ledger).ok
        assert dp.read(folder).manifest["request"]["schema"]["columns"]["age"]["step"] == 0.5

    @pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
    def test_what_is_no_number_is_refused_and_the_fix_fits(self, value, tmp_path):
        for name, fix in (("epsilon", "1.0"), ("delta", "0.000001")):
            with pytest.raises(ConfigError, match=name) as caught:
                dp.plan(schema(), **{name: value})
            assert caught.value.code == "DPR113"
            assert fix in caught.value.fix or "NaN" in caught.value.what
        with pytest.raises(ConfigError) as caught:
            dp.Schema.from_dict({**schema(), "rows": {"max": value}})
        assert caught.value.code == "DPR113"
        with pytest.raises(ArgumentError) as caught:
            dp.create_ledger(tmp_path / "ledger.db", schema(), epsilon=value)
        assert caught.value.code == "DPR605"
        assert caught.value.fix

    @pytest.mark.filterwarnings("ignore::dprelease.UnledgeredWarning")
    @pytest.mark.parametrize("level", [np.float32(0.9), Decimal("0.9")], ids=["numpy", "Decimal"])
    def test_a_level_of_a_derived_value_is_one_that_can_be_written(self, level, tmp_path):
        held = dp.release(FRAME.assign(ward="1"), schema())
        made = held.derive("mean_age * 2", level=level)
        assert type(made.level) is float
        assert made.level == 0.9
        assert made.write(tmp_path / "twice.json").is_file()

    def test_only_numpys_scalars_are_changed(self):
        kept = {"a": [1, 2.5, "x", None, Fraction(1, 3), Decimal("0.10")], "b": ({"c": True},)}
        assert repr(plain_values(kept)) == repr(kept)
        made = plain_values([np.bool_(True), np.str_("x"), np.float32("inf"), np.float64(0.1)])
        assert repr(made) == "[True, 'x', inf, 0.1]"
        wide = np.longdouble("0.1234567890123456789")
        assert plain_values(wide) == Decimal(str(wide))

    def test_nesting_without_an_end_is_refused_as_what_it_is(self):
        endless: dict[str, object] = schema()
        endless["columns"]["age"]["range"] = endless
        with pytest.raises(DpreleaseError):
            dp.Schema.from_dict(endless)


NO_PATHS = [3, None, 2.5, b"public", ["public"], "a\0b"]
DOORS = {
    "read": lambda x: dp.read(x),
    "read, unchecked": lambda x: dp.read(x, verify=False),
    "read_series": lambda x: dp.read_series(x),
    "verify": lambda x: dp.verify(x),
    "open_ledger": lambda x: dp.open_ledger(x),
    "create_ledger": lambda x: dp.create_ledger(x, schema(), epsilon=1),
    "run": lambda x: dp.run(x),
    "Schema.load": lambda x: dp.Schema.load(x),
}


class TestPaths:
    @pytest.mark.parametrize("value", NO_PATHS, ids=repr)
    @pytest.mark.parametrize("door", DOORS)
    def test_what_is_no_path_is_refused_in_all_parts(self, door, value):
        with pytest.raises(ArgumentError) as caught:
            DOORS[door](value)
        error = caught.value
        assert error.code == "DPR642"
        assert error.what
        assert error.why
        assert error.fix.startswith('e.g. "')
        assert error.spent == "nothing"

    @pytest.mark.parametrize("value", [3, b"public", "a\0b"])
    def test_so_at_the_doors_of_a_release(self, value, tmp_path):
        with pytest.raises(ArgumentError, match="a ledger is named by a path"):
            dp.release(FRAME, schema(), ledger=value)
        ledger = dp.create_ledger(tmp_path / "ledger.db", schema(), epsilon=1)
        held = dp.release(FRAME.assign(ward=1), schema(), ledger=ledger, period="one")
        with pytest.raises(ArgumentError, match="the public folder is named by a path"):
            held.publish(value)
        with pytest.raises(ArgumentError, match="a file to write is named by a path"):
            held.derive("mean_age * 2").write(value)
        assert held.publish(tmp_path / "public").is_dir()  # the control

    def test_paths_of_other_classes_are_paths(self, tmp_path):
        class Named:
            def __fspath__(self):
                return str(tmp_path)

        assert path_from(Named(), "a folder", "x") == tmp_path == path_from(tmp_path, "it", "x")
        assert path_from("x", "a folder", "x") == Path("x")


class TestSeries:
    @pytest.mark.parametrize("column", [FRAME["age"], pl.Series([1])], ids=["pandas", "polars"])
    def test_a_series_is_refused_and_the_frame_named(self, column):
        doors = (
            lambda: dp.release(column, schema()),
            lambda: dp.sql("SELECT COUNT(*) FROM t", schema(), t=column),
            lambda: dp.draft_schema(column),
        )
        for door in doors:
            with pytest.raises(SourceError, match="a Series is one column") as caught:
                door()
            assert caught.value.code == "DPR500"
            assert "DataFrame" in caught.value.fix

    @pytest.mark.filterwarnings("ignore::dprelease.UnledgeredWarning")
    @pytest.mark.parametrize("column", [FRAME["age"], pl.Series([1])], ids=["pandas", "polars"])
    def test_so_as_a_public_table(self, column):
        held = dp.release(FRAME.assign(ward=1), schema())
        with pytest.raises(ArgumentError, match="a Series is one column") as caught:
            held.derive("count / age", public=column)
        assert caught.value.code == "DPR667"


def test_the_command_needs_no_numpy_for_it():
    code = (
        "import sys; sys.argv = ['dprelease']\n"
        "from dprelease.core.caller import plain_values\n"
        "assert plain_values({'a': [1]}) == {'a': [1]}\n"
        "print([m for m in ('numpy', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
