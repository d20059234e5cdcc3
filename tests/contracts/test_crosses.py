"""Rows counted in the cells of crosses of key columns that are one group: every engine has the reference's integers."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dprelease.core.errors import PlanError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.request import check_query
from dprelease.engines.tally import MANY, Tallies
from dprelease.query.bounded import BoundedQuery, Cross, GroupKeys, Primitive
from dprelease.testing.engines import COLUMNS, answer, query_of, rows_of, source_of
from tests.contracts.test_engines_spark import both_of
from tests.engines.spark_session import needs_spark, session
from tests.sizes import whole

BY = (("region",), ("flag", "side"), ("late", "region", "side"), ("region", "flag", "side"))


def crossed(seed: int) -> BoundedQuery:
    """Return a random query over one group of rows that have a label in every key column."""
    rng = random.Random(f"crosses {seed}")
    by = BY[seed % len(BY)]
    keys = GroupKeys(tuple(COLUMNS[name] for name in by), ((),))
    found = query_of(rng, groups=keys)
    sets = [by, by[:1], by[-1:], tuple(reversed(by))]
    sizes = {name: len(keys.labels(i)) for i, name in enumerate(by)}
    codes = [Cross(names, tuple(sizes[n] for n in names)) for names in dict.fromkeys(sets)]
    first = len(found.codes)
    tallies = tuple(Primitive("tally", first + i) for i in range(len(codes)))
    kept = tuple(p for p in found.primitives if p.kind != "persons_in_cells")
    return replace(found, codes=(*found.codes, *codes), primitives=(*kept, *tallies))


def tallied(seed: int) -> BoundedQuery:
    """Return a random query of many tallies alone, some of them near a rank."""
    found = query_of(random.Random(f"tallies {seed}"))
    nears = [p.near for p in found.primitives if p.kind == "tally"]
    codes = (found.codes * MANY)[: MANY + seed % 3]
    tallies = (Primitive("tally", j, near=nears[j % len(nears)]) for j in range(len(codes)))
    return replace(found, codes=codes, primitives=tuple(tallies))


def _rows(seed: int) -> Any:
    rng = random.Random(f"rows {seed}")
    return rows_of(rng, rng.choice([1, 12, 40]))


def test_duckdb_counts_the_cells_of_crosses_as_the_reference_does(tmp_path: Path) -> None:
    counted = 0
    for seed in range(whole(4, 60)):  # each of the sets of key columns
        source, query = source_of("arrow", _rows(seed), tmp_path), crossed(seed)
        DuckDBEngine().preflight(source, query)
        found = answer(DuckDBEngine(threads=1), source, query)
        assert found == answer(ReferenceEngine(), source, query), seed
        counted += any(any(row) for row in found[:1])
    assert counted >= whole(2, 15)


def test_many_tallies_are_counted_in_one_table_as_the_reference_counts_them(tmp_path: Path) -> None:
    users = 0
    for seed in range(whole(4, 60)):
        source, query = source_of("arrow", _rows(seed), tmp_path), tallied(seed)
        assert Tallies.of_query(query).many
        engine = DuckDBEngine(threads=1)
        engine.preflight(source, query)
        found = answer(engine, source, query)
        assert "UNNEST" in engine.statements[-1]
        assert found == answer(ReferenceEngine(), source, query), seed
        users += query.user is not None and len(found) > len(query.groups.keys) + MANY
    assert users >= whole(1, 8)
    few = replace(query, primitives=query.primitives[: MANY - 1])
    with_sums = replace(query, primitives=(Primitive("rows"), *query.primitives))
    assert not Tallies.of_query(few).many
    assert not Tallies.of_query(with_sums).many


@needs_spark
def test_spark_counts_them_too(tmp_path: Path) -> None:
    from dprelease.engines.spark import SparkEngine

    session()
    for seed in range(whole(1, 8)):
        plain, spark = both_of("parquet", _rows(seed + 1), tmp_path)
        query = crossed(seed + 1)
        assert answer(SparkEngine(), spark, query) == answer(DuckDBEngine(threads=1), plain, query)


def test_a_cross_of_other_columns_or_labels_is_refused() -> None:
    query = crossed(1)
    *codes, last = query.codes
    assert isinstance(last, Cross)
    check_query(query)
    for wrong in (
        Cross(last.crossed, tuple(s + 1 for s in last.sizes)),
        Cross(("region", "region"), last.sizes),
        Cross(("moment", *last.crossed[1:]), last.sizes),
    ):
        with pytest.raises(PlanError, match="not of the key columns") as refused:
            check_query(replace(query, codes=(*codes, wrong)))
        assert refused.value.code == "DPR236"
    grouped = replace(query, groups=GroupKeys(query.groups.columns[:1], (("north",),)))
    with pytest.raises(PlanError, match="not of the key columns"):
        check_query(grouped)
