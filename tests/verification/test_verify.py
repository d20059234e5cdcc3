"""Each way to tamper with a published folder is found, hashes fixed up or not."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.core.errors import VerificationError
from dprelease.release_plan.identity import plan_hash
from dprelease.results.formats.json_ import manifest_bytes
from dprelease.results.series.correct import withdraw
from dprelease.results.validate.verdict import RuleResult, Verdict
from dprelease.verification import derivation
from dprelease.verification import verify as verification
from dprelease.verification.check import within_length
from dprelease.verification.comparison import as_published
from dprelease.verification.verify import verify
from tests.end_to_end import projects
from tests.end_to_end.projects import ROOT, clinic
from tests.folders import remade
from tests.published import read_folder
from tests.sizes import some

one_other_budget = projects.one_other_budget
pytestmark = pytest.mark.usefixtures("one_other_budget")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    result = dp.run(clinic(folder), period="2026-W46")
    return result.folder, folder / ".dprelease" / "ledger.db"


@pytest.fixture
def copy(published, tmp_path):
    shutil.copytree(published[0], tmp_path / "release")
    return tmp_path / "release"


def manifest_of(folder):
    return json.loads((folder / "release.json").read_text())


def rewrite(folder, manifest):
    """What a careful forger does: plan hash and file hashes fit the new content."""
    manifest["plan_hash"] = plan_hash(manifest["plan"])
    manifest["files"] = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        for name, data in read_folder(folder).items()
        if name != "release.json"
    }
    (folder / "release.json").write_bytes(manifest_bytes(manifest))


def failed(folder, **named):
    result = verify(folder, **named)
    found = {c.name: c.detail for c in result.checks if c.ok is False}
    assert result.ok == (not found)
    return found


def test_an_honest_folder_verifies(published, copy):
    assert failed(published[0]) == {}
    assert failed(copy, ledger=published[1]) == {}
    rewrite(copy, manifest_of(copy))  # the control: the forger's tool alone changes nothing
    assert failed(copy, ledger=published[1]) == {}


def shifted(data):
    table = pq.read_table(io.BytesIO(data))
    at = table.column_names.index("value")
    moved = table.set_column(at, "value", pc.add(table.column("value"), 1.0))
    sink = io.BytesIO()
    pq.write_table(moved, sink)
    return sink.getvalue()


EDITS = {
    "data.parquet": shifted,
    "data.csv": lambda b: b.replace(b",ok\n", b",at_bound\n", 1),
    "wide.csv": lambda b: b.replace(b"north,", b"north,1", 1),
    "report.html": lambda b: b.replace(b"</td>", b"1</td>", 1),
    "datapackage.json": lambda b: b.replace(b"clinic", b"clinik", 1),
}


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("careful", [False, True], ids=["hash left", "hash fixed up"])
def test_a_changed_file(copy, name, careful):
    path = copy / name
    old = path.read_bytes()
    new = EDITS[name](old)
    assert new != old
    path.write_bytes(new)
    if careful:
        rewrite(copy, manifest_of(copy))
    found = failed(copy)
    assert set(found) == {"files"}
    assert name in found["files"]


def test_no_software_version_makes_a_check_gentler(copy):
    manifest = manifest_of(copy)
    manifest["software"]["dprelease"] = "0.0.1"
    (copy / "report.html").write_bytes(b"<html>")
    rewrite(copy, manifest)
    assert "report.html" in failed(copy)["files"]


def test_extra_missing_and_damaged_files(copy):
    (copy / "note.txt").write_text("x")
    assert failed(copy) == {"files": "note.txt does not follow from the release"}
    (copy / "note.txt").unlink()
    (copy / "wide.csv").unlink()
    assert failed(copy) == {"files": "wide.csv is missing"}
    (copy / "data.parquet").write_bytes(b"PAR1")
    assert "data.parquet" in failed(copy)["files"]


def test_a_changed_cell(copy):
    manifest = manifest_of(copy)
    cells = next(iter(manifest["draw"]["cells"].values()))
    cells[0][0] = str(int(cells[0][0]) + 40)
    rewrite(copy, manifest)
    assert list(failed(copy)) == ["files"]


def test_a_changed_cell_with_every_file_made_again_needs_the_ledger(published, copy):
    """Nothing but the ledger knows what was drawn; its committed bytes do."""
    manifest = manifest_of(copy)
    cells = next(iter(manifest["draw"]["cells"].values()))
    cells[0][0] = str(int(cells[0][0]) + 40)
    for name, data in remade(manifest).items():
        (copy / name).write_bytes(data)
    assert failed(copy) == {}
    assert set(failed(copy, ledger=published[1])) == {"ledger"}


def law_at(manifest):
    """The first block whose law has a rate, and that rate's holder."""
    for block in manifest["plan"]["blocks"]:
        law = block["law"].get("law", block["law"])
        if "rate" in law.get("noise", {}):
            return block, law
    raise AssertionError("no such block")


def test_a_weaker_law(copy):
    manifest = manifest_of(copy)
    _, law = law_at(manifest)
    law["noise"]["rate"] = str(Fraction(law["noise"]["rate"]) * 2)  # half the noise, same claim
    rewrite(copy, manifest)
    assert "plan" in failed(copy)


@pytest.mark.parametrize("claim", ["law", "measurement"])
def test_a_smaller_claimed_sensitivity(copy, claim):
    """The claim alone, with the loss it would prove: the wall recomputes it from the query."""
    manifest = manifest_of(copy)
    block, law = law_at(manifest)
    if claim == "law":
        law["sensitivity"] = block["law"]["sensitivity"] = 1 if law["sensitivity"] > 1 else 0
    else:
        block["measurement"]["sensitivity"]["l1_over_groups"] = "1/2"
        block["measurement"]["l1_added_row"] = "1/2"
    block["certificate"]["epsilon_upper"] = "1/1000"
    block["epsilon"] = "1/1000"
    rewrite(copy, manifest)
    assert "plan" in failed(copy)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("guarantee", "epsilon", "1/2"),
        ("guarantee", "delta", "1/1000"),
        ("guarantee", "adjacency", "substitution"),
        ("guarantee", "protects", "everybody"),
        ("guarantee", "statement", "perfectly private"),
        ("receipt", "epsilon", "1/2"),
        ("receipt", "protects", "everybody"),
    ],
)
def test_another_guarantee_than_the_plan_s(copy, part, name, value):
    manifest = manifest_of(copy)
    manifest[part][name] = value
    rewrite(copy, manifest)
    assert f"{part}.{name}" in failed(copy)["files"]


def test_a_smaller_epsilon_everywhere(copy):
    manifest = manifest_of(copy)
    for place in (manifest["guarantee"], manifest["receipt"], manifest["plan"]):
        place["epsilon"] = "1/2"
    manifest["guarantee"]["statement"] = manifest["guarantee"]["statement"].replace("=1 ", "=0.5 ")
    rewrite(copy, manifest)
    assert "plan" in failed(copy)  # the request allows another one


def test_a_changed_plan_whose_hash_was_left(copy):
    manifest = manifest_of(copy)
    manifest["plan"]["notes"] = ["trust us"]
    (copy / "release.json").write_bytes(manifest_bytes(manifest))
    assert failed(copy)["plan"] == "the plan is not the request's: notes"
    manifest = manifest_of(copy)
    manifest["plan"]["notes"] = []
    manifest["plan_hash"] = "0" * 64
    (copy / "release.json").write_bytes(manifest_bytes(manifest))
    assert failed(copy)["plan"] == "the plan is not the one that was hashed (DPR805)"


def test_a_foreign_ledger_and_another_entry(published, copy, tmp_path):
    other = Ledger.create(
        tmp_path / "other" / "ledger.db",
        dataset="clinic", epsilon=12, adjacency="add_remove",
        unit=json.dumps(manifest_of(copy)["guarantee"]["unit"]),
    )  # fmt: skip
    assert set(failed(copy, ledger=other.path)) == {"ledger"}
    manifest = manifest_of(copy)
    manifest["period"] = manifest["receipt"]["period"] = "2026-W47"
    rewrite(copy, manifest)
    assert "ledger" in failed(copy, ledger=published[1])
    manifest["ledger"] = manifest["receipt"]["ledger"] = None
    rewrite(copy, manifest)
    assert failed(copy, ledger=published[1])["ledger"] == "the release cites no ledger"


def test_a_debit_made_again_by_reconcile_verifies(published, tmp_path):
    """A lost ledger that was rebuilt from the public folder has the debit elsewhere in its chain."""
    folder, _ = published
    public = folder.parents[1]
    schema = public.parent / "schemas" / "clinic.yaml"
    dp.create_ledger(tmp_path / "new.db", schema, dataset="clinic", epsilon=12)
    rebuilt = Ledger.open(tmp_path / "new.db")
    assert verify(folder, ledger=rebuilt.path).checks[-1].ok is False
    assert rebuilt.reconcile([public]) == 1
    assert verify(folder, ledger=rebuilt.path).ok


def with_a_larger_budget(folder):
    """Write the folder again with a larger budget, every file made of the new text."""
    manifest = manifest_of(folder)
    manifest["receipt"]["budget"]["total"] = "1000"
    made = derivation.Derivation(manifest, lambda name, data: as_published(folder / name, data))
    for name, data in made.files.items():
        (folder / name).write_bytes(data)


def test_a_reconciled_debit_holds_its_folder_to_the_manifest_it_was_made_of(published, tmp_path):
    folder, _ = published
    public = folder.parents[1]
    schema = public.parent / "schemas" / "clinic.yaml"
    dp.create_ledger(tmp_path / "new.db", schema, dataset="clinic", epsilon=12)
    rebuilt = Ledger.open(tmp_path / "new.db")
    assert rebuilt.reconcile([public]) == 1
    place = tmp_path / "forged" / folder.name
    shutil.copytree(folder, place)
    assert verify(place, ledger=rebuilt.path).ok
    with_a_larger_budget(place)
    assert verify(place).ok  # nothing in the folder disagrees with the rest of it
    assert "not the one that was reconciled" in failed(place, ledger=rebuilt.path)["ledger"]


def test_a_missing_ledger_is_a_failed_check(copy, tmp_path):
    assert "there is no ledger" in failed(copy, ledger=tmp_path / "none.db")["ledger"]


@pytest.mark.parametrize(
    "key", ["plan", "draw", "guarantee", "files", "receipt", "software", "request"]
)
@pytest.mark.parametrize("value", some([None, [], {}, "x", {"epsilon": {}}], 2))
def test_a_broken_manifest_fails_checks_without_a_traceback(copy, key, value):
    manifest = manifest_of(copy)
    manifest[key] = value
    (copy / "release.json").write_text(json.dumps(manifest))
    assert failed(copy)
    if value is None:  # once, whatever the value
        del manifest[key]
        (copy / "release.json").write_text(json.dumps(manifest))
        assert failed(copy)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"dprelease": 2}', "[" * 100_000])
def test_no_manifest_at_all(copy, text):
    (copy / "release.json").write_text(text)
    with pytest.raises(VerificationError) as caught:
        verify(copy)
    assert caught.value.code == "DPR801"
    assert ("runs its period again" in str(caught.value.fix)) == (text[:3] in ("", "[[["))
    assert caught.value.what == "there is no readable release.json"


def test_a_folder_without_a_manifest_is_said_to_have_none(copy):
    """It was called JSON that is not strict, and its publisher was to be asked."""
    (copy / "release.json").unlink()
    with pytest.raises(VerificationError) as caught:
        verify(copy)
    assert (caught.value.code, caught.value.what) == ("DPR801", "this folder holds no release.json")
    assert "JSON" not in str(caught.value.why)
    assert str(caught.value.fix).startswith("name the folder of one period")


@pytest.mark.parametrize(
    ("version", "todo"),
    [
        ("release/9", "a newer version"),
        ("release/0", "ask the publisher"),
        ("x" * 10_000, "ask the"),
    ],
)
def test_another_format_is_not_verified_by_this_version(copy, version, todo):
    (copy / "release.json").write_text(json.dumps({"dprelease": version}))
    with pytest.raises(VerificationError, match="not verified by this version") as caught:
        verify(copy)
    assert caught.value.code == "DPR802"
    assert todo in caught.value.fix


def test_a_format_that_was_unsound_is_revoked_by_name_and_can_be_withdrawn(published, tmp_path):
    place = tmp_path / "public" / "clinic_weekly"
    shutil.copytree(published[0], place / "2026-W46")
    manifest = {**manifest_of(place / "2026-W46"), "dprelease": "release/1"}
    (place / "2026-W46" / "release.json").write_text(json.dumps(manifest))
    with pytest.raises(VerificationError, match="release/1 is revoked") as caught:
        verify(place / "2026-W46")
    assert caught.value.code == "DPR803"
    assert "a forged folder verified" in caught.value.why
    assert "release the period again as release/2" in caught.value.fix
    assert withdraw(place / "2026-W46", reason="its format is revoked").period == "2026-W46"


def test_an_answer_takes_two_kilobytes_whatever_it_repeats(published, tmp_path):
    """All checks together, as text and as JSON; each keeps something of its own."""
    place = tmp_path / "public" / "clinic_weekly"
    shutil.copytree(published[0], place / "2026-W46")
    withdraw(place / "2026-W46", reason="q" * 1000)
    manifest = manifest_of(place / "2026-W46")
    manifest["request"]["schema"]["columns"]["age"]["range"] = ["y" * 5000, 1]
    (place / "2026-W46" / "release.json").write_bytes(manifest_bytes(manifest))
    result = verify(place / "2026-W46", ledger=tmp_path / ("n" * 200) / ("o" * 200) / "ledger.db")
    assert [c.name for c in result.checks if c.ok is False] == ["request", "status", "ledger"]
    assert len(str(result).encode()) <= 2000
    assert len(json.dumps({**result.to_json(), "folder": ""}).encode()) <= 2000
    assert min(len(c.detail) for c in result.checks) >= 30
    kept = within_length([replace(c, detail="ü\x1b" * 4000) for c in result.checks])
    assert sum(len(c.detail.encode()) for c in kept) <= 1000
    honest = verify(published[0]).checks
    assert within_length(honest) == honest


def test_a_receipt_is_not_checked_without_its_ledger_and_that_is_said(published):
    alone, beside = verify(published[0]), verify(published[0], ledger=published[1])
    assert (alone.ok, alone.not_checked) == (True, ("ledger",))
    assert "`--ledger FILE` checks it" in alone.checks[-1].detail
    assert alone.to_json()["not_checked"] == ["ledger"]
    of = "verified under the rules of release/2: 2026-W46 of clinic_weekly"
    assert alone.summary == f"{of}; not checked: ledger"
    assert alone.to_json()["of"] == "2026-W46 of clinic_weekly"
    assert (beside.ok, beside.not_checked) == (True, ())
    assert beside.summary == of
    assert "that the publisher did not draw several times and keep one draw" in str(beside)


def test_the_text_form_marks_what_failed(copy):
    (copy / "extra").write_bytes(b"")
    text = str(verify(copy))
    assert "FAIL files" in text
    assert "ok   plan" in text
    assert verify(copy).to_json()["ok"] is False


def test_parquet_of_another_writer_is_compared_by_content_and_metadata(copy):
    """Writers differ between versions; what they write of one table does not."""
    table = pq.read_table(copy / "data.parquet")
    pq.write_table(
        table, copy / "data.parquet", compression="zstd", compression_level=9, version="2.6"
    )
    for name, data in remade_beside(copy).items():
        (copy / name).write_bytes(data)
    assert failed(copy) == {}
    changed = table.replace_schema_metadata({b"a": b"b"})
    pq.write_table(changed, copy / "data.parquet", compression="zstd", version="2.6")
    rewrite(copy, manifest_of(copy))
    assert "data.parquet" in failed(copy)["files"]
    assert isinstance(table, pa.Table)


def remade_beside(folder):
    """Every file of the release again, around the Parquet file that is there."""
    manifest = manifest_of(folder)
    made = derivation.Derivation(manifest, lambda name, data: as_published(folder / name, data))
    return made.files


def test_a_withdrawn_release_does_not_verify_and_only_that_check_says_so(published, tmp_path):
    place = tmp_path / "public" / "clinic_weekly"
    shutil.copytree(published[0], place / "2026-W46")
    assert verify(place / "2026-W46").ok
    withdraw(place / "2026-W46", reason="the source held test rows")
    found = failed(place / "2026-W46", ledger=published[1])
    assert list(found) == ["status"]
    assert found["status"].endswith(": the source held test rows")
    text = (place / "status.json").read_text().replace("withdraw", "supersede")
    (place / "status.json").write_text(text)
    assert "DPR830" in failed(place / "2026-W46")["status"]


@pytest.mark.parametrize("name", ["2026-W47", "2026-11", "final", "latest_of_all"])
def test_a_copy_under_another_name_in_its_pipeline_s_folder_does_not_verify(
    published, tmp_path, name
):
    """`cp -r 2026-W46 2026-W47`: its numbers would be read as those of another week."""
    place = tmp_path / "public" / "clinic_weekly"
    shutil.copytree(published[0], place / "2026-W46")
    (place / "latest").symlink_to("2026-W46")
    assert failed(place / "2026-W46") == failed(place / "latest") == {}
    shutil.copytree(place / "2026-W46", place / name)
    said = {"status": f"the release is of 2026-W46, and its folder is named {name}"}
    assert failed(place / name, ledger=published[1]) == said
    with pytest.raises(VerificationError, match="does not verify: status") as caught:
        dp.read(place / name)
    assert "ask the publisher" in caught.value.fix


def test_elsewhere_a_copy_may_have_any_name_but_that_of_another_period(published, tmp_path):
    for name in ("release", "once"):
        shutil.copytree(published[0], tmp_path / name)
        of = f"2026-W46 of clinic_weekly (the folder is called {name})"
        assert verify(tmp_path / name).summary.endswith(f"release/2: {of}; not checked: ledger")
    for name in ("2026-W47", "2026-11-09", "2026-Q4", "2026"):
        shutil.copytree(published[0], tmp_path / name)
        assert list(failed(tmp_path / name)) == ["status"]


@pytest.mark.parametrize(("days", "ok"), [(0, True), (1, True), (2, False), (30_000, False)])
def test_a_release_of_a_day_that_is_yet_to_come_does_not_verify(copy, days, ok):
    """The clocks of two places may be a day apart, and no more."""
    manifest = manifest_of(copy)
    day = (datetime.now(UTC) + timedelta(days=days)).date().isoformat()
    manifest["receipt"]["published"] = manifest["published"] = day
    (copy / "release.json").write_bytes(manifest_bytes(manifest))
    for name, data in remade_beside(copy).items():
        (copy / name).write_bytes(data)
    said = f"it was published on {day}, by its own words, which is yet to come"
    assert failed(copy) == ({} if ok else {"request": said})


def test_a_report_of_the_first_edition_stays_as_it_is(copy):
    """Folders of before name no edition: their page has no label, and is made again without one."""
    assert "Privacy label" in (copy / "report.html").read_text()
    manifest = manifest_of(copy)
    assert manifest["request"].pop("report") == 2
    (copy / "release.json").write_bytes(manifest_bytes(manifest))
    assert "report.html is not what the release gives" in failed(copy)["files"]
    for name, data in remade_beside(copy).items():
        (copy / name).write_bytes(data)
    assert failed(copy) == {}
    assert "Privacy label" not in (copy / "report.html").read_text()


@pytest.mark.parametrize("edition", [0, 1, 3, "2", 2.0, True, [2]])
def test_an_edition_that_no_version_writes_is_refused(copy, edition):
    manifest = manifest_of(copy)
    manifest["request"]["report"] = edition
    (copy / "release.json").write_bytes(manifest_bytes(manifest))
    assert not verify(copy).ok


def stating(folder, version):
    manifest = manifest_of(folder)
    manifest["software"]["dprelease"] = version
    (folder / "release.json").write_bytes(manifest_bytes(manifest))
    return folder


def test_software_is_stated_and_proves_nothing(copy):
    for name, data in remade_beside(stating(copy, "9.9.9")).items():
        (copy / name).write_bytes(data)
    result = verify(copy)
    assert (result.ok, result.needs, result.made_by) == (True, None, "9.9.9")
    assert "`software`" in str(result).split("no folder can show:")[1]


@pytest.mark.parametrize("version", ["0.1.9", "0.2.0", "1.0.0rc1"])
def test_a_folder_that_this_version_does_not_make_again_is_told_which_one_may(
    copy, monkeypatch, version
):
    """A law that was replaced since: the plan made again is another one."""
    monkeypatch.setattr(verification, "__version__", "0.3.0")

    def replaced(query, stated):
        raise VerificationError("the plan was not made from its request", code="DPR805")

    monkeypatch.setattr(derivation, "plan_again", replaced)
    result = verify(stating(copy, version))
    assert not result.ok
    assert result.needs == result.to_json()["needs"] == f"dprelease {version}"
    assert result.summary == (
        f"not verified by dprelease 0.3.0. The manifest names dprelease {version}: if that version made the"
        " folder, only that one makes it again to the byte, so verify it with that"
    )
    assert "NOT verified" not in str(result)
    with pytest.raises(VerificationError, match=f"verify it with dprelease {version}"):
        dp.read(copy)


def _doubled(folder):
    table = folder / "data.csv"
    head, first, rest = table.read_text().split("\n", 2)
    cells = first.split(",")
    at = head.split(",").index("value")
    cells[at] = str(2 * float(cells[at]) + 1)
    table.write_text("\n".join([head, ",".join(cells), rest]))
    return {"data.csv"}


def _with_line_ends_of_windows(folder):
    texts = [path for path in folder.iterdir() if path.suffix not in (".parquet", ".html")]
    for path in texts:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    return {path.name for path in texts}


def _without_a_file(folder):
    (folder / "registry.yaml").unlink()
    return {"registry.yaml"}


def _with_one_more(folder):
    (folder / "extra.csv").write_bytes(b"")
    return {"extra.csv"}


def _without_hashes(folder):
    manifest = manifest_of(folder)
    manifest["files"] = "none"
    (folder / "release.json").write_bytes(manifest_bytes(manifest))
    return set()


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(
    "damage",
    [_doubled, _with_line_ends_of_windows, _without_a_file, _with_one_more, _without_hashes],
)
def test_a_damaged_folder_of_another_version_is_one_that_no_version_verifies(
    copy, monkeypatch, damage, replaced
):
    """Also where its law was replaced since, and this version does not come to look at the files."""
    stating(copy, "0.2.0")
    if replaced:
        monkeypatch.setattr(derivation, "plan_again", _no_plan)
    named = damage(copy)
    result = verify(copy)
    assert (result.ok, result.made_by, result.needs) == (False, "0.2.0", None)
    assert result.summary == "NOT verified"
    said = next(check for check in result.checks if check.name == "intact")
    assert said.ok is False
    assert all(name in said.detail for name in named)
    with pytest.raises(VerificationError) as caught:
        dp.read(copy)
    assert "0.2.0" not in caught.value.fix


def _no_plan(*_):
    raise VerificationError("the plan was not made from its request", code="DPR805")


@pytest.mark.parametrize("key", ["request", "draw", "plan", "receipt"])
def test_a_manifest_that_lacks_what_was_drawn_is_one_that_no_version_verifies(copy, key):
    manifest = manifest_of(stating(copy, "0.2.0"))
    (copy / "release.json").write_bytes(manifest_bytes({**manifest, key: None}))
    result = verify(copy)
    assert (result.needs, result.summary) == (None, "NOT verified")
    assert result.to_json()["checks"][-3]["detail"].endswith(f"states it: {key}")


def test_a_folder_with_another_version_s_name_alone_is_not_promised_to_verify(copy):
    """Nobody can tell it from one that this version made; all its files are those that it lists."""
    result = verify(stating(copy, "7.7.7"))
    assert (result.ok, result.needs) == (False, "dprelease 7.7.7")
    page = " ".join((ROOT / "docs/how-to/verify.md").read_text().split())
    said = result.summary.replace(dp.__version__, "0.3.0").replace("7.7.7", "0.2.0")
    assert f"answer is `{said}`, with exit status 1" in page
    intact = next(check for check in result.checks if check.name == "intact")
    assert (intact.ok, intact.detail.endswith(": no file")) == (True, True)
    with pytest.raises(VerificationError, match=r"ask the publisher or verify it with dprelease 7"):
        dp.read(copy)


def test_a_folder_that_verifies_is_not_looked_at_twice(copy):
    names = [check.name for check in verify(copy).checks]
    assert "intact" not in names
    (copy / "data.csv").write_bytes(b"")  # this version's own: its files were made again
    assert [c.name for c in verify(copy).checks if c.ok is False] == ["files"]


@pytest.mark.parametrize(
    "version", [dp.__version__, "", "0.2.0; rm -rf", "x" * 40, "0" * 90, "२.०.०", None, 2, []]
)
def test_what_is_no_other_version_is_never_repeated(copy, version):
    (stating(copy, version) / "extra").write_bytes(b"")
    result = verify(copy)
    assert (result.ok, result.needs, result.summary) == (False, None, "NOT verified")


def test_another_version_does_not_explain_a_withdrawal(published, tmp_path):
    place = tmp_path / "public" / "clinic_weekly"
    shutil.copytree(published[0], place / "2026-W46")
    stating(place / "2026-W46", "0.1.9")
    for name, data in remade_beside(place / "2026-W46").items():
        (place / "2026-W46" / name).write_bytes(data)
    withdraw(place / "2026-W46", reason="the source held test rows")
    result = verify(place / "2026-W46")
    assert (result.ok, result.made_by, result.needs) == (False, "0.1.9", None)
    assert result.summary.startswith("NOT verified: withdrawn on ")
    assert result.summary.endswith(": the source held test rows; all else verifies")


def test_a_forged_registry_record_is_found(copy):
    text = (copy / "registry.yaml").read_text()
    (copy / "registry.yaml").write_text(text.replace("epsilon: 1", "epsilon: 0.1"))
    rewrite(copy, manifest_of(copy))
    assert "registry.yaml" in failed(copy)["files"]


def test_a_verdict_that_is_not_good_fails_by_itself(published, monkeypatch):
    """A forger may publish it as it is: then all else agrees with it."""
    broken = Verdict.from_rules((RuleResult("domain", "visits", 3, 1),), "built-in")
    monkeypatch.setattr(derivation, "check", lambda _: broken)
    found = failed(published[0])
    assert list(found) == ["values"]
    assert str(broken) in found["values"]
