"""`derive`: an expression over published values, with intervals, at no privacy cost.

Everything is a function of published numbers and public laws: post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dprelease.core.caller import plain_values
from dprelease.core.errors import ArgumentError
from dprelease.mechanisms.arguments import check_level
from dprelease.query import nodes as n
from dprelease.query.nodes import Node
from dprelease.reading.called import called
from dprelease.reading.derived import Derived, keyed
from dprelease.reading.evaluation import Evaluation, Periods, result_keys
from dprelease.reading.grammar import STANDING_ALONE, Across, parse
from dprelease.reading.interval import Method, certain_ends, intervals
from dprelease.reading.measurement import MeasuredValue
from dprelease.reading.projection import reach
from dprelease.reading.public_table import PublicLike, PublicTable
from dprelease.reading.quantity import Function, Quantity
from dprelease.reading.ranking import ranked, topmost
from dprelease.results.draw import LEVEL
from dprelease.results.rules import SUPPRESSED

_HIDDEN = (
    "a suppressed cell can have any value, so each may belong there in place of one that is listed:"
    " of few listed groups can be said that they do"
)
_LIFTED = "a number near the threshold may be there by its noise alone: only its published interval allows for that"
_PART = "what a suppressed cell is part of has no value here"
_CONFIDENCE = "a group that does not belong to the true top is so far ahead with a chance of at most 1 less its confidence"

COLUMNS = ("value", "lower", "upper", "status", "method")
Row = tuple[float | None, float | None, float | None, str, Method]


def _no_group() -> ArgumentError:
    return ArgumentError(
        "there is nothing to compute with: the release has no group",
        why="a list of keys is empty where no key has enough persons",
        fix="read another period",
        code="DPR618",
    )


def derive(
    periods: Periods,
    expression: str,
    *,
    by: Sequence[str] | None = None,
    public: PublicLike | None = None,
    level: float = 0.95,
    name: str | None = None,
    certain: bool = False,
    source: str = "",
) -> Derived:
    """Return the expression's values for every row of `by`; `certain`: with where they lie for certain, at the level 1.

    Raises:
        ConfigError: the expression does not parse (DPR120 to DPR129, DPR162 to DPR164).
        ArgumentError: it cannot be computed (DPR618, DPR660 to DPR667; DPR662 too where it has no certain interval), or `level` is none (DPR625).
    """
    level = plain_values(level)
    check_level(level)
    level = 1.0 if certain else float(level)  # a Decimal, too
    current = periods.current
    table = None if public is None else PublicTable(public, (*current.levels, *current.by))
    own, names = current.names, () if table is None else table.names
    others = {name: values.names for name, values in current.others.items()}
    tree = parse(_one_text(expression), own, names, others, current.own_name)
    keys = result_keys(tree, current, by)
    evaluation = Evaluation(periods, keys, table)
    alone = tree.how if isinstance(tree, Across) and tree.how in STANDING_ALONE else None
    ranks = alone == "rank"
    inner: Node = tree.operand if isinstance(tree, Across) and alone else tree
    used = [row for row in evaluation.rows if not evaluation.lacks(inner, row)] or evaluation.rows
    found = [evaluation.quantity(inner, row) for row in used]
    if not found:
        raise _no_group()
    rows = ranked(found, level, certain=certain) if ranks else finished(found, level)
    domain = (
        (1.0, float(len(found)))
        if ranks
        else (min(q.domain[0] for q in found), max(q.domain[1] for q in found))
    )
    whole = keyed(keys, used, COLUMNS, rows)
    notes = evaluation.remarks(inner, used)
    notes += () if certain else _less_sure(evaluation, found, () if ranks else rows, level)
    match tree:
        case Across(how="top", weights=n.Literal(value=float(count))):
            sure = topmost(found, int(count), certain=certain)
            notes += (_CONFIDENCE, *(_HIDDEN,) * any(q.suppressed for q in found))
            confidence = pa.array(sure.values(), pa.float64())
            whole = whole.take(pa.array(sure, pa.int64())).append_column("confidence", confidence)
    return Derived(
        expression=expression,
        table=whole,
        name=expression if name is None else name,
        level=level,
        domain=domain,
        source=source,
        keys=keys,
        notes=notes,
        called=called({"": current}, many_tables=False),
    )


def _one_text(expression: object) -> str:
    if not isinstance(expression, str) or not expression.strip():
        kind = type(expression).__name__
        what = "an expression is one text, not " + ("empty" if kind == "str" else f"of type {kind}")
        fix = 'write one call for each, e.g. derive("late / count", name="share late")'
        raise ArgumentError(what, where="derive(...)", fix=fix, code="DPR660")
    return expression


def finished(found: Sequence[Quantity], level: float) -> list[Row]:
    """Return (value, lower, upper, status, method) of each row; the interval holds the value. A choice by rank has none."""
    if level < 1 and all(map(by_rank, found)):
        return [(q.value, None, None, _of_rank(q), "none") for q in found]
    ends = certain_ends(found) if level == 1 else intervals(found, level)
    return [
        _finished(q, *(q.shown if q.shown and level == LEVEL else own[:2]), own[2])
        for q, own in zip(found, ends, strict=True)
    ]


def _less_sure(
    of: Evaluation, found: Sequence[Quantity], rows: Sequence[Row], level: float
) -> tuple[str, ...]:
    """Say what intervals do not take into account, and at which level there is one: choices by rank have one at 95 %."""
    rules = of.periods.current.noised.plan.rules
    computed = level != LEVEL or not all(q.shown for q in found)
    lifted = (_LIFTED,) * bool(rules and rules.suppress and computed)
    if any(q.suppressed and not q.shown for q in found):
        lifted += (_PART + "; a coarser table may have it" * bool(of.periods.current.others),)
    for quantity, row in zip(found, rows, strict=False):
        if row[3] == "uninformative" and isinstance(quantity.form, Function):
            lower = round(reach(quantity, LEVEL), 2)
            if not 0 < lower < level or finished([quantity], lower)[0][3] == "uninformative":
                break
            return (*lifted, f"what says nothing here has an interval at the level {lower:g}")
    return lifted


def by_rank(quantity: Quantity) -> bool:
    """Return whether it is one published choice by rank, whose error is known in rows alone."""
    form = quantity.form
    return isinstance(form, MeasuredValue) and not form.of.has_interval


def _of_rank(quantity: Quantity) -> str:
    silent = "uninformative" if quantity.weak else "no_interval"
    return SUPPRESSED if quantity.suppressed else silent


def _finished(quantity: Quantity, lower: float, upper: float, method: Method) -> Row:
    low, high = quantity.domain
    value = quantity.value
    if quantity.suppressed:  # what its own noise says of it was not published
        return None, lower, upper, SUPPRESSED, method
    if value is not None:
        value = min(max(value, low), high)
        lower, upper = min(lower, value), max(upper, value)
    unbounded = lower <= low and upper >= high and low < high
    vague = quantity.weak and (quantity.shown is not None or 2 * (upper - lower) >= high - low)
    if value is None or unbounded or vague:
        status = "uninformative"
    else:
        status = "at_bound" if value in (low, high) and low < high else "ok"
    return value, lower, upper, status, method
