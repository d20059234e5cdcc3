"""Every value of `laplace_values.json` against the library: relative error at most 1e-10."""

from __future__ import annotations

import json
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from dprelease.mechanisms import (
    BoundedLaplace,
    DiscreteLaplace,
    RectifiedLaplace,
    Staircase,
    bounded_laplace_scale,
)
from dprelease.mechanisms.calibration.laplace_loss import LossView
from dprelease.schema.domain import Domain
from tests.reference import fisher, gaussian
from tests.reference import laplace as reference

ROWS: list[dict[str, Any]] = json.loads(reference.TABLE.read_text())


def ours(row: dict[str, Any]) -> float:
    """Return what the library says for one row of the table."""
    name = row["name"]
    if name == "scale":
        return float(bounded_laplace_scale(0, row["w"], row["c"], row["e"]))
    if name == "delta":
        view = LossView(Domain.from_pieces(row.get("pieces", [(0, 1)])), "hull")
        q, r = np.array([row["q"]]), np.array([row["r"]])
        return float(view._hockey(q, r, row["b"], row["e"])[0])
    domain = Domain.from_pieces(row["runs"] if "runs" in row else row["pieces"])
    m: Any
    if row["law"] == "BoundedLaplace":
        m = BoundedLaplace(domain, scale=row["b"])
    elif row["law"] == "RectifiedLaplace":
        m = RectifiedLaplace(domain, scale=row["c"] / row["e"])
    elif row["law"] == "Staircase":
        m = Staircase(domain, sensitivity=row["c"], epsilon=row["e"], gamma=row["gamma"])
    else:
        m = DiscreteLaplace(domain, scale=1 / row["rate"])
    if name == "loss":
        return float(m.loss(sensitivity=row["c"]))
    curve = getattr(m, name)
    return float(curve(row["x"], row["q"]) if name in ("pdf", "cdf", "pmf") else curve(row["q"]))


@pytest.mark.parametrize("i", range(len(ROWS)))
def test_a_frozen_value(i: int) -> None:
    row = ROWS[i]
    assert ours(row) == pytest.approx(float(row["value"]), rel=1e-10, abs=0)


def test_a_wrong_value_would_show() -> None:
    """Control: a scale off by 1e-9 moves a value of every law past the tolerance."""
    for law, name in (("BoundedLaplace", "variance"), ("RectifiedLaplace", "variance")):
        row = next(r for r in ROWS if r["law"] == law and r["name"] == name)
        key = "b" if "b" in row else "e"
        moved = ours(row | {key: row[key] * (1 + 1e-8)})
        assert moved != pytest.approx(float(row["value"]), rel=1e-10, abs=0)


def test_there_are_150_values_over_all_laws() -> None:
    others = json.loads(gaussian.TABLE.read_text())
    assert len(ROWS) >= 150
    assert len(ROWS) + len(others) + len(fisher.TABLE.read_text().splitlines()) - 1 >= 300
    laws = {"BoundedLaplace", "RectifiedLaplace", "Staircase", "DiscreteLaplace"}
    assert {row["law"] for row in ROWS} == laws


def test_the_quick_definitions_agree_with_quadrature() -> None:
    """The antiderivative, used for thousands of pairs, against the numerical integral."""
    with mp.workdps(40):
        for pieces in reference.UNIONS[:3]:
            for q, b in ((pieces[0][0], 0.3), (pieces[-1][1] / 2, 7.0)):
                quick = reference.exact_mass(pieces, mp.mpf(q), mp.mpf(b)) * b
                slow = reference.normaliser(pieces, q, b)
                assert float(abs(quick / slow - 1)) < 1e-25


def test_the_table_is_what_its_script_computes() -> None:
    """A few quick rows, recomputed; the whole takes two minutes."""
    for row in [r for r in ROWS if r["name"] == "scale"]:
        value = reference.interval_scale(row["w"], row["c"], row["e"])
        assert mp.nstr(value, 14) == mp.nstr(mp.mpf(row["value"]), 14)
    row = next(r for r in ROWS if r["law"] == "DiscreteLaplace" and r["name"] == "mean")
    with mp.workdps(40):
        found = reference.geometric_law(row["runs"], row["q"], row["x"], mp.mpf(row["rate"]))
        assert mp.nstr(found["mean"], 15) == mp.nstr(mp.mpf(row["value"]), 15)
