"""OpenDP's answers to the two-way tables of a survey; run by `benchmarks/surveys.py` with an interpreter of their own.

    uv venv .bench/opendp && uv pip install --python .bench/opendp/bin/python opendp

Reads from standard input a JSON object: epsilon, delta, and the exact cells of every table. Writes the released cells, and
the scale of the normal noise: the least at which all tables together keep epsilon and delta by OpenDP's own composition.
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from typing import Any


def main() -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    asked: dict[str, Any] = json.load(sys.stdin)
    tables: dict[str, list[int]] = asked["tables"]
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=int)

    def all_of(scale: float) -> Any:
        each = [dp.m.make_gaussian(*space, scale=scale) for _ in tables]
        composed = dp.c.make_composition(each)
        return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(composed), delta=asked["delta"])

    least = asked["epsilon"], asked["delta"]
    scale = dp.binary_search_param(all_of, d_in=1, d_out=least, T=float, bounds=(1.0, 1000.0))
    one = dp.m.make_gaussian(*space, scale=scale)
    found = {name: list(one(cells)) for name, cells in tables.items()}
    print(
        json.dumps(
            {"tables": found, "scale": scale, "version": importlib.metadata.version("opendp")}
        )
    )


if __name__ == "__main__":
    main()
