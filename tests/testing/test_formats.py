"""The format contract takes the built-in formats and finds what is not a function of the release."""

from __future__ import annotations

import csv
import io
import itertools

import pyarrow.parquet as pq
import pytest

from dprelease.core import registry
from dprelease.testing import check_format, sample_release


@pytest.mark.parametrize("name", registry.names("formats"))
def test_the_built_in_ones_keep_it(name):
    assert check_format(name)


def test_parquet_reads_back():
    def read(files):
        return pq.read_table(io.BytesIO(files["data.parquet"])).to_pylist()

    check_format("parquet", read)


def test_a_reader_that_loses_a_row_is_found():
    def read(files):
        return list(csv.DictReader(io.StringIO(files["data.csv"].decode())))[1:]

    with pytest.raises(AssertionError, match="read back"):
        check_format("csv", read)


@pytest.mark.parametrize("how", ["each", "all"])
def test_a_format_that_cannot_do_what_it_says_of_tables_is_found(how, monkeypatch):
    def write(noised, manifest):
        return {"x": b""} if len(noised.plan.statistics) == 3 else {}  # the one of one table

    load = registry.load
    monkeypatch.setattr(registry, "third_party_names", lambda kind: ("mine",))
    monkeypatch.setattr(registry, "load", lambda k, n: write if n == "mine" else load(k, n))
    assert check_format("mine")  # control: it says nothing
    vars(write)["tables"] = how
    with pytest.raises(AssertionError, match="several tables"):
        check_format("mine")


COUNT = itertools.count()
TWINS = {
    "other bytes": lambda n, m: {"x": str(next(COUNT)).encode()},
    "not a plain name": lambda n, m: {"../x": b""},
    "not bytes": lambda n, m: {"x": "text"},
    "dprelease's": lambda n, m: {"data.csv": b""},
    "writes nothing": lambda n, m: {},
    "changes the manifest": lambda n, m: m.clear() or {"x": b""},
}


@pytest.mark.parametrize("match", TWINS)
def test_a_broken_format_is_found(match, monkeypatch):
    load = registry.load
    monkeypatch.setattr(registry, "load", lambda k, n: TWINS[match] if n == "mine" else load(k, n))
    with pytest.raises(AssertionError, match=match):
        check_format("mine")


def test_the_sample_holds_no_real_data_and_is_the_same_each_time():
    one, two = sample_release(), sample_release()
    assert one[1] == two[1]
    assert one[0].table.equals(two[0].table)
    assert not one[0].table.equals(sample_release(shift=1)[0].table)
