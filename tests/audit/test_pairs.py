"""Layer A, whole plans: the exact loss between neighbouring tables, for every kind of statistic.

Two rows and fewer, one more: every table over a few kinds of rows, and every table next to it. Beside
them the extremal pairs that the audit of a user's plan makes up. Graphs: every graph of four nodes,
and every one that differs in at most k edges.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import combinations, combinations_with_replacement, product

import pyarrow as pa
import pytest

from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.neighbours import neighbouring_tables
from dprelease.audit.pairs import pair_loss
from dprelease.core import registry
from dprelease.engines.reference import ReferenceEngine
from dprelease.query.statistic import parse_statistic
from tests.kinds import OF_ONE_COLUMN, OF_SOME_COLUMNS
from tests.planning.requests import USER, planned
from tests.sizes import FULL, some, whole
from tests.wall.test_recompute import plan_of

ENGINE = ReferenceEngine()
NUMBER = {"kind": "number", "range": [0, 3], "step": 1}
SMALL = {"x": NUMBER, "columns": {"y": {**NUMBER, "range": [0, 2]}}, "rows": {"max": 12}}
VALUES = {"x": (0.0, 1.0, 3.0, None), "y": (0.0, 2.0), "g": ("a", "b", "zz")}

STATISTICS = (
    *(f"{name}(x)" for name in OF_ONE_COLUMN if name not in OF_SOME_COLUMNS),
    "count", "count(persons)", "proportion(x > 1)", "histogram(x, [0, 1, 2, 3])", "quantile(x, 0.3)",
    "cdf(x, [0, 1, 2])", "count_distinct(g)", "covariance(x, y)", "correlation(x, y)", "eigenvalues(x, y)",
    "winsorised_mean(x, 0.25)", "winsorised_sum(x, 0.25)", "winsorised_variance(x, 0.1)", "winsorised_std(x, 0.1)",
    "count where x > 1", "mean(x) where y > 1", "sum(x) where y > 1 or g = 'a'", "median(x) where y > 1",
    "histogram(x, [0, 1, 2, 3]) where y > 1", "variance(x) where y > 1", "proportion(x > 1) where y > 1",
    "count_distinct(g) where y > 1", "covariance(x, y) where g is not null", "weighted_count(y)", "weighted_sum(x, y)", "weighted_mean(x, y)", "weighted_proportion(x > 1, y)", "ratio(x, y)",
)  # fmt: skip
COARSE = {
    "mean(x)": 0.5,
    "proportion(x > 1)": 0.125,
    "std(x)": 0.125,
    "variance(x)": 0.125,
    "proportion(x > 1) where y > 1": 0.125,
}
"""Published steps that keep every law small enough to compare all its outputs."""

UNWRITTEN = {
    "count_persons",
    "count_where",
    "histogram_of_ranges",
    "winsorised_from",
    "winsorised_to",
    *OF_SOME_COLUMNS,
}
"""`count(persons)`; an option of a histogram (tests/measurements/test_binned_tree.py); what is published beside others."""
COINS = {
    f"{s} by coins": {"statistic": s, "mechanism": "permute_and_flip"}
    for s in ("median(x)", "max(x)")
}
"""What a request has to name."""

GRAPHS = ("algebraic_connectivity", "degree(0)", "laplacian_eigenvalues")


class Costs:
    """Exact losses of a plan, each distinct pair of answers once."""

    def __init__(self, plan):
        self.plan, self._keys, self._answers, self.known = plan, {}, {}, {}

    def cells(self, table):
        if id(table) not in self._keys:  # the table stays, and so does its id
            self._keys[id(table)] = table, repr(table.to_pydict())
        _, key = self._keys[id(table)]
        if key not in self._answers:
            cells = cells_of(self.plan, answer_of(self.plan, table, ENGINE))
            self._answers[key] = cells, repr([c.tolist() for c in cells])
        return self._answers[key]

    def add(self, first, second):
        (one, a), (other, b) = self.cells(first), self.cells(second)
        if (a, b) not in self.known:
            self.known[a, b] = pair_loss(self.plan, one, other)

    @property
    def complete(self):
        return all(c.complete for c in self.known.values())

    @property
    def share(self):
        """The largest loss as a share of the claim; delta's, where there is one."""
        if self.plan.delta:
            at = max(c.delta_at_least(self.plan.epsilon) for c in self.known.values())
            return at / float(self.plan.delta)
        return max(c.nats for c in self.known.values()) / float(self.plan.epsilon)

    def hold(self, claim=None):
        if self.plan.delta:
            return self.share <= 1
        return all(c.within(claim or self.plan.epsilon) for c in self.known.values())


@cache
def table_of(rows, user):
    names = ("x", "y", "g")
    made = {
        n: pa.array([r[i] for r in rows], pa.utf8() if n == "g" else pa.float64())
        for i, n in enumerate(names)
    }
    return pa.table({"who": pa.array(user[: len(rows)], pa.utf8()), **made})


def small_pairs(statistic):
    """Yield every table of at most two rows, and every table of one row more."""
    said = statistic.partition("(")[2].replace(",", " ").replace(")", " ").split()
    used = [n for n in VALUES if n in said] or ["x"]
    kinds = [
        tuple(dict(zip(used, values, strict=True)).get(n, VALUES[n][0]) for n in VALUES)
        for values in product(*(VALUES[n] for n in used))
    ]
    for size in range(3):
        for rows in some(combinations_with_replacement(kinds, size), 3 if size == 2 else 1):
            for more in kinds:  # in one order: the same rows are the same table
                yield (
                    table_of(rows, "abc"),
                    table_of(tuple(sorted((*rows, more), key=kinds.index)), "abc"),
                )


def asked_for(statistic):
    if statistic in COINS:
        return COINS[statistic]
    if statistic == "ratio(x, y)":  # rows may be in one sum and not in the other
        return {"statistic": statistic, "domain": {"range": [0, 3]}}
    step = COARSE.get(statistic)
    return {"statistic": statistic, **({"domain": {"step": step}} if step else {})}


def least_claim(statistic):
    """Return the share of its epsilon that a plan could not claim without being caught here.

    A choice by rank costs less than its epsilon on these few candidates: its bound also counts the
    normaliser at its worst, which needs many.
    """
    ranks = statistic.startswith(("quantile", "median", "min", "max", "winsorised"))
    return Fraction(1, 3) if ranks else Fraction(3, 5)


EVERY = (*STATISTICS, *COINS)
REPLACED = tuple(some(EVERY, 2))
OF_USERS = EVERY if FULL else EVERY[1::2]
"""Rows are added for each statistic with every change, and replaced, or many a user's, for every other one."""


@pytest.mark.parametrize(
    ("statistic", "adjacency"),
    [*((s, "add_remove") for s in EVERY), *((s, "substitution") for s in REPLACED)],
)
def test_no_pair_costs_more_than_the_plan_says(statistic, adjacency, evidence):
    # a filter lets a replaced row leave the others, else a count could not move
    where = {"where": "x >= 1"} if adjacency == "substitution" else {}
    plan = planned([asked_for(statistic)], epsilon=1, adjacency=adjacency, **SMALL, **where)
    costs = Costs(plan)
    if adjacency == "add_remove":
        for first, second in small_pairs(statistic):
            costs.add(first, second)
    else:  # one row for another is one row less and another more, of the same two or fewer
        made = [second for _, second in small_pairs(statistic) if second.num_rows <= 2]
        for first, second in combinations(made, 2):
            apart = [r for r in first.to_pylist() if r not in second.to_pylist()]
            if first.num_rows == second.num_rows and len(apart) <= 1:
                costs.add(first, second)
    for pair in neighbouring_tables(plan, most=whole(4, 10)):
        costs.add(pair.first, pair.second)
    assert costs.hold()
    assert costs.complete
    assert not costs.hold(plan.epsilon * least_claim(statistic))
    if adjacency == "add_remove":
        evidence(
            f"exact loss of neighbouring tables: {statistic}",
            f"{len(costs.known)} different pairs of answers, all outputs",
            f"{costs.share:.6g} of its epsilon",
        )


@pytest.mark.parametrize("statistic", OF_USERS)
def test_a_user_with_many_rows_costs_no_more(statistic):
    by = [] if "(g)" in statistic else ["g"]
    plan = planned([asked_for(statistic)], epsilon=1, unit=USER, by=by, **SMALL)
    costs = Costs(plan)
    for pair in neighbouring_tables(plan, most=whole(4, 10)):
        costs.add(pair.first, pair.second)
    assert costs.hold()
    assert not costs.hold(plan.epsilon * least_claim(statistic))


def graphs(nodes):
    every = list(combinations(range(nodes), 2))
    for bits in range(2 ** len(every)):
        yield frozenset(e for i, e in enumerate(every) if bits >> i & 1)


@pytest.mark.parametrize("pinned", [False, True], ids=["chosen", "bounded_gaussian"])
@pytest.mark.parametrize(
    "statistics", [*([g] for g in GRAPHS), [*GRAPHS[:2]]], ids=lambda s: " and ".join(s)
)
def test_no_two_graphs_cost_more_than_the_plan_says(statistics, pinned, evidence):
    pin = (
        {"mechanism": "bounded_gaussian"}
        if pinned and "laplacian_eigenvalues" not in statistics
        else {}
    )
    plan = plan_of([{"statistic": s, **pin} for s in statistics], nodes=4, k=2)
    costs, made = Costs(plan), {}
    for edges in graphs(4):
        made[edges] = pa.table(
            {n: pa.array([str(e[i]) for e in sorted(edges)], pa.utf8()) for i, n in enumerate("ab")}
            | {"w": pa.nulls(len(edges), pa.float64())}
        )
    for first, second in combinations(made, 2):
        if len(first ^ second) <= 2:
            costs.add(made[first], made[second])
    assert costs.hold()
    assert costs.complete
    assert not costs.hold(plan.epsilon * Fraction(9, 10))
    if pinned:
        evidence(
            f"exact loss of neighbouring graphs: {' and '.join(statistics)}",
            f"all graphs of 4 nodes that differ in 1 or 2 edges, {len(costs.known)} different pairs of answers",
            f"{costs.share:.6g} of its epsilon",
        )


def test_every_statistic_is_here():
    here = {parse_statistic(s, origin="here").function for s in (*STATISTICS, *GRAPHS)}
    assert here == set(registry.names("aggregates")) - UNWRITTEN


@pytest.mark.parametrize("by", [[], ["g"]])
def test_no_pair_costs_more_than_delta(by, evidence):
    spec = {"statistic": "histogram(x, [0, 1, 2, 3])", "mechanism": "rectified_gaussian"}
    plan = planned([spec], epsilon=1, delta=0.000001, unit=USER, by=by, **SMALL)
    costs = Costs(plan)
    for pair in neighbouring_tables(plan, most=whole(3, 6)):
        costs.add(pair.first, pair.second)
    share = costs.share
    assert 0.05 < share <= 1
    assert any(c.delta_at_least(plan.epsilon / 2) > plan.delta for c in costs.known.values())
    evidence(
        f"exact delta of neighbouring tables: histogram{' by group' if by else ''}",
        f"{len(costs.known)} different pairs of answers",
        f"{share:.3g} of its delta, at epsilon {float(plan.epsilon):g}",
    )
