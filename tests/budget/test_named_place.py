"""One name for a ledger everywhere: a path, or a server by reference; never a connection string."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dprelease.budget.backend import named_place
from dprelease.budget.connection import PostgresPlace
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import ConfigError, LedgerError, SourceError

CANARY = "4711-canary"


def test_a_path_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert named_place("ledger.db") == named_place(Path("ledger.db")) == tmp_path / "ledger.db"
    odd = tmp_path / "host=a" / "ledger.db"
    assert named_place(odd) == odd


@pytest.mark.parametrize("kind", [str, Path])
def test_a_reference_is_read_when_it_is_used_and_never_shown(kind, monkeypatch):
    monkeypatch.delenv("THE_LEDGER", raising=False)
    place = named_place(kind("${env:THE_LEDGER}"))
    assert isinstance(place, PostgresPlace)
    with pytest.raises(SourceError) as caught:
        place.reveal_to_driver()
    assert caught.value.code == "DPR520"
    monkeypatch.setenv("THE_LEDGER", CANARY)
    assert place.reveal_to_driver() == CANARY
    assert CANARY not in f"{place} {place!r} {Ledger(place)!r}"
    assert named_place(place) is place


def test_a_file_may_hold_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("dsn").write_text(f"{CANARY}\n")
    place = named_place("${file:dsn}")
    monkeypatch.chdir("/")
    assert isinstance(place, PostgresPlace)
    assert place.reveal_to_driver() == CANARY
    (tmp_path / "dsn").unlink()
    os.mkfifo(tmp_path / "dsn")  # not waited for
    with pytest.raises(SourceError):
        place.reveal_to_driver()


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{CANARY}@host/db",
        f"postgres://me:{CANARY}@host/db",
        f"host=h password={CANARY}",
        f"dbname = {CANARY}",
        "${THE_LEDGER}",
        "${env:}",
        "${env:A}/b",
        f"${{env:A B{CANARY}}}",
    ],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_connection_string_is_refused_unseen(text, kind):
    with pytest.raises(ConfigError) as caught:
        Ledger.open(kind(text))
    assert caught.value.code == "DPR142"
    assert CANARY not in str(caught.value)


def test_a_name_that_is_only_a_path_is_still_missing(tmp_path):
    with pytest.raises(LedgerError) as caught:
        Ledger.open(tmp_path / "postgres" / "ledger.db")
    assert caught.value.code == "DPR401"
