"""The keys of published folders, for schemas that declare a column's values by them.

A folder is verified before its keys are believed, as any reader can do it, each time. What its schema called
other or missing values is no key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dprelease.core.errors import ConfigError, DpreleaseError
from dprelease.core.strict_json import read_file
from dprelease.reading.publication import read
from dprelease.results.formats.json_ import FILE


def read_lists(
    folders: Iterable[Path], column: str, origin: str, known: Sequence[str] = ()
) -> dict[str, Any]:
    """Return `values`, all keys of these folders in order and each once, and `lists`, which releases they are.

    Args:
        known: which releases they must be, where that is fixed.

    Raises:
        ConfigError: a folder is missing, does not verify or does not stand, is no table by this column alone, holds
            no key, or is another one than is known (DPR117).
    """
    values: set[str] = set()
    lists: list[str] = []
    for folder in folders:
        keys, name, why = _keys_of(folder, column)
        if not why and known and known[len(lists)] != name:
            why = f"the debit is of {known[len(lists)]}"
        if why:
            raise ConfigError(
                f"`{folder}` gives no values of `{column}`",
                where=origin,
                why=why,
                fix=f"name a published list by `{column}` that `dprelease verify` finds good",
                code="DPR117",
            )
        values.update(keys)
        lists.append(name)
    return {"values": tuple(sorted(values)), "lists": tuple(lists)}


def _keys_of(folder: Path, column: str) -> tuple[list[str], str, str]:
    """Return the keys of a folder, which release it is, and why it cannot be used, or ""."""
    try:
        found = read(folder.resolve())
    except DpreleaseError as problem:
        return [], "", ": ".join(filter(None, (problem.what, problem.why)))
    if found.plan.tables is not None or found.plan.by != (column,):
        return [], "", f"it is not one table by `{column}`"
    own, paid = found.schema.columns[column], found.receipt
    keys = [key for (key,) in found.plan.keys if key not in (own.other, own.null_label)]
    digest = hashlib.sha256(read_file(found.folder / FILE)).hexdigest()
    return keys, f"{paid.pipeline}/{paid.period}@{digest}", "" if keys else "it holds no key"
