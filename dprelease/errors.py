"""Every error that users can catch: `from dprelease.errors import BudgetError`, or `dp.BudgetError`."""

from __future__ import annotations

from dprelease.core.errors import (
    ArgumentError,
    BudgetError,
    ConfigError,
    DpreleaseError,
    InternalError,
    LedgerError,
    NotReadWarning,
    PlanError,
    SourceError,
    UnledgeredWarning,
    VerificationError,
    WithheldError,
)

__all__ = [
    "ArgumentError",
    "BudgetError",
    "ConfigError",
    "DpreleaseError",
    "InternalError",
    "LedgerError",
    "NotReadWarning",
    "PlanError",
    "SourceError",
    "UnledgeredWarning",
    "VerificationError",
    "WithheldError",
]
