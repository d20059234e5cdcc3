"""Neighbouring frames of which the added row changes a column's dtype: no other row's meaning moves, or one frame is refused.

Pandas infers a dtype from all rows: one empty cell makes floats of whole numbers and objects of truth
values, one word makes texts of either. Every pair below is enumerated; the exact answers of both frames
may differ by what one row adds, and by no more.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from typing import Any

import pandas as pd
import pytest

from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.query.cleaning import code_of
from dprelease.schema.column import Kind
from tests.contracts.cells import KINDS, answer_of, column_of
from tests.sizes import FULL, some

ROWS: dict[str, tuple[list[Any], tuple[str, ...]]] = {
    "truth": ([True, False, True], ("True", "False")),
    "whole": ([1, 0, 2, 2], ("1", "2")),
    "one": ([1, 1, 1], ("1.0",)),
    "double": ([0.5, 1.0, 2.5], ("0.5", "1")),
    "decimal": ([Decimal("1.50"), Decimal("2.00")], ("1.5", "2")),
    "text": (["1", "2", "north"], ("1", "north")),
    "digits": (["1", "2", "2"], ("1", "2")),
    "day": ([date(2024, 1, 1), date(2024, 1, 2)], ("2024-01-01",)),
    "moment": (
        [pd.Timestamp("2024-01-01"), pd.Timestamp("2024-01-02 13:30")],
        ("2024-01-02 13:30:00",),
    ),
    "zoned": (
        [pd.Timestamp("2024-01-01 23:30", tz="America/New_York")] * 2,
        ("2024-01-02 04:30:00+00",),
    ),
    "period": ([pd.Period("2024-01-01", "D")] * 2, ("2024-01-01",)),
    "duration": ([pd.Timedelta(days=1)] * 2, ("1 days 00:00:00",)),
}
ADDED: tuple[Any, ...] = (
    *(None, float("nan"), pd.NaT, pd.NA, "x", "", 1, 0.5, True, 2**70, 1j, b"\xff"),
    *(Decimal("1.5"), date(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC), pd.Timedelta(days=1), []),
)
WRITTEN = {
    "truth": ("True", "False", "TRUE"),
    "whole": ("1", "2", " 2", "0"),
    "padded": ("01", "2"),
    "double": ("1.0", "2.50", ".5", "-0.0"),
    "moment": ("2024-01-01", "2024-01-02 13:30:00"),
}
LINES = ("", "x", "1.5", "True", "01", "1e400", "2024-01-01")


def most_of(kind: Kind) -> int:
    """Return the most that one row can add to the answer of `cells.query_of`, in all numbers together."""
    code = code_of(column_of(kind, ("a",)))
    return 2 if code is None else 1 + code.grid.upper - code.grid.lower


Answers = dict[tuple[str, Kind], tuple[int, ...] | None]


def moved(
    frames: list[pd.DataFrame], kind: Kind, values: tuple[str, ...], known: Answers | None = None
) -> int | None:
    """Return by how much the exact answers differ; None where one of the frames is refused.

    Args:
        known: answers of first frames by (dtype, kind), each of which many pairs share.
    """
    known = {} if known is None else known
    first = str(frames[0].dtypes["x"]), kind
    if first not in known:
        known[first] = answer_of(DuckDBEngine(), as_source(frames[0]), kind, values)
    one = known[first]
    if one is None:
        return None
    other = answer_of(DuckDBEngine(), as_source(frames[1]), kind, values)
    if other is None:
        return None
    return sum(abs(a - b) for a, b in zip(one, other, strict=True))


@cache
def pairs() -> dict[str, list[tuple[str, list[pd.DataFrame], tuple[str, ...]]]]:
    """Return the neighbours of each type whose dtypes differ, one of each pair of dtypes."""
    out: dict[str, list[tuple[str, list[pd.DataFrame], tuple[str, ...]]]] = {}
    makers: tuple[Callable[[Any], pd.Series], ...] = (
        pd.Series,
        lambda cells: pd.Series(cells).convert_dtypes(),
        lambda cells: pd.Series(cells, dtype="category"),
    )
    for name, (rows, values) in ROWS.items():
        seen = set()
        for make in makers:
            for added in ADDED:
                try:
                    series = [make(rows * 9), make([*rows * 9, added])]
                except (TypeError, ValueError, OverflowError):
                    continue  # pandas makes no such frame
                dtypes = tuple(str(s.dtype) for s in series)
                case = (dtypes, type(added)) if FULL else dtypes
                if dtypes[0] != dtypes[1] and case not in seen:
                    seen.add(case)
                    frames = [pd.DataFrame({"x": s}) for s in series]
                    out.setdefault(name, []).append((f"{dtypes} by {added!r}", frames, values))
    for name, cells in WRITTEN.items():
        values = ROWS.get(name, ROWS["whole"])[1]
        for line in LINES:
            text = "k,x\n" + "".join(f"a,{cell}\n" for cell in cells * 9)
            frames = [pd.read_csv(io.StringIO(t)) for t in (text, f"{text}a,{line}\n")]
            if frames[0].dtypes["x"] != frames[1].dtypes["x"]:
                out.setdefault(f"read_csv {name}", []).append((line, frames, values))
    return out


EVERY = (*ROWS, *(f"read_csv {name}" for name in WRITTEN))
STAY = ("decimal", "day", "read_csv moment")
"""Objects and texts before and after; `text` and `digits` too, in older versions of pandas."""
NAMES = [name for name in EVERY if name not in STAY]


@pytest.mark.parametrize("name", NAMES)
def test_a_row_that_changes_a_dtype_changes_no_other_row(name: str) -> None:
    """Every other pair of types with one kind, in turn; all with all of them in `make evidence`."""
    turn, known = NAMES.index(name), Answers()
    for place, (what, frames, values) in enumerate(some(pairs().get(name, ()), 2)):
        for kind in KINDS if FULL else [KINDS[(turn + place) % len(KINDS)]]:
            difference = moved(frames, kind, values, known)
            assert difference is None or difference <= most_of(kind), (what, kind, difference)


def test_the_pairs_change_dtypes_and_most_are_read() -> None:
    assert {*NAMES} - {"text", "digits"} <= {*pairs()} <= {*NAMES}
    frames = [pd.DataFrame({"x": [True] * 400}), pd.DataFrame({"x": [True] * 400 + [None]})]
    assert moved(frames, Kind.number, ()) == 0
    assert moved(frames, Kind.category, ("True", "False")) == 0
    assert moved(frames, Kind.boolean, ()) == 0
