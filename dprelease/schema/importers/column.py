"""What the importers of all standards share: kinds by the names of types, bounds, and one column."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import exact
from dprelease.schema.column import Kind
from dprelease.schema.importers.draft import DraftColumn
from dprelease.schema.importers.keys import TableKeys, items, true, written

_NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?", re.ASCII)
_TRUTHS = frozenset(("true", "false", "0", "1"))
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


def kind_of(said: str) -> Kind | None:
    """Return the kind of a type's name: `int64`, `decimal(10,2)`, `datetime64[ns]`, `Str`."""
    word = re.match(r"u?(int|float|datetime)\d+|[a-z]+", said.strip().lower())
    return None if word is None else _WORDS.get(word.group(1) or word.group())


@dataclass(frozen=True)
class DeclaredEnds:
    """Declared ends and the keys that hold them: each end closed, open, or both."""

    rules: TableKeys
    least: str
    above: str
    most: str
    below: str

    @property
    def both(self) -> bool:
        """Whether both ends are declared."""
        return self._has(self.least, self.above) and self._has(self.most, self.below)

    @property
    def any(self) -> bool:
        """Whether an end is declared."""
        return self._has(self.least, self.above, self.most, self.below)

    def _has(self, *keys: str) -> bool:
        return any(_number(self.rules.peek(key)) is not None for key in keys)

    def taken(self, kind: Kind) -> tuple[Fraction | None, Fraction | None]:
        """Take the tightest ends; an open end of an integer is moved inside by one."""
        return self._end(kind, self.least, self.above, 1), self._end(
            kind, self.most, self.below, -1
        )

    def _end(self, kind: Kind, closed: str, opened: str, inward: int) -> Fraction | None:
        ends = []
        both = true(self.rules.peek(opened))  # older contracts: `exclusiveMinimum: true`
        for key in (closed, opened):
            value = _number(self.rules.peek(key))
            if value is None:
                continue
            self.rules.take(key)
            if (key == opened or both) and kind is Kind.integer and value.denominator == 1:
                value += inward
            ends.append(value)
        if (both and ends) or (written(self.rules.peek(opened)) or "").lower() == "false":
            self.rules.take(opened)
        return (max if inward > 0 else min)(ends, default=None)


def drafted(
    name: str,
    said: str,
    keys: TableKeys,
    *,
    unique: tuple[tuple[TableKeys, str], ...],
    listed: tuple[TableKeys, str],
    bounds: DeclaredEnds,
    step: str | None = None,
    measure: str | None = None,
    required: tuple[TableKeys, str] | None = None,
    nullable: bool = True,
    key: bool = False,
) -> DraftColumn:
    """Return a column; what its kind has no use for stays in `keys`, and is named as left.

    Args:
        said: the contract's word for the type.
        keys: all that the contract says of the column.
        unique: where it says that each value is there once; `key`: that the table says so.
        listed: where the list of values is.
        required: where it says that no cell is missing; else `nullable`.
        step: the key of the resolution, beside the bounds.
    """
    kind = kind_of(said)
    present = (required,) if required is not None else ()
    for flagged, flag in (*unique, *present):
        flagged.usual(flag, "false")
    key = key or any(true(flagged.peek(flag)) for flagged, flag in unique)
    nullable = nullable and not any(true(flagged.peek(flag)) for flagged, flag in present)
    holder, place = listed
    values = [
        one.get("value") if isinstance(one, Mapping) else one for one in items(holder.peek(place))
    ]
    public = tuple(dict.fromkeys(text for one in values if (text := written(one)) is not None))
    if (kind is Kind.category and key and not public) or (
        kind is Kind.integer and key and not bounds.both
    ):
        kind = Kind.identifier  # a numbered person, not a quantity
    if kind is Kind.integer and public and not bounds.any:
        kind = Kind.category  # a coded answer: 1, 2, 9
    used = kind is Kind.category or (
        kind is Kind.boolean and {v.lower() for v in public} <= _TRUTHS
    )
    if used and isinstance(holder.peek(place), list):
        holder.take(place)
    for flagged, flag in (
        *(unique if kind is Kind.identifier else ()),
        *(present if kind is Kind.category and public else ()),
    ):
        flagged.usual(flag, "true")
    low = high = resolution = None
    if kind in (Kind.integer, Kind.number):
        low, high = bounds.taken(kind)
        if step is not None and (resolution := _number(bounds.rules.peek(step))) is not None:
            bounds.rules.take(step)
    return DraftColumn(
        name, kind, low, high, public if kind is Kind.category else (), resolution, nullable, measure,
        said, questions=tuple(keys.questions), left=keys.left,
    )  # fmt: skip


def _number(value: object) -> Fraction | None:
    """Return a declared number as it is written; None for any other text, such as 012 or 1_000."""
    text = written(value) or ""
    if not _NUMBER.fullmatch(text):
        return None
    try:
        found = exact(text)
    except ArgumentError:
        return None
    return found if isinstance(found, Fraction) else None
