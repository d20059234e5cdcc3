"""What a privacy loss means. These meanings are frozen: a new meaning gets a new class and name.

    pure/1     for all neighbours D, D' and every event S:  P(M(D) in S) <= e^epsilon P(M(D') in S)
    approx/1   the same with + delta on the right

Neighbours are those of the declared adjacency and unit; a loss without both says nothing, so a
ledger entry always carries them beside it.

Units    epsilon in nats, delta a probability; both exact (`Fraction`), never rounded here.
Sources  Dwork, McSherry, Nissim, Smith, TCC 2006 (pure); Dwork et al., EUROCRYPT 2006 (approx).
Limits   zero-concentrated and Renyi losses have no class until a release publishes one.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dprelease.errors import ArgumentError
from dprelease.numeric import positive


@dataclass(frozen=True, slots=True)
class PureLoss:
    """`epsilon`-differential privacy.

    Raises:
        ArgumentError: epsilon is negative or not a finite number (DPR605, DPR606).
    """

    epsilon: Fraction
    name: ClassVar[str] = "pure/1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon", allow_zero=True))


@dataclass(frozen=True, slots=True)
class ApproxLoss:
    """`(epsilon, delta)`-differential privacy.

    Raises:
        ArgumentError: either is negative or not a finite number, or delta >= 1
            (DPR605, DPR606, DPR650).
    """

    epsilon: Fraction
    delta: Fraction
    name: ClassVar[str] = "approx/1"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon", allow_zero=True))
        object.__setattr__(self, "delta", positive(self.delta, "delta", allow_zero=True))
        if self.delta >= 1:
            raise ArgumentError(
                "delta must be below 1",
                why="at 1 every release satisfies the definition, the raw data included",
                fix="choose delta far below one over the number of units",
                code="DPR650",
            )


Loss = PureLoss | ApproxLoss
