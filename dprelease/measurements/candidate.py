"""One priced way to draw a block, and what it is priced for.

Units: epsilon in nats; errors in the statistic's unit, or its square.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from dprelease.core.codec_notes import Note
from dprelease.mechanisms.law import Criterion
from dprelease.statistics.measurement import Measurement

if TYPE_CHECKING:
    from dprelease.measurements.law import Law
    from dprelease.measurements.members import BlockLayout, Loss
    from dprelease.statistics.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class Option:
    """A mechanism that was priced.

    Attributes:
        mechanism: family name.
        expected_error: expected |error| (or squared error) of the statistic, in its unit, averaged
            over a public prior; None when it depends on an undeclared group size.
        worst_error: the same at the worst answer, where the law gives it.
        note: why it is not admissible, or what is special about it.
        advice: why a request may prefer it, in plans of earlier versions.
        rank: what to print for its error where that is of ranks; of a plan that was just made.
    """

    mechanism: str
    expected_error: float | None
    worst_error: Annotated[float | None, Note.always] = None
    note: Annotated[str, Note.always] = ""
    advice: str = ""
    rank: Annotated[str, Note.unstored] = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to draw a block, with the error of each member (statistic's unit, or its square).

    `stated` holds, per member, the error at each spread of its rows (`measurements.spread`), and `errors`
    the largest of them; empty where no error depends on the spread. `note` says what is special. `placed` are the
    errors of an answer at the worst place, and `anywhere` those of answers anywhere in the domain, where `errors` are
    of likely ones: candidates are compared by these, so that a wrong guess of the size chooses no law.
    """

    measurement: Measurement
    law: Law
    errors: tuple[float, ...]
    worst: tuple[float | None, ...]
    stated: tuple[tuple[float, ...], ...] = ()
    note: str = ""
    placed: tuple[float, ...] = ()
    anywhere: tuple[float, ...] = ()

    def price(self, judge: Criterion) -> float:
        """Return what the candidates of a block are ranked by, over all members.

        Where an error does not depend on the answer, or its worst is not known, it is the average.
        """
        errors = self.anywhere or self.errors
        if judge == "average":
            return sum(errors)
        parts = zip(errors, self.worst, strict=True)
        return sum(e if w is None else w for e, w in parts)

    def sensitivity(self, known: dict[Measurement, Sensitivity]) -> Sensitivity:
        """Return the sensitivity among `known`, which are of the measurements before they were aimed.

        A target with an offset (min, max) changes by as much as one without: the offset is a public constant.
        """
        return next(s for e, s in known.items() if self.measures_as(e))

    def measures_as(self, measurement: Measurement) -> bool:
        """Return whether `measurement` is this candidate's, aimed or not."""
        mine = self.measurement
        return (measurement.key, measurement.l1_added_row, measurement.l1_replaced_row) == (
            mine.key,
            mine.l1_added_row,
            mine.l1_replaced_row,
        )


@dataclass(frozen=True, slots=True)
class Pricing:
    """What one measurement of a block is priced for.

    Attributes:
        size: public guess of rows per group (pricing only).
        sensitivity: of the measurement.
        judge: by the error averaged over answers, or at the worst one.
        only_as: price only the way that this candidate is drawn: its law's family. Where it has no errors nobody
            asks for any, and those of a way with one law may be 0.
    """

    block: BlockLayout
    measurement: Measurement
    epsilon: Fraction
    loss: Loss
    size: int
    sensitivity: Sensitivity
    judge: Criterion = "average"
    only_as: Candidate | None = None

    @property
    def pin(self) -> str | None:
        """The mechanism that the request names."""
        return self.block.members[0].statistic.spec.mechanism
