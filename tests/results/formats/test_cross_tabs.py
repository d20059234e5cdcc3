"""Tables of pages: what stands across and down, levels that collapse, impossible groups, and what files end with."""

from __future__ import annotations

import csv
import io
import re
from itertools import pairwise

import pandas as pd
import pytest

import dprelease as dp
from dprelease.results.formats import csv_, data_package, html
from dprelease.results.formats.cross_tabs import cross_tab, keys_above

KEYS = [[r, f"{r[0]}{i}"] for r in ("north", "south") for i in range(3)]
SEXES = ["f", "m"]
ZEROS = [["s2", "f"], ["s2", "m"], ["n1", "m"]]
SCHEMA = {
    "dprelease": "schema/1",
    "name": "people",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1000, "expected": 600},
    "columns": {
        "district": {"kind": "category", "values": [d for _, d in KEYS], "title": "District"},
        "sex": {"kind": "category", "values": SEXES, "title": "Sex"},
        "income": {"kind": "integer", "range": [0, 5000], "nulls": {"default": 0}},
    },
    "hierarchies": {"place": {"levels": ["region", "district"], "keys": KEYS}},
    "release": {
        "epsilon": 1,
        "tables": [
            {"name": "nation", "by": [], "statistics": ["count"]},
            {"name": "regions", "by": ["region"], "statistics": ["count"]},
            {"name": "districts", "by": ["district", "sex"], "statistics": ["count"], "zeros": ZEROS},
        ],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def made():
    districts, zeros = [d for _, d in KEYS], {tuple(key) for key in ZEROS}
    rows = [(d, s, 100) for d in districts for s in SEXES if (d, s) not in zeros] * 60
    return dp.release(pd.DataFrame(rows, columns=["district", "sex", "income"]), SCHEMA)


@pytest.fixture(scope="module")
def page(made):
    return html.page_of(made._noised, made.manifest, labelled=True)


def crossed(keys, across=2):
    rows = [{"key": key, "cells": [f"{key} {i}" for i in range(across)]} for key in keys]
    return cross_tab([f"k{i}" for i in range(len(keys[0]))], rows, [()] * len(rows))


# -- what stands where ---------------------------------------------------------------------


def test_the_last_key_that_fits_stands_across_and_every_number_is_in_its_place():
    keys = [(a, b) for a in "xyz" for b in "pq"]
    found = crossed(keys)
    assert (found["by"], found["across"], found["labels"]) == (["k0"], "k1", ["p", "q"])
    [level] = found["levels"]
    assert (level["name"], level["groups"]) == ("", 6)
    for row in level["rows"]:
        [a] = row["key"]
        assert row["cells"] == [f"{(a, b)} {i}" for i in range(2) for b in "pq"]


def test_the_first_of_several_keys_down_is_a_level():
    found = crossed([(a, b, c) for a in "xy" for b in "pqr" for c in "uv"])
    assert (found["by"], found["across"]) == (["k1"], "k2")
    assert [(level["name"], level["groups"]) for level in found["levels"]] == [
        ("k0: x", 6),
        ("k0: y", 6),
    ]  # a label alone may be a bare number


def test_pictures_keep_outer_keys_apart(made, page):
    """A line wherever the first of several keys changes, none in tables of one key or of an older edition."""
    outer = [
        [row["key"][0] for row in s["rows"] if len(row["key"]) > 1]
        for table in page["tables"]
        for s in table["sections"]
    ]
    changes = sum(a != b for keys in outer for a, b in pairwise(keys))
    text = html.write(made._noised, made.manifest)["report.html"].decode()
    assert text.count('class="outer"') == changes > 3
    request = {k: v for k, v in made.manifest["request"].items() if k != "report"}
    older = {**made.manifest, "request": request}
    assert b'class="outer"' not in html.report(made._noised, older)


def test_what_is_not_published_is_no_cell():
    found = crossed([("x", "p"), ("x", "q"), ("y", "q")], 1)
    assert [row["cells"] for row in found["levels"][0]["rows"]] == [
        ["('x', 'p') 0", "('x', 'q') 0"],
        [None, "('y', 'q') 0"],
    ]


@pytest.mark.parametrize(
    ("keys", "columns"),
    [
        ([(a,) for a in "xyz"], 1),  # one key
        ([()], 1),
    ],
)
def test_one_key_stands_down(keys, columns):
    assert crossed(keys, columns) is None


def test_too_many_columns_and_sparse_crosses_collapse_by_the_first_key():
    wide = [(a, f"{b:02}") for a in "xy" for b in range(13)]
    sparse = [(a, a + b) for a in "xy" for b in "pqr"]  # no label twice
    for keys in (wide, sparse):
        found = crossed(keys, 1)
        assert (found["across"], found["by"]) == ("", ["k1"])
        assert [level["name"] for level in found["levels"]] == ["k0: x", "k0: y"]


# -- several tables ------------------------------------------------------------------------


def test_districts_stand_below_their_regions(made, page):
    tables = made.plan.tables
    assert keys_above(tables, "nation") == ((), [()])
    names, labels = keys_above(tables, "districts")
    assert names == ("region",)
    regions = {district: region for region, district in KEYS}
    keys = tables.named("districts").keys
    assert labels == [(regions[district],) for district, _ in keys]
    cross = page["tables"][2]["crossed"]
    assert (cross["by"], cross["across"]) == (["District"], "Sex")
    assert [level["name"] for level in cross["levels"]] == ["north", "south"]
    assert [row["key"] for row in cross["levels"][1]["rows"]] == [("s0",), ("s1",), ("s2",)]
    text = html.report(made._noised, made.manifest).decode()
    assert len(re.findall(r'<details class="level" open><summary>(north|south)', text)) == 2


def test_what_can_hold_no_row_is_a_dash_without_interval(made, page):
    empty = made.plan.tables.empty
    keys = made.plan.tables.named("districts").keys
    assert {k for k, no in zip(keys, empty("districts"), strict=True) if no} == set(
        map(tuple, ZEROS)
    )
    assert not any(empty("regions"))
    [section] = page["tables"][2]["sections"]
    cells = {row["key"]: row["cells"][0] for row in section["rows"]}
    for key, cell in cells.items():
        said = tuple(cell[k] for k in ("value", "lower", "upper", "estimate", "status"))
        assert (said == ("–", "–", "–", "–", "impossible")) == (list(key) in ZEROS)
    assert page["tables"][2]["impossible"]
    assert not page["tables"][1]["impossible"]


def test_a_page_before_editions_is_as_it_was(made):
    old = {**made.manifest, "request": {**made.manifest["request"]}}
    del old["request"]["report"]
    text = html.report(made._noised, old).decode()
    assert 'class="level"' not in text


def test_csv_files_end_with_the_keys_of_coarser_tables(made):
    regions = {district: region for region, district in KEYS}
    for file in ("data.csv", "wide.csv"):
        text = csv_.write(made._noised.parts["districts"], made.manifest)[file].decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text)))
        assert list(rows[0])[-1] == "region"
        assert all(row["region"] == regions[row["district"]] for row in rows)
        coarse = csv_.write(made._noised.parts["regions"], made.manifest)[file].decode("utf-8-sig")
        assert coarse.partition("\n")[0].split(",").count("region") == 1
    parts = {name: part.plan for name, part in made._noised.parts.items()}
    said = {r["name"]: r["schema"] for r in data_package.descriptor(
        made.plan, {**made.manifest, "files": {}}, parts
    )["resources"]}  # fmt: skip
    for name in ("districts-csv", "districts-wide-csv"):
        assert said[name]["fields"][-1]["name"] == "region"
    keys = said["districts-wide-csv"]["foreignKeys"]
    assert [key["reference"]["resource"] for key in keys] == ["regions-wide-csv"]


# -- rounding ------------------------------------------------------------------------------


def test_a_number_is_rounded_by_its_own_noise():
    chosen = [("a", 4000), ("b", 12)]
    data = pd.DataFrame([(k, 50.0) for k, n in chosen for _ in range(n)], columns=["k", "x"])
    schema = {
        "dprelease": "schema/1",
        "name": "sizes",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 10000, "expected": 4000},
        "columns": {
            "k": {"kind": "category", "values": ["a", "b"]},
            "x": {"kind": "number", "range": [0, 100], "step": 0.0001},
        },
        "release": {"epsilon": 2, "by": ["k"], "statistics": ["mean(x)", "count"]},
    }
    made = dp.release(data, schema)
    for labelled, apart in ((True, True), (False, False)):
        page = html.page_of(made._noised, made.manifest, labelled=labelled)
        mean = page["sections"][0]["rows"]
        decimals = [len(row["cells"][0]["value"].partition(".")[2]) for row in mean]
        assert (decimals[0] > decimals[1]) == apart, decimals
