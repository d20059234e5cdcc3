"""A small publication of several tables, for tests: places in regions, two sexes, incomes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

PLACES = [f"d{i}" for i in range(6)]
REGION = {place: f"r{i % 2}" for i, place in enumerate(PLACES)}
BOTH = ["count", "sum(income)"]
TREE = [
    {"name": "nation", "by": [], "statistics": BOTH},
    {"name": "regions", "by": ["region"], "statistics": BOTH},
    {"name": "districts", "by": ["district", "sex"], "statistics": BOTH},
]
USER = {"user": "id", "max_groups": 2, "max_rows_per_group": 2}


def schema(tables: list[dict[str, Any]] | None = None, **changed: Any) -> dict[str, Any]:
    """Return a schema whose release is of `tables`; `changed` replaces its parts, `release` adds keys."""
    release = {"epsilon": 1, "tables": TREE if tables is None else tables}
    return {
        "dprelease": "schema/1",
        "name": "people",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 5000},
        "columns": {
            "id": {"kind": "identifier"},
            "district": {"kind": "category", "values": PLACES},
            "sex": {"kind": "category", "values": ["f", "m"]},
            "income": {"kind": "integer", "range": [-20, 100], "nulls": {"default": 0}},
            "age": {"kind": "integer", "range": [0, 100]},
        },
        "hierarchies": {
            "place": {"levels": ["region", "district"], "keys": [[REGION[p], p] for p in PLACES]}
        },
        **{name: part for name, part in changed.items() if name != "release"},
        "release": release | changed.get("release", {}),
    }


def people(rows: int = 600, seed: int = 5) -> pd.DataFrame:
    """Return made-up rows, most of them in one place, some of an unknown place or sex."""
    chance = np.random.default_rng(seed)
    places = [*PLACES, "elsewhere"]
    weights = [0.5, 0.2, 0.1, 0.1, 0.04, 0.01, 0.05]
    return pd.DataFrame(
        {
            "id": chance.integers(0, rows // 3, rows),
            "district": chance.choice(places, rows, p=weights),
            "sex": chance.choice(["f", "m", "?"], rows, p=[0.5, 0.45, 0.05]),
            "income": chance.integers(-20, 101, rows),
            "age": chance.integers(0, 101, rows),
        }
    )
