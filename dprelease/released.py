"""`Release`: what users hold once a release is drawn. All of it may be published."""

from __future__ import annotations

import html as escaping
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.errors import ArgumentError
from dprelease.noised import Noised, Receipt
from dprelease.pipeline import stages
from dprelease.pipeline.files import FORMATS, software
from dprelease.pipeline.flow import Flow
from dprelease.planning.model import ReleasePlan
from dprelease.validate.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dprelease.formats.picture import Picture

__all__ = ["Release"]


class Release:
    """A drawn release: values, intervals, plan and receipt. All of it may be published.

    Attributes:
        table: tidy pyarrow table, one row per (group, published column).
        plan: the plan that was followed; receipt: what it cost.
    """

    def __init__(self, noised: Noised, flow: Flow) -> None:
        self._noised = noised
        self._flow = flow

    @property
    def table(self) -> pa.Table:
        return self._noised.table

    @property
    def plan(self) -> ReleasePlan:
        return self._noised.plan

    @property
    def receipt(self) -> Receipt:
        return self._noised.receipt

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as `release.json` will hold it, file hashes left out."""
        from dprelease.formats.json_ import build_manifest

        verdict = stages.validated(self._noised, great_expectations=False)
        return build_manifest(self._noised, verdict, {}, software=software(), formats=FORMATS)

    def to_pandas(self, *, intervals: bool = True, status: bool = True) -> pd.DataFrame:
        """Return the wide table: one row per group, keys first, then each published column.

        Args:
            intervals: with `<name>_lower` and `<name>_upper`, the ends of the 95 % interval.
            status: with `<name>_status`. Without it, uninformative values are missing (NA): a
                number that says nothing never stands there as if it said something.
        """
        from dprelease.formats.wide import wide_table

        table = wide_table(self._noised, intervals=intervals, status=status)
        frame: pd.DataFrame = table.to_pandas()
        gaps = [
            c for c in table.column_names if str(table[c].type) == "int64" and table[c].null_count
        ]
        return frame.astype(dict.fromkeys(gaps, "Int64"))

    def plot(
        self, statistic: str | None = None, *, group: str | Sequence[str] | None = None
    ) -> Picture:
        """Return a picture of one statistic over the groups, with its 95 % intervals.

        It shows itself in a notebook; its `svg` is text to be written to a file. A histogram is a
        panel per group, the first 60 of them.

        Args:
            statistic: its published name (`mean_age`) or as it was asked for (`mean(age)`); the
                first one by default.
            group: one group alone: its label, or its labels in the order of `by`.

        Raises:
            ArgumentError: there is no such statistic (DPR613), or no such group (DPR618).
        """
        from dprelease.formats.picture import release_picture

        return release_picture(self._noised, statistic, group)

    def validate(self) -> Verdict:
        """Check every value with the Great Expectations suite made from the plan."""
        return stages.validated(self._noised, great_expectations=True)

    def publish(self, folder: str | Path) -> Path:
        """Publish to `<folder>/<pipeline>/<period>/` and return that path; repeatable.

        Raises:
            ArgumentError: the release has no ledger (DPR631).
            WithheldError: a value failed validation (DPR701), or the folder holds other bytes.
        """
        flow, request = self._flow, self._flow.request
        if request is None:
            raise ArgumentError(
                "an unledgered release cannot be published",
                why="nothing durable records what it spent",
                fix='release with `ledger="ledger.db", dataset=..., period=...`',
                code="DPR631",
            )
        if request.ledger.files(request.key) is None:
            flow.commit(self._noised, self.receipt)
        return flow.publish(folder, self.receipt)[0]

    def __repr__(self) -> str:
        groups = f"{len(self.plan.keys):,} groups" if self.plan.by else "one group"
        return f"<Release of {len(self.plan.statistics)} statistics over {groups}; {self.receipt}>"

    def _repr_html_(self) -> str:
        frame: Any = self.to_pandas(intervals=False, status=False)
        names = ", ".join(s.name for s in self.plan.statistics)
        lines = [
            f"{self.plan.guarantee}. {self.receipt}",
            f"Noise is in every number: see `release.to_pandas()` for intervals, `release.plot(name)` for {names}.",
        ]
        if frame.isna().any(axis=None):
            lines.append(
                "Where a value is missing, it would say nothing: the noise is as large as its whole range."
            )
        note = "<br>".join(escaping.escape(line) for line in lines)
        shown = frame.to_html(index=False, max_rows=40, escape=True, border=0)
        return f"{shown}<p>{note}</p>"
