"""Moved to `dprelease.mechanisms.forms.scores`; this name stays until planning no longer uses it."""

from __future__ import annotations

from dprelease.mechanisms.forms.scores import CANDIDATE_LIMIT, ScoreLaw

__all__ = ["CANDIDATE_LIMIT", "ScoreLaw"]
