"""JSON Schema of schema and pipeline files, for editors and other tools."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from dprelease.errors import ArgumentError

__all__ = ["json_schema"]

# by name, so that this stage does not import the later one
_MODELS = {
    "schema": ("dprelease.schema.models", "SchemaModel"),
    "pipeline": ("dprelease.pipeline.models", "PipelineModel"),
}


def json_schema(kind: Literal["schema", "pipeline"] = "schema") -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one kind of file.

    It checks the shape; `dprelease schema check` also checks what relates several keys.

    Raises:
        ArgumentError: another kind (DPR607).
    """
    if kind not in _MODELS:
        raise ArgumentError(f"no JSON Schema for `{kind}`", fix="schema or pipeline", code="DPR607")
    module, name = _MODELS[kind]
    model = getattr(import_module(module), name)
    out: dict[str, Any] = model.model_json_schema(by_alias=True, mode="validation")
    out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    out["title"] = f"dprelease {kind}/1"
    return out
