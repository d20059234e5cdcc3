"""The wall: the only place that sees both an exact answer and a random bit.

Left of it everything is public metadata, right of it everything is noised. `execute` trusts no
price: before anything is charged it recomputes every sensitivity from the bounded query and every
certificate from the law's own integers, and refuses a plan that claims less than it costs.

Order (reliability 2): check, charge, compute exact integers, draw inside the ledger's transaction,
hand out noisy integers. Nothing after the charge depends on the data in whether it succeeds: the
engine is total, draws are total, and what is committed has a fixed width.

Attack model: the observer sees released integers, names, plan and ledger; not memory, not timing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from dprelease.aggregates.encoding import Encoding
from dprelease.entropy import RandomBits, SystemBits
from dprelease.errors import InternalError
from dprelease.planning.draws import RAW_LIMIT, Objects, draw_from_json
from dprelease.planning.model import ReleasePlan
from dprelease.query.bounded import BoundedQuery
from dprelease.schema.unit import UserUnit
from dprelease.secret import Secret
from dprelease.sensitivity import Sensitivity, row_moves, sensitivity, unit_bounds

__all__ = ["CELL_BYTES", "Engine", "Exact", "check", "decode", "draw", "width"]

CELL_BYTES = 16
"""Every noisy integer is stored in this many bytes, big-endian, two's complement."""

Exact = Secret[Objects]
Cells = dict[str, tuple[tuple[int, ...], ...]]


class Engine(Protocol):
    """Computes the primitives of a bounded query exactly."""

    def compute(self, source: object, query: BoundedQuery, salt: bytes) -> Exact:
        """Return integers, shape `(groups, primitives)`; never raises because of the data."""


def check(plan: ReleasePlan) -> Fraction:
    """Recompute all sensitivities and certificates; return the proved total loss.

    Raises:
        InternalError: the plan claims less than it costs (DPR901), or a block does not measure
            what its encoding says (DPR902).
    """
    total = Fraction(0)
    for block in plan.blocks:
        proved = draw_from_json(block.law).certify(_sensitivity(plan, block.encoding))
        if proved > block.epsilon:
            raise InternalError(
                f"block {block.name} costs more than it claims",
                why=f"the recomputed loss is above {block.epsilon}",
                fix="make the plan again with this version of dprelease",
                code="DPR901",
            )
        total += block.epsilon
    if total > plan.epsilon:
        raise InternalError(
            "the blocks cost more than the plan",
            why=f"they add up to {total}, the plan says {plan.epsilon}",
            fix="make the plan again with this version of dprelease",
            code="DPR901",
        )
    return total


def _sensitivity(plan: ReleasePlan, stored: Mapping[str, Any]) -> Sensitivity:
    """Recompute what one unit can move, from what the engine sums and the declared unit alone."""
    encoding = Encoding.from_json(dict(stored))
    query, rows = plan.query, tuple(stored["primitives"])
    bounds = unit_bounds(plan.unit, stored["max_rows"], len(plan.keys))
    per_unit = bool(rows) and all(query.primitives[i].kind == "persons" for i in rows)
    honest = (
        all((query.primitives[i].max_rows or 1) <= bounds.rows for i in rows)
        and query.max_groups <= bounds.groups
        and (query.user is not None) == isinstance(plan.unit, UserUnit)
        and len(query.groups.keys) == len(plan.keys)
    )
    if not honest:
        raise InternalError(
            "the query does not bound contributions as the plan says",
            why="rows per unit, groups per unit or the groups differ",
            fix="make the plan again with this version of dprelease",
            code="DPR902",
        )
    if encoding.family == "truncated_mean":  # its cells are a size and a sum, not an L1 vector
        per_row, per_swap = row_moves(query, _only_size(encoding), rows[:1])
    else:
        per_row, per_swap = row_moves(query, encoding, rows)
    recomputed = replace(encoding, per_row=per_row, per_swap=per_swap, per_unit=per_unit)
    return sensitivity(recomputed, bounds, plan.adjacency, len(plan.keys))


def _only_size(encoding: Encoding) -> Encoding:
    return replace(encoding, weights=(encoding.weights[0][:1],))


def draw(
    plan: ReleasePlan,
    exact: Exact,
    *,
    bits: RandomBits | None = None,
    once: Callable[[Callable[[], bytes]], bytes] | None = None,
) -> Cells:
    """Draw every block from the exact primitives and return the noisy integers.

    Args:
        exact: the engine's answer for `plan.query`.
        bits: must be the system's; the argument exists so that tests can see it refused.
        once: the ledger's `draw_once`, which runs the draw inside its transaction and returns the
            committed bytes; None for an unledgered release.

    Raises:
        InternalError: the bits are not the system's (DPR903).
    """
    source = SystemBits() if bits is None else bits
    if type(source) is not SystemBits:
        raise InternalError(
            "a release draws from the operating system's generator only",
            why="a repeatable source would let anyone subtract the noise",
            fix="do not pass `bits`",
            code="DPR903",
        )
    primitives = exact.reveal_to_mechanism()

    def drawn() -> bytes:
        parts = []
        for block in plan.blocks:
            cells = _cells(block.encoding, primitives, len(plan.keys))
            raw = draw_from_json(block.law).draw(cells, source)
            parts += [int(v).to_bytes(CELL_BYTES, "big", signed=True) for v in raw.ravel()]
        return b"".join(parts)

    return decode(plan, drawn() if once is None else once(drawn))


def _cells(
    stored: Mapping[str, Any], primitives: Objects, groups: int
) -> Objects:
    """Return exact cells `(groups, cells)` as Python integers."""
    encoding, rows = Encoding.from_json(dict(stored)), stored["primitives"]
    chosen = primitives[:, list(rows)].astype(object) if rows else np.zeros((groups, 0), dtype=object)
    cells = np.zeros((groups, max(1, len(encoding.weights))), dtype=object)
    for i, weight in enumerate(encoding.weights):
        for j, w in enumerate(weight):
            if w:
                cells[:, i] = cells[:, i] + w * chosen[:, j]
    if encoding.quadratic:
        n = encoding.public_rows
        cells = (n * chosen[:, 1] - chosen[:, 0] * chosen[:, 0])[:, None]
    return cells


def width(plan: ReleasePlan) -> int:
    """Return the number of bytes of the plan's payload: a public constant."""
    return CELL_BYTES * len(plan.keys) * sum(len(b.cells) for b in plan.blocks)


def decode(plan: ReleasePlan, payload: bytes) -> Cells:
    """Return the noisy integers of a committed payload, per block `(groups, cells)`."""
    values = [
        int.from_bytes(payload[i : i + CELL_BYTES], "big", signed=True)
        for i in range(0, len(payload), CELL_BYTES)
    ]
    out: Cells = {}
    at = 0
    for block in plan.blocks:
        n = len(block.cells)
        out[block.name] = tuple(
            tuple(values[at + g * n : at + (g + 1) * n]) for g in range(len(plan.keys))
        )
        at += n * len(plan.keys)
    return out


assert RAW_LIMIT < 1 << (8 * CELL_BYTES - 1)
