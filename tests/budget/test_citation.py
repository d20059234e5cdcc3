"""Manifests against the ledger: lost, foreign and rolled back ledgers, and recovery."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from fractions import Fraction

import pytest

from dprelease.budget import citation
from dprelease.budget.citation import Citation, read_citations
from dprelease.budget.ledger import Anchor, Ledger
from dprelease.core.errors import BudgetError, LedgerError
from tests.budget.samples import UNIT, entry, key, manifest, new_ledger, release


def code_of(kind, call, *args, **kwargs):
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    return caught.value.code


@pytest.fixture
def public(tmp_path):
    return tmp_path / "public"


@pytest.fixture
def ledger(tmp_path, public):
    made = new_ledger(tmp_path)
    release(made, entry("2030-01"), public)
    return made


def test_a_manifest_is_read_back_as_its_debit(ledger, public):
    release(ledger, entry("2030-02"), public)
    found = read_citations([public])
    assert [c.entry.key.period for c in found] == ["2030-01", "2030-02"]
    assert [c.anchor for c in found] == [row.anchor for row in ledger.entries()]
    assert all(ledger.anchor_ok(c.anchor) for c in found)
    assert found[0].entry.epsilon == Fraction(1, 10)
    assert read_citations([public / "weekly" / "2030-01" / "release.json"]) == found[:1]
    assert read_citations([public / "nowhere"]) == []


def test_hidden_folders_links_and_other_files_are_not_manifests(ledger, public):
    for place in (public / "weekly" / ".publishing-x", public / ".hidden" / "x"):
        place.mkdir(parents=True)
        (place / "release.json").write_text("garbage")
    (public / "index.html").write_text("hello")
    (public / "weekly" / "notes.txt").write_text("hello")
    assert len(read_citations([public])) == 1  # `latest` is a link and not counted twice


BROKEN = {
    "no json": b"{",
    "no object": b"[]",
    "unledgered": None,
    "text seq": {"seq": "1"},
    "boolean seq": {"seq": True},
    "no hash": {"head_hash": ...},
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_manifest_that_does_not_parse_is_evidence(ledger, public, case):
    path = public / "weekly" / "2030-01" / "release.json"
    value = json.loads(path.read_bytes())
    change = BROKEN[case]
    if isinstance(change, bytes):
        path.write_bytes(change)
    else:
        value["ledger"] = change and {
            k: v for k, v in (value["ledger"] | change).items() if v is not ...
        }
        path.write_text(json.dumps(value))
    assert code_of(LedgerError, Ledger.open, ledger.path, public=public) == "DPR406"


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_manifest_is_a_regular_file(ledger, public, kind, tmp_path):
    path = public / "weekly" / "2030-01" / "release.json"
    path.rename(tmp_path / "elsewhere.json")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere.json")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    assert code_of(LedgerError, Ledger.open, ledger.path, public=public) == "DPR406"


def test_a_manifest_that_cannot_be_read_is_evidence(ledger, public, monkeypatch):
    monkeypatch.setattr(citation, "MOST_BYTES", 10)
    assert code_of(LedgerError, Ledger.open, ledger.path, public=public) == "DPR406"
    monkeypatch.undo()

    def denied(_):
        raise PermissionError

    monkeypatch.setattr(citation.os, "scandir", denied)
    assert code_of(LedgerError, Ledger.open, ledger.path, public=public) == "DPR406"


def test_a_loss_that_is_not_a_number_is_unreadable():
    value = json.loads(manifest(entry(), Anchor("0" * 32, 4, "1" * 64)))
    value["guarantee"]["epsilon"] = "1/0"
    with pytest.raises(LedgerError):
        Citation.from_manifest(json.dumps(value).encode())


def test_init_refuses_while_manifests_of_the_dataset_exist(ledger, public, tmp_path):
    asked = {"epsilon": 1, "adjacency": "add_remove", "unit": UNIT, "anchors": [public]}
    Ledger.create(ledger.path, dataset="clinic", **asked)  # control: it knows them
    Ledger.create(ledger.path, dataset="ward", **asked)  # control: not its dataset
    other = tmp_path / "other" / "ledger.db"
    assert code_of(LedgerError, Ledger.create, other, dataset="clinic", **asked) == "DPR401"
    assert not other.exists()
    Ledger.create(other, dataset="ward", **asked)
    assert code_of(LedgerError, Ledger.create, other, dataset="clinic", **asked) == "DPR405"
    new = new_ledger(tmp_path, name="new")  # made without looking
    assert code_of(LedgerError, Ledger.create, new.path, dataset="clinic", **asked) == "DPR405"


def test_another_ledgers_dataset_in_the_same_folder_is_none_of_our_business(
    ledger, public, tmp_path
):
    other = Ledger.create(
        tmp_path / "o" / "l.db", dataset="ward", epsilon=1, adjacency="add_remove", unit=UNIT
    )
    assert Ledger.open(other.path, public=public).entries() == []
    assert other.reconcile([public]) == 0


def test_a_lost_ledger_is_rebuilt_from_the_manifests(ledger, public, tmp_path):
    release(ledger, entry("2030-02"), public)
    ledger.path.unlink()
    new = new_ledger(tmp_path)
    assert code_of(LedgerError, Ledger.open, new.path, public=public) == "DPR405"
    assert new.reconcile([public]) == 2
    assert new.reconcile([public]) == 0
    assert new.budget("clinic").spent == Fraction(2, 10)
    again = Ledger.open(new.path, public=public)
    assert again.verify().ok
    assert [row.state for row in again.entries()] == ["published"] * 2
    assert [row.origin for row in again.entries()] == [c.anchor for c in read_citations([public])]
    assert all(again.anchor_ok(c.anchor) for c in read_citations([public]))
    # Drawn once already, in the copy that is gone.
    assert again.charge(entry("2030-02")).fresh is False
    call = again.draw_once
    assert code_of(LedgerError, call, key("2030-02"), lambda: b"x", width=1) == "DPR416"


def test_a_rollback_before_the_debit_is_found_and_reconciled(ledger, public, tmp_path):
    shutil.copy(ledger.path, tmp_path / "backup")
    release(ledger, entry("2030-02"), public)
    shutil.copy(tmp_path / "backup", ledger.path)
    assert code_of(LedgerError, Ledger.open, ledger.path, public=public) == "DPR404"
    assert ledger.reconcile([public]) == 1
    assert Ledger.open(ledger.path, public=public).budget("clinic").spent == Fraction(2, 10)


@pytest.mark.parametrize("stage", ["charged", "drawn"])
def test_a_rollback_between_debit_and_publication_would_draw_again(ledger, public, tmp_path, stage):
    ledger.charge(entry("2030-02"))
    if stage == "drawn":
        ledger.draw_once(key("2030-02"), lambda: b"x" * 16, width=16)
    shutil.copy(ledger.path, tmp_path / "backup")
    release(ledger, entry("2030-02"), public)
    shutil.copy(tmp_path / "backup", ledger.path)
    assert ledger.anchor_ok(read_citations([public])[-1].anchor)  # the anchor alone is not enough
    assert code_of(LedgerError, Ledger.open, ledger.path, public=public) == "DPR404"
    assert ledger.reconcile([public]) == 1
    opened = Ledger.open(ledger.path, public=public)
    assert opened.state(key("2030-02")) == "published"
    assert opened.budget("clinic").spent == Fraction(2, 10)
    adopted = (public / "weekly" / "2030-02" / "release.json").read_bytes()
    assert opened.adopted_manifest(key("2030-02")) == hashlib.sha256(adopted).hexdigest()
    assert opened.adopted_manifest(key("2030-03")) is None
    assert opened.verify().ok


def test_a_key_drawn_in_two_copies_is_told(ledger, public, tmp_path):
    """Without the nonce in the chain the second debit has the head of the first."""
    shutil.copy(ledger.path, tmp_path / "backup")
    release(ledger, entry("2030-02"), public)
    shutil.copy(tmp_path / "backup", ledger.path)
    release(ledger, entry("2030-02"), tmp_path / "elsewhere")  # without looking at `public`
    assert code_of(LedgerError, ledger.reconcile, [public]) == "DPR417"


def test_reconcile_is_all_or_nothing_and_never_over_budget(ledger, public, tmp_path):
    ledger.add_budget("clinic", 1)
    release(ledger, entry("2030-02", epsilon=Fraction(19, 10)), public)
    ledger.path.unlink()
    new = new_ledger(tmp_path)
    assert code_of(BudgetError, new.reconcile, [public]) == "DPR301"
    assert new.entries() == []
    new.add_budget("clinic", 1)
    assert new.reconcile([public]) == 2
    assert new.budget("clinic").left == 0


def test_reconcile_refuses_another_plan_unit_or_dataset(ledger, public, tmp_path):
    new = new_ledger(tmp_path, name="n")
    new.charge(entry("2030-01", plan="b" * 64))
    assert code_of(LedgerError, new.reconcile, [public]) == "DPR410"
    other = Ledger.create(
        tmp_path / "u" / "l.db", dataset="clinic", epsilon=1, adjacency="substitution", unit=UNIT
    )
    assert code_of(LedgerError, other.reconcile, [public]) == "DPR411"


def test_a_manifest_of_another_plan_at_the_same_debit_is_not_accounted_for(ledger, public):
    path = public / "weekly" / "2030-01" / "release.json"
    value = json.loads(path.read_bytes())
    Ledger.open(ledger.path, public=public)  # control
    path.write_text(json.dumps(value | {"plan_hash": "c" * 64}))
    assert code_of(LedgerError, Ledger.open, ledger.path, public=public) == "DPR404"


def test_a_forged_manifest_of_this_ledger_is_not_believed(ledger, public):
    forged = manifest(entry("2030-09"), ledger.head())
    (public / "weekly" / "2030-09").mkdir()
    (public / "weekly" / "2030-09" / "release.json").write_bytes(forged)
    assert code_of(LedgerError, Ledger.open, ledger.path, public=public) == "DPR404"
