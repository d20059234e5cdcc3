"""Guards of `dprelease/statistics/sensitivity.py`: what one unit can move, and what the engine is asked."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_here = partial(
    Guard,
    file="statistics/sensitivity.py",
    tests=(
        "tests/statistics/test_sensitivity.py",
        "tests/wall/test_recompute.py",
        "tests/contracts/test_sensitivities.py",
    ),
)
_sums = partial(Guard, tests=("tests/contracts/test_sums_of_groups.py",))
_own = partial(Guard, tests=("tests/contracts/test_own_values.py",))
_intervals = partial(Guard, tests=("tests/contracts/test_persons_of_intervals.py",))

GUARDS = (
    _intervals(
        "a window meets one interval, however long it is",
        file="query/bounded.py",
        old="    return per.first_day(window.start) != per.first_day(",
        new="    return per.first_day(window.start) == per.first_day(",
    ),
    _intervals(
        "a release without a period meets one interval",
        file="query/bounded.py",
        old="        return per is not None\n",
        new="        return False\n",
    ),
    _intervals(
        "persons of several intervals are added up in tables",
        file="planning/tables/families.py",
        old="    met = several_met(query.intervals, query.window)\n",
        new="    met = False\n",
    ),
    _intervals(
        "persons of several intervals are added up by who computes with them",
        file="reading/released_values.py",
        old="several = query.max_groups > 1 or query.meets_several",
        new="several = query.max_groups > 1",
    ),
    _intervals(
        "a person of several intervals has the rows of one",
        file="reading/per_row.py",
        old=" and not query.meets_several:",
        new=":",
    ),
    _sums(
        "a sum of groups has the rows of one of them",
        file="statistics/sensitivity.py",
        old="most = bounds.groups * bounds.rows\n",
        new="most = bounds.rows\n",
    ),
    _sums(
        "a sum of groups counts a unit of several once",
        file="wall/sums_of_groups.py",
        old='if "persons" in kinds and bounds.groups > 1:',
        new="if False:",
    ),
    _sums(
        "persons are counted in other cells than those that are drawn",
        file="wall/sums_of_groups.py",
        old='others = any(p.kind == "persons_in_cells" and p.cells != of for p in used)',
        new="others = False",
    ),
    _sums(
        "persons of cells are drawn by their groups",
        file="wall/recompute.py",
        old="    elif any(p.cells for p in used):",
        new="    elif False:",
    ),
    _sums(
        "a map that leaves groups out passes for one of them all",
        file="wall/sums_of_groups.py",
        old="whole = len(of) == groups and",
        new="whole =",
    ),
    _own(
        "ranks of one group pass for those of a cell of several",
        file="wall/sums_of_groups.py",
        old="    if any(p.near is not None for p in used):",
        new="    if False:",
    ),
    _own(
        "a form that no sums make is drawn of sums of groups",
        file="wall/recompute.py",
        old="if found is None or measurement.form not in OF_SUMS or",
        new="if found is None or",
    ),
    _own(
        "a plan counts the values near the ranks of groups, and draws cells of several",
        file="planning/prices.py",
        old="if block.table in self.sums:",
        new="if False:",
    ),
    _own(
        "rows of other groups of a cell are not counted below a value",
        file="statistics/exact.py",
        old="np.add.reduceat(out[:, 3] - out[:, 2], first)",
        new="(out[:, 3] - out[:, 2])[first]",
    ),
    _own(
        "what no sums make is planned of sums of groups",
        file="planning/tables/families.py",
        old="options = tuple(filter(of_sums, block.options))",
        new="options = block.options",
    ),
    _own(
        "a table's share is forgotten where nothing of it is fitted",
        file="planning/tables/families.py",
        old="            if table.spec.share is not None:",
        new="            if False:",
    ),
    _own(
        "rows of several levels hold values that add up to nothing",
        file="planning/tables/detail.py",
        old="    if alone is not None:",
        new="    if False:",
    ),
    _own(
        "what is fitted leaves nothing for the other values",
        file="planning/tables/make.py",
        old="        whole -= own_part(frame.families, frame.own, query.loss)",
        new="",
    ),
    _here(
        "a unit has one row per group",
        old="m = 1 if measurement.per_unit else bounds.rows",
        new="m = 1",
    ),
    _here(
        "a unit has rows in one group only",
        old="everywhere = bounds.groups * m\n",
        new="everywhere = m\n",
    ),
    _here(
        "a replaced unit only leaves, it does not come back",
        old="2 * everywhere * added)",
        new="everywhere * added)",
    ),
    _here(
        "a replaced unit changes the groups of one table only",
        old="changed_groups=min(groups, 2 * bounds.groups),",
        new="changed_groups=min(groups, bounds.groups),",
    ),
    _here(
        "a replaced unit moves once per group",
        old="chain_length=2 * bounds.groups,",
        new="chain_length=bounds.groups,",
    ),
    _here(
        "the squared move forgets groups that change inside",
        old="changed = {0, max(0, 2 * most - groups), min(most, groups)}",
        new="changed = {0}",
        tests=("tests/statistics/test_sensitivity.py", "tests/contracts/test_squares.py"),
    ),
    _here(
        "the squared move forgets groups that appear or vanish",
        old="changed = {0, max(0, 2 * most - groups), min(most, groups)}",
        new="changed = {min(most, groups)}",
        tests=("tests/statistics/test_sensitivity.py", "tests/contracts/test_squares.py"),
    ),
    _here(
        "a signed form counts as nowhere negative",
        old="if positive and len(measurement.cells) > 1:",
        new="if len(measurement.cells) > 1:",
        tests=("tests/statistics/test_sensitivity.py", "tests/contracts/test_squares.py"),
    ),
    _here(
        "a total cap counts one row less",
        old="everywhere = min(everywhere, bounds.total)",
        new="everywhere = min(everywhere, bounds.total - 1)",
    ),
    _here(
        "the last rows under a total cap have no square",
        old="m * m + (everywhere % m) ** 2",
        new="m * m",
        tests=("tests/statistics/test_sensitivity.py", "tests/contracts/test_squares.py"),
    ),
    _here(
        "the engine is not told how many groups a unit keeps",
        old="max_groups=min(unit.max_groups, query.groups.count) if isinstance(unit, UserUnit) else 1,",
        new="max_groups=query.groups.count,",
    ),
    _here(
        "the engine is not told the total cap",
        old="max_rows_total=unit.max_rows if isinstance(unit, UserUnit) else None,",
        new="max_rows_total=None,",
    ),
    _here(
        "a block's own cap on rows is dropped",
        old="Bounds(max_rows or unit.max_rows_per_group,",
        new="Bounds(unit.max_rows_per_group,",
        tests=(
            "tests/statistics/test_sensitivity.py",
            "tests/wall/test_recompute.py",
            "tests/wall/test_execute.py",
        ),
    ),
    Guard(
        "a sum about its middle is nowhere negative",
        file="measurements/base.py",
        old="self.nowhere_negative and measurement.lower >= 0",
        new="self.nowhere_negative",
        tests=("tests/contracts/test_sums_of_groups.py",),
    ),
)
