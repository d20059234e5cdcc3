"""A schema for people in a notebook: what is public, who is protected, what would be released.

Everything shown was declared, so all of it is public; every text is escaped.
"""

from __future__ import annotations

import html as escaping
from typing import TYPE_CHECKING

from dprelease.core.numeric import plain
from dprelease.schema.time import time_words
from dprelease.schema.unit import describe

if TYPE_CHECKING:
    from dprelease.schema.column import Column
    from dprelease.schema.table import TableSchema

_SHOWN = 6


def html(schema: TableSchema) -> str:
    """Return the schema as HTML: a sentence, a table of columns, the default release."""
    heads = ("column", "kind", "allowed values", "unit", "null")
    head = "".join(f"<th style='text-align:left'>{h}</th>" for h in heads)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{_text(c)}</td>" for c in _row(column))
        + "</tr>"
        for column in schema.columns.values()
    )
    rows = schema.rows
    sizes = [
        words.format(value)
        for words, value in (
            ("at most {:,}", rows.maximum),
            ("exactly {:,}", rows.exact),
            ("about {:,} per group", rows.expected),
        )
        if value is not None
    ]
    said = [f"protects {describe(schema.adjacency, schema.unit, schema.about.unit_name)}"]
    if schema.population is not None:
        said.append(f"of population {schema.population}")
    if schema.time is not None:
        said.append(f"time: {time_words(schema.time)}")
    said += [f"rows: {', '.join(sizes)}"] if sizes else []
    if schema.release is not None:
        release = schema.release
        budget = f"epsilon {plain(release.epsilon)}" if release.epsilon else "what its goals need"
        names = ", ".join(s.text for s in release.statistics)
        by = f" by {', '.join(release.by)}" if release.by else ""
        said.append(f"releases, for {budget}: {names}{by}")
    lines = "<br>".join(_text(line) for line in said)
    return (
        f"<p><strong>Schema {_text(schema.name)}</strong><br>{lines}</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def _row(column: Column) -> tuple[str, ...]:
    return (
        column.name,
        column.kind.value,
        _allowed(column),
        column.measure or "",
        _nulls(column),
    )


def _allowed(column: Column) -> str:
    if column.domain is not None:
        step = f" step {plain(column.step)}" if column.step not in (None, 1) else ""
        made = f", made as {column.derived}" if column.derived else ""
        guess = f", sd about {plain(column.expected_sd)}" if column.expected_sd else ""
        return f"{column.domain}{step}{guess}{made}"
    values = [*column.values[:_SHOWN]]
    more = f", … ({len(column.values):,} in all)" if len(column.values) > _SHOWN else ""
    other = f"; others as {column.other}" if column.other is not None else ""
    lists = "".join(f"; from {each.partition('@')[0]}" for each in column.lists)
    return ", ".join(values) + more + other + lists


def _nulls(column: Column) -> str:
    if column.nulls == "as":
        return f"as {column.null_label}"
    if column.nulls == "default" and column.null_default is not None:
        return f"as {plain(column.null_default)}"
    return "left out"


def _text(value: str) -> str:
    return escaping.escape(value)
