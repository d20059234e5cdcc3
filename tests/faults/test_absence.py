"""The package knows nothing of the harness: no fault point, no switch, no environment variable."""

from __future__ import annotations

import re

from tests.end_to_end.projects import ROOT

_TRACE = re.compile(
    r"fault[_ -]?point|fail[_ -]?point|failpoint|inject|DPRELEASE_(FAULT|NIGHTLY|EVIDENCE|TEST)"
    r"|LD_PRELOAD|SIGKILL|tests\.faults",
    re.IGNORECASE,
)


def lines(folder):
    return [
        (path.name, line)
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if _TRACE.search(line)
    ]


def test_no_fault_point_is_in_the_package():
    assert lines("dprelease") == []


def test_the_search_finds_the_harness_itself():
    assert lines("tests/faults")
