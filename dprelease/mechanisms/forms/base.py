"""What every form of scalar law shares: its request, its capped sensitivity, and that its proof is kept.

A *form* is the shape of a law on the grid. It owns its sampler, its intervals, its expected error
and its JSON once, for every kernel of noise. What is proved belongs to a form and a kernel together
(`certifiers/`), because the proofs differ.

Units    grid steps; epsilon in nats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dprelease.core.codec import Stored
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.certificate import Certificate
from dprelease.mechanisms.law import Ends, ExpectedError, GridRequest, Loss
from dprelease.schema.domain import Runs

PMF_LIMIT = 2**16
"""Most outputs that a law on a grid lists."""


def too_many_outputs() -> ArgumentError:
    """Return the refusal to list a law's outputs."""
    return ArgumentError(
        "this law has too many outputs to enumerate",
        why=f"its hull has more than {PMF_LIMIT} points",
        fix="use a coarser step",
        code="DPR623",
    )


@dataclass(frozen=True, slots=True)
class ScalarLaw(Stored, ABC):
    """One integer per group. With a `family`, a sampler and a proof it satisfies `GridLaw`.

    Attributes:
        allowed, sensitivity, epsilon, loss: of the request it answers.
    """

    allowed: Runs
    sensitivity: int
    epsilon: Fraction
    loss: Loss

    @property
    def capped_sensitivity(self) -> int:
        """Steps that two neighbouring answers can really be apart."""
        return GridRequest(self.allowed, self.sensitivity, self.epsilon).capped_sensitivity

    @property
    def certificate(self) -> Certificate:
        """The proof; computed once per law."""
        return _certificate(self)

    @abstractmethod
    def certify(self) -> Certificate:
        """Recompute the proof from the law's integers alone."""

    def clamp(self, answers: IntArray) -> IntArray:
        """Return the answers clamped to the hull: the draw starts here, in a gap or not."""
        out: IntArray = np.clip(answers, self.allowed.lower, self.allowed.upper)
        return out

    def finish(self, raw: IntArray) -> IntArray:
        """Return `raw`: of most forms every draw is allowed already."""
        return raw

    def expected_error(self, near: Ends | None = None) -> ExpectedError:
        """Return the error over answers uniform on the hull, or on what of it is `near`; computed once per law."""
        return _expected_error(self, near)

    @abstractmethod
    def price(self, near: Ends | None) -> ExpectedError:
        """Compute `expected_error`."""


@lru_cache(maxsize=256)
def _certificate(law: ScalarLaw) -> Certificate:
    return law.certify()


@lru_cache(maxsize=4096)
def _expected_error(law: ScalarLaw, near: Ends | None) -> ExpectedError:
    return law.price(near)
