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
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
KINDS = "Theorem|Lemma|Claim|Erratum|Corollary|Proposition|Counterexample"
THEOREM = re.compile(rf"^\*\*(?:{KINDS})\b.*", re.MULTILINE)
BLOCK = re.compile(rf"^(?=\*\*(?:{KINDS})\b|#|Checked by)", re.MULTILINE)
SHOWN = re.compile(
    r"\*(?:Proof|Argument)\b"  # on the page
    r"|arXiv:\d{4}\.\d{4,5}"  # or of a paper, by its number,
    r"|\([^()]*[A-Z][^()]*\b(?:19|20)\d\d\)"  # its year, with the title among the sources,
    r"|(?<!\*)\*[A-Z][^*\n]{14,}\*(?!\*)"  # or its title
)
"""What follows a theorem. An erratum is shown by the tests that its section must name."""
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
MADE |= {"tables.md"}
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
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def missing_tests(text):
    """Return the tests that `text` names and that do not exist."""
    return [
        found.group()
        for found in NAMED_TEST.finditer(text)
        if not (ROOT / found[1]).is_file()
        or (found[2] and found[2] not in defined_in(ROOT / found[1]))
    ]


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
        if THEOREM.match(block) and not block.startswith("**Erratum") and not SHOWN.search(block)
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
    shown = ("*Proof.* It is. ∎", "*Argument.* It is.", "(Peano, arXiv:1889.00001)", "(Peano 1989)")
    for said in (*shown, "Peano, *Arithmetices principia*"):
        assert unproved(made_up.format("Theorem", said)) == []
    assert unproved("**Theorem (a).** One.\n\n**Lemma.** Two. *Proof.* It is. ∎\n") != []
    assert slug("The (ε, δ) of a box: 2 sides") == "the-ε-δ-of-a-box-2-sides"
    assert Path(HERE).name in {path.name for path in (ROOT / "tests" / "meta").iterdir()}
