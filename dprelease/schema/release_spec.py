"""What to release and how much privacy to spend on it, names not yet resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Literal

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast
from dprelease.schema.domain import Domain

if TYPE_CHECKING:
    from dprelease.query.nodes import Expression


@dataclass(frozen=True, slots=True)
class StatisticSpec:
    """One statistic as asked for, names not yet resolved.

    Attributes:
        text: as written, `mean(age)`.
        function: `mean`; arguments: `("age",)`, conditions and edges as their source text.
        name: the published name (`as`, else derived: `mean_age`).
        domain: declared output domain, or None for the induced one.
        step: declared output step.
        share: fixed part of epsilon; weight: steers the rest.
        max_error: expected error to stay within, in the statistic's unit; None for no goal.
        spikes: False forbids point masses at borders and gap edges.
        mechanism: a pinned family, or None.
        max_rows: per-statistic override of the unit's max_rows_per_group.
        note: a public sentence for the report; never computed from the data.
        title: its heading on public pages.
        interval: an interval is drawn for a quantile too.
        expected: a public guess of a correlation, for pricing only.
        accurate_for: `ranges` where sums of a histogram's bins matter more than single ones.
        certain: its noise ends, so that it has a certain interval.
        found: keys of a unit that count, where it decides which keys are published; else 0.
        where: the condition on the rows that it is of, as written; "" for all rows of its group.
        condition: the parsed argument of a statistic of a condition, once the schema is known.
    """

    text: str
    function: str
    arguments: tuple[str, ...]
    name: str
    domain: Domain | None = None
    step: Fraction | None = None
    share: Fraction | None = None
    weight: Fraction = Fraction(1)
    max_error: Fraction | None = None
    spikes: bool = True
    mechanism: str | None = None
    max_rows: int | None = None
    note: str | None = None
    expected: Fraction | None = None
    accurate_for: str | None = None
    title: str | None = None
    interval: bool = False
    certain: bool = False
    found: int = 0
    where: str = ""
    origin: str = ""
    condition: Expression | None = field(default=None, compare=False, repr=False)

    @property
    def identity(self) -> tuple[str, ...]:
        """What tells it from others of its function: its arguments, and of which rows."""
        if not self.where:
            return self.arguments
        return " where ".join((*self.arguments[:1], self.where)), *self.arguments[1:]


@dataclass(frozen=True, slots=True)
class DetailSpec:
    """How fine a table is published.

    Attributes:
        statistic: the published name of what decides; max_error: in its unit; max_relative_error: a part of
            the average size, told by a draw that gets `share` of epsilon.
        levels: coarser tables that rows may stand at, coarse to fine; (): the next coarser one.
    """

    statistic: str
    max_error: Fraction | None = None
    max_relative_error: Fraction | None = None
    share: Fraction | None = None
    levels: tuple[str, ...] = ()
    origin: str = ""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table of a release of several.

    Attributes:
        by: columns, or levels of a hierarchy; share: its part of epsilon, None: the planner's choice.
        zeros: groups that can hold no row, by public knowledge; detail: None where every cell is published.
    """

    name: str
    by: tuple[str, ...]
    statistics: tuple[StatisticSpec, ...]
    share: Fraction | None = None
    zeros: tuple[tuple[str, ...], ...] = ()
    detail: DetailSpec | None = None
    origin: str = ""


@dataclass(frozen=True, slots=True)
class TotalSpec:
    """Public values of one statistic of one table: a number per key, `(key, value)`."""

    table: str
    statistic: str
    values: tuple[tuple[tuple[str, ...], Fraction], ...]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Suppress(Stored):
    """Cells whose noisy count is `below` are published without a value; `statistic` names the count."""

    below: Annotated[int, AtLeast(1)]
    statistic: str | None = None


@dataclass(frozen=True, slots=True)
class Rules(Stored):
    """Rules of one release; `round`: numbers of rows are published as multiples of it."""

    suppress: Suppress | None = None
    sparse: bool = False
    round: Annotated[int, AtLeast(1)] | None = None


@dataclass(frozen=True, slots=True)
class ReleaseSpec:
    """What to release and how much privacy to spend on it, names not yet resolved.

    `where` is the filter's tree: its text was read once.
    `composition` is that of the ledger: where two laws err alike, it decides which of them costs less.
    `epsilon` 0 stands for a release whose statistics all have a `max_error`: what those need.
    `tables` replace `by` and `statistics`; `statistics` are then those of all tables, in order.
    `found` is how many keys of a unit count, where its keys are found; else 0.
    """

    statistics: tuple[StatisticSpec, ...]
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    by: tuple[str, ...] = ()
    keys_from: tuple[tuple[str, ...], ...] | None = None
    where: Expression | None = None
    loss: Literal["absolute", "squared"] = "absolute"
    judge: Literal["average", "worst"] = "average"
    composition: str = "basic"
    allow: tuple[str, ...] = ()
    tables: tuple[TableSpec, ...] = ()
    totals: tuple[TotalSpec, ...] = ()
    rules: Rules | None = None
    found: int = 0
    origin: str = ""
