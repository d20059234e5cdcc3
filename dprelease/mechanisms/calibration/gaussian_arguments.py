"""What users hand to a bounded Gaussian, parsed: sides, sensitivities.

Units    the domain's unit; nats.
Sources  none.
Limits   none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, positive
from dprelease.mechanisms.calibration.gaussian_loss import Side
from dprelease.mechanisms.calibration.gaussian_scale import SensitivitySet, SideList
from dprelease.mechanisms.calibration.laplace_pairs import domain_pairs, domain_runs
from dprelease.schema.domain import Box, Domain

Answers = Literal["hull", "domain"]

PerSide = Number | Sequence[Number] | npt.NDArray[Any]
"""What may be given for a number per side: a list, tuple or array of them, or one that stands for all."""


@dataclass(frozen=True, slots=True)
class Capped:
    """An l2 sensitivity, and one of each coordinate by itself."""

    l2: Fraction
    per_coordinate: tuple[Fraction, ...]


Sensitivity = Fraction | tuple[Fraction, ...] | Capped
"""An l2 number, one number per side, or both."""


class BothLimits(TypedDict):
    """Both limits of a sensitivity, as they are given."""

    l2: Number
    per_coordinate: PerSide


SensitivityLike = PerSide | BothLimits | Capped
"""What may be given for a sensitivity."""


def sides_of(domain: object) -> SideList:
    if isinstance(domain, Domain):
        return (Side.from_domain(domain),)
    if isinstance(domain, Box):
        return tuple(Side.from_domain(side) for side in domain.sides)
    raise ArgumentError(
        "a bounded Gaussian needs a Domain or a Box",
        fix="write dp.Domain(lower, upper, forbidden=[...]) or dp.Box([(a, b), (c, d)])",
        code="DPR629",
    )


def _listed(value: object) -> list[object] | None:
    """Return the elements of a list, tuple or array; None for a single number."""
    if isinstance(value, np.ndarray):
        return list(value.tolist()) if value.ndim == 1 else None
    return list(value) if isinstance(value, list | tuple) else None


def as_argument(distance: Sensitivity) -> SensitivityLike:
    if isinstance(distance, Capped):
        return {"l2": distance.l2, "per_coordinate": list(distance.per_coordinate)}
    return list(distance) if isinstance(distance, tuple) else distance


def per_side(value: object, name: str, count: int) -> list[object]:
    """Return one value per side; a single one stands for all."""
    many = _listed(value)
    if many is None:
        return [value] * count
    if len(many) != count:
        raise ArgumentError(
            f"{name} has {len(many)} entries, the domain has {count} sides",
            fix=f"give one number, or {count}",
            code="DPR637",
        )
    return many


def limits_of(distance: Sensitivity) -> tuple[Fraction | None, tuple[Fraction, ...] | None]:
    """Return the l2 sensitivity and those per coordinate, None for what is not given."""
    if isinstance(distance, Capped):
        return distance.l2, distance.per_coordinate
    return (None, distance) if isinstance(distance, tuple) else (distance, None)


def sensitivity_of(value: object, count: int) -> Sensitivity:
    if isinstance(value, Capped):
        value = as_argument(value)
    if isinstance(value, Mapping):
        return _both_of(value, count)
    if _listed(value) is None:
        return positive(value, "sensitivity")
    parts = per_side(value, "sensitivity", count)
    distances = tuple(positive(v, "sensitivity", allow_zero=True) for v in parts)
    if not any(distances):
        raise ArgumentError(
            "every sensitivity is 0",
            why="without sensitivity there is nothing to protect",
            fix="give at least one coordinate a sensitivity above 0",
            code="DPR606",
        )
    return distances


def _both_of(value: Mapping[object, object], count: int) -> Sensitivity:
    if set(value) != {"l2", "per_coordinate"}:
        raise ArgumentError(
            "a sensitivity of two parts has an l2 part and one number per coordinate",
            fix='write {"l2": 2, "per_coordinate": [1, 2]}',
            code="DPR637",
        )
    l2 = positive(value["l2"], "sensitivity")
    parts = per_side(value["per_coordinate"], "sensitivity", count)
    per_coordinate = sensitivity_of(parts, count)
    assert isinstance(per_coordinate, tuple)
    return min(l2, per_coordinate[0]) if count == 1 else Capped(l2, per_coordinate)


def ratios_of(value: object, count: int) -> tuple[float, ...]:
    return tuple(float(positive(r, "scale_ratios")) for r in per_side(value, "scale_ratios", count))


def sensitivity_set(
    domain: Domain | Box, sides: SideList, distance: Sensitivity, answers: Answers
) -> SensitivitySet:
    if isinstance(distance, Capped):
        return SensitivitySet(
            l2=float(distance.l2), per_coordinate=tuple(float(s) for s in distance.per_coordinate)
        )
    if isinstance(distance, tuple):
        if answers == "domain" and isinstance(domain, Domain):
            distance = distance[0]
        else:
            return SensitivitySet(per_coordinate=tuple(float(s) for s in distance))
    if len(sides) > 1:
        return SensitivitySet(l2=float(distance))
    if answers == "hull" or sides[0].is_interval:
        return SensitivitySet(per_coordinate=(float(distance),))
    only = domain if isinstance(domain, Domain) else domain.sides[0]
    pairs = domain_pairs(only.exact_pieces, distance)
    if not pairs:
        raise ArgumentError(
            "no two answers are within the sensitivity of each other",
            why="the domain consists of points further apart",
            fix='use answers="hull"',
            code="DPR634",
        )
    full = max(t - s for s, t in pairs)
    runs = domain_runs(only.exact_pieces, distance) if full == distance else []
    return SensitivitySet(
        pairs=tuple((float(s), float(t - s)) for s, t in pairs),
        runs=tuple(runs),
    )


def check_chen_hale(
    sides: SideList, distance: Sensitivity, ratios: tuple[float, ...], slack: float
) -> Fraction:
    """Return the l2 sensitivity if the rule is proved for the request (DPR634 otherwise)."""
    reasons = [
        (not all(side.is_interval for side in sides), "its theorems are for intervals"),
        (
            isinstance(distance, Capped) or (isinstance(distance, tuple) and len(distance) > 1),
            "its sensitivity is one l2 number",
        ),
        (len(set(ratios)) > 1, "its noise has one scale"),
        (slack > 0, "its guarantee is pure"),
    ]
    for holds, why in reasons:
        if holds:
            raise ArgumentError(
                "rule chen_hale is not proved for this request",
                why=why,
                fix='use rule="exact"',
                code="DPR634",
            )
    assert not isinstance(distance, Capped)
    return distance[0] if isinstance(distance, tuple) else distance
