"""Boundary: truncate and renormalise, on a grid. Which form a truncated kernel takes.

Noise is conditioned on landing in the allowed set: nothing piles up at borders or gaps, and the
normaliser depends on the answer, so the scale is calibrated anew for each domain. Small hulls take
an integer table. Wide ones take the closed form, and so do those with a gap in which every weight of the table
comes near its floor: from there the table would draw any allowed point, however far.

The loss is concave in the sensitivity: splits over coordinates would add up to more, so there truncation
offers nothing.

Units    grid steps.
Sources  `docs/theory/kernels-and-boundaries.md#bounded-laplace`, `#bounded-gaussian`.
"""

from __future__ import annotations

from collections.abc import Callable

from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.forms.closed_form import gaps_too_wide
from dprelease.mechanisms.forms.table import EPSILON_FLOOR, POINT_LIMIT, TableLaw
from dprelease.mechanisms.law import GridLaw, GridRequest

MOST_OFF = 2.0**-20
"""A table whose floor may move the law of an answer by more, in total variation, is not offered."""


def truncated_laws(
    request: GridRequest,
    table: Callable[[GridRequest], TableLaw],
    closed_form: Callable[[GridRequest], GridLaw],
) -> list[GridLaw]:
    """Return the certified table, on wide grids and in deep gaps the closed form; nothing for splits.

    Args:
        table, closed_form: make a law of either form.

    Raises:
        ArgumentError: point masses are forbidden, so that there may be no other family, and epsilon is
            too small (DPR626), the closed form refuses a wide grid (DPR624, DPR627), or neither form takes
            gaps as deep as these (DPR627).
    """
    if request.splits:
        return []
    small = request.allowed.hull_steps < POINT_LIMIT
    if small:
        if request.point_masses and request.epsilon < EPSILON_FLOOR:
            return []
        law = table(request)
        if law.off <= MOST_OFF:
            return [law]
    try:
        return [closed_form(request)]
    except ArgumentError:
        if request.point_masses:
            return []
        if small:
            raise gaps_too_wide() from None
        raise
