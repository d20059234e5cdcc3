"""What blocks cost in rho: divergences of their own laws between neighbouring tables, summed in full."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from dprelease.budget.concentrated import zcdp_of_pure
from dprelease.budget.exact_rho import rho_of_pure, rho_of_zero_sum
from dprelease.core.strict_json import canonical_json
from dprelease.measurements.balanced import BalancedLaw
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.rank_interval import IntervalLaw
from dprelease.measurements.ranks import ExponentialLaw, PermuteAndFlipLaw
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.measurements.winsorised import WinsorisedLaw
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.planning.again import plan_again
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.ranks import spreads
from dprelease.statistics.recursive_ranks import recursive_spreads
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall import execute
from tests.contracts.recursive_rank_worlds import WORLDS, Law, Table, added, drawer, tables
from tests.contracts.recursive_rank_worlds import replaced as swapped
from tests.planning.requests import planned, public
from tests.sizes import FULL
from tests.statistics.dense_ranks import rank_scores

ORDERS = (1.0001, 1.5, 2.0, 4.0, 32.0)
PINNED = {"mechanism": "discrete_laplace"}
SUBSTITUTED = {"adjacency": "substitution"}
VISITS = {"unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 3}}
FEW = {"kind": "number", "range": [0, 4], "step": 1}

Moves = set[tuple[int, ...]]


def divergence(rate: float, k: int, order: float) -> float:
    """Return D_order of discrete Laplace noise around 0 and around k."""
    x = np.arange(-int(60 / rate) - k, int(60 / rate) + 2 * k + 1)
    logs = -rate * (order * np.abs(x) + (1 - order) * np.abs(x - k)) + np.log(np.tanh(rate / 2))
    return float(np.logaddexp.reduce(logs)) / (order - 1)


def furthest(rate: float, moves: Moves) -> float:
    """Return the largest D_order / order over the changes of the cells."""
    sizes = {k for move in moves for k in move if k}
    known = {(k, a): divergence(rate, k, a) for k in sizes for a in ORDERS}
    return max(sum(known[k, a] for k in move if k) / a for move in moves for a in ORDERS)


def bins(rows: int, cells: int) -> list[tuple[int, ...]]:
    """Return the ways in which up to `rows` rows fall into `cells` bins, or beside them."""
    return [c for c in itertools.product(range(rows + 1), repeat=cells) if sum(c) <= rows]


def moved(rows: int, cells: int, *, replaced: bool) -> Moves:
    """Return the moves that one unit of up to `rows` rows makes, made by listing all units."""
    after = bins(rows, cells)
    before = after if replaced else [(0,) * cells]
    return {
        tuple(sorted(abs(a - b) for a, b in zip(x, y, strict=True))) for x in before for y in after
    }


def rate_of(plan: ReleasePlan) -> float:
    draw = plan.blocks[0].law
    if isinstance(draw, CellLaw):
        return float(draw.noise.noise.rate)
    assert isinstance(draw, ScalarCellLaw)
    return float(draw.law.noise.rate)  # type: ignore[attr-defined]


CASES: list[tuple[str, dict[str, Any], Moves]] = [
    ("count", {}, moved(1, 1, replaced=False)),
    ("count", {"by": ["g"], **SUBSTITUTED}, moved(1, 3, replaced=True)),
    ("count", {"by": ["g"], **VISITS}, moved(3, 1, replaced=False)),
    ("histogram(x, [0, 4, 7, 10])", {}, moved(1, 3, replaced=False)),
    # of groups: in one group alone their noise adds up to zero
    ("histogram(x, [0, 4, 10])", {"by": ["g"], **SUBSTITUTED}, moved(1, 6, replaced=True)),
    (
        "histogram(x, [0, 4, 10])",
        {"by": ["g"], **VISITS, **SUBSTITUTED},
        moved(3, 6, replaced=True),
    ),
    ("sum(x)", {}, {(k,) for k in range(21)}),
]


@pytest.mark.parametrize(
    ("text", "more", "moves", "epsilon"),
    [
        (*case, epsilon)
        for i, case in enumerate(CASES)
        for epsilon in (("0.5", "4") if FULL else (("0.5", "4")[i % 2],))
    ],
)
def test_laplace_noise_on_neighbouring_tables_diverges_no_further(
    text: str, more: dict[str, Any], moves: Moves, epsilon: str
) -> None:
    plan = planned([{"statistic": text, **PINNED}], epsilon=epsilon, **more)
    stated, found = float(execute.concentrated(plan)), furthest(rate_of(plan), moves)
    assert found <= stated * (1 + 1e-9) <= float(Fraction(epsilon)) ** 2 / 2
    assert found >= stated * 0.999  # and nothing is given away


def test_a_public_size_is_priced_by_its_own_moves() -> None:
    plan = public([{"statistic": "histogram(x, [0, 4, 7])", **PINNED}], epsilon=2)
    plain = CellLaw(
        CellNoise.calibrate(2, Fraction(2)), 2, 900
    )  # not the noise that adds up to zero
    plan = replace(plan, blocks=(replace(plan.blocks[0], law=plain),))
    stated, found = float(execute.concentrated(plan)), furthest(rate_of(plan), {(1, 1)})
    assert stated * 0.999 <= found <= stated * (1 + 1e-9)
    assert stated < 0.47 * 2**2 / 2  # two bins move by one, not one by two


def test_twin_a_replaced_row_priced_as_an_added_one_is_caught() -> None:
    asked = [{"statistic": "histogram(x, [0, 4, 7, 10])", **PINNED}]
    plan = planned(asked, by=["g"], **SUBSTITUTED)
    draw = plan.blocks[0].law
    added = Sensitivity(
        l1_per_group=1, l1_over_groups=1, changed_groups=1, chain_length=1, l2_squared=1
    )
    found = furthest(rate_of(plan), moved(1, 3, replaced=True))
    assert found > 1.9 * float(draw.proof(added).concentrated)


def test_rounded_answers_and_other_laws_keep_what_any_loss_costs() -> None:
    for text in ("mean(x)", "count"):
        plan = planned([{"statistic": text, "spikes": "forbid"}], epsilon=2)
        assert execute.concentrated(plan) == sum(
            rho_of_pure(Fraction(b.certificate["epsilon_upper"])) for b in plan.blocks
        )


def scores(rows: tuple[int, ...]) -> list[int]:
    tally = np.bincount(np.array(rows, dtype=np.int64), minlength=5)[None, :]
    return [int(s) for s in rank_scores(tally, 1, 2, 0)[0]]


@pytest.mark.parametrize("replaced", [False, True])
def test_choices_by_rank_diverge_no_further(replaced: bool) -> None:
    """All tables of four values and their neighbours, against an eighth of epsilon squared."""
    epsilon, worst = 3, 0.0
    law = ScoreLaw.calibrate(5, spread=spreads(1, 2, 0)[int(replaced)], epsilon=epsilon)
    stated = float(zcdp_of_pure(law.certify().epsilon_upper, bounded_range=True))
    for table in itertools.combinations_with_replacement(range(5), 4):
        p = np.array([float(w) for w in law.pmf(scores(table))])
        near = [table[:i] + table[i + 1 :] for i in range(4)]
        near = [(*rest, y) for rest in near for y in range(5)] if replaced else near
        for other in near:
            q = np.array([float(w) for w in law.pmf(scores(other))])
            for one, two in ((p, q), (q, p)):
                for a in ORDERS:
                    total = float((one**a * two ** (1 - a)).sum())
                    worst = max(worst, float(np.log(total)) / (a - 1) / a)
    assert worst <= stated * (1 + 1e-9)
    assert worst > stated / 4  # control: a rho of four times the rate would show


def test_a_choice_is_recorded_with_the_rho_of_its_range() -> None:
    plan = planned(["median(x)"], epsilon=2, composition="zcdp")
    assert isinstance(plan.blocks[0].law, ExponentialLaw)
    assert execute.concentrated(plan) == Fraction(1, 2)
    joint = planned([f"quantile(x, 0.{i})" for i in (2, 4, 6, 8)], epsilon=2)
    assert joint.blocks[0].family == "joint_ranks"
    assert execute.concentrated(joint) == Fraction(1, 2)
    wide = {"kind": "integer", "range": [0, 10**6]}
    quartiles, few = [f"quantile(x, 0.{i})" for i in (25, 5, 75)], {"expected": 30, "max": 300}
    inside = planned(quartiles, x=wide, epsilon=2, rows=few)
    assert inside.blocks[0].family == "recursive_ranks"
    assert Fraction(1, 4) <= execute.concentrated(inside) < Fraction(251, 1000)


@pytest.mark.parametrize("replaced", [False, True])
def test_choices_one_inside_the_other_diverge_no_further_than_their_levels(replaced: bool) -> None:
    """All small tables and their neighbours, every outcome: the rho is half that of one choice of their loss."""
    targets, tree = WORLDS["two"]
    spread = recursive_spreads(targets)[int(replaced)]
    draw = drawer(targets, Fraction(3), 2, spread)
    moved = Sensitivity(
        l1_per_group=spread, l1_over_groups=spread, changed_groups=1, chain_length=1
    )
    stated = draw.proof(moved).tight
    assert stated is not None
    whole = zcdp_of_pure(draw.certify(moved), bounded_range=True)
    assert whole / 2 <= stated < Fraction(52, 100) * whole
    laws = {
        rows: np.array(
            [float(p) for p in Law(draw, Table(rows, 2, targets, tree)).outcomes(tree).values()]
        )
        for rows in tables(2, 4)
    }
    worst = 0.0
    for rows in tables(2, 3):
        for other in (swapped if replaced else added)(rows, 2):
            for p, q in ((laws[rows], laws[other]), (laws[other], laws[rows])):
                for a in ORDERS:
                    worst = max(worst, float(np.log((p**a * q ** (1 - a)).sum())) / (a - 1) / a)
    assert worst <= float(stated) * (1 + 1e-9)
    assert worst > float(stated) / 8  # control


def held(rows: tuple[int, ...], top: int, aim: int, more: int) -> list[int]:
    """Return the scores of a median that aims `aim` rows up among the rows and `more` at both ends."""
    both = [0] * more + list(rows) + [top] * more
    target = len(rows) + 2 * aim
    below = [sum(v < y for v in both) for y in range(top + 1)]
    upto = [sum(v <= y for v in both) for y in range(top + 1)]
    return [max(0, 2 * b - target, target - 2 * u) for b, u in zip(below, upto, strict=True)]


def renyi(one: np.ndarray[Any, Any], two: np.ndarray[Any, Any], order: float) -> float:
    logs = order * np.log(one) + (1 - order) * np.log(two)
    return float(np.logaddexp.reduce(logs)) / (order - 1)


@pytest.mark.parametrize("replaced", [False, True])
def test_an_interval_is_three_choices_of_a_third_of_the_range(replaced: bool) -> None:
    more: dict[str, Any] = SUBSTITUTED if replaced else {}
    plan = planned([{"statistic": "median(x)", "interval": True}], epsilon=12, x=FEW, **more)
    law = plan.blocks[0].law
    assert isinstance(law, IntervalLaw)
    stated, worst, k = float(execute.concentrated(plan)), 0.0, law.inside

    @cache
    def three(rows: tuple[int, ...]) -> list[np.ndarray[Any, Any]]:
        return [
            np.array([float(p) for p in law.law.pmf(np.array(held(rows, 4, aim, k)))])
            for aim in (k, 0, 2 * k)
        ]

    for rows in itertools.combinations_with_replacement(range(5), 4):
        near = [tuple(sorted(rows[:i] + rows[i + 1 :])) for i in range(4)]
        near = [(*rest, y) for rest in near for y in range(5)] if replaced else near
        for p, q in ((three(rows), three(other)) for other in set(near)):
            for one, two in ((p, q), (q, p)):
                for a in ORDERS:
                    pairs = zip(one, two, strict=True)
                    worst = max(worst, sum(renyi(u, v, a) for u, v in pairs) / a)
    proved = execute.check(plan)
    assert stated == pytest.approx(float(proved**2 / 24), rel=1e-12)
    assert stated / 8 < worst <= stated * (1 + 1e-9)


BUSY = {"unit": {"user": "who", "max_groups": 2, "max_rows_per_group": 2, "max_rows": 3}}


@pytest.mark.parametrize("pin", ["exponential", "permute_and_flip"])
def test_choices_in_several_groups_cost_what_their_parts_do(pin: str) -> None:
    """A person of three rows in two of three groups: every table of a group, with no, one and two of the rows."""
    few = {"kind": "number", "range": [0, 3], "step": 1}
    asked = [{"statistic": "median(x)", "mechanism": pin}]
    plan = planned(asked, by=["g"], epsilon=6, x=few, **BUSY)
    law = plan.blocks[0].law
    assert isinstance(law, ExponentialLaw)
    laws = {
        rows: np.array([float(p) for p in law.law.pmf(held(rows, 3, 0, 0))])
        for n in range(5)
        for rows in itertools.combinations_with_replacement(range(4), n)
    }
    ways = {(a, up): [0.0, 0.0, 0.0] for a in ORDERS for up in (0, 1)}
    for rows in (r for r in laws if len(r) <= 2):
        for more in (1, 2):
            for extra in itertools.combinations_with_replacement(range(4), more):
                pair = laws[rows], laws[tuple(sorted((*rows, *extra)))]
                for (a, up), each in ways.items():
                    each[more] = max(each[more], renyi(pair[up], pair[1 - up], a))
    moves = [m for m in itertools.product(range(3), repeat=2) if sum(m) <= 3]
    worst = max(sum(each[m] for m in move) / a for (a, _), each in ways.items() for move in moves)
    proved = execute.check(plan)
    share = Fraction(2**2 + 1, 3**2)
    stated = execute.concentrated(plan)
    bound = zcdp_of_pure(proved, bounded_range=pin == "exponential")
    assert stated == min(share * bound, rho_of_pure(proved))
    assert stated / 8 < worst <= stated


def test_replaced_people_pay_the_same_part_of_twice_the_steps() -> None:
    for unit, part in ((BUSY, Fraction(5, 9)), (VISITS, Fraction(1))):
        told = {"composition": "zcdp", **unit, **SUBSTITUTED}
        plan = planned(["median(x)"], by=["g"], x=FEW, **told)
        whole = zcdp_of_pure(execute.check(plan), bounded_range=True)
        assert execute.concentrated(plan) == part * whole


@pytest.mark.parametrize(("degree", "epsilon"), [(1, 2), (2, 2), (1, 8)])
def test_cells_between_limits_are_two_that_move_by_one_unit(degree: int, epsilon: int) -> None:
    """All tables of three rows, one replaced; the divergence of both draws together, over every pair of limits."""
    text = "mean(x)" if degree == 1 else "variance(x)"
    plan = planned([{"statistic": text, "winsorize": 0.25}], epsilon=epsilon, x=FEW, **SUBSTITUTED)
    law = plan.blocks[0].law
    assert isinstance(law, WinsorisedLaw)
    assert law.degree == degree
    known: dict[tuple[float, int, float], float] = {}

    def noise(rate: float, k: int, order: float) -> float:
        if (rate, k, order) not in known:
            known[rate, k, order] = divergence(rate, k, order)
        return known[rate, k, order]

    @cache
    def limits(rows: tuple[int, ...]) -> dict[tuple[int, int], float]:
        out: dict[tuple[int, int], float] = {}
        chances = [law.choice.pmf(np.array(quarter(rows, t))) for t in (1, 3)]
        for (i, p), (j, q) in itertools.product(*map(enumerate, chances)):
            at = law.pair(i, j)
            out[at] = out.get(at, 0.0) + float(p * q)
        return out

    def quarter(rows: tuple[int, ...], a: int) -> list[int]:
        n = len(rows)
        below = [sum(v < y for v in rows) for y in range(5)]
        upto = [sum(v <= y for v in rows) for y in range(5)]
        return [max(0, 4 * b - a * n, a * n - 4 * u) for b, u in zip(below, upto, strict=True)]

    def cells(v: int, low: int, high: int) -> list[int]:
        t, w = min(max(v, low), high) - low, high - low
        return [t, w - t] if degree == 1 else [(w - t) ** 2, 2 * t * (w - t), t * t]

    stated, worst = float(execute.concentrated(plan)), 0.0
    for rows in itertools.combinations_with_replacement(range(5), 3):
        p = limits(rows)
        for i, v in itertools.product(range(3), range(5)):
            q = limits(tuple(sorted((*rows[:i], *rows[i + 1 :], v))))
            for a in ORDERS[:4]:
                total = 0.0
                for at, chance in p.items():
                    rate = float(law.noise_at(*at).rate)
                    moved = zip(cells(rows[i], *at), cells(v, *at), strict=True)
                    far = sum(noise(rate, abs(x - y), a) for x, y in moved if x != y)
                    total += chance**a * q[at] ** (1 - a) * float(np.exp((a - 1) * far))
                worst = max(worst, float(np.log(total)) / (a - 1) / a)
    assert stated / 8 < worst <= stated * (1 + 1e-9)
    proof = law.proof(execute._sensitivity(plan, plan.blocks[0]))
    rate = float(law.noise.noise.rate)
    alone = 2 * divergence(rate, 1, 1.0001)  # two cells by one unit between neighbouring limits
    limit = float(5 * zcdp_of_pure(law.choice.certify().epsilon_upper, bounded_range=True) / 9)
    assert proof.tight is not None
    assert float(proof.tight) - limit == pytest.approx(alone, rel=1e-3)


@pytest.mark.parametrize("cells", [2, 3, 4])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(2)])
def test_noise_that_adds_up_to_zero_diverges_no_further(cells: int, rate: Fraction) -> None:
    """Every vector of noise up to a far end, one row moved from a cell to another."""
    far, r = int(24 / float(rate)), float(rate)
    grid = np.arange(-far, far + 1)
    free = np.stack([g.ravel() for g in np.meshgrid(*[grid] * (cells - 1))])
    z = np.vstack([free, -free.sum(axis=0)])
    here = np.exp(-r * np.abs(z).sum(axis=0))
    z[0] += 1
    z[1] -= 1
    there = np.exp(-r * np.abs(z).sum(axis=0))
    one, two = here / here.sum(), there / here.sum()
    found = max(renyi(one, two, a) / a for a in ORDERS)
    stated = float(rho_of_zero_sum(rate, cells))
    assert stated * 0.999 <= found <= stated * (1 + 1e-6)
    plan = planned([{"statistic": "histogram(x, [0, 4, 10])", **PINNED}], epsilon=4, **SUBSTITUTED)
    draw = plan.blocks[0].law
    assert isinstance(draw, BalancedLaw)
    assert execute.concentrated(plan) == rho_of_zero_sum(draw.noise.noise.rate, 3)
    more = planned([{"statistic": "histogram(x, [0, 4, 10])", **PINNED}], **VISITS, **SUBSTITUTED)
    assert execute.concentrated(more) == rho_of_pure(execute.check(more))  # not proved of three


def test_many_cells_that_add_up_to_zero_cost_what_independent_ones_do() -> None:
    assert float(rho_of_zero_sum(Fraction(1, 2), 2)) == pytest.approx(np.tanh(0.5))
    assert float(rho_of_zero_sum(Fraction(1, 2), 33)) == pytest.approx(0.2488, abs=5e-5)
    assert rho_of_zero_sum(Fraction(200), 3) == 400  # rounded up
    alone = np.tanh(0.25)
    assert all(float(rho_of_zero_sum(Fraction(1, 2), m)) > alone for m in range(2, 33))


FLIPS = {"statistic": "median(x)", "mechanism": "permute_and_flip"}


def test_permute_and_flip_is_recorded_as_any_pure_law() -> None:
    plan = planned([FLIPS], epsilon=2)
    assert isinstance(plan.blocks[0].law, PermuteAndFlipLaw)
    assert execute.check(plan) <= 2
    assert execute.concentrated(plan) == rho_of_pure(execute.check(plan))


@pytest.mark.parametrize("text", ["median(x)", "max(x)"])
def test_permute_and_flip_is_taken_where_losses_add_up_by_epsilon_and_by_rho_the_law_that_costs_less(
    text: str,
) -> None:
    plan = planned([text, "min(y)"], x=FEW, columns={"y": FEW})
    assert {b.mechanism for b in plan.blocks} == {"permute_and_flip"}
    told = planned([text, "min(y)"], x=FEW, columns={"y": FEW}, composition="zcdp")
    assert {b.mechanism for b in told.blocks} == {"exponential"}
    losses = [Fraction(b.certificate["epsilon_upper"]) for b in told.blocks]
    assert execute.concentrated(told) <= sum(e * e for e in losses) / 8
    assert told.request is not None
    stated = json.loads(canonical_json(told.to_json()))
    assert (
        plan_again(told.request, stated).hash == told.hash
    )  # readers without a ledger make the same


def test_twin_the_range_of_the_exponential_mechanism_is_not_that_of_permute_and_flip() -> None:
    """Two candidates whose order turns round: their divergence is above two eighths of epsilon squared."""
    law = FlipLaw.from_scores(ScoreLaw.calibrate(2, spread=2, epsilon=1))
    one, two = (np.array([float(p) for p in law.pmf(s)]) for s in ([0, 1], [1, 0]))
    found = max(float(np.log((one**a * two ** (1 - a)).sum())) / (a - 1) / a for a in ORDERS)
    proved = law.certify().epsilon_upper
    assert found > 2 * float(zcdp_of_pure(proved, bounded_range=True))
    assert found <= float(rho_of_pure(proved)) * (1 + 1e-9)


def test_under_a_delta_a_choice_gets_twice_the_epsilon() -> None:
    """Many medians: what bounded range saves is spent on them, within the same epsilon and delta."""
    medians = [{"statistic": f"quantile(x{i}, 0.5)", "as": f"m{i}"} for i in range(24)]
    columns = {f"x{i}": {"kind": "number", "range": [0, 10], "step": 0.5} for i in range(24)}
    plan = planned(medians, delta=Fraction(1, 10**6), columns=columns)
    assert plan.composition is not None
    assert plan.composition.method == "zcdp/1"
    assert execute.check(plan) <= 1
    each = plan.blocks[0].certificate["epsilon_upper"]
    assert Fraction(each) > Fraction(2, 24)  # where pure losses are a 24-th of 1
    assert plan.composition.evidence.rho <= sum(Fraction(b.certificate["epsilon_upper"]) ** 2 for b in plan.blocks) / 8 + Fraction(1, 10**9)  # fmt: skip
