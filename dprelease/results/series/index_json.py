"""`index.json`: the whole series for programs, `index/1`.

    periods   name, window, scheduled instant, the instant it closes if it was released early, loss,
              ledger entry, status, where its folder is
    budget    what the pipeline's own periods cost one unit together; the dataset's, as of the newest
              ledger entry; `person`: what they cost a whole person, where the unit is one of their
              intervals (null: no bound)
    keys      where periods are signed: the public keys, with fingerprint and days of publication
    tracks    per published column (of several tables, per table and column): definition, and per group one [value, lower, upper, status]
              (or null) for each period, in the order of `periods`; lower and upper are null for
              a choice by rank. Where noise ends, certain_lower and certain_upper follow the status

Losses are exact "p/q" strings. Withdrawn periods keep their values here, marked: the record is
complete, and what to leave out is the reader's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dprelease.budget.person import PersonLoss
from dprelease.core.codec import encode
from dprelease.core.strict_json import json_text
from dprelease.release_plan.statistic import CERTAIN_NAMES
from dprelease.results.formats.text_columns import joined, lines, one_array, shortest
from dprelease.results.series.collect import Period, PublishedSeries, Track
from dprelease.results.series.lines import NUMBERS, Key
from dprelease.results.series.over_time import series_loss
from dprelease.results.signature_file import fingerprint

FILE = "index.json"
VERSION = "index/1"

_OF_CORRECTION = "reason", "at", "by", "hash"
"""What is said of a period's correction."""


def write(series: PublishedSeries) -> bytes:
    """Return the file: strict JSON, a line per period and per group.

    Raises:
        ValueError: a NaN or an infinity, which strict JSON cannot hold.
    """
    parts = [f"{json_text(k)}:{json_text(v)}".encode() for k, v in summary(series).items()]
    periods = ",\n".join([json_text(_period(p)) for p in series.periods])
    parts.append(b'"periods":' + (f"[\n{periods}\n]".encode() if periods else b"[]"))
    groups: Sequence[Key] = ()
    keys, tracks = _keys(groups), []
    for track in series.tracks:
        if track.lines.groups is not groups:  # nearly all tracks share theirs
            groups = track.lines.groups
            keys = _keys(groups)
        tracks.append(_track(track, keys))
    parts.append(b'"tracks":' + (b"[\n%b\n]" % b",\n".join(tracks) if tracks else b"[]"))
    return b"{\n%b\n}\n" % b",\n".join(parts)


def summary(series: PublishedSeries) -> dict[str, Any]:
    """Return the file's content without its periods and tracks."""
    newest, total = newest_entry(series), series_loss(series.periods)
    line = newest.line if newest else None
    return {
        "dprelease": VERSION,
        "pipeline": series.pipeline,
        "title": newest.words.title if newest else None,
        "dataset": newest.dataset if newest else None,
        "by": list(series.by),
        "budget": {
            "pipeline_epsilon": str(total.epsilon),
            "pipeline_delta": str(total.delta),
            "dataset_spent": str(newest.budget[0]) if newest and newest.budget else None,
            "dataset_total": str(newest.budget[1]) if newest and newest.budget else None,
            **({"person": encode(total.person, PersonLoss | None)} if line and line.per else {}),
        },
        **({"keys": keys} if (keys := _signing_keys(series.periods)) else {}),
        "corrections_head": series.corrections[-1].hash if series.corrections else None,
        "unreadable": list(series.unreadable),
    }


def _signing_keys(periods: Sequence[Period]) -> list[dict[str, Any]]:
    """Return each key that signed a period, with the days from and to which it did."""
    days: dict[str, list[str]] = {}
    for period in periods:
        if period.signed_by is not None:
            days.setdefault(period.signed_by, []).append(period.published or "")
    return [
        {"public_key": key, "fingerprint": fingerprint(key), "from": min(used), "to": max(used)}
        for key, used in sorted(days.items(), key=lambda item: (min(item[1]), item[0]))
    ]


def newest_entry(series: PublishedSeries) -> Period | None:
    """Return the period with the newest ledger entry."""
    return max(series.periods, key=_sequence, default=None)


def _period(period: Period) -> dict[str, Any]:
    correction = period.correction
    return {
        "period": period.name,
        "href": f"{period.name}/",
        "window": None if period.window is None else list(period.window),
        "scheduled": period.scheduled,
        "early": period.early,
        "epsilon": str(period.epsilon),
        "delta": str(period.delta),
        "over_time": period.over_time or None,
        "adjacency": period.adjacency,
        "unit": period.unit,
        "plan_hash": period.plan_hash,
        "release_sha256": period.release,
        **({} if period.signed_by is None else {"public_key": period.signed_by}),
        "ledger": None if period.ledger is None else dict(period.ledger),
        "status": "published" if correction is None else correction.word,
        "correction": correction and {n: getattr(correction, n) for n in _OF_CORRECTION},
    }


def _sequence(period: Period) -> tuple[int, str]:
    return (int(period.ledger["seq"]) if period.ledger else -1, period.name)


def _track(track: Track, keys: pa.Array) -> bytes:
    """Return one track; `keys` are its groups as JSON, and every cell is made column by column."""
    statistic = track.statistic
    head = json_text(
        {
            **({} if track.table is None else {"table": track.table, "by": list(track.by)}),
            "column": track.column,
            "statistic": statistic.text,
            "title": track.title,
            "measure": statistic.measure,
            "step": str(statistic.step),
            "domain": statistic.domain.to_json(),
        }
    )
    more = CERTAIN_NAMES if track.lines.certain else ()
    # Of all periods at once: each call costs more than a period's few values.
    made, count = _values(pa.concat_tables(track.lines.aligned()), more), len(keys)
    apart = [made.slice(at, count) for at in range(0, len(made), count)] if count else []
    values = joined(apart, ",") if apart else keys
    groups = joined(['{"key":', keys, ',"values":[', values, "]}"], "")
    if not len(keys):
        return f'{head[:-1]},"groups":[]}}'.encode()
    return lines(f'{head[:-1]},"groups":[\n', [groups], "", ",\n")[:-2] + b"\n]}"


def _keys(groups: Sequence[Key]) -> pa.Array:
    """Return groups as JSON; they share labels, so each label is written once."""
    labels = {label: json_text(label) for label in {label for key in groups for label in key}}
    made = (f"[{','.join([labels[label] for label in key])}]" for key in groups)
    return pa.array(made, pa.large_utf8())


def _values(period: pa.Table, more: Sequence[str]) -> pa.Array:
    """Return every row's `[value, lower, upper, status]`, and `more`, by group; `null` where it has none."""
    numbers = []
    for name in (*NUMBERS, *more):
        column = period[name]
        if pc.any(pc.invert(pc.is_finite(column))).as_py():
            raise ValueError("a NaN or an infinity: strict JSON cannot hold it")
        numbers.append(shortest(column, missing="null"))
    coded = one_array(period["status"]).dictionary_encode()
    words = pa.array(map(json_text, coded.dictionary.to_pylist()), pa.large_utf8()).take(
        coded.indices
    )
    parts = [*numbers[: len(NUMBERS)], words, *numbers[len(NUMBERS) :]]
    made = joined(["[", joined(parts, ","), "]"], "")
    return pc.fill_null(made, "null")
