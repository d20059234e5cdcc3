"""`release.json`: the manifest, everything a stranger needs to check a release.

Four parts are given, and all others, and every other file, follow from them (`verification`):

    request    the schema and the release, as the readers of declaration files read them
    draw       the noisy integers, with the keys that were found, or of several tables the values fitted to them; the laws they were drawn from are chosen in the plan, `plan.blocks`
    receipt    who paid what: key, ledger entry, the budget as of it, the scheduled instant
    software   what made it; stated, and no check rests on it: `verify` repeats the version that it cannot make again

The derived parts are written for readers: guarantee, plan, verdict, the SHA-256 of every other file.
Noisy integers and rationals are strings: JSON readers lose integers above 2**53.

What a retry could change is left out: whether this run was the first one, the time, and the spent
total at the moment of writing. `budget` may be given, but only as of this release's own ledger
entry. The one thing of the clock is the day of publication: the first files that are committed to
the ledger fix it, and every repeat publishes those.

Order of building: `build_manifest(..., files={})` is what the other formats see; then their bytes
are hashed into the final one. So no file depends on its own hash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dprelease.budget.approval import request_hash
from dprelease.budget.person import PersonLoss
from dprelease.core.codec import encode
from dprelease.core.strict_json import canonical_json, read_json
from dprelease.measurements.law import RAW_LIMIT
from dprelease.query.written import request_for_all_periods, request_to_json
from dprelease.release_plan.block import Cells
from dprelease.release_plan.identity import plan_hash
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.promise import ledger_window, person_in_plan
from dprelease.results.draw import Draw
from dprelease.results.formats.over_time import release_over_time
from dprelease.results.formats.public_words import public_words
from dprelease.schema.table import declared_time
from dprelease.schema.unit import UserUnit, describe, unit_to_json

if TYPE_CHECKING:
    from dprelease.results.validate.verdict import Verdict

FILE = "release.json"
VERSION = "release/2"

REPORT = 2
"""Edition of the report: of today, with a privacy label, odds and a citation. Requests before it name none."""

SOFTWARE = 20, 100
"""At most so many programs, in texts of at most so many characters."""


def build_manifest(
    noised: Draw,
    verdict: Verdict,
    files: Mapping[str, bytes],
    *,
    software: Mapping[str, str],
    formats: Sequence[str] = (),
    budget: Mapping[str, Any] | None = None,
    scheduled: str | None = None,
    published: str | None = None,
    what_if: Sequence[Mapping[str, Any]] = (),
    report: int | None = REPORT,
) -> dict[str, Any]:
    """Return the manifest as JSON data.

    Args:
        files: name -> bytes of every other file of the release; `{}` while they are being made.
        software: name -> version.
        formats: the formats that were asked for, by name.
        budget: `{"spent": "p/q", "total": "p/q", "delta": "p/q", "history": [...]}`, as of this
            release's ledger entry; history: epsilon spent after each debit, the newest last.
        scheduled: the instant the period is due, `2013-02-06T11:00:00Z`: of the calendar, never of
            the clock, so that a late run gives the same bytes.
        published: the day of publication, `2013-02-07` (UTC): noted before any row was read, and
            committed with the other bytes, so that a repeat gives the same ones.
        what_if: expected errors at other budgets; report: the edition of pages and files, None for the first one.
    """
    plan, receipt = noised.plan, noised.receipt
    planned = plan.to_json()
    request = None if plan.request is None else request_to_json(plan.request)
    edition = {"report": report} if report else {}
    anchor = {name: getattr(receipt, name) for name in ("ledger_id", "seq", "head_hash")}
    when = {name: getattr(receipt, name) for name in ("pipeline", "period", "dataset", "early")}
    when |= {"scheduled": scheduled, "published": published}
    paid = {
        "ledger": None if receipt.seq is None else anchor,
        "budget": None if budget is None else dict(budget),
    }
    manifest = {
        "dprelease": VERSION,
        "request": None if request is None else {**request, "formats": list(formats), **edition},
        "draw": _draw(noised),
        "receipt": {
            **{name: getattr(receipt, name) for name in ("epsilon", "delta", "protects")},
            **when,
            **paid,
            **_approved(noised),
        },
        "software": dict(software),
        **when,
        "guarantee": _guarantee(plan),
        "plan": planned,
        "plan_hash": receipt.plan_hash or plan_hash(planned),
        "validation": verdict.to_json(),
        **paid,
        "what_if": [dict(point) for point in what_if],
        "files": described(files),
    }
    return {**manifest, "over_time": release_over_time(manifest, public_words(manifest)) or None}


def _draw(noised: Draw) -> dict[str, Any]:
    """Return the noisy integers, as text: readers lose large ones; and what was found or fitted with them."""
    rows = {name: [list(map(str, row)) for row in cells] for name, cells in noised.cells.items()}
    found = {"keys": [key for (key,) in noised.plan.keys]} if noised.plan.query.groups.found else {}
    return {"cells": rows, **found, **({"fits": dict(noised.fits)} if noised.fits else {})}


def _guarantee(plan: ReleasePlan) -> dict[str, Any]:
    """Return what is promised, and to whom."""
    return {
        "statement": plan.guarantee,
        "epsilon": str(plan.epsilon),
        "delta": str(plan.delta),
        "adjacency": plan.adjacency.value,
        "unit": unit_to_json(plan.unit),
        "protects": describe(plan.adjacency, plan.unit),
        **_accounted(plan),
    }


def _approved(noised: Draw) -> dict[str, Any]:
    """Return which event of the ledger approved the request, and its hash; nothing where none did."""
    event, request = noised.receipt.approval, noised.plan.request
    if event is None or request is None:
        return {}
    return {"approval": {"event": event, "request": request_hash(request_for_all_periods(request))}}


def _accounted(plan: ReleasePlan) -> dict[str, Any]:
    """Return the time and window that a ledger adds this release up by, and what a whole person loses."""
    time = declared_time(plan.unit, plan.time)
    if time is None:
        return {}
    said = {"time": read_json(time), "window": list(ledger_window(plan))}
    if isinstance(plan.unit, UserUnit):
        said["person"] = encode(person_in_plan(plan), PersonLoss | None)
    return said


def described(files: Mapping[str, bytes]) -> dict[str, dict[str, str | int]]:
    """Return the manifest's `files`: name to hash and size, sorted by name."""
    return {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for name, data in sorted(files.items())
    }


def manifest_bytes(manifest: Mapping[str, Any]) -> bytes:
    """Return the manifest's one text: canonical JSON with a line per top-level entry.

    Raises:
        ValueError: a NaN or an infinity, which strict JSON cannot hold.
    """
    lines = [f"{canonical_json(key)}:{canonical_json(manifest[key])}" for key in sorted(manifest)]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def write(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:  # noqa: ARG001 - the contract of formats
    """Return `{"release.json": bytes}` for a finished manifest."""
    return {FILE: manifest_bytes(manifest)}


def cells_from_json(value: Mapping[str, Any], plan: ReleasePlan) -> Cells:
    """Return the noisy integers that a manifest holds as texts, of exactly the plan's shape.

    Raises:
        ValueError: of another shape, or not an integer as the ledger could have stored it.
    """
    if set(value) != {b.name for b in plan.blocks}:
        raise ValueError("the noisy integers are of other blocks")
    cells: Cells = {}
    for block in plan.blocks:
        rows = value[block.name]
        if len(rows) != plan.groups(block) or any(len(row) != len(block.cells) for row in rows):
            raise ValueError("the noisy integers are of another shape")
        cells[block.name] = tuple(tuple(map(_noisy, row)) for row in rows)
    return cells


def _noisy(text: str) -> int:
    """Return a noisy integer as `str` writes it, which holds it to be a text; `int` bounds its length."""
    value = int(text)
    if str(value) != text or abs(value) > RAW_LIMIT:
        raise ValueError("not a noisy integer")
    return value
