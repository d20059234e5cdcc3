"""A newcomer's way from a table that nobody prepared to a verified folder: ten commands at most, and answers.

The table is a survey as its archive gives it (Fair, 1978). Nothing is edited but lines that ask: their
`# ANSWER` is taken away and their dots are filled, and a statistic that waits for an answer is let in.
"""

from __future__ import annotations

import re
import shlex
import shutil

from typer.testing import CliRunner

from dprelease.cli import app
from tests.end_to_end.projects import ROOT

ANSWERS = {  # from the questionnaire, not from the rows
    "age": "[15, 60]",
    "children": "[0, 10]",
    "yrs_married": "[0, 45]",
    "rate_marriage": "[1, 5]",
}
COMMANDS = (
    "import pandas as pd, pathlib, dprelease as dp; survey = pd.read_csv('survey.csv')",
    "drafted = pathlib.Path('survey.yaml').write_text(survey.dp.draft_schema(name='survey'))",
    "$ dprelease schema check survey.yaml",
    "plan = survey.dp.plan('survey.yaml')",
    "ledger = dp.create_ledger('ledger.db', 'survey.yaml', epsilon=2)",
    "release = survey.dp.release('survey.yaml', ledger=ledger, period='first')",
    "folder = release.publish('public')",
    "$ dprelease verify public/survey/first --ledger ledger.db",
)


def answered(text: str) -> str:
    """Return the draft with the answers in it, and nothing else changed."""
    lines = []
    for line in text.splitlines():
        asked = re.fullmatch(r"( *)# ANSWER (\w+): +(\{.*\}) .*", line)
        waiting = re.fullmatch(r'( *)# (- "mean\((\w+)\)") +# once its range is answered', line)
        if asked and asked[2] in ANSWERS:
            line = f"{asked[1]}{asked[2]}: {asked[3].replace('[..., ...]', ANSWERS[asked[2]])}"
        elif asked and asked[2] == "rows":
            line = f"{asked[1]}rows: {{max: 10000, expected: 6000}}"
        elif waiting and waiting[3] in ANSWERS:
            line = waiting[1] + waiting[2]
        lines.append(line)
    return "\n".join(lines) + "\n"


def test_from_an_unknown_table_to_a_verified_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "data" / "fair_1978.csv", "survey.csv")
    assert len(COMMANDS) <= 10
    names: dict[str, object] = {}
    for command in COMMANDS:
        if command.startswith("$ dprelease "):
            done = CliRunner().invoke(app, shlex.split(command)[2:])
            assert done.exit_code == 0, f"{command}\n{done.output}"
        else:
            exec(command, names)
        if command.startswith("drafted"):
            schema = tmp_path / "survey.yaml"
            draft = schema.read_text(encoding="utf-8")
            schema.write_text(answered(draft), encoding="utf-8")
            pairs = zip(draft.splitlines(), answered(draft).splitlines(), strict=True)
            changed = [old for old, new in pairs if old != new]
            assert len(changed) == 2 * len(ANSWERS) + 1
            assert all(
                "# ANSWER" in line or "once its range is answered" in line for line in changed
            )
    folder = tmp_path / "public" / "survey" / "first"
    assert {"data.csv", "report.html", "release.json"} <= {p.name for p in folder.iterdir()}
    published = (folder / "wide.csv").read_text(encoding="utf-8")
    assert all(f"mean_{name}_lower" in published for name in ANSWERS)
