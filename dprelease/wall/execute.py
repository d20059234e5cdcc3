"""The wall: the only place that sees both an exact answer and a random bit.

Left of it everything is public metadata, right of it everything is noised. `execute` trusts no
price: before anything is charged it recomputes every sensitivity from the bounded query and every
certificate from the law's own integers, and refuses a plan that claims less than it costs.

Order: check, charge, compute exact integers, draw inside the ledger's transaction,
hand out noisy integers. Nothing after the charge depends on the data in whether it succeeds: the
engine is total, draws are total, and what is committed has a fixed width, or that of the keys it publishes.

Sources: `docs/theory/the-wall-and-the-ledger.md#the-wall`, `#the-charge-comes-first`.

Attack model: the observer sees released integers, names, plan and ledger; not memory, not timing.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, cast

from dprelease.budget.composition import Proof, total_rho
from dprelease.core import registry
from dprelease.core.entropy import RandomBits, SystemBits
from dprelease.core.errors import UNREADABLE, InternalError, SourceError
from dprelease.core.secret import Secret
from dprelease.engines.engine import Engine
from dprelease.engines.source import Source
from dprelease.measurements.base import family_of
from dprelease.measurements.law import Objects
from dprelease.query.answer import Answer
from dprelease.query.bounded import MOST_FOUND, BoundedQuery, GroupKeys, Primitive
from dprelease.query.graph import SPARSE
from dprelease.query.intervals import intervals_of
from dprelease.release_plan.block import Block, Cells
from dprelease.release_plan.guarantee import composed
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import decode as cells_of
from dprelease.results.draw import payload_of
from dprelease.statistics.exact import exact_cells
from dprelease.statistics.graph_sensitivity import OBSERVED
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall.parts import believed, misfit
from dprelease.wall.recompute import recompute, unproved

Exact = Secret[Answer]
Once = Callable[[Callable[[], bytes]], bytes] | None


def check(plan: ReleasePlan) -> Fraction:
    """Recompute all sensitivities and certificates; return the proved epsilon at the plan's delta.

    Raises:
        InternalError: the plan claims less than it costs (DPR901), or a block measures something else (DPR902).
    """
    read = believed(plan)
    return composed(read, _proofs(read))


def concentrated(plan: ReleasePlan) -> Fraction | None:
    """Return the plan's proved rho, recomputed, for datasets whose budget composes by zCDP; None where noise ends.

    Raises:
        InternalError: as `check`.
    """
    found = _proofs(believed(plan))
    return None if any(proof.delta for proof in found) else total_rho(found)


def _proofs(plan: ReleasePlan) -> list[Proof]:
    what, found = "the parts of the plan do not fit each other", []
    try:
        wrong = misfit(plan)
        if wrong:
            raise unproved(wrong, what)
        for block in plan.blocks:
            law, s = block.law, _sensitivity(plan, block)
            proof = law.proved(s) if s.types else law.proof(s)
            if law.bound is not None:
                proof = _counted_again(law.tag)(proof, law.to_json(), s)
            found.append(proof)
    except UNREADABLE:  # what is raised for a place that the plan does not have has no code
        why = "a block names a primitive, a code, a table or cells that the plan does not have"
        raise unproved(why, what) from None
    return found


def _counted_again(tag: str) -> Callable[[Proof, dict[str, Any], Sensitivity], Proof]:
    """Return the wall's own proof of a law, which asks the law for its JSON alone."""
    return cast("Callable[..., Proof]", registry.load("second_proofs", tag))


def _sensitivity(plan: ReleasePlan, block: Block) -> Sensitivity:
    """Recompute the sensitivity to one unit, from what the engine sums and the declared unit alone."""
    measurement = block.measurement
    if min(measurement.primitives, default=0) < 0:
        raise unproved(f"block {block.name} counts its sums from the last one")
    why = family_of(measurement).refusal(measurement, block.law, plan.query, measurement.primitives)
    if why:
        raise unproved(why, f"block {block.name} draws something else than its measurement says")
    if measurement.form in OBSERVED and not any(SPARSE in note for note in plan.notes):
        what = f"block {block.name} is not proved, and the plan does not say so"
        raise unproved("a sparse eigenvalue's numerical error is observed only", what)
    return recompute(
        plan.query,
        measurement,
        measurement.primitives,
        measurement.max_rows,
        unit=plan.unit,
        adjacency=plan.adjacency,
        groups=MOST_FOUND if plan.query.groups.found else len(plan.keys),
        whole=plan.where is None and plan.window is None,
        per=intervals_of(plan.unit, plan.time),
        merge=None if plan.tables is None else plan.tables.sums(block.table),
    )


def check_size(plan: ReleasePlan, source: Source, engine: Engine) -> None:
    """Refuse, before the charge, a table without the declared public number of rows.

    Under substitution all neighbours have equally many rows, so this count is not private.

    Raises:
        SourceError: the table has another number of rows (DPR508).
    """
    declared = {b.measurement.public_rows for b in plan.blocks} - {None}
    if not declared:
        return
    count = BoundedQuery(
        plan.query.columns,
        GroupKeys((), ((),)),
        (),
        (Primitive("rows", max_rows=1),),
        view=plan.query.view,
        missing=plan.query.missing,
    )
    if {int(engine.compute(source, count, b"").reveal_to_mechanism().sums[0, 0])} != declared:
        raise SourceError(
            "the table does not have the public number of rows that the schema declares",
            why="its sums and variances are priced for exactly that number",
            fix="correct `rows: {exact: ...}` in the schema, or leave it out",
            code="DPR508",
        )


def draw(
    plan: ReleasePlan, exact: Exact, *, bits: RandomBits | None = None, once: Once = None
) -> Cells:
    """Draw every block, as `drawn` does, and return the noisy integers."""
    return cells_of(plan, drawn(plan, exact, bits=bits, once=once))


def drawn(
    plan: ReleasePlan, exact: Exact, *, bits: RandomBits | None = None, once: Once = None
) -> bytes:
    """Draw every block from the exact primitives; return the noisy integers, with the keys that were found.

    Args:
        bits: must be the system's, else InternalError (DPR903); the argument exists so that tests can see it refused.
        once: the ledger's `draw_once`, which draws inside its transaction and returns the committed bytes.
    """
    source = SystemBits() if bits is None else bits
    if type(source) is not SystemBits:
        raise InternalError(
            "a release draws from the operating system's generator only",
            why="a repeatable source would let anyone subtract the noise",
            fix="do not pass `bits`",
            code="DPR903",
        )
    answer = exact.reveal_to_mechanism()

    # All that could go wrong happens before the transaction: inside it there is only drawing.
    blocks = believed(plan).blocks
    answers = [*map(partial(_cells, plan, answer), blocks)]

    def payload() -> bytes:
        made = []
        for block, cells in zip(blocks, answers, strict=True):
            made.append(block.law.draw(cells, source))
        return payload_of(made, answer.keys)

    return payload() if once is None else once(payload)


def _cells(plan: ReleasePlan, answer: Answer, block: Block) -> Objects:
    measurement = block.measurement
    merge = None if plan.tables is None else plan.tables.sums(block.table)
    return exact_cells(measurement, measurement.primitives, answer, len(answer.sums), merge)
