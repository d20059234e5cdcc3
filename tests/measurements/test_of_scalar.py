"""A statistic that is a function of one scalar: its errors in its own unit, its law on the scalar's range."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from dprelease.core.errors import PlanError
from dprelease.measurements import scalar, scalar_grid
from dprelease.measurements.base import family_of
from dprelease.measurements.candidate import Candidate, Pricing
from dprelease.measurements.law import Law
from dprelease.measurements.members import BlockLayout, Loss
from dprelease.measurements.of_scalar import scalar_of, typical_cell
from dprelease.measurements.scalar import Scalar, ScalarCellLaw
from dprelease.mechanisms.forms.vector import GaussianCells
from dprelease.planning import layout as layouts
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import resolve
from dprelease.schema.domain import Domain
from dprelease.schema.unit import Adjacency, RowUnit
from dprelease.statistics.base import Floats
from dprelease.statistics.mean import Mean
from dprelease.statistics.measurement import Context, Measurement
from dprelease.statistics.sensitivity import unit_bounds
from tests.golden.plan_cases import cases
from tests.sizes import some

SIZE, WIDTH = 30, 4


class Power(Mean):
    """base ** mean: a geometric mean is one, of logarithms."""

    base = 16.0

    def domain(self, context: Context) -> Domain:
        low, high = context.hull.hull
        return Domain(Fraction(self.base**low), Fraction(self.base**high))

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        del measurement
        return np.asarray(self.base**cells)


class Stepped(Power):
    """A function with flat parts."""

    def finish(self, measurement: Measurement, cells: Floats) -> Floats:
        return np.floor(super().finish(measurement, cells))


def block(monkeypatch: pytest.MonkeyPatch, statistic_kind: Mean, **wanted: Any) -> BlockLayout:
    """Return the block of one statistic of a column in 0..4 with 30 rows, computed by `aggregate`."""
    monkeypatch.setattr(layouts, "kind_named", lambda _: statistic_kind)
    schema = Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "t",
            "unit": "row",
            "adjacency": "substitution",
            "rows": {"exact": SIZE},
            "columns": {"x": {"kind": "integer", "range": [0, WIDTH], "nulls": {"default": 0}}},
            "release": {"epsilon": 1, "statistics": [{"statistic": "mean(x)", **wanted}]},
        }
    )
    (found,) = layouts.layout(resolve(schema, merge_release(schema)))
    return found


def priced(made: BlockLayout, epsilon: Fraction, loss: Loss = "absolute") -> list[Candidate]:
    (measurement,) = made.options
    s = family_of(measurement).sensitivity(
        measurement, unit_bounds(RowUnit(), None, 1), Adjacency.substitution, 1
    )
    return Scalar().priced(Pricing(made, measurement, epsilon, loss, SIZE, s))


def figures(
    made: BlockLayout, cells: Sequence[float], chances: Mapping[int, Mapping[int, Any]], loss: Loss
) -> tuple[float, float]:
    """Return the exact expected error, averaged and at worst over the places in `chances`.

    Args:
        chances: the probabilities of other places in `cells` where the exact cell is at a place.
    """
    member, (measurement,) = made.members[0], made.options
    values = member.kind.finish(measurement, np.array(cells)[:, None])[:, 0]
    values, power = np.clip(values, *member.domain.hull), 2 if loss == "squared" else 1
    means = [
        sum(float(p) * abs(values[y] - values[a]) ** power for y, p in row.items())
        for a, row in chances.items()
    ]
    return sum(means) / len(means), max(means)


def enumerated(made: BlockLayout, draw: Law, loss: Loss) -> tuple[float, float]:
    """Return (average, worst): all answers of the law's grid, all its outputs."""
    assert isinstance(draw, ScalarCellLaw)
    allowed = draw.law.allowed
    steps = range(allowed.lower, allowed.upper + 1)
    cells = [float(draw.origin + draw.step * k) for k in steps]
    chances = {
        k - allowed.lower: {y - allowed.lower: p for y, p in draw.law.pmf(k).items()} for k in steps
    }
    return figures(made, cells, chances, loss)


@pytest.mark.parametrize(
    ("loss", "epsilon", "spikes"),
    some(product(["absolute", "squared"], [Fraction(1), Fraction(4)], ["allow", "forbid"]), 3),
)
def test_errors_are_those_of_all_answers_and_outputs(
    monkeypatch: pytest.MonkeyPatch, loss: Loss, epsilon: Fraction, spikes: str
) -> None:
    """The noise is taken for Laplace's: 15 % of any noise's, a factor of two of a law that is none."""
    made = block(monkeypatch, Power("mean"), spikes=spikes)
    candidates = priced(made, epsilon, loss)
    assert len(candidates) >= 3
    for candidate in candidates:
        average, worst = enumerated(made, candidate.law, loss)
        assert candidate.errors[0] == pytest.approx(average, rel=0.15), candidate.law.mechanism
        assert candidate.worst[0] >= worst * (1 - 1e-9), candidate.law.mechanism


def test_twin_the_cell_s_error_for_the_statistic_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the law says of itself is in units of the mean: thousands of times too small here."""
    monkeypatch.setattr(scalar, "finished_errors", lambda member, error, loss: (error,))
    made = block(monkeypatch, Power("mean"))
    for candidate in priced(made, Fraction(1)):
        assert candidate.errors[0] < enumerated(made, candidate.law, "absolute")[0] / 1000


@pytest.mark.parametrize("loss", ["absolute", "squared"])
@pytest.mark.parametrize("square", [20, 200])
def test_errors_under_normal_noise(
    monkeypatch: pytest.MonkeyPatch, square: int, loss: Loss
) -> None:
    made = block(monkeypatch, Power("mean"))
    (measurement,) = made.options
    top = measurement.upper or 0
    draw = Scalar().gaussian(measurement, GaussianCells.calibrate(square, Fraction(1, 2)))
    scale = draw.noise.scale
    far = math.ceil(12 * scale)
    weights = {k: math.exp(-k * k / (2 * scale**2)) for k in range(-far, far + 1)}
    total = sum(weights.values())
    chances: dict[int, dict[int, float]] = {}
    for cell in range(top + 1):
        row = chances[cell] = dict.fromkeys(range(top + 1), 0.0)
        for k, weight in weights.items():
            row[min(max(cell + k, 0), top)] += weight / total
    cells = [float(measurement.offset + measurement.step_size * k) for k in range(top + 1)]
    average, worst = figures(made, cells, chances, loss)
    (stated,), most = Scalar().gaussian_errors(made.members[0], measurement, draw, SIZE, loss)
    assert stated == pytest.approx(average, rel=0.15)
    assert most is not None and most >= worst


@pytest.mark.parametrize("spikes", ["allow", "forbid"])
def test_the_law_is_on_the_range_of_the_cell(monkeypatch: pytest.MonkeyPatch, spikes: str) -> None:
    """The statistic lies in 1..65,536, its cell in 0..4: the wrong one of them makes another law."""
    for statistic_kind, width in ((Power("mean"), WIDTH), (Mean("mean"), WIDTH)):
        made = block(monkeypatch, statistic_kind, spikes=spikes)
        for candidate in priced(made, Fraction(1)):
            draw = candidate.law
            assert isinstance(draw, ScalarCellLaw)
            ends = (draw.law.allowed.lower, draw.law.allowed.upper)
            assert [draw.origin + draw.step * end for end in ends] == [0, width]
    twin = block(monkeypatch, Power("mean"), spikes=spikes)
    with monkeypatch.context() as broken:
        broken.setattr(scalar_grid, "scalar_of", lambda statistic_kind, options: None)
        assert scalar_grid.scalar_domain(twin, twin.options[0]).hull == (1.0, 65_536.0)
    assert scalar_grid.scalar_domain(twin, twin.options[0]).hull == (0.0, 4.0)


def test_a_step_of_the_statistic_is_not_a_step_of_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    for statistic_kind, own in ((Power("mean"), False), (Mean("mean"), True)):
        made = block(monkeypatch, statistic_kind, spikes="forbid", domain={"step": 2})
        steps = {c.law.step for c in priced(made, Fraction(1)) if isinstance(c.law, ScalarCellLaw)}
        assert (steps == {Fraction(2)}) is own


def test_only_a_standard_deviation_of_a_public_number_of_rows_is_one() -> None:
    """Of the library's statistics; whoever writes another one finds it here."""
    found = set()
    seen: set[str] = set()
    for schema in cases().values():
        release = {k: v for k, v in schema["release"].items() if k not in ("epsilon", "delta")}
        asked = json.dumps({**schema, "release": release}, sort_keys=True, default=str)
        if asked in seen:
            continue  # how much is spent changes no layout
        seen.add(asked)
        table = Schema.from_dict(schema)
        try:
            blocks = layouts.layout(resolve(table, merge_release(table)))
        except PlanError:
            continue
        found |= {
            (m.statistic.function, cell.form)
            for made in blocks
            for m in made.members
            if (cell := scalar_of(m.kind, m.options)) is not None
        }
    assert found == {("std", "scatter")}


def test_without_point_masses_only_functions_that_make_none_are_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    block(monkeypatch, Power("mean"), spikes="forbid")
    block(monkeypatch, Stepped("mean"))
    for statistic_kind, more, why in (
        (Power("mean"), {"domain": {"range": [2, 100]}}, "makes point masses"),
        (Stepped("mean"), {}, "same value for many"),
    ):
        with pytest.raises(PlanError, match="without point masses") as refused:
            block(monkeypatch, statistic_kind, spikes="forbid", **more)
        assert refused.value.code == "DPR210"
        assert why in (refused.value.why or "")


def test_a_typical_cell_has_a_value_in_the_domain(monkeypatch: pytest.MonkeyPatch) -> None:
    for domain, cell in (({}, 2.0), ({"domain": {"range": [16, 256]}}, 1.5)):
        made = block(monkeypatch, Power("mean"), **domain)
        assert typical_cell(made.members[0], made.options[0]) == pytest.approx(cell, abs=0.01)
