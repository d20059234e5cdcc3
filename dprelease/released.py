"""`Release`: what users hold once a release is drawn. All of it may be published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from dprelease.core.caller import path_from
from dprelease.core.errors import ArgumentError
from dprelease.pipeline import stages
from dprelease.pipeline.files import FORMATS, software
from dprelease.pipeline.flow import Flow
from dprelease.reading.released import Released
from dprelease.results.draw import Draw
from dprelease.results.validate.verdict import Verdict

__all__ = ["Keys", "Release"]


class Release(Released):
    """A drawn release: values, intervals, plan and receipt. All of it may be published.

    Attributes:
        table: tidy pyarrow table, one row per (group, published column).
        plan: the plan that was followed; receipt: what it cost.
    """

    def __init__(self, noised: Draw, flow: Flow) -> None:
        super().__init__(noised)
        self.flow = flow

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest as `release.json` will hold it, file hashes left out."""
        from dprelease.results.formats.json_ import build_manifest

        verdict = stages.validated(self._noised, great_expectations=False)
        return build_manifest(self._noised, verdict, {}, software=software(), formats=FORMATS)

    def validate(self) -> Verdict:
        """Check every value with the Great Expectations suite made from the plan."""
        return stages.validated(self._noised, great_expectations=True)

    def publish(self, folder: str | Path) -> Path:
        """Publish to `<folder>/<pipeline>/<period>/` and return that path; repeatable.

        Raises:
            ArgumentError: the release has no ledger (DPR676), or `folder` is no path (DPR642).
            WithheldError: a value failed validation (DPR701), or the folder holds other bytes.
        """
        flow, request = self.flow, self.flow.request
        if request is None:
            raise ArgumentError(
                "an unledgered release cannot be published",
                why="nothing durable records what it spent",
                fix='release with `ledger="ledger.db", dataset=..., period=...`',
                code="DPR676",
            )
        to = path_from(folder, "the public folder", "public")
        if request.ledger.files(request.key) is None:
            flow.commit(self._noised, self.receipt)
        return flow.publish(to, self.receipt)[0]

    def __repr__(self) -> str:
        return f"<Release of {self._size()}; {self.receipt}>"


class Keys(Release):
    """Keys that were found, with their noisy numbers of persons: all of it may be published.

    Attributes:
        table: pyarrow table of `key`, sorted by it, `persons`, and their 95 % interval `lower`, `upper`.
    """

    @property
    def table(self) -> pa.Table:
        tidy = super().table
        (by,) = self.plan.by
        columns = {"key": by, "persons": "value", "lower": "lower", "upper": "upper"}
        return pa.table({name: tidy.column(of) for name, of in columns.items()})
