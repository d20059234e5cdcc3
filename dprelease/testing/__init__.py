"""Contracts for authors of kinds: what a mechanism, a statistic, an engine or a format owes.

Each check raises AssertionError with what was violated, so that it is one line in a test:

    def test_contract():
        check_mechanism("student")

They enumerate wherever the support is finite; a mistake fails always, not by chance.
"""

from dprelease.testing.aggregates import check_aggregate
from dprelease.testing.dialects import check_dialect
from dprelease.testing.engines import check_engine
from dprelease.testing.formats import check_format, sample_release
from dprelease.testing.mechanisms import REQUESTS, check_mechanism

__all__ = [
    "REQUESTS",
    "check_aggregate",
    "check_dialect",
    "check_engine",
    "check_format",
    "check_mechanism",
    "sample_release",
]
