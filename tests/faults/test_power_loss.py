"""Power cuts: every prefix of the real sequence of writes and fsyncs, unsynced writes lost or torn."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.budget.ledger import Ledger
from dprelease.errors import LedgerError
from tests.budget.samples import entry, key, new_ledger, release
from tests.end_to_end.projects import ROOT
from tests.faults.disk import CALLS, Disk, read_trace
from tests.faults.protocol import COST, check, published
from tests.faults.sizes import POWER_STATES, POWER_VARIANTS, memory_folder

WITNESSES = ("created", "debited", "drawn", "committed", "published", "done")


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    return subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not can_trace(), reason="strace is missing or may not trace here")


@pytest.fixture(scope="module")
def trace():
    """Run the protocol once under strace; return (root, events, the ledger's last payload)."""
    folder = memory_folder()
    root, outside, log = folder / "root", folder / "outside", folder / "trace"
    root.mkdir()
    outside.mkdir()
    subprocess.run(
        ["strace", "-f", "-y", "-xx", "-s", "16777216", "-e", f"trace={CALLS}", "-e", "signal=none",
         "-o", log, sys.executable, "-m", "tests.faults.traced", root, outside],
        check=True, cwd=ROOT, timeout=120,
    )  # fmt: skip
    payload = Ledger.open(root / "l" / "ledger.db").payload(key())
    events = list(read_trace(log))
    yield root, events, payload
    shutil.rmtree(folder)


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


def states(root, events, target, *, sync=True):
    """Yield (number, witnesses, folder) for power cuts after every event, several ways each."""
    disk, seen, number = Disk(root), set(), 0
    for event in events:
        if not sync and event.call == "fsync" and event.paths[0].endswith(("-wal", ".db")):
            continue
        witness = event.paths[0].rsplit("/", 1)[-1] if event.paths else ""
        touched = disk.play(event)
        if event.call == "mkdir" and witness in WITNESSES and "/outside/" in event.paths[0]:
            seen.add(witness)
            touched = True
        if not touched:
            continue
        for variant in range(POWER_VARIANTS):
            number += 1
            chance = random.Random(f"{number}") if variant >= 2 else None
            folder = target / "state"
            yield number, set(seen), folder, lambda c=chance, f=folder, v=variant: (
                disk.after_power_cut(f, c, keep=v == 1)
            )


def test_no_power_cut_takes_back_what_was_promised(trace, place, evidence):
    root, events, payload = trace
    total = sum(1 for _ in states(root, events, place))
    step = max(1, total // POWER_STATES)
    count = 0
    for number, witnesses, folder, cut in states(root, events, place):
        if number % step:
            continue
        cut()
        recovered(folder, witnesses, payload)
        shutil.rmtree(folder)
        count += 1
    assert count >= 100
    evidence(
        "power loss",
        f"{count} of {total} states of a trace of {len(events)} calls, torn at 512 B",
        "0 violations",
    )


def test_the_replay_is_faithful(trace, place):
    """Control: with everything kept, the end of the replay is the folder as it is."""
    root, events, _ = trace
    disk = Disk(root)
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
    broken = 0
    for number, witnesses, folder, cut in states(root, events, place, sync=False):
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
