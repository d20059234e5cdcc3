"""Servers of the Google and Azure storage protocols: as much of them as reading Parquet files asks for."""

from __future__ import annotations

import json
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["served"]

WHEN = "Mon, 01 Jan 2024 00:00:00 GMT"


class Cloud(ThreadingHTTPServer):
    """One bucket (or container) of objects over plain HTTP on the loopback.

    Attributes:
        objects: name -> bytes.
    """

    daemon_threads = True

    def __init__(self, bucket: str, objects: Mapping[str, bytes], handler: type[Any]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.bucket, self.objects = bucket, dict(objects)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler, ABC):
    protocol_version = "HTTP/1.1"
    server: Cloud

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        split = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(split.query, keep_blank_values=True).items()}
        self.answer(unquote(split.path), query)

    @abstractmethod
    def answer(self, path: str, query: dict[str, str]) -> None:
        """Answer one request."""

    def say(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def contents(self, data: bytes, headers: Mapping[str, str]) -> None:
        """Send an object, or the range of it that is asked for."""
        wanted = self.headers.get("x-ms-range") or self.headers.get("Range")
        first, last = 0, len(data) - 1
        if wanted:
            low, _, high = wanted.removeprefix("bytes=").partition("-")
            first, last = int(low), min(last, int(high)) if high else last
        part = data[first : last + 1]
        found = (
            {**headers, "Content-Range": f"bytes {first}-{last}/{len(data)}"} if wanted else headers
        )
        self.say(206 if wanted else 200, part, found)


class Google(_Handler):
    """JSON for lists and metadata, ranges for contents."""

    def answer(self, path: str, query: dict[str, str]) -> None:
        objects, bucket = self.server.objects, self.server.bucket
        base = f"/storage/v1/b/{bucket}/o"
        name = path.partition(f"{base}/")[2] or path.removeprefix(f"/{bucket}/")
        if path == base:
            prefix = query.get("prefix", "")
            items = [self._metadata(n) for n in sorted(objects) if n.startswith(prefix)]
            self.say(
                200,
                json.dumps({"kind": "storage#objects", "items": items}).encode(),
                {"Content-Type": "application/json"},
            )
        elif path == f"/storage/v1/b/{bucket}":
            self.say(
                200, json.dumps({"kind": "storage#bucket", "name": bucket, "id": bucket}).encode()
            )
        elif name not in objects:
            self.say(404, b'{"error": {"code": 404, "message": "none"}}')
        elif query.get("alt") == "media" or "/o/" not in path:
            self.contents(
                objects[name],
                {"x-goog-generation": "1", "Content-Type": "application/octet-stream"},
            )
        else:
            self.say(
                200, json.dumps(self._metadata(name)).encode(), {"Content-Type": "application/json"}
            )

    def _metadata(self, name: str) -> dict[str, Any]:
        return {
            "kind": "storage#object", "name": name, "bucket": self.server.bucket, "generation": "1",
            "metageneration": "1", "size": str(len(self.server.objects[name])),
            "updated": "2024-01-01T00:00:00.000Z", "timeCreated": "2024-01-01T00:00:00.000Z",
        }  # fmt: skip


class Azure(_Handler):
    """XML for lists, headers for metadata, ranges for contents; of a flat namespace."""

    def answer(self, path: str, query: dict[str, str]) -> None:
        parts = path.strip("/").split("/", 2)  # account, container, blob
        name = parts[2] if len(parts) > 2 else ""
        headers = {
            "ETag": '"1"', "Last-Modified": WHEN, "x-ms-version": "2023-11-03", "x-ms-request-id": "1",
            "x-ms-creation-time": WHEN, "x-ms-blob-type": "BlockBlob", "Content-Type": "application/octet-stream",
            "x-ms-server-encrypted": "true", "x-ms-lease-state": "available", "x-ms-lease-status": "unlocked",
        }  # fmt: skip
        if query.get("comp") == "list":
            self._listed(query)
        elif not name:
            self.say(200, b"", {**headers, "x-ms-has-immutability-policy": "false", "x-ms-has-legal-hold": "false",
                                "x-ms-default-encryption-scope": "a", "x-ms-deny-encryption-scope-override": "false"})  # fmt: skip
        elif name not in self.server.objects:
            self.say(404, b"", {**headers, "x-ms-error-code": "BlobNotFound"})
        elif self.command == "HEAD":
            self.send_response(200)
            for key, value in {
                **headers,
                "Content-Length": str(len(self.server.objects[name])),
            }.items():
                self.send_header(key, value)
            self.end_headers()
        else:
            self.contents(self.server.objects[name], headers)

    def _listed(self, query: dict[str, str]) -> None:
        prefix, cut = query.get("prefix", ""), query.get("delimiter", "")
        found, folders = [], set()
        for name in sorted(self.server.objects):
            rest = name.removeprefix(prefix)
            if not name.startswith(prefix):
                continue
            if cut and cut in rest:
                folders.add(prefix + rest.split(cut)[0] + cut)
            else:
                found.append(
                    f"<Blob><Name>{escape(name)}</Name><Properties><Creation-Time>{WHEN}</Creation-Time><Last-Modified>{WHEN}"
                    f"</Last-Modified><Etag>1</Etag><Content-Length>{len(self.server.objects[name])}</Content-Length>"
                    "<BlobType>BlockBlob</BlobType><ServerEncrypted>true</ServerEncrypted></Properties></Blob>"
                )
        found += [
            f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in sorted(folders)
        ]
        body = (
            f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults ServiceEndpoint="http://{self.server.address}/" '
            f'ContainerName="{self.server.bucket}"><Blobs>{"".join(found)}</Blobs><NextMarker/></EnumerationResults>'
        )
        self.say(200, body.encode(), {"Content-Type": "application/xml"})


@contextmanager
def served(kind: str, bucket: str, folder: Path) -> Iterator[str]:
    """Serve the files of a folder while the block runs; yield host and port.

    In a process of its own: Arrow's reader of Google's store waits for answers without letting Python run.
    """
    words = [sys.executable, "-m", "tests.engines.cloud_servers", kind, bucket, str(folder)]
    child = subprocess.Popen(
        words, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    try:
        assert child.stdout is not None
        yield child.stdout.readline().strip()
    finally:
        child.kill()
        child.communicate()


if __name__ == "__main__":
    _, _kind, _bucket, _folder = sys.argv
    _root = Path(_folder)
    _objects = {str(p.relative_to(_root)): p.read_bytes() for p in _root.rglob("*") if p.is_file()}
    _cloud = Cloud(_bucket, _objects, {"google": Google, "azure": Azure}[_kind])
    print(_cloud.address, flush=True)
    _cloud.serve_forever()
