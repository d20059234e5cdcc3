"""Release a survey from pandas: plan, release, then charge a ledger and publish.

Run it: python examples/fair.py [FOLDER]
The ledger goes to FOLDER/.dprelease, the release to FOLDER/public (default: here).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import dprelease as dp

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "schemas" / "fair.yaml"


def main(folder: Path) -> None:
    """Show the plan, release once, and publish."""
    survey = pd.read_csv(ROOT / "examples" / "data" / "fair_1978.csv")

    plan = survey.dp.plan(SCHEMA)  # reads no row, spends nothing
    print(plan)

    # 6,366 answers and epsilon 2 in all: two releases of epsilon 1, then no more.
    ledger = dp.create_ledger(folder / ".dprelease" / "fair.db", SCHEMA, epsilon=2)
    release = survey.dp.release(SCHEMA, ledger=ledger, period="final")
    print(release.to_pandas(intervals=False, status=False).T.to_string(header=False))
    tidy = release.table.to_pandas()
    print(tidy[["statistic", "value", "lower", "upper", "status"]].to_string(index=False))
    print(release.receipt)

    published = release.publish(folder / "public")
    print(dp.verify(published, ledger=ledger))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
