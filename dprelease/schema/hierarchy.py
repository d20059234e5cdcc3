"""A hierarchy: coarser levels of a column as public functions of its keys.

The last level is a column of the private table; every other level is named in the hierarchy alone, so
a coarse label is derived from the finest one and never read from a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Levels from coarse to fine, and the labels of every key of the last one.

    Attributes:
        levels: their names; the last one is the column.
        keys: one row per key of the column, `(keys, levels)`; every level is a function of the next.
        titles: what levels are called on public pages: words only.
    """

    name: str
    levels: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] = field(repr=False)
    titles: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def column(self) -> str:
        return self.levels[-1]

    def labels(self, level: str) -> tuple[str, ...]:
        """Return the label of `level` for every key, in the order of `keys`."""
        at = self.levels.index(level)
        return tuple(key[at] for key in self.keys)


def hierarchy_to_json(hierarchy: Hierarchy) -> dict[str, Any]:
    """Return the hierarchy as a schema says it, its file's rows in it."""
    return {
        "levels": list(hierarchy.levels),
        "keys": [list(key) for key in hierarchy.keys],
        **({"titles": dict(hierarchy.titles)} if hierarchy.titles else {}),
    }
