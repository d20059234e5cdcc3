"""Which values can be published at all: decided from public data, before the charge.

A cell can take a value if its domain holds it, its public total allows it, and its children can add
up to it. Bottom up, that set is the domain met with the Minkowski sum of the children's sets, so a
parent chosen from its set can always be shared among its children: after the charge nothing can
fail.

Units    steps.
Sources  `docs/theory/publications-that-add-up.md#feasible-values`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast

from dprelease.core.errors import PlanError
from dprelease.fitting.sets import Runs, added, holds, met, times
from dprelease.fitting.structure import Structure, Table

Domains = Mapping[str, Runs | Sequence[Runs]]
"""Per table one set for all cells, or one per cell; a table left out takes what its parts allow."""

ZERO: Runs = ((0, 0),)

WIDEST = 2**60
"""Largest absolute value, in steps: sums of what is compared stay inside 64 bits."""


@dataclass(frozen=True)
class Feasible:
    """`sets[table][cell]`: every value that the cell of a nested table can take, never empty.

    For a side (a margin beside the nested tables) it is the hull of what its cells can add up to.
    """

    sets: dict[str, list[Runs]]

    def hull(self, table: str) -> tuple[int, int]:
        """Return the least and the greatest value of any cell of a table."""
        return (
            min(runs[0][0] for runs in self.sets[table]),
            max(runs[-1][1] for runs in self.sets[table]),
        )


def feasible(
    structure: Structure, domains: Domains, totals: Mapping[str, Sequence[int]] | None = None
) -> Feasible:
    """Return what every cell can take.

    Raises:
        PlanError: some cell can take nothing (DPR281), the sets are in too many pieces (DPR282), or
            a margin beside the nested tables has a gap or a public total (DPR283).
    """
    totals = totals or {}
    sets: dict[str, list[Runs]] = {}
    below: list[Runs] | None = None
    for step in range(len(structure.chain) - 1, -1, -1):
        table = structure.tables[structure.chain[step]]
        sums = None
        if below is not None:
            parent = structure.parent(step + 1).tolist()
            _check_turns(below, parent, table.cells)
            sums = _sums(below, parent, table.cells)
        own = _own(structure, table, domains, totals, sums)
        for cell, runs in enumerate(own):
            if not runs:
                raise _nothing(table, cell)
        sets[table.name] = below = own
    for place in structure.sides:
        side = structure.tables[place]
        sets[side.name] = _side(structure, side, sets, domains, totals)
    made = Feasible(sets)
    for name in sets:
        if max(abs(end) for end in made.hull(name)) > WIDEST:
            raise PlanError(
                f"the table `{name}` can take values beyond 2^60 steps",
                fix="declare domains for all tables, or coarser steps",
                code="DPR282",
            )
    return made


def per_cell(domains: Domains, table: Table) -> Sequence[Runs] | None:
    """Return the domain of every cell of a table; None where none is declared."""
    declared = domains.get(table.name)
    if declared is None:
        return None
    if declared and isinstance(declared[0][0], int):
        return [cast("Runs", declared)] * table.cells
    if len(declared) != table.cells:
        raise PlanError(
            f"the table `{table.name}` has {table.cells} cells and {len(declared)} domains",
            fix="give one domain per cell",
            code="DPR281",
        )
    return cast("Sequence[Runs]", declared)


def _own(
    structure: Structure,
    table: Table,
    domains: Domains,
    totals: Mapping[str, Sequence[int]],
    sums: list[Runs] | None,
) -> list[Runs]:
    """Return every cell's domain, cut to its parts' sums, structural zeros and public totals."""
    declared = per_cell(domains, table)
    if declared is None and sums is None:
        raise PlanError(
            f"the table `{table.name}` has no domain",
            why="its cells are the finest, so nothing else says what they can be",
            fix="give the finest table a domain",
            code="DPR281",
        )
    if declared is None or sums is None:
        sets = list(declared or sums or ())
    else:
        sets = [met(a, b) for a, b in zip(declared, sums, strict=True)]
    for cell in structure.empty(table).nonzero()[0].tolist():
        sets[cell] = ZERO
    if table.name in totals:
        stated = totals[table.name]
        if len(stated) != table.cells:
            raise PlanError(
                f"the table `{table.name}` has {table.cells} cells and {len(stated)} public totals",
                fix="state one total per cell",
                code="DPR281",
            )
        sets = [
            met(runs, ((int(total), int(total)),)) for runs, total in zip(sets, stated, strict=True)
        ]
    return sets


def _sums(below: list[Runs], parent: list[int], cells: int) -> list[Runs]:
    """Return the Minkowski sum of the children's sets of every parent."""
    inside: list[Counter[Runs]] = [Counter() for _ in range(cells)]
    for runs, up in zip(below, parent, strict=True):
        inside[up][runs] += 1

    @cache
    def total(parts: tuple[tuple[Runs, int], ...]) -> Runs:
        out: Runs = ZERO
        for runs, count in parts:
            out = added(out, repeated(runs, count))
        return out

    repeated = cache(times)
    return [total(tuple(sorted(count.items()))) for count in inside]


def _check_turns(below: list[Runs], parent: list[int], cells: int) -> None:
    """Add up the sets of every parent's children from the last one on, as `mending` may have to.

    Sums of some children can be in more pieces than that of all: DPR282 now, and never after the charge.
    """
    sets: list[list[Runs]] = [[] for _ in range(cells)]
    for runs, up in zip(below, parent, strict=True):
        sets[up].append(runs)
    turn = cache(added)
    for children in sets:
        if any(len(runs) > 1 for runs in children):
            rest = ZERO
            for runs in reversed(children):
                rest = turn(runs, rest)


def _side(
    structure: Structure,
    side: Table,
    sets: Mapping[str, list[Runs]],
    domains: Domains,
    totals: Mapping[str, Sequence[int]],
) -> list[Runs]:
    """Return the hulls of a margin's sums, which its domain must hold whole."""
    if side.name in totals:
        raise _crossing_error(side, "public totals")
    finest = sets[structure.finest.name]
    roots = sets[structure.tables[structure.chain[0]].name]
    low, high = [0] * side.cells, [0] * side.cells
    for runs, cell in zip(finest, side.of.tolist(), strict=True):
        low[cell] += runs[0][0]
        high[cell] += runs[-1][1]
    if min(runs[0][0] for runs in finest) >= 0:  # a part is at most the whole
        whole = sum(runs[-1][1] for runs in roots)
        high = [min(top, whole) for top in high]
    hulls: list[Runs] = [((a, b),) for a, b in zip(low, high, strict=True)]
    for hull, domain in zip(hulls, per_cell(domains, side) or hulls, strict=True):
        if met(hull, domain) != hull:
            gaps = "allow all values in it" if len(domain) > 1 else None
            raise _crossing_error(side, "a domain that leaves out sums of its cells", gaps)
    return hulls


def check_pair(structure: Structure, count: Feasible, sums: Feasible, low: int, high: int) -> None:
    """Check, in public, that every count leaves a sum: low * count <= sum <= high * count.

    Raises:
        PlanError: a sum has a gap or a public total, or its domain cuts what a count allows
            (DPR284).
    """
    for table in structure.tables:
        for counts, allowed in zip(count.sets[table.name], sums.sets[table.name], strict=True):
            ends = [k * c for k in (low, high) for c in (counts[0][0], counts[-1][1])]
            if not (
                len(allowed) == 1
                and counts[0][0] >= 0
                and holds(allowed, min(ends))
                and holds(allowed, max(ends))
            ):
                raise PlanError(
                    f"the domain of a sum in the table `{table.name}` does not fit the domain of its count",
                    why="for each allowed count k, every sum from k times low to k times high must be allowed",
                    fix="let the sum's domain be whole and as wide as the counts make it",
                    code="DPR284",
                )


def _nothing(table: Table, cell: int) -> PlanError:
    return PlanError(
        f"no value is possible for cell {cell + 1} of the table `{table.name}`",
        why="its domain, its public total and what its parts can add up to have nothing in common",
        fix="widen the domains, forbid less, or mend the totals",
        code="DPR281",
    )


def _crossing_error(side: Table, what: str, fix: str | None = None) -> PlanError:
    whole = (
        "publish its statistics in the table of all rows too (`by: []`), which caps every margin"
    )
    return PlanError(
        f"the table `{side.name}` crosses the others and has {what}",
        why="margins that cross each other need not have a common table then",
        fix=f"{fix or whole}, or leave this one out",
        code="DPR283",
    )
