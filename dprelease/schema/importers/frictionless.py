"""Frictionless Table Schemas and the resources of Data Packages, versions 1 and 2.

A field's cells are texts, and the standard says how they are read: which of them are missing, how numbers
and days are written, what is true. What is read alike here is taken over; the rest is asked about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dprelease.core.strict_json import json_text
from dprelease.schema.column import Kind
from dprelease.schema.importers.column import DeclaredEnds, drafted, kind_of
from dprelease.schema.importers.draft import DraftColumn, DraftTable
from dprelease.schema.importers.keys import TableKeys, items, written

_DIALECT = {  # what holds of every CSV file that is read here
    "$schema": None,
    "csvddfVersion": None,
    "delimiter": (",", "\t", "|"),
    "lineTerminator": ("\n", "\r\n", "\r"),
    "quoteChar": ('"',),
    "doubleQuote": ("true",),
    "header": ("true",),
    "skipInitialSpace": ("false",),
    "caseSensitiveHeader": ("true", "false"),
    "headerJoin": (" ",),
    "itemType": ("array",),
}
_TRUE = frozenset(("true", "t", "yes", "y", "1"))
_FALSE = frozenset(("false", "f", "no", "n", "0"))
_FORMATS: Mapping[Kind | None, tuple[str, ...]] = {
    Kind.date: ("default", "%Y-%m-%d"),
    Kind.timestamp: (
        "default",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%dT%H:%M:%SZ",
        "%Y-%m-%d %H:%M:%S",
    ),
}
_MISSING = "these texts are values here: leave such cells empty in the source"


def read_resource(
    resource: Mapping[str, Any], standard: str, package: TableKeys | None = None
) -> DraftTable:
    """Return the table of a resource, what it says of the file included; `package` stands around it."""
    keys = TableKeys({**resource, "schema": None})
    name = written(keys.take("name")) or "table"
    keys.usual("encoding", "utf-8", "utf8", "utf-8-sig", "ascii", "us-ascii")
    keys.ask("encoding", "CSV files are read as UTF-8: save the source as that")
    keys.usual("compression", "gz")
    keys.ask("compression", "files are read as they are, or packed by gzip")
    _dialect(keys.within("dialect"))
    found = read_table(resource["schema"], name, standard)
    around = () if package is None else package.left
    left = (*around, *(f"resource.{key}" for key in keys.left), *found.left)
    return replace(
        found,
        left=left,
        questions=(*keys.questions, *keys.within("dialect").questions, *found.questions),
    )


def _dialect(dialect: TableKeys) -> None:
    for key, values in _DIALECT.items():
        if values is None:
            dialect.take(key)
        else:
            dialect.usual(key, *values)
    if [written(row) for row in items(dialect.peek("headerRows"))] == ["1"]:
        dialect.take("headerRows")
    dialect.ask("delimiter", "`source: {csv: {path: …, delimiter: …, decimal: …}}` reads it")
    for key in dialect.keys:
        dialect.ask(key, "CSV files are read without it: rewrite the source")


def read_table(table: Mapping[str, Any], name: str, standard: str) -> DraftTable:
    """Return the table of a Table Schema."""
    keys = TableKeys(table)
    for key in ("$schema", "name"):
        keys.take(key)
    primary = keys.peek("primaryKey")
    if isinstance(primary, str) or all(isinstance(name, str) for name in items(primary) or [0]):
        keys.take("primaryKey")
    unique = {written(k) for k in ([primary] if isinstance(primary, str) else items(primary))}
    missing = keys.take("missingValues")
    fields = [TableKeys(f) for f in items(keys.take("fields")) if isinstance(f, Mapping)]
    columns = tuple(_field(field, unique, missing) for field in fields)
    return DraftTable(name, standard, columns, left=keys.left, questions=tuple(keys.questions))


def _field(field: TableKeys, unique: set[str | None], missing: object) -> DraftColumn:
    name, said = written(field.take("name")) or "", written(field.take("type")) or "string"
    rules = field.within("constraints")
    _cells(field, kind_of(said), missing)
    return drafted(
        name, said, field,
        unique=((rules, "unique"),), key=name in unique,
        listed=(field, "categories") if field.peek("categories") else (rules, "enum"),
        bounds=DeclaredEnds(rules, "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"),
        measure=written(field.take("unit")), required=(rules, "required"),
    )  # fmt: skip


def _cells(field: TableKeys, kind: Kind | None, missing: object) -> None:
    """Take what says how the field's cells are read, or ask about it."""
    own = field.take("missingValues")
    listed = missing if own is None else own
    texts = [
        written(one.get("value") if isinstance(one, Mapping) else one) for one in items(listed)
    ]
    if any(texts) or not isinstance(listed, list | None):
        marks = [text for text in texts if text] or listed
        field.questions += [f"missingValues {json_text(marks)}: {_MISSING}"]
    field.usual("format", *_FORMATS.get(kind, ("default",)))
    if kind in _FORMATS:
        field.ask("format", "only ISO 8601 is read as a day or a time: convert the source")
    elif written(field.peek("format")) == "binary":
        field.ask("format", "cells are read as they are written: decode them in the source")
    field.usual("decimalChar", ".")
    field.usual("groupChar", "")
    field.usual("bareNumber", "true")
    for key in ("decimalChar", "groupChar"):
        field.ask(key, 'numbers are read so by `source: {csv: {path: …, decimal: "…"}}` alone')
    field.ask("bareNumber", "a number beside other signs is none here: take them out of the source")
    for key, known in (("trueValues", _TRUE), ("falseValues", _FALSE)):
        said = field.peek(key)
        if isinstance(said, list) and {(written(one) or "").lower() for one in said} <= known:
            field.take(key)
        field.ask(key, f"read here: {', '.join(sorted(known))}; convert the others in the source")
