"""What the published periods of one pipeline cost together, from their folders alone.

Law      docs/theory/composition.md#over-time. Where every period says the same declared time, and a
         row's time never changes, periods of disjoint windows read other units: the loss is that of
         the worst unit. Else all losses add up.
Units    epsilon in nats, exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dprelease.budget.parallel import worst
from dprelease.budget.person import PersonLoss, person_of
from dprelease.results.series.collect import Period


@dataclass(frozen=True, slots=True)
class SeriesLoss:
    """The loss of one unit, and of a whole person whose rows of an interval are the unit.

    Attributes:
        apart: whether losses of disjoint periods are told apart.
        person: None where the unit is not part of a person, or where there is no bound.
    """

    epsilon: Fraction
    delta: Fraction
    apart: bool = False
    person: PersonLoss | None = None


def series_loss(periods: Sequence[Period]) -> SeriesLoss:
    """Return what the periods cost, withdrawn ones too: spent is spent."""
    epsilons, deltas = [p.epsilon for p in periods], [p.delta for p in periods]
    lines = {p.line for p in periods}
    line = lines.pop() if len(lines) == 1 else None
    if line is None:
        return SeriesLoss(sum(epsilons, Fraction(0)), sum(deltas, Fraction(0)))
    all_instants = [line.instants(p.stored) for p in periods]
    parts = [(p.stored, p.epsilon, p.delta) for p in periods]
    return SeriesLoss(
        worst(all_instants, epsilons, pairs=line.pairs),
        worst(all_instants, deltas, pairs=line.pairs),
        line.apart,
        None if line.per is None else person_of(parts, line),
    )
