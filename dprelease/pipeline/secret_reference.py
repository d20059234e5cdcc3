"""A connection string by reference: `${env:NAME}` or `${file:PATH}`, never written in a file.

The reference is read when it is used, so planning needs no secret; its text is never printed.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NoReturn

from dprelease.errors import ConfigError, SourceError
from dprelease.schema.paths import confined

__all__ = ["SecretReference"]

_FORM = re.compile(r"\$\{(env|file):([^{}$]+)\}")
MAX_BYTES = 1 << 16
# The path was resolved when the reference was read; O_NONBLOCK: a named pipe is not waited for.
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SecretReference:
    """Where a secret is kept; shows `***` and does not pickle."""

    __slots__ = ("__kind", "__origin", "__target")

    def __init__(self, text: str, *, base: Path, root: Path, origin: str) -> None:
        """Parse a reference.

        Raises:
            ConfigError: the text is not exactly one reference (DPR142), or the file lies outside
                the project (DPR116).
        """
        found = _FORM.fullmatch(text)
        if found is None or (
            found[1] == "env" and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", found[2])
        ):
            raise ConfigError(
                "a connection string is given by reference only",
                where=origin,
                why="files are shared and kept in version control",
                fix='write "${env:NAME}" or "${file:PATH}"',
                code="DPR142",
            )
        target = found[2]
        if found[1] == "file":
            target = str(confined(target, base=base, root=root, origin=origin))
        self.__kind, self.__target, self.__origin = found[1], target, origin

    def reveal_to_source(self) -> str:
        """Return the secret, for opening the source only.

        Raises:
            SourceError: the variable is not set, or the file is unreadable or empty (DPR520).
        """
        if self.__kind == "env":
            secret = os.environ.get(self.__target, "")
        else:
            try:
                with open(os.open(self.__target, _PLAIN), "rb") as stream:  # noqa: PTH123 - a descriptor
                    plain = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
                    secret = stream.read(MAX_BYTES).decode("utf-8").strip() if plain else ""
            except (OSError, ValueError):
                secret = ""
        if not secret:
            raise SourceError(
                "the connection string is not available",
                where=self.__origin,
                why="the environment variable or file it refers to is missing or empty",
                fix="set it, then run again",
                code="DPR520",
            )
        return secret

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
