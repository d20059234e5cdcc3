"""JSON Schema of schema and pipeline files, for editors, and of manifests, for other tools."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal

from dprelease.core.errors import ArgumentError

# by name, so that this stage does not import the later one
_SHAPES = {
    "schema": ("dprelease.schema.models", "SchemaModel"),
    "pipeline": ("dprelease.pipeline.models", "PipelineModel"),
    "manifest": ("dprelease.results.formats.manifest_schema", "MANIFEST"),
}


def json_schema(kind: Literal["schema", "pipeline", "manifest"] = "schema") -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of one kind of file.

    It checks the shape; `dprelease schema check` also checks what relates several keys, and
    `dprelease verify` what a manifest claims.

    Raises:
        ArgumentError: another kind (DPR607).
    """
    if kind not in _SHAPES:
        raise ArgumentError(
            f"no JSON Schema for `{kind}`", fix="schema, pipeline or manifest", code="DPR607"
        )
    module, name = _SHAPES[kind]
    shape = getattr(import_module(module), name)
    out: dict[str, Any] = {**shape} if kind == "manifest" else shape.model_json_schema()
    out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    version = 2 if kind == "manifest" else 1
    out["title"] = f"dprelease {'release' if kind == 'manifest' else kind}/{version}"
    return out
