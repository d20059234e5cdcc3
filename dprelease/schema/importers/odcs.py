"""The Open Data Contract Standard, version 3: objects under `schema`, with their `properties`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.schema.column import Kind
from dprelease.schema.importers.column import DeclaredEnds, drafted, kind_of
from dprelease.schema.importers.draft import DraftColumn, DraftTable
from dprelease.schema.importers.keys import TableKeys, items, written

_FORMATS: Mapping[Kind | None, tuple[str, ...]] = {
    Kind.date: ("yyyy-MM-dd",),
    Kind.timestamp: ("yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ss", "yyyy-MM-dd'T'HH:mm:ssX"),
}


def read_object(table: Mapping[str, Any], contract: TableKeys, standard: str) -> DraftTable:
    """Return the table of one object of a contract; `contract` is what stands around the objects."""
    keys = TableKeys(table)
    name = written(keys.take("name")) or "table"
    keys.usual("logicalType", "object")
    properties = [TableKeys(p) for p in items(keys.take("properties")) if isinstance(p, Mapping)]
    columns = tuple(_property(found) for found in properties)
    left = (*contract.left, *(f"schema.{key}" for key in keys.left))
    return DraftTable(name, standard, columns, left=left)


def _property(found: TableKeys) -> DraftColumn:
    options = found.within("logicalTypeOptions")
    said = written(found.take("logicalType")) or written(found.take("physicalType")) or ""
    kind = kind_of(said)
    if kind in _FORMATS:
        options.usual("format", *_FORMATS[kind])
        options.usual("defaultTimezone", "utc", "etc/utc", "z", "gmt")
        options.ask("format", "only ISO 8601 is read as a day or a time: convert the source")
        options.ask("defaultTimezone", "a time without a zone is read as UTC: convert the source")
    elif (written(options.peek("format")) or "").lower() in ("byte", "binary"):
        options.ask("format", "cells are read as they are written: decode them in the source")
    for rule in items(found.peek("quality")):
        _quality(found, rule)
    found.questions += options.questions
    return drafted(
        written(found.take("name")) or "", said, found, unique=((found, "unique"), (found, "primaryKey")),
        listed=(found, "enum") if found.peek("enum") else (options, "enum"),
        bounds=DeclaredEnds(options, "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"),
        step="multipleOf", required=(found, "required"),
    )  # fmt: skip


def _quality(found: TableKeys, rule: object) -> None:
    """Ask about texts that a rule of quality takes for missing values."""
    arguments = TableKeys(rule).within("arguments")
    if any(written(text) for text in items(arguments.peek("missingValues"))):
        arguments.ask(
            "missingValues", "these texts are values here: leave such cells empty in the source"
        )
        found.questions += [f"quality.arguments.{one}" for one in arguments.questions]
