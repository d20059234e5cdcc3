"""Secrets by reference: `${env:NAME}` or `${file:PATH}`, read when they are used, never written down."""

from __future__ import annotations

import os
import re
from pathlib import Path

from dprelease.core.errors import SourceError
from dprelease.core.strict_json import read_file

_MOST = 1 << 16

_FORM = re.compile(r"\$\{(?:(env):([A-Za-z_][A-Za-z0-9_]*)|(file):([^{}$]+))\}", re.ASCII)


def parse_reference(text: str) -> tuple[str, str] | None:
    """Return ("env", name) or ("file", path), or None if the text is not exactly one reference."""
    found = _FORM.fullmatch(text)
    return None if found is None else (found[1] or found[3], found[2] or found[4])


def read_secret(kind: str, target: str) -> str:
    """Return what a reference leads to; "" if it is missing, unreadable, blank or not a plain file."""
    if kind == "env":
        return os.environ.get(target, "").strip()
    try:
        return read_file(Path(target), _MOST).decode("utf-8").strip()
    except (OSError, ValueError):
        return ""


def must_read(kind: str, target: str, what: str, where: str) -> str:
    """Return what a reference leads to; SourceError DPR520, which says what was looked for, for nothing."""
    if secret := read_secret(kind, target):
        return secret
    why = "the file that it refers to is missing, unreadable or blank"
    fix = "write it into that file, then run again"
    if kind == "env":
        why = f"the environment variable {target} is not set, or blank"
        fix = f"set {target} to it, then run again"
    raise SourceError(f"the {what} is not available", where=where, why=why, fix=fix, code="DPR520")
