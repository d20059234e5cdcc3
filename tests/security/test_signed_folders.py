"""Signed folders: who made one is shown by a key that the reader has, and by nothing that stands in the folder."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from typer.testing import CliRunner

import dprelease as dp
from dprelease.budget.ledger import Ledger
from dprelease.cli import app
from dprelease.core.errors import ArgumentError, DpreleaseError, LedgerError
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.run import init_ledger, run
from dprelease.results.series.correct import withdraw
from tests.folders import manifest_of, remade, sealed
from tests.pipeline import tiny
from tests.results.test_signature_file import signature
from tests.rules_alone import rules_alone

FIRST, SECOND, OTHER = (bytes([n]) * 32 for n in (1, 2, 3))


def private(seed):
    return ed25519.Ed25519PrivateKey.from_private_bytes(seed)


def public(seed):
    return private(seed).public_key().public_bytes_raw().hex()


def signing(folder, key='"${env:OFFICE_KEY}"'):
    """Write a small project of an office whose folders are signed."""
    path = tiny.project(folder)
    text = path.read_text().replace("csv]}", f"csv], signing_key: {key}}}")
    path.write_text(text + "publisher: {name: Office of Statistics}\n")
    init_ledger(load_pipeline(path))
    return path


@pytest.fixture(scope="module")
def office(tmp_path_factory):
    """Three weeks: two under the first key, one under the second; the middle one is withdrawn."""
    folder = tmp_path_factory.mktemp("office")
    path = signing(folder)
    with pytest.MonkeyPatch.context() as patch, rules_alone():
        for period, seed, day in (
            ("2026-W02", FIRST, 13),
            ("2026-W03", FIRST, 20),
            ("2026-W04", SECOND, 27),
        ):
            patch.setenv("OFFICE_KEY", seed.hex())
            run(path, period=period, now=datetime(2026, 1, day, 12, tzinfo=UTC))
        withdraw(folder / "public" / "weekly" / "2026-W03", reason="the wrong table")
    return folder / "public" / "weekly", folder / ".dprelease" / "ledger.db"


def answer(folder, *keys, **named):
    """Return whether it verifies, what failed, and what is not known."""
    result = dp.verify(folder, public_key=keys or None, **named)
    return result.ok, {c.name: c.detail for c in result.checks if c.ok is False}, result.unknown


def test_a_folder_verifies_under_its_own_key_and_under_no_other(office):
    folder, ledger = office
    first, third = folder / "2026-W02", folder / "2026-W04"
    assert answer(first, public(FIRST), ledger=ledger)[:2] == (True, {})
    assert answer(folder / "latest", public(FIRST), public(SECOND), ledger=ledger)[:2] == (True, {})
    for place, key in ((first, SECOND), (third, FIRST), (first, OTHER)):
        ok, failed, unknown = answer(place, public(key), ledger=ledger)
        assert (ok, list(failed)) == (False, ["signature"])
        assert "none of those given" in failed["signature"]
        assert unknown[-1].startswith("who made it")
        assert unknown[-1].endswith("is stated; the check of its signature failed")


def test_without_a_key_it_is_said_that_nobody_knows_who_made_it(office):
    folder, ledger = office
    result = dp.verify(folder / "2026-W02", ledger=ledger)
    assert (result.ok, result.not_checked) == (True, ("signature",))
    assert result.unknown[-1] == (
        "who made it: the publisher, Office of Statistics, is stated; `--public-key KEY` says who signed"
    )
    assert result.unknown[-1] in str(result)
    with_key = dp.verify(folder / "2026-W02", ledger=ledger, public_key=public(FIRST))
    assert not any("who made it" in said for said in with_key.unknown)
    assert result.unknown[:-1] == with_key.unknown
    assert dp.verify(folder / "2026-W02", ledger=ledger, public_key=None) == result
    for wrong in (7, b"office.pub", [None]):
        with pytest.raises(ArgumentError) as caught:
            dp.verify(folder / "2026-W02", public_key=wrong)
        assert caught.value.code == "DPR642"


@pytest.fixture
def copy(office, tmp_path):
    return shutil.copytree(office[0] / "2026-W02", tmp_path / "2026-W02")


def files_at(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def written(folder, files):
    for path in folder.iterdir():
        path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def forged(folder, *, publisher="Office of Statistics"):
    """Return the files of another publisher's folder of the same name, whose every part agrees with every other."""
    files = {n: data for n, data in files_at(folder).items() if n != "signature.json"}
    manifest = manifest_of(files)
    manifest["request"]["schema"]["publisher"] = {"name": publisher}
    manifest["draw"]["cells"] = {
        block: [[str(int(cell) + 1) for cell in row] for row in rows]
        for block, rows in manifest["draw"]["cells"].items()
    }
    return sealed(remade(manifest, ("parquet", "csv")), manifest)


def test_an_unsigned_folder_is_refused_where_a_key_is_given(copy):
    (copy / "signature.json").unlink()
    assert answer(copy)[0]
    assert answer(copy)[2][-1].endswith("is stated; the folder is not signed")
    assert answer(copy, public(FIRST))[:2] == (False, {"signature": "the folder is not signed"})


def test_a_folder_in_the_publisher_s_name_is_refused(copy):
    """A forger who runs this software on his own numbers: only the key tells."""
    files = forged(copy)
    for seed in (None, OTHER):  # he signs it with his own key, or not at all
        more = (
            {}
            if seed is None
            else {"signature.json": signature(files["release.json"], private(seed))}
        )
        written(copy, {**files, **more})
        assert answer(copy)[0]  # without a key nothing is wrong with it
        ok, failed, unknown = answer(copy, public(FIRST), public(SECOND))
        assert (ok, list(failed)) == (False, ["signature"])
        assert "the publisher, Office of Statistics, is stated" in unknown[-1]


def test_a_signature_of_another_folder_or_of_an_altered_one_is_refused(office, copy):
    other = (office[0] / "2026-W03" / "signature.json").read_bytes()
    own = (copy / "signature.json").read_bytes()
    honest, changed = files_at(copy), forged(copy)
    renamed = forged(copy, publisher="Office of Statistic")
    for files in (
        {**honest, "signature.json": other},
        {**changed, "signature.json": own},
        {**renamed, "signature.json": own},
        {**honest, "signature.json": own[:-1] + b" \n"},
        {**honest, "signature.json": own + b"hidden"},
        {**honest, "signature.json": b"\0" * 10_000},
    ):
        written(copy, files)
        for keys in ((), (public(FIRST),)):
            ok, failed, _ = answer(copy, *keys)
            assert (ok, list(failed)) == (False, ["signature"])
            assert failed["signature"] == "signature.json is no signature of this release.json"
    (copy / "signature.json").unlink()
    (copy / "signature.json").symlink_to(office[0] / "2026-W02" / "signature.json")
    with pytest.raises(DpreleaseError, match="not a published folder"):
        dp.verify(copy)


def test_a_signed_folder_vouches_for_every_file(copy):
    for name in ("data.csv", "data.parquet", "datapackage.json", "registry.yaml", "wide.csv"):
        before = (copy / name).read_bytes()
        (copy / name).write_bytes(before[:-1])
        assert list(answer(copy, public(FIRST))[1]) == ["files"]
        (copy / name).write_bytes(before)
    manifest = (copy / "release.json").read_bytes()
    (copy / "release.json").write_bytes(manifest + b" ")
    assert {"files", "signature"} <= set(answer(copy, public(FIRST))[1])


def test_a_faulty_signature_is_never_answered_with_another_version(copy, monkeypatch):
    from dprelease.verification import verify as verification

    monkeypatch.setattr(verification, "__version__", "9.9.9")
    monkeypatch.setattr(
        verification, "differences", lambda *_: {"data.csv": "was made by another law"}
    )
    assert dp.verify(copy, public_key=public(FIRST)).needs is not None
    assert dp.verify(copy, public_key=public(OTHER)).needs is None
    assert dp.verify(copy, public_key=public(OTHER)).summary == "NOT verified"


def test_a_copy_under_another_period_s_name_is_said(copy):
    place = copy.rename(copy.parent / "2026-W05")
    said = {"status": "the release is of 2026-W02, and its folder is named 2026-W05"}
    assert answer(place, public(FIRST))[:2] == (False, said)


def test_where_the_library_is_missing_a_key_cannot_be_asked_for(copy, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    result = dp.verify(copy)
    assert (result.ok, result.not_checked) == (True, ("signature", "ledger"))
    with pytest.raises(LedgerError, match="need the library"):
        dp.verify(copy, public_key=public(FIRST))


def test_the_index_lists_keys_and_the_days_on_which_they_signed(office):
    index = json.loads((office[0] / "index.json").read_text())
    assert [(k["public_key"], k["from"], k["to"]) for k in index["keys"]] == [
        (public(FIRST), "2026-01-13", "2026-01-20"),
        (public(SECOND), "2026-01-27", "2026-01-27"),
    ]
    assert [(p["period"], p["public_key"]) for p in index["periods"]] == [
        ("2026-W02", public(FIRST)), ("2026-W03", public(FIRST)), ("2026-W04", public(SECOND)),
    ]  # fmt: skip
    page = (office[0] / "index.html").read_text()
    for key in index["keys"]:
        assert key["public_key"] in page
        assert key["fingerprint"] in page
    assert "on releases of 2026-01-13 to 2026-01-20" in page
    assert (office[0] / "latest").readlink().name == "2026-W04"
    assert dp.verify(office[0] / "2026-W03", public_key=public(FIRST)).ok is False  # withdrawn


def test_the_index_leaves_out_a_period_whose_signature_is_of_another(office, tmp_path):
    place = shutil.copytree(office[0], tmp_path / "weekly", symlinks=True)
    shutil.copy(place / "2026-W03" / "signature.json", place / "2026-W02" / "signature.json")
    assert CliRunner().invoke(app, ["index", str(place)]).exit_code == 0
    index = json.loads((place / "index.json").read_text())
    assert (index["unreadable"], len(index["periods"])) == (["2026-W02"], 2)


def test_a_repeat_publishes_the_signature_that_was_committed_and_needs_no_key(office, monkeypatch):
    folder, ledger = office
    pipeline = folder.parent.parent / "pipelines" / "weekly.yaml"
    before = files_at(folder / "2026-W02")
    monkeypatch.delenv("OFFICE_KEY", raising=False)
    shutil.rmtree(folder / "2026-W02")
    result = run(pipeline, period="2026-W02", now=datetime(2026, 2, 1, tzinfo=UTC))
    assert not result.receipt.fresh
    assert files_at(folder / "2026-W02") == before
    assert answer(folder / "2026-W02", public(FIRST), ledger=ledger)[0]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (None, "DPR520"),
        (" ", "DPR520"),
        ("a key", "DPR421"),
        ("11" * 31, "DPR421"),
        ("-----BEGIN X", "DPR421"),
    ],
)
def test_a_missing_or_faulty_key_is_refused_before_the_charge(tmp_path, monkeypatch, value, code):
    path = signing(tmp_path)
    monkeypatch.delenv("OFFICE_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("OFFICE_KEY", value)
    with rules_alone(), pytest.raises(DpreleaseError) as caught:
        run(path, period="2026-W02", now=datetime(2026, 1, 20, tzinfo=UTC))
    assert (caught.value.code, caught.value.spent) == (code, "nothing")
    assert value is None or value == " " or value not in str(caught.value)
    assert Ledger.open(tmp_path / ".dprelease" / "ledger.db").entries() == []
    assert not (tmp_path / "public").exists()


def test_a_key_that_goes_away_after_the_charge_still_signs(tmp_path, monkeypatch):
    from dprelease.pipeline import stages

    path = signing(tmp_path)
    monkeypatch.setenv("OFFICE_KEY", FIRST.hex())
    charge = stages.charge

    def gone(*args, **named):
        monkeypatch.delenv("OFFICE_KEY")
        return charge(*args, **named)

    monkeypatch.setattr(stages, "charge", gone)
    with rules_alone():
        found = run(path, period="2026-W02", now=datetime(2026, 1, 20, tzinfo=UTC))
    assert answer(found.folder, public(FIRST))[0]


def test_where_the_library_is_missing_nothing_is_charged(tmp_path, monkeypatch):
    path = signing(tmp_path)
    monkeypatch.setenv("OFFICE_KEY", FIRST.hex())
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with rules_alone(), pytest.raises(LedgerError) as caught:
        run(path, period="2026-W02", now=datetime(2026, 1, 20, tzinfo=UTC))
    assert caught.value.code == "DPR422"
    assert Ledger.open(tmp_path / ".dprelease" / "ledger.db").entries() == []


def test_a_key_is_named_by_reference_only(tmp_path):
    with pytest.raises(DpreleaseError) as caught:
        signing(tmp_path, key=f'"{"11" * 32}"')
    assert caught.value.code == "DPR142"
    assert "11" * 32 not in str(caught.value)


def test_the_command_line_takes_several_folders_and_keys(office, copy, tmp_path):
    folder, _ = office
    (tmp_path / "office.pub").write_text(public(FIRST))
    keys = ["--public-key", str(tmp_path / "office.pub"), "--public-key", public(SECOND)]
    both = [str(copy), str(folder / "2026-W04")]
    good = CliRunner().invoke(app, ["verify", *both, *keys])
    assert good.exit_code == 0, good.output
    assert good.output.count("verified under the rules") == 2
    assert all(place in good.output for place in both)
    assert "who made it" not in good.output
    one = CliRunner().invoke(app, ["verify", *both, *keys[2:]])
    assert (one.exit_code, one.output.count("NOT verified")) == (1, 1)
    (tmp_path / "empty").mkdir()
    broken = CliRunner().invoke(app, ["verify", *both, str(tmp_path / "empty"), *keys, "--json"])
    said = json.loads(broken.stdout)
    assert broken.exit_code == 1
    assert [answer["ok"] for answer in said] == [True, True, False]
    assert not any("who made it" in unknown for unknown in said[0]["unknown"])
    alone = CliRunner().invoke(app, ["verify", str(copy), *keys, "--json"])
    assert json.loads(alone.stdout)["ok"] is True
    no_key = CliRunner().invoke(app, ["verify", *both, "--public-key", str(tmp_path / "missing")])
    assert no_key.exit_code != 0
    assert "there is no public key to read" in no_key.output
