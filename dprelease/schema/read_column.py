"""A column's declaration: its domain, its step, its public values, and what a null becomes.

The shape was checked by `models`; here is what relates several keys: ends on the step's grid,
defaults inside their domain, keys that fit the kind.

A number column without `step` gets the largest power of ten of which every end is a multiple and
that cuts the range into at least 1000 steps: [0, 120] gets 0.1, [0, 0.25] gets 0.0001.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import Exact, exact, plain
from dprelease.schema.column import NUMERIC, Column, Kind
from dprelease.schema.declaration_file import DeclarationFile
from dprelease.schema.domain import Domain
from dprelease.schema.models import As, ColumnModel, NullDefault
from dprelease.schema.paths import read_keys

LEAST_STEPS = 1000
LIST = re.compile(r"[\w-]{1,64}/[\w-]{1,64}@[0-9a-f]{64}", re.ASCII)
KEYED = (Kind.category, Kind.boolean)
_FITS: Mapping[str, tuple[Kind, ...]] = {
    "measure": NUMERIC,
    "range": (*NUMERIC, Kind.date, Kind.timestamp),
    "forbidden": NUMERIC,
    "step": NUMERIC,
    "expected": NUMERIC,
    "values": (Kind.category,),
    "values_from": (Kind.category,),
    "other": (Kind.category,),
}


def read_column(file: DeclarationFile, name: str, model: ColumnModel) -> Column:
    """Return the column that a block of the file declares; ConfigError for what does not fit it (DPR111 to DPR117, DPR157, DPR158)."""
    kind = Kind(model.kind)
    for key in model.model_fields_set & _FITS.keys():
        if kind not in _FITS[key] and getattr(model, key) is not None:
            file.fail(
                f"`{key}` does not fit a column of kind {kind}",
                key,
                fix=f"remove it, or use kind {' or '.join(_FITS[key])}",
                code="DPR158",
            )
    days = model.range if isinstance(model.range, tuple) else None
    if model.range is not None and (days is None) is (kind not in NUMERIC):
        file.fail(
            f"the range of a column of kind {kind} is two {'days' if kind not in NUMERIC else 'numbers'}",
            "range",
            fix="e.g. [2024-01-01, 2025-12-31]" if kind not in NUMERIC else "e.g. [0, 120]",
            code="DPR114",
        )
    domain = None if days else _domain(file, model)
    step = _step(file, kind, model, domain)
    column = Column(
        name=name,
        kind=kind,
        domain=domain,
        step=step,
        stepped=model.step is not None or kind is Kind.integer,
        measure=model.measure,
        **(_values(file, name, model) if kind is Kind.category else {}),
        other=model.other.label if isinstance(model.other, As) else None,
        expected_sd=_expected_sd(file, model, domain),
        derived=model.derived,
        days=days,
        title=model.title,
        description=model.description,
        origin=file.line_of(),
    )
    return _nulls(file, column, model)


def _domain(file: DeclarationFile, model: ColumnModel) -> Domain | None:
    if model.range is None:
        if model.forbidden:
            file.fail(
                "`forbidden` needs a `range`",
                "forbidden",
                fix="add e.g. `range: [0, 120]`",
                code="DPR114",
            )
        return None
    try:
        domain = Domain(model.range[0], model.range[1], forbidden=model.forbidden)
        ends = [exact(end, "end") for end in model.range]
        for pair in model.forbidden:
            low, high = (exact(end, "end") for end in pair)
            if high <= ends[0] or low >= ends[1]:
                file.fail(
                    f"the forbidden interval ({low}, {high}) lies outside the range",
                    "forbidden",
                    why="it forbids nothing: values there are clamped into the range anyway",
                    fix="take it out, or widen the range",
                    code="DPR114",
                )
        return domain
    except ArgumentError as error:
        key = "forbidden" if "forbidden" in error.what else "range"
        fix = error.fix or "write two finite numbers, the smaller one first"
        file.fail(error.what, key, why=error.why, fix=fix, code="DPR114")


def _step(
    file: DeclarationFile, kind: Kind, model: ColumnModel, domain: Domain | None
) -> Fraction | None:
    if kind is Kind.integer and any(end.denominator != 1 for end in _ends(domain)):
        file.fail(
            "an integer column's range and forbidden intervals end at whole numbers",
            "range",
            fix="round the ends, or use `kind: number`",
            code="DPR114",
        )
    if model.step is not None:
        return _declared_step(file, kind, model.step, _ends(domain))
    if kind is Kind.integer:
        return Fraction(1)
    if domain is None or not domain.is_finite:
        return None
    step = _default_step(domain)
    if step is None:
        file.fail(
            "no decimal step fits the range",
            "range",
            why="an end is not a decimal number",
            fix=f"add `step: {plain(_common_step(_ends(domain)))}`, or round the ends",
            code="DPR114",
        )
    return step


def _expected_sd(
    file: DeclarationFile, model: ColumnModel, domain: Domain | None
) -> Fraction | None:
    """Return the public guess of the standard deviation: above 0, at most half the range."""
    if model.expected is None:
        return None
    sd = model.expected.sd
    if domain is None or not domain.is_finite:
        file.fail(
            "a guess of the standard deviation needs a `range`",
            "expected",
            "sd",
            fix="add e.g. `range: [0, 120]`",
            code="DPR114",
        )
    most = Fraction(domain.width) / 2
    if not isinstance(sd, Fraction) or not 0 < sd <= most:
        file.fail(
            f"no values in {domain} have that standard deviation",
            "expected",
            "sd",
            why=f"a standard deviation is above 0 and at most half the range, {plain(most)}",
            fix="give a guess in the column's unit, or remove it",
            code="DPR114",
        )
    return sd


def _declared_step(
    file: DeclarationFile, kind: Kind, step: Exact, ends: list[Fraction]
) -> Fraction:
    """Return the step that the file names, once every end is a multiple of it."""
    whole = kind is Kind.integer
    if not isinstance(step, Fraction) or step <= 0 or (whole and step.denominator != 1):
        wanted = "a whole number" if whole else "a finite number"
        fix = "e.g. `step: 1`" if whole else "e.g. `step: 0.1`"
        file.fail(f"`step` must be {wanted} above 0", "step", fix=fix, code="DPR114")
    off = next((end for end in ends if end % step), None)
    if off is not None:
        proposal = _common_step([*ends, step])
        file.fail(
            f"{plain(off)} is not a multiple of the step {plain(step)}",
            "step",
            why="a value clamped to that end would be rounded out of the range",
            fix=f"use `step: {plain(proposal)}`, or move the end",
            code="DPR114",
        )
    return step


def _values(file: DeclarationFile, name: str, model: ColumnModel) -> dict[str, Any]:
    """Return a category's values, and the published lists that they are from; none where they are yet to be found."""
    said = model.values_from
    lists = () if said is None or isinstance(said, str) else tuple(said.keys)
    stated = bool(lists) and all(map(LIST.fullmatch, lists))
    if model.values is not None and said is not None and not stated:  # a request has both
        file.fail(
            f"the category `{name}` needs either `values` or `values_from`",
            why="both say its group keys",
            fix="remove one of them",
            code="DPR111",
        )
    if isinstance(said, str):
        path = file.path(said, "values_from")
        return {
            "values": tuple(key for (key,) in read_keys(path, (name,), file.line_of("values_from")))
        }
    if model.values is None and said is not None:
        at = "values_from", "keys"
        inside = {text: file.path(text, *at) for text in lists}
        folders = tuple(  # by their own names, where these are links such as `latest`
            path
            if text.endswith("..")
            else file.path(str(Path(text).parent), *at) / Path(text).name
            for text, path in inside.items()
        )
        try:
            read = read_lists(folders, name, file.line_of(*at))
            labels = {m.label for m in (model.other, model.nulls) if isinstance(m, As)}
            for label in labels.intersection(read["values"]):
                file.fail(
                    f"`{label}` is a key of the list",
                    why="its rows and those that are not listed, or null, would be one group",
                    fix="write another label behind `as`",
                    code="DPR157",
                )
        except ConfigError as unread:  # no plan, unless a debit fixed them: the ledger has its copy
            read = {"unread": unread}
        return {"folders": folders, **read}
    if model.values is None:
        return {}
    seen: set[str] = set()
    for i, value in enumerate(model.values):
        if value in seen:
            file.fail(
                f"the value `{value}` appears twice",
                "values",
                i,
                fix="remove one of them",
                code="DPR157",
            )
        seen.add(value)
    if not seen:
        file.fail(
            "`values` is empty",
            "values",
            fix="list at least one value",
            code="DPR157",
        )
    return {"values": tuple(model.values), "lists": lists}


def read_lists(folders: Iterable[Path], *named: Any) -> dict[str, Any]:
    """Return the keys of published folders, as `reading.key_list`: by name, for no stage imports a later one."""
    found: dict[str, Any] = import_module("dprelease.reading.key_list").read_lists(folders, *named)
    return found


def _nulls(file: DeclarationFile, column: Column, model: ColumnModel) -> Column:
    if isinstance(model.nulls, As):
        if column.kind not in KEYED:
            file.fail(
                "`nulls: {as: …}` names a group key",
                "nulls",
                why=f"a column of kind {column.kind} is not a group key",
                fix="use `nulls: drop` or `nulls: {default: VALUE}`",
                code="DPR158",
            )
        return replace(column, nulls="as", null_label=model.nulls.label)
    if not isinstance(model.nulls, NullDefault):
        return column
    value = model.nulls.default
    if column.kind is Kind.boolean and isinstance(value, bool):
        return replace(column, nulls="default", null_default=Fraction(int(value)))
    if column.kind not in NUMERIC:
        fix = "use true or false" if column.kind is Kind.boolean else "use `nulls: drop`"
        if column.kind is Kind.category:
            fix = f"use `nulls: {{as: {value}}}`, a value of the column or a further one, or `nulls: drop`"
        file.fail(
            f"this default does not fit a column of kind {column.kind}",
            "nulls",
            fix=fix,
            code="DPR158",
        )
    try:
        number = exact(value, "the default")
    except ArgumentError as error:
        file.fail(error.what, "nulls", fix="write a number", code="DPR113")
    domain, step = column.domain, column.step
    fits = isinstance(number, Fraction) and (step is None or number % step == 0)
    if not fits or (domain is not None and not domain.has(Fraction(number))):
        near = domain.nearest(number) if domain and isinstance(number, Fraction) else None
        file.fail(
            f"the default {plain(number)} is not an allowed value of `{column.name}`",
            "nulls",
            why=f"allowed: {domain}" + (f" in steps of {plain(step)}" if step else ""),
            fix=f"e.g. {{default: {plain(near)}}}" if near is not None else "choose another",
            code="DPR114",
        )
    return replace(column, nulls="default", null_default=Fraction(number))


def _ends(domain: Domain | None) -> list[Fraction]:
    pieces = domain.exact_pieces if domain is not None else ()
    return [end for piece in pieces for end in piece if isinstance(end, Fraction)]


def _default_step(domain: Domain) -> Fraction | None:
    """Return the default step of a finite domain (see the module's docstring), or None."""
    ends = _ends(domain)
    width = domain.width
    assert isinstance(width, Fraction)
    bottom = math.lcm(*(end.denominator for end in ends))
    for prime in (2, 5):
        while bottom % prime == 0:
            bottom //= prime
    if bottom != 1:
        return None  # no power of ten divides the ends
    step = Fraction(10) ** len(str(int(width)))
    while any(end % step for end in ends) or (width and width / step < LEAST_STEPS):
        step /= 10
    return step


def _common_step(ends: list[Fraction]) -> Fraction:
    """Return the greatest number of which all of `ends` are multiples."""
    bottom = math.lcm(*(end.denominator for end in ends))
    top = math.gcd(*(int(end * bottom) for end in ends))
    return Fraction(top or 1, bottom)
