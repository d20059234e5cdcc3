"""The registry draft: the registry's fields, losses never understated, nothing made up."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dprelease.formats import registry_record
from dprelease.formats.json_ import build_manifest
from dprelease.formats.registry_record import FILE, record, write
from dprelease.noised import Noised
from dprelease.schema.unit import Adjacency
from dprelease.validate.verdict import Verdict
from tests.formats.releases import SOFTWARE, clinic

GOOD = clinic()
FIELDS = {
    "product": {"name", "data_product_type", "description", "publication_date"},
    "dp_flavor": {
        "name", "input_metric", "bound_on_input_distance", "output_measure",
        "bound_on_output_distance", "data_domain", "unprotected_quantities",
    },
    "privacy_loss": {
        "privacy_unit", "privacy_unit_description", "privacy_parameters",
        "privacy_parameters_description",
    },
    "model": {
        "model_name", "actors", "release_type", "release_type_description", "data_source_type",
        "access_type",
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {"pre_processing_eda_hyperparameter_tuning", "mechanisms", "justification"},
}  # fmt: skip


def manifest(release=GOOD):
    return build_manifest(
        release, Verdict(True, ()), {}, software=SOFTWARE, scheduled="2026-11-17T06:00:00Z"
    )


def test_the_fields_are_the_registry_s():
    said = yaml.safe_load(write(GOOD, manifest())[FILE])
    assert (said["url_slug"], said["status"]) == ("clinic-weekly-2026-w46", "Draft")
    deployment = said["deployment"]
    assert {name: set(part) for name, part in deployment.items()} == FIELDS
    assert deployment["product"]["name"] == "Clinic weekly · week 46 of 2026"
    assert deployment["product"]["publication_date"] == "2026-11-17"
    assert deployment["dp_flavor"]["name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.5}
    assert "rows: 0.25; bmi: 0.125; ages: 0.125" in deployment["accounting"]["composition"]


def test_what_only_the_publisher_knows_is_left_out_and_named():
    text = write(GOOD, manifest())[FILE].decode()
    comment = "".join(line for line in text.splitlines() if line.startswith("#"))
    said = yaml.safe_load(text)["deployment"]
    for name in ("data_curators", "intended_use", "data_product_region", "data_product_sector"):
        assert name in comment
        assert name not in said["product"]


def test_it_is_a_function_of_its_arguments():
    assert write(GOOD, manifest()) == write(clinic(), manifest(clinic()))
    assert all(isinstance(v, str) for v in record(GOOD.plan, manifest())["deployment"]["model"].values())


def changed(**parts):
    release = Noised(replace(GOOD.plan, **parts), GOOD.table, GOOD.cells, GOOD.receipt)
    return record(release.plan, manifest(release))["deployment"]


def test_delta_and_adjacency_are_said():
    approximate = changed(delta=Fraction(1, 10**6))
    assert approximate["dp_flavor"]["name"] == "Approximate DP"
    assert approximate["privacy_loss"]["privacy_parameters"]["delta"] == pytest.approx(1e-6)
    replaced = changed(adjacency=Adjacency.substitution)
    assert "number of protected units is public" in replaced["dp_flavor"]["unprotected_quantities"]


def test_what_is_observed_and_not_proved_is_said():
    said = changed(notes=("observed: keys were taken from the data", "another note"))
    description = said["privacy_loss"]["privacy_parameters_description"]
    assert "observed: keys were taken from the data" in description
    assert "another note" not in description


@given(st.fractions("1/1000000000000", 1000).filter(bool))
def test_a_loss_is_never_understated_and_nearly_exact(loss):
    shown = Fraction(registry_record._up(loss))
    assert loss <= shown <= loss * (1 + Fraction(1, 10**7))


def test_the_twin_that_rounds_to_nearest_understates():
    assert Fraction(round(float(Fraction(1, 3)), 9)) < Fraction(1, 3)
