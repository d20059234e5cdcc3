"""`df.dp`: the door of pandas and polars frames. Importing dprelease registers it, and does nothing else to them."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dprelease.core.numeric import Number
    from dprelease.facade import Statistics, Tables
    from dprelease.query.load import SchemaLike
    from dprelease.release_plan.plan import ReleasePlan
    from dprelease.released import Keys, Release

__all__ = ["Accessor"]


class _NotATable:
    """What `dp` is on a Series or a groupby: the accessor's methods say what to call them on."""

    def __init__(self, data: object) -> None:
        self._data = data

    def __getattr__(self, name: str) -> NoReturn:
        if not name.startswith("_") and hasattr(Accessor, name):
            from dprelease.engines.source import as_source

            as_source(self._data)  # type: ignore[arg-type]  # says why it is no table
        raise AttributeError(name)


def _doors() -> ModuleType:
    """Return what frames are handed to, which is loaded when it is first used."""
    from dprelease import facade

    return facade


pd.api.extensions.register_series_accessor("dp")(_NotATable)
pd.api.typing.DataFrameGroupBy.dp = property(_NotATable)  # type: ignore[attr-defined]
pd.api.typing.SeriesGroupBy.dp = property(_NotATable)  # type: ignore[attr-defined]


@pd.api.extensions.register_dataframe_accessor("dp")
class Accessor:
    """Differentially private releases of this frame.

    `df.dp.plan(schema)` shows what a release would cost and how exact it would be, and
    `df.dp.release(schema)` makes it. The schema says everything that is public: columns with
    their ranges and keys, who is protected, and what to release; nothing is learnt from the frame.

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
        epsilon: Number | None = None,
        delta: Number | None = None,
        statistics: Statistics | None = None,
        by: Sequence[str] | None = None,
        where: str | None = None,
        tables: Tables | None = None,
        rules: Mapping[str, object] | None = None,
        during: str | None = None,
    ) -> ReleasePlan:
        """Return what a release would draw and cost; reads no row and spends nothing.

        The frame itself is not looked at: the plan is that of `dprelease.plan(schema)`.

        Args:
            schema: a `dp.Schema`, a path to its file, or a mapping of the same shape.
            epsilon, delta, statistics, by, where, tables: override the schema's `release` block.
            during: release the rows of one period of the schema's `time` alone, e.g. 2026-W46.

        Raises:
            ConfigError, PlanError: the request is faulty, or no proved, useful plan exists.
        """
        asked: Any = {"epsilon": epsilon, "delta": delta, "statistics": statistics, "by": by}
        asked |= {"where": where, "tables": tables, "rules": rules, "during": during}
        found: ReleasePlan = _doors().plan(schema, **asked)
        return found

    def release(
        self,
        schema: SchemaLike,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        statistics: Statistics | None = None,
        by: Sequence[str] | None = None,
        where: str | None = None,
        tables: Tables | None = None,
        rules: Mapping[str, object] | None = None,
        during: str | None = None,
        ledger: str | Path | None = None,
        dataset: str | None = None,
        period: str | None = None,
    ) -> Release:
        """Plan, charge, draw and check a release of this frame.

        Args:
            schema: a `dp.Schema`, a path to its file, or a mapping of the same shape.
            epsilon, delta, statistics, by, where, tables: override the schema's `release` block.
            during: release the rows of one period of the schema's `time` alone, e.g. 2026-W46.
            ledger, dataset, period: charge durably under the key (dataset, schema name, period);
                the same key again returns the same values and costs nothing. Without them the
                release is not recorded, says so, and cannot be published.

        Returns:
            a `dp.Release`: `to_pandas()` (one row per group), `table` (tidy, with intervals),
            `plot(name)`, `receipt`, `publish(folder)`.

        Raises:
            DpreleaseError: as `dprelease.release`; its class says what was already spent.
        """
        from dprelease.facade import release

        asked: Any = {"epsilon": epsilon, "delta": delta, "statistics": statistics, "by": by}
        asked |= {"where": where, "tables": tables, "rules": rules, "during": during}
        at: Any = {"ledger": ledger, "dataset": dataset, "period": period}
        return release(self._frame, schema, **asked, **at)

    def keys(
        self,
        schema: SchemaLike,
        *,
        column: str,
        epsilon: Number,
        delta: Number,
        max_keys: int = 1,
        during: str | None = None,
        ledger: str | Path | None = None,
        dataset: str | None = None,
        period: str | None = None,
    ) -> Keys:
        """Release the keys of a column of this frame that nobody declared, and how many persons have each.

        Args:
            schema, during: as in `release`.
            column: a category without `values`.
            epsilon, delta: what the whole list costs one person.
            max_keys: keys that one person counts at, chosen by a secret hash.
            ledger, dataset, period: as in `release`, under the key (dataset, schema name and "-keys", period).

        Returns:
            a `dp.Keys`: `table` (key, persons, lower, upper), `receipt`, `publish(folder)`.

        Raises:
            DpreleaseError: as `dprelease.keys`; its class says what was already spent.
        """
        options = {"column": column, "epsilon": epsilon, "delta": delta, "max_keys": max_keys}
        where = {"during": during, "ledger": ledger, "dataset": dataset, "period": period}
        found: Keys = _doors().keys(self._frame, schema, **options, **where)
        return found

    def sql(
        self,
        query: str,
        schema: SchemaLike,
        *,
        epsilon: Number | None = None,
        delta: Number | None = None,
        ledger: str | Path | None = None,
        dataset: str | None = None,
        period: str | None = None,
    ) -> Release:
        """Release what one SELECT asks for; FROM names this frame `df`.

        Example: `df.dp.sql("SELECT COUNT(*) AS n, AVG(age) FROM df", schema)`.

        Args:
            query: read as a request, never run; the forms are listed in `dprelease.query.select`.
            schema, epsilon, delta, ledger, dataset, period: as in `release`.

        Raises:
            PlanError: the SELECT asks for more than a release can give (DPR250 to DPR255).
            DpreleaseError: as `dprelease.sql`.
        """
        paid = {"epsilon": epsilon, "delta": delta}
        at = {"ledger": ledger, "dataset": dataset, "period": period}
        found: Release = _doors().sql(query, schema, **paid, **at, df=self._frame)
        return found

    def draft_schema(self, *, name: str = "table") -> str:
        """Return a schema file drafted from this frame's column names and types: never its values.

        Raises:
            SourceError: a column name stands twice (DPR505).
        """
        drafted: str = _doors().draft_schema(self._frame, name=name)
        return drafted

    def inspect(self, schema: SchemaLike, *, during: str | None = None) -> None:
        """PRIVATE, for curators: show how the raw rows fit the schema (null, clamped, unknown keys).

        The numbers are exact and have no privacy guarantee. They are printed in a terminal or a
        notebook only, and returned to nobody; no release reads them.

        Args:
            schema: a `dp.Schema`, a path to its file, or a mapping of the same shape, with a release.
            during: look at the rows of one period of the schema's `time` alone.

        Raises:
            ArgumentError: nobody watches: standard output is a file or a pipe (DPR616).
            DpreleaseError: as `plan`, or the frame does not fit the schema (DPR50x).
        """
        from dprelease.inspection.screen import must_be_watched, show

        must_be_watched("`df.dp.inspect(schema)`")
        from rich.console import Console

        from dprelease.engines.source import as_source

        show(self.plan(schema, during=during), as_source(self._frame), Console())


def register_polars() -> None:
    """Give polars frames the accessor, `pl_frame.dp`; another module of that name stays as it is."""
    pl = import_module("polars")
    if hasattr(pl, "api") and not hasattr(pl.DataFrame, "dp"):
        pl.api.register_dataframe_namespace("dp")(Accessor)
        pl.api.register_lazyframe_namespace("dp")(Accessor)
        pl.api.register_series_namespace("dp")(_NotATable)
        for frame in (pl.DataFrame, pl.LazyFrame):  # a group has no namespaces
            type(frame({"a": []}).group_by("a")).dp = property(_NotATable)


def _found_polars(name: str, *where: Any) -> ModuleSpec | None:
    """Return no module but polars, found as ever, which is registered behind its last line.

    To import it for that would take a quarter of a second.
    """
    spec = PathFinder.find_spec(name, *where) if name == "polars" else None
    if spec is not None and spec.loader is not None:
        load = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            register_polars()

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
    return spec


if sys.modules.get("polars"):  # None: hidden on purpose
    register_polars()
else:
    sys.meta_path.insert(0, SimpleNamespace(find_spec=_found_polars))
