"""Run what is due: the scheduler, one pass (`tick`) or in the foreground (`serve`).

One run per (dataset, pipeline, period), whoever starts it: the ledger's idempotency is the lock.
Two schedulers that see the same due period make one charge and one draw, and both publish the
same bytes; a clock that jumps, or a time zone that repeats an hour, names the same period again,
which costs nothing. A pass looks at the newest `catch_up` due periods of each pipeline and runs,
oldest first, those that are not published yet; older ones stay missed until someone names them
with `dprelease run`, so that downtime never spends a budget in one go.

A period whose rows have not arrived (`ready`) is waited for, which is not a fault: nothing is spent, the
exit status stays, and later ones go on. So they do when a period is refused, whose budget may be spent by its own
correction; a faulty file, or a failure after a charge, ends the pass for its pipeline only. A stop (SIGTERM, SIGINT) is obeyed
between stages: after a charge the next pass finishes the same run for free.

Exit status of a pass: 3 if a release is spent but withheld, else 2 if a file is faulty, else 1 if a
run was refused, else 0; nothing due is 0.

What is told holds public facts only: names, periods, codes, receipts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dprelease.budget.connection import Place
from dprelease.budget.ledger import Key, Ledger
from dprelease.core.errors import (
    ConfigError,
    DpreleaseError,
    InternalError,
    LedgerError,
    SourceError,
    WithheldError,
)
from dprelease.core.periods import instant_text
from dprelease.pipeline.config import PipelineConfig, load_pipeline
from dprelease.pipeline.due import Due, due_periods, next_due, require_schedule
from dprelease.pipeline.health import Health
from dprelease.pipeline.ready import is_ready
from dprelease.pipeline.run import run, said_of
from dprelease.results.publish import folder_for

Report = Callable[[Mapping[str, object]], None]
"""Called with one event: `time`, `level`, `event`, `message`, and names that fit the event."""

RETRY = timedelta(minutes=15)
"""A source or ledger that fails is looked at again after this long, the budget never sooner."""

_LONGEST_WAIT = 60.0
"""Seconds; the clock is read again at least this often, so a jump of it is noticed."""

_MENDABLE = ("DPR712", "DPR714", "DPR716", "DPR717")
"""Codes of a paid run that ends for free once storage or server are back."""

_LOST = (SourceError, LedgerError, InternalError)


@dataclass(frozen=True, slots=True)
class Clock:
    """The operating system's clock; or one instant, for a pass as if it were then."""

    at: datetime | None = None

    def now(self) -> datetime:
        """Return the time now, aware."""
        return self.at or datetime.now(UTC)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Return after `seconds`, or as soon as `stop` is set."""
        stop.wait(seconds)


class _StoppedError(Exception):
    """A stop was asked for between two stages."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a scheduler works on; make one with `job`."""

    configs: tuple[PipelineConfig, ...]
    clock: Clock
    report: Report
    stop: threading.Event = field(default_factory=threading.Event)
    catch_up: int | None = None
    health: Health | None = None


def _silent(_: Mapping[str, object]) -> None:
    """Report to nobody."""


def job(
    configs: Sequence[PipelineConfig],
    *,
    clock: Clock = Clock(),
    report: Report = _silent,
    stop: threading.Event | None = None,
    catch_up: int | None = None,
    health: Path | None = None,
) -> Job:
    """Return a checked job.

    Args:
        catch_up: overrides the files' `catch_up`; 0 and 1 both mean the newest period only.
        health: a file that always says how the scheduler is; replaced atomically.

    Raises:
        ConfigError: a pipeline without a schedule (DPR170), a cron line that never fires (DPR171),
            or two pipelines of one name and dataset (DPR172).
    """
    seen: dict[tuple[Place, str, str], str] = {}
    for config in configs:
        require_schedule(config)
        key = (config.budget.ledger, config.budget.dataset, config.name)
        if key in seen:
            raise ConfigError(
                f"two pipelines are called {config.name}",
                where=config.origin,
                why=f"their periods would be one: the other is {seen[key]}",
                fix="name each pipeline once, or rename one",
                code="DPR172",
            )
        seen[key] = config.origin
    return Job(
        tuple(configs),
        clock,
        report,
        threading.Event() if stop is None else stop,
        catch_up,
        None if health is None else Health(health),
    )


def tick(work: Job) -> int:
    """Run once what is due now; return the exit status."""
    return _tick(work)[0]


def serve(work: Job) -> int:
    """Run what is due until `work.stop` is set; return 0."""
    while not work.stop.is_set():
        now = work.clock.now()
        _, again = _tick(work)
        _note(work, "waiting", now)
        upcoming = _upcoming(work, now)
        wakes = [due.at for _, due in upcoming] + ([now + RETRY] if again else [])
        if not wakes:
            _say(work, "warning", "idle", "no pipeline has a next period")
            break
        wake = min(wakes)
        for name, due in upcoming:
            _say(work, "info", "next", f"due {instant_text(due.at)}", **_named(name, due))
        while not work.stop.is_set() and (left := (wake - work.clock.now()).total_seconds()) > 0:
            work.clock.wait(min(left, _LONGEST_WAIT), work.stop)
    _say(work, "info", "stopped", "stopped between runs")
    _note(work, "stopped", work.clock.now())
    return 0


def _tick(work: Job) -> tuple[int, bool]:
    """Return the exit status, and whether a later look may succeed without a new period."""
    status, again, busy = 0, False, False
    _note(work, "running", work.clock.now())
    for config in work.configs:
        if work.stop.is_set():
            break
        try:
            made = _with_newest_lists(config)
            for due, waits in _unpublished(work, made):
                busy = True
                if waits:
                    again = True
                    event = _named(config.name, due)
                    _say(work, "info", "waiting", "its rows have not arrived", **event)
                    continue
                error = _attempt(work, made, due)
                if work.stop.is_set():
                    break
                if error is not None:
                    status = max(status, error.exit_status)
                    again = again or isinstance(error, _LOST) or error.code in _MENDABLE
                    if error.exit_status != 1 and not isinstance(error, WithheldError):
                        break  # a faulty file, or storage that failed after a charge: later ones meet it too
        except DpreleaseError as error:
            busy = True
            _refused(work, config, None, error)
            status, again = max(status, error.exit_status), again or isinstance(error, _LOST)
    if not busy:
        _say(work, "info", "idle", "nothing is due")
    _note(work, {0: "ok", 3: "withheld"}.get(status, "refused"), work.clock.now())
    return status, again


def _with_newest_lists(config: PipelineConfig) -> PipelineConfig:
    """Return the pipeline with the keys that published lists hold by now: a pipeline before it may have released them."""
    if any(column.folders for column in config.schema.columns.values()):
        return load_pipeline(config.origin.rpartition(":")[0])
    return config


def _unpublished(work: Job, config: PipelineConfig) -> Iterator[tuple[Due, bool]]:
    """Yield the due periods that are to be run, oldest first, and whether their rows are awaited."""
    assert config.schedule is not None
    count = config.schedule.catch_up if work.catch_up is None else work.catch_up
    book: Ledger | None = None
    for due in due_periods(config, work.clock.now(), max(1, count)):
        with said_of(config):
            book = book or Ledger.open(config.budget.ledger)
        key = Key(config.budget.dataset, config.name, due.period)
        state = book.state(key) if book.has(key) else None
        folder = folder_for(config.publish.to, config.name, due.period)
        # A failed entry is terminal; a published one whose folder was lost is copied out again.
        if state == "failed" or (state == "published" and (folder / "release.json").exists()):
            continue
        yield due, state is None and not is_ready(config, due.period)


def _attempt(work: Job, config: PipelineConfig, due: Due) -> DpreleaseError | None:
    """Run one period; report and return what went wrong."""

    def between(stage: str, detail: str) -> None:
        if stage in ("index", "status"):  # a page that failed, a release that does not stand
            _say(work, "warning", stage, detail, **_named(config.name, due))
        if work.stop.is_set() and stage not in ("publish", "index", "status"):
            raise _StoppedError

    try:
        result = run(config, period=due.period, now=work.clock.now(), progress=between)
    except _StoppedError:
        said = "stopped between stages; the next pass finishes this run"
        _say(work, "info", "stopped", said, **_named(config.name, due))
        return None
    except DpreleaseError as error:
        _refused(work, config, due, error)
        return error
    except Exception as error:  # noqa: BLE001 - its text may quote a row
        unforeseen = InternalError.unforeseen(error)
        _refused(work, config, due, unforeseen)
        return unforeseen
    receipt = result.receipt
    _say(
        work,
        "info",
        "released" if receipt.fresh else "republished",
        f"epsilon {receipt.epsilon if receipt.fresh else 0}, now {receipt.spent} of "
        f"{receipt.budget} spent on {receipt.dataset}{receipt.counted}, ledger entry {receipt.seq}",
        **_named(config.name, due),
        epsilon=receipt.epsilon if receipt.fresh else "0",
        spent=receipt.spent,
        budget=receipt.budget,
        folder=str(result.folder),
    )
    if work.health is not None:
        work.health.success(config.name, due.period, work.clock.now())
        _note(work, "running", work.clock.now())
    return None


def _refused(work: Job, config: PipelineConfig, due: Due | None, error: DpreleaseError) -> None:
    event = "withheld" if isinstance(error, WithheldError) else "refused"
    if isinstance(error, InternalError):
        event = "failed"
    _say(
        work,
        "error",
        event,
        error.what,
        **_named(config.name, due),
        charged=error.spent,
        **{name: text for name, text in error.parts.items() if text},
    )
    if work.health is not None:
        period = None if due is None else due.period
        work.health.failure(config.name, period, error, work.clock.now())


def _named(pipeline: str, due: Due | None) -> dict[str, str]:
    """Return what an event is about: a pipeline, or one period of it and when that is due."""
    when = {} if due is None else {"period": due.period, "due": instant_text(due.at)}
    return {"pipeline": pipeline, **when}


def _upcoming(work: Job, now: datetime) -> list[tuple[str, Due]]:
    found = [(config.name, next_due(config, now)) for config in work.configs]
    return [(name, due) for name, due in found if due is not None]


def _note(work: Job, state: str, now: datetime) -> None:
    """Write the health file; a full disk there is told, and stops nothing."""
    if work.health is None:
        return
    upcoming = {
        name: {"period": due.period, "at": instant_text(due.at)}
        for name, due in _upcoming(work, now)
    }
    try:
        work.health.write(state, now, upcoming)
    except OSError as error:
        _say(work, "warning", "health", f"the health file: {error.strerror or 'not written'}")


def _say(work: Job, level: str, event: str, message: str, **more: object) -> None:
    now = instant_text(work.clock.now())
    work.report({"time": now, "level": level, "event": event, "message": message, **more})
