"""Load the scripts in `examples/papers` as modules: they are files, not a package."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

PAPERS = Path(__file__).resolve().parents[2] / "examples" / "papers"


@cache
def paper(name: str) -> ModuleType:
    """Return `examples/papers/<name>.py`, imported as when it is run beside its siblings."""
    sys.path.insert(0, str(PAPERS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(PAPERS))
