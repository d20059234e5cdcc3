"""Fisher information loss against its definition in 50 digits (`tests/reference/fisher.py`)."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError
from dprelease.diagnostics import composed_fisher_information_loss, fisher_information_loss
from dprelease.mechanisms import BoundedGaussian, BoundedLaplace, RectifiedGaussian, StochasticSign
from dprelease.schema.domain import Box, Domain
from tests.reference import fisher as reference
from tests.sizes import whole

with reference.TABLE.open(encoding="utf-8", newline="") as handle:
    ROWS = list(csv.DictReader(handle))
ONE = Domain(-1, 1)


def law(kind: str, ends: str, scale: float) -> object:
    numbers = [float(x) for x in ends.split()]
    domain = Domain.from_pieces(list(zip(numbers[::2], numbers[1::2], strict=True)))
    if kind == "sign":
        return StochasticSign(scale=scale)
    return (BoundedGaussian if kind == "truncated" else RectifiedGaussian)(domain, scale=scale)


def test_the_frozen_table_is_what_its_script_computes() -> None:
    assert len(ROWS) >= 50
    fresh = reference.cases()
    for row, case in zip(ROWS[: whole(6, 12)], fresh, strict=False):
        _, kind, pieces, scale, location, _, _ = case
        value = reference.eta(kind, pieces, scale, location)
        assert float(row["value"]) == pytest.approx(float(value), rel=1e-14)


@pytest.mark.parametrize(
    "row",
    [r for r in ROWS if r["quantity"] == "eta"],
    ids=lambda r: "-".join(list(r.values())[1:5]),
)
def test_eta_matches_the_reference(row: dict[str, str]) -> None:
    m = law(row["kind"], row["ends"], float(row["scale"]))
    got = float(fisher_information_loss(m, float(row["location"])))
    assert got == pytest.approx(float(row["value"]), rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("scale", "location", "expected"),
    [(0.5, 0.0, (1.995, 1.759, 1.596)), (1.0, 2.0, (0.686, 0.417, 0.362))],
)
def test_printed_reference_numbers(
    scale: float, location: float, expected: tuple[float, ...]
) -> None:
    laws = (
        RectifiedGaussian(ONE, scale=scale),
        BoundedGaussian(ONE, scale=scale),
        StochasticSign(scale=scale),
    )
    got = [float(fisher_information_loss(m, location)) for m in laws]
    assert got == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize(("width", "scale"), [(1e-9, 1.0), (1e-3, 50.0), (1.0, 1e6)])
def test_a_sliver_keeps_its_digits(width: float, scale: float) -> None:
    m = BoundedGaussian(Domain(0, width), scale=scale)
    expected = width / math.sqrt(12) / scale**2  # the law is uniform to relative (width / scale)^2
    got = float(fisher_information_loss(m, width / 3))
    assert got == pytest.approx(expected, rel=1e-12 + (width / scale) ** 2, abs=0)
    # Control: differences of the normal distribution function have no digits left here.
    z = np.array([-1, 2]) * width / 3 / scale
    phi = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    mass = (math.erf(z[1] / math.sqrt(2)) - math.erf(z[0] / math.sqrt(2))) / 2
    naive = 1 - ((phi[1] - phi[0]) / mass) ** 2 + (z[0] * phi[0] - z[1] * phi[1]) / mass
    assert math.sqrt(max(naive, 0)) / scale != pytest.approx(expected, rel=1e-7, abs=0)


@pytest.mark.parametrize("far", [50.0, 1e4, 1e8])
def test_far_outside_the_law_is_exponential_at_the_near_end(far: float) -> None:
    m = BoundedGaussian(Domain(0, 1), scale=1)
    got = float(fisher_information_loss(m, 1 + far))
    assert got == pytest.approx(1 / far, rel=4 / far**2 + 1e-12, abs=0)


@settings(max_examples=60)
@given(
    st.floats(0.05, 20),
    st.floats(-30, 30),
    st.floats(0.01, 50),
    st.sampled_from(["truncated", "rectified", "sign"]),
)
def test_bounded_support_amplifies_on_intervals(
    scale: float, location: float, width: float, kind: str
) -> None:
    m = law(kind, f"0.0 {width!r}", scale)
    assert float(fisher_information_loss(m, location)) <= 1 / scale * (1 + 1e-12)


def test_amplification_fails_on_a_union() -> None:
    islands = Domain(0, 10, forbidden=[(1, 9)])
    assert float(fisher_information_loss(BoundedGaussian(islands, scale=2), 5)) > 0.9 * 4.5 / 4
    assert float(fisher_information_loss(RectifiedGaussian(islands, scale=2), 5)) <= 0.5


def test_shapes_boxes_and_the_last_axis() -> None:
    m = BoundedGaussian(ONE, scale=0.5)
    grid = np.linspace(-2, 2, 12).reshape(3, 4)
    eta = fisher_information_loss(m, grid)
    assert eta.shape == (3, 4)
    assert float(eta[1, 2]) == pytest.approx(float(fisher_information_loss(m, grid[1, 2])))
    box = BoundedGaussian(Box([(-1, 1), (0, 10)]), scale=[0.5, 3])
    pair = np.asarray(fisher_information_loss(box, [0.2, 4.0]))
    side = BoundedGaussian(Domain(0, 10), scale=3)
    assert pair[0] == float(fisher_information_loss(m, 0.2))
    assert pair[1] == float(fisher_information_loss(side, 4.0))
    many = np.tile([0.2, 4.0], (5, 1))
    assert fisher_information_loss(box, many).shape == (5, 2)


def test_many_locations_run_in_blocks() -> None:
    m = BoundedGaussian(ONE, scale=0.5)
    t = np.linspace(-1, 1, 40_001)
    eta = np.asarray(fisher_information_loss(m, t))
    assert eta[[0, 20_000, 40_000]] == pytest.approx(
        np.asarray(fisher_information_loss(m, t[[0, 20_000, 40_000]])), rel=1e-15
    )


def test_the_composed_loss_is_a_spectral_norm() -> None:
    m = BoundedGaussian(ONE, scale=0.5)
    t, jacobian = np.array([0.0, 0.9]), np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]])
    eta = np.asarray(fisher_information_loss(m, t))
    got = float(composed_fisher_information_loss(m, t, jacobian))
    scaled = np.diag(eta) @ jacobian
    assert got == pytest.approx(math.sqrt(np.linalg.eigvalsh(scaled.T @ scaled)[-1]))
    frobenius_squared = (scaled**2).sum()  # what Algorithm 1 prints
    assert frobenius_squared > 1.5 * got


@pytest.mark.parametrize(
    ("mechanism", "location", "code"),
    [
        (BoundedLaplace(ONE, scale=1), 0.0, "DPR670"),
        (object(), 0.0, "DPR670"),
        (BoundedGaussian(ONE, scale=1), math.nan, "DPR671"),
        (BoundedGaussian(ONE, scale=1), "a", "DPR671"),
        (BoundedGaussian(Box([(0, 1), (0, 1)]), scale=1), [0.1, 0.2, 0.3], "DPR674"),
        (BoundedGaussian(Box([(0, 1), (0, 1)]), scale=1), 0.1, "DPR674"),
    ],
)
def test_invalid_arguments(mechanism: object, location: object, code: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        fisher_information_loss(mechanism, location)
    assert caught.value.code == code
    assert caught.value.fix


@pytest.mark.parametrize("jacobian", [np.eye(3), np.ones(2)])
def test_a_jacobian_that_does_not_fit(jacobian: np.ndarray) -> None:
    with pytest.raises(ArgumentError, match="DPR674"):
        composed_fisher_information_loss(BoundedGaussian(ONE, scale=1), [0.1, 0.2], jacobian)


def test_the_table_lies_beside_its_script() -> None:
    assert Path(reference.TABLE).name == "fisher_table.csv"
