"""Great Expectations agrees with the built-in rules, and leaves the process as it was."""

from __future__ import annotations

import builtins
import json
import logging
import math
import os
import subprocess
import sys
import tomllib
import warnings
from importlib import import_module

import pyarrow as pa
import pytest

from dprelease.core.errors import ConfigError
from dprelease.results.draw import Draw
from dprelease.results.validate import gx_process
from dprelease.results.validate.gx import expectations, gx_validate, require_great_expectations
from dprelease.results.validate.rules import check
from dprelease.schema.domain import Domain
from tests.meta.lines import ROOT
from tests.results.formats import releases

GOOD = releases.clinic()


def dropped(rows: int) -> Draw:
    return Draw(GOOD.plan, GOOD.table.slice(rows), GOOD.cells)


def repeated() -> Draw:
    return Draw(GOOD.plan, pa.concat_tables([GOOD.table, GOOD.table.slice(0, 1)]), GOOD.cells)


def swapped() -> Draw:
    """One row twice and another missing: the number of rows is right."""
    table = pa.concat_tables([GOOD.table.slice(1), GOOD.table.slice(1, 1)])
    return Draw(GOOD.plan, table, GOOD.cells)


def changed(column: str, row: int, value: object) -> Draw:
    return releases.replaced(GOOD, column, row, value)


BROKEN = {
    "value in a gap": (changed("value", 0, 5.0), "domain"),
    "NaN": (changed("value", 0, math.nan), "domain"),
    "infinity": (changed("value", 0, math.inf), "domain"),
    "missing value": (changed("value", 0, None), "domain"),
    "out of range": (changed("value", 0, 50001.0), "domain"),
    "misfit outside": (changed("consistent", 0, 50001.0), "consistent"),
    "ends crossed": (changed("lower", 0, 1229.0), "interval"),
    "no lower end": (changed("lower", 0, None), "interval"),
    "unknown status": (changed("status", 0, "fine"), "labels"),
    "unknown group": (changed("region", 0, "west"), "labels"),
    "unknown statistic": (changed("statistic", 0, "median_age"), "labels"),
    "missing group": (dropped(7), "shape"),
    "repeated row": (repeated(), "groups"),
    "one twice, one missing": (swapped(), "groups"),
}


def test_great_expectations_finds_a_good_release_valid():
    verdict = gx_validate(GOOD)
    assert verdict.ok, str(verdict)
    assert verdict.engine == "great_expectations"
    assert {r.name for r in verdict.rules} >= {
        "shape",
        "groups",
        "domain",
        "consistent",
        "interval",
    }


@pytest.mark.parametrize(("release", "rule"), BROKEN.values(), ids=BROKEN.keys())
def test_great_expectations_and_the_rules_find_a_broken_release_not_valid(release, rule):
    verdict = gx_validate(release)
    assert not verdict.ok
    assert not check(release).ok
    assert rule in {r.name for r in verdict.failures}
    json.dumps(verdict.to_json(), allow_nan=False)  # counts only: strict JSON, no failing rows


def test_the_built_in_between_is_the_twin_that_passes_nan():
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with gx_process.undisturbed():
            import great_expectations as gx

        context = gx.get_context(mode="ephemeral")
        batch = (
            context.data_sources.add_pandas("p")
            .add_dataframe_asset("a")
            .add_batch_definition_whole_dataframe("b")
            .get_batch({"dataframe": pd.DataFrame({"value": [1.0, math.nan]})})
        )
        twin = gx.expectations.ExpectColumnValuesToBeBetween(
            column="value", min_value=0, max_value=9
        )
        assert batch.validate(twin).success


def test_the_suite_can_be_stored_and_holds_public_numbers_only():
    text = json.dumps(expectations(GOOD.plan), allow_nan=False)
    assert "expect_released_rows_to_obey" in text
    assert "1204" not in text


def test_one_hundred_thousand_values_of_two_thousand_domains():
    statistics = [
        releases.statistic(
            f"s{i}", "sum(x)", Domain(0, 100 + i, forbidden=[(3, 4)]), "1", block="b"
        )
        for i in range(2000)
    ]
    plan = releases.plan(statistics, [releases.block("b")], keys=[(str(g),) for g in range(50)])
    row = [(10.0, 1.0, 20.0, "ok")] * 50
    release = releases.noised(plan, {s.name: row for s in statistics})
    assert gx_validate(release).ok


def test_the_process_is_left_as_it_was_also_where_it_has_to_import_it_itself():
    script = """
import logging, os, sys, warnings
import pandas
from tests.results.formats import releases
from dprelease.results.validate import gx, gx_process, rules
before = (warnings.showwarning, list(warnings.filters), dict(os.environ))
root = list(logging.getLogger().handlers)
assert "great_expectations" not in sys.modules
assert rules.check(releases.clinic()).ok and not gx_process._begun
gx_process.begin = lambda: None
assert gx.gx_validate(releases.clinic()).ok
assert "great_expectations" in sys.modules
assert (warnings.showwarning, dict(os.environ)) == (before[0], before[2])
assert warnings.filters == before[1], set(warnings.filters) ^ set(before[1])
assert logging.getLogger().handlers == root
logging.captureWarnings(True); assert warnings.showwarning is not before[0]
logging.captureWarnings(False); assert warnings.showwarning is before[0]
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p) or "."},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr == ""


def test_a_captured_warning_state_is_kept():
    logging.captureWarnings(True)
    try:
        with gx_process.undisturbed():
            pass
        assert warnings.showwarning.__module__ == "logging"
    finally:
        logging.captureWarnings(False)


def no_such_option(*_: object, **__: object) -> None:
    raise TypeError("an unexpected keyword argument")


def failed(*_: object) -> list[tuple[str, int]]:
    return [("labels", 1)]


@pytest.mark.parametrize(
    ("where", "name", "other"),
    [
        ("great_expectations", "get_context", no_such_option),
        ("dprelease.results.validate.gx_process", "judge", failed),
    ],
)
def test_a_version_that_imports_and_does_not_judge_is_found_before_the_charge(
    monkeypatch, where, name, other
):
    monkeypatch.setattr(gx_process, "begin", lambda: False)
    with gx_process.undisturbed():
        module = import_module(where)
    monkeypatch.setattr(module, name, other)
    with pytest.raises(ConfigError, match="cannot judge a release") as error:
        require_great_expectations()
    assert error.value.code == "DPR173"


def test_the_version_that_is_named_is_the_one_that_is_declared():
    said = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert gx_process.NEEDED in said


def test_an_import_that_ends_the_process_is_found_before_the_charge(monkeypatch):
    # no process of an earlier test answers
    monkeypatch.setattr(gx_process, "begin", lambda: False)
    require_great_expectations()  # the control: it is installed
    real = builtins.__import__

    def leave(name, *rest, **named):
        if name == "great_expectations":
            raise SystemExit(0)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", leave)
    with pytest.raises(ConfigError, match="pyspark") as error:
        require_great_expectations()
    assert error.value.code == "DPR173"
