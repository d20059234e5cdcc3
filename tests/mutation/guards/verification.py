"""Guards of verification: what a folder says is made again, and compared."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_forged = (
    "tests/test_verification.py",
    "tests/test_comparison.py",
    "tests/security/test_forged_folders.py",
)
_verify = partial(Guard, file="verification.py", tests=_forged)
_derive = partial(Guard, file="derivation.py", tests=_forged)
_compare = partial(Guard, file="comparison.py", tests=_forged)

GUARDS = (
    _verify(
        "values are always in their domains",
        old='verdict.ok, f"{made.noised.table.num_rows:,} made again',
        new='True, f"{made.noised.table.num_rows:,} made again',
    ),
    _verify(
        "the plan is not compared with the request's",
        old="    if again != stated:\n",
        new="    if False:\n",
    ),
    _verify(
        "the plan's hash is not compared",
        old='    if plan_hash(stated) != manifest["plan_hash"]:\n',
        new="    if False:\n",
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
        "a public constant may be another number",
        old="if isinstance(law, ConstantDraw) and any(row != (law.value,) for row in cells[block.name]):",
        new="if False:",
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
        old="        if groups != listed:\n",
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
        old="if not _identical(one.read_row_group(i), two.read_row_group(i)):",
        new="if False:",
    ),
    _compare(
        "Parquet's statistics are not compared",
        old="            if _statistics(a) not in (None, _statistics(b)):\n                return False\n",
        new="",
    ),
    _compare(
        "a link is read as a file of the folder",
        old="                if not stat.S_ISREG(said.st_mode) or len(found) >= _MOST_FILES:\n",
        new="                if len(found) >= _MOST_FILES:\n",
    ),
    Guard(
        "numbers in files may be of any size",
        "numeric.py",
        'text = str(value).strip() if not isinstance(value, str) or len(value) <= 2 * MOST_DIGITS else ""',
        "text = str(value).strip()",
        ("tests/test_numeric.py", "tests/security/test_foreign_folders.py"),
    ),
    Guard(
        "JSON may say one key twice",
        "strict_json.py",
        "    if len(out) < len(pairs):\n",
        "    if False:\n",
        ("tests/security/test_forged_folders.py", "tests/security/test_foreign_folders.py"),
    ),
    Guard(
        "JSON may hold numbers that are none",
        "strict_json.py",
        '    raise ValueError(f"{name} is not a number")\n',
        "    return math.nan  # type: ignore[misc]\n",
        ("tests/security/test_forged_folders.py", "tests/security/test_foreign_folders.py"),
    ),
)
