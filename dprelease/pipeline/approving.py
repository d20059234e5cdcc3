"""A plan on its way to the privacy officer and back: the file that `plan --out` writes, and its approval.

    plan file   the pipeline's request for all periods, its price, and the plan for whoever reads it
    approve     the request in the file is the pipeline's, its price is what the planner says today, and
                all else in it follows from the request and the choice of laws that it records; then
                the ledger records the request, who approved it, when, and the limits

Nothing in the file is believed: it is made again and compared, because officers approve what they read
in it. What is recorded is the request of the pipeline file.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from dprelease.budget.approval import Approval, request_hash
from dprelease.budget.approval_words import apart
from dprelease.budget.ledger import Ledger
from dprelease.budget.signature import Signer, load_signer
from dprelease.core.errors import (
    UNREADABLE,
    ArgumentError,
    BudgetError,
    ConfigError,
    DpreleaseError,
)
from dprelease.core.numeric import Number, fraction_from_json, plain, positive
from dprelease.core.periods import instant_text
from dprelease.core.secret_text import must_read, parse_reference
from dprelease.core.strict_json import MOST_BYTES, read_json
from dprelease.pipeline import anchoring
from dprelease.pipeline.config import PipelineConfig
from dprelease.pipeline.planned import plan_pipeline
from dprelease.planning.again import plan_again
from dprelease.query.written import request_for_all_periods
from dprelease.release_plan.identity import is_hash_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.formats.json_ import manifest_bytes

PLAN_FILE = "plan-file/1"


def plan_file(config: PipelineConfig, plan: ReleasePlan, period: str | None) -> bytes:
    """Return the file that an officer reads: one line per part, strict JSON."""
    return manifest_bytes(
        {
            "dprelease": PLAN_FILE,
            "pipeline": config.name,
            "dataset": config.budget.dataset,
            "period": period,
            **_stated(plan),
            "plan": plan.to_json(),
            "hash": plan.hash,
        }
    )


def _stated(plan: ReleasePlan) -> dict[str, Any]:
    """Return what is approved of a plan: its request and its price."""
    assert plan.request is not None
    request = request_for_all_periods(plan.request)
    return {
        "request": request,
        "request_hash": request_hash(request),
        "epsilon": str(plan.epsilon),
        "delta": str(plan.delta),
        "guarantee": plan.guarantee,
    }


def approve(
    config: PipelineConfig,
    file: Path,
    *,
    per_period: Number | None = None,
    total: Number | None = None,
    until: str | None = None,
    note: str | None = None,
    signer: Signer | None = None,
    now: datetime | None = None,
) -> tuple[int, Approval]:
    """Record that what the plan file asks for may be released; return the event and what it says.

    Args:
        per_period: epsilon that one period may cost; that of the plan by default.
        total: epsilon that all releases under this approval may cost.
        until: the last day of a debit, UTC; one that is past ends earlier approvals of the request.

    Raises:
        ConfigError: the file is not a plan file (DPR182).
        BudgetError: it is of another pipeline, the pipeline asks for something else by now, or the file says
            what does not follow from that (DPR306).
        LedgerError: as `Ledger.approve`. ArgumentError: a limit or date is malformed (DPR606, DPR656).
    """
    stated = _read(file)
    plan = plan_pipeline(config, stated["period"])
    _must_be_this(stated, config, _stated(plan), file)
    _must_say_so(stated, config, plan, file)
    made = Approval(
        dataset=config.budget.dataset,
        pipeline=config.name,
        request=_stated(plan)["request"],
        per_period=_limit(per_period, "--per-period") or plan.epsilon,
        total=_limit(total, "--total"),
        until=until,
        by=_user(),
        at=instant_text(now or datetime.now(UTC)),
        note=note,
    )
    book = Ledger.open(config.budget.ledger, public=config.publish.to)
    anchoring.check(config.budget, book)
    event = book.approve(made, signer)
    anchoring.export(config.budget, book)
    return event, next(a.approval for a in book.approvals(made.dataset) if a.event == event)


def of_no_use(made: Approval, file: Path) -> list[str]:
    """Say why no period can run under an approval, if that is so; `file` is what was approved."""
    epsilon = fraction_from_json(_read(file)["epsilon"])
    out = []
    if made.until is not None and made.until < made.at[:10]:
        out.append(
            f"{made.until} is past: this ends earlier approvals of the request, and allows nothing"
        )
    for name, limit in (("one period", made.per_period), ("all of them", made.total)):
        if limit is not None and limit < epsilon:
            allowed, wanted = plain(limit), plain(epsilon)
            out.append(f"epsilon {allowed} for {name} allows nothing: one period asks for {wanted}")
    return out


def signer_named(reference: str) -> Signer:
    """Return the officer's key by reference, `${env:NAME}` or `${file:PATH}`.

    Raises:
        ArgumentError: it is not a reference (DPR658). SourceError: it leads nowhere (DPR520).
        LedgerError: it is not a key (DPR421), or the extra is not installed (DPR422).
    """
    found = parse_reference(reference)
    if found is None:
        raise ArgumentError(
            "a signing key is named by reference only",
            where="--signing-key",
            why="a key on a command line would stand in shell histories",
            fix="put it into a variable or a file, and write ${env:NAME} or ${file:PATH}, in single quotes",
            code="DPR658",
        )
    kind, target = found
    place = str(Path(target).resolve()) if kind == "file" else target
    return load_signer(must_read(kind, place, "signing key", reference), "--signing-key")


def _limit(value: Number | None, name: str) -> Fraction | None:
    return None if value is None else positive(value, name)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


def _read(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as stream:
            found = read_json(stream.read(MOST_BYTES + 1))
        if isinstance(found, Mapping) and found["dprelease"] == PLAN_FILE:
            if not isinstance(found["period"], str | None) or not isinstance(
                found["request"], dict
            ):
                raise TypeError("plan file")
            return found
    except FileNotFoundError:
        raise ConfigError(
            "the plan file does not exist",
            where=str(file),
            fix="make it: `dprelease plan PIPELINE --out plan.json`",
            code="DPR182",
        ) from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArgumentError):
        pass
    raise ConfigError(
        "this is not a plan file",
        where=str(file),
        why="an approval is of what the officer has read: the file that `plan --out` writes",
        fix="make it: `dprelease plan PIPELINE --out plan.json`",
        code="DPR182",
    )


def _must_be_this(
    stated: Mapping[str, Any], config: PipelineConfig, now: Mapping[str, Any], file: Path
) -> None:
    """Refuse a file of another pipeline, request or price; the differences stand line by line."""
    own = {"pipeline": config.name, "dataset": config.budget.dataset}
    names = ("request", "epsilon", "delta")
    lines = apart(
        {name: stated.get(name) for name in (*own, *names)},
        {**own, **{name: now[name] for name in names}},
    )
    what = "the plan file is not what the pipeline asks for"
    _refuse(what, "in the file (approved) and in the pipeline (asked)", lines, config, file)


def _must_say_so(
    stated: Mapping[str, Any], config: PipelineConfig, plan: ReleasePlan, file: Path
) -> None:
    """Refuse a file whose other words and figures do not follow from its request and recorded choice.

    The choice is the file's: another machine's floating point may have tipped it (`planning.again`).
    """
    assert plan.request is not None
    try:
        again = read_json(
            plan_file(config, plan_again(plan.request, stated["plan"]), stated["period"])
        )
        if is_hash_of(stated["hash"], again["plan"]):  # as the version that wrote it takes it
            again["hash"] = stated["hash"]
        lines = apart(dict(stated), again)
    except (*UNREADABLE, DpreleaseError):
        lines = ["the plan in it was not made from this request"]
    what = "the plan file does not say what follows from its request"
    _refuse(what, "in the file (approved) and as it follows (asked)", lines, config, file)


def _refuse(what: str, why: str, lines: Sequence[str], config: PipelineConfig, file: Path) -> None:
    """Refuse a file that differs in these lines from what it should be; do nothing without any."""
    if not lines:
        return
    raise BudgetError(
        what,
        where=str(file),
        why="\n         ".join((why, *lines)),
        fix=f"plan again: `dprelease plan {config.origin.rpartition(':')[0]} --out {file}`, and read it",
        code="DPR306",
    )
