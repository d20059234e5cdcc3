"""Mechanisms: laws, exact calibration, certified grid laws, exact samplers.

One mechanism is one file and one line in `dprelease.core.registry`. The classes of this repository are named
here as well, so that users find them in `dp.mechanisms`. A class describes the continuous law
(`calibrate`, `loss`, `pdf`, `cdf`, ...); its `on_grid(step)` is the certified integer law that is
drawn. The planner talks to `law.grid_laws`. Importing this package needs numpy only.
"""

from __future__ import annotations

from dprelease.mechanisms.bounded_gaussian import BoundedGaussian
from dprelease.mechanisms.bounded_laplace import BoundedLaplace
from dprelease.mechanisms.calibration.laplace_loss import bounded_laplace_scale
from dprelease.mechanisms.certificate import Certificate
from dprelease.mechanisms.discrete_laplace import DiscreteLaplace
from dprelease.mechanisms.exponential import Exponential
from dprelease.mechanisms.law import ExpectedError, GridLaw, GridRequest, grid_laws, law_from_json
from dprelease.mechanisms.optimal_grid import OptimalGrid
from dprelease.mechanisms.permute_and_flip import PermuteAndFlip
from dprelease.mechanisms.rectified_gaussian import RectifiedGaussian
from dprelease.mechanisms.rectified_laplace import RectifiedLaplace
from dprelease.mechanisms.reflected_laplace import ReflectedLaplace
from dprelease.mechanisms.staircase import Staircase
from dprelease.mechanisms.stochastic_sign import StochasticSign

__all__ = [
    "BoundedGaussian",
    "BoundedLaplace",
    "Certificate",
    "DiscreteLaplace",
    "ExpectedError",
    "Exponential",
    "GridLaw",
    "GridRequest",
    "OptimalGrid",
    "PermuteAndFlip",
    "RectifiedGaussian",
    "RectifiedLaplace",
    "ReflectedLaplace",
    "Staircase",
    "StochasticSign",
    "bounded_laplace_scale",
    "grid_laws",
    "law_from_json",
]
