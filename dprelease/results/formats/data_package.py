"""`datapackage.json`: a Frictionless Data Package v2 descriptor of the data files.

Field constraints carry the domains, so any Frictionless tool can check the files: `minimum` and
`maximum` are the hull, `enum` the declared labels. Constraints cannot say a gap, so a field with
one says it in `description` and, for programs, in `dprelease:domain` (exact) and `dprelease:step`.

Source  datapackage.org/standard (version 2.0). Hashes are in `release.json`, not here, because
this file is hashed too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dprelease.core.numeric import FEW, Exact, plain
from dprelease.release_plan.detail import LEVEL_COLUMN
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import WIDE_PARTS, PlannedStatistic
from dprelease.release_plan.weak import weak_sentence
from dprelease.results.draw import Draw, tidy_columns
from dprelease.results.formats import csv_, parquet
from dprelease.results.formats.cross_tabs import labels_above
from dprelease.results.formats.csv_ import guarded
from dprelease.results.formats.format import of_today, several_tables, table_file
from dprelease.results.formats.json_ import manifest_bytes
from dprelease.results.formats.licences import licence_entry
from dprelease.results.formats.public_words import PublicWords, public_words
from dprelease.results.formats.wide import is_whole
from dprelease.results.rules import IMPOSSIBLE, SUPPRESSED
from dprelease.schema.about import About

FILE = "datapackage.json"
SCHEMA = "https://datapackage.org/profiles/2.0/datapackage.json"
DESCRIPTIONS = {
    "statistic": "published column",
    "value": "released value",
    "lower": "lower end of the 95 % interval for the statistic of these bounded, clamped data, "
    "rounded outward to the value's step; sampling error and the bias of bounding and clamping are "
    "not in it",
    "upper": "upper end of the 95 % interval; both are empty for a choice by rank (median, quantile, "
    "min, max), whose error is known in rows only",
    "certain_lower": "the statistic of these bounded, clamped data is at least this for certain: the noise ends. Empty "
    "where noise has no end",
    "certain_upper": "the statistic of these bounded, clamped data is at most this for certain",
    "estimate": "median-unbiased estimate of the same statistic: as likely too high as too low, "
    "clipped to the ends of the domain, not rounded, gaps not left out. Empty where none is known "
    "(variances, covariances, choices by rank) and where no signal is left; where that can happen (a "
    "mean of very few rows) what remains may lean to one side, and so may values of truncated laws "
    "beside a forbidden interval or on few allowed values",
    "unbiased": "unbiased estimate, for averaging many releases: its expectation is the statistic of "
    "the bounded, clamped data, before a declared domain of its own cuts it. May lie outside the domain; no single one is better than the value. "
    "Empty where none exists or is offered",
    "consistent": "the value made to fit the other released values of this release, by a fixed rule "
    "that reads no data; inside the domain; the interval is the value's",
    "mechanism": "family of the noise",
    "block": "statistics of one block share one draw and its epsilon",
    "epsilon": "epsilon of the block, paid once for all its statistics",
    "status": "ok; at_bound: the value is an end of its domain; uninformative: the interval is the "
    "whole domain, so the value says nothing; empty_signal: the noise left no signal, the value is a "
    "convention and says nothing; no_interval: chosen by rank, allowed, and how near it is in its unit is "
    "not known",
}
STATUSES = ["ok", "at_bound", "uninformative", "empty_signal", "no_interval"]
RANKED_WORDS = "; among rows of which none has a known value, any allowed value is chosen"
FITTED = ["adjusted", "gap"]
"""Statuses of tables that are fitted to each other, beside the others."""
FITTED_WORDS = (
    "; adjusted: to fit the other tables the value was moved by more than five standard errors of its own "
    "measurement; gap: the value lies outside its interval, as a forbidden gap is near"
)
SUPPRESSED_WORDS = "; suppressed: the noisy number that decides is below the threshold, so the cell is published without values"
IMPOSSIBLE_WORDS = "; impossible: the group can hold no row, so it has no value and no interval"
SPARSE_WORDS = (
    ". Only cells with large enough noisy numbers are here, so intervals are as wide as it takes for at most 5 % of these"
    " cells to be expected to miss"
)

Field = dict[str, Any]


@several_tables("all")
def write(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"datapackage.json": bytes}`."""
    parts = {name: part.plan for name, part in noised.parts.items()}
    return {FILE: manifest_bytes(descriptor(noised.plan, manifest, parts))}


def descriptor(
    plan: ReleasePlan,
    manifest: Mapping[str, Any],
    parts: Mapping[str, ReleasePlan] | None = None,
) -> dict[str, Any]:
    """Return the descriptor as JSON data.

    Args:
        parts: of several tables, each as a plan of its own: its keys and statistics.

    It lists those data files that the manifest's `files` name, or all three when it names none. Of
    several tables, keys of a coarser one that a finer one has too are its foreign keys.
    """
    words = public_words(manifest)
    about, named = words.about, manifest.get("pipeline")
    title = " · ".join(t for t in (about.title or named, manifest.get("period")) if t)
    if not parts:
        resources = _resources(plan, words, None)
    else:
        assert plan.tables is not None
        today = of_today(manifest)
        above = {n: labels_above(plan.tables, part) if today else {} for n, part in parts.items()}
        resources = []
        for name, part in parts.items():
            made = _resources(part, words, name, above[name])
            resources += map(_with_impossible, made) if any(plan.tables.empty(name)) else made
        _relate(plan, resources, above)
    files = [r["path"] for r in resources]
    weak = weak_sentence(plan.epsilon, words.data)
    present = set(manifest.get("files") or files)
    return {
        "$schema": SCHEMA,
        "name": _slug(
            f"{manifest.get('pipeline') or plan.schema}-{manifest.get('period') or 'release'}"
        ),
        "title": title or plan.schema,
        "description": (f"{about.description} " if about.description else "")
        + f"Noised statistics, {words.statement(plan.guarantee)}.{weak} In the CSV files a text cell that "
        "starts with = + - @, an apostrophe, a tab or a line break has one more apostrophe in front: "
        "take it off.",
        **_metadata(about, words.name),
        "dprelease:guarantee": {
            **manifest["guarantee"],
            **{k: words.statement(manifest["guarantee"][k]) for k in ("protects", "statement")},
            **({"weak": weak.strip()} if weak else {}),
        },
        "dprelease:plan_hash": manifest["plan_hash"],
        "resources": [r for r in resources if r["path"] in present],
    }


def _resources(
    plan: ReleasePlan,
    words: PublicWords,
    table: str | None,
    above: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[dict[str, Any]]:
    """Return the three files of one table; `above`: what its files end with (`labels_above`)."""
    coarser = replace(plan, by=tuple(above), keys=tuple(zip(*above.values(), strict=True)))
    keys, last = _key_fields(plan, words), _key_fields(coarser, words)
    values = (field for s in plan.statistics for field in _value_fields(s, words, plan))
    tidy, by = [*keys, *_tidy_fields(plan), *last], [*plan.by, "statistic"]
    wide: dict[str, Any] = {"fields": _in_csv([*keys, *values, *last])}
    if plan.by:
        wide["primaryKey"] = [guarded(name) for name in plan.by]
    text = {"format": "csv", "mediatype": "text/csv", "encoding": "utf-8"}
    arrow = {"format": "parquet", "mediatype": "application/vnd.apache.parquet"}
    data, each = ("data", "wide") if table is None else (_slug(table), f"{_slug(table)}-wide")
    files = (
        (
            f"{data}-csv",
            csv_.TIDY_FILE,
            text,
            {"fields": _in_csv(tidy), "primaryKey": [*map(guarded, by)]},
        ),
        (f"{each}-csv", csv_.WIDE_FILE, text, wide),
        (f"{data}-parquet", parquet.FILE, arrow, {"fields": tidy, "primaryKey": by}),
    )
    return [
        {"name": name, "path": table_file(file, table), **kind, "schema": schema}
        for name, file, kind, schema in files
    ]


def _in_csv(fields: Sequence[Field]) -> list[Field]:
    """Return fields as CSV files have them: their names and labels are guarded."""
    out = [{**field, "name": guarded(field["name"])} for field in fields]
    for field in out:
        if "enum" in field.get("constraints", {}):
            labels = [guarded(label) for label in field["constraints"]["enum"]]
            field["constraints"] = {**field["constraints"], "enum": labels}
    return out


def _with_impossible(resource: dict[str, Any]) -> dict[str, Any]:
    """Return a table some of whose groups can hold no row: then a value is missing, and the status says why."""
    for field in resource["schema"]["fields"]:
        constraints = field.get("constraints", {})
        if STATUSES[0] in constraints.get("enum", ()) and "title" not in field:
            field["constraints"] = {**constraints, "enum": [*constraints["enum"], IMPOSSIBLE]}
            field["description"] = field.get("description", "status") + IMPOSSIBLE_WORDS
        elif field["name"] != "statistic":
            constraints.pop("required", None)
    return resource


def _relate(
    plan: ReleasePlan, resources: list[dict[str, Any]], above: Mapping[str, Mapping[str, Any]]
) -> None:
    """Give each wide table a foreign key to every table whose key columns are some of its own.

    Rows of several levels have the key columns of the coarsest in common.
    """
    assert plan.tables is not None
    by = {f"{_slug(t.name)}-wide-csv": t.by for t in plan.tables.tables}
    shared = {f"{_slug(t.name)}-wide-csv": (*t.by, *above[t.name]) for t in plan.tables.tables}
    if plan.tables.detail is not None:
        coarsest = plan.tables.named(plan.tables.detail.levels[0])
        shared[f"{_slug(plan.tables.detail.table)}-wide-csv"] = (*coarsest.by, LEVEL_COLUMN)
    for resource in resources:
        mine = shared.get(resource["name"])
        if mine is None:
            continue
        found = [
            {
                "fields": [guarded(name) for name in theirs],
                "reference": {"resource": other, "fields": [guarded(name) for name in theirs]},
            }
            for other, theirs in by.items()
            if theirs and other != resource["name"] and set(theirs) < set(mine)
        ]
        if found:
            resource["schema"]["foreignKeys"] = found


def _metadata(about: About, name: str) -> dict[str, Any]:
    """Return licences, contributors, sources and keywords, as far as the publisher said them."""
    said: dict[str, Any] = {}
    if about.licence is not None:
        said["licenses"] = [licence_entry(about.licence)]
    contact = about.contact
    web = contact is not None and contact.startswith("http")
    mail = {"email": contact} if contact is not None and not web else {}
    page = {"path": contact} if contact is not None and web else {}
    if about.publisher is not None:
        url = {} if about.publisher.url is None else {"path": about.publisher.url}
        publisher = {"title": about.publisher.name, **url, **mail, "roles": ["publisher"]}
        said["contributors"] = [publisher]
        said["sources"] = [{"title": f"{name}: private rows of {about.publisher.name}", **url}]
        if page:
            said["homepage"] = page["path"]
    elif contact is not None:
        said["contributors"] = [{"title": contact, **mail, **page, "roles": ["contact"]}]
    if about.keywords:
        said["keywords"] = list(about.keywords)
    return said


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "release"


def _key_fields(plan: ReleasePlan, words: PublicWords) -> list[Field]:
    return [
        {
            "name": name,
            "type": "string",
            **({"title": words.columns[name]} if name in words.columns else {}),
            **({"description": words.details[name]} if name in words.details else {}),
            "constraints": {"enum": list(dict.fromkeys(key[i] for key in plan.keys))},
        }
        for i, name in enumerate(plan.by)
    ]


def _tidy_fields(plan: ReleasePlan) -> list[Field]:
    """Return the fields behind the keys."""
    fields = []
    for name, kind in zip(tidy_columns(plan).names, tidy_columns(plan).types, strict=True):
        field: Field = {
            "name": name,
            "type": "number" if pa.types.is_floating(kind) else "string",
            "description": DESCRIPTIONS[name],
        }
        if name == "statistic":
            published = [c for s in plan.statistics for c in s.columns]
            field["constraints"] = {"required": True, "enum": published}
        elif name in ("lower", "upper") and plan.rules is not None and plan.rules.sparse:
            field["description"] += SPARSE_WORDS
        elif name == "status":
            field["constraints"] = {"required": True, "enum": _statuses(plan)}
            if not all(plan.block(s.block).has_interval for s in plan.statistics):
                field["description"] += RANKED_WORDS
            if plan.fitted:
                field["description"] += FITTED_WORDS
            if not _required(plan):
                field["description"] += SUPPRESSED_WORDS
        elif name in ("value", "consistent"):
            hulls = [s.domain for s in plan.statistics]
            field["constraints"] = {
                **_required(plan),
                "minimum": _number(min(d.lower for d in hulls)),
                "maximum": _number(max(d.upper for d in hulls)),
            }
        fields.append(field)
    return fields


def _statuses(plan: ReleasePlan) -> list[str]:
    some = () if _required(plan) else (SUPPRESSED,)
    return [*STATUSES, *(FITTED if plan.fitted else ()), *some]


def _required(plan: ReleasePlan) -> dict[str, bool]:
    """Return the constraint that every row has a value, unless values may be suppressed."""
    rule = plan.rules and plan.rules.suppress
    return {} if rule else {"required": True}


def _value_fields(
    statistic: PlannedStatistic, words: PublicWords, plan: ReleasePlan
) -> Iterator[Field]:
    """Yield the fields of every published column: the value, its interval, its status.

    What they mean is said of the first `FEW` columns: the others are alike.
    """
    kind = "integer" if is_whole(statistic) else "number"
    value = _value_field(statistic, words, _required(plan))
    parts = WIDE_PARTS[plan.block(statistic.block).certain(statistic.function)]
    allowed = {"required": True, "enum": _statuses(plan)}
    said: dict[str, Field] = {end: {"description": DESCRIPTIONS[end]} for end in parts[:-1]}
    named = zip(statistic.columns, words.column_headings(statistic), strict=True)
    for i, (name, title) in enumerate(named):
        if i == FEW:
            value.pop("description")
            said = {end: {} for end in said}
        status = {"description": f"of {name}: {DESCRIPTIONS['status']}"}
        yield {**value, "name": name, "title": title}
        for end in parts[:-1]:
            yield {"name": f"{name}_{end}", "type": kind, **said[end]}
        more = status if i < FEW else {}
        yield {"name": f"{name}_status", "type": "string", "constraints": allowed, **more}


def _value_field(
    statistic: PlannedStatistic, words: PublicWords, required: Mapping[str, bool]
) -> Field:
    """Return what the fields of all its values say."""
    domain = statistic.domain
    unit = f" ({statistic.measure})" if statistic.measure else ""
    gaps = "; ".join(f"({plain(a)}, {plain(b)})" for a, b in domain.exact_gaps)
    return {
        "type": "integer" if is_whole(statistic) else "number",
        "description": f"{statistic.text}{unit}, error expected beforehand {words.error(statistic)}"
        + (f"; never inside {gaps}" if gaps else ""),
        "constraints": {
            **required,
            "minimum": _number(domain.lower),
            "maximum": _number(domain.upper),
        },
        "dprelease:domain": domain.to_json(),
        "dprelease:step": str(statistic.step),
    }


def _number(value: Exact) -> int | float:
    """Return the end as files hold it: the nearest double, or an integer."""
    return (
        value.numerator if isinstance(value, Fraction) and value.denominator == 1 else float(value)
    )
