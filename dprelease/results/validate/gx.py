"""What every released value must satisfy, as a suite of Great Expectations 1.x, for houses that validate with it.

The noised table becomes one long table (group, statistic, value, lower, upper, status), and the plan becomes a suite
over it: no wide table, whose cost grows with its columns. That the values lie on their steps and fit each other is
proved by the built-in rules (`validate.rules`), which look at every table first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING, Any

from dprelease.core.errors import ConfigError
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw
from dprelease.results.formats.tidy_rows import group_places
from dprelease.results.validate import gx_process, gx_release
from dprelease.results.validate.gx_release import group_labels
from dprelease.results.validate.rules import STATUSES, suppresses
from dprelease.results.validate.verdict import RuleResult, Verdict

if TYPE_CHECKING:
    import pandas as pd

ENGINE = "great_expectations"


def require_great_expectations() -> None:
    """Wait until Great Expectations judges beside; where it is imported here or no process can be started, have it judge here.

    It imports PySpark where that is installed, and PySpark without its own `connect` dependencies
    ends the process at import (`SystemExit`), which no later stage could report. An import that ends
    the process beside, or does not end, is not repeated here.

    Raises:
        ConfigError: it cannot be imported, or cannot judge, as other versions (DPR173).
    """
    with _told():
        if not gx_process.ready():
            if gx_process.begin():
                raise ImportError(ENGINE)
            gx_process.try_out()


@contextmanager
def _told() -> Iterator[None]:
    """Let any failure of a foreign import, and an end of the process by it, be DPR173."""
    try:
        yield
    except (Exception, SystemExit):  # noqa: BLE001 - whatever foreign code raises
        version = ""
        with suppress(Exception):
            version = f" {metadata.version(ENGINE)}"
        raise ConfigError(
            f"Great Expectations{version} cannot be imported, or cannot judge a release",
            why="it is of another version than is needed; or it, or PySpark which it imports where installed,"
            " lacks a dependency, ends its process or never ends to be imported",
            fix=f"`pip install '{gx_process.NEEDED}'`, and `pyspark[connect]` beside it or no pyspark; then "
            "`python -c 'import great_expectations'` must succeed",
            code="DPR173",
        ) from None


def gx_validate(noised: Draw) -> Verdict:
    """Return the verdict of Great Expectations on a drawn release in the shape of its plan; never raises on its values.

    Raises:
        ConfigError: it cannot judge any more (DPR173).
    """
    if noised.plan.tables is None:
        frame, suite = long_table(noised), expectations(noised.plan)
        with _told():
            found = gx_process.judged(frame, suite)
        rules = [RuleResult(rule, "*", len(frame), n) for rule, n in found]
    else:  # one suite per table: that they add up, the built-in rules say
        rules = [
            replace(rule, statistic=f"{name}.{rule.statistic}")
            for name, part in noised.parts.items()
            for rule in gx_validate(part).rules
        ]
    return Verdict.from_rules(tuple(rules), ENGINE)


def long_table(noised: Draw) -> pd.DataFrame:
    """Return the long table: `(rows, 7)`; `group` is the key as JSON text."""
    import pandas as pd

    plan, table = noised.plan, noised.table
    # Texts repeat: as categories they are hashed once, not row by row for every expectation.
    tidy = table.select(range(len(plan.by), table.num_columns))
    frame = tidy.to_pandas(strings_to_categorical=True)
    labels = pd.Index([*group_labels(plan.keys), "undeclared"])
    groups = pd.Categorical.from_codes(group_places(table, plan) % len(labels), categories=labels)
    return gx_release.long_table(frame, groups)


def expectations(plan: ReleasePlan) -> list[dict[str, Any]]:
    """Return the suite of a plan, over the columns of `long_table`, as Great Expectations reads it."""
    columns = {c: s for s in plan.statistics for c in s.columns}
    domains = {c: s.domain.pieces for c, s in columns.items()}
    without = [c for c, s in columns.items() if not plan.block(s.block).has_interval]

    late = plan.query.groups.found and not plan.keys  # nothing is drawn yet
    labels = {} if late else {"group": group_labels(plan.keys)}
    labels |= {"statistic": [*columns], "status": [*STATUSES]}

    def expect(rule: str, kind: str, asked: dict[str, Any]) -> dict[str, Any]:
        return {"type": f"expect_{kind}", "kwargs": asked, "meta": {"rule": rule}}

    def obey(rule: str, how: str, on: list[str], parameters: object) -> dict[str, Any]:
        asked = {"column_list": on, "rule": how, "parameters": json.dumps(parameters)}
        return expect(rule, "released_rows_to_obey", asked)

    rows = len(columns) * (plan.query.groups.count if late else len(plan.keys))
    count: tuple[str, dict[str, Any]] = ("table_row_count_to_equal", {"value": rows})
    if late or (plan.rules is not None and plan.rules.sparse):
        count = ("table_row_count_to_be_between", {"min_value": 0, "max_value": rows})
    none = ["status"] if plan.fitted else []
    gone = ["status"] if suppresses(plan) else none
    suite = [
        expect("shape", *count),
        expect("groups", "compound_columns_to_be_unique", {"column_list": ["group", "statistic"]}),
        obey("labels", "among", [*labels], labels),
        obey("domain", "domain", ["statistic", "value", *gone], domains),
        obey("consistent", "domain", ["statistic", "consistent", *gone], domains),
        obey("interval", "interval", ["statistic", "lower", "upper", *none], without),
    ]
    return [one for one in suite if one["meta"]["rule"] != "consistent" or not plan.fitted]
