"""No forged folder verifies, every honest one does, and each comparison that is taken out is missed.

`tests.forgeries` holds the forgeries with what they claim, `tests.folders` the honest folders.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dprelease.core.errors import DpreleaseError, VerificationError
from dprelease.measurements.law import draw_from_json
from dprelease.planning import again
from dprelease.verification import comparison, derivation
from dprelease.verification import verify as verification
from dprelease.verification.verify import verify
from tests.benchmarks.test_scripts import load
from tests.folders import (
    CASES,
    FULL,
    folder_of,
    manifest_of,
    planned,
    remade,
    schema,
    sealed,
    write,
)
from tests.forgeries import FORGERIES, ONLY_THE_LEDGER
from tests.sizes import FULL as EVERY_WAY
from tests.sizes import NIGHTLY

peak = load("peak")

MOST_SECONDS = 10
MOST_MEMORY = 500 * 2**20
OFTEN = (
    "groups of users",
    "a week",
    "a delta",
    "shares, weights, notes",
    "ranks",
    "a graph",
    "a view",
    "SQL",
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    """The files of one honest week, and the ledger that paid for it."""
    book = tmp_path_factory.mktemp("book") / "ledger.db"
    return folder_of(planned(schema(FULL), week="2026-W46"), book), book


def forged_folder(files, forgery, folder: Path) -> Path:
    place = write(folder, forgery.make(dict(files)))
    if forgery.place is not None:
        forgery.place(place)
    return place


def answer(folder: Path, **named) -> tuple[bool, str]:
    """Return whether the folder verifies, and what was said of it."""
    try:
        result = verify(folder, **named)
    except DpreleaseError as refusal:
        assert isinstance(refusal, VerificationError)
        assert len(str(refusal).encode()) <= 2100
        return False, str(refusal)
    said = "; ".join(f"{c.name}: {c.detail}" for c in result.checks if c.ok is False)
    assert all(len(c.detail.encode()) <= 2000 and c.detail.isprintable() for c in result.checks)
    return result.ok, said


def test_the_forger_s_tools_alone_change_nothing(honest, tmp_path):
    """The control: an honest folder passes, and comes back from the tools byte for byte."""
    files, book = honest
    assert remade(manifest_of(files)) == files == sealed(dict(files), manifest_of(files))
    folder = write(tmp_path / "release", files)
    assert answer(folder) == answer(folder, ledger=book) == (True, "")


def test_groups_that_a_plan_does_not_list_are_found_before_anything_is_planned(
    honest, tmp_path, monkeypatch
):
    """A request of a few bytes could ask for a million of them, and be planned for minutes."""
    manifest = manifest_of(honest[0])
    manifest["request"]["schema"]["columns"]["x"] = {"kind": "category", "values": ["a", "b"]}
    manifest["request"]["release"]["by"] = ["x", *manifest["request"]["release"].get("by", [])]
    monkeypatch.setattr(derivation, "plan_again", lambda *_: pytest.fail("it was planned"))
    ok, said = answer(write(tmp_path / "release", remade(manifest)))
    assert not ok
    assert "groups, the plan lists" in said


def test_every_forgery_says_what_it_claims():
    assert len(FORGERIES) >= 100
    assert all(f.claims for f in (*FORGERIES.values(), *ONLY_THE_LEDGER.values()))


def _from_here() -> int:
    """Let the high-water mark start anew; return where it stands, in bytes."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak.peak_bytes()


def test_all_forgeries_within_their_time_and_memory(honest, tmp_path, evidence):
    """Whatever a folder holds, the answer comes soon; memory is the high-water mark from here on.

    The mark of the whole process would hide up to as much as an earlier test, or a parent, once held.
    """
    slowest, missed = 0.0, {}
    before = _from_here()
    held = bytearray(b"1") * (64 << 20)
    del held
    assert peak.peak_bytes() - before >= 60 << 20  # it sees what is held for a moment
    before = _from_here()
    for i, (name, forgery) in enumerate(FORGERIES.items()):
        folder = forged_folder(honest[0], forgery, tmp_path / str(i))
        started = time.perf_counter()
        ok, said = answer(folder)
        if ok or not said:
            missed[name] = forgery.claims
        slowest = max(slowest, time.perf_counter() - started)
        shutil.rmtree(folder)
    assert missed == {}, "these folders verify, or nothing is said of them"
    grown = peak.peak_bytes() - before
    assert grown <= MOST_MEMORY
    evidence(
        "forged folders", f"{len(FORGERIES)} kinds",
        f"none verifies; slowest answer {slowest:.1f} s, {grown / 2**20:.0f} MB more",
    )  # fmt: skip


@pytest.mark.parametrize("name", ONLY_THE_LEDGER)
def test_another_draw_or_receipt_needs_the_ledger(honest, tmp_path, name):
    """What the derivation cannot know, and says so: with the ledger at hand it is found."""
    files, book = honest
    folder = forged_folder(files, ONLY_THE_LEDGER[name], tmp_path / "release")
    assert verify(folder).ok
    assert verify(folder).not_checked == ("ledger",)
    ok, said = answer(folder, ledger=book)
    assert not ok
    assert said.startswith("ledger: ")


@pytest.mark.parametrize("name", CASES if NIGHTLY else OFTEN)
def test_an_honest_folder_verifies(tmp_path, name):
    book = tmp_path / "book" / "ledger.db"
    book.parent.mkdir()
    folder = write(tmp_path / "release", folder_of(CASES[name](), book))
    assert answer(folder, ledger=book) == (True, "")
    if EVERY_WAY:
        assert answer(folder) == (True, "")


@pytest.mark.parametrize("formats", [("parquet",), ("csv",), ("html",), ("html", "csv")])
def test_an_honest_folder_of_few_formats_verifies(tmp_path, formats):
    book = tmp_path / "book" / "ledger.db"
    book.parent.mkdir()
    folder = write(tmp_path / "release", folder_of(planned(schema(FULL)), book, formats))
    assert answer(folder, ledger=book) == (True, "")


# --- broken twins: the comparison that finds a forgery, taken out -----------------------------

TWINS = {
    "figures are not compared": (
        "a rival's error made worse",
        again,
        "_same_figures",
        lambda *_: True,
    ),
    "a law may have any integers": (
        "a law with a little more noise",
        again,
        "_with_law",
        lambda _, fresh, law, __: replace(fresh, law=draw_from_json(law)),
    ),
    "other budgets are not compared": (
        "errors at other budgets",
        derivation,
        "near",
        lambda *_: True,
    ),
    "files are not compared": ("any report", verification, "differences", lambda *_: {}),
    "software has no bound": ("rows in the software", derivation, "SOFTWARE", (10**9, 10**9)),
    "Parquet may hold gaps": (
        "bytes between Parquet's pages",
        comparison,
        "_fills",
        lambda *_: True,
    ),
    "Parquet tables are not compared": (
        "other intervals in Parquet",
        comparison,
        "_same_table",
        lambda *_: True,
    ),
    "instants may be any text": (
        "a schedule in words",
        derivation,
        "_instant",
        lambda value, *_: value,
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_a_comparison_that_is_taken_out_lets_a_forgery_through(honest, tmp_path, monkeypatch, name):
    forgery, module, attribute, broken = TWINS[name]
    folder = forged_folder(honest[0], FORGERIES[forgery], tmp_path / "release")
    assert not answer(folder)[0]
    monkeypatch.setattr(module, attribute, broken)
    assert answer(folder)[0]


UNDRAWABLE = [
    ("a public constant", "constant", "59"),
    ("no point masses", "scalar", "100000"),
    ("no point masses", "mean", "100000"),
    ("persons, distinct, worst answer", "optimal_grid", "5"),
    ("ranks", "permute_and_flip", "-1"),
]
"""Case, draw or its law's family, an integer outside what it can draw."""


@pytest.mark.parametrize(("name", "draw", "integer"), UNDRAWABLE)
def test_an_integer_that_its_law_cannot_draw_is_found(tmp_path, monkeypatch, name, draw, integer):
    """Readers clamp a value into its domain, so nothing else would show it."""
    book = tmp_path / "book" / "ledger.db"
    book.parent.mkdir()
    manifest = manifest_of(folder_of(CASES[name](), book))
    block = next(
        b
        for b in manifest["plan"]["blocks"]
        if draw in (b["law"]["draw"], b["law"].get("law", {}).get("family"))
    )
    manifest["draw"]["cells"][block["name"]][0][-1] = integer
    folder = write(tmp_path / "release", remade(manifest))
    assert "holds an integer that its law cannot draw" in answer(folder)[1]
    kind = type(draw_from_json(block["law"]))
    monkeypatch.setattr(kind, "drawable", lambda _, raw: np.ones(len(raw), dtype=bool))
    assert answer(folder)[0]  # its broken twin


def test_what_takes_too_long_is_refused_in_words(honest, tmp_path):
    folder = write(tmp_path / "release", honest[0])
    ok, said = answer(folder, patience=1e-9)
    assert not ok
    assert "is not verified within 1e-09 seconds" in said
    assert "DPR804" in said
