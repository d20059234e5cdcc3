"""Keys that nobody declared: found, charged, published, verified; what is not published is nowhere."""

from __future__ import annotations

import inspect
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.core.strict_json import canonical_json, read_json
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.engines.source import as_source
from dprelease.facade import plan
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import as_schema
from dprelease.query.merge import merge_release
from dprelease.query.request import request_from_json
from dprelease.query.spec import resolve
from dprelease.query.written import request_to_json
from dprelease.schema.naming import found_key
from dprelease.verification.fits import are_found

pytestmark = pytest.mark.filterwarnings("ignore::dprelease.UnledgeredWarning")

PERSON = {"user": "who", "max_groups": 3, "max_rows_per_group": 2}
HOSTILE = {
    "a tab\tin it": False,
    "x" * 201: False,
    "x" * 10_000: False,
    "": False,
    "   ": False,
    "\u202eturned": False,
    "two\nlines": False,
    "nul\x00inside": False,
    "y" * 200: True,
    "=cmd|' /C calc'!A0": True,
    "<script>alert(1)</script>": True,
    "qu\"o'te,;": True,
    "\u00e9": True,
    "e\u0301": True,
    "\U0001f600": True,
    "\U0001f600" * 200: True,
    "\U0001f600" * 201: False,
    "\u00c5": True,
    "A\u030a": True,
    "\u212b": True,
    "\u00a0blank\u00a0": True,
    "\u3000": True,
    "\u200fmarked": True,
    "\u2066apart\u2069": False,
    "\u2028": False,
    "\x7f": False,
    "\x85": False,
    "\uffff": False,
    "\U0010ffff": False,
    "100%_\\d[a]^$": True,
    "{{ 7 * 7 }}": True,
}


def schema_of(unit: object = "row", adjacency: str = "add_remove", **page: Any) -> dict[str, Any]:
    return {
        "dprelease": "schema/1",
        "name": "log",
        "unit": unit,
        "adjacency": adjacency,
        "columns": {"who": {"kind": "identifier"}, "page": {"kind": "category", **page}},
    }


def found(
    frame: pd.DataFrame, schema: Mapping[str, Any], tmp_path: Path, **asked: Any
) -> tuple[dp.Keys, Path, Path]:
    (tmp_path / "private").mkdir(exist_ok=True)
    ledger = dp.create_ledger(tmp_path / "private" / "l.db", schema, epsilon=9, delta="1e-3")
    given = {"column": "page", "epsilon": 1, "delta": "1e-6", **asked}
    keys = frame.dp.keys(schema, ledger=ledger, **given)
    return keys, keys.publish(tmp_path / "public"), ledger


def rows(texts: list[str], persons: int) -> pd.DataFrame:
    """Return every text once for each of so many persons, who have nothing else."""
    pairs = [(f"{i}-{n}", text) for i, text in enumerate(texts) for n in range(persons)]
    return pd.DataFrame(pairs, columns=["who", "page"])


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
@pytest.mark.parametrize(("unit", "most"), [("row", 1), (PERSON, 1), (PERSON, 3)])
def test_a_list_is_an_ordinary_folder_that_verifies(
    unit: object, most: int, adjacency: str, tmp_path: Path
) -> None:
    frame = pd.concat([rows(["/a", "/b", "/c"], 300), rows(["/rare"], 1)])
    schema = schema_of(unit, adjacency)
    keys, folder, ledger = found(frame, schema, tmp_path, max_keys=most)
    assert keys.table.column_names == ["key", "persons", "lower", "upper"]
    assert keys.table.column("key").to_pylist() == ["/a", "/b", "/c"]
    tidy = pd.read_csv(folder / "data.csv")
    assert list(tidy)[:3] == ["page", "statistic", "value"]
    assert set(tidy["statistic"]) == {"persons"}
    assert (tidy["certain_lower"] <= 300).all()
    assert (tidy["certain_upper"] >= 300).all()
    assert dp.verify(folder).ok
    assert dp.verify(folder, ledger=ledger).ok
    block = dp.read(folder).plan.blocks[0]
    assert block.law.to_json()["keys"] == most * (2 if adjacency == "substitution" else 1)
    with pytest.warns(dp.NotReadWarning):
        again = rows([], 0).dp.keys(
            schema, column="page", epsilon=1, delta="1e-6", max_keys=most, ledger=ledger
        )
    assert again.table.equals(keys.table)


def test_hostile_texts_are_other_or_as_they_are(tmp_path: Path) -> None:
    frame = rows(list(HOSTILE), 100)
    keys, folder, _ = found(frame, schema_of(PERSON, other={"as": "rest"}), tmp_path)
    kept = {text for text, fits in HOSTILE.items() if fits}
    assert set(keys.table.column("key").to_pylist()) == kept | {"rest"}
    rest = dict(zip(*(keys.table.column(c).to_pylist() for c in ("key", "persons")), strict=True))
    assert abs(rest["rest"] - 100 * (len(HOSTILE) - len(kept))) < 50
    assert dp.verify(folder).ok
    for text, fits in HOSTILE.items():
        assert found_key(text, "rest", None) == (text if fits else "rest")


def test_no_text_of_an_unpublished_key_is_anywhere(tmp_path: Path) -> None:
    common, canary = "/everybody", "/canary-5f3b"
    frame = pd.concat([rows([common], 200), rows([f"{canary}-{i}" for i in range(50)], 1)])
    keys, _, _ = found(frame, schema_of(PERSON), tmp_path)
    assert keys.table.column("key").to_pylist() == [common]
    assert canary not in repr(keys) + str(keys.plan) + json.dumps(keys.manifest)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert canary.encode() not in path.read_bytes(), path
            assert path.suffix == ".db" or b"canary" not in path.read_bytes()


def test_nobody_has_a_key(tmp_path: Path) -> None:
    keys, folder, _ = found(rows(["/a"], 1), schema_of(PERSON), tmp_path)
    assert keys.table.num_rows == 0
    assert dp.verify(folder).ok


def test_a_forged_list_does_not_verify(tmp_path: Path) -> None:
    _, folder, _ = found(rows(["/a", "/b"], 200), schema_of(), tmp_path)
    manifest = json.loads((folder / "release.json").read_text())
    for keys in (["/a", "/z"], ["/b", "/a"], ["/a", "/a"], ["/a", "b\u202e"], ["/a"]):
        manifest["draw"]["keys"] = keys
        (folder / "release.json").write_text(json.dumps(manifest))
        assert not dp.verify(folder).ok


@pytest.mark.parametrize("keys", [["/b", "/a"], ["/a", "/a"], ["/a", "b\u202e"], [""]])
def test_texts_that_nobody_can_have_found(keys: list[str]) -> None:
    column = as_schema(schema_of()).columns["page"]
    assert not are_found(keys, column)
    assert are_found(["/a", "/b"], column)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"delta": 0}, "DPR135"),
        ({"column": "who"}, "DPR136"),
        ({"column": "nowhere"}, "DPR122"),
        ({"epsilon": "1e-6", "delta": "1e-9"}, "DPR213"),
    ],
)
def test_what_cannot_be_found_is_refused(asked: dict[str, Any], code: str) -> None:
    given = {"column": "page", "epsilon": 1, "delta": "1e-6", **asked}
    with pytest.raises(dp.DpreleaseError) as refused:
        rows(["/a"], 3).dp.keys(schema_of(), **given)
    assert refused.value.code == code


def test_declared_values_are_its_keys_already() -> None:
    with pytest.raises(dp.ConfigError, match="no keys can be found"):
        rows(["/a"], 3).dp.keys(schema_of(values=["/a"]), column="page", epsilon=1, delta="1e-6")


def test_other_releases_need_declared_values() -> None:
    with pytest.raises(dp.ConfigError, match="needs either `values` or `values_from`"):
        plan(schema_of(), epsilon=1, by=["page"], statistics=["count"])


def test_a_ledger_by_rho_refuses_it(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    ledger = dp.create_ledger(
        tmp_path / "private" / "l.db", schema_of(), epsilon=9, delta="1e-3", composition="zcdp"
    )
    with pytest.raises(dp.DpreleaseError, match="rho"):
        rows(["/a"], 3).dp.keys(schema_of(), column="page", epsilon=1, delta="1e-6", ledger=ledger)


@pytest.mark.parametrize("unit", ["row", PERSON])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_engines_find_the_same_keys_of_the_same_persons(unit: object, most: int) -> None:
    rng = np.random.default_rng(7)
    texts = [*HOSTILE, *(f" /p{i} " for i in range(20))]
    frame = pd.DataFrame(
        {
            "who": rng.integers(0, 40, 600),
            "page": [
                None if i == 0 else texts[i - 1] for i in rng.integers(0, len(texts) + 1, 600)
            ],
        }
    )
    schema = schema_of(unit, other={"as": "rest"}, nulls={"as": "none"})
    made = plan_of(schema, most)
    answers = []
    for engine in (DuckDBEngine(), ReferenceEngine()):
        answer = engine.compute(as_source(frame), made.query, b"salt").reveal_to_mechanism()
        answers.append(dict(zip(answer.keys.to_pylist(), answer.sums[:, 0].tolist(), strict=True)))
    assert answers[0] == answers[1]
    if unit == "row":
        keys = (found_key(None if pd.isna(t) else t, "rest", "none") for t in frame["page"])
        assert answers[0] == Counter(keys)
    else:
        assert sum(answers[0].values()) <= 40 * most


def plan_of(schema: Mapping[str, Any], most: int) -> Any:
    asked = {"column": "page", "epsilon": 1, "delta": "1e-6", "max_keys": most}
    return plan_release(as_schema(schema), {"keys": asked})


def test_another_persons_keys_move_none_of_a_persons_own() -> None:
    mine = pd.DataFrame({"who": "me", "page": [f"/mine{i}" for i in range(6)]})
    made = plan_of(schema_of(PERSON), 2)
    seen = set()
    for count in range(8):
        others = rows([f"/a{i}" for i in range(count)], 2)
        table = as_source(pd.concat([others, mine]))
        answer = DuckDBEngine().compute(table, made.query, b"salt").reveal_to_mechanism()
        seen.add(tuple(sorted(k for k in answer.keys.to_pylist() if k.startswith("/mine"))))
    assert len(seen) == 1
    assert len(next(iter(seen))) == 2


def test_a_pipeline_finds_keys_once_by_command_or_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows(["/a", "/b"], 300).to_parquet("log.parquet")
    release = {"keys": {"column": "page", "epsilon": 1, "delta": "0.000001"}}
    Path("log.yaml").write_text(json.dumps(schema_of(PERSON) | {"release": release}))
    budget = {"ledger": "private/l.db", "dataset": "log", "epsilon": 2, "delta": "0.00001"}
    pipeline: dict[str, Any] = {
        "dprelease": "pipeline/1",
        "name": "pages",
        "source": {"parquet": "log.parquet"},
        "schema": "log.yaml",
        "budget": budget,
        "publish": {"to": "public"},
    }
    Path("pages.yaml").write_text(json.dumps(pipeline))

    def said(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, list(words))
        return done.exit_code, done.output

    assert said("ledger", "init", "pages.yaml")[0] == 0
    assert said("keys", "pages.yaml", "--period", "first")[0] == 0
    folder = Path("public/pages/first")
    assert set(pd.read_csv(folder / "data.csv")["page"]) == {"/a", "/b"}
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    status, output = said("run", "pages.yaml", "--period", "first", "--quiet")
    assert (status, "cost nothing" in output) == (0, True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    status, output = said("verify", str(folder), "--ledger", "private/l.db")
    assert (status, "keys that were left out are in no folder" in output) == (0, True)

    Path("log.yaml").write_text(
        json.dumps(schema_of(PERSON) | {"release": {"epsilon": 1, "statistics": ["count"]}})
    )
    status, output = said("keys", "pages.yaml", "--period", "second")
    assert (status, "finds no keys" in output) == (2, True)


def test_keys_are_not_found_among_doubles_whose_text_one_empty_cell_can_change() -> None:
    whole = pd.DataFrame({"page": [10**17, 2**60] * 200})
    shown = whole.dp.keys(schema_of(), column="page", epsilon=1, delta="1e-6").table
    assert shown.column("key").to_pylist() == ["100000000000000000", "1152921504606846976"]
    one_more = pd.DataFrame({"page": [10**17, 2**60] * 200 + [None]})
    assert str(one_more["page"].dtype) == "float64"
    with pytest.raises(dp.SourceError, match="floating-point") as refused:
        one_more.dp.keys(schema_of(), column="page", epsilon=1, delta="1e-6")
    assert refused.value.code == "DPR504"
    asked = one_more.astype("Int64").dp.keys(schema_of(), column="page", epsilon=1, delta="1e-6")
    assert asked.table.column("key").to_pylist() == shown.column("key").to_pylist()


def test_found_keys_are_declared_as_the_texts_that_they_are(tmp_path: Path) -> None:
    frame = rows(["1", "TRUE", "5.0", "2024-01-02"], 400)
    _, folder, _ = found(frame, schema_of(PERSON), tmp_path)
    (tmp_path / ".dprelease").mkdir()
    (tmp_path / "s.json").write_text(
        json.dumps(
            schema_of(other={"as": "rest"}, values_from={"keys": str(folder.relative_to(tmp_path))})
            | {"rows": {"max": 10_000}}
        )
    )
    cells = ["1", " 1 ", "01", "1.0", "true", "TRUE", "5", "5.0", "2024-01-02 00:00:00"]
    made = plan(tmp_path / "s.json", epsilon=1, by=["page"], statistics=["count"])
    table = as_source(pd.DataFrame({"page": cells}))
    for engine in (DuckDBEngine(), ReferenceEngine()):
        answer = engine.compute(table, made.query, b"").reveal_to_mechanism()
        counts = dict(zip((k for (k,) in made.keys), answer.sums[:, 0].tolist(), strict=True))
        assert counts == {"1": 2, "TRUE": 1, "5.0": 1, "2024-01-02": 0, "rest": 5}
    doubles = pd.DataFrame({"page": [1.0, 5.0]})
    with pytest.raises(dp.SourceError, match="floating-point"):
        doubles.dp.release(tmp_path / "s.json", epsilon=1, by=["page"], statistics=["count"])


@pytest.mark.parametrize("word", ["other", "nulls"])
@pytest.mark.parametrize("label", ["", "x" * 201, "two\nlines", " a"])
def test_what_other_cells_are_called_is_a_key_like_others(word: str, label: str) -> None:
    with pytest.raises(dp.ConfigError) as refused:
        dp.keys(
            rows(["/a"], 1),
            schema_of(**{word: {"as": label}}),
            column="page",
            epsilon=1,
            delta="1e-6",
        )
    assert refused.value.code == "DPR112"


@pytest.mark.parametrize("word", ["other", "nulls"])
def test_a_label_without_a_character_is_read_where_it_was_published(
    word: str, tmp_path: Path
) -> None:
    schema = schema_of(values=["/a", "/b"], **{word: {"as": ""}}) | {"rows": {"max": 100}}
    ledger = dp.create_ledger(tmp_path / "l.db", schema, epsilon=9, delta=0)
    asked = {"epsilon": 1, "by": ["page"], "statistics": ["count"], "ledger": ledger}
    done = rows(["/a", "/c"], 9).dp.release(schema, **asked)
    assert dp.verify(done.publish(tmp_path / "public")).ok
    listed = as_schema(schema_of(**{word: {"as": ""}}))
    found = {"keys": {"column": "page", "epsilon": 1, "delta": "1e-6", "max_keys": 1}}
    earlier = resolve(listed, merge_release(listed, found, "keys(...)"))
    assert request_from_json(read_json(canonical_json(request_to_json(earlier)))).spec.found == 1


def test_a_frame_is_asked_by_the_same_words() -> None:
    asked = [
        {name: p for name, p in inspect.signature(door).parameters.items() if name not in given}
        for door, given in ((dp.keys, {"data"}), (dp.Accessor.keys, {"self"}))
    ]
    assert asked[0] == asked[1]


def test_nothing_is_computed_with_a_list_that_is_empty(tmp_path: Path) -> None:
    _, folder, _ = found(rows(["/a"], 1), schema_of(PERSON), tmp_path)
    held = dp.read(folder)
    assert held.to_pandas().empty
    for expression in ("top(persons, 3)", "persons", "share(persons)", "rank(persons)"):
        with pytest.raises(dp.ArgumentError, match="no group"):
            held.derive(expression)
    with pytest.raises(dp.ArgumentError, match="nothing to plot"):
        held.plot("persons")
