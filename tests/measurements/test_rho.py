"""What blocks cost in rho: divergences of their own laws between neighbouring tables, summed in full."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dprelease.aggregates.ranks import spreads
from dprelease.aggregates.recursive_ranks import recursive_spreads
from dprelease.aggregates.sensitivity import Sensitivity
from dprelease.budget.concentrated import zcdp_of_pure
from dprelease.budget.exact_rho import rho_of_pure
from dprelease.measurements.cells import CellDraw
from dprelease.measurements.ranks import ExponentialDraw, FlipDraw
from dprelease.measurements.scalar import ScalarDraw
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.forms.vector import CellNoise
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from tests.aggregates.dense_ranks import rank_scores
from tests.contracts.recursive_rank_worlds import WORLDS, Law, Table, added, drawer, tables
from tests.contracts.recursive_rank_worlds import replaced as swapped
from tests.planning.requests import planned, public
from tests.sizes import FULL

ORDERS = (1.0001, 1.5, 2.0, 4.0, 32.0)
PINNED = {"mechanism": "discrete_laplace"}
SUBSTITUTED = {"adjacency": "substitution"}
VISITS = {"unit": {"user": "who", "max_groups": 1, "max_rows_per_group": 3}}

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
    if isinstance(draw, CellDraw):
        return float(draw.noise.noise.rate)
    assert isinstance(draw, ScalarDraw)
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
    plain = CellDraw(
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
    plan = planned(["median(x)"], epsilon=2)
    assert isinstance(plan.blocks[0].law, ExponentialDraw)
    assert execute.concentrated(plan) == Fraction(1, 2)
    joint = planned([f"quantile(x, 0.{i})" for i in (2, 4, 6, 8)], epsilon=2)
    assert joint.blocks[0].family == "joint_ranks"
    assert execute.concentrated(joint) == Fraction(1, 2)
    wide = {"kind": "integer", "range": [0, 10**6]}
    inside = planned([f"quantile(x, 0.{i})" for i in (25, 5, 75)], x=wide, epsilon=2)
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


FLIPS = {"statistic": "median(x)", "mechanism": "permute_and_flip"}
FEW = {"kind": "number", "range": [0, 4], "step": 1}


def test_permute_and_flip_is_recorded_as_any_pure_law() -> None:
    plan = planned([FLIPS], epsilon=2)
    assert isinstance(plan.blocks[0].law, FlipDraw)
    assert execute.check(plan) <= 2
    assert execute.concentrated(plan) == rho_of_pure(execute.check(plan))


@pytest.mark.parametrize("delta", [0, Fraction(1, 10**6)])
@pytest.mark.parametrize("text", ["median(x)", "max(x)"])
def test_a_plan_never_takes_permute_and_flip_by_itself(text: str, delta: Fraction) -> None:
    """Whatever its ledger adds up, a statement costs no more than the law of bounded range does."""
    plan = planned([text, "min(y)"], x=FEW, delta=delta, columns={"y": FEW})
    assert {b.mechanism for b in plan.blocks} == {"exponential"}
    losses = [Fraction(b.certificate["epsilon_upper"]) for b in plan.blocks]
    assert execute.concentrated(plan) <= sum(e * e for e in losses) / 8


def test_twin_the_range_of_the_exponential_mechanism_is_not_that_of_permute_and_flip() -> None:
    """Two candidates whose order turns round: their divergence is above two eighths of epsilon squared."""
    law = FlipLaw.of(ScoreLaw.calibrate(2, spread=2, epsilon=1))
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
