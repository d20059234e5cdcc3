"""Every folder that a version published verifies, is read, and is published again at no cost, by this version.

A folder whose law or format was replaced since is answered with the version that verifies it; `REPLACED` names
these projects and the reason. A run that cannot go on because its request has another plan today is in `REPLANNED`. A
project is never taken out.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import DpreleaseError, VerificationError
from dprelease.pipeline.approving import approve
from dprelease.pipeline.run import run
from dprelease.results.formats.format import table_file
from dprelease.results.receipt import Receipt
from dprelease.verification import derivation
from dprelease.verification.verify import Verification
from tests.end_to_end.projects import plans_once, tree
from tests.golden.folder_cases import CASES
from tests.golden.published import CLOCK, names, periods, pipeline_of, released, unpacked, versions
from tests.rules_alone import rules_alone
from tests.sizes import FULL

_TIES = "several quantiles of one column: candidates came in a few copies, which rows that share a value outweighed"
_EQUAL_PARTS = "each statistic gets an equal part of ε; in 0.2.0 `rows.max` decided how ε was split"
_OTHER_BUDGETS = f"{_EQUAL_PARTS}: its page states errors at other budgets, which are planned anew"
_REMOVED = "randomised response was removed: other mechanisms are as accurate"
_WORST = "`spikes: forbid` beside a gap: laws are compared, and state, what they err at worst"
_COINS = "one value by rank is drawn by permute-and-flip where losses add up by ε; 0.2.0 only named it as a rival"
_BOTH = "a value by rank states its error for rows that differ, too"
_ENDS = "published intervals are made by one law and one quotient: shorter, and no point beside noise wider than a step"
_ROUNDED = "normal noise is a rounded normal draw, priced by the analytic formula: 5 to 8 % narrower for the same budget"
_NEAR = "counts, sums and bins state their error near the declared number of rows; 0.2.0 hashed what a plan states, too"
_EARLY = f"{_NEAR}; an early period is final"
_SAME_DRAW = (_OTHER_BUDGETS, _BOTH, _ENDS, _EARLY)
REPLACED: Mapping[tuple[str, str], str] = {
    ("0.2.0", name): reason
    for reason, found in (
        (_TIES, "joint_quantiles left_charged many_quantiles medians_with_delta nested_quantiles"),
        (_OTHER_BUDGETS, "counts"),
        (
            _NEAR,
            "approved best_table corrected goals left_committed persons_replaced ratios survey view weeks",
        ),
        (_EARLY, "early"),
        (_WORST, "gaps"),
        (_COINS, "by_rank frame zcdp"),
        (_BOTH, "rank_interval"),
        (_REMOVED, "persons public_rows"),
        (_ROUNDED, "rectified"),
        (_ENDS, "derived graph left_drawn optimal_composition ranges"),
    )
    for name in found.split()
}
"""(version, project) -> what replaced its law or format, and when."""
REPLANNED: Mapping[tuple[str, str], str] = {("0.2.0", "left_drawn"): _EQUAL_PARTS}
"""(version, project) -> why a run that this version left between its draw and its files cannot go on: its request has
another plan today, and the ledger holds no more than the hash of the one that was paid for."""

MACHINE = re.compile(rb"(?<![\w.])/(?:tmp|root|home|work|Users|private)/\w|file://")
MECHANISMS = {
    "bounded_gaussian", "bounded_laplace", "discrete_laplace", "exponential", "optimal_grid", "permute_and_flip",
    "public_constant", "randomized_response", "rectified_gaussian", "rectified_laplace", "reflected_laplace",
    "staircase",
}  # fmt: skip
"""Of 0.2.0; its stochastic sign draws no plan."""
METHODS = {"basic/1", "kov/1", "zcdp/1"}
PROJECTS = [(version, name) for version in versions() for name in names(version)]


def tried() -> list[tuple[str, str]]:
    """Return the projects of this run: all that stand as published, and of those that were replaced one of each reason.

    Those that are approved, corrected or left before their end are there, too. All of all in `make evidence`.
    """
    if FULL:
        return PROJECTS
    by_reason: dict[object, int] = {}
    out = []
    for project in PROJECTS:
        case, reason = CASES[project[1]], REPLACED.get(project)
        by_reason[reason] = by_reason.get(reason, 0) + 1
        special = case.approved or case.corrected or case.left or project in REPLANNED
        if reason is None or by_reason[reason] == 1 or special:
            out.append(project)
    return out


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return {v: unpacked(v, tmp_path_factory.mktemp(v)) for v in versions()}


def test_the_projects_are_varied_and_say_nothing_of_the_machine(kept: Mapping[str, Path]) -> None:
    for version, place in kept.items():
        assert len(names(version)) >= 20
        files = [path for path in place.rglob("*") if path.is_file()]
        assert [path for path in files if MACHINE.search(path.read_bytes())] == []
    manifests = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in kept["0.2.0"].glob("*/public/*/*/release.json")
    ]
    plans = [manifest["plan"] for manifest in manifests]
    blocks = [block for plan in plans for block in plan["blocks"]]
    assert {block["mechanism"] for block in blocks} == MECHANISMS
    assert {block["family"] for block in blocks} >= {"joint_ranks", "recursive_ranks", "graph_box"}
    assert {plan.get("composition", {}).get("method", "basic/1") for plan in plans} >= METHODS
    assert {plan["adjacency"] for plan in plans} == {"add_remove", "substitution"}


@pytest.mark.parametrize(("version", "name"), tried())
def test_a_published_project_is_worth_what_it_was(
    version: str, name: str, kept: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = kept[version] / name
    case, replaced = CASES[name], (version, name) in REPLACED
    other_law = replaced and REPLACED[version, name] not in _SAME_DRAW
    left = case.periods[-1:] if (version, name) in REPLANNED else ()
    monkeypatch.chdir(project)
    plans_once(monkeypatch)  # a run and an approval ask for the same; a verifier plans by itself
    before = tree(project / "public")
    assert sorted({p.split("/")[1] for p in before if p.endswith("release.json")}) == [
        *case.periods[: len(case.periods) - bool(case.left)]
    ]
    for folder in periods(project):
        _is_verified(folder, project / "ledger.db", version, replaced=replaced)
        _is_read(folder)
    with rules_alone():
        for period in case.periods:
            _costs_nothing(project, period, replaced=other_law or period in left)
        if (project / "plan.json").exists():
            _is_approved(project, before=case.approved, replaced=replaced)
    published = {p: data for p, data in before.items() if len(Path(p).parts) == 3}
    assert published == {p: data for p, data in tree(project / "public").items() if p in published}


def test_a_folder_of_a_replaced_law_is_answered_with_its_version(
    kept: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def replaced(query: object, stated: object) -> None:
        raise VerificationError("the plan was not made from its request", code="DPR805")

    monkeypatch.setattr(derivation, "plan_again", replaced)
    for version, place in kept.items():
        project = place / "derived"
        for folder in periods(project):
            _is_verified(folder, project / "ledger.db", version, replaced=True)
            with pytest.raises(VerificationError, match=f"verify it with dprelease {version}"):
                dp.read(folder)


def test_a_damaged_folder_is_sent_to_no_other_version(
    kept: Mapping[str, Path], tmp_path: Path
) -> None:
    for version, place in kept.items():
        (folder,) = periods(place / "laplace_family")
        copy = tmp_path / version / folder.name
        shutil.copytree(folder, copy)
        table = (copy / "data.csv").read_bytes()
        for damaged in (table.replace(b"\n", b"\r\n"), table.replace(b",5", b",7", 1)):
            (copy / "data.csv").write_bytes(damaged)
            found = dp.verify(copy)
            assert (found.made_by, found.needs, found.summary) == (version, None, "NOT verified")
            assert "data.csv" in next(c.detail for c in found.checks if c.name == "intact")
        (copy / "data.csv").write_bytes(table)
        assert dp.verify(copy).ok


def _is_verified(folder: Path, ledger: Path, version: str, *, replaced: bool) -> None:
    """Hold a folder against this version: it verifies, or it is said what verifies it."""
    found = _answer(folder, ledger)
    if isinstance(found, VerificationError):  # of another format
        assert (replaced, version in str(found)) == (True, True)
        return
    failed = {c.name: c.detail for c in found.checks if c.ok is not True}
    corrected = CASES[folder.parent.name].corrected.get(folder.name)
    if replaced:
        assert version in found.summary
        assert "NOT verified" not in str(found)
    elif corrected:
        assert set(failed) == {"status"}
        assert "2026-03-02" in failed["status"]
    else:
        assert failed == {}


def _answer(folder: Path, ledger: Path) -> Verification | VerificationError:
    try:
        return dp.verify(folder, ledger=ledger)
    except VerificationError as refused:
        return refused


def _is_read(folder: Path) -> None:
    """The values that `dp.read` gives are those that stand in the files."""
    publication = dp.read(folder, verify=False)
    manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
    paid, receipt = manifest["receipt"], publication.receipt
    stated = {name: paid[name] for name in ("dataset", "pipeline", "period", "early", "epsilon")}
    assert {name: getattr(receipt, name) for name in stated} == stated
    assert {n: getattr(receipt, n) for n in paid["ledger"]} == paid["ledger"]
    assert Fraction(receipt.spent or 0) == Fraction(paid["budget"]["spent"])
    assert f"ledger entry {receipt.seq} of ledger {paid['ledger']['ledger_id'][:8]}" in str(receipt)
    several = publication.plan.tables is not None
    for name in publication.tables if several else (None,):
        with (folder / (table_file("data.csv", name) if name else "data.csv")).open(
            encoding="utf-8", newline=""
        ) as lines:
            stored = [line["value"] for line in csv.DictReader(lines)]
        table = publication.tables[name] if name else publication.table
        values = table.column("value").to_pylist()
        assert [None if text == "" else float(text) for text in stored] == values


def _is_approved(project: Path, *, before: bool, replaced: bool) -> None:
    """An approval of then lets a new period be released; the plan file of then can be approved today."""
    config = pipeline_of(project)
    if before:
        assert run(config, period="2026-W04", now=CLOCK).receipt.approval is not None
    try:
        approve(config, project / "plan.json", now=CLOCK)
    except (
        DpreleaseError
    ) as refused:  # its law is gone; an approval is of a request, so another split is no reason
        if not (replaced and (refused.code == "DPR306" or _is_removed(refused))):
            raise


def _costs_nothing(project: Path, period: str, *, replaced: bool) -> None:
    """A run of a period that was paid for publishes what was drawn, or draws it, and adds no debit."""
    ledger = Ledger.open(project / "ledger.db")
    (dataset,) = ledger.datasets()
    budget, debits = ledger.budget(dataset), len(ledger.entries(dataset))
    try:
        receipt, folder = _again(project, period)
    except DpreleaseError as refused:  # the law that was paid for cannot be planned any more
        known = refused.code == "DPR410" or _is_removed(refused)
        if (replaced, known, refused.spent) != (True, True, "nothing"):
            raise
    else:
        assert not replaced
        assert not receipt.fresh
        assert "cost nothing" in str(receipt)
        manifest = json.loads((folder / "release.json").read_text(encoding="utf-8"))
        assert manifest["receipt"]["ledger"]["seq"] == receipt.seq
        assert manifest["plan_hash"] == receipt.plan_hash
    assert ledger.budget(dataset) == budget
    assert len(ledger.entries(dataset)) == debits


def _is_removed(refused: DpreleaseError) -> bool:
    """Return whether a request is refused because it names a mechanism of then; it says what to write."""
    return refused.code == "DPR211" and "was removed" in str(refused)


def _again(project: Path, period: str) -> tuple[Receipt, Path]:
    if (project / "pipeline.yaml").exists():
        result = run(pipeline_of(project), period=period, early=True, now=CLOCK)
        return result.receipt, result.folder
    release = released(project, period)
    return release.receipt, release.publish(project / "public")
