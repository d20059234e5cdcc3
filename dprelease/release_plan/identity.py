"""A plan's identity: the hash of what it decides, the same on every machine and allowed version.

Hashed are the request's side of a plan (keys, filter, window, domains, steps, what is measured, what is
charged) and every law. Words are not, nor are figures that inform (expected errors, rivals) nor the
certificate, which follows from the law: floating point differs between versions of numpy, and between
processors, in its last digits, and a run that crashed after its debit must go on after an upgrade.

What a solver or a root finder proposes of a law is hashed to nine digits. The wall certifies the
integers themselves, whichever they are; nine digits of them, and of how far they are from the next
power of two, fix the law's scale to a billionth.

Limits  A number at a rounding edge of its ninth digit: about one in 10^5 where its last digits differ.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from dprelease.core.numeric import MOST_DIGITS
from dprelease.core.strict_json import canonical_json
from dprelease.measurements.law import PROPOSED

_WORDS = frozenset({"measure", "sensitivity", "error_text", "notes", "remark"})
"""What a plan says of a statistic in words: it decides nothing that is drawn or charged."""

_FIGURES = frozenset({"options", "planned_error", "group_errors", "uninformative"})
"""What it says of a statistic in figures, from floating point: what to expect, and of which rivals."""

_CLOSE = PROPOSED | {"laws"}
"""Of a law, what floating point proposes; `laws` are the sides of a box, which share their epsilon by it."""

_RATIONAL = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}(/0*[1-9][0-9]{{0,{MOST_DIGITS}}})?", re.ASCII)
_NINE = Context(prec=9)


def plan_hash(value: Mapping[str, Any]) -> str:
    """Return the hash of a plan's JSON, as it stands in a manifest."""
    decided = _without_words(value, _WORDS | _FIGURES)
    decided["blocks"] = [
        {
            name: _law(part) if name == "law" else part
            for name, part in block.items()
            if name != "certificate"
        }
        for block in value["blocks"]
    ]
    if isinstance(value["query"], Mapping) and value["query"].get("late"):
        decided["keys"] = []  # its draw found them
    if value.get("tables") is not None:
        decided["tables"] = _tables(value["tables"])
    return _digest(decided)


def former_hash(value: Mapping[str, Any]) -> str:
    """Return the hash that versions up to 0.2.0 took of a plan: of its figures' last digits as well.

    Their debits and folders name it, and stay good.
    """
    return _digest(_without_words(value, _WORDS))


def is_hash_of(digest: str, value: Mapping[str, Any]) -> bool:
    """Return whether `digest` is of this plan, whichever version took it."""
    return digest in (plan_hash(value), former_hash(value))


def _digest(decided: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(decided).encode()).hexdigest()


def _without_words(value: Mapping[str, Any], left_out: frozenset[str]) -> dict[str, Any]:
    statistics = [_decided(statistic, left_out) for statistic in value["statistics"]]
    return {**value, "notes": None, "statistics": statistics}


def _decided(statistic: Mapping[str, Any], left_out: frozenset[str]) -> dict[str, Any]:
    return {name: part for name, part in statistic.items() if name not in left_out}


def _tables(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is decided of several tables; widths of intervals are searched in floating point."""
    hidden = [_decided(statistic, _WORDS | _FIGURES) for statistic in value.get("hidden", ())]
    fits = [
        {**fit, "tables": [{**part, "halves": _nine(part["halves"])} for part in fit["tables"]]}
        for fit in value.get("fits", ())
    ]
    ratios = [{**ratio, "critical": _nine(ratio["critical"])} for ratio in value.get("ratios", ())]
    return {**value, "hidden": hidden, "fits": fits, "ratios": ratios}


def _law(law: Any) -> Any:
    """Return a law's JSON with what is proposed of it in nine digits."""
    if isinstance(law, list | tuple):
        return [_law(part) for part in law]
    if not isinstance(law, Mapping):
        return law
    return {name: (_nine if name in _CLOSE else _law)(part) for name, part in law.items()}


def _nine(value: Any) -> Any:
    """Return JSON data with its numbers, integers and rationals as text included, in nine digits."""
    if isinstance(value, list | tuple):
        return [_nine(part) for part in value]
    if isinstance(value, Mapping):
        return {name: _nine(part) for name, part in value.items()}
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        if not _RATIONAL.fullmatch(value):
            return value
        value = Fraction(value)
    if isinstance(value, float):
        return str(_NINE.plus(Decimal(value)))
    number = Fraction(value)
    near = _NINE.divide(Decimal(number.numerator), Decimal(number.denominator))
    if number.denominator > 1:
        return str(near)
    short = (1 << abs(number.numerator).bit_length()) - abs(number.numerator)
    return [str(near), str(_NINE.plus(Decimal(short)))]
