"""A plan for people: as a text table, as HTML for a notebook, as rows for anything else.

Everything shown is public. The text form is wrapped by the terminal's width where there is one.
"""

from __future__ import annotations

import html as escaping
import re
from collections.abc import Iterable
from textwrap import fill
from typing import TYPE_CHECKING

from dprelease.budget.composition import WORDS
from dprelease.core.numeric import counted, figure, plain
from dprelease.measurements.base import counts_values, family_of
from dprelease.query.nodes import compared
from dprelease.query.statistic import split_where
from dprelease.schema.unit import UserUnit
from dprelease.statistics.base import kind_named
from dprelease.statistics.measurement import Measurement

if TYPE_CHECKING:
    from rich.console import RenderableType

    from dprelease.measurements.candidate import Option
    from dprelease.query.spec import Query
    from dprelease.release_plan.plan import ReleasePlan
    from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.weak import weak_promise
from dprelease.release_plan.why_split import why_this_split

HEADERS = ("statistic", "domain", "sensitivity", "mechanism", "runner-up", "ε", "expected error")

INTERVALS = (
    "95 % intervals cover the statistic of the bounded, clamped data. They account for the noise, "
    "not for sampling error or the bias of bounding and clamping"
)
"""What the published intervals cover, in one line."""


_WIDE = 110
"""Columns that the table needs; below, words break within it."""


def rows(plan: ReleasePlan) -> list[tuple[str, ...]]:
    """Return one row of text per statistic, in `HEADERS` order."""
    return [_row(plan, s) for s in plan.statistics]


def _row(plan: ReleasePlan, statistic: PlannedStatistic) -> tuple[str, ...]:
    block = plan.block(statistic.block)
    shared = [s.name for s in plan.statistics if s.block == block.name and s.table == block.table]
    epsilon = f"{float(block.epsilon):.4g}" + (" shared" if len(shared) > 1 else "")
    label = statistic.text if statistic.name in statistic.text else statistic.name
    measured = statistic.table == block.table
    if statistic.table is not None:
        label = f"{statistic.table}: {label}"
    step = f" step {plain(statistic.step)}" if statistic.step != 1 else ""
    moved, error = statistic.sensitivity_text, statistic.error_text
    if isinstance(plan.unit, UserUnit) and kind_named(statistic.function).counting:
        called = dict(zip(("unit", "units"), _called(plan, plan.unit), strict=True))
        moved, error = (
            re.sub(r"\bunits?\b", lambda u: called[u[0]], said) for said in (moved, error)
        )
    return (
        label,
        f"{statistic.domain}{step}",
        moved,
        statistic.mechanism,
        "; ".join(_option(o, statistic) for o in _runners_up(statistic)) or "–",
        epsilon if measured else "–",
        error + warning(statistic),
    )


def warning(statistic: PlannedStatistic) -> str:
    """Return that a statistic may say nothing, or ""."""
    found = statistic.uninformative
    if found is None:
        return ""
    may = found.narrow or found.groups < found.of
    return f"; {'MAY SAY' if may else 'SAYS'} NOTHING, see below"


def _runners_up(statistic: PlannedStatistic) -> list[Option]:
    """The best of each other family, two at most."""
    seen = {statistic.mechanism}
    out = []
    for option in statistic.chosen[1:]:
        if option.mechanism not in seen:
            seen.add(option.mechanism)
            out.append(option)
    return out[:2]


def _all_options(plan: ReleasePlan, *, every: bool) -> Iterable[str]:
    for statistic in plan.statistics if every else ():
        yield f"{statistic.called} by each admissible mechanism, at the same share of ε:"
        for option in statistic.chosen:
            said = f"{_option(option, statistic)} {option.rank}".rstrip()
            yield f"  {said}{option.note and f' ({option.note})'}"


def _option(option: Option, statistic: PlannedStatistic) -> str:
    """Return a mechanism with its error, which may look smaller than that of the one that is used: that is compared everywhere."""
    error, own = option.expected_error, statistic.chosen[0].expected_error
    if error is None:
        return option.mechanism
    less = own is not None and float(f"{error:.3g}") < float(f"{own:.3g}")
    where = " near the declared size, no less over the whole domain" * less
    return f"{option.mechanism} ±{figure(error)}{where}"


def _called(plan: ReleasePlan, unit: UserUnit) -> tuple[str, str]:
    """Return what one unit and several are called: in the publisher's words, or as the guarantee names one of them."""
    given = None if plan.request is None else plan.request.schema.about.unit_name
    return (unit.column, unit.column) if given is None else (given.one, given.many)


def _summary(plan: ReleasePlan) -> Iterable[str]:
    yield plan.guarantee
    weak = weak_promise(plan.epsilon)
    if weak:
        yield weak
    by = ", ".join(plan.by)
    groups = f"{counted(len(plan.keys), 'public group')} by {by}" if by else "one group"
    if plan.query.groups.found:
        groups = f"keys of {by} that the draw finds; none is declared"
    if plan.tables is not None:
        each = ", ".join(f"{t.name} {len(t.keys):,}" for t in plan.tables.tables)
        groups = (
            f"{counted(len(plan.tables.tables), 'table')} that add up, of so many groups: {each}"
        )
    where = f", where {plan.where} (makes the number of rows private)" if plan.where else ""
    yield f"{groups}{where}; no row was read; plan {plan.hash[:12]}"
    for statistic in plan.statistics:
        if statistic.uninformative:
            yield f"{statistic.name} is {statistic.uninformative}"
    yield from plan.bounded_count_lines()
    split = why_this_split(plan)
    if split:
        yield split
    yield INTERVALS
    yield from plan.notes
    yield from plan.advice
    if plan.request is not None:
        yield from _in_steps(plan.request)
        yield from _uncounted(plan, plan.request)
        yield from _of_fewer_rows(plan)
        columns = [c for c in plan.request.schema.columns.values() if c.name in plan.by]
        if dropped := [f"`{c.name}`" for c in columns if c.values and c.other is None]:
            yield (
                f"rows of undeclared values of {', '.join(dropped)} are dropped; with `other: {{as: other}}` they are"
                " counted, and drift is seen"
            )
        time = plan.request.schema.time
        if time and not time.dates and time.timezone != "UTC":
            parts = (f"{part}({time.column})" for part in ("weekday", "hour"))
            yield from (f"`{p}` is in UTC, not in {time.timezone}" for p in parts if p in plan.by)
    yield from _also_priced(plan)


def _in_steps(query: Query) -> Iterable[str]:
    """Yield of which columns cells are moved to a step before they are compared, where a reader may not expect it."""
    read = [query.where, *(s.condition for s in query.statistics)]
    trees = [expression.tree for expression in read if expression is not None]
    trees += [column.made.tree for column in query.columns.values() if column.made]
    found = [pair for tree in trees for pair in compared(tree)]
    found += [(name, None) for c in query.columns.values() if c.made for name in c.made.columns]
    found += [(s.column.name, edge) for s in query.statistics if s.column for edge in s.edges]
    for name in dict.fromkeys(name for name, _ in found):
        column = query.columns[name]
        values = [value for of, value in found if of == name and value is not None]
        off = [value for value in values if column.finer_step(value) is not None]
        if column.step is not None and (off or not column.stepped):
            shown = ", ".join(str(plain(value)) for value in dict.fromkeys(off or values))
            yield (
                f"`{name}` is {f'compared with {shown}' if values else 'read in an expression'}{', on no step of it' if off else ''}:"
                f" its cells are moved to steps of {plain(column.step)} first, by up to {plain(column.step / 2)}"
            )


def _uncounted(plan: ReleasePlan, query: Query) -> Iterable[str]:
    """Yield which values are chosen by rank, while nothing that is released shows whether any value is known."""
    public = {s.spec.name for s in query.statistics if s.public_rows is not None}
    names = []
    for statistic in plan.statistics:
        measurement = plan.block(statistic.block).measurement
        ranked = not (family_of(measurement).interval or kind_named(statistic.function).linear)
        if ranked and statistic.name not in public and not _is_counted(measurement, plan):
            names.append(statistic.name)
    if names:
        yield (
            f"{', '.join(dict.fromkeys(names))}: nothing here counts the known values; without any, an allowed one comes all the"
            " same, with the status no_interval: a mean of the column beside it shows that"
        )


def _of_fewer_rows(plan: ReleasePlan) -> Iterable[str]:
    """Yield of statistics of some rows that `rows.expected`, for which their errors are stated, counts all rows."""
    names = [
        s.name
        for s in plan.statistics
        if split_where(s.text)[1] and family_of(plan.block(s.block).measurement).sized
    ]
    if names:
        yield (
            f"{', '.join(names)}: the error is stated, and a `max_error` is met, if all expected rows meet the condition; if half of"
            " them do, it is about twice as large"
        )


def _is_counted(chosen: Measurement, plan: ReleasePlan) -> bool:
    """Return whether anything released counts the values among which one is chosen (`measurements.known`)."""
    rows = [b.measurement for b in plan.blocks if b.measurement.max_rows == chosen.max_rows]
    same = (m for m in rows if counts_values(m, chosen))
    whole = (s for s in plan.statistics if s.text == s.function)
    counts = {s.block for s in whole if kind_named(s.function).of_rows}
    of_rows = (b for b in plan.blocks if b.measurement.max_rows == chosen.max_rows)
    counting = any(b.name in counts for b in of_rows)
    complete = bool(chosen.data.get("complete"))
    return any(family_of(m).counts_known(m) for m in same) or (complete and counting)


def _also_priced(plan: ReleasePlan) -> Iterable[str]:
    """What the other ways of composing would have cost, where the planner has just compared them."""
    if plan.composition is None or plan.request is None:
        return
    unit = (
        "error" if plan.request.epsilon else "epsilon"
    )  # goals alone are compared by what they cost
    best, method = dict(plan.composition.compared), plan.composition.method
    others = [
        f"{WORDS[name]} ({error / best[method] - 1:+.0%} {unit})"
        for name, error in best.items()
        if name != method and best[method] > 0
    ]
    if others:
        yield f"also priced: {', '.join(others)}"


def renderable(plan: ReleasePlan, width: int = 140, *, every: bool = False) -> RenderableType:
    """Return the plan with its summary, for a terminal: a table, or two lines per statistic where that is narrow.

    Args:
        every: name every admissible mechanism of each statistic, with its error.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    lines = [
        Text(line)
        for line in (*_all_options(plan, every=every), *map(plan.in_words, _summary(plan)))
    ]
    if width < _WIDE:
        found: list[RenderableType] = []
        for label, domain, sensitivity, mechanism, others, epsilon, error in rows(plan):
            found.append(Text.assemble((label, "bold"), f"  {error}  ε {epsilon}  {domain}"))
            after = "" if others == "–" else f", next {others.partition('; ')[0]}"
            text = f"  {mechanism}{after}; sensitivity {sensitivity}"
            found.append(Text(fill(text, width, subsequent_indent="  ")))
        return Group(*found, *lines)

    table = Table(show_lines=False, header_style="bold", expand=False)
    for header in HEADERS:
        right = header == "ε"
        table.add_column(header, justify="right" if right else "left", overflow="fold")
    for row in rows(plan):
        table.add_row(*(Text(cell) for cell in row))
    return Group(table, *lines)


def text(plan: ReleasePlan, width: int = 140) -> str:
    """Return the plan as plain text, `width` columns at most."""
    import io

    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=width, no_color=True, legacy_windows=False).print(
        renderable(plan, width)
    )
    return out.getvalue().rstrip()


def html(plan: ReleasePlan) -> str:
    """Return the plan as an HTML table, every text escaped."""
    head = "".join(f"<th style='text-align:left'>{escaping.escape(h)}</th>" for h in HEADERS)
    body = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{escaping.escape(c)}</td>" for c in row)
        + "</tr>"
        for row in rows(plan)
    )
    lines = "<br>".join(escaping.escape(line) for line in map(plan.in_words, _summary(plan)))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{lines}</p>"
