"""Where the values of a declaration file stand: what errors point to and paths are relative to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from dprelease.errors import ConfigError
from dprelease.schema.paths import confined
from dprelease.schema.yaml_marks import Marks

__all__ = ["DeclarationFile"]


@dataclass(frozen=True, slots=True)
class DeclarationFile:
    """One file, or a mapping in its stead, and the places in it.

    Attributes:
        marks: place of a key to `file:line`.
        folder: what relative paths start from.
        root: the project's root, which no path may leave.
    """

    marks: Marks
    folder: Path
    root: Path

    def fail(
        self, what: str, *place: str | int, why: str | None = None, fix: str, code: str
    ) -> NoReturn:
        """Raise ConfigError at the key's place."""
        raise ConfigError(what, where=self.marks.at(*place), why=why, fix=fix, code=code)

    def path(self, text: str, *place: str | int) -> Path:
        """Return the path that stands at a key, absolute; ConfigError if it leaves the project."""
        return confined(text, base=self.folder, root=self.root, origin=self.marks.at(*place))
