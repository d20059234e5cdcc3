"""A kind added in-tree is one file and one line: tried in a copy of the package, with a release.

The files are those of `examples/plugin`, put into the folders of this package as they are. The run
is a process of its own whose `dprelease` is the copy.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.examples.plugin import SOURCE
from tests.examples.test_plugin import PIPELINE, SCHEMA

PACKAGE = Path(__file__).resolve().parents[2] / "dprelease"
ADDED = {
    "mechanisms": ("student", "Student"),
    "aggregates": ("level", "statistic"),
    "engines": ("arrow_sorted", "ArrowSortedEngine"),
    "formats": ("jsonl", "write"),
}
RUN = """
import json, dprelease
from dprelease.pipeline.run import init_ledger, load_pipeline, run
from dprelease.verification.verify import verify
init_ledger(load_pipeline("pipeline.yaml"))
from tests.rules_alone import leave_out_great_expectations
leave_out_great_expectations()
folder = run("pipeline.yaml").folder
print(json.dumps([dprelease.__file__, str(folder), verify(folder).ok]))
"""


def added_to(package: Path, kinds) -> list[str]:
    """Add `kinds` to a copy: a file each, and a line each, which are returned."""
    registry = package / "core/registry.py"
    text, lines = registry.read_text(encoding="utf-8"), []
    for kind in kinds:
        name, attribute = ADDED[kind]
        place = {"formats": "results.formats", "aggregates": "statistics"}.get(kind, kind)
        folder = package / place.replace(".", "/")
        shutil.copy(SOURCE / "src" / "dprelease_example" / f"{name}.py", folder / f"{name}.py")
        line = f'        "{name}": "dprelease.{place}.{name}:{attribute}",\n'
        text = text.replace(f'    "{kind}": {{\n', f'    "{kind}": {{\n{line}', 1)
        lines.append(line)
    registry.write_text(text, encoding="utf-8")
    return lines


def released(tmp_path, kinds):
    """Release with a copy of the package to which `kinds` were added."""
    package = tmp_path / "copy" / "dprelease"
    shutil.copytree(PACKAGE, package)  # with what is compiled: files keep their times
    before = (package / "core/registry.py").read_text(encoding="utf-8").splitlines(keepends=True)
    lines = added_to(package, kinds)
    after = (package / "core/registry.py").read_text(encoding="utf-8").splitlines(keepends=True)
    assert [line for line in after if line not in lines] == before
    project = tmp_path / "project"
    project.mkdir()
    (project / "people.yaml").write_text(SCHEMA, encoding="utf-8")
    (project / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    (project / "pyproject.toml").touch()
    rows = [f"u{i},{'north' if i % 3 else 'south'},{i % 101}" for i in range(180)]
    (project / "people.csv").write_text("\n".join(["who,place,age", *rows]), encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=project,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (package.parent, PACKAGE.parent))),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_one_kind_of_each_sort_is_one_file_and_one_line(tmp_path):
    done = released(tmp_path, ADDED)
    assert done.returncode == 0, done.stderr
    file, folder, ok = json.loads(done.stdout.splitlines()[-1])
    assert Path(file).parent == tmp_path / "copy" / "dprelease"
    assert ok
    manifest = json.loads((Path(folder) / "release.json").read_bytes())
    planned = {s["name"]: s for s in manifest["plan"]["statistics"]}
    assert planned["count"]["mechanism"] == "student"
    assert planned["maturity"]["function"] == "level"
    assert (Path(folder) / "data.jsonl").read_text(encoding="utf-8").count("\n") == 4


def test_the_control_without_its_line_a_kind_is_refused_by_name(tmp_path):
    done = released(tmp_path, [kind for kind in ADDED if kind != "aggregates"])
    assert done.returncode == 1
    assert "DPR131" in done.stderr
    assert "unknown statistic `level`" in done.stderr
