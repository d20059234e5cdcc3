"""What a measurement is priced and drawn for: statistics with their domains, grouped into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dprelease.mechanisms.law import Criterion
from dprelease.schema.domain import Domain
from dprelease.statistics.measurement import Context, Measurement

if TYPE_CHECKING:
    from dprelease.statistics.base import StatisticKind

Loss = Literal["absolute", "squared"]
"""How errors are judged: by |error|, or by its square."""


@dataclass(frozen=True, slots=True)
class Member:
    """One statistic with its final domain and admissible measurements, preferred first."""

    statistic: Context
    kind: StatisticKind
    domain: Domain
    options: tuple[Measurement, ...]
    induced: Domain
    view: int | None = None
    """The column a statistic of one looks at in a block of several."""

    @property
    def max_rows(self) -> int | None:
        return self.statistic.spec.max_rows

    @property
    def truncated(self) -> bool:
        """Whether no point masses may lie at the ends and gaps of its domain."""
        return not self.statistic.spec.spikes

    @property
    def measure(self) -> str:
        """The unit of the published value, for labels."""
        return self.kind.unit(self.statistic)


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """One block: its members and the measurements every member can be computed from."""

    members: tuple[Member, ...]
    options: tuple[Measurement, ...]
    table: str | None = None
    """The table whose cells are drawn, of a release of several."""

    @property
    def name(self) -> str:
        specs = [m.statistic.spec for m in self.members]
        names = "+".join(s.name for s in specs if s.weight or len(specs) == 1)  # 0: beside another
        return names if self.table is None else f"{self.table}.{names}"

    @property
    def max_rows(self) -> int | None:
        return self.members[0].max_rows

    def judged_by(self, criterion: Criterion) -> Criterion:
        """Return how its laws are compared: truncated beside a gap, by their worst answer, else as asked.

        Few answers lie in a gap, so an average hardly shows what a law does to them.
        """
        torn = any(m.truncated and m.domain.exact_gaps for m in self.members)
        return "worst" if torn else criterion
