"""kill -9, at named points and at random instants: nothing lost, doubled or changed."""

from __future__ import annotations

import os
import random
import signal
import time
from fractions import Fraction

import pytest

from dprelease.core.errors import BudgetError
from tests.budget.samples import entry, killed_in_fork, new_ledger, release
from tests.faults.protocol import POINTS, Dying, check
from tests.faults.sizes import KILL_ROUNDS


@pytest.mark.parametrize("point", POINTS)
def test_every_named_point_is_reached(place, point):
    """Otherwise rounds that aim at it would prove nothing."""
    ledger, public = new_ledger(place), place / "public"

    def work() -> None:
        Dying.arm(point)
        release(ledger, entry(), public)

    assert killed_in_fork(work) == signal.SIGKILL
    check(ledger.path, public, Fraction(1), {})
    release(ledger, entry(), public)
    check(ledger.path, public, Fraction(1), {})
    assert len(ledger.entries()) == 1


def start(work) -> int:
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BudgetError:
        os._exit(0)
    except BaseException:
        os._exit(1)
    os._exit(0)


def test_rounds_of_two_processes(place, evidence):
    """Half of the kills at named points, half at random instants; periods are tried again."""
    chance = random.Random(20300101)  # which point, which instant: not noise
    kills, rounds_per_ledger = 0, 25
    for n in range(KILL_ROUNDS):
        if n % rounds_per_ledger == 0:
            folder, budget, seen = place / str(n), Fraction(4, 5), {}
            ledger, public = new_ledger(folder, epsilon="0.8"), folder / "public"
        children = []
        for _ in range(2):
            period = f"p{chance.randrange(10)}"
            point = chance.choice(POINTS) if n % 2 else ""

            def work(period=period, point=point, ledger=ledger, public=public) -> None:
                if point:
                    Dying.arm(point)
                release(ledger, entry(period), public)

            children.append(start(work))
        if not n % 2:
            time.sleep(chance.random() * 0.06)
            for child in children:
                os.kill(child, signal.SIGKILL)
        for child in children:
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status) or status == 0
            kills += os.WIFSIGNALED(status)
        check(ledger.path, public, budget, seen)
    assert kills > KILL_ROUNDS / 5  # on a quick machine many rounds end before the blow
    evidence("kill -9", f"{KILL_ROUNDS} rounds, 2 processes each", f"{kills} kills, 0 violations")
