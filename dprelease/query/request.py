"""The request of a release, read from its public JSON, from which the plan can be made again.

`query.written` writes it. It is read through the schema reader and the release reader, so that a forged one meets
every refusal that a faulty file meets: bounds are whole numbers of at least 1, ranges are ordered, names are known.

Time zones are tables that change, so a window cannot be made again by its period's name alone: the
version of the tables stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dprelease.core.codec import decode
from dprelease.core.errors import ConfigError
from dprelease.query.calendar import Calendar, window_of
from dprelease.query.load import schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.read_view import parse_view
from dprelease.query.spec import Query, resolve
from dprelease.query.view import View
from dprelease.schema.column import Kind
from dprelease.schema.release_spec import ReleaseSpec
from dprelease.schema.table import TableSchema

MOST_STATISTICS = 2000
_KEYS = frozenset({"schema", "release", "period", "view"})
_FILES = frozenset({"values_from", "keys_from", "zeros_from", "edges_from", "sql"})
"""Keys of declaration files that a request never holds: what they name stands in it."""


def request_from_json(value: object) -> Query:
    """Return the resolved request that `written.request_to_json` wrote.

    Raises:
        ConfigError, PlanError, ArgumentError: as the readers of schema files and releases.
    """
    parts = _mapping(value, _KEYS, "request")
    schema = _schema(parts["schema"])
    spec = _spec(schema, parts["release"])
    calendar = None if parts["period"] is None else _calendar(parts["period"], schema)
    window = None if calendar is None else (calendar.column, *window_of(schema, calendar))
    view = None if parts["view"] is None else _parsed_view(parts["view"], spec)
    return resolve(schema, spec, window=window, view=view, calendar=calendar)


# --- the release ------------------------------------------------------------------------------


def _spec(schema: TableSchema, value: object) -> ReleaseSpec:
    block = dict(_mapping(value, None, "request.release"))
    keys = block.pop("keys") if isinstance(block.get("keys"), list) else None
    _no_files(block)
    count = _count(block)
    if count > MOST_STATISTICS:
        raise ConfigError(
            f"a request of {count:,} statistics is too large to be read back",
            where="request.release.statistics",
            why=f"its plan is made again; at most {MOST_STATISTICS:,} are read",
            code="DPR185",
        )
    spec = merge_release(schema, block, "request.release")
    return spec if keys is None else replace(spec, keys_from=_keys(schema, spec.by, keys))


def _count(block: Mapping[str, Any]) -> int:
    """Return how many statistics a block lists, in all its tables."""
    listed = [block.get("statistics")]
    tables = block.get("tables")
    if isinstance(tables, list):
        listed += [t.get("statistics") for t in tables if isinstance(t, Mapping)]
    return sum(len(each) for each in listed if isinstance(each, list))


def _keys(schema: TableSchema, by: tuple[str, ...], value: object) -> tuple[tuple[str, ...], ...]:
    """Return the listed groups, which a key file held: declared labels, each group once."""
    known = [frozenset(c.keys) if (c := schema.columns.get(name)) else None for name in by]
    listed = value if isinstance(value, list) else []
    keys = [tuple(key) for key in listed if isinstance(key, list) and len(key) == len(by)]
    fits = all(
        isinstance(label, str) and (not labels or label in labels)
        for key in keys
        for label, labels in zip(key, known, strict=True)
    )
    if not (by and keys and fits and len(keys) == len(listed) == len(set(keys))):
        raise ConfigError(
            "the listed groups are not declared values, each group once",
            where="request.release.keys",
            fix="use the file unchanged",
            code="DPR117",
        )
    return tuple(keys)


# --- schema, period, view ---------------------------------------------------------------------


def _schema(value: object) -> TableSchema:
    block = _mapping(value, None, "request.schema")
    _no_files(block)
    return schema_from_dict(block, origin="request.schema")


def _calendar(value: object, schema: TableSchema) -> Calendar:
    calendar = decode(Calendar, value, "request.period")
    column = schema.columns.get(calendar.column)
    if column is None or column.kind not in (Kind.date, Kind.timestamp):
        raise ConfigError(
            "a period is of a date or a timestamp", where="request.period", code="DPR155"
        )
    return calendar


def _parsed_view(value: object, spec: ReleaseSpec) -> View:
    part = _mapping(value, frozenset({"sql", "private", "public"}), "request.view")
    sql = decode(str, part["sql"], "request.view")
    private, public = (
        decode(tuple[str, ...], part[which], "request.view") for which in ("private", "public")
    )
    return parse_view(sql, private=private, public=public, allow=spec.allow, origin="request.view")


def _mapping(value: object, keys: frozenset[str] | None, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping) or (keys is not None and set(value) != keys):
        known = f" of {', '.join(sorted(keys))}" if keys else ""
        raise ConfigError(f"a mapping{known} is needed here", where=where, code="DPR155")
    return value


def _no_files(value: object) -> None:
    """Refuse keys that name files: reading them would be the reader's own, not the publisher's."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Mapping):
            whole = isinstance(part.get("values_from"), Mapping) and "values" in part
            if named := _FILES & set(part) - ({"values_from"} if whole else set()):
                raise ConfigError(
                    f"a request holds its lists itself, `{min(named)}` names a file",
                    where="request",
                    code="DPR155",
                )
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
