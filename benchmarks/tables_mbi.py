"""mbi (private-pgm) on noisy tables of the cross of `benchmarks/tables.py`; run by it with an interpreter of their own.

    uv venv .bench/mbi && uv pip install --python .bench/mbi/bin/python 'opendp[mbi]'

Reads from standard input a JSON object: the labels of every table's columns, the sizes of all columns, what each table's
noise is in standard deviations, and noisy tables draw by draw, in C order. Writes, per draw and table, mbi's cells: by
mirror descent with its own settings, which is what OpenDP's contingency tables call. What is measured of the total enters as
a table without columns does there: the total is the least-variance estimate that mbi makes of all tables.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from typing import Any

import numpy as np


def main() -> None:
    from mbi import Domain, LinearMeasurement, estimation

    asked: dict[str, Any] = json.load(sys.stdin)
    domain = Domain.fromdict(asked["sizes"])
    start = time.process_time()
    found = []
    for noisy in asked["draws"]:
        measured = [
            LinearMeasurement(
                np.array(cells, float), tuple(asked["tables"][name]), asked["noise"][name]
            )
            for name, cells in noisy.items()
        ]
        model = estimation.mirror_descent(domain, measured)
        cells = {
            n: model.project(tuple(by)).datavector() for n, by in asked["tables"].items() if by
        }
        total = {n: [model.total] for n, by in asked["tables"].items() if not by}
        found.append({n: np.asarray(x, float).tolist() for n, x in (cells | total).items()})
    each = (time.process_time() - start) / len(found)
    print(
        json.dumps({"draws": found, "seconds": each, "version": importlib.metadata.version("mbi")})
    )


if __name__ == "__main__":
    main()
