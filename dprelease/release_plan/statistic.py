"""One published statistic of a plan, and the columns it is published under.

Units: errors and steps in the statistic's unit; sizes in rows per group.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Literal

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Labels, Note, StoredAs, WrittenAs
from dprelease.core.numeric import counted, plain
from dprelease.measurements.candidate import Option
from dprelease.schema.domain import WrittenDomain
from dprelease.schema.release_spec import Suppress
from dprelease.statistics.base import kind_named

TIDY_NAMES = (
    "statistic",
    "value",
    "lower",
    "upper",
    "estimate",
    "unbiased",
    "consistent",
    "mechanism",
    "block",
    "epsilon",
    "status",
)
"""The tidy table's columns after the key columns, in order."""

CERTAIN_NAMES = ("certain_lower", "certain_upper")
"""Columns that the tidy table has after `upper` where noise ends."""

WIDE_PARTS = {
    False: ("lower", "upper", "status"),
    True: ("lower", "upper", *CERTAIN_NAMES, "status"),
}
"""What stands beside each published column of the wide table, as `<name>_<part>`; True: where its noise ends."""


@dataclass(frozen=True, slots=True)
class Uninformative(Stored):
    """A statistic whose interval is expected to be the whole domain.

    Attributes:
        groups: in how many groups, of how many; size: the largest declared size among these.
        narrow: only where rows lie close together (sd 5 % of the range), which nobody has guessed.
        epsilon: what the whole release would need, its parts kept; None: no useful amount.
        rows: rows per group that would do at the plan's epsilon; None: no number would.
    """

    groups: int
    of: int
    size: int
    narrow: bool
    epsilon: Fraction | None
    rows: int | None

    def __str__(self) -> str:
        where = (
            f" in {self.groups:,} of {counted(self.of, 'group')}" if self.groups < self.of else ""
        )
        rows = " where values lie close together (sd 5 % of the range)" if self.narrow else ""
        said = f"expected to say nothing{where} at n={self.size:,}{rows}: its 95 % range leaves nothing out"
        ways = []
        if self.epsilon is not None:
            there = " (for the largest of these groups)" if self.groups > 1 else ""
            ways.append(f"epsilon {plain(self.epsilon)} in all{there}")
        if self.rows is not None:
            ways.append(f"groups so coarse that each has about {counted(self.rows, 'row')}")
        return f"{said}; {', or '.join(ways)} would change that" if ways else said


_Spikes = Annotated[
    bool,
    WrittenAs(
        lambda v: "allow" if v else "forbid", lambda v: v == "allow", Literal["allow", "forbid"]
    ),
]


@dataclass(frozen=True, slots=True)
class PlannedStatistic(Stored):
    """One published statistic.

    Attributes:
        name: published name; text: as asked for (`mean(age)`); function: `mean`.
        block: the block it is computed from; cells: indices into that block's cells.
        columns: published column names: one, or one per histogram bin.
        domain: allowed published values (induced and declared, intersected).
        step: published values are multiples of it.
        measure: unit of the value, for labels.
        mechanism: family drawn from; chosen: priced options, best first (the chosen one is first).
        planned_error: expected |error| (or squared error), in the statistic's unit, at the public
            guess of rows per group; None if there is none. Said beforehand, of the plan: the
            released interval says how exact a drawn value is.
        group_errors: the same per group, at the public guesses per key, if there are any.
        error_text: what to print for the error ("±0.9" or "±12.3 at n=1,000").
        spikes: whether point masses at borders and gap edges are allowed.
        remark: the publisher's own public sentence, shown with the numbers.
        uninformative: set where it is expected to say nothing at the declared size.
        view: which column of a block of several this statistic of one looks at.
        notes: sentences for the report: what is bounded, which bias is not in the interval.
    """

    name: str
    text: Annotated[str, StoredAs("statistic")]
    function: str
    block: str
    columns: Labels
    domain: WrittenDomain
    step: Fraction
    measure: str
    mechanism: str
    chosen: Annotated[tuple[Option, ...], StoredAs("options")]
    planned_error: float | None
    error_text: str
    sensitivity: str
    spikes: Annotated[_Spikes, Note.always] = True
    notes: Annotated[tuple[str, ...], Note.always] = ()
    group_errors: Annotated[tuple[float, ...] | None, Note.always] = None
    remark: Annotated[str | None, Note.always] = None
    view: int | None = None
    uninformative: Annotated[Uninformative | None, Note.always] = None
    table: str | None = None

    @property
    def called(self) -> str:
        """Its published name, behind that of its table if there are several."""
        return self.name if self.table is None else f"{self.table}: {self.name}"

    @property
    def sensitivity_text(self) -> str:
        """The sensitivity for people: of several tables plans keep `1 rows over all cells`."""
        return re.sub(r"^1 (row|unit)s\b", r"1 \1", self.sensitivity)

    def threshold(self, below: int) -> int:
        """Return the least noisy number that is published as `below` or more: it is rounded to a step, halves up."""
        published = math.ceil(below / self.step) * self.step
        return max(below, math.ceil(published - self.step / 2))


def deciding(statistics: Sequence[PlannedStatistic], rule: Suppress) -> PlannedStatistic | None:
    """Return the statistic of one table whose noisy number decides; None where the table has none.

    It is named as it is published or as it is written, by `persons` for `count(persons)`; without a name it
    is the number of rows.
    """
    counts = [s for s in statistics if kind_named(s.function).counting and len(s.columns) == 1]
    wanted = rule.statistic
    if wanted is None:
        return next((s for s in counts if kind_named(s.function).of_rows), None)
    return next(
        (
            s
            for s in counts
            if wanted in (s.name, s.text, s.text.partition("(")[2].removesuffix(")"))
        ),
        None,
    )


def numbers(statistics: Sequence[PlannedStatistic]) -> list[PlannedStatistic]:
    """Return the statistics that are numbers of rows, persons or values, which may be rounded."""
    kinds = [(s, kind_named(s.function)) for s in statistics]
    return [s for s, kind in kinds if kind.whole and (kind.counting or kind.parts)]
