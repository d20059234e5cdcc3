"""Schema and pipeline files as a run would read them: what each is and asks for; opens no table and no ledger."""

from __future__ import annotations

from pathlib import Path

from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline, plan_release
from dprelease.query.load import Schema
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.yaml_marks import load_yaml


def checked(file: Path) -> dict[str, str | None]:
    """Return what a file is, what its release guarantees, and the hash of that plan.

    Raises:
        ConfigError: as `load_pipeline` or `Schema.load`; or as planning.
    """
    if load_yaml(file).data.get("dprelease") == "pipeline/1":
        return _said("pipeline", plan_pipeline(load_pipeline(file)))
    schema = Schema.load(file)
    plan = plan_release(schema, origin=str(file)) if schema.release else None
    if (unread := next((c.unread for c in schema.columns.values() if c.unread), None)) is not None:
        raise unread
    return _said("schema", plan)


def _said(kind: str, plan: ReleasePlan | None) -> dict[str, str | None]:
    if plan is None:
        return {"kind": kind, "guarantee": None, "plan": None}
    return {"kind": kind, "guarantee": plan.in_words(plan.guarantee), "plan": plan.hash}
