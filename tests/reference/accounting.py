"""Composition by Google's dp-accounting: an oracle that shares no code with `dprelease.budget`.

Its privacy loss distributions use floats and FFTs at a fine pessimistic discretisation; figures are
therefore compared within a small margin, never below.

Run as a script in an environment with the extra `accounting`, this file rewrites
`accounting_values.json`, the frozen table of the tests. The extra is none of the test extra: it
holds attrs below version 24.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("accounting_values.json")

PURE: tuple[tuple[tuple[float, ...], float], ...] = (
    ((0.1,) * 10, 1e-6),
    ((0.1,) * 50, 1e-6),
    ((0.1,) * 365, 1e-6),
    ((0.02,) * 365, 1e-6),
    ((0.5,) * 12, 1e-9),
    ((0.05, 0.1, 0.2, 0.4, 0.8), 1e-3),
    ((0.3, 0.1) * 20, 1e-6),
)
GAUSSIAN: tuple[tuple[int, int, int, float], ...] = (
    (1, 100, 1, 1e-6),
    (3, 900, 52, 1e-6),
    (1, 2500, 365, 1e-6),
    (2, 16, 5, 1e-4),
)
"""(sensitivity, scale^2, releases, delta)."""


def values() -> list[dict[str, Any]]:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    out: list[dict[str, Any]] = []
    for epsilons, delta in PURE:
        total = None
        for e in epsilons:
            one = pld.from_privacy_parameters(
                common.DifferentialPrivacyParameters(e, 0), value_discretization_interval=1e-4
            )
            total = one if total is None else total.compose(one)
        out.append(
            {"pure": epsilons, "delta": delta, "epsilon": total.get_epsilon_for_delta(delta)}
        )
    for sensitivity, square, count, delta in GAUSSIAN:
        one = pld.from_discrete_gaussian_mechanism(
            square**0.5, sensitivity=sensitivity, value_discretization_interval=1e-5
        )
        found = one.self_compose(count).get_epsilon_for_delta(delta)
        out.append({"gaussian": [sensitivity, square, count], "delta": delta, "epsilon": found})
    return out


if __name__ == "__main__":
    TABLE.write_text("[\n" + ",\n".join(json.dumps(v) for v in values()) + "\n]\n")
