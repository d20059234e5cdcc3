"""Publish a year of departures as six tables that add up: by year, airline, airport, both, quarter and month.

Run it: python examples/flights_tables.py [FOLDER]
The ledger goes to FOLDER/.dprelease, the release to FOLDER/public (default: here). With the command line:
dprelease run pipelines/flights_tables.yaml --period 2013
"""

from __future__ import annotations

import sys
from pathlib import Path

import dprelease as dp

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "schemas" / "flights_tables.yaml"
DATA = ROOT / "examples" / "data" / "flights_nyc_2013.parquet"


def main(folder: Path) -> None:
    """Release, add the months up to quarters, airlines and airports, and publish."""
    print(dp.plan(SCHEMA))  # reads no row, spends nothing
    ledger = dp.create_ledger(folder / ".dprelease" / "tables.db", SCHEMA, epsilon=4)
    release = dp.release(DATA, SCHEMA, ledger=ledger, period="2013")
    print(release.receipt)

    months = release.to_pandas(
        "months"
    )  # rows of several levels: by month, by quarter, or all year
    print(f"by month: {months['level'].value_counts().to_dict()}")
    mute = months[(months["flights_lower"] <= 0) & (months["flights_upper"] > 0)]
    print(f"{len(mute)} of {len(months)} rows do not say that there is a flight")
    for table in ("carriers", "origins", "routes", "quarters"):
        published = release.to_pandas(table)
        keys = [name for name in ("carrier", "origin", "quarter") if name in published]
        added = months.groupby(keys, sort=False)["flights"].sum()
        rows = published.set_index(keys)["flights"].dropna()  # an impossible route has no number
        rows = rows[
            rows.index.isin(added.index)
        ]  # quarters that stand in a whole year's row are not
        same = rows.eq(added.reindex(rows.index))
        print(f"{table}: {int(same.sum())} of {len(same)} are the sums of their rows by month")
    print(release.to_pandas("carriers").to_string(index=False))

    print(dp.verify(release.publish(folder / "public"), ledger=ledger))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
