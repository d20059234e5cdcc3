"""What is said beside a stored field where its type cannot say it (see `codec`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any


@dataclass(frozen=True, slots=True)
class StoredAs:
    """A field that is stored under another name than its own."""

    name: str


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number that is refused below `least` when it is read."""

    least: int


@dataclass(frozen=True, slots=True)
class Always:
    """A field that is written where it has its default too, and missed when it is not there."""


@dataclass(frozen=True, slots=True)
class AsText:
    """An integer that is written as text whatever its size: of some of them no reader is sure."""


Digits = Annotated[int, AsText()]


@dataclass(frozen=True, slots=True)
class Short:
    """Texts or whole numbers, of which a long regular list is written short (`numeric.short_list`)."""


@dataclass(frozen=True, slots=True)
class Inline:
    """A dataclass whose keys stand beside those of the one that holds it."""


@dataclass(frozen=True, slots=True)
class Unstored:
    """A field that is not written; read back, it has its default."""


@dataclass(frozen=True, slots=True)
class Tagged:
    """The key that tells the members of a union apart, where `kind` is taken."""

    key: str


@dataclass(frozen=True, slots=True)
class WrittenAs:
    """A type that is written as another one: `decode(encode(value)) == value`.

    Attributes:
        of: the declared type that `encode` returns and `decode` gets; any JSON value by default.
            What `decode` raises becomes the one error of `codec.decode`.
    """

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]
    of: Any = Any


Labels = Annotated[tuple[str, ...], Short()]
Places = Annotated[tuple[int, ...], Short()]
