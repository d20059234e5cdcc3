"""gs:// and az:// against servers of their protocols: the same answer as from the files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines import object_store
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.source import as_source
from dprelease.query.bounded import BoundedQuery, Fixed, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.testing.engines import answer
from tests.engines.cloud_servers import served

QUERY = BoundedQuery(
    (Column("who", Kind.identifier), Column("x", Kind.number)), GroupKeys((), ((),)),
    (Fixed("x", Domain(0, 30).on_grid(Fraction(1)), Fraction(1)),),
    (Primitive("rows"), Primitive("power", 0, 1)), user="who", max_rows=2,
)  # fmt: skip


def google(address: str) -> Any:
    return pyarrow.fs.GcsFileSystem(
        anonymous=True,
        scheme="http",
        endpoint_override=address,
        retry_time_limit=timedelta(seconds=5),
    )


def azure(address: str) -> Any:
    return pyarrow.fs.AzureFileSystem(
        "account", account_key="YQ==", blob_storage_authority=address, blob_storage_scheme="http",
        dfs_storage_authority=address, dfs_storage_scheme="http",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("scheme", "kind", "store"), [("gs", "google", google), ("az", "azure", azure)]
)
def test_a_cloud_answers_as_files_do(
    scheme: str,
    kind: str,
    store: Callable[[str], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for part in range(3):
        place = tmp_path / "visits" / f"part={part}"
        place.mkdir(parents=True)
        rows = {"who": [f"p{i % 7}" for i in range(50)], "x": [float(i + part) for i in range(50)]}
        pq.write_table(pa.table(rows), place / "rows.parquet", row_group_size=20)
    (tmp_path / "visits" / "read.me").write_text("no rows")
    with served(kind, "clinic", tmp_path) as address:
        reader = store(address)
        monkeypatch.setattr(object_store, "_store", lambda _: reader)
        found = answer(DuckDBEngine(), as_source(f"{scheme}://clinic/visits/*/*.parquet"), QUERY)
        with pytest.raises(SourceError) as none:
            as_source(f"{scheme}://clinic/nothing/*.parquet")
    assert none.value.code == "DPR501"
    assert found == answer(DuckDBEngine(), as_source(str(tmp_path / "visits/*/*.parquet")), QUERY)
    assert found[0][0] > 0
