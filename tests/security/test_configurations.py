"""Mutated schemas and pipelines: an error with code and place, or a plan; nothing is touched.

Every mutant is read as `dprelease plan` would read it. Nothing but an error of ours may come out,
of a class that says nothing was spent, with a place; no file appears, changes or is opened for
writing; no message is long, or holds what a terminal would obey.
"""

from __future__ import annotations

import builtins
import random
import string
from collections.abc import Callable
from pathlib import Path
from unicodedata import category

import pytest

from dprelease.core.errors import ConfigError, DpreleaseError, PlanError
from dprelease.facade import plan
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.run import load_pipeline
from dprelease.pipeline.starter import create_starter
from dprelease.query.load import load_schema
from tests.end_to_end.projects import tree
from tests.sizes import sized, whole

VALUES = [
    "", "null", "NO", "010", "1e-6", "-1", "0", "1e400", ".inf", ".nan", "12:30:00", "1_0", "0x1F",
    "2013-01-01", "true", "[]", "{}", "[[[[]]]]", "{a: {b: {c: 1}}}", '""', "'\\0'", '"\\e[2J"',
    '"\\u202e"', "../../etc/passwd", "/dev/zero", "/proc/self/environ", "${env:HOME}", "${file:/etc/passwd}",
    "&a x", "*a", "!!python/name:os.system", "<script>alert(1)</script>", "{{7*7}}", "=1+1",
    'a"; drop table t; --', "(select 1)", "random()", "1/0", "age", "count", "mean(age)", "sum()",
    "mean(mean(age))", "quantile(age, 2)", "histogram(age, [1, 0])", "covariance(age)", "x" * 300,
    "9" * 30, "é", "\U0001f600", "[0, 1]", "[1, 0]", "[0, .inf]", "[[0, 1], [1, 2]]", "{user: age}",
    "add_remove", "substitution", "{max: 1}", "{exact: 5}", "[count, count]", "{as: x}", "drop",
]  # fmt: skip
BITS = ["", " ", "\n", "\t", ":", "- ", "[", "]", "{", "}", ",", '"', "'", "#", "&", "*", "!", "|", ">",
        "%", "@", "`", "\\", "\x00", "\x1b", "\x7f", "\ufeff", "\u2028", "\udfff", "\u202e", "a", "0", "---\n"]  # fmt: skip


def mutated(pick: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    for _ in range(pick.choice([1, 1, 1, 2, 5])):
        i = pick.randrange(len(lines))
        line = lines[i]
        match pick.randrange(7):
            case 0:
                lines.pop(i)
            case 1:
                lines.insert(pick.randrange(len(lines)), line)
            case 2:
                j = pick.randrange(len(lines))
                lines[i], lines[j] = lines[j], line
            case 3:
                at = pick.randrange(len(line) + 1)
                lines[i] = line[:at] + pick.choice(BITS) + line[at + pick.randrange(3) :]
            case 4 if ":" in line:
                head, _, _ = line.partition(":")
                lines[i] = f"{head}: {pick.choice(VALUES)}\n"
            case 5:
                words = line.split(" ")
                words[pick.randrange(len(words))] = pick.choice(VALUES)
                lines[i] = " ".join(words)
            case _:
                at = pick.randrange(len(line) + 1)
                lines[i] = line[:at] + pick.choice(string.printable) + line[at:]
        if not lines:
            return ""
    return "".join(lines)


OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


class Opened:
    """Records files that are opened for writing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.written: list[object] = []
        honest = builtins.open

        def watched(file, mode="r", *rest, **more):
            if set(mode) & set("wax+"):
                self.written.append(file)
            return honest(file, mode, *rest, **more)

        monkeypatch.setattr(builtins, "open", watched)


MUTANTS = sized(whole(150, 1000), 10_000)


def look(error: DpreleaseError) -> None:
    text = str(error)
    assert error.code.startswith(("DPR1", "DPR2")), text
    assert error.spent == "nothing"
    assert error.where, text
    assert "Traceback" not in text and "0x7f" not in text
    assert len(text) < 4000
    assert all(category(c) not in OBEYED for c in text.replace("\n", "")), ascii(text)


@pytest.mark.parametrize("name", ["schemas/clinic.yaml", "pipelines/clinic_weekly.yaml"])
def test_mutants_are_read_or_refused_with_a_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, evidence: Callable[..., None]
) -> None:
    create_starter(tmp_path)
    (tmp_path / ".dprelease").mkdir(exist_ok=True)
    file, pipeline = tmp_path / name, tmp_path / "pipelines" / "clinic_weekly.yaml"
    good = file.read_text()
    before = {path: data for path, data in tree(tmp_path).items() if path != name}
    pick = random.Random(name)
    codes: dict[str, int] = {}
    planned = 0
    for _ in range(MUTANTS):
        file.write_bytes(mutated(pick, good).encode("utf-8", "surrogatepass"))
        with monkeypatch.context() as patch:
            opened = Opened(patch)
            try:
                if file == pipeline:
                    config = load_pipeline(pipeline)
                    if planned < sized(10, 200):
                        plan_pipeline(config, None)
                else:
                    schema = load_schema(file)
                    if planned < sized(10, 200):
                        plan(schema)
                planned += 1
            except (ConfigError, PlanError) as error:
                look(error)
                codes[error.code] = codes.get(error.code, 0) + 1
        assert opened.written == []
    assert {path: data for path, data in tree(tmp_path).items() if path != name} == before
    assert len(codes) >= 12  # the mutants reach many checks
    assert planned > 10  # and some are still sound
    size = f"{MUTANTS:,} mutants of {name}"
    refused = f"{sum(codes.values()):,} refused by {len(codes)} codes, each with its place"
    evidence(f"configurations, {name}", size, f"{refused}; 0 tracebacks, 0 files touched")


def test_a_terminal_is_not_commanded() -> None:
    """Names from files are repeated in messages; what a terminal obeys is spelled out."""
    hostile = "a\x1b]0;owned\x07\x1b[2J\x9b31m\u202eb\ud800\u2028c\r"
    error = ConfigError(f"the key `{hostile}\n  code   DPR000` is bad", where=hostile, why="a\nb")
    first, *rest = str(error).split("\n")
    assert all(c.isprintable() for c in str(error).replace("\n", ""))
    assert "\\x1b]0;owned\\x07" in first and "DPR000" in first  # one line, not a forged second one
    assert [line.split()[0] for line in rest] == ["where", "why", "b", "code"]
    str(error).encode()  # a lone surrogate, as a file's name may hold, would not be encoded
