"""Each theorem of `docs/theory/` is cited by the code that relies on it.

A heading under which something is proved, and that no module cites, is a proof of nothing or of code
that nobody can find; `tests/meta/test_theory.py` follows citations the other way.
"""

from __future__ import annotations

import re

from tests.meta.test_theory import CITATION, TEXTS, THEOREM, THEORY, slug

CODE = ("dprelease/", "benchmarks/", "examples/")


def cited(text):
    """Return the headings that `text` cites, as (chapter, anchor)."""
    found, chapter = set(), None
    for named, anchor, short in CITATION.findall(text):
        chapter = named or chapter
        found |= {(chapter, anchor or short)} if anchor or short else set()
    return found


def proved(chapter, text):
    """Return the headings of a chapter under which something is proved."""
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return {(chapter, slug(heading)) for heading, body in pairs if THEOREM.search(body)}


def test_a_module_cites_each_theorem():
    code = [t for name, t in TEXTS.items() if name.startswith(CODE) and name.endswith(".py")]
    used = set().union(*map(cited, code))
    found = {page.stem: proved(page.stem, page.read_text("utf-8")) for page in THEORY.glob("*.md")}
    assert set().union(*found.values()) - used == set()
    assert sum(map(len, found.values())) > 60  # the control: theorems are seen


def test_a_theorem_that_nothing_cites_is_found():
    """The broken twins: a heading without a theorem needs no citation, one with it does."""
    page = "## Wide Laplace\n\n**Theorem.** One is one.\n\n## Wide Gaussian\n\nOne.\n"
    theorems = proved("certificates", page)
    assert theorems == {("certificates", "wide-laplace")}
    assert cited("see `docs/theory/certificates.md#wide-gaussian`, `#wide-laplace`") >= theorems
    assert not cited("see `docs/theory/certificates.md#wide-gaussian`") & theorems
    assert cited("see `docs/theory/certificates.md`") == set()
