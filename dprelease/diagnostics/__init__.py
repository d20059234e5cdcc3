"""Curator-only diagnostics: what one release tells about one person of *this* table.

Every number here is a function of the exact answer. It must never be published, logged beside a
release or put into a manifest; results are `CuratorOnly` arrays, whose printed form says so. No
stage of a release imports this package, and it imports no mechanism: a mechanism is recognised
by its class name and read through `domain` and `scale`.

    fisher_information_loss            how precisely a location can be estimated
    renyi_divergence                   one pair of locations, one direction
    per_instance_rdp                   the worst neighbour of one location: both signs and directions
    composed_fisher_information_loss   the spectral norm of diag(eta) J over coordinates
    composed_rdp                       one release of many coordinates

Units    locations, sensitivities and scales: the domain's unit; divergences in nats.
Sources  [BS] Hu, Mahloujifar, Smith, Chaudhuri & Guo, "Privacy Amplification for the Gaussian
         Mechanism via Bounded Support", arXiv:2403.05598, with its equations 4 and 6, Algorithm 1
         and Proposition 5.1 corrected (`fisher`, `renyi`, `instance`).
"""

from __future__ import annotations

from dprelease.diagnostics.curator import CuratorOnly
from dprelease.diagnostics.fisher import (
    composed_fisher_information_loss,
    fisher_information_loss,
)
from dprelease.diagnostics.instance import composed_rdp, per_instance_rdp
from dprelease.diagnostics.renyi import renyi_divergence

__all__ = [
    "CuratorOnly",
    "composed_fisher_information_loss",
    "composed_rdp",
    "fisher_information_loss",
    "per_instance_rdp",
    "renyi_divergence",
]
