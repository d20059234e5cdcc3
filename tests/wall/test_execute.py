"""The wall: what it refuses, and that nothing else can see an exact answer.

Every tampered plan is a broken twin of one guard in `execute.check`: what the tampering would leak
is priced too low, so the plan must be refused, with a code.
"""

from __future__ import annotations

import ast
import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dprelease
from dprelease.budget.composition import Proof
from dprelease.core.entropy import RandomBits, ReplayBits, SystemBits
from dprelease.core.errors import DpreleaseError, InternalError, WithheldError
from dprelease.core.secret import Secret
from dprelease.measurements.law import Objects
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.query.answer import Answer
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results import draw as draw_module
from dprelease.statistics.sensitivity import Sensitivity
from dprelease.wall import execute
from tests.planning.requests import PUBLIC_X, USER, planned, public
from tests.wall.test_margin_sensitivity import plan_of as tables_of

PACKAGE = Path(dprelease.__file__).parent
Json = dict[str, Any]


def user_plan() -> Json:
    """Five blocks of five kinds, several groups, a user unit."""
    plan = planned(
        [
            "count",
            "sum(x)",
            "mean(x)",
            "variance(x)",
            "histogram(x, [0, 5, 10])",
            {"statistic": "mean(x)", "as": "smooth", "spikes": "forbid"},
        ],
        unit={**USER, "max_rows": 4},
        by=["g"],
        rows={"max": 500, "expected": 100},
    )
    return json.loads(json.dumps(plan.to_json()))


def public_plan() -> Json:
    plan = public(["mean(x)", "variance(x)"], n=9)
    return json.loads(json.dumps(plan.to_json()))


@pytest.fixture(scope="module")
def plans() -> dict[str, Json]:
    made = {"user": user_plan(), "public": public_plan()}
    for plan in made.values():
        execute.check(ReleasePlan.from_json(plan))
    return made


def block(plan: Json, family: str) -> Json:
    return next(b for b in plan["blocks"] if b["family"] == family)


def with_law(family: str, change: Callable[[Json], object]) -> Callable[[Json], object]:
    return lambda plan: change(block(plan, family)["law"])


def with_measurement(family: str, **wrong: object) -> Callable[[Json], object]:
    return lambda plan: block(plan, family)["measurement"].update(wrong)


def all_primitives(**wrong: object) -> Callable[[Json], object]:
    return lambda plan: [p.update(wrong) for p in plan["query"]["primitives"]]


def in_query(**wrong: object) -> Callable[[Json], object]:
    return lambda plan: plan["query"].update(wrong)


def smaller_noise(law: Json) -> None:
    """Raise the rate of the cells' noise, claim unchanged."""
    law["law"]["noise"]["rate"] = str(2 * Fraction(law["law"]["noise"]["rate"]))


def fewer_blocks_charged(plan: Json) -> None:
    plan["epsilon"] = str(Fraction(plan["epsilon"]) / 2)


def less_than_proved(family: str) -> Callable[[Json], object]:
    def change(plan: Json) -> None:
        it = block(plan, family)
        it["epsilon"] = str(Fraction(it["epsilon"]) * Fraction(9, 10))

    return change


def scalar_sensitivity(plan: Json) -> None:
    law = block(plan, "scalar")["law"]["law"]
    law["sensitivity"] = law["sensitivity"] - 1


def scalar_noise(plan: Json) -> None:
    law = block(plan, "scalar")["law"]["law"]
    noise = law["noise"]
    if "rate" in noise:
        noise["rate"] = str(Fraction(noise["rate"]) * 2)
    else:
        noise["p"] = str(int(noise["p"]) // 2)


def steeper_step(plan: Json) -> None:
    """A negative step makes every sensitivity look negative."""
    block(plan, "scalar")["law"]["step"] = "-1"


def mean_epsilon(plan: Json) -> None:
    law = block(plan, "truncated_mean")["law"]
    law["epsilon"] = str(-Fraction(law["epsilon"]))


def mean_law_for_cells(plan: Json) -> None:
    other = block(plan, "truncated_mean")
    block(plan, "bins").update(law=other["law"], mechanism=other["mechanism"])


def cells_law_for_mean(plan: Json) -> None:
    other = block(plan, "bins")
    block(plan, "truncated_mean").update(law=other["law"], mechanism=other["mechanism"])


def mean_scale(plan: Json) -> None:
    """Both the measurement and the law call the column narrower than its codes are."""
    it = block(plan, "truncated_mean")
    it["law"]["scale"] = it["measurement"]["scale"] = "1"


def wider_column(plan: Json) -> None:
    for code in plan["query"]["codes"]:
        code["runs"] = [["0", "999"]]


def count_as_linear(plan: Json) -> None:
    """One law for all changed groups, although its certificate caps the sensitivity at its own hull."""
    law = block(plan, "scalar")["law"]
    law.update(linear=True)
    law["law"].update(splits=False, allowed=[["0", "1"]], sensitivity=10**6)


TAMPERED: dict[str, tuple[str, Callable[[Json], object], str]] = {
    "cells: law sensitivity": (
        "user",
        with_law("bernstein2", lambda v: v["law"].update(l1_sensitivity=1)),
        "DPR901",
    ),
    "cells: noise halved": ("user", with_law("bins", smaller_noise), "DPR901"),
    "cells: epsilon": ("user", less_than_proved("bins"), "DPR901"),
    "scalar: law sensitivity": ("user", scalar_sensitivity, "DPR901"),
    "scalar: noise": ("user", scalar_noise, "DPR901"),
    "scalar: changed groups": (
        "user",
        with_law("scalar", lambda v: v.update(changed_groups=1, linear=False)),
        "DPR901",
    ),
    "scalar: step": ("user", steeper_step, "DPR901"),
    "scalar: step_size": ("user", with_law("scalar", lambda v: v.update(step_size="-1")), "DPR901"),
    "scalar: linear": ("user", count_as_linear, "DPR901"),
    "scalar: epsilon": ("user", less_than_proved("scalar"), "DPR901"),
    "mean: chain length": (
        "user",
        with_law("truncated_mean", lambda v: v.update(chain_length=1)),
        "DPR901",
    ),
    "mean: sensitivity of its sum": (
        "user",
        with_law("truncated_mean", lambda v: v.update(sum_sensitivity="1/100")),
        "DPR901",
    ),
    "mean: epsilon per move": ("user", mean_epsilon, "DPR901"),
    "mean: scale": ("user", mean_scale, "DPR902"),
    "mean: scale of the law": (
        "user",
        with_law("truncated_mean", lambda v: v.update(scale="1")),
        "DPR902",
    ),
    "mean: sum doubled": (
        "user",
        with_measurement("truncated_mean", weights=[["1", "0"], ["0", "2"]]),
        "DPR902",
    ),
    "mean: its law for cells": ("user", mean_law_for_cells, "DPR902"),
    "mean: cells' law": ("user", cells_law_for_mean, "DPR902"),
    "weights doubled": (
        "user",
        with_measurement("bins", weights=[["2", "0"], ["0", "2"]]),
        "DPR901",
    ),
    "a measure too many in a cell": (
        "user",
        with_measurement("bins", weights=[["1", "1"], ["1", "1"]]),
        "DPR901",
    ),
    "l1_added_row is not believed": (
        "user",
        with_measurement("scalar", weights=[["9"]], l1_added_row="1"),
        "DPR901",
    ),
    "per_unit is not believed": (
        "user",
        with_measurement("scalar", weights=[["9"]], per_unit=True),
        "DPR901",
    ),
    "other primitives": ("user", with_measurement("bins", primitives=[1, 2]), "DPR90"),
    "wider codes": ("user", wider_column, "DPR90"),
    "more rows per group": ("user", all_primitives(max_rows=4), "DPR902"),
    "rows per group by default": (
        "user",
        lambda p: [all_primitives(max_rows=None)(p), in_query(max_rows=9)(p)],
        "DPR902",
    ),
    "more groups per unit": ("user", in_query(max_groups=3), "DPR902"),
    "another unit": ("user", in_query(user="g"), "DPR902"),
    "no unit": ("user", in_query(user=None), "DPR902"),
    "no total cap": ("user", in_query(max_rows_total=None), "DPR902"),
    "blocks add up to more": ("user", fewer_blocks_charged, "DPR901"),
    "public n: add/remove": ("public", lambda p: p.update(adjacency="add_remove"), "DPR902"),
    "public n: a filter": ("public", lambda p: p.update(where="x > 1"), "DPR902"),
    "public n: nulls dropped": (
        "public",
        lambda p: [c.update(default=None) for c in p["query"]["codes"]],
        "DPR902",
    ),
    "public n: a user": ("public", lambda p: p.update(unit=USER), "DPR902"),
    "public n: claimed of a private one": (
        "user",
        with_measurement("scalar", public_rows=5),
        "DPR902",
    ),
    "public n: smaller": (
        "public",
        lambda p: [b["measurement"].update(public_rows=99) for b in p["blocks"]],
        "DPR901",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_plan_is_refused(name: str, plans: dict[str, Json]) -> None:
    which, change, code = TAMPERED[name]
    value = copy.deepcopy(plans[which])
    before = json.dumps(value, sort_keys=True)
    change(value)
    assert json.dumps(value, sort_keys=True) != before
    with pytest.raises(InternalError) as caught:
        execute.check(ReleasePlan.from_json(value))
    assert caught.value.code.startswith(code)
    assert caught.value.fix and caught.value.why


def test_a_sum_over_places_of_labels_costs_the_greatest_place() -> None:
    """An engine sums them, up to 999 of a row where the column's codes end at ten: they were taken for 0 and 1."""
    value = json.loads(json.dumps(planned(["sum(x)"]).to_json()))
    execute.check(ReleasePlan.from_json(value))
    labels = {"column": "g", "values": [*map(str, range(999)), "a"]}
    value["query"]["codes"] = [labels for _ in value["query"]["codes"]]
    with pytest.raises(InternalError, match="smaller sensitivity"):
        execute.check(ReleasePlan.from_json(value))


@dataclass(frozen=True, slots=True)
class Lying(ScalarCellLaw):
    """A law that says it loses a hundredth, whatever its noise is, and draws none."""

    def proof(self, sensitivity: Sensitivity) -> Proof:
        del sensitivity
        return Proof(pure=(Fraction(1, 100),))

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        del bits
        return exact


def test_a_law_that_lies_about_its_proof_or_its_draw_is_refused() -> None:
    plan = planned(["count"], epsilon="1/10")
    (block,) = plan.blocks
    law = Lying(**{f.name: getattr(block.law, f.name) for f in fields(ScalarCellLaw)})
    assert sum(law.proof(Sensitivity(1, 1, 1, 1)).pure) == Fraction(1, 100)
    one = replace(block, epsilon=Fraction(1, 100), law=law)
    cheap = replace(plan, epsilon=Fraction(1, 100), blocks=(one,))
    exact = Secret(Answer(np.full((1, 1), 40, dtype=object)))
    for use in (execute.check, execute.concentrated, lambda p: execute.draw(p, exact)):
        assert use(plan) is not None
        with pytest.raises(InternalError) as caught:
            use(cheap)
        assert caught.value.code == "DPR902"


@dataclass(frozen=True, slots=True)
class Changing(ScalarCellLaw):
    """A law that is honest the first two times it is written, and has hardly any noise the next."""

    def to_json(self) -> dict[str, Any]:
        said = ScalarCellLaw.to_json(self)
        WRITTEN.append(said)
        if len(WRITTEN) > 2:
            said["law"]["noise"]["rate"] = "40"
        return said


WRITTEN: list[Any] = []


def test_a_law_that_says_another_thing_each_time_is_refused() -> None:
    """A law that changed between the check and the draw was drawn unproved: three exact counts for an epsilon of 0.1."""
    plan = planned(["count"], epsilon="1/10", unit={**USER, "max_rows": 4}, by=["g"])
    (block,) = plan.blocks
    law = Changing(**{f.name: getattr(block.law, f.name) for f in fields(ScalarCellLaw)})
    changing = replace(plan, blocks=(replace(block, law=law),))
    WRITTEN.clear()
    answer = Secret(Answer(np.full((3, 1), 400, dtype=object)))
    assert execute.check(plan) == plan.epsilon
    for use in (execute.check, lambda p: execute.draw(p, answer)):
        with pytest.raises(InternalError) as caught:
            use(changing)
        assert caught.value.code == "DPR902"
    assert execute.draw(plan, answer)


class Small(Fraction):
    """A number that is above all others."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True


@pytest.mark.parametrize("name", ["epsilon", "delta"])
def test_what_is_charged_is_a_number_and_not_what_it_says_of_itself(name: str) -> None:
    plan = tables_of(1e-2)
    assert any(b.rho for b in plan.blocks)
    assert execute.check(plan) <= plan.epsilon
    with pytest.raises(InternalError) as caught:
        execute.check(replace(plan, **{name: Small(1, 10**9)}))
    assert caught.value.code == "DPR902"


def test_a_plan_of_other_groups_than_its_query_is_refused() -> None:
    plan = planned(["count"], by=["g"], adjacency="substitution")
    with pytest.raises(InternalError) as caught:
        execute.check(replace(plan, keys=plan.keys[:1]))  # K = 1 would halve what a row can move
    assert caught.value.code == "DPR902"


def test_check_returns_the_charged_loss(plans: dict[str, Json]) -> None:
    for value in plans.values():
        plan = ReleasePlan.from_json(value)
        total = execute.check(plan)
        assert total == sum((b.epsilon for b in plan.blocks), Fraction(0)) <= plan.epsilon
        for b in plan.blocks:
            assert Fraction(b.certificate["epsilon_upper"]) <= b.epsilon


# --- drawing ------------------------------------------------------------------------------------


def exact(plan: ReleasePlan, rows: int = 40) -> execute.Exact:
    """Return primitives of `rows` rows at code 3 in every group."""
    values = [
        rows * 3**p.power if p.kind == "power" else rows if p.kind != "between" else rows // 2
        for p in plan.query.primitives
    ]
    return Secret(Answer(np.array([values] * len(plan.keys), dtype=object)))


class TestDraw:
    def test_repeatable_bits_are_refused(self) -> None:
        plan = planned(["count"])
        with pytest.raises(InternalError, match="generator only") as caught:
            execute.draw(plan, exact(plan), bits=ReplayBits("x"))
        assert caught.value.code == "DPR903"

    def test_a_source_that_only_says_it_is_the_system_s_is_refused(self) -> None:
        class Pretender(SystemBits):
            __slots__ = ()

            def read(self, count: int) -> bytes:
                return bytes(count)

        plan = planned(["count"])
        with pytest.raises(InternalError) as caught:
            execute.draw(plan, exact(plan), bits=Pretender())
        assert caught.value.code == "DPR903"

    def test_the_system_s_bits_draw_every_block(self, plans: dict[str, Json]) -> None:
        plan = planned(["count", "mean(x)"], by=["g"])
        cells = execute.draw(plan, exact(plan), bits=SystemBits())
        assert {n: np.shape(v) for n, v in cells.items()} == {
            b.name: (3, len(b.cells)) for b in plan.blocks
        }
        assert cells != execute.draw(plan, exact(plan))

    def test_the_payload_has_its_public_width_whatever_the_data(self) -> None:
        plan = planned(["count", "sum(x)", "variance(x)"], by=["g"])
        for rows in (0, 1, 10**30):
            seen: list[bytes] = []

            def keep(make: Callable[[], bytes], seen: list[bytes] = seen) -> bytes:
                seen.append(make())
                return seen[0]

            got = execute.draw(plan, exact(plan, rows), once=keep)
            assert len(seen[0]) == draw_module.width(plan) == 32 * 3 * 5
            assert draw_module.decode(plan, seen[0]) == got

    def test_committed_bytes_win_over_a_fresh_draw(self) -> None:
        plan = planned(["count"])
        payload = (7).to_bytes(draw_module.CELL_BYTES, "big", signed=True)
        assert execute.draw(plan, exact(plan), once=lambda _: payload) == {"count": ((7,),)}

    def test_negative_integers_survive_the_payload(self) -> None:
        plan = planned(["count"])
        payload = (-(2**254)).to_bytes(draw_module.CELL_BYTES, "big", signed=True)
        assert draw_module.decode(plan, payload) == {"count": ((-(2**254),),)}

    def test_a_scatter_over_another_number_of_rows_is_withheld(self) -> None:
        plan = public(["variance(x)"], n=9)
        execute.draw(plan, exact(plan, 9))
        with pytest.raises(WithheldError, match="public number of rows") as caught:
            execute.draw(plan, exact(plan, 19))
        assert caught.value.code == "DPR702"
        assert "19" not in str(caught.value)

    def test_why_a_scatter_over_more_rows_would_leak(self) -> None:
        """n = 3 declared, 9 rows held: replacing one moves n S2 - S1^2 beyond K^2 (n - 1)."""
        n, k = 3, 10
        one, two = [k] * 8 + [0], [k] * 9
        cells = [n * sum(v * v for v in t) - sum(t) ** 2 for t in (one, two)]
        assert abs(cells[0] - cells[1]) > k * k * (n - 1)


# --- secrets ------------------------------------------------------------------------------------


class TestSecret:
    def test_shows_nothing(self) -> None:
        secret = Secret(424242)
        for text in (
            repr(secret),
            str(secret),
            f"{secret}",
            f"{secret:>20}",
            f"{[secret]}",
            f"{secret}",
        ):
            assert "424242" not in text

    @pytest.mark.parametrize(
        "use",
        [
            pickle.dumps,
            copy.copy,
            copy.deepcopy,
            hash,
            list,
            len,
            bool,
            lambda s: s == 424242,
            lambda s: s != 424242,
            lambda s: json.dumps({"x": s}),
            lambda s: {**vars(s)},
            lambda s: np.asarray(s, dtype=float),
        ],
    )
    def test_does_not_leave_by_any_protocol(self, use: Callable[[Secret[int]], object]) -> None:
        with pytest.raises((TypeError, ValueError)) as caught:
            use(Secret(424242))
        assert "424242" not in str(caught.value)


@cache
def mentioned() -> dict[str, set[object]]:
    """Return each module's attributes and constants; the package is parsed once."""
    found: dict[str, set[object]] = {}
    for path in PACKAGE.rglob("*.py"):
        names = found.setdefault(path.relative_to(PACKAGE).as_posix(), set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                names.add(node.attr)
            elif isinstance(node, ast.Constant):
                names.add(node.value)
    return found


def calls(name: str) -> set[str]:
    """Return the modules of the package that mention attribute or string `name`."""
    return {module for module, names in mentioned().items() if name in names}


class TestTheWallInTheSource:
    def test_only_the_wall_reveals_an_exact_answer(self) -> None:
        # The audit and the contract suites open what they sum over made-up rows; an import contract
        # keeps both out of every release.
        made_up = {"audit/answers.py", "testing/aggregates.py", "testing/engines.py"}
        assert calls("reveal_to_mechanism") - made_up == {"wall/execute.py"}

    def test_nobody_reads_a_secret_s_slot(self) -> None:
        assert calls("_Secret__value") == set()
        assert calls("__value") == {"core/secret.py"}

    def test_the_wall_stays_short(self) -> None:
        lines = (PACKAGE / "wall" / "execute.py").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 200

    def test_engines_and_aggregates_know_no_noise(self) -> None:
        for folder in ("engines", "statistics"):
            for path in (PACKAGE / folder).rglob("*.py"):
                text = path.read_text(encoding="utf-8")
                assert (
                    "dprelease.mechanisms" not in text and "dprelease.core.entropy" not in text
                ), path

    def test_errors_of_the_wall_hold_no_exact_answer(self) -> None:
        plan = public(["variance(x)"], n=9)
        with pytest.raises(DpreleaseError) as caught:
            execute.draw(plan, Secret(Answer(np.array([[777, 999, 8]], dtype=object))))
        assert not {"777", "999"} & set(str(caught.value).split())


def test_a_plan_is_made_and_checked_without_any_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object, **__: object) -> None:
        raise AssertionError("a row was read")

    from dprelease.engines import duckdb, in_memory, reference, source

    monkeypatch.setattr(duckdb.DuckDBEngine, "compute", explode)
    monkeypatch.setattr(duckdb.DuckDBEngine, "preflight", explode)
    monkeypatch.setattr(reference.ReferenceEngine, "compute", explode)
    monkeypatch.setattr(in_memory, "plain_table", explode)
    monkeypatch.setattr(source, "as_source", explode)
    monkeypatch.setattr("builtins.open", explode)
    plan = planned(["count", "mean(x)"], by=["g"], x=PUBLIC_X)
    assert execute.check(plan) <= 1
