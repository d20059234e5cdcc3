"""The ledger's errors in one place: what an operator reads when a run must not go on.

| code   | meaning                                     | code   | meaning                         |
|--------|---------------------------------------------|--------|---------------------------------|
| DPR301 | epsilon does not fit what is left           | DPR409 | a storage setting was not taken |
| DPR302 | delta does not fit what is left             | DPR410 | the key exists, another plan    |
| DPR401 | no ledger, and a run never creates one      | DPR411 | another adjacency or unit       |
| DPR402 | the storage failed                          | DPR412 | out of order in the protocol    |
| DPR403 | corrupt, changed, or not a ledger           | DPR413 | other files already committed   |
| DPR404 | older than a manifest                       | DPR414 | another budget already declared |
| DPR405 | a manifest rests on another ledger          | DPR416 | published from another copy     |
| DPR406 | a manifest does not parse                   | DPR417 | drawn here and elsewhere        |
| DPR407 | the dataset has no budget here              | DPR71x | charged, and withheld           |
| DPR408 | network file system                         | DPR900 | the commit of a debit failed    |
| DPR305 | the period's cap does not cover it           | DPR418 | another cap per period          |
| DPR419 | a second place holds another head           | DPR420 | its head is not signed by us    |
| DPR421 | a key that is none                           | DPR422 | the extra `signing` is missing  |
| DPR423 | its head cannot be written to that place     | DPR424 | the extra `postgres` is missing |
| DPR425 | the server does not answer                   | DPR426 | a move's target is taken        |
| DPR427 | the ledger was moved                         | DPR428 | approved by another key, or none |
| DPR306 | not approved, or another request was         | DPR307 | its approval ended              |
| DPR308 | beyond the limits of its approval            | DPR309 | a population's budget is too small |
| DPR310 | a population cannot count it                  | DPR429 | of another population, or terms |
| DPR430 | a dataset or release no population holds      | DPR431 | no population of that name      |
"""

from __future__ import annotations

import shlex
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from dprelease.budget.accountant import Cost
from dprelease.budget.connection import Place
from dprelease.budget.record import Key
from dprelease.budget.timeline import Timeline
from dprelease.core.errors import BudgetError, LedgerError, WithheldError
from dprelease.core.numeric import plain

RESTING = "and published manifests rest on it"

_RECOVER = "restore a copy of this ledger, then `dprelease ledger reconcile`"


def declaring(path: Place, dataset: str) -> str:
    """Return the command that gives the dataset a budget, without a pipeline."""
    return f"dprelease ledger init --ledger {_named(path)} --schema SCHEMA --dataset {dataset} --epsilon E"


def missing(path: Place, why: str | None) -> LedgerError:
    init = declaring(path, "NAME")
    return LedgerError(
        "there is no ledger" + (f", {why}" if why else ""),
        where=str(path),
        why="a run that created one would start from a full budget",
        fix=f"`dprelease ledger move FROM {_named(path)}` brings the one that they rest on here; or"
        f" restore a copy of it; if it is lost, `{init}` makes another, and `dprelease ledger reconcile`"
        " debits in it what they show"
        if why
        else "`dprelease ledger init`, once; or restore the lost one",
        code="DPR401",
    )


def taken(place: Place, why: str) -> LedgerError:
    return LedgerError(
        "a ledger cannot be moved to this place",
        where=str(place),
        why=why,
        fix="name a place without a ledger; nothing was moved",
        code="DPR426",
    )


def moved(place: Place, to: str) -> LedgerError:
    return LedgerError(
        f"the ledger was moved to {to}",
        where=str(place),
        why="two ledgers that go on would be two budgets for the same data",
        fix="name the new place, in `budget: {ledger: …}` or --ledger; this one can only be read",
        code="DPR427",
    )


def unreachable(place: Place, why: str) -> LedgerError:
    return LedgerError(
        "the ledger's server does not answer, or does not let this role in",
        where=str(place),
        why=why,
        fix="start the server or mend the connection, then run again: the ledger is as it was",
        code="DPR425",
    )


def closed(place: Place, tables: Sequence[str]) -> LedgerError:
    return LedgerError(
        "this role may not write all that a release writes after its debit",
        where=str(place),
        why=f"it may not INSERT into {', '.join(tables)}, or only rows that a policy of the table lets pass",
        fix=f"GRANT INSERT ON {', '.join(f'dprelease_ledger.{t}' for t in tables)} TO the role, and switch "
        "off row level security there; nothing was spent",
        code="DPR402",
    )


def cannot_create(path: Path, error: OSError | sqlite3.Error) -> LedgerError:
    if isinstance(error, OSError):
        why = error.strerror or "the system refused"
    else:
        why = f"SQLite reported {getattr(error, 'sqlite_errorname', 'an error')}"
    return LedgerError(
        "the ledger cannot be created",
        where=str(path),
        why=why,
        fix="choose a folder on a local disk that this user may write to",
        code="DPR402",
    )


def corrupt(path: Place, why: str) -> LedgerError:
    return LedgerError(
        "the ledger cannot be trusted", where=str(path), why=why, fix=_RECOVER, code="DPR403"
    )


def not_this(path: Path, what: str, why: str | None, fix: str) -> LedgerError:
    return LedgerError(
        f"the place named for the ledger {what}", where=str(path), why=why, fix=fix, code="DPR403"
    )


def older(path: Place, key: Key) -> LedgerError:
    return LedgerError(
        f"the ledger is older than the published release {key}, or was rewritten",
        where=str(path),
        why="going on would spend again what was spent since",
        fix="put the newest copy back, or `dprelease ledger reconcile`",
        code="DPR404",
    )


def foreign(path: Place, key: Key) -> LedgerError:
    return LedgerError(
        f"the published release {key} rests on another ledger",
        where=str(path),
        why="this one does not know what that one spent on the same dataset",
        fix="use that ledger, or `dprelease ledger reconcile` to debit its releases here",
        code="DPR405",
    )


def over_rho(path: Place, dataset: str, rho: int, used: int, budget: int) -> BudgetError:
    return BudgetError(
        f"the release does not fit the budget of dataset {dataset}",
        where=str(path),
        why=f"it needs rho {rho / 1e9:.9f}, {used / 1e9:.9f} of {budget / 1e9:.9f} is spent",
        fix=f"`{raising(path, dataset)}` raises the budget, on the record; or ask for less",
        code="DPR303",
    )


def without_rho(path: Place, dataset: str) -> BudgetError:
    return BudgetError(
        f"the release has no rho, and dataset {dataset} composes by zcdp",
        where=str(path),
        why="an (epsilon, delta) alone, such as that of noise that ends, gives no zero-concentrated guarantee",
        fix="release with delta 0 and without `certain`, or make the plan again with this version of dprelease",
        code="DPR304",
    )


def unknown_dataset(path: Place, dataset: str, datasets: Sequence[str]) -> LedgerError:
    names = ", ".join(datasets) or "none"
    return LedgerError(
        f"dataset {dataset} has no budget in this ledger",
        where=str(path),
        why=f"it holds budgets of: {names}; the same rows under a second name would get a second budget",
        fix=f"name the dataset that the rows belong to; if it is a new one, `{declaring(path, dataset)}`,"
        " with --population-epsilon E too where its schema names a population",
        code="DPR407",
    )


def network(path: Path, kind: str) -> LedgerError:
    return LedgerError(
        f"the ledger's folder is on a {kind} file system",
        where=str(path),
        why="write-ahead logging needs shared memory on one host",
        fix="put the ledger on a local disk",
        code="DPR408",
    )


def other_plan(
    path: Place, key: Key, recorded: str, wanted: str, lines: Sequence[str] = ()
) -> LedgerError:
    return LedgerError(
        f"{key} is already charged for another plan",
        where=str(path),
        why="\n         ".join(("in the debit (recorded) and here (asked)", *lines))
        if lines
        else f"recorded {recorded}, asked {wanted}"
        + (" (the same hash at another price)" if recorded == wanted else ""),
        fix="ask for that plan to get its release again; or release another period, and record a correction:"
        " `dprelease supersede FOLDER --by OTHER --reason …` or `dprelease withdraw FOLDER --reason …`",
        code="DPR410",
    )


def other_declaration(path: Place, dataset: str) -> LedgerError:
    return LedgerError(
        f"dataset {dataset} is budgeted under another adjacency, unit or time",
        where=str(path),
        why="an epsilon says nothing without them, and such epsilons do not add up",
        fix="use the declared adjacency, unit and `time` (column, zone and `immutable` as they were"
        " when the budget was made), or a dataset name and budget of their own",
        code="DPR411",
    )


def wrong_stage(path: Place, key: Key, why: str) -> LedgerError:
    return LedgerError(
        f"the ledger refuses this step for {key}",
        where=str(path),
        why=why,
        fix="follow charge, draw, commit, publish; `dprelease run` does",
        code="DPR412",
    )


def other_files(path: Place, key: Key) -> LedgerError:
    return LedgerError(
        f"other files are already committed for {key}",
        where=str(path),
        why="files must be a deterministic function of the drawn numbers",
        fix="publish the committed files; they are the release",
        code="DPR413",
    )


def other_approver(path: Place, dataset: str, key: str) -> LedgerError:
    return LedgerError(
        f"approvals of dataset {dataset} are signed by another key",
        where=str(path),
        why=f"its first signed approval is by the public key {key}, and no other counts since",
        fix="give that key with --signing-key",
        code="DPR428",
    )


def other_budget(path: Place, dataset: str, recorded: Cost) -> LedgerError:
    return LedgerError(
        f"dataset {dataset} already has another budget",
        where=str(path),
        why=f"it is {plain(recorded.epsilon)}, delta {float(recorded.delta):.3g}, and a budget"
        " is raised on the record, never replaced",
        fix=f"`{raising(path, dataset)}`, or declare the recorded budget",
        code="DPR414",
    )


def published_elsewhere(path: Place, key: Key) -> LedgerError:
    return LedgerError(
        f"{key} was published from another copy of this ledger",
        where=str(path),
        why="drawing it again would spend its epsilon twice",
        fix="keep the published folder: it is the only record of that draw",
        code="DPR416",
    )


def drawn_elsewhere(path: Place, key: Key) -> LedgerError:
    return LedgerError(
        f"{key} was drawn here and, differently, in another copy of this ledger",
        where=str(path),
        why="both draws are spent, and one key holds one debit",
        fix="withdraw one of the two releases, and lower what you still publish by its epsilon",
        code="DPR417",
    )


def over_budget(
    path: Place, dataset: str, debit: Cost, worst: Cost, total: Cost, line: Timeline
) -> BudgetError:
    """Return the refusal; `worst` is what the worst unit would have cost, `debit` included."""
    why = None
    if line.apart:
        whose = "a row" if line.per is None else f"a person's rows of one {line.per}"
        why = f"losses are added up for {whose}: over all releases that can have read {whose}"
    code, name, raised, add = "DPR302", "delta", "both", f"`{raising(path, dataset)} --delta D`"
    figures = [cost.delta for cost in (worst, total, debit)]
    if worst.nano_epsilon > total.nano_epsilon:
        code, name, raised = "DPR301", "budget", "the budget"
        figures = [cost.epsilon for cost in (worst, total, debit)]
    after, whole, wanted = figures
    amounts = after - wanted, whole, wanted, whole - (after - wanted)
    spent, of, more, left = (plain(x) if code == "DPR301" else f"{float(x):.3g}" for x in amounts)
    if code == "DPR301":
        lacking = after - whole, after - whole + 11 * wanted
        one, twelve = (raising(path, dataset, plain(amount)) for amount in lacking)
        add = f"`{one}`" if line.apart else f"`{one}` for this release, `{twelve}` for 12 such"
    return BudgetError(
        f"the {name} of dataset {dataset} does not cover this release:"
        f" spent {spent} of {of}, asked {more}, left {left}",
        where=str(path),
        why=why,
        fix=f"ask for less, or raise {raised} on the record: {add}",
        code=code,
    )


def other_population(place: Place, dataset: str, here: str | None, said: str) -> LedgerError:
    return LedgerError(
        f"the population of dataset {dataset} is another in this ledger, or has other terms",
        where=str(place),
        why=f"the ledger holds {here or 'none'}, and {said}; all its datasets state the same",
        fix=f"state what `{on_ledger(place, 'show')}` says; `{on_ledger(place, 'init')}` with --schema, --epsilon,"
        " --population, --population-epsilon and what else its terms are lets a dataset join",
        code="DPR429",
    )


def no_population(place: Place, name: str, populations: Sequence[str]) -> LedgerError:
    return LedgerError(
        f"there is no population {name} in this ledger",
        where=str(place),
        why=f"it holds populations: {', '.join(populations) or 'none'}",
        fix="name one of these; `dprelease ledger init` with --population declares one",
        code="DPR431",
    )


def failed_before(path: Place, key: Key, code: str | None) -> WithheldError:
    return WithheldError(
        f"{key} is withheld for good",
        where=str(path),
        why=f"it failed before ({code}), and drawing until a result passes would not be the"
        " mechanism that was priced",
        fix="nothing to do for this period; its budget stays spent",
        code="DPR710",
    )


def failed_draw(path: Place, key: Key) -> WithheldError:
    return WithheldError(
        f"the draw for {key} did not complete",
        where=str(path),
        why="it raised, or gave a record of the wrong width; a second draw that depends on the"
        " first would cost epsilon again",
        fix="report it; other periods are not affected",
        code="DPR711",
    )


def completed(fix: str, pipeline: str) -> str:
    """Return a fix whose commands name the pipeline's file: it can be pasted."""
    for command in ("init", "reconcile", "add"):
        fix = fix.replace(
            f"`dprelease ledger {command}`", f"`dprelease ledger {command} {pipeline}`"
        )
    return fix.replace("PIPELINE", pipeline)


def on_ledger(place: Place, command: str) -> str:
    """Return `dprelease ledger COMMAND` for the ledger at the place, without a pipeline."""
    return f"dprelease ledger {command} --ledger {_named(place)}"


def raising(place: Place, dataset: str, more: object = "E") -> str:
    """Return the command that raises the dataset's budget; a run writes its pipeline instead."""
    return f"dprelease ledger add --ledger {_named(place)} --dataset {dataset} --epsilon {more}"


def _named(place: Place) -> str:
    """Return the place as a shell takes it after `--ledger`."""
    return shlex.quote(str(place).removeprefix("PostgreSQL "))
