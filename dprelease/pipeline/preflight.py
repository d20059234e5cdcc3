"""What is checked before anything is charged: the engine, the source against the plan, the validator."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dprelease.core import registry
from dprelease.core.errors import ConfigError, InternalError, SourceError
from dprelease.engines.engine import Engine
from dprelease.engines.limits import NO_LIMITS, Limits
from dprelease.engines.source import Source
from dprelease.pipeline.files import software
from dprelease.query.shortcuts import VISIBLE_TIMEOUT
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.publish import must_be_free, must_be_writable
from dprelease.wall import execute

if TYPE_CHECKING:
    from dprelease.pipeline.config import PublishConfig  # a release in hand reads no pipeline file
    from dprelease.pipeline.stages import Request


def engine_named(
    name: str, limits: Limits = NO_LIMITS, options: Mapping[str, object] | None = None
) -> Engine:
    """Return a new engine of the registered kind `name`, under `limits` and the environment's.

    Args:
        options: further arguments of its own, such as Spark's `master`.

    Raises:
        ConfigError: a limit is not understood, or the engine has none of that name.
    """
    make: Any = registry.load("engines", name)
    made: Engine = make(**limits.under().options_for(make, name), **(options or {}))
    return made


def preflight(plan: ReleasePlan, source: Source, engine: Engine) -> None:
    """Check by public metadata that the source fits the plan; spends nothing.

    Raises:
        SourceError: it does not open, fit or let its rows be counted (DPR50x), or has not the public
            size (DPR508).
        ConfigError: the engine has a time limit and the plan does not say so (DPR128).
    """
    if engine.timeout is not None and not any(VISIBLE_TIMEOUT in note for note in plan.notes):
        raise ConfigError(
            "the engine has a time limit, and the release does not allow it",
            where="engine.timeout, or DPRELEASE_TIMEOUT in the environment",
            why="whether a run exceeds it can depend on the rows; it then ends after the charge, and"
            " everybody sees that its period is missing",
            fix=f"remove the limit, or accept that with `release: {{allow: [{VISIBLE_TIMEOUT}]}}`: the"
            " release will say so",
            code="DPR128",
        )
    engine.preflight(source, plan.query)
    counted = False
    try:
        execute.check_size(plan, source, engine)
        counted = True
    except InternalError:
        counted = False  # its class says that the budget may be spent, and nothing is charged yet
    if not counted:
        raise SourceError(
            f"the rows of {source.name} cannot be counted",
            why="the engine failed while reading the source; details could quote its rows",
            fix="check the source, memory, disk space and the engine's limits",
            code="DPR502",
        )


def require_places(publish: PublishConfig, request: Request, second: Path | None) -> None:
    """Write where the run has to write after the charge, and load what checks and writes it.

    Args:
        second: the ledger's head in its second place, if there is one.

    Raises:
        ConfigError: nothing can be written there (DPR151), or the validator cannot be imported (DPR173).
        VerificationError: a folder is in the way (DPR811), or the record of corrections is broken (DPR830).
    """
    require_validator()
    ledger, key = request.ledger, request.key
    must_be_writable(publish.to / key.pipeline)
    must_be_free(
        publish.to / key.pipeline / key.period,
        stored=lambda: ledger.has(key) and ledger.files(key) is not None,
    )
    if second is not None:
        must_be_writable(second.parent)
    for kind in publish.formats:
        registry.load("formats", kind)
    software()


def require_validator() -> None:
    """Import the validator before the charge; ConfigError if it cannot be (DPR173)."""
    from dprelease.results.validate.gx import require_great_expectations

    require_great_expectations()
