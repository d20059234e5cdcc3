"""The wheel holds the package and its data files, and nothing of the repository around it."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_contains_only_dprelease(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    [wheel] = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"dprelease", next(t for t in tops if t.endswith(".dist-info"))}
    for needed in (
        "py.typed",
        "formats/report.html.j2",
        "formats/report.css",
        "formats/plan_page.html.j2",
        "formats/plan_page.css",
        "formats/plan_page.js",
        "validate/gx_release.py",
        "series/index.html.j2",
        "series/index.css",
        "cli/__init__.py",
    ):
        assert f"dprelease/{needed}" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
