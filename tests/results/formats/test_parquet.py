from __future__ import annotations

import io
import json

import pyarrow.parquet as pq

from dprelease.results.formats.json_ import build_manifest
from dprelease.results.formats.parquet import METADATA_KEY, write
from dprelease.results.validate.rules import check
from tests.results.formats import releases

GOOD = releases.clinic()
MANIFEST = build_manifest(GOOD, check(GOOD), {}, software=releases.SOFTWARE)


def test_the_table_reads_back_and_states_its_guarantee():
    table = pq.read_table(io.BytesIO(write(GOOD, MANIFEST)["data.parquet"]))
    assert table.equals(GOOD.table)
    stated = json.loads(table.schema.metadata[METADATA_KEY])
    assert stated["guarantee"]["statement"] == GOOD.plan.guarantee
    assert stated["plan_hash"] == GOOD.plan.hash
    assert "spent" not in stated["receipt"]


def test_same_release_same_bytes_even_from_another_chunking():
    table = GOOD.table
    import pyarrow as pa

    pieces = pa.concat_tables([table.slice(0, 5), table.slice(5)])
    chunked = releases.Draw(GOOD.plan, pieces, GOOD.cells, GOOD.receipt)
    assert write(chunked, MANIFEST) == write(GOOD, MANIFEST) == write(releases.clinic(), MANIFEST)
