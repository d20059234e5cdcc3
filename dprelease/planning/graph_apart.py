"""What a box of statistics would cost drawn one by one: priced, named in the plan, not chosen.

A pin to one law over a box is the publisher's choice; the plan says beside it what other laws reach
at an equal share of the same epsilon, so that the choice is an informed one.

Units: errors in the statistic's unit (or its square).
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.errors import ArgumentError
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.planning.choose import Loss
from dprelease.planning.layout import Member
from dprelease.planning.model import Option
from dprelease.planning.share import Priced

__all__ = ["apart"]


def apart(member: Member, priced: Priced, loss: Loss) -> list[Option]:
    """Return the best law of `member` by itself, and the best one without atoms, as options."""
    place, several = member.view or 0, len(priced.block.members)
    pitch = priced.best.encoding.pitch if place == 0 else Fraction(1)
    share = priced.share.epsilon / several
    note = f"by itself at epsilon/{several}"
    out = []
    for spikes in (True, False):
        request = GridRequest(
            member.domain.on_grid(pitch), priced.sensitivity.each[place], share, loss, spikes
        )
        try:
            laws = grid_laws(request)
        except ArgumentError:
            continue
        if not laws:
            continue
        best = min(laws, key=lambda law: law.expected_error().average)
        error = best.expected_error()
        unit = float(pitch if loss == "absolute" else pitch * pitch)
        said = note if spikes else f"{note}, without spikes"
        out.append(Option(best.family, error.average * unit, error.worst * unit, said))
    return out
