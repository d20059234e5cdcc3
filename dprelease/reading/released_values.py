"""The published values of one table of a release, as quantities that expressions are made of."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from functools import cache, cached_property

from dprelease.core.errors import ArgumentError
from dprelease.core.strict_json import canonical_json
from dprelease.reading.forms import Linear, RatioForm, total
from dprelease.reading.grammar import Names
from dprelease.reading.joint import joint
from dprelease.reading.measurement import MeasuredValue, ReleasedMeasurement
from dprelease.reading.per_row import PerRow
from dprelease.reading.quantity import Ends, Form, Quantity, summed
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.results.draw import Draw
from dprelease.results.formats.report_sections import Value, released_rows
from dprelease.results.rules import SUPPRESSED, WEAK
from dprelease.schema.naming import quoted
from dprelease.statistics.base import kind_named

Key = tuple[str, ...]


class ReleasedValues:
    """What one release published, per column and group."""

    def __init__(self, noised: Draw) -> None:
        self.noised = noised
        self.by, self.keys = noised.plan.by, noised.plan.keys if noised.plan.by else ((),)
        self.columns: dict[str, tuple[PlannedStatistic, int]] = {
            column: (statistic, i)
            for statistic in noised.plan.statistics
            for i, column in enumerate(statistic.columns)
        }
        self._measurement = cache(self._measured)
        self._places = cache(self._places_by)

    @cached_property
    def identity(self) -> str:
        """The draw's own name: the same noisy integers of one ledger entry are the same noise."""
        return _identity(self._drawn)

    @property
    def names(self) -> Names:
        """What an expression may name."""
        labels = {k: {key[i] for key in self.keys} for i, k in enumerate(self.by)}
        return Names(list(self.columns), labels, self.levels)

    @property
    def own_name(self) -> str | None:
        """The table's name, where a release names its tables."""
        return None

    @property
    def others(self) -> Mapping[str, ReleasedValues]:
        """The other tables of the same release, by name."""
        return {}

    def groups_sharing_rows(self, other: ReleasedValues, fixed: Mapping[str, str]) -> Sequence[int]:
        """Return the groups of another table that hold rows of these groups: by labels, if that is known."""
        return other.groups_in(fixed)

    @property
    def _drawn(self) -> Draw:
        """The release whose noise the values hold."""
        return self.noised

    def has_interval(self, statistic: PlannedStatistic) -> bool:
        """Whether a statistic's values have an interval; a choice by rank has an error in rows only."""
        return self.noised.plan.block(statistic.block).has_interval

    @cached_property
    def groups(self) -> Mapping[Key, int]:
        return {key: i for i, key in enumerate(self.keys)}

    @cached_property
    def levels(self) -> dict[str, list[str]]:
        """Each group's label at the coarser levels of its key columns, by level: public, from the schema's hierarchies."""
        request = self.noised.plan.request
        out: dict[str, list[str]] = {}
        for h in () if request is None else request.schema.hierarchies.values():
            own = [name for name in h.levels if name in self.by][-1:]
            for name in h.levels[: h.levels.index(own[0])] if own else ():
                of = dict(zip(h.labels(own[0]), h.labels(name), strict=True))
                labels = [of.get(key[self.by.index(own[0])]) for key in self.keys]
                if name not in self.by and None not in labels:
                    out[name] = [str(label) for label in labels]
        return out

    def labelled(self, names: Sequence[str]) -> Sequence[Key]:
        """Return each group's labels in these columns, its own or coarser levels of them."""
        own = {name: [key[i] for key in self.keys] for i, name in enumerate(self.by)}
        columns = [(own | self.levels)[name] for name in names]
        return list(zip(*columns, strict=True)) if names else [()] * len(self.keys)

    def groups_in(self, fixed: Mapping[str, str]) -> Sequence[int]:
        """Return the groups whose key columns have these labels; other columns are open."""
        names = tuple(name for name in (*self.levels, *self.by) if name in fixed)
        return self._places(names).get(tuple(fixed[name] for name in names), ())

    def _places_by(self, names: Key) -> Mapping[Key, list[int]]:
        """Return the groups by their labels in these columns."""
        found: dict[Key, list[int]] = {}
        for i, labels in enumerate(self.labelled(names)):
            found.setdefault(labels, []).append(i)
        return found

    @cached_property
    def published(self) -> Mapping[tuple[Key, str], Value]:
        """Every published value, by group and column."""
        return released_rows(self.noised.table, self.keys)

    def _quantity(self, form: Form, column: str, group: int, each: PerRow | None) -> Quantity:
        """Return one published value of this form; each: what one row adds to it."""
        own = self.published[self.keys[group], column]
        hull, gone = self.columns[column][0].domain.hull, own.status == SUPPRESSED
        shown = _both(own.lower, own.upper)
        certain = _both(own.certain_lower, own.certain_upper)
        return Quantity(form, own.value, hull, own.status in WEAK, each, shown, gone, certain)

    def quantity(self, column: str, group: int) -> Quantity:
        """Return one published value."""
        statistic, index = self.columns[column]
        measurement = self._measurement(statistic.block)
        form = measurement.form(statistic, index, group)
        known = form or MeasuredValue(measurement, statistic, frozenset([index]), group)
        alone = isinstance(form, Linear) and not form.constant  # nothing but rows adds to it
        each = self._per_row(column, [group]) if alone else None
        return self._quantity(known, column, group, each)

    def _per_row(self, column: str, groups: Sequence[int]) -> PerRow | None:
        """Return what one row of these groups adds to a published sum."""
        statistic, index = self.columns[column]
        return self._measurement(statistic.block).per_row(statistic, index, groups)

    def _adds_up(self, column: str) -> bool:
        """Return whether a statistic's values of several groups add up to that of all of them together.

        A number of different values does not, nor one of persons who are counted in each of their groups.
        """
        statistic, _ = self.columns[column]
        query = self.noised.plan.query
        several = query.max_groups > 1 or query.meets_several
        return kind_named(statistic.function).adds_over(several=several)

    def _measured(self, block: str) -> ReleasedMeasurement:
        return ReleasedMeasurement(self.identity, self._drawn, block)

    def pooled(self, column: str, groups: Sequence[int]) -> Quantity:
        """Return a statistic of several groups together: a sum, or a mean over all of them.

        Raises:
            ArgumentError: a statistic that groups do not add up to (DPR663).
        """
        found = [self.quantity(column, group) for group in groups]
        if len(found) == 1:
            return found[0]
        weak, gone = all(q.weak for q in found), any(q.suppressed for q in found)
        forms = [q.form for q in found]
        low, high = found[0].domain
        if all(isinstance(form, Linear) for form in forms) and self._adds_up(column):
            whole = total([form for form in forms if isinstance(form, Linear)])
            each = None if whole.constant else self._per_row(column, groups)
            return summed(found, whole, each, weak=weak)
        if all(isinstance(form, RatioForm) for form in forms):
            ratios = [form for form in forms if isinstance(form, RatioForm)]
            tops, bottoms = total([r.top for r in ratios]), total([r.bottom for r in ratios])
            ratio = RatioForm(tops, bottoms, cut=any(r.cut for r in ratios))
            above, below = (float(x) for x in joint(ratio.top, ratio.bottom).observed)
            mean = None if below <= 0 else above / below
            inside = None if mean is None or gone else min(max(mean, low), high)
            return Quantity(ratio, inside, (low, high), weak, suppressed=gone)
        one = ", ".join(f"{quoted(name)}='…'" for name in self.by)
        raise ArgumentError(
            f"`{column}` of several groups does not follow from that of each",
            why="of several groups only sums, numbers of rows, means and shares are known; not medians, numbers of different"
            " values, or of units that may be in several groups, nor sums that a declared domain may cut",
            fix=f"keep the groups apart: by={list(self.by)!r}, or --by {shlex.quote(','.join(self.by))}; or name one of each:"
            f" {column}[{one}]",
            code="DPR663",
        )


def _both(low: float | None, high: float | None) -> Ends | None:
    return None if low is None or high is None else (low, high)


def _identity(noised: Draw) -> str:
    """Return a draw's own name.

    What a ledger's entry stands for is known again wherever it is read. Two draws without an entry may hold
    the same integers by chance, and are other noise: each of them is itself alone.
    """
    if noised.receipt.head_hash is None:
        return f"{noised.plan.hash} without a ledger: {id(noised)}"
    drawn = {name: [list(map(str, row)) for row in rows] for name, rows in noised.cells.items()}
    text = canonical_json([noised.plan.hash, noised.receipt.head_hash, drawn])
    return hashlib.sha256(text.encode()).hexdigest()
