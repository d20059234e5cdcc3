"""Contracts of other standards become drafts that load; what they do not declare stays open."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.errors import ConfigError
from dprelease.query.load import Schema
from dprelease.schema.column import Kind
from dprelease.schema.importers.contracts import MAX_BYTES, draft_schema, read_contract
from dprelease.schema.importers.draft import DraftColumn, DraftTable, as_number, write_draft
from tests.sizes import whole

ODCS = """\
apiVersion: v3.2.0
kind: DataContract
id: 53581432-6c55-4ba2-a65f-72344a91553a
version: 1.0.0
status: active
schema:
  - name: visits
    logicalType: object
    properties:
      - {name: patient_id, logicalType: string, primaryKey: true, required: true}
      - name: region
        logicalType: string
        required: true
        enum:
          - {value: north, label: North}
          - {value: "no", label: Norway}
      - name: age
        logicalType: integer
        required: true
        logicalTypeOptions: {minimum: 0, exclusiveMaximum: 121}
      - name: bmi
        logicalType: number
        logicalTypeOptions: {minimum: 10, maximum: 80, multipleOf: 0.5}
      - {name: cost, logicalType: number, logicalTypeOptions: {minimum: 0}}
      - {name: notes, logicalType: string}
      - {name: tags, logicalType: array, items: {logicalType: string}}
      - {name: seen, logicalType: timestamp}
  - name: staff
    properties:
      - {name: rank, logicalType: integer, logicalTypeOptions: {minimum: 1, maximum: 9}}
"""

FRICTIONLESS = {
    "primaryKey": "pid",
    "fields": [
        {"name": "pid", "type": "integer"},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": "120"}},
        {"name": "height", "type": "number", "constraints": {"minimum": 0.5, "maximum": 2.5}},
        {"name": "on", "type": "string", "constraints": {"enum": ["a", "b"], "required": True}},
        {"name": "answer", "type": "integer", "categories": [{"value": 1, "label": "yes"}, 9]},
        {"name": "born", "type": "date"},
        {"name": "where", "type": "geopoint"},
    ],
}

PANDERA = """\
schema_type: dataframe
api: pandas
columns:
  age:
    dtype: int64
    in_range: {min_value: 0, max_value: 120, include_min: true, include_max: false}
  bmi:
    dtype: float64
    nullable: true
    greater_than_or_equal_to: 10
    less_than_or_equal_to: 80
  old:
    dtype: Int64
    checks:
      greater_than: {value: 0}
      less_than_or_equal_to: {value: 5}
  region:
    dtype: string[pyarrow]
    isin: [north, south]
  pid:
    dtype: string[pyarrow]
    unique: true
  when: {dtype: "datetime64[ns, UTC]"}
  ok: {dtype: bool}
  small: {dtype: uint8}
name: visits
"""


def write(tmp_path, content):
    path = tmp_path / "contract.yaml"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def load(tmp_path, text):
    path = tmp_path / "draft.yaml"
    path.write_text(text)
    return Schema.load(path)


def test_an_open_data_contract(tmp_path):
    text = draft_schema(write(tmp_path, ODCS))
    schema = load(tmp_path, text)
    assert set(schema.columns) == {"patient_id", "region", "age", "bmi", "seen"}
    assert schema.columns["region"].values == ("north", "no")
    assert schema.columns["region"].nulls == "drop"
    assert str(schema.columns["age"].domain) == "[0, 120]"  # the open end moved inside
    assert schema.columns["bmi"].step == Fraction(1, 2)
    assert schema.unit.column == "patient_id"
    for open_column in ("cost", "notes", "tags"):
        assert f"# ANSWER {open_column}:" in text
    assert "range: [0, ...]" in text
    assert [s.text for s in schema.release.statistics] == ["count", "mean(age)", "mean(bmi)"]


def test_a_table_is_chosen_by_name(tmp_path):
    path = write(tmp_path, ODCS)
    assert read_contract(path, table="staff").columns[0].high == 9
    with pytest.raises(ConfigError, match="no such table") as error:
        read_contract(path, table="nobody")
    assert error.value.code == "DPR166"
    assert "visits, staff" in str(error.value)


def test_a_frictionless_table_schema_and_package(tmp_path):
    text = draft_schema(write(tmp_path, FRICTIONLESS))
    schema = load(tmp_path, text)
    kinds = {name: c.kind for name, c in schema.columns.items()}
    assert kinds == {
        "pid": Kind.identifier, "age": Kind.integer, "height": Kind.number, "on": Kind.category,
        "answer": Kind.category, "born": Kind.date,
    }  # fmt: skip
    assert schema.columns["answer"].values == ("1", "9")
    assert schema.columns["answer"].null_label == "unknown"  # it may be missing
    assert schema.columns["height"].step == Fraction(1, 10_000)
    package = {"name": "p", "resources": [{"name": "visits", "schema": FRICTIONLESS}]}
    assert read_contract(write(tmp_path, package)).name == "visits"


def test_a_pandera_schema(tmp_path):
    schema = load(tmp_path, draft_schema(write(tmp_path, PANDERA)))
    assert str(schema.columns["age"].domain) == "[0, 119]"
    assert str(schema.columns["old"].domain) == "[1, 5]"
    assert str(schema.columns["bmi"].domain) == "[10, 80]"
    assert schema.columns["region"].values == ("north", "south")
    assert schema.columns["when"].kind is Kind.timestamp
    assert "small" not in schema.columns


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2]",
        "kind: Deployment",
        "a: [",
        "!!python/object:os.system {}",
        "x" * (MAX_BYTES + 1),
    ],
)
def test_what_is_not_a_contract_is_refused(tmp_path, content):
    with pytest.raises(ConfigError) as error:
        draft_schema(write(tmp_path, content))
    assert error.value.code == "DPR165"
    assert "os.system" not in str(error.value)


def test_an_empty_contract_says_so(tmp_path):
    with pytest.raises(ConfigError, match="no column") as error:
        draft_schema(write(tmp_path, {"fields": []}))
    assert error.value.code == "DPR166"


PRINTED = st.characters(exclude_categories=("C", "Z")) | st.just(" ")
NAMES = st.text(PRINTED, min_size=1, max_size=12).filter(str.strip)
COLUMNS = st.builds(
    DraftColumn,
    name=NAMES,
    kind=st.sampled_from([*Kind, None]),
    low=st.none() | st.fractions(-1000, 1000, max_denominator=100),
    high=st.none() | st.fractions(-1000, 1000, max_denominator=100),
    values=st.lists(NAMES, max_size=3, unique=True).map(tuple),
    step=st.none() | st.just(Fraction(1, 4)),
    nullable=st.booleans(),
    measure=st.none() | NAMES,
    said=st.just("x"),
)


@settings(max_examples=whole(30, 100))
@given(st.lists(COLUMNS, min_size=1, max_size=4, unique_by=lambda c: c.name), NAMES)
def test_every_draft_is_yaml_with_the_columns_that_need_no_answer(columns, name):
    text = write_draft(DraftTable(name, "a standard", tuple(columns)), "contract.yaml")
    found = yaml.safe_load(text)
    assert set(found["columns"] or {}) <= {c.name for c in columns}
    assert found["dprelease"] == "schema/1"


@pytest.mark.parametrize("value", [None, True, "x", float("nan"), float("inf"), [1]])
def test_only_finite_numbers_are_bounds(value):
    assert as_number(value) is None
