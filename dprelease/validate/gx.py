"""The same rules as a Great Expectations 1.x suite, for houses that validate with it.

The noised table becomes one long table (group, statistic, value, lower, upper, status and one
partner column per joint rule), and the plan becomes a suite over it: no wide table, whose cost
grows with its columns. What is expected is plain data: it is looked at here (`gx_judge`) or in a process beside this
one (`gx_beside`).

It is imported inside functions only (`gx_import`: a second or more), and its side effects are undone: it
redirects warnings into logging and emits deprecation warnings at import.

Limits  Rules on steps and joint rules are in floats here, exact in `validate.rules`; a step whose
        multiples exceed 2**53 is left to the exact rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dprelease.errors import ConfigError
from dprelease.formats.tidy_rows import group_places
from dprelease.noised import Noised, tidy_columns
from dprelease.release_plan.plan import ReleasePlan
from dprelease.validate import gx_beside, gx_release
from dprelease.validate.gx_import import undisturbed
from dprelease.validate.gx_judge import OBEY, ROWS, UNIQUE, Expected, judged, suite
from dprelease.validate.gx_release import COLUMNS, group_labels
from dprelease.validate.joint import JointRule, joint_rules
from dprelease.validate.rules import STATUSES, has_tidy_columns
from dprelease.validate.verdict import RuleResult, Verdict

if TYPE_CHECKING:
    import pandas as pd
    from great_expectations import ExpectationSuite

ENGINE = "great_expectations"


def require_great_expectations() -> None:
    """Import Great Expectations now, or wait until it is imported beside: a broken installation is found before a charge.

    It imports PySpark where that is installed, and PySpark without its own `connect` dependencies
    ends the process at import (`SystemExit`), which no later stage could report.

    Raises:
        ConfigError: it cannot be imported (DPR173).
    """
    if gx_beside.is_ready():
        return
    failed = False
    try:
        with undisturbed():
            pass
    except (Exception, SystemExit):  # noqa: BLE001 - any failure of a foreign import
        failed = True
    if failed:
        raise ConfigError(
            "Great Expectations cannot be imported",
            why="it, or PySpark which it imports where installed, lacks a dependency",
            fix="install `pyspark[connect]` beside it, or uninstall pyspark; then "
            "`python -c 'import great_expectations'` must succeed",
            code="DPR173",
        )


def expectation_suite(plan: ReleasePlan) -> ExpectationSuite:
    """Return the suite of a plan, over the columns of `long_table`."""
    return suite(_expected(plan, group_labels(plan.keys)))


def gx_validate(noised: Noised) -> Verdict:
    """Return the verdict of Great Expectations on a drawn release; never raises on its values."""
    if (
        noised.plan.tables is not None
    ):  # one suite per table: that they add up, the built-in rules say
        found = [(name, gx_validate(part)) for name, part in noised.parts.items()]
        rules = [
            replace(r, statistic=f"{name}.{r.statistic}") for name, v in found for r in v.rules
        ]
        return Verdict.of(tuple(rules), ENGINE)
    if not has_tidy_columns(noised.table, noised.plan):
        rows = noised.table.num_rows
        return Verdict.of((RuleResult("shape", "*", rows, max(rows, 1)),), ENGINE)
    groups = group_labels(noised.plan.keys)
    frame, expected = _table(noised, groups), _expected(noised.plan, groups)
    broken = gx_beside.judged(frame, expected)
    if broken is None:
        broken = judged(frame, expected)
    return Verdict.of(tuple(RuleResult(rule, "*", len(frame), n) for rule, n in broken), ENGINE)


def long_table(noised: Noised) -> pd.DataFrame:
    """Return the long table: `(rows, 7 + joint rules)`; `group` is the key as JSON text."""
    return _table(noised, group_labels(noised.plan.keys))


def _table(noised: Noised, groups: list[str]) -> pd.DataFrame:
    import pandas as pd

    plan, keys, table = noised.plan, len(noised.plan.by), noised.table
    # Texts repeat: as categories they are hashed once, not row by row for every expectation.
    columns = {}
    parts = tidy_columns(plan)
    for name in (name for name in COLUMNS if name in parts.names):
        column = table.column(keys + parts.get_field_index(name))
        text = name in ("statistic", "status")
        columns[name] = (column.dictionary_encode() if text else column).to_pandas()
    joint = [(rule.first.columns[0], rule.second.columns[0]) for rule in joint_rules(plan)]
    return gx_release.long_table(pd.DataFrame(columns), _groups(noised, groups), joint)


def _groups(noised: Noised, labels: list[str]) -> pd.Series:
    """Return every row's `group_label`, `labels` being those of the plan's keys; `(rows,)`."""
    import pandas as pd

    plan, table = noised.plan, noised.table
    places = group_places(table, plan)
    if (places < 0).any():
        undeclared = [table.column(i).to_pylist() for i in range(len(plan.by))]
        return pd.Series(group_labels(zip(*undeclared, strict=True)), dtype="category")
    return pd.Series(pd.Categorical.from_codes(places, categories=pd.Index(labels)))


def _expected(plan: ReleasePlan, groups: list[str]) -> list[Expected]:
    """Return the expectations of a plan; `groups` are the labels of its keys."""
    columns = {c: s for s in plan.statistics for c in s.columns}
    small = {
        c: [s.step.numerator, s.step.denominator]
        for c, s in columns.items()
        if max(map(abs, s.domain.hull)) * s.step.denominator < 2.0**53
    }
    domains = {c: [list(piece) for piece in s.domain.pieces] for c, s in columns.items()}
    without = [c for c, s in columns.items() if not plan.block(s.block).has_interval]
    labels = {
        "group": groups,
        "statistic": list(columns),
        "status": list(STATUSES),
    }
    value, beside = ["statistic", "value"], () if plan.fitted else ("consistent",)

    def obey(rule: str, on: list[str], name: str, parameters: Mapping[str, Any]) -> Expected:
        return name, OBEY, {
            "column_list": on,
            "rule": rule,
            "parameters": json.dumps(parameters, allow_nan=True),
            "ignore_row_if": "never",
        }  # fmt: skip

    expected: list[Expected] = [
        ("shape", ROWS, {"value": len(plan.keys) * len(columns)}),
        ("groups", UNIQUE, {"column_list": ["group", "statistic"], "ignore_row_if": "never"}),
        *(
            obey("among", [name, "value"], {"status": "status"}.get(name, "groups"), {name: known})
            for name, known in labels.items()
        ),
        obey("finite", value, "finite", {}),
        obey("domain", value, "domain", domains),
        *(obey("domain", ["statistic", name], name, domains) for name in beside),
        obey("interval", ["statistic", "lower", "upper"], "interval", {"none": without}),
        *(
            obey("joint", [*value, f"joint_{i}"], rule.name, _joint(rule))
            for i, rule in enumerate(joint_rules(plan))
        ),
    ]
    if len(small) == len(columns):
        expected.append(obey("step", value, "step", small))
    return expected


def _joint(rule: JointRule) -> dict[str, Any]:
    return {
        "kind": rule.kind,
        "first": rule.first.columns[0],
        "low": float(rule.low),
        "high": float(rule.high),
        "s_first": float(rule.first.step),
        "s_second": float(rule.second.step),
    }
