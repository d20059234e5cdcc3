"""`sdmx.csv`: one observation per line, as SDMX-CSV 2.0, for a statistical office's warehouse.

The key columns and `STATISTIC` are dimensions, in capitals; so is TIME_PERIOD where the release is of a calendar
period. OBS_VALUE is the measure, LOWER and UPPER are the ends of its interval, and

    status          OBS_STATUS (CL_OBS_STATUS)           CONF_STATUS (CL_CONF_STATUS)
    suppressed      Q  missing value, suppressed         N  not for publication
    uninformative   U  low reliability                   F  free
    empty_signal    U  low reliability                   F  free
    impossible      M  missing value, cannot exist       F  free
    without value   O  missing value                     F  free
    others          A  normal value                      F  free

Sources  the field guide of SDMX-CSV 2.0 (sdmx-twg): STRUCTURE, STRUCTURE_ID and ACTION come first; ACTION is I, information.
Limits   the structure is named, AGENCY:ID(1.0), one for each table, and not written: the warehouse has its own, and its codes of the labels. `_T`
         stands where a row of a coarser level has no label. Cells that a spreadsheet would run are guarded as in `data.csv`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.core.periods import names_a_period
from dprelease.results.draw import Draw
from dprelease.results.formats.csv_ import encoded, finished_cells
from dprelease.results.formats.format import several_tables, table_file
from dprelease.results.formats.public_words import public_words
from dprelease.results.rules import IMPOSSIBLE, SUPPRESSED, WEAK
from dprelease.schema.naming import plain_letters

FILE = "sdmx.csv"


@several_tables("all")
def write(noised: Draw, manifest: Mapping[str, Any]) -> dict[str, bytes]:
    """Return `{"sdmx.csv": ...}`; of several tables one file each."""
    if not noised.parts:
        return {FILE: _file(noised, manifest, None)}
    return {table_file(FILE, n): _file(part, manifest, n) for n, part in noised.parts.items()}


def _file(noised: Draw, manifest: Mapping[str, Any], name: str | None) -> bytes:
    """Return the file of one table, whose dimensions are its own: so is the structure that it names."""
    table, by = noised.table, noised.plan.by
    cells = dict(zip(table.column_names[len(by) :], finished_cells(noised)[len(by) :], strict=True))
    keys = [pc.replace_substring_regex(c, "^$", "_T") for c in finished_cells(noised)[: len(by)]]
    period, said = str(manifest.get("period")), public_words(manifest).about
    agency = _component(said.publisher.name if said.publisher else "dprelease")
    structure = str(manifest.get("pipeline") or noised.plan.schema) + (f"_{name}" if name else "")
    place = f"{agency}:{_component(structure)}(1.0)"
    timed = {"TIME_PERIOD": period} if names_a_period(period) else {}
    fixed = {"STRUCTURE": "dataflow", "STRUCTURE_ID": place, "ACTION": "I"}
    status = table.column("status").combine_chunks()
    away = pc.equal(status, SUPPRESSED)
    weak = pc.is_in(status, value_set=pa.array(WEAK, status.type))
    bare = pc.is_null(table.column("value").combine_chunks())
    none = pc.equal(status, IMPOSSIBLE)
    other = pc.if_else(bare, "O", pc.if_else(weak, "U", "A"))
    stated = pc.if_else(away, "Q", pc.if_else(none, "M", other))
    measured = {
        "OBS_VALUE": cells["value"],
        "OBS_STATUS": stated,
        "CONF_STATUS": pc.if_else(away, "N", "F"),
        "LOWER": cells["lower"],
        "UPPER": cells["upper"],
    }
    names = _apart([*fixed, "STATISTIC", *timed, *measured], by)
    alike = [pa.repeat(text, len(status)) for text in (fixed | timed).values()]
    columns = [*alike[:3], *keys, cells["statistic"], *alike[3:], *measured.values()]
    header = [*fixed, *names, "STATISTIC", *timed, *measured]
    return encoded(header, [c.cast(pa.large_utf8()) for c in columns])


def _component(name: str) -> str:
    """Return a name as the id of a component: capitals, digits and underscores, a letter first."""
    word = re.sub(r"[^A-Z0-9]+", "_", plain_letters(name).upper()).strip("_") or "X"
    return word if word[0].isalpha() else f"X{word}"


def _apart(taken: list[str], by: tuple[str, ...]) -> list[str]:
    """Return an id for each key column, which no other column has."""
    out: list[str] = []
    for column in by:
        name = first = _component(column)
        number = 1
        while name in (*taken, *out):
            number += 1
            name = f"{first}_{number}"
        out.append(name)
    return out
