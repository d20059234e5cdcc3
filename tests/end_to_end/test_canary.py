"""No value of a private row stops a release, and none appears in anything but the noise.

A canary is a string that occurs in the rows and nowhere else. After a run it is looked for in
everything that the process wrote or left: both streams, every file, temporary folders included.
"""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.cli import app
from dprelease.core.errors import DpreleaseError
from tests.end_to_end.projects import ROOT, clinic

CANARY = "CANARY4711"
ROWS = [
    f"{CANARY},north,2026-11-10 10:00,50,25.0",
    f"p1,{CANARY},2026-11-10 10:00,50,25.0",
    f"p2,north,{CANARY},50,25.0",
    f"p3,north,2026-11-10 10:00,{CANARY},25.0",
    f"p4,north,2026-11-10 10:00,50,{CANARY}",
    f'p5,"north\n{CANARY}",2026-11-10 10:00,50,25.0',
    "p6,north,2026-11-10 10:00,NaN,nan",
    "p7,north,2026-11-10 10:00,inf,-inf",
    "p8,north,2026-11-10 10:00,1e308,-1e308",
    "p9,north,2026-11-10 10:00,99999999999999999999999999,0x10",
    ",,,,",
    f"p10,north,2026-11-10 10:00,50,25.0,{CANARY},extra",
    f"=cmd|' /C {CANARY}'!A0,north,2026-11-10 10:00,50,25.0",
]
HUGE = ["p00042,south,2026-11-11 10:00,40,30.0"] * 5_000


def traces(folder, canary=CANARY):
    needle = canary.encode()
    return [
        str(p.relative_to(folder)) for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.is_symlink() and needle in p.read_bytes()
    ]  # fmt: skip


@pytest.fixture
def call(monkeypatch, capfd):
    """Call the command line in this process; what it or a library writes to either stream is caught."""
    monkeypatch.setenv("COLUMNS", "200")

    def called(*arguments):
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            app([str(a) for a in arguments])
        return ended.value.code, *capfd.readouterr()

    return called


def test_hostile_rows_are_released_and_never_shown(tmp_path, monkeypatch, call):
    project, temporary = tmp_path / "project", tmp_path / "tmp"
    project.mkdir()
    temporary.mkdir()
    clinic(project)
    monkeypatch.chdir(project)
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.setenv(name, str(temporary))
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    rows = project / "data" / "visits.csv"
    rows.write_text(rows.read_text() + "\n".join(ROWS + HUGE) + "\n")
    status, out, err = call("run", "pipelines/clinic_weekly.yaml", "--period", "2026-W46")
    assert status == 0, err
    assert CANARY not in out + err
    assert traces(tmp_path) == ["project/data/visits.csv"]  # found where it is: the search works
    assert not list(temporary.iterdir())
    # one patient's 5 000 rows count for two, within the noise of a scale of ten
    wide = pd.read_csv(project / "public" / "clinic_weekly" / "2026-W46" / "wide.csv")
    assert wide.set_index("region").loc["south", "count"] < 1000
    assert dp.verify(project / "public" / "clinic_weekly" / "2026-W46").ok


def test_a_source_that_breaks_after_the_charge_is_not_quoted(tmp_path, call):
    """The preflight sees the footer; the pages are damaged. Charged, nothing shown, exit 3."""
    pipeline = clinic(tmp_path)
    n = 5000
    table = pa.table(
        {
            "patient_id": [f"{CANARY}{i}" for i in range(n)],
            "region": ["north"] * n,
            "visited_at": [dt.datetime(2026, 11, 10, 10)] * n,
            "age": [50] * n,
            "bmi": [25.0] * n,
        }
    )
    path = tmp_path / "data" / "visits.parquet"
    pq.write_table(table, path, compression="snappy", use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[40 : len(data) // 2] = b"\xff" * (len(data) // 2 - 40)
    path.write_bytes(data)
    pipeline.write_text(
        pipeline.read_text().replace(
            "{csv: ../data/visits.csv}", "{parquet: ../data/visits.parquet}"
        )
    )
    status, out, err = call("run", pipeline, "--period", "2026-W46")
    assert status == 3, out + err
    assert "DPR900" in err
    assert "Traceback" not in err
    assert CANARY not in out + err
    _, shown, _ = call("ledger", "show", pipeline)
    assert "charged" in shown


SCHEMA = {
    "dprelease": "schema/1",
    "name": "hostile",
    "unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 2},
    "adjacency": "add_remove",
    "rows": {"max": 1000, "expected": 100},
    "columns": {
        "who": {"kind": "identifier"},
        "group": {"kind": "category", "values": ["a", "b"]},
        "when": {"kind": "timestamp"},
        "flag": {"kind": "boolean"},
        "x": {"kind": "number", "range": [0, 10], "step": 0.1},
    },
    "release": {
        "epsilon": 1,
        "by": ["group"],
        "where": "x >= 1",
        "statistics": ["count", "mean(x)", "proportion(flag)", "histogram(x, [0, 5, 10])"],
    },
}
GOOD = {"who": "u", "group": "a", "when": pd.Timestamp("2026-01-01"), "flag": True, "x": 5.0}
BAD = [
    None, float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324, 10**400, -(2**63), 2**64,
    CANARY, f"{CANARY}\x00\ud800", "", " 5 ", "1e5", "١٢", b"\xff\xfe" + CANARY.encode(), True,
    decimal.Decimal("NaN"), decimal.Decimal("1e999"), decimal.Decimal("sNaN"), pd.NaT, pd.NA,
    pd.Timestamp.max, dt.date.min, dt.datetime.max, dt.timedelta.max, [CANARY], {"k": CANARY},
    complex(1, 2), np.float16(3), np.int8(-1), object,
]  # fmt: skip


class Unprintable:
    def __str__(self):
        raise ValueError(CANARY)

    __repr__ = __hash__ = __float__ = __str__


@pytest.mark.parametrize("column", list(GOOD))
def test_no_cell_of_a_frame_makes_a_release_raise(column, recwarn, capfd):
    cells = [*BAD, Unprintable()]
    frame = pd.DataFrame({k: pd.Series([v] * len(cells), dtype=object) for k, v in GOOD.items()})
    frame[column] = pd.Series(cells, dtype=object)
    released = frame.dp.release(SCHEMA)
    assert np.isfinite(released.table.column("value").to_numpy()).all()
    assert released.validate().ok
    said = capfd.readouterr()
    shown = [str(w.message) for w in recwarn] + [
        said.out,
        said.err,
        repr(released),
        str(released.receipt),
    ]
    assert not any(CANARY in text for text in shown)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([GOOD]).iloc[:0],
        pd.DataFrame([GOOD]),
        pd.DataFrame([GOOD] * 100_000),
        pd.DataFrame([GOOD] * 3, index=[CANARY] * 3),
    ],
    ids=["no row", "one row", "one unit with 100 000 rows", "a strange index"],
)
def test_the_values_have_the_size_of_the_table(frame):
    table = frame.dp.release(SCHEMA).table.to_pandas()
    assert np.isfinite(table.value).all()
    assert (table.loc[table.statistic == "count", "value"] < 400).all()  # the unit counts twice


def test_a_refused_frame_is_refused_before_it_is_read_and_without_its_values():
    frame = pd.DataFrame({"who": [CANARY], "group": ["a"], "when": [CANARY], "flag": [True]})
    with pytest.raises(DpreleaseError) as caught:
        frame.dp.release(SCHEMA)
    assert caught.value.spent == "nothing"
    assert CANARY not in str(caught.value)
    assert "'x'" in str(caught.value)


def test_the_tests_above_use_the_project_s_own_tree():
    assert (ROOT / "dprelease").is_dir()
