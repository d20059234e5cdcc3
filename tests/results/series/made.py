"""Published folders made by hand, over many periods and groups, without a run."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

from dprelease.results.formats import csv_, data_package, html, json_, parquet
from dprelease.results.publish import publish_files
from dprelease.results.receipt import Receipt
from dprelease.results.validate.verdict import Verdict
from dprelease.schema.domain import Domain
from tests.results.formats.releases import block, noised, plan, statistic

SOFTWARE = {"dprelease": "0.1.0"}


def publish(
    to: Path,
    period: str,
    index: int,
    *,
    groups: int = 3,
    weak: bool = False,
    formats: tuple[str, ...] = ("parquet",),
    text: str = "count",
    pipeline: str = "weekly",
    labels: tuple[str, ...] | None = None,
    notes: tuple[str, ...] = (),
) -> Path:
    """Publish one period: a count with a gap and a histogram of two bins, per group."""
    keys = tuple((label,) for label in labels or tuple(f"g{i:03d}" for i in range(groups)))
    statistics = (
        statistic("count", text, Domain(0, 5000, forbidden=[(0, 10)]), "1", block="rows", error=4.0),
        statistic(
            "hist", "histogram(age, [0, 40, 80])", Domain(0, 5000), "1", block="ages",
            columns=["hist[0,40)", "hist[40,80]"],
        ),
    )  # fmt: skip
    base = [200 + 40 * math.sin(index / 4 + g) for g in range(len(keys))]
    rows = {
        "count": [
            (0.0, 0.0, 5000.0, "uninformative")
            if weak
            else (round(v), round(v) - 20.0, round(v) + 20.0, "ok")
            for v in base
        ],
        "hist[0,40)": [(round(v / 2), round(v / 2) - 9.0, round(v / 2) + 9.0, "ok") for v in base],
        "hist[40,80]": [(0.0, 0.0, 12.0, "at_bound") for _ in base],
    }
    receipt = Receipt(
        epsilon="1/2", delta="0", protects="one patient", ledger="l.db", ledger_id="0f" * 16,
        seq=4 * index + 4, head_hash=f"{index:064x}", dataset="clinic", pipeline=pipeline,
        period=period, spent="1", budget="100",
    )  # fmt: skip
    release = noised(
        plan(statistics, (block("rows"), block("ages", family="bins")), keys=keys, notes=notes),
        rows,
        receipt,
    )
    budget = {"spent": str(Fraction(index + 1, 2)), "total": "100"}
    writers = {
        "parquet": parquet.write, "csv": csv_.write, "html": html.write, "datapackage": data_package.write,
    }  # fmt: skip
    verdict = Verdict(ok=True, rules=(), engine="built-in")
    draft = json_.build_manifest(release, verdict, {}, software=SOFTWARE, budget=budget)
    files = {}
    for name in formats:
        files |= writers[name](release, draft)
    manifest = json_.build_manifest(
        release, verdict, files, software=SOFTWARE, budget=budget,
        scheduled=f"2026-{1 + index // 28:02d}-{1 + index % 28:02d}T06:00:00Z",
    )  # fmt: skip
    return publish_files(to, pipeline, period, {**files, **json_.write(release, manifest)})


def year(to: Path, periods: int = 6, **options: object) -> Path:
    """Publish `periods` weeks; return the pipeline's folder."""
    for i in range(periods):
        publish(to, f"2026-W{i + 1:02d}", i, **options)  # type: ignore[arg-type]
    return to / "weekly"
