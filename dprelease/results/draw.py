"""What leaves the wall: noised integers and the tidy table made of them.

Everything here is a function of the plan and of the committed noisy integers: who holds the manifest can make it again.

The tidy table has one row per (group, published column):

    <key columns>   utf8      labels of the group
    statistic       utf8      published column, `mean_age` or `histogram_hour[5,9)`
    value           float64   always finite and inside the statistic's domain
    lower, upper    float64   95 % interval for the statistic of the bounded, clamped data, rounded outward to
                              multiples of the value's step (an end of the domain that is no multiple may be passed,
                              by less than a step). For found keys the 95 % are of the draws that publish the key. Both
                              null for a choice by rank without `interval: true`: its error is known in rows only
    certain_lower, certain_upper  float64  the statistic lies between them for certain: of public numbers, and of laws
                              whose noise has an end. Null for other laws; missing where no block has such a law
    estimate        float64   median-unbiased estimate of the same statistic, clipped to the domain's hull, not rounded; null
                              for variances, covariances and choices by rank, and where no signal is left; leans to
                              one side where a truncated law has few allowed values, or beside a gap
    unbiased        float64   estimate whose expectation is that statistic, before a declared domain of its own cuts it; for
                              averaging. Null where none exists (truncated laws) or none is offered (ratios, ranks)
    consistent      float64   the value made to fit the other released ones (`consistency`), inside its domain; missing
                              in tables that add up, whose values fit already
    mechanism, block  utf8
    epsilon         float64   of the block
    status          utf8      ok | at_bound | uninformative | empty_signal; of a choice by rank no_interval for ok. It is
                              uninformative where its error in rows is as large as the group, empty_signal where no
                              value may be known: by the counts released beside it (`measurements.known`), else by the plan
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dprelease.core.strict_json import canonical_json
from dprelease.measurements.base import counts_values, family_of, seen_by
from dprelease.measurements.known import Known, Read, all_of, by_rank, chosen_by_rank, known_values
from dprelease.measurements.law import RAW_LIMIT, Objects
from dprelease.release_plan.block import Block, Cells
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import CERTAIN_NAMES, TIDY_NAMES, PlannedStatistic, deciding
from dprelease.release_plan.tables import PlannedTables
from dprelease.results.consistency import consistent, outward, published_interval, to_domain
from dprelease.results.receipt import Receipt
from dprelease.results.rules import SUPPRESSED, Decision, level, without_companions, without_values
from dprelease.schema.release_spec import Rules
from dprelease.statistics.base import Floats, Reading, kind_named
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.moments import Quotient

CELL_BYTES = 32
"""Every noisy integer is stored in this many bytes, big-endian, two's complement."""

assert 1 << (8 * CELL_BYTES - 1) > RAW_LIMIT

_WORD = 1 << 63
_WORDS = CELL_BYTES // 8

LEVEL = 0.95
"""Confidence level of the published intervals."""


_TEXTS = dict.fromkeys(("statistic", "mechanism", "block", "status"), pa.utf8())
_BOTH = *TIDY_NAMES[:4], *CERTAIN_NAMES, *TIDY_NAMES[4:]
TIDY = pa.schema({**dict.fromkeys(TIDY_NAMES, pa.float64()), **_TEXTS})
"""The tidy table's columns after the key columns, where the noise of no block has an end."""

_CERTAIN = pa.schema({**dict.fromkeys(_BOTH, pa.float64()), **_TEXTS})

_BOUND = attrgetter("law.bound")
"""Of a block: the most that its noise moves a cell, in steps; None where it has no end."""

_MAYBE_UNKNOWN = ("value", "lower", "upper", *CERTAIN_NAMES, "estimate", "unbiased", "consistent")


def _columns(blocks: Sequence[Block]) -> pa.Schema:
    return _CERTAIN if {*map(_BOUND, blocks)} != {None} else TIDY


def tidy_columns(plan: ReleasePlan) -> pa.Schema:
    """Return the columns after the key columns; without `consistent` where tables add up."""
    every = _columns(plan.blocks)
    return every if not plan.fitted else every.remove(every.get_field_index("consistent"))


@dataclass(frozen=True)
class Draw:
    """A drawn release.

    Attributes:
        table: the tidy table, `(groups x columns, keys + TIDY)`; without columns in a release of several tables.
        cells: per block, the noisy integers as drawn, `(groups, cells)`.
        parts: in a release of several tables, each table as a draw of its own, by name; else empty.
        fits: in a release of several tables, the values that add up, with their proofs (`fitted`).
        rows: of a table with several levels, the table and cell of each row; all_tables: of one of several, all.
    """

    plan: ReleasePlan
    table: pa.Table
    cells: Mapping[str, tuple[tuple[int, ...], ...]] = field(repr=False)
    receipt: Receipt = field(default_factory=lambda: Receipt("0", "0", ""))
    parts: Mapping[str, Draw] = field(default_factory=dict)
    fits: Mapping[str, Any] = field(default_factory=dict, repr=False)
    rows: tuple[tuple[str, int], ...] = field(default=(), repr=False)
    all_tables: PlannedTables | None = field(default=None, repr=False)

    @cached_property
    def published(self) -> Draw:
        """What files and pages show: all rows, but for the suppressed ones of a release with `sparse`."""
        rules, plan = self.plan.rules, self.plan
        if rules is None or not rules.sparse or not plan.keys:
            return self
        shown = pc.not_equal(self.table.column("status"), SUPPRESSED)
        each = self.table.num_rows // len(plan.keys)
        groups = np.asarray(shown)[::each]
        keys = tuple(key for key, stays in zip(plan.keys, groups.tolist(), strict=True) if stays)
        return replace(self, plan=replace(plan, keys=keys), table=self.table.filter(shown))


def assemble(
    by: Sequence[str],
    keys: Sequence[Sequence[str]],
    statistics: Sequence[PlannedStatistic],
    blocks: Sequence[Block],
    cells: Mapping[str, Sequence[Sequence[int]]],
    rules: Rules | None = None,
) -> pa.Table:
    """Return the tidy table for noisy `cells`: post-processing, the same bytes everywhere.

    Rows are ordered by group, then statistic, then bin. Works from a manifest alone (`verify`).
    """
    decision, usual = (None, {}) if rules is None else _decision(statistics, blocks, cells, rules)
    gone = 0 if decision is None else int(decision.suppressed.sum())
    confidence = LEVEL if rules is None else level(rules, len(keys) - gone, len(keys))
    drawn = {b.name: DrawnBlock(b, cells[b.name], confidence) for b in blocks}
    parts: dict[str, list[Any]] = {name: [] for name in _columns(blocks).names}
    counts = None
    for s in statistics:
        if s.text == s.function and kind_named(s.function).of_rows:
            counts = counts or (drawn[s.block].rows, drawn[s.block].values(s))
    for statistic in statistics:
        decides = decision is not None and statistic is decision.by
        found = read(statistic, usual if decides else drawn, counts)
        for name in set(CERTAIN_NAMES) & set(parts):
            sure = drawn[statistic.block].certain(statistic, found["value"])
            parts[name].append(sure[CERTAIN_NAMES.index(name)])
        for name, part in found.items():
            parts[name].append(part)
    parts["consistent"] = list(consistent(statistics, blocks, parts["value"]))
    if rules is not None:
        without_companions(statistics, parts, rules)
    if decision is not None:
        without_values(statistics, parts, decision)
    return tidy(by, keys, statistics, blocks, parts)


def read(
    statistic: PlannedStatistic,
    drawn: Mapping[str, DrawnBlock],
    counts: tuple[int | None, tuple[Any, ...]] | None,
) -> dict[str, Any]:
    """Return one statistic's columns of the tidy table, each `(groups, columns)`, but for `consistent` and certain ends.

    `counts`: the `max_rows` and values (`DrawnBlock.values`) of a released number of rows, if there is one.
    """
    block, statistic_kind = drawn[statistic.block], kind_named(statistic.function)
    values, lower, upper, status = block.values(statistic)
    rows = counts[1] if counts is not None and counts[0] == block.rows else None
    if chosen_by_rank(block.measurement, statistic_kind):
        within = None if rows is None else Known(rows[1][:, 0], rows[2][:, 0])
        same = (b for b in drawn.values() if counts_values(b.measurement, block.measurement))
        found = [known_values(b.measurement, b.reading) for b in same]
        known = all_of([k for k in found if k is not None], within, complete=block.complete)
        lower, upper, status = block.by_rank(statistic, known, (lower, upper, status))
    elif rows is not None and (statistic_kind.moment or isinstance(statistic_kind, Quotient)):
        status[rows[0][:, 0] <= 0] = "empty_signal"  # no row, no mean
    estimate, unbiased = block.companions(statistic)
    out = {"value": values, "lower": lower, "upper": upper, "status": status}
    return {**out, "estimate": estimate, "unbiased": unbiased}


def _decision(
    statistics: Sequence[PlannedStatistic],
    blocks: Sequence[Block],
    cells: Mapping[str, Sequence[Sequence[int]]],
    rules: Rules,
) -> tuple[Decision | None, dict[str, DrawnBlock]]:
    """Return which cells the rules suppress, by the noisy number that decides, and what it is read of."""
    rule = rules.suppress
    if rule is None or (by := deciding(statistics, rule)) is None:
        return None, {}
    block = next(b for b in blocks if b.name == by.block)
    drawn = DrawnBlock(block, cells[block.name], LEVEL)
    return Decision.decide(by, *drawn.number(by), by.threshold(rule.below)), {block.name: drawn}


def tidy(
    by: Sequence[str],
    keys: Sequence[Sequence[str]],
    statistics: Sequence[PlannedStatistic],
    blocks: Sequence[Block],
    parts: Mapping[str, list[Any]],
    by_group: Sequence[Sequence[PlannedStatistic]] = (),
) -> pa.Table:
    """Return the tidy table of `parts`: of every column, one array `(groups, columns)` per statistic.

    `by_group`: the statistics as drawn for every group, where groups have different blocks.
    """
    count = len(keys)
    paid = {b.name: float(b.epsilon) for b in blocks}
    columns = [c for s in statistics for c in s.columns]
    made = [s for own in by_group or [statistics] for s in own for _ in s.columns]
    epsilon = np.array([paid[s.block] for s in made]).reshape(-1, len(columns))
    parts = {**parts, "epsilon": [np.broadcast_to(epsilon, (count, len(columns)))]}
    names = {
        "statistic": columns * len(by_group or [statistics]),
        "mechanism": [s.mechanism for s in made],
        "block": [s.block for s in made],
    }
    # Labels repeat: each is made once and taken where it belongs.
    per_group = pa.array(np.repeat(np.arange(count), len(columns)))
    in_column = pa.array(np.arange(count * len(columns)) % len(made))
    arrays = {
        name: pa.array([key[i] for key in keys], pa.utf8()).take(per_group)
        for i, name in enumerate(by)
    }
    for column in _columns(blocks):
        if column.name in names:
            arrays[column.name] = pa.array(names[column.name], pa.utf8()).take(in_column)
        elif column.name in parts:  # tables that add up have no consistent values
            data = np.concatenate(parts[column.name], axis=1).ravel()
            missing = np.isnan(data) if column.name in _MAYBE_UNKNOWN else None
            arrays[column.name] = pa.array(data, column.type, mask=missing)
    return pa.table(arrays)


def as_raw(cells: Sequence[Sequence[int]]) -> Objects:
    """Return one block's noisy integers as an array, `(groups, cells)`."""
    return np.array(cells, dtype=object).reshape(len(cells), -1 if cells else 1)


class DrawnBlock:
    """One block's noisy integers, read back once for all its statistics; `confidence` is that of their intervals."""

    def __init__(self, block: Block, cells: Sequence[Sequence[int]], confidence: float) -> None:
        self.block = block
        self._law, self.measurement = block.law, block.measurement
        self.rows = self.measurement.max_rows
        self.complete = bool(self.measurement.data.get("complete"))
        raw = self._raw = as_raw(cells)
        self._cells = self._law.cells(raw)
        self.reading = self._law.reading(raw, confidence)
        self._empty = self._law.empty(raw)
        self._median, self._unbiased = self._law.companions(raw)

    def _seen(self, statistic: PlannedStatistic) -> tuple[Measurement, Floats, Reading]:
        return seen_by(statistic.view, self.measurement, self._cells, self.reading)

    def number(self, statistic: PlannedStatistic) -> tuple[Floats, float, float]:
        """Return a count's noisy numbers, before they are moved into its domain, `(groups,)`, their `reach` and `flat` (`Decision`)."""
        _, _, reading = self._seen(statistic)
        if reading.mix:
            own = reading.raw @ np.array(reading.mix[:1]).T
            return own[:, 0], float((reading.high[:, 0] - own[:, 0]).max(initial=0.0)), 0.0
        added: Any = self._law.added  # the plan refused a law that has none
        step = float(added.step_size)
        # of whole steps the last one below a threshold is a step away from it
        reach = (added.noise.quantile(reading.level) - 1 + float(added.rounding)) * step
        return float(added.offset) + step * reading.raw[:, 0], reach, step * added.noise.flat

    def companions(self, statistic: PlannedStatistic) -> tuple[Floats, Floats]:
        """Return (median-unbiased, unbiased) estimates, `(groups, columns)`, NaN where none."""
        statistic_kind = kind_named(statistic.function)
        measurement, _, reading = self._seen(statistic)
        none = np.full((reading.raw.shape[0], len(statistic.columns)), np.nan)
        kind = family_of(measurement)
        if kind.direct and statistic.view is None:
            middle = statistic_kind.finish(measurement, self._median)
            # A root of an unbiased estimate is biased: only the identity keeps expectations.
            probe = np.tile([[-2.0], [0.25], [4.0]], (1, self._unbiased.shape[1]))
            same = kind.centred and np.array_equal(statistic_kind.finish(measurement, probe), probe)
            unbiased = self._unbiased if same else none
        elif kind.direct and reading.mix:
            middle = unbiased = reading.raw @ np.array(reading.mix).T
        elif (estimate := statistic_kind.estimate(measurement, reading)) is not None:
            middle, unbiased = estimate, none
        else:
            middle, unbiased = none, none
        empty = self._empty & (not statistic_kind.of_rows)
        middle = np.where(empty[:, None], np.nan, middle)
        return np.clip(middle, *statistic.domain.hull), unbiased

    def values(
        self, statistic: PlannedStatistic
    ) -> tuple[Floats, Floats, Floats, npt.NDArray[np.object_]]:
        """Return (value, lower, upper, status), each `(groups, columns)`."""
        statistic_kind = kind_named(statistic.function)
        domain = statistic.domain
        low_end, high_end = domain.hull
        measurement, cells, reading = self._seen(statistic)
        value = to_domain(statistic_kind.finish(measurement, cells), domain, statistic.step)
        lower, upper = statistic_kind.interval(measurement, reading)
        empty = self._empty & (not statistic_kind.of_rows)  # no row is a number of rows
        nothing = empty[:, None]
        lower, upper = np.where(nothing, low_end, lower), np.where(nothing, high_end, upper)
        # An interval whose middle lies beyond an end of the domain is moved to that end, and keeps half its width.
        half = (upper - lower) / 2
        lower, upper = np.minimum(lower, high_end - half), np.maximum(upper, low_end + half)
        lower, upper, status = published_interval(statistic, value, (lower, upper), empty)
        if self.block.public:
            status[:] = "ok"
        return value, lower, upper, status

    def certain(self, statistic: PlannedStatistic, value: Floats) -> tuple[Floats, Floats]:
        """Return where the exact statistic lies for certain, `(groups, columns)`: NaN where that is not known."""
        if not self.block.certain(statistic.function):
            known = value if self.block.public else np.full(value.shape, np.nan)
            return known, known
        low, high = map(self._law.cells, self._law.certain(self._raw))
        return (
            outward(np.clip(low, *statistic.domain.hull), statistic.step, np.floor),
            outward(np.clip(high, *statistic.domain.hull), statistic.step, np.ceil),
        )

    def by_rank(self, statistic: PlannedStatistic, known: Known | None, read: Read) -> Read:
        """Return intervals and statuses of values chosen by rank; `known`: how many values they were chosen among."""
        few, hull, view = statistic.uninformative, statistic.domain.hull, statistic.view
        nothing = few is not None and few.groups == few.of
        lower, upper, status = by_rank(
            self.measurement, self._law, view, known, read, hull=hull, planned=nothing
        )
        step = statistic.step
        return outward(lower, step, np.floor), outward(upper, step, np.ceil), status


KEYS_END = b"\n"
"""What stands between found keys, as JSON, and their noisy integers in a payload."""


def payload_of(drawn: Sequence[Objects], keys: pa.Array | None) -> bytes:
    """Return the bytes that the ledger commits: of all blocks, or of found `keys` the published ones in order of text."""
    if keys is None:
        return b"".join(map(encode, drawn))
    raw = drawn[0][:, 0]
    places = np.flatnonzero(raw)
    texts = keys.take(pa.array(places)).to_pylist()
    pairs = sorted(zip(texts, raw[places], strict=True))
    numbers = encode(np.array([n for _, n in pairs], dtype=object))
    return canonical_json([key for key, _ in pairs]).encode() + KEYS_END + numbers


def width(plan: ReleasePlan) -> int | None:
    """Return the number of bytes of the plan's payload, a public constant; None where it depends on the keys found."""
    if plan.query.groups.found:
        return None
    return CELL_BYTES * sum(plan.groups(b) * len(b.cells) for b in plan.blocks)


def encode(raw: Objects) -> bytes:
    """Return the fixed-width bytes of one block's noisy integers, `(groups, cells)`."""
    flat = raw.ravel()
    if flat.size and max(flat.max(), -flat.min()) < _WORD:  # almost always: upper words are a sign
        low = flat.astype(np.int64)
        return np.stack([low >> 63] * (_WORDS - 1) + [low], axis=1).astype(">i8").tobytes()
    return b"".join(int(v).to_bytes(CELL_BYTES, "big", signed=True) for v in flat)


def decode(plan: ReleasePlan, payload: bytes) -> Cells:
    """Return the noisy integers of a committed payload."""
    payload = payload.partition(KEYS_END)[2] if plan.query.groups.found else payload
    *high, low = np.frombuffer(payload, dtype=">i8").reshape(-1, _WORDS).astype(np.int64).T
    if all(np.array_equal(word, low >> 63) for word in high):
        values = low.tolist()
    else:
        values = [
            int.from_bytes(payload[i : i + CELL_BYTES], "big", signed=True)
            for i in range(0, len(payload), CELL_BYTES)
        ]
    out: Cells = {}
    at = 0
    for block in plan.blocks:
        n, groups = len(block.cells), plan.groups(block)
        end = at + n * groups
        columns = [values[at + i : end : n] for i in range(n)]
        out[block.name] = tuple(zip(*columns, strict=True)) if n else ((),) * groups
        at = end
    return out
