"""`dprelease schedule`: run what is due, once or in the foreground."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dprelease.cli.terminal import loaded, say

if TYPE_CHECKING:
    from datetime import datetime

    from dprelease.pipeline.schedule import Report


def schedule(
    pipelines: Annotated[list[Path], typer.Argument(help="Pipeline files with a `schedule`.")],
    once: Annotated[
        bool, typer.Option("--once", help="Run what is due and exit: for cron, systemd, Airflow.")
    ] = False,
    catch_up: Annotated[
        int | None,
        typer.Option(min=0, max=1000, help="Newest due periods to look at, instead of `catch_up`."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(help="With --once: as if it were then, e.g. 2013-02-06T11:00:00Z."),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="One line per event, for people or programs.")
    ] = "text",
    health: Annotated[
        Path | None, typer.Option(help="A file for monitors: state, last success, next due.")
    ] = None,
) -> None:
    """Run every period that is due and not published yet; in the foreground without --once.

    Two schedulers at once are safe: the ledger charges and draws each period once. SIGTERM and
    SIGINT stop between stages; what was charged is finished, for free, by the next pass.

    Example: dprelease schedule pipelines/flights_weekly.yaml --once

    Exit status: 0 done, or nothing is due; 1 a run was refused, nothing spent; 2 usage or a faulty
    file; 3 a release is spent but withheld.
    """
    from dprelease.pipeline.schedule import Clock, job, serve, tick

    clock = Clock(None if at is None else _instant(at, once=once))
    configs = [loaded(path) for path in pipelines]
    with _stopping() as stop:
        work = job(
            configs,
            clock=clock,
            report=_printer(log_format),
            stop=stop,
            catch_up=catch_up,
            health=health,
        )
        status = tick(work) if once else serve(work)
    if status:
        raise typer.Exit(status)


def _instant(text: str, *, once: bool) -> datetime:
    """Return `--at`, which may not lie ahead: a period that goes on cannot be released whole."""
    from datetime import UTC, datetime

    from dprelease.core.errors import ArgumentError

    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if not once or at is None or at.tzinfo is None or at > datetime.now(UTC):
        raise ArgumentError(
            f"`--at {text[:40]}` is not usable",
            why="it is for `--once`, and is a past instant with its offset from UTC",
            fix="write e.g. --once --at 2013-02-06T11:00:00Z",
            code="DPR690",
        )
    return at


def _printer(log_format: str) -> Report:
    def as_json(event: Mapping[str, object]) -> None:
        typer.echo(json.dumps(event, ensure_ascii=False))

    def as_text(event: Mapping[str, object]) -> None:
        name = " ".join(str(event[k]) for k in ("pipeline", "period") if event.get(k))
        level = str(event["level"]).upper()
        said = f"{name}: {event['message']}" if name else event["message"]
        say(f"{event['time']} {level:<7} {event['event']:<11} {said}")
        if event["level"] == "error":
            for part in ("where", "why", "fix", "code"):
                if event.get(part):
                    say(f"  {part:<6} {event[part]}")

    return as_json if log_format == "json" else as_text


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """Let the first SIGTERM or SIGINT ask for a stop; a second one ends the process as usual."""
    stop = threading.Event()
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}

    def ask(*_: object) -> None:
        stop.set()
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    for number in numbers:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        restore()
