"""A foreign request has so much time; one's own has all it needs."""

from __future__ import annotations

import signal
import threading
import time
from fractions import Fraction

import pytest

from dprelease.core.errors import VerificationError
from dprelease.core.patience import tick, within
from dprelease.measurements.informative import least_factor
from dprelease.planning.make import what_if
from tests.folders import CASES


def spin(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@pytest.mark.parametrize("seconds", [1e-9, 1e-6, 0.02])
def test_a_step_that_takes_too_long_ends_and_nothing_stays_behind(seconds):
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(VerificationError, match="not verified within") as caught, within(seconds):
        spin(5)
    assert caught.value.code == "DPR804"
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    tick()  # no deadline is left
    spin(0.05)


def test_without_a_deadline_there_is_all_the_time():
    tick()
    with within(60):
        tick()
    tick()


def test_in_another_thread_steps_look_at_the_clock():
    found = []

    def work():
        try:
            with within(0.01):
                time.sleep(0.05)
                tick()
        except VerificationError as late:
            found.append(late.code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["DPR804"]


def test_the_caller_s_own_alarm_is_left_alone():
    rung = []
    signal.signal(signal.SIGALRM, lambda *_: rung.append(True))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with within(0.001):
            spin(0.05)
        assert rung == [True]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_no_plan_is_left_out_because_the_time_is_over():
    """What other budgets would buy is what plans say: a plan that ends late says nothing."""
    plan = CASES["groups of users"]()
    assert what_if(plan)
    with pytest.raises(VerificationError) as caught, within(1e-9):
        what_if(plan)
    assert caught.value.code == "DPR804"

    def says(factor):
        tick()
        return factor > 2

    assert least_factor(says, Fraction(1), []) is not None
    with within(60):
        assert least_factor(says, Fraction(1), []) is not None
    with pytest.raises(VerificationError), within(1e-9):
        least_factor(says, Fraction(1), [])
