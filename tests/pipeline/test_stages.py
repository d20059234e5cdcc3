"""The stages as functions: what each needs, and that the files are a function of the draw."""

from __future__ import annotations

import json
from dataclasses import replace

import pandas as pd
import pytest

from dprelease.budget import rows
from dprelease.budget.ledger import Key, Ledger
from dprelease.core.errors import ConfigError, InternalError, SourceError
from dprelease.engines.source import as_source
from dprelease.pipeline import files as writing
from dprelease.pipeline import preflight, stages
from dprelease.pipeline.flow import bundle
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import Schema
from dprelease.results import draw as draw_module
from dprelease.results.validate.verdict import RuleResult, Verdict
from tests.end_to_end.projects import ROOT

SCHEMA = ROOT / "schemas" / "fair.yaml"


@pytest.fixture(scope="module")
def drawn():
    plan = plan_release(Schema.load(SCHEMA))
    source = as_source(pd.read_csv(ROOT / "examples" / "data" / "fair_1978.csv"))
    return stages.draw(plan, source, preflight.engine_named("duckdb"), request=None)


def test_every_stage_after_the_draw_is_deterministic(drawn):
    verdict = stages.validated(drawn, great_expectations=False)
    assert verdict.ok
    assert bundle(drawn) == bundle(drawn)


def test_the_bundle_holds_the_asked_formats_and_always_manifest_and_package(drawn):
    assert set(bundle(drawn, ["parquet"])) == {
        "data.parquet", "datapackage.json", "registry.yaml", "release.json",
    }  # fmt: skip
    everything = bundle(drawn)
    assert len(everything) == 7
    listed = json.loads(everything["release.json"])["files"]
    assert set(listed) == set(everything) - {"release.json"}
    with pytest.raises(ConfigError) as caught:
        bundle(drawn, ["xlsx"])
    assert caught.value.code == "DPR146"


def test_a_count_that_fails_before_the_charge_says_that_nothing_is_spent():
    """The engine's own error would say "the budget may be spent"."""
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1", "name": "sized", "unit": "row", "adjacency": "substitution", "rows": {"exact": 3},
            "columns": {"x": {"kind": "integer", "range": [0, 9], "nulls": {"default": 0}}},
            "release": {"epsilon": 1, "statistics": ["mean(x)"]},
        }
    )  # fmt: skip
    plan = plan_release(schema)
    source = as_source(pd.DataFrame({"x": [1, 2, 3]}))
    honest = preflight.engine_named("duckdb")
    preflight.preflight(plan, source, honest)

    class Broken:
        timeout = None
        preflight = staticmethod(honest.preflight)

        def compute(self, *_arguments):
            raise InternalError("the rows could not be aggregated")

    with pytest.raises(SourceError) as caught:
        preflight.preflight(plan, source, Broken())
    assert (caught.value.code, caught.value.spent) == ("DPR502", "nothing")
    assert caught.value.__context__ is None


def test_a_plan_that_claims_too_little_is_not_drawn(drawn):
    cheap = replace(drawn.plan, epsilon=drawn.plan.epsilon / 2)
    read = []

    class Spy:
        def compute(self, *_arguments):
            read.append(1)

    with pytest.raises(InternalError) as caught:
        stages.draw(cheap, as_source(pd.DataFrame()), Spy(), request=None)
    assert caught.value.code == "DPR901"
    assert not read  # refused before a row is read


def test_a_value_outside_its_domain_fails_validation(drawn):
    table = drawn.table
    at = table.column_names.index("value")
    broken = table.set_column(at, "value", [table.column("value").to_numpy() * 1e6])
    verdict = stages.validated(replace(drawn, table=broken), great_expectations=True)
    assert not verdict.ok
    assert verdict.engine == "built-in"  # Great Expectations is not asked about a failed release


def test_withholding_names_rules_never_values():
    verdict = Verdict.from_rules((RuleResult("domain", "mean_age", 4, 1),), "built-in")
    error = stages.withhold(None, verdict)
    assert "domain of mean_age" in error.why
    assert error.exit_status == 3


def test_each_draw_is_new_and_each_unledgered_salt_is_fresh(drawn):
    source = as_source(pd.read_csv(ROOT / "examples" / "data" / "fair_1978.csv"))
    salts = []

    class Engine:
        def compute(self, one, query, salt):
            salts.append(salt)
            return preflight.engine_named("duckdb").compute(one, query, salt)

    again = [stages.draw(drawn.plan, source, Engine(), request=None) for _ in range(2)]
    assert again[0].cells != again[1].cells
    assert len(set(salts)) == 2
    assert all(len(s) == 32 for s in salts)
    assert draw_module.width(drawn.plan) == draw_module.CELL_BYTES * sum(
        len(b.cells) for b in drawn.plan.blocks
    )


def test_versions_are_listed():
    assert {"python", "dprelease", "duckdb", "great-expectations"} <= set(writing.software())


def test_a_plan_that_claims_too_little_is_never_charged(tmp_path):
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1", "name": "t", "unit": "row", "adjacency": "substitution", "rows": {"max": 9},
            "columns": {"g": {"kind": "category", "values": ["a", "b"]}},
            "release": {"epsilon": 1, "by": ["g"], "statistics": ["count"]},
        }
    )  # fmt: skip
    plan = plan_release(schema)
    ledger = Ledger.create(
        tmp_path / "ledger.db", dataset="t", epsilon=5, delta=0, adjacency="substitution", unit='"row"'
    )  # fmt: skip
    request = stages.Request(ledger, Key("t", "p", "once"))
    with pytest.raises(InternalError) as refused:  # one group alone moves half as far
        stages.charge(replace(plan, keys=plan.keys[:1]), request)
    assert refused.value.code == "DPR902"
    assert ledger.budget("t").spent == 0
    stages.charge(plan, request)  # control
    assert ledger.budget("t").spent == 1


def test_what_was_spent_so_far_reads_each_debit_once(tmp_path, monkeypatch):
    plan = plan_release(Schema.load(SCHEMA))
    book = Ledger.create(
        tmp_path / "l.db", dataset="d", epsilon=9, adjacency="substitution", unit='"row"'
    )
    receipts = [stages.charge(plan, stages.Request(book, Key("d", "p", f"{i}"))) for i in range(5)]
    read, count = rows.entry_row, []
    monkeypatch.setattr(rows, "entry_row", lambda *given: count.append(1) or read(*given))
    said = stages.spent_at(book, Key("d", "p", "3"), receipts[3].seq)
    assert (said["spent"], said["history"]) == ("4", ["1", "2", "3", "4"])
    assert len(count) == 5
