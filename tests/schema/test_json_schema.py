"""The JSON Schema describes the same files that the loader accepts."""

from __future__ import annotations

import json

import pytest

from dprelease.core.errors import ArgumentError
from dprelease.pipeline.models import PipelineModel
from dprelease.schema.json_schema import json_schema
from dprelease.schema.models import ColumnModel, ReleaseModel, SchemaModel


@pytest.mark.parametrize("kind", ["schema", "pipeline"])
def test_the_json_schema_is_json_with_descriptions(kind: str) -> None:
    schema = json_schema(kind)  # type: ignore[arg-type]
    json.dumps(schema)
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["additionalProperties"] is False
    for definition in [schema, *schema["$defs"].values()]:
        assert definition["additionalProperties"] is False
        for name, field in definition["properties"].items():
            assert "description" in field or "$ref" in field, name


def test_every_key_is_listed() -> None:
    schema = json_schema("schema")
    assert set(schema["properties"]) == set(SchemaModel.model_fields)
    columns = {f.alias or name for name, f in ColumnModel.model_fields.items()}
    assert set(schema["$defs"]["ColumnModel"]["properties"]) == columns
    assert set(schema["$defs"]["ReleaseModel"]["properties"]) == set(ReleaseModel.model_fields)
    pipeline = set(json_schema("pipeline")["properties"])
    assert pipeline == {f.alias or n for n, f in PipelineModel.model_fields.items()}
    assert "schema" in pipeline


def test_another_kind_is_refused() -> None:
    with pytest.raises(ArgumentError):
        json_schema("table")  # type: ignore[arg-type]
