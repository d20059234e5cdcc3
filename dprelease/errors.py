"""Every error that users can catch: `from dprelease.errors import BudgetError`, or `dp.BudgetError`."""

from __future__ import annotations

from dprelease.core.errors import *  # noqa: F403
from dprelease.core.errors import __all__ as __all__  # noqa: PLC0414
