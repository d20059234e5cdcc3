"""The list of guards fits the library; some of them are broken here, all of them in `make evidence`."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.mutation.guard import Guard
from tests.mutation.guards import AREAS
from tests.mutation.run import ROOT, broken_text, copy_of_the_tree, outcome, passes
from tests.sizes import FULL

EVERY = [guard for guards in AREAS.values() for guard in guards]


@pytest.mark.parametrize("guard", EVERY, ids=lambda g: g.broken)
def test_a_guards_text_stands_once_and_its_broken_text_is_python(guard):
    text = (ROOT / "dprelease" / guard.file).read_text(encoding="utf-8")
    ast.parse(broken_text(text, guard))
    assert all((ROOT / place).exists() for place in guard.tests)


def test_names_are_unique_and_there_are_enough():
    assert len(EVERY) >= 65
    assert max(Counter(g.broken for g in EVERY).values()) == 1


def test_a_text_that_is_not_there_once_is_refused():
    guard = Guard("nothing", "x.py", "a", "b", ())
    for text in ("", "aa"):
        with pytest.raises(LookupError):
            broken_text(text, guard)


def test_the_runner_tells_a_broken_build_from_a_whole_one():
    guard = next(g for g in EVERY if g.broken == "budgets are rounded up")
    harmless = Guard("nothing", guard.file, '"""Add up what', '"""Sum up what', guard.tests)
    with copy_of_the_tree() as tree:
        assert passes(tree, guard.tests) is None
        assert outcome(tree, harmless).noticed_by is None
        noticed = outcome(tree, guard).noticed_by
        assert noticed is not None
        assert "test_accountant" in noticed
        assert passes(tree, guard.tests) is None  # it was mended


@pytest.mark.skipif(not FULL, reason="all guards take most of an hour: `make evidence`")
@pytest.mark.parametrize("area", AREAS)
def test_every_broken_guard_is_noticed(area, evidence):
    with copy_of_the_tree() as tree:
        found = [outcome(tree, guard) for guard in AREAS[area]]
    unnoticed = [f.guard.broken for f in found if f.noticed_by is None]
    assert not unnoticed
    files = {f.noticed_by.partition("::")[0] for f in found if f.noticed_by}
    evidence(
        f"broken guards: {area}",
        f"{len(found)} guards, one at a time",
        f"all noticed, in {len(files)} files of tests",
    )
