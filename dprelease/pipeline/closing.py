"""May a period be released now? Its calendar against a clock, and nothing of the data.

    closes(P) = the end of P plus `delay`

A period is charged and drawn once for good, so one that is still open is refused before the charge:
the rows that come later would be missing from it for ever. `--early` accepts that, and the release
says so: in the ledger's entry, in the manifest (`early`, the instant at which the period closes), in
report and index; and `latest` passes over it. `first` and `last` of the `period` block say which
periods the source holds at all; others are never released, early or not.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from dprelease.core.errors import ArgumentError, SourceError
from dprelease.core.periods import instant_text, parse_period
from dprelease.query.calendar import delay_text

if TYPE_CHECKING:
    from dprelease.pipeline.config import PeriodConfig, PipelineConfig


def closes_at(config: PipelineConfig, period: str) -> datetime | None:
    """Return when the period is over, `delay` counted, in UTC; None without a `period` block.

    Raises:
        ArgumentError: `period` is not one of this pipeline's (DPR640), or the calendar ends before
            it closes.
    """
    if config.period is None:
        return None
    _, end = parse_period(period, config.period.every, config.period.timezone)
    try:
        return end + config.period.delay
    except OverflowError:
        raise ArgumentError(
            f"the calendar ends before {period} closes", fix="name an earlier one", code="DPR640"
        ) from None


def in_declared_span(config: PipelineConfig, period: str) -> bool:
    """Return whether the period lies between `first` and `last`, where the pipeline names them."""
    rule = config.period
    # Names of one kind have one width, so they are in order as text.
    return rule is None or (rule.first or "") <= period <= (rule.last or period)


def declared_span(rule: PeriodConfig) -> str:
    """Return `from FIRST to LAST` as the pipeline names them; "" if it names none."""
    named = (("from", rule.first), ("to", rule.last))
    return " ".join(f"{word} {name}" for word, name in named if name)


def require_released_period(config: PipelineConfig, period: str) -> None:
    """Refuse a period outside `first` to `last`.

    Raises:
        SourceError: it is (DPR522).
    """
    rule = config.period
    if rule is not None and period in rule.skip:
        raise SourceError(
            f"{config.name} does not release {period}",
            where=rule.skip[period],
            why="the pipeline says that this period is never released",
            fix="name another period, or take it out of `skip`",
            code="DPR522",
        )
    if rule is None or in_declared_span(config, period):
        return
    raise SourceError(
        f"{config.name} does not release {period}",
        where=f"{config.origin}: period",
        why=f"its source holds periods {declared_span(rule)}, as `first` and `last` say; another one would spend"
        " the budget on no rows",
        fix="name a period that it holds, or move `first` and `last` when the source grows",
        code="DPR522",
    )


def still_open(config: PipelineConfig, period: str, closes: datetime) -> SourceError:
    """Return the refusal of a period that closes at `closes`, which lies ahead (DPR521)."""
    rule = config.period
    assert rule is not None
    counted = f", its delay of {delay_text(rule.delay)} counted" if rule.delay else ""
    file = config.origin.rpartition(":")[0]
    return SourceError(
        f"{rule.every} {period} is not over",
        where=f"{config.origin}: period",
        why=f"it closes at {instant_text(closes)}{counted}; a period is released once, and rows that"
        " come later would be missing from it for good",
        fix="run it then; or accept what is missing, which the release will say:"
        f" `dprelease run {file} --period {period} --early`",
        code="DPR521",
    )
