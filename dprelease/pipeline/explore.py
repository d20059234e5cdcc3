"""What a pipeline's release would be at other budgets, and what a wished-for accuracy costs.

Every answer is made by the planner from public metadata: it reads no row and spends nothing, so
one may ask as often as one likes. That is the time to think about epsilon; afterwards is too late.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from dprelease.budget.accountant import Cost
from dprelease.budget.lasting import MOST, whole, whole_of_members
from dprelease.budget.population import member_words
from dprelease.core.errors import UNREADABLE, ArgumentError, ConfigError, DpreleaseError
from dprelease.core.numeric import counted, exact, plain
from dprelease.core.periods import EXAMPLES
from dprelease.core.strict_json import MOST_BYTES, read_json
from dprelease.measurements.price import REFERENCE_SIZE
from dprelease.pipeline.config import PipelineConfig, load_pipeline
from dprelease.pipeline.planned import plan_pipeline
from dprelease.release_plan.curve import FACTORS, Curve, error_words, trace
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.promise import declaration_in, timeline_of
from dprelease.schema.naming import did_you_mean
from dprelease.schema.release_spec import StatisticSpec

_HIGHEST = Fraction(1000)
"""The largest epsilon that is worth a look."""


@dataclass(frozen=True, slots=True)
class Need:
    """What an expected error takes.

    Attributes:
        alone: epsilon of a release of this statistic only; in_all: of the whole release when
            every other statistic keeps what it has; None with a delta, where they do not add up.
        now: the error that the plan has; releases: how many the budget pays for at `in_all`.
    """

    statistic: str
    max_error: Fraction
    measure: str
    now: str
    alone: Fraction
    in_all: Fraction | None
    releases: int | None

    def to_json(self) -> dict[str, object]:
        return {
            "statistic": self.statistic,
            "max_error": str(plain(self.max_error)),
            "measure": self.measure,
            "error_now": self.now,
            "epsilon_alone": str(self.alone),
            "epsilon_in_all": None if self.in_all is None else str(self.in_all),
            "releases": self.releases,
        }

    def __str__(self) -> str:
        unit = f" {self.measure}" if self.measure else ""
        said = (
            f"{self.statistic} within ±{plain(self.max_error)}{unit} (now {self.now}) takes "
            f"epsilon {_short(self.alone)} alone"
        )
        if self.in_all is None:
            return said
        said += f"; {_short(self.in_all)} in all, if the other statistics keep theirs"
        if self.releases is not None:
            said += f" (the whole budget pays for {counted(self.releases, 'such release')})"
        return said


def explore(
    config: PipelineConfig,
    plan: ReleasePlan | None = None,
    factors: Iterable[Fraction] = FACTORS,
) -> Curve:
    """Return the expected errors of a pipeline's statistics at multiples of its epsilon.

    Where every statistic has a `max_error`, the curve is without these goals: with them there is
    nothing to choose.
    """
    config = _guessed(config)
    own = (plan or plan_pipeline(config)).epsilon
    statistics = config.release.statistics
    goals = all(s.max_error is not None for s in statistics)
    if goals:
        statistics = tuple(replace(s, max_error=None) for s in statistics)

    def make(epsilon: Fraction) -> ReleasePlan:
        release = replace(config.release, epsilon=epsilon, statistics=statistics)
        return plan_pipeline(replace(config, release=release))

    curve = trace(own, make, (f for f in factors if own * f <= _HIGHEST))
    note = (
        "Shown without the `max_error` goals, which fix every statistic's share." if goals else ""
    )
    return replace(curve, note=note)


def needed(config: PipelineConfig, name: str, max_error: Fraction, plan: ReleasePlan) -> Need:
    """Return what it takes to bring a statistic's expected error down to `max_error`.

    Args:
        name: the published name, or the statistic as it is written.
        max_error: in the statistic's unit.
        plan: the pipeline's plan, for what is there now.

    Raises:
        ArgumentError: there is no such statistic (DPR613).
        PlanError: no epsilon up to 1000 does, or the error cannot be known (DPR241, DPR242).
    """
    at = next(
        (i for i, s in enumerate(config.release.statistics) if name in (s.name, s.text)), None
    )
    if at is None:
        names = [s.name for s in config.release.statistics]
        raise ArgumentError(
            f"the release has no statistic `{name}`",
            where=config.release.origin or config.origin,
            fix=did_you_mean(name, names, f"it has: {', '.join(names)}"),
            code="DPR613",
        )
    config = _guessed(config)
    spec = config.release.statistics[at]
    goal = replace(spec, max_error=max_error, share=None)

    def least(statistics: tuple[StatisticSpec, ...]) -> Fraction:
        release = replace(config.release, epsilon=Fraction(0), statistics=statistics)
        return plan_pipeline(replace(config, release=release)).epsilon

    alone = least((goal,))
    statistic = next(s for s in plan.statistics if s.name == spec.name)
    in_all = None
    if plan.delta == 0:
        # Statistics that share a draw are brought along: what one of them needs, all get.
        block = {s.name for s in plan.statistics if s.block == statistic.block}
        members = tuple(
            goal if s.name == spec.name else replace(s, max_error=None, share=None)
            for s in config.release.statistics
            if s.name in block
        )
        here = alone if len(members) == 1 else least(members)
        in_all = plan.epsilon - plan.block(statistic.block).epsilon + here
    return Need(
        statistic=spec.name,
        max_error=max_error,
        measure=statistic.measure,
        now=error_words(plan, statistic),
        alone=alone,
        in_all=in_all,
        releases=None if in_all is None else releases_left(config, plan, in_all),
    )


def wish(text: str) -> tuple[str, Fraction]:
    """Return the statistic and the error of `NAME=ERROR`, e.g. `mean_age=0.5` or `count=±2`.

    Raises:
        ArgumentError: it does not read so, or the error is not above 0 (DPR612).
    """
    name, equal, error = text.rpartition("=")
    try:
        value = exact(error.strip().removeprefix("±"))
    except ArgumentError:
        value = Fraction(0)
    if not name.strip() or not equal or not isinstance(value, Fraction) or value <= 0:
        raise ArgumentError(
            f"`{text[:60]}` is not an accuracy goal",
            where="--max-error",
            fix="a statistic's name and an error above 0 in its unit, e.g. `--max-error count=2`",
            code="DPR612",
        )
    return name.strip(), value


def releases_left(config: PipelineConfig, plan: ReleasePlan, epsilon: Fraction) -> int | None:
    """Return how many releases at `epsilon` the whole budget pays for, and the population's; None if not by a sum.

    At most `MOST` if periods are told apart, or the dataset is of a population.
    """
    terms, every, delta = config.budget.population, config.period, config.budget.delta
    if "zcdp" in (config.budget.composition, terms and terms.composition) or epsilon <= 0:
        return None
    period = "" if every is None else every.first or EXAMPLES[every.every]
    found = math.floor(config.budget.epsilon / epsilon)
    if plan.delta:
        found = min(found, math.floor(delta / plan.delta))
    if period and (line := timeline_of(plan)).apart:
        budget, cost = (
            Cost.budget(config.budget.epsilon, delta),
            Cost.rounded_up(epsilon, plan.delta),
        )
        found = whole(budget, cost, line, period)
    if terms is None:
        return found
    return min(found, whole_of_members(terms, declaration_in(plan), epsilon, plan.delta, period))


def releases_words(config: PipelineConfig, plan: ReleasePlan, epsilon: Fraction) -> str:
    """Return the same as text; "" if it is not known."""
    left = releases_left(config, plan, epsilon)
    if left is None:
        return ""
    bounded = config.budget.population is not None or timeline_of(plan).apart
    return f"at least {MOST}" if left == MOST and bounded else f"{left:,}"


def shared_words(config: PipelineConfig) -> str:
    """Return what stands beside a dataset's epsilon, after its figure: its delta, and its population's budget."""
    delta = f", delta {plain(config.budget.delta)}" if config.budget.delta else ""
    if (terms := config.budget.population) is None:
        return delta
    member = member_words(terms.name, terms.interval)
    return f"{delta}, with epsilon {plain(terms.budget.epsilon)} for {member} over all tables"


def plan_of(path: str | Path) -> ReleasePlan:
    """Return the plan of a pipeline file, of a published folder, or of its `release.json`.

    Raises:
        ConfigError: it is none of these (DPR181), or the pipeline file is faulty.
    """
    place = Path(path)
    file = place / "release.json" if place.is_dir() else place
    if file.suffix != ".json":
        return plan_pipeline(load_pipeline(file))
    try:
        with file.open("rb") as stream:
            manifest = read_json(stream.read(MOST_BYTES + 1))
        if isinstance(manifest, Mapping):
            return ReleasePlan.from_json(manifest["plan"])
    except (*UNREADABLE, OSError, DpreleaseError):
        pass
    raise ConfigError(
        "there is no plan to compare with",
        where=str(place),
        why="a plan is in a pipeline file, or in the `release.json` of a published folder",
        fix="name one of these, e.g. `--against public/clinic_weekly/2026-W46`",
        code="DPR181",
    )


def _guessed(config: PipelineConfig) -> PipelineConfig:
    """Return the pipeline with a guess of the group size, the one that the planner reckons with."""
    rows = config.schema.rows
    if rows.expected is not None or rows.expected_by_key:
        return config
    schema = replace(config.schema, rows=replace(rows, expected=rows.exact or REFERENCE_SIZE))
    return replace(config, schema=schema)


def _short(epsilon: Fraction) -> str:
    """Return epsilon to four digits, rounded up: what is asked for must be enough."""
    places = max(0, 3 - math.floor(math.log10(float(epsilon))))
    return f"{math.ceil(epsilon * 10**places) / 10**places:.4g}"
