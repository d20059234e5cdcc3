"""`dprelease approve`: a privacy officer's decision, recorded in the ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dprelease.cli.terminal import AsJson, loaded, print_json, say

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The file that `plan --out` wrote.")]
PerPeriod = Annotated[
    str | None, typer.Option(help="Epsilon that one period may cost; the plan's by default.")
]
Total = Annotated[
    str | None,
    typer.Option(
        help="Epsilon that all its releases may cost; no limit but the budget by default."
    ),
]
Until = Annotated[str | None, typer.Option(help="The last day of a run, UTC, e.g. 2027-12-31.")]
SigningKey = Annotated[
    str | None,
    typer.Option(
        help="Ed25519 key by reference, '${env:NAME}' or '${file:PATH}': only it approves for the"
        " dataset from then on."
    ),
]


def approve(
    file: PlanFile,
    pipeline: Annotated[Path, typer.Option(help="The pipeline that may run.")],
    per_period: PerPeriod = None,
    total: Total = None,
    until: Until = None,
    note: Annotated[str | None, typer.Option(help="Why, or where it was decided.")] = None,
    signing_key: SigningKey = None,
    as_json: AsJson = False,
) -> None:
    """Approve what a plan file asks for: for all periods, until the pipeline asks for something else.

    The ledger records the request, who, when and the limits. A later approval of the same request
    replaces this one; with a day that is past, it ends it. Spends nothing.

    Example: dprelease approve plan.json --pipeline pipelines/flights_weekly.yaml --total 52
    --until 2027-12-31
    """
    from dprelease.pipeline import approving
    from dprelease.release_plan.weak import weak_promise

    config = loaded(pipeline)
    event, made = approving.approve(
        config,
        file,
        per_period=per_period,
        total=total,
        until=until,
        note=note,
        signer=None if signing_key is None else approving.signer_named(signing_key),
    )
    if as_json:
        print_json({"event": event, "request_hash": made.hash, **made.to_json()})
        return
    say(f"approved as event {event} of the ledger: {made}")
    if weak := weak_promise(made.per_period):
        say(weak, "yellow")
    for said in approving.of_no_use(made, file):
        say(said, "yellow")
    if signing_key is None:
        say("not signed: anybody who can write the ledger can approve", "dim")
