"""Guards of `dprelease/results/publish.py`, `corrections.py` and the stages: what is published, and where."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_publish = partial(
    Guard,
    file="results/publish.py",
    tests=(
        "tests/results/series/test_correct.py",
        "tests/results/test_publish.py",
        "tests/security/test_paths.py",
        "tests/faults/test_power_loss_of_runs.py",
    ),
)
_corrections = partial(
    Guard,
    file="results/corrections.py",
    tests=("tests/results/test_corrections.py", "tests/results/series/test_correct.py"),
)

_label = (
    "tests/results/formats/test_promise_words.py",
    "tests/results/formats/test_privacy_label.py",
)

_LISTS = ("tests/reading/test_key_list.py",)

_TABLES = ("tests/results/formats/test_cross_tabs.py",)
_IMPOSSIBLE = ("tests/results/test_impossible.py",)

GUARDS = (
    Guard(
        "a heading of a set of tables says the rows of one group, not all that a person may have",
        "results/formats/public_words.py",
        "if self.together and isinstance(self.unit, UserUnit):",
        "if False:",
        ("tests/results/formats/test_words.py",),
    ),
    Guard(
        "what can hold no row is printed as a number",
        "results/fitted.py",
        "without_impossible(made, len(plan.by), empty) if any(empty) else made",
        "made",
        _IMPOSSIBLE,
    ),
    Guard(
        "a folder that holds 0 for what is impossible does not verify any more",
        "planning/again.py",
        "replace(frame.tables, impossible=False)",
        "frame.tables",
        _IMPOSSIBLE,
    ),
    Guard(
        "any group may be called impossible",
        "results/validate/rules.py",
        "legal = legal & (none == np.isin(group, np.flatnonzero(empty)))",
        "pass",
        _IMPOSSIBLE,
    ),
    Guard(
        "a group that can hold no row keeps an interval",
        "results/validate/rules.py",
        "    ordered = np.where(table.impossible[mine], nothing, ordered)",
        "    ordered = np.where(table.impossible[mine], True, ordered)",
        _IMPOSSIBLE,
    ),
    Guard(
        "what is derived of an impossible group alone decides what a sum can be",
        "reading/quantity.py",
        "domain = sum(q.domain[0] for q in parts), sum(q.domain[1] for q in parts)",
        "domain = parts[0].domain[0] * len(parts), parts[0].domain[1] * len(parts)",
        _IMPOSSIBLE,
    ),
    Guard(
        "numbers of a table that is crossed stand below another label",
        "results/formats/cross_tabs.py",
        """                            for i in range(columns)
                            for label in labels or [""]
""",
        """                            for label in labels or [""]
                            for i in range(columns)
""",
        _TABLES,
    ),
    Guard(
        "an old page is made again with tables of today",
        "results/formats/html.py",
        "        if labelled and not detailed:\n",
        "        if not detailed:\n",
        _TABLES,
    ),
    Guard(
        "an even guess is rounded down",
        "results/formats/promise_words.py",
        "((math.ceil(most * cases), cases)",
        "((math.floor(most * cases), cases)",
        _label,
    ),
    Guard(
        "an even guess forgets delta",
        "results/formats/promise_words.py",
        "most = 1 - (1 - delta) /",
        "most = 1 - 1 /",
        _label,
    ),
    Guard(
        "what was declared and not checked is called proved",
        "results/formats/privacy_label.py",
        '_UNPROVED = ("observed", "declared, not checked")',
        '_UNPROVED = ("observed",)',
        _label,
    ),
    Guard(
        "a whole person is said to have lost what one of their intervals did",
        "results/formats/privacy_label.py",
        "_loss(said['person'])[1]",
        "_loss({**said['person'], 'epsilon': '1/2'})[1]",
        _label,
    ),
    Guard(
        "a remark of several lines breaks out of its place in a note",
        "results/formats/note.py",
        '" ".join(str(text).split())',
        "str(text).strip()",
        ("tests/results/formats/test_note.py",),
    ),
    Guard(
        "a publisher's words are markup in a note",
        "results/formats/note.py",
        'marked = _MARKS.sub(lambda found: f"\\\\{found[0]}", " ".join(str(text).split()))',
        'marked = " ".join(str(text).split())',
        ("tests/results/formats/test_note.py",),
    ),
    Guard(
        "a year that a publisher's words begin with begins a list in a note",
        "results/formats/note.py",
        r'_NUMBERED = re.compile(r"^(\d+)(?',
        r'_NUMBERED = re.compile(r"^(\d)(?',
        ("tests/results/formats/test_note.py",),
    ),
    Guard(
        "what a person has lost by one table is said of all",
        "results/formats/over_time.py",
        'OF_TABLE = f"{SO_FAR} from this table"',
        "OF_TABLE = SO_FAR",
        ("tests/pipeline/test_population.py",),
    ),
    Guard(
        "an old report is made again as one of today",
        "results/formats/html.py",
        "labelled = of_today(manifest)",
        "labelled = True",
        ("tests/verification/test_verify.py",),
    ),
    Guard(
        "a value by rank is judged by the number of rows, nulls and all",
        "measurements/known.py",
        "if rows is not None and (complete or not least):",
        "if rows is not None:",
        ("tests/measurements/test_known.py",),
    ),
    Guard(
        "the size that several columns share counts the known values of every column",
        "measurements/base.py",
        'not of.key[1:] and bool(chosen.data.get("complete"))',
        "not of.key[1:]",
        ("tests/measurements/test_known.py",),
    ),
    _publish(
        "a link leads the release elsewhere",
        old="if place.is_symlink() or (place.exists() and not place.is_dir()):",
        new="if place.exists() and not place.is_dir():",
    ),
    _publish(
        "a file's name may hold a slash",
        old="if not files or not all(isinstance(n, str) and _FILE.fullmatch(n) for n in files):",
        new="if not files:",
    ),
    _publish(
        "other bytes count as published",
        old="        same = holds(descriptor, files)\n",
        new="        same = True\n",
    ),
    _publish(
        "a withdrawn period stays the latest",
        old="        and name not in gone\n",
        new="",
    ),
    _publish(
        "a copy under another name is the latest",
        old='said["dprelease"] == VERSION and said["period"] == period',
        new='said["dprelease"] == VERSION',
        tests=("tests/results/test_publish.py",),
    ),
    _publish(
        "an early release is the latest",
        old='return ours and said.get("early") is None',
        new="return ours",
        tests=("tests/results/test_publish.py",),
    ),
    _publish(
        "a link inside a folder is followed",
        file="core/strict_json.py",
        old="PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC",
        new="PLAIN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC",
    ),
    _publish(
        "files are not synced before the folder is renamed",
        old="            os.utime(file.fileno(), (stamp.timestamp(), stamp.timestamp()))\n        os.fsync(file.fileno())\n",
        new="            os.utime(file.fileno(), (stamp.timestamp(), stamp.timestamp()))\n",
    ),
    _publish(
        "the renamed folder is not synced",
        old="    os.rename(aside, period, src_dir_fd=parent, dst_dir_fd=parent)\n    os.fsync(parent)\n",
        new="    os.rename(aside, period, src_dir_fd=parent, dst_dir_fd=parent)\n",
    ),
    _publish(
        "files keep the moment they were written",
        old="        if stamp is not None:\n            os.utime(file.fileno(), (stamp.timestamp(), stamp.timestamp()))\n",
        new="",
        tests=("tests/pipeline/test_schedule.py",),
    ),
    _corrections(
        "the record of corrections may be reordered",
        old="        if entry.prev != prev or entry.hash != _digest(entry):\n",
        new="        if entry.hash != _digest(entry):\n",
    ),
    _corrections(
        "an entry of the record may be edited",
        old="        if entry.prev != prev or entry.hash != _digest(entry):\n",
        new="        if entry.prev != prev:\n",
    ),
    Guard(
        "a failed release is handed out",
        "pipeline/stages.py",
        '        if ledger.state(key) == "failed":',
        "        if False:",
        ("tests/pipeline/test_stages.py", "tests/test_facade.py", "tests/end_to_end/test_crash.py"),
    ),
    Guard(
        "the price is not checked before the charge",
        "pipeline/stages.py",
        "    execute.check(plan)\n    ledger, key = request.ledger, request.key\n",
        "    ledger, key = request.ledger, request.key\n",
        ("tests/pipeline/test_stages.py", "tests/wall/test_execute.py", "tests/test_facade.py"),
    ),
    Guard(
        "another package's format may write our files",
        "pipeline/files.py",
        "isinstance(name, str) and name not in taken and isinstance(data, bytes)",
        "isinstance(name, str) and isinstance(data, bytes)",
        ("tests/examples/test_plugin.py",),
    ),
    Guard(
        "a format overwrites the file of another one",
        "pipeline/files.py",
        "if not files.keys() & made.keys() and (ours or _plain_files(made, noised.parts)):",
        "if ours or _plain_files(made, noised.parts):",
        ("tests/examples/test_plugin.py",),
    ),
    Guard(
        "a format of one table is not refused before the charge",
        "results/formats/format.py",
        '    if many_tables and tables_of(write) == "one":\n',
        "    if False:\n",
        ("tests/examples/test_plugin.py",),
    ),
    Guard(
        "a format that cannot be loaded is not refused before the charge",
        "pipeline/config.py",
        "        if why is not None:\n",
        "        if False:\n",
        ("tests/examples/test_plugin.py",),
    ),
    Guard(
        "several tables are rehearsed without a mark",
        "pipeline/rehearsal.py",
        "parts={name: _rehearsed(part) for name, part in noised.parts.items()}",
        "parts=noised.parts",
        ("tests/pipeline/test_rehearsal.py",),
    ),
    Guard(
        "a withheld release is not recorded as failed",
        "pipeline/stages.py",
        '        request.ledger.fail(request.key, "DPR701")\n',
        "        pass\n",
        ("tests/pipeline/test_stages.py", "tests/test_facade.py", "tests/end_to_end/test_crash.py"),
    ),
    *(
        Guard(broken, f"reading/{file}.py", old, new, (f"tests/reading/{tests}.py",))
        for broken, file, old, new, tests in (
            (
                "numbers that do not add up over groups are pooled",
                "released_values",
                "if all(isinstance(form, Linear) for form in forms) and self._adds_up(column):",
                "if all(isinstance(form, Linear) for form in forms):",
                "test_derive",
            ),
            (
                "values that a domain cuts are added up",
                "measurement",
                "return not (statistic.domain.lower <= low and high <= statistic.domain.upper)",
                "return False",
                "test_derive",
            ),
            (
                "two domains of one quotient are one value",
                "projection",
                'return ("ratio", part.domain, *((f.constant',
                'return ("ratio", *((f.constant',
                "test_derive",
            ),
            (
                "equal integers of two draws without a ledger are one draw",
                "released_values",
                "if noised.receipt.head_hash is None:",
                "if False:",
                "test_changes",
            ),
            (
                "a share of mixed signs lies in 0 and 1",
                "evaluation",
                "within = (0.0, 1.0) if operand in self._of_parts else found.domain",
                "within = (0.0, 1.0)",
                "test_derive",
            ),
            (
                "fitted cells that a domain cuts are added up",
                "table_values",
                "self._cut[column] = not (domain.lower <= low and high <= domain.upper)",
                "self._cut[column] = False",
                "test_tables",
            ),
            (
                "of a quotient that is cut the part in the domain alone is looked at",
                "linear_interval",
                "(-math.inf, math.inf) if ratio.cut else domain",
                "domain",
                "test_linear_interval",
            ),
        )
    ),
    Guard(
        "a format of ours for one table is not refused before the charge",
        "pipeline/config.py",
        "plain = name in ours and not many_tables",
        "plain = name in ours",
        ("tests/examples/test_plugin.py",),
    ),
    Guard(
        "an audit asks an engine that reads no rows in memory",
        "cli/audit.py",
        'if not reads(config.engine, "arrow"):',
        "if False:",
        ("tests/cli/test_audit.py",),
    ),
    Guard(
        "laws of one coordinate are offered for several",
        "mechanisms/law.py",
        "return [law for law in laws if covers_splits(law)] if request.splits else laws",
        "return laws",
        ("tests/mechanisms/test_law.py",),
    ),
    Guard(
        "the contract of mechanisms does not look at several coordinates",
        "testing/mechanisms.py",
        "    if covers_splits(law):\n        _splits(",
        "    if False:\n        _splits(",
        ("tests/testing/test_mechanisms.py",),
    ),
    Guard(
        "a suppressed cell's interval ends at the threshold",
        file="results/draw.py",
        old="(added.noise.quantile(reading.level) - 1 + float(added.rounding)) * step",
        new="0.0 * step",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "a cell is suppressed by its number after it was moved into the domain",
        file="results/draw.py",
        old="return float(added.offset) + step * reading.raw[:, 0], reach",
        new="return np.maximum(float(added.offset) + step * reading.raw[:, 0], statistic.domain.hull[0] + 12), reach",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "published cells alone keep the usual level",
        file="results/rules.py",
        old="share = published / cells if rules is not None and rules.sparse and published else 1.0",
        new="share = 1.0",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "other values of a suppressed cell keep their own intervals",
        file="results/rules.py",
        old="        lower[gone] = np.where(shown, low, np.nan)\n        upper[gone] = np.where(shown, high, np.nan)\n",
        new="        del shown\n",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "a suppressed value is published",
        file="results/rules.py",
        old="                values[gone] = np.nan\n",
        new="",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "what is derived of a suppressed cell is called uninformative",
        file="reading/derive.py",
        old="return None, lower, upper, SUPPRESSED, method",
        new='return None, lower, upper, "uninformative", method',
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "what is derived of a suppressed cell has its own interval",
        file="reading/interval.py",
        old="        if q.suppressed\n",
        new="        if q.suppressed and not q.domain\n",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "values may be missing without a rule",
        file="results/validate/rules.py",
        old="legal & ~gone if plan.rules is None else legal",
        new="legal",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "rounded tables are fitted in single steps",
        file="release_plan/rules.py",
        old="replace(f, multiple=base) if f.name in named else f",
        new="f",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "an unrounded estimate stands beside a rounded number",
        file="results/rules.py",
        old="                parts[name][i] = np.full(np.shape(parts[name][i]), np.nan)\n",
        new="                pass\n",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "ends of a suppressed cell lie between two steps",
        file="results/rules.py",
        old="low = outward(ends[:, 0], statistic.step, np.floor)\n        high = outward(ends[:, 1], statistic.step, np.ceil)",
        new="low, high = ends[:, 0], ends[:, 1]",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "an interval of rounded tables ends at the last multiple",
        file="results/one_fit.py",
        old="        lows, highs = ends(exact, halves, (steps.lower, steps.upper), slack=self.estimates.slack)\n",
        new="        steps = tuple(k * each for k in hull)\n        lows, highs = ends(exact, halves, steps, slack=self.estimates.slack)\n",
        tests=("tests/results/test_rules.py",),
    ),
    Guard(
        "keys are taken from a folder that does not verify",
        "reading/key_list.py",
        "        found = read(folder.resolve())\n",
        "        found = read(folder.resolve(), verify=False)\n",
        _LISTS,
    ),
    Guard(
        "the places of the top are not counted",
        "reading/ranking.py",
        "        chance = count * chances[count - 1] if",
        "        chance = chances[count - 1] if",
        ("tests/reading/test_ranking.py",),
    ),
    Guard(
        "a period goes on with another list than it was charged with",
        "reading/key_list.py",
        "        if not why and known and known[len(lists)] != name:\n",
        "        if False:\n",
        _LISTS,
    ),
    Guard(
        "a debit does not fix its lists",
        "budget/rows.py",
        '        lists=body.get("lists", {}),\n',
        "        lists={},\n",
        _LISTS,
    ),
    Guard(
        "a request that is read back may name folders",
        "query/request.py",
        '            whole = isinstance(part.get("values_from"), Mapping) and "values" in part\n',
        '            whole = isinstance(part.get("values_from"), Mapping)\n',
        _LISTS,
    ),
    Guard(
        "a file is written into a published folder",
        "core/caller.py",
        '    if os.path.lexists(changed / "release.json"):\n',
        "    if False:\n",
        ("tests/results/formats/test_note.py",),
    ),
)
