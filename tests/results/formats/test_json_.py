"""The manifest: strict, deterministic, rebuilds the plan, independent of retries."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest

from dprelease.release_plan.block import Block
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.formats.json_ import build_manifest, manifest_bytes, write
from dprelease.results.validate.rules import check
from tests.results.formats import releases

GOOD = releases.clinic()
FILES = {"data.csv": b"a,b\n", "wide.csv": b""}


def manifest(release=GOOD, **more):
    return build_manifest(release, check(release), FILES, software=releases.SOFTWARE, **more)


def test_the_text_is_strict_json_and_reads_back():
    def refuse(name):
        raise AssertionError(name)

    data = manifest_bytes(manifest())
    assert json.loads(data, parse_constant=refuse) == manifest()
    assert data == manifest_bytes(manifest())
    assert write(GOOD, manifest()) == {"release.json": data}
    with pytest.raises(ValueError, match="JSON"):
        manifest_bytes({"x": float("nan")})


def test_the_manifest_holds_what_verification_needs():
    m = manifest()
    assert m["dprelease"] == "release/2"
    assert m["plan_hash"] == GOOD.plan.hash
    assert m["files"]["data.csv"] == {"sha256": hashlib.sha256(b"a,b\n").hexdigest(), "bytes": 4}
    assert m["ledger"] == {"ledger_id": "0f" * 16, "seq": 17, "head_hash": "ab" * 32}
    assert m["guarantee"]["epsilon"] == "1/2"
    assert m["validation"]["ok"] is True
    assert (
        tuple(PlannedStatistic.from_json(s) for s in m["plan"]["statistics"])
        == GOOD.plan.statistics
    )
    assert tuple(Block.from_json(b) for b in m["plan"]["blocks"]) == GOOD.plan.blocks


def test_cells_are_strings_because_readers_lose_large_integers():
    big = 2**53 + 1
    release = releases.Draw(GOOD.plan, GOOD.table, {"rows": ((big,), (-1,), (0,))}, GOOD.receipt)
    back = json.loads(manifest_bytes(manifest(release)))
    assert back["draw"]["cells"]["rows"] == [[str(big)], ["-1"], ["0"]]
    assert int(float(big)) != big  # the control: a number would have been rounded by such a reader


def test_a_retry_gives_the_same_bytes():
    later = replace(GOOD.receipt, spent="11", budget="20", fresh=False)
    retry = releases.Draw(GOOD.plan, GOOD.table, GOOD.cells, later)
    assert manifest_bytes(manifest(retry)) == manifest_bytes(manifest())


def test_an_unledgered_release_has_no_anchor():
    receipt = releases.Receipt("1/2", "0", "one row, added or removed")
    m = manifest(releases.Draw(GOOD.plan, GOOD.table, GOOD.cells, receipt))
    assert m["ledger"] is None
    assert m["pipeline"] is None
