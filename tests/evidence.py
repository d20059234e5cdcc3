"""Run the harnesses and write what they did: `python -m tests.evidence [pytest arguments]`.

Writes `benchmarks/results/evidence.md`, one row per harness: size, duration, result. With arguments
(`-k kills`, say) a harness that did not run keeps its row; a run of all begins anew, so that no row
outlives its harness. If one fails, only what passed in this very run stands, whatever was chosen,
because a row does not know its test; and the command fails. DPRELEASE_NIGHTLY=1 takes the full sizes.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "benchmarks" / "results" / "evidence.md"
_KNOB = re.compile(r"^from tests\.sizes import .*\b(?:FULL|some|whole)\b", re.MULTILINE)


def thinned() -> list[str]:
    """Return every test file of which a run of each change takes a part."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        p.relative_to(ROOT).as_posix() for p in files if _KNOB.search(p.read_text(encoding="utf-8"))
    ]


LISTED = (
    "tests/mutation",  # first: the longest of all files
    "tests/faults",
    "tests/security",
    "tests/audit",
    "tests/golden/test_plans.py",
    "tests/reference/test_plain_answers.py",
    "tests/end_to_end",  # its `conftest.py` leaves things out of every file
    "tests/fitting",
    "tests/contracts",
)
HARNESSES = (*LISTED, *(name for name in thinned() if not name.startswith(LISTED)))
_PASSED, _FAILED = 0, 1  # what pytest says
_TITLE = "| harness | size | seconds | result |"


def rows_of(text: str) -> dict[str, tuple[str, str, str]]:
    """Return the rows of a table by harness."""
    found = {}
    for line in text.partition(_TITLE)[2].splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4:
            found[cells[0]] = (cells[1], cells[2], cells[3])
    return found


def table(rows: dict[str, tuple[str, str, str]]) -> str:
    lines = [f"| {name} | {' | '.join(cells)} |" for name, cells in sorted(rows.items())]
    return "\n".join(
        [
            "# Evidence: what was tried, and what came of it",
            "",
            "Written by `make evidence` (all cases) and `make nightly` (the same at full sizes): faults,",
            "crashes and races on the ledger (`tests/faults/`), malformed input (`tests/security/`),",
            "audits of the noise (`tests/audit/`, `tests/end_to_end/test_black_box*.py`), the leak",
            "test (`tests/end_to_end/test_non_interference*.py`), right answers beside plain pandas",
            "(`tests/reference/test_plain_answers.py`), PostgreSQL (`tests/engines/test_postgres_*.py`),",
            "natural schemas (`tests/planning/test_natural.py`), every epsilon",
            "(`tests/end_to_end/test_any_epsilon.py`), tables that add up (`tests/fitting/`), exact losses of",
            "neighbouring tables (`tests/contracts/`) and guards broken one at a time (`tests/mutation/`).",
            "Two tests at a time; seconds are wall time:",
            f"{os.cpu_count()} cores, Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}.",
            "A row stands only if its harness passed.",
            "",
            _TITLE,
            "|---|---|---|---|",
            *lines,
            "",
        ]
    )


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "rows"
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                *("-n", "2", "--dist", "loadfile"),  # a row may tell of several tests of a file
                *HARNESSES,
                *arguments,
            ],
            cwd=ROOT,
            env={**os.environ, "DPRELEASE_EVIDENCE": str(log)},
            check=False,
        )
        made = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    if done.returncode not in (_PASSED, _FAILED):  # interrupted, or nothing was collected
        print(f"{TABLE.name} is as it was: the run did not end")
        return done.returncode
    rows = {}
    if arguments and done.returncode == _PASSED and TABLE.exists():
        rows = rows_of(TABLE.read_text(encoding="utf-8"))
    rows |= {r["harness"]: (r["size"], f"{r['seconds']:.1f}", r["result"]) for r in made}
    TABLE.write_text(table(rows), encoding="utf-8")
    print(f"wrote {TABLE.name}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
