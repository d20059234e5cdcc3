"""Publish a made-up census whose tables add up: nation, regions, districts, districts by sex, and by sex and age.

Run it: python examples/census.py [FOLDER] [DISTRICTS]
FOLDER (default: ./census) gets the rows, the key files, the schema, a ledger and the publication. The rows are
made here, so nothing about anybody can leak; 3,000 districts make 96,000 cells in the finest table.
"""

from __future__ import annotations

import csv
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dprelease as dp

REGIONS, DISTRICTS = 50, 3000
SEXES = ("female", "male")
BANDS = (
    "0-4", "5-9", "10-14", "15-19", "20-24", "25-29", "30-34", "35-39",
    "40-44", "45-49", "50-54", "55-59", "60-64", "65-69", "70-79", "80+",
)  # fmt: skip


def write_lines(path: Path, lines: Iterable[Sequence[str]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)


def make(folder: Path, districts: int) -> Path:
    """Write places.csv, districts.csv and people.parquet; return the last one's path."""
    random = np.random.default_rng(1)  # made-up rows may have a seed, noise never has one
    regions = min(REGIONS, districts)
    region = np.sort(
        np.append(np.arange(regions), random.integers(0, regions, districts - regions))
    )
    names = [f"D{i:04}" for i in range(districts)]
    places = [(f"R{r:02}", name) for r, name in zip(region, names, strict=True)]
    write_lines(folder / "places.csv", [("region", "district"), *places])
    write_lines(folder / "districts.csv", [("district",), *((name,) for name in names)])

    # Districts of very different sizes; ages follow a curve that differs a little between districts.
    size = np.maximum(1, random.lognormal(5.2, 0.9, districts)).astype(int)
    age = np.linspace(1.2, 0.5, len(BANDS)) * random.gamma(20, 1 / 20, (districts, len(BANDS)))
    cells = random.multinomial(size, age / age.sum(axis=1, keepdims=True)).reshape(-1)
    place = np.repeat(np.arange(districts * len(BANDS)), cells)
    sex = (random.random(place.size) < 0.49).astype(np.int8)
    order = random.permutation(place.size)

    def column(codes: np.ndarray, labels: Sequence[str]) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(pa.array(codes[order], pa.int32()), list(labels))

    people = folder / "people.parquet"
    table = {
        "district": column(place // len(BANDS), names),
        "sex": column(sex, SEXES),
        "age_band": column(place % len(BANDS), BANDS),
    }
    pq.write_table(pa.table(table), people)
    return people


def main(folder: Path, districts: int) -> Path:
    """Make the census, publish it, verify it; return the published folder."""
    folder.mkdir(parents=True, exist_ok=True)
    people = make(folder, districts)
    schema = folder / "census.yaml"
    shutil.copy(Path(__file__).with_suffix(".yaml"), schema)

    ledger = dp.create_ledger(folder / "ledger.db", schema, epsilon=2)
    start = time.perf_counter()
    release = dp.release(people, schema, ledger=ledger, period="2026")
    print(f"released in {time.perf_counter() - start:.1f} s: {release.receipt}")

    nation = release.to_pandas("nation")
    print(nation.to_string(index=False))
    print(release.to_pandas("regions").head().to_string(index=False))
    cells = release.to_pandas("districts_by_sex_and_age")
    print(f"{len(cells):,} cells add up to {cells['residents'].sum():,}")

    published = release.publish(folder / "public")
    print(dp.verify(published, ledger=ledger))
    return published


if __name__ == "__main__":
    given = dict(enumerate(sys.argv[1:]))
    main(Path(given.get(0, "census")), int(given.get(1, DISTRICTS)))
