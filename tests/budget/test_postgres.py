"""The ledger on a server: the protocol's own tests again, and what only a server can break."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import replace
from fractions import Fraction

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget import postgres
from dprelease.budget.connection import PostgresPlace
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.core.errors import BudgetError, InternalError, LedgerError, WithheldError
from dprelease.pipeline.starter import create_starter
from tests.budget import (
    populations,
    samples,
    test_approval,
    test_ledger,
    test_period_cap,
    test_population,
    test_population_sums,
    test_timed_ledger,
)
from tests.budget.samples import (
    UNIT,
    die,
    entry,
    in_processes,
    key,
    killed_in_fork,
    release,
)
from tests.budget.timed import ROW, WEEKLY, timed_ledger, weeks
from tests.end_to_end.projects import tree
from tests.engines.postgres_server import binaries, server
from tests.pipeline import tiny
from tests.published import read_folder
from tests.rules_alone import rules_alone
from tests.sizes import FULL, whole

psycopg = pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
pytestmark = pytest.mark.skipif(
    binaries() is None,
    reason="no PostgreSQL server is installed (Debian: apt-get install postgresql)",
)
TENTH = Fraction(1, 10)


@pytest.fixture(autouse=True)
def built_in_rules_only():
    with rules_alone():
        yield


@pytest.fixture(scope="module")
def dsn():
    with server(durable=True) as found:
        yield found


@contextlib.contextmanager
def session(dsn):
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("SET search_path = dprelease_ledger")
        yield db


@pytest.fixture
def place(dsn):
    with psycopg.connect(dsn, autocommit=True) as db:
        db.execute("DROP SCHEMA IF EXISTS dprelease_ledger CASCADE")
    return PostgresPlace("PostgreSQL ${env:LEDGER}", lambda: dsn)


def made(place, **more):
    return Ledger.create(
        place, **{"dataset": "clinic", "epsilon": 1, "adjacency": "add_remove", "unit": UNIT} | more
    )


def code_of(kind, call, *args, **kwargs):
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert "host=" not in str(caught.value)
    return caught.value.code


# -- the same suite ------------------------------------------------------------------------

SAME = [
    test_ledger.test_create_refuses_another_budget_and_accepts_the_raised_one,
    test_ledger.test_a_debit_is_paid_once_and_its_anchor_stays,
    test_ledger.test_the_same_key_with_another_plan_is_refused_with_both_hashes,
    test_ledger.test_over_budget_says_spent_asked_and_left,
    test_ledger.test_delta_over_budget_has_its_own_code,
    test_ledger.test_another_unit_or_adjacency_is_not_added_up,
    test_ledger.test_a_raise_beyond_64_bits_is_refused,
    test_ledger.test_the_whole_protocol,
    test_ledger.test_nothing_is_drawn_before_the_debit,
    test_ledger.test_the_order_of_the_steps_is_enforced,
    test_ledger.test_a_failed_key_stays_failed_and_spent,
    test_ledger.test_an_interrupt_from_outside_is_a_crash_not_a_failure,
    test_ledger.test_eight_processes_race_for_three_slots,
    test_ledger.test_eight_processes_on_one_key_draw_once_and_get_the_same_bytes,
    test_period_cap.test_a_cap_holds_over_all_pipelines_and_per_period,
    test_period_cap.test_a_cap_changes_on_the_record_only,
    test_period_cap.test_a_debit_over_the_cap_is_found_by_the_fold,
    test_period_cap.test_a_crash_in_the_draw_is_paid_again_if_wanted,
    test_period_cap.test_every_crash_is_paid_until_nothing_is_left,
    test_approval.test_a_required_approval_is_needed_and_nothing_is_spent_without,
    test_approval.test_one_approval_is_for_all_periods,
    test_approval.test_the_last_day_of_an_approval_counts_and_the_next_does_not,
    test_approval.test_limits_are_exact_and_count_every_debit_under_it,
    test_approval.test_from_the_first_signed_one_on_only_that_key_approves,
    test_approval.test_someone_who_can_write_the_ledger_and_has_no_key_is_found,
    test_approval.test_a_build_that_asks_for_no_approval,
    test_approval.test_processes_race_for_the_last_of_an_approval,
]


@pytest.mark.parametrize("test", SAME, ids=lambda test: test.__name__)
def test_the_protocol_is_the_same(test, place, tmp_path, monkeypatch):
    def new_ledger(_folder, *, epsilon=1, delta=0, name="l"):
        return made(place, epsilon=epsilon, delta=delta)

    def capped(_folder, cap="0.2", **more):
        return made(place, per_period=cap, **more)

    for module in (samples, test_ledger, test_period_cap):
        monkeypatch.setattr(module, "new_ledger", new_ledger)
    monkeypatch.setattr(test_period_cap, "capped", capped)
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
    given = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    if "ledger" in wanted:
        given["ledger"] = made(place)
    test(**{name: given[name] for name in wanted})


OF_WEEKS = (
    test_timed_ledger.test_a_year_of_weeks_costs_one_week_or_a_pair,
    test_timed_ledger.test_months_beside_weeks_cost_their_own_epsilon_more,
    test_timed_ledger.test_rho_is_added_up_by_interval,
)
"""Of nine weeks with every change: each is a transaction of a server."""

TIMED = [
    *((test_timed_ledger.test_a_year_of_weeks_costs_one_week_or_a_pair, given) for given in
      ({"unit": ROW, "adjacency": "add_remove", "budget": 1},
       {"unit": WEEKLY, "adjacency": "substitution", "budget": 1},
       {"unit": ROW, "adjacency": "substitution", "budget": 2})),
    (test_timed_ledger.test_months_beside_weeks_cost_their_own_epsilon_more, {}),
    (test_timed_ledger.test_labels_without_a_window_are_not_parallel, {}),
    (test_timed_ledger.test_without_the_declaration_the_sum_is_charged, {"unit": WEEKLY}),
    (test_timed_ledger.test_delta_is_added_up_by_interval_too, {}),
    (test_timed_ledger.test_rho_is_added_up_by_interval, {}),
    (test_timed_ledger.test_deltas_of_disjoint_days_may_pass_one_together, {"composition": "basic"}),
    (test_timed_ledger.test_paying_again_counts_in_the_same_window, {}),
    (test_timed_ledger.test_a_restored_ledger_debits_the_windows_that_manifests_cite, {}),
    *([(test_timed_ledger.test_a_whole_person_loses_the_sum_over_the_intervals_met, {})] if FULL else []),
    (test_timed_ledger.test_processes_that_race_over_overlapping_windows_never_overspend,
     {"adjacency": "add_remove"}),
    (test_timed_ledger.test_processes_that_race_over_overlapping_windows_never_overspend,
     {"adjacency": "substitution"}),
]  # fmt: skip


@pytest.mark.parametrize(("test", "given"), TIMED, ids=lambda part: getattr(part, "__name__", ""))
def test_losses_over_time_are_the_same(test, given, place, dsn, tmp_path, monkeypatch):
    """Windows, pairs and intervals in the server's own transactions."""

    def on_server(_place, **more):
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute("DROP SCHEMA IF EXISTS dprelease_ledger CASCADE")
        return timed_ledger(place, **more)

    monkeypatch.setattr(test_timed_ledger, "timed_ledger", on_server)
    if test in OF_WEEKS:
        some_of = weeks()[4:] if FULL else [weeks()[4], *weeks()[16:24]]
        monkeypatch.setattr(test_timed_ledger, "weeks", lambda: some_of)
    test(tmp_path, **given)


OF_MEMBERS = [
    test_population.test_two_tables_of_the_same_people_add_up,
    test_population.test_a_member_and_week_lose_what_meets_the_week,
    test_population.test_a_raise_is_on_the_record,
    test_population.test_a_dataset_joins_with_what_it_has_cost_already,
    test_population.test_a_debit_that_got_round_the_check_is_found,
    test_population.test_a_raise_does_not_heal_what_came_before_it,
    test_population.test_processes_race_over_two_datasets_for_three_slots,
    test_population.test_paying_again_costs_a_member_again,
]


@pytest.mark.parametrize("test", OF_MEMBERS, ids=lambda test: test.__name__)
def test_populations_are_the_same(test, place, tmp_path, monkeypatch):
    def on_server(_place, *given, **more):
        return populations.joined(place, *given, **more)

    monkeypatch.setattr(test_population, "joined", on_server)
    wanted = test.__code__.co_varnames[: test.__code__.co_argcount]
    given = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
    test(**{name: given[name] for name in wanted})


@pytest.mark.parametrize("seed", range(whole(2, 40)))
def test_own_sums_of_members_admit_and_refuse_the_same(place, seed):
    found = test_population_sums.Trial(place, 500 + seed).run()
    assert (found.over_admitted, found.wrongly_refused) == (0, 0)


def test_zcdp_budgets_too(place):
    ledger = made(place, epsilon=1, delta="1e-6", composition="zcdp")
    assert ledger.composition("clinic") == "zcdp"
    ledger.charge(entry())
    assert 0 < ledger.budget("clinic").spent < 1
    assert ledger.verify().ok


# -- what only a server can break ----------------------------------------------------------


def test_open_never_creates_and_create_needs_no_manifest_of_another(place, tmp_path):
    assert code_of(LedgerError, Ledger.open, place) == "DPR401"
    ledger = made(place)
    release(ledger, entry(), tmp_path / "public")
    assert Ledger.open(place, public=tmp_path / "public").verify().ok
    with session(place.reveal_to_driver()) as db:
        db.execute("DROP SCHEMA dprelease_ledger CASCADE")
    assert code_of(LedgerError, made, place, anchors=[tmp_path / "public"]) == "DPR401"
    made(place)
    assert code_of(LedgerError, Ledger.open, place, public=tmp_path / "public") == "DPR405"


def test_settings_are_read_back(place):
    with server() as quick:  # fsync = off, as tests of other things like it
        assert code_of(LedgerError, made, PostgresPlace("quick", lambda: quick)) == "DPR409"
    made(place)  # control


def test_rows_are_never_changed(place, tmp_path):
    release(made(place), entry(), tmp_path / "public")
    with session(place.reveal_to_driver()) as db:
        for table in postgres._TABLES:
            for statement in (f"DELETE FROM {table}", f"TRUNCATE {table} CASCADE"):
                with pytest.raises(psycopg.Error, match="append-only"):
                    db.execute(statement)
        with pytest.raises(psycopg.Error, match="append-only"):
            db.execute("UPDATE entry SET nano_epsilon = 1")


@pytest.mark.parametrize(
    "edit",
    [
        (
            "ALTER TABLE entry DISABLE TRIGGER ALL; UPDATE entry SET nano_epsilon = 1;"
            " ALTER TABLE entry ENABLE TRIGGER ALL"
        ),
        "ALTER TABLE chain DISABLE TRIGGER chain_no_change",
        "DROP TRIGGER entry_in_budget ON entry",
        (
            "CREATE OR REPLACE FUNCTION entry_in_budget() RETURNS trigger LANGUAGE plpgsql"
            " AS 'BEGIN RETURN NULL; END'"
        ),
        "INSERT INTO version VALUES (9)",
        "INSERT INTO version VALUES (3)",
        (
            "ALTER TABLE chain DISABLE TRIGGER ALL;"
            " UPDATE chain SET body = replace(body, '1/10', '1/20');"
            " ALTER TABLE chain ENABLE TRIGGER ALL"
        ),
    ],
)
def test_tampering_is_found_when_the_ledger_is_opened(place, tmp_path, edit):
    ledger = made(place)
    release(ledger, entry(), tmp_path / "public")
    Ledger.open(place)  # control
    with session(place.reveal_to_driver()) as db:
        db.execute(edit)
    assert code_of(LedgerError, Ledger.open, place) == "DPR403"
    assert not ledger.verify().ok


def test_the_budget_holds_in_the_server_too(place, monkeypatch):
    ledger = made(place, epsilon="0.1")
    monkeypatch.setattr(
        "dprelease.budget.rows.Cost.within", lambda *_: True
    )  # broken twin of the check
    ledger.charge(entry())
    assert code_of(LedgerError, ledger.charge, entry("2030-02")) == "DPR402"
    assert ledger.budget("clinic").spent == TENTH


def as_runner(dsn, *further: str) -> Ledger:
    """Open the ledger as a new role of SELECT and INSERT, after `further` statements."""
    with session(dsn) as db:
        db.execute("DROP ROLE IF EXISTS runner")
        db.execute("CREATE ROLE runner LOGIN")
        db.execute("GRANT USAGE ON SCHEMA dprelease_ledger TO runner")
        db.execute("GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA dprelease_ledger TO runner")
        for statement in further:
            db.execute(statement)
    weak = PostgresPlace("PostgreSQL ${env:RUNNER}", lambda: dsn.replace("tester", "runner"))
    return Ledger.open(weak)


def test_a_role_with_select_and_insert_is_enough(place, dsn, tmp_path):
    made(place)
    ledger = as_runner(dsn)
    ledger.approve(replace(test_approval.approved(), pipeline="approved"))
    release(ledger, entry(), tmp_path / "public")
    assert ledger.state(key()) == "published"
    with session(dsn) as db:
        db.execute("DROP OWNED BY runner")
        db.execute("DROP ROLE runner")


@pytest.mark.parametrize("closed", ["payload", "file", "state"])
def test_a_role_that_may_not_write_all_is_refused_before_its_debit(place, dsn, closed):
    made(place)
    ledger = as_runner(dsn, f"REVOKE INSERT ON dprelease_ledger.{closed} FROM runner")
    with pytest.raises(LedgerError, match=f"INSERT into {closed}") as caught:
        ledger.charge(entry())
    assert (caught.value.code, ledger.budget("clinic").spent) == ("DPR402", 0)
    [grant] = re.findall("GRANT INSERT ON .* TO", str(caught.value.fix))
    with session(dsn) as db:
        db.execute(f"{grant} runner")
    ledger.charge(entry())
    with session(dsn) as db:
        db.execute("DROP OWNED BY runner")
        db.execute("DROP ROLE runner")


def dying_at(n, counts, monkeypatch):
    """Let this process die at the n-th instant before or after a statement that counts."""
    raw, left = psycopg.Connection.execute, [n]

    def execute(self, query, *args, **kwargs):
        if not counts(query):
            return raw(self, query, *args, **kwargs)
        tick()
        result = raw(self, query, *args, **kwargs)
        tick()
        return result

    def tick() -> None:
        left[0] -= 1
        if left[0] == 0:
            die()

    monkeypatch.setattr(psycopg.Connection, "execute", execute)


def writes(query) -> bool:
    """Return whether a kill is tried around a statement: around those that write; in full, around all."""
    return bool(whole(0, 1)) or re.match("(b')?(INSERT|COMMIT)", str(query)) is not None


def test_killed_at_every_commit_nothing_is_lost_or_doubled(place, tmp_path, monkeypatch):
    """Before and after every commit of a release, a reader's too."""
    states = set()
    for n in range(1, 12):
        with session(place.reveal_to_driver()) as db:
            db.execute("DROP SCHEMA IF EXISTS dprelease_ledger CASCADE")
        ledger, public = made(place), tmp_path / str(n)

        def work(n=n, ledger=ledger, public=public) -> None:
            dying_at(n, lambda query: query == "COMMIT", monkeypatch)
            release(ledger, entry(), public)

        killed_in_fork(work)
        report = ledger.verify()
        assert report.ok, report.problems
        states.add(ledger.state(key()) if ledger.has(key()) else "nothing")
        before = ledger.payload(key()) if ledger.has(key()) else None
        release(ledger, entry(), public)
        assert before in (None, ledger.payload(key()))
        assert read_folder(public / "weekly" / "2030-01") == ledger.files(key())
        assert ledger.budget("clinic").spent == TENTH
    assert states == {"nothing", "charged", "drawn", "ready", "published"}


def test_killed_between_any_two_statements_a_member_loses_no_more_than_the_budget(
    place, monkeypatch
):
    """A charge that fits the one budget of two datasets: it is debited or not, and then nothing else fits."""
    states, n, done = set(), 0, False
    while not done:
        n += 1
        with session(place.reveal_to_driver()) as db:
            db.execute("DROP SCHEMA IF EXISTS dprelease_ledger CASCADE")
        one = populations.terms(1)
        populations.joined(place, "prescriptions", one)
        ledger = populations.joined(place, "visits", one)

        def work(n=n, ledger=ledger) -> None:
            dying_at(n, writes, monkeypatch)
            ledger.charge(populations.entry("visits"))

        done = killed_in_fork(work) == 0
        assert ledger.verify().ok
        spent = ledger.populations().budget(populations.MEMBERS).spent
        states.add(spent)
        if spent:
            other = populations.entry("prescriptions")
            assert code_of(BudgetError, ledger.charge, other) == "DPR309"
        ledger.charge(populations.entry("visits"))
        assert ledger.populations().budget(populations.MEMBERS).spent == 1
    assert n > whole(6, 40)
    assert states == {0, 1}


def test_killed_between_any_two_statements_a_dataset_has_joined_or_not(place, monkeypatch):
    states, n, done = set(), 0, False
    while not done:
        n += 1
        with session(place.reveal_to_driver()) as db:
            db.execute("DROP SCHEMA IF EXISTS dprelease_ledger CASCADE")
        ledger = populations.joined(place, "old", None)
        ledger.charge(populations.entry("old"))

        def work(n=n) -> None:
            dying_at(n, writes, monkeypatch)
            populations.joined(place, "old", populations.terms())

        done = killed_in_fork(work) == 0
        assert ledger.verify().ok
        states.add(ledger.populations().member.get("old"))
        populations.joined(place, "old", populations.terms())
        assert ledger.populations().budget(populations.MEMBERS).spent == 1
    assert n > whole(6, 40)
    assert states == {None, populations.MEMBERS}


def test_a_lost_connection_says_what_is_spent(place, dsn):
    ledger = made(place)

    def cut() -> None:
        with psycopg.connect(dsn, autocommit=True) as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    ledger.charge(entry())
    drawn = []

    def draw() -> bytes:
        drawn.append(1)
        cut()
        return b"abcd"

    assert code_of(WithheldError, ledger.draw_once, key(), draw, width=4) == "DPR712"
    assert ledger.payload(key()) is None
    assert ledger.draw_once(key(), lambda: b"wxyz", width=4) == b"wxyz"
    assert drawn == [1]
    gone = PostgresPlace("PostgreSQL ${env:GONE}", lambda: "host=/nowhere user=x")
    assert code_of(LedgerError, Ledger(gone).charge, entry()) == "DPR425"
    assert code_of(LedgerError, made, gone) == "DPR425"
    assert code_of(LedgerError, Ledger.open, gone) == "DPR425"


def test_a_failed_commit_of_a_debit_is_unknown(place, monkeypatch):
    ledger, raw = made(place), psycopg.Connection.execute

    def execute(self, query, *args, **kwargs):
        if query == "COMMIT":
            raise psycopg.OperationalError("secret 4711")
        return raw(self, query, *args, **kwargs)

    monkeypatch.setattr(psycopg.Connection, "execute", execute)
    with pytest.raises(InternalError) as caught:
        ledger.charge(entry())
    assert "4711" not in str(caught.value)
    monkeypatch.undo()


def test_twenty_processes_race_for_ten_slots(place):
    ledger = made(place)

    def work(i: int) -> None:
        try:
            ledger.charge(entry(f"p{i}"))
        except BudgetError:
            os._exit(7)

    codes = in_processes(20, work)
    assert (codes.count(0), codes.count(7)) == (10, 10)
    assert ledger.verify().ok


def test_a_reconciled_release_is_debited(place, tmp_path):
    ledger = made(place)
    receipt = release(ledger, entry(), tmp_path / "public")
    with session(place.reveal_to_driver()) as db:
        db.execute("DROP SCHEMA dprelease_ledger CASCADE")
    ledger = made(place)
    assert ledger.reconcile([tmp_path / "public"]) == 1
    assert ledger.budget("clinic").spent == TENTH
    assert ledger.anchor_ok(receipt.anchor)


def test_a_pipeline_runs_on_it_and_its_secret_is_nowhere(place, dsn, tmp_path, monkeypatch):
    pipeline = tiny.project(tmp_path)
    text = pipeline.read_text()
    assert "../.dprelease/ledger.db" in text
    reference = '"${env:DPRELEASE_LEDGER_DSN}"'
    pipeline.write_text(text.replace("../.dprelease/ledger.db", reference))
    monkeypatch.setenv("DPRELEASE_LEDGER_DSN", dsn)
    said = ""
    for words in (
        ["ledger", "init"],
        ["run", "--period", "2026-W04"],
        ["run", "--period", "2026-W04"],
        ["ledger", "show"],
        ["ledger", "verify"],
        ["ledger", "add", "--epsilon", "1"],
    ):
        done = CliRunner().invoke(app, [*words, str(pipeline)])
        assert done.exit_code == 0, done.output
        said += done.output
    (row,) = Ledger.open(place).entries()
    assert row.state == "published"
    everything = said.encode() + b"".join(tree(tmp_path).values())
    assert dsn.split()[0].removeprefix("host=").encode() not in everything
    monkeypatch.delenv("DPRELEASE_LEDGER_DSN")
    done = CliRunner().invoke(app, ["run", "--period", "2026-W05", str(pipeline)])
    assert (done.exit_code, "DPR520" in done.output) == (1, True)


# -- wherever a file is taken, the server is, under one name ---------------------------------

NAME = "${env:DPRELEASE_LEDGER_DSN}"


def command(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_every_command_takes_its_name(place, dsn, tmp_path, monkeypatch):
    pipeline = tiny.project(tmp_path)
    pipeline.write_text(pipeline.read_text().replace("../.dprelease/ledger.db", f'"{NAME}"'))
    monkeypatch.setenv("DPRELEASE_LEDGER_DSN", dsn)
    schema, folder = tmp_path / "schemas" / "visits.yaml", tmp_path / "public" / "weekly"
    made = ["ledger", "init", "--ledger", NAME, "--schema", schema, "--epsilon", "100"]
    assert "visits has epsilon 100" in command(*made)
    command("run", pipeline, "--period", "2026-W04", "--quiet")
    verified = command("verify", folder / "2026-W04", "--ledger", NAME)
    assert "debits this plan" in verified
    for words in (["ledger", "show"], ["ledger", "verify"], ["ledger", "show", "--json"]):
        assert dsn not in command(*words, "--ledger", NAME)
    with session(dsn) as db:  # lost, and made again: the folder's releases are debited
        db.execute("DROP SCHEMA dprelease_ledger CASCADE")
    command(*made)
    public = tmp_path / "public"
    assert command("ledger", "reconcile", "--ledger", NAME, "--public", public).startswith("1 ")
    assert command("ledger", "reconcile", pipeline).startswith("0 ")
    assert "debits this plan" in command("verify", folder / "2026-W04", "--ledger", NAME)
    assert Ledger.open(place).budget("visits").spent == 1


def test_every_function_takes_its_name(place, dsn, tmp_path, monkeypatch):
    create_starter(tmp_path)
    schema = tmp_path / "schemas" / "clinic.yaml"
    frame = pd.read_csv(tmp_path / "data" / "visits.csv", dtype=str)
    where = {"ledger": NAME, "dataset": "clinic", "period": "wave-1"}
    monkeypatch.setenv("DPRELEASE_LEDGER_DSN", dsn)
    with pytest.raises(LedgerError) as caught:
        dp.release(frame, schema, **where)
    assert caught.value.code == "DPR401"
    assert f'dp.create_ledger("{NAME}"' in (caught.value.fix or "")
    dp.create_ledger(NAME, schema, dataset="clinic", epsilon=4)
    first, again = dp.release(frame, schema, **where), frame.dp.release(schema, **where)
    assert (first.receipt.fresh, again.receipt.fresh) == (True, False)
    assert first.table.equals(again.table)
    folder = first.publish(tmp_path / "public")
    assert dp.verify(folder, ledger=NAME).ok
    assert dsn.encode() not in b"".join(tree(tmp_path).values())


def test_a_policy_of_a_table_that_a_release_writes_later_is_found_before_its_debit(place, dsn):
    made(place)
    ledger = as_runner(dsn, "ALTER TABLE dprelease_ledger.payload ENABLE ROW LEVEL SECURITY")
    with pytest.raises(LedgerError, match="a policy of the table") as caught:
        ledger.charge(entry())
    assert (caught.value.code, ledger.budget("clinic").spent) == ("DPR402", 0)
    with session(dsn) as db:
        db.execute("ALTER TABLE dprelease_ledger.payload DISABLE ROW LEVEL SECURITY")
    ledger.charge(entry())
    with session(dsn) as db:
        db.execute("REVOKE SELECT ON dprelease_ledger.entry FROM runner")
    with pytest.raises(LedgerError, match="42501") as lacking:
        ledger.budget("clinic")
    assert str(lacking.value.fix).startswith("GRANT the role what it lacks")
    with session(dsn) as db:
        db.execute("DROP OWNED BY runner")
        db.execute("DROP ROLE runner")
