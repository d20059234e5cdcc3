"""An Airflow DAG: the load, then one pass per hour. What is due stands in the pipeline files, not here.

The pipeline has `ready: {file: …}`: a week is released once its marker is there, and nothing is spent before.
The marker is the load's last step, for weeks without rows too. Here the table is loaded already, so the
load is its marker alone: put your own before it.

`catchup=False` and no retries on purpose. Missed periods are caught up by the pass itself, within
the pipelines' `catch_up`; a refusal (exit 1) or a withheld release (exit 3) wants a person.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag

PROJECT = os.environ.get("DPRELEASE_PROJECT", "/srv/release")


MARKER = "landed/flights/{week}.ok"


def loaded(*weeks: str) -> str:
    """Return the shell command that says which weeks' rows are all there."""
    files = " ".join(MARKER.format(week=week) for week in weeks)
    return f"mkdir -p landed/flights && touch {files}"


def command(*pipelines: str) -> str:
    """Return the shell command of one pass."""
    return f".venv/bin/dprelease schedule {' '.join(pipelines)} --once --log-format json"


@dag(
    schedule="@hourly",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 0, "execution_timeout": timedelta(hours=2)},
    tags=["differential-privacy"],
)
def dprelease_schedule() -> None:
    """Load, then run what is due."""
    load = BashOperator(
        task_id="load",
        bash_command=loaded("2013-W49", "2013-W50", "2013-W51", "2013-W52"),
        cwd=PROJECT,
    )
    run_what_is_due = BashOperator(
        task_id="run_what_is_due",
        bash_command=command("pipelines/flights_landed.yaml"),
        cwd=PROJECT,
    )
    load >> run_what_is_due


dprelease_schedule()
