"""What a release and a publication have in common: the same reading of the same numbers.

What computes with published values is imported when it is asked for: most releases never are.
"""

from __future__ import annotations

import html as escaping
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dprelease.core.numeric import counted
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw
from dprelease.results.receipt import Receipt
from dprelease.results.rules import WEAK, WITHOUT_VALUE, unsaid

if TYPE_CHECKING:
    import pandas as pd

    from dprelease.reading.derived import Derived
    from dprelease.reading.evaluation import Periods
    from dprelease.reading.public_table import PublicLike
    from dprelease.reading.released_values import ReleasedValues
    from dprelease.results.formats.picture import Picture

SAYS_NOTHING = dict.fromkeys(WEAK, "says nothing")
ONE_TABLE = "data"
"""The name of the table of a release that has one."""


class Released:
    """A drawn release, held by its publisher or read from a folder: what `Release` and `Publication` share."""

    def __init__(self, noised: Draw) -> None:
        self._noised = noised

    @property
    def noised(self) -> Draw:
        """The noisy integers and the plan, as they left the wall."""
        return self._noised

    @property
    def table(self) -> pa.Table:
        """The tidy table; ArgumentError where there are several (DPR669)."""
        return self._draw_of(None).table

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """Every tidy table by name; the only one is called "data"."""
        parts = self._noised.parts
        return {n: p.table for n, p in parts.items()} or {ONE_TABLE: self.table}

    @property
    def plan(self) -> ReleasePlan:
        """The plan that was followed."""
        return self._noised.plan

    @property
    def receipt(self) -> Receipt:
        """What it cost."""
        return self._noised.receipt

    def to_pandas(
        self,
        table: str | None = None,
        *,
        intervals: bool = True,
        status: bool = True,
        pivot: str | Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return the wide table: one row per group, keys first, then each published column.

        Of several tables a finer one ends with the keys of coarser ones, unless it is pivoted.

        Args:
            table: which one, where there are several.
            pivot: keys whose labels go into the columns, below each published column; the other keys are the
                index. Without any, `pivot=[]`, all keys are the index.
            intervals: with `<name>_lower` and `<name>_upper`, the ends of the 95 % interval.
            status: with `<name>_status`. Without it, uninformative values are missing (NA): a
                number that says nothing never stands there as if it said something.

        Raises:
            ArgumentError: there is no such table (DPR669), or no such key (DPR681).
        """
        from dprelease.results.formats.frames import frame_of

        return frame_of(self._draw_of(table), pivot, intervals=intervals, status=status)

    def long(self, table: str | None = None) -> pd.DataFrame:
        """Return the tidy table: one row per group and published column, with interval and status."""
        frame: pd.DataFrame = self._draw_of(table).table.to_pandas()
        return frame

    def _repr_html_(self) -> str:
        lines = [f"{self.plan.guarantee}. {self.receipt}."]
        if self._noised.parts:
            names = "".join(f"<p>{escaping.escape(n)}</p>{self._html(n, 20)}" for n in self.tables)
            lines.append("Noise is in every number; the tables add up.")
        else:
            names = self._html()
            lines.append(
                "Noise is in every number: `to_pandas()` has intervals, `plot()` shows them."
            )
        lines += self.plan.bounded_count_lines()
        said = "<br>".join(escaping.escape(self.plan.in_words(line)) for line in lines)
        return f"{names}<p>{said}</p>"

    def _html(self, table: str | None = None, most: int = 40) -> str:
        """Return the wide table for a notebook, with signs of thousands, and words for values that say nothing."""
        frame: Any = self.to_pandas(table, intervals=False).astype(object)
        columns = dict(frame.items())  # a frame takes a copy for every column that changes
        for name in [c for c in columns if f"{c}_status" in columns]:
            said = columns.pop(f"{name}_status").map(
                {**SAYS_NOTHING, **{name: name for name in WITHOUT_VALUE}}
            )
            shown = columns[name].map("{:,}".format, na_action="ignore")
            columns[name] = shown.where(said.isna(), said)
        frame = type(frame)(columns)
        return str(frame.to_html(index=False, max_rows=most, escape=True, border=0))

    def plot(
        self,
        statistic: str | None = None,
        *,
        group: str | Sequence[str] | None = None,
        table: str | None = None,
    ) -> Picture:
        """Return a picture over the groups, with 95 % intervals: of one statistic, or of all: one below the other, side by side over many groups.

        It shows itself in a notebook; its `svg` is text to be written to a file. A histogram is a
        panel per group, the first 60 of them.

        Args:
            statistic: its published name (`mean_age`) or as it was asked for (`mean(age)`); all of them by default.
            group: one group alone: its label, or its labels in the order of `by`.
            table: which one, where there are several.

        Raises:
            ArgumentError: there is no such statistic (DPR613), group (DPR618) or table (DPR669).
        """
        from dprelease.results.formats.picture import release_picture

        return release_picture(self._draw_of(table), statistic, group)

    def derive(
        self,
        expression: str = "",
        *,
        by: Sequence[str] | None = None,
        table: str | None = None,
        public: PublicLike | None = None,
        level: float = 0.95,
        name: str | None = None,
        certain: bool = False,
    ) -> Derived:
        """Compute with published values: `late / count`, `share(count)`, `growth(count)`.

        It costs no privacy: everything is a function of published numbers and public laws.

        Args:
            expression: names of published columns, `name[carrier='UA']`, `name@2026-W45`,
                `name@previous`, `table.name` of another table of the release, columns of `public`, numbers, + - * / ( ), and the functions of
                `dprelease.reading.grammar`.
            by: the result's key columns; the others are pooled. By default, those that some name
                leaves open.
            table: which table, where there are several.
            public: denominators and weights: a frame, an arrow table, or a path to CSV or Parquet.
            level: of the intervals.
            name: the result's title.
            certain: where the values lie for certain, instead of at `level`, if all their noise ends.

        Raises:
            ConfigError: the expression does not parse (DPR120 to DPR129, DPR162 to DPR164).
            ArgumentError: it cannot be computed (DPR660 to DPR669).
        """
        from dprelease.reading.derive import derive
        from dprelease.reading.table_values import values_of

        values = values_of(self._noised, table)
        more: Any = {"by": by, "public": public, "level": level, "name": name, "certain": certain}
        return derive(self._periods(values), expression, source=self._source(), **more)

    def _draw_of(self, table: str | None) -> Draw:
        if table is None and not self._noised.parts:
            return self._noised.published
        from dprelease.reading.table_values import named_table

        name = named_table(self._noised, table)
        return self._noised.published if name is None else self._noised.parts[name]

    def _periods(self, values: ReleasedValues) -> Periods:
        from dprelease.reading.evaluation import Periods

        return Periods(values, self.receipt.period, {})

    def _size(self) -> str:
        """Return how much it publishes, and how much of it says nothing: "2 statistics over 3 groups; 1 of 6 values say nothing"."""
        groups = counted(len(self.plan.keys), "group") if self.plan.by else "one group"
        if self.plan.tables is not None:
            groups = f"{counted(len(self.tables), 'table')} that add up"
        size = f"{counted(len(self.plan.statistics), 'statistic')} over {groups}"
        shown = [part.published.table for part in self._noised.parts.values() or (self._noised,)]
        return "; ".join(filter(None, (size, unsaid(shown))))

    def _source(self) -> str:
        key = (self.receipt.pipeline, self.receipt.period)
        return " ".join(part for part in key if part) or self.plan.schema
