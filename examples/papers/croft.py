"""Croft, Sack & Shi: truncated and normalised Laplace, Table 2, and the failure of Theorem 1.

The paper groups range constraints into (a) one infinite constraint, (b) finite constraints,
(c) any mixture, and bounds the scale for each in Table 2. For (a) it lets the scale vary with the
answer, formulas (32) and (33), and claims epsilon for all pairs (Theorem 1). That is false: the
wider law at the border has the heavier tail, so the loss grows without bound away from it. The
figure draws that loss; the library offers no variable scale.

Section 3.6, the half-line that motivates the paper: noise of the usual scale, truncated and normalised,
loses log(2 e^(i epsilon) - 1) between the border and i sensitivities away, formula (24), and not i epsilon.
Figures 1 and 2 illustrate constraints and a truncated density; where their constraints lie is not
printed, so they are drawn at places of our own.

    python examples/papers/croft.py [FOLDER]

Everything is a formula; nothing is drawn. Loss is measured in multiples of epsilon.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
from plot import Line, Panel, figure_folder, print_table, save
from scipy.special import lambertw

import dprelease as dp
from dprelease.mechanisms import BoundedLaplace

FloatArray = npt.NDArray[np.float64]
HALF_LINE = dp.Domain(0, math.inf)
CONFIGURATIONS = (
    ("(a) half-line", "1.586 (Theorem 1, false)", HALF_LINE),
    ("(b) one gap of 1", "< 2", dp.Domain(-math.inf, math.inf, forbidden=[(0, 1)])),
    ("(b) gaps of 1 and 4", "< 2", dp.Domain(-math.inf, math.inf, forbidden=[(0, 1), (3, 7)])),
    ("(b) one gap of 20", "< 2", dp.Domain(-math.inf, math.inf, forbidden=[(0, 20)])),
    ("(c) interval [0, 10]", "<= 2", dp.Domain(0, 10)),
    ("(c) [0, 10] without (4, 6)", "<= 2", dp.Domain(0, 10, forbidden=[(4, 6)])),
    ("(c) half-line without (2, 3)", "<= 2", dp.Domain(0, math.inf, forbidden=[(2, 3)])),
)


def border_scale(sensitivity: float, epsilon: float) -> float:
    """Return formula (32): the scale of the law whose location lies on the constraint."""
    return -sensitivity / (float(lambertw(-1 / (2 * math.e)).real) * math.e * epsilon)


def inner_scale(distance: float, sensitivity: float, epsilon: float) -> float:
    """Return formula (33): the scale `distance` away; principal branch up to sensitivity / eps."""
    first = border_scale(sensitivity, epsilon)
    if distance == 0:
        return first
    i = distance / sensitivity
    faded = distance * math.exp(-i * epsilon) / first
    argument = -2 * faded * math.exp(-faded)
    branch = 0 if i * epsilon <= 1 else -1
    # At i = 1 / epsilon the argument is -1/e up to rounding, where both branches meet in -1.
    w = -1.0 if argument <= -1 / math.e + 1e-15 else float(lambertw(argument, branch).real)
    grown = math.exp(i * epsilon) * first
    return -distance * grown / (w * grown + distance)


def log_density(x: npt.ArrayLike, location: float, scale: float) -> npt.NDArray[np.float64]:
    """Return the log density of Laplace noise bounded to [0, inf)."""
    points = np.asarray(x, dtype=np.float64)
    mass = scale * (2 - math.exp(-location / scale))
    out: npt.NDArray[np.float64] = -np.abs(points - location) / scale - math.log(mass)
    return out


def theorem_1_loss(
    x: npt.ArrayLike, epsilon: float, distance: float = 1.0
) -> npt.NDArray[np.float64]:
    """Return |log p_0(x) - log p_distance(x)| in multiples of epsilon, sensitivity 1."""
    first = log_density(x, 0.0, border_scale(1.0, epsilon))
    second = log_density(x, distance, inner_scale(distance, 1.0, epsilon))
    out: npt.NDArray[np.float64] = np.abs(first - second) / epsilon
    return out


def fixed_scale_loss(x: npt.ArrayLike, scale: float, epsilon: float) -> npt.NDArray[np.float64]:
    """Return the same for one scale everywhere."""
    gap = log_density(x, 0.0, scale) - log_density(x, 1.0, scale)
    out: npt.NDArray[np.float64] = np.abs(gap) / epsilon
    return out


def reflected_loss(x: npt.ArrayLike, scale: float, epsilon: float) -> npt.NDArray[np.float64]:
    """Return the same for |Laplace(location)|: p_q(x) = (e^-|x-q|/b + e^-(x+q)/b) / 2b."""
    points = np.asarray(x, dtype=np.float64)
    first = math.log(2) - points / scale
    second = np.logaddexp(-np.abs(points - 1) / scale, -(points + 1) / scale)
    out: npt.NDArray[np.float64] = np.abs(first - second) / epsilon
    return out


def crossing(epsilon: float) -> float:
    """Return the distance beyond which Theorem 1's law loses more than epsilon."""
    low, high = 1.0, 1e6
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if theorem_1_loss(middle, epsilon) > 1 else (middle, high)
    return high


def motivating_rows() -> list[tuple[object, ...]]:
    """Return epsilon, i, formula (24), the library's loss at the usual scale, what was to hold (section 3.6).

    Loss in nats between the border of a half-line and i sensitivities away.
    """
    rows: list[tuple[object, ...]] = []
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        law = BoundedLaplace(HALF_LINE, scale=1 / epsilon)
        for i in (0.01, 1.0, 3.0):
            printed = math.log(2 * math.exp(i * epsilon) - 1)
            rows.append((epsilon, i, printed, law.loss(sensitivity=i), i * epsilon))
    return rows


ILLUSTRATED = dp.Domain(-4, 5, forbidden=[(-2, Fraction(-5, 4)), (Fraction(1, 2), Fraction(3, 2))])
"""Constraints like those of Figure 2: without end and finite, on both sides of the location 0."""


def figure_2(points: int = 1801) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return x, Laplace's density (location 0, scale 1), the truncated one, and its normalisation factor.

    The factor is the reciprocal of 1 minus the integrals of the removed spans (section 3.2).
    """
    x = np.linspace(-6, 7, points)
    laplace = np.exp(-np.abs(x)) / 2
    ends = [-math.inf, -4.0, -2.0, -1.25, 0.5, 1.5, 5.0, math.inf]
    below = [math.exp(e) / 2 if e < 0 else 1 - math.exp(-e) / 2 for e in ends]
    removed = sum(b - a for a, b in zip(below[::2], below[1::2], strict=True))
    factor = 1 / (1 - removed)
    inside = np.zeros(x.shape, dtype=bool)
    for low, high in zip(ends[1:-1:2], ends[2:-1:2], strict=True):
        inside |= (x >= low) & (x <= high)
    return x, laplace, np.where(inside, factor * laplace, 0.0), factor


def illustrations() -> list[Panel]:
    """Return Figures 1 and 2."""
    shown = {
        "a) single infinite": [(0.0, 10.0)],
        "b) finite": [(0.0, 2.0), (3.0, 5.5), (6.5, 10.0)],
        "c) arbitrary": [(2.0, 4.0), (5.0, 7.5)],
    }
    classes = [
        Line(name, [*range_], [3.0 - row] * 2)
        for row, (name, ranges) in enumerate(shown.items())
        for range_ in ranges
    ]
    x, laplace, truncated, _ = figure_2()
    densities = [
        Line("Laplace", x.tolist(), laplace.tolist(), dashed=True),
        Line("truncated, normalised", x.tolist(), truncated.tolist()),
    ]
    return [
        Panel("Figure 1: feasible ranges", "range of the query", "class", (0, 10), (0, 4), classes),
        Panel("Figure 2: location 0, scale 1", "x", "density", (-6, 7), (0, 1), densities),
    ]


def table_2(epsilon: float = 1.0) -> list[tuple[object, ...]]:
    """Return configuration, the paper's bound, metric scale, plain scale, ratio (sensitivity 1)."""
    rows: list[tuple[object, ...]] = []
    for name, bound, domain in CONFIGURATIONS:
        metric = BoundedLaplace.calibrate(domain, sensitivity=1, epsilon=epsilon, rule="croft")
        plain = BoundedLaplace.calibrate(domain, sensitivity=1, epsilon=epsilon)
        ratio = plain.scale / metric.scale
        rows.append((name, bound, metric.scale * epsilon, plain.scale * epsilon, ratio))
    return rows


def main(folder: Path) -> None:
    print_table(
        "Table 2: scale in multiples of sensitivity / epsilon (epsilon 1, sensitivity 1)",
        ["constraint", "paper", "metric guarantee", "plain guarantee", "plain / metric"],
        table_2(),
    )
    print("  any infinite constraint makes the metric scale exactly 2, never less")
    print_table(
        "Theorem 1, locations 0 and sensitivity: loss at x, in multiples of epsilon",
        ["epsilon", "x = 1", "x = 10", "x = 100", "x = 1000", "exceeds 1 beyond x ="],
        [
            (e, *(float(theorem_1_loss(x, e)) for x in (1, 10, 100, 1000)), crossing(e))
            for e in (0.1, 0.5, 1.0, 2.0)
        ],
    )
    print_table(
        "Section 3.6: the half-line at the usual scale sensitivity / epsilon, loss in nats",
        ["epsilon", "i", "formula (24)", "the library's loss", "i epsilon"],
        motivating_rows(),
    )
    print("  near i = 0 the loss is 2 i epsilon: that is the metric scale's factor 2 in Table 2")
    save(folder, "croft_figures", "Constraints and a truncated density", illustrations())
    epsilon = 1.0
    plain = BoundedLaplace.calibrate(HALF_LINE, sensitivity=1, epsilon=epsilon).scale
    print_table(
        "What holds on the half-line (epsilon 1): one scale for every answer",
        ["law", "scale", "worst loss up to x = 1000, in epsilon"],
        [
            ("Theorem 1, variable", "1.586 and 1.302", float(theorem_1_loss(1000, epsilon))),
            ("bounded, metric", 2.0, _worst(fixed_scale_loss, 2.0)),
            ("bounded, plain: 1 / log((1 + e) / 2)", plain, _worst(fixed_scale_loss, plain)),
            ("reflected, |Laplace|", 1.0, _worst(reflected_loss, 1.0)),
        ],
    )
    x = np.linspace(0, 60, 601)
    claims = Line("ε, as claimed", [0.0, 60.0], [1.0, 1.0], dashed=True)
    failure = Panel(
        "Theorem 1: loss against distance",
        "released value x (constraint at 0, sensitivity 1)",
        "loss of the pair (0, 1), in ε",
        (0, 60),
        (0, 8),
        [
            *(
                Line(f"Theorem 1, ε {e:g}", x.tolist(), theorem_1_loss(x, e).tolist())
                for e in (0.5, 1.0, 2.0)
            ),
            claims,
            Line("plain, one scale", x.tolist(), fixed_scale_loss(x, plain, 1).tolist()),
            Line("reflected Laplace", x.tolist(), reflected_loss(x, 1.0, 1).tolist()),
        ],
    )
    at = np.linspace(0, 8, 161)
    scales = Panel(
        "The scales that fail: formulas (32) and (33)",
        "distance of the answer from the constraint",
        "scale × ε / sensitivity",
        (0, 8),
        (0.9, 2.1),
        [
            Line(
                f"Theorem 1, ε {e:g}",
                at.tolist(),
                [e * inner_scale(float(d), 1.0, e) for d in at],
            )
            for e in (0.5, 1.0, 2.0)
        ]
        + [Line("plain, one scale", [0.0, 8.0], [plain, plain])],
    )
    save(folder, "croft_theorem_1", "Truncated Laplace: why no scale may vary", [failure, scales])


def _worst(loss: object, scale: float) -> float:
    assert callable(loss)
    return float(np.max(loss(np.linspace(0, 1000, 20_001), scale, 1.0)))


if __name__ == "__main__":
    main(figure_folder(__file__, "Reproduce Table 2 and show where Theorem 1 fails."))
