"""What a whole person can lose, where the unit is one person's rows of an interval.

Law      A person who is in k intervals of a release's window is k units. By the group rule that release
         costs them k epsilon and delta (e^(k epsilon) - 1)/(e^epsilon - 1), or k^2 rho
         (docs/theory/composition.md#over-time). Releases add up. k is at most the intervals that the
         window meets; a release without a window has no bound, and then there is none.
Units    epsilon in nats, rho in nats, exact; delta rounded up to whole atto-units, at most 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from dprelease.budget.accountant import ATTO
from dprelease.budget.record import OPEN, Entry
from dprelease.budget.timeline import Instants, Timeline, window_of_texts
from dprelease.core.codec import Stored
from dprelease.core.codec_notes import AtLeast, Note
from dprelease.core.numeric import NANO, exp_lower, exp_upper

if TYPE_CHECKING:
    from dprelease.budget.ledger import Ledger

_FAR = 200
"""Beyond this exponent every delta that a ledger can hold has become 1."""


@dataclass(frozen=True, slots=True)
class PersonLoss(Stored):
    """What one person in every interval loses at most; `rho` where losses add up by zCDP."""

    epsilon: Annotated[Fraction, AtLeast(0)]
    delta: Annotated[Fraction, AtLeast(0), Note.always] = Fraction(0)
    rho: Annotated[Fraction | None, AtLeast(0)] = None

    def completed(self) -> PersonLoss:
        if self.delta > 1:
            raise ValueError("delta")
        return self


def group_rule(epsilon: Fraction, delta: Fraction, count: int) -> tuple[Fraction, Fraction]:
    """Return what `count` units together lose of a release with this loss for one.

    >>> group_rule(Fraction(1, 2), Fraction(0), 52)
    (Fraction(26, 1), Fraction(0, 1))
    """
    if count <= 1 or not delta:
        return count * epsilon, count * delta
    if (count - 1) * epsilon > _FAR:
        return count * epsilon, Fraction(1)
    factor = count * exp_upper((count - 1) * epsilon)  # above the sum of e^(i epsilon), i < count
    below = exp_lower(epsilon) - 1
    if below > 0:
        factor = min(factor, (exp_upper(count * epsilon) - 1) / below)
    return count * epsilon, min(Fraction(1), delta * factor)


def person_of(
    parts: Iterable[tuple[Instants, Fraction, Fraction]], line: Timeline
) -> PersonLoss | None:
    """Return the loss over releases, each a window, an epsilon and a delta; None for no bound."""
    total, probability = Fraction(0), Fraction(0)
    for window, epsilon, delta in parts:
        count = line.met(window)
        if count is None:
            return None
        more = group_rule(epsilon, delta, count)
        total, probability = total + more[0], probability + more[1]
    return PersonLoss(total, _atto(probability))


def person_loss(
    entries: Sequence[Entry], line: Timeline, *, delta: Fraction | None = None
) -> PersonLoss | None:
    """Return the loss over a dataset's entries, None for no bound.

    Args:
        delta: the dataset's, where its losses add up by zCDP.
    """
    if line.per is None:
        return None
    if delta is None:
        parts = ((window_of_texts(e.window), e.epsilon, e.delta) for e in entries)
        return person_of(parts, line)
    from dprelease.budget import rho_filter  # a plan has no ledger, and need not load one

    nano = 0
    for entry in entries:
        count = line.met(window_of_texts(entry.window))
        if count is None:
            return None
        nano += count**2 * (rho_filter.nano_rho(entry) or 0)
    if not nano:
        return PersonLoss(Fraction(0), Fraction(0), Fraction(0))
    return PersonLoss(rho_filter.spent_epsilon(nano, delta), delta, Fraction(nano, NANO))


def person_at(
    book: Ledger, dataset: str, seq: int | None = None, delta: Fraction | None = None
) -> PersonLoss | None:
    """Return what a whole person has lost by the dataset's debits up to `seq`, or by all of them.

    Args:
        delta: of a dataset that adds up by zCDP; its present one by default.
    """
    rows = [r for r in book.entries(dataset) if seq is None or r.anchor.seq <= seq]
    if book.composition(dataset) != "zcdp":
        delta = None
    elif delta is None:
        delta = book.budget(dataset).delta
    return person_loss([row.entry for row in rows], book.timeline(dataset), delta=delta)


def window_of_debit(said: Mapping[str, Any]) -> Instants:
    """Return the window of an entry as a debit's event says it."""
    return window_of_texts(said.get("window", OPEN))


def _atto(delta: Fraction) -> Fraction:
    """Return delta in whole atto-units, rounded up: at most 1."""
    return min(Fraction(1), Fraction(-(-(delta * ATTO) // 1), ATTO))
