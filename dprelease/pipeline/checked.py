"""Schema and pipeline files as a run would read them: what each is and asks for; opens no table and no ledger."""

from __future__ import annotations

from pathlib import Path

from dprelease.core.numeric import counted
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline, plan_release
from dprelease.query.load import Schema
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.yaml_marks import load_yaml


def checked(file: Path) -> dict[str, str | None]:
    """Return what a file is, what its release guarantees, the hash of that plan, and what a draft leaves open.

    Raises:
        ConfigError: as `load_pipeline` or `Schema.load`; or as planning.
    """
    if load_yaml(file).data.get("dprelease") == "pipeline/1":
        return _said("pipeline", plan_pipeline(load_pipeline(file)))
    schema = Schema.load(file)
    plan = plan_release(schema, origin=str(file)) if schema.release else None
    if (unread := next((c.unread for c in schema.columns.values() if c.unread), None)) is not None:
        raise unread
    return _said("schema", plan) | {"open": open_lines(file)}


def open_lines(file: Path) -> str | None:
    """Return how many lines of a draft wait for an answer; None of a file without any."""
    lines = file.read_text(encoding="utf-8").splitlines()
    waiting = sum(line.lstrip().startswith("# ANSWER ") for line in lines)
    return f"{counted(waiting, 'line')} still to answer (`# ANSWER`), not read" if waiting else None


def _said(kind: str, plan: ReleasePlan | None) -> dict[str, str | None]:
    if plan is None:
        return {"kind": kind, "guarantee": None, "plan": None}
    return {"kind": kind, "guarantee": plan.guarantee, "plan": plan.hash}
