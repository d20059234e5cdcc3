"""The head in a second place: a rolled back, rewritten or foreign ledger is told from a good one."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from dprelease.budget.head_file import check_head, read_head, write_head
from dprelease.budget.ledger import Ledger
from dprelease.budget.signature import load_signer
from dprelease.core.errors import LedgerError
from tests.budget.samples import entry, in_processes, new_ledger

SIGNER = load_signer("11" * 32, "test")
OTHER = load_signer("22" * 32, "test")


def code(call, *arguments) -> str:
    with pytest.raises(LedgerError) as caught:
        call(*arguments)
    return caught.value.code


@pytest.fixture
def place(tmp_path):
    return tmp_path / "second" / "head.json"


def test_a_ledger_holds_its_head_from_then_on(tmp_path, place):
    ledger = new_ledger(tmp_path)
    write_head(place, ledger.head())
    for period in "ab":
        ledger.charge(entry(period))
        assert check_head(place, ledger) != ledger.head()  # an earlier head of the same chain
    write_head(place, ledger.head())
    assert check_head(place, ledger) == ledger.head()
    assert [p.name for p in place.parent.iterdir()] == ["head.json"]


def test_an_older_copy_is_found(tmp_path, place):
    ledger = new_ledger(tmp_path)
    shutil.copy(ledger.path, tmp_path / "backup")
    ledger.charge(entry())
    write_head(place, ledger.head())
    shutil.copy(tmp_path / "backup", ledger.path)
    restored = Ledger.open(ledger.path)  # control: by itself it looks good
    restored.charge(entry())
    assert code(check_head, place, restored) == "DPR419"


def test_another_ledger_is_found(tmp_path, place):
    write_head(place, new_ledger(tmp_path).head())
    assert code(check_head, place, new_ledger(tmp_path, name="other")) == "DPR419"


@pytest.mark.parametrize(
    "data",
    [None, b"", b"{}", b"[1]", b"\xff", b'{"dprelease":"ledger-head/1","seq":true}', b"[" * 4000],
)
def test_a_head_that_is_missing_or_does_not_parse_is_not_passed_over(tmp_path, place, data):
    ledger = new_ledger(tmp_path)
    write_head(place, ledger.head())
    place.unlink()
    if data is not None:
        place.write_bytes(data)
    assert code(check_head, place, ledger) == "DPR419"


@pytest.mark.parametrize(
    ("foreign", "why"),
    [
        ('"seq":0,"seq":1', "a key occurs twice"),
        ('"seq":NaN', "NaN is not a number"),
        ('"seq":1,"more":-Infinity', "-Infinity is not a number"),
        ('"seq":1,"more":1e999', "a number is out of range"),
        ('"seq":1,"more":1', None),
    ],
)
def test_a_head_that_two_readers_read_differently_is_refused_and_says_why(
    tmp_path, place, foreign, why
):
    ledger = new_ledger(tmp_path)
    write_head(place, replace(ledger.head(), seq=1))
    text = place.read_text()
    assert text.count('"seq":1') == 1
    place.write_text(text.replace('"seq":1', foreign))
    if why is None:  # control: one key more does no harm
        assert read_head(place) == replace(ledger.head(), seq=1)
        return
    with pytest.raises(LedgerError, match=f"it does not parse: {why}") as caught:
        read_head(place)
    assert caught.value.code == "DPR419"


@pytest.mark.parametrize("seq", [10**30, 2**63, -(2**63) - 1, -1, 0])
def test_an_event_that_no_ledger_can_hold_is_not_held(tmp_path, place, seq):
    ledger = new_ledger(tmp_path)
    write_head(place, replace(ledger.head(), seq=seq))
    assert code(check_head, place, ledger) == "DPR419"


def test_a_link_is_not_followed(tmp_path, place):
    ledger = new_ledger(tmp_path)
    write_head(place, ledger.head())
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    assert code(check_head, place, ledger) == "DPR419"


def test_a_lower_head_never_replaces_a_higher_unless_told_to(tmp_path, place):
    ledger = new_ledger(tmp_path)
    first = ledger.head()
    ledger.charge(entry())
    last = ledger.head()
    write_head(place, last)
    write_head(place, first)
    assert read_head(place) == last
    write_head(place, first, replace=True)
    assert read_head(place) == first


def test_processes_leave_the_highest_head(tmp_path, place):
    ledger = new_ledger(tmp_path)
    anchor = ledger.head()
    assert in_processes(6, lambda i: write_head(place, replace(anchor, seq=i + 1))) == [0] * 6
    assert read_head(place).seq == 6


def test_a_signature_is_asked_for_and_checked(tmp_path, place):
    ledger = new_ledger(tmp_path)
    write_head(place, ledger.head(), SIGNER)
    assert check_head(place, ledger, SIGNER.public_key) == ledger.head()
    assert code(check_head, place, ledger, OTHER.public_key) == "DPR420"
    whole = json.loads(place.read_text())
    for change in ({"seq": whole["seq"] + 1}, {"signature": "00" * 64}, {"public_key": None}):
        place.write_text(json.dumps(whole | change))
        assert code(check_head, place, ledger, SIGNER.public_key) == "DPR420"
    write_head(place, ledger.head(), replace=True)  # its signature stripped
    assert code(check_head, place, ledger, SIGNER.public_key) == "DPR420"
    assert check_head(place, ledger) == ledger.head()


def test_a_full_place_leaves_the_old_head(tmp_path, place, monkeypatch):
    ledger = new_ledger(tmp_path)
    write_head(place, ledger.head())
    before = place.read_bytes()
    ledger.charge(entry())

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_head(place, ledger.head())
    assert place.read_bytes() == before
    assert len(list(place.parent.iterdir())) == 1
