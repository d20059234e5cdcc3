"""Plans with normal noise, read as JSON alone and attacked: no neighbours have a larger delta than the plan states.

Requests are made up: replaced rows and persons, groups, several tables, filters, nulls, defaults, cells beyond their range,
columns made of others, products, persons of a month. What a row adds is worked out here from the engine's task in
the plan's JSON, the noise is read from its blocks, and delta is the exact one of both: the profile of normal noise averaged over
the losses of discrete Laplace noise beside it. Other laws count nothing. No sensitivity, type, proof or price of the library enters.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import date
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.audit.answers import answer_of, cells_of
from dprelease.budget.composition import METHODS
from dprelease.core.errors import DpreleaseError
from dprelease.core.strict_json import canonical_json
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.planning.again import plan_again
from dprelease.query.request import request_from_json
from dprelease.query.written import request_to_json
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall import execute
from tests.sizes import whole

Row = dict[str, Any]
Json = dict[str, Any]
Cells = npt.NDArray[np.float64]

CAPS = {"row": (1, 1, 1), "pairs": (2, 1, 2), "spread": (1, 2, 2), "month": (1, 2, 2)}
"""Of each unit: rows in a group, groups, rows in all."""

WHERE = {
    "x > 1": lambda r: None if r["x"] is None else r["x"] > 1,
    "s = 'f'": lambda r: None if r["s"] is None else r["s"] == "f",
    "x > y": lambda r: None if None in (r["x"], r["y"]) else r["x"] > r["y"],
}
MADE = {"x - y": lambda x, y: x - y, "x * y": lambda x, y: x * y}
ASKED: tuple[Any, ...] = (
    *("sum(x)", "mean(x)", "sum(y)", "mean(y)", "sum(z)", "variance(y)", "covariance(x, y)"),
    *("count(persons)", "proportion(x > y)", "cdf(x, [2, 4])", "histogram(y, [-1, 1, 3])", "median(x)"),
    *("count where x > 1", "mean(y) where x > 1", "count_distinct(d)"),
    {"statistic": "sum(x)", "as": "heavy", "weighted_by": "w"},
    {"statistic": "mean(y)", "as": "weighted", "weighted_by": "w"},
)  # fmt: skip


def asked(draw: random.Random, unit: str) -> Json:
    """Return a request that nobody thought of."""
    rows, groups, most = CAPS[unit]
    caps = {"max_groups": groups, "max_rows_per_group": rows, "max_rows": most}
    columns: Json = {
        "who": {"kind": "identifier"},
        "d": {"kind": "category", "values": ["a", "b"]},
        "s": {"kind": "category", "values": ["f", "m"]},
        "x": {"kind": "number", "range": draw.choice([[0, 4], [2, 4], [-4, 4]]), "step": 2},
        "y": {"kind": "number", "range": [-1, 3], "step": 1},
        "z": {"kind": "number", "from": draw.choice([*MADE]), "range": [-3, 6], "step": 1},
        "w": {"kind": "number", "range": [0, 2], "step": 1},
        "day": {"kind": "date"},
    }
    if draw.random() < 0.4:
        columns["d"]["other"] = {"as": "rest"}
    for name, default in (("x", 2), ("y", -1)):
        if draw.random() < 0.4:
            columns[name]["nulls"] = {"default": default}
    release: Json = {
        "epsilon": draw.choice([0.1, 0.1, 0.5, 1]),
        "delta": draw.choice([0.05, 0.02, 1e-3, 1e-6]),
    }
    if draw.random() < 0.4:
        levels = [[], *draw.sample([["d"], ["s"]], draw.randint(0, 2)), ["d", "s"]]
        some = ["count", *draw.sample(["sum(x)", "mean(y)", "count(persons)"], draw.randint(0, 1))]
        release["tables"] = [
            {"name": "t" + "".join(by), "by": by, "statistics": list(some)} for by in levels
        ]
    else:
        chosen = draw.sample(ASKED, draw.randint(1, 4))
        release["statistics"] = ["count", *(c for c in chosen if c != "count")]
        release["by"] = draw.choice([[], ["d"], ["d", "s"]])
        if draw.random() < 0.4:
            release["where"] = draw.choice([*WHERE])
    told: Json = {"unit": "row" if unit == "row" else {"user": "who", **caps}}
    if unit == "month":
        told = {
            "unit": {"user": "who", "per": "month", **caps},
            "time": {"column": "day", "immutable": True},
        }
    return {
        "dprelease": "schema/1",
        "name": "attacked",
        "adjacency": "substitution",
        "rows": {"max": 1000, "expected": 300},
        "columns": columns,
        "release": release,
        **told,
    }


# --- what the engine sums, from the plan's JSON -----------------------------------------------------


def cleaned(row: Row, columns: Json) -> Row:
    """Return a row as everything reads it: numbers in their range, nulls replaced, then what is made of others."""
    out = dict(row)
    for name in ("x", "y", "w"):
        low, high = columns[name]["range"]
        value = columns[name].get("nulls", {}).get("default") if row[name] is None else row[name]
        out[name] = None if value is None else min(max(value, low), high)
    made = None if None in (out["x"], out["y"]) else MADE[columns["z"]["from"]](out["x"], out["y"])
    low, high = columns["z"]["range"]
    return {**out, "z": None if made is None else min(max(made, low), high)}


def coded(code: Json, row: Row) -> int | None:
    if "condition" in code:
        true = WHERE[code["condition"]](row)
        return None if true is None else int(true)
    name, _, some = code["column"].partition(" where ")
    value = row[name] if not some or WHERE[some](row) else None
    if value is None:
        return None if code["default"] is None else int(code["default"])
    steps = math.floor(Fraction(value) / Fraction(code["step"]) + Fraction(1, 2))
    low, high = int(code["runs"][0][0]), int(code["runs"][-1][1])  # a forged grid may be narrower
    return min(max(steps, low), high) - low


def added(primitive: Json, codes: list[Json], row: Row) -> int:
    """Return what one row adds to a sum over rows."""
    kind = primitive["kind"]
    if kind == "rows":
        return 1
    own = coded(codes[primitive["code"]], row)
    if kind == "between":
        return int(own is not None and int(primitive["low"]) <= own <= int(primitive["high"]))
    if kind == "power":
        return 0 if own is None else own ** primitive["power"]
    assert kind == "product", kind
    other = coded(codes[primitive["other"]], row)
    power = primitive.get("other_power", 0)
    return 0 if own is None or other is None else own ** primitive["power"] * other**power


def group_of(plan: Json, row: Row) -> int | None:
    labels = []
    for column in plan["query"]["groups"]:
        value = row[column["column"]]
        known = {k[len(labels)] for k in plan["keys"]}
        labels.append(
            value if value in known else column["null"] if value is None else column["other"]
        )
    return plan["keys"].index(labels) if labels in plan["keys"] else None


def drawn_from(plan: Json, columns: Json, block: Json, rows: list[Row]) -> list[int] | None:
    """Return a block's exact cells, of rows that all count; None of what is no sum over rows."""
    query, measured = plan["query"], block["measurement"]
    used = [query["primitives"][i] for i in measured["primitives"]]
    tree = measured["form"] == "binned_tree"
    if not (tree or measured["form"] == "linear") or any(p["kind"] == "distinct" for p in used):
        return None
    of, count = list(range(len(plan["keys"]))), len(plan["keys"])
    if block.get("table") is not None:
        table = next(t for t in plan["tables"]["tables"] if t["name"] == block["table"])
        of, count = table["of"], len(table["keys"])
    sums = [[0] * len(used) for _ in range(count)]
    people = set()
    for row in rows:
        at = of[group_of(plan, row)]  # type: ignore[index]
        for place, primitive in enumerate(used):
            if not primitive["kind"].startswith("persons"):
                sums[at][place] += added(primitive, query["codes"], cleaned(row, columns))
            elif plan["unit"] == "row" or (row["who"], at, place) not in people:
                people.add((row["who"], at, place))
                sums[at][place] += 1
    places = range(len(used))
    weights = measured["weights"] or [[int(i == j) for j in places] for i in places]
    if tree:  # runs of so many bins, coarse first
        widths = map(int, weights[0])
        weights = [
            [int(i // w == run) for i in places]
            for w in widths
            for run in range(-(-len(used) // w))
        ]
    return [
        sum(int(w) * v for w, v in zip(each, cell, strict=True))
        for cell in sums
        for each in weights
    ]


# --- all that a unit may hold -----------------------------------------------------------------------


def rows_of(draw: random.Random, plan: Json, columns: Json, count: int) -> list[Row]:
    """Return rows that count: with ends of ranges, nulls, values between and beyond."""
    where, tries, found = plan["query"]["where"], 0, []
    while len(found) < count and tries < 400:
        tries += 1
        row = {
            "day": date(2024, 1, 9),
            "d": draw.choice(["a", "b", "c", None]),
            "s": draw.choice(["f", "m"]),
            "x": draw.choice([None, columns["x"]["range"][0], 4, 2, -50, 99]),
            "y": draw.choice([None, -1, 3, 1, 50]),
            "w": draw.choice([None, 0, 2, 1]),
        }
        if group_of(plan, row) is None or (where and not WHERE[where](cleaned(row, columns))):
            continue
        found.append(row)
    return found


def held(plan: Json, caps: tuple[int, int, int], rows: list[Row]) -> Iterator[list[Row]]:
    for count in range(caps[2] + 1):
        for chosen in itertools.combinations_with_replacement(rows, count):
            inside = Counter(group_of(plan, row) for row in chosen)
            if len(inside) <= caps[1] and max(inside.values(), default=0) <= caps[0]:
                yield list(chosen)


# --- the exact delta of two neighbours --------------------------------------------------------------


def normal_delta(mu: float, epsilon: float) -> Any:
    """Return Phi(mu/2 - e/mu) - e^e Phi(-mu/2 - e/mu), to forty digits."""
    if mu == 0:
        return max(mpmath.mpf(0), 1 - mpmath.exp(epsilon))
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def float_delta(mu: float, epsilon: float) -> float:
    """Return the same to about nine digits: many losses are averaged."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    near, far = (sign * mu / 2 - epsilon / mu for sign in (1, -1))
    return (
        math.erfc(-near / math.sqrt(2)) - math.exp(epsilon) * math.erfc(-far / math.sqrt(2))
    ) / 2


def laplace_losses(rate: float, moves: list[int]) -> tuple[Cells, Cells]:
    """Return losses and their chances, of discrete Laplace noise on cells that move like that."""
    chances = np.ones(1)
    for k in filter(None, map(abs, moves)):
        a = math.exp(-rate)
        own = np.zeros(2 * k + 1)  # the loss rate * (k - 2 z) stands at k + (k - 2 z)
        own[2 * k], own[0] = 1 / (1 + a), a**k / (1 + a)
        for z in range(1, k):
            own[2 * k - 2 * z] += (1 - a) / (1 + a) * a**z
        chances = np.convolve(chances, own)
    size = (len(chances) - 1) // 2
    return rate * np.arange(-size, size + 1), chances


def exact_delta(mu: float, beside: list[tuple[float, list[int]]], epsilon: float) -> float:
    """Return the delta of normal noise beside discrete Laplace noise of these rates and moves."""
    losses, chances = np.zeros(1), np.ones(1)
    for rate, moves in beside:
        more, own = laplace_losses(rate, moves)
        keep = own > 0
        losses = (losses[:, None] + more[keep][None]).ravel()
        chances = (chances[:, None] * own[keep][None]).ravel()
        if len(losses) > 400:  # losses are rounded down: delta becomes no larger
            width = (losses.max() - losses.min()) / 400
            at = np.floor((losses - losses.min()) / width).astype(int)
            low = losses.min()
            chances = np.bincount(at, chances)
            losses = low + width * np.arange(len(chances))
    if not beside:
        return float(normal_delta(mu, epsilon))
    return math.fsum(p * float_delta(mu, epsilon - v) for p, v in zip(chances, losses, strict=True))


def part_of_delta(plan: Json, columns: Json, states: list[list[Row]]) -> tuple[bool, float]:
    """Return whether all noise of a plan is normal, and the largest delta of two states at its epsilon, as a part of the stated one."""
    mu = np.zeros((len(states), len(states)))
    score, beside = np.zeros_like(mu), []
    normal = True
    for block in plan["blocks"]:
        law = block["law"]
        cells = [drawn_from(plan, columns, block, state) for state in states]
        is_normal, is_laplace = law["draw"] == "gaussian", law["draw"] == "cells"
        normal &= is_normal
        if cells[0] is None:
            assert not is_normal, block
            continue
        at = np.array(cells, dtype=float)
        steps = np.abs(at[:, None] - at[None])
        if is_normal:
            mu += (steps**2).sum(axis=2) / float(Fraction(law["law"]["square"]))
        elif is_laplace and "rate" in law["law"].get("noise", {}):
            rate = float(Fraction(law["law"]["noise"]["rate"]))
            score += rate * steps.sum(axis=2)
            beside.append((rate, at))
    evidence = (plan["composition"] or {}).get("evidence", {})
    epsilon = float(Fraction(evidence.get("epsilon_upper", plan["epsilon"])))
    found = 0.0
    for scored in (mu, score**2 + mu) if beside else (mu,):
        i, j = np.unravel_index(int(scored.argmax()), scored.shape)
        moved = [(rate, [int(v) for v in at[i] - at[j]]) for rate, at in beside]
        small = [m for m in moved if sum(map(abs, m[1])) <= 400]
        found = max(found, exact_delta(math.sqrt(mu[i, j]), small, epsilon))
    return normal, found / float(Fraction(plan["delta"]))


def states_of(
    draw: random.Random, unit: str, plan: Json, columns: Json, most: int
) -> list[list[Row]]:
    """Return what a unit may hold; of a person of a month also rows of another month, and somebody else in place."""
    rows = rows_of(draw, plan, columns, most)
    months = unit == "month"
    base = [{**r, "who": "me", "day": date(2024, 2, 9)} for r in rows[:1]] if months else []
    return [
        [*base, *({**r, "who": who} for r in state)]
        for who in (("me", "new") if months else ("me",))
        for state in held(plan, CAPS[unit], rows)
    ]


def as_an_engine_sums(made: ReleasePlan, plan: Json, columns: Json, state: list[Row]) -> bool:
    """Return whether an engine sums the same, table by table; persons of coarse tables aside, whose groups are put together."""
    if not state:
        return True
    kinds = {"who": pa.string(), "d": pa.string(), "s": pa.string(), "day": pa.date32()}
    types = {name: kinds.get(name, pa.float64()) for name in state[0]}
    table = pa.table({n: pa.array([r[n] for r in state], kind) for n, kind in types.items()})
    drawn = cells_of(made, answer_of(made, table, DuckDBEngine()))
    return all(
        (mine := drawn_from(plan, columns, {**block, "table": None}, state)) is None
        or (block.get("table") is not None and "persons" in str(block["cells"]))
        or mine == [int(v) for v in np.ravel(cells)]
        for block, cells in zip(plan["blocks"], drawn, strict=True)
    )


# --- forged plans -----------------------------------------------------------------------------------


def leaves(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the places of all numbers in a plan's JSON, and of how it composes."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, each in inner:
        if isinstance(each, dict | list):
            yield from leaves(each, (*at, key))
        elif isinstance(each, int) or (
            isinstance(each, str) and each.strip("-").replace("/", "").isdigit()
        ):
            yield (*at, key)


def forged(draw: random.Random, plan: Json) -> Json:
    """Return the plan with one number changed, or another way to compose."""
    out: Json = json.loads(json.dumps(plan))
    part = draw.choice(["blocks", "blocks", "composition", "query", "tables", "measurement"])
    if part == "composition":
        out["composition"]["method"] = draw.choice([m for m in METHODS if m != "types+normal/1"])
        return out
    value = out[part] if part in out else [b["measurement"] for b in out["blocks"]]
    *path, last = draw.choice([*leaves(value)])
    for key in path:
        value = value[key]
    old = Fraction(value[last])
    new = draw.choice([old / 2, old / 4, old * 2, old - 1, old + 1, Fraction(0)])
    new = new if "/" in str(value[last]) else Fraction(math.floor(new))
    value[last] = int(new) if isinstance(value[last], int) else str(new)
    return out


def accepted(
    draw: random.Random, made: ReleasePlan, plan: Json, columns: Json, states: list[list[Row]]
) -> bool | None:
    """Return whether the wall takes the plan with one number changed: then it is true, and not what the request makes."""
    other = forged(draw, plan)
    if other == plan:
        return None
    try:
        execute.check(ReleasePlan.from_json(other))
    except DpreleaseError:
        return False
    with suppress(ZeroDivisionError):  # a step of 0: no engine sums such a column
        assert part_of_delta(other, columns, states)[1] <= 1 + 1e-9, other
    try:
        again = plan_again(request_from_json(request_to_json(made.request)), other)
    except (DpreleaseError, LookupError, TypeError, ValueError):
        return True
    assert json.loads(canonical_json(again.to_json())) != other
    return True


@pytest.mark.parametrize("unit", CAPS)
def test_no_neighbours_have_a_larger_delta_than_a_made_up_or_forged_plan_states(unit: str) -> None:
    """Numbers are halved, doubled, one more or less, or nothing, and blocks composed in other ways."""
    draw = random.Random(unit)
    ways: Counter[str] = Counter()
    taken: Counter[bool | None] = Counter()
    attained = []
    for _ in range(whole(5, 80)):
        request = asked(draw, unit)
        columns, made = request["columns"], dp.plan(request)
        plan: Json = json.loads(canonical_json(made.to_json()))
        states = states_of(draw, unit, plan, columns, whole(12, 22))
        assert as_an_engine_sums(made, plan, columns, draw.choice(states)), request
        with mpmath.workdps(40):
            normal, part = part_of_delta(plan, columns, states)
        assert part <= 1 + 1e-9, (request, part)
        ways[(plan["composition"] or {"method": "basic/1"})["method"]] += 1
        if (plan["composition"] or {}).get("method") != "types+normal/1":
            continue
        attained += [part] * normal
        few = draw.sample(states, min(len(states), 60))
        taken.update(accepted(draw, made, plan, columns, few) for _ in range(whole(8, 10)))
    assert len(attained) >= whole(1, 15), ways
    assert max(attained) > (0.999 if unit in ("row", "spread") else 0.3), sorted(attained)
    assert min(taken[True], taken[False]) >= whole(1, 20), taken
