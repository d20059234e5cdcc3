"""The first valid scale, on losses written down for the purpose."""

from __future__ import annotations

import numpy as np
import pytest

from dprelease.mechanisms.calibration.search import smallest_scale, widen


def test_the_first_valid_scale_of_a_bracket() -> None:
    """Losses per scale in place of a domain's: crossings, dips between scan points, none at all."""
    first = smallest_scale
    assert first(lambda b: 0.5 / b, 1.0, 1.0) == 1.0
    assert first(lambda b: 1.7 / b, 1.0, 1.0) == pytest.approx(1.7, rel=1e-11)
    assert first(lambda b: 1.7 / b, 1.0, 1.0) >= 1.7
    assert first(lambda b: 2.0001 / b, 1.0, 1.0) >= 2.0001
    # Valid within 1e-4 of 1.2345 and from 1.9 on.
    dip = first(lambda b: np.where(b < 1.9, 0.9999 + np.abs(b - 1.2345), 0.5), 1.0, 1.0)
    assert dip == pytest.approx(1.2344, rel=1e-9)
    shallow = first(lambda b: np.where(b < 1.9, 1.0001 + np.abs(b - 1.2345), 0.5), 1.0, 1.0)
    assert shallow == pytest.approx(1.9, rel=1e-9)


def test_a_result_is_always_one_that_was_evaluated() -> None:
    seen: list[float] = []

    def loss(scales: np.ndarray) -> np.ndarray:
        seen.extend(scales.tolist())
        return np.exp(1.3 - scales) + 0.1 * np.sin(40 * scales) / scales

    scale = smallest_scale(loss, 1.0, 0.9)
    assert scale in seen
    assert loss(np.array([scale]))[0] <= 0.9
    fine = np.linspace(1, scale * (1 - 1e-9), 20_001)
    assert (loss(fine) > 0.9 * (1 - 1e-9)).all()


def test_widening_steps_until_it_holds() -> None:
    assert widen(lambda b: b >= 2, 2.0) == 2.0
    assert 2 < widen(lambda b: b > 2, 2.0) < 2.001
