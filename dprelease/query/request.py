"""What was asked, as public JSON from which the plan can be made again: schema, release, period, view.

The request is everything a release is decided by, lists of key files included, and nothing that
was drawn or paid. It is written by `request_to_json`; `request_from_json` gives it back through the
schema reader and the release reader, so that a forged one meets every refusal that a faulty file
meets: bounds are whole numbers of at least 1, ranges are ordered, names are known.

Time zones are tables that change, so a window cannot be made again by its period's name alone: the
version of the tables stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dprelease.core.codec import decode
from dprelease.core.errors import ConfigError
from dprelease.core.numeric import plain
from dprelease.query.calendar import Calendar, window_of
from dprelease.query.load import schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.read_view import parse_view
from dprelease.query.spec import Query, resolve
from dprelease.query.view import View
from dprelease.schema.about import About
from dprelease.schema.column import Kind
from dprelease.schema.release_spec import DetailSpec, ReleaseSpec, StatisticSpec, TableSpec
from dprelease.schema.table import TableSchema
from dprelease.schema.written import domain_to_json, schema_to_json

MOST_STATISTICS = 2000
_KEYS = frozenset({"schema", "release", "period", "view"})
_FILES = frozenset({"values_from", "keys_from", "zeros_from", "edges_from", "sql"})
"""Keys of declaration files that a request never holds: what they name stands in it."""


def request_to_json(query: Query) -> dict[str, Any]:
    """Return the request that `query` was resolved from; equal requests give equal JSON."""
    return {
        "schema": schema_to_json(query.schema),
        "release": _release(query.spec),
        "period": None if query.calendar is None else query.calendar.to_json(),
        "view": None if query.view is None else _view(query.view),
    }


def request_for_all_periods(query: Query) -> dict[str, Any]:
    """Return the request without what one period adds to it: what is approved is the same for all of them.

    A publisher's words are left out too, a corrected title asks for no new approval, and how the ledger adds up:
    that is its own to say.
    """
    found = request_to_json(query)
    said = schema_to_json(replace(query.schema, about=About()))
    words = ("title", "description")
    said["columns"] = {n: _without(c, *words) for n, c in said["columns"].items()}
    for name, column in said["columns"].items():  # which keys a list held is one period's
        if "values_from" in column:
            of = [text.partition("/")[0] for text in column["values_from"]["keys"]]
            said["columns"][name] = {**_without(column, "values"), "values_from": of}
    if "hierarchies" in said:
        said["hierarchies"] = {n: _without(h, "titles") for n, h in said["hierarchies"].items()}
    found["schema"] = said
    release = found["release"] = _without(found["release"], "composition")
    for part in release.get("tables", [release]):
        part["statistics"] = [_without(s, "title") for s in part["statistics"]]
    if found["period"] is not None:
        one = ("name", "zone_tables")
        found["period"] = {k: part for k, part in found["period"].items() if k not in one}
    return found


def request_from_json(value: object) -> Query:
    """Return the resolved request that `request_to_json` wrote.

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


def _release(spec: ReleaseSpec) -> dict[str, Any]:
    keys = spec.keys_from
    said = {
        **({"epsilon": plain(spec.epsilon)} if spec.epsilon else {}),
        "delta": plain(spec.delta),
        **({} if keys is None else {"keys": [list(key) for key in keys]}),
        **({} if spec.where is None else {"where": spec.where.source}),
        "loss": spec.loss,
        "judge": spec.judge,
        **({} if spec.composition == "basic" else {"composition": spec.composition}),
        **_what(spec),
        "allow": list(spec.allow),
        **({} if spec.rules is None else {"rules": spec.rules.to_json()}),
    }
    if spec.found:  # its persons are no request of their own
        paid = {name: said.pop(name) for name in ("epsilon", "delta")}
        said["keys"] = {"column": said.pop("by")[0], **paid, "max_keys": spec.found}
        said["statistics"] = []
    return said


def _without(said: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: part for name, part in said.items() if name not in names}


def _what(spec: ReleaseSpec) -> dict[str, Any]:
    if not spec.tables:
        return {"by": list(spec.by), "statistics": [_statistic(s) for s in spec.statistics]}
    totals = [
        {
            "table": total.table,
            "statistic": total.statistic,
            "values": [[*key, str(plain(value))] for key, value in total.values],
        }
        for total in spec.totals
    ]
    return {
        "tables": [_table(table) for table in spec.tables],
        **({"totals": totals} if totals else {}),
    }


def _table(table: TableSpec) -> dict[str, Any]:
    return {
        "name": table.name,
        "by": list(table.by),
        "statistics": [_statistic(s) for s in table.statistics],
        **({} if table.share is None else {"share": plain(table.share)}),
        **({"zeros": [list(key) for key in table.zeros]} if table.zeros else {}),
        **({} if table.detail is None else {"detail": _detail(table.detail)}),
    }


def _detail(detail: DetailSpec) -> dict[str, Any]:
    goals = {
        "max_error": detail.max_error,
        "max_relative_error": detail.max_relative_error,
        "share": detail.share,
    }
    return {
        "statistic": detail.statistic,
        **{name: plain(value) for name, value in goals.items() if value is not None},
        **({"levels": list(detail.levels)} if detail.levels else {}),
    }


def _statistic(spec: StatisticSpec) -> dict[str, Any]:
    domain = {} if spec.domain is None else domain_to_json(spec.domain)
    if spec.step is not None:
        domain["step"] = plain(spec.step)
    said = {
        "statistic": spec.text,
        "as": spec.name,
        "domain": domain or None,
        "share": None if spec.share is None else plain(spec.share),
        "weight": None if spec.weight == 1 else plain(spec.weight),
        "expected": None if spec.expected is None else plain(spec.expected),
        "max_error": None if spec.max_error is None else plain(spec.max_error),
        "accurate_for": spec.accurate_for,
        "certain": spec.certain or None,
        "spikes": None if spec.spikes else "forbid",
        "mechanism": spec.mechanism,
        "max_rows_per_group": spec.max_rows,
        "note": spec.note,
        "title": spec.title,
        "interval": spec.interval or None,
    }
    return {name: value for name, value in said.items() if value is not None}


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
            code="DPR155",
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


def _view(view: View) -> dict[str, Any]:
    private = [view.private[0]] if view.private is not None else list(view.tables)
    return {
        "sql": view.sql,
        "private": private,
        "public": [name for name in view.tables if name not in private],
    }


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
