"""What is said beside a stored field where its type cannot say it (see `codec`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any


class Note(Enum):
    """What is said of a field by a word alone.

    Attributes:
        always: it is written even where it has its default, and required when it is read.
        as_text: an integer that is written as text whatever its size, where some may pass 2**53.
        short: texts or whole numbers, of which a long regular list is written short (`numeric.short_list`).
        inline: a dataclass whose keys stand beside those of the one that holds it.
        unstored: it is not written; read back, it has its default.
    """

    always = auto()
    as_text = auto()
    short = auto()
    inline = auto()
    unstored = auto()


@dataclass(frozen=True, slots=True)
class StoredAs:
    """A field that is stored under another name than its own."""

    name: str


@dataclass(frozen=True, slots=True)
class AtLeast:
    """A number that is refused below `least` when it is read."""

    least: int


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


Digits = Annotated[int, Note.as_text]
Labels = Annotated[tuple[str, ...], Note.short]
Places = Annotated[tuple[int, ...], Note.short]
