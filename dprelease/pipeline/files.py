"""Every file of a publication as bytes: a function of the noisy integers and what is stated of them.

`flow.bundle` makes them for a run, and `verify` makes them again, both by `write_files`.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import metadata
from typing import Any

from dprelease import __version__
from dprelease.core import registry
from dprelease.core.errors import ConfigError, WithheldError
from dprelease.results.draw import Draw
from dprelease.results.formats.format import table_file, tables_of
from dprelease.results.validate.rules import check

FORMATS = ("parquet", "csv", "html")

OWN_FILES = (
    "data.parquet", "data.csv", "wide.csv", "report.html", "release.json", "datapackage.json",
    "registry.yaml", "signature.json", "sdmx.csv",
)  # fmt: skip
"""What other packages' formats may not write."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)


def write_files(
    noised: Draw,
    formats: Sequence[str],
    *,
    software: Mapping[str, str],
    what_if: Sequence[Mapping[str, Any]],
    as_published: Callable[[str, bytes], bytes] | None = None,
    **stated: Any,
) -> dict[str, bytes]:
    """Return every file, by name: a function of its arguments alone, so that `verify` calls it too.

    The verdict is that of the built-in rules, whoever else has checked the values.

    Args:
        as_published: from name and bytes to the bytes that are published, where another writer's
            hold the same table.
        stated: `budget`, `scheduled`, … of `formats.json_.build_manifest`.

    Raises:
        ConfigError: an unknown format (DPR146); WithheldError: as `_written`.
    """
    from dprelease.results.formats.json_ import build_manifest, described
    from dprelease.results.formats.json_ import write as write_manifest

    # the package lists the others: last
    wanted = tuple(dict.fromkeys((*formats, "registry", "datapackage")))
    known = (*registry.names("formats"), *registry.third_party_names("formats"))
    for name in wanted:
        if name not in known:
            raise ConfigError(
                f"there is no format called `{name}`",
                fix=f"known formats: {', '.join(known)}",
                code="DPR146",
            )
    files: dict[str, bytes] = {}
    common = build_manifest(
        noised, check(noised), {}, software=software, formats=formats, what_if=what_if, **stated
    )

    said: dict[str, Any] = {}  # every file is hashed once

    def manifest() -> dict[str, Any]:  # the noisy integers as text: made once
        return {**common, "files": dict(sorted(said.items()))}

    for name in wanted:
        made = _written(name, noised.published, manifest(), files)
        if as_published is not None:
            made = {n: as_published(n, data) for n, data in made.items()}
        files |= made
        said |= described(made)
    return {**files, **write_manifest(noised, manifest())}


def _written(
    name: str, noised: Draw, manifest: dict[str, Any], files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the files of one format.

    Raises:
        WithheldError: someone else's format fails, or one writes what is not its own (DPR715): the
            values stay in the ledger, and the run can be repeated without it for nothing.
    """
    ours = name in registry.names("formats")
    problem = "it failed"
    try:
        made = _made(name, noised, manifest)
        if not files.keys() & made.keys() and (ours or _plain_files(made, noised.parts)):
            return made
        problem = "it writes a file of another format, or one that is not bytes under a plain name"
    except Exception as error:  # foreign code after the charge
        if ours:
            raise
        problem = f"it failed with {type(error).__name__}"
    raise WithheldError(
        f"the format `{name}` cannot be written",
        why=problem,
        fix="mend it or take it out of `publish.formats`, then run again: the draw is kept",
        code="DPR715",
    )


def _made(name: str, noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return what the format writes; of several tables as it says that it takes them (`formats.format`)."""
    write: Any = registry.load("formats", name)
    takes = tables_of(write)
    if not noised.parts or takes == "all":
        return dict(write(noised, manifest))
    if takes == "one":
        raise ValueError("one table's format: `run` refuses it before the charge")
    return {
        table_file(file, table): data
        for table, part in noised.parts.items()
        for file, data in write(part, manifest).items()
    }


def _plain_files(made: Mapping[str, object], tables: Iterable[str]) -> bool:
    taken = {*OWN_FILES, *(table_file(file, table) for table in tables for file in OWN_FILES)}
    return all(
        isinstance(name, str) and name not in taken and isinstance(data, bytes)
        and PLAIN_NAME.fullmatch(name)
        for name, data in made.items()
    )  # fmt: skip


@cache
def _versions() -> dict[str, str]:
    names = ("duckdb", "numpy", "pandas", "pyarrow", "great-expectations")
    own = {"dprelease": __version__, "python": platform.python_version()}
    return own | {n: metadata.version(n) for n in names}


def software() -> dict[str, str]:
    """Return the versions that made the release."""
    return dict(_versions())
