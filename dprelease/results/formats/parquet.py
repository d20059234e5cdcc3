"""`data.parquet`: the tidy table, with the guarantee and the receipt in the schema's metadata.

The metadata key `dprelease` holds canonical JSON, so the file states its own privacy guarantee
when it is copied away from its folder. Of several tables a finer one ends with the keys of coarser ones, as in CSV. Writer version, compression and row-group size are fixed:
the same release gives the same bytes under the same pyarrow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dprelease.core.strict_json import canonical_json
from dprelease.results.draw import Draw
from dprelease.results.formats.cross_tabs import labels_above_in_folder
from dprelease.results.formats.format import several_tables
from dprelease.results.formats.tidy_rows import group_places

FILE = "data.parquet"
METADATA_KEY = b"dprelease"
ROWS_PER_GROUP = 1 << 20
STATED = (
    "dprelease",
    "pipeline",
    "period",
    "dataset",
    "guarantee",
    "plan_hash",
    "receipt",
    "ledger",
)


@several_tables("each")
def write(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"data.parquet": bytes}`."""
    stated = canonical_json({name: manifest[name] for name in STATED if name in manifest})
    table, above = noised.table, labels_above_in_folder(noised, manifest)
    places = pa.array(group_places(table, noised.plan)) if above else None
    for name, labels in above.items():
        table = table.append_column(name, labels.take(places))
    table = table.combine_chunks().replace_schema_metadata({METADATA_KEY: stated.encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        version="2.6",
        compression="zstd",
        row_group_size=ROWS_PER_GROUP,
        use_dictionary=True,
        write_statistics=True,
    )
    return {FILE: sink.getvalue().to_pybytes()}
