"""What a derived table calls its columns, statistics and groups: the publisher's words.

A statistic is known by its table and its name, as two tables of a release may title one statistic differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dprelease.reading.released_values import ReleasedValues
from dprelease.release_plan.detail import ALL, LEVEL_COLUMN
from dprelease.results.formats.plain_words import group_name
from dprelease.results.formats.public_words import planned_words
from dprelease.results.formats.words import period_words

TABLE, STATISTIC = "table", "statistic"


@dataclass(frozen=True, slots=True)
class Called:
    """The words of one derived table.

    Attributes:
        read: what was read, in words; columns: titles of key columns; measures: units by table and column; statistics: of published columns, by table ("" where there is one) and column.
        many_tables: whether the first key column names a table; mixed: tables whose rows stand at several levels.
    """

    read: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    statistics: Mapping[tuple[str, str], str] = field(default_factory=dict)
    measures: Mapping[tuple[str, str], str] = field(default_factory=dict)
    many_tables: bool = False
    mixed: frozenset[str] = frozenset()

    def column(self, name: str) -> str:
        """Return what a key column is called."""
        return self.columns.get(name, name)

    def place(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """Return the table and the statistic of a row of a comparison."""
        return (str(row[TABLE]) if self.many_tables else "", str(row[STATISTIC]))

    def inner(self, keys: Sequence[str]) -> list[str]:
        """Return the key columns of a comparison that tell rows of one statistic of one table apart."""
        return [k for k in keys if k != STATISTIC and not (self.many_tables and k == TABLE)]

    def title(self, place: tuple[str, str]) -> str:
        """Return what the statistic of a table is called."""
        return self.statistics.get(place, place[1])

    def heading(self, place: tuple[str, str]) -> str:
        """Return its title, with the table where others have the same one."""
        title = self.title(place)
        same = sum(other == title for other in self.statistics.values())
        return f"{title} in {place[0]}" if place[0] and same > 1 else title

    def label(self, row: Mapping[str, Any], key: str, *, compared: bool) -> str:
        """Return a key's label as it is read: a statistic by its title, none where a table has none."""
        if compared and key == STATISTIC:
            return self.title(self.place(row))
        label = row[key]
        return "" if label is None or (label == ALL and self._mixed(row)) else str(label)

    def group(self, row: Mapping[str, Any], keys: Sequence[str]) -> str:
        """Return a row's labels in one line; of rows at several levels, without the name of the level."""
        mixed = self._mixed(row)
        shown = [k for k in keys if not (mixed and k == LEVEL_COLUMN)]
        return group_name([row[k] for k in shown if not (mixed and row[k] == ALL)])

    def _mixed(self, row: Mapping[str, Any]) -> bool:
        return (str(row[TABLE]) if self.many_tables else "") in self.mixed


def named_release(values: ReleasedValues) -> tuple[str, str]:
    """Return the title of the publication that values are of, and its period in words."""
    receipt, plan = values.noised.receipt, values.noised.plan
    return planned_words(plan, receipt.pipeline).title, period_words(receipt.period or "")


def called(
    by_table: Mapping[str, ReleasedValues], *, many_tables: bool, read: str | None = None
) -> Called:
    """Return the words of published values; where two statistics of a table are called the same, with their names.

    Args:
        by_table: by table; many_tables: whether rows name their table; read: what was read, by default the release.
    """
    columns: dict[str, str] = {}
    statistics: dict[tuple[str, str], str] = {}
    measures: dict[tuple[str, str], str] = {}
    for name, values in by_table.items():
        words, table = planned_words(values.noised.plan), name if many_tables else ""
        columns |= {key: words.column(key) for key in (*values.levels, *values.by)}
        named = {s.name: s for s, _ in values.columns.values()}.values()
        mine = {
            c: t for s in named for c, t in zip(s.columns, words.column_headings(s), strict=True)
        }
        measures |= {(table, c): words.titled(s)[1] for c, (s, _) in values.columns.items()}
        times = Counter(mine.values())
        statistics |= {
            (table, c): title if times[title] == 1 else f"{title} ({c})"
            for c, title in mine.items()
        }
    mixed = frozenset(name if many_tables else "" for name, v in by_table.items() if v.noised.rows)
    if read is None:
        read = ", ".join(filter(None, named_release(next(iter(by_table.values())))))
    return Called(read, columns, statistics, measures, many_tables, mixed)
