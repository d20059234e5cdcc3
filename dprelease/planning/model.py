"""The plan: everything that will be drawn and what it costs, decided before any row is read.

A plan is public metadata. It is a function of the schema and the request alone, so it may be
printed, hashed, stored in the ledger and published. Its numbers are exact where privacy depends
on them (`Fraction`s and integers) and floats where they only inform (expected errors).

    statistic   what is published per group, with its domain, its step and its error
    block       what is drawn: a law over integers, charged `epsilon` once
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Literal

from dprelease.codec import decode, encode
from dprelease.measurements.base import measurement_named
from dprelease.measurements.candidate import Option
from dprelease.numeric import fraction_from_json, plain
from dprelease.planning.tables_model import PlannedTables
from dprelease.query.bounded import BoundedQuery
from dprelease.query.spec import Query
from dprelease.query.task import task_from_json, task_to_json
from dprelease.schema.domain import Domain
from dprelease.schema.time import Time
from dprelease.schema.unit import Adjacency, Unit, describe, unit_from_json, unit_to_json

__all__ = [
    "TIDY_NAMES",
    "WIDE_PARTS",
    "Composition",
    "PlannedBlock",
    "PlannedStatistic",
    "ReleasePlan",
    "Uninformative",
    "canonical_json",
    "plan_hash",
]

PLAN_VERSION = "plan/2"

TIDY_NAMES = (
    "statistic",
    "value",
    "lower",
    "upper",
    "estimate",
    "unbiased",
    "consistent",
    "mechanism",
    "block",
    "epsilon",
    "status",
)
"""The tidy table's columns after the key columns, in order."""

WIDE_PARTS = ("lower", "upper", "status")
"""What stands beside each published column of the wide table, as `<name>_<part>`."""


def canonical_json(value: object) -> str:
    """Return the one JSON text of `value`: sorted keys, no spaces, strict numbers."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )


@dataclass(frozen=True, slots=True)
class Uninformative:
    """A statistic whose interval is expected to be the whole domain.

    Attributes:
        groups: in how many groups, of how many; size: the largest declared size among these.
        narrow: only where rows lie close together (sd 5 % of the range), which nobody has guessed.
        epsilon: what the whole release would need, its parts kept; None: no useful amount.
        rows: rows per group that would do at the plan's epsilon; None: no number would.
    """

    groups: int
    of: int
    size: int
    narrow: bool
    epsilon: Fraction | None
    rows: int | None

    def __str__(self) -> str:
        where = f" in {self.groups:,} of {self.of:,} groups" if self.groups < self.of else ""
        rows = " where values lie close together (sd 5 % of the range)" if self.narrow else ""
        said = f"expected to say nothing{where} at n={self.size:,}{rows}: its 95 % range leaves nothing out"
        ways = []
        if self.epsilon is not None:
            there = " (for the largest of these groups)" if self.groups > 1 else ""
            ways.append(f"epsilon {plain(self.epsilon)} in all{there}")
        if self.rows is not None:
            ways.append(f"groups so coarse that each has about {self.rows:,} rows")
        return f"{said}; {', or '.join(ways)} would change that" if ways else said

    def to_json(self) -> dict[str, Any]:
        return {
            "groups": self.groups,
            "of": self.of,
            "size": self.size,
            "narrow": self.narrow,
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "rows": self.rows,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Uninformative:
        epsilon = value["epsilon"]
        return cls(
            groups=value["groups"],
            of=value["of"],
            size=value["size"],
            narrow=value["narrow"],
            epsilon=None if epsilon is None else Fraction(epsilon),
            rows=value["rows"],
        )


@dataclass(frozen=True, slots=True)
class PlannedStatistic:
    """One published statistic.

    Attributes:
        name: published name; text: as asked for (`mean(age)`); function: `mean`.
        block: the block it is computed from; cells: indices into that block's cells.
        columns: published column names: one, or one per histogram bin.
        domain: allowed published values (induced and declared, intersected).
        step: published values are multiples of it.
        measure: unit of the value, for labels.
        mechanism: family drawn from; chosen: priced options, best first (the chosen one is first).
        planned_error: expected |error| (or squared error), in the statistic's unit, at the public
            guess of rows per group; None if there is none. Said beforehand, of the plan: the
            released interval says how exact a drawn value is.
        group_errors: the same per group, at the public guesses per key, if there are any.
        error_text: what to print for the error ("±0.9" or "±12.3 at n=1,000").
        spikes: whether atoms at borders and gap edges are allowed.
        remark: the publisher's own public sentence, shown with the numbers.
        uninformative: set where it is expected to say nothing at the declared size.
        view: which column of a block of several this statistic of one looks at.
        notes: sentences for the report: what is bounded, which bias is not in the interval.
    """

    name: str
    text: str
    function: str
    block: str
    columns: tuple[str, ...]
    domain: Domain
    step: Fraction
    measure: str
    mechanism: str
    chosen: tuple[Option, ...]
    planned_error: float | None
    error_text: str
    sensitivity: str
    spikes: bool = True
    notes: tuple[str, ...] = ()
    group_errors: tuple[float, ...] | None = None
    remark: str | None = None
    view: int | None = None
    uninformative: Uninformative | None = None
    table: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "statistic": self.text,
            "function": self.function,
            "block": self.block,
            "columns": list(self.columns),
            "domain": self.domain.to_json(),
            "step": str(self.step),
            "measure": self.measure,
            "mechanism": self.mechanism,
            "sensitivity": self.sensitivity,
            "planned_error": self.planned_error,
            "error_text": self.error_text,
            "group_errors": None if self.group_errors is None else list(self.group_errors),
            "options": [
                {
                    "mechanism": o.mechanism,
                    "expected_error": o.expected_error,
                    "worst_error": o.worst_error,
                    "note": o.note,
                }
                for o in self.chosen
            ],
            "spikes": "allow" if self.spikes else "forbid",
            "notes": list(self.notes),
            "remark": self.remark,
            **({} if self.view is None else {"view": self.view}),
            **({} if self.table is None else {"table": self.table}),
            "uninformative": None if self.uninformative is None else self.uninformative.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PlannedStatistic:
        return cls(
            name=value["name"],
            text=value["statistic"],
            function=value["function"],
            block=value["block"],
            columns=tuple(value["columns"]),
            domain=Domain.from_json(value["domain"]),
            step=fraction_from_json(value["step"]),
            measure=value["measure"],
            mechanism=value["mechanism"],
            chosen=tuple(Option(**o) for o in value["options"]),
            planned_error=value["planned_error"],
            error_text=value["error_text"],
            sensitivity=value["sensitivity"],
            spikes=value["spikes"] == "allow",
            notes=tuple(value["notes"]),
            remark=value["remark"],
            view=value.get("view"),
            table=value.get("table"),
            uninformative=None
            if value["uninformative"] is None
            else Uninformative.from_json(value["uninformative"]),
            group_errors=None if value["group_errors"] is None else tuple(value["group_errors"]),
        )


@dataclass(frozen=True, slots=True)
class Composition:
    """How the blocks of a release with a delta add up.

    Attributes:
        method: a name of `dprelease.budget.composition.METHODS`.
        epsilon_upper: the certified epsilon of all blocks together at the plan's delta.
        rho: their total rho (a pure loss counts epsilon^2 / 2), rounded up to a nano-unit.
        compared: the ways that were priced, with their total declared errors; with what each costs in
            epsilon, where all statistics have goals and ask for it. For who plans: no part of the
            record, as nobody could make these figures again without planning anew.
    """

    method: str
    epsilon_upper: Fraction
    rho: Fraction
    compared: tuple[tuple[str, float], ...] = field(default=(), compare=False)

    def to_json(self) -> dict[str, Any]:
        return {
            "method": self.method,
            "evidence": {"epsilon_upper": str(self.epsilon_upper), "rho": str(self.rho)},
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Composition:
        evidence = value["evidence"]
        return cls(
            method=value["method"],
            epsilon_upper=fraction_from_json(evidence["epsilon_upper"]),
            rho=fraction_from_json(evidence["rho"]),
        )


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """One draw per group, charged `epsilon` once for all groups together.

    Attributes:
        name: for people and the tidy table's `block` column.
        family: encoding family ("scalar", "two_sums", "bernstein2", "bins", "truncated_mean",
            "constant").
        cells: labels of the released integers.
        epsilon: nats charged (0 only for a public constant); of a block with a rho, what it would
            guarantee alone at the plan's delta.
        rho: its zCDP cost, where it has no pure loss.
        share: what it was given to spend (`planning.share.Share.to_json`): chosen, and recorded.
        encoding: the family's exact parameters (`Encoding.to_json`).
        table: whose groups it measures, of a release of several.
        law: the law's exact JSON (weights or their recurrence), enough to recompute `certificate`.
        certificate: exact numbers; `epsilon_upper` is the proved loss, a "p/q" string.
    """

    name: str
    family: str
    cells: tuple[str, ...]
    epsilon: Fraction
    mechanism: str
    encoding: Mapping[str, Any]
    law: Mapping[str, Any]
    certificate: Mapping[str, Any]
    rho: Fraction | None = None
    share: Mapping[str, Any] = field(default_factory=dict)
    table: str | None = None

    @property
    def has_interval(self) -> bool:
        """Whether its values have an interval; a choice by rank has an error in rows only."""
        return measurement_named(self.family).interval

    @property
    def public(self) -> bool:
        """Whether it is a public number: nothing is drawn or charged."""
        return measurement_named(self.family).free

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "family": self.family,
            "cells": list(self.cells),
            "epsilon": str(self.epsilon),
            "share": dict(self.share),
            "mechanism": self.mechanism,
            "encoding": dict(self.encoding),
            "law": dict(self.law),
            "certificate": dict(self.certificate),
            **({} if self.rho is None else {"rho": str(self.rho)}),
            **({} if self.table is None else {"table": self.table}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PlannedBlock:
        return cls(
            name=value["name"],
            family=value["family"],
            cells=tuple(value["cells"]),
            epsilon=fraction_from_json(value["epsilon"]),
            mechanism=value["mechanism"],
            encoding=value["encoding"],
            law=value["law"],
            certificate=value["certificate"],
            rho=fraction_from_json(value["rho"]) if "rho" in value else None,
            share=value["share"],
            table=value.get("table"),
        )


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """What will be released. `query` is what the engine will be asked; all else is public text.

    `allow` names what is observed and not proved, and was allowed by name. Of several `tables`, `by` and
    `keys` are the engine's groups, of which every table's are sums, and `statistics` those of all.

    `asked` is the request it was made of, for planning it at other budgets (`planning.what_if`).
    """

    schema: str
    adjacency: Adjacency
    unit: Unit
    epsilon: Fraction
    delta: Fraction
    loss: Literal["absolute", "squared"]
    by: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...]
    where: str | None
    statistics: tuple[PlannedStatistic, ...]
    blocks: tuple[PlannedBlock, ...]
    query: BoundedQuery = field(compare=False, repr=False)
    window: tuple[datetime, datetime] | None = None
    allow: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    composition: Composition | None = None
    time: Time | None = None
    tables: PlannedTables | None = None
    asked: Query | None = field(default=None, compare=False, repr=False)

    def block(self, name: str) -> PlannedBlock:
        return next(b for b in self.blocks if b.name == name)

    def __repr__(self) -> str:
        groups = f"{len(self.keys):,} groups by {', '.join(self.by)}" if self.by else "one group"
        groups = groups if self.tables is None else f"{len(self.tables.tables)} tables"
        count = len(self.statistics)
        said = f"{count} statistic{'s' if count > 1 else ''} in {groups}, epsilon {plain(self.epsilon)}"
        return f"<ReleasePlan {self.schema}: {said}; print() shows it>"

    def groups(self, block: PlannedBlock) -> int:
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
        from dprelease.planning.explain import text  # explain renders this class

        return text(self)

    def _repr_html_(self) -> str:
        from dprelease.planning.explain import html

        return html(self)

    @property
    def guarantee(self) -> str:
        """The guarantee in one sentence, with epsilon, delta, adjacency and unit."""
        delta = f", delta={float(self.delta):.3g}" if self.delta else ""
        return (
            f"differentially private with epsilon={plain(self.epsilon)}{delta} "
            f"for {describe(self.adjacency, self.unit)}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON data; equal plans give equal JSON."""
        return {
            "dprelease": PLAN_VERSION,
            "schema": self.schema,
            "adjacency": self.adjacency.value,
            "unit": unit_to_json(self.unit),
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
            "loss": self.loss,
            "by": list(self.by),
            "keys": [list(k) for k in self.keys],
            "where": self.where,
            "window": None if self.window is None else [t.isoformat() for t in self.window],
            "statistics": [s.to_json() for s in self.statistics],
            "blocks": [b.to_json() for b in self.blocks],
            "query": task_to_json(self.query),
            "allow": list(self.allow),
            "notes": list(self.notes),
            **({} if self.composition is None else {"composition": self.composition.to_json()}),
            **({} if self.time is None else {"time": encode(self.time)}),
            **({} if self.tables is None else {"tables": self.tables.to_json()}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ReleasePlan:
        """Return the plan for re-checking a manifest; its query cannot be run."""
        keys = tuple(tuple(k) for k in value["keys"])
        query = task_from_json(value["query"], keys)
        window = value["window"]
        return cls(
            schema=value["schema"],
            adjacency=Adjacency(value["adjacency"]),
            unit=unit_from_json(value["unit"]),
            epsilon=fraction_from_json(value["epsilon"]),
            delta=fraction_from_json(value["delta"]),
            loss=value["loss"],
            by=tuple(value["by"]),
            keys=keys,
            where=value["where"],
            statistics=tuple(PlannedStatistic.from_json(s) for s in value["statistics"]),
            blocks=tuple(PlannedBlock.from_json(b) for b in value["blocks"]),
            query=query,
            window=None
            if window is None
            else (datetime.fromisoformat(window[0]), datetime.fromisoformat(window[1])),
            allow=tuple(value["allow"]),
            notes=tuple(value["notes"]),
            composition=Composition.from_json(value["composition"])
            if "composition" in value
            else None,
            time=decode(Time, value["time"]) if "time" in value else None,
            tables=PlannedTables.from_json(value["tables"]) if "tables" in value else None,
        )

    @property
    def hash(self) -> str:
        """SHA-256 of what the plan decides: its identity in ledger and manifest."""
        return plan_hash(self.to_json())


_WORDS = frozenset({"measure", "sensitivity", "error_text", "notes", "remark"})
"""What a plan says of a statistic in words: it decides nothing that is drawn or charged."""


def plan_hash(value: Mapping[str, Any]) -> str:
    """Return the hash of a plan's JSON, as it stands in a manifest, its words left out.

    A corrected unit or remark, or another wording of ours, must not block a run that crashed after
    its debit. What the words rest on stays in: laws, figures, and what is allowed without a proof.
    """
    decided = {
        **value,
        "notes": None,
        "statistics": [
            {name: part for name, part in statistic.items() if name not in _WORDS}
            for statistic in value["statistics"]
        ],
    }
    return hashlib.sha256(canonical_json(decided).encode()).hexdigest()
