"""Level: the mean as a share of the column's range, 0 at its lower end and 1 at its upper one.

It is measured exactly as a mean is, in the same integer cells, so that its sensitivity is theirs;
only the unit of the value differs. Nothing about noise is said here.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dprelease.schema.domain import Domain
from dprelease.statistics.mean import Mean
from dprelease.statistics.measurement import Context, Measurement


class Level(Mean):
    measure = ""  # a share has no unit

    def domain(self, context: Context) -> Domain:
        del context  # whatever the column's range is
        return Domain(0, 1)

    def measurements(self, context: Context) -> tuple[Measurement, ...]:
        """Return a mean's measurements, read in shares of the range.

        A key of its own: a block's cells may be shared only by statistics that read them alike.
        """
        width = context.scale * context.step
        return tuple(
            replace(e, key=(*e.key, "level"), offset=Fraction(0), step_size=e.step_size / width)
            for e in super().measurements(context)
        )


statistic = Level("level")
