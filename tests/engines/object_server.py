"""An S3 server in this process: lists, reads ranges, checks signatures, counts bytes, fails when told.

Written from Amazon's public description of the protocol (ListObjectsV2, HEAD and GET with Range,
Signature Version 4). It holds objects in memory and only answers what a reader asks.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["KEY", "SECRET", "ObjectServer", "configured", "environment", "served"]

KEY, SECRET = "AKIDEXAMPLE0CANARY", "wJalrXUtnFEMI0K7MDENG0bPxRfiCYCANARYSECRET"
_STAMP = "Thu, 01 Jan 2026 00:00:00 GMT"


@dataclass
class ObjectServer:
    """What the server holds and saw.

    Attributes:
        objects: "bucket/key" -> bytes.
        read: "bucket/key" -> bytes sent of it.
        cut: bytes of objects after which every answer is cut off; None for never.
        refuse: a status and a code of S3 that every request gets; None for none.
    """

    objects: dict[str, bytes] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    cut: int | None = None
    refuse: tuple[int, str] | None = None
    endpoint: str = ""

    @property
    def sent(self) -> int:
        return sum(self.read.values())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = (
        True  # a body sent after its headers would wait 40 ms for their receipt
    )
    state: ObjectServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        pass

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        state, url = self.state, urlsplit(self.path)
        name = unquote(url.path).lstrip("/")
        state.requests.append(f"{self.command} {self.path}")
        bucket, slash, key = name.partition("/")
        if state.refuse is not None:
            self._error(*state.refuse, body=body)
        elif not _signed(self.command, url.path, url.query, self.headers):
            self._error(403, "SignatureDoesNotMatch", body=body)
        elif not any(known.startswith(f"{bucket}/") for known in state.objects):
            self._error(404, "NoSuchBucket", body=body)
        elif not key and not (slash and key):
            asked = dict(parse_qsl(url.query, keep_blank_values=True))
            self._send(200, _listing(bucket, asked, state.objects), {}, body=body)
        elif name not in state.objects:
            self._error(404, "NoSuchKey", body=body)
        else:
            self._object(name, body=body)

    def _object(self, name: str, *, body: bool) -> None:
        state = self.state
        content, status, headers = state.objects[name], 200, {"Last-Modified": _STAMP}
        asked = self.headers.get("Range")
        if asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            whole = len(content)
            start, end = int(first), min(int(last or whole - 1), whole - 1)
            content, status = content[start : end + 1], 206
            headers["Content-Range"] = f"bytes {start}-{end}/{whole}"
        headers["ETag"] = '"' + hashlib.md5(content).hexdigest() + '"'
        if body and state.cut is not None and state.sent + len(content) > state.cut:
            self.close_connection = True
            self.connection.close()  # as a network does
            return
        if body:
            state.read[name] = state.read.get(name, 0) + len(content)
        self._send(status, content, headers, body=body)

    def _error(self, status: int, code: str, *, body: bool) -> None:
        text = f"<Error><Code>{code}</Code><Message>{code}</Message></Error>"
        self._send(status, text.encode(), {"Content-Type": "application/xml"}, body=body)

    def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)


def _listing(bucket: str, asked: dict[str, str], objects: dict[str, bytes]) -> bytes:
    """Return the answer to ListObjectsV2, two entries a page, so that readers must turn pages."""
    prefix, delimiter = asked.get("prefix", ""), asked.get("delimiter", "")
    found: dict[str, str] = {}
    for name in sorted(objects):
        key = name.partition("/")[2]
        if not name.startswith(f"{bucket}/{prefix}"):
            continue
        rest = key[len(prefix) :]
        if delimiter and delimiter in rest:
            folder = prefix + rest[: rest.index(delimiter) + 1]
            found[folder] = f"<CommonPrefixes><Prefix>{escape(folder)}</Prefix></CommonPrefixes>"
        else:
            found[key] = (
                f"<Contents><Key>{escape(key)}</Key><Size>{len(objects[name])}</Size>"
                "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            )
    most = min(int(asked.get("max-keys", 2)), 2)
    later = [key for key in sorted(found) if key > asked.get("continuation-token", "")]
    page, more = later[:most], len(later) > most
    token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
    return (
        f"<ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix>"
        f"<KeyCount>{len(page)}</KeyCount><IsTruncated>{str(more).lower()}</IsTruncated>{token}"
        f"{''.join(found[key] for key in page)}</ListBucketResult>"
    ).encode()


def _signed(method: str, path: str, query: str, headers: Any) -> bool:
    """Return whether a request carries the signature that `SECRET` makes."""
    kind, _, rest = headers.get("Authorization", "").partition(" ")
    if kind != "AWS4-HMAC-SHA256":
        return False
    given = dict(part.strip().split("=", 1) for part in rest.split(","))
    key, day, region, service, end = given["Credential"].split("/")
    names = given["SignedHeaders"].split(";")
    pairs = sorted(
        (quote(k, safe="-_.~"), quote(v, safe="-_.~"))
        for k, v in parse_qsl(query, keep_blank_values=True)
    )
    canonical = "\n".join((
        method, path, "&".join(f"{k}={v}" for k, v in pairs),
        *(f"{name}:{' '.join(headers.get(name, '').split())}" for name in names), "",
        given["SignedHeaders"], headers.get("x-amz-content-sha256", ""),
    ))  # fmt: skip
    scope = f"{day}/{region}/{service}/{end}"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = f"{kind}\n{headers.get('x-amz-date')}\n{scope}\n{digest}"
    secret = f"AWS4{SECRET}".encode()
    for part in (day, region, service, end):
        secret = hmac.digest(secret, part.encode(), "sha256")
    made = hmac.digest(secret, text.encode(), "sha256").hex()
    return key == KEY and hmac.compare_digest(made, given["Signature"])


@contextmanager
def served() -> Iterator[ObjectServer]:
    """Yield a running server on a free port of this machine."""
    state = ObjectServer()
    handler = type("Handler", (_Handler,), {"state": state})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    state.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    # it looks every 20 ms whether it is over; half a second of each test otherwise
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def environment(state: ObjectServer) -> dict[str, str]:
    """Return what a process needs in its environment to read from the server."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": state.endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }


def configured(monkeypatch: Any, state: ObjectServer) -> None:
    """Let this process read from the server."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment(state).items():
        monkeypatch.setenv(name, value)
