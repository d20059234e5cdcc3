"""The estimator of a structure: on nested tables up and down the tree, else in closed form of the cross.

Sources  `docs/theory/publications-that-add-up.md#least-squares`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dprelease.fitting.cross import CrossEstimator
from dprelease.fitting.estimate import Estimator
from dprelease.fitting.structure import Structure
from dprelease.fitting.tree import TreeEstimator
from dprelease.intervals.noise import Noise


def estimator(
    structure: Structure,
    noises: Mapping[str, Noise | None],
    public: Collection[str] = (),
) -> Estimator:
    """Return the least-squares estimator of one statistic.

    Args:
        noises: the noise of every measured table; None or nothing where one is not measured.
        public: names of the tables whose totals are public.

    Raises:
        PlanError: the finest table is neither measured nor public (DPR280).
    """
    if structure.sides:
        return CrossEstimator(structure, noises, public)
    return TreeEstimator(structure, noises, public)
