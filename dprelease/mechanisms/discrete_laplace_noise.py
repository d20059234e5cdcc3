"""Moved to `forms.vector` and `kernels.laplace`; these names stay until planning no longer uses them."""

from __future__ import annotations

from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise

__all__ = ["CellNoise", "DiscreteLaplaceNoise"]
