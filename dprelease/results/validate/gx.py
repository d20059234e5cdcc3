"""What every released value must satisfy, as a suite of Great Expectations 1.x, for houses that validate with it.

The noised table becomes one long table (group, statistic, value, lower, upper, status), and the plan becomes a suite
over it: no wide table, whose cost grows with its columns. That the values lie on their steps and fit each other is
proved by the built-in rules (`validate.rules`), which look at every table first.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from dataclasses import replace
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
    """Wait until Great Expectations judges beside, or have it judge here: one that cannot is found before a charge.

    It imports PySpark where that is installed, and PySpark without its own `connect` dependencies
    ends the process at import (`SystemExit`), which no later stage could report.

    Raises:
        ConfigError: it cannot be imported, or cannot judge, as other versions (DPR173).
    """
    with suppress(Exception, SystemExit):  # any failure of a foreign import
        if not gx_process.ready():
            gx_process.try_out()
        return
    version = getattr(sys.modules.get(ENGINE), "__version__", None)
    raise ConfigError(
        "Great Expectations cannot be imported"
        if version is None
        else f"Great Expectations {version} cannot judge a release",
        why="it is of another version than is needed, or it, or PySpark which it imports where installed,"
        " lacks a dependency",
        fix=f"`pip install '{gx_process.NEEDED}'`, and `pyspark[connect]` beside it or no pyspark; then "
        "`python -c 'import great_expectations'` must succeed",
        code="DPR173",
    )


def gx_validate(noised: Draw) -> Verdict:
    """Return the verdict of Great Expectations on a drawn release in the shape of its plan; never raises on its values."""
    if noised.plan.tables is None:
        frame = long_table(noised)
        found = gx_process.judged(frame, expectations(noised.plan))
        return Verdict.from_rules(
            tuple(RuleResult(rule, "*", len(frame), n) for rule, n in found), ENGINE
        )
    rules = [  # one suite per table: that they add up, the built-in rules say
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

    def obey(rule: str, on: list[str], parameters: object) -> dict[str, Any]:
        return {"column_list": on, "rule": rule, "parameters": json.dumps(parameters)}

    groups, rules = plan.query.groups.count if late else len(plan.keys), plan.rules
    rows = groups * len(columns)
    count: tuple[str, dict[str, Any]] = ("table_row_count_to_equal", {"value": rows})
    if late or (rules is not None and rules.sparse):
        count = ("table_row_count_to_be_between", {"min_value": 0, "max_value": rows})
    none = ["status"] if plan.fitted else []
    gone = ["status"] if suppresses(plan) else none
    expected: list[tuple[str, str, dict[str, Any]]] = [
        ("shape", *count),
        ("groups", "compound_columns_to_be_unique", {"column_list": ["group", "statistic"]}),
        ("labels", "released_rows_to_obey", obey("among", [*labels], labels)),
        ("domain", "released_rows_to_obey", obey("domain", ["statistic", "value", *gone], domains)),
        (
            "consistent",
            "released_rows_to_obey",
            obey("domain", ["statistic", "consistent", *gone], domains),
        ),
        (
            "interval",
            "released_rows_to_obey",
            obey("interval", ["statistic", "lower", "upper", *none], without),
        ),
    ]
    return [
        {"type": f"expect_{kind}", "kwargs": arguments, "meta": {"rule": rule}}
        for rule, kind, arguments in expected
        if rule != "consistent" or not plan.fitted
    ]
