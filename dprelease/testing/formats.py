"""The contract of a format: bytes that are a function of the release and its manifest.

It writes plain names, bytes, and none of dprelease's own files; the same bytes for an equal release;
and, where a reader is given, what reads back as the tidy table. A format that says it takes several
tables writes a release of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from dprelease.core import registry
from dprelease.pipeline.files import OWN_FILES, PLAIN_NAME, write_files
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import Schema
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw
from dprelease.results.fitted import noised_of
from dprelease.results.formats.format import tables_of
from dprelease.results.formats.json_ import build_manifest
from dprelease.results.receipt import Receipt
from dprelease.results.validate.rules import check
from dprelease.schema.unit import describe

Row = dict[str, Any]
Reader = Callable[[Mapping[str, bytes]], list[Row]]

_TABLES = [
    {"name": "nation", "by": [], "statistics": ["count"]},
    {"name": "places", "by": ["place"], "statistics": ["count"]},
]
_SCHEMA: dict[str, Any] = {
    "dprelease": "schema/1",
    "name": "sample",
    "unit": {"user": "who", "max_rows_per_group": 3, "max_groups": 1},
    "adjacency": "add_remove",
    "rows": {"max": 500, "expected": 100},
    "columns": {
        "who": {"kind": "identifier"},
        "place": {"kind": "category", "values": ["north", "it's", 'a "b"', "=1+1", "é, ü"]},
        "age": {"kind": "number", "range": [0, 120], "measure": "years", "step": "0.5"},
    },
    "release": {
        "epsilon": 2,
        "by": ["place"],
        "statistics": ["count", "mean(age)", "histogram(age, [0, 40, 80, 120])"],
    },
}


def sample_release(shift: int = 0) -> tuple[Draw, dict[str, Any]]:
    """Return a small release of made-up noisy integers, and its manifest; no private data.

    Args:
        shift: added to every integer, for a release of other values.
    """
    plan = plan_release(Schema.from_dict(_SCHEMA))
    return _sample(plan, lambda group, cell: 90 + 7 * group + 3 * cell + shift)


def sample_of_tables() -> tuple[Draw, dict[str, Any]]:
    """Return a small release of two tables that add up, and its manifest; no private data."""
    release = {"epsilon": 2, "tables": _TABLES}
    plan = plan_release(Schema.from_dict({**_SCHEMA, "release": release}))
    return _sample(plan, lambda group, _: 90 + 7 * group)


def _sample(plan: ReleasePlan, integer: Callable[[int, int], int]) -> tuple[Draw, dict[str, Any]]:
    cells = {
        b.name: tuple(
            tuple(integer(g, c) for c in range(len(b.cells))) for g in range(plan.groups(b))
        )
        for b in plan.blocks
    }
    paid = Receipt(str(plan.epsilon), str(Fraction(0)), describe(plan.adjacency, plan.unit))
    noised = noised_of(plan, cells, paid)
    return noised, build_manifest(noised, check(noised), {}, software={"dprelease": "0"})


def check_format(name: str, read: Reader | None = None) -> dict[str, bytes]:
    """Check the format registered as `name`; return the files of the sample release.

    Args:
        read: reads the files back as rows of the tidy table, for a format that holds all of it.

    Raises:
        AssertionError: it breaks the contract.
    """
    write: Any = registry.load("formats", name)
    noised, manifest = sample_release()
    before = copy.deepcopy(manifest)
    files = dict(write(noised, manifest))
    assert manifest == before, f"{name} changes the manifest"
    assert files, f"{name} writes nothing"
    for file, data in files.items():
        assert PLAIN_NAME.fullmatch(file), f"{name} writes {file!r}: not a plain name"
        assert isinstance(data, bytes), f"{name} writes {type(data).__name__}, not bytes"
        assert file not in OWN_FILES or name in registry.names("formats"), f"{file} is dprelease's"
    again, same = sample_release()
    assert dict(write(again, same)) == files, f"{name} writes other bytes for an equal release"
    if tables_of(write) != "one":
        _check_tables(name)
    if read is not None:
        other, changed = sample_release(shift=1)
        for release, written in ((noised, files), (other, dict(write(other, changed)))):
            assert read(written) == release.table.to_pylist(), f"{name} does not read back"
    return files


def _check_tables(name: str) -> None:
    noised, _ = sample_of_tables()
    made, again = (write_files(noised, (name,), software={}, what_if=[]) for _ in range(2))
    assert set(made) - set(write_files(noised, (), software={}, what_if=[])) or name in (
        "registry",
        "datapackage",
    ), f"{name} writes nothing of several tables"
    assert made == again, f"{name} writes other bytes for an equal release of several tables"
