"""A folder of somebody else's beside one's own: readers answer soon, in words, and show the others.

One value of an honest manifest is replaced by something hostile, at every place; then everything that
reads foreign folders reads it: verification, the series with its page, index and feed, citations of
the ledger, the record of corrections, `latest`.
"""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path

import pytest

from dprelease.budget.citation import read_citations
from dprelease.core.errors import DpreleaseError, LedgerError, VerificationError
from dprelease.results import corrections
from dprelease.results.formats.json_ import FILE
from dprelease.results.publish import publish_files
from dprelease.results.series.collect import collect
from dprelease.results.series.correct import withdraw
from dprelease.results.series.write import files_of, refresh
from dprelease.verification.verify import verify
from tests.folders import FULL, folder_of, manifest_of, planned, schema, write
from tests.sizes import sized, whole

HOSTILE = [
    5, -1, 0.5, True, None, "", "x", [], {}, [[]], {"a": []}, "1e1000000000", "9" * 5000, 10**400, "1/0", "NaN", "../../x",
    "\u202e\x00", "x" * 100_000, 1e308, "-1/3", [None] * 1000,
]  # fmt: skip
MOST_SECONDS = 10


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return folder_of(planned(schema(FULL)), tmp_path_factory.mktemp("book") / "ledger.db")


def places(value, path=()):
    """Yield the path of every value, lists by their first two items."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value[:2]):
            yield from places(inner, (*path, i))


def replaced(manifest, path, new):
    if not path:
        return new
    out = json.loads(json.dumps(manifest))
    place = out
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = new
    return out


def answers(pipeline: Path) -> None:
    """Let all readers read; whatever is wrong is said by an error of ours, and soon."""
    for read in (
        lambda: verify(pipeline / "2026-W45").to_json(),
        lambda: files_of(collect(pipeline)),
        lambda: read_citations([pipeline.parent]),
    ):
        started = time.perf_counter()
        try:
            read()
        except DpreleaseError as refusal:
            assert isinstance(
                refusal, VerificationError | LedgerError
            )  # exit status 1, nothing spent
            assert len(str(refusal).encode()) <= 2100
        assert time.perf_counter() - started < MOST_SECONDS


def test_any_value_at_any_place_of_a_manifest(honest, tmp_path, evidence):
    pipeline = tmp_path / "public" / "clinic_weekly"
    write(pipeline / "2026-W46", honest)
    manifest = manifest_of({**honest})
    other = json.loads(json.dumps(manifest).replace("2026-W46", "2026-W45"))
    write(pipeline / "2026-W45", honest)
    cases = [(path, value) for path in places(other) for value in HOSTILE]
    tried = random.Random(5).sample(cases, min(len(cases), sized(whole(30, 80), 8000)))
    tried += [(("plan",), 5), (("guarantee", "epsilon"), "1e1000000000"), (("ledger", "seq"), "x")]
    for path, value in tried:
        text = json.dumps(replaced(other, path, value))
        (pipeline / "2026-W45" / FILE).write_text(text)
        answers(pipeline)
        assert "2026-W46" in [p.name for p in collect(pipeline).periods]
    evidence(
        "foreign manifests",
        f"{len(tried):,} of {len(cases):,} hostile values",
        "an answer or a refusal, soon; 0 tracebacks",
    )


TEXTS = {
    "nothing": b"",
    "a number": b"5",
    "a list of lists": b"[" * 100_000,
    "not UTF-8": b'{"dprelease": "\xff"}',
    "a plan that is a number": b'{"dprelease": "release/2", "plan": 5, "guarantee": {}, "ledger": {"seq": 1}}',
    "a key twice": b'{"dprelease": "release/2", "dprelease": "release/2"}',
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_manifest_that_is_none(honest, tmp_path, name):
    pipeline = tmp_path / "public" / "clinic_weekly"
    write(pipeline / "2026-W46", honest)
    write(pipeline / "2026-W45", {**honest, FILE: TEXTS[name]})
    answers(pipeline)
    series = collect(pipeline)
    assert (series.unreadable, len(series.periods)) == (("2026-W45",), 1)
    assert b"2026-W45" in files_of(series)["index.json"]


@pytest.mark.parametrize(
    "text", [b"5", b"{}", b"[" * 100_000, b'{"dprelease": "status/1", "entries": 5}', b'{"dprelease": "status/1", "entries": [5]}',
             b'{"dprelease": "status/1", "entries": [{"by": 5}]}', b"\xff"],
)  # fmt: skip
def test_a_record_of_corrections_that_is_none(honest, tmp_path, text):
    place = tmp_path / "public" / "clinic_weekly"
    folder = write(place / "2026-W46", honest)
    (place / corrections.FILE).write_bytes(text)
    for read in (
        lambda: collect(place),
        lambda: refresh(place),
        lambda: withdraw(folder, reason="x"),
    ):
        with pytest.raises(VerificationError) as caught:
            read()
        assert caught.value.code == "DPR830"
    assert [c.name for c in verify(folder).checks if c.ok is False] == ["status"]


@pytest.mark.parametrize("what", ["huge", "link", "pipe", "folder"])
def test_a_record_of_corrections_that_is_not_a_file_of_its_size(honest, tmp_path, what):
    place = tmp_path / "public" / "clinic_weekly"
    folder = write(place / "2026-W46", honest)
    record = place / corrections.FILE
    if what == "huge":
        record.touch()
        os.truncate(record, 50 * 2**30)
    elif what == "link":
        record.symlink_to("/dev/zero")
    elif what == "pipe":
        os.mkfifo(record)
    else:
        record.mkdir()
    assert [c.name for c in verify(folder).checks if c.ok is False] == ["status"]
    with pytest.raises(VerificationError):
        collect(place)


def test_files_of_any_size_beside_one_s_own(honest, tmp_path):
    """A publisher compares sizes before bytes, and passes over what cannot be his own page."""
    public = tmp_path / "public"
    publish_files(public, "clinic_weekly", "2026-W46", honest)
    place = public / "clinic_weekly"
    write(place / "2026-W45", honest)
    for name in ("index.html", "2026-W45/data.csv", "2026-W45/extra.bin"):
        (place / name).touch()
        os.truncate(place / name, 50 * 2**30)
    started = time.perf_counter()
    assert publish_files(public, "clinic_weekly", "2026-W46", honest) == place / "2026-W46"
    assert "index.html" in refresh(place)
    assert collect(place).unreadable == ("2026-W45",)
    assert time.perf_counter() - started < MOST_SECONDS
