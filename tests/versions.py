"""Folders made under one set of versions, verified under another: `python -m tests.versions make|check FOLDER`.

`make` writes one folder of every case of `tests.folders`. `check`, under other versions of Python, numpy,
scipy and pyarrow (it needs the package's own dependencies alone), verifies each, and says for
how many the planner makes the very same choice again. The second number may be smaller than the first:
floating point differs, which is why a plan's choice is recorded and certified, and not made again.
"""

from __future__ import annotations

import platform
import sys
from importlib import metadata
from pathlib import Path

from dprelease.core.strict_json import read_json
from dprelease.planning.make import make_plan
from dprelease.results.formats.json_ import FILE
from dprelease.verification.derivation import Derivation
from dprelease.verification.verify import verify


def make(folder: Path) -> None:
    """Draw one release of every case into `folder`."""
    from tests.folders import CASES, folder_of, write

    for name, plan in CASES.items():
        (folder / "ledgers" / name).mkdir(parents=True)
        files = folder_of(plan(), folder / "ledgers" / name / "ledger.db")
        write(folder / "folders" / name, files)


def check(folder: Path) -> int:
    """Verify all of them; return 1 if one does not verify."""
    verified = same = count = 0
    for place in sorted((folder / "folders").iterdir()):
        manifest = read_json((place / FILE).read_bytes())
        result = verify(place, patience=600)
        count += 1
        verified += result.ok
        same += make_plan(Derivation(manifest).query).hash == manifest["plan_hash"]
        if not result.ok:
            print(place.name, [c.detail for c in result.checks if c.ok is False])
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in ("numpy", "scipy", "pyarrow")
    )
    print(f"Python {platform.python_version()}, {versions}")
    print(f"{verified} of {count} folders verify; {same} plans made anew have the same hash")
    return int(verified < count)


if __name__ == "__main__":
    action, where = sys.argv[1:]
    sys.exit(make(Path(where)) if action == "make" else check(Path(where)))
