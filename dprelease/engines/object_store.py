"""Parquet objects in a cloud's store, by address: `s3://bucket/visits/*.parquet`, `gs://…`, `az://…`.

Arrow's own file systems read them. Credentials come from the cloud's usual chain (environment,
profile, the machine's role) and are never taken from an address, a pipeline or a schema, so no plan,
log or artefact can hold them. Messages of a store may quote headers and keys: they are dropped, and
at most the name of its refusal (`ACCESS_DENIED`) is passed on.

    s3   AWS_* variables, ~/.aws, the machine's role; AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL for
         another server that speaks S3
    gs   application default credentials
    az   AZURE_* variables, a managed identity, `az login`; AZURE_STORAGE_ACCOUNT names the account

Objects are listed once, before the charge. A wildcard matches as it does in files' names: `*` and
`[…]` within one folder, `**` across folders, neither a name that begins with a dot.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from dprelease.core.errors import SourceError

SCHEMES = {"s3": "S3FileSystem", "gs": "GcsFileSystem", "az": "AzureFileSystem"}
"""Scheme -> the class of `pyarrow.fs` that reads it."""

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://", re.ASCII)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_WILD = re.compile(r"[*\[]")
_REFUSAL = re.compile(r"AWS Error ([A-Z][A-Z_]{2,40})\b", re.ASCII)
_AT_ONCE = 16
"""Footers that are read at a time."""
_GIVES_UP = timedelta(minutes=1)
"""How long Google's reader repeats a request; its own limit is a quarter of an hour."""


@dataclass(frozen=True, eq=False)
class StoredObject:
    """One Parquet object.

    Attributes:
        store: the file system that reads it; never shown.
        key: bucket and key, as the store lists them.
        groups: the row groups that are read; all when None. They follow from rows; never shown.
    """

    store: Any = field(repr=False)
    key: str
    groups: tuple[int, ...] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.key

    @property
    def parts(self) -> tuple[str, ...]:
        """The folders and the name."""
        return PurePosixPath(self.key).parts

    @cached_property
    def footer(self) -> Any:
        """What the file says of itself, read once: names, types, row groups.

        Raises:
            OSError, ArrowException: it does not open, or is not Parquet.
        """
        import pyarrow.parquet as pq

        with self.store.open_input_file(self.key) as stream, pq.ParquetFile(stream) as file:
            return file.metadata

    @property
    def row_groups(self) -> Sequence[int]:
        """The places of the row groups that are read."""
        return range(self.footer.num_row_groups) if self.groups is None else self.groups

    def only(self, groups: tuple[int, ...]) -> StoredObject:
        """Return the same object with fewer row groups."""
        fewer = StoredObject(self.store, self.key, groups)
        fewer.__dict__["footer"] = self.footer  # read once
        return fewer

    def opened(self) -> Any:
        """Return a new `pyarrow.parquet.ParquetFile`, which reads a row group's asked columns together."""
        import pyarrow.parquet as pq

        return pq.ParquetFile(
            self.store.open_input_file(self.key),
            metadata=self.footer,
            pre_buffer=True,
            coerce_int96_timestamp_unit="us",
        )


def is_address(text: str) -> bool:
    """Return whether `text` is an address (`scheme://…`) and not a path.

    >>> is_address("s3://clinic/visits/*.parquet"), is_address("visits/*.parquet")
    (True, False)
    """
    return _ADDRESS.match(text) is not None


def parsed(text: str) -> tuple[str, str]:
    """Return the scheme and "bucket/pattern" of an address; the refusals do not quote it.

    >>> parsed("s3://clinic/visits/*.parquet")
    ('s3', 'clinic/visits/*.parquet')

    Raises:
        SourceError: another scheme, no path, or more than a bucket and a path (DPR525).
    """
    found = _ADDRESS.match(text)
    scheme, rest = (found[1], text[found.end() :]) if found else ("", "")
    bucket, slash, path = rest.partition("/")
    if scheme not in SCHEMES:
        raise _malformed("its scheme is none of " + ", ".join(f"{s}://" for s in SCHEMES))
    if not _BUCKET.fullmatch(bucket) or "?" in path or "\0" in path:
        raise _malformed(
            "it holds more than a bucket and a path; a name, a password, a port or a token in it "
            "would end in plans and logs"
        )
    if not slash or not path.strip("/") or {"", ".", ".."} & set(path.rstrip("/").split("/")):
        raise _malformed("it names no object")
    return scheme, f"{bucket}/{path.rstrip('/')}"


def objects_at(text: str, *, store: Any = None) -> tuple[StoredObject, ...]:
    """Return the objects that an address matches, in name order.

    Args:
        text: the address; public.
        store: a file system of `pyarrow.fs` in place of the scheme's own.

    Raises:
        SourceError: a faulty address (DPR525), no such object (DPR501), a store that does not
            answer or refuses (DPR524), or that this installation cannot read (DPR507).
    """
    scheme, pattern = parsed(text)
    reader = _store(scheme) if store is None else store
    try:
        keys = sorted(_listed(reader, pattern))
    except Exception as error:  # noqa: BLE001 - Arrow has more kinds than it documents; none is quoted
        refusal = _REFUSAL.search(str(error))
    else:
        if keys:
            return tuple(StoredObject(reader, key) for key in keys)
        raise SourceError(
            f"no object matches {text!r}",
            fix="check bucket and path; a folder is read with a wildcard, as in visits/*.parquet",
            code="DPR501",
        )
    said = f" ({refusal[1]})" if refusal else ""
    raise SourceError(
        f"the store of {text!r} does not answer, or refuses{said}",
        fix=_FIXES[scheme],
        code="DPR524",
    )


def opened_footers(objects: Sequence[StoredObject], name: str) -> None:
    """Read the footers of objects, some at a time; `name` is what the source is called.

    Raises:
        SourceError: one is not there, is not Parquet, or may not be read (DPR502).
    """
    failed: str | None = None
    with ThreadPoolExecutor(min(_AT_ONCE, len(objects))) as readers:
        for one, sound in zip(objects, readers.map(_has_footer, objects), strict=True):
            failed = failed if sound or failed else one.key
    if failed is not None:
        raise SourceError(
            f"the object {failed!r} does not open as Parquet",
            where=name,
            why="it is gone, damaged, no Parquet, or may not be read",
            fix="check the object, and that these credentials may read it",
            code="DPR502",
        )


def _malformed(why: str) -> SourceError:
    return SourceError(
        "the address of objects is faulty",
        why=why,
        fix="e.g. s3://bucket/visits/*.parquet; credentials come from the environment",
        code="DPR525",
    )


def _has_footer(one: StoredObject) -> bool:
    try:
        return one.footer is not None
    except Exception:  # noqa: BLE001 - whatever a footer holds; its message may quote it
        return False


_FIXES: Mapping[str, str] = {
    "s3": "check the bucket, AWS_REGION (or AWS_ENDPOINT_URL) and the credentials: AWS_* variables, "
    "~/.aws or the machine's role, with s3:ListBucket and s3:GetObject",
    "gs": "check the bucket and `gcloud auth application-default login`, with storage.objects.list and "
    "storage.objects.get",
    "az": "check the container, AZURE_STORAGE_ACCOUNT and `az login`, with Storage Blob Data Reader",
}


def _store(scheme: str) -> Any:
    """Return the file system of a scheme, with the credentials of the cloud's own chain."""
    kind = None
    with suppress(ImportError, AttributeError):
        import pyarrow.fs

        kind = getattr(pyarrow.fs, SCHEMES[scheme])
    if kind is None:
        raise SourceError(
            f"this installation cannot read {scheme}://",
            why=f"its pyarrow was built without {SCHEMES[scheme]}",
            fix="install pyarrow from its wheels (pip install pyarrow)",
            code="DPR507",
        )
    with suppress(Exception):  # their messages may quote a variable
        return kind(**_options(scheme, os.environ))
    raise SourceError(
        f"{scheme}:// cannot be set up from the environment", fix=_FIXES[scheme], code="DPR524"
    )


def _options(scheme: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """Return what a file system does not look up by itself."""
    if scheme == "s3":
        url = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
        return {"endpoint_override": url} if url else {}
    if scheme == "az":
        account = environment.get("AZURE_STORAGE_ACCOUNT", "")
        key = environment.get("AZURE_STORAGE_KEY")
        return {"account_name": account, **({"account_key": key} if key else {})}
    return {"retry_time_limit": _GIVES_UP}


def _listed(store: Any, pattern: str) -> Iterator[str]:
    """Yield the keys of the objects that match "bucket/pattern"."""
    import pyarrow.fs

    parts = pattern.split("/")
    fixed = next((i for i, part in enumerate(parts) if _WILD.search(part)), len(parts))
    if fixed == len(parts):
        found = store.get_file_info([pattern])
    else:
        deep = fixed + 1 < len(parts) or parts[fixed] == "**"
        selector = pyarrow.fs.FileSelector(
            "/".join(parts[:fixed]), allow_not_found=True, recursive=deep
        )
        found = store.get_file_info(selector)
    for info in found:
        if info.type == pyarrow.fs.FileType.File and _matches(info.path.split("/"), parts):
            yield info.path


def _matches(names: list[str], patterns: list[str]) -> bool:
    """Return whether a path matches a pattern, both in parts."""
    if not patterns:
        return not names
    first, *rest = patterns
    if first == "**":
        under = bool(names) and not names[0].startswith(".") and _matches(names[1:], patterns)
        return _matches(names, rest) or under
    if not names:
        return False
    hidden = names[0].startswith(".") and not first.startswith(".")
    plain = first == names[0] if not _WILD.search(first) else fnmatchcase(names[0], first)
    return plain and not (hidden and _WILD.search(first)) and _matches(names[1:], rest)
