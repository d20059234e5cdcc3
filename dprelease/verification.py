"""Re-check a publication folder: what a stranger does who holds nothing but the folder.

    files         every file is listed in `release.json` with its SHA-256, and nothing else is there
    plan          the plan's hash; the guarantee repeats the plan's epsilon, delta, unit, adjacency
    certificates  every sensitivity from the query, every law's loss from its own integers, their
                  sum against the guarantee, in exact arithmetic
    values        every table, and the report, made again from the noisy integers equal those here
    domains       every value is finite, in its domain and on its step; joint constraints hold
    status        the record of corrections beside the folder does not withdraw the release
    ledger        with the ledger at hand: the anchor right after the debit, the bytes committed
                  under it, and the whole chain

No data is needed, and no trust in the publisher's software: only in the arithmetic done here. What
cannot be checked from outside: that the engine bounded and summed the rows as the plan says, and
that the noise was drawn from the operating system's generator.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease import execute, registry
from dprelease.budget.connection import Place
from dprelease.budget.ledger import Anchor, Ledger
from dprelease.errors import DpreleaseError, VerificationError
from dprelease.formats.json_ import FILE, VERSION
from dprelease.noised import Noised
from dprelease.planning.model import ReleasePlan, plan_hash
from dprelease.publish import hash_files, read_folder
from dprelease.schema.unit import describe, unit_to_json
from dprelease.series.collect import noised_of
from dprelease.series.correct import standing_of
from dprelease.validate.rules import check

__all__ = ["Check", "Verification", "read_manifest", "table_of", "verify"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at; `detail` says what was found, in public words."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one folder; `ok` exactly if each of them is."""

    folder: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        return all(c.ok for c in self.checks)

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "ok": self.ok,
            "checks": [{"name": c.name, "ok": c.ok, "detail": c.detail} for c in self.checks],
        }

    def __str__(self) -> str:
        lines = [f"{'ok  ' if c.ok else 'FAIL'} {c.name:<13} {c.detail}" for c in self.checks]
        return "\n".join(lines)


def read_manifest(files: Mapping[str, bytes], folder: Path) -> dict[str, Any]:
    """Return the manifest of a folder's files.

    Raises:
        VerificationError: there is none, or it is not one of ours (DPR801).
    """
    try:
        manifest = json.loads(files[FILE])
        if manifest["dprelease"] == VERSION:
            return dict(manifest)
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    raise VerificationError(
        f"there is no readable {FILE}",
        where=str(folder),
        why=f"a publication folder holds a manifest of version {VERSION}",
        fix="name the folder of one period, e.g. public/clinic_weekly/2026-W46",
        code="DPR801",
    )


def verify(folder: str | Path, *, ledger: Place | str | None = None) -> Verification:
    """Re-check one publication folder, with the ledger's anchor if `ledger` is given.

    Args:
        ledger: its file, or a server by reference: `${env:NAME}`.

    Raises:
        VerificationError: the folder holds no release at all (DPR801, DPR810).
    """
    path = Path(folder)
    files = read_folder(path)
    manifest = read_manifest(files, path)
    # Made inside the first check that needs it: a manifest that breaks it fails every such check.
    plan = cache(lambda: ReleasePlan.from_json(manifest["plan"]))
    noised = cache(lambda: noised_of(manifest))
    checks = [
        _guarded("files", lambda: _files(files, manifest)),
        _guarded("plan", lambda: _plan(manifest, plan())),
        _guarded("certificates", lambda: _certificates(plan())),
        _guarded("values", lambda: _values(files, manifest, noised())),
        _guarded("domains", lambda: _domains(noised())),
        _guarded("status", lambda: _status(path, files, manifest)),
    ]
    if ledger is not None:
        checks.append(_guarded("ledger", lambda: _ledger(files, manifest, ledger)))
    return Verification(str(path), tuple(checks))


def table_of(manifest: Mapping[str, Any]) -> pa.Table:
    """Return the tidy table made again from a manifest's noisy integers."""
    return noised_of(manifest).table


def _guarded(name: str, look: Callable[[], tuple[bool, str]]) -> Check:
    """Run one check; a manifest that breaks it is a failed check, not a traceback."""
    try:
        ok, detail = look()
    except DpreleaseError as problem:
        ok, detail = False, f"{problem.what} ({problem.code})"
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError):
        ok, detail = False, "the manifest does not hold what this check needs"
    return Check(name, ok, detail)


def _files(files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> tuple[bool, str]:
    listed: Mapping[str, Any] = manifest["files"]
    found = hash_files({n: b for n, b in files.items() if n != FILE})
    wrong = sorted(n for n in listed if found.get(n) != listed[n]["sha256"])
    extra = sorted(set(found) - set(listed))
    if wrong or extra:
        parts = [f"changed or missing: {', '.join(wrong)}"] if wrong else []
        parts += [f"not in the manifest: {', '.join(extra)}"] if extra else []
        return False, "; ".join(parts)
    return True, f"{len(listed)} files match their SHA-256"


def _plan(manifest: Mapping[str, Any], plan: ReleasePlan) -> tuple[bool, str]:
    guarantee = manifest["guarantee"]
    if plan_hash(manifest["plan"]) != manifest["plan_hash"]:
        return False, "the plan is not the one that was hashed"
    same = (
        Fraction(guarantee["epsilon"]) == plan.epsilon
        and Fraction(guarantee["delta"]) == plan.delta
        and guarantee["adjacency"] == plan.adjacency.value
        and guarantee["unit"] == unit_to_json(plan.unit)
        and guarantee["statement"] == plan.guarantee
        and guarantee["protects"] == describe(plan.adjacency, plan.unit)
    )
    if not same:
        return False, "the guarantee is not the plan's"
    receipt = manifest["receipt"]
    paid = Fraction(receipt["epsilon"]), Fraction(receipt["delta"])
    if paid != (plan.epsilon, plan.delta) or receipt["protects"] != guarantee["protects"]:
        return False, "the receipt is not the plan's"
    return True, plan.guarantee


def _certificates(plan: ReleasePlan) -> tuple[bool, str]:
    total = execute.check(plan)
    said = "".join(f"; {note}" for note in plan.notes if note.startswith("observed"))
    return True, f"{len(plan.blocks)} laws recomputed, proved epsilon {float(total):.9g} in total{said}"


def _values(
    files: Mapping[str, bytes], manifest: Mapping[str, Any], noised: Noised
) -> tuple[bool, str]:
    table = noised.table
    shown = []
    if "data.parquet" in files:
        try:
            published = pq.read_table(io.BytesIO(files["data.parquet"]))
        except (pa.ArrowException, OSError):
            return False, "data.parquet does not open"
        if not published.replace_schema_metadata(None).equals(table):
            return False, "data.parquet does not hold the values of the noisy integers"
        shown.append("data.parquet")
    # Tables are the same in every version; pages and descriptions are worded by the version that
    # made them, so another version cannot make them again and says so.
    made = dict(registry.load("formats", "csv")(noised, manifest))  # type: ignore[operator]
    own = manifest["software"]["dprelease"] == metadata.version("dprelease")
    if own:
        for name in ("datapackage", "html", "registry"):
            made |= registry.load("formats", name)(noised, manifest)  # type: ignore[operator]
    for name in sorted(set(made) & set(files)):
        if made[name] != files[name]:
            return False, f"{name} does not hold the values of the noisy integers"
        shown.append(name)
    where = ", ".join(shown) or "no table is published"
    note = "" if own else "; the report is of another version and was not compared"
    return True, f"{table.num_rows:,} values made again from the noisy integers: {where}{note}"


def _domains(noised: Noised) -> tuple[bool, str]:
    verdict = check(noised)
    return verdict.ok, str(verdict)


def _status(
    path: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any]
) -> tuple[bool, str]:
    return standing_of(path, manifest, hash_files({FILE: files[FILE]})[FILE])


def _ledger(
    files: Mapping[str, bytes], manifest: Mapping[str, Any], place: Place | str
) -> tuple[bool, str]:
    book = Ledger.open(place)
    cited = manifest["ledger"]
    if cited is None:
        return False, "the release cites no ledger"
    anchor = Anchor(cited["ledger_id"], cited["seq"], cited["head_hash"])
    if not book.anchor_ok(anchor):
        return False, f"the ledger does not have the cited head at entry {anchor.seq}"
    # A debit made again by `reconcile` stands elsewhere in the chain and names where it was.
    entry = next((e for e in book.entries() if anchor in (e.anchor, e.origin)), None)
    if entry is None or entry.entry.plan_hash != manifest["plan_hash"]:
        return False, f"entry {anchor.seq} debits another plan"
    key = entry.entry.key
    if (key.dataset, key.pipeline, key.period) != tuple(
        manifest[name] for name in ("dataset", "pipeline", "period")
    ):
        return False, f"entry {anchor.seq} is of {key}"
    # A restored ledger may know the debit without the bytes (`reconcile`).
    committed = book.files(key)
    if committed is not None and committed != files:
        return False, f"the folder does not hold the bytes committed under entry {anchor.seq}"
    report = book.verify()
    if not report.ok:
        return False, "; ".join(report.problems[:3])
    return True, f"entry {anchor.seq} debits this plan; {report.entries} debits, chain intact"
