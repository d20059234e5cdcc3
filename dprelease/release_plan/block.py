"""One block of a plan: a law over integers, charged once; and how the blocks of a release add up.

Units: epsilon and rho in nats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Labels, Note
from dprelease.measurements.base import family_named
from dprelease.measurements.law import WrittenLaw
from dprelease.statistics.base import kind_named
from dprelease.statistics.measurement import Measurement

Cells = dict[str, tuple[tuple[int, ...], ...]]
"""Noisy integers per block, `(groups, cells)`."""


@dataclass(frozen=True, slots=True)
class Block(Stored):
    """One draw per group, charged `epsilon` once for all groups together.

    Attributes:
        name: for people and the tidy table's `block` column.
        epsilon: nats charged (0 only for a public constant); of a block with a rho, what it would
            guarantee alone at the plan's delta.
        rho: its zCDP cost, where it has no pure loss.
        delta: its part of the plan's delta, where its noise ends.
        share: what it was given to spend (`allocation.share.Share.to_json`): chosen, and recorded.
        measurement: which integers are drawn, of which primitives.
        table: whose groups it measures, of a release of several.
        law: what they are drawn by, enough to recompute `certificate`.
        certificate: exact numbers; `epsilon_upper` is the proved loss, a "p/q" string.
    """

    name: str
    epsilon: Fraction
    measurement: Measurement
    law: WrittenLaw
    certificate: Mapping[str, Any]
    rho: Fraction | None = None
    share: Annotated[Mapping[str, Any], Note.always] = field(default_factory=dict)
    table: str | None = None
    delta: Fraction = Fraction(0)

    derived: ClassVar[tuple[str, ...]] = ("family", "cells", "mechanism")

    @property
    def family(self) -> str:
        """The family of its measurement."""
        return self.measurement.family

    @property
    def cells(self) -> Labels:
        """Labels of the released integers."""
        return self.measurement.cells

    @property
    def mechanism(self) -> str:
        """The mechanism drawn from."""
        return self.law.mechanism

    @property
    def has_interval(self) -> bool:
        """Whether its values have an interval; a choice by rank has an error in rows only."""
        return family_named(self.family).interval

    def certain(self, function: str) -> bool:
        """Return whether values of a statistic have certain intervals: its noise ends, and they are what is drawn."""
        return self.law.bound is not None and kind_named(function).adds_up

    @property
    def public(self) -> bool:
        """Whether it is a public number: nothing is drawn or charged."""
        return family_named(self.family).free


@dataclass(frozen=True, slots=True)
class JointEvidence:
    """What is certified of all blocks of a release together.

    Attributes:
        epsilon_upper: their epsilon at the plan's delta.
        rho: their total rho, that of pure losses included, rounded up to a nano-unit; None where one has none.
    """

    epsilon_upper: Fraction
    rho: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Composition(Stored):
    """How the blocks of a release with a delta add up.

    Attributes:
        method: a name of `dprelease.budget.composition.METHODS`.
        evidence: what is certified of all blocks together.
        compared: the ways that were priced, with their total declared errors; with what each costs in
            epsilon, where all statistics have goals and ask for it. For who plans: no part of the
            record, as nobody could make these figures again without planning anew.
    """

    method: str
    evidence: JointEvidence
    compared: Annotated[tuple[tuple[str, float], ...], Note.unstored] = field(
        default=(), compare=False
    )
