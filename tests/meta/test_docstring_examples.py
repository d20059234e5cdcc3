"""The examples in docstrings give what they show: a name in one of them that is no longer there is found."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.meta.lines import ROOT

EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "dprelease").rglob("*.py")
    if ">>>" in path.read_text("utf-8")
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_module_give_what_they_show(name):
    assert not doctest.testmod(importlib.import_module(name)).failed


def test_twin_an_example_with_a_name_that_is_gone_fails():
    broken = doctest.DocTestParser().get_doctest(">>> gone(1)\n2\n", {}, "broken", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(broken, out=lambda _: None).failed == 1
