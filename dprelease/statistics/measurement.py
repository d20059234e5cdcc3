"""How a statistic is measured: integer cells per group, and what one row can do to them.

A statistic offers one or more `Measurement`s. A block releases one measurement; statistics whose
measurements have equal `key`s share a block and its budget (mean and variance of one column).

Families
    scalar          one integer; the statistic is offset + step_size * cell. Noise acts on it directly.
    two_sums        S(code), S(K - code): non-negative, one row adds exactly K in total.
    centred_sums    K S(1), S(2 code - K): one row adds at most 2 K, a replaced one moves no more.
    centred_squares 3 K^2 S(1), 4 K S(t), 2 S(2 t^2 - K^2), t = 2 code - K: a row or a replaced one at most 9 K^2;
                    public n: K S(t), S(t^2).
    ratio_sums      S(Q b), S(a - M b) of two columns, each with its nulls; ratio_ends: their sum and difference.
    bernstein2      S((K-code)^2), S(2 code (K-code)), S(code^2): one row adds exactly K^2.
    shared_rows     several columns: one size, sums, squares and products about the middle (`measurements.several_columns`).
    bins            one count per histogram bin: one row adds 1 to at most one of them.
    tree_of_bins    the same, and counts of runs of bins: one row adds 1 to at most one of each level.
    tree_of_shares  the same, of which shares of the whole are published.
    soft_table      two columns: S(ab) and its mirror images; one row adds exactly Ka Kb.
    tensor          two columns: products of Bernstein-2 cells; one row adds exactly (Ka Kb)^2.
    pairs           several columns: one bernstein2 per column, one soft_table per pair.
    spectrum        eigenvalues of a covariance matrix in steps of a public grid, public n.
    matrix          the covariance matrix's upper triangle in such steps, public n.
    truncated_mean  S(1), S(code): first the count is released, then a truncated mean.
    ranks           a score per candidate value: how far its rank is from the one asked for.
    joint_ranks     the rows of one column value by value, for several ranks chosen together.
    recursive_ranks the same, for several ranks chosen one inside the other.
    rank_interval   the same as ranks, thrice: a quantile and both ends of its interval.
    winsorised      two limits, drawn first, then two sums or Bernstein cells of the rows clamped to them.
    laplacian       eigenvalues of a graph's Laplacian in steps of a public grid.
    graph_box       lambda_2 of a graph and degrees of nodes, each bounded by itself.
    table_set       cells of tables over several columns, or what each says beyond its own margins.
    constant        a public number: nothing is drawn, nothing is charged.

Units: cells are integers in steps, so nothing is rounded before noise. `l1_added_row`
and `l1_replaced_row` are L1 norms in the same steps: the most that adding one row, or replacing one
row's whole contribution, can move all cells of one group together.

Sources: `docs/theory/sensitivities-and-contribution-bounding.md#scalars`, `#partitions-of-unity`,
`#truncated-mean`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated, Any, Literal

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast, Digits, Labels, Note, Places
from dprelease.core.numeric import FEW
from dprelease.fitting.structure import Design
from dprelease.query.bounded import Code, Fixed, Near
from dprelease.query.resolved import Statistic
from dprelease.schema.domain import Domain

Family = Literal[
    "scalar",
    "two_sums",
    "centred_sums",
    "centred_squares",
    "ratio_sums",
    "ratio_ends",
    "bernstein2",
    "shared_rows",
    "bins",
    "tree_of_bins",
    "tree_of_shares",
    "truncated_mean",
    "ranks",
    "joint_ranks",
    "recursive_ranks",
    "rank_interval",
    "winsorised",
    "constant",
    "soft_table",
    "tensor",
    "pairs",
    "spectrum",
    "matrix",
    "laplacian",
    "graph_box",
    "table_set",
]

Form = Literal[
    "linear",
    "binned_tree",
    "scatter",
    "ranks",
    "joint_ranks",
    "recursive_ranks",
    "rank_interval",
    "winsorised",
    "cross",
    "pairs",
    "spectrum",
    "matrix",
    "degree",
    "connectivity",
    "sparse_connectivity",
    "laplacian",
    "graph_box",
    "table_set",
]
"""How exact cells are made of primitives (`statistics.exact`)."""


BY_RANK: tuple[Form, ...] = ("ranks", "joint_ranks", "recursive_ranks")
"""Forms of which a candidate is chosen by rank."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One of several columns: its code k in 0..scale stands for offset + step_size * k."""

    scale: Annotated[Digits, AtLeast(0)]
    offset: Fraction
    step_size: Fraction

    @property
    def width(self) -> Fraction:
        return self.scale * self.step_size


@dataclass(frozen=True, slots=True)
class Measure:
    """One primitive before the query numbers its codes (see `query.bounded.Primitive`)."""

    kind: str
    code: Code | None = None
    power: int = 0
    low: int = 0
    high: int = 0
    other: Code | None = None
    other_power: int = 0
    near: Near | None = None
    cells: tuple[int, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Measurement(Stored):
    """Integer cells of one block.

    Attributes:
        cells: labels; form: how cells follow from the measures, `weights @ measures` (where these would be the square
            of many measures, none are listed: each measure is a cell) unless it names another one of `statistics.exact`.
        per_unit: one unit contributes once, however many rows it keeps (persons).
        lower, upper: public bounds of a scalar's cell.
        scale: K, the code range of the column.
        offset, step_size: value = offset + step_size * (cell for scalars, code otherwise).
        public_rows: n, if it is public; then `l1_replaced_row` is the whole sensitivity.
        axes: the columns of a measurement of several, in the order of its codes.
        squares: the squared L2 norms that go with `l1_added_row` and `l1_replaced_row`, where they are less than those.
        margins: of a set of tables, how it is measured: its cells have no labels but their places.
        linf_per_component: the most that one unit moves every single cell, where a law is made of those.
        primitives: of a plan: the places of its measures among the query's primitives.
        max_rows: of a plan: rows of one unit and group that enter, where it is not the query's.
        data: of a plan: public facts about the column, for rules between statistics.
        sensitivity: of a plan: what is claimed that one unit moves; the wall makes it again.
    """

    family: Family
    key: tuple[str, ...]
    cells: Labels
    weights: tuple[tuple[Digits, ...], ...]
    l1_added_row: Annotated[Digits, AtLeast(0)]
    l1_replaced_row: Annotated[Digits, AtLeast(0)]
    measures: Annotated[tuple[Measure, ...], Note.unstored] = field(default=(), hash=False)
    lower: Annotated[Digits, Note.always] = 0
    upper: Annotated[Digits | None, Note.always] = None
    scale: Annotated[Digits, Note.always] = 1
    offset: Annotated[Fraction, Note.always] = Fraction(0)
    step_size: Annotated[Fraction, Note.always] = Fraction(1)
    per_unit: Annotated[bool, Note.always] = False
    form: Annotated[Form, Note.always] = "linear"
    public_rows: Annotated[int | None, AtLeast(1), Note.always] = None
    value: Annotated[Fraction, Note.always] = Fraction(0)
    axes: tuple[Axis, ...] = ()
    squares: tuple[Digits, ...] = ()
    linf_per_component: tuple[Digits, ...] = ()
    margins: Design | None = None
    primitives: Annotated[Places, Note.always] = ()
    max_rows: Annotated[int | None, Note.always] = None
    data: Annotated[Mapping[str, Any], Note.always] = field(default_factory=dict, hash=False)
    sensitivity: Annotated[Mapping[str, Any], Note.always] = field(default_factory=dict, hash=False)

    def likely(self, size: int | None, *, of_rows: bool) -> tuple[int, int] | None:
        """Return the least and the greatest cell that a scalar probably has of about `size` rows; None: anywhere.

        Half to twice as many rows are counted. What adds rows up is anywhere that so many rows can take it.
        """
        if size is None or self.upper is None or self.public_rows is not None:
            return None
        reach = size * self.l1_added_row
        low, high = (size // 2, 2 * size) if of_rows else (-reach, reach)
        return max(self.lower, min(low, self.upper)), min(self.upper, high)

    @property
    def alone(self) -> bool:
        """Whether each of its many measures is a cell of its own: no weights are listed."""
        return not self.weights and len(self.cells) > FEW


@dataclass(frozen=True, slots=True)
class Context(Statistic):
    """A statistic with what its schema says of the groups: all that a statistic sees.

    Attributes:
        cap: N, the public cap of rows per group, if declared.
        expected: the public guess of rows per group, where all of them are counted.
        groups: how many groups are released.
    """

    cap: int | None = None
    expected: int | None = None
    groups: int = 1

    @property
    def hull(self) -> Domain:
        """The hull of one row's value, in the column's unit; [0, 1] for a condition."""
        if self.column is None or self.column.domain is None:
            return Domain(0, 1)
        return Domain(self.column.domain.lower, self.column.domain.upper)

    @property
    def step(self) -> Fraction:
        """The fixed-point step of the code."""
        return Fraction(1) if self.column is None or self.column.step is None else self.column.step

    @property
    def scale(self) -> int:
        """K: codes lie in 0..K."""
        return (
            1 if self.column is None or self.column.domain is None else self.column.grid.hull_steps
        )

    @property
    def lowest(self) -> Fraction:
        """The value of code 0."""
        if self.column is None or self.column.domain is None:
            return Fraction(0)
        return self.column.grid.lower * self.step

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The columns of a statistic of several."""
        return tuple(
            Axis(c.grid.hull_steps, c.grid.lower * c.step, c.step)
            for c in self.codes
            if isinstance(c, Fixed)
        )

    @property
    def subject(self) -> str:
        """Identifies what is measured, for sharing blocks."""
        weighted = "" if self.weight is None else f" weighted by {self.weight.column.name}"
        return self._argument + weighted

    @property
    def _argument(self) -> str:
        if self.condition is not None:
            return f"({self.condition.canonical})"
        if self.columns:
            return " and ".join(c.name for c in self.columns)
        return self.column.name if self.column is not None else "*"
