"""The plan: everything that will be drawn and what it costs, decided before any row is read.

A plan is public metadata. It is a function of the schema and the request alone, so it may be
printed, hashed, stored in the ledger and published. Its numbers are exact where privacy depends
on them (`Fraction`s and integers) and floats where they only inform (expected errors).

    statistic   what is published per group, with its domain, its step and its error
    block       what is drawn: a law over integers, charged `epsilon` once

Who reads a plan needs this package alone; how a plan is made, `planning` knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Note
from dprelease.core.numeric import counted, plain
from dprelease.query.spec import Query
from dprelease.query.statistic import split_where
from dprelease.query.task import WrittenTask, for_keys
from dprelease.release_plan.block import Block, Composition
from dprelease.release_plan.identity import plan_hash
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedTables
from dprelease.schema.release_spec import Rules
from dprelease.schema.time import Time
from dprelease.schema.unit import Adjacency, UserUnit, WrittenUnit, caps_words, describe
from dprelease.schema.unit_words import called
from dprelease.statistics.base import kind_named

PLAN_VERSION = "plan/2"


@dataclass(frozen=True, slots=True)
class ReleasePlan(Stored):
    """What will be released. `query` is what the engine will be asked; all else is public text.

    `allow` names what is observed and not proved, and was allowed by name. Of several `tables`, `by` and
    `keys` are the engine's groups, of which every table's are sums, and `statistics` those of all.

    `request` is the request it was made of, for planning it at other budgets (`planning.make.what_if`); `advice` says
    what its publisher may declare to lower an error. Neither is part of the record.
    """

    schema: str
    adjacency: Adjacency
    unit: WrittenUnit
    epsilon: Fraction
    delta: Fraction
    loss: Literal["absolute", "squared"]
    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    where: str | None
    statistics: tuple[PlannedStatistic, ...]
    blocks: tuple[Block, ...]
    query: WrittenTask = field(compare=False, repr=False)
    window: Annotated[tuple[datetime, datetime] | None, Note.always] = None
    allow: Annotated[tuple[str, ...], Note.always] = ()
    notes: Annotated[tuple[str, ...], Note.always] = ()
    composition: Composition | None = None
    time: Time | None = None
    tables: PlannedTables | None = None
    rules: Rules | None = None
    request: Annotated[Query | None, Note.unstored] = field(default=None, compare=False, repr=False)
    advice: Annotated[tuple[str, ...], Note.unstored] = field(default=(), compare=False, repr=False)

    version: ClassVar[str] = PLAN_VERSION
    constants: ClassVar[Mapping[str, str]] = {"dprelease": "version"}

    def completed(self) -> ReleasePlan:
        """Return the plan with its keys in its query, for re-checking a manifest; it cannot be run."""
        return replace(self, query=for_keys(self.query, self.keys))

    def with_keys(self, keys: Sequence[str]) -> ReleasePlan:
        """Return the plan with the keys that its draw found."""
        return replace(self, keys=tuple((key,) for key in keys))

    def block(self, name: str) -> Block:
        return next(b for b in self.blocks if b.name == name)

    def __repr__(self) -> str:
        found = "found keys" if self.query.groups.found else counted(len(self.keys), "group")
        groups = f"{found} by {', '.join(self.by)}" if self.by else "one group"
        groups = groups if self.tables is None else counted(len(self.tables.tables), "table")
        count = counted(len(self.statistics), "statistic")
        said = f"{count} in {groups}, epsilon {plain(self.epsilon)}"
        return f"<ReleasePlan {self.schema}: {said}; print() shows it>"

    @property
    def fitted(self) -> bool:
        """Whether it is of tables that add up, or of one of them."""
        return self.statistics[0].table is not None

    def groups(self, block: Block) -> int:
        """Return how many groups a block is drawn for: the engine's, or its table's."""
        named = None if block.table is None or self.tables is None else block.table
        return len(self.keys if named is None else self.tables.named(named).keys)  # type: ignore[union-attr]

    def of_table(self, name: str) -> ReleasePlan:
        """Return what readers of one table of several see: its keys and statistics as a plan's own."""
        assert self.tables is not None
        table = self.tables.named(name)
        mine = tuple(s for s in self.statistics if s.table == name)
        return replace(self, by=table.by, keys=table.keys, statistics=mine, tables=None)

    def __str__(self) -> str:
        from dprelease.release_plan.explain import text  # explain renders this class

        return text(self)

    def _repr_html_(self) -> str:
        from dprelease.release_plan.explain import html

        return html(self)

    @property
    def guarantee(self) -> str:
        """The guarantee in one sentence, with epsilon, delta, adjacency and unit."""
        delta = f", delta={float(self.delta):.3g}" if self.delta else ""
        return (
            f"differentially private with epsilon={plain(self.epsilon)}{delta} "
            f"for {describe(self.adjacency, self.unit)}"
        )

    def in_words(self, text: str) -> str:
        """Return one of the plan's sentences with the publisher's word for the protected unit."""
        name = None if self.request is None else self.request.schema.about.unit_name
        return text if name is None else called(text, self.unit, name)

    @property
    def hash(self) -> str:
        """SHA-256 of what the plan decides: its identity in ledger and manifest (`identity`)."""
        return plan_hash(self.to_json())

    def bounded_count_lines(self) -> Iterable[str]:
        """Yield of counts of rows that some of a person's rows may be missing, and what counts persons instead."""
        unit, names = self.unit, dict[int | None, list[str]]()
        if not isinstance(unit, UserUnit):
            return
        for s in self.statistics:
            if kind_named(s.function).of_rows and s.text.removesuffix("(*)") == s.function:
                names.setdefault(self.block(s.block).measurement.max_rows, []).append(s.name)
        persons = any(s.text.endswith("(persons)") for s in self.statistics)
        for rows, counts in names.items():
            yield (
                f"{', '.join(dict.fromkeys(counts))}: the number of rows kept, {caps_words(unit, len(self.keys), unit.column, rows)}"
                + ("" if persons else "; `count(persons)` counts persons")
            )
        chosen = [s.name for s in self.statistics if split_where(s.text)[1]]
        if chosen:
            yield f"{', '.join(chosen)}: of the rows kept; a release's own `where` takes rows away before it is chosen which are kept"
