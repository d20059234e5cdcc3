"""Random bits: the system's for releases, a repeatable stream for tests only.

Samplers take `bits: RandomBits` as an argument and never a seed. `execute` refuses any source
whose `system` attribute is false. `ReplayBits` is a counter-mode SHA-256 stream: good enough
statistically for tests and documentation, never used for a release.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import InternalError

ROUND_LIMIT = 1024
"""Rejection rounds before a source counts as stuck: a sound one gets there with probability
below 2**-600 per value, whatever the data."""

FEW_ROUNDS = 32
"""Rejection rounds before a value is drawn in another way, where there is one."""


def stuck() -> InternalError:
    """Return the error of a source whose bits repeat: refusing beats releasing without noise."""
    return InternalError(
        "the random source repeats itself",
        why=f"{ROUND_LIMIT} rejection rounds in a row brought no value",
        fix="check the operating system's random generator; nothing was published",
        code="DPR904",
    )


class RandomBits(Protocol):
    """A source of independent uniform bytes."""

    @property
    def system(self) -> bool:
        """Whether the bytes come from the operating system's generator."""

    def read(self, count: int) -> bytes:
        """Return `count` fresh uniform bytes."""


class SystemBits:
    """The operating system's cryptographic generator (`os.urandom`), forks included."""

    __slots__ = ()

    @property
    def system(self) -> bool:
        return True

    def read(self, count: int) -> bytes:
        return os.urandom(count)


class ReplayBits:
    """A repeatable stream for tests and documentation; `execute` refuses it."""

    __slots__ = ("_counter", "_key", "_rest")

    def __init__(self, label: str) -> None:
        self._key = hashlib.sha256(label.encode()).digest()
        self._counter = 0
        self._rest = b""

    @property
    def system(self) -> bool:
        return False

    def read(self, count: int) -> bytes:
        if len(self._rest) < count:
            blocks = [self._rest]
            for _ in range((count - len(self._rest) + 31) // 32):
                blocks.append(
                    hashlib.sha256(self._key + self._counter.to_bytes(16, "big")).digest()
                )
                self._counter += 1
            self._rest = b"".join(blocks)
        out, self._rest = self._rest[:count], self._rest[count:]
        return out


def drawn_by_rejection(
    count: int,
    attempt: Callable[[npt.NDArray[np.int64]], tuple[npt.NDArray[Any], npt.NDArray[Any]]],
    *,
    wide: bool = False,
    otherwise: Callable[[int], int] | None = None,
    bits: RandomBits | None = None,
) -> npt.NDArray[Any]:
    """Return one value per place, shape `(count,)`, by attempts at those that have none yet.

    Where an attempt's chance depends on the place, so would the chance of giving up: such callers say
    what draws a place `otherwise`, by the same law, or show the `bits` and are never given up on.

    Args:
        attempt: given the places `todo`, returns which of them got a value (positions in `todo`,
            or a mask of it), and these values.
        wide: the values are Python integers, which need not fit int64.
        otherwise: draws one place after `FEW_ROUNDS` attempts. The law stays: attempts that brought
            nothing say nothing of the next draw.
        bits: the source of the attempts, asked now and then whether it is stuck, whatever the places.

    Raises:
        InternalError: the source is stuck (DPR904).
    """
    out: npt.NDArray[Any] = np.zeros(count, dtype=object if wide else np.int64)
    todo = np.arange(count)
    rounds = 0
    while todo.size:
        if otherwise is not None and rounds == FEW_ROUNDS:
            out[todo] = [otherwise(place) for place in todo.tolist()]
            break
        if (
            rounds
            and rounds % ROUND_LIMIT == 0
            and (bits is None or bits.read(32) == bits.read(32))
        ):
            raise stuck()
        at, values = attempt(todo)
        out[todo[at]] = values
        todo = np.delete(todo, at)
        rounds += 1
    return out


def uniform_below(bound: int, count: int, bits: RandomBits) -> npt.NDArray[Any]:
    """Return `count` independent exact uniform integers in `[0, bound)`, shape `(count,)`.

    int64 up to a bound of 2**63, Python integers beyond. Rejection from the next power of two:
    exact, no modulo bias.

    Raises:
        InternalError: the source is stuck (DPR904).
    """
    if bound < 1:
        raise AssertionError("uniform_below needs a bound of at least 1")
    width = (bound - 1).bit_length()
    if width == 0:
        return np.zeros(count, dtype=np.int64)
    if width > 63:
        return _wide_below(bound, count, bits)
    shift = np.uint64(64 - width)

    def attempt(
        todo: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
        raw = np.frombuffer(bits.read(8 * todo.size), dtype=np.uint64) >> shift
        value = raw.astype(np.int64)
        good = value < bound if bound < 2**63 else np.ones(todo.size, dtype=bool)
        return good, value[good]

    return drawn_by_rejection(count, attempt)


def _wide_below(bound: int, count: int, bits: RandomBits) -> npt.NDArray[Any]:
    width = (bound - 1).bit_length()
    size = -(-width // 8)
    drop = 8 * size - width

    def attempt(todo: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.bool_], npt.NDArray[Any]]:
        raw = bits.read(size * todo.size)
        value = np.array(
            [int.from_bytes(raw[i : i + size], "little") >> drop for i in range(0, len(raw), size)],
            dtype=object,
        )
        good = (value < bound).astype(bool)
        return good, value[good]

    return drawn_by_rejection(count, attempt, wide=True)
