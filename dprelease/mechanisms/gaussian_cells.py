"""Moved to `dprelease.mechanisms.forms.vector`; this name stays until planning no longer uses it."""

from __future__ import annotations

from dprelease.mechanisms.forms.vector import GaussianCells

__all__ = ["GaussianCells"]
