"""Ed25519 signatures of a ledger's head, of approvals and of releases: who wrote them, for someone who holds the public key.

    signed text = "dprelease ledger head 1" LF canonical JSON of {head_hash, ledger_id, seq}

A hash chain shows that something was changed only to those who know a later head. A signed head
says as well that the holder of the key wrote it: whoever can write the file but has no key cannot
make one for a rewritten chain. It does not make the ledger newer than it is: that is what a head
kept in a second place is for (head_file.py).

Sources  RFC 8032 (Ed25519), as implemented by `cryptography` (extra `signing`).
Limits   a key that is stolen; a key on the machine that is taken over.
"""

from __future__ import annotations

import binascii
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from dprelease.budget.record import Anchor, canonical
from dprelease.core.errors import LedgerError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key that signs heads; its text is never shown.

    Attributes:
        public_key: 64 hex digits.
    """

    public_key: str
    _key: Ed25519PrivateKey = field(repr=False)

    def sign(self, anchor: Anchor) -> str:
        """Return the signature of `anchor`, 128 hex digits."""
        return self.sign_bytes(_text(anchor))

    def sign_bytes(self, text: bytes) -> str:
        """Return the signature of a text that says what it is, 128 hex digits."""
        return self._key.sign(text).hex()

    def __reduce__(self) -> str:
        raise TypeError("a signing key cannot be copied or pickled")


def load_signer(text: str, where: str) -> Signer:
    """Return the signer of a private key: PEM (PKCS 8, no passphrase), or 64 hex digits.

    Args:
        where: what the key came from, for the message.

    Raises:
        LedgerError: it is neither (DPR421), or the extra is not installed (DPR422).
    """
    kinds = _library()
    key: object = None
    try:
        if text.lstrip().startswith("-----BEGIN"):
            key = kinds.load_pem_private_key(text.strip().encode() + b"\n", password=None)
        else:
            key = kinds.Ed25519PrivateKey.from_private_bytes(bytes.fromhex(text.strip()))
    except (ValueError, TypeError, kinds.UnsupportedAlgorithm):
        pass
    if not isinstance(key, kinds.Ed25519PrivateKey):
        raise LedgerError(
            "the signing key is not an Ed25519 private key",
            where=where,
            why="it is read as PEM without a passphrase, or as 64 hex digits",
            fix="make one: openssl genpkey -algorithm ed25519",
            code="DPR421",
        )
    return Signer(key.public_key().public_bytes_raw().hex(), key)


def public_key(text: str, where: str | None = None) -> str:
    """Return a public key as 64 hex digits, from these or from PEM.

    Args:
        where: what it came from, for the message.

    Raises:
        LedgerError: it is none (DPR421), or the extra is not installed (DPR422).
    """
    kinds = _library()
    key: object = None
    try:
        if text.lstrip().startswith("-----BEGIN"):
            key = kinds.load_pem_public_key(text.strip().encode() + b"\n")
        else:
            key = kinds.Ed25519PublicKey.from_public_bytes(binascii.unhexlify(text.strip()))
    except (ValueError, binascii.Error, kinds.UnsupportedAlgorithm):
        pass
    if not isinstance(key, kinds.Ed25519PublicKey):
        raise LedgerError(
            "the public key is not an Ed25519 key",
            where=where,
            why="it is read as PEM, or as the 64 hex digits that a signature names as `public_key`",
            fix="from a private one: openssl pkey -in office.pem -pubout",
            code="DPR421",
        )
    return key.public_bytes_raw().hex()


def verifies(anchor: Anchor, key: str, signature: str) -> bool:
    """Return whether `signature` is the signature of `anchor` under the public `key`.

    Raises:
        LedgerError: the extra is not installed (DPR422).
    """
    return verifies_bytes(_text(anchor), key, signature)


def verifies_bytes(text: bytes, key: str, signature: str) -> bool:
    """As `verifies`, of a text that says what it is.

    Raises:
        LedgerError: the extra is not installed (DPR422).
    """
    kinds = _library()
    try:
        public = kinds.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), text)
    except (ValueError, TypeError, kinds.InvalidSignature):
        return False
    return True


def _text(anchor: Anchor) -> bytes:
    return f"dprelease ledger head 1\n{canonical(asdict(anchor))}".encode()


class _Kinds:
    """The library's names, imported when a signature is made or checked."""

    def __init__(self) -> None:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519

        self.InvalidSignature = InvalidSignature
        self.UnsupportedAlgorithm = UnsupportedAlgorithm
        self.Ed25519PrivateKey = ed25519.Ed25519PrivateKey
        self.Ed25519PublicKey = ed25519.Ed25519PublicKey
        self.load_pem_private_key = serialization.load_pem_private_key
        self.load_pem_public_key = serialization.load_pem_public_key


def _library() -> _Kinds:
    try:
        return _Kinds()
    except ImportError:
        raise LedgerError(
            "signatures need the library `cryptography`",
            fix='pip install "dprelease[signing]"',
            code="DPR422",
        ) from None
