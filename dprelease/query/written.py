"""What was asked, as public JSON: schema, release, period, view.

The request is everything a release is decided by, lists of key files included, and nothing that
was drawn or paid. `query.request` reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dprelease.core.numeric import plain
from dprelease.query.spec import Query
from dprelease.query.view import View
from dprelease.schema.about import About
from dprelease.schema.release_spec import DetailSpec, ReleaseSpec, StatisticSpec, TableSpec
from dprelease.schema.written import domain_to_json, schema_to_json


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


def _view(view: View) -> dict[str, Any]:
    private = [view.private[0]] if view.private is not None else list(view.tables)
    return {
        "sql": view.sql,
        "private": private,
        "public": [name for name in view.tables if name not in private],
    }
