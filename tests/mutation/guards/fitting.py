"""Guards of `dprelease/fitting`: what is published adds up, is feasible, and is covered."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_feasible = partial(Guard, file="fitting/feasible.py", tests=("tests/fitting/test_feasible.py",))
_nearest = partial(
    Guard,
    file="fitting/shares.py",
    tests=("tests/fitting/test_shares.py", "tests/fitting/test_nearest.py"),
)
_certificate = partial(
    Guard, file="fitting/certificate.py", tests=("tests/fitting/test_certificate.py",)
)
_quantile = partial(
    Guard,
    file="intervals/law.py",
    tests=("tests/intervals/test_law.py", "tests/fitting/test_interval.py"),
)

_interval = partial(Guard, file="fitting/interval.py", tests=("tests/fitting/test_interval.py",))
_quotient = partial(Guard, file="fitting/quotient.py", tests=("tests/fitting/test_quotient.py",))
_chosen = partial(
    Guard, file="release_plan/detail.py", tests=("tests/release_plan/test_detail.py",)
)

_ratios = partial(
    Guard, file="results/fitted_ratios.py", tests=("tests/results/test_fitted_ratios.py",)
)

_set = partial(Guard, tests=("tests/fitting/test_margin_sets.py",))
_whole_set = partial(
    Guard,
    file="wall/sums_of_groups.py",
    tests=("tests/wall/test_margin_sensitivity.py",),
)

GUARDS = (
    Guard(
        "critical values of uneven pieces are read as those of even ones",
        file="planning/tables/ratios.py",
        old="        critical.bend,\n",
        new="",
        tests=("tests/results/test_fitted_ratios.py",),
    ),
    _set(
        "a table between three margins is fitted",
        file="fitting/margin_sets.py",
        old="    return len(margins) < 2 or (len(margins) == 2 and tuple(map(max, *margins)) == table)",
        new="    return True",
    ),
    _set(
        "uneven hierarchies are measured by residuals",
        file="fitting/margin_sets.py",
        old="        return (whole,)\n",
        new="        pass\n",
    ),
    _set(
        "node numbers prove any table",
        file="fitting/certificate.py",
        old="            if margins and (pull > up or (v > 0 and pull < up - 2 * _R)):",
        new="            if False:",
    ),
    _set(
        "a cell of a transported table may be below 0",
        file="fitting/transport.py",
        old="    return np.asarray(np.maximum(found, 0))",
        new="    return np.asarray(found)",
    ),
    _whole_set(
        "residuals move by what one of their axes does",
        old="        square += own\n",
        new="        square += min(own, source.scale**2)\n",
    ),
    _whole_set(
        "a set measures a table that is not counted",
        old="        if not counted or source.scale < 1",
        new="        if source.scale < 1",
    ),
    _whole_set(
        "a replaced row moves a set as an added one does",
        old="        replaced += 2 * (own - source.scale**2 * met)",
        new="        replaced += own",
    ),
    _whole_set(
        "keys of a set are other cells than those that are counted",
        old="    if any(list(axis[-1]) != list(range(len(axis[-1]))) for axis in design.axes):",
        new="    if False:",
    ),
    _whole_set(
        "residuals of a level are those of all cells",
        old="    beside = np.unique(above[first], return_counts=True)[1].tolist()\n",
        new="    beside = [first.size]\n",
    ),
    _whole_set(
        "a row is counted twice where two axes are one column",
        old="    if len(set(columns.values())) != len(columns):",
        new="    if False:",
    ),
    Guard(
        "cells of a cross are of other labels",
        file="engines/request.py",
        old="    if not query.groups.whole or len(set(places)) != len(places) or sizes != list(code.sizes):",
        new="    if False:",
        tests=("tests/contracts/test_crosses.py",),
    ),
    Guard(
        "rows without a label in another column are counted",
        file="engines/bounded_sql.py",
        old='                select = select.where(not_null(column(f"g{i}", "t")), copy=False)',
        new="                pass",
        tests=("tests/contracts/test_crosses.py",),
    ),
    _ratios(
        "a cell without a row has a mean like any other",
        old="published_interval(statistic, value, ends, empty)",
        new="published_interval(statistic, value, ends, empty & False)",
    ),
    Guard(
        "a person of two groups counts twice in a coarser table",
        file="planning/tables/families.py",
        old="    if not table.apart and _units_in_several(query, statistic):",
        new="    if False and _units_in_several(query, statistic):",
        tests=("tests/query/test_tables.py", "tests/contracts/test_sums_of_groups.py"),
    ),
    Guard(
        "a value that adds up stands twice",
        file="results/draw.py",
        old="    return every if not plan.fitted else",
        new="    return every if True else",
        tests=("tests/results/test_fitted.py",),
    ),
    _quantile(
        "draws that are nearly always 0 have no width",
        old="            first /= 2\n            best = bound([first])\n",
        new="            break\n",
    ),
    Guard(
        "of equally near values any may be stated",
        file="verification/fits.py",
        old='        if again.values != _lists(stated["values"]):',
        new='        if any(off.values()) and again.values != _lists(stated["values"]):',
        tests=("tests/results/test_fitted.py",),
    ),
    Guard(
        "narrow noise is put into the bulk",
        file="intervals/law.py",
        old="MOST_EXACT_TERMS if narrow else exact",
        new="exact",
        tests=("tests/intervals/test_law.py",),
    ),
    _interval(
        "an estimate far below 0 is certain to be 0",
        old="min(max(estimate, low * ONE), high * ONE)",
        new="estimate",
    ),
    _quotient(
        "a quotient of fitted cells is moved into its column's range, not into its domain",
        old="s = np.clip(s, first * c, last * c)",
        new="s = np.clip(s, critical.low * c, critical.high * c)",
    ),
    _quotient(
        "what the form turns by in a cell is left out",
        old="        out.append(known[middle] + most * (b - a) / 2)",
        new="        out.append(known[middle] * 3 / 4)",
    ),
    _quotient(
        "the noise of the rows does not count",
        old="            law = SumLaw.weighted_sum([(top, 1.0, 1), (bottom, float(middle), 1)])",
        new="            law = SumLaw.weighted_sum([(top, 1.0, 1)])",
    ),
    _quotient(
        "both parts at the whole risk",
        old="    half = 1 - (1 - level) / 2\n    sizes",
        new="    half = 1 - (1 - level) * 9\n    sizes",
    ),
    _feasible(
        "what parts add up to does not matter",
        old="        sets = [met(a, b) for a, b in zip(declared, sums, strict=True)]",
        new="        sets = list(declared)",
    ),
    _feasible(
        "sums of some children may be in any number of pieces",
        old="            _check_turns(below, parent, table.cells)\n",
        new="",
    ),
    _feasible(
        "a public total need not be feasible",
        old="            met(runs, ((int(total), int(total)),))",
        new="            ((int(total), int(total)),)",
    ),
    _feasible(
        "a margin may have gaps",
        old="        if met(hull, domain) != hull:",
        new="        if not met(hull, domain):",
    ),
    _feasible(
        "a sum may be cut below what its count allows",
        old="                and holds(allowed, max(ends))\n",
        new="",
    ),
    _nearest(
        "a value in a gap stays there",
        old="            out[some] = np.where(value > left, near, out[some])\n",
        new="",
    ),
    _nearest(
        "ties are settled downwards",
        old="    multipliers = np.where(missing > 0, below + 1, below)",
        new="    multipliers = below - 1",
    ),
    _certificate(
        "sums of parts are not looked at",
        old="            if sums[cell] != value:",
        new="            if sums[cell] > value + 10**9:",
    ),
    _certificate(
        "the least is not looked for across gaps",
        old="        for v in (centre, centre + 1):\n            point = min(max(v, low), high)",
        new="        for v in (centre, centre + 1):\n            point = low",
    ),
    _certificate(
        "what margins say of their sums is left out",
        old="            spent, bound = spent + some, bound + least",
        new="            spent = spent + some",
    ),
    _quantile(
        "the smoothing is free",
        old="    return high + delta\n",
        new="    return high - delta\n",
    ),
    Guard(
        "one tail is looked at",
        file="intervals/few.py",
        old="    half[1:] *= 2\n",
        new="",
        tests=("tests/intervals/test_few.py",),
    ),
    _chosen(
        "a group of less than what a level needs stands there",
        old="known[branch] >= need):",
        new="known[branch] >= need - 1):",
    ),
    _chosen(
        "a level that is never met is met",
        old="                if need is not None and (sizes",
        new="                if need is None or (sizes",
    ),
    _chosen(
        "rows of a branch stand at every level",
        old="            here = np.flatnonzero(at[of] == place)",
        new="            here = np.flatnonzero(at[of] >= place)",
    ),
    Guard(
        "the published draw chooses how fine it is published",
        file="release_plan/detail.py",
        old="else [row[0] for row in cells[self.block]]",
        new="else [row[0] for row in cells.get('coarse.count', cells.get('regions.count', cells[self.block]))]",
        tests=("tests/results/test_fitted_detail.py",),
    ),
    Guard(
        "a level needs as much for many cells as for one",
        file="planning/tables/detail.py",
        old="math.ceil(parts * error / spec.max_relative_error)",
        new="math.ceil(error / spec.max_relative_error)",
        tests=("tests/planning/test_table_detail.py", "tests/fitting/test_detail_draws.py"),
    ),
    Guard(
        "the draw of sizes is not counted in the split",
        file="planning/tables/make.py",
        old="Fraction(0) if frame.detail is None else frame.detail.share",
        new="Fraction(0)",
        tests=("tests/planning/test_table_detail.py",),
    ),
    Guard(
        "a row of a level may have values that its table has not",
        file="planning/tables/detail.py",
        old="(statistic.domain, statistic.step) != (mine.domain, mine.step)",
        new="statistic.step != mine.step",
        tests=("tests/planning/test_table_detail.py",),
    ),
    Guard(
        "persons may be certain at one level alone",
        file="planning/tables/detail.py",
        old="        if (statistic.block in certain) != (mine.block in certain):",
        new="        if False:",
        tests=("tests/planning/test_table_detail.py",),
    ),
    Guard(
        "rows of persons of several groups are said to add up",
        file="release_plan/detail.py",
        old="if not {t.table for t in of} >= {*self.levels}}",
        new="if not of}",
        tests=("tests/planning/test_table_detail.py",),
    ),
    Guard(
        "a row of persons names the noise of the finest level",
        file="results/fitted.py",
        old="[planned[n, s.text] if s.name in apart else s for s in statistics]",
        new="statistics",
        tests=("tests/results/test_fitted_detail.py",),
    ),
    Guard(
        "a row of persons is computed with as a cell of the finest level",
        file="reading/table_values.py",
        old="self._fit_of[self._place(group)[0], column]",
        new="self._fit_of[self.table, column]",
        tests=("tests/results/test_fitted_detail.py",),
    ),
    Guard(
        "the draw of sizes weighs as much as a published number",
        file="planning/tables/detail.py",
        old="name=name, weight=Fraction(0))",
        new="name=name)",
        tests=("tests/fitting/test_detail_draws.py",),
    ),
)
