"""Every family of quotients, from no row to 1,000 and from noise far below a step to far above: covered, and not longer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.intervals.widths import DRAWS, FAMILIES, SCALES, SIZES, Case, measured
from tests.sizes import whole

COUNT = whole(400, DRAWS)
OLD = json.loads(Path(__file__).with_name("widths.json").read_text(encoding="utf-8"))
"""Coverage, median width, share of points before there was one quotient."""
MARGIN = 5 * (0.95 * 0.05 / COUNT) ** 0.5


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_cover_and_none_is_longer_than_it_was(
    family: str, scale: float, evidence: Any
) -> None:
    for size in SIZES:
        case = Case(family, size, scale)
        coverage, width, points = measured(case, COUNT)
        assert coverage >= 0.95 - MARGIN, case.name
        assert width <= 1.02 * OLD[case.name][1] + 1e-9, case.name
        assert points == 0 or scale <= 0.3, case.name
        evidence(
            case.name,
            f"{COUNT} draws",
            f"coverage {coverage:.3f} (was {OLD[case.name][0]:.3f}), median width {width:.4g} (was {OLD[case.name][1]:.4g})",
        )


def test_noise_that_is_said_to_be_less_shows() -> None:
    """The control, pooled: of noise a fifth less than there is, intervals of many rows do not cover."""
    found = [measured(Case(f, 1000, 1000.0 / 50), 4000, shrink=0.8)[0] for f in FAMILIES]
    assert min(found) < 0.95 - MARGIN / 5
