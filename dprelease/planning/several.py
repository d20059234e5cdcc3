"""What a plan says about the sensitivity of a statistic of several columns."""

from __future__ import annotations

from dprelease.aggregates.encoding import Encoding
from dprelease.aggregates.spectrum import square_width
from dprelease.planning.layout import Member
from dprelease.sensitivity import Sensitivity

__all__ = ["WAYS", "several_text"]

WAYS = {
    "soft_table": "four cells of both columns",
    "tensor": "nine cells of both columns",
    "pairs": "cells of every column and pair",
    "spectrum": "noise on the eigenvalues",
    "matrix": "noise on the covariance matrix",
}
"""How an encoding family is drawn, for the options of a plan."""


def several_text(s: Sensitivity, encoding: Encoding, member: Member) -> str:
    """Return the sensitivity of cells in words: rows of the columns' boxes."""
    if encoding.form in ("spectrum", "matrix"):
        move = float(s.total * encoding.pitch * square_width(encoding.axes))
        unit = f" {member.measure}" if member.measure else ""
        where = "all eigenvalues" if encoding.form == "spectrum" else "the matrix"
        return f"{move:.4g}{unit} over {where}"
    rows = s.total // encoding.per_row
    measures = [c.measure for c in member.statistic.columns] or [None] * len(encoding.axes)
    spans = []
    for axis, measure in zip(encoding.axes, measures, strict=True):
        low, high = float(axis.offset), float(axis.offset + axis.width)
        spans.append(f"[{low:g}, {high:g}]" + (f" {measure}" if measure else ""))
    shown = spans if len(spans) <= 3 else [*spans[:2], "…"]
    return f"{rows} row{'s' if rows > 1 else ''} in {' × '.join(shown)}"
