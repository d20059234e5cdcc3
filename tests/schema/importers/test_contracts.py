"""Contracts of other standards become drafts that load; what they do not declare stays open."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import ConfigError
from dprelease.query.load import Schema
from dprelease.schema.column import Kind
from dprelease.schema.importers.contracts import MAX_BYTES, draft_schema, read_contract
from dprelease.schema.importers.draft import DraftColumn, DraftTable, write_draft
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
        "x" * (MAX_BYTES + 1),
    ],
)
def test_what_is_not_a_contract_is_refused(tmp_path, content):
    with pytest.raises(ConfigError) as error:
        draft_schema(write(tmp_path, content))
    assert error.value.code == "DPR165"
    assert "os.system" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("c.yaml", "schema_type: dataframe\ncolumns: {a: {dtype: int, dtype: str}}\n", "DPR103"),
        ("c.yaml", "fields: [&x {name: a}]\n", "DPR104"),
        ("c.yaml", "!!python/object:os.system {}", "DPR105"),
        ("c.json", '{"fields": [{"name": "a", "name": "b"}]}', "DPR165"),
        ("c.json", '{"fields": [{"name": "a"}],}', "DPR165"),
        ("c.yaml", '{"fields": [{"name": "a", "name": "b"}]}', "DPR103"),
    ],
)
def test_contracts_are_read_by_the_strict_readers(tmp_path, name, content, code):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(ConfigError) as error:
        draft_schema(path)
    assert error.value.code == code
    assert "os.system" not in str(error.value)


TEXTS = [
    "NO",
    "on",
    "012",
    "12:30",
    "1_000",
    "2024-01-01",
    "+44",
    "1e3",
    "1.50",
    "-0",
    "true",
    "0x1F",
]
"""Texts that YAML 1.1 reads as something else."""


@pytest.mark.parametrize(
    "content",
    [
        "kind: DataContract\nschema: [{name: t, properties: [{name: k, logicalType: string, enum: [VALUES]}]}]",
        "schema_type: dataframe\ncolumns: {k: {dtype: str, isin: [VALUES]}}",
        "schema_type: dataframe\ncolumns: {k: {dtype: str, checks: {isin: [VALUES]}}}",
        "schema_type: dataframe\ncolumns: {k: {dtype: str, checks: [{value: [VALUES], options: {check_name: isin}}]}}",
        "fields: [{name: k, type: string, constraints: {enum: [VALUES]}}]",
        "fields: [{name: k, type: string, categories: [VALUES]}]",
    ],
)
def test_values_keep_their_text(tmp_path, content):
    text = draft_schema(write(tmp_path, content.replace("VALUES", ", ".join(TEXTS))))
    assert load(tmp_path, text).columns["k"].values == tuple(TEXTS)


def test_numbers_of_json_keep_their_text(tmp_path):
    path = tmp_path / "c.json"
    path.write_text(
        '{"fields": [{"name": "k", "constraints": {"enum": [1.50, 1e3, true, "\\ud83d\\ude00"]}}]}'
    )
    assert read_contract(path).columns[0].values == ("1.50", "1e3", "true", "\U0001f600")


@pytest.mark.parametrize("end", ["012", "1_20", "12:00", "x", "[1]", "0x10", "true"])
def test_a_bound_that_readers_of_yaml_take_for_different_numbers_is_none(tmp_path, end):
    content = f"fields: [{{name: a, type: integer, constraints: {{minimum: 0, maximum: {end}}}}}]"
    text = draft_schema(write(tmp_path, content))
    assert "# ANSWER a: {kind: integer, range: [0, ...]}" in text
    assert "not taken over: constraints.maximum" in text


def test_an_open_end_of_older_contracts_is_open(tmp_path):
    content = """kind: DataContract
schema: [{name: t, properties: [{name: a, logicalType: integer,
  logicalTypeOptions: {minimum: 0, maximum: 121, exclusiveMaximum: true, exclusiveMinimum: false}}]}]
"""
    assert "a: {kind: integer, range: [0, 120]}" in draft_schema(write(tmp_path, content))


READING = [  # what says how cells are read, and not as they are read here
    ("integer", {"missingValues": ["-99"]}),
    ("string", {"missingValues": ["", "-99"]}),
    ("integer", {"missingValues": [{"value": "-99", "label": "unknown"}]}),
    ("integer", {"missingValues": "-99"}),
    ("boolean", {"trueValues": "ja"}),
    ("number", {"decimalChar": ","}),
    ("number", {"groupChar": "."}),
    ("number", {"bareNumber": False}),
    ("integer", {"bareNumber": False}),
    ("boolean", {"trueValues": ["ja"]}),
    ("boolean", {"falseValues": ["nein", "0"]}),
    ("boolean", {"trueValues": ["0"]}),
    ("date", {"format": "%d/%m/%Y"}),
    ("date", {"format": "any"}),
    ("date", {"format": "%y-%m-%d"}),  # a year of two digits
    ("datetime", {"format": "%d.%m.%Y %H:%M"}),
    ("datetime", {"format": "%Y-%M-%d %H:%m:%S"}),
    ("string", {"format": "binary"}),
]
ALIKE = [
    ("integer", {"missingValues": [""]}),
    ("number", {"decimalChar": ".", "bareNumber": True}),
    ("boolean", {"trueValues": ["true", "1", "YES"], "falseValues": ["false", "0", "no"]}),
    ("date", {"format": "default"}),
    ("date", {"format": "%Y-%m-%d"}),
    ("datetime", {"format": "%Y-%m-%dT%H:%M:%S"}),
]


def field(kind, more):
    rules = {"minimum": 0, "maximum": 120} if kind in ("integer", "number") else {}
    rules |= {"enum": ["a"]} if kind == "string" else {}
    return {"name": "a", "type": kind, "constraints": rules, **more}


@pytest.mark.parametrize(("kind", "more"), READING)
def test_how_cells_are_read_is_asked(tmp_path, kind, more):
    (key,) = more
    text = draft_schema(
        write(tmp_path, {"fields": [field(kind, more), {"name": "b", "type": "date"}]})
    )
    asked = next(line for line in text.splitlines() if "ANSWER a:" in line)
    assert key in asked
    assert set(load(tmp_path, text).columns) == {"b"}


@pytest.mark.parametrize(("kind", "more"), ALIKE)
def test_what_is_read_alike_is_taken_over(tmp_path, kind, more):
    text = draft_schema(write(tmp_path, {"fields": [field(kind, more)]}))
    assert "a" in load(tmp_path, text).columns
    assert not [key for key in more if key in text]


def test_missing_values_of_a_whole_table_are_asked_of_each_column(tmp_path):
    fields = [field("integer", {}), {**field("integer", {}), "name": "b", "missingValues": []}]
    text = draft_schema(write(tmp_path, {"missingValues": ["", "-99"], "fields": fields}))
    assert 'ANSWER a: {kind: integer, range: [0, 120]}   # missingValues ["-99"]' in text
    assert set(load(tmp_path, text).columns) == {"b"}


DIALECT = {
    "delimiter": ";", "lineTerminator": "|", "quoteChar": "'", "doubleQuote": False, "escapeChar": "x",
    "nullSequence": "NA", "skipInitialSpace": True, "header": False, "headerRows": [1, 2],
    "commentChar": "#", "commentRows": [1], "property": "p", "itemKeys": ["a"], "itemType": "object",
    "headerJoin": "-", "sheetNumber": 2, "sheetName": "s", "table": "t",
}  # fmt: skip


@pytest.mark.parametrize("key", DIALECT)
def test_a_dialect_of_a_file_is_asked_about(tmp_path, key):
    resource = {"name": "r", "path": "r.csv", "dialect": {key: DIALECT[key]},
                "schema": {"fields": [field("integer", {})]}}  # fmt: skip
    for content in (resource, {"name": "p", "resources": [resource]}):
        text = draft_schema(write(tmp_path, content))
        assert f"columns:   # ANSWER {key} " in text
        load(tmp_path, text)


def test_the_usual_dialect_is_not_asked_about(tmp_path):
    usual = {
        "delimiter": ",",
        "quoteChar": '"',
        "doubleQuote": True,
        "header": True,
        "headerRows": [1],
    }
    resource = {"name": "r", "encoding": "UTF-8", "dialect": usual,
                "schema": {"fields": [field("integer", {})]}}  # fmt: skip
    assert "columns:\n" in draft_schema(write(tmp_path, resource))
    resource["encoding"] = "latin1"
    assert 'columns:   # ANSWER encoding "latin1"' in draft_schema(write(tmp_path, resource))


SPEC = {  # every key that the standards' own JSON schemas list, beside those that are taken over
    "frictionless field": "title description example rdfType categoriesOrdered constraints.pattern "
    "constraints.required constraints.unique constraints.minLength constraints.maxLength constraints.jsonSchema newer.key",
    "frictionless table": "foreignKeys uniqueKeys fieldsMatch newer.key",
    "frictionless resource": "path data type title description format mediatype bytes hash sources licenses "
    "homepage profile newer.key",
    "odcs property": "id physicalName description businessName authoritativeDefinitions tags customProperties "
    "primaryKeyPosition partitioned partitionKeyPosition classification encryptedName transformSourceObjects "
    "transformLogic transformDescription examples criticalDataElement quality relationships properties items "
    "physicalType logicalTypeOptions.format logicalTypeOptions.minLength logicalTypeOptions.pattern newer.key",
    "odcs object": "id physicalName physicalType description businessName authoritativeDefinitions tags "
    "customProperties dataGranularityDescription quality relationships newer.key",
    "odcs contract": "id version status name tenant domain tags servers dataProduct description support price "
    "team roles slaProperties slaDefaultElement authoritativeDefinitions customProperties "
    "contractCreatedTs newer.key",
    "pandera column": "title description required drop_invalid_rows report_duplicates metadata str_matches "
    "checks.str_length checks.notin newer.key",
    "pandera frame": "title description index checks strict ordered unique unique_column_names "
    "report_duplicates drop_invalid_rows metadata newer.key",
}  # fmt: skip


def with_key(place, dotted):
    """Return a contract in which a key of `place` says something."""
    *outer, key = dotted.split(".") if not dotted.startswith("newer") else [dotted]
    said = {key: {"some": "thing"}}
    for name in reversed(outer):
        said = {name: said}
    if place == "frictionless field":
        return {"fields": [{"name": "a", "type": "string", "enum": ["x"], **said}]}
    if place == "frictionless table":
        return {"fields": [field("integer", {})], **said}
    if place == "frictionless resource":
        return {"name": "r", "schema": {"fields": [field("integer", {})]}, **said}
    prop = {"name": "a", "logicalType": "string", "enum": ["x"]}
    obj = {"name": "t", "properties": [prop]}
    contract = {"kind": "DataContract", "apiVersion": "v3.1.0", "schema": [obj]}
    frame = {"schema_type": "dataframe", "columns": {"a": {"dtype": "str"}}}
    at = {"odcs property": prop, "odcs object": obj, "odcs contract": contract,
          "pandera column": frame["columns"]["a"], "pandera frame": frame}[place]  # fmt: skip
    at.update(said)
    return contract if place.startswith("odcs") else frame


@pytest.mark.parametrize("place", SPEC)
def test_every_key_of_a_contract_is_taken_over_or_named(tmp_path, place):
    for dotted in SPEC[place].split():
        text = draft_schema(write(tmp_path, with_key(place, dotted)))
        named = [
            line for line in text.splitlines() if "ot taken over: " in line or "ANSWER" in line
        ]
        assert any(dotted in line for line in named), (dotted, text)


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ("column", "coerce", True),
        ("column", "default", 5),
        ("column", "regex", True),
        ("frame", "coerce", True),
        ("frame", "dtype", "int64"),
        ("frame", "add_missing_columns", True),
    ],
)
def test_what_pandera_does_to_cells_is_asked(tmp_path, place, key, value):
    column = {"dtype": "int64", "in_range": {"min_value": 0, "max_value": 9}}
    frame = {"schema_type": "dataframe", "columns": {"a": column, "b": {"dtype": "date"}}}
    (column if place == "column" else frame)[key] = value
    text = draft_schema(write(tmp_path, frame))
    line = next(
        x
        for x in text.splitlines()
        if x.startswith("columns:" if place == "frame" else "  # ANSWER a:")
    )
    assert f"{key} {json.dumps(value)}" in line.replace('"5"', "5")
    load(tmp_path, text)


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"logicalTypeOptions": {"format": "dd/MM/yyyy"}}, "format"),
        (
            {"logicalTypeOptions": {"format": "yyyy-MM-dd hh:mm:ss"}},
            "format",
        ),  # a clock of 12 hours
        ({"logicalTypeOptions": {"format": "YYYY-MM-DD HH:mm:ss"}}, "format"),  # weeks' years
        ({"logicalTypeOptions": {"defaultTimezone": "Europe/Oslo"}}, "defaultTimezone"),
        (
            {
                "quality": [
                    {"metric": "missingValues", "arguments": {"missingValues": [None, "", "N/A"]}}
                ]
            },
            "quality.arguments.missingValues",
        ),
        (
            {"logicalTypeOptions": {"format": "yyyy-MM-dd HH:mm:ss", "defaultTimezone": "Etc/UTC"}},
            None,
        ),
    ],
)
def test_how_an_open_data_contract_reads_cells_is_asked(tmp_path, options, asked):
    found = {"name": "a", "logicalType": "timestamp", **options}
    contract = {"kind": "DataContract", "schema": [{"name": "t", "properties": [found]}]}
    text = draft_schema(write(tmp_path, contract))
    line = next(x for x in text.splitlines() if "a: {" in x)
    assert (
        (f"# ANSWER a: {{kind: timestamp}}   # {asked}" in line)
        if asked
        else line == "  a: {kind: timestamp}"
    )


def test_every_form_of_pandera_checks_is_read(tmp_path):
    forms = [
        {"in_range": {"min_value": 0, "max_value": 9, "include_max": False}},
        {"checks": {"in_range": {"min_value": 0, "max_value": 9, "include_max": False}}},
        {"checks": [{"min_value": 0, "max_value": 9, "include_max": False, "options": {"check_name": "in_range"}}]},
        {"checks": [{"value": 0, "options": {"check_name": "greater_than_or_equal_to", "ignore_na": True}},
                    {"value": 9, "options": {"check_name": "less_than", "raise_warning": False}}]},
        {"greater_than": -1, "less_than": 9},
    ]  # fmt: skip
    for form in forms:
        content = {"schema_type": "dataframe", "columns": {"a": {"dtype": "int64", **form}}}
        text = draft_schema(write(tmp_path, content))
        assert "  a: {kind: integer, range: [0, 8]}\n" in text, (form, text)
    warned = {"value": 0, "options": {"check_name": "greater_than", "raise_warning": True}}
    content = {"schema_type": "dataframe", "columns": {"a": {"dtype": "int64", "checks": [warned]}}}
    assert "checks.greater_than.raise_warning" in draft_schema(write(tmp_path, content))


def test_texts_of_a_contract_end_no_comment(tmp_path):
    content = {"fields": [{"name": "a", "type": "date", "x\nunit: row": 1, "y\u2028z: 1": 2},
                          {"name": "b", "type": "x\nunit: row\x85"}]}  # fmt: skip
    text = draft_schema(write(tmp_path, content))
    assert "x" in text
    assert set(yaml.safe_load(text)["columns"]) == {"a"}


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
