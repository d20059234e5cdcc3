"""`release.json`: the manifest, everything a stranger needs to check a release.

It holds the guarantee, the plan with its exact certificates, the noisy integers as drawn, the
verdict, the ledger anchor, the software and the SHA-256 of every other file. Noisy integers and
rationals are strings: JSON readers lose integers above 2**53.

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
from typing import Any, Protocol

from dprelease.noised import Noised
from dprelease.planning.model import canonical_json
from dprelease.schema.unit import describe, unit_to_json

__all__ = ["FILE", "VERSION", "JsonVerdict", "build_manifest", "described", "manifest_bytes", "write"]

FILE = "release.json"
VERSION = "release/1"


class JsonVerdict(Protocol):
    """A verdict, as formats see it: they stand below validation and do not import it."""

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""


def build_manifest(
    noised: Noised,
    verdict: JsonVerdict,
    files: Mapping[str, bytes],
    *,
    software: Mapping[str, str],
    budget: Mapping[str, Any] | None = None,
    scheduled: str | None = None,
    published: str | None = None,
    what_if: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return the manifest as JSON data.

    Args:
        files: name -> bytes of every other file of the release; `{}` while they are being made.
        software: name -> version.
        budget: `{"spent": "p/q", "total": "p/q", "history": [...]}` in epsilon, as of this
            release's ledger entry; history: spent after each debit, the newest last.
        scheduled: the instant the period is due, `2013-02-06T11:00:00Z`: of the calendar, never of
            the clock, so that a late run gives the same bytes.
        published: the day of publication, `2013-02-07` (UTC): noted before any row was read, and
            committed with the other bytes, so that a repeat gives the same ones.
        what_if: expected errors at other budgets (`planning.what_if`).
    """
    plan, receipt = noised.plan, noised.receipt
    anchored = receipt.ledger is not None
    return {
        "dprelease": VERSION,
        "pipeline": receipt.pipeline,
        "period": receipt.period,
        "scheduled": scheduled,
        "published": published,
        "early": receipt.early,
        "dataset": receipt.dataset,
        "guarantee": {
            "statement": plan.guarantee,
            "epsilon": str(plan.epsilon),
            "delta": str(plan.delta),
            "adjacency": plan.adjacency.value,
            "unit": unit_to_json(plan.unit),
            "protects": describe(plan.adjacency, plan.unit),
        },
        "plan": plan.to_json(),
        "plan_hash": plan.hash,
        "cells": {
            block: [list(map(str, row)) for row in rows]
            for block, rows in noised.cells.items()
        },
        "validation": verdict.to_json(),
        "receipt": {
            "epsilon": receipt.epsilon,
            "delta": receipt.delta,
            "protects": receipt.protects,
        },
        "ledger": {
            "ledger_id": receipt.ledger_id,
            "seq": receipt.seq,
            "head_hash": receipt.head_hash,
        }
        if anchored
        else None,
        "budget": dict(budget) if budget is not None else None,
        "what_if": [dict(point) for point in what_if],
        "software": dict(software),
        "files": described(files),
    }


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


def write(noised: Noised, manifest: Mapping[str, Any]) -> dict[str, bytes]:  # noqa: ARG001 - the contract of formats
    """Return `{"release.json": bytes}` for a finished manifest."""
    return {FILE: manifest_bytes(manifest)}
