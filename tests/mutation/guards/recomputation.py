"""Guards of `dprelease/wall/recompute.py`: the same numbers, made again from what the engine sums."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_here = partial(
    Guard,
    file="wall/recompute.py",
    tests=(
        "tests/statistics/test_sensitivity.py",
        "tests/wall/test_recompute.py",
        "tests/wall/test_execute.py",
        "tests/contracts/test_sensitivities.py",
    ),
)

_alone = partial(Guard, file="wall/recompute.py", tests=("tests/wall/test_conditions.py",))

_types = partial(
    Guard, file="statistics/types_of_change.py", tests=("tests/contracts/test_types_of_change.py",)
)

_bins = partial(
    Guard,
    file="statistics/bin_sensitivity.py",
    tests=("tests/contracts/test_bins_hold_every_code.py",),
)

_trees = partial(
    Guard,
    tests=(
        "tests/measurements/test_binned_tree.py",
        "tests/statistics/test_tree_shape.py",
        "tests/statistics/test_tree_fit.py",
        "tests/contracts/test_squares.py",
    ),
)

_balanced = partial(Guard, tests=("tests/measurements/test_balanced_ranges.py",))

_known = partial(Guard, file="query/never_null.py", tests=("tests/query/test_never_null.py",))

GUARDS = (
    _bins(
        "cells without weights are any measures",
        old="""        or {p.kind for p in used} != {"between"}\n""",
        new="",
        tests=("tests/statistics/test_histogram.py",),
    ),
    _bins(
        "cells without weights are bins of any columns",
        old="        or len({p.code for p in used}) > 1\n",
        new="",
        tests=("tests/statistics/test_histogram.py",),
    ),
    _bins(
        "many bins that overlap move as disjoint ones",
        old="    added = 1 if apart((p.low, p.high) for p in used) else cells\n",
        new="    added = 1\n",
        tests=("tests/statistics/test_histogram.py",),
    ),
    Guard(
        "targets of a joint choice in any order",
        file="statistics/joint_ranks.py",
        old="any(later < sooner for sooner, later in pairwise(ends))",
        new="False",
        tests=("tests/contracts/test_joint_rank_sensitivities.py",),
    ),
    Guard(
        "one row raises the errors of gaps, and never lowers them",
        file="statistics/joint_ranks.py",
        old="return 4 * (b - least), 4 * b",
        new="return 2 * (b - least), 2 * b",
        tests=("tests/contracts/test_joint_rank_sensitivities.py",),
    ),
    Guard(
        "the widest gap decides how far a row moves the errors",
        file="statistics/joint_ranks.py",
        old="    least = min(later - sooner",
        new="    least = max(later - sooner",
        tests=("tests/contracts/test_joint_rank_sensitivities.py",),
    ),
    Guard(
        "a joint choice for a smaller spread than its query has",
        file="measurements/joint_ranks.py",
        old="self.step <= 0 or self.law.spread < sensitivity.l1_over_groups",
        new="self.step <= 0",
        tests=("tests/planning/test_joint_quantiles.py",),
    ),
    Guard(
        "a joint choice among other sequences",
        file="measurements/joint_ranks.py",
        old="self.many < 1 or self.law.candidates != outcomes(len(self.allowed), self.many)",
        new="self.many < 1",
        tests=("tests/planning/test_joint_quantiles.py",),
    ),
    Guard(
        "a joint choice sees codes near one rank only",
        file="wall/form_sensitivity.py",
        old="if used[0].near is not None:  # every gap of rows counts",
        new="if used[0].near is True:  # every gap of rows counts",
        tests=("tests/planning/test_joint_quantiles.py",),
    ),
    Guard(
        "a joint choice of other targets than its query's",
        file="measurements/joint_ranks.py",
        old="isinstance(law, JointLaw) and law.many != len(measurement.weights)",
        new="False",
        tests=("tests/planning/test_joint_quantiles.py",),
    ),
    Guard(
        "a sequence of candidates may step back",
        file="mechanisms/forms/joint_scores.py",
        old="counted = (most[at] == before.miss) & (before.place < 2 * at)",
        new="counted = most[at] == before.miss",
        tests=("tests/mechanisms/forms/test_joint_scores.py",),
    ),
    Guard(
        "the draw goes back to candidates behind the one that was drawn",
        file="mechanisms/forms/joint_scores.py",
        old="fits = (before.place <= latest) & (np.clip(before.miss, *ends) == miss)",
        new="fits = np.clip(before.miss, *ends) == miss",
        tests=("tests/mechanisms/forms/test_joint_scores.py",),
    ),
    Guard(
        "a target inside the rows of one value is drawn as if the miss ended there",
        file="mechanisms/forms/joint_scores.py",
        old="(misses[free], 2 * heap - 1, weights[free] * self._best)",
        new="(misses[free][:0], 2 * heap[:0] - 1, weights[free][:0] * self._best)",
        tests=("tests/mechanisms/forms/test_joint_scores.py",),
    ),
    Guard(
        "weights far below a point are alike too soon",
        file="mechanisms/forms/joint_scores.py",
        old='np.searchsorted(misses, points - self._law.last, side="right")',
        new='np.searchsorted(misses, points - self._law.last // 2, side="right")',
        tests=("tests/mechanisms/forms/test_joint_scores.py",),
    ),
    Guard(
        "several targets of one run without the weights of their gaps",
        file="mechanisms/forms/joint_scores.py",
        old="self._inside[j - s - 1] if s < j else 1",
        new="1",
        tests=("tests/mechanisms/forms/test_joint_scores.py",),
    ),
    Guard(
        "the wall takes any condition for one that is never null",
        file="statistics/types_of_change.py",
        old="        return never_null(code.expression, columns)\n",
        new="        return True\n",
        tests=("tests/query/test_never_null.py",),
    ),
    _known(
        "a column without a default is never null",
        old="        return column.null_default is not None\n",
        new="        return True\n",
    ),
    _known(
        "an undeclared value has a key",
        old=" and column.other is not None",
        new="",
    ),
    _known(
        "no sum or product overflows",
        old="    return _most(node, columns) < _FINITE\n",
        new="    return True\n",
    ),
    _known(
        "no divisor is zero",
        old="isinstance(node.right, n.Literal) and node.right.value",
        new="True",
    ),
    _known(
        "one known value of a case is enough",
        old="            return all(_known(value, columns) for value in values)\n",
        new="            return any(_known(value, columns) for value in values)\n",
    ),
    Guard(
        "the wall believes any intervals of a query",
        file="wall/recompute.py",
        old="    if query.per != per:\n",
        new="    if query.per is True:\n",
        tests=("tests/contracts/test_intervals.py",),
    ),
    _here(
        "a null's default is ignored",
        file="query/bounded.py",
        old="return min(0, default or 0), largest_code(code)",
        new="return 0, code.grid.hull_steps if isinstance(code, Fixed) else 1",
    ),
    _here(
        "a label is the code 0 or 1",
        file="query/bounded.py",
        old="return min(0, default or 0), largest_code(code)",
        new="return min(0, default or 0), largest_code(code) if isinstance(code, Fixed) else 1",
    ),
    _here(
        "bins that overlap count as disjoint",
        file="statistics/bin_sensitivity.py",
        old="max(each) if apart(spans) else sum(each)",
        new="max(each)",
    ),
    _bins("bins with a gap hold every code", old="b[0] == a[1] + 1", new="b[0] >= a[1] + 1"),
    _bins("bins that overlap hold every code once", old="b[0] == a[1] + 1", new="b[0] <= a[1] + 1"),
    _bins(
        "bins that end too soon hold every code",
        old="meet and rising[0][0] <= span[0] and span[1] <= rising[-1][1]",
        new="meet and rising[0][0] <= span[0]",
    ),
    _trees(
        "a tree moves like its bins",
        file="statistics/sensitivity.py",
        old="positive=True), count)",
        new="positive=True), 1)",
    ),
    _balanced(
        "bins of a tree keep their sum",
        file="wall/recompute.py",
        old="is not None and _hold_each_row(query, used)",
        new="is not None",
    ),
    _balanced(
        "a tree of a private number of rows keeps its sum",
        file="wall/recompute.py",
        old="whole = measurement.public_rows is not None and",
        new="whole =",
    ),
    _balanced(
        "a tree of several levels keeps its sum",
        file="wall/recompute.py",
        old="sum_is_fixed=row[0] == 1 and whole",
        new="sum_is_fixed=whole",
    ),
    _balanced(
        "what comes and what goes is half of the sensitivity of several levels too",
        file="statistics/sensitivity.py",
        old="        in_a_cell=0,\n        one_sided_half=False,\n    )",
        new="        in_a_cell=0,\n    )",
    ),
    _balanced(
        "a sum of bins has the noise of one",
        file="statistics/tree_fit.py",
        old="noise(summed, level)",
        new="noise(min(summed, 1), level)",
    ),
    _balanced(
        "a share of a private whole has noise that adds up to zero",
        file="measurements/binned_tree.py",
        old="return sensitivity.sum_is_fixed\n",
        new="return True\n",
    ),
    _balanced(
        "one bin taken twice is two bins",
        file="reading/measurement.py",
        old="if not same or self.columns & other.columns or",
        new="if not same or",
    ),
    Guard(
        "the noise of a sum is that of its cells alone",
        file="mechanisms/forms/balanced.py",
        old="for n in (count, cells - count)]",
        new="for n in (count, count)]",
        tests=("tests/mechanisms/forms/test_balanced.py",),
    ),
    _trees(
        "bins of a tree may meet",
        file="wall/form_sensitivity.py",
        old="if not apart((p.low, p.high) for p in used):",
        new="if False:",
    ),
    _trees(
        "a level of a tree may be made of anything",
        file="statistics/tree_shape.py",
        old="a <= b or a % b",
        new="a == 0",
    ),
    _trees(
        "a tree may have fewer cells than runs",
        file="statistics/tree_shape.py",
        old="if tree.cells != len(measurement.cells):",
        new="if False:",
    ),
    _trees(
        "the squared sensitivity of a tree is that of its bins",
        file="statistics/sensitivity.py",
        old="count * level.l2_squared",
        new="level.l2_squared",
    ),
    _trees(
        "a whole that may be nothing is divided by",
        file="intervals/quotient.py",
        old="    nothing = empty &",
        new="    nothing = False &",
    ),
    _trees(
        "the noise of a tree's shares is that of their prefixes alone",
        file="statistics/tree_fit.py",
        old="short(Fraction(b))) for (t, b), n in drawn",
        new="Fraction(0)) for (t, b), n in drawn",
    ),
    _here(
        "a replaced row moves one bin",
        file="wall/recompute.py",
        old="replaced = 2 * added\n",
        new="replaced = added\n",
    ),
    _here(
        "distinct values do not move",
        file="wall/recompute.py",
        old="added = replaced = sum(abs(w) for row in weights for w in row)",
        new="added = replaced = 0",
    ),
    _here(
        "rows per unit and group are believed",
        old="all(cap <= bounds.rows for cap in caps)",
        new="True",
    ),
    _here(
        "groups per unit are believed",
        old="and query.max_groups <= bounds.groups",
        new="and True",
    ),
    _here(
        "the total cap is believed",
        old="and (bounds.total is None or (total is not None and total <= bounds.total))",
        new="and True",
    ),
    _here(
        "the unit's column is believed",
        old="and query.user == (unit.column if isinstance(unit, UserUnit) else None)",
        new="and True",
    ),
    _here(
        "the number of groups is believed",
        old="and query.groups.count == groups",
        new="and True",
    ),
    _here(
        "a public number of rows under add or remove",
        old="adjacency is Adjacency.substitution\n        and isinstance(unit, RowUnit)",
        new="isinstance(unit, RowUnit)",
    ),
    _here(
        "a public number of rows of users",
        old="and isinstance(unit, RowUnit)\n        and groups == 1",
        new="and groups == 1",
    ),
    _here(
        "a public number of rows beside a filter",
        old="        and whole\n        and query.where is None\n        and query.window is None\n",
        new="",
    ),
    _here(
        "a public number of rows of a view that drops some",
        old="and (query.view is None or query.view.keeps_rows)",
        new="and True",
    ),
    _here(
        "a public number of rows of a column with nulls",
        file="statistics/types_of_change.py",
        old="return isinstance(code, Fixed) and code.default is not None",
        new="return isinstance(code, Fixed)",
    ),
    _here(
        "a public number of rows in groups",
        old="        and groups == 1\n        and not query.groups.columns\n",
        new="",
    ),
    _types(
        "no replaced row has a null",
        old="*(() if keeps_every_row(query.columns, c) else (None,))",
        new="",
        tests=("tests/contracts/test_types_at_any_rates.py",),
    ),
    _types(
        "a row that moves stays in its cell",
        old="apart=cells > 1) for a, b in pairs]",
        new="apart=False) for a, b in pairs]",
    ),
    _types(
        "all rows of a unit cost as one that moves",
        old="tuple(_times(m, most, together) for m in each)",
        new="tuple(_times(m, 1, together) for m in each)",
    ),
    _types(
        "no row is on one side alone",
        old="    return ones, ones, twos\n",
        new="    return twos, twos, twos\n",
    ),
    _types(
        "rows of a unit in one cell are as far in L2 as in several",
        old="one[1] * rows * together",
        new="one[1] * rows",
    ),
    _types(
        "two rows of opposite signs are farthest in L2 in two cells",
        old="max(near[1], far[1])",
        new="far[1]",
        tests=("tests/contracts/test_types_at_any_rates.py",),
    ),
    _types(
        "cells of any sign cost a replaced row in L2 as if none were negative",
        old="    if not signed:\n        inside = min(inside, 2 * square)",
        new="    if True:\n        inside = min(inside, 2 * square)",
        tests=("tests/contracts/test_types_at_any_rates.py",),
    ),
    _types(
        "normal noise costs the least over types of change",
        file="budget/composition.py",
        old="max(map(basic, by_type(normal)), default=rho)",
        new="min(map(basic, by_type(normal)), default=rho)",
    ),
    _types(
        "normal noise costs half of its rho for a type of change",
        file="measurements/gaussian.py",
        old="v / (2 * self.noise.square)",
        new="v / (4 * self.noise.square)",
    ),
    _types(
        "the caps of rows that a plan states decide which rows a block keeps",
        old="    if measurement.public_rows is not None or (query.user is not None and caps):\n",
        new="    if measurement.public_rows is not None or measurement.max_rows is not None:\n",
    ),
    _types(
        "a person of one month is counted by nobody else",
        old="inside = cells == 1 and query.per is None",
        new="inside = cells == 1",
        tests=("tests/contracts/test_types_at_any_rates.py",),
    ),
    _types(
        "losses are raised where a ledger adds up rho",
        file="planning/prices.py",
        old='    return spec.composition != "zcdp" and not edges',
        new="    return not edges",
    ),
    _types(
        "parts of tables that are declared are raised",
        file="planning/prices.py",
        old="    declared = [t.share or t.detail for t in spec.tables]\n",
        new="    declared = []\n",
    ),
    _types(
        "parts and errors of statistics that are declared are raised",
        file="planning/prices.py",
        old="    declared += [s.share or s.max_error for s in spec.statistics]\n",
        new="",
    ),
    _types(
        "a square is linear",
        old="p.other in followed and p.other != p.code and",
        new="p.other in followed and",
    ),
    _types(
        "persons are always on both sides",
        old="return (once,) * len(rows), (stays,)",
        new="return (stays,) * len(rows), (stays,)",
    ),
    _here(
        "noise that adds up to zero costs a row that leaves half",
        file="measurements/balanced.py",
        old="return None  # a row that leaves moves the hidden cell, too",
        new="return self.noise.noise.rate",
        tests=("tests/contracts/test_types_of_change.py",),
    ),
    _here(
        "laws of other blocks cost several rows as much as their type says",
        file="measurements/law.py",
        old="if not sensitivity.one_row or found.rho is not None:",
        new="if found.rho is not None:",
        tests=("tests/contracts/test_types_of_change.py",),
    ),
    _here(
        "blocks with caps of their own keep the rows of the others",
        file="statistics/types_of_change.py",
        old="    if measurement.public_rows is not None or (query.user is not None and caps):\n",
        new="    if measurement.public_rows is not None:\n",
        tests=("tests/contracts/test_types_of_change.py",),
    ),
    _here(
        "a signed sum counts as nowhere negative",
        old='signed = measurement.form != "linear" or not _nowhere_negative(query, measurement, primitives)',
        new="signed = False",
        tests=("tests/wall/test_recompute.py", "tests/contracts/test_squares.py"),
    ),
    _here(
        "the code range of a truncated mean is believed",
        old="        or codes_of(query.codes[code]) != (0, measurement.scale)\n",
        new="",
    ),
    _here(
        "the labels of a graph's ends are believed",
        old="if codes != [Label(unit.source, labels), Label(unit.target, labels)]:",
        new="if False:",
        tests=(
            "tests/wall/test_recompute.py",
            "tests/wall/test_execute.py",
            "tests/contracts/test_graph_sensitivities.py",
        ),
    ),
    Guard(
        "any tally is the one a choice by rank needs",
        file="wall/form_sensitivity.py",
        old="""if [p.kind for p in used] != ["tally"] or len(codes) != 1 or not isinstance(codes[0], Fixed):
        raise ValueError("its scores are""",
        new="""if False:
        raise ValueError("its scores are""",
        tests=(
            "tests/wall/test_recompute.py",
            "tests/wall/test_execute.py",
            "tests/contracts/test_rank_sensitivities.py",
        ),
    ),
    _here(
        "a scatter moves as if one row were gone",
        file="wall/recompute.py",
        old='return ((high - low) ** 2 * max(0, (measurement.public_rows or 0) - 1),) * 2\n    if measurement.form == "cross":',
        new='return ((high - low) ** 2 * max(0, (measurement.public_rows or 0) - 2),) * 2\n    if measurement.form == "cross":',
    ),
    _here(
        "a product of columns moves as if one row were gone",
        file="wall/recompute.py",
        old="return (_cross(query, used) * max(0, (measurement.public_rows or 0) - 1),) * 2",
        new="return (_cross(query, used) * max(0, (measurement.public_rows or 0) - 2),) * 2",
        tests=("tests/wall/test_recompute.py", "tests/contracts/test_pair_sensitivities.py"),
    ),
    _here(
        "a scatter is made of anything",
        file="wall/recompute.py",
        old='if code is None or shape != [("power", code, 1), ("power", code, 2), ("power", code, 0)]:',
        new="if code is None:",
    ),
    _alone("a period takes no row away", old="        and query.window is None\n", new=""),
    _alone("a filter takes no row away", old="        and query.where is None\n", new=""),
    _alone("rows in no group stay", old="        and not query.groups.columns\n", new=""),
    _alone(
        "a row may be in no bin that counts all",
        old="if len(codes) != len(used) or len(set(codes)) != 1:",
        new="if len(set(codes)) != 1:",
    ),
    _alone(
        "bins of two columns keep their sum",
        old="if len(codes) != len(used) or len(set(codes)) != 1:",
        new="if len(codes) != len(used):",
    ),
    _alone(
        "a tree's bins are of two columns",
        file="wall/form_sensitivity.py",
        old="if len({p.code for p in used}) != 1 or any",
        new="if any",
    ),
    _alone(
        "ranks of labels",
        file="wall/form_sensitivity.py",
        old=" or not isinstance(codes[0], Fixed):",
        new=":",
    ),
    _alone(
        "a graph beside other sums",
        old="if len(query.primitives) != 1 or ends != made",
        new="if ends != made",
    ),
    _alone(
        "sums of groups of any form",
        old="if found is None or measurement.form not in OF_SUMS or",
        new="if found is None or",
    ),
    _alone(
        "a cap that is no number",
        old="all(type(cap) is int and cap >= 1 for cap in stated)",
        new="all(cap >= 1 for cap in stated)",
    ),
    _alone(
        "weights of sums that are not there",
        old="if {*map(len, measurement.weights)} - {len(used)}:",
        new="if False:",
    ),
    _alone(
        "sums are counted from the last",
        file="wall/execute.py",
        old="if min(measurement.primitives, default=0) < 0:",
        new="if False:",
    ),
)
