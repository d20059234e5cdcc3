"""One meaning per error code: one that is raised with many texts is listed here with what it means, and the list may only shrink."""

from __future__ import annotations

import ast
import re
from collections import Counter

from tests.meta.trees import library, walked

CODE = re.compile(r"DPR[1-9]\d\d")
MOST = 4
"""Constructions of an error with one code; more need one meaning, which is written below."""

ONE_MEANING = {
    "DPR111": (5, "a declaration lacks a key that it needs, or has two for one thing"),
    "DPR112": (29, "a value in a declaration is not of the form that its key takes"),
    "DPR113": (7, "a value in a declaration is no number"),
    "DPR114": (11, "range, step, forbidden intervals, default and guess of a column contradict each other"),
    "DPR115": (7, "the unit does not say whose rows belong together"),
    "DPR116": (5, "a path of a declaration or of the environment cannot be used"),
    "DPR117": (6, "a file of values or keys is not usable, or lists one that no column has"),
    "DPR119": (6, "epsilon, delta or a share is out of its range"),
    "DPR123": (7, "a part of an expression is not of the type that its place takes"),
    "DPR130": (5, "a statistic is not written as one"),
    "DPR133": (11, "a statistic's arguments are none that it takes"),
    "DPR140": (9, "a pipeline's source is declared with what does not go together"),
    "DPR141": (7, "a pipeline's period is declared with what does not go together"),
    "DPR152": (5, "the declared time is none"),
    "DPR153": (7, "a hierarchy is not one"),
    "DPR254": (7, "an argument in a SELECT is none that its function takes"),
    "DPR255": (7, "keys in a SELECT are not columns of GROUP BY, each once"),
    "DPR292": (5, "a statistic, or a rule for it, cannot stand in tables that add up"),
    "DPR402": (5, "the ledger cannot be opened, read or written with what rights and storage there are"),
    "DPR502": (8, "a source does not open"),
    "DPR504": (8, "a column is stored as a type that its declaration does not fit"),
    "DPR505": (6, "two columns have one name"),
    "DPR516": (7, "an engine does not read this kind of source or view"),
    "DPR601": (7, "a domain of answers is none"),
    "DPR605": (8, "an argument is no number, or one out of range"),
    "DPR606": (6, "an argument must be above 0"),
    "DPR624": (6, "this noise cannot be drawn exactly"),
    "DPR634": (8, "a mechanism is not proved for these arguments"),
    "DPR640": (7, "a text names no period"),
    "DPR644": (6, "a field of a ledger's entry is malformed"),
    "DPR650": (5, "an epsilon, delta or rho is none that a ledger holds"),
}  # fmt: skip
"""Code -> how often it is constructed, and what it means each time."""


def constructed() -> Counter[str]:
    """Return code -> the calls that say it."""
    found = Counter[str]()
    for tree in library().values():
        for node in walked(tree):
            if isinstance(node, ast.Call):
                parts = [*node.args, *(k.value for k in node.keywords)]
                texts = [p.value for p in parts if isinstance(p, ast.Constant)]
                found.update(t for t in texts if isinstance(t, str) and CODE.fullmatch(t))
    return found


def test_a_code_that_is_raised_often_has_one_meaning() -> None:
    many = {code: count for code, count in constructed().items() if count > MOST}
    assert many == {code: count for code, (count, _) in ONE_MEANING.items()}, (
        "another meaning takes a code of its own; lower a count that fell"
    )


def test_every_meaning_is_said_in_words_of_its_own() -> None:
    meanings = [meaning for _, meaning in ONE_MEANING.values()]
    assert len(set(meanings)) == len(meanings)
