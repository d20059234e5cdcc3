"""Paths named in a file: relative to that file, never outside its project.

The root is the nearest folder with `pyproject.toml` or `.dprelease`, else the working directory if
the file lies below it, else the file's own folder.
Symbolic links are followed before the check, so a link cannot lead out.
"""

from __future__ import annotations

import csv
import glob
import re
import shlex
from pathlib import Path

from dprelease.core.errors import ConfigError
from dprelease.schema.labels import BLANK
from dprelease.schema.naming import is_shown

MAX_KEYS_BYTES = 64 << 20


def project_root(folder: Path) -> Path:
    """Return the project's root for files in `folder`, resolved."""
    start = folder.resolve()
    marked = next((c for c in (start, *start.parents) if is_marked(c)), None)
    if marked is not None:
        return marked
    here = Path.cwd().resolve()
    return here if here in start.parents and here != here.parent else start


def is_marked(folder: Path) -> bool:
    """Return whether `folder` says that it is a project's root."""
    return (folder / "pyproject.toml").is_file() or (folder / ".dprelease").is_dir()


def confined(text: str, *, base: Path, root: Path, origin: str) -> Path:
    """Return `text` relative to `base` as a resolved path inside `root`.

    Raises:
        ConfigError: it leads out of the root, or is not a path (DPR116).
    """
    if not text or "\0" in text:
        raise ConfigError("a path is needed here", where=origin, code="DPR116")
    try:
        path = (base / text).resolve()
    except (OSError, RuntimeError, ValueError):
        raise ConfigError("the path cannot be resolved", where=origin, code="DPR116") from None
    if not path.is_relative_to(root.resolve()):
        above = root.resolve().parent
        mark = shlex.quote(str(above / ".dprelease"))
        raise ConfigError(
            f"the path `{text}` leaves the project",
            where=origin,
            why=f"the project root is {root}",
            fix="move the file into the project"
            if is_marked(root) or not path.is_relative_to(above)
            else f"if {above} holds all files, mark it as the project's root: `mkdir {mark}`",
            code="DPR116",
        )
    return path


def confined_glob(text: str, *, base: Path, root: Path, origin: str) -> str:
    """Return a path or pattern (`*`, `?`, `[…]`) whose fixed part lies inside `root`.

    Raises:
        ConfigError: as `confined`, or `..` after a wildcard (DPR116).
    """
    parts = Path(text).parts
    fixed = next((i for i, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))
    if ".." in parts[fixed:]:
        raise ConfigError("`..` cannot follow a wildcard", where=origin, code="DPR116")
    front = str(Path(*parts[:fixed])) if fixed else "."
    folder = confined(front if text else "", base=base, root=root, origin=origin)
    if fixed == len(parts):
        return str(folder)
    # as the source will match it: `**` of pathlib passes by linked folders, that of glob does not
    pattern = str(Path(glob.escape(str(folder))).joinpath(*parts[fixed:]))
    for match in sorted(glob.glob(pattern, recursive=True)):  # noqa: PTH207 - see above
        confined(match, base=base, root=root, origin=origin)
    return pattern


def read_keys(path: Path, columns: tuple[str, ...], origin: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of a CSV file of public keys, shape `(keys, columns)`, in file order.

    Raises:
        ConfigError: unreadable, another header, an empty or repeated key, one with a control
            character, or no key (DPR117).
    """

    def fail(what: str, fix: str | None = None, line: int | None = None) -> ConfigError:
        where = f"{path.name}:{line}, named at {origin}" if line else origin
        return ConfigError(what, where=where, fix=fix, code="DPR117")

    if not path.is_file():
        raise fail(f"the key file `{path.name}` does not exist", "create it, or correct the path")
    keys: dict[tuple[str, ...], None] = {}
    try:
        if path.stat().st_size > MAX_KEYS_BYTES:
            raise fail(f"the key file `{path.name}` is too large")
        with path.open(encoding="utf-8-sig", newline="") as stream:
            reader = csv.reader(stream, strict=True)
            header = tuple(next(reader, []))
            if header != columns:
                wanted = ",".join(columns)
                raise fail("the header does not match", f"the first line is: {wanted}", 1)
            for row in reader:
                key = tuple(row)
                if not row:
                    continue
                if len(key) != len(columns) or "" in key:
                    raise fail(
                        "a key is incomplete",
                        f"give {len(columns)} non-empty value(s) per line",
                        reader.line_num,
                    )
                if not all(map(is_shown, key)):
                    raise fail("a key holds a control character", "remove it", reader.line_num)
                if any(label != label.strip(BLANK) for label in key):
                    raise fail(
                        "a key has blanks at its ends",
                        "remove them; cells with such blanks are counted as it, too",
                        reader.line_num,
                    )
                if key in keys:
                    raise fail("a key appears twice", "remove one of them", reader.line_num)
                keys[key] = None
    except (OSError, UnicodeDecodeError, csv.Error):
        raise fail(f"the key file `{path.name}` cannot be read", "save it as UTF-8 CSV") from None
    if not keys:
        raise fail(f"the key file `{path.name}` holds no key", "list one key per line")
    return tuple(keys)
