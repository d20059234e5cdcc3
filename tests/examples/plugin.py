"""`examples/plugin`, installed once by pip into a folder of its own."""

from __future__ import annotations

import atexit
import importlib
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "examples" / "plugin"


@cache
def installed() -> Path:
    """Return the folder that pip installed the plugin into; it is on nobody's path."""
    folder = Path(tempfile.mkdtemp(prefix="dprelease-plugin-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    copy = folder / "source"  # a build leaves nothing in the source tree
    shutil.copytree(SOURCE, copy)
    done = subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
            "--no-build-isolation", "--disable-pip-version-check", "--target",
            str(folder / "site"), str(copy),
        ],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder / "site"


def use(monkeypatch) -> Path:
    """Put the installed plugin on the path for one test."""
    folder = installed()
    monkeypatch.syspath_prepend(str(folder))
    importlib.invalidate_caches()
    return folder
