"""A rehearsal: a pipeline's whole release on made-up rows, for trying it out, for CI and for training.

Opens neither the source nor the ledger, and spends nothing: plan, bounding, draw, validation and every
file are those of a run. What comes out is about nobody, and everything says so: the manifest is of another
format, which no reader of publications takes for a release, and every file of ours bears the mark.

Limits   a view is not rehearsed: rows are made up for the columns that it gives. Rows are computed by
         DuckDB, whatever engine the pipeline names. Files of other packages' formats bear no mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from dprelease.core.errors import ArgumentError
from dprelease.core.strict_json import read_json
from dprelease.engines.source import as_source
from dprelease.pipeline import preflight, stages
from dprelease.pipeline.config import PipelineConfig
from dprelease.pipeline.flow import Flow, Progress, bundle, quiet
from dprelease.pipeline.made_up import made_up_rows
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import period_name
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw
from dprelease.results.formats.json_ import FILE, manifest_bytes
from dprelease.results.formats.manifest_file import REHEARSAL
from dprelease.results.publish import folder_for, publish_files
from dprelease.results.validate.rules import check

MARK = "REHEARSAL: made-up rows; no number here is about anybody"
_README = "REHEARSAL.txt"
_STATUS = "rehearsal"


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What was written; `rows` were made up."""

    folder: Path
    files: Mapping[str, int]
    plan: ReleasePlan
    rows: int


def rehearse(
    config: PipelineConfig,
    to: Path,
    *,
    period: str | None = None,
    progress: Progress | None = None,
) -> Rehearsal:
    """Release made-up rows below `to`, beside no publication.

    Raises:
        ArgumentError: `to` lies in the pipeline's public folder, or holds it (DPR659).
        ConfigError, PlanError: as a run. WithheldError: as a run; nothing is spent all the same.
    """
    report = progress or quiet
    name = period_name(config, period)
    folder = folder_for(to, config.name, name)
    _must_lie_apart(folder, config.publish.to)
    source = replace(config.source, view=None)
    plan = plan_pipeline(replace(config, source=source), name if config.period else None)
    report("plan", plan.in_words(plan.guarantee))
    rows = made_up_rows(config.schema, plan)
    flow = Flow(plan, None, preflight.engine_named("duckdb", config.limits), report)
    made_up = as_source(rows)
    flow.preflight(made_up)
    noised = flow.draw(made_up, flow.charge())
    flow.validate(noised, great_expectations=True)
    files = _files(noised, config.publish.formats, name)
    out = publish_files(to, config.name, name, files)
    report("rehearsed", f"{out}: {rows.num_rows:,} made-up rows, nothing spent")
    return Rehearsal(out, {n: len(b) for n, b in sorted(files.items())}, plan, rows.num_rows)


def _must_lie_apart(folder: Path, public: Path) -> None:
    here, there = folder.resolve(), public.resolve()
    if here.is_relative_to(there) or there.is_relative_to(here):
        raise ArgumentError(
            "a rehearsal is not written beside publications",
            where=str(folder),
            why=f"it lies in {public}, or holds it: made-up numbers would stand among released ones",
            fix="name another folder, e.g. `--to rehearsal`",
            code="DPR659",
        )


def _files(noised: Draw, formats: tuple[str, ...], period: str) -> dict[str, bytes]:
    """Return every file with its mark: the hashes in the manifest are of the marked bytes."""
    today = stages.day_of(datetime.now(UTC))
    files = bundle(_rehearsed(noised), formats, as_published=_marked, published=today)
    manifest = dict(read_json(files[FILE]))
    manifest |= {"dprelease": REHEARSAL, "rehearsal": MARK, "period": period}
    manifest["validation"] = check(noised).to_json()
    return {**files, FILE: manifest_bytes(manifest), _README: f"{MARK}.\n".encode()}


def _rehearsed(noised: Draw) -> Draw:
    """Return the release with the mark as every value's status, of several tables in each of them."""
    if noised.parts:
        return replace(
            noised, parts={name: _rehearsed(part) for name, part in noised.parts.items()}
        )
    at = noised.table.column_names.index("status")
    status = pa.array([_STATUS] * noised.table.num_rows, pa.utf8())
    return replace(noised, table=noised.table.set_column(at, "status", status))


def _marked(name: str, data: bytes) -> bytes:
    """Return a file's bytes with the mark; tables bear it as every value's status."""
    if name.endswith(".html"):
        banner = f'<p class="remark" role="status"><strong class="flag">{MARK}</strong></p>'
        text = re.sub("<title>", "<title>Rehearsal: ", data.decode(), count=1)
        return re.sub("(<body[^>]*>)", rf"\1\n{banner}", text, count=1).encode()
    if name.endswith(".yaml"):
        return f"# {MARK}\n".encode() + data
    if name == "datapackage.json":
        return manifest_bytes({**read_json(data), "rehearsal": MARK})
    return data
