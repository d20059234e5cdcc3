"""Moved to `dprelease.mechanisms.kernels.laplace`; this name stays until planning no longer uses it."""

from __future__ import annotations

from dprelease.mechanisms.kernels.laplace import CellNoise, DiscreteLaplaceNoise

__all__ = ["CellNoise", "DiscreteLaplaceNoise"]
