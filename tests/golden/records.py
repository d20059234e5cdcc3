"""Golden records: what was computed once, kept to be compared after every change.

A part (`laws`, ...) is a module of this package with `records()`, a dictionary of a readable key to
a flat record: short figures a reader can judge, and digests of all that is too long to store. Its
file `<part>.json` holds one record a line, and the arithmetic it was made with: float proposals may
differ in their last digits on another processor or with another scipy, and then digests that follow
those digits are not compared (`differences`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy

PARTS = ("laws", "plans")
TOLERANCE = 1e-6
PRINTED = 1e-2
"""The relative difference of two numbers in texts, which have three digits and more."""
PORTABLE = frozenset(
    [
        "answers",
        "blocks",
        "domains",
        "exact",
        "first",
        "mechanisms",
        "names",
        "refused",
        "sensitivities",
        "steps",
    ]
)
"""Fields that follow no last digit of a float: what is asked, chosen, refused and summed."""
_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{12}(?![0-9a-f])|[0-9]{1,8}…")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_FOLDER = Path(__file__).parent


def digest(value: Any) -> str:
    """Return twelve hexadecimal digits of the canonical JSON of `value`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def arithmetic() -> str:
    """Return a digest of this machine's elementary functions and products of matrices (the library
    behind numpy chooses them by processor), and of the library that solves."""
    x = np.linspace(-30, 30, 4001)
    columns = [np.exp(x), np.log(x * x + 1e-9), np.expm1(x / 7), np.log1p(x * x), np.sqrt(x * x)]
    square = np.outer(columns[2][:300], columns[4][:300])
    columns += [x @ columns[2], square @ columns[3][:300], square @ square.T]
    return digest([scipy.__version__, *(c.tobytes().hex() for c in columns)])


def path_of(part: str) -> Path:
    return _FOLDER / f"{part}.json"


def make(part: str) -> dict[str, Any]:
    """Return {"arithmetic": ..., "records": ...} as computed now."""
    return {
        "arithmetic": arithmetic(),
        "records": import_module(f"tests.golden.{part}").records(),
    }


def write(part: str) -> int:
    """Store what is computed now; return the number of records."""
    made = make(part)
    lines = [f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(made["records"].items())]
    body = ",\n".join(lines)
    text = f'{{"arithmetic": "{made["arithmetic"]}", "records": {{\n{body}\n}}}}\n'
    path_of(part).write_text(text, encoding="utf-8")
    return len(lines)


def read(part: str) -> dict[str, Any]:
    return json.loads(path_of(part).read_text(encoding="utf-8"))


def read_at(commit: str, part: str) -> dict[str, Any]:
    """Return what a commit of this repository had stored."""
    stored = f"{commit}:./{path_of(part).name}"
    shown = subprocess.run(["git", "show", stored], cwd=_FOLDER, capture_output=True, check=True)
    return json.loads(shown.stdout)


def counted(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return how many records changed, whatever the arithmetic, and how many of them in which field."""
    old, new = before["records"], after["records"]
    changed = [
        [f for f in old[key].keys() | new[key].keys() if old[key].get(f) != new[key].get(f)]
        for key in old.keys() & new.keys()
    ]
    fields = Counter(field for found in changed for field in found)
    named = ", ".join(
        f"{field} {n}" for field, n in sorted(fields.items(), key=lambda f: (-f[1], f))
    )
    return (
        f"{len(new)} records; of {len(old)} before, {sum(map(bool, changed))} changed ({named or 'none'}), "
        f"{len(old.keys() - new.keys())} are gone; {len(new.keys() - old.keys())} are new"
    )


def differences(stored: dict[str, Any], made: dict[str, Any]) -> list[str]:
    """Return one line per record that is missing, new or another.

    With another arithmetic the fields of `PORTABLE` are still compared exactly, numbers to a relative
    `TOLERANCE`, and texts by their words and numbers; only digests of what follows the last digits are not.
    """
    exact = stored["arithmetic"] == made["arithmetic"]
    old, new = stored["records"], made["records"]
    out = [f"missing: {key}" for key in sorted(old.keys() - new.keys())]
    out += [f"new: {key}" for key in sorted(new.keys() - old.keys())]
    for key in sorted(old.keys() & new.keys()):
        was, now = old[key], new[key]
        out += [
            f"{key}: {field}: {old[key].get(field)} became {new[key].get(field)}"
            for field in sorted(was.keys() | now.keys())
            if not _same(was.get(field), now.get(field), exact=exact or field in PORTABLE)
        ]
    return out


def _same(old: Any, new: Any, *, exact: bool) -> bool:
    if exact or old is None or new is None:
        return bool(old == new)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return all(_same(a, b, exact=False) for a, b in zip(old, new, strict=True))
    if isinstance(old, int | float) and isinstance(new, int | float):
        return math.isclose(old, new, rel_tol=TOLERANCE)
    if isinstance(old, str) and isinstance(new, str):
        return _told(old) == _told(new) and all(
            math.isclose(a, b, rel_tol=PRINTED)
            for a, b in zip(_numbers(old), _numbers(new), strict=True)
        )
    return bool(old == new)


def _told(text: str) -> str:
    """Return the words of a text, a mark in place of each number and of each digest."""
    return _NUMBER.sub("#", _DIGEST.sub("digest", text))


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(_DIGEST.sub("", text))]


def leaves(value: Any) -> Iterator[Any]:
    """Yield the numbers in plain data, whatever their names and order; 1, "1" and 1.0 are one."""
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from leaves(inner)
    elif value is not None and not isinstance(value, bool):
        try:
            yield Fraction(value)
        except (ValueError, ZeroDivisionError):
            return
