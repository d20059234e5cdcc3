"""What every engine offers: all that the stages of a release ask of one.

An engine is made by its registered class, `make(**options)`. Options are keyword arguments of its
own; of `memory_limit`, `threads`, `temp_directory`, `max_temp` and `timeout` it takes those that it
honours (`engines.limits`), and a limit that it does not take is refused by name.
`dprelease.testing.check_engine` holds an engine against this contract and the reference engine.

A class that reads some kinds of sources only lists them in `reads`, as a pipeline file calls them:
`reads = ("parquet", "arrow")`. Without it an engine reads everything but tables of Spark.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from dprelease.core import registry
from dprelease.core.secret import Secret
from dprelease.engines.scan import Meter
from dprelease.engines.source import Source
from dprelease.query.answer import Answer
from dprelease.query.bounded import BoundedQuery

DEFAULT = "duckdb"
"""The engine of a pipeline that names none, and of data in hand."""


@runtime_checkable
class Engine(Protocol):
    """Computes the primitives of a bounded query exactly."""

    @property
    def name(self) -> str:
        """Its registered name."""

    @property
    def timeout(self) -> int | None:
        """Seconds after which `compute` stops; None for never.

        Whether a run exceeds it can depend on the rows, so a plan must say that there is one.
        """

    def preflight(self, source: Source, query: BoundedQuery) -> None:
        """Check by public metadata that `compute` will find what it reads; spend nothing.

        Raises:
            SourceError: the source does not open or does not fit (DPR50x).
            ConfigError, PlanError: the query cannot be run safely.
        """

    def compute(self, source: Source, query: BoundedQuery, salt: bytes) -> Secret[Answer]:
        """Return exact integers, 0 for a group without rows.

        Args:
            salt: orders the rows of a unit, of which only so many are kept.

        Raises:
            InternalError: anything failed while rows were read, in one fixed text without details;
                never because of what the rows hold.
        """


@runtime_checkable
class Metered(Protocol):
    """An engine that knows how far its scan is."""

    meter: Meter | None


def reads(engine: str, kind: str) -> bool:
    """Return whether the registered engine reads sources of this kind.

    The default engine reads everything but tables of Spark, and is not loaded to say so: whoever plans needs none.
    """
    made = None if engine == DEFAULT else registry.load("engines", engine)
    listed: tuple[str, ...] | None = getattr(made, "reads", None)
    if listed is None:
        return kind != "spark"
    return kind in ((listed,) if isinstance(listed, str) else listed)
