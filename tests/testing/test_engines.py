"""The engine contract finds an engine that counts too much, or by the table's order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import Source
from dprelease.testing import check_engine


def test_the_reference_agrees_with_itself():
    assert check_engine(ReferenceEngine, ("arrow", "pandas"), tables=8) == 16


class Unbounded(ReferenceEngine):
    def compute(self, source, query, salt):
        return super().compute(source, replace(query, max_groups=9), salt)


class Unsalted(ReferenceEngine):
    def compute(self, source, query, salt):
        return super().compute(source, query, b"")


class Clamped(ReferenceEngine):
    def compute(self, source, query, salt):
        return super().compute(source, replace(query, where=None), salt)


class FirstRows(ReferenceEngine):
    """Keeps the first rows of the table, not those of the secret order."""

    def compute(self, source, query, salt):
        if query.user is None:
            return super().compute(source, query, salt)
        cut = Source("arrow", source.payload.slice(0, 20), source.name)
        return super().compute(cut, query, salt)


@pytest.mark.parametrize("twin", [FirstRows, Unbounded, Unsalted, Clamped])
def test_a_broken_engine_is_found(twin):
    with pytest.raises(AssertionError, match="not the reference's"):
        check_engine(twin, ("arrow",))
