"""The descriptor, judged by the Frictionless reference implementation on the real files."""

from __future__ import annotations

import json
import warnings

import pytest

from dprelease.results.formats import csv_, data_package, parquet
from dprelease.results.formats.json_ import build_manifest
from dprelease.results.rules import IMPOSSIBLE, SUPPRESSED
from dprelease.results.validate.rules import STATUSES, check
from dprelease.schema.domain import Domain
from tests.results.formats import releases

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # third-party deprecations at import
    frictionless = pytest.importorskip("frictionless")


def folder(tmp_path, release):
    manifest = build_manifest(release, check(release), {}, software=releases.SOFTWARE)
    for kind in (csv_, parquet, data_package):
        for name, data in kind.write(release, manifest).items():
            (tmp_path / name).write_bytes(data)
    return tmp_path / "datapackage.json"


def report(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        package = frictionless.Package(str(path))
        package.resources = [r for r in package.resources if r.format == "csv"]
        return package.validate()


def hostile():
    plan = releases.plan(
        [releases.statistic("=n", "sum(x)", Domain(-9, 9, forbidden=[(-1, 1)]), "0.5", block="b")],
        [releases.block("b")],
        by=("@region", "sex"),
        keys=[("-north", "f"), ('a"b', "m,"), ("<b>", "é")],
    )
    return releases.noised(plan, {"=n": [(-3.5, -9.0, 5.0, "ok")] * 3})


@pytest.mark.parametrize("release", [releases.clinic(), hostile()], ids=["clinic", "hostile"])
def test_frictionless_finds_the_files_valid(tmp_path, release):
    result = report(folder(tmp_path, release))
    assert result.valid, result.flatten(["title", "message"])


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("wide.csv", b"26.40", b"80.01"),
        ("data.csv", b",ok\n", b",fine\n"),
        ("wide.csv", b"north", b"west"),
    ],
)
def test_frictionless_finds_a_changed_file_invalid(tmp_path, name, old, new):
    path = folder(tmp_path, releases.clinic())
    data = (tmp_path / name).read_bytes()
    assert old in data
    (tmp_path / name).write_bytes(data.replace(old, new, 1))
    assert not report(path).valid


def test_gaps_are_told_because_constraints_cannot_hold_them(tmp_path):
    package = json.loads(folder(tmp_path, releases.clinic()).read_text())
    count = package["resources"][1]["schema"]["fields"][1]
    assert count["constraints"] == {"required": True, "minimum": 0, "maximum": 50000}
    assert count["dprelease:domain"] == {"range": [0, 50000], "forbidden": [[0, 10]]}
    assert "never inside (0, 10)" in count["description"]
    assert package["name"] == "clinic_weekly-2026-w46"
    assert [r["path"] for r in package["resources"]] == ["data.csv", "wide.csv", "data.parquet"]


def test_the_statuses_are_those_that_validation_accepts():
    assert (*data_package.STATUSES, *data_package.FITTED, SUPPRESSED, IMPOSSIBLE) == STATUSES


def test_only_files_of_the_folder_are_listed():
    release = releases.clinic()
    files = {"data.parquet": b""}
    manifest = build_manifest(release, check(release), files, software=releases.SOFTWARE)
    resources = data_package.descriptor(release.plan, manifest)["resources"]
    assert [r["path"] for r in resources] == ["data.parquet"]
