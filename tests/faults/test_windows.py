"""Kills and races on a ledger that adds up losses over time; its sums are made again by brute force."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from fractions import Fraction
from itertools import product

import pytest

from dprelease.budget.ledger import Entry, Key, Ledger
from dprelease.core.errors import BudgetError
from dprelease.core.periods import instant
from tests.budget import samples
from tests.budget.samples import in_processes
from tests.budget.timed import entry, timed_ledger
from tests.faults.protocol import POINTS, Dying, published
from tests.faults.sizes import WINDOW_KILLS, WINDOW_RACERS

NAMES = ("2013-W05", "2013-W06", "2013-W07", "2013-02", "2013-02-06", "2013-Q1")
COST = Fraction(1, 10)


def worst(entries: list[Entry], *, pairs: bool) -> Fraction:
    """Return what one row, or one of a pair, has lost: every instant at which a window begins is tried.

    Each maximum is attained there, because the windows that hold an instant all hold the latest of
    their beginnings.
    """
    windows = [(instant(e.window[0] or ""), instant(e.window[1] or "")) for e in entries]
    starts = [start for start, _ in windows]
    tried = list(product(starts, starts)) if pairs else [(start, start) for start in starts]
    return max(
        (
            sum(
                (
                    e.epsilon
                    for e, (low, high) in zip(entries, windows, strict=True)
                    if low <= u < high or low <= v < high
                ),
                Fraction(0),
            )
            for u, v in tried
        ),
        default=Fraction(0),
    )


def check(ledger: Ledger, *, pairs: bool, budget: Fraction) -> list[Entry]:
    """Assert that the chain holds, and the budget of every instant as brute force adds it up."""
    report = Ledger.open(ledger.path).verify()
    assert report.ok, report.problems
    entries = [row.entry for row in ledger.entries()]
    assert len({e.key for e in entries}) == len(entries)
    assert ledger.budget("visits").spent == worst(entries, pairs=pairs) <= budget
    return entries


def release(ledger: Ledger, asked: Entry, public) -> None:
    """Release one window under its own pipeline, so that its folder is its own."""
    samples.release(ledger, asked, public)


def asked(name: str, adjacency: str, pipeline: str = "weekly") -> Entry:
    return entry(name, pipeline=pipeline, adjacency=adjacency, epsilon=COST)


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_kills_over_overlapping_windows(place, evidence, adjacency):
    chance = random.Random(20300102)  # which window, point and instant: not noise
    pairs, n, kills, rounds_per_ledger = adjacency == "substitution", 0, 0, 20
    budget = Fraction(3, 10) * (2 if pairs else 1)
    while kills < WINDOW_KILLS:  # on a quick machine many rounds end before the blow
        assert n < 50 * WINDOW_KILLS
        if n % rounds_per_ledger == 0:
            folder, seen = place / f"{adjacency}{n}", {}
            folder.mkdir()
            ledger = timed_ledger(folder / "l.db", epsilon=budget, adjacency=adjacency)
        children = []
        for _ in range(2):
            name = chance.choice(NAMES)
            point = chance.choice(POINTS) if n % 2 else ""
            child = os.fork()
            if child == 0:
                _work(ledger, asked(name, adjacency), folder / "public", point)
            children.append(child)
        if not n % 2:
            time.sleep(chance.random() * 0.06)
            for child in children:
                os.kill(child, signal.SIGKILL)
        for child in children:
            _, status = os.waitpid(child, 0)
            assert os.WIFSIGNALED(status) or status == 0
            kills += os.WIFSIGNALED(status)
        check(ledger, pairs=pairs, budget=budget)
        for period, files in published(folder / "public").items():
            assert files == ledger.files(Key("visits", "weekly", period))
            assert seen.setdefault(period, files) == files
        n += 1
    evidence(
        f"kill -9 over windows, {adjacency}",
        f"{n} rounds, 2 processes each",
        f"{kills} kills, 0 violations",
    )


def _work(ledger: Ledger, one: Entry, public, point: str) -> None:
    try:
        if point:
            Dying.arm(point)
        release(ledger, one, public)
    except BudgetError:
        os._exit(0)
    except BaseException:
        os._exit(1)
    os._exit(0)


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_a_large_race_fills_every_interval_and_no_more(place, evidence, adjacency):
    pairs = adjacency == "substitution"
    budget = Fraction(1) * (2 if pairs else 1)
    ledger = timed_ledger(place / "l.db", epsilon=budget, adjacency=adjacency)

    def work(i: int) -> None:
        for name in random.Random(i).sample(NAMES, len(NAMES)):
            try:
                ledger.charge(asked(name, adjacency, f"p{i}"))
            except BudgetError:
                continue

    assert in_processes(WINDOW_RACERS, work) == [0] * WINDOW_RACERS
    entries = check(ledger, pairs=pairs, budget=budget)
    assert worst(entries, pairs=pairs) == budget  # nothing that fits was refused
    done = {e.key for e in entries}
    for name in NAMES:
        one = asked(name, adjacency, "last")
        with pytest.raises(BudgetError):
            ledger.charge(one)
    evidence(
        f"race over windows, {adjacency}",
        f"{WINDOW_RACERS} processes, {len(NAMES)} windows each",
        f"{len(done)} released, every interval at most {budget}",
    )


def test_a_twin_that_forgets_the_quarter_understates():
    """The brute force tells apart a sum that leaves one overlapping window out."""
    entries = [asked(name, "add_remove") for name in NAMES]
    assert worst(entries, pairs=False) == 4 * COST  # day, week, month and quarter
    assert worst([e for e in entries if "Q" not in e.key.period], pairs=False) == 3 * COST
    assert worst(entries, pairs=True) == 5 * COST  # and another week
    assert json.loads(entries[0].time or "")["immutable"]
