"""What whole plans lose by one replaced unit, enumerated: the largest over types of change is attained, and never passed.

Rows are plain Python: a group and the values of two columns. What a row adds to each drawn cell is worked out here from
the integers that the plan says it sums and draws, and the loss of a change is noise of each block's rate times how far its cells
move. No sensitivity, no type and no price of the library enters. All that a unit may hold under its caps is listed,
before and after.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.pairs import pair_loss
from dprelease.budget.normal import normal_epsilon
from dprelease.core.errors import InternalError
from dprelease.core.strict_json import canonical_json
from dprelease.engines.reference import ReferenceEngine
from dprelease.fitting import quotient
from dprelease.measurements.balanced import BalancedLaw
from dprelease.measurements.cells import CellLaw
from dprelease.measurements.gaussian import GaussianLaw
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.mechanisms.forms.additive import AdditiveLaw
from dprelease.mechanisms.kernels.laplace import DiscreteLaplaceNoise
from dprelease.planning.again import plan_again
from dprelease.query.bounded import Condition, Fixed
from dprelease.query.request import request_from_json
from dprelease.query.written import request_to_json
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.unit import Adjacency
from dprelease.statistics.sensitivity import Bounds
from dprelease.statistics.types_of_change import types_of_change
from dprelease.wall import execute
from tests.sizes import whole

ENGINE = ReferenceEngine()


@pytest.fixture(autouse=True)
def quick_quotients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plans take the quick intervals of quotients, those of very many kinds of cells: no loss depends on them."""
    monkeypatch.setattr(quotient, "_JOINT", 0)


Row = tuple[str, str, int | None]
"""A district, a sex, and a number or null."""
Unit = tuple[Row, ...]

UNITS: dict[str, tuple[Any, int, int, int]] = {
    "row": ("row", 1, 1, 1),
    "one of two": ({"user": "who", "max_groups": 1, "max_rows_per_group": 2}, 2, 1, 2),
    "two of one": ({"user": "who", "max_groups": 2, "max_rows_per_group": 1}, 1, 2, 2),
    "three": (
        {"user": "who", "max_groups": 2, "max_rows_per_group": 2, "max_rows": 3},
        2,
        2,
        3,
    ),
}
POOL = ("count", "sum(x)", "mean(x)", "proportion(x > 1)", "histogram(x, [0, 2, 3])")
LEVELS: tuple[tuple[str, list[str]], ...] = (
    ("nation", []),
    ("district", ["d"]),
    ("sex", ["s"]),
    ("fine", ["d", "s"]),
)


def asked(seed: int, unit: str) -> dict[str, Any]:
    """Return a request: several statistics in groups, or of several tables, of columns that may be null."""
    draw = random.Random(seed)
    x: dict[str, Any] = {"kind": "number", "range": [0, 3], "step": 1}
    if draw.random() < 0.5:
        x["nulls"] = {"default": draw.choice([0, 2])}
    release: dict[str, Any] = {"epsilon": draw.choice([0.5, 1, 3])}
    if draw.random() < 0.5:
        levels = [LEVELS[0], *draw.sample(LEVELS[1:3], draw.randint(0, 2)), LEVELS[3]]
        statistics = draw.choice([["count"], ["count", "sum(x)"], ["count", "mean(x)"]])
        if unit != "row" and draw.random() < 0.3:
            statistics = ["count", "count(persons)"]
        release["tables"] = [
            {"name": name, "by": by, "statistics": list(statistics)} for name, by in levels
        ]
    else:
        chosen = draw.sample(POOL, draw.randint(2, 3))
        if "count" not in chosen and draw.random() < 0.7:
            chosen[0] = "count"
        pin = {} if draw.random() < 0.5 else {"mechanism": "discrete_laplace"}
        release["statistics"] = [
            {"statistic": text, **(pin if text != "histogram(x, [0, 2, 3])" else {})}
            for text in chosen
        ]
        release["by"] = draw.choice([[], [], ["s"]])
    return {
        "dprelease": "schema/1",
        "name": "types",
        "unit": UNITS[unit][0],
        "adjacency": "substitution",
        "rows": {"max": 1000, "expected": 300},
        "columns": {
            "who": {"kind": "identifier"},
            "d": {"kind": "category", "values": ["a", "b"]},
            "s": {"kind": "category", "values": ["f", "m"]},
            "x": x,
        },
        "release": release,
    }


def rate_of(block: Block) -> Fraction | None:
    """Return the rate of independent Laplace noise on a block's cells, per step of them; None of other laws."""
    law = block.law
    if isinstance(law, BalancedLaw):
        return None
    if isinstance(law, CellLaw):
        return law.noise.noise.rate
    if isinstance(law, ScalarCellLaw) and isinstance(law.law, AdditiveLaw):
        noise = law.law.noise
        if isinstance(noise, DiscreteLaplaceNoise) and law.step == law.step_size:
            return noise.rate
    return None


def adds(plan: ReleasePlan, place: int, row: Row) -> int:
    """Return what one row adds to a primitive of the plan."""
    p = plan.query.primitives[place]

    def code(at: int) -> int | None:
        found, value = plan.query.codes[at], row[2]
        if isinstance(found, Condition):
            return None if value is None else int(value > 1)
        assert isinstance(found, Fixed)
        return found.default if value is None else value

    if p.kind in ("rows", "persons", "persons_in_cells"):
        return 1
    assert p.code is not None
    own = code(p.code)
    if own is None:
        return 0
    if p.kind == "between":
        return int(p.low <= own <= p.high)
    assert p.kind == "power"
    return int(own**p.power)


def cells(plan: ReleasePlan, block: Block, unit: Unit) -> npt.NDArray[np.int64]:
    """Return what a unit adds to all drawn cells of a block."""
    groups = plan.keys
    used = block.measurement.primitives
    sums = np.zeros((len(groups), len(used)), dtype=np.int64)
    seen: set[tuple[int, int]] = set()
    merge = None if plan.tables is None else plan.tables.sums(block.table)
    for row in sorted(unit, key=str):
        key = tuple({"d": row[0], "s": row[1]}[name] for name in plan.by)
        if key not in groups:
            continue
        at = groups.index(key)
        for i, place in enumerate(used):
            kind = plan.query.primitives[place].kind
            if kind.startswith("persons") and UNITS["row"][0] != plan.unit:
                cell = at if merge is None else merge[0][at]
                if (cell, i) in seen:
                    continue
                seen.add((cell, i))
            sums[at, i] += adds(plan, place, row)
    if merge is not None:
        of, count = merge
        together = np.zeros((count, len(used)), dtype=np.int64)
        np.add.at(together, list(of), sums)
        sums = together
    return np.asarray(sums @ np.array(block.measurement.weights, dtype=np.int64).T).ravel()


def units(plan: ReleasePlan, caps: tuple[int, int, int]) -> Iterator[Unit]:
    """Return all that one unit may hold: at most m rows in each of at most G groups, T in all."""
    m, most, total = caps
    used = {name for b in plan.blocks for name in _columns(plan, b)}
    numbers = (None, 0, 1, 3) if "x" in used else (1,)
    grouped = set(plan.by)
    rows = [
        (d, s, x)
        for d in (("a", "b") if "d" in grouped else ("a",))
        for s in (("f", "m") if "s" in grouped else ("f",))
        for x in numbers
    ]
    for count in range(total + 1):
        for chosen in itertools.combinations_with_replacement(rows, count):
            of = [tuple({"d": r[0], "s": r[1]}[n] for n in plan.by) for r in chosen]
            if len(set(of)) <= most and all(of.count(g) <= m for g in set(of)):
                yield chosen


def _columns(plan: ReleasePlan, block: Block) -> set[str]:
    primitives = [plan.query.primitives[i] for i in block.measurement.primitives]
    return {"x" for p in primitives if p.code is not None}


def furthest(plan: ReleasePlan, caps: tuple[int, int, int]) -> float:
    """Return the largest loss of any two units, summed over all blocks."""
    held = list(units(plan, caps))
    total = np.zeros((len(held), len(held)))
    for block in plan.blocks:
        rate = rate_of(block)
        assert rate is not None
        at = np.array([cells(plan, block, unit) for unit in held])
        total += float(rate) * np.abs(at[:, None, :] - at[None, :, :]).sum(axis=2)
    return float(total.max())


def binned(plan: ReleasePlan) -> bool:
    """Return whether something is not linear in the number: then its type is that of any number."""
    return any(p.kind == "between" for p in plan.query.primitives)


def additive(plan: ReleasePlan) -> bool:
    return all(rate_of(block) is not None for block in plan.blocks)


@pytest.mark.parametrize("unit", UNITS)
def test_the_largest_type_is_attained_and_never_passed(unit: str) -> None:
    """Every change that one unit can make: no plan loses more than is proved, and of single rows all lose it."""
    caps = UNITS[unit][1:]
    tried = raised = attained = 0
    seed = 0
    while tried < whole(8, 70):
        seed += 1
        plan = dp.plan(asked(seed, unit))
        if not additive(plan):
            continue
        tried += 1
        proved, found = float(execute.check(plan)), furthest(plan, caps)
        assert found <= proved * (1 + 1e-9), (seed, found, proved)
        assert proved <= float(plan.epsilon)
        if plan.composition is not None:
            raised += 1
            assert plan.composition.evidence.epsilon_upper == execute.check(plan)  # both made types
            attained += found >= proved * 0.999
            assert sum(b.epsilon for b in plan.blocks) > plan.epsilon
            assert found >= 0.999 * float(plan.epsilon) or unit != "row" or binned(plan), seed
    assert raised >= tried / 4
    assert attained >= raised / 2, (attained, raised)


NORMAL = "rectified_gaussian"


def furthest_squared(plan: ReleasePlan, caps: tuple[int, int, int]) -> Fraction:
    """Return the largest sum of squared distances of any two units over twice the squared scales: the rho of the plan."""
    held = list(units(plan, caps))
    total = np.zeros((len(held), len(held)))
    for block in plan.blocks:
        assert isinstance(block.law, GaussianLaw)
        at = np.array([cells(plan, block, unit) for unit in held], dtype=float)
        moved = ((at[:, None, :] - at[None, :, :]) ** 2).sum(axis=2)
        total += moved / (2 * float(block.law.noise.square))
    return Fraction(float(total.max()))


@pytest.mark.parametrize("unit", UNITS)
def test_normal_noise_costs_its_most_over_types_which_is_attained_and_never_passed(
    unit: str,
) -> None:
    """By the analytic formula of the farthest that one unit moves all cells, listed; of single rows it is the whole epsilon."""
    raised = attained = tables = 0
    for seed in range(whole(5, 70)):
        request = asked(seed, unit)
        release = request["release"] | {"epsilon": 0.1, "delta": 0.02}
        if "statistics" in release:
            texts = [s if isinstance(s, str) else s["statistic"] for s in release["statistics"]]
            release["statistics"] = [{"statistic": s, "mechanism": NORMAL} for s in texts]
        request["release"] = release
        plan = dp.plan(request)
        if not all(isinstance(block.law, GaussianLaw) for block in plan.blocks):
            continue
        rho = furthest_squared(plan, UNITS[unit][1:])
        proved = execute.check(plan)
        found = normal_epsilon(rho, Fraction(0), plan.delta, len(plan.blocks))
        assert found <= proved * (1 + Fraction(1, 10**6)), (seed, found, proved)
        assert proved <= plan.epsilon
        assert plan.composition is not None
        assert plan.composition.evidence.epsilon_upper == proved  # both made types
        if plan.composition.method == "types+normal/1":
            raised += 1
            tables += plan.tables is not None
            attained += found >= proved * Fraction(999, 1000)
            assert execute.concentrated(plan) > rho * Fraction(101, 100)
            summed = replace(plan.composition, method="normal/1")
            with pytest.raises(InternalError, match="cost more than the plan"):
                execute.check(replace(plan, composition=summed))
    assert raised > tables > 0
    assert attained >= (raised if unit == "row" else 1), (attained, raised)


OTHERS = (
    "median(x)",
    "quantile(x, 0.9)",
    "histogram(x, [0, 2, 3])",
    "variance(x)",
    "min(x)",
)
"""Statistics whose laws are not independent Laplace noise, or whose cells are not linear."""


@pytest.mark.parametrize("unit", ["row", "three"])
def test_no_tables_of_any_laws_lose_more(unit: str) -> None:
    """Ranks, noise that adds up to zero and laws without point masses beside counts: tables of three rows, one unit replaced."""
    draw = random.Random(7)
    worst = 0.0
    for seed in range(whole(4, 24)):
        request = asked(seed, unit)
        request["release"] = {
            "epsilon": 2,
            "statistics": ["count", *draw.sample(OTHERS, 2)],
            "by": draw.choice([[], ["s"]]),
        }
        if seed % 2:
            request["release"]["statistics"][0] = {"statistic": "count", "spikes": "forbid"}
        plan = dp.plan(request)
        proved = execute.check(plan)
        assert proved <= plan.epsilon
        count = 1 if unit == "row" else 3
        for _ in range(whole(12, 40)):
            tables = []
            kept = [("other", *_row(draw)) for _ in range(2)]
            for _ in range(2):
                mine = [("me", *_row(draw)) for _ in range(draw.randint(0, count))]
                tables.append(cells_of(plan, answer_of(plan, _table(kept + mine), ENGINE)))
            cost = pair_loss(plan, *tables)
            assert cost.within(proved), (seed, cost.nats, proved)
            worst = max(worst, cost.nats / float(proved))
    assert worst > 0.3  # control


def _table(rows: list[tuple[Any, ...]]) -> pa.Table:
    kinds = {"who": pa.string(), "d": pa.string(), "s": pa.string(), "x": pa.float64()}
    return pa.table(
        {name: pa.array([r[i] for r in rows], kinds[name]) for i, name in enumerate(kinds)}
    )


def _row(draw: random.Random) -> Row:
    return draw.choice("ab"), draw.choice("fm"), draw.choice([None, 0, 1, 2, 3])


def test_twin_a_plan_that_states_what_its_blocks_sum_to_without_types_is_refused() -> None:
    """The same blocks for a sum, and blocks that lose more than epsilon in one type."""
    plan = next(p for p in (dp.plan(asked(s, "row")) for s in itertools.count(1)) if p.composition)
    with pytest.raises(InternalError, match="cost more than the plan"):
        execute.check(replace(plan, composition=None))
    with pytest.raises(InternalError, match="cost more than the plan"):
        execute.check(replace(plan, epsilon=plan.epsilon * Fraction(99, 100)))
    added = replace(plan, adjacency=Adjacency.add_remove)  # there all changes are of one type
    with pytest.raises(InternalError):
        execute.check(added)


def test_noise_with_a_hidden_cell_and_several_rows_cost_the_whole_in_every_type() -> None:
    """A row that leaves moves the hidden cell as well; a law that is no slope is charged for rows of two types."""
    request = asked(1, "row")
    request["release"] = {"epsilon": 1, "statistics": ["count", "histogram(x, [0, 2, 3])"]}
    plan = dp.plan(request)
    assert isinstance(plan.blocks[1].law, BalancedLaw)
    assert [p.types for p in execute._proofs(plan)][1] == (plan.blocks[1].epsilon,) * len(
        execute._proofs(plan)[0].types
    )
    several = dp.plan({**request, "unit": UNITS["three"][0]})
    for block, proof in zip(several.blocks, execute._proofs(several), strict=True):
        assert proof.types == () or rate_of(block) is not None


def test_blocks_of_other_rows_of_a_unit_cost_the_whole_in_every_type() -> None:
    request = asked(1, "three")
    request["release"] = {
        "epsilon": 1,
        "statistics": ["count", {"statistic": "sum(x)", "max_rows_per_group": 1}],
    }
    plan = dp.plan(request)
    assert [bool(p.types) for p in execute._proofs(plan)] == [True, False]


def test_the_rows_that_a_block_keeps_are_the_engines_whatever_the_plan_says() -> None:
    request = asked(1, "three")
    fewer = {"statistic": "sum(x)", "max_rows_per_group": 1}
    request["release"] = {"epsilon": 1, "statistics": ["count", fewer]}
    plan = dp.plan(request)
    blocks = tuple(
        replace(b, measurement=replace(b.measurement, max_rows=None)) for b in plan.blocks
    )
    for block, known in zip(blocks, (True, False), strict=True):
        assert bool(execute._sensitivity(plan, block).types) is known


def test_no_loss_is_raised_where_the_ledger_adds_up_rho() -> None:
    """There it costs more; and a plan that was made without a ledger says what it is for."""
    tables, single = asked(1, "row"), asked(1, "row")
    single["release"] = {"epsilon": 1, "statistics": ["count", "cdf(x, [0, 1, 3])"]}
    for request in (tables, single):
        plan = dp.plan(request)
        told = dp.plan({**request, "release": {**request["release"], "composition": "zcdp"}})
        assert plan.composition is not None
        assert plan.composition.method == "types/1"
        assert told.composition is None
        assert sum(b.epsilon for b in told.blocks) <= told.epsilon
        assert execute.concentrated(told) < execute.concentrated(plan)
        assert any("composition: zcdp" in note for note in plan.notes)


@pytest.mark.parametrize(("adds", "method"), [("basic", "types/1"), ("zcdp", "basic/1")])
def test_the_ledger_at_hand_says_how_losses_add_up(
    tmp_path: Path, adds: Literal["basic", "zcdp"], method: str
) -> None:
    """A plan that is made beside a ledger by rho costs no more of it than the plain one; both are charged and published."""
    request = asked(1, "row") | {"release": _tables()}
    ledger = dp.create_ledger(
        tmp_path / "ledger.db", request, epsilon=9, delta=1e-6, composition=adds
    )
    table = _table([("a", "a", "f", 1), ("b", "b", "m", None)])
    made = dp.release(table, request, ledger=ledger, period="2024")
    composition = made.plan.composition
    assert ("basic/1" if composition is None else composition.method) == method
    assert made.publish(tmp_path / "out").exists()


def _tables(**finest: Any) -> dict[str, Any]:
    counts = [{"name": name, "by": by, "statistics": ["count"]} for name, by in LEVELS[:2]]
    fine = {"name": "fine", "by": ["d", "s"], "statistics": ["count"], **finest}
    return {"epsilon": 1, "tables": [*counts, fine]}


BINS = "cdf(x, [0, 1, 3])"
DECLARED: dict[str, dict[str, Any]] = {
    "a statistic's share": {"statistics": ["count", {"statistic": BINS, "share": 0.4}]},
    "an error": {"statistics": [BINS, {"statistic": "count", "max_error": 3}]},
    "a table's share": _tables(share=0.5),
    "a table's error": _tables(statistics=[{"statistic": "count", "max_error": 9}]),
    "sizes": _tables(detail={"statistic": "count", "max_relative_error": 0.3}),
}


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
def test_what_is_declared_is_kept_and_plans_are_made_again(declared: dict[str, Any]) -> None:
    """A part of epsilon stays that part; and a verifier makes raised plans, and those, from their requests."""
    tables = "tables" in declared
    control: dict[str, Any] = _tables() if tables else {"statistics": ["count", BINS]}
    for release, raised in ((declared, False), (control, True)):
        plan = dp.plan(asked(1, "row") | {"release": {"epsilon": 1, **release}})
        assert plan.composition is None or raised
        assert (sum(b.epsilon for b in plan.blocks) > plan.epsilon) is raised
        stated = json.loads(canonical_json(plan.to_json()))
        request = json.loads(canonical_json(request_to_json(plan.request)))
        assert plan_again(request_from_json(request), stated).to_json() == stated


def test_plans_of_normal_noise_are_made_again_and_ledgers_by_rho_are_charged_a_sum() -> None:
    """A verifier makes the raised plan from its request; where rho adds up nothing is raised, and less of it is spent."""
    release = _tables() | {"epsilon": 0.1, "delta": 0.01}
    plan = dp.plan(asked(1, "row") | {"release": release})
    assert plan.composition is not None
    assert plan.composition.method == "types+normal/1"
    stated = json.loads(canonical_json(plan.to_json()))
    request = json.loads(canonical_json(request_to_json(plan.request)))
    assert plan_again(request_from_json(request), stated).to_json() == stated
    assert any("composition: zcdp" in note for note in plan.notes)
    told = dp.plan(asked(1, "row") | {"release": release | {"composition": "zcdp"}})
    assert execute.concentrated(told) < execute.concentrated(plan)


def test_a_product_of_a_number_with_itself_is_not_linear() -> None:
    """No request makes one: 3 x - x x is 0 at both ends and not between them."""
    request = asked(1, "row")
    request["columns"]["y"] = {"kind": "number", "range": [0, 3], "step": 1}
    request["release"] = {"epsilon": 1, "statistics": ["covariance(x, y)"]}
    plan = dp.plan(request)
    one = plan.query.primitives[0]
    powers = (replace(one, code=0, power=1, other=0, other_power=p) for p in (0, 1))
    query = replace(plan.query, primitives=tuple(powers))
    squared = replace(plan.blocks[0].measurement, weights=((3, -1),))
    types = types_of_change(query, squared, (0, 1), (9, 9), Bounds(1, 1), 1, signed=True)
    assert {v for each in types for v in each} == {(9, 81)}
