"""Guards of populations: what a member's budget counts, and who may share it."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_population = partial(
    Guard,
    file="budget/population.py",
    tests=(
        "tests/budget/test_population.py",
        "tests/budget/test_population_worlds.py",
        "tests/budget/test_population_sums.py",
    ),
)
_declarations = partial(
    Guard, file="budget/declarations.py", tests=("tests/budget/test_population.py",)
)

GUARDS = (
    Guard(
        "a debit is checked against its dataset's budget alone",
        "budget/rows.py",
        "    must_fit_members(db, entry, path)\n",
        "",
        ("tests/budget/test_population.py",),
    ),
    _population(
        "a member who is replaced is counted once where rows come and go",
        old="    return 2 if",
        new="    return 1 if",
    ),
    _population(
        "a sum of rows stands for the debits of who counts twice",
        old=" and _steps(terms, said) == 1",
        new="",
    ),
    _population(
        "a sum of rows stands for the debits of who is in several intervals",
        old=" and _line(said).per is None",
        new="",
    ),
    _population(
        "a sum of rows stands for debits of which rho is counted",
        old="        return terms.nano_rho is None and ",
        new="        return ",
    ),
    _population(
        "a member is in one interval of a release, however long",
        old="    count = 1 if line.per is None else line.met(window)\n",
        new="    count = 1 if line.met(window) or line.per is None else None\n",
    ),
    _population(
        "a release without a period is counted as one interval",
        old="        if units is None:\n",
        new="        units = units or 1\n        if units is None:\n",
    ),
    _population(
        "a delta of several units is added up without the factor",
        old="        total, probability = group_rule(epsilon, delta, count)\n",
        new="        total, probability = count * epsilon, count * delta\n",
    ),
    _population(
        "rho grows with the units and not with their square",
        old="nano_up(count**2 * rho)",
        new="nano_up(count * rho)",
    ),
    _population(
        "what has no rho costs a population by zcdp nothing",
        old="    if terms.nano_rho is None:\n",
        new="    if terms.nano_rho is None or (rho is None and delta):\n",
    ),
    _population(
        "a cost of a member is rounded down",
        old="cost = Cost(nano_up(total), min(ATTO, math.ceil(probability * ATTO)))",
        new="cost = Cost(math.floor(total * 10**9), min(ATTO, math.floor(probability * ATTO)))",
    ),
    _population(
        "days in a week count as one unit of a member and week",
        old="        count = min(line.met((low, cut)) or 0, most)\n",
        new="        count = 1\n",
    ),
    _population(
        "days of all weeks count as one unit of a member and week",
        old="most if count is None else min(count, most)),)",
        new="1),)",
    ),
    _population(
        "an interval that a window holds whole counts as the one that it holds in part",
        old="        if out and out[-1][1] == count:\n",
        new="        if out:\n            count = out[-1][1]\n",
    ),
    _population(
        "the last interval of a window is no longer counted",
        old="    while low < high:\n",
        new="    while low < high and not (out and low >= last):\n",
    ),
    _population(
        "whole weeks within a window have one day less",
        old="        count = min(line.met((low, cut)) or 0, most)\n",
        new="        count = min(line.met((low, cut)) or 0, most - (instants[1] == last))\n",
    ),
    _population(
        "a week that a window meets in part is counted as a whole one",
        old="        count = min(line.met((low, cut)) or 0, most)\n",
        new="        count = most\n",
    ),
    _population(
        "weeks are told apart where times may change",
        old="Timeline(interval, line.zone, line.apart)",
        new="Timeline(interval, line.zone, True)",
    ),
    _population(
        "a delta that is passed is no refusal",
        file="budget/record.py",
        old="        return self.left < 0 or self.left_delta < 0 or",
        new="        return self.left < 0 or",
    ),
    _population(
        "rows and edges may join",
        old="        if not line.person:\n",
        new="        if False:\n",
    ),
    _population(
        "a week may join a population of months",
        old="        if terms.interval is not None and not _most(line, terms.interval):\n",
        new="        if terms.interval is not None and not line.per:\n",
    ),
    _population(
        "intervals of two calendars share a budget",
        old="        if terms.calendar not in (None, line.calendar):\n",
        new="        if False:\n",
    ),
    _population(
        "a later event lowers or changes a population's terms",
        old="            if lower or new.atto_delta < old.atto_delta or new.terms != old.terms:\n",
        new="            if False:\n",
    ),
    Guard(
        "a person's rows of an interval without a time are one unit",
        "budget/timeline.py",
        "Timeline(person=person and per is None)",
        "Timeline(person=person)",
        ("tests/budget/test_population.py",),
    ),
    Guard(
        "a population that is named beside a pipeline is dropped",
        "cli/ledger.py",
        "    if pipeline is not None and any(part is not None for part in options):\n",
        "    if False:\n",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a receipt that paid again says what a member had lost before",
        "pipeline/stages.py",
        "None if got.fresh else got.anchor.seq",
        "got.anchor.seq",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a note is written of a folder whose files were changed",
        "cli/report.py",
        "    if whole:\n",
        "    if False:\n",
        ("tests/results/formats/test_note.py",),
    ),
    _population(
        "a raise heals the debits before it",
        old="            elif self.budget(new.name).over:\n",
        new="            elif False:\n",
    ),
    _population(
        "an event states more rho than its budget is worth",
        old="        if worth_more or",
        new="        if",
    ),
    _population(
        "a dataset joins twice",
        old='why = "it has one" if dataset in self.member else self.why_apart(name, dataset)',
        new="why = self.why_apart(name, dataset)",
    ),
    Guard(
        "the chain does not add up what a member has lost",
        "budget/chain.py",
        "        if not fold.problems and fold.populations.budget(name).over\n",
        "        if False\n",
        ("tests/budget/test_population.py",),
    ),
    Guard(
        "a ledger with a population opens in software that does not know it",
        "budget/chain.py",
        "        population.VERSION: fold.populations.known,\n",
        "",
        ("tests/budget/test_population.py",),
    ),
    _declarations(
        "a dataset joins with other figures",
        old="    if here not in (None, name) or shared not in stated:\n",
        new="    if here not in (None, name):\n",
    ),
    _declarations(
        "a dataset with a public size joins members that come and go",
        old="    if public_size and ",
        new="    if False and ",
    ),
    _population(
        "a size becomes public after its dataset has joined",
        old="    if sized and ",
        new="    if False and ",
    ),
    Guard(
        "a debit does not tell that a size is public",
        "pipeline/stages.py",
        '                **({} if rows is None else {"public_size": rows}),\n',
        "",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a folder does not tell that a size is public",
        "budget/citation.py",
        '            size = {"public_size": rows["exact"]} if "exact" in rows else {}\n',
        "            size = {}\n",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a restored ledger leaves out who joined after its backup",
        "budget/cited.py",
        "    if citation.member is not None:\n",
        "    if False:\n",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a ledger that knows less of a member than its folders says nothing",
        "budget/population.py",
        "        enough = spent >= said.spent and now.tables >= said.tables\n",
        "        enough = True\n",
        ("tests/pipeline/test_population.py",),
    ),
    _declarations(
        "a dataset joins without what it has cost already",
        old='        _must_fit(found, name, path, f"what dataset {dataset} has cost already")\n',
        new="",
    ),
    Guard(
        "a folder without a release is reconciled in silence",
        "cli/ledger.py",
        "not (folders and published == folders)",
        "not folders",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a schema's population is counted nowhere",
        "pipeline/stages.py",
        "    if stated not in (None, here) and key.dataset in ledger.datasets():\n",
        "    if False:\n",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a folder may understate what a member has lost",
        "verification/derivation.py",
        "        if not possible or found.tables < 1 or name not in (None, found.population):\n",
        "        if False:\n",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "the ledger does not decide what a member had lost",
        "verification/cited_entry.py",
        '        and stated.get("member") == (None if member is None else member.to_json())\n',
        "",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a table of rows names a population",
        "schema/models.py",
        "        if self.population is not None and not isinstance(self.unit, UserModel):\n",
        "        if False:\n",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "a population is charged that the schema does not name",
        "budget/population.py",
        "    if None not in (named, said) and named != said:\n",
        "    if False:\n",
        ("tests/pipeline/test_population.py",),
    ),
)
