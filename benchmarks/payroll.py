"""A made-up payroll, the same on every machine: what the benchmarks release statistics of.

    person   int64    0, 1, 2, ...
    team     int64    person // 10: ten people each
    region   utf8     50 regions: 47 large ones, each person in one of them at random, and three
                      tiny ones of 40, 12 and 3 people, who are the first 55 rows
    age      int16    0..120, about normal around 41, few above 100
    salary   int32    0..500,000, log-normal around 42,000, a twentieth of the people without one
    hours    float32  0..80 in halves, around 37.5

Nobody's data: a counter-based generator (Philox), one stream per million rows, so that the first
rows of every size are equal, and a size can be made in pieces. Larger sizes differ from smaller
ones only by more people.

    python benchmarks/payroll.py --rows 10000000        # writes and prints the file's path

Files are kept in $DPRELEASE_BENCHMARKS, else in the system's folder for temporary files. 1 million
rows take 6 MB.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

SIZES = (1_000_000, 10_000_000, 100_000_000)
PIECE = 1_000_000
TINY = (("tiny_40", 40), ("tiny_12", 12), ("tiny_3", 3))
LARGE = tuple(f"region_{i:02d}" for i in range(47))
REGIONS = (*LARGE, *(name for name, _ in TINY))

SCHEMA: dict[str, Any] = {
    "dprelease": "schema/1",
    "name": "payroll",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1_000_000_000, "expected": 200_000},
    "columns": {
        "person": {"kind": "identifier"},
        "team": {"kind": "identifier"},
        "region": {"kind": "category", "values": list(REGIONS)},
        "age": {"kind": "integer", "measure": "years", "range": [0, 120]},
        "salary": {"kind": "integer", "measure": "EUR", "range": [0, 500_000]},
        "hours": {"kind": "number", "measure": "hours", "range": [0, 80], "step": 0.5},
    },
}
"""How the payroll is declared; add `release` to it. `expected` is a public guess per region."""


def pieces(rows: int) -> Iterator[pa.Table]:
    """Yield the first `rows` people, a million at a time."""
    names = pa.array(REGIONS, pa.utf8())
    for piece in range(-(-rows // PIECE)):
        random = np.random.Generator(np.random.Philox(key=[piece, 20_260_101]))
        region = random.integers(0, len(LARGE), PIECE, dtype=np.int32)
        age = np.clip(np.rint(random.normal(41, 17, PIECE)), 0, 120).astype(np.int16)
        pay = np.exp(random.normal(np.log(42_000), 0.5, PIECE))
        paid = random.random(PIECE) >= 0.05
        salary = np.where(paid, np.clip(np.rint(pay), 0, 500_000), 0).astype(np.int32)
        hours = np.clip(np.rint(random.normal(37.5, 8, PIECE) * 2) / 2, 0, 80).astype(np.float32)
        if piece == 0:
            sizes = [count for _, count in TINY]
            region[: sum(sizes)] = np.repeat(np.arange(len(LARGE), len(REGIONS)), sizes)
        count = min(PIECE, rows - piece * PIECE)
        person = np.arange(piece * PIECE, piece * PIECE + count, dtype=np.int64)
        coded = pa.DictionaryArray.from_arrays(pa.array(region[:count]), names)
        yield pa.table(
            {
                "person": person,
                "team": person // 10,
                "region": coded.cast(pa.utf8()),
                "age": age[:count],
                "salary": salary[:count],
                "hours": hours[:count],
            }
        )


def write(path: Path, rows: int) -> None:
    """Write `rows` people to one Parquet file, complete or not at all."""
    import pyarrow.parquet as pq  # a job that only reads the schema does not pay for it

    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}.part")
    writer: Any = None
    for table in pieces(rows):
        if writer is None:
            writer = pq.ParquetWriter(aside, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is None:
        raise ValueError("rows must be above 0")
    writer.close()
    aside.replace(path)


def cached(rows: int) -> Path:
    """Return the Parquet file of the first `rows` people, made if it is not there yet."""
    folder = os.environ.get("DPRELEASE_BENCHMARKS") or str(
        Path(tempfile.gettempdir()) / "dprelease-benchmarks"
    )
    path = Path(folder) / f"payroll_{rows}.parquet"
    if not path.exists():
        write(path, rows)
    return path


def main() -> None:
    """Write the file of the chosen size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=SIZES[0])
    parser.add_argument("--to", type=Path, help="the file to write; the cache when left out")
    chosen = parser.parse_args()
    if chosen.to is not None:
        write(chosen.to, chosen.rows)
        print(chosen.to)
    else:
        print(cached(chosen.rows))


if __name__ == "__main__":
    main()
