"""The list of guards fits the library; some of them are broken here, all of them in `make evidence`."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace

import pytest

from tests.meta.trees import no_garbage
from tests.mutation.guard import Guard
from tests.mutation.guards import AREAS
from tests.mutation.run import ROOT, broken_text, copy_of_the_tree, outcome, passes
from tests.sizes import FULL

EVERY = [guard for guards in AREAS.values() for guard in guards]


def fault(guard):
    """Return why a guard of the list could not be broken and noticed, or None."""
    text = (ROOT / "dprelease" / guard.file).read_text(encoding="utf-8")
    try:
        with no_garbage():
            ast.parse(broken_text(text, guard))
    except (LookupError, SyntaxError) as problem:
        return str(problem)
    missing = [place for place in guard.tests if not (ROOT / place).exists()]
    return f"no such tests: {missing}" if missing or not guard.tests else None


def test_every_guard_s_text_stands_once_and_its_broken_text_is_python():
    assert {g.broken: why for g in EVERY if (why := fault(g)) is not None} == {}


def test_a_guard_that_could_not_be_broken_is_named():
    good = EVERY[0]
    assert fault(good) is None
    for wrong in (
        {"old": "no such text"},
        {"new": good.new + "\n(("},
        {"tests": ("tests/none.py",)},
    ):
        assert fault(replace(good, **wrong)) is not None, wrong


def test_names_are_unique_and_there_are_enough():
    assert len(EVERY) >= 65
    assert max(Counter(g.broken for g in EVERY).values()) == 1


def test_a_text_that_is_not_there_once_is_refused():
    guard = Guard("nothing", "x.py", "a", "b", ())
    for text in ("", "aa"):
        with pytest.raises(LookupError):
            broken_text(text, guard)


def test_the_runner_tells_a_broken_build_from_a_whole_one():
    guard = next(g for g in EVERY if g.broken == "a uniform integer is not rejected")
    harmless = Guard("nothing", guard.file, '"""Random bits', '"""Chance bits', guard.tests)
    with copy_of_the_tree(compiled=False) as tree:  # two runs, which read little of it
        noticed = outcome(tree, guard).noticed_by
        assert noticed is not None
        assert "test_entropy" in noticed
        # it was mended, and a whole build passes
        assert outcome(tree, harmless).noticed_by is None


def test_a_run_of_no_test_says_nothing():
    with pytest.raises(RuntimeError, match="no test failed"):
        passes(ROOT, ["tests/none.py"])


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
