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

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dprelease.budget.record import Anchor, canonical
from dprelease.core.errors import LedgerError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key that signs heads, approvals and releases; its text is never shown.

    Attributes:
        public_key: 64 hex digits.
    """

    public_key: str
    _key: Ed25519PrivateKey = field(repr=False)

    def sign(self, text: bytes) -> str:
        """Return the signature of a text that says what it is (`signed_text`), 128 hex digits."""
        return self._key.sign(text).hex()

    def __reduce__(self) -> str:
        raise TypeError("a signing key cannot be copied or pickled")


def signed_text(what: str, said: object) -> bytes:
    """Return the text that is signed: it says what it is, so that no signature is taken for one of something else."""
    return f"dprelease {what} 1\n{canonical(said)}".encode()


def head_text(anchor: Anchor) -> bytes:
    """Return the text that is signed of a ledger's head."""
    return signed_text("ledger head", asdict(anchor))


def load_signer(text: str, where: str) -> Signer:
    """Return the signer of a private key: PEM (PKCS 8, no passphrase), or 64 hex digits.

    Args:
        where: what the key came from, for the message.

    Raises:
        LedgerError: it is neither (DPR421), or the extra is not installed (DPR422).
    """
    keys, pem, _ = _library()
    private = keys.Ed25519PrivateKey
    key = _read(
        text, private, partial(pem.load_pem_private_key, password=None), private.from_private_bytes
    )
    if key is None:
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
    keys, pem, _ = _library()
    public = keys.Ed25519PublicKey
    key = _read(text, public, pem.load_pem_public_key, public.from_public_bytes)
    if key is None:
        raise LedgerError(
            "the public key is not one Ed25519 key",
            where=where,
            why="it is read as PEM of one key, or as the 64 hex digits that a signature names as `public_key`",
            fix="give each key a file of its own; from a private one: openssl pkey -in office.pem -pubout",
            code="DPR421",
        )
    return str(key.public_bytes_raw().hex())


def verifies(text: bytes, key: str, signature: str) -> bool:
    """Return whether `signature` is the signature of `text` under the public `key`.

    Raises:
        LedgerError: the extra is not installed (DPR422).
    """
    keys, _, wrong = _library()
    try:
        public = keys.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), text)
    except wrong:
        return False
    return True


def _read(
    text: str, kind: type, pem: Callable[[bytes], object], raw: Callable[[bytes], object]
) -> Any:
    """Return the one key of that kind that a text holds, as PEM or as hex digits; None for none, or several."""
    text, wrong = text.strip(), _library()[2]
    try:
        key = pem(text.encode() + b"\n") if text.count("BEGIN ") == 1 else raw(bytes.fromhex(text))
    except wrong:
        return None
    return key if isinstance(key, kind) else None


def _library() -> tuple[ModuleType, ModuleType, tuple[type[Exception], ...]]:
    """Return the library's keys, its readers of PEM, and what it raises for what is no key or no signature."""
    try:
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise LedgerError(
            "signatures need the library `cryptography`",
            fix='pip install "dprelease[signing]"',
            code="DPR422",
        ) from None
    return ed25519, serialization, (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm)
