"""Runs that the built-in rules alone validate, where a test is not about Great Expectations.

It takes two processor seconds to import, and a fifth of one for each table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from dprelease.pipeline import preflight, stages
from dprelease.results.draw import Draw
from dprelease.results.validate import gx_process
from dprelease.results.validate.rules import check
from dprelease.results.validate.verdict import Verdict

__all__ = ["built_in_rules_only", "leave_out_great_expectations", "rules_alone"]


def _validated(noised: Draw, *, great_expectations: bool) -> Verdict:
    return check(noised)


def _nothing() -> None:
    pass


def built_in_rules_only(patch: pytest.MonkeyPatch) -> None:
    """Validate by the rules alone until `patch` is undone."""
    patch.setattr(stages, "validated", _validated)
    patch.setattr(preflight, "require_validator", _nothing)
    patch.setattr(gx_process, "begin", _nothing)


def leave_out_great_expectations() -> None:
    """Validate by the rules alone until this process ends."""
    built_in_rules_only(pytest.MonkeyPatch())


@contextmanager
def rules_alone() -> Iterator[None]:
    """Validate by the rules alone meanwhile."""
    with pytest.MonkeyPatch.context() as patch:
        built_in_rules_only(patch)
        yield
