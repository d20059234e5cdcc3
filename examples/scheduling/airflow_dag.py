"""An Airflow DAG: one pass per hour. What is due stands in the pipeline files, not here.

`catchup=False` and no retries on purpose. Missed periods are caught up by the pass itself, within
the pipelines' `catch_up`; a refusal (exit 1) or a withheld release (exit 3) wants a person.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import dag

PROJECT = os.environ.get("DPRELEASE_PROJECT", "/srv/release")


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
    """Run what is due."""
    BashOperator(
        task_id="run_what_is_due",
        bash_command=command("pipelines/flights_weekly.yaml", "pipelines/flights_monthly.yaml"),
        cwd=PROJECT,
    )


dprelease_schedule()
