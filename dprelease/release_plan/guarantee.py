"""What a whole plan costs, added up again from what is proved about its blocks.

The wall calls this with proofs it has just recomputed from the laws' own integers. No price and no
total of the plan is believed: a block, a composition or a guarantee that states less than it costs
is refused.

Units: epsilon in nats. Sources: `docs/theory/composition.md#basic-composition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dprelease.budget.composition import SUMS, Proof, compose, total_rho
from dprelease.core.errors import InternalError
from dprelease.release_plan.plan import ReleasePlan


def composed(plan: ReleasePlan, proofs: Sequence[Proof]) -> Fraction:
    """Return the proved epsilon of the whole plan at its delta, from the blocks' own proofs.

    `proofs` are recomputed by the wall, in block order; here every block's claim is compared with
    its proof and the claims or proofs are added up by the method that the plan names.

    Raises:
        InternalError: a block or the plan claims less than it costs (DPR901).
    """
    method = "basic/1" if plan.composition is None else plan.composition.method
    for block, found in zip(plan.blocks, proofs, strict=True):
        claimed = sum(found.pure, Fraction(0))
        if found.rho is not None:
            short = block.rho is None or found.rho > block.rho or not plan.delta
            claimed = Fraction(0) if short else compose("normal/1", [found], plan.delta)
        else:
            short = block.rho is not None or found.delta > block.delta
        if short or claimed > block.epsilon:
            raise _underclaimed(
                f"block {block.name} costs more than it claims",
                f"the recomputed loss is above {block.epsilon}",
            )
    if method == "basic/1":
        if any(p.rho is not None for p in proofs):
            raise _underclaimed(
                "a Gaussian block is summed as if it were pure", "it has no pure loss"
            )
        total = sum((b.epsilon for b in plan.blocks), Fraction(0))
        if sum(p.delta for p in proofs) > plan.delta:
            raise _underclaimed("the plan costs more than its delta", "its noise ends too soon")
    else:
        if plan.delta <= 0 and method not in SUMS:
            raise _underclaimed("the plan composes with a delta it does not declare", "delta is 0")
        total = compose(method, proofs, plan.delta)
    if total > plan.epsilon:
        raise _underclaimed(
            "the blocks cost more than the plan",
            f"they add up to {total}, the plan says {plan.epsilon}",
        )
    stated = plan.composition
    if stated is not None and (
        stated.evidence.epsilon_upper < compose(method, proofs, plan.delta)
        or _rho_is_short(stated.evidence.rho, proofs)
    ):
        raise _underclaimed(
            "the plan's composition states less than it costs",
            f"it says epsilon {stated.evidence.epsilon_upper} and rho {stated.evidence.rho}",
        )
    return total


def _rho_is_short(stated: Fraction | None, proofs: Sequence[Proof]) -> bool:
    """Return whether a plan states less than the total rho; it states none where noise ends."""
    if stated is None or any(p.delta for p in proofs):
        return stated is not None or not any(p.delta for p in proofs)
    return stated < total_rho(proofs)


def _underclaimed(what: str, why: str) -> InternalError:
    return InternalError(
        what, why=why, fix="make the plan again with this version of dprelease", code="DPR901"
    )
