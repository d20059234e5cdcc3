"""A package of someone else's: installed by pip, named in files, used from plan to verification."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from dprelease.core import registry
from dprelease.core.errors import ConfigError, PlanError, WithheldError
from dprelease.pipeline.planned import plan_release
from dprelease.pipeline.run import init_ledger, load_pipeline, run
from dprelease.query.load import Schema
from dprelease.testing import check_aggregate, check_engine, check_format, check_mechanism
from dprelease.testing.aggregates import COLUMNS
from dprelease.testing.mechanisms import REQUESTS
from dprelease.verification.verify import verify
from tests.end_to_end.projects import repeatable
from tests.examples.plugin import SOURCE, use
from tests.rules_alone import rules_alone
from tests.sizes import FULL, some, whole

SCHEMA = """
dprelease: schema/1
name: people
unit: {user: who, max_rows_per_group: 2, max_groups: 1}
adjacency: add_remove
rows: {max: 200, expected: 60}
columns:
  who: {kind: identifier}
  place: {kind: category, values: [north, south]}
  age: {kind: number, range: [0, 100], step: 1, measure: years}
release:
  epsilon: 4
  by: [place]
  statistics:
    - {statistic: count, mechanism: student, share: 0.3}
    - {statistic: "level(age)", as: maturity}
"""
PIPELINE = """
dprelease: pipeline/1
name: people
source: {csv: people.csv}
schema: people.yaml
engine: arrow_sorted
budget: {ledger: .dprelease/ledger.db, dataset: people, epsilon: 8}
publish: {to: public, formats: [parquet, csv, html, jsonl]}
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "people.yaml").write_text(SCHEMA, encoding="utf-8")
    (tmp_path / "pipeline.yaml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "pyproject.toml").touch()
    rows = [f"u{i},{'north' if i % 3 else 'south'},{i % 101}" for i in range(180)]
    (tmp_path / "people.csv").write_text("\n".join(["who,place,age", *rows]), encoding="utf-8")
    return tmp_path


@pytest.fixture(autouse=True)
def built_in_rules_only():
    with rules_alone():
        yield


@pytest.fixture
def plugin(monkeypatch):
    return use(monkeypatch)


def released(project) -> Path:
    init_ledger(load_pipeline(project / "pipeline.yaml"))
    return run(project / "pipeline.yaml").folder


def test_all_four_kinds_from_the_plan_to_the_verification(project, plugin, monkeypatch):
    repeatable(monkeypatch, "plugin")
    folder = released(project)
    manifest = json.loads((folder / "release.json").read_bytes())
    planned = {s["name"]: s for s in manifest["plan"]["statistics"]}
    assert planned["count"]["mechanism"] == "student"
    assert planned["maturity"]["measure"] == ""
    laws = {b["name"]: b["law"] for b in manifest["plan"]["blocks"]}
    assert laws["count"]["law"]["family"] == "student"
    lines = (folder / "data.jsonl").read_text(encoding="utf-8").splitlines()
    table = pq.read_table(folder / "data.parquet")
    assert [json.loads(line) for line in lines] == table.to_pylist()
    levels = [r["value"] for r in table.to_pylist() if r["statistic"] == "maturity"]
    assert len(levels) == 2
    assert all(0 <= v <= 1 for v in levels)
    found = verify(folder, ledger=project / ".dprelease" / "ledger.db")
    assert found.ok, str(found)


def test_the_manifest_is_not_believed_without_the_law_that_reads_it(project, plugin, monkeypatch):
    folder = released(project)
    monkeypatch.undo()  # the plugin is gone
    found = {c.name: c for c in verify(folder).checks}
    assert found["request"].ok is False
    assert found["request"].detail == (
        "not verified here: needs the package that offers aggregate `level`, format `jsonl`,"
        " mechanism `student`"
    )
    assert found["files"].ok is None


def test_an_installed_package_changes_nothing_until_it_is_named(project, monkeypatch):
    plain = {**_schema(), "release": {"epsilon": 1, "statistics": ["count", "mean(age)"]}}
    before = plan_release(Schema.from_dict(plain)).hash
    use(monkeypatch)
    assert plan_release(Schema.from_dict(plain)).hash == before
    said = CliRunner().invoke(app, ["kinds", "--json"])
    kinds = json.loads(said.output)
    assert [kinds[k]["installed"] for k in registry.KINDS] == [
        ["student"], ["level"], ["arrow_sorted"], ["jsonl"],
    ]  # fmt: skip
    assert "dprelease_example" not in "".join(kinds["mechanisms"]["built_in"])


def _schema():
    return {
        "dprelease": "schema/1",
        "name": "t",
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 100},
        "columns": {"age": {"kind": "number", "range": [0, 10], "step": 1}},
    }


@pytest.mark.parametrize(
    ("file", "old", "code"),
    [
        ("people.yaml", "  mechanism: student,", "DPR211"),
        ("people.yaml", "level(age)", "DPR131"),
        ("pipeline.yaml", "engine: arrow_sorted", "DPR112"),
        ("pipeline.yaml", ", jsonl]", "DPR146"),
    ],
)
def test_without_the_package_every_name_is_refused_before_anything_is_spent(
    project, file, old, code
):
    for name in ("people.yaml", "pipeline.yaml"):
        text = (project / name).read_text(encoding="utf-8")
        for word, known in (
            ("mechanism: student", "mechanism: staircase"),
            ("level(age)", "mean(age)"),
            ("engine: arrow_sorted", "engine: duckdb"),
            (", jsonl]", "]"),
        ):
            kept = name == file and word in old
            text = text if kept else text.replace(word, known)
        (project / name).write_text(text, encoding="utf-8")
    with pytest.raises((ConfigError, PlanError)) as refused:
        released(project)
    assert refused.value.code == code


def test_each_kind_keeps_the_contract_of_its_sort(plugin):
    assert check_mechanism("student", some(REQUESTS, 4)) >= whole(10, 40)
    columns = dict(some(COLUMNS.items(), 2))  # across zero, and with a gap
    assert check_aggregate("level", columns=columns) >= 18 * len(columns)
    tables = whole(2, 16)
    engine = registry.load("engines", "arrow_sorted")
    assert check_engine(engine, ("arrow", "csv"), tables=tables) == 2 * tables
    lines = check_format("jsonl", lambda f: [json.loads(x) for x in f["data.jsonl"].splitlines()])
    assert list(lines) == ["data.jsonl"]


BAD_FORMATS = {
    "fails": "raise ValueError('a released value')",
    "takes a file of ours": "return {'release.json': b''}",
    "leaves the folder": "return {'../x': b''}",
    "is not bytes": "return {'x.txt': 'text'}",
}


@pytest.mark.parametrize("body", BAD_FORMATS.values(), ids=BAD_FORMATS)
def test_a_broken_format_withholds_and_the_run_can_be_repeated(body, project, monkeypatch):
    use(monkeypatch)
    names = {}
    exec(f"def write(noised, manifest):\n    {body}", names)
    load = registry.load
    monkeypatch.setattr(
        registry, "load", lambda k, n: names["write"] if n == "jsonl" else load(k, n)
    )
    with pytest.raises(WithheldError) as withheld:
        released(project)
    assert withheld.value.code == "DPR715"
    assert "a released value" not in str(withheld.value)
    assert withheld.value.__cause__ is None
    monkeypatch.setattr(registry, "load", load)
    result = run(project / "pipeline.yaml")
    assert not result.receipt.fresh  # no second charge, no second draw
    assert verify(result.folder).ok


def test_two_formats_of_one_file_name_do_not_overwrite_each_other(project, monkeypatch):
    """A format in this library is held to it as one of a package is."""
    use(monkeypatch)
    monkeypatch.setitem(registry._BUILT_IN["formats"], "jsonl", "nowhere:write")
    load = registry.load
    monkeypatch.setattr(
        registry,
        "load",
        lambda k, n: (lambda *_: {"data.csv": b""}) if n == "jsonl" else load(k, n),
    )
    with pytest.raises(WithheldError) as withheld:
        released(project)
    assert withheld.value.code == "DPR715"
    assert "another format" in withheld.value.why


TABLES = """
release:
  epsilon: 4
  tables:
    - {name: nation, by: [], statistics: [count]}
    - {name: places, by: [place], statistics: [count]}
"""


@pytest.fixture
def of_tables(project, plugin):
    """The project, of two tables, by the engine of this library; its budget is there."""
    schema, pipeline = project / "people.yaml", project / "pipeline.yaml"
    schema.write_text(SCHEMA.partition("\nrelease:")[0] + TABLES, encoding="utf-8")
    pipeline.write_text(PIPELINE.replace("engine: arrow_sorted\n", ""), encoding="utf-8")
    init_ledger(load_pipeline(pipeline))
    return project


def _spent(project) -> str:
    return json.loads(_said("ledger", "show", project / "pipeline.yaml", "--json")[1])["datasets"]


def _said(*words) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def test_a_format_that_says_how_writes_every_table(of_tables):
    status, said = _said("run", of_tables / "pipeline.yaml")
    assert status == 0, said
    folder = of_tables / "public" / "people" / "once"
    for name in ("nation", "places"):
        lines = (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        assert [json.loads(x) for x in lines] == pq.read_table(
            folder / f"{name}.parquet"
        ).to_pylist()
    assert verify(folder, ledger=of_tables / ".dprelease" / "ledger.db").ok


UNFIT = {
    "says nothing": lambda noised, manifest: {"data.jsonl": b""},
    "says what is not known": type(
        "Other", (), {"tables": "every", "__call__": lambda *_: {"data.jsonl": b""}}
    )(),
    "is not a function": "jsonl",
}


@pytest.mark.parametrize("in_tree", [False, True])
@pytest.mark.parametrize("offered", UNFIT.values(), ids=UNFIT)
def test_a_format_of_one_table_is_refused_before_the_charge(
    offered, in_tree, of_tables, monkeypatch
):
    before, load = _spent(of_tables), registry.load
    if in_tree:
        monkeypatch.setitem(registry._BUILT_IN["formats"], "jsonl", "nowhere:write")
    monkeypatch.setattr(registry, "load", lambda k, n: offered if n == "jsonl" else load(k, n))
    for more in ((), ("--rehearse", "--to", of_tables / "try")):
        status, said = _said("run", of_tables / "pipeline.yaml", *more)
        assert status == 2, said
        assert "DPR146" in said
        assert "pipeline.yaml:7" in said
    monkeypatch.undo()
    use(monkeypatch)
    assert _spent(of_tables) == before
    assert not (of_tables / "public").exists()
    if FULL or (in_tree, offered) == (False, UNFIT["is not a function"]):
        assert _said("run", of_tables / "pipeline.yaml")[0] == 0  # control: it can be charged
        assert _spent(of_tables) != before


def test_a_package_that_cannot_be_loaded_is_refused_before_the_charge(project, plugin, monkeypatch):
    def broken(kind, name):
        if name == "jsonl":
            raise ImportError("a text of its own")
        return load(kind, name)

    load = registry.load
    init_ledger(load_pipeline(project / "pipeline.yaml"))
    monkeypatch.setattr(registry, "load", broken)
    status, said = _said("run", project / "pipeline.yaml")
    assert status == 2
    assert "DPR146" in said
    assert "ImportError" in said
    assert "a text of its own" not in said


def test_the_package_is_what_its_readme_says():
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    project = (SOURCE / "pyproject.toml").read_text(encoding="utf-8")
    for name in ("student", "level", "arrow_sorted", "jsonl"):
        assert f"`{name}" in text
        assert f"\n{name} = " in project
    assert not shutil.which("dprelease-example")  # it brings kinds, no command
