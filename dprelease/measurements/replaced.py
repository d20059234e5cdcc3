"""Laws of choices by rank that were replaced: what they drew is read, and verified by the version that drew it.

Until 0.2.0 candidates came in a few copies: 4 of each point for several values chosen together, 16 for values chosen one inside
the other. With many rows of one value the former landed anywhere, and the latter beside it.

Shapes: as the laws that came after them, `measurements.joint_ranks` and `measurements.recursive_ranks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, NoReturn

from dprelease.core.codec_notes import AtLeast
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import InternalError
from dprelease.measurements.joint_ranks import OrderedLaw
from dprelease.measurements.law import Objects
from dprelease.statistics.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class JointOfCopies(OrderedLaw):
    """Points in order by one law, of 4 copies of each."""

    tag: ClassVar[str] = "joint_exponential"
    levels: ClassVar[int] = 4
    constants: ClassVar[Mapping[str, str]] = {"draw": "tag", "levels": "levels"}

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        _replaced(self)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        _replaced(self)


@dataclass(frozen=True, slots=True)
class RecursiveOfCopies(OrderedLaw):
    """Points, each chosen between those around it, of 16 copies of each."""

    tag: ClassVar[str] = "recursive_exponential"
    copies: ClassVar[int] = 16
    units: ClassVar[int] = 2**14
    constants: ClassVar[Mapping[str, str]] = {"draw": "tag", "copies": "copies", "units": "units"}

    targets: tuple[int, ...] = ()
    b: Annotated[int, AtLeast(1)] = 1

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        _replaced(self)

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        _replaced(self)


def _replaced(law: OrderedLaw) -> NoReturn:
    raise InternalError(
        f"the law `{law.tag}` is read and no longer drawn",
        why="another law replaced it after version 0.2.0",
        fix="make the plan again with this version of dprelease",
        code="DPR905",
    )
