"""Guards of losses over time: windows, instants, and how they are added up."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_tests = ("tests/budget/test_parallel.py", "tests/budget/test_timed_ledger.py")
_parallel = partial(Guard, file="budget/parallel.py", tests=_tests)
_timeline = partial(Guard, file="budget/timeline.py", tests=_tests)
_chain = partial(Guard, file="budget/timed_chain.py", tests=_tests)
_record = partial(Guard, file="budget/record.py", tests=_tests)
_declarations = partial(Guard, file="budget/declarations.py", tests=_tests)
_run = partial(Guard, file="pipeline/run.py", tests=("tests/pipeline/test_ready.py",))
_partition = partial(
    Guard, file="pipeline/timing_config.py", tests=("tests/pipeline/test_ready.py",)
)
_view = partial(Guard, file="query/view.py", tests=("tests/schema/test_time.py",))
_promise = partial(
    Guard, file="release_plan/promise.py", tests=("tests/release_plan/test_promise.py",)
)

GUARDS = (
    Guard(
        "a period that is never released is run",
        file="pipeline/closing.py",
        old="if rule is not None and period in rule.skip:",
        new="if False:",
        tests=("tests/pipeline/test_closing.py",),
    ),
    Guard(
        "the schedule runs a period that is never released",
        file="pipeline/due.py",
        old="at <= now and period not in rule.skip:",
        new="at <= now:",
        tests=("tests/pipeline/test_closing.py",),
    ),
    Guard(
        "a budget lasts longer than its population's",
        file="budget/lasting.py",
        old="found = min(found, shared)",
        new="pass",
        tests=("tests/budget/test_lasting.py",),
    ),
    _partition(
        "a partition is asked of a source that has none",
        old="    if ready is not None and ready.partition is not None:\n",
        new="    if False:\n",
    ),
    _promise(
        "a plan of replaced rows says that disjoint periods do not add up",
        old="    if line.pairs:\n",
        new="    if False:\n",
    ),
    _promise(
        "a plan through an unproven view says that disjoint periods do not add up",
        old="    if query.view is not None and not query.view.proven:\n",
        new="    if False:\n",
    ),
    _run(
        "an early run does not wait for the rows of a period that is over",
        old="    if ahead is None:\n        must_be_ready",
        new="    if ahead is None and not early:\n        must_be_ready",
    ),
    _parallel(
        "an overlapping window is forgotten",
        old="        changes[end + 1] -= cost\n",
        new="        changes[first + 1] -= cost\n",
    ),
    _parallel(
        "a replaced row stays in its instant",
        old="    if pairs:\n",
        new="    if False:\n",
    ),
    _parallel(
        "an entry that reads both rows of a pair is paid twice",
        old="((1, over[place]), (-1, begin[place]))",
        new="((1, over[place]), (0, begin[place]))",
    ),
    _timeline(
        "a window meets the part of an interval that it covers",
        old="        return intervals_met(*window, self.per, self.zone)\n",
        new="        return window\n",
    ),
    _timeline(
        "windows count although a row's time may change",
        old='        apart=bool(value["immutable"]) and (per is not None or declared == "row"),\n',
        new='        apart=per is not None or declared == "row",\n',
    ),
    _timeline(
        "rows that are replaced are not pairs",
        old='        pairs=per is None and adjacency == "substitution",\n',
        new="        pairs=False,\n",
    ),
    _record(
        "a window stands without a declared time",
        old="        if backwards or (self.time is None and self.window != OPEN):\n",
        new="        if backwards:\n",
    ),
    _record(
        "a window may end before it begins",
        old="        if backwards or (self.time is None and self.window != OPEN):\n",
        new="        if self.time is None and self.window != OPEN:\n",
    ),
    _declarations(
        "a ledger says less than windows need to be understood",
        old="        raise_version(db, chain.TIMED)\n",
        new="        pass\n",
    ),
    _chain(
        "an overspent interval verifies",
        old="        over = not worst_cost(found.costs, pairs=found.line.pairs).within(found.budget)\n",
        new="        over = False\n",
    ),
    _chain(
        "deltas beside a rho are held against a budget",
        old="            over = worst_rho(",
        new="            over = over or worst_rho(",
    ),
    Guard(
        "a delta in no table is taken for none where all debits are summed",
        "budget/chain.py",
        "                if key.dataset not in fold.rho and not fold.timed.datasets[key.dataset].line.apart:\n",
        "                if False:\n",
        _tests,
    ),
    Guard(
        "deltas of disjoint times are summed by the tables",
        "budget/rows.py",
        "    return Cost(entry.cost.nano_epsilon, 0)\n",
        "    return entry.cost\n",
        _tests,
    ),
    _chain(
        "a debit of another time verifies",
        old="        if entry.time != found.declared[2]:\n",
        new="        if False:\n",
    ),
    _chain(
        "a debit of another unit or adjacency verifies",
        old="        if (entry.adjacency, protected_unit(entry.unit)) != found.declared[:2]:\n",
        new="        if False:\n",
    ),
    _chain(
        "a debit says itself which intervals its window meets",
        old="        instants = found.line.instants(window_of_texts(entry.window))\n",
        new="        instants = entry.instants\n",
    ),
    _view(
        "a view calls another stored column the time",
        old="        if column.place[1] != name and",
        new="        if column.place[1] != name and not is_time and",
    ),
    _view(
        "a view calls another stored column the unit",
        old="        if column.place[1] != name and not (is_time and",
        new="        if is_time and column.place[1] != name and not (is_time and",
        tests=("tests/query/test_view.py",),
    ),
    _view(
        "rows of other units are grouped with one's own",
        old="    if view.groups and not (isinstance(unit, UserUnit) and unit.per is None):\n",
        new="    if False:\n",
        tests=("tests/query/test_view.py",),
    ),
    _view(
        "a period's groups hold rows of other periods",
        old="    if not view.groups or view.private is None:\n",
        new="    if True:\n",
        tests=("tests/engines/test_grouped_view.py",),
    ),
    Guard(
        "rows are grouped by less than the view says",
        file="engines/view_sql.py",
        old="for place in view.groups)",
        new="for place in view.groups[1:])",
        tests=("tests/engines/test_grouped_view.py",),
    ),
    Guard(
        "a group's doubles are added in the order in which they are read",
        file="engines/view_sql.py",
        old="total: exp.Expression = exp.Sum(this=order)",
        new="total: exp.Expression = exp.Sum(this=term)",
        tests=("tests/engines/test_grouped_view.py",),
    ),
    Guard(
        "a column that rows are not grouped by is passed on of any of them",
        file="query/read_view.py",
        old="if place not in self.groups or (",
        new="if (",
        tests=("tests/query/test_view.py",),
    ),
    _promise(
        "a release through an unproven view counts in its window alone",
        old="    if not declared or window is None or (view is not None and not view.proven):\n",
        new="    if not declared or window is None:\n",
    ),
    _promise(
        "a release without a declared time has a window",
        old="    if not declared or window is None or (view is not None and not view.proven):\n",
        new="    if window is None or (view is not None and not view.proven):\n",
    ),
)
