"""The command line: one file per command, each parse -> call -> print.

Heavy imports stand inside the commands, so that `--help` stays quick.
"""

from __future__ import annotations

import gc
import io
import sys

import typer

from dprelease import __version__
from dprelease.cli import (
    approve,
    audit,
    check,
    correct,
    derive,
    expectations,
    index,
    init,
    inspect,
    kinds,
    ledger,
    plan,
    report,
    run,
    schedule,
    schema,
    verify,
)
from dprelease.cli.terminal import drop_unread, guarded

app = typer.Typer(
    name="dprelease",
    help="Publish statistics of private tables: every number is valid and states its error, and "
    "the privacy loss is proven.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", is_eager=True
    ),
) -> None:
    if version:
        typer.echo(f"dprelease {__version__}")
        raise typer.Exit


app.command("init")(guarded(init.init))
app.add_typer(schema.app, name="schema")
app.command("check")(guarded(check.check))
app.command("plan")(guarded(plan.plan))
app.command("approve")(guarded(approve.approve))
app.command("expectations")(guarded(expectations.expectations))
app.command("inspect")(guarded(inspect.inspect))
app.command("run")(guarded(run.run, spends=True))
app.command("keys")(guarded(run.keys, spends=True))
app.command("schedule")(guarded(schedule.schedule, spends=True))
app.command("verify")(guarded(verify.verify))
app.command("audit")(guarded(audit.audit))
app.add_typer(ledger.app, name="ledger")
app.command("report")(guarded(report.report))
app.command("note")(guarded(report.note))
app.command("index")(guarded(index.index))
app.command("derive")(guarded(derive.derive))
app.command("diff")(guarded(derive.diff))
app.command("withdraw")(guarded(correct.withdraw))
app.command("supersede")(guarded(correct.supersede))
app.command("kinds")(guarded(kinds.kinds))


def main() -> None:
    """Entry point of the `dprelease` script.

    The collector looks for cycles every 50,000 new objects, not every 700: tables of 100,000 groups
    are millions of small objects without one, and looking took a third of the run.
    """
    try:
        gc.set_threshold(50_000, 20, 100)
        if isinstance(sys.stdout, io.TextIOWrapper):  # a letter that a locale has not ends no run
            sys.stdout.reconfigure(errors="backslashreplace")
        drop_unread(sys.stdout)
        drop_unread(sys.stderr)
        app()
    except KeyboardInterrupt:  # before any command began: `guarded` answers those
        typer.echo("cancelled", err=True)
        sys.exit(130)
