"""What a population's ledger states, against every small world: up to three tables, two members, three weeks.

Each release reads its window through the worst mechanism of its price. Of a pure one: one bit per unit, flipped
by randomised response, so that a unit that comes, goes or changes costs epsilon and two of them cost two. Of
(epsilon, delta): one bit whose probability rises from unit to unit as fast as it may. Of rho: a normal
answer that every unit moves by one step. The exact loss between every pair of neighbours never passes what
is stated, and is attained.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from dprelease.budget.population import Population, member_costs

MONDAY, WEEK, DAY = datetime(2024, 1, 1, tzinfo=UTC), timedelta(days=7), timedelta(days=1)
WEEKS = range(3)
WINDOWS = {"w0": range(1), "w12": range(1, 3), "all": range(3)}
TABLES = list(itertools.product([None, "week"], ["add_remove", "substitution"]))
SETS = [s for n in (1, 2, 3) for s in itertools.combinations_with_replacement(TABLES, n)]
RELATIONS = ("add_remove", "substitution")
LOSSES = (Fraction(1), Fraction(1, 2), Fraction(3))


def declared(table):
    per, adjacency = table
    if per is None:
        return adjacency, '{"user":"who"}', None
    time = '{"column":"at","dates":false,"immutable":true,"timezone":"UTC"}'
    return adjacency, f'{{"per":"{per}","user":"who"}}', time


def stated(relation, table, weeks, epsilon, delta=Fraction(0), rho=None, **terms):
    window = (None, None)
    if table[0] is not None:
        window = MONDAY + weeks[0] * WEEK, MONDAY + (weeks[-1] + 1) * WEEK
    asked = Population("members", 1, adjacency=relation, **terms)
    (one,) = member_costs(asked, declared(table), (epsilon, delta, rho, window, False))
    return one


def neighbours(relation, interval):
    """Yield pairs of worlds that differ in one member: a member's rows of a week have a value 0 or 1, or there are none.

    Under replacement another member comes where one goes; their ids differ in tables that add and remove.
    """
    rest = [{}, {("b", 0): 1}]
    rows = [dict.fromkeys([("a", w) for w in WEEKS], v) for v in (0, 1)]
    weeks = [None] if interval is None else list(WEEKS)
    for other, before, week in itertools.product(rest, rows, weeks):
        gone = {k: v for k, v in before.items() if week is not None and k[1] != week}
        came = {("c", w): 1 - before["a", w] for w in WEEKS if week in (None, w)}
        if relation == "add_remove":
            yield {**other, **before}, {**other, **gone}
        else:
            yield {**other, **before}, {**other, **gone, **came}


def units_that_differ(table, weeks, before, after):
    """Return how many units of the table differ between two worlds, by the table's own relation."""
    per, adjacency = table
    seen = [
        {(who if adjacency == "add_remove" else {"c": "a"}.get(who, who), w): v
         for (who, w), v in world.items() if w in weeks}
        for world in (before, after)
    ]  # fmt: skip
    keys = {(who, w) for world in seen for who, w in world}
    different = {key for key in keys if seen[0].get(key) != seen[1].get(key)}
    return len({key if per is not None else key[0] for key in different})


def bits_loss(epsilon, count):
    """Return the largest log ratio of `count` bits that differ, each flipped by randomised response, over all answers."""
    return max(
        sum((epsilon if answer else -epsilon for answer in answers), Fraction(0))
        for answers in itertools.product((0, 1), repeat=count)
    )


@pytest.mark.parametrize("interval", [None, "week"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_pure_losses_add_up_to_what_is_stated(relation, interval):
    tables = [s for s in SETS if interval is None or all(per for per, _ in s)]
    for chosen in tables:
        for windows in itertools.product(WINDOWS.values(), repeat=len(chosen)):
            releases = list(zip(chosen, windows, LOSSES, strict=False))
            found = max(
                sum(bits_loss(e, units_that_differ(t, w, *pair)) for t, w, e in releases)
                for pair in neighbours(relation, interval)
            )
            sums = [
                sum(
                    stated(relation, t, w, e, interval=interval, calendar="UTC").cost.epsilon
                    for t, w, e in releases
                    if interval is None or week in w
                )
                for week in WEEKS
            ]
            assert found == max(sums), (chosen, windows)


@pytest.mark.parametrize("relation", RELATIONS)
def test_days_count_in_the_week_that_they_are_in(relation):
    """Friday to the Wednesday of the next week but one: each window's days, of one member and each week."""
    days = [MONDAY + timedelta(days=4 + n) for n in range(13)]
    weeks = [range(3), range(3, 10), range(10, 13)]
    ends = [0, 2, 3, 4, 9, 10, 11, 13]
    windows = list(itertools.combinations(ends, 2))
    asked = Population("members", 1, adjacency=relation, interval="week", calendar="UTC")
    for adjacency in RELATIONS:
        twice = 2 if (relation, adjacency) == ("substitution", "add_remove") else 1
        for chosen in [*itertools.product(windows, repeat=2)]:
            losses = LOSSES[:2]
            costs = [
                timed
                for (low, high), epsilon in zip(chosen, losses, strict=True)
                for timed in member_costs(
                    asked,
                    declared(("day", adjacency)),
                    (
                        epsilon,
                        Fraction(0),
                        None,
                        (days[0] + low * DAY, days[0] + high * DAY),
                        False,
                    ),
                )
            ]
            for week in weeks:
                own = sum(
                    epsilon * twice * len([n for n in week if low <= n < high])
                    for (low, high), epsilon in zip(chosen, losses, strict=True)
                )
                said = sum(
                    timed.cost.epsilon
                    for timed in costs
                    if timed.instants[0] <= days[week[0]] < timed.instants[1]
                )
                assert said == own, (chosen, week)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("table", TABLES)
def test_a_delta_grows_by_the_group_rule_and_no_more(relation, table):
    """P(1) is 0 without a unit and (e^epsilon P + delta) with one more: no law rises faster."""
    epsilon, delta = Fraction(1, 4), Fraction(1, 10**6)
    for weeks in WINDOWS.values():
        count = max(units_that_differ(table, weeks, *pair) for pair in neighbours(relation, None))
        probability = Fraction(0)
        for _ in range(count):
            probability = E_QUARTER_BELOW * probability + delta
        said = stated(relation, table, weeks, epsilon, delta).cost
        assert said.epsilon == count * epsilon
        assert (
            probability
            <= said.delta
            <= probability * (1 + Fraction(1, 10**9)) + Fraction(1, 10**18)
        )


E_QUARTER_BELOW = Fraction(1284025416687741, 10**15)
"""Below e^(1/4) = 1.28402541668774148…"""


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("table", TABLES)
def test_a_normal_answer_moves_by_as_many_steps(relation, table):
    """Of variance 1/(2 rho) per squared step: a shift of k steps has the divergence alpha k^2 rho at every order."""
    rho = Fraction(1, 50)
    for weeks in WINDOWS.values():
        count = max(units_that_differ(table, weeks, *pair) for pair in neighbours(relation, None))
        said = stated(
            relation,
            table,
            weeks,
            Fraction(1),
            Fraction(1, 10**6),
            rho,
            composition="zcdp",
            nano_rho=1,
        )
        variance = 1 / (2 * rho)
        assert Fraction(said.nano_rho, 10**9) == count**2 / (2 * variance)


def test_twins_that_forget_are_passed_by_the_worlds():
    """Without the factor two, and without the weeks of a window, the enumeration exceeds what is stated."""
    pairs = list(neighbours("substitution", None))
    twice = max(units_that_differ((None, "add_remove"), range(1), *pair) for pair in pairs)
    weeks = max(units_that_differ(("week", "substitution"), range(3), *pair) for pair in pairs)
    assert (twice, weeks) == (2, 3)
