"""Guards of `dprelease/budget`: what is debited, when, and what a changed ledger shows."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_budget = (
    "tests/budget/test_ledger.py",
    "tests/budget/test_citation.py",
    "tests/budget/test_period_cap.py",
    "tests/budget/test_accountant.py",
    "tests/budget/test_chain.py",
)
_rows = partial(Guard, file="budget/rows.py", tests=_budget)
_declarations = partial(Guard, file="budget/declarations.py", tests=_budget)
_stored = partial(Guard, file="budget/stored.py", tests=_budget)
_cited = partial(Guard, file="budget/cited.py", tests=_budget)
_steps = partial(Guard, file="budget/steps.py", tests=_budget)
_chain = partial(
    Guard,
    file="budget/chain.py",
    tests=(
        "tests/budget/test_chain.py",
        "tests/budget/test_ledger.py",
        "tests/budget/test_rho_filter.py",
    ),
)
_sums = partial(_chain, file="budget/timed_chain.py")
_storage = partial(
    Guard,
    file="budget/storage.py",
    tests=("tests/budget/test_storage.py", "tests/budget/test_ledger.py"),
)
_accountant = partial(
    Guard, file="budget/accountant.py", tests=("tests/budget/test_accountant.py",)
)
_rho = partial(Guard, file="budget/rho_filter.py", tests=("tests/budget/test_rho_filter.py",))
_cap = partial(Guard, file="budget/period_cap.py", tests=("tests/budget/test_period_cap.py",))
_approval = partial(
    Guard,
    file="budget/approval.py",
    tests=("tests/budget/test_approval.py", "tests/pipeline/test_approving.py"),
)
_approvals = partial(
    Guard, file="budget/approval_chain.py", tests=("tests/budget/test_approval.py",)
)
_head = partial(Guard, file="budget/head_file.py", tests=("tests/budget/test_head_file.py",))

GUARDS = (
    Guard(
        "of a file of two keys the second is ignored",
        file="budget/signature.py",
        old='if text.count("BEGIN ") == 1 else',
        new='if "BEGIN " in text else',
        tests=("tests/budget/test_signature.py",),
    ),
    Guard(
        "an empty list of public keys is no key at all",
        file="results/signature_file.py",
        old="    if not found:\n",
        new="    if False:\n",
        tests=("tests/results/test_signature_file.py",),
    ),
    Guard(
        "a public key beside a ledger alone is taken and checks nothing",
        file="cli/ledger.py",
        old="if public_key is not None and head is None:",
        new="if False:",
        tests=("tests/pipeline/test_anchoring.py",),
    ),
    Guard(
        "whatever a server refuses, a copy of the ledger is to be restored",
        "budget/storage.py",
        'server.get(why.rpartition(" ")[2], disk)',
        "disk",
        ("tests/budget/test_storage.py",),
    ),
    Guard(
        "a policy of a table that is written after the debit is found after it",
        "budget/postgres.py",
        " OR row_security_active(oid))",
        ")",
        ("tests/budget/test_postgres.py",),
    ),
    Guard(
        "a debit is made by a role that may not write what follows it",
        "budget/steps.py",
        "    if closed := closed_tables(db):\n",
        "    if closed := list[str]():\n",
        ("tests/budget/test_postgres.py",),
    ),
    Guard(
        "the folder of a new ledger is not synced",
        "budget/location.py",
        "            aside.unlink()\n            os.fsync(folder)\n",
        "            aside.unlink()\n",
        ("tests/budget/test_location.py", "tests/faults/test_power_loss.py"),
    ),
    Guard(
        "a debit is made by one of several names of a ledger",
        "budget/backend.py",
        "    if others > 0:\n",
        "    if False:\n",
        ("tests/budget/test_ledger.py",),
    ),
    Guard(
        "the folder above a new ledger's own is not synced",
        "budget/location.py",
        "        if made:\n            with locked(parent.parent) as folder:\n                os.fsync(folder)\n",
        "",
        ("tests/budget/test_location.py", "tests/faults/test_power_loss.py"),
    ),
    Guard(
        "a ledger is made anew beside published manifests",
        "budget/location.py",
        "            if not allowed:\n                raise refusals.missing(path, refusals.RESTING)\n",
        "",
        ("tests/budget/test_location.py", "tests/budget/test_ledger.py"),
    ),
    Guard(
        "a ledger is made anew beside its own log",
        "budget/location.py",
        'if any(os.path.lexists(f"{path}{end}") for end in ("-wal", "-journal")):',
        "if False:",
        ("tests/budget/test_location.py", "tests/budget/test_ledger.py"),
    ),
    _chain(
        "the hash of the event before is not compared",
        old="if prev_hash != previous or value != digest((previous + text).encode()):",
        new="if value != digest((previous + text).encode()):",
    ),
    _chain(
        "an event may be missing",
        old='        if seq != expected:\n            return [f"event {expected} of the chain is missing"]\n',
        new="",
    ),
    _chain(
        "tables are not compared with the chain",
        old="found = fold.problems + _projections(db, fold) + _version(db, fold)",
        new="found = fold.problems + _version(db, fold)",
    ),
    _chain(
        "stored bytes are not compared with the chain",
        old="        if deep and not found:\n            found = _bytes(db, fold)\n",
        new="",
    ),
    _chain(
        "a debit may cost less than its loss",
        old="            if cost != entry.cost:\n",
        new="            if False:\n",
    ),
    _sums(
        "debits may exceed the budget",
        old="        over = not worst_cost(found.costs, pairs=found.line.pairs).within(found.budget)\n",
        new="        over = False\n",
    ),
    _chain(
        "a budget may state more rho than it is worth",
        old="    if rho < 0 or spent_epsilon(rho, total.delta) > total.epsilon:\n",
        new="    if False:\n",
    ),
    _sums(
        "debits may exceed the budget in rho",
        old="pairs=found.line.pairs) > nano_rho\n",
        new="pairs=found.line.pairs) < 0\n",
    ),
    _chain(
        "triggers may be dropped",
        old='return [] if written == DDL else ["the tables or their append-only triggers were changed"]',
        new="return []",
    ),
    _rows(
        "a release that does not fit is debited",
        old="if not worst.within(budget):",
        new="if False:",
    ),
    _rows(
        "a release of another unit is debited",
        old="    if declared(db, key.dataset, path) != stated:\n",
        new="    if False:\n",
    ),
    _rows(
        "a key may be used by another plan",
        old="    if not same:\n",
        new="    if same is None:\n",
    ),
    Guard(
        "any debit of an earlier version is taken for one of this plan",
        file="pipeline/stages.py",
        old="    if recorded == former_hash(plan.to_json()):\n",
        new="    if recorded is not None:\n",
        tests=("tests/end_to_end/test_crash.py",),
    ),
    Guard(
        "committed files of another plan are taken for those of this one",
        file="pipeline/stages.py",
        old="        if is_hash_of(recorded, committed) and plan_hash(committed) == plan.hash:\n",
        new="        if is_hash_of(recorded, committed):\n",
        tests=("tests/end_to_end/test_crash.py",),
    ),
    Guard(
        "the scale of a law is not part of a plan's hash",
        file="release_plan/identity.py",
        old="    return {name: (_nine if name in _CLOSE else _law)(part) for name, part in law.items()}\n",
        new="    return {name: _law(part) for name, part in law.items() if name not in _CLOSE}\n",
        tests=("tests/release_plan/test_hash.py",),
    ),
    Guard(
        "where nothing can be written, a log beside the ledger is passed over",
        file="budget/read_only.py",
        old="    elif log.exists() and log.stat().st_size:\n",
        new="    elif False:\n",
        tests=("tests/budget/test_read_only.py",),
    ),
    _stored(
        "a changed payload is handed out",
        old='    if chain.digest(row[0]) != json.loads(row[1])["sha256"]:\n',
        new="    if False:\n",
    ),
    _stored(
        "changed files are handed out",
        old='    if {name: chain.digest(data) for name, data in found.items()} != json.loads(text)["files"]:\n',
        new="    if False:\n",
    ),
    _declarations(
        "a changed salt is used",
        old='    if chain.digest(salt) != json.loads(text)["salt_sha256"]:\n',
        new="    if False:\n",
    ),
    _cited(
        "a debit without its bytes accounts for a manifest",
        old='    if recorded.state not in ("ready", "published"):\n        return False\n',
        new="",
    ),
    _cited(
        "a manifest of another plan is accounted for",
        old="    if recorded.entry.plan_hash != citation.entry.plan_hash:\n        return False\n",
        new="",
    ),
    _cited(
        "a manifest of another head is accounted for",
        old="    return recorded.anchor == citation.anchor or citation.anchor in origins(db)\n",
        new="    return True\n",
    ),
    _cited(
        "what was drawn here is taken for what was published elsewhere",
        old='        if name != "charged" and not (name == "drawn" and chain.head(db, seq) == origin):\n',
        new="        if False:\n",
    ),
    _rows(
        "rho beyond the budget is debited",
        old="    if rho is not None and spent > concentrated.nano_rho:\n",
        new="    if False:\n",
        tests=("tests/budget/test_rho_filter.py",),
    ),
    _rows(
        "a release without a rho is debited where rho adds up",
        old="    if concentrated is not None and rho is None:\n        raise refusals.without_rho(path, dataset)\n",
        new="    if concentrated is not None and rho is None:\n        rho = 0\n",
        tests=("tests/budget/test_rho_filter.py",),
    ),
    _steps(
        "a payload of another width is kept",
        old="if not isinstance(data, bytes) or (width is not None and len(data) != width):",
        new="if not isinstance(data, bytes):",
    ),
    _steps(
        "a draw that raised may be drawn again",
        old='        stored.insert_state(db, seq, "failed", "DPR711")\n',
        new="        pass\n",
    ),
    _steps(
        "a failed release is drawn",
        old='    if state == "failed":\n        raise refusals.failed_before(place, key, code)\n    return seq\n',
        new="    return seq\n",
    ),
    _steps(
        "what was published elsewhere is drawn again",
        old='    if stored.state(db, seq)[0] == "published":\n        raise refusals.published_elsewhere(place, key)\n',
        new="",
    ),
    _steps(
        "other files replace the committed ones",
        old="    if known and known != files:\n        raise refusals.other_files(place, key)\n",
        new="",
    ),
    _steps(
        "a drawn release is paid for once more",
        old='if again and stored.state(db, seq)[0] == "charged":',
        new="if again:",
    ),
    _storage(
        "a commit is not synced",
        old='("synchronous", "FULL", 2),',
        new='("synchronous", "NORMAL", 1),',
    ),
    _storage(
        "settings are not read back",
        old="            if row is None or row[0] != wanted:\n",
        new="            if False:\n",
    ),
    _storage(
        "opening makes a ledger",
        old="?mode=rw",
        new="?mode=rwc",
    ),
    _accountant(
        "costs are rounded down",
        old="return cls(nano_up(epsilon), math.ceil(delta * ATTO))",
        new="return cls(nano_up(epsilon), math.floor(delta * ATTO))",
    ),
    _accountant(
        "budgets are rounded up",
        old="return cls(math.floor(epsilon * NANO), math.floor(delta * ATTO))",
        new="return cls(math.ceil(epsilon * NANO), math.floor(delta * ATTO))",
    ),
    _accountant(
        "delta is not added up",
        old=" and self.atto_delta <= budget.atto_delta",
        new="",
    ),
    _rho(
        "an approximate release counts as a pure one",
        old="return nano_up(zcdp_of_pure(entry.epsilon)) if entry.delta == 0 else None",
        new="return nano_up(zcdp_of_pure(entry.epsilon))",
    ),
    _cap(
        "a period may pass its cap",
        old="    if used + entry.cost.nano_epsilon > cap.nano_epsilon:\n",
        new="    if False:\n",
    ),
    _cap(
        "a second draw counts towards another period",
        old="    if again is not None:\n        return periods[again]  # type: ignore[index]\n",
        new="",
    ),
    Guard(
        "a debit asks for no approval",
        "budget/rows.py",
        "under = None if origin else approval.must_cover(db, entry, wanted, period, path)",
        "under = None",
        ("tests/budget/test_approval.py",),
    ),
    _approval(
        "an approval has no last day",
        old="    if _is_over(newest.approval, now):\n",
        new="    if False:\n",
    ),
    _approval(
        "an approval has no limits",
        old="        if most is not None and used + entry.epsilon > most:\n",
        new="        if False:\n",
    ),
    _approval(
        "an approval covers every request",
        old="    same = [a for a in known if a.approval.hash == request_hash(request)]\n",
        new="    same = known\n",
    ),
    _approval(
        "an approval by any key counts",
        old="    if key is None or (newest.approval.public_key == key and newest.approval.is_signed()):\n",
        new="    if True:\n",
    ),
    _approval(
        "an earlier approval of the request counts",
        old="    newest = same[-1]\n",
        new="    newest = same[0]\n",
    ),
    _approval(
        "a pipeline whose file says nothing needs no approval, whatever the ledger holds",
        old="    if not known and (wanted is None or not wanted.required):\n",
        new="    if wanted is None or not wanted.required:\n",
    ),
    _approvals(
        "an approval may be put elsewhere in the chain",
        old="        if approval.after != previous:\n",
        new="        if False:\n",
    ),
    _approvals(
        "a chain with an approval by another key is intact",
        old="        if key is not None and approval.public_key != key:\n",
        new="        if False:\n",
    ),
    _approvals(
        "a debit without its approval is intact",
        old="""            return "is made without the approval that its pipeline needs" if same else None\n""",
        new="            return None\n",
    ),
    Guard(
        "a folder may name an approval of another request",
        "verification/derivation.py",
        "        if not before or request != request_hash(request_for_all_periods(self.query)):\n",
        "        if not before:\n",
        ("tests/pipeline/test_approving.py",),
    ),
    Guard(
        "an officer reads what does not follow from the request",
        "pipeline/approving.py",
        "    _must_say_so(stated, config, plan, file)\n",
        "",
        ("tests/pipeline/test_approving.py",),
    ),
    _head(
        "a head is read as if a key twice or NaN had one meaning",
        old="        value = read_json(data)\n",
        new="        value = __import__('json').loads(data)\n",
    ),
    _head(
        "an earlier head replaces a later one",
        old="            if later and not replace:\n                return\n",
        new="",
    ),
    _head(
        "a head without a signature is believed",
        old="        or not signature.verifies(signature.head_text(anchor), public_key, signed)\n",
        new="",
    ),
    _head(
        "a head that the ledger does not hold is believed",
        old="    if not ledger.anchor_ok(anchor):\n",
        new="    if False:\n",
    ),
    Guard(
        "a link is read as a manifest",
        "budget/citation.py",
        "Citation.from_manifest(read_file(path, MOST_BYTES))",
        "Citation.from_manifest(path.read_bytes())",
        ("tests/budget/test_citation.py", "tests/security/test_paths.py"),
    ),
    Guard(
        "what is spent has what is asked in it",
        "budget/refusals.py",
        "amounts = after - wanted, whole, wanted, whole - (after - wanted)",
        "amounts = after, whole, wanted, whole - after",
        ("tests/budget/test_ledger.py",),
    ),
    Guard(
        "twelve releases are paid for as eleven",
        "budget/refusals.py",
        "lacking = after - whole, after - whole + 11 * wanted",
        "lacking = after - whole, after - whole + 10 * wanted",
        ("tests/budget/test_ledger.py",),
    ),
)
