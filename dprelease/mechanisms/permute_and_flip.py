"""Permute-and-flip: choose an output by coins whose chances fall as e^(-rate * score).

Every candidate is kept by a coin, a best one always; one of those kept is drawn. Never a larger expected score than the
exponential mechanism's at the same epsilon: down to half of it where one candidate is clearly the best, and nearly the same
in groups of a few rows.
`PermuteAndFlip.for_scores(candidates, spread=..., epsilon=...)` is drawn exactly (`forms/flips.py`).
Medians and other single values by rank use it where losses add up by epsilon; under zCDP it costs up to four times
what the exponential mechanism does.

Place    no noise: scores; form `forms/flips.py`.
Theorem  `docs/theory/certificates.md#permute-and-flip`.
Erratum  none known.
Units    scores: integers; epsilon in nats.
Sources  McKenna & Sheldon, "Permute-and-flip: a new mechanism for differentially private selection" (2020).
Limits   the losses of a pair span up to 2 epsilon, so zCDP counts them as any pure law's.
"""

from __future__ import annotations

from dprelease.core.numeric import Number
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.law import Unpriced


class PermuteAndFlip(Unpriced):
    """A law over candidates; it has no grid law of numbers."""

    grid_law_from_json = FlipLaw.from_json

    @staticmethod
    def for_scores(candidates: int, *, spread: int, epsilon: Number) -> FlipLaw:
        """Return the exact permute-and-flip over `candidates` with integer scores; see `ScoreLaw.calibrate`.

        Raises:
            ArgumentError: as there.
        """
        return FlipLaw.from_scores(ScoreLaw.calibrate(candidates, spread=spread, epsilon=epsilon))
