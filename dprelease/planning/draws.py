"""How a block is drawn, certified and read back: one small class per encoding family.

A `Draw` is public: the law, how many groups one unit can touch, the grid. It offers

    certify(s)   the exact loss of the whole block for a sensitivity s, recomputed from scratch
    draw         exact cells -> noisy integers; the wall is its only caller
    cells, box   noisy integers -> cell values and their confidence box: post-processing
    to_json      everything needed to do all of that again, with no data

Privacy of a block. `linear`: the law's loss is linear in the shift (discrete Laplace), so one
certificate at the L1 sensitivity over all groups covers every way a unit can spread it.
Otherwise each touched group is charged by itself, sequentially: touched * loss(in_group).

Units: grid steps; epsilon in nats. Shapes: exact and raw `(groups, cells)`, Python integers.
Sources: `docs/theory/sensitivities-and-contribution-bounding.md#several-groups`,
`docs/theory/certificates.md#what-a-certificate-says`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprelease.budget.composition import Proof
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.numeric import fraction_from_json, whole_from_json
from dprelease.planning.box_draw import BoxDraw
from dprelease.planning.cell_draws import (
    RAW_LIMIT,
    CellDraw,
    ConstantDraw,
    Draw,
    Objects,
    ScalarDraw,
    scalar_from_json,
    steps_moved,
)
from dprelease.planning.choice_draw import ChoiceDraw, choice_from_json
from dprelease.planning.gaussian_draw import GaussianDraw, gaussian_from_json
from dprelease.planning.mean_draw import MeanDraw, mean_reach
from dprelease.schema.domain import GridSet
from dprelease.sensitivity import Sensitivity

__all__ = [
    "RAW_LIMIT",
    "BoxDraw",
    "CellDraw",
    "ChoiceDraw",
    "ConstantDraw",
    "Draw",
    "GaussianDraw",
    "MeanDraw",
    "Objects",
    "ScalarDraw",
    "draw_from_json",
    "mean_reach",
    "proof",
    "steps_moved",
]


def proof(draw: Draw, sensitivity: Sensitivity) -> Proof:
    """Return what is proved about a whole block, recomputed from scratch.

    A law charged per touched group is that many independent pure losses (each group is drawn by
    itself, and one unit moves at most `touched` of them), which composition may use; every other
    pure block is one loss, a Gaussian block one rho.

    Raises:
        InternalError: it claims too little (DPR901).
    """
    if isinstance(draw, GaussianDraw):
        return Proof(rho=draw.rho(sensitivity))
    total = draw.certify(sensitivity)
    if isinstance(draw, ScalarDraw) and not draw.linear:
        return Proof(pure=(total / draw.touched,) * draw.touched)
    return Proof(pure=(total,) if total else ())


def draw_from_json(value: Mapping[str, Any]) -> Draw:
    """Rebuild a draw from `to_json`; raises as `law_from_json` does."""
    match value["draw"]:
        case "constant":
            return ConstantDraw(whole_from_json(value["value"]))
        case "scalar":
            return scalar_from_json(value)
        case "cells":
            upper = value["upper"]
            return CellDraw(
                CellNoise.from_json(value["law"]),
                whole_from_json(value["count"], least=1),
                None if upper is None else whole_from_json(upper),
                value["mechanism"],
            )
        case "gaussian":
            return gaussian_from_json(value)
        case "box":
            return BoxDraw.from_json(value["law"])
        case "choice":
            return choice_from_json(value)
        case _:
            return MeanDraw(
                size=scalar_from_json(value["size"]),
                allowed=GridSet(
                    tuple((whole_from_json(a), whole_from_json(b)) for a, b in value["allowed"])
                ),
                step=fraction_from_json(value["step"]),
                reach=fraction_from_json(value["reach"]),
                epsilon=fraction_from_json(value["epsilon"]),
                moves=whole_from_json(value["moves"], least=1),
                scale=whole_from_json(value["scale"], least=1),
                pitch=fraction_from_json(value["pitch"]),
                offset=fraction_from_json(value["offset"]),
                mechanism=value["mechanism"],
                loss=value["loss"],
            )
