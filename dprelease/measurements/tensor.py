"""Products of two columns' Bernstein cells: one row adds exactly (Ka Kb)^2."""

from __future__ import annotations

from dataclasses import replace

from dprelease.aggregates.base import Floats, Reading
from dprelease.aggregates.measurement import Measurement
from dprelease.aggregates.pair_cells import one_column
from dprelease.measurements.base import Hull
from dprelease.measurements.columns import Columns
from dprelease.measurements.members import Member
from dprelease.query.bounded import Fixed
from dprelease.query.spec import Query


class Tensor(Columns):
    """Nine cells, from which both columns' moments follow too."""

    family = "tensor"
    shared = True
    nowhere_negative = True
    way = "nine cells of both columns"

    def together(self, members: list[Member], query: Query) -> list[Member]:
        """Let moments of one column look at a tensor that a correlation makes anyway.

        With covariances drawn as soft tables or cross products a tensor costs them nothing extra
        either: it serves as soon as a moment of one of the two columns, over the same rows, is asked for.
        """
        del query
        tensors = [o for m in members for o in m.options if o.family == self.family and _shares(m)]
        wanted = {o.key for m in members for o in m.options[:1] if o.family == self.family}
        seen = {}
        for member in members:
            if not _shares(member) or not member.aggregate.moment:
                continue
            code = member.statistic.code
            for tensor in tensors:
                codes = (tensor.measures[0].code, tensor.measures[0].other)
                kept = all(isinstance(c, Fixed) and c.default is not None for c in codes)
                if kept and code in codes:
                    wanted.add(tensor.key)
                    seen[member.statistic.spec.name] = tensor, codes.index(code)
                    break

        def settled(member: Member) -> Member:
            found = seen.get(member.statistic.spec.name)
            if found is not None:
                return replace(member, options=(found[0],), view=found[1])
            if _shares(member) and any(o.key in wanted for o in member.options):
                return replace(member, options=tuple(o for o in member.options if o.key in wanted))
            return member

        return [settled(m) for m in members]

    def seen(
        self, measurement: Measurement, cells: Floats, reading: Reading, view: int
    ) -> tuple[Measurement, Floats, Reading]:
        return one_column(measurement, cells, reading, view)

    def hulls(self, measurement: Measurement) -> tuple[Hull, ...]:
        ends = enumerate(measurement.axes)
        return tuple((view, a.offset, a.offset + a.width) for view, a in ends)


def _shares(member: Member) -> bool:
    spec = member.statistic.spec
    return spec.spikes and spec.mechanism is None and spec.max_rows is None
