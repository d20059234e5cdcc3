"""Read a data contract of another standard into a `DraftTable`.

    Open Data Contract Standard v3    YAML, `kind: DataContract`; objects under `schema`
    Frictionless                      Table Schema or Data Package, JSON or YAML; `fields`
    pandera                           what its `to_yaml` and `to_json` write; `schema_type: dataframe`

Contracts are read as plain data, never executed. Only declarations are taken: types, bounds, lists
of values, nullability, uniqueness.

Sources: bitol.io Open Data Contract Standard 3.0 to 3.2 (`logicalTypeOptions`, `enum`); Frictionless
Table Schema v1 and v2 (`constraints`); pandera's `io` serialisation, flat or under `checks`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

from dprelease.errors import ConfigError
from dprelease.schema.column import Kind
from dprelease.schema.importers.draft import DraftColumn, DraftTable, as_number, write_draft

__all__ = ["MAX_BYTES", "draft_schema", "read_contract"]

MAX_BYTES = 2**22
"""A contract larger than this is refused."""

_WORDS = {
    "integer": Kind.integer,
    "int": Kind.integer,
    "bigint": Kind.integer,
    "year": Kind.integer,
    "number": Kind.number,
    "float": Kind.number,
    "double": Kind.number,
    "decimal": Kind.number,
    "numeric": Kind.number,
    "boolean": Kind.boolean,
    "bool": Kind.boolean,
    "date": Kind.date,
    "timestamp": Kind.timestamp,
    "datetime": Kind.timestamp,
    "string": Kind.category,
    "str": Kind.category,
    "object": Kind.category,
    "category": Kind.category,
    "categorical": Kind.category,
}


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
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES + 1)
        if len(text) <= MAX_BYTES:
            return yaml.safe_load(text)  # JSON is YAML
        why = f"it is larger than {MAX_BYTES:,} bytes"
    except (OSError, yaml.YAMLError, ValueError, RecursionError):
        why = "it does not open, or is neither YAML nor JSON"
    raise ConfigError("cannot read the contract", where=str(path), why=why, code="DPR165")


def _tables(content: object) -> dict[str, Callable[[], DraftTable]] | None:
    """Return the contract's tables by name, or None for an unknown standard."""
    if not isinstance(content, Mapping):
        return None
    if content.get("kind") == "DataContract" and isinstance(content.get("schema"), list):
        standard = f"Open Data Contract Standard {content.get('apiVersion', 'v3')}"
        objects = [o for o in content["schema"] if isinstance(o, Mapping)]
        return {
            str(o.get("name")): _reader(_odcs, o, str(o.get("name")), standard) for o in objects
        }
    if content.get("schema_type") == "dataframe" and isinstance(content.get("columns"), Mapping):
        name = str(content.get("name") or "table")
        return {name: _reader(_pandera, content, name, "pandera")}
    if isinstance(content.get("fields"), list):
        name = str(content.get("name") or "table")
        return {name: _reader(_frictionless, content, name, "Frictionless Table Schema")}
    if isinstance(content.get("resources"), list):
        out = {}
        for resource in content["resources"]:
            inner = resource.get("schema") if isinstance(resource, Mapping) else None
            if isinstance(inner, Mapping) and isinstance(inner.get("fields"), list):
                name = str(resource.get("name") or "table")
                out[name] = _reader(_frictionless, inner, name, "Frictionless Data Package")
        return out
    return None


def _reader(
    read: Callable[[Mapping[str, Any]], list[DraftColumn]],
    content: Mapping[str, Any],
    name: str,
    standard: str,
) -> Callable[[], DraftTable]:
    return lambda: DraftTable(name, standard, tuple(read(content)))


# --- Open Data Contract Standard ------------------------------------------------------------------


def _odcs(table: Mapping[str, Any]) -> list[DraftColumn]:
    out = []
    for p in _mappings(table.get("properties")):
        options = p.get("logicalTypeOptions")
        options = options if isinstance(options, Mapping) else {}
        listed = p.get("enum") or options.get("enum")
        values = [e.get("value") if isinstance(e, Mapping) else e for e in _items(listed)]
        said = str(p.get("logicalType") or p.get("physicalType") or "")
        key = p.get("primaryKey") is True or p.get("unique") is True
        low = _bound(options, said, "minimum", "exclusiveMinimum", 1)
        high = _bound(options, said, "maximum", "exclusiveMaximum", -1)
        out.append(
            _column(
                str(p.get("name")), said, key=key, values=values, low=low, high=high,
                step=as_number(options.get("multipleOf")), nullable=p.get("required") is not True,
            )
        )  # fmt: skip
    return out


# --- Frictionless ---------------------------------------------------------------------------------


def _frictionless(table: Mapping[str, Any]) -> list[DraftColumn]:
    primary = table.get("primaryKey")
    keys = {str(k) for k in ([primary] if isinstance(primary, str) else _items(primary))}
    out = []
    for f in _mappings(table.get("fields")):
        name, said = str(f.get("name")), str(f.get("type") or "string")
        rules = f.get("constraints")
        rules = rules if isinstance(rules, Mapping) else {}
        listed = f.get("categories") or rules.get("enum")
        values = [c.get("value") if isinstance(c, Mapping) else c for c in _items(listed)]
        out.append(
            _column(
                name, said, key=name in keys or rules.get("unique") is True, values=values,
                low=_bound(rules, said, "minimum", "exclusiveMinimum", 1),
                high=_bound(rules, said, "maximum", "exclusiveMaximum", -1),
                nullable=rules.get("required") is not True, measure=f.get("unit"),
            )
        )  # fmt: skip
    return out


# --- pandera --------------------------------------------------------------------------------------


def _pandera(table: Mapping[str, Any]) -> list[DraftColumn]:
    out = []
    for name, c in table["columns"].items():
        column = c if isinstance(c, Mapping) else {}
        inner = column.get("checks")
        checks = {**column, **inner} if isinstance(inner, Mapping) else column
        said = str(column.get("dtype") or "")
        limits = checks.get("in_range")
        limits = dict(limits) if isinstance(limits, Mapping) else {}
        rules = {
            "minimum": _first(
                _plain(checks.get("greater_than_or_equal_to")), limits.get("min_value")
            ),
            "exclusiveMinimum": _plain(checks.get("greater_than")),
            "maximum": _first(_plain(checks.get("less_than_or_equal_to")), limits.get("max_value")),
            "exclusiveMaximum": _plain(checks.get("less_than")),
        }
        for end, flag in (("minimum", "include_min"), ("maximum", "include_max")):
            if limits.get(flag) is False and rules[end] is not None:
                rules[f"exclusive{end.capitalize()}"], rules[end] = rules[end], None
        listed = checks.get("isin")
        listed = listed.get("allowed_values") if isinstance(listed, Mapping) else listed
        out.append(
            _column(
                str(name), said, key=column.get("unique") is True, values=_items(listed),
                low=_bound(rules, said, "minimum", "exclusiveMinimum", 1),
                high=_bound(rules, said, "maximum", "exclusiveMaximum", -1),
                nullable=column.get("nullable") is True,
            )
        )  # fmt: skip
    return out


def _plain(check: object) -> object:
    """Return a check's statistic, which newer versions write under `value`."""
    return check.get("value") if isinstance(check, Mapping) else check


def _first(*values: object) -> object:
    return next((v for v in values if v is not None), None)


# --- shared ---------------------------------------------------------------------------------------


def _column(
    name: str,
    said: str,
    *,
    key: bool,
    values: list[Any],
    low: Fraction | None,
    high: Fraction | None,
    step: Fraction | None = None,
    nullable: bool,
    measure: object = None,
) -> DraftColumn:
    kind = _kind(said)
    if kind is Kind.category and key and not values:
        kind = Kind.identifier
    if kind is Kind.integer and key and (low is None or high is None):
        kind = Kind.identifier  # a numbered person, not a quantity
    public = tuple(dict.fromkeys(str(v) for v in values if isinstance(v, (str, int, float))))
    if kind is Kind.integer and public and low is None and high is None:
        kind = Kind.category  # a coded answer: 1, 2, 9
    unit = measure if isinstance(measure, str) and measure.strip() else None
    return DraftColumn(name, kind, low, high, public, step, nullable, unit, said)


def _kind(said: str) -> Kind | None:
    """Return the kind of a type's name: `int64`, `decimal(10,2)`, `datetime64[ns]`, `Str`."""
    word = re.match(r"u?(int|float|datetime)\d+|[a-z]+", said.strip().lower())
    return None if word is None else _WORDS.get(word.group(1) or word.group())


def _bound(
    rules: Mapping[str, Any], said: str, closed: str, opened: str, inward: int
) -> Fraction | None:
    """Return the tightest declared end; an open end of an integer is moved inside by one."""
    ends = [as_number(rules.get(closed))]
    value = as_number(rules.get(opened))
    if value is not None and _kind(said) is Kind.integer and value.denominator == 1:
        value += inward
    ends.append(value)
    known = [e for e in ends if e is not None]
    if not known:
        return None
    return max(known) if inward > 0 else min(known)


def _items(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else []


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [v for v in _items(value) if isinstance(v, Mapping)]
