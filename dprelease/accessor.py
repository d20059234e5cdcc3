"""`df.dp`: the pandas door. Importing dprelease registers it, and does nothing else to pandas."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from dprelease.facade import Release, SchemaLike
    from dprelease.planning.model import ReleasePlan

__all__ = ["Accessor"]


@pd.api.extensions.register_dataframe_accessor("dp")
class Accessor:
    """Differentially private releases of this frame.

    >>> import dprelease as dp, pandas as pd
    >>> isinstance(pd.DataFrame({"a": [1]}).dp, dp.accessor.Accessor)
    True
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def plan(
        self,
        schema: SchemaLike,
        *,
        epsilon: object = None,
        delta: object = None,
        statistics: object = None,
        by: object = None,
        where: object = None,
    ) -> ReleasePlan:
        """Return what a release would draw and cost; reads no row (see `dprelease.plan`)."""
        from dprelease.facade import plan

        return plan(schema, epsilon=epsilon, delta=delta, statistics=statistics, by=by, where=where)

    def release(
        self,
        schema: SchemaLike,
        *,
        epsilon: object = None,
        delta: object = None,
        statistics: object = None,
        by: object = None,
        where: object = None,
        ledger: str | Path | None = None,
        dataset: str | None = None,
        period: str | None = None,
    ) -> Release:
        """Plan, charge, draw and check a release of this frame (see `dprelease.release`)."""
        from dprelease.facade import release

        return release(
            self._frame,
            schema,
            epsilon=epsilon,
            delta=delta,
            statistics=statistics,
            by=by,
            where=where,
            ledger=ledger,
            dataset=dataset,
            period=period,
        )
