"""The stages of a release, in order, shared by `dp.release` and pipeline runs.

    plan        schema + request -> ReleasePlan          reads no row, spends nothing
    preflight   source -> nothing, or a SourceError      public metadata only
    charge      plan -> Receipt                          durable, before any random bit
    draw        exact integers -> noisy integers         behind the wall, in the ledger's transaction
    assemble    noisy integers -> tidy table             post-processing
    validate    table -> Verdict                         a failure withholds, never redraws
    bundle      table -> bytes of every file             deterministic, committed, then published

Data flows one way; a stage is a function of the values before it.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache
from importlib import metadata
from typing import Any

from dprelease import execute, registry
from dprelease.budget import refusals
from dprelease.budget.ledger import Entry, Key, Ledger
from dprelease.engines.limits import NO_LIMITS, Limits
from dprelease.engines.source import Source
from dprelease.errors import ConfigError, InternalError, LedgerError, SourceError, WithheldError
from dprelease.noised import Noised, Receipt, assemble, decode, width
from dprelease.numeric import plain
from dprelease.pipeline.planned import plan_release
from dprelease.planning.model import ReleasePlan
from dprelease.planning.what_if import what_if
from dprelease.query.shortcuts import VISIBLE_TIMEOUT
from dprelease.schema.unit import describe, unit_to_json
from dprelease.validate.rules import check
from dprelease.validate.verdict import Verdict

__all__ = [
    "FORMATS",
    "Progress",
    "Request",
    "bundle",
    "charge",
    "commit",
    "day_of",
    "draw",
    "engine_for",
    "engine_named",
    "plan_release",
    "preflight",
    "require_validator",
    "software",
    "spent_at",
    "validated",
    "withhold",
    "write_files",
]

Progress = Callable[[str, str], None]
"""Called as (stage, detail) with public text."""

FORMATS = ("parquet", "csv", "html")

OWN_FILES = (
    "data.parquet", "data.csv", "wide.csv", "report.html", "release.json", "datapackage.json",
    "registry.yaml",
)  # fmt: skip
"""What other packages' formats may not write."""

PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", re.ASCII)

_HISTORY = 24
"""Debits in the report's burn-down: the newest ones."""


@dataclass(frozen=True, slots=True)
class Request:
    """Where a charged release is written down: the ledger and its idempotency key."""

    ledger: Ledger
    key: Key


def engine_named(
    name: str, limits: Limits = NO_LIMITS, options: Mapping[str, object] | None = None
) -> Any:
    """Return a new engine of the registered kind `name`, under `limits` and the environment's.

    Args:
        options: further arguments of its own, such as Spark's `master`.

    Raises:
        ConfigError: a limit is not understood, or the engine has none of that name.
    """
    make: Any = registry.load("engines", name)
    return make(**limits.under().options_for(make, name), **(options or {}))


def engine_for(source: Source) -> Any:
    """Return the engine for data in hand: Spark's for a Spark DataFrame, else the default one."""
    return engine_named("spark" if source.kind == "spark_frame" else "duckdb")


def preflight(plan: ReleasePlan, source: Source, engine: Any) -> None:
    """Check by public metadata that the source fits the plan; spends nothing.

    Raises:
        SourceError: it does not open, fit or let its rows be counted (DPR50x), or has not the public
            size (DPR508).
        ConfigError: the engine has a time limit and the plan does not say so (DPR128).
    """
    _say_timeout(plan, engine)
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


def _say_timeout(plan: ReleasePlan, engine: Any) -> None:
    """Refuse a time limit that the plan, and so manifest and report, does not name."""
    timed = getattr(engine, "timeout", None) is not None
    if timed and not any(VISIBLE_TIMEOUT in note for note in plan.notes):
        raise ConfigError(
            "the engine has a time limit, and the release does not allow it",
            where="engine.timeout, or DPRELEASE_TIMEOUT in the environment",
            why="whether a run exceeds it can depend on the rows; it then ends after the charge, and"
            " everybody sees that its period is missing",
            fix=f"remove the limit, or accept that with `release: {{allow: [{VISIBLE_TIMEOUT}]}}`: the"
            " release will say so",
            code="DPR128",
        )


def charge(
    plan: ReleasePlan, request: Request, *, again: bool = False, early: str | None = None
) -> Receipt:
    """Check the plan's price again, then debit it durably (T1).

    Args:
        again: pay once more where a run ended between its debit and its stored draw.
        early: when the period closes, if that lies ahead.

    Raises:
        BudgetError: it does not fit; InternalError: the plan claims too little.
    """
    execute.check(plan)
    ledger, key = request.ledger, request.key
    got = ledger.charge(
        Entry(
            key=key,
            plan_hash=plan.hash,
            adjacency=plan.adjacency.value,
            unit=json.dumps(unit_to_json(plan.unit)),
            mechanisms=tuple(
                {
                    "block": b.name,
                    "mechanism": b.mechanism,
                    "epsilon": str(b.epsilon),
                    "epsilon_upper": b.certificate["epsilon_upper"],
                }
                for b in plan.blocks
            ),
            epsilon=plan.epsilon,
            delta=plan.delta,
            rho=execute.concentrated(plan) if ledger.composition(key.dataset) == "zcdp" else None,
            early=early,
        ),
        again=again,
    )
    return Receipt(
        epsilon=_text(plan.epsilon),
        delta=_text(plan.delta),
        protects=describe(plan.adjacency, plan.unit),
        ledger=str(ledger.path),
        ledger_id=got.anchor.ledger_id,
        seq=got.anchor.seq,
        head_hash=got.anchor.head_hash,
        dataset=key.dataset,
        pipeline=key.pipeline,
        period=key.period,
        spent=_text(got.spent),
        budget=_text(got.budget),
        fresh=got.fresh,
        early=got.early,
    )


def draw(
    plan: ReleasePlan,
    source: Source,
    engine: Any,
    *,
    request: Request | None,
    receipt: Receipt | None = None,
) -> Noised:
    """Compute, draw once, and assemble; a key that is drawn already reads no row.

    Args:
        request: None for an unledgered release, which draws at once under a fresh salt.
    """
    if request is None:
        execute.check(plan)
        exact = engine.compute(source, plan.query, os.urandom(32))
        cells = execute.draw(plan, exact)
        paid = Receipt(_text(plan.epsilon), _text(plan.delta), describe(plan.adjacency, plan.unit))
    else:
        ledger, key = request.ledger, request.key
        if ledger.state(key) == "failed":  # its values are withheld, from everybody
            code = next(e.code for e in ledger.entries(key.dataset) if e.entry.key == key)
            raise refusals.failed_before(ledger.path, key, code)
        payload = ledger.payload(key)
        if payload is None:
            exact = engine.compute(source, plan.query, ledger.salt(key.dataset))
            cells = execute.draw(
                plan, exact, once=lambda make: ledger.draw_once(key, make, width=width(plan))
            )
        else:
            cells = decode(plan, payload)
        assert receipt is not None
        paid = receipt
    table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
    return Noised(plan=plan, table=table, cells=cells, receipt=paid)


def validated(noised: Noised, *, great_expectations: bool) -> Verdict:
    """Return the verdict of the built-in rules, then of the Great Expectations suite."""
    verdict = check(noised)
    if verdict.ok and great_expectations:
        from dprelease.validate.gx import gx_validate  # imports Great Expectations: seconds

        verdict = gx_validate(noised)
    return verdict


def require_validator() -> None:
    """Import the validator before the charge; ConfigError if it cannot be (DPR173)."""
    from dprelease.validate.gx import require_great_expectations

    require_great_expectations()


def withhold(request: Request | None, verdict: Verdict) -> WithheldError:
    """Record the failure for good and return the error to raise; there is no redraw."""
    if request is not None:
        request.ledger.fail(request.key, "DPR701")
    broken = sorted({f"{r.name} of {r.statistic}" for r in verdict.failures})
    return WithheldError(
        "the release is withheld: a released value failed validation",
        where=str(request.key) if request is not None else "a release without a ledger",
        why=f"broken: {', '.join(broken)}; redrawing until valid would change the law",
        fix="report this as a bug; the budget stays spent, and the next period can be released",
        code="DPR701",
    )


def bundle(
    noised: Noised,
    formats: Iterable[str] = FORMATS,
    *,
    budget: Mapping[str, Any] | None = None,
    scheduled: str | None = None,
    published: str | None = None,
) -> dict[str, bytes]:
    """Return every file of the publication folder, by name; deterministic.

    Args:
        budget, scheduled, published: see `formats.json_.build_manifest`.

    Raises:
        ConfigError: an unknown format (DPR140).
    """
    asked = tuple(formats)
    others = what_if(noised.plan) if "html" in asked else []
    return write_files(
        noised,
        asked,
        software=software(),
        what_if=others,
        budget=budget,
        scheduled=scheduled,
        published=published,
    )


def write_files(
    noised: Noised,
    formats: Sequence[str],
    *,
    software: Mapping[str, str],
    what_if: Sequence[Mapping[str, Any]],
    as_published: Callable[[str, bytes], bytes] | None = None,
    **stated: Any,
) -> dict[str, bytes]:
    """Return every file, by name: a function of its arguments alone, so that `verify` calls it too.

    The verdict is that of the built-in rules, whoever else has checked the values.

    Args:
        as_published: from name and bytes to the bytes that are published, where another writer's
            hold the same table.
        stated: `budget`, `scheduled`, … of `formats.json_.build_manifest`.

    Raises:
        ConfigError: an unknown format (DPR140); WithheldError: as `_written`.
    """
    from dprelease.formats.json_ import build_manifest, described
    from dprelease.formats.json_ import write as write_manifest

    # the package lists the others: last
    wanted = tuple(dict.fromkeys((*formats, "registry", "datapackage")))
    known = (*registry.names("formats"), *registry.third_party_names("formats"))
    for name in wanted:
        if name not in known:
            raise ConfigError(
                f"there is no format called `{name}`",
                fix=f"known formats: {', '.join(known)}",
                code="DPR140",
            )
    files: dict[str, bytes] = {}
    common = build_manifest(
        noised, check(noised), {}, software=software, formats=formats, what_if=what_if, **stated
    )

    said: dict[str, Any] = {}  # every file is hashed once

    def manifest() -> dict[str, Any]:  # the noisy integers as text: made once
        return {**common, "files": dict(sorted(said.items()))}

    for name in wanted:
        made = _written(name, noised, manifest(), files)
        if as_published is not None:
            made = {n: as_published(n, data) for n, data in made.items()}
        files |= made
        said |= described(made)
    return {**files, **write_manifest(noised, manifest())}


def _written(
    name: str, noised: Noised, manifest: dict[str, Any], files: Mapping[str, bytes]
) -> dict[str, bytes]:
    """Return the files of one format.

    Raises:
        WithheldError: someone else's format fails, or writes what is not its own (DPR715): the
            values stay in the ledger, and the run can be repeated without it for nothing.
    """
    write: Any = registry.load("formats", name)
    if name in registry.names("formats"):
        return dict(write(noised, manifest))
    problem = "it failed"
    try:
        made = dict(write(noised, manifest))
        if _plain_files(made, files):
            return made
        problem = "it writes a file of ours, or one that is not bytes under a plain name"
    except Exception as error:  # noqa: BLE001 - foreign code after the charge
        problem = f"it failed with {type(error).__name__}"
    raise WithheldError(
        f"the format `{name}` of an installed package cannot be written",
        why=problem,
        fix="mend it or take it out of `publish.formats`, then run again: the draw is kept",
        code="DPR715",
    )


def _plain_files(made: Mapping[str, object], files: Mapping[str, bytes]) -> bool:
    taken = {*files, *OWN_FILES}
    return all(
        isinstance(name, str) and name not in taken and isinstance(data, bytes)
        and PLAIN_NAME.fullmatch(name)
        for name, data in made.items()
    )  # fmt: skip


def commit(request: Request, files: Mapping[str, bytes]) -> None:
    """Commit the files; if another process was first, its bytes stand."""
    try:
        request.ledger.commit_files(request.key, files)
    except LedgerError:
        if request.ledger.files(request.key) is None:
            raise


def day_of(moment: datetime) -> str:
    """Return the day of publication, UTC: of a moment before rows are read, which they cannot move."""
    return moment.astimezone(UTC).date().isoformat()


def spent_at(ledger: Ledger, key: Key, seq: int) -> dict[str, Any]:
    """Return the dataset's spent and total epsilon as of entry `seq`, for the report.

    `history` holds what was spent after each of the last debits, this one included; `composition`
    says how they add up, `delta` at which delta a sum of rho is worth that much.
    """
    debits = [e.anchor.seq for e in ledger.entries(key.dataset) if e.anchor.seq <= seq]
    history = [str(ledger.spent_at(key.dataset, at)) for at in debits[-_HISTORY:]]
    total = ledger.spent_at(key.dataset, seq)
    budget, composition = ledger.budget(key.dataset), ledger.composition(key.dataset)
    return {
        "spent": str(total),
        "total": str(budget.epsilon),
        "history": history,
        "composition": composition,
        **({"delta": str(budget.delta)} if composition == "zcdp" else {}),
    }


@cache
def _versions() -> dict[str, str]:
    names = ("dprelease", "duckdb", "numpy", "pandas", "pyarrow", "great-expectations")
    return {"python": platform.python_version()} | {n: metadata.version(n) for n in names}


def software() -> dict[str, str]:
    """Return the versions that made the release."""
    return dict(_versions())


def _text(value: Fraction) -> str:
    return str(plain(value))
