"""`sdmx.csv`, read by pandas and by polars: columns of SDMX-CSV 2.0, values and intervals of the table, codes of the statuses."""

from __future__ import annotations

import io
import json
import re

import pandas as pd
import polars as pl
import pytest
import yaml

import dprelease as dp
from dprelease.core import registry
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger, run
from dprelease.results.formats import sdmx
from dprelease.testing import check_format
from dprelease.testing.formats import sample_release
from tests.results.formats import releases
from tests.several_tables import people, schema

SCHEMA = {
    "dprelease": "schema/1",
    "name": "visits_by_day",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1000, "expected": 100},
    "publisher": {"name": "Órgano 4 of Statistics"},
    "columns": {
        "time_period": {"kind": "category", "values": ["=1+1", "nörth", "a,b"]},
        "obs value": {"kind": "category", "values": ["x", "y"]},
        "age": {"kind": "number", "range": [0, 100], "step": 0.5},
    },
    "release": {
        "epsilon": 100,
        "by": ["time_period", "obs value"],
        "statistics": ["count", {"statistic": "mean(age)", "as": "age"}],
        "rules": {"suppress": {"below": 30}},
    },
}
PIPELINE = """\
dprelease: pipeline/1
name: by_day
source: {parquet: t.parquet}
schema: s.yaml
budget: {ledger: .dprelease/l.db, dataset: visits, epsilon: 100}
publish: {to: public, formats: [csv, sdmx]}
"""
FRAME = pd.DataFrame(
    {
        "time_period": ["=1+1"] * 100 + ["nörth"] * 60 + ["a,b"] * 5,
        "obs value": ["x"] * 160 + ["y"] * 5,
        "age": [10.0, 20.5] * 80 + [50.0] * 5,
    }
)


def read(data: bytes) -> tuple[pd.DataFrame, list[str]]:
    """Return the lines as text, as two readers that know nothing of us agree on them."""
    one = pd.read_csv(io.BytesIO(data), dtype=str, keep_default_na=False)
    other = pl.read_csv(data, infer_schema=False).fill_null("")
    assert [tuple(row) for row in one.itertuples(index=False)] == other.rows()
    return one, list(one.columns)


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sdmx")
    (folder / "s.yaml").write_text(yaml.safe_dump(SCHEMA, allow_unicode=True))
    FRAME.to_parquet(folder / "t.parquet")
    (folder / "p.yaml").write_text(PIPELINE)
    init_ledger(load_pipeline(folder / "p.yaml"))
    out = run(folder / "p.yaml", period="2026-W40").folder
    assert dp.verify(out, ledger=folder / ".dprelease" / "l.db").ok
    return dp.read(out), *read((out / "sdmx.csv").read_bytes())


def test_its_columns_are_those_of_the_field_guide(lines):
    release, found, header = lines
    assert header == [
        "STRUCTURE", "STRUCTURE_ID", "ACTION", "TIME_PERIOD_2", "OBS_VALUE_2", "STATISTIC", "TIME_PERIOD",
        "OBS_VALUE", "OBS_STATUS", "CONF_STATUS", "LOWER", "UPPER",
    ]  # fmt: skip
    assert set(found["STRUCTURE"]) == {"dataflow"}
    [place] = set(found["STRUCTURE_ID"])
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*:[A-Z][A-Z0-9_]*\(1\.0\)", place)
    assert place.startswith("ORGANO_4_OF_STATISTICS:")
    assert set(found["ACTION"]) == {"I"}
    assert set(found["TIME_PERIOD"]) == {"2026-W40"}
    assert not found.duplicated(["TIME_PERIOD_2", "OBS_VALUE_2", "STATISTIC"]).any()
    assert len(found) == release.table.num_rows


def test_values_intervals_and_statuses_are_those_of_the_table(lines):
    release, found, _ = lines
    for row, line in zip(release.table.to_pylist(), found.to_dict("records"), strict=True):
        assert line["TIME_PERIOD_2"].removeprefix("'") == row["time_period"]
        assert (line["OBS_VALUE_2"], line["STATISTIC"]) == (row["obs value"], row["statistic"])
        for name, cell in (("value", "OBS_VALUE"), ("lower", "LOWER"), ("upper", "UPPER")):
            assert (None if line[cell] == "" else float(line[cell])) == row[name]
        codes = line["OBS_STATUS"], line["CONF_STATUS"]
        if row["status"] == "suppressed":
            assert (codes, line["OBS_VALUE"]) == (("Q", "N"), "")
        else:
            assert codes == (
                "U" if row["status"] in ("uninformative", "empty_signal") else "A", "F",
            ) or (codes == ("O", "F") and row["value"] is None)  # fmt: skip
    assert {"A", "Q"} <= set(found["OBS_STATUS"])
    assert found["TIME_PERIOD_2"].iloc[0] == "'=1+1"  # no spreadsheet runs it


def test_what_says_nothing_has_low_reliability():
    release, manifest = sample_release()
    wanted = ["ok", "uninformative", "empty_signal", "at_bound", "suppressed"]
    for row, status in enumerate(wanted):
        release = releases.replaced(release, "status", row, status)
    found, header = read(sdmx.write(release, manifest)["sdmx.csv"])
    assert "TIME_PERIOD" not in header
    assert "".join(found["OBS_STATUS"][:5]) == "AUUAQ"
    assert "".join(found["CONF_STATUS"][:5]) == "FFFFN"


def test_it_keeps_the_contract_of_formats():
    assert registry.load("formats", "sdmx") is sdmx.write
    check_format("sdmx")


def test_each_of_several_tables_names_a_structure_of_its_own(tmp_path):
    """A structure has one set of dimensions; that of the nation has no key."""
    (tmp_path / "s.yaml").write_text(json.dumps(schema()))
    people().to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "p.yaml").write_text(
        "dprelease: pipeline/1\nname: places\nsource: {csv: t.csv}\nschema: s.yaml\n"
        "budget: {ledger: l.db, dataset: people, epsilon: 1}\npublish: {to: public, formats: [sdmx]}\n"
    )
    init_ledger(load_pipeline(tmp_path / "p.yaml"))
    out = run(tmp_path / "p.yaml").folder
    made = {p.name: read(p.read_bytes()) for p in sorted(out.glob("*sdmx.csv"))}
    assert {name: header[3:5] for name, (_, header) in made.items()} == {
        "nation_sdmx.csv": ["STATISTIC", "OBS_VALUE"],
        "regions_sdmx.csv": ["REGION", "STATISTIC"],
        "districts_sdmx.csv": ["DISTRICT", "SEX"],
    }
    assert {name: set(found["STRUCTURE_ID"]) for name, (found, _) in made.items()} == {
        f"{table}_sdmx.csv": {f"DPRELEASE:PLACES_{table.upper()}(1.0)"}
        for table in ("nation", "regions", "districts")
    }
    assert dp.verify(out).ok
