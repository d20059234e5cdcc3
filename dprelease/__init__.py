"""dprelease: differentially private releases whose every number is valid. Registers `df.dp`.

Importing this module imports pandas (for the accessor) and nothing else that is heavy: the rest is
loaded when it is first used (PEP 562). It changes no warning filter and patches nothing; a finder of
modules waits for polars, whose frames get `.dp` whichever is imported first. The `dprelease` command
has no frame to hang an accessor on, so there pandas is left out: `--help` takes a fraction of the
second that pandas alone would take.
"""

from __future__ import annotations

import sys
from importlib import import_module
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from dprelease import errors
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

if TYPE_CHECKING:
    from dprelease import accessor, diagnostics, mechanisms
    from dprelease.accessor import Accessor
    from dprelease.budget.view import open_ledger
    from dprelease.facade import draft_schema, keys, plan, release, run, sql
    from dprelease.pipeline.new_ledger import create_ledger
    from dprelease.query.load import Schema
    from dprelease.reading.changes import diff
    from dprelease.reading.derived import Derived
    from dprelease.reading.publication import Publication, Series, read, read_series
    from dprelease.reading.released import Released
    from dprelease.release_plan.plan import ReleasePlan
    from dprelease.released import Keys, Release
    from dprelease.schema.domain import Box, Domain
    from dprelease.verification.verify import verify

__version__ = "0.3.0.dev0"

__all__ = [
    "Accessor",
    "ArgumentError",
    "Box",
    "BudgetError",
    "ConfigError",
    "Derived",
    "Domain",
    "DpreleaseError",
    "InternalError",
    "Keys",
    "LedgerError",
    "NotReadWarning",
    "PlanError",
    "Publication",
    "Release",
    "ReleasePlan",
    "Released",
    "Schema",
    "Series",
    "SourceError",
    "UnledgeredWarning",
    "VerificationError",
    "WithheldError",
    "__version__",
    "accessor",
    "create_ledger",
    "diagnostics",
    "diff",
    "draft_schema",
    "errors",
    "keys",
    "mechanisms",
    "open_ledger",
    "plan",
    "read",
    "read_series",
    "release",
    "run",
    "sql",
    "verify",
]

_LAZY = {
    "accessor": ("Accessor", ""),
    "budget.view": ("open_ledger",),
    "diagnostics": ("",),
    "facade": ("draft_schema", "keys", "plan", "release", "run", "sql"),
    "mechanisms": ("",),
    "pipeline.new_ledger": ("create_ledger",),
    "query.load": ("Schema",),
    "reading.changes": ("diff",),
    "reading.derived": ("Derived",),
    "reading.publication": ("Publication", "Series", "read", "read_series"),
    "reading.released": ("Released",),
    "release_plan.plan": ("ReleasePlan",),
    "released": ("Keys", "Release"),
    "schema.domain": ("Box", "Domain"),
    "verification.verify": ("verify",),
}
"""Public names by the module that has them; "" is the module itself."""

_MODULE_OF = {name or module: module for module, names in _LAZY.items() for name in names}


if not TYPE_CHECKING:  # to a type checker it would make every misspelled name an Any

    def __getattr__(name: str) -> Any:
        """Load a public name on first use; any other name is an ordinary AttributeError."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'dprelease' has no attribute {name!r}")
        module = import_module(f"dprelease.{_MODULE_OF[name]}")
        value = module if name == _MODULE_OF[name] else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)


def _is_command(program: str) -> bool:
    """Whether `program` (sys.argv[0]) is the installed `dprelease` script, or `python -m dprelease`."""
    if program == "-m":  # while the module is looked for
        return ("-m", __name__) in pairwise(sys.orig_argv)
    return PurePath(program).name in ("dprelease", "dprelease.exe")


if not _is_command(sys.argv[0] if getattr(sys, "argv", None) else ""):
    import_module("dprelease.accessor")
