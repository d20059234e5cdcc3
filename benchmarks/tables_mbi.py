"""OpenDP's contingency tables (mbi) on the cross of `benchmarks/tables.py`; run by it with an interpreter of their own.

    uv venv .bench/mbi && uv pip install --python .bench/mbi/bin/python 'opendp[mbi]'

Reads from standard input a JSON object: counts of the finest cells `[carrier][origin][month]`, rho or epsilon,
and rounds. Writes the root of the mean squared error per cell of every table, and how far its numbers are
from whole ones on average. Each column has a cell of its own for unknown values there; it is left out.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
import warnings

import numpy as np

TABLES = {
    "all": (),
    "origin": ("origin",),
    "carrier": ("carrier",),
    "both": ("carrier", "origin"),
    "month": ("carrier", "origin", "month"),
}
COLUMNS = ("carrier", "origin", "month")


def main() -> None:
    warnings.simplefilter("ignore")
    import opendp.prelude as dp
    import polars as pl
    from opendp.extras.mbi import Count, Fixed

    dp.enable_features("contrib")
    asked = json.load(sys.stdin)
    truth = np.array(asked["counts"])
    places = np.repeat(np.arange(truth.size), truth.ravel())
    labels = np.stack(np.unravel_index(places, truth.shape))
    rows = pl.LazyFrame(dict(zip(COLUMNS, labels, strict=True)))
    keys = {name: list(range(size)) for name, size in zip(COLUMNS, truth.shape, strict=True)}
    queries = [Count(by=by) for name, by in TABLES.items() if by]
    squares: dict[str, list[float]] = {name: [] for name in TABLES}
    whole, start = 0.0, time.process_time()
    for _ in range(asked["rounds"]):
        context = dp.Context.compositor(
            data=rows,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(**asked["loss"]),
        )
        found = (
            context.query(**asked["loss"])
            .contingency_table(keys=keys, algorithm=Fixed(queries=queries))
            .release()
        )
        finest = np.asarray(found.project(COLUMNS))
        whole = max(whole, float(np.abs(finest - np.round(finest)).mean()))
        for name, by in TABLES.items():
            gone = tuple(i for i, c in enumerate(COLUMNS) if c not in by)
            got = np.asarray(found.project(by)) if by else finest.sum()
            got = got[tuple(slice(size) for size in truth.sum(axis=gone).shape)] if by else got
            squares[name].append(float(np.mean((got - truth.sum(axis=gone)) ** 2)))
    print(
        json.dumps(
            {
                "rmse": {name: float(np.mean(of)) ** 0.5 for name, of in squares.items()},
                "off_whole": whole,
                "seconds": (time.process_time() - start) / asked["rounds"],
                "version": importlib.metadata.version("opendp"),
            }
        )
    )


if __name__ == "__main__":
    main()
