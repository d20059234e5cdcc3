"""Every citation leads to a heading of `docs/theory/`, every test that a chapter names exists, every
theorem has a proof or a source.

A citation is `docs/theory/CHAPTER.md#heading`; a bare `#heading` after one, in backticks, is of the
same chapter. Nothing may be cited that a reader of this repository cannot open, but published papers.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.end_to_end.projects import ROOT

THEORY = ROOT / "docs" / "theory"
HERE = "tests/meta/test_theory.py"
FOLDERS = ("dprelease", "tests", "benchmarks", "examples", "docs", "schemas", "pipelines")
CITATION = re.compile(r"docs/theory/([\w-]+)\.md(?:#([\w-]+))?|`#([a-z][\w-]*)`")
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)((?:::\w+)*)`")
KINDS = "Theorem|Lemma|Claim|Erratum|Corollary|Proposition|Counterexample"
THEOREM = re.compile(rf"^\*\*(?:{KINDS})\b.*", re.MULTILINE)
BLOCK = re.compile(rf"^(?=\*\*(?:{KINDS})\b|#|Checked by)", re.MULTILINE)
SHOWN = re.compile(
    r"\*(?:Proof|Argument)\b"  # on the page
    r"|arXiv:\d{4}\.\d{4,5}"  # or of a paper, by its number
    r"|(?<!\*)\*[A-Z][^*\n]{6,}\*, [^()\n]*\b(?:1[89]|20)\d\d\b"  # or by its title and year
)
"""What follows a theorem. An erratum is shown by the tests that its section must name."""
BY_YEAR = re.compile(r"[( ]([A-Z][^()*:]* (?:1[89]|20)\d\d)\)")
"""A paper by its authors and year: a source if the list of sources has it."""
OUTSIDE = (
    r"\b(semantics|reliability|mechanisms|architecture|interface|stack|style|house) \d",
    r"\b(of|in) the design\b",
    r"\bdesign chapters?\b",
    r"\bverified there\b",
    r"\bseed paper",
    r"\bissue \d{1,2}\b",
    r"/work/",
)
"""Ways to point at a text that no clone holds."""
MADE = {"evidence.md", "speed.md", "accuracy.md", "coverage.md", "mechanisms.md", "peers.md"}
MADE |= {"derived.md", "utility.md", "wide.md", "NAME.md", "attack_model.md", "generated.md"}
MADE |= {"tables.md", "note.md"}
"""Pages that a command writes, and one of somebody else's repository."""


def texts():
    files = [p for name in FOLDERS for p in sorted((ROOT / name).rglob("*"))]
    for path in [*files, *sorted(ROOT.glob("*.md")), ROOT / "Makefile"]:
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in {".py", ".md", ".yaml", ".ipynb", ""} and path.is_file() and name != HERE:
            yield name, path.read_text(encoding="utf-8")


TEXTS = dict(texts())
PAGES = {page.rpartition("/")[2] for page in TEXTS if page.endswith(".md")} | MADE


def slug(heading):
    """The anchor that MkDocs gives a heading."""
    plain = re.sub(r"[^\w\s-]", "", heading).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


@cache
def anchors(path):
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return {slug(line) for line in re.findall(r"^#+ (.+)$", text, re.MULTILINE)}


def unresolved(text):
    """Return the citations in `text` that lead nowhere."""
    lost, chapter = [], None
    for found in CITATION.finditer(text):
        named, anchor, short = found.groups()
        chapter = named or chapter
        anchor = anchor or short
        page = THEORY / f"{chapter}.md"
        if chapter is None or not page.is_file() or (anchor and anchor not in anchors(page)):
            lost.append(found.group())
    return lost


def outside(text):
    """Return what `text` says of texts that are not in the repository."""
    said = [found.group() for pattern in OUTSIDE for found in re.finditer(pattern, text)]
    named = re.findall(r"(?<![\w*{.])([A-Za-z][\w-]*\.md)\b", text)
    return said + [page for page in named if page not in PAGES]


@cache
def defined_in(path):
    """Return what a file defines as pytest names it: `::test_a`, `::TestB`, `::TestB::test_c`."""

    def named(body, outer):
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield f"{outer}::{node.name}"
                if isinstance(node, ast.ClassDef):
                    yield from named(node.body, f"{outer}::{node.name}")

    return set(named(ast.parse(path.read_text(encoding="utf-8")).body, ""))


def missing_tests(text):
    """Return the tests that `text` names and that `pytest NAME` does not find."""
    return [
        found.group()
        for found in NAMED_TEST.finditer(text)
        if not (ROOT / found[1]).is_file()
        or (found[2] and found[2] not in defined_in(ROOT / found[1]))
    ]


@cache
def sources():
    """Return the names by which chapters may cite a paper: the first column of the list of sources."""
    listed = (THEORY / "index.md").read_text(encoding="utf-8").partition("\n## Sources\n")[2]
    return set(re.findall(r"^\| ([^|]+) \|", listed, re.MULTILINE))


def shown(block):
    """Tell whether a theorem has a proof or a source that a reader can find."""
    return bool(SHOWN.search(block)) or any(name in sources() for name in BY_YEAR.findall(block))


def unchecked(text):
    """Return the headings under which something is claimed and no test is named."""
    parts = re.split(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return [
        heading
        for heading, body in zip(parts[1::2], parts[2::2], strict=True)
        if THEOREM.search(body) and not any(name for _, name in NAMED_TEST.findall(body))
    ]


def unproved(text):
    """Return the theorems that have neither a proof nor a source."""
    return [
        THEOREM.match(block).group()
        for block in BLOCK.split(text)
        if THEOREM.match(block) and not block.startswith("**Erratum") and not shown(block)
    ]


def test_every_citation_leads_to_a_heading():
    found = {name: lost for name, text in TEXTS.items() if (lost := unresolved(text))}
    assert found == {}
    cited = [text for text in TEXTS.values() if CITATION.search(text)]
    assert len(cited) > 80  # the control: the search sees them


def test_nothing_is_cited_that_no_clone_holds():
    found = {name: said for name, text in TEXTS.items() if (said := outside(text))}
    assert found == {}


CHAPTERS = sorted(path.name for path in THEORY.glob("*.md"))


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapter_names_tests_that_exist_and_one_per_theorem(name):
    text = (THEORY / name).read_text(encoding="utf-8")
    assert missing_tests(text) == []
    assert unchecked(text) == []
    assert unproved(text) == []


def test_every_chapter_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in CHAPTERS if f"theory/{name}" not in navigation] == []


SOURCES = (
    "*Proof.* It is. ∎",
    "*Argument.* It is.",
    "(Peano, arXiv:1889.00001)",
    "(Irving & Jerrum 1994)",
    "(as all peaked laws are: Birnbaum 1948)",
    "Peano, *Arithmetices principia*, Bocca 1889",
)
NO_SOURCES = (
    "*This is an italic sentence.*",
    "Peano, *Arithmetices principia*",
    "(Peano 1989)",  # not in the list of sources
    "(Something that was known in 1948)",
    "**All of this was known in 1948**, as it is.",
)


def test_what_is_broken_is_found():
    """The broken twins: each search misses nothing of its kind."""
    assert unresolved("see `docs/theory/certificates.md#wide-laplace`, `#wide-gaussian`") == []
    assert unresolved("see `docs/theory/certificates.md#no-such-heading`, `#nor-this`") != []
    assert unresolved("see `docs/theory/no-such-chapter.md`") != []
    assert unresolved("see `#wide-laplace` of nothing") != []
    assert outside("Sources: semantics 4.2") == ["semantics 4"]
    assert outside("see section 1 of `blueprint.md`") == ["blueprint.md"]
    assert outside("[KOV] Kairouz, Oh & Viswanath, arXiv:1311.0776; README.md") == []
    assert missing_tests(f"`{HERE}::test_what_is_broken_is_found`") == []
    assert missing_tests(f"`{HERE}::test_that_is_gone`") != []
    assert missing_tests("`tests/meta/test_that_is_gone.py`") != []
    in_class = "tests/mechanisms/calibration/test_gaussian_scale.py"
    erratum = "test_the_normaliser_is_subtracted_not_added"
    assert missing_tests(f"`{in_class}::TestErrata::{erratum}`") == []
    for lost in (erratum, "TestErrata::test_gone", f"TestGone::{erratum}", "TestGone"):
        assert missing_tests(f"`{in_class}::{lost}`") == [f"`{in_class}::{lost}`"]
    assert unchecked("## A\n\n**Theorem.** One is one.\n") == ["A"]
    assert unchecked(f"## A\n\n**Theorem.** One is one.\n\n`{HERE}::slug`\n") == []
    made_up = (
        "## A\n\n**{}.** One is one.\n\n{}\n\nChecked by `a`.\n\n*Proof.* Of something else.\n"
    )
    for kind in KINDS.split("|"):
        assert unchecked(made_up.format(kind, "")) == ["A"]
        assert unproved(made_up.format(kind, "")) == (
            [f"**{kind}.** One is one."] * (kind != "Erratum")
        )
    for said in SOURCES:
        assert unproved(made_up.format("Theorem", said)) == []
    for said in NO_SOURCES:
        assert unproved(made_up.format("Theorem", said)) == ["**Theorem.** One is one."]
    assert unproved("**Theorem (a).** One.\n\n**Lemma.** Two. *Proof.* It is. ∎\n") != []
    assert slug("The (ε, δ) of a box: 2 sides") == "the-ε-δ-of-a-box-2-sides"
    assert Path(HERE).name in {path.name for path in (ROOT / "tests" / "meta").iterdir()}
