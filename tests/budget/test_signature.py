"""Signed heads: RFC 8032's own numbers, every changed field, every unusable key."""

from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import replace

import pytest

from dprelease.budget.record import Anchor
from dprelease.budget.signature import head_text, load_signer, public_key, verifies
from dprelease.core.errors import LedgerError

# RFC 8032, section 7.1, test 1.
SECRET = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
ANCHOR = Anchor("ab" * 16, 7, "cd" * 32)


def code(call, *arguments) -> str:
    with pytest.raises(LedgerError) as caught:
        call(*arguments)
    assert SECRET not in str(caught.value)
    return caught.value.code


def test_the_public_key_is_the_standard_s():
    assert load_signer(SECRET, "test").public_key == PUBLIC


def test_a_signature_holds_for_exactly_what_was_signed():
    signer = load_signer(SECRET, "test")
    text = head_text(ANCHOR)
    signed = signer.sign(text)
    assert verifies(text, PUBLIC, signed)
    for other in (
        replace(ANCHOR, seq=8),
        replace(ANCHOR, head_hash="ce" * 32),
        replace(ANCHOR, ledger_id="ac" * 16),
    ):
        assert not verifies(head_text(other), PUBLIC, signed)
    for broken in (signed[:-1] + "0", signed[:-2], "", "zz", "None"):
        assert broken == signed or not verifies(text, PUBLIC, broken)
    assert not verifies(text, "00" * 32, signed)


def test_pem_is_read_and_other_keys_are_not():
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    def pem(key) -> str:
        return key.private_bytes(
            form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()
        ).decode()

    own = ed25519.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SECRET))
    assert load_signer("\n" + pem(own), "test").public_key == PUBLIC
    for text in (
        pem(ec.generate_private_key(ec.SECP256R1())),
        "",
        SECRET[:-2],
        "-----BEGIN x",
        "é",
    ):
        assert code(load_signer, text, "test") == "DPR421"
    assert public_key(f" {PUBLIC.upper()}\n") == PUBLIC
    for text in ("", "zz", PUBLIC[:-2], PUBLIC + "00"):
        assert code(public_key, text) == "DPR421"


def test_a_file_of_two_keys_is_refused_instead_of_read_as_the_first():
    """The second would be ignored in silence, and a folder that it signed be called one of a stranger."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric import ed25519

    public = ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(PUBLIC))
    pem = public.public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo).decode()
    assert public_key(pem) == public_key(pem.replace("\n", "\r\n")) == PUBLIC
    assert code(public_key, pem + pem) == "DPR421"


def test_the_key_neither_shows_nor_travels():
    signer = load_signer(SECRET, "test")
    assert SECRET not in repr(signer)
    for travel in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError):
            travel(signer)


def test_without_the_extra_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.exceptions", None)
    assert code(load_signer, SECRET, "test") == "DPR422"
    assert code(verifies, b"", PUBLIC, "00") == "DPR422"
