"""The registry draft: the registry's fields, losses never understated, nothing made up."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator

import dprelease as dp
from dprelease.results.draw import Draw
from dprelease.results.formats import registry_record
from dprelease.results.formats.json_ import build_manifest
from dprelease.results.formats.registry_record import FILE, OPEN, record, write
from dprelease.results.formats.registry_schema import SCHEMA
from dprelease.results.validate.verdict import Verdict
from dprelease.schema.unit import Adjacency
from tests.results.formats.releases import SOFTWARE, clinic

GOOD = clinic()
VALIDATORS = [Draft7Validator(SCHEMA, format_checker=Draft7Validator.FORMAT_CHECKER)]
if OWN := os.environ.get(
    "DPRELEASE_REGISTRY_SCHEMA"
):  # the registry's own file, where it is at hand
    VALIDATORS.append(
        Draft7Validator(
            yaml.safe_load(Path(OWN).read_text(encoding="utf-8")),
            format_checker=Draft7Validator.FORMAT_CHECKER,
        )
    )
TO_FILL_IN = ("data_curators", "intended_use", "data_product_region")


def manifest(release=GOOD):
    return build_manifest(
        release,
        Verdict(True, (), "built-in"),
        {},
        software=SOFTWARE,
        scheduled="2026-11-17T06:00:00Z",
        published="2026-12-01",
    )


def faults(said):
    return [e.message for v in VALIDATORS for e in v.iter_errors(said)]


def changed(**parts):
    release = Draw(replace(GOOD.plan, **parts), GOOD.table, GOOD.cells, GOOD.receipt)
    return record(release.plan, manifest(release))["deployment"]


def test_the_record_fits_the_registry_s_schema():
    said = yaml.safe_load(write(GOOD, manifest())[FILE])
    assert faults(said) == []
    assert said["status"] == "Draft"
    deployment = said["deployment"]
    assert deployment["basic"]["name"] == "Clinic weekly · week 46 of 2026"
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5}
    assert "rows: 0.25; bmi: 0.125; ages: 0.125" in deployment["accounting"]["composition"]
    many = changed(window=(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC)))
    assert many["deployment_model"]["release_type"] == "Many releases"
    for other in (many, changed(delta=Fraction(1, 10**6))):
        assert faults({**said, "deployment": other}) == []


@pytest.mark.parametrize(
    "breaking",
    [
        lambda d: d.update(product=d.pop("basic")),  # the names of before July 2026
        lambda d: d.update(dp_flavor=d.pop("dp_variant")),
        lambda d: d.update(model=d.pop("deployment_model")),
        lambda d: d["implementation"].update(pre_processing_eda_hyperparameter_tuning="none"),
        lambda d: d["basic"].pop("publication_date"),
        lambda d: d["basic"].update(publication_date="17 November"),
        lambda d: d["basic"].update(data_curators=[]),
        lambda d: d["dp_variant"].update(variant_name="Purest DP"),
        lambda d: d["privacy_loss"]["privacy_parameters"].update(epsilon="1/2"),
        lambda d: d["administrative"].pop("registry_authors"),
    ],
)
def test_the_control_a_record_that_does_not_fit_is_found_out(breaking):
    said = yaml.safe_load(write(GOOD, manifest())[FILE])
    breaking(said["deployment"])
    assert len(faults(said)) >= len(VALIDATORS)


def test_the_publication_date_is_the_day_of_publication_and_not_of_the_period():
    assert changed()["basic"]["publication_date"] == "2026-12-01"
    without = {**manifest(), "published": None}
    assert "publication_date" not in record(GOOD.plan, without)["deployment"]["basic"]


def test_the_address_follows_the_registry_s_rule():
    slug = record(GOOD.plan, manifest())["url_slug"]
    assert slug == "clinic-weekly-week-46-of-2026-to-be-filled-in-by-the-publisher-2026"


def test_what_only_the_publisher_knows_is_left_open_and_named():
    text = write(GOOD, manifest())[FILE].decode()
    comment = "".join(line for line in text.splitlines() if line.startswith("#"))
    said = yaml.safe_load(text)["deployment"]
    for name in TO_FILL_IN:
        assert name in comment
        assert said["basic"][name] in (OPEN, [OPEN])
    assert said["administrative"]["registry_authors"] == [OPEN]
    assert "data_product_sector" in comment
    assert "data_product_sector" not in said["basic"]


def test_the_record_is_a_function_of_its_arguments():
    assert write(GOOD, manifest()) == write(clinic(), manifest(clinic()))


def test_delta_and_adjacency_are_said():
    approximate = changed(delta=Fraction(1, 10**6))
    assert approximate["dp_variant"]["variant_name"] == "Approximate DP"
    assert approximate["privacy_loss"]["privacy_parameters"]["delta"] == pytest.approx(1e-6)
    replaced = changed(adjacency=Adjacency.substitution)
    assert "number of protected units is public" in replaced["dp_variant"]["unprotected_quantities"]


def test_what_is_observed_and_not_proved_is_said():
    said = changed(notes=("observed: keys were taken from the data", "another note"))
    description = said["privacy_loss"]["privacy_parameters_details"]
    assert "observed: keys were taken from the data" in description
    assert "another note" not in description


@given(st.fractions("1/1000000000000", 1000).filter(bool))
def test_a_loss_is_never_understated_and_nearly_exact(loss):
    shown = Fraction(registry_record._up(loss))
    assert loss <= shown <= loss * (1 + Fraction(1, 10**7))


def test_the_twin_that_rounds_to_nearest_understates():
    assert Fraction(round(float(Fraction(1, 3)), 9)) < Fraction(1, 3)


def test_how_losses_of_other_periods_add_up_is_that_of_the_unit():
    base = {
        "dprelease": "schema/1", "name": "visits", "unit": "row", "adjacency": "add_remove",
        "rows": {"max": 1000}, "columns": {"at": {"kind": "timestamp"}},
        "time": {"column": "at", "immutable": True},
        "release": {"epsilon": 1, "statistics": ["count"]},
    }  # fmt: skip
    said = {
        "losses of disjoint periods do not add up": {},
        "at most the two largest": {"adjacency": "substitution"},
        "losses of periods add up for a unit": {"time": {"column": "at"}},
    }
    for words, changes in said.items():
        model = registry_record._model(dp.plan({**base, **changes}, during="2026-W46"))
        assert words in model["release_type_details"]
