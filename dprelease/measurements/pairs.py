"""One set of Bernstein cells per column and four cells per pair of columns."""

from __future__ import annotations

from dprelease.measurements.columns import Columns


class Pairs(Columns):
    """Cells of every column and pair."""

    family = "pairs"
    forms = ("pairs",)
    way = "cells of every column and pair"
