"""`signature.json`: which key a folder was published with, for readers who hold the publisher's public key.

    signed text = "dprelease release 1" LF canonical JSON of {"release": SHA-256 of release.json}

The manifest holds the hash of every other file, so its own covers the folder. The signature is made last, stands in no manifest, and is
committed to the ledger with the other bytes: a repeat publishes the same one, whatever key the pipeline names by then.

    {"dprelease": "release-signature/1", "public_key", "signature"}

A fingerprint is the first half of the SHA-256 of the key's DER form, as `openssl pkey -pubin -outform DER`
writes it. A key that a folder names itself proves nothing of who made it: whoever forges a folder can sign it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Mapping

from dprelease.budget.record import canonical
from dprelease.budget.signature import load_signer, public_key, signed_text, verifies
from dprelease.core.caller import path_from
from dprelease.core.errors import LedgerError
from dprelease.core.secret_text import read_secret
from dprelease.results.formats.json_ import FILE as MANIFEST

FILE = "signature.json"
_WRITTEN = re.compile(
    rb'\{"dprelease":"release-signature/1","public_key":"([0-9a-f]{64})","signature":"([0-9a-f]{128})"\}\n'
)
_DER = bytes.fromhex("302a300506032b6570032100")
"""RFC 8410: what stands before the 32 bytes of an Ed25519 public key."""


def signing(key: str, where: str) -> Callable[[Mapping[str, bytes]], dict[str, bytes]]:
    """Return what adds the signature to the files of a release, tried out: it cannot fail after the charge.

    Raises:
        LedgerError: `key` is no private key (DPR421), or the extra is not installed (DPR422).
    """
    signer = load_signer(key, where)

    def signed(files: Mapping[str, bytes]) -> dict[str, bytes]:
        said = {"dprelease": "release-signature/1", "public_key": signer.public_key}
        said["signature"] = signer.sign(_text(files[MANIFEST]))
        return {**files, FILE: f"{canonical(said)}\n".encode()}

    signed({MANIFEST: b""})
    return signed


def signed_by(data: bytes, manifest: bytes) -> str:
    """Return the key, 64 hex digits, that signed the manifest, by the bytes of a folder's `signature.json`.

    Raises:
        ValueError: it is no signature of this manifest, or holds anything else.
        LedgerError: the extra is not installed (DPR422).
    """
    found = _WRITTEN.fullmatch(data)
    if found is None:
        raise ValueError("not as signatures are written")
    key, signature = (part.decode() for part in found.groups())
    if not verifies(_text(manifest), key, signature):
        raise ValueError("not of this manifest")
    return key


def verdict(data: bytes | None, manifest: bytes, keys: Collection[str]) -> tuple[bool | None, str]:
    """Return whether one of the keys signed the manifest; None without a key, where it bears a signature of any."""
    if data is None:
        return False, "the folder is not signed"
    try:
        key = signed_by(data, manifest)
    except ValueError:
        return False, f"{FILE} is no signature of this {MANIFEST}"
    except LedgerError as missing:  # where keys were given, they were read with the library
        return None, missing.what
    said = f"by the key {fingerprint(key)}"
    if not keys:
        return None, f"{said}, by the folder's own word"
    return key in keys, said if key in keys else f"{said}, none of those given"


def fingerprint(key: str) -> str:
    """Return what two people compare of a public key: 32 hex digits in groups of four."""
    digits = hashlib.sha256(_DER + bytes.fromhex(key)).hexdigest()[:32]
    return " ".join(digits[i : i + 4] for i in range(0, 32, 4))


def read_public_keys(keys: object) -> frozenset[str]:
    """Return public keys as 64 hex digits, of one or several as `read_public_key` reads them; none of None.

    Raises:
        LedgerError, ArgumentError: as `read_public_key`, and where a list holds none (DPR421).
    """
    if keys is None:
        return frozenset()
    several = keys if isinstance(keys, list | tuple | set | frozenset | dict) else (keys,)
    found = frozenset(map(read_public_key, several))
    if not found:
        raise LedgerError(
            "the list of public keys is empty",
            why="a folder would verify whoever made it",
            fix="give the publisher's key, or leave `public_key` out",
            code="DPR421",
        )
    return found


def read_public_key(key: object) -> str:
    """Return a public key, 64 hex digits, from these digits or a file of them or of PEM.

    Raises:
        LedgerError: it is none, or there is no such file (DPR421); the extra is not installed (DPR422).
        ArgumentError: it is no path either (DPR642).
    """
    if isinstance(key, str) and re.fullmatch(r"[0-9A-Fa-f]{64}", key.strip()):
        return public_key(key)
    path = path_from(key, "a public key", "office.pub")
    text = read_secret("file", str(path.resolve()))
    if not text:
        raise LedgerError(
            "there is no public key to read",
            where=str(path),
            why="it is not a file with a text"
            if os.path.lexists(path)
            else "there is no such file",
            fix="name the file of the key, or give its 64 hex digits",
            code="DPR421",
        )
    return public_key(text, str(path))


def _text(manifest: bytes) -> bytes:
    return signed_text("release", {"release": hashlib.sha256(manifest).hexdigest()})
