"""Time and memory of eigenvalues of graphs: certified up to thousands of nodes, sparse beyond.

    python benchmarks/graph.py [FILE]

Graphs are random (uniform pairs, repeats dropped), so that anyone can make them again. Every size
runs in a process of its own: peak memory is that of the whole process, Python included.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).parent))

from peak import control_line, peak_bytes

CASES = (
    ("certified", 34, 78),
    ("certified", 500, 5_000),
    ("certified", 1_000, 10_000),
    ("certified", 3_000, 30_000),
    ("certified", 3_000, 2_000_000),
    ("sparse", 3_000, 30_000),
    ("sparse", 10_000, 100_000),
    ("sparse", 100_000, 1_000_000),
    ("whole", 100_000, 1_000_000),
)


def random_edges(nodes: int, edges: int) -> npt.NDArray[np.int64]:
    """Return about `edges` different edges, smaller node first, sorted."""
    ends = np.random.default_rng(0).integers(0, nodes, (edges * 5 // 4, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    if len(ends) > edges:
        ends = ends[np.sort(np.random.default_rng(1).permutation(len(ends))[:edges])]
    return ends


def one(kind: str, nodes: int, edges: int) -> str:
    from dprelease.statistics.certified_eigen import backward_error, symmetric_eigenvalues
    from dprelease.statistics.graph_cells import laplacian, sparse_connectivity

    found = random_edges(nodes, edges)
    start = time.perf_counter()
    if kind == "certified":
        value = float(symmetric_eigenvalues(laplacian(found, nodes))[1])
        error = f"{float(backward_error(nodes, nodes)):.1e}, proved"
    elif kind == "sparse":
        value, error = sparse_connectivity(found, nodes), "observed only"
    else:
        value, error = _whole(found, nodes), "observed only"
    seconds = time.perf_counter() - start
    peak = peak_bytes() / 2**30
    name = {"whole": "engine and cells"}.get(kind, kind)
    return f"| {name} | {nodes:,} | {len(found):,} | {value:.6f} | {error} | {seconds:.2f} | {peak:.2f} |"


def _whole(found: npt.NDArray[np.int64], nodes: int) -> float:
    """Rows to the exact cell, as a release does it: DuckDB, simple graph, eigenvalue."""
    import pyarrow as pa

    from dprelease.engines.duckdb import DuckDBEngine
    from dprelease.engines.source import as_source
    from dprelease.query.bounded import BoundedQuery, GroupKeys, Label, Primitive
    from dprelease.schema.column import Column, Kind
    from dprelease.statistics.graph_cells import sparse_connectivity

    names = tuple(str(i) for i in range(nodes))
    query = BoundedQuery(
        (Column("a", Kind.node), Column("b", Kind.node)),
        GroupKeys((), ((),)),
        (Label("a", names), Label("b", names)),
        (Primitive("edges", 0, other=1, max_rows=1),),
    )
    table = pa.table({"a": found[:, 1], "b": found[:, 0]})
    edges = DuckDBEngine().compute(as_source(table), query, b"").reveal_to_mechanism().tables[0]
    return sparse_connectivity(edges, nodes)


def main(target: Path | None) -> None:
    lines = [
        "# Eigenvalues of graphs",
        "",
        "`python benchmarks/graph.py`: second smallest Laplacian eigenvalue of random graphs.",
        f"Python {platform.python_version()}, {platform.machine()}. Seconds and GiB are of one process",
        "each; the certified rows include the proof of the error.",
        control_line(),
        "",
        "| way | nodes | edges | lambda_2 | error | seconds | peak GiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in CASES:
        done = subprocess.run(
            [sys.executable, __file__, "--one", *map(str, case)],
            capture_output=True,
            text=True,
            check=True,
        )
        lines.append(done.stdout.strip())
        print(lines[-1], flush=True)
    if target is not None:
        target.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(one(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
    else:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
