"""A connection string or a key by reference: `${env:NAME}` or `${file:PATH}`, never written in a file.

The reference is read when it is used, so planning needs no secret; its text is never printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from dprelease.core.errors import ConfigError
from dprelease.core.secret_text import must_read, parse_reference
from dprelease.schema.declaration_file import DeclarationFile
from dprelease.schema.paths import confined

_KEYS = ("dsn", "signing_key", "remote", "ledger")
"""The keys of a pipeline file that may hold a reference."""


class SecretReference:
    """Where a secret is kept; shows `***` and does not pickle."""

    __slots__ = ("__kind", "__origin", "__target")

    def __init__(self, text: str, *, base: Path, root: Path, origin: str) -> None:
        """Parse a reference.

        Raises:
            ConfigError: the text is not exactly one reference (DPR142), or the file lies outside
                the project (DPR116).
        """
        found = parse_reference(text)
        if found is None:
            raise ConfigError(
                "a connection string or a key is given by reference only",
                where=origin,
                why="files are shared and kept in version control",
                fix='write "${env:NAME}" or "${file:PATH}"',
                code="DPR142",
            )
        kind, target = found
        if kind == "file":
            target = str(confined(target, base=base, root=root, origin=origin))
        self.__kind, self.__target, self.__origin = kind, target, origin

    def reveal_to_source(self) -> str:
        """Return the secret, for opening the source only.

        Raises:
            SourceError: the variable is not set or blank, or the file unreadable or blank (DPR520).
        """
        return must_read(self.__kind, self.__target, "connection string or key", self.__origin)

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "***"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("a secret reference cannot be copied or pickled")

    __reduce_ex__ = _refuse
    __copy__ = _refuse
    __deepcopy__ = _refuse


def secret_at(file: DeclarationFile, text: str, *place: str) -> SecretReference:
    """Return the reference that stands at a key of a pipeline file; ConfigError as its class."""
    origin = file.line_of(*place)
    return SecretReference(text, base=file.folder, root=file.root, origin=origin)


def refuse_references(file: DeclarationFile, value: object, *place: str | int) -> None:
    """Refuse `${…}` anywhere but where a connection string or a key is named (`_KEYS`).

    Raises:
        ConfigError: there is one (DPR142).
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            refuse_references(file, item, *place, key)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            refuse_references(file, item, *place, i)
    elif isinstance(value, str) and "${" in value and (not place or place[-1] not in _KEYS):
        file.fail(
            "`${…}` is read in connection strings and keys only",
            *place,
            fix="write the value out",
            code="DPR142",
        )
