"""The exported project runs on a published folder in a process that has no dprelease."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from dprelease.errors import ArgumentError
from dprelease.formats import csv_, parquet
from dprelease.formats.json_ import build_manifest
from dprelease.validate import gx_release
from dprelease.validate.gx import long_table
from dprelease.validate.gx_project import export_project
from dprelease.validate.joint import joint_rules
from dprelease.validate.rules import check
from tests.formats import releases

GOOD = releases.clinic()
BROKEN = releases.replaced(GOOD, "value", 0, 5.0)  # in the gap


def publish(folder, release, formats):
    folder.mkdir(parents=True)
    manifest = build_manifest(release, check(GOOD), {}, software=releases.SOFTWARE)
    for write in formats:
        for name, data in write(release, manifest).items():
            (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export_project(GOOD.plan, folder)
    return folder


def run(project, *folders):
    """Run the project's own command on each; a stand-in called dprelease makes importing it fail."""
    trap = project.parent / "trap" / "dprelease"
    trap.mkdir(parents=True, exist_ok=True)
    (trap / "__init__.py").write_text("raise ImportError('not installed here')\n")
    plugins = project / "gx" / "plugins"
    code = "import sys, dprelease_release as r\nfor f in sys.argv[1:]: print('exit', r.main([f]))"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *folders],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=project.parent,
        env={**os.environ, "PYTHONPATH": f"{trap.parent}{os.pathsep}{plugins}"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_published_folder_is_valid_and_a_broken_one_is_not(project, tmp_path):
    good = publish(tmp_path / "good", GOOD, [parquet.write])
    bad = publish(tmp_path / "bad", BROKEN, [csv_.write])
    first, second, _ = run(project, good, bad).split("exit ")
    assert first.splitlines()[-1] == "valid"
    assert "FAIL" not in first
    assert second.startswith("0")  # the status of the first
    assert "FAIL  domain" in second
    assert second.splitlines()[-1] == "NOT valid"


def test_both_formats_give_the_table_that_dprelease_itself_checks(tmp_path):
    plan = GOOD.plan
    joint = [(r.first.columns[0], r.second.columns[0]) for r in joint_rules(plan)]
    assert joint
    for name, write in (("parquet", parquet.write), ("csv", csv_.write)):
        tidy = gx_release.read_release(publish(tmp_path / name, GOOD, [write]), plan.by)
        labels = [gx_release.group_label(k) for k in zip(*(tidy[b] for b in plan.by), strict=True)]
        made = gx_release.long_table(tidy, labels, joint)
        pd.testing.assert_frame_equal(
            made, long_table(GOOD), check_dtype=False, check_column_type=False
        )


def test_the_project_holds_the_plan_and_tells_nobody(project):
    settings = (project / "gx" / "great_expectations.yml").read_text(encoding="utf-8")
    assert "analytics_enabled: false" in settings
    contract = json.loads((project / "gx" / "plugins" / "dprelease_release.json").read_text())
    assert contract["plan_hash"] == GOOD.plan.hash
    suite = json.loads((project / "gx" / "expectations" / "dprelease.json").read_text())
    assert {e["type"] for e in suite["expectations"]} >= {"expect_released_rows_to_obey"}


def test_an_export_replaces_nothing(project):
    with pytest.raises(ArgumentError) as caught:
        export_project(GOOD.plan, project)
    assert caught.value.code == "DPR615"
