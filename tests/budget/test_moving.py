"""A moved ledger goes on in one place: everything is there, and the old place refuses to spend."""

from __future__ import annotations

import contextlib
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from dprelease.budget import chain, moving
from dprelease.budget.connection import PostgresPlace
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.core.errors import BudgetError, LedgerError
from tests.budget import populations
from tests.budget.samples import UNIT, entry, key, release
from tests.engines.postgres_server import binaries, server

with contextlib.suppress(ImportError):
    import psycopg

TENTH = Fraction(1, 10)
SERVER = pytest.mark.skipif(
    binaries() is None or "psycopg" not in globals(),
    reason="no PostgreSQL server, or no psycopg, is installed",
)


@pytest.fixture(scope="module")
def dsn():
    with server(durable=True) as found, psycopg.connect(found, autocommit=True) as db:
        db.execute("CREATE DATABASE other")
        yield found


@pytest.fixture(
    params=[
        "file to file",
        *(
            pytest.param(p, marks=SERVER)
            for p in ("file to server", "server to file", "server to server")
        ),
    ]
)
def places(request, tmp_path):
    """Return two places, empty."""
    names = request.param.split(" to ")
    made = []
    for i, name in enumerate(names):
        if name == "file":
            made.append(tmp_path / f"place{i}" / "ledger.db")
            continue
        dsn = request.getfixturevalue("dsn").replace(
            "dbname=postgres", f"dbname={('postgres', 'other')[i]}"
        )
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute("DROP SCHEMA IF EXISTS dprelease_ledger CASCADE")
        made.append(PostgresPlace(f"PostgreSQL ${{env:PLACE{i}}}", lambda dsn=dsn: dsn))
    return made


def filled(place, public, **more):
    """Return a ledger with one release in each state, a raise and a cap."""
    given = {"dataset": "clinic", "epsilon": 1, "adjacency": "add_remove", "unit": UNIT}
    ledger = Ledger.create(place, **(given | more))
    release(ledger, entry(), public)
    ledger.charge(entry("2030-02"))
    ledger.charge(entry("2030-03"))
    ledger.draw_once(key("2030-03"), lambda: b"abcd", width=4)
    ledger.charge(entry("2030-04"))
    ledger.fail(key("2030-04"), "DPR701")
    ledger.add_budget("clinic", 1, more.get("delta", 0))
    ledger.cap_period("clinic", 1)
    return ledger


def code_of(call, *args, **kwargs):
    with pytest.raises(LedgerError) as caught:
        call(*args, **kwargs)
    assert caught.value.spent == "nothing"
    return caught.value.code


@pytest.mark.parametrize(
    "more", [{}, {"delta": "1e-6", "composition": "zcdp"}], ids=["basic", "zcdp"]
)
def test_everything_is_there_and_the_old_place_spends_no_more(places, tmp_path, more):
    source, target = places
    old = filled(source, tmp_path / "public", **more)
    before = (
        old.head(),
        old.entries(),
        old.budget("clinic"),
        old.salt("clinic"),
        old.per_period("clinic"),
    )
    moving.move(source, target)
    new = Ledger.open(target, public=tmp_path / "public")
    assert (
        new.head(),
        new.entries(),
        new.budget("clinic"),
        new.salt("clinic"),
        new.per_period("clinic"),
    ) == before
    assert new.files(key()) == old.files(key())
    assert new.payload(key("2030-03")) == b"abcd"
    assert new.verify().ok

    for write in (
        lambda: old.charge(entry("2030-05")),
        lambda: old.charge(entry()),
        lambda: old.draw_once(key("2030-02"), lambda: b"abcd", width=4),
        lambda: old.add_budget("clinic", 1),
        lambda: old.reconcile([tmp_path / "public"]),
        lambda: moving.move(source, target),
        lambda: Ledger.open(source, public=tmp_path / "public"),
    ):
        with pytest.raises(LedgerError) as caught:
            write()
        assert (caught.value.code, str(target) in caught.value.what) == ("DPR427", True)
    assert old.verify().ok  # it can be read
    assert old.budget("clinic") == before[2]

    new.draw_once(key("2030-02"), lambda: b"wxyz", width=4)
    new.charge(entry("2030-05"))
    assert new.budget("clinic").spent > before[2].spent
    assert new.verify().ok


@pytest.mark.parametrize("crash", [False, True], ids=["", "after a crash"])
def test_a_member_s_losses_move_with_the_ledger(places, monkeypatch, crash):
    source, target = places
    asked = populations.terms(epsilon=3, delta="1e-6")
    populations.joined(source, "visits", asked)
    old = populations.joined(source, "prescriptions", asked)
    old.charge(populations.entry("visits", epsilon=Fraction(2)))
    before = old.populations()
    if crash:  # the copy stands, the old place does not rest yet: both may still be asked
        with monkeypatch.context() as patch:
            patch.setattr(moving.chain, "append", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                moving.move(source, target)
    moving.move(source, target)
    new = Ledger.open(target)
    assert (new.populations(), new.verify().ok) == (before, True)
    for ledger, code in ((new, "DPR309"), (old, "DPR427")):
        with pytest.raises((BudgetError, LedgerError)) as caught:
            ledger.charge(populations.entry("prescriptions", epsilon=Fraction(2)))
        assert caught.value.code == code
    assert code_of(populations.joined, source, "more", asked) == "DPR427"
    assert code_of(old.add_population, populations.MEMBERS, 1) == "DPR427"
    populations.joined(target, "more", asked).charge(populations.entry("more"))
    assert new.populations().budget(populations.MEMBERS).left == 0
    assert new.verify().ok


def test_a_copy_that_fails_moves_nothing(places, tmp_path, monkeypatch):
    source, target = places
    old = filled(source, tmp_path / "public")
    with monkeypatch.context() as patch:
        patch.setattr(moving, "raise_version", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            moving.move(source, target)
    assert code_of(Ledger.open, target) == "DPR401"
    old.charge(entry("2030-05"))
    moving.move(source, target)
    assert Ledger.open(target).has(key("2030-05"))


def test_after_a_crash_between_copy_and_rest_the_same_command_ends_it(
    places, tmp_path, monkeypatch
):
    source, target = places
    filled(source, tmp_path / "public")
    with monkeypatch.context() as patch:
        patch.setattr(moving.chain, "append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            moving.move(source, target)
    moving.move(source, target)
    assert code_of(Ledger(source).charge, entry("2030-05")) == "DPR427"
    assert Ledger.open(target).verify().ok


@pytest.mark.parametrize("who", [0, 1], ids=["old", "new"])
def test_two_that_went_on_are_not_made_one(places, tmp_path, monkeypatch, who):
    source, target = places
    filled(source, tmp_path / "public")
    with monkeypatch.context() as patch:
        patch.setattr(moving.chain, "append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            moving.move(source, target)
    Ledger(places[who]).charge(entry("2030-05"))
    assert code_of(moving.move, source, target) == "DPR426"
    Ledger(source).charge(entry("2030-06"))  # nothing was moved


def test_another_ledger_is_never_written_over(places, tmp_path):
    source, target = places
    filled(source, tmp_path / "public")
    other = Ledger.create(target, dataset="clinic", epsilon=5, adjacency="add_remove", unit=UNIT)
    head = other.head()
    assert code_of(moving.move, source, target) == "DPR426"
    assert other.head() == head
    Ledger(source).charge(entry("2030-05"))


def test_a_ledger_is_not_moved_onto_itself(places, tmp_path):
    source, _ = places
    filled(source, tmp_path / "public")
    alias = source
    if isinstance(source, PostgresPlace):
        alias = PostgresPlace("PostgreSQL ${env:ALIAS}", source.reveal_to_driver)
    assert code_of(moving.move, source, alias) == "DPR426"
    Ledger(source).charge(entry("2030-05"))


def test_an_event_after_the_move_is_found(tmp_path):
    ledger = filled(tmp_path / "a.db", tmp_path / "public")
    moving.move(ledger.path, tmp_path / "b.db")
    with moving.backend.transaction(
        ledger.path, write=True, debited=False
    ) as db:  # round the guard
        chain.append(db, "budget", {"dataset": "clinic", "nano_epsilon": 10**9, "atto_delta": 0})
        db.execute("INSERT INTO budget SELECT MAX(seq), 'clinic', 1000000000, 0 FROM chain")
    assert "comes after its move" in "; ".join(ledger.verify().problems)


def test_the_command(tmp_path):
    ledger = filled(tmp_path / "a.db", tmp_path / "public")

    def command(*words):
        done = CliRunner().invoke(app, ["ledger", *(str(w) for w in words)])
        return done.exit_code, " ".join(done.output.split())  # however lines are broken

    status, said = command("move", ledger.path, tmp_path / "b.db")
    assert (status, "clinic has epsilon 2, 0.4 spent" in said, "can only be read" in said) == (
        0,
        True,
        True,
    ), said
    status, said = command("move", ledger.path, tmp_path / "c.db")
    assert (status, "DPR427" in said) == (1, True)
    assert not (tmp_path / "c.db").exists()
    assert command("show", "--ledger", tmp_path / "a.db")[0] == 0
    assert command("move", tmp_path / "none.db", tmp_path / "c.db")[0] == 1
