"""A ledger that adds up losses over time: what is accepted, refused, verified and restored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from typer.testing import CliRunner

from dprelease.budget import chain
from dprelease.budget.accountant import Cost
from dprelease.budget.citation import Citation
from dprelease.budget.concentrated import zcdp_epsilon
from dprelease.budget.ledger import Ledger
from dprelease.budget.person import PersonLoss, group_rule, person_loss
from dprelease.budget.record import protected_unit
from dprelease.cli import app
from dprelease.cli.ledger_time import over_time, over_time_json
from dprelease.core.errors import ArgumentError, BudgetError, LedgerError
from dprelease.core.numeric import exp_upper
from tests.budget.samples import in_processes, manifest, tamper
from tests.budget.timed import ROW, WEEKLY, entry, time, timed_ledger, weeks
from tests.sizes import whole


@pytest.mark.parametrize(
    ("unit", "adjacency", "budget"),
    [(ROW, "add_remove", 1), (WEEKLY, "add_remove", 1), (WEEKLY, "substitution", 1),
     (ROW, "substitution", 2)],
)  # fmt: skip
def test_a_year_of_weeks_costs_one_week_or_a_pair(tmp_path, unit, adjacency, budget):
    ledger = timed_ledger(tmp_path / "l.db", unit=unit, adjacency=adjacency, epsilon=budget)
    for name in weeks():
        receipt = ledger.charge(entry(name, unit=unit, adjacency=adjacency))
    assert receipt.spent == ledger.budget("visits").spent == budget
    again = entry("2013-W20", pipeline="other", unit=unit, adjacency=adjacency)
    with pytest.raises(BudgetError, match="does not cover") as caught:
        ledger.charge(again)
    assert caught.value.code == "DPR301"
    assert "that can have read" in str(caught.value)
    assert ledger.verify().ok
    ledger.charge(entry("2014-W20", unit=unit, adjacency=adjacency))  # another week is free


def test_a_twin_with_one_epsilon_less_is_refused(tmp_path):
    """Under substitution of rows a budget of one week is not enough for two."""
    ledger = timed_ledger(tmp_path / "l.db", adjacency="substitution")
    ledger.charge(entry("2013-W10", adjacency="substitution"))
    with pytest.raises(BudgetError):
        ledger.charge(entry("2013-W11", adjacency="substitution"))


def test_months_beside_weeks_cost_their_own_epsilon_more(tmp_path):
    ledger = timed_ledger(tmp_path / "l.db", unit=WEEKLY, epsilon=Fraction(3, 2))
    for name in weeks():
        ledger.charge(entry(name, unit=WEEKLY, epsilon=Fraction(1, 2)))
    for month in range(1, 13):
        ledger.charge(
            entry(f"2013-{month:02d}", pipeline="monthly", unit=WEEKLY, epsilon=Fraction(1, 2))
        )
    # a week that straddles two months is charged both of them
    assert ledger.budget("visits").spent == Fraction(3, 2)
    inside = datetime(2013, 2, 4, tzinfo=UTC), datetime(2013, 2, 11, tzinfo=UTC)
    assert ledger.budget("visits", inside).spent == 1
    rows = timed_ledger(tmp_path / "r.db", epsilon=1)
    for name in (*weeks(), *(f"2013-{m:02d}" for m in range(1, 13))):
        rows.charge(entry(name, pipeline=name.replace("-W", "w"), epsilon=Fraction(1, 2)))
    assert rows.budget("visits").spent == 1  # a row lies in one month


def test_labels_without_a_window_are_not_parallel(tmp_path):
    ledger = timed_ledger(tmp_path / "l.db", epsilon=3)
    for name in weeks(3):
        ledger.charge(entry(name, open_window=True))
    with pytest.raises(BudgetError):
        ledger.charge(entry("2013-W40"))
    with pytest.raises(BudgetError):
        ledger.charge(entry("2013-W41", open_window=True))


@pytest.mark.parametrize("unit", [WEEKLY, '{"user": "who"}'])
def test_without_the_declaration_the_sum_is_charged(tmp_path, unit):
    said = time(immutable=False) if "per" in unit else None
    ledger = timed_ledger(tmp_path / "l.db", unit=unit, epsilon=2, time=said)
    more = {"unit": unit, "time": said, "open_window": said is None}
    for name in weeks(2):
        ledger.charge(entry(name, **more))
    with pytest.raises(BudgetError):
        ledger.charge(entry("2013-W40", **more))


def test_delta_is_added_up_by_interval_too(tmp_path):
    ledger = timed_ledger(tmp_path / "l.db", delta=Fraction(1, 10**6))
    for name in weeks(3):
        ledger.charge(entry(name, epsilon=Fraction(1, 4), delta=Fraction(1, 10**6)))
    with pytest.raises(BudgetError) as caught:
        ledger.charge(entry("2013-01", epsilon=Fraction(1, 4), delta=Fraction(1, 10**9)))
    assert caught.value.code == "DPR302"


@pytest.mark.parametrize("composition", ["basic", "zcdp"])
def test_deltas_of_disjoint_days_may_pass_one_together(tmp_path, composition):
    """The table's sum of them is no unit's: beyond a ceiling the events alone hold them."""
    ledger = timed_ledger(
        tmp_path / "l.db", unit=WEEKLY, epsilon=9, delta=Fraction(1, 2), composition=composition
    )
    rho = Fraction(1, 100) if composition == "zcdp" else None
    for name in weeks(9):
        ledger.charge(entry(name, unit=WEEKLY, delta=Fraction(1, 4), rho=rho))
    assert ledger.verify().ok
    assert Ledger.open(ledger.path).budget("visits").spent_delta == Fraction(
        1, 4 if rho is None else 2
    )
    assert ledger.stretches("visits")[1].cost.delta == Fraction(1, 4)
    ledger.charge(entry("2013-W05", pipeline="more", unit=WEEKLY, delta=Fraction(1, 4), rho=rho))
    if rho is None:
        third = entry("2013-W05", pipeline="third", unit=WEEKLY, delta=Fraction(1, 10**9))
        with pytest.raises(BudgetError) as caught:
            ledger.charge(third)
        assert caught.value.code == "DPR302"
    for name in (
        "abc" if rho else ""
    ):  # of one week now, more than 1 together: the rho is its budget
        given = {"unit": WEEKLY, "delta": Fraction(1, 4), "rho": rho}
        ledger.charge(entry("2013-W05", pipeline=name, **given))
    assert ledger.verify().ok
    with ledger._read() as db:
        assert chain.schema_version(db) == chain.UNSUMMED


def test_a_delta_that_is_in_no_table_without_a_ceiling_is_found(tmp_path, monkeypatch):
    ledger = timed_ledger(tmp_path / "l.db", time=None, delta=Fraction(1, 2))
    given = {"time": None, "open_window": True, "epsilon": Fraction(1, 10), "delta": Fraction(1, 4)}
    ledger.charge(entry("2013-W05", **given))
    with monkeypatch.context() as patch:
        patch.setattr("dprelease.budget.rows._row", lambda _, e, **__: Cost(e.cost.nano_epsilon, 0))
        ledger.charge(entry("2013-W06", **given))
    assert "debit 5 is not written as its dataset composes" in ledger.verify().problems


def test_rho_is_added_up_by_interval(tmp_path):
    ledger = timed_ledger(
        tmp_path / "l.db", epsilon=2, delta=Fraction(1, 10**6), composition="zcdp"
    )
    for name in weeks():
        ledger.charge(entry(name, epsilon=Fraction(1, 4)))
    one = ledger.budget("visits")
    assert one.spent_rho == Fraction(1, 32)
    ledger.charge(entry("2013-06", pipeline="monthly", epsilon=Fraction(1, 4)))
    assert ledger.budget("visits").spent_rho == Fraction(1, 16)
    assert ledger.verify().ok
    with pytest.raises(BudgetError) as caught:
        ledger.charge(entry("2013-W23", pipeline="more", epsilon=Fraction(1)))
    assert caught.value.code == "DPR303"


def test_paying_again_counts_in_the_same_window(tmp_path):
    ledger = timed_ledger(tmp_path / "l.db", epsilon=2)
    asked = entry("2013-W10")
    ledger.charge(asked)
    assert ledger.charge(asked, again=True).fresh
    assert ledger.budget("visits").spent == 2
    ledger.charge(entry("2013-W11"))
    with pytest.raises(BudgetError):
        ledger.charge(asked, again=True)


@pytest.mark.parametrize(
    "change",
    [
        {"time": time(immutable=False)},
        {"time": time(column="day")},
        {"time": time(timezone="Europe/Berlin")},
        {"time": None},
        {"unit": WEEKLY.replace("week", "month")},
        {"unit": ROW},
    ],
)
def test_unit_interval_zone_and_column_are_fixed(tmp_path, change):
    timed_ledger(tmp_path / "l.db", unit=WEEKLY)
    with pytest.raises(LedgerError) as caught:
        timed_ledger(tmp_path / "l.db", **{"unit": WEEKLY, **change})
    assert caught.value.code == "DPR411"
    given = {"unit": WEEKLY, **change}
    given["open_window"] = given.get("time", "") is None
    with pytest.raises(LedgerError) as caught:
        Ledger.open(tmp_path / "l.db").charge(entry("2013-W10", **given))
    assert caught.value.code == "DPR411"
    more = WEEKLY.replace('"max_groups": 1', '"max_groups": 7')  # bounds are not part of the unit
    timed_ledger(tmp_path / "l.db", unit=more).charge(entry("2013-W10", unit=more))


def test_a_dataset_made_before_times_is_refused_with_a_fix(tmp_path):
    timed_ledger(tmp_path / "l.db", time=None)
    with pytest.raises(LedgerError, match="adjacency, unit or time") as caught:
        timed_ledger(tmp_path / "l.db")
    assert "immutable" in str(caught.value.fix)


def test_a_cap_per_period_is_refused(tmp_path):
    with pytest.raises(ArgumentError) as caught:
        timed_ledger(tmp_path / "l.db", per_period=1)
    assert caught.value.code == "DPR655"
    ledger = timed_ledger(tmp_path / "l.db")
    with pytest.raises(ArgumentError, match="no cap per period"):
        ledger.cap_period("visits", 1)
    summed = timed_ledger(tmp_path / "s.db", time=time(immutable=False), unit=WEEKLY, per_period=1)
    assert summed.per_period("visits") == 1


@pytest.mark.parametrize(
    "window",
    [("2013-01-07T00:00:00Z", "2013-01-07T00:00:00Z"), ("2013-01-14T00:00:00Z", "2013-01-07T00:00:00Z"),
     ("2013-01-07", None), (1, None), ("2013-13-07T00:00:00Z", None)],
)  # fmt: skip
def test_a_malformed_window_is_refused(window):
    with pytest.raises(ArgumentError) as caught:
        entry("2013-W10", window=window)
    assert caught.value.code == "DPR644"
    with pytest.raises(ArgumentError):
        entry("2013-W10", time=None)
    with pytest.raises(ArgumentError):
        entry("2013-W10", time='{"column": "at"}')


def test_an_entry_goes_to_json_and_back():
    for made in (entry("2013-W10", unit=WEEKLY), entry("2013-W10", open_window=True)):
        assert type(made).from_json(json.loads(json.dumps(made.to_json()))) == made


def test_the_chain_is_added_up_again_by_time(tmp_path):
    """An overspent interval is found by whoever opens the ledger, rows and hashes in order."""
    ledger = timed_ledger(tmp_path / "l.db", epsilon=2)
    for name in weeks(3):
        ledger.charge(entry(name))
    ledger.charge(entry("2013-01", pipeline="monthly"))
    ledger.add_budget("visits", 1)
    ledger.charge(entry("2013-W03", pipeline="more"))
    assert ledger.verify().ok
    tamper(ledger, "DELETE FROM entry WHERE seq = 4")
    assert not ledger.verify().ok


def test_an_overspent_chain_does_not_verify(tmp_path, monkeypatch):
    ledger = timed_ledger(tmp_path / "l.db", epsilon=1)
    ledger.charge(entry("2013-W02"))
    from dprelease.budget import rows

    monkeypatch.setattr(rows, "worst_cost", lambda charges, pairs: Cost(0))
    ledger.charge(entry("2013-W03"))
    assert ledger.verify().ok  # another week
    ledger.charge(entry("2013-01", pipeline="monthly"))
    report = ledger.verify()
    assert any("exceeds the budget" in problem for problem in report.problems)


@pytest.mark.parametrize(("kept", "said"), [(time(), time(column="day")), (None, time())])
def test_a_debit_of_another_time_does_not_verify(tmp_path, monkeypatch, kept, said):
    """What lets it in is broken here; whoever folds the chain again still finds it."""
    ledger = timed_ledger(tmp_path / "l.db", epsilon=2, time=kept)
    asked = entry("2013-W02", time=said)
    from dprelease.budget import rows

    stated = asked.adjacency, protected_unit(asked.unit), asked.time
    monkeypatch.setattr(rows, "declared", lambda db, dataset, path: stated)
    ledger.charge(asked)
    report = ledger.verify()
    assert any("of another time than its dataset" in problem for problem in report.problems)


@pytest.mark.parametrize(
    "change",
    [
        {"unit": WEEKLY.replace("week", "day")},
        {"unit": WEEKLY.replace("who", "badge")},
        {"unit": ROW},
        {"adjacency": "substitution"},
    ],
)
@pytest.mark.parametrize("said", [time(), None])
def test_a_debit_of_another_unit_or_adjacency_does_not_verify(tmp_path, monkeypatch, change, said):
    """Each epsilon of the chain speaks of its dataset's unit, in datasets without a time too."""
    ledger = timed_ledger(tmp_path / "l.db", unit=WEEKLY, epsilon=2, time=said)
    given = {"unit": WEEKLY, "time": said, "open_window": said is None}
    more = WEEKLY.replace('"max_groups": 1', '"max_groups": 7')  # bounds are not part of the unit
    ledger.charge(entry("2013-W02", **{**given, "unit": more}))
    assert ledger.verify().ok
    from dprelease.budget import rows

    asked = entry("2013-W03", **{**given, **change})
    stated = asked.adjacency, protected_unit(asked.unit), asked.time
    monkeypatch.setattr(rows, "declared", lambda db, dataset, path: stated)
    ledger.charge(asked)
    (problem,) = ledger.verify().problems
    assert "is of another adjacency or unit than its dataset" in problem


def test_a_chain_lays_debits_in_its_datasets_time_and_not_in_theirs(tmp_path, monkeypatch):
    """Two days of one week, each debit said to be of a unit of a day: the week lost both."""
    ledger = timed_ledger(tmp_path / "l.db", unit=WEEKLY, epsilon=1)
    from dprelease.budget import rows

    monkeypatch.setattr(rows, "_fitting", lambda *_: None)
    for day in ("2013-01-08", "2013-01-09"):
        asked = entry(day, unit=WEEKLY.replace("week", "day"))
        stated = asked.adjacency, protected_unit(asked.unit), asked.time
        monkeypatch.setattr(rows, "declared", lambda db, dataset, path, said=stated: said)
        ledger.charge(asked)
    found = ledger.verify().problems
    assert sum("another adjacency or unit" in problem for problem in found) == 2
    assert any("exceeds the budget" in problem for problem in found)


def test_software_without_windows_refuses_the_ledger(tmp_path, monkeypatch):
    ledger = timed_ledger(tmp_path / "l.db")
    monkeypatch.setattr(chain, "_NEWEST", 4)
    with pytest.raises(LedgerError, match="ledger") as caught:
        Ledger.open(ledger.path)
    assert caught.value.code == "DPR403"


def test_a_restored_ledger_debits_the_windows_that_manifests_cite(tmp_path):
    ledger = timed_ledger(tmp_path / "l.db", unit=WEEKLY, epsilon=1)
    folder = tmp_path / "public"
    for name in weeks(3):
        asked = entry(name, unit=WEEKLY)
        receipt = ledger.charge(asked)
        said = json.loads(manifest(asked, receipt.anchor))
        said["guarantee"] |= {"time": json.loads(asked.time or ""), "window": list(asked.window)}
        place = folder / "weekly" / name / "release.json"
        place.parent.mkdir(parents=True)
        place.write_text(json.dumps(said))
        cited = Citation.from_manifest(place.read_bytes()).entry
        assert (cited.window, cited.time) == (asked.window, asked.time)
    fresh = timed_ledger(tmp_path / "new.db", unit=WEEKLY, epsilon=1)
    assert fresh.reconcile([folder]) == 3
    assert fresh.budget("visits").spent == 1
    with pytest.raises(BudgetError):
        fresh.charge(entry("2013-W03", pipeline="other", unit=WEEKLY))


def test_a_whole_person_loses_the_sum_over_the_intervals_met(tmp_path):
    ledger = timed_ledger(tmp_path / "l.db", unit=WEEKLY)
    for name in weeks():
        ledger.charge(entry(name, unit=WEEKLY, epsilon=Fraction(1, 2)))
    line = ledger.timeline("visits")
    entries = [row.entry for row in ledger.entries()]
    assert person_loss(entries, line) == PersonLoss(Fraction(26))
    ledger.charge(entry("2013-02", pipeline="monthly", unit=WEEKLY, epsilon=Fraction(1, 2)))
    said = over_time_json(ledger, "visits")
    assert said["whole_person"] == {"epsilon": "57/2", "delta": "0"}  # five weeks more
    assert max(Fraction(part["epsilon"]) for part in said["over_time"]) == 1
    lines = list(over_time(ledger, "visits"))
    assert lines[0].startswith("one person's rows of one week: at most ε = 1;")
    assert "over everything released so far from this table: at most 28.5" in lines[0]
    openly = timed_ledger(tmp_path / "o.db", unit=WEEKLY)
    openly.charge(entry("2013-W10", unit=WEEKLY, open_window=True))
    assert "no bound" in next(over_time(openly, "visits"))
    rows = timed_ledger(tmp_path / "r.db")
    rows.charge(entry("2013-W10"))
    assert list(over_time(rows, "visits")) == [
        "one row: at most ε = 1, over all releases that can have read it",
        "  2013-03-04T00:00:00Z to 2013-03-11T00:00:00Z: epsilon 1 in 1 debit",
        "no population: what a person loses by other datasets is not added to this",
        "weekly: after 2013-W10, the budget lasts for at least 100 more such periods",
    ]
    assert over_time_json(timed_ledger(tmp_path / "s.db", time=None), "visits") == {}


def test_what_is_left_is_said_to_be_one_unit_s_where_others_have_it_all(tmp_path):
    """`left 0` stood beside `the budget lasts for at least 100 more such periods`."""
    for name, stated, of_one in (("apart.db", {}, True), ("whole.db", {"time": None}, False)):
        book = timed_ledger(tmp_path / name, **stated)
        said = CliRunner().invoke(app, ["ledger", "show", "--ledger", str(book.path)]).output
        assert (", for the unit that lost most" in " ".join(said.split())) is of_one


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("epsilon", [Fraction(0), Fraction(1, 10**45), Fraction(1, 2), Fraction(3)])
def test_the_group_rule_is_the_sum_over_a_chain_of_neighbours(count, epsilon):
    """From unit to unit delta grows by e^epsilon and once more: P_k <= e^(k epsilon) P_0 + delta_k."""
    delta = Fraction(1, 10**9)
    chain = Fraction(0)
    for _ in range(count):  # exact but for e^epsilon, of which 50 digits are known
        chain = chain * exp_upper(epsilon, 200) + delta
    loss, found = group_rule(epsilon, delta, count)
    assert loss == count * epsilon
    assert chain * (1 - Fraction(1, 10**30)) <= found <= chain * (1 + Fraction(1, 10**9))


def test_a_delta_of_many_intervals_ends_at_one():
    assert group_rule(Fraction(3), Fraction(1, 10**6), 52) == (156, 1)
    assert group_rule(Fraction(9), Fraction(1, 10**18), 52) == (468, 1)


def test_a_whole_person_s_delta_and_rho(tmp_path):
    ledger = timed_ledger(tmp_path / "l.db", unit=WEEKLY, delta=Fraction(1, 10**6))
    for name in weeks(3):
        ledger.charge(entry(name, unit=WEEKLY, epsilon=Fraction(1, 4), delta=Fraction(1, 10**9)))
    ledger.charge(
        entry(
            "2013-02", pipeline="m", unit=WEEKLY, epsilon=Fraction(1, 4), delta=Fraction(1, 10**9)
        )
    )
    said = over_time_json(ledger, "visits")["whole_person"]
    assert said["epsilon"] == "2"  # three weeks, and a month of five
    more = group_rule(Fraction(1, 4), Fraction(1, 10**9), 5)[1]
    stated = Fraction(said["delta"])
    assert 0 <= stated - (3 * Fraction(1, 10**9) + more) < Fraction(1, 10**18)
    assert "apart from δ = 1.18e-08" in next(over_time(ledger, "visits"))
    zcdp = timed_ledger(
        tmp_path / "z.db", unit=WEEKLY, epsilon=2, delta=Fraction(1, 10**6), composition="zcdp"
    )
    for name in weeks(3):
        zcdp.charge(entry(name, unit=WEEKLY, epsilon=Fraction(1, 4)))
    zcdp.charge(entry("2013-02", pipeline="m", unit=WEEKLY, epsilon=Fraction(1, 4)))
    said = over_time_json(zcdp, "visits")["whole_person"]
    assert Fraction(said["rho"]) == Fraction(28, 32)  # 3 of 1/32, and 25 times as much of the month
    assert said["delta"] == "1/1000000"
    assert Fraction(said["epsilon"]) == zcdp_epsilon(Fraction(28, 32), Fraction(1, 10**6))


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_processes_that_race_over_overlapping_windows_never_overspend(tmp_path, adjacency):
    budget = 3 if adjacency == "add_remove" else 4
    ledger = timed_ledger(tmp_path / "l.db", epsilon=budget, adjacency=adjacency)
    names = ["2013-W05", "2013-W06", "2013-W07", "2013-02"]

    def work(i: int) -> None:
        for name in names:
            try:
                ledger.charge(entry(name, pipeline=f"p{i}", adjacency=adjacency))
            except BudgetError:
                continue

    assert set(in_processes(whole(8, 16), work)) == {0}
    assert ledger.budget("visits").spent == budget
    assert ledger.verify().ok
