"""Moved to `dprelease.mechanisms.certifiers.box_gaussian`; this name stays until planning no longer uses it."""

from __future__ import annotations

from dprelease.mechanisms.certifiers.box_gaussian import BoundedGaussianBoxLaw

__all__ = ["BoundedGaussianBoxLaw"]
