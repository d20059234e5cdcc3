"""The protocol with one failing system call, for every call: `python -m tests.faults.shimmed SHIM FOLDER STEP`.

Runs with the shim preloaded. Prints one JSON object: how many calls, faults and outcomes.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
from collections import Counter
from pathlib import Path

from dprelease.budget.ledger import Ledger
from dprelease.core.errors import DpreleaseError
from tests.budget.samples import entry, key, new_ledger, release
from tests.faults.protocol import COST, check, published

FAULTS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "EINTR": errno.EINTR, "short write": -1}


def child(shim: ctypes.CDLL, folder: Path, at: int, number: int) -> str:
    """Run the protocol in a fork with call `at` failing; return how it ended."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        raw, ended = os.urandom, "released"

        def drawn(count: int) -> bytes:
            if count == 16:
                (folder.parent / f"{folder.name}.drawn").touch()
            return raw(count)

        os.urandom = drawn
        shim.fault_arm(str(folder).encode(), at, number)
        try:
            release(Ledger(folder / "l" / "ledger.db"), entry(), folder / "public")
        except DpreleaseError as refused:
            ended = f"exit {refused.exit_status}"
        except BaseException as error:
            ended = f"raised {type(error).__name__}"
        seen = shim.fault_seen()
        shim.fault_arm(b"", 0, 0)
        os.write(write, f"{seen} {ended}".encode())
        os._exit(0)
    os.waitpid(process, 0)
    said = os.read(read, 200).decode()
    os.close(read)
    os.close(write)
    return said


def one(shim: ctypes.CDLL, folder: Path, at: int, number: int) -> tuple[int, str]:
    """Return how many calls there were and how the faulty run ended; assert the promises."""
    ledger, public = new_ledger(folder), folder / "public"
    witness = folder.parent / f"{folder.name}.drawn"
    count, _, ended = child(shim, folder, at, number).partition(" ")
    assert not ended.startswith("raised"), ended
    check(ledger.path, public, COST, {})
    debited = ledger.has(key())
    assert debited or not witness.exists()  # L1: no draw without a durable debit
    assert ended != "exit 1" or not witness.exists()  # "nothing spent" is true
    before = ledger.payload(key()) if debited else None
    assert ended != "released" or published(public)
    release(ledger, entry(), public)  # the fault is gone: the same bytes, for nothing more
    check(ledger.path, public, COST, {})
    assert before in (None, ledger.payload(key()))
    assert ledger.budget("clinic").spent == COST
    shutil.rmtree(folder)
    witness.unlink(missing_ok=True)
    return int(count), ended


def main(library: str, folder: Path, step: int) -> None:
    shim = ctypes.CDLL(library)
    calls, _ = one(shim, folder / "count", 0, 0)
    outcomes: Counter[str] = Counter()
    faults = 0
    for name, number in FAULTS.items():
        for at in range(1 + len(name) % step, calls + 1, step):
            outcomes[one(shim, folder / f"{number}.{at}", at, number)[1]] += 1
            faults += 1
    print(json.dumps({"calls": calls, "faults": faults, "outcomes": outcomes}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
