"""Run one week of the flights pipeline from Python, twice: the second time costs nothing.

Run it from the project's root, after `dprelease ledger init pipelines/flights_weekly.yaml`:
python examples/flights.py [PIPELINE] [PERIOD]
"""

from __future__ import annotations

import sys

import pandas as pd

import dprelease as dp


def main(pipeline: str, period: str) -> None:
    """Release, release again, and show how exact the delays are."""
    first = dp.run(pipeline, period=period)
    print(first.receipt)
    again = dp.run(pipeline, period=period)
    print(again.receipt)
    table = pd.read_parquet(first.folder / "data.parquet")
    delays = table[table["statistic"] == "mean_dep_delay"]
    print(delays[["carrier", "value", "lower", "upper", "status"]].to_string(index=False))


if __name__ == "__main__":
    given = dict(enumerate(sys.argv[1:]))
    main(given.get(0, "pipelines/flights_weekly.yaml"), given.get(1, "2013-W05"))
