"""Parallel composition: what releases of windows cost together, against every small world.

The worlds have three intervals, at most four rows, units that are rows or persons in an interval, and
releases whose windows are single intervals, pairs of neighbours ("months") and all of time. A release
reads the rows of its window through a mechanism with the worst law there is at its price: randomised
response of "is there a row of interest?", or of which of two rows it is. The exact loss of all releases
together, over every pair of neighbours and every joint answer, never passes what the ledger states, and
is attained.
"""

from __future__ import annotations

import itertools
import math
import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from dprelease.budget.accountant import Cost
from dprelease.budget.parallel import TimedCost, stretches, worst, worst_cost
from dprelease.budget.timeline import ALWAYS, Timeline, timeline
from dprelease.core.periods import instant, instant_text

MONDAY = datetime(2013, 1, 7, tzinfo=UTC)
WEEK = timedelta(days=7)
OPEN = (None, None)


def span(first: int, last: int) -> tuple[datetime, datetime]:
    """Return the window of weeks `first` to `last`, both included."""
    return MONDAY + first * WEEK, MONDAY + (last + 1) * WEEK


WINDOWS = [span(0, 0), span(1, 1), span(2, 2), span(0, 1), span(1, 2), OPEN]
SETS = [s for size in range(1, 4) for s in itertools.combinations_with_replacement(WINDOWS, size)]


def reads(window: tuple[datetime | None, datetime | None], week: int) -> bool:
    at = MONDAY + week * WEEK
    return (window[0] is None or window[0] <= at) and (window[1] is None or at < window[1])


def stated(windows, costs, *, pairs=False) -> Fraction:
    line = Timeline("week", "UTC", apart=True)
    return worst([line.instants(w) for w in windows], costs, pairs=pairs)


# --- exact losses of randomised responses: one bit per release, in powers of e -------------------


def loss(answers: tuple[int, ...], before, after, costs) -> Fraction:
    """Return log P(answers | before) / P(answers | after): each release flips its bit at its epsilon."""
    total = Fraction(0)
    for answer, b, a, cost in zip(answers, before, after, costs, strict=True):
        total += cost * ((answer == b) - (answer == a))
    return total


def exact_loss(windows, costs, table, neighbour) -> Fraction:
    """Return the largest log ratio over all joint answers of all releases.

    Each release asks the bit that tells its two worlds apart, if any does: no mechanism is worse.
    """
    before, after = [], []
    for window in windows:
        seen = [[r for r in world if reads(window, r[0])] for world in (table, neighbour)]
        bits = [tuple(map(bit, seen)) for bit in BITS]
        told = next((pair for pair in bits if pair[0] != pair[1]), (0, 0))
        before.append(told[0])
        after.append(told[1])
    return max(
        loss(answers, before, after, costs)
        for answers in itertools.product((0, 1), repeat=len(windows))
    )


Row = tuple[int, int]  # week, value
ROWS: list[Row] = list(itertools.product(range(3), (0, 1)))
TABLES = [t for n in range(4) for t in itertools.combinations_with_replacement(ROWS, n)]


BITS = (
    lambda rows: len(rows) % 2,
    lambda rows: sum(value for _, value in rows) % 2,
    lambda rows: sum(week == 0 for week, _ in rows) % 2,
    lambda rows: sum(week == 1 for week, _ in rows) % 2,
)
"""Every row more, less or replaced by a different one flips one of them."""


def test_adding_or_removing_a_row_costs_what_is_stated_and_no_more():
    """Under add_remove: each world of up to three rows, and one more."""
    costs = [Fraction(1), Fraction(1, 2), Fraction(2)]
    for windows in SETS:
        used = costs[: len(windows)]
        found = max(
            exact_loss(windows, used, table, (*table, row)) for table in TABLES[:10] for row in ROWS
        )
        assert found == stated(windows, used), windows


def test_replacing_a_row_costs_a_pair_of_instants():
    """Under substitution a row may be replaced by one of another week: both weeks' releases see it."""
    costs = [Fraction(1), Fraction(1, 2), Fraction(2)]
    for windows in SETS:
        used = costs[: len(windows)]
        found = max(
            exact_loss(windows, used, (*table, one), (*table, other))
            for table in TABLES[:4]
            for one, other in itertools.permutations(ROWS, 2)
        )
        assert found == stated(windows, used, pairs=True), windows


def test_a_person_of_a_week_is_replaced_within_the_week():
    """Two rows of one person and week come, go or change; a second person's rows stay."""
    costs = [Fraction(1), Fraction(1, 2), Fraction(2)]
    units = [
        tuple((week, v) for v in values) for week in range(3) for values in ((1,), (1, 0), (0, 0))
    ]
    others = [(), ((0, 1),), ((1, 1), (2, 0))]
    for windows in SETS:
        used = costs[: len(windows)]
        worlds = [(o, u) for o in others for u in units]
        found = Fraction(0)
        for o, u in worlds:
            found = max(found, exact_loss(windows, used, (*o, *u), o))
            same = [w for w in units if w[0][0] == u[0][0]]
            for w in same:
                found = max(found, exact_loss(windows, used, (*o, *u), (*o, *w)))
        assert found == stated(windows, used), windows


def test_twins_that_forget_are_caught():
    """The enumeration above exceeds what careless accountants state."""
    month, week = span(0, 1), span(1, 1)
    costs = [Fraction(1), Fraction(1)]
    found = exact_loss((month, week), costs, ((1, 1),), ())
    assert found == 2 > max(costs)  # one that takes the largest, overlapping or not
    moved = exact_loss((span(0, 0), span(2, 2)), costs, ((0, 1),), ((2, 1),))
    assert moved == 2 > stated((span(0, 0), span(2, 2)), costs)  # one that forgets the pair
    always = exact_loss((OPEN, week), costs, ((1, 1),), ())
    assert always == 2  # one that takes an open window for an interval of its own
    straddling = (datetime(2013, 1, 10, tzinfo=UTC), datetime(2013, 1, 17, tzinfo=UTC))
    line = Timeline("week", "UTC", apart=True)
    all_instants = [line.instants(straddling), line.instants(span(0, 0)), line.instants(span(1, 1))]
    assert worst(all_instants, [1, 1, 1], pairs=False) == 2
    bare = [straddling, (MONDAY, straddling[0]), (straddling[1], MONDAY + 2 * WEEK)]
    assert worst(bare, [1, 1, 1], pairs=False) == 1  # windows alone meet no week twice


def test_delta_and_epsilon_are_each_the_worst_of_their_own():
    line = Timeline("week", "UTC", apart=True)
    costs = [
        TimedCost(line.instants(span(0, 0)), Cost(5, 1)),
        TimedCost(line.instants(span(1, 1)), Cost(1, 7)),
        TimedCost(line.instants(OPEN), Cost(1, 1)),
    ]
    assert worst_cost(costs, pairs=False) == Cost(6, 8)
    assert worst_cost(costs, pairs=True) == Cost(7, 9)
    assert worst_cost(costs, pairs=False, within=span(1, 1)) == Cost(2, 8)
    assert worst_cost(costs, pairs=True, within=span(2, 2)) == Cost(6, 8)
    assert [(s.entries, s.cost) for s in stretches(costs)] == [
        (1, Cost(1, 1)), (2, Cost(6, 2)), (2, Cost(2, 8)), (1, Cost(1, 1)),
    ]  # fmt: skip
    assert worst_cost([], pairs=True) == Cost(0)


DELTAS = [Fraction(1, 10), Fraction(1, 20), Fraction(1, 5)]


def told(delta, bit):
    """Return the law of a release that tells its bit for certain with probability delta, else by a coin of 2 : 1."""
    honest = (1 - delta) * Fraction(2, 3)
    return {(bit, True): delta, (bit, False): honest, (1 - bit, False): (1 - delta) / 3}


def exact_delta(windows, deltas, week):
    """Return the least delta of all releases at the sum of the epsilons (each ln 2) of those that meet the week."""
    met = [reads(window, week) for window in windows]
    worlds = [
        [told(d, int(m and world)) for d, m in zip(deltas, met, strict=False)] for world in (0, 1)
    ]
    total, factor = Fraction(0), 2 ** sum(met)
    for answers in itertools.product(
        *(set(law) | set(other) for law, other in zip(*worlds, strict=True))
    ):
        before, after = (
            math.prod(
                (law.get(a, Fraction(0)) for law, a in zip(laws, answers, strict=True)),
                start=Fraction(1),
            )
            for laws in worlds
        )
        total += max(Fraction(0), before - factor * after)
    return total


def test_deltas_of_disjoint_windows_are_the_largest_one_and_others_add_up():
    for windows in SETS:
        deltas = DELTAS[: len(windows)]
        found = max(exact_delta(windows, deltas, week) for week in range(3))
        most = stated(windows, deltas)
        met = [
            [d for w, d in zip(windows, deltas, strict=True) if reads(w, week)] for week in range(3)
        ]
        assert max(deltas) <= found <= most, windows
        if max(map(len, met)) == 1:
            assert found == most == max(deltas)
        else:
            assert most == max(map(sum, met))
    assert exact_delta([OPEN, OPEN], DELTAS, 0) > max(DELTAS[:2])  # control: these do add up


@pytest.mark.parametrize("pairs", [False, True])
def test_the_sweep_finds_what_trying_every_instant_finds(pairs):
    rng = random.Random(3)
    for _ in range(300):
        all_instants, costs = [], []
        for _ in range(rng.randint(1, 9)):
            a, b = sorted(rng.sample(range(12), 2))
            window = [MONDAY + a * WEEK, MONDAY + b * WEEK]
            for end in (0, 1):
                if rng.random() < 0.15:
                    window[end] = None
            all_instants.append(tuple(window))
            costs.append(rng.randint(1, 10**19))
        where = [MONDAY + k * WEEK for k in range(-1, 13)]
        inside = [{i for i, r in enumerate(all_instants) if _holds(r, at)} for at in where]
        sums = [
            sum(costs[i] for i in (one | other))
            for one in inside
            for other in (inside if pairs else [one])
        ]
        assert worst(all_instants, costs, pairs=pairs) == max(sums)


def _holds(instants, at) -> bool:
    return (instants[0] is None or instants[0] <= at) and (instants[1] is None or at < instants[1])


def test_ten_years_of_days_are_added_up_quickly():
    day = timedelta(days=1)
    windows = [(MONDAY + k * day, MONDAY + (k + 1) * day) for k in range(3650)]
    assert worst(windows, [1] * 3650, pairs=True) == 2


def test_a_timeline_is_what_was_declared():
    def time(**said) -> str:
        import json

        whole = {"column": "at", "timezone": "UTC", "dates": False, "immutable": True, **said}
        return json.dumps(whole)

    user = '{"user":"who","per":"week"}'
    assert timeline("substitution", '"row"', time()) == Timeline(
        None, "UTC", apart=True, pairs=True
    )
    assert timeline("add_remove", '"row"', time()) == Timeline(None, "UTC", apart=True)
    assert timeline("substitution", user, time()) == Timeline(
        "week", "UTC", apart=True, person=True
    )
    assert not timeline("add_remove", user, time(immutable=False)).apart
    assert timeline("add_remove", '{"user":"who"}', None) == Timeline(person=True)
    assert timeline("add_remove", user, time(timezone="Asia/Tokyo", dates=True)).zone == "UTC"
    assert Timeline().instants(span(0, 0)) == ALWAYS
    assert Timeline(apart=True).instants(span(0, 0)) == span(0, 0)


@pytest.mark.parametrize(
    ("per", "window", "met"),
    [
        ("week", span(0, 0), 1),
        ("week", (datetime(2013, 2, 1, tzinfo=UTC), datetime(2013, 3, 1, tzinfo=UTC)), 5),
        ("week", (datetime(2012, 7, 1, tzinfo=UTC), datetime(2012, 8, 1, tzinfo=UTC)), 6),
        ("day", span(0, 0), 7),
        ("month", span(0, 3), 2),
        ("quarter", (datetime(2013, 1, 1, tzinfo=UTC), datetime(2014, 1, 1, tzinfo=UTC)), 4),
        ("year", span(0, 0), 1),
        ("week", OPEN, None),
        ("week", (MONDAY, None), None),
        (None, span(0, 0), None),
    ],
)
def test_how_many_intervals_a_window_meets(per, window, met):
    assert Timeline(per, "UTC", apart=True).met(window) == met


def test_an_end_of_a_window_is_written_one_way():
    assert instant(instant_text(MONDAY)) == MONDAY
    for text in ("2013-01-07", "2013-1-7T00:00:00Z", "2013-01-07T00:00:00+01:00"):
        with pytest.raises(ValueError, match=r".*"):
            instant(text)
    assert math.isclose(float(loss((1,), (1,), (0,), [Fraction(1)])), 1)
