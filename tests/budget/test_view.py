"""A budget made in Python can be looked at and raised through every door, and the fix of its error runs."""

from __future__ import annotations

import re
import shlex
from fractions import Fraction

import pandas as pd
import pytest
from typer.testing import CliRunner

import dprelease as dp
from dprelease.cli import app
from dprelease.core.errors import ArgumentError, BudgetError, LedgerError

SCHEMA = {
    "dprelease": "schema/1",
    "name": "people",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1000, "expected": 10},
    "columns": {"age": {"kind": "integer", "measure": "years", "range": [0, 100]}},
    "release": {"epsilon": 1, "statistics": ["count"]},
}
FRAME = pd.DataFrame({"age": [30, 40, 50]})


@pytest.fixture
def place(tmp_path):
    return dp.create_ledger(tmp_path / "a ledger.db", SCHEMA, epsilon=1)


def release(place, period):
    return dp.release(FRAME, SCHEMA, ledger=place, period=period)


def refused(place, period="two"):
    with pytest.raises(BudgetError) as caught:
        release(place, period)
    return caught.value


def command(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def pasted(fix):
    """Return the words of the fix's two commands: what this release lacks, and what twelve such do."""
    return [shlex.split(line) for line in re.findall(r"`dprelease (ledger add [^`]*)`", fix)]


def test_the_fix_of_a_spent_budget_can_be_pasted(place):
    release(place, "one")
    error = refused(place)
    one, twelve = pasted(error.fix)
    assert (one[-1], twelve[-1]) == ("1", "12")
    done = command(*one)
    assert done.exit_code == 0, done.output
    assert "people has epsilon 2 now, 1 left" in done.output
    assert release(place, "two").receipt.spent == "2"
    assert refused(place, "three").code == "DPR301"


def test_python_raises_it_too(place):
    release(place, "one")
    book = dp.open_ledger(place)
    assert book.datasets() == ("people",)
    assert book.balance("people").left == 0
    assert book.add("people", epsilon="0.5").left == Fraction(1, 2)
    assert refused(place).code == "DPR301"  # control: half is not enough
    book.add("people", epsilon=Fraction(1, 2))
    release(place, "two")
    table = book.entries("people")
    assert table.column("period").to_pylist() == ["one", "two"]
    assert table.column("epsilon").to_pylist() == ["1", "1"]
    assert table.column("early").to_pylist() == [None, None]
    assert book.entries("nobody").num_rows == 0
    assert book.verify().ok


def test_delta_can_be_raised_through_both_doors(tmp_path):
    place = dp.create_ledger(tmp_path / "z.db", SCHEMA, epsilon=1, delta="0.000001")
    book = dp.open_ledger(place)
    book.add("people", epsilon=1, delta="0.000001")
    done = command(
        "ledger",
        "add",
        "--ledger",
        place,
        "--dataset",
        "people",
        "--epsilon",
        1,
        "--delta",
        "0.000001",
    )
    assert done.exit_code == 0, done.output
    assert (book.balance("people").epsilon, book.balance("people").delta) == (3, Fraction(3, 10**6))


def test_nothing_is_made_by_looking(tmp_path):
    with pytest.raises(LedgerError) as caught:
        dp.open_ledger(tmp_path / "none.db")
    assert caught.value.code == "DPR401"
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (LedgerError, lambda book: book.add("nobody", epsilon=1)),
        (LedgerError, lambda book: book.balance("nobody")),
        (ArgumentError, lambda book: book.add("people", epsilon=0)),
        (ArgumentError, lambda book: book.add("people", epsilon=-1)),
    ],
)
def test_refusals_change_nothing(place, kind, call):
    book = dp.open_ledger(place)
    with pytest.raises(kind):
        call(book)
    assert book.balance("people").epsilon == 1


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (["--ledger", "PLACE", "--epsilon", "1"], 2, "whose budget"),
        (["--epsilon", "1"], 2, "name a pipeline file, or a ledger"),
        (["--ledger", "PLACE", "--dataset", "nobody", "--epsilon", "1"], 1, "no budget"),
        (
            ["PIPELINE", "--ledger", "PLACE", "--dataset", "people", "--epsilon", "1"],
            2,
            "names its ledger",
        ),
        (["--ledger", "PLACE", "--dataset", "people"], 2, "epsilon"),
    ],
)
def test_what_the_command_needs_is_said(place, words, status, says):
    done = command("ledger", "add", *[str(place) if w == "PLACE" else w for w in words])
    assert (done.exit_code, says in done.output) == (status, True), done.output
    assert dp.open_ledger(place).balance("people").epsilon == 1


def test_a_cap_is_set_without_a_pipeline(place):
    done = command("ledger", "add", "--ledger", place, "--dataset", "people", "--per-period", "0.5")
    assert done.exit_code == 0, done.output
    error = refused(place, "one")
    assert (error.code, "--per-period" in error.fix) == ("DPR305", True)
