"""`index.json`: the whole series for programs, `index/1`.

    periods   name, window, scheduled instant, loss, ledger entry, standing, where its folder is
    budget    the pipeline's own losses added up; the dataset's, as of the newest ledger entry
    tracks    per published column: definition, and per group one [value, lower, upper, status]
              (or null) for each period, in the order of `periods`

Losses are exact "p/q" strings. Withdrawn periods keep their values here, marked: the record is
complete, and what to leave out is the reader's choice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from dprelease.series.collect import Key, Period, Series, Track, Value

__all__ = ["FILE", "VERSION", "spent_on", "summary", "write"]

FILE = "index.json"
VERSION = "index/1"


def write(series: Series) -> bytes:
    """Return the file: strict JSON, a line per period and per group.

    Raises:
        ValueError: a NaN or an infinity, which strict JSON cannot hold.
    """
    lines = [f"{_text(k)}:{_text(v)}" for k, v in summary(series).items()]
    lines.append('"periods":' + _listed([_text(_period(p)) for p in series.periods]))
    texts = _keys(series)
    lines.append('"tracks":' + _listed([_track(t, texts) for t in series.tracks]))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def summary(series: Series) -> dict[str, Any]:
    """Return the file's content without its periods and tracks."""
    newest = max(series.periods, key=_sequence, default=None)
    total = spent_on(series.periods)
    return {
        "dprelease": VERSION,
        "pipeline": series.pipeline,
        "dataset": newest.dataset if newest else None,
        "by": list(series.by),
        "budget": {
            "pipeline_epsilon": str(total[0]),
            "pipeline_delta": str(total[1]),
            "dataset_spent": str(newest.budget[0]) if newest and newest.budget else None,
            "dataset_total": str(newest.budget[1]) if newest and newest.budget else None,
        },
        "corrections_head": series.corrections[-1].hash if series.corrections else None,
        "unreadable": list(series.unreadable),
    }


def spent_on(periods: Sequence[Period]) -> tuple[Fraction, Fraction]:
    """Return the epsilon and delta of all periods together, withdrawn ones too: spent is spent."""
    return (
        sum((p.epsilon for p in periods), Fraction(0)),
        sum((p.delta for p in periods), Fraction(0)),
    )


def _period(period: Period) -> dict[str, Any]:
    standing = period.correction
    return {
        "period": period.name,
        "href": f"{period.name}/",
        "window": None if period.window is None else list(period.window),
        "scheduled": period.scheduled,
        "epsilon": str(period.epsilon),
        "delta": str(period.delta),
        "adjacency": period.adjacency,
        "unit": period.unit,
        "plan_hash": period.plan_hash,
        "release_sha256": period.release,
        "ledger": None if period.ledger is None else dict(period.ledger),
        "status": "published" if standing is None else standing.word,
        "correction": None
        if standing is None
        else {"reason": standing.reason, "at": standing.at, "by": standing.by, "hash": standing.hash},
    }


def _sequence(period: Period) -> tuple[int, str]:
    return (int(period.ledger["seq"]) if period.ledger else -1, period.name)


def _keys(series: Series) -> dict[Key, str]:
    """Return every group's key as JSON: tracks share groups and groups share labels."""
    keys = dict.fromkeys(key for track in series.tracks for key in track.lines)
    labels = {label: _text(label) for label in {label for key in keys for label in key}}
    return {key: f"[{','.join([labels[label] for label in key])}]" for key in keys}


def _track(track: Track, texts: Mapping[Key, str]) -> str:
    """Return one track; `texts` are the keys as JSON."""
    statistic = track.statistic
    head = _text(
        {
            "column": track.column,
            "statistic": statistic.text,
            "measure": statistic.measure,
            "step": str(statistic.step),
            "domain": statistic.domain.to_json(),
        }
    )
    groups = [
        f'{{"key":{texts[key]},"values":[{",".join([_value(v) for v in line])}]}}'
        for key, line in track.lines.items()
    ]
    return f'{head[:-1]},"groups":{_listed(groups)}}}'


def _value(value: Value | None) -> str:
    if value is None:
        return "null"
    text = f"{value.value!r},{value.lower!r},{value.upper!r}"
    if "n" in text:  # None, nan, inf: numbers have none
        text = _text(value[:3])[1:-1]
    return f"[{text},{_status(value.status)}]"


@cache
def _status(word: str) -> str:
    return _text(word)


def _listed(items: Sequence[str]) -> str:
    return "[\n" + ",\n".join(items) + "\n]" if items else "[]"


def _text(value: Any) -> str:
    return _STRICT.encode(value)


_STRICT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
