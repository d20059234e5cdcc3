"""Schemas of pandera, as its `to_yaml` and `to_json` write them: checks flat, under `checks`, or listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.schema.importers.column import DeclaredEnds, drafted
from dprelease.schema.importers.draft import DraftColumn, DraftTable
from dprelease.schema.importers.keys import TableKeys, items, true, written

_USUAL = {  # what pandera writes of every schema and column
    "coerce": "false",
    "strict": "false",
    "ordered": "false",
    "unique_column_names": "false",
    "add_missing_columns": "false",
    "report_duplicates": "all",
    "regex": "false",
    "required": "true",
    "drop_invalid_rows": "false",
}
_AS_STORED = "cells are read as they are stored: convert them in the source"
_OPTIONS = {"ignore_na": "true", "raise_warning": "false", "n_failure_cases": None, "error": None}
_ENDS = ("greater_than_or_equal_to", "greater_than", "less_than_or_equal_to", "less_than")
_CHECKS = (*_ENDS, "in_range", "isin")


def read_frame(frame: Mapping[str, Any], name: str) -> DraftTable:
    """Return the table of a `DataFrameSchema`."""
    keys = TableKeys(frame)
    for key in ("schema_type", "version", "api", "name"):
        keys.take(key)
    columns = tuple(
        _column(column, TableKeys(_flat(found) if isinstance(found, Mapping) else {}))
        for column, found in keys.take("columns").items()
    )
    _usual(keys)
    for key in ("dtype", "coerce"):
        keys.ask(key, _AS_STORED)
    keys.ask("add_missing_columns", "a column that lacks is refused: write it into the source")
    return DraftTable(name, "pandera", columns, left=keys.left, questions=tuple(keys.questions))


def _column(name: str, column: TableKeys) -> DraftColumn:
    _usual(column)
    column.take("name")
    column.ask("coerce", _AS_STORED)
    column.ask("regex", "the name is a pattern: name each column")
    column.ask("default", "a null stays one here: `nulls: {default: …}` puts a value in its place")
    checks = column.within("checks")
    return drafted(
        name, written(column.take("dtype")) or "", column, unique=((column, "unique"),),
        listed=(checks, "isin"), bounds=DeclaredEnds(checks, *_ENDS),
        nullable=true(column.take("nullable")),
    )  # fmt: skip


def _usual(keys: TableKeys) -> None:
    for key, value in _USUAL.items():
        keys.usual(key, value)


def _flat(column: Mapping[str, Any]) -> dict[str, Any]:
    """Return a column whose checks, in whichever form, are `checks: {name: value}`."""
    out = {key: value for key, value in column.items() if key not in ("checks", *_CHECKS)}
    inner = column.get("checks")
    found: dict[str, Any] = dict(inner) if isinstance(inner, Mapping) else {}
    for place, check in enumerate(items(inner)):
        options = check.get("options") if isinstance(check, Mapping) else None
        name = options.get("check_name") if isinstance(options, Mapping) else None
        found[name if isinstance(name, str) and name not in found else f"[{place}]"] = check
    found |= {name: column[name] for name in _CHECKS if name in column and name not in found}
    checks: dict[str, Any] = {}
    for name, check in found.items():
        stated = dict(check) if isinstance(check, Mapping) else {"value": check}
        options = TableKeys(
            {**stated.pop("options", {}), **{o: stated.pop(o) for o in _OPTIONS if o in stated}}
        )
        options.take("check_name")
        for option, usual in _OPTIONS.items():
            options.usual(option, *([usual] if usual else []))
        checks |= {f"{name}.{option}": True for option in options.left}
        checks |= _range(stated) if name == "in_range" else {name: _alone(stated)}
    return {**out, "checks": checks}


def _alone(stated: Mapping[str, Any]) -> Any:
    """Return the one value of a check, under whichever name; a mapping if it has several."""
    return next(iter(stated.values())) if len(stated) == 1 else stated


def _range(stated: Mapping[str, Any]) -> dict[str, Any]:
    ends = {}
    for end, flag, closed, opened in (
        ("min_value", "include_min", _ENDS[0], _ENDS[1]),
        ("max_value", "include_max", _ENDS[2], _ENDS[3]),
    ):
        shut = written(stated.get(flag)) in (None, "true")
        ends[closed if shut else opened] = stated.get(end)
    return ends
