"""`signature.json`: what is signed, how it is written, which keys are read; by `cryptography` and openssl's own form."""

from __future__ import annotations

import hashlib
import json
import sys

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from dprelease.core.errors import ArgumentError, LedgerError
from dprelease.results.signature_file import (
    FILE,
    fingerprint,
    read_public_key,
    read_public_keys,
    signed_by,
    signing,
)

OWN = ed25519.Ed25519PrivateKey.from_private_bytes(b"\x11" * 32)
PUBLIC = OWN.public_key().public_bytes_raw().hex()
MANIFEST = b'{"dprelease":"release/2"}\n'


def signature(manifest=MANIFEST, own=OWN, **changes):
    """Return the file as its description says it, written by hand."""
    text = '{"release":"' + hashlib.sha256(manifest).hexdigest() + '"}'
    said = {
        "dprelease": "release-signature/1",
        "public_key": own.public_key().public_bytes_raw().hex(),
        "signature": own.sign(b"dprelease release 1\n" + text.encode()).hex(),
        **changes,
    }
    return json.dumps(said, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def test_the_hash_of_the_manifest_is_signed_and_the_file_says_nothing_else():
    files = {"release.json": MANIFEST, "data.csv": b"1\n"}
    made = signing("11" * 32, "test")(files)
    assert made == {**files, FILE: signature()}
    assert signed_by(made[FILE], MANIFEST) == PUBLIC


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]\n",
        signature(note="hidden"),
        signature(dprelease="release-signature/2"),
        signature(public_key=PUBLIC.upper()),
        signature(public_key="00" * 32),
        signature(public_key=PUBLIC[:-2]),
        signature(signature="00" * 64),
        signature(signature=None),
        signature(manifest=MANIFEST + b" "),
        signature() + b"\n",
        signature()[:-1],
        signature().replace(b":", b": ", 1),
    ],
)
def test_what_is_no_signature_of_this_manifest_is_refused(data):
    with pytest.raises(ValueError, match="not "):
        signed_by(data, MANIFEST)


def test_a_signature_of_something_else_by_the_same_key_is_none_of_a_release():
    """A head of a ledger, an approval, or the bare hash: each says first what it is."""
    digest = hashlib.sha256(MANIFEST).hexdigest()
    for text in (digest, f"dprelease ledger head 1\n{digest}", f'{{"release":"{digest}"}}'):
        with pytest.raises(ValueError, match="not of this manifest"):
            signed_by(signature(signature=OWN.sign(text.encode()).hex()), MANIFEST)


def test_a_fingerprint_is_of_the_form_that_openssl_writes():
    der = OWN.public_key().public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    assert fingerprint(PUBLIC).replace(" ", "") == hashlib.sha256(der).hexdigest()[:32]
    assert len(fingerprint(PUBLIC).split(" ")) == 8


def pem(key):
    return key.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo).decode()


def test_a_key_is_digits_or_a_file_of_them_or_of_pem(tmp_path):
    (tmp_path / "hex").write_text(PUBLIC + "\n")
    (tmp_path / "pem").write_text(pem(OWN.public_key()))
    (tmp_path / "link").symlink_to("pem")
    given = [PUBLIC, f" {PUBLIC.upper()} ", *(tmp_path / n for n in ("hex", "pem", "link"))]
    assert {read_public_key(key) for key in [*given, str(tmp_path / "pem")]} == {PUBLIC}


def test_what_is_no_public_key_is_refused(tmp_path, monkeypatch):
    texts = {
        "blank": "",
        "words": "a key",
        "curve": pem(ec.generate_private_key(ec.SECP256R1()).public_key()),
        "private": OWN.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        ).decode(),
        "long": PUBLIC * 2,
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    for name in (*texts, "missing", "."):
        with pytest.raises(LedgerError) as caught:
            read_public_key(tmp_path / name)
        assert (caught.value.code, caught.value.spent) == ("DPR421", "nothing")
        assert "MC4CAQAw" not in str(caught.value)  # a private key's own text
    for name, why in (
        ("missing", "no such file"),
        (".", "not a file with"),
        ("blank", "not a file with"),
    ):
        with pytest.raises(LedgerError, match=f"no public key to read\n.*{name}\n.*{why}"):
            read_public_key(tmp_path / name)
    with pytest.raises(ArgumentError):
        read_public_key(7)
    assert read_public_keys(None) == frozenset()
    for empty in ([], (), {}):  # a list that came out empty asks for a key all the same
        with pytest.raises(LedgerError, match="is empty"):
            read_public_keys(empty)
    assert read_public_keys(PUBLIC) == read_public_keys({PUBLIC, PUBLIC.upper()}) == {PUBLIC}
    for wrong in (7, True, bytes.fromhex(PUBLIC), "", [None], [PUBLIC, 7], [[PUBLIC]]):
        with pytest.raises(ArgumentError) as refused:
            read_public_keys(wrong)
        assert (refused.value.code, bool(refused.value.fix)) == ("DPR642", True)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(LedgerError) as caught:
        read_public_key(PUBLIC)
    assert caught.value.code == "DPR422"
