"""Write the quotients of several tables: their critical values, their expected error, and in which way they are made.

Errors are those of the first order, at the expected number of rows of a cell and for a value anywhere in its
range alike: sqrt(var of the sum + t^2 var of the rows) / rows, t^2 its mean over the range.

Sources: `docs/theory/publications-that-add-up.md#quotients-of-fitted-cells`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from dprelease.allocation.goals import goal_missed, missed
from dprelease.core.numeric import figure
from dprelease.fitting.quotient import critical_values
from dprelease.measurements.candidate import Option
from dprelease.measurements.steps import check_step, fine_step
from dprelease.planning.prices import Size, size_of
from dprelease.planning.tables.families import deviation
from dprelease.planning.tables.fitting import Errors, Fitting, Recorded
from dprelease.planning.tables.quotients import QuotientSpan, TableQuotient, span_of
from dprelease.planning.write import planned, statistic_notes
from dprelease.query.spec import Query
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.tables import PlannedRatio

_WAYS = ("from the fitted sum and rows", "every table measured alone")


def planned_ratio(
    query: Query,
    quotient: TableQuotient,
    top: Fitting,
    bottom: Fitting,
    recorded: Recorded | None,
) -> tuple[PlannedStatistic, PlannedRatio]:
    """Return a quotient as it stands in a plan.

    Raises:
        PlanError: its `max_error` is missed (DPR240), its step does not meet its domain (DPR208, DPR213), or
            its table has too many kinds of cells (DPR286).
    """
    member, table = quotient.member, quotient.table
    span = span_of(quotient, top.family.members[table], bottom.family.members[table])
    critical = critical_values(
        top.estimator, bottom.estimator, table, span.low, span.high, bend=span.bend
    )
    spec = member.statistic.spec
    size = size_of(query, table)
    errors = _errors(query, top, bottom, table, span, size)
    if recorded is not None:
        critical = replace(critical, cells=recorded.critical(table, spec.name, critical.cells))
        errors = recorded.errors(table, spec.name, errors)
    fitted, _, alone = errors
    if missed(spec, fitted):
        raise goal_missed(spec, query.epsilon, fitted / float(spec.max_error or 1))
    step = spec.step or fine_step(member, fitted)
    check_step(member, step, public=False)
    block, mechanism = top.drawn_for(table)
    options = tuple(
        Option(mechanism, e, None, w) for e, w in zip((fitted, alone), _WAYS, strict=True)
    )
    unit = f" {member.measure}" if member.measure else ""
    made = planned(
        member,
        block=block,
        step=step,
        mechanism=mechanism,
        chosen=options,
        planned_error=fitted if size.known else None,
        error_text=f"±{figure(fitted)}{unit} at n={round(size.rows):,} (±{figure(alone)} if every table were measured alone)",
        sensitivity="not measured: computed from fitted cells",
        notes=(
            *statistic_notes(query, member, top.family.members[table].options[0]),
            _how_made(top, bottom, table),
        ),
        table=table,
    )
    sums = top.family.name, bottom.family.name
    return made, PlannedRatio(
        table,
        spec.name,
        *sums,
        span.start,
        critical.low,
        critical.high,
        critical.cells,
        critical.bend,
    )


def _how_made(top: Fitting, bottom: Fitting, table: str) -> str:
    """Return which way it is made, and what was measured for it."""
    unseen = [each.family.name for each in (top, bottom) if table in each.family.hidden]
    said = f"computed from the fitted {top.family.name} and {bottom.family.name} of this table"
    if not unseen:
        return f"{said}, at no cost"
    return f"{said}; {' and '.join(unseen)} is fitted for it and not published"


def _errors(
    query: Query, top: Fitting, bottom: Fitting, table: str, span: QuotientSpan, size: Size
) -> Errors:
    own, rows = top.variances(table), bottom.variances(table)

    def error(which: int) -> float:
        variance = max(0.0, own[which] + span.square * rows[which])
        unit = float(span.step) / (size.rows * span.each)
        return deviation(query.loss) * unit * math.sqrt(variance)

    return error(0), None, error(1)


def hidden_of(found: Fitting) -> list[PlannedStatistic]:
    """Return the family's numbers in tables that do not publish them: their domains, and where they are drawn."""
    out = []
    for table, member in found.family.members.items():
        if table not in found.family.hidden:
            continue
        block, mechanism = found.drawn_for(table)
        name = member.statistic.spec.name
        made = PlannedStatistic(
            name=name,
            text=member.statistic.spec.text,
            function=member.statistic.function,
            block=block,
            columns=(name,),
            domain=member.domain,
            step=member.options[0].step_size,
            measure="",
            mechanism=mechanism,
            chosen=(),
            planned_error=None,
            error_text="",
            sensitivity="",
            table=table,
        )
        out.append(made)
    return out
