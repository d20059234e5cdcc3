"""The benchmark scripts run, on a few of their cases; what the README quotes comes from them."""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pyarrow.parquet as pq
import pytest

from tests.sizes import FULL, whole

FOLDER = Path(__file__).parents[2] / "benchmarks"


@cache
def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("criterion", ["worst", "average"])
def test_no_family_beats_the_optimum_and_the_choice_is_close_to_it(criterion: str) -> None:
    utility = load("utility")
    plans = utility.plans()
    assert len(plans) >= 100
    for _, plan in plans[15 : 36 : whole(10, 5)]:  # of each gap one
        found = utility.ratios(replace(plan, criterion=criterion))
        assert min(found.values()) >= 1 - 1e-4  # the programme is a lower bound
        assert min(found.values()) <= 1.05
        assert min(found.values()) <= found["rectified_laplace"]
    lines = utility.report(criterion, plans[15:17])
    assert any("planner's choice" in line for line in lines)


def test_the_speed_table_has_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    speed, best_of = load("mechanisms"), load("mechanisms").best_of
    monkeypatch.setattr(speed, "best_of", lambda _, work: best_of(1, work))  # nobody reads these
    rows: list[str] = []
    speed.draws(rows, 500)
    speed.certification(rows)
    speed.plans(rows)
    assert sum(row.startswith("| plan ") for row in rows) == 4
    assert sum("M/s" in row for row in rows) >= 9
    assert any("1e+09 points" in row for row in rows)


def test_the_payroll_is_the_same_whatever_its_size(tmp_path: Path) -> None:
    payroll = load("payroll")
    payroll.write(tmp_path / "a.parquet", 300)
    payroll.write(tmp_path / "b.parquet", 200)
    a, b = (pq.read_table(tmp_path / f"{name}.parquet") for name in "ab")
    assert a.slice(0, 200).equals(b)
    assert a.num_rows == 300
    sizes = a["region"].value_counts().to_pylist()
    found = {item["values"]: item["counts"] for item in sizes}
    assert {name: found[name] for name, _ in payroll.TINY} == dict(payroll.TINY)


def test_accuracy_is_measured_against_plain_sql(tmp_path: Path) -> None:
    accuracy, path = load("accuracy"), tmp_path / "p.parquet"
    load("payroll").write(path, 60_000)
    plan, found = accuracy.measure(path, 4)
    assert found["outside"].sum() == 0
    assert found["relative"][:47, 0].max() < 0.05  # counts of about a thousand
    assert found["coverage"].mean() > 0.85
    assert any("variance(salary)" in line for line in accuracy.report(plan, found, 60_000, 4))


def test_every_law_s_interval_covers_every_answer_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    coverage = load("coverage")
    tried = {n: d for n, d in coverage.DOMAINS.items() if n.startswith(("0..40,", "gap"))}
    assert len(tried) >= 2
    monkeypatch.setattr(coverage, "DOMAINS", tried)
    # many outputs at one epsilon, few at each; many at each in `make evidence`
    chosen = [law for law in coverage.laws() if FULL or law[1] == 1 or "gap" not in law[0]]
    assert len({law.family for _, _, law in chosen}) >= 7
    lines, least = coverage.exact_table(chosen)
    assert least >= 0.95 - 1e-6
    assert len(lines) == 2 + len(chosen)
    # fine lattices inside the domain: not much more than stated either
    for name, epsilon, law in chosen:
        if name.startswith("gap") and epsilon == 1 and law.family not in coverage.TABLES:
            inner = coverage.coverage(law)[40:-40]
            assert 0.94 <= inner.mean() <= 0.96, law.family


def test_the_peers_table_says_of_dprelease_what_a_run_of_it_shows(tmp_path: Path) -> None:
    peers = load("peers")
    found = peers.run_here("dprelease", 5, tmp_path)
    assert (found["missing"], found["below"], found["outside"], found["gap"]) == (
        0,
        "0.0%",
        "0.0%",
        "0.0%",
    )
    first = peers.run_here("dprelease", 0, tmp_path)["said"]
    again = peers.run_here("dprelease", 0, tmp_path)["said"]
    assert (first, again) == (["answered", "refused"], ["refused", "refused"])
    text = peers.table([("dprelease", {**found, "again": first[1], "new": again[0]})], 5)
    row = "| 0.0% | 0.0% | 0.0%, 0.0% | 0.0% | yes | refused | refused |"
    assert f"| dprelease {version('dprelease')} {row}" in text.splitlines()
    written = (FOLDER / "results" / "peers.md").read_text(encoding="utf-8").splitlines()
    measured = [line for line in written if line.startswith("| dprelease ")]
    assert [line.partition(" | ")[2] for line in measured] == [row.removeprefix("| ")]
    assert [line for line in written if line.startswith("| library")] == [
        line for line in text.splitlines() if line.startswith("| library")
    ]


def test_a_call_that_fails_is_not_a_refusal() -> None:
    peers = load("peers")
    for text in (
        "the budget of dataset people does not cover it",
        "Privacy allowance has been exhausted",
    ):
        assert peers.word(ValueError(text)) == "refused"
    assert peers.word(ImportError("no module named x")) == "failed: ImportError"


def test_values_outside_the_domain_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control: the benchmark's comparison is its own, not the library's."""
    accuracy, path = load("accuracy"), tmp_path / "p.parquet"
    load("payroll").write(path, 60_000)
    plan = accuracy.planned()
    assert {s.name: (s.domain.lower, s.domain.upper) for s in plan.statistics} == accuracy.ENDS
    monkeypatch.setitem(accuracy.ENDS, "mean_age", (41, 41))
    assert accuracy.measure(path, 2)[1]["outside"][:, 1].sum() > 0


def test_the_latency_page_judges_each_job_beside_its_baseline() -> None:
    latency = load("latency")
    one = latency.Took(1.0, 1.0, 100 * 2**20)
    bases = (*(base for base, _ in latency.BESIDE.values()), *latency.PEAKS.values())
    quick = dict.fromkeys((*latency.BESIDE, *bases), one)
    for name, later in (("release of a frame", 0.75), ("DuckDB from a frame", 0.25)):
        quick[name] = latency.Took(1.0, 1.0, 100 * 2**20, later)
    quick["--help"] = latency.Took(0.2, 0.2, 2**20)
    page = latency.report(quick, 1_000, 1, 0.5)
    assert page.count("| yes |") == 5 and "1.00 for the release of a frame (kept)" in page
    assert "not kept" not in page and "release 0.75 s, DuckDB 0.25 s" in page
    slow = {**quick, **{name: latency.Took(9.0, 0.1, 200 * 2**20) for name in latency.BESIDE}}
    page = latency.report(slow, 1_000, 1, 0.5)
    assert page.count("| no |") == 5 and "2.00 for the release of a path (not kept)" in page
    loaded = latency.report(slow, 1_000, 1, 5.0)  # the wall of a loaded machine is not the job's
    assert loaded.count("| yes |") == 5 and "processor seconds: the machine was loaded" in loaded


def test_the_latency_of_a_process_is_its_own(tmp_path: Path) -> None:
    latency = load("latency")
    large = bytearray(400_000_000)  # held by this process, which is not what is measured
    large[::4096] = b"1" * len(large[::4096])
    held = "x = bytearray(50_000_000); sum(range(10**6))"
    found = latency.took(held, [], tmp_path)
    assert 50_000_000 < found.peak < 200_000_000 and 0 < found.processor < 60 and found.wall > 0
    assert math.isnan(found.later)
    waited = latency.took("import time; begun = time.monotonic(); time.sleep(0.3)", [], tmp_path)
    assert 0.3 <= waited.later < waited.wall
    with pytest.raises(RuntimeError, match="no such thing"):
        latency.took("raise ValueError('no such thing')", [], tmp_path)


def test_spark_s_tasks_are_what_they_say_and_a_wrong_integer_is_not_a_page(tmp_path: Path) -> None:
    spark, counted = load("spark"), {"row unit": 12_000, "user unit": 2_400, "heavy unit": 404}
    for task, rows in counted.items():
        path = spark.made(task, 12_000, tmp_path)
        found = {job: {"integers": spark.ready(job, path, task)()} for job in spark.JOBS[:2]}
        found |= {job.replace("duckdb", "spark"): figures for job, figures in found.items()}
        assert spark.same(task, found).startswith(f"{rows:,} rows count")
        wrong = [[cell + 1 for cell in row] for row in found["spark"]["integers"]]
        with pytest.raises(SystemExit, match="differ"):
            spark.same(task, {**found, "spark": {"integers": wrong}})
