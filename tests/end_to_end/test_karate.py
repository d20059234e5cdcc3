"""The karate club: the bounded Gaussian paper's query, from a pipeline file to a verified folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from dprelease.pipeline.run import init_ledger, load_pipeline
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.spec import resolve
from dprelease.verification.verify import verify
from tests.end_to_end.projects import ROOT, command, repeatable
from tests.sizes import FULL


@pytest.fixture
def karate(tmp_path: Path) -> Path:
    """Copy the project, without a ledger."""
    files = ("schemas/karate.yaml", "pipelines/karate.yaml", "examples/data/karate_edges.csv")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".dprelease").mkdir()
    return tmp_path


@pytest.mark.skipif(not FULL, reason="docs/tutorials/graph.md runs it too: `make evidence`")
def test_run_publish_verify(karate: Path) -> None:
    pipeline = karate / "pipelines" / "karate.yaml"
    init_ledger(load_pipeline(pipeline))
    done = command("run", pipeline, folder=karate)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = karate / "public" / "karate" / "once"
    checked = verify(folder, ledger=karate / ".dprelease" / "ledger.db")
    assert checked.ok, str(checked)
    manifest = json.loads((folder / "release.json").read_bytes())
    assert "2 edges, added or removed" in manifest["guarantee"]["statement"]


def test_values_lie_in_the_box_and_rows_may_be_written_any_way(
    karate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pandas as pd

    import dprelease as dp

    edges = pd.read_csv(karate / "examples" / "data" / "karate_edges.csv")
    mirrored = pd.concat([edges, edges.rename(columns={"a": "b", "b": "a"})])
    mess = pd.concat([mirrored, pd.DataFrame({"a": [5, 99, None], "b": [5, 0, 3]})])
    tables = []
    for rows in (edges, mess.sample(frac=1, random_state=1)):
        repeatable(monkeypatch, "karate")
        with pytest.warns(dp.UnledgeredWarning):
            released = rows.dp.release(karate / "schemas" / "karate.yaml")
        tables.append(released.table.to_pandas())
    first = tables[0].set_index("statistic")["value"]
    assert tables[0].equals(tables[1])
    assert 0 <= first["lambda_2"] <= 10
    assert 1 <= first["degree_0"] <= 17
    assert first["degree_0"] == int(first["degree_0"])


def test_the_plan_names_what_other_laws_would_reach(karate: Path) -> None:
    schema = Schema.load(karate / "schemas" / "karate.yaml")
    assert schema.release is not None
    plan = make_plan(resolve(schema, schema.release))
    (block,) = plan.to_json()["blocks"]
    assert block["family"] == "graph_box"
    assert block["measurement"]["linf_per_component"] == [
        "3001",
        "2",
    ]  # k + 1 and k; rounding and tau cost a step
    for statistic in plan.statistics:
        first, *others = statistic.chosen
        assert first.mechanism == "bounded_gaussian"
        assert any("by itself at epsilon/2" in o.note for o in others)
        assert first.expected_error is not None
        assert min(o.expected_error or 0 for o in others) < first.expected_error
