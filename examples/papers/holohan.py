"""Holohan, Antonatos, Braghin & Mac Aonghusa: the bounded Laplace mechanism, Figure 1.

Bounding Laplace noise by resampling costs privacy, so the scale must grow: the noise has to be
that of a smaller epsilon'. Figure 1 shows epsilon / epsilon' on an interval of length 1.

    python examples/papers/holohan.py [FOLDER]

The paper prints no numbers beside the figure; it states two: the ratio is 1 at sensitivity =
width, and tends to 2 where both are small. Its fixed point (Theorem 3.5) is solved here a second
time, by plain bisection, beside the library's. No draw is made: everything is a formula.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from plot import Line, Panel, figure_folder, print_table, save

import dprelease as dp
from dprelease.mechanisms import BoundedLaplace, bounded_laplace_scale

UNIT = dp.Domain(0, 1)


def fixed_point(sensitivity: float, epsilon: float, delta: float = 0.0) -> float:
    """Return the smallest b with b >= sensitivity / (epsilon - log dC(b) - log(1 - delta))."""
    budget = epsilon - math.log1p(-delta)
    low, high = sensitivity / budget, 2 * sensitivity / budget
    for _ in range(200):
        b = (low + high) / 2
        change = -math.expm1(-sensitivity / b) - math.expm1(-(1 - sensitivity) / b)
        rest = budget - math.log(change / -math.expm1(-1 / b))
        low, high = (b, high) if b * rest < sensitivity else (low, b)
    return high


def figure_rows() -> list[tuple[float, ...]]:
    """Return sensitivity, epsilon, ratio by the paper's equation, ours, and the naive loss."""
    rows: list[tuple[float, ...]] = []
    for sensitivity in (0.001, 0.1, 0.5, 1.0):
        for epsilon in (0.001, 0.1, 1.0, 5.0):
            paper = epsilon * fixed_point(sensitivity, epsilon) / sensitivity
            ours = epsilon * float(bounded_laplace_scale(0, 1, sensitivity, epsilon)) / sensitivity
            naive = BoundedLaplace(UNIT, scale=sensitivity / epsilon).loss(sensitivity=sensitivity)
            rows.append((sensitivity, epsilon, paper, ours, naive / epsilon))
    return rows


def delta_rows() -> list[tuple[float, ...]]:
    """Return epsilon, delta, the theorem's scale, the exact one, and delta spent by the theorem's."""
    rows: list[tuple[float, ...]] = []
    for epsilon, delta in ((1.0, 0.01), (1.0, 0.1), (0.1, 0.01), (0.5, 1e-4)):
        paper = BoundedLaplace.calibrate(
            UNIT, sensitivity=0.1, epsilon=epsilon, delta=delta, rule="holohan"
        )
        exact = BoundedLaplace.calibrate(UNIT, sensitivity=0.1, epsilon=epsilon, delta=delta)
        spent = paper.delta(epsilon=epsilon, sensitivity=0.1)
        rows.append((epsilon, delta, paper.scale, exact.scale, spent))
    return rows


def main(folder: Path) -> None:
    print_table(
        "Figure 1 at some points: epsilon / epsilon' (width 1, delta 0)",
        ["sensitivity", "epsilon", "Theorem 3.5", "ours", "loss of b = sens/eps, in eps"],
        figure_rows(),
    )
    small, whole = figure_rows()[0][3], figure_rows()[-1][3]
    print_table(
        "What the paper states",
        ["claim", "paper", "ours"],
        [
            ("limit at small sensitivity and epsilon", "2", small),
            ("sensitivity = width", "1", whole),
            ("variance when the scale doubles (section 5 says x2)", "x2", "x4"),
        ],
    )
    print_table(
        "delta > 0, sensitivity 0.1: Theorem 3.5 is safe but not the smallest scale",
        ["epsilon", "delta", "Theorem 3.5", "smallest", "delta really spent by the theorem"],
        delta_rows(),
    )
    epsilons = np.geomspace(0.01, 10, 121)
    panels = [
        Panel(
            "ε / ε′ against ε",
            "ε",
            "ε / ε′",
            (0.01, 10),
            (1, 2.05),
            [
                Line(
                    f"sensitivity {s:g}",
                    epsilons.tolist(),
                    (epsilons * bounded_laplace_scale(0, 1, s, epsilons) / s).tolist(),
                )
                for s in (0.01, 0.1, 0.25, 0.5, 0.75)
            ],
            x_log=True,
        ),
        Panel(
            "ε / ε′ against sensitivity",
            "sensitivity (width 1)",
            "ε / ε′",
            (0, 1),
            (1, 2.05),
            [
                Line(
                    f"ε {e:g}",
                    (shifts := np.linspace(0.002, 1, 160)).tolist(),
                    (e * bounded_laplace_scale(0, 1, shifts, e) / shifts).tolist(),
                    dashed=True,
                )
                for e in (0.1, 1.0, 5.0)
            ],
        ),
    ]
    save(folder, "holohan_figure_1", "Bounded Laplace: the price of bounding (Figure 1)", panels)


if __name__ == "__main__":
    main(figure_folder(__file__, "Reproduce Figure 1 of the bounded Laplace paper."))
