"""Boundary: truncate and renormalise, on a grid. Which form a truncated kernel takes.

Noise is conditioned on landing in the allowed set: nothing piles up at borders or gaps, and the
normaliser depends on the answer, so the scale is calibrated anew for each domain. Small hulls take
an integer table, wide ones the closed form.

The loss is concave in the sensitivity: splits over coordinates would add up to more, so there truncation
offers nothing.

Units    grid steps.
Sources  `docs/theory/kernels-and-boundaries.md#bounded-laplace`, `#bounded-gaussian`.
"""

from __future__ import annotations

from typing import Any, Protocol

from dprelease.errors import ArgumentError
from dprelease.mechanisms.forms.table import EPSILON_FLOOR, POINT_LIMIT
from dprelease.mechanisms.law import GridLaw, GridRequest

__all__ = ["truncated_from_json", "truncated_laws"]


class _Kind(Protocol):
    """A form with its kernel."""

    @classmethod
    def calibrate(cls, request: GridRequest) -> GridLaw: ...

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> GridLaw: ...


def truncated_laws(
    request: GridRequest, table: type[_Kind], closed_form: type[_Kind]
) -> list[GridLaw]:
    """Return the certified table, on wide grids the closed form; nothing for splits.

    Raises:
        ArgumentError: point masses are forbidden, so that there may be no other family, and epsilon is
            too small (DPR626) or the gaps of a wide grid are too wide (DPR627).
    """
    if request.splits:
        return []
    if request.allowed.hull_steps < POINT_LIMIT:
        if request.point_masses and request.epsilon < EPSILON_FLOOR:
            return []
        return [table.calibrate(request)]
    try:
        return [closed_form.calibrate(request)]
    except ArgumentError:
        if request.point_masses:
            return []
        raise


def truncated_from_json(
    value: dict[str, Any], table: type[_Kind], closed_form: type[_Kind]
) -> GridLaw:
    """Rebuild the table, or the closed form."""
    return (closed_form if value.get("form") == "wide" else table).from_json(value)
