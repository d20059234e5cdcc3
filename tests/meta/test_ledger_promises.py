"""What the ledger promises, each with the tests that hold it and a build that breaks it."""

from __future__ import annotations

import importlib

import pytest

# promise -> (module, test, ...) that hold it; the last one of each is its broken twin or control
PROMISES = {
    "L1 debit before draw": (
        ("tests.budget.test_ledger", "test_nothing_is_drawn_before_the_debit"),
        ("tests.budget.test_ledger", "test_the_debit_is_durable_when_the_draw_begins"),
        (
            "tests.faults.test_power_loss_of_runs",
            "test_no_power_cut_takes_back_what_a_run_has_said",
        ),
        ("tests.faults.test_power_loss", "test_without_the_syncs_of_the_database_promises_break"),
    ),
    "L2 never over budget": (
        ("tests.faults.test_races", "test_many_processes_race_for_ten_slots"),
        ("tests.faults.test_kills", "test_rounds_of_two_processes"),
        ("tests.faults.test_state_machine", "test_sequences_follow_the_model"),
        ("tests.faults.test_races", "test_a_check_outside_the_lock_is_stopped_by_the_storage"),
    ),
    "L3 one debit and one draw per key": (
        ("tests.faults.test_races", "test_many_processes_on_one_key"),
        (
            "tests.budget.test_ledger",
            "test_the_same_key_with_another_plan_is_refused_with_both_hashes",
        ),
        ("tests.faults.test_interrupts", "test_at_a_named_instant"),
        ("tests.budget.test_ledger", "test_the_race_catches_a_draw_outside_the_transaction"),
    ),
    "L4 payload before publication": (
        ("tests.budget.test_ledger", "test_the_order_of_the_steps_is_enforced"),
        ("tests.faults.test_interrupts", "test_at_random_instants"),
        ("tests.faults.test_interrupts", "test_a_folder_that_is_written_in_place_is_caught"),
    ),
    "L5 fail closed": (
        ("tests.budget.test_ledger", "test_open_never_creates"),
        ("tests.budget.test_citation", "test_init_refuses_while_manifests_of_the_dataset_exist"),
        ("tests.budget.test_citation", "test_a_rollback_before_the_debit_is_found_and_reconciled"),
        ("tests.budget.test_location", "test_network_file_systems_are_refused"),
        ("tests.budget.test_location", "test_local_file_systems_are_taken"),
    ),
    "L6 tamper evidence": (
        ("tests.faults.test_corruption", "test_tampering_in_six_ways_is_detected"),
        ("tests.budget.test_chain", "test_an_old_copy_is_found_by_the_manifests"),
        ("tests.faults.test_corruption", "test_without_any_witness_the_last_three_are_not_seen"),
    ),
    "L7 public by construction": (
        ("tests.end_to_end.test_non_interference", "test_no_row_leaves_a_trace_in_any_file"),
        ("tests.budget.test_ledger", "test_the_salt_is_in_nothing_that_is_shown"),
        ("tests.end_to_end.test_non_interference", "test_a_build_that_leaks_is_caught"),
    ),
}


@pytest.mark.parametrize("promise", PROMISES)
def test_each_is_held_by_tests_of_these_names(promise: str) -> None:
    for module, name in PROMISES[promise]:
        assert callable(getattr(importlib.import_module(module), name)), name


def test_all_seven_are_here() -> None:
    assert [promise[:2] for promise in PROMISES] == [f"L{n}" for n in range(1, 8)]
