"""Weighted statistics: how they are asked for, what is refused, their cells, values and intervals."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.pairs import pair_loss
from dprelease.core.errors import DpreleaseError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.price import uniform_points
from dprelease.query.statistic import parse_statistic
from dprelease.release_plan.plan import ReleasePlan
from dprelease.statistics.base import Reading, kind_named
from dprelease.statistics.measurement import Measurement
from dprelease.wall import execute
from tests.planning.requests import declared
from tests.sizes import some, whole

COLUMNS = {
    "w": {"kind": "number", "range": [0, 2], "step": 0.5, "measure": "people"},
    "v": {"kind": "integer", "range": [1, 4], "nulls": {"default": 2}},
    "below": {"kind": "integer", "range": [-1, 4]},
    "one": {"kind": "integer", "range": [3, 3]},
    "loose": {"kind": "number", "step": 1},
    "a": {"kind": "integer", "range": [0, 6], "nulls": {"default": 1}},
}
X = {"kind": "number", "range": [0, 4], "step": 1, "measure": "years"}


def planned(*statistics: object, **more: Any) -> ReleasePlan:
    return dp.plan(
        declared(
            list(statistics), x=X, columns=COLUMNS, **{"rows": {"max": 60, "expected": 40}, **more}
        )
    )


def by(statistic: str, weight: str = "w", **option: Any) -> dict[str, Any]:
    return {"statistic": statistic, "weighted_by": weight, **option}


# --- how it is asked for ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "text", "name", "title"),
    [
        (by("mean(x)"), "weighted_mean(x, w)", "weighted_mean_x", "Mean of x, weighted by w"),
        (by("sum(x)"), "weighted_sum(x, w)", "weighted_sum_x", "Sum of x, weighted by w"),
        (by("count"), "weighted_count(w)", "weighted_count_w", "Number of rows, weighted by w"),
        (by("count(*)"), "weighted_count(w)", "weighted_count_w", "Number of rows, weighted by w"),
        (
            by("proportion(x > 1)"),
            "weighted_proportion(x > 1, w)",
            "weighted_proportion_x_gt_1",
            "Share with x > 1, weighted by w",
        ),
    ],
)
def test_the_option_makes_a_statistic_of_its_own_name(
    asked: dict[str, Any], text: str, name: str, title: str
) -> None:
    plan = planned(asked)
    (found,) = plan.statistics
    assert (found.text, found.name) == (text, name)
    statistic = kind_named(found.function)
    assert statistic.title(parse_statistic(text, origin="here").arguments) == title
    assert planned(text).hash == plan.hash  # the text alone says the same
    assert any("weight" in note or "w is known" in note for note in found.notes)


@pytest.mark.parametrize(
    ("asked", "code", "words"),
    [
        (by("median(x)"), "DPR135", "`median(x)` has no weighted form"),
        (by("median(x)"), "DPR135", "mean, proportion, sum of rows have one"),
        (by("count(persons)"), "DPR135", "`count(persons)` has no weighted form"),
        (by("mean(x)", winsorize=0.1), "DPR135", "winsorised or weighted, not both"),
        ({"statistic": "mean(x)", "weight": "w"}, "DPR135", "weighted_by: COLUMN"),
        (by("mean(x)", 3), "DPR135", "name of a column"),  # type: ignore[arg-type]
        (by("mean(x)", "ww"), "DPR122", "did you mean `w`"),
        (by("mean(x)", "x"), "DPR133", "would weigh itself"),
        (by("mean(x)", "g"), "DPR133", "of kind category"),
        (by("mean(x)", "below"), "DPR223", "may be negative"),
        (by("count", "below"), "DPR223", "may be negative"),
        (by("mean(x)", "one"), "DPR223", "weighs nothing"),
        (by("mean(x)", "loose"), "DPR202", "no finite range"),
        (by("mean(x)", spikes="forbid"), "DPR210", "quotient of two noisy sums"),
        ("ratio(x, w)", "DPR296", "can be any number"),
    ],
)
def test_what_is_not_offered_is_refused_with_what_is(asked: Any, code: str, words: str) -> None:
    with pytest.raises(DpreleaseError) as caught:
        planned(asked)
    assert (caught.value.code, words in str(caught.value)) == (code, True), str(caught.value)


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        (by("mean(x)"), "ratio(product, w)"),
        (by("proportion(x > 1)"), 'from: "case when x > 1 then w else 0 end"'),
        (by("sum(x)"), "sum(product)"),
        (by("count"), "sum(w)"),
    ],
)
def test_tables_say_what_to_ask_for_instead(asked: dict[str, Any], instead: str) -> None:
    made = declared(["count"], x=X, columns=COLUMNS)
    with pytest.raises(DpreleaseError) as caught:
        dp.plan(made, tables=[{"name": "all", "by": [], "statistics": [asked]}])
    assert (caught.value.code, instead in str(caught.value)) == ("DPR292", True), str(caught.value)


def test_the_plan_shows_what_heavy_weights_cost_and_a_narrower_range_buys() -> None:
    """Of weights from 0 to 2: twice the unweighted error, and three quarters of it with weights up to 1.5."""
    (found,) = planned(by("mean(x)"), rows={"max": 9000, "expected": 4000}).statistics
    said = {o.note: o.expected_error for o in found.chosen}
    weighted, plain, less = said[""], said["not weighted: another statistic"], None
    less = next(e for note, e in said.items() if "clamped to 1.5" in note)
    assert weighted is not None
    assert plain is not None
    assert less is not None
    assert weighted / plain == pytest.approx(2, rel=0.02)
    assert less / weighted == pytest.approx(0.75, rel=0.02)
    assert "for rows that weigh 1 on average" in found.error_text
    assert "1 row of weight 2 in [0, 4] years" in found.sensitivity


# --- cells and values ---------------------------------------------------------------------------

EVERY = (
    by("mean(x)"), by("mean(x)", "v", **{"as": "by_v"}), by("sum(x)"), by("count"), by("proportion(x > 1)"),
    {"statistic": "ratio(x, w)", "domain": {"range": [0, 50]}}, "ratio(a, v)",
)  # fmt: skip


def rows(count: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)

    def column(low: float, high: float, step: float) -> list[float | None]:
        values = np.round(rng.uniform(low, high, count) / step) * step
        return [None if rng.random() < 0.2 else float(v) for v in values]

    held = {
        "x": column(-1, 5, 1),
        "w": column(-1, 3, 0.5),
        "v": column(0, 6, 1),
        "a": column(-1, 8, 1),
    }
    return pa.table({n: pa.array(v, pa.float64()) for n, v in held.items()})


def obvious(table: pa.Table) -> list[Fraction | None]:
    """Return every statistic of `EVERY` by its definition; None for 0 / 0."""

    def clamped(
        name: str, low: int, high: int, default: int | None = None
    ) -> list[Fraction | None]:
        return [
            (None if default is None else Fraction(default)) if v is None
            else min(max(Fraction(v), Fraction(low)), Fraction(high))
            for v in table[name].to_pylist()
        ]  # fmt: skip

    x, w = clamped("x", 0, 4), clamped("w", 0, 2)
    v, a = clamped("v", 1, 4, 2), clamped("a", 0, 6, 1)

    def both(
        one: list[Fraction | None], other: list[Fraction | None]
    ) -> list[tuple[Fraction, Fraction]]:
        return [(p, q) for p, q in zip(one, other, strict=True) if p is not None and q is not None]

    def total(values: list[Fraction | None]) -> Fraction:
        return sum((value for value in values if value is not None), Fraction(0))

    def mean(pairs: list[tuple[Fraction, Fraction]]) -> Fraction | None:
        weight = sum((q for _, q in pairs), Fraction(0))
        return sum((p * q for p, q in pairs), Fraction(0)) / weight if weight else None

    share = [(Fraction(p > 1), q) for p, q in both(x, w)]
    return [
        mean(both(x, w)), mean(both(x, v)), sum((p * q for p, q in both(x, w)), Fraction(0)), total(w),
        mean(share), total(x) / total(w) if total(w) else None, total(a) / total(v) if total(v) else None,
    ]  # fmt: skip


@pytest.mark.parametrize("adjacency", ["add_remove", "substitution"])
def test_exact_cells_of_both_engines_give_the_defined_value(adjacency: str) -> None:
    plan = planned(*EVERY, adjacency=adjacency)
    assert execute.check(plan) <= 1
    blocks = {b.name: b for b in plan.blocks}
    for seed, count in itertools.product(range(whole(1, 2)), (0, 1, 30)):
        table = rows(count, seed)
        answer = answer_of(plan, table, ReferenceEngine())
        assert answer.sums.tolist() == answer_of(plan, table, DuckDBEngine()).sums.tolist()
        cells = dict(zip(blocks, cells_of(plan, answer), strict=True))
        for found, value in zip(plan.statistics, obvious(table), strict=True):
            measurement = blocks[found.block].measurement
            exact = cells[found.block].astype(float)
            got = kind_named(found.function).finish(measurement, exact)[0, 0]
            if blocks[found.block].family == "scalar":
                got = float(measurement.offset + measurement.step_size * int(exact[0, 0]))
            if value is not None:
                assert got == pytest.approx(float(value), abs=1e-12), found.name
            low, high = found.domain.hull
            assert low <= got <= high
            _check_form(found.function, measurement, cells[found.block][0], value)


def _check_form(
    function: str, measurement: Measurement, cells: npt.NDArray[Any], value: Fraction | None
) -> None:
    """The form that readers compute with is the statistic, exactly."""
    (form,) = kind_named(function).form(measurement) or (None,)
    if form is None or form.bottom is None or value is None:
        return
    top, bottom = (
        sum((u * int(c) for u, c in zip(part, cells, strict=True)), Fraction(0))
        for part in (form.top, form.bottom)
    )
    assert top / bottom == value


@pytest.mark.parametrize(
    ("asked", "adjacency"),
    some(itertools.product((by("mean(x)"), "ratio(a, v)"), ("add_remove", "substitution")), 3),
    ids=str,
)
def test_no_pair_of_tables_that_differ_in_one_row_costs_more_than_epsilon(
    asked: Any, adjacency: str
) -> None:
    """All tables of two rows, nulls too; the audit's own loss reaches epsilon, and two rows exceed it."""
    plan = planned(asked, adjacency=adjacency)
    first, second = ("x", "w") if isinstance(asked, dict) else ("a", "v")
    ends = {"x": (0, 4, None), "w": (0, 2, None), "a": (0, 6), "v": (1, 4)}
    kinds = list(itertools.product(ends[first], ends[second]))
    made = {}
    for size in range(3):
        for held in itertools.combinations_with_replacement(range(len(kinds)), size):
            columns = {n: [kinds[i][at] for i in held] for at, n in enumerate((first, second))}
            table = pa.table(
                {
                    n: pa.array(columns.get(n, [None] * size), pa.float64())
                    for n in ("x", "w", "a", "v")
                }
            )
            made[held] = cells_of(plan, answer_of(plan, table, ReferenceEngine()))
    worst = beyond = 0.0
    for one, other in itertools.combinations(made, 2):
        apart = len(set_apart(one, other)), len(set_apart(other, one))
        near = sum(apart) <= 1 if adjacency == "add_remove" else apart in ((0, 0), (1, 1))
        cost = pair_loss(plan, made[one], made[other])
        if near:
            assert cost.within(plan.epsilon)
            worst = max(worst, cost.nats)
        else:
            beyond = max(beyond, cost.nats)
    assert worst == pytest.approx(1, abs=1e-6)
    assert beyond > 1.5


def set_apart(one: tuple[int, ...], other: tuple[int, ...]) -> list[int]:
    left = list(one)
    for row in other:
        if row in left:
            left.remove(row)
    return left


# --- intervals ----------------------------------------------------------------------------------


def covered(plan: ReleasePlan, table: pa.Table, value: Fraction, *, wrong: float = 1.0) -> float:
    """Return the chance that the interval holds the value, over the noise of both cells."""
    (block,), (found,) = plan.blocks, plan.statistics
    measurement, draw = block.measurement, block.law
    engine = DuckDBEngine() if table.num_rows > 100 else ReferenceEngine()  # the quicker of two
    (exact,) = cells_of(plan, answer_of(plan, table, engine))
    scale = draw.noise_scale
    assert scale is not None
    u = uniform_points(2**14, 2)  # evenly spread: about a thousandth off the law's own chance
    noise = np.round(scale * np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u))))
    raw = noise + exact[0].astype(float)
    reading = Reading(raw, raw, raw.astype(float), scale * wrong, 0.95)
    ends = kind_named(found.function).interval(measurement, reading)
    least, most = found.domain.hull
    inside = min(max(float(value), least), most)
    hit = (ends[0][:, 0] <= inside + 1e-12) & (inside - 1e-12 <= ends[1][:, 0])
    return float(hit.mean())


CASES = [
    ("ratio(x, w)", {"domain": {"range": [0, 2]}}),  # its values may be beyond: the end is covered
    ("ratio(x, w)", {"domain": {"range": [0, 50]}}),
    ("ratio(a, v)", {}),
    ("weighted_mean(x, w)", {}),
    ("weighted_proportion(x > 1, v)", {}),
]


@pytest.mark.parametrize(
    ("text", "option", "adjacency"),
    some(((*case, a) for case in CASES for a in ("add_remove", "substitution")), 3),
)
def test_intervals_hold_the_value_at_any_size(
    text: str, option: dict[str, Any], adjacency: str
) -> None:
    plan = planned({"statistic": text, **option}, adjacency=adjacency)
    names = text.rpartition("(")[2].rstrip(")").replace(" > 1", "").split(", ")
    for count, (x, w) in itertools.product((1, 60), ((4.0, 0.5), (1.0, 2.0))):
        held = {n: [None] * count for n in ("x", "w", "v", "a")}
        held[names[0]], held[names[1]] = [x, x + 1] * (count // 2) + [x] * (count % 2), [w] * count
        table = pa.table({n: pa.array(v, pa.float64()) for n, v in held.items()})
        value = value_of(text, table)
        if value is not None:
            assert covered(plan, table, value) >= 0.949, (count, x, w)


def value_of(text: str, table: pa.Table) -> Fraction | None:
    mean, by_v, _, _, _, ratio, other = obvious(table)
    if text.startswith("weighted_proportion"):
        pairs = zip(table["x"].to_pylist(), table["v"].to_pylist(), strict=True)
        held = [(Fraction(min(x, 4) > 1), Fraction(min(max(v, 1), 4))) for x, v in pairs]
        return sum((p * q for p, q in held), Fraction(0)) / sum(q for _, q in held)
    return {"ratio(x, w)": ratio, "ratio(a, v)": other, "weighted_mean(x, w)": mean}.get(text, by_v)


def test_twin_of_intervals_a_tenth_shorter_does_not_hold_it() -> None:
    """The control: where noise alone decides, the interval is as short as its law allows."""
    for text in ("ratio(a, v)", "weighted_mean(x, w)"):
        plan = planned(
            text, epsilon=Fraction(1, 10)
        )  # the lattice of the cells is nothing beside the noise
        many = whole(1500, 4000)
        held = {
            "x": [1.0, 3.0] * many,
            "w": [1.0] * 2 * many,
            "v": [3.0] * 2 * many,
            "a": [2.0, 5.0] * many,
        }
        table = pa.table({n: pa.array(v, pa.float64()) for n, v in held.items()})
        value = value_of(text, table)
        assert value is not None
        assert covered(plan, table, value) >= 0.949
        assert covered(plan, table, value, wrong=0.9) < 0.94


# --- public size, and denominators that noise made up -------------------------------------------


def test_a_sum_of_a_public_number_of_rows_needs_weights_that_are_never_null() -> None:
    """With a default a replaced row moves it by the width of its products; without one a row may be left out."""
    columns = {**COLUMNS, "x": {**X, "range": [1, 4], "nulls": {"default": 1}}}
    made = {"adjacency": "substitution", "rows": {"exact": 20}}
    for weight, public in (("v", 20), ("w", None)):
        plan = dp.plan(declared([by("sum(x)", weight)], columns=columns, **made))
        measurement = plan.blocks[0].measurement
        assert measurement.public_rows == public
        assert measurement.l1_replaced_row == (4 * 4 - 1 if public else 4 * 4)
        assert execute.check(plan) <= 1
        (mean,) = dp.plan(declared([by("mean(x)", weight)], columns=columns, **made)).blocks
        assert mean.measurement.public_rows is None  # the total weight is private either way


def test_a_denominator_that_noise_may_have_made_up_leaves_the_whole_declared_domain() -> None:
    """Else a ratio beyond its domain is missed: the stretch of values around the other end is not an interval."""
    plan = planned({"statistic": "ratio(x, w)", "domain": {"range": [0, 2]}}, epsilon=1)
    (block,), (found,) = plan.blocks, plan.statistics
    measurement, draw = block.measurement, block.law
    scale = draw.noise_scale
    assert scale is not None
    for size in (0.5, -0.5, 40.0):  # of the denominator, in scales of its noise
        sums = np.array([[size, -3.0 * size], [size, -30.0], [size, 30.0]]) * scale
        raw = (
            sums
            if block.family == "ratio_sums"
            else np.stack([sums.sum(1), sums[:, 0] - sums[:, 1]], axis=1) / 2
        )
        low, high = kind_named(found.function).interval(
            measurement, Reading(raw, raw, raw, scale, 0.95)
        )
        whole = (low[:, 0] == 0) & (high[:, 0] == pytest.approx(2))
        assert whole.all() == (abs(size) < 1)
