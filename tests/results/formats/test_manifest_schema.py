"""The published shape of `release.json`: real manifests fit it, broken ones do not."""

from __future__ import annotations

import copy
import json

import pytest
from jsonschema import Draft202012Validator

import dprelease as dp
from dprelease.schema.json_schema import json_schema
from tests.end_to_end.projects import clinic

SCHEMA = json_schema("manifest")
VALIDATOR = Draft202012Validator(SCHEMA)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    result = dp.run(clinic(tmp_path_factory.mktemp("clinic")), period="2026-W46")
    return json.loads((result.folder / "release.json").read_text())


def test_the_schema_is_one_and_names_its_draft():
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["title"] == "dprelease release/2"
    assert SCHEMA["$schema"].endswith("2020-12/schema")


def test_a_real_manifest_fits(manifest):
    VALIDATOR.validate(manifest)
    assert manifest["scheduled"] == "2026-11-17T06:00:00Z"


def test_an_older_manifest_and_a_newer_one_fit(manifest):
    older = {k: v for k, v in manifest.items() if k != "scheduled"}
    VALIDATOR.validate(older)
    VALIDATOR.validate({**manifest, "something_new": {"a": 1}})


BREAKS = {
    "another version": lambda m: m.update(dprelease="release/1"),
    "no guarantee": lambda m: m.pop("guarantee"),
    "a number for an exact loss": lambda m: m["guarantee"].update(epsilon=0.5),
    "a decimal for an exact loss": lambda m: m["plan"]["blocks"][0].update(epsilon="0.5"),
    "an unknown adjacency": lambda m: m["guarantee"].update(adjacency="both"),
    "numbers for noisy integers": lambda m: m["draw"]["cells"].update(
        {next(iter(m["draw"]["cells"])): [[1, 2]]}
    ),
    "a short hash": lambda m: m.update(plan_hash="abc"),
    "a file without its hash": lambda m: m["files"]["data.csv"].pop("sha256"),
    "a local time": lambda m: m.update(scheduled="2026-11-17 06:00"),
    "no statistics": lambda m: m["plan"].update(statistics=[]),
    "a ledger entry of text": lambda m: m["ledger"].update(seq="4"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_manifest_does_not_fit(manifest, name):
    broken = copy.deepcopy(manifest)
    BREAKS[name](broken)
    assert not VALIDATOR.is_valid(broken)


def test_every_key_is_described(manifest):
    """A key that manifests hold and the schema does not mention is an omission."""
    timed = {
        "time",
        "window",
        "person",
    }  # of a schema that declares its time, which this one does not
    assert not timed & set(manifest["guarantee"])
    assert set(manifest) == set(SCHEMA["properties"])
    for part, name in (("guarantee", "GuaranteeModel"), ("receipt", "ReceiptModel"), ("ledger", "AnchorModel"),
        ("request", "RequestModel"), ("draw", "DrawModel")):  # fmt: skip
        own = set(manifest[part]) | (timed if part == "guarantee" else set())
        own |= {"approval"} if part == "receipt" else set()  # of a pipeline that needs one
        own |= {"fits"} if part == "draw" else set()  # of several tables
        assert own == set(SCHEMA["$defs"][name]["properties"])
