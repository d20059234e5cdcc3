"""Cross-tabulate a survey: how a marriage is rated, affairs, religion and children, in tables that add up.

Run it: python examples/fair_tables.py [FOLDER]
The ledger goes to FOLDER/.dprelease, the release to FOLDER/public (default: here).
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import dprelease as dp

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "schemas" / "fair_tables.yaml"


def main(folder: Path) -> None:
    """Release, show a cross-tabulation with its margins, and publish."""
    survey = pd.read_csv(ROOT / "examples" / "data" / "fair_1978.csv")
    ledger = dp.create_ledger(folder / ".dprelease" / "fair_tables.db", SCHEMA, epsilon=1)
    release = survey.dp.release(SCHEMA, ledger=ledger, period="1978")
    print(release.receipt)

    ratings = release.to_pandas("ratings")
    cross = ratings.pivot_table("answers", "rating", "affair", aggfunc="sum", sort=False)
    cross.loc["all"] = release.to_pandas("affairs").set_index("affair")["answers"]
    print(cross.astype(int).to_string())
    print(
        "margins are the published ones:", bool((cross.iloc[:-1].sum() == cross.loc["all"]).all())
    )
    print("all answers:", release.to_pandas("everybody")["answers"][0], "(stated, not measured)")

    print(dp.verify(release.publish(folder / "public"), ledger=ledger))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
