"""What a series reads of a manifest, checked field by field: the folder may be anybody's.

A field of another type or size than any release has is a `ValueError`: its folder is left out of
the series and named. So no folder can make a page that is built of many fail, or keep it busy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dprelease.budget.record import Anchor
from dprelease.budget.timeline import Instants, Timeline, timeline, window_of_texts
from dprelease.core.codec import decode
from dprelease.core.numeric import fraction_from_json
from dprelease.core.strict_json import canonical_json, read_json
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedTables
from dprelease.results.formats.over_time import release_over_time
from dprelease.results.formats.public_words import PublicWords, public_words
from dprelease.schema.naming import is_shown
from dprelease.schema.release_spec import Rules

Place = tuple[str | None, str]
"""A published column: its table (None: the release has one) and its name."""

_HASH = re.compile(r"[0-9a-f]{64}")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d{1,6})?)?[+-]\d\d:\d\d", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)
_SHOWN = "name", "statistic", "function", "block", "mechanism", "error_text", "sensitivity"
"""Of a planned statistic, the texts that pages may show."""
_LONGEST = 5000
_MOST_FILES = 1000
_DIGITS = 100
_MOST_COLUMNS = 20_000


@dataclass(frozen=True, slots=True)
class Shape:
    """One of several tables: its name, key columns and rows; mixed: these stand at several levels."""

    name: str
    by: tuple[str, ...]
    rows: int
    mixed: bool = False


@dataclass(frozen=True, slots=True)
class Stated:
    """The checked fields of one manifest.

    Attributes:
        budget: (spent, total) epsilon of the dataset as of its ledger entry, if recorded; adds: whether
            epsilons add up to it, as they do not under zCDP.
        published: the day of publication (UTC), if it was noted.
        early: when the period closes, if it was released before that.
        observed: the plan's notes on what was observed and not proved.
        line: how its losses lie in time, None where they all add up; stored: its window.
        over_time: what one unit and a whole person have lost as of its ledger entry, in words.
        files: name to bytes and SHA-256 of the folder's other files.
    """

    dataset: str | None
    window: tuple[str, str] | None
    scheduled: str | None
    published: str | None
    early: str | None
    epsilon: Fraction
    delta: Fraction
    adjacency: str
    unit: Any
    plan_hash: str
    ledger: Mapping[str, Any] | None
    budget: tuple[Fraction, Fraction] | None
    observed: tuple[str, ...]
    by: tuple[str, ...]
    statistics: Mapping[Place, PlannedStatistic]
    groups: int
    sparse: bool
    words: PublicWords
    line: Timeline | None
    stored: Instants
    over_time: str
    files: Mapping[str, tuple[int, str]]
    adds: bool = True
    tables: tuple[Shape, ...] = ()
    """Of several tables."""


def stated(manifest: Mapping[str, Any]) -> Stated:
    """Return what a series shows of a manifest.

    Raises:
        ValueError, TypeError, LookupError, ArgumentError: a field is of another type or size.
    """
    plan, guarantee = manifest["plan"], manifest["guarantee"]
    epsilon, delta = (_amount(guarantee[name]) for name in ("epsilon", "delta"))
    if epsilon > 10**6 or delta >= 1:
        raise ValueError("no release costs that")
    if guarantee["adjacency"] not in ("add_remove", "substitution"):
        raise ValueError("adjacency")
    budget, words = manifest["budget"], public_words(manifest)
    line = _line(guarantee)
    stored = _stored(guarantee)
    if line is not None:
        line.instants(stored)  # its zone is known, its window on the calendar
    return Stated(
        dataset=_maybe(manifest["dataset"], _text),
        window=_maybe(plan["window"], _window),
        scheduled=_maybe(manifest["scheduled"], lambda t: _of_form(_INSTANT, t)),
        published=_maybe(manifest.get("published"), _day),
        early=_maybe(manifest["early"], lambda t: _of_form(_INSTANT, t)),
        epsilon=epsilon,
        delta=delta,
        adjacency=guarantee["adjacency"],
        unit=_unit(guarantee["unit"]),
        plan_hash=_of_form(_HASH, manifest["plan_hash"]),
        ledger=_maybe(manifest["ledger"], _anchor),
        budget=None if budget is None else (_amount(budget["spent"]), _amount(budget["total"])),
        adds=budget is None or budget.get("composition", "basic") == "basic",
        observed=tuple(note for note in map(_text, plan["notes"]) if note.startswith("observed")),
        by=tuple(map(_text, _list(plan["by"]))),
        statistics=_statistics(canonical_json(plan["statistics"])),
        groups=len(_list(plan["keys"])),
        sparse="rules" in plan and Rules.from_json(plan["rules"]).sparse,
        words=words,
        line=line,
        stored=stored,
        over_time=_text(release_over_time(manifest, words), least=0),
        files={
            _of_form(_NAME, name): _file(said) for name, said in _few(manifest["files"]).items()
        },
        tables=_tables(plan, manifest["draw"]),
    )


def _tables(plan: Mapping[str, Any], draw: Mapping[str, Any]) -> tuple[Shape, ...]:
    if "tables" not in plan:
        return ()
    columns = {
        name: sum(len(_list(s["columns"])) for s in plan["statistics"] if s["table"] == name)
        for name in (_text(t["name"]) for t in _list(plan["tables"]["tables"]))
    }
    shapes = {
        t["name"]: (tuple(map(_text, _list(t["by"]))), len(_list(t["keys"])))
        for t in plan["tables"]["tables"]
    }
    mixed = _detailed(plan["tables"], draw)
    return tuple(
        Shape(name, by, columns[name] * rows, name in mixed)
        for name, (by, rows) in (shapes | mixed).items()
    )


def _detailed(
    tables: Mapping[str, Any], draw: Mapping[str, Any]
) -> dict[str, tuple[tuple[str, ...], int]]:
    """Return the key columns and rows of a table with rows of several levels: the draw says how many."""
    if "detail" not in tables:
        return {}
    planned = PlannedTables.from_json(tables)
    assert planned.detail is not None
    name = planned.detail.block
    cells = {} if name is None else {name: _drawn(draw["cells"][name])}
    rows = planned.detail.rows(planned, cells)
    return {planned.detail.table: (planned.detail.by(planned), len(rows))}


def _drawn(rows: object) -> list[list[int]]:
    return [[int(_text(cell)) for cell in _list(row)] for row in _list(rows)]


@lru_cache(maxsize=4)
def _statistics(text: str) -> Mapping[Place, PlannedStatistic]:
    """Return the statistics by published column, of their JSON: nearly all periods ask for the same."""
    found: dict[Place, PlannedStatistic] = {}
    for part in _list(read_json(text)):
        for name in _SHOWN:
            _text(part[name])
        _text(part["measure"], least=0)
        if part["remark"] is not None:
            _text(part["remark"])
        columns = [_text(column) for column in _list(part["columns"])]
        statistic = PlannedStatistic.from_json(part)
        ends = [end for piece in statistic.domain.exact_pieces for end in piece]
        sizes = [statistic.step, *(end for end in ends if isinstance(end, Fraction))]
        if statistic.step <= 0 or not all(_usual(size) for size in sizes):
            raise ValueError("no statistic has such a domain")
        table = _maybe(statistic.table, _text)
        found |= {(table, column): statistic for column in columns}
        if len(found) > _MOST_COLUMNS:
            raise ValueError("too many columns")
    return found


def _anchor(value: Any) -> dict[str, Any]:
    """Return the ledger's head as the manifest cites it."""
    found = decode(Anchor, value)
    if value["seq"] != found.seq or not 0 < found.seq <= 10**15:
        raise ValueError("not an entry of a ledger")
    _text(found.ledger_id)
    _of_form(_HASH, found.head_hash)
    return dict(value)


def _unit(value: Any) -> Any:
    """Return the protected unit, which the index repeats: a word, or a mapping as schemas say it."""
    if value == "row" or (isinstance(value, dict) and len(repr(value)) <= 1_000_000):
        return value
    raise ValueError("not a unit")


def _line(guarantee: Mapping[str, Any]) -> Timeline | None:
    time = guarantee.get("time")
    if time is None:
        return None
    if set(time) != {"column", "timezone", "dates", "immutable"}:
        raise ValueError("not a time")
    _text(time["column"])
    _text(time["timezone"])
    return timeline(guarantee["adjacency"], canonical_json(guarantee["unit"]), canonical_json(time))


def _stored(guarantee: Mapping[str, Any]) -> Instants:
    ends = guarantee.get("window", [None, None])
    start, end = (_maybe(end, lambda t: _of_form(_INSTANT, t)) for end in ends)
    return window_of_texts((start, end))


def _few(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > _MOST_FILES:
        raise ValueError("not the files of one release")
    return value


def _file(value: Any) -> tuple[int, str]:
    if type(value["bytes"]) is not int or not 0 <= value["bytes"] < 10**15:
        raise ValueError("not a size")
    return value["bytes"], _of_form(_HASH, value["sha256"])


def _window(value: Any) -> tuple[str, str]:
    start, end = value
    return _of_form(_MOMENT, start), _of_form(_MOMENT, end)


def _amount(value: object) -> Fraction:
    number = fraction_from_json(value)
    if number < 0 or not _usual(number):
        raise ValueError("not an amount of a budget")
    return number


def _usual(number: Fraction) -> bool:
    """Return whether a number has few digits, and a double to stand for it."""
    most: int = 10**_DIGITS
    return max(number.denominator, abs(number.numerator)) < int(most)


def _text(value: object, least: int = 1) -> str:
    if not isinstance(value, str) or not least <= len(value) <= _LONGEST or not is_shown(value):
        raise ValueError("not a text that can be shown")
    return value


def _of_form(form: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError("not of its form")
    return value


def _day(value: object) -> str:
    """Return a day of the calendar."""
    return date.fromisoformat(_of_form(_DAY, value)).isoformat()


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _maybe(value: Any, read: Any) -> Any:
    return None if value is None else read(value)
