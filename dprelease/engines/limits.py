"""How much of the machine one computation may take: memory, threads, space to spill, time.

Limits come from a pipeline's `engine:` block and from the environment (`DPRELEASE_MEMORY_LIMIT`,
`DPRELEASE_THREADS`, `DPRELEASE_TEMP_DIRECTORY`, `DPRELEASE_MAX_TEMP`, `DPRELEASE_TIMEOUT`); the
environment wins, because who runs the machine knows it better than who wrote the file. They are
checked before anything is charged, are not part of the plan and change no released value.

Units    bytes and seconds, whole.
Limits   Whether a computation fits depends on its rows. One that does not fails after the charge
         with the same message as any other failure, but that it failed is seen: set limits well
         above what a run takes. A time limit must therefore be allowed by the release
         (`allow: [visible-timeout]`) and is in its plan, manifest and report; memory and disk have an
         end on every machine, so that theirs can be seen is a known issue of every release.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dprelease.core.errors import ArgumentError, ConfigError

LEAST_MEMORY = 64 << 20
MOST_THREADS = 1024
_MOST = 1 << 60
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMGT]i?)?B", re.ASCII)
_PREFIX = {"": 1} | {
    f"{letter}{i}": (1024 if i else 1000) ** power
    for power, letter in enumerate("KMGT", start=1)
    for i in ("", "i")
}
_TIME = re.compile(r"(\d{1,6})([smh])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one computation may take; None leaves it to the engine.

    Attributes:
        memory_limit: bytes; above it, rows spill to disk.
        threads: at most so many.
        temp_directory: an existing folder; rows spill into a private folder in it.
        max_temp: bytes that may be spilled.
        timeout: seconds after which the computation is stopped.
    """

    memory_limit: int | None = None
    threads: int | None = None
    temp_directory: Path | None = None
    max_temp: int | None = None
    timeout: int | None = None

    def under(self, environment: Mapping[str, str] = os.environ) -> Limits:
        """Return these limits with those of the environment over them.

        Raises:
            ConfigError: a variable is not understood (DPR159), or the folder for spilled rows does
                not exist or cannot be written (DPR116).
        """
        own: dict[str, object] = {}
        readers: dict[str, Callable[[str], object]] = {**LIMITS, "temp_directory": Path}
        for name, read in readers.items():
            variable = f"DPRELEASE_{name.upper()}"
            if text := environment.get(variable):
                own[name] = _read(variable, text, read)
        merged = Limits(**{**self.options(), **own})  # type: ignore[arg-type]
        folder = merged.temp_directory
        if folder is not None and not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            said = (
                "DPRELEASE_TEMP_DIRECTORY" if "temp_directory" in own else "engine.temp_directory"
            )
            raise ConfigError(
                "the folder for spilled rows does not exist, or cannot be written",
                where=f"{folder}, from {said}",
                fix="create it for this user alone (mode 0700), or name another",
                code="DPR116",
            )
        return merged

    def options(self) -> dict[str, int | Path]:
        """Return the limits that are set, by name."""
        every = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in every.items() if value is not None}

    def options_for(self, engine: object, name: str) -> dict[str, int | Path]:
        """Return the limits as arguments of the engine called `name`.

        Raises:
            ConfigError: that engine has no such limit (DPR110).
        """
        wanted = self.options()
        if not wanted:
            return {}
        known = inspect.signature(engine).parameters  # type: ignore[arg-type]
        for option in wanted:
            if option not in known:
                raise ConfigError(
                    f"the engine `{name}` has no option `{option}`",
                    fix=f"remove `engine.{option}`, and DPRELEASE_{option.upper()} from the environment",
                    code="DPR110",
                )
        return wanted


NO_LIMITS = Limits()


def bytes_of(text: str) -> int:
    """Return the bytes that `2GiB` or `500 MB` says (Gi is 1024³, G is 1000³).

    Raises:
        ArgumentError: it is not a size from 1 byte to 2^60 (DPR600).
    """
    found = _SIZE.fullmatch(text)
    size = Fraction(found[1]) * _PREFIX[found[2] or ""] if found else Fraction(0)
    if not 1 <= size <= _MOST:
        raise ArgumentError(f"`{text[:60]}` is not a size", fix="e.g. 500MB or 2GiB")
    return int(size)


def memory_of(text: str) -> int:
    """Return `bytes_of(text)`; less than `LEAST_MEMORY` cannot hold what a sort needs.

    Raises:
        ArgumentError: as `bytes_of`, or too little (DPR600).
    """
    size = bytes_of(text)
    if size < LEAST_MEMORY:
        raise ArgumentError(
            f"`{text[:60]}` of memory is too little", fix=f"at least {LEAST_MEMORY >> 20}MiB"
        )
    return size


def threads_of(text: str) -> int:
    """Return a number of threads.

    Raises:
        ArgumentError: it is not a whole number from 1 to `MOST_THREADS` (DPR600).
    """
    if not re.fullmatch(r"\d{1,4}", text, re.ASCII) or not 1 <= int(text) <= MOST_THREADS:
        raise ArgumentError(
            f"`{text[:60]}` is not a number of threads", fix=f"from 1 to {MOST_THREADS}"
        )
    return int(text)


def seconds_of(text: str) -> int:
    """Return the seconds that `90s`, `30m` or `2h` says.

    Raises:
        ArgumentError: it is not a duration above 0 (DPR600).
    """
    found = _TIME.fullmatch(text)
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not seconds:
        raise ArgumentError(f"`{text[:60]}` is not a duration", fix="e.g. 90s, 30m or 2h")
    return seconds


def _read(variable: str, text: str, read: Callable[[str], object]) -> object:
    try:
        return read(text)
    except ArgumentError as error:
        raise ConfigError(
            error.what, where=f"{variable}, in the environment", fix=error.fix, code="DPR159"
        ) from None


LIMITS: Mapping[str, Callable[[str], int]] = {
    "memory_limit": memory_of,
    "threads": threads_of,
    "max_temp": bytes_of,
    "timeout": seconds_of,
}
"""How the text of each limit is read; `temp_directory` is a path."""
