"""S(ab) of two columns and its mirror images: one row adds exactly Ka Kb."""

from __future__ import annotations

from dprelease.measurements.columns import Columns


class SoftTable(Columns):
    """Four cells, whose shares are a covariance."""

    family = "soft_table"
    nowhere_negative = True
    way = "four cells of both columns"
