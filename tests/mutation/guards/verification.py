"""Guards of verification: what a folder says is made again, and compared."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_forged = (
    "tests/verification/test_verify.py",
    "tests/verification/test_comparison.py",
    "tests/security/test_forged_folders.py",
)
_verify = partial(Guard, file="verification/verify.py", tests=_forged)
_cited = partial(Guard, file="verification/cited_entry.py", tests=_forged)
_derive = partial(Guard, file="verification/derivation.py", tests=_forged)
_signed = ("tests/security/test_signed_folders.py", "tests/results/test_signature_file.py")
_signature = partial(Guard, file="results/signature_file.py", tests=_signed)
_planned = ("tests/planning/test_again.py", "tests/security/test_forged_folders.py")
_again = partial(Guard, file="planning/again.py", tests=_planned)
_compare = partial(Guard, file="verification/comparison.py", tests=_forged)

GUARDS = (
    _signature(
        "a signature is believed as it stands",
        old="    if not verifies(_text(manifest), key, signature):\n",
        new="    if False:\n",
    ),
    _signature(
        "a signature is of no manifest",
        old="hashlib.sha256(manifest).hexdigest()",
        new='hashlib.sha256(b"").hexdigest()',
    ),
    _signature(
        "something stands beside a signature",
        old="found = _WRITTEN.fullmatch(data)",
        new="found = _WRITTEN.match(data)",
    ),
    Guard(
        "a folder that nobody signed is good enough for a key",
        "verification/verify.py",
        "    if keys or signature_file.FILE in found:\n",
        "    if signature_file.FILE in found:\n",
        _signed,
    ),
    _signature(
        "any key is as good as the one that was given",
        old="    return key in keys, said",
        new="    return True, said",
    ),
    Guard(
        "a folder that the wrong key signed is another version's",
        "verification/verify.py",
        'failed & {SIGNATURE, "intact"} or failed <= _OF_TODAY',
        'failed & {"intact"} or failed <= _OF_TODAY',
        _signed,
    ),
    _verify(
        "a damaged folder is another version's",
        old='    return not wrong, f"damaged',
        new='    return True, f"damaged',
    ),
    _verify(
        "a manifest that lacks what was drawn is another version's",
        old='for key in ("request", "draw", "plan", "receipt") if not manifest.get(key)]',
        new="for key in () if not manifest.get(key)]",
        tests=("tests/verification/test_verify.py",),
    ),
    Guard(
        "without a key it is not said that nobody knows who made a folder",
        "verification/verify.py",
        "        if found is not None and found.ok:\n",
        "        if found is not None:\n",
        _signed,
    ),
    Guard(
        "the number of a ledger's entry may be a text in the index",
        file="results/series/foreign.py",
        old='if value["seq"] != found.seq or not 0',
        new="if not 0",
        tests=("tests/results/series/test_collect.py",),
    ),
    Guard(
        "a period that another's signature stands in is in the index",
        "results/series/collect.py",
        'signed_by(read_small(path / SIGNATURE) or b"", data)\n',
        '(read_small(path / SIGNATURE) or b"")[53:117].decode()\n',
        _signed,
    ),
    Guard(
        "a signing key is looked for after the charge",
        "pipeline/run.py",
        '    return signing(key.reveal_to_source(), "publish.signing_key")',
        '    return lambda files: signing(key.reveal_to_source(), "publish.signing_key")(files)',
        _signed,
    ),
    Guard(
        "short lists stand for as much as they say",
        file="core/strict_json.py",
        old="        if count > MOST_VALUES:\n",
        new="        if count < 0:\n",
        tests=("tests/core/test_strict_json.py",),
    ),
    _cited(
        "a reconciled debit speaks for any manifest",
        old="    if adopted is not None and adopted != hashlib.sha256(made.files[FILE]).hexdigest():\n",
        new="    if False:\n",
    ),
    _verify(
        "values are always in their domains",
        old='verdict.ok, f"{rows:,} made again',
        new='True, f"{rows:,} made again',
    ),
    _verify(
        "the plan is not compared with the request's",
        old="    if again != stated:\n",
        new="    if False:\n",
    ),
    _derive(
        "the plan's hash is not compared",
        old="        if not is_hash_of(named, self.plan.to_json()):\n",
        new="        if False:\n",
    ),
    _verify(
        "the period of the request is not the receipt's",
        old='    if calendar is not None and calendar.name != manifest["receipt"]["period"]:\n',
        new="    if False:\n",
    ),
    _verify(
        "files are not compared",
        old="    wrong = differences(path, found, files)\n",
        new="    wrong: dict[str, str] = {}\n",
    ),
    _derive(
        "laws are not certified again",
        old="        return execute.check(self.plan)\n",
        new="        return self.plan.epsilon\n",
    ),
    _derive(
        "errors at other budgets are believed",
        old='        if not same:\n            raise _refused("the stated errors',
        new='        if False:\n            raise _refused("the stated errors',
    ),
    _derive(
        "an integer may be one that its law cannot draw",
        old="if not block.law.drawable(raw).all():",
        new="if False:",
    ),
    _derive(
        "a week may close at any instant after it",
        old="if calendar is None or end is None or value != instant_text(end + calendar.delay):",
        new="if calendar is None or end is None or value < instant_text(end):",
    ),
    _derive(
        "a day may lie before the period's end",
        old="    if least is not None and instant(value) < least:\n",
        new="    if False:\n",
    ),
    _derive(
        "a budget of rho need not include this release",
        old="honest = 0 < delta < 1 and self._costs_by_rho(before, delta) <= spent",
        new="honest = 0 < delta < 1",
        tests=("tests/end_to_end/test_delta.py",),
    ),
    _derive(
        "a history may fall",
        old="            and all(a <= b for a, b in pairwise(history))\n",
        new="",
    ),
    _derive(
        "a budget may have been overspent",
        old="            and 0 < history[-1] == spent <= total\n",
        new="            and 0 < history[-1] == spent\n",
    ),
    _derive(
        "a budget need not include this release",
        old="honest = self.plan.epsilon <= spent - before",
        new="honest = True",
    ),
    _derive(
        "software may be any length",
        old="        if len(said) > most or not all(isinstance(t, str) and len(t) <= longest for t in texts):\n",
        new="        if not all(isinstance(t, str) for t in texts):\n",
    ),
    _derive(
        "a few bytes may ask for a million groups",
        old="        if groups != listed and not self.query.groups.found:\n",
        new="        if False:\n",
    ),
    _compare(
        "a file that does not follow from the release may be there",
        old='wrong = {name: "does not follow from the release" for name in found if name not in made}',
        new="wrong: dict[str, str] = {}",
    ),
    _compare(
        "a file may be missing",
        old='wrong |= {name: "is missing" for name in made if name not in found}',
        new="wrong |= {}",
    ),
    _compare(
        "Parquet may hold more than its columns",
        old="    return at + footer + 8 == len(data)\n",
        new="    return True\n",
    ),
    _compare(
        "Parquet's metadata is not compared",
        old="if not one.schema_arrow.equals(two.schema_arrow, check_metadata=True):",
        new="if not one.schema_arrow.equals(two.schema_arrow):",
    ),
    _compare(
        "Parquet's values are not compared",
        old="if not _identical(*parts):",
        new="if False:",
    ),
    _compare(
        "Parquet's statistics are not compared",
        old="if _statistics(a) not in (None, _statistics(b)) or _claims(a) != _claims(b):",
        new="if _claims(a) != _claims(b):",
    ),
    _compare(
        "Parquet may claim more of its columns",
        old="if _statistics(a) not in (None, _statistics(b)) or _claims(a) != _claims(b):",
        new="if _statistics(a) not in (None, _statistics(b)):",
    ),
    _compare(
        "Parquet may claim to be sorted",
        old="if one.row_group(i).sorting_columns != two.row_group(i).sorting_columns:",
        new="if False:",
    ),
    _compare(
        "Parquet's footer may hold what its reader passes over",
        old="    return bool(again.getvalue().to_pybytes()[4:] == data[-footer:])\n",
        new="    return True\n",
    ),
    _compare(
        "Parquet may name anything as its writer",
        old="    if not _WRITER.fullmatch(one.created_by):\n        return False\n",
        new="",
    ),
    _again(
        "the epsilon of a share of rho is any number",
        old="if share.rho is not None and share != Share.concentrated(share.rho):",
        new="if share.rho is not None and share.split:",
        tests=("tests/planning/test_again.py",),
    ),
    _again(
        "a declared error need not be met",
        old="if goal is not None and (error is None or error > float(goal) * (1 + CLOSE)):",
        new="if False:",
    ),
    _again(
        "a declared share need not be kept",
        old="and each.share.epsilon not in (0, declared * query.epsilon):",
        new="and False:",
    ),
    _again(
        "a law need not be the best of its rivals",
        old="    if judged[0] > min(judged) and not _close(judged[0], min(judged)):\n",
        new="    if False:\n",
    ),
    _again(
        "a law may have other integers of another error",
        old="    if errors is None or not all(_close(a, b) for a, b in zip(errors, fresh.errors, strict=True)):",
        new="    if False:",
    ),
    _again(
        "stated errors are not those of the laws",
        old="        if not _same_figures(figures[name], prices.figures(chosen, i)):\n",
        new="        if False:\n",
    ),
    _again(
        "a rival that nobody offers any more is better than the law that is drawn",
        old="    if len(offered) < len(stated.options) and not _in_order(stated.options):\n",
        new="    if False:\n",
    ),
    Guard(
        "a copy of another period may stand under its name",
        "results/published_folder.py",
        'place.parent.name == manifest["pipeline"] or names_a_period(place.name)',
        "False",
        _forged,
    ),
    _verify(
        "a folder chooses a version that clears it",
        old="        return all(c.ok is not False for c in self.checks)\n",
        new="        return self.made_by is not None or all(c.ok is not False for c in self.checks)\n",
    ),
    _verify(
        "a release may be of a day that is yet to come",
        old="    if published is not None and published > tomorrow.date().isoformat():\n",
        new="    if False:\n",
    ),
    Guard(
        "the split may exceed the epsilon",
        "allocation/spend.py",
        "    if method not in (WORDS if delta else SUMS) or (epsilon and total > epsilon):\n",
        "    if method not in (WORDS if delta else SUMS):\n",
        _planned,
    ),
    Guard(
        "words are part of a plan's hash",
        "release_plan/identity.py",
        "if name not in left_out",
        "if True",
        ("tests/release_plan/test_hash.py",),
    ),
    Guard(
        "what is allowed without a proof is not part of a plan's hash",
        "release_plan/identity.py",
        'return {**value, "notes": None, "statistics": statistics}',
        'return {**value, "notes": None, "allow": None, "statistics": statistics}',
        ("tests/release_plan/test_hash.py",),
    ),
    Guard(
        "an unsound format is not revoked",
        "results/formats/manifest_file.py",
        "    if version in REVOKED:\n",
        "    if False:\n",
        _forged,
    ),
    _verify(
        "an answer may be of any length",
        old="        within_length(checks),\n",
        new="        tuple(checks),\n",
    ),
    _cited(
        "the ledger may say that the period was over",
        old='if manifest["early"] not in {e.entry.early for e in book.entries() if e.entry.key == key}:',
        new="if False:",
        tests=("tests/pipeline/test_closing.py",),
    ),
    _cited(
        "the ledger's budget is not compared",
        old="if stated is not None and entry.anchor == anchor and not _budgeted(book, anchor, key, stated):",
        new="if False:",
        tests=("tests/end_to_end/test_delta.py",),
    ),
    Guard(
        "a link is read as a file of the folder",
        file="results/published_folder.py",
        old="                if not stat.S_ISREG(said.st_mode) or len(found) >= _MOST_FILES:\n",
        new="                if len(found) >= _MOST_FILES:\n",
        tests=_forged,
    ),
    Guard(
        "numbers in files may be of any size",
        "core/numeric.py",
        'text = str(value).strip() if not isinstance(value, str) or len(value) <= 2 * MOST_DIGITS else ""',
        "text = str(value).strip()",
        ("tests/core/test_numeric.py", "tests/security/test_foreign_folders.py"),
    ),
    Guard(
        "JSON may say one key twice",
        "core/strict_json.py",
        "    if len(out) < len(pairs):\n",
        "    if False:\n",
        ("tests/core/test_strict_json.py", "tests/security/test_forged_folders.py"),
    ),
    Guard(
        "JSON may hold numbers that are none",
        "core/strict_json.py",
        '    raise ValueError(f"{name} is not a number")\n',
        "    return math.nan  # type: ignore[misc]\n",
        ("tests/core/test_strict_json.py", "tests/security/test_forged_folders.py"),
    ),
    Guard(
        "the proof of fitted values may say more than the fit",
        "verification/fits.py",
        '        elif not _same(again.proof, stated["proof"]):\n',
        "        elif False:\n",
        ("tests/results/test_fitted.py",),
    ),
    Guard(
        "a format may be named twice",
        "verification/derivation.py",
        "        if len(set(listed)) != len(listed):\n",
        "        if False:\n",
        ("tests/security/test_forged_folders.py",),
    ),
)
