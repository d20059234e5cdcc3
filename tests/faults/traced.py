"""The whole protocol once, in a process of its own, for a trace: `python -m tests.faults.traced ROOT OUTSIDE`.

Makes a folder in OUTSIDE at every moment after which something must have become durable.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dprelease.results.publish import publish_files
from tests.budget.samples import entry, key, manifest, new_ledger


def main(root: Path, outside: Path) -> None:
    ledger = new_ledger(root)
    (outside / "created").mkdir()
    receipt = ledger.charge(entry())

    def draw() -> bytes:
        (outside / "debited").mkdir()
        return os.urandom(16)

    data = ledger.draw_once(key(), draw, width=16)
    (outside / "drawn").mkdir()
    files = {"release.json": manifest(entry(), receipt.anchor), "data.csv": data.hex().encode()}
    ledger.commit_files(key(), files)
    (outside / "committed").mkdir()
    publish_files(root / "public", "weekly", "2030-01", ledger.files(key()) or {})
    (outside / "published").mkdir()
    ledger.mark_published(key())
    (outside / "done").mkdir()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
