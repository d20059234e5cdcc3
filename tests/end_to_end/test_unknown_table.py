"""A newcomer's way from a table that nobody prepared to a verified folder: ten commands at most, and answers.

The tables are a survey as its archive gives it (Fair, 1978), read by pandas, and a CSV file as its package gives
it (penguins), of which only names are known. Nothing is edited but lines that ask: their `# ANSWER` is taken away and their
dots are filled, and a statistic that waits for an answer is let in.
"""

from __future__ import annotations

import re
import shlex
import shutil

import pytest
from typer.testing import CliRunner

from dprelease.cli import app
from tests.end_to_end import projects
from tests.end_to_end.projects import ROOT

one_other_budget = projects.one_other_budget
pytestmark = pytest.mark.usefixtures("one_other_budget")
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


def followed(commands, edit):
    """Run the commands; after the one that drafts, answer."""
    names: dict[str, object] = {}
    said = []
    for command in commands:
        if command.startswith("$ dprelease "):
            done = CliRunner().invoke(app, shlex.split(command)[2:])
            assert done.exit_code == 0, f"{command}\n{done.output}"
            said.append(done.output)
        else:
            exec(command, names)
        if "draft" in command:
            edit()
    return said


def test_from_an_unknown_table_to_a_verified_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "data" / "fair_1978.csv", "survey.csv")
    assert len(COMMANDS) <= 10

    def edit():
        schema = tmp_path / "survey.yaml"
        draft = schema.read_text(encoding="utf-8")
        schema.write_text(answered(draft), encoding="utf-8")
        pairs = zip(draft.splitlines(), answered(draft).splitlines(), strict=True)
        changed = [old for old, new in pairs if old != new]
        assert len(changed) == 2 * len(ANSWERS) + 1
        assert all("# ANSWER" in line or "once its range is answered" in line for line in changed)

    followed(COMMANDS, edit)
    folder = tmp_path / "public" / "survey" / "first"
    assert {"data.csv", "report.html", "release.json"} <= {p.name for p in folder.iterdir()}
    published = (folder / "wide.csv").read_text(encoding="utf-8-sig")
    assert all(f"mean_{name}_lower" in published for name in ANSWERS)


PENGUINS = {  # from the study's plan: which birds, where, and what its instruments can show
    "species": "{kind: category, values: [Adelie, Chinstrap, Gentoo]}",
    "island": "{kind: category, values: [Biscoe, Dream, Torgersen]}",
    "bill_length_mm": "{kind: number, range: [20, 80], step: 0.1}",
    "body_mass_g": "{kind: integer, range: [1000, 8000]}",
    "sex": "{kind: category, values: [female, male]}",
}
FROM_A_FILE = (
    "$ dprelease schema draft penguins.csv -o penguins.yaml",
    "$ dprelease schema check penguins.yaml",
    "$ dprelease ledger init --ledger ledger.db --schema penguins.yaml --epsilon 2",
    "import dprelease as dp; release = dp.release('penguins.csv', 'penguins.yaml', ledger='ledger.db', period='2009')",
    "folder = release.publish('public')",
    "$ dprelease verify public/penguins/2009 --ledger ledger.db",
    "$ dprelease derive public/penguins/2009 'share(count)' --to shares.csv",
)


def test_from_a_file_of_which_only_names_are_known(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "tests" / "end_to_end" / "data" / "penguins.csv", "penguins.csv")
    assert len(FROM_A_FILE) <= 10
    schema = tmp_path / "penguins.yaml"

    def edit():
        lines = []
        for line in schema.read_text(encoding="utf-8").splitlines():
            asked = re.fullmatch(r"( *)# ANSWER (\w+): +(\{.*\}) .*", line)
            if asked and asked[2] in PENGUINS:
                line = f"{asked[1]}{asked[2]}: {PENGUINS[asked[2]]}"
            elif asked and asked[2] == "rows":
                line = f"{asked[1]}rows: {{max: 1000, expected: 50}}"
            elif line.strip().startswith("# by: [NAME]"):
                line = "  by: [species]"
            elif "mean(NAME)" in line:
                line = "    - mean(body_mass_g)"
            lines.append(line)
        schema.write_text("\n".join(lines) + "\n", encoding="utf-8")

    said = followed(FROM_A_FILE, edit)
    assert "11 lines to answer" in said[0]
    wide = (tmp_path / "public" / "penguins" / "2009" / "wide.csv").read_text(encoding="utf-8-sig")
    assert wide.splitlines()[0].startswith("species,count,count_lower")
    shares = (tmp_path / "shares.csv").read_text(encoding="utf-8").splitlines()
    assert [line.split(",")[0] for line in shares] == ["species", "Adelie", "Chinstrap", "Gentoo"]
