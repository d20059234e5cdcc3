"""A column as another standard declares it, and the schema file drafted from such columns.

Only what the contract *declares* is taken over; nothing is read from data, because a bound that
follows the data tells about it. Whatever a release needs and the contract does not say stays a
comment that begins with `ANSWER`, so that the draft is honest about what is still open: who is
protected, ranges, public lists of values.

A draft loads as it is whenever at least one column could be taken over; columns that need an answer
stand in it as comments.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.core.errors import printable
from dprelease.core.numeric import plain
from dprelease.core.strict_json import json_text
from dprelease.schema.column import Kind
from dprelease.schema.naming import plain_letters

_UNNAMED = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
_NAME = re.compile(r"[^A-Za-z0-9_]+")


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """What a contract says of one column.

    Attributes:
        kind: None where the contract's type holds nothing that can be released.
        low, high: declared bounds, the open ones closed (integers: moved inside by one).
        values: declared public values of a category.
        step: declared resolution (`multipleOf`).
        nullable: whether nulls are allowed.
        measure: unit for labels, if the contract names one.
        said: the contract's own word for the type.
        questions: what says how cells are read and is not taken over, each with what to do.
        left: keys of the contract that are not taken over.
    """

    name: str
    kind: Kind | None
    low: Fraction | None = None
    high: Fraction | None = None
    values: tuple[str, ...] = ()
    step: Fraction | None = None
    nullable: bool = True
    measure: str | None = None
    said: str = ""
    questions: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DraftTable:
    """A contract's table: its name, columns and the standard it was read from; `questions` and `left` as there."""

    name: str
    standard: str
    columns: tuple[DraftColumn, ...]
    questions: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def write_draft(table: DraftTable, source: str) -> str:
    """Return the text of a schema file for `table`, drafted from the file called `source`."""
    lines = [_line_and_questions(c) for c in table.columns]
    width = max((len(_key(c.name)) + 1 for c in table.columns), default=0)
    ready = [
        (c, body) for c, (body, answer) in zip(table.columns, lines, strict=True) if not answer
    ]
    out = [
        _comment([f"Drafted from {source} ({table.standard})."]).strip(),
        *([_comment(["Not taken over: " + ", ".join(table.left)]).strip()] if table.left else []),
        "# Lines with ANSWER need a decision that only the publisher can take. Never take a bound",
        "# from the data: it would tell about them. Where a line begins with it, take `# ANSWER ` away",
        "# and fill in the dots.",
        "dprelease: schema/1",
        f"name: {_safe_name(table.name)}",
        *_unit(_identifier([c for c, _ in ready])),
        "adjacency: add_remove",
        "# ANSWER rows: {max: 1000000, expected: 1000}   # public cap on all rows; public guess per group",
        "columns:" + _comment(["ANSWER " + "; ".join(table.questions)] if table.questions else []),
    ]
    for column, (body, answer) in zip(table.columns, lines, strict=True):
        text = f"{_key(column.name) + ':':<{width}} {body}"
        left = [f"not taken over: {', '.join(column.left)}"] if column.left else []
        out.append(
            f"  # ANSWER {text}{_comment([answer, *left])}"
            if answer
            else f"  {text}{_comment(left)}"
        )
    out += _release([c for c, _ in ready], table.columns)
    open_ = [c for c, (_, answer) in zip(table.columns, lines, strict=True) if answer]
    out += [
        f"    # - {json_text(f'mean({_argument(c.name)})')}   # once its range is answered"
        for c in open_
        if c.kind in (Kind.integer, Kind.number) and not _UNNAMED.fullmatch(c.name)
    ]
    if any(c.kind is None and not c.said for c in open_):
        out.append(
            '    # - "mean(NAME)"   # for each column of numbers, once its range is answered'
        )
    return "\n".join(out) + "\n"


def _comment(parts: Sequence[str]) -> str:
    """Return a comment of one line, whatever a contract's texts hold; nothing for no part."""
    return f"   # {printable(' '.join('; '.join(parts).split()))}" if parts else ""


def _line_and_questions(column: DraftColumn) -> tuple[str, str]:
    """Return as `_line`; what says how cells are read is to be answered too."""
    body, answer = _line(column)
    return body, "; ".join(part for part in (answer, *column.questions) if part)


def _line(column: DraftColumn) -> tuple[str, str]:
    """Return the column's mapping and, if something is missing, what to answer."""
    if _UNNAMED.fullmatch(column.name):
        return "{kind: ...}", "a column without a name is mostly a row number: leave it out"
    match column.kind:
        case Kind.integer | Kind.number:
            return _numeric(column)
        case Kind.category:
            if column.values:
                values = ", ".join(json_text(v) for v in column.values)
                null = (
                    ', nulls: {as: "unknown"}'
                    if column.nullable and "unknown" not in column.values
                    else ""
                )
                other = "" if "other" in column.values else ", other: {as: other}"
                return f"{{kind: category, values: [{values}]{null}{other}}}", ""
            return (
                '{kind: category, values: ["..."], other: {as: other}}',
                "list the public values (a count of all others is how drift is seen); or `kind: identifier` if it names a person",
            )
        case None:
            if not column.said:
                kinds = "category, integer, number, boolean (as yes or true), date (as 2026-03-31), timestamp or identifier"
                return "{kind: ...}", f"what does it hold? {kinds}"
            return (
                "{kind: category}",
                f"`{column.said}` holds nothing that can be released as it is",
            )
        case kind:
            return f"{{kind: {kind.value}}}", ""


def _numeric(column: DraftColumn) -> tuple[str, str]:
    assert column.kind is not None
    measure = f", measure: {json_text(column.measure)}" if column.measure else ""
    low, high = column.low, column.high
    if low is None or high is None or low >= high:
        ends = f"[{_text(low)}, {_text(high)}]"
        side = "both ends" if low is None and high is None else "the other end"
        return (
            f"{{kind: {column.kind.value}{measure}, range: {ends}}}",
            f"give {side} of the valid range; rows are clamped to it"
            + "; or `kind: identifier` if it numbers persons" * (column.kind is Kind.integer),
        )
    body = f"kind: {column.kind.value}{measure}, range: [{plain(low)}, {plain(high)}]"
    step = column.step
    if column.kind is Kind.number:
        step = _step(low, high, step)
    return "{" + body + (f", step: {plain(step)}" if step is not None else "") + "}", ""


def _step(low: Fraction, high: Fraction, declared: Fraction | None) -> Fraction:
    """Return a decimal step that divides both ends: declared, else about 10,000 per range."""
    if declared is not None and declared > 0 and low % declared == 0 and high % declared == 0:
        return declared
    step = Fraction(10) ** math.floor(math.log10((high - low) / 10_000))
    while (low % step or high % step) and step > Fraction(1, 10**9):
        step /= 10
    return step


def _text(value: Fraction | None) -> str:
    return "..." if value is None else str(plain(value))


def _identifier(columns: Sequence[DraftColumn]) -> str | None:
    return next((c.name for c in columns if c.kind is Kind.identifier), None)


def _unit(user: str | None) -> list[str]:
    if user is None:
        return [
            "unit: row   # ANSWER who is protected: a row, or all rows of one person:",
            "# unit: {user: person_id, max_groups: 1, max_rows_per_group: 3}",
        ]
    unit = f"unit: {{user: {json_text(user)}, max_groups: 1, max_rows_per_group: 1}}"
    return [f"{unit}   # ANSWER how many rows and groups of one person may count"]


def _release(ready: Sequence[DraftColumn], every: Sequence[DraftColumn]) -> list[str]:
    by = next((c.name for c in ready if c.kind is Kind.category), None)
    means = [c.name for c in ready if c.kind in (Kind.integer, Kind.number)][:3]
    out = ["release:", "  epsilon: 1   # ANSWER the privacy loss this release may cost"]
    if by is not None:
        out.append(f"  by: [{json_text(by)}]")
    elif any(c.kind is Kind.category or (c.kind is None and not c.said) for c in every):
        name = next((_key(c.name) for c in every if c.kind is Kind.category), "NAME")
        out.append(
            f"  # by: [{name}]   # a row of the table per value, once its values are answered"
        )
    out.append("  statistics:")
    out.append('    - {statistic: "count", domain: {range: [0, 1000000]}}')
    out += [f"    - {json_text(f'mean({_argument(name)})')}" for name in means]
    return out


def _argument(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name) else '"' + name.replace('"', '""') + '"'


def _key(name: str) -> str:
    """Return a YAML key; quoted unless it is an ordinary word that YAML leaves alone."""
    ordinary = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    if ordinary and name.lower() not in {
        "y",
        "n",
        "yes",
        "no",
        "on",
        "off",
        "true",
        "false",
        "null",
    }:
        return name
    return json_text(name)


def _safe_name(name: str) -> str:
    word = _NAME.sub("_", plain_letters(name)).strip("_") or "table"
    return (word if word[0].isalpha() else f"t_{word}")[:64]
