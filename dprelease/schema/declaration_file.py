"""Where the values of a declaration file stand: what errors point to and paths are relative to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.periods import zone
from dprelease.schema.naming import did_you_mean
from dprelease.schema.paths import confined
from dprelease.schema.yaml_marks import Marks

if TYPE_CHECKING:
    from dprelease.schema.column import Column


@dataclass(frozen=True, slots=True)
class DeclarationFile:
    """One file, or a mapping in its stead, and the places in it.

    Attributes:
        marks: place of a key to `file:line`.
        place: the block that is read, which places stand in.
        folder: what relative paths start from.
        root: the project's root, which no path may leave.
    """

    marks: Marks
    folder: Path
    root: Path
    place: tuple[str | int, ...] = ()

    def below(self, *place: str | int) -> DeclarationFile:
        """Return the file for reading one block of it."""
        return replace(self, place=(*self.place, *place))

    def line_of(self, *place: str | int) -> str:
        """Return the `file:line` of a key."""
        return self.marks.line_of(*self.place, *place)

    def fail(
        self, what: str, *place: str | int, why: str | None = None, fix: str, code: str
    ) -> NoReturn:
        """Raise ConfigError at the key's place."""
        raise ConfigError(what, where=self.line_of(*place), why=why, fix=fix, code=code)

    def column(
        self, name: str, columns: Mapping[str, Column], *place: str | int, block: str, fix: str = ""
    ) -> Column:
        """Return the column that a key of a `block` names; ConfigError DPR122 if there is none."""
        if name not in columns:
            otherwise = fix or f"declare `{name}` under `columns`"
            self.fail(
                f"the {block} names an unknown column `{name}`",
                *place,
                fix=did_you_mean(name, columns, otherwise),
                code="DPR122",
            )
        return columns[name]

    def zone(self, name: str, code: str) -> None:
        """Refuse a timezone that is none, at the key `timezone`."""
        try:
            zone(name)
        except ArgumentError as error:
            self.fail(error.what, "timezone", fix="e.g. UTC or Europe/Dublin", code=code)

    def path(self, text: str, *place: str | int) -> Path:
        """Return the path that stands at a key, absolute; ConfigError if it leaves the project."""
        return confined(text, base=self.folder, root=self.root, origin=self.line_of(*place))

    def released(self, text: str, *place: str | int) -> Path:
        """Return the path that stands at a key of the release block."""
        return self.path(text, "release", *place)


_KINDS = {
    "schema/1": ("a schema", "`dprelease schema check {0}`; a pipeline names it as `schema: {0}`"),
    "pipeline/1": ("a pipeline", "`dprelease plan {0}` checks a pipeline and its schema"),
}


def must_be(kind: str, data: Mapping[str, object], marks: Marks) -> None:
    """Refuse a file that says it is of the other kind; ConfigError DPR156.

    Args:
        kind: `schema/1` or `pipeline/1`.
    """
    said = data.get("dprelease")
    if not isinstance(said, str) or said == kind or said not in _KINDS:
        return
    what, instead = _KINDS[said]
    raise ConfigError(
        f"this file is {what}, not {_KINDS[kind][0]}",
        where=marks.line_of("dprelease"),
        fix=instead.format(marks.line_of().rpartition(":")[0]),
        code="DPR156",
    )
