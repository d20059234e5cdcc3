"""Masses, moments, tails and losses against the frozen 50-digit table; Gaussian tails."""

from __future__ import annotations

import json
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dprelease.mechanisms import BoundedGaussian
from dprelease.mechanisms.calibration.gaussian_loss import Side
from dprelease.mechanisms.kernels.normal_pieces import gaussian_delta, normal_nodes, normal_tails
from dprelease.schema.domain import Domain
from tests.reference import gaussian as reference

ROWS: list[dict[str, Any]] = [
    row
    for row in json.loads(reference.TABLE.read_text())
    if row["name"] not in ("joint", "worst")  # of boxes: test_bounded_gaussian.py
]


def computed(row: dict[str, Any]) -> float:
    name = row["name"]
    if name == "delta":
        side = Side.from_domain(Domain.from_pieces(row.get("pieces", [(0, 1)])))
        if row["q"] < row["r"]:
            start, side = np.array([-row["r"]]), side.mirror
        else:
            start = np.array([row["r"]])
        return float(side.hockey(start, abs(row["q"] - row["r"]), row["s"], row["e"])[0])
    domain = Domain.from_pieces(row["pieces"])
    if name == "scale":
        return float(
            BoundedGaussian.calibrate(domain, sensitivity=row["c"], epsilon=row["e"]).scale
        )
    m = BoundedGaussian(domain, scale=row["s"])
    if name == "loss":
        return m.loss(sensitivity=row["c"])
    if name == "cdf":
        return float(m.cdf(row["x"], row["q"]))
    return float(getattr(m, name)(row["q"]))


def test_the_table_has_enough_rows() -> None:
    assert len(ROWS) >= 60


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["name"])
def test_frozen_values(row: dict[str, Any]) -> None:
    assert computed(row) == pytest.approx(float(row["value"]), rel=1e-10, abs=1e-300)


def test_a_few_rows_of_the_table_are_what_the_script_computes() -> None:
    with mp.workdps(50):
        for row in [r for r in ROWS if r["name"] == "mass"][:5]:
            again = reference.mass(row["pieces"], row["q"], row["s"])
            assert mp.nstr(again, 20) == row["value"]


def test_tails_keep_their_relative_precision() -> None:
    t = np.array([0.0, 0.5, 3.0, 10.0, 30.0])
    first, second, third = normal_tails(t, 1.0)
    with mp.workdps(60):
        for i, x in enumerate(t.tolist()):
            tail, density = mp.ncdf(-x), mp.npdf(x)
            assert first[i] == pytest.approx(float(tail), rel=1e-12)
            assert second[i] == pytest.approx(float(density - x * tail), rel=1e-12)
            square = tail + x * density - mp.mpf(x) ** 2 * tail
            assert third[i] == pytest.approx(float(square), rel=1e-12)


def test_a_difference_of_distribution_functions_would_cancel() -> None:
    """The control: the same narrow far mass by subtraction loses all digits."""
    low, high = np.array([[6.0]]), np.array([[6.0 + 1e-9]])
    found = math.exp(normal_nodes(low, high, np.zeros(1), 1.0).log_mass()[0])
    width = mp.mpf(6.0 + 1e-9) - 6
    with mp.workdps(60):
        wanted = float(mp.ncdf(-6) - mp.ncdf(-6 - width))
    assert found == pytest.approx(wanted, rel=1e-12)
    naive = math.erf((6 + 1e-9) / math.sqrt(2)) / 2 - math.erf(6 / math.sqrt(2)) / 2
    assert abs(naive / wanted - 1) > 0.01


@pytest.mark.parametrize(("mu", "epsilon"), [(1.0, 0.0), (0.3, 0.5), (1.0, 10.0), (0.1, 1.0)])
def test_the_gaussian_curve(mu: float, epsilon: float) -> None:
    with mp.workdps(60):
        wanted = mp.ncdf(-epsilon / mp.mpf(mu) + mp.mpf(mu) / 2) - mp.exp(epsilon) * mp.ncdf(
            -epsilon / mp.mpf(mu) - mp.mpf(mu) / 2
        )
    assert gaussian_delta(mu, epsilon) == pytest.approx(float(wanted), rel=1e-11)
