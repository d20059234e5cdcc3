"""Whole projects that a version published: sources, plans, ledgers and folders, one archive for each version.

`python -m tests.golden.published make VERSION` runs the projects of `folder_cases` and writes
`tests/golden/folders/VERSION.tar.xz`. It never writes over one: what a version published no later one can make.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import yaml

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.pipeline.approving import approve, plan_file
from dprelease.pipeline.config import PipelineConfig, load_pipeline
from dprelease.pipeline.flow import Flow
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import RunResult, init_ledger, run
from dprelease.results.series.correct import supersede, withdraw
from tests.golden.folder_cases import CASES, COLUMNS, Case, rows_csv

__all__ = ["FOLDERS", "names", "periods", "pipeline_of", "released", "unpacked", "versions"]

FOLDERS = Path(__file__).parent / "folders"
_ENDING = ".tar.xz"
CLOCK = datetime(2026, 3, 2, 8, tzinfo=UTC)
_EDGES = Path(__file__).parents[2] / "examples" / "data" / "karate_edges.csv"
_PLACES = "code,price,coast\nnorth,1.5,no\nsouth,0.5,no\neast,2.0,yes\n"
_LEFT = {
    "charged": (Ledger, "draw_once"),
    "drawn": (Ledger, "commit_files"),
    "committed": (Flow, "publish"),
}


class _LeftError(Exception):
    """A run that ends here, as a crash ends one."""


def versions() -> list[str]:
    """Return the versions whose projects are kept."""
    return sorted(p.name.removesuffix(_ENDING) for p in FOLDERS.glob(f"*{_ENDING}"))


def names(version: str) -> list[str]:
    """Return the projects of a version."""
    with tarfile.open(FOLDERS / f"{version}{_ENDING}") as archive:
        found = {name.split("/")[0] for name in archive.getnames() if "/" in name}
    return sorted(found)


def unpacked(version: str, place: Path) -> Path:
    """Return `place` with all projects of a version in it, their ledgers for their owner alone."""
    with tarfile.open(FOLDERS / f"{version}{_ENDING}") as archive:
        archive.extractall(place, filter="data")
    (place / ".dprelease").mkdir()  # where the projects' paths end
    return place


def pipeline_of(project: Path) -> PipelineConfig:
    return load_pipeline(project / "pipeline.yaml")


def periods(project: Path) -> list[Path]:
    """Return what a project published, one folder for each period."""
    found = (p.parent for p in (project / "public").glob("*/*/release.json"))
    return sorted(p for p in found if not p.is_symlink())


def released(project: Path, period: str) -> dp.Release:
    """Release the rows of a project that has no pipeline: `dp.release` of a frame."""
    frame = pd.read_csv(project.parent / "rows.csv")
    ledger, schema = project / "ledger.db", project / "schema.yaml"
    return dp.release(frame, schema, ledger=ledger, period=period)


def make(version: str) -> None:
    """Publish every project of `CASES` and write the archive."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / ".dprelease").mkdir()
        (place / "rows.csv").write_text(rows_csv())
        (place / "places.csv").write_text(_PLACES)
        shutil.copy(_EDGES, place / "edges.csv")
        for name, case in CASES.items():
            _publish(place / name, name, case)
            print(name, flush=True)
        with tarfile.open(FOLDERS / f"{version}{_ENDING}", "x:xz") as archive:
            for path in sorted(place.rglob("*")):
                if path.is_file():
                    archive.add(path, path.relative_to(place).as_posix(), filter=_plain)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return an entry that says nothing of the machine: no user, no time."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode = 0o600 if entry.name.endswith(".db") else 0o644
    return entry


def _publish(project: Path, name: str, case: Case) -> None:
    project.mkdir()
    _yaml(project / "schema.yaml", _schema(name, case))
    if case.frame:
        dp.create_ledger(project / "ledger.db", project / "schema.yaml", epsilon=100)
        for period in case.periods:
            released(project, period).publish(project / "public")
    else:
        _yaml(project / "pipeline.yaml", _pipeline(name, case))
        _run(project, case)
    _tidy(project / "public" / name, keep=len(case.periods) > 1 and "html" in case.formats)


def _run(project: Path, case: Case) -> None:
    config = pipeline_of(project)
    init_ledger(config)
    period = case.periods[0] if "period" in case.pipeline else None
    written = project / "plan.json"
    written.write_bytes(plan_file(config, plan_pipeline(config, period), period))
    if case.approved:
        with patch.dict(os.environ, {"LOGNAME": "officer"}):
            approve(config, written, total=10, until="2099-12-31", note="minutes of May", now=CLOCK)
    for period in case.periods:
        last = period == case.periods[-1]
        with _ending_at(case.left if last else None):
            _one(config, period, early=case.early)
    for period, action in case.corrected.items():
        folder = config.publish.to / config.name / period
        if action == "withdraw":
            withdraw(folder, reason="the source held test rows", now=lambda: CLOCK)
        else:
            by = folder.with_name(case.periods[-1])
            supersede(folder, by=by, reason="counted again", now=lambda: CLOCK)


def _one(config: PipelineConfig, period: str, *, early: bool) -> RunResult | None:
    now = datetime(2026, 1, 20, tzinfo=UTC) if early else CLOCK
    try:
        return run(config, period=period, early=early, now=now)
    except _LeftError:
        return None


@contextmanager
def _ending_at(step: str | None) -> Iterator[None]:
    if step is None:
        yield
        return
    with patch.object(*_LEFT[step], side_effect=_LeftError):
        yield


def _tidy(place: Path, *, keep: bool) -> None:
    """Remove what a run makes again beside the periods; the record of corrections stays."""
    for path in place.iterdir():
        made = path.is_symlink() or path.suffix in (".xml", ".jsonld", ".html")
        if path.name == "latest" or (made and not keep):
            path.unlink()


def _schema(name: str, case: Case) -> Mapping[str, Any]:
    more = dict(case.schema)
    columns = more.pop("columns", {})
    graph = "edge" in more.get("unit", {})
    made = {
        "dprelease": "schema/1",
        "name": name,
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 500, "expected": 240},
        "columns": columns if graph else {**COLUMNS, **columns},
        **more,
        "release": case.release,
    }
    return {key: part for key, part in made.items() if part is not None}


def _pipeline(name: str, case: Case) -> Mapping[str, Any]:
    budget = {"ledger": "ledger.db", "dataset": name, "epsilon": 100}
    if "delta" in case.release:
        budget["delta"] = 1e-4
    more = dict(case.pipeline)
    budget |= more.pop("budget", {}) | ({"approval": "required"} if case.approved else {})
    return {
        "dprelease": "pipeline/1",
        "name": name,
        "source": {"csv": "../rows.csv"},
        "schema": "schema.yaml",
        "budget": budget,
        "publish": {"to": "public", "formats": list(case.formats)},
        **more,
    }


def _yaml(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(yaml.safe_dump(value, sort_keys=False, width=120))


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "make":
        print(__doc__)
        return 2
    warnings.simplefilter("ignore")
    make(arguments[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
