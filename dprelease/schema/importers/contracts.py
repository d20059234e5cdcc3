"""Read a data contract of another standard into a `DraftTable`.

    Open Data Contract Standard v3    YAML, `kind: DataContract`; objects under `schema`
    Frictionless                      Table Schema or Data Package, JSON or YAML; `fields`
    pandera                           what its `to_yaml` and `to_json` write; `schema_type: dataframe`

Contracts are read as plain data, never executed, by the strict readers of YAML and JSON that all files
have. Only declarations are taken: types, bounds, lists of values, nullability, uniqueness. What says how
cells are read, and is not taken over, is a question of the draft; all other keys are named in it (`keys`).

Sources: bitol.io Open Data Contract Standard 3.0 to 3.2 (`logicalTypeOptions`, `enum`); Frictionless
Table Schema v1 and v2 (`constraints`); pandera's `io` serialisation, flat or under `checks`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from dprelease.core.errors import ConfigError
from dprelease.core.strict_json import read_json
from dprelease.schema.importers.draft import DraftTable, write_draft
from dprelease.schema.importers.frictionless import read_resource, read_table
from dprelease.schema.importers.keys import TableKeys
from dprelease.schema.importers.odcs import read_object
from dprelease.schema.importers.pandera import read_frame
from dprelease.schema.yaml_marks import parse_yaml

MAX_BYTES = 2**22
"""A contract larger than this is refused."""


def draft_schema(file: str | Path, *, table: str | None = None) -> str:
    """Return the draft of a schema file for the contract in `file`.

    Args:
        table: which table, if the contract has several; the first by default.

    Raises:
        ConfigError: the file cannot be read or is not a contract of these (DPR165), or has no such table
            or no column (DPR166).
    """
    path = Path(file)
    return write_draft(read_contract(path, table=table), path.name)


def read_contract(path: Path, *, table: str | None = None) -> DraftTable:
    """Read the contract in `path`; see `draft_schema` for what is raised."""
    content = _load(path)
    tables = _tables(content)
    if tables is None:
        raise ConfigError(
            "cannot tell which standard this file follows",
            where=str(path),
            why="it is not an Open Data Contract (v3), Frictionless Table Schema or pandera schema",
            fix="pass the contract itself, as YAML or JSON",
            code="DPR165",
        )
    names = list(tables)
    wanted = names[0] if table is None and names else table
    if wanted not in tables:
        raise ConfigError(
            "the contract has no such table" if names else "the contract declares no table",
            where=str(path),
            why=f"it declares: {', '.join(names)}" if names else "there is nothing to draft from",
            fix="name one of them with --table" if names else "add the table's columns to it",
            code="DPR166",
        )
    found = tables[wanted]()
    if not found.columns:
        raise ConfigError(
            f"the table `{found.name}` declares no column",
            where=str(path),
            fix="add its columns to the contract",
            code="DPR166",
        )
    return found


def _load(path: Path) -> object:
    """Return the contract; each of its plain scalars is its text, as `NO` and `012` are."""
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        raise _unread(path, "it does not open, or is not UTF-8") from None
    if len(text) > MAX_BYTES:
        raise _unread(path, f"it is larger than {MAX_BYTES:,} bytes")
    if text.lstrip().startswith("{"):  # a mapping of YAML may begin so too
        try:
            return read_json(text, texts=True)
        except ValueError as error:
            if path.suffix.lower() == ".json":
                raise _unread(path, f"as JSON, {error}") from None
    try:
        return parse_yaml(text, str(path), typed=False).data
    except ConfigError as error:
        if error.code == "DPR109":  # no mapping
            return None
        raise


def _unread(path: Path, why: str) -> ConfigError:
    return ConfigError("cannot read the contract", where=str(path), why=why, code="DPR165")


def _tables(content: object) -> dict[str, Callable[[], DraftTable]] | None:
    """Return readers of the contract's tables by name, or None for an unknown standard."""
    if not isinstance(content, Mapping):
        return None
    if content.get("kind") == "DataContract" and isinstance(content.get("schema"), list):
        return _odcs(content)
    name = str(content.get("name") or "table")
    if content.get("schema_type") == "dataframe" and isinstance(content.get("columns"), Mapping):
        return {name: partial(read_frame, content, name)}
    if isinstance(content.get("fields"), list):
        return {name: partial(read_table, content, name, "Frictionless Table Schema")}
    if isinstance(content.get("schema"), Mapping) and _has_fields(content):
        return {name: partial(read_resource, content, "Frictionless Data Resource")}
    if isinstance(content.get("resources"), list):
        package = TableKeys({**content, "resources": None})
        return {
            str(resource.get("name") or "table"): partial(
                read_resource, resource, "Frictionless Data Package", package
            )
            for resource in content["resources"]
            if _has_fields(resource)
        }
    return None


def _has_fields(resource: object) -> bool:
    inner = resource.get("schema") if isinstance(resource, Mapping) else None
    return isinstance(inner, Mapping) and isinstance(inner.get("fields"), list)


def _odcs(content: Mapping[str, Any]) -> dict[str, Callable[[], DraftTable]]:
    around = TableKeys({**content, "schema": None})
    around.take("kind")
    standard = f"Open Data Contract Standard {around.take('apiVersion') or 'v3'}"
    return {
        str(o.get("name")): partial(read_object, o, around, standard)
        for o in content["schema"]
        if isinstance(o, Mapping)
    }
