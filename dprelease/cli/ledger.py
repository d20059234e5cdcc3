"""`dprelease ledger`: the durable budget."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dprelease.cli.ledger_time import datasets_of, of_one, over_time, over_time_json, used_up
from dprelease.cli.terminal import AsJson, console, guarded, loaded, loaded_budget, print_json, say
from dprelease.core.codec import encode
from dprelease.core.errors import ArgumentError, ConfigError, LedgerError
from dprelease.core.numeric import counted

if TYPE_CHECKING:
    from dprelease.budget.connection import Place
    from dprelease.budget.ledger import Budget, Ledger

app = typer.Typer(help="The durable privacy budget.", no_args_is_help=True)

Pipeline = Annotated[Path | None, typer.Argument(help="A pipeline file.")]
File = Annotated[
    Path | None,
    typer.Option(
        "--ledger",
        help="A ledger, instead of a pipeline: its file, or a server by reference '${env:NAME}'.",
    ),
]


def _named(pipeline: Path | None) -> Path:
    if pipeline is None:
        raise ConfigError(
            "name a pipeline file, or a ledger",
            fix="PIPELINE, or --ledger FILE; `init` without a pipeline needs --ledger, --schema and --epsilon",
            code="DPR100",
        )
    return pipeline


def _names_all(pipeline: Path | None, *options: object) -> None:
    """Refuse what is given beside a pipeline that says it itself."""
    if pipeline is not None and any(part is not None for part in options):
        raise ConfigError(
            "a pipeline names its ledger, dataset and budgets itself",
            fix="name PIPELINE alone, or --ledger with what belongs to it",
            code="DPR100",
        )


def _called(pipeline: Path | None, dataset: str) -> tuple[str, str] | None:
    """Return what a pipeline calls one protected unit of its dataset, and who is behind all of them."""
    from dprelease.schema.unit_words import one_unit, whole_unit

    try:
        config = None if pipeline is None else loaded(pipeline)
    except ConfigError:  # the ledger is shown, whatever else is faulty
        return None
    if config is None or dataset != config.budget.dataset:
        return None
    unit, name = config.schema.unit, config.schema.about.unit_name
    return one_unit(unit, name), whole_unit(unit, name)


def _open(pipeline: Path | None, ledger: Place | str | None) -> Ledger:
    from dprelease.budget.ledger import Ledger

    if ledger is not None:
        return Ledger.open(ledger)
    from dprelease.budget.refusals import completed
    from dprelease.pipeline import anchoring

    budget, public = loaded_budget(_named(pipeline))
    try:
        book = Ledger.open(budget.ledger, public=public)
    except LedgerError as refused:
        raise refused.from_error(refused, fix=completed(refused.fix or "", str(pipeline))) from None
    anchoring.check(budget, book)
    return book


def _shown(value: Fraction) -> str:
    return f"{float(value):.9g}"


@app.command("init")
@guarded
def init(
    pipeline: Pipeline = None,
    ledger: File = None,
    schema: Annotated[Path | None, typer.Option(help="With --ledger: who is protected.")] = None,
    dataset: Annotated[str | None, typer.Option(help="Its name; the schema's by default.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="With --ledger: the dataset's whole budget.")
    ] = None,
    population: Annotated[str | None, typer.Option(help="With --ledger: whom units are.")] = None,
    population_epsilon: Annotated[str | None, typer.Option(help="A member's budget.")] = None,
    population_delta: Annotated[str, typer.Option(help="A delta beside it.")] = "0",
    population_composition: Annotated[str, typer.Option(help="basic or zcdp.")] = "basic",
    population_interval: Annotated[str | None, typer.Option(help="By week, say.")] = None,
) -> None:
    """Create the ledger and the dataset budget that PIPELINE names; a no-op if both exist.

    Example: dprelease ledger init pipelines/flights_weekly.yaml

    Without a pipeline: dprelease ledger init --ledger ledger.db --schema flights.yaml --epsilon 4
    """
    from dprelease.pipeline.new_ledger import create_ledger
    from dprelease.pipeline.run import init_ledger
    from dprelease.query.load import Schema

    _names_all(pipeline, ledger, schema, dataset, epsilon, population, population_epsilon)
    if pipeline is None and ledger and schema and epsilon:
        declared = Schema.load(schema)
        name = declared.name if dataset is None else dataset
        create_ledger(
            ledger,
            declared,
            dataset=name,
            epsilon=epsilon,
            population=population,
            population_epsilon=population_epsilon,
            population_delta=population_delta,
            population_composition=population_composition,  # type: ignore[arg-type]
            population_interval=population_interval,  # type: ignore[arg-type]
        )
        book = _open(None, ledger)
    else:
        config = loaded(_named(pipeline))
        name, book = config.budget.dataset, init_ledger(config)
    _say_if_weak(_say_spent(book, name).epsilon)


@app.command("show")
@guarded
def show(
    pipeline: Pipeline = None,
    ledger: File = None,
    population: Annotated[str | None, typer.Option(help="Of this population alone.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show every debit and what is left. Holds nothing private.

    Example: dprelease ledger show pipelines/flights_weekly.yaml
    """
    book = _open(pipeline, ledger)
    names = datasets_of(book, population)
    entries = [row for row in book.entries() if row.entry.key.dataset in names]
    budgets = {name: book.budget(name) for name in names}
    if as_json:
        print_json(_as_json(book, entries, budgets))
        return
    from rich.table import Table

    for name, budget in budgets.items():
        say(
            f"{name}: spent {_shown(budget.spent)} of {_shown(budget.epsilon)}, "
            f"left {_shown(budget.left)}{_of_delta(budget)}{of_one(book, name)}",
            style="bold",
        )
        for line in over_time(book, name, partial(_called, pipeline, name)):
            say(line)
        known = book.approvals(name)
        for line in used_up(book, name):
            say(line)
        table = Table(header_style="bold")
        headers = ("entry", "pipeline", "period", "ε", "state", "plan", "approved by")
        for header in headers if known else headers[:-1]:
            table.add_column(header, overflow="fold")  # in a narrow terminal nothing is cut off
        for row in entries:
            key = row.entry.key
            if key.dataset == name:
                state = row.state if row.code is None else f"{row.state} ({row.code})"
                table.add_row(
                    str(row.anchor.seq),
                    key.pipeline,
                    key.period,
                    _shown(row.entry.epsilon),
                    state,
                    row.entry.plan_hash[:12],
                    *([f"event {row.approval}" if row.approval else "–"] if known else []),
                )
        console().print(table)


def _of_delta(budget: Budget) -> str:
    """Return what is spent of a delta; of a budget that composes by zcdp, of its rho at its delta."""
    if budget.rho is None or budget.spent_rho is None:
        spent = f"{float(budget.spent_delta):.3g} of {float(budget.delta):.3g}"
        return f"; delta: spent {spent}" if budget.delta else ""
    at = f"at delta={float(budget.delta):.3g}"
    return f" {at} (zcdp: rho {_shown(budget.spent_rho)} of {_shown(budget.rho)})"


def _as_json(book: Ledger, entries: Any, budgets: Any) -> dict[str, Any]:
    return {
        "ledger": str(book.path),
        "datasets": {
            name: {
                **encode(b),
                "composition": book.composition(name),
                **over_time_json(book, name),
                "population": loss.to_json() if (loss := book.populations().loss(name)) else None,
                "approvals": [
                    {"event": found.event, "request_hash": found.approval.hash}
                    | {k: v for k, v in found.approval.to_json().items() if k != "request"}
                    for found in book.approvals(name)
                ],
            }
            for name, b in budgets.items()
        },
        "entries": [
            {
                "seq": row.anchor.seq,
                **asdict(row.entry.key),
                "epsilon": str(row.entry.epsilon),
                "delta": str(row.entry.delta),
                "state": row.state,
                "code": row.code,
                "plan_hash": row.entry.plan_hash,
                "approval": row.approval,
                "head_hash": row.anchor.head_hash,
            }
            for row in entries
        ],
    }


@app.command("verify")
@guarded
def verify(
    pipeline: Pipeline = None,
    ledger: File = None,
    head: Annotated[
        Path | None, typer.Option(help="A head kept in a second place, to be held by the ledger.")
    ] = None,
    public_key: Annotated[
        str | None,
        typer.Option(
            help="With --head: the key that must have signed it, a file or 64 hex digits."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the whole hash chain, the sums, the file itself, and a head kept elsewhere.

    Example: dprelease ledger verify --ledger .dprelease/ledger.db
    """
    from dprelease.budget.head_file import check_head
    from dprelease.results.signature_file import read_public_key

    if public_key is not None and head is None:
        raise ArgumentError(
            "`--public-key` and `--head FILE` belong together",
            why="the key checks who signed a head; approvals in a ledger are checked by their own keys",
            fix="name the file of the head, or leave the key out",
            code="DPR614",
        )
    book = _open(pipeline, ledger)
    if head is not None:
        check_head(head, book, None if public_key is None else read_public_key(public_key))
    report = book.verify()
    if as_json:
        newest = report.head
        print_json(
            {
                "ok": report.ok,
                "entries": report.entries,
                "problems": list(report.problems),
                "head": None if newest is None else {"seq": newest.seq, "hash": newest.head_hash},
            }
        )
    else:
        for problem in report.problems:
            say(f"FAIL  {problem}", style="red")
        state = "intact" if report.ok else "NOT intact"
        say(f"{state}: {counted(report.entries, 'entry', 'entries')}", style="bold")
    if not report.ok:
        raise typer.Exit(1)


@app.command("add")
@guarded
def add(
    pipeline: Pipeline = None,
    ledger: File = None,
    dataset: Annotated[str | None, typer.Option(help="With --ledger: whose budget.")] = None,
    epsilon: Annotated[str | None, typer.Option(help="How much epsilon to add.")] = None,
    delta: Annotated[str, typer.Option(help="How much delta to add, beside epsilon.")] = "0",
    per_period: Annotated[str | None, typer.Option(help="What a period may cost now.")] = None,
    population: Annotated[str | None, typer.Option(help="A population's, instead.")] = None,
) -> None:
    """Raise the budget of PIPELINE's dataset, or change its cap; recorded in the ledger for good.

    Example: dprelease ledger add pipelines/flights_weekly.yaml --epsilon 2

    Without a pipeline: dprelease ledger add --ledger ledger.db --dataset flights --epsilon 2
    """
    from dprelease.pipeline import anchoring

    _names_all(pipeline, ledger, dataset)
    config = loaded(_named(pipeline)) if ledger is None else None
    of_dataset = config is not None or dataset is not None
    if not of_dataset if population is None else dataset is not None or per_period is not None:
        raise ConfigError(
            "whose budget is to be raised?",
            fix="add --dataset NAME, or --population NAME without it and without --per-period;"
            " `dprelease ledger show --ledger LEDGER` lists them",
            code="DPR100",
        )
    book = _open(pipeline, ledger)
    name = population or (str(dataset) if config is None else config.budget.dataset)
    more = book.add_budget if population is None else book.add_population
    if per_period is not None:
        book.cap_period(name, per_period)
    budget = None if per_period and epsilon is None else more(name, epsilon or 0, delta)
    if config is not None:
        anchoring.export(config.budget, book)
    if per_period is not None:
        say(f"one period of {name} may cost epsilon {per_period} from now on")
    if budget is not None:
        left = f"{_shown(budget.left)} left{_of_delta(budget)}"
        say(f"{name} has epsilon {_shown(budget.epsilon)} now, {left}")
        _say_if_weak(budget.epsilon)


def _say_spent(book: Ledger, name: str) -> Budget:
    """Say what a dataset has and has spent; return it."""
    budget = book.budget(name)
    say(f"{book.path}: {name} has epsilon {_shown(budget.epsilon)}, {_shown(budget.spent)} spent")
    return budget


def _say_if_weak(budget: Fraction) -> None:
    """Say what a budget comes to where that is weak."""
    from dprelease.release_plan.weak import weak_promise

    if weak := weak_promise(budget):
        say(f"if all of it is spent: {weak}", style="yellow")


@app.command("move")
@guarded
def move(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="A ledger's file, or '${env:NAME}'.")
    ],
    target: Annotated[str, typer.Argument(metavar="TO", help="A place without one, named alike.")],
) -> None:
    """Move a ledger: copy it whole, and let the old place refuse every further debit.

    Name the new place in the pipelines' `budget` then. Published folders go on citing the same ledger.

    Example: dprelease ledger move .dprelease/ledger.db '${env:LEDGER_DSN}'
    """
    from dprelease.budget import moving
    from dprelease.budget.backend import named_place

    moving.move(_open(None, source).path, named_place(target))
    book = _open(None, target)
    for name in book.datasets():
        _say_spent(book, name)
    say(f"{source} can only be read from now on")


@app.command("reconcile")
@guarded
def reconcile(
    pipeline: Pipeline = None,
    ledger: File = None,
    public: Annotated[
        list[Path] | None, typer.Option(help="With --ledger: a public folder; may be repeated.")
    ] = None,
) -> None:
    """Debit every published release that a restored ledger does not know.

    Exit code 1: a release states that a member of its population lost more than the ledger knows by now.

    Example: dprelease ledger reconcile pipelines/flights_weekly.yaml
    """
    from dprelease.pipeline import anchoring

    config = None if pipeline is None and ledger is not None else loaded(_named(pipeline))
    folders = (public or []) if config is None else [config.publish.to]
    published = [place for place in folders if place.is_file() or [*place.glob("*/*/release.json")]]
    if config is None and not (folders and published == folders):
        what = "name the public folder whose releases are to be debited: the one above those of pipelines"
        raise ConfigError(what, fix="add --public FOLDER", code="DPR100")
    book = _open(None, ledger if config is None else config.budget.ledger)
    count = book.reconcile(folders)
    if config is not None:
        anchoring.export(config.budget, book, replace=True)
    say(f"{counted(count, 'release')} debited that the ledger did not know")
    if unknown := book.unknown_losses(folders):
        say("\n".join(unknown), style="yellow")
        raise typer.Exit(1)
