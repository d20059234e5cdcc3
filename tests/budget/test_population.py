"""Datasets of one population: who may join, what is refused, and that nothing gets round it."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from typer.testing import CliRunner

from dprelease.budget import chain, moving, rows
from dprelease.budget.ledger import Ledger
from dprelease.budget.population import Populations, member_costs
from dprelease.cli import app
from dprelease.core.errors import ArgumentError, BudgetError, LedgerError
from tests.budget import samples
from tests.budget.populations import MEMBERS, entry, joined, terms
from tests.budget.samples import in_processes, killed_in_fork, manifest, tamper
from tests.budget.test_ledger import Points
from tests.sizes import FULL

MILLIONTH = Fraction(1, 10**6)


def code_of(kind, call, *args, **kwargs):
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert caught.value.what
    assert caught.value.fix
    return caught.value.code


def pair(place, population=None, **more):
    """Return a ledger with two datasets of one population."""
    asked = terms() if population is None else population
    joined(place, "visits", asked, **more)
    return joined(place, "prescriptions", asked, **more)


def spent(ledger, name=MEMBERS):
    return ledger.populations().budget(name).spent


# -- the budget ----------------------------------------------------------------------------


def test_two_tables_of_the_same_people_add_up(tmp_path):
    ledger = pair(tmp_path / "l.db")
    ledger.charge(entry("visits", epsilon=Fraction(2)))
    before = ledger.head()
    with pytest.raises(BudgetError, match="population members does not cover") as caught:
        ledger.charge(entry("prescriptions", epsilon=Fraction(3, 2)))
    assert caught.value.code == "DPR309"
    assert "one of the members would have lost epsilon 3.5 of 3" in str(caught.value)
    assert "--population members --epsilon E" in str(caught.value.fix)
    assert (ledger.head(), ledger.budget("prescriptions").spent) == (before, 0)
    ledger.charge(entry("prescriptions", epsilon=Fraction(1)))
    assert (spent(ledger), ledger.verify().ok) == (3, True)
    loss = ledger.populations().loss("visits")
    assert (loss.tables, loss.spent, loss.total) == (2, 3, 3)


def test_a_delta_and_a_rho_are_refused_by_themselves(tmp_path):
    ledger = pair(tmp_path / "d.db", terms(delta=MILLIONTH))
    ledger.charge(entry("visits", delta=MILLIONTH))
    with pytest.raises(BudgetError, match="delta 2e-06 of 1e-06") as caught:
        ledger.charge(entry("prescriptions", delta=MILLIONTH))
    assert caught.value.code == "DPR309"
    _, command, _ = caught.value.fix.replace(" E`", " 1`").replace(" E ", " 1 ").split("`")
    _, *words = shlex.split(command.replace(" D", " 0.000001"))
    assert CliRunner().invoke(app, words).exit_code == 0
    ledger.charge(entry("prescriptions", delta=MILLIONTH))
    ledger = pair(tmp_path / "r.db", terms(delta=MILLIONTH, composition="zcdp"))
    ledger.charge(entry("visits", rho=Fraction(1, 20), delta=MILLIONTH))
    ledger.charge(entry("prescriptions", epsilon=Fraction(1, 10)))
    now = ledger.populations().budget(MEMBERS)
    assert Fraction(54, 1000) < now.spent_rho < Fraction(55, 1000)
    with pytest.raises(BudgetError, match=r"rho 0\.51.* of 0\.1"):
        ledger.charge(entry("prescriptions", "second"))
    without = entry("prescriptions", "third", delta=MILLIONTH)
    assert code_of(BudgetError, ledger.charge, without) == "DPR310"
    assert ledger.verify().ok


@pytest.mark.parametrize(
    ("first", "second", "cost"),
    [("add_remove", "substitution", 1), ("substitution", "add_remove", 2),
     ("substitution", "substitution", 1), ("add_remove", "add_remove", 1)],
)  # fmt: skip
def test_relations_mix_by_the_one_that_came_first(tmp_path, first, second, cost):
    asked = terms(10, delta=Fraction(1, 100))
    joined(tmp_path / "l.db", "visits", asked, adjacency=first)
    ledger = joined(tmp_path / "l.db", "prescriptions", asked, adjacency=second)
    ledger.charge(entry("prescriptions", adjacency=second, delta=MILLIONTH))
    now = ledger.populations().budget(MEMBERS)
    assert now.spent == cost
    e = 2.718281828459045
    assert float(now.spent_delta) == pytest.approx(1e-6 * (1 if cost == 1 else 1 + e), rel=1e-12)


def test_a_whole_member_is_in_every_week_that_a_release_reads(tmp_path):
    ledger = pair(tmp_path / "l.db", terms(10), per="week")
    ledger.charge(entry("visits", "w", per="week", period="2024-W10"))
    ledger.charge(entry("visits", "m", per="week", period="2024-02"))
    assert spent(ledger) == 1 + 5
    refused = entry("prescriptions", "open", per="week")
    assert code_of(BudgetError, ledger.charge, refused) == "DPR310"
    assert (
        code_of(BudgetError, ledger.charge, replace(refused, window=("2024-01-01T00:00:00Z", None)))
        == "DPR310"
    )


def test_a_member_and_week_lose_what_meets_the_week(tmp_path):
    asked = terms(2, interval="week")
    joined(tmp_path / "l.db", "visits", asked, per="week")
    ledger = joined(tmp_path / "l.db", "prescriptions", asked, per="week")
    for name in ("2024-W10", "2024-W11"):
        ledger.charge(entry("visits", name, per="week", period=name))
        ledger.charge(entry("prescriptions", name, per="week", period=name))
    assert spent(ledger) == 2
    again = entry("visits", "again", per="week", period="2024-W10")
    with pytest.raises(
        BudgetError, match="one of the members in one week would have lost epsilon 3 of 2"
    ) as caught:
        ledger.charge(again)
    assert caught.value.code == "DPR309"
    assert ledger.verify().ok
    days = joined(tmp_path / "l.db", "days", asked, per="day")
    days.charge(entry("days", "d", per="day", period="2024-03-20", epsilon=Fraction(2)))
    long = entry("days", "w", per="day", period="2024-W20", epsilon=Fraction(2, 7))
    days.charge(long)
    assert (
        code_of(BudgetError, days.charge, replace(long, key=replace(long.key, period="x")))
        == "DPR309"
    )


def test_weeks_add_up_where_times_may_change(tmp_path):
    given = {"per": "week", "immutable": False}
    ledger = pair(tmp_path / "l.db", terms(2, interval="week"), **given)
    for name in ("2024-W10", "2024-W11"):
        ledger.charge(entry("visits", name, period=name, **given))
    assert spent(ledger) == 2
    third = entry("prescriptions", "2024-W12", period="2024-W12", **given)
    assert code_of(BudgetError, ledger.charge, third) == "DPR309"


def test_a_raise_is_on_the_record(tmp_path):
    ledger = pair(tmp_path / "l.db")
    ledger.charge(entry("visits", epsilon=Fraction(3)))
    assert code_of(BudgetError, ledger.charge, entry("prescriptions")) == "DPR309"
    assert ledger.add_population(MEMBERS, 1).left == 1
    ledger.charge(entry("prescriptions"))
    assert ledger.verify().ok
    pair(
        tmp_path / "l.db"
    )  # what was declared first, and what it was raised to, are both its figures
    pair(tmp_path / "l.db", terms(4))
    assert code_of(LedgerError, pair, tmp_path / "l.db", terms(5)) == "DPR429"
    assert code_of(LedgerError, ledger.add_population, "others", 1) == "DPR431"


# -- who may join --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [terms(4), terms(delta=MILLIONTH), terms(interval="week"), terms(delta=MILLIONTH, composition="zcdp")],
)  # fmt: skip
def test_other_figures_are_refused(tmp_path, other):
    joined(tmp_path / "l.db", "visits", terms(), per="week")
    assert code_of(LedgerError, joined, tmp_path / "l.db", "more", other, per="week") == "DPR429"
    assert Ledger.open(tmp_path / "l.db").datasets() == ("visits",)


@pytest.mark.parametrize(
    ("given", "interval", "why"),
    [
        ({"unit": '"row"'}, None, "no person"),
        ({"unit": '{"edge":{"k":1,"nodes":9,"source":"a","target":"b"}}'}, None, "no person"),
        ({"per": "week", "time": None}, None, "an interval without a time"),
        ({"adjacency": "substitution", "public_size": True}, None, "number of rows is public"),
        ({}, "week", "rows of all times"),
        ({"per": "month"}, "week", "rows of one month"),
        ({"per": "week"}, "month", "rows of one week"),
        ({"per": "day", "timezone": "Europe/Dublin"}, "week", "calendar, UTC"),
    ],
)
def test_a_dataset_that_cannot_join_is_refused_with_the_reason(tmp_path, given, interval, why):
    asked = terms(interval=interval)
    joined(tmp_path / "l.db", "visits", asked, per=interval)
    before = Ledger.open(tmp_path / "l.db").head()
    with pytest.raises(LedgerError, match=why) as caught:
        joined(tmp_path / "l.db", "more", asked, **given)
    assert caught.value.code == "DPR430"
    assert Ledger.open(tmp_path / "l.db").head() == before


def test_a_public_size_is_no_hindrance_where_members_are_replaced(tmp_path):
    ledger = pair(tmp_path / "l.db", adjacency="substitution", public_size=True)
    assert set(ledger.populations().member) == {"visits", "prescriptions"}


def sized(asked):
    return replace(asked, mechanisms=({"family": "test", "public_size": 300},))


def test_a_release_that_takes_a_size_for_public_is_refused_after_joining_too(tmp_path):
    joined(tmp_path / "l.db", "visits", terms())
    ledger = joined(tmp_path / "l.db", "prescriptions", terms(), adjacency="substitution")
    asked, before = entry("prescriptions", adjacency="substitution"), ledger.head()
    with pytest.raises(LedgerError, match="number of rows is public") as caught:
        ledger.charge(sized(asked))
    assert (caught.value.code, ledger.head()) == ("DPR430", before)
    ledger.charge(asked)
    assert code_of(LedgerError, ledger.charge, sized(asked), again=True) == "DPR430"
    assert (spent(ledger), ledger.verify().ok) == (1, True)


def test_a_dataset_whose_size_was_public_cannot_join_later(tmp_path):
    joined(tmp_path / "l.db", "visits", terms())
    ledger = joined(tmp_path / "l.db", "sized", None, adjacency="substitution")
    ledger.charge(sized(entry("sized", adjacency="substitution")))
    before = ledger.head()
    with pytest.raises(LedgerError, match="its number of rows is public") as caught:
        joined(ledger.path, "sized", terms(), adjacency="substitution")
    assert (caught.value.code, ledger.head()) == ("DPR430", before)
    assert "if a release has told the number, leave its `population` out" in caught.value.fix
    kept = pair(tmp_path / "replaced.db", adjacency="substitution")
    kept.charge(sized(entry("visits", adjacency="substitution")))
    assert spent(kept) == 1


def test_a_dataset_is_of_one_population(tmp_path):
    pair(tmp_path / "l.db")
    other = replace(terms(5), name="others")
    with pytest.raises(LedgerError, match="holds members, and its terms are epsilon 3,") as caught:
        joined(tmp_path / "l.db", "visits", other)
    assert caught.value.code == "DPR429"


def test_a_dataset_joins_with_what_it_has_cost_already(tmp_path):
    joined(tmp_path / "l.db", "visits", terms())
    ledger = joined(tmp_path / "l.db", "old", None)
    ledger.charge(entry("old", epsilon=Fraction(2)))
    ledger.charge(entry("visits", epsilon=Fraction(3, 2)))
    before = ledger.head()
    with pytest.raises(BudgetError, match="what dataset old has cost already") as caught:
        joined(ledger.path, "old", terms())
    assert (caught.value.code, ledger.head()) == ("DPR309", before)
    ledger.add_population(MEMBERS, 1)
    joined(ledger.path, "old", terms())
    assert (spent(ledger), ledger.verify().ok) == (Fraction(7, 2), True)
    weekly = joined(ledger.path, "weekly", None, per="week")
    weekly.charge(entry("weekly", per="week"))
    assert code_of(LedgerError, joined, ledger.path, "weekly", terms(), per="week") == "DPR430"


@pytest.mark.parametrize(
    ("given", "code"),
    [({"composition": "kov"}, "DPR653"), ({"composition": "zcdp"}, "DPR654"), ({"interval": "hour"}, "DPR640"),
     ({"delta": 1}, "DPR650"), ({"epsilon": 0}, "DPR606")],
)  # fmt: skip
def test_terms_that_bound_nothing_are_refused(given, code):
    assert code_of(ArgumentError, terms, **given) == code


TERMS = [
    one
    for place, one in enumerate(
        product(("add_remove", "substitution"), ("basic", "zcdp"), ("basic", "zcdp"), (None, "day"))
    )
    if FULL or place.bit_count() % 2 == 0
]
"""Adjacency, both compositions, interval: every three of them together; all four in `make evidence`."""


@pytest.mark.parametrize(("adjacency", "composition", "own", "per"), TERMS)
def test_what_the_database_adds_up_is_what_the_chain_says(
    tmp_path, adjacency, composition, own, per
):
    """A sum of rows stands for debits only where both say the same: of every dataset, as of every event."""
    asked = terms(10**3, delta=MILLIONTH, composition=composition)
    joined(tmp_path / "l.db", "visits", asked, adjacency=adjacency)
    ledger = joined(tmp_path / "l.db", "others", asked, per=per, composition=own)
    joined(tmp_path / "l.db", "alone", None)
    third, folded = Fraction(1, 3), Populations()
    for i in range(3):
        given = {"rho": third, "delta": Fraction(1, 10**9 + 7)}
        ledger.charge(entry("visits", f"v{i}", adjacency=adjacency, epsilon=third, **given))
        ledger.charge(entry("others", f"o{i}", per=per, period="2024-W10", epsilon=third, **given))
        ledger.charge(entry("alone", f"a{i}"))
    with ledger._read() as db:
        bodies = [json.loads(text) for (text,) in db.execute("SELECT body FROM chain ORDER BY seq")]
    for seq, body in enumerate(bodies, 1):
        folded.note(body["kind"], body)
        found = ledger.populations(seq)
        assert (found.known, found.member) == (folded.known, folded.member)
        for name in folded.member:
            assert found.loss(name) == folded.loss(name)


def test_a_debit_is_counted_for_a_member_once_however_often_it_is_read(tmp_path):
    """A population by rho reads every debit at each charge: what each costs is kept."""
    ledger = joined(tmp_path / "l.db", "visits", terms(10**3, delta=MILLIONTH, composition="zcdp"))
    for i in range(5):
        given = {"rho": Fraction(1, 2), "delta": Fraction(1, 10**9)}
        ledger.charge(entry("visits", f"v{i}", epsilon=Fraction(1, 2), **given))
    first = spent(ledger)
    counted = member_costs.cache_info().misses
    assert spent(ledger) == first
    assert member_costs.cache_info().misses == counted


# -- the chain -----------------------------------------------------------------------------


def test_an_old_ledger_opens_and_says_that_it_has_no_population(tmp_path):
    ledger = joined(tmp_path / "l.db", "visits", None)
    ledger.charge(entry("visits"))
    assert (ledger.populations().member, ledger.verify().ok) == ({}, True)
    shown = CliRunner().invoke(app, ["ledger", "show", "--ledger", str(ledger.path)]).output
    assert "no population: what a person loses by other datasets" in shown
    with ledger._read() as db:
        assert chain.schema_version(db) < 7
    joined(tmp_path / "l.db", "visits", terms())
    with ledger._read() as db:
        assert chain.schema_version(db) == 7


def test_a_debit_that_got_round_the_check_is_found(tmp_path, monkeypatch):
    ledger = pair(tmp_path / "l.db")
    ledger.charge(entry("visits", epsilon=Fraction(2)))
    with monkeypatch.context() as patch:
        patch.setattr(rows, "must_fit_members", lambda *_: None)
        ledger.charge(entry("prescriptions", epsilon=Fraction(2)))
    assert ledger.verify().problems == ("the debits exceed the budget of population members",)
    assert code_of(LedgerError, Ledger.open, ledger.path) == "DPR403"


def test_a_debit_that_cannot_be_counted_is_found(tmp_path, monkeypatch):
    ledger = pair(tmp_path / "l.db", per="week")
    with monkeypatch.context() as patch:
        patch.setattr(rows, "must_fit_members", lambda *_: None)
        ledger.charge(entry("visits", per="week"))
    assert "reads every week of a member" in ledger.verify().problems[0]


def forged(ledger, kind, **body):
    with ledger._write() as db:
        chain.append(db, kind, body)
    return ledger.verify().problems[0]


def test_forged_events_are_found(tmp_path):
    def new(name):
        ledger = pair(tmp_path / name)
        ledger.charge(entry("visits", epsilon=Fraction(2)))
        with ledger._read() as db:
            (text,) = db.execute(
                "SELECT body FROM chain WHERE body LIKE '%kind\":\"population%'"
            ).fetchone()
        said = {k: v for k, v in json.loads(text).items() if k not in ("kind", "nonce")}
        return ledger, said

    ledger, said = new("a.db")
    assert "changes a population's terms" in forged(
        ledger, "population", **{**said, "nano_epsilon": 1}
    )
    ledger, said = new("b.db")
    assert "changes a population's terms" in forged(
        ledger, "population", **{**said, "interval": "week"}
    )
    ledger, said = new("c.db")
    more = {
        **said,
        "name": "other",
        "composition": "zcdp",
        "atto_delta": 10**12,
        "nano_rho": 10**12,
    }
    assert "states more rho" in forged(ledger, "population", **more)
    ledger, said = new("d.db")
    assert "it has one" in forged(ledger, "member", dataset="visits", population=MEMBERS)
    ledger, said = new("e.db")
    tamper(ledger, 'DELETE FROM chain WHERE body LIKE \'%"kind":"member"%\'')
    assert not ledger.verify().ok


def test_a_raise_does_not_heal_what_came_before_it(tmp_path, monkeypatch):
    ledger = pair(tmp_path / "l.db")
    with monkeypatch.context() as patch:
        patch.setattr(rows, "must_fit_members", lambda *_: None)
        ledger.charge(entry("visits", epsilon=Fraction(4)))
    ledger.add_population(MEMBERS, 9)
    assert "comes after debits that exceed" in ledger.verify().problems[0]


# -- crashes, races, moves, restores ---------------------------------------------------------


def test_killed_at_every_point_a_member_loses_no_more_than_the_budget(tmp_path):
    n, done, states = 0, False, set()
    while not done:
        n += 1
        ledger = pair(tmp_path / f"{n}.db", terms(1))

        def work(n=n, ledger=ledger) -> None:
            Points.arm(n)
            ledger.charge(entry("visits"))

        done = killed_in_fork(work) == 0
        assert ledger.verify().ok
        states.add(spent(ledger))
        if spent(ledger):
            assert code_of(BudgetError, ledger.charge, entry("prescriptions")) == "DPR309"
        ledger.charge(entry("visits"))
        assert spent(ledger) == 1
    assert states == {0, 1}


def test_killed_while_it_joins_a_dataset_has_joined_or_not(tmp_path):
    n, done, states = 0, False, set()
    while not done:
        n += 1
        ledger = joined(tmp_path / f"{n}.db", "old", None)
        ledger.charge(entry("old"))

        def work(n=n, ledger=ledger) -> None:
            Points.arm(n)
            joined(ledger.path, "old", terms())

        done = killed_in_fork(work) == 0
        assert ledger.verify().ok
        states.add(ledger.populations().member.get("old"))
        joined(ledger.path, "old", terms())
        assert spent(ledger) == 1
    assert states == {None, MEMBERS}


def test_processes_race_over_two_datasets_for_three_slots(tmp_path):
    ledger = pair(tmp_path / "l.db")

    def work(i: int) -> None:
        try:
            ledger.charge(entry(("visits", "prescriptions")[i % 2], f"r{i}"))
        except BudgetError as refused:
            os._exit(7 if refused.code == "DPR309" else 8)

    codes = in_processes(8, work)
    assert (codes.count(0), codes.count(7)) == (3, 5)
    assert (spent(ledger), ledger.verify().ok) == (3, True)


def test_paying_again_costs_a_member_again(tmp_path):
    ledger = pair(tmp_path / "l.db", terms(2))
    ledger.charge(entry("visits"))
    assert ledger.charge(entry("visits"), again=True).fresh
    assert spent(ledger) == 2
    assert code_of(BudgetError, ledger.charge, entry("visits"), again=True) == "DPR309"


def test_a_failed_release_stays_spent(tmp_path):
    ledger = pair(tmp_path / "l.db", terms(1))
    ledger.charge(entry("visits"))
    ledger.fail(entry("visits").key, "DPR701")
    assert code_of(BudgetError, ledger.charge, entry("prescriptions")) == "DPR309"


def test_a_moved_ledger_holds_the_population(tmp_path):
    ledger = pair(tmp_path / "a" / "l.db")
    ledger.charge(entry("visits", epsilon=Fraction(2)))
    moving.move(ledger.path, tmp_path / "b" / "l.db")
    moved = Ledger.open(tmp_path / "b" / "l.db")
    assert (spent(moved), moved.verify().ok) == (2, True)
    assert (
        code_of(BudgetError, moved.charge, entry("prescriptions", epsilon=Fraction(2))) == "DPR309"
    )
    assert code_of(LedgerError, joined, ledger.path, "more", terms()) == "DPR427"
    assert code_of(LedgerError, ledger.add_population, MEMBERS, 1) == "DPR427"


def test_a_restored_ledger_debits_a_member_for_what_is_published(tmp_path):
    ledger = pair(tmp_path / "l.db")
    files = []
    for name in ("visits", "prescriptions"):
        asked = entry(name, epsilon=Fraction(3, 2))
        files.append(tmp_path / f"{name}.json")
        files[-1].write_bytes(manifest(asked, ledger.charge(asked).anchor))
    lost = pair(tmp_path / "new" / "l.db", terms(2))
    assert code_of(BudgetError, lost.reconcile, files) == "DPR309"
    assert spent(lost) == 0
    lost.add_population(MEMBERS, 1)
    assert lost.reconcile(files) == 2
    assert (spent(lost), lost.verify().ok) == (3, True)


# -- what is shown -------------------------------------------------------------------------


def shown(*words):
    found = CliRunner().invoke(app, ["ledger", *map(str, words)])
    return " ".join(found.output.split())


def test_show_speaks_of_one_population(tmp_path):
    ledger = pair(tmp_path / "l.db")
    joined(ledger.path, "alone", None)
    ledger.charge(entry("visits", epsilon=Fraction(2)))
    ledger.charge(entry("prescriptions", epsilon=Fraction(1, 2)))
    said = shown("show", "--ledger", ledger.path, "--population", MEMBERS)
    assert (
        "one of the members, over everything that this office has published from"
        " 2 tables: ε = 2.5 of 3" in said
    )
    assert "alone" not in said
    whole = json.loads(
        CliRunner().invoke(app, ["ledger", "show", "--ledger", str(ledger.path), "--json"]).output
    )
    assert whole["datasets"]["alone"]["population"] is None
    assert whole["datasets"]["visits"]["population"] == {
        "population": MEMBERS,
        "tables": 2,
        "spent": "5/2",
        "total": "3",
    }
    assert "there is no population others" in shown(
        "show", "--ledger", ledger.path, "--population", "others"
    )
    assert "members has epsilon 4 now, 1.5 left" in shown(
        "add", "--ledger", ledger.path, "--population", MEMBERS, "--epsilon", "1"
    )


def test_a_raise_from_samples_is_none_of_a_population(tmp_path):
    """Control: a dataset of rows in the same ledger is charged as ever."""
    ledger = samples.new_ledger(tmp_path)
    joined(ledger.path, "visits", terms())
    ledger.charge(samples.entry())
    assert spent(ledger) == 0


def test_a_population_declared_too_small_is_declared_again_larger(tmp_path):
    """It is not in the ledger then, so no command raises it."""
    place = tmp_path / "l.db"
    joined(place, "visits", None).charge(entry("visits", epsilon=Fraction(2)))
    with pytest.raises(BudgetError, match="state one where this declares it, else raise it") as no:
        joined(place, "visits", terms(1))
    assert no.value.code == "DPR309"
    with pytest.raises(LedgerError) as caught:
        Ledger.open(place).add_population(MEMBERS, 1)
    assert caught.value.code == "DPR431"
    assert joined(place, "visits", terms(2)).populations().member == {"visits": MEMBERS}
