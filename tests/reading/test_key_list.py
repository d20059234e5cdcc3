"""Published keys as a column's values: verified, fixed at the debit, told by every reader."""

from __future__ import annotations

import hashlib
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Key, Ledger
from dprelease.cli import app
from dprelease.core.errors import ConfigError, DpreleaseError, LedgerError
from dprelease.pipeline.approving import plan_file
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import init_ledger
from dprelease.pipeline.run import run as run_pipeline
from dprelease.pipeline.watch import files_of
from dprelease.query.request import request_from_json
from dprelease.query.written import request_for_all_periods, request_to_json
from dprelease.results.series.correct import supersede, withdraw
from tests.end_to_end.projects import plans_once
from tests.rules_alone import built_in_rules_only

FRAME = pd.DataFrame({"page": list("aabbbcz") * 10})


def declared(name: str, page: dict[str, Any], **release: Any) -> dict[str, Any]:
    return {
        "dprelease": "schema/1",
        "name": name,
        "unit": "row",
        "adjacency": "add_remove",
        "rows": {"max": 1000},
        "columns": {"page": {"kind": "category", **page}},
        "release": {"epsilon": 1, "by": ["page"], "statistics": ["count"], **release},
    }


def from_lists(*folders: str, **more: Any) -> dict[str, Any]:
    keys = folders[0] if len(folders) == 1 else list(folders)
    return declared("views", {"values_from": {"keys": keys}, **more})


@pytest.fixture
def place(tmp_path, monkeypatch):
    built_in_rules_only(monkeypatch)
    plans_once(monkeypatch)
    (tmp_path / ".dprelease").mkdir()
    monkeypatch.chdir(tmp_path)
    dp.create_ledger("ledger.db", declared("pages", {"values": ["a"]}), epsilon=100, dataset="log")
    return tmp_path


def released(schema: Any, period: str) -> Any:
    return dp.release(FRAME, schema, ledger="ledger.db", dataset="log", period=period)


def listed(values: str, period: str, name: str = "pages", **more: Any) -> Path:
    """Publish a list of keys: their declared values, each a letter."""
    return released(declared(name, {"values": list(values), **more}), period).publish("public")


def named(folder: Path) -> str:
    digest = hashlib.sha256((folder / "release.json").read_bytes()).hexdigest()
    return f"{folder.parent.name}/{folder.resolve().name}@{digest}"


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_keys_of_the_latest_folder_are_the_values(place):
    first = listed("ca", "2026-W40")
    column = dp.Schema.from_dict(from_lists("public/pages/latest")).columns["page"]
    assert column.keys == ("a", "c")
    assert column.lists == (named(first),)
    second = listed("bca", "2026-W41")
    column = dp.Schema.from_dict(from_lists("public/pages/latest")).columns["page"]
    assert (column.keys, column.lists) == (("a", "b", "c"), (named(second),))
    assert (
        "from pages/2026-W41"
        in dp.Schema.from_dict(from_lists("public/pages/latest"))._repr_html_()
    )


def test_checking_a_schema_says_which_list_its_keys_are_of(place):
    listed("ab", "2026-W40")
    Path("views.json").write_text(json.dumps(from_lists("public/pages/latest")))
    said = CliRunner().invoke(app, ["schema", "check", "views.json"])
    assert (said.exit_code, "pages/2026-W40" in said.stdout) == (0, True)
    withdraw(place / "public" / "pages" / "2026-W40", reason="wrong rows")
    said = CliRunner().invoke(app, ["schema", "check", "views.json"])
    assert said.exit_code == 2


def test_several_lists_are_a_union_in_order_and_other_is_no_key(place):
    a = listed("ca", "2026-W40", other={"as": "rest"}, nulls={"as": "none"})
    b = listed("cbd", "2026-W40", "more")
    folders = ("public/pages/2026-W40", "public/more/latest")
    column = dp.Schema.from_dict(from_lists(*folders, other={"as": "others"})).columns["page"]
    assert column.keys == ("a", "b", "c", "d", "others")
    assert column.lists == (named(a), named(b))
    plan = dp.plan(from_lists(*folders, other={"as": "others"}))
    assert [key for (key,) in plan.keys] == list(column.keys)
    twice = dp.Schema.from_dict(from_lists(*folders, folders[0], other={"as": "others"}))
    assert twice.columns["page"].lists == column.lists  # the debit, and its promise, name each once


@pytest.mark.parametrize("word", ["other", "nulls"])
def test_a_key_of_the_list_is_no_label_of_other_rows(place, word):
    """A reader would take the rows that the list does not name for rows of that key."""
    listed("ab", "2026-W40")
    with pytest.raises(ConfigError, match="`b` is a key of the list") as caught:
        released(from_lists("public/pages/2026-W40", **{word: {"as": "b"}}), "2026-W41")
    assert caught.value.code == "DPR157"
    assert Ledger.open("ledger.db").entries("log")[-1].entry.key.period == "2026-W40"
    assert released(from_lists("public/pages/2026-W40", **{word: {"as": "c"}}), "2026-W41")


def test_the_list_is_fixed_at_the_debit(place):
    first = listed("ab", "2026-W40")
    schema = from_lists("public/pages/latest")
    folder = released(schema, "2026-W40").publish("public")
    before, spent = held(folder), Ledger.open(place / "ledger.db").budget("log").spent
    longer = listed("abc", "2026-W41")
    again = released(schema, "2026-W40")
    assert not again.receipt.fresh
    assert again.publish("public") == folder
    assert held(folder) == before
    assert Ledger.open(place / "ledger.db").budget("log").spent == spent + 1  # of the list alone
    assert dp.sql(
        "SELECT page, COUNT(*) FROM t GROUP BY page",
        schema,
        ledger="ledger.db",
        dataset="log",
        period="2026-W41",
        t=FRAME,
    ).plan.keys == (("a",), ("b",), ("c",))
    request = json.loads((folder / "release.json").read_bytes())["request"]
    assert request["schema"]["columns"]["page"] == {
        "kind": "category", "values": ["a", "b"], "values_from": {"keys": [named(first)]},
    }  # fmt: skip
    shutil.rmtree(first)  # the ledger has its own copy
    assert released(schema, "2026-W40").plan.keys == (("a",), ("b",))
    assert named(longer) in str(Ledger.open(place / "ledger.db").entries("log")[-1].lists)


@pytest.mark.parametrize("fate", ["gone", "withdrawn"])
def test_a_rerun_needs_no_folder_of_a_list_that_is_named(place, fate):
    first = listed("ab", "2026-W40")
    schema = from_lists("public/pages/2026-W40")
    folder = released(schema, "2026-W40").publish("public")
    before, spent = held(folder), Ledger.open(place / "ledger.db").budget("log").spent
    shutil.rmtree(first) if fate == "gone" else withdraw(first, reason="wrong rows")
    again = released(schema, "2026-W40")
    assert (again.receipt.fresh, again.plan.keys) == (False, (("a",), ("b",)))
    assert held(again.publish("public")) == before
    assert Ledger.open(place / "ledger.db").budget("log").spent == spent
    for asked in ({"period": "2026-W41"}, {}):  # what no debit fixed is refused
        with pytest.raises(ConfigError) as caught:
            dp.release(
                FRAME,
                schema,
                **asked,
                **({"ledger": "ledger.db"} if asked else {}),
                **({"dataset": "log"} if asked else {}),
            )
        assert caught.value.code == "DPR117"


def test_another_list_by_its_own_name_is_refused_where_a_debit_fixed_one(place):
    listed("ab", "2026-W40")
    folder = released(from_lists("public/pages/2026-W40"), "2026-W40").publish("public")
    listed("abc", "2026-W41")
    listed("xy", "2026-W40", "more")
    before = held(folder)
    for other in ("public/pages/2026-W41", "public/more/latest", "public/pages/2026-W42"):
        with pytest.raises(ConfigError, match="fixes them: pages/2026-W40") as caught:
            released(from_lists(other), "2026-W40")
        assert caught.value.code == "DPR117"
    with pytest.raises(ConfigError, match="fixes them"):
        released(from_lists("public/pages/2026-W40", "public/more/latest"), "2026-W40")
    shutil.rmtree(place / "public" / "pages")
    for same in ("public/pages/2026-W40", "public/pages/latest"):
        assert released(from_lists(same), "2026-W40").publish("public") == folder
    assert held(folder) == before


def test_a_run_that_crashed_after_its_debit_goes_on_with_its_own_list(place, monkeypatch):
    first = listed("ab", "2026-W40")
    schema = from_lists("public/pages/latest")
    with monkeypatch.context() as patch:
        patch.setattr("dprelease.pipeline.stages.draw", _crash)
        with pytest.raises(RuntimeError):
            released(schema, "2026-W40")
    key = Key("log", "views", "2026-W40")
    assert Ledger.open(place / "ledger.db").state(key) == "charged"
    listed("abc", "2026-W41")
    kept = place / "kept"
    shutil.copytree(first, kept)
    shutil.rmtree(first)
    with pytest.raises(ConfigError, match="pages/2026-W40") as caught:
        released(schema, "2026-W40")
    assert caught.value.code == "DPR117"
    twin = declared("pages", {"values": ["a", "b"]})
    dp.create_ledger("other.db", twin, epsilon=1, dataset="log")
    drawn = dp.release(FRAME, twin, ledger="other.db", dataset="log", period="2026-W40")
    shutil.copytree(drawn.publish("elsewhere"), first)  # the same keys, and another release
    with pytest.raises(ConfigError, match="the debit is of pages/2026-W40@"):
        released(schema, "2026-W40")
    shutil.rmtree(first)
    shutil.copytree(kept, first)
    spent = Ledger.open(place / "ledger.db").budget("log").spent
    release = released(schema, "2026-W40")
    assert (release.receipt.fresh, release.plan.keys) == (False, (("a",), ("b",)))
    assert Ledger.open(place / "ledger.db").budget("log").spent == spent


def _crash(*args: Any, **named: Any) -> None:
    raise RuntimeError


def test_another_request_under_the_key_is_refused_as_before(place):
    listed("ab", "2026-W40")
    released(from_lists("public/pages/latest"), "2026-W40").publish("public")
    other = declared("views", {"values": ["a", "q"]})
    with pytest.raises(LedgerError) as caught:
        released(other, "2026-W40")
    assert caught.value.code == "DPR410"
    wider = {**from_lists("public/pages/latest"), "rows": {"max": 2000}}
    listed("abc", "2026-W41")
    with pytest.raises(LedgerError) as caught:
        released(wider, "2026-W40")
    assert caught.value.code == "DPR410"


def test_a_reader_is_told_the_list_and_needs_no_more_than_its_hash(place):
    first = listed("ab", "2026-W40")
    folder = released(from_lists("public/pages/latest"), "2026-W40").publish("public")
    shutil.rmtree(place / "public" / "pages")
    answer = dp.verify(folder, ledger=place / "ledger.db")
    assert answer.ok
    assert f"page has the keys of pages/2026-W40@{named_of(answer)}" in answer.checks[0].detail
    assert len(named_of(answer)) == 64
    assert dp.read(folder).schema.columns["page"].keys == ("a", "b")
    assert first.name == "2026-W40"


def named_of(answer: Any) -> str:
    return str(answer.checks[0].detail).rpartition("@")[2]


def test_found_keys_are_values_like_others(place):
    log = declared("log", {"other": {"as": "rest"}})
    del log["release"]
    asked = {"column": "page", "epsilon": 1, "delta": "1e-9", "ledger": "found.db"}
    dp.create_ledger("found.db", log, epsilon=9, delta="1e-3")
    frame = pd.DataFrame({"page": ["a"] * 500 + ["b"] * 300 + ["", "rare"] * 100})
    list_ = frame.dp.keys(log, period="2026-W40", **asked)
    folder = list_.publish("public")
    found = [key for key in list_.table.column("key").to_pylist() if key != "rest"]
    assert set(found) >= {"a", "b", "rare"}
    column = dp.Schema.from_dict(from_lists(f"public/{folder.parent.name}/latest")).columns["page"]
    assert (list(column.keys), column.lists) == (found, (named(folder),))
    views = released(from_lists(f"public/{folder.parent.name}/latest"), "2026-W40")
    assert [key for (key,) in views.plan.keys] == found
    assert dp.verify(views.publish("public")).ok
    top = dp.read(folder).derive("top(persons, 2)").table.to_pylist()
    assert [row["page"] for row in top] == ["a", "b"]
    sure = dp.read(folder).derive("top(persons, 2)", certain=True).table.to_pylist()
    assert {row["page"] for row in sure} <= {"a", "b"}
    nobody = frame[:0].dp.keys(log, period="2026-W41", **asked).publish("public")
    with pytest.raises(ConfigError) as caught:
        dp.plan(from_lists(f"public/{nobody.parent.name}/2026-W41"))
    assert "it holds no key" in str(caught.value.why)


def test_a_list_that_was_named_otherwise_is_another_release(place):
    listed("ab", "2026-W40")
    folder = released(from_lists("public/pages/latest"), "2026-W40").publish("public")
    path = folder / "release.json"
    path.write_bytes(path.read_bytes().replace(b"pages/2026-W40@", b"pages/2026-W41@"))
    assert not dp.verify(folder, ledger=place / "ledger.db").ok


FAULTS = {
    "missing": "not a published folder",
    "tampered": "does not verify: files",
    "forged": "does not verify",
    "withdrawn": "withdrawn",
    "superseded": "superseded",
    "column": "not one table by `page`",
    "tables": "not one table by `page`",
    "empty": "holds no key",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_folder_that_gives_no_keys_is_refused_before_anything_is_spent(place, fault):
    folder = listed("a" if fault == "empty" else "ab", "2026-W40", other={"as": "a"})
    if fault == "missing":
        shutil.rmtree(folder)
    elif fault == "tampered":
        (folder / "data.csv").write_bytes(b"page,count\n")
    elif fault == "forged":
        path = folder / "release.json"
        path.write_bytes(path.read_bytes().replace(b'"b"', b'"q"'))
    elif fault == "withdrawn":
        withdraw(folder, reason="wrong rows")
    elif fault == "superseded":
        supersede(folder, by=listed("abc", "2026-W40-2"), reason="wrong rows")
    elif fault in ("column", "tables"):
        told = declared("pages2", {"values": ["a"]})
        told["columns"]["site"] = {"kind": "category", "values": ["x", "y"]}
        told["release"] = {"epsilon": 1, "by": ["site"], "statistics": ["count"]}
        if fault == "tables":
            tables = [
                {"name": "pages", "by": ["page"], "statistics": ["count"]},
                {"name": "both", "by": ["page", "site"], "statistics": ["count"]},
            ]
            told["release"] = {"epsilon": 1, "tables": tables}
        frame = FRAME.assign(site="x")
        made = dp.release(frame, told, ledger="ledger.db", dataset="log", period="w")
        folder = made.publish("public")
    before = Ledger.open(place / "ledger.db").budget("log").spent
    with pytest.raises(ConfigError) as caught:
        released(from_lists(f"public/{folder.parent.name}/{folder.name}"), "2026-W41")
    error = caught.value
    assert error.code == "DPR117"
    assert "columns.page.values_from" in str(error.where)
    assert FAULTS[fault] in f"{error.why}"
    assert "dprelease verify" in str(error.fix)
    assert Ledger.open(place / "ledger.db").budget("log").spent == before


@pytest.mark.parametrize(
    ("page", "code"),
    [
        ({"values_from": {"keys": []}}, "DPR112"),
        ({"values_from": {"key": "public"}}, "DPR110"),
        ({"values_from": {"keys": "../elsewhere"}}, "DPR116"),
        ({"values": ["a"], "values_from": {"keys": "public/pages/latest"}}, "DPR111"),
        ({"values_from": {"keys": f"pages/w@{'0' * 64}"}}, "DPR117"),
        ({"kind": "integer", "values_from": {"keys": "public/pages/latest"}}, "DPR158"),
        ({"values_from": 7}, "DPR108"),
    ],
)
def test_a_faulty_declaration_is_refused_at_its_place(place, page, code):
    with pytest.raises(DpreleaseError) as caught:
        dp.plan(declared("views", page))
    assert caught.value.code == code
    assert "columns.page" in str(caught.value.where)
    assert caught.value.fix


def test_a_request_holds_its_lists_and_an_approval_their_pipelines(place):
    listed("ab", "2026-W40")
    before = dp.plan(from_lists("public/pages/latest")).request
    assert request_to_json(request_from_json(request_to_json(before))) == request_to_json(before)
    listed("abc", "2026-W41")
    after = dp.plan(from_lists("public/pages/latest")).request
    assert request_to_json(after) != request_to_json(before)
    assert request_for_all_periods(after) == request_for_all_periods(before)
    column = request_for_all_periods(after)["schema"]["columns"]["page"]
    assert column == {"kind": "category", "values_from": ["pages"]}
    files = {**request_to_json(before), "schema": {**request_to_json(before)["schema"]}}
    files["schema"]["columns"] = {"page": {"kind": "category", "values_from": "pages.csv"}}
    with pytest.raises(ConfigError, match="names a file"):
        request_from_json(files)
    folders = {"page": {"kind": "category", "values_from": {"keys": "public/pages/latest"}}}
    files["schema"]["columns"] = folders
    with pytest.raises(ConfigError, match="names a file"):
        request_from_json(files)


PIPELINE = """\
dprelease: pipeline/1
name: weekly
source: {parquet: ../data/log.parquet}
schema: ../schemas/views.yaml
period: {column: at, every: week, timezone: UTC}
budget: {ledger: ../ledger.db, dataset: log, epsilon: 100}
publish: {to: ../public, formats: [csv]}
"""
SCHEMA = """\
dprelease: schema/1
name: views
unit: row
adjacency: add_remove
rows: {max: 1000}
columns:
  at:   {kind: timestamp}
  page: {kind: category, values_from: {keys: ../public/pages/latest}, other: {as: rest}}
release: {epsilon: 1, by: [page], statistics: [count]}
"""


def test_a_pipeline_fixes_its_list_too(place):
    for part in ("data", "schemas", "pipelines"):
        (place / part).mkdir()
    start = datetime(2026, 9, 28, tzinfo=UTC)
    at = [start + timedelta(hours=6 * i) for i in range(70)]
    FRAME.assign(at=at).to_parquet(place / "data" / "log.parquet")
    (place / "schemas" / "views.yaml").write_text(SCHEMA)
    path = place / "pipelines" / "weekly.yaml"
    path.write_text(PIPELINE)
    listed("ab", "2026-W40")
    now = datetime(2027, 1, 1, tzinfo=UTC)
    first = run_pipeline(path, period="2026-W40", now=now)
    before = held(first.folder)
    assert place / "public" / "pages" / "latest" / "release.json" in {
        p.parent.resolve().parent / "latest" / p.name for p in files_of(load_pipeline(path))
    }
    listed("abc", "2026-W41")
    again = run_pipeline(path, period="2026-W40", now=now)
    assert (again.receipt.fresh, held(again.folder)) == (False, before)
    later = run_pipeline(path, period="2026-W41", now=now)
    assert [key for (key,) in later.plan.keys] == ["a", "b", "c", "rest"]
    config = load_pipeline(path)
    assert b'"values_from":["pages"]' in plan_file(config, plan_pipeline(config), None).replace(
        b" ", b""
    )
    assert init_ledger(config).verify().ok
