"""The glossary defines each term once, in at most two sentences, in order."""

from __future__ import annotations

import re

from tests.end_to_end.projects import ROOT

TEXT = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| \*\*(.+?)\*\* \| (.+) \|$", TEXT, re.MULTILINE)


def sentences(text):
    plain = re.sub(r"`[^`]*`|\([^)]*\)", "x", text)
    return len(re.findall(r"[.:;]?[^.]*\.(?=\s|$)", plain))


def test_terms_are_defined_once_and_in_order():
    terms = [term.casefold() for term, _ in ROWS]
    assert len(terms) > 50
    assert terms == sorted(set(terms))


def test_a_definition_has_at_most_two_sentences():
    assert [term for term, text in ROWS if not 1 <= sentences(text) <= 2] == []


def test_longer_ones_would_be_found():
    assert sentences("One thing. Another (e.g. this). A third.") == 3
    assert sentences("See *adjacency*.") == 1
