"""What a plan says of the sensitivity of statistics of a graph.

Units: numbers of edges.
"""

from __future__ import annotations

from fractions import Fraction

from dprelease.aggregates.encoding import Encoding
from dprelease.numeric import shown
from dprelease.planning.layout import Member
from dprelease.sensitivity import Sensitivity

__all__ = ["graph_text"]


def graph_text(s: Sensitivity, encoding: Encoding, member: Member) -> str:
    """Return the sensitivity of one statistic of a graph, rounding included."""
    if s.each:
        place = member.view or 0
        moved = s.each[place] * (encoding.pitch if place == 0 else Fraction(1))
        return f"{shown(moved)}, together with {len(s.each) - 1} more"
    if encoding.family == "laplacian":
        return f"{shown(s.total * encoding.pitch)} over the whole spectrum"
    return shown(s.total * encoding.pitch)
