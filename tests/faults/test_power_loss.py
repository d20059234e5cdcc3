"""Power cuts: every prefix of the real sequence of writes and fsyncs, unsynced writes lost or torn."""

from __future__ import annotations

import shutil
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.budget.ledger import Ledger
from dprelease.core.errors import LedgerError
from tests.budget.samples import entry, key, new_ledger, release
from tests.faults.disk import Disk, Event
from tests.faults.protocol import COST, check, published
from tests.faults.sizes import POWER_STATES, POWER_VARIANTS, memory_folder
from tests.faults.tracing import can_trace, power_cuts, traced
from tests.sizes import whole

WITNESSES = {"created", "debited", "drawn", "committed", "published", "done"}

pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")


@pytest.fixture(scope="module")
def trace():
    """Run the protocol once under strace; return (root, events, the ledger's last payload)."""
    folder = memory_folder()
    root, outside = folder / "root", folder / "outside"
    outside.mkdir()
    root.mkdir()
    words = [sys.executable, "-m", "tests.faults.traced", root, outside]
    events = traced(words, folder / "trace")
    payload = Ledger.open(root / "l" / "ledger.db").payload(key())
    yield root, events, payload
    shutil.rmtree(folder)


def promise(event: Event) -> set[str]:
    """A folder made outside the root says what must be durable by now."""
    outer, _, name = event.paths[0].rpartition("/") if event.paths else ("", "", "")
    made = event.call == "mkdir" and outer.endswith("/outside")
    return {name} & WITNESSES if made else set()


def recovered(path: Path, witnesses: set[str], payload: bytes) -> None:
    """Assert what a power cut may never take back, then finish the release for nothing."""
    ledger_file, public = path / "l" / "ledger.db", path / "public"
    if "created" in witnesses:
        ledger = check(ledger_file, public, Fraction(1), {})
        has = ledger.has(key())
        assert has or "debited" not in witnesses  # L1
        found = ledger.payload(key()) if has else None
        assert found in (None, payload)
        assert found is not None or "drawn" not in witnesses
        assert ("committed" not in witnesses) or ledger.files(key())
        assert ("published" not in witnesses) or published(public)
        assert ("done" not in witnesses) or ledger.state(key()) == "published"
    else:
        assert not published(public)
        ledger, found = new_ledger(path), None
    release(ledger, entry(), public)
    check(ledger_file, public, COST, {})
    assert found in (None, ledger.payload(key()))
    assert ledger.budget("clinic").spent == COST


def cuts(root, events, target, **twin):
    return power_cuts(Disk(root, empty=True), events, target, promise, **twin)


def test_no_power_cut_takes_back_what_was_promised(trace, place, evidence):
    root, events, payload = trace
    folder = place / "state"
    total = sum(1 for _ in cuts(root, events, folder))
    step = max(1, total // POWER_STATES)
    count = 0
    for number, witnesses, cut in cuts(root, events, folder):
        if number % step:
            continue
        cut()
        recovered(folder, witnesses, payload)
        shutil.rmtree(folder)
        count += 1
    assert count >= whole(50, 100)
    evidence(
        "power loss",
        f"{count} of {total} states of a trace of {len(events)} calls, torn at 512 B",
        "0 violations",
    )


def test_the_replay_is_faithful(trace, place):
    """Control: with everything kept, the end of the replay is the folder as it is."""
    root, events, _ = trace
    disk = Disk(root, empty=True)
    for event in events:
        disk.play(event)
    disk.after_power_cut(place / "all", None, keep=True)
    for path in sorted(root.rglob("*")):
        copy = place / "all" / path.relative_to(root)
        if path.is_file():
            assert copy.read_bytes() == path.read_bytes()
    assert {p.relative_to(root) for p in root.rglob("*")} == {
        p.relative_to(place / "all") for p in (place / "all").rglob("*")
    }


def test_without_the_syncs_of_the_database_promises_break(trace, place):
    """Broken twin: a ledger whose fsyncs do nothing (`synchronous=OFF`) loses a debit."""
    root, events, payload = trace
    folder, broken = place / "state", 0

    def forgets(path):
        return path.endswith(("-wal", ".db"))

    for number, witnesses, cut in cuts(root, events, folder, forgets=forgets):
        if "debited" not in witnesses or number % POWER_VARIANTS:
            continue
        cut()
        try:
            recovered(folder, witnesses, payload)
        except (AssertionError, LedgerError):
            broken += 1
        shutil.rmtree(folder)
        if broken:
            break
    assert broken
