"""Layer C with nothing kept between two releases: whole runs, again and again, of one pair of tables.

Each run is the command line in a new folder with a new ledger, and what is counted is what its file
says. So whatever a run could carry over to the next one (a seed, a cache, a kept draw) is looked for
as well. Half of the runs choose the event, half test it, at alpha 1e-6.

Sizes: 48 runs per table, the fewest that refute a claim of 0.1 at that alpha, from one stream of
entropy; `DPRELEASE_NIGHTLY=1` makes 2,000 from the system's.
"""

from __future__ import annotations

import os

import pytest

from dprelease.audit.black_box import strongest_event
from dprelease.core.entropy import ReplayBits
from dprelease.pipeline import stages
from dprelease.release_plan.plan import ReleasePlan
from tests.end_to_end.neighbour_files import rows, schema
from tests.end_to_end.projects import repeatable
from tests.end_to_end.watched_runs import Pipeline, seen_in
from tests.sizes import FULL, NIGHTLY, sized

pytestmark = pytest.mark.skipif(
    not FULL, reason="fewer than 48 whole runs per table show nothing: `make evidence`"
)

RUNS = sized(48, 2_000)
EPSILON = 1 if NIGHTLY else 0.1
COUNT = {"statistic": "count", "mechanism": "bounded_laplace", "domain": {"range": [0, 12]}}
TABLES = (rows(), rows("n,10,4,a"))


def run_check(folder, monkeypatch, runs, epsilon=EPSILON):
    """Return the bound of `runs` whole runs per table."""
    pipeline = Pipeline(folder, schema([COUNT], epsilon=epsilon), monkeypatch)
    plan = pipeline.run(TABLES[0]).plan
    files = [[], []]
    for _ in range(runs):
        for side, table in enumerate(TABLES):
            files[side].append(pipeline.published(table))
    return strongest_event(*(gathered(plan, side) for side in files))


def gathered(plan: ReleasePlan, files: list[bytes]):
    """Return what all files show together: their lines, numbered by release."""
    head = files[0].splitlines()[0]
    lines = [b"#release," + head]
    for i, text in enumerate(files):
        first, *rest = text.splitlines()
        assert first == head
        lines += [b"%d,%s" % (i, line) for line in rest]
    return seen_in(b"\n".join([*lines, b""]), plan, len(files))


@pytest.mark.statistical
def test_whole_runs_tell_no_more_than_epsilon(tmp_path, monkeypatch, evidence):
    if not NIGHTLY:
        monkeypatch.setattr(os, "urandom", ReplayBits("whole runs").read)
    bound = run_check(tmp_path / "project", monkeypatch, RUNS)
    assert bound.epsilon <= EPSILON, bound
    evidence(
        "black box, everything re-run",
        f"1 pair, {RUNS:,} whole runs per table",
        f"epsilon at least {bound.epsilon:.3g}, claimed {EPSILON:g}",
    )


@pytest.mark.statistical
def test_a_seed_that_is_used_twice_is_caught(tmp_path, monkeypatch, evidence):
    """Every run repeats one stream; half of the validation is left out, to save its seconds."""
    repeatable(monkeypatch, "a seed")
    whole = stages.validated
    monkeypatch.setattr(stages, "validated", lambda n, **_: whole(n, great_expectations=False))
    bound = run_check(tmp_path / "project", monkeypatch, 48, epsilon=0.1)
    assert bound.epsilon > 0.1, bound
    evidence(
        "black box, everything re-run: a seed used twice",
        "1 pair, 48 whole runs per table",
        f"caught by C: epsilon at least {bound.epsilon:.3g}, claimed 0.1",
    )
