"""Generated rows behind the golden plans: values outside the range, nulls, unknown keys, heavy users.

`rows` is of the columns that most plans share. `stored_rows` is of any schema of the repository: what
its columns read, one row in ten outside what they declare. `places` is a public table for views.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

__all__ = ["places", "rows", "stored_rows"]

MONDAY = datetime(2026, 1, 5)
NULLS = 0.05


def rows(name: str, schema: Mapping[str, Any]) -> pa.Table:
    """Return the rows of the plan called `name`: a graph, or the shared columns."""
    pick = random.Random(name)
    if "a" in schema["columns"]:
        ends = [[pick.choice(["0", "1", "2", "3", "4", "5", "9"]) for _ in "ab"] for _ in range(12)]
        return pa.table({"a": [a for a, _ in ends], "b": [b for _, b in ends]})
    size = schema["rows"].get("exact", 50)

    def some(made: list[Any]) -> list[Any]:
        return [None if pick.random() < NULLS else v for v in made]

    made = {
        "who": some([f"u{pick.randrange(12)}" for _ in range(size)]),
        "x": some([pick.randrange(-4, 28) / 2 for _ in range(size)]),
        "y": some([pick.randrange(-6, 10) for _ in range(size)]),
        "z": some([pick.randrange(0, 120) / 100 for _ in range(size)]),
        "g": some([pick.choice("aabbcd") for _ in range(size)]),
    }
    if "w" in schema["columns"]:
        made["w"] = some([pick.randrange(0, 6) for _ in range(size)])
    if "at" in schema["columns"]:
        made["at"] = some([MONDAY + timedelta(hours=pick.randrange(24 * 28)) for _ in range(size)])
    return pa.table(made)


def stored_rows(name: str, schema: Mapping[str, Any], size: int) -> pa.Table:
    """Return rows of what the columns of `schema` read: a column with `from` is computed of the others."""
    pick = random.Random(name)
    made: dict[str, list[Any]] = {}
    for column, told in schema["columns"].items():
        if "from" not in told:
            cells = [_cell(pick, told) for _ in range(size)]
            made[column] = [None if pick.random() < NULLS else cell for cell in cells]
    return pa.table(made)


def _cell(pick: random.Random, told: Mapping[str, Any]) -> Any:
    """Return a value of one column."""
    match told["kind"]:
        case "identifier":
            return f"u{pick.randrange(40)}"
        case "timestamp":
            return datetime(2013, 1, 1) + timedelta(hours=pick.randrange(24 * 365))
        case "category":
            return pick.choice([*told["values"], "unknown"])
        case _:
            step = 1 if told["kind"] == "integer" else told["step"]
            low, high = (round(end / step) for end in told["range"])
            return step * (low - 1 if pick.random() < 0.1 else pick.randint(low, high))


def places() -> pa.Table:
    """Return a public table: what is known of some of the groups `g`."""
    return pa.table({"code": ["a", "b", "e"], "area": ["a", "c", "b"], "weight": [2.0, 0.5, 3.0]})
