"""The health file is remembered by the next process, and read as strictly as any other file."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dprelease.pipeline.health import VERSION, Health

NOW = datetime(2024, 5, 6, tzinfo=UTC)


def said(path) -> str:
    Health(path).write("ok", NOW, {})
    return path.read_text()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"[]", b"{", b"\xff", b"[" * 100_000,
        f'{{"dprelease": "{VERSION}", "last_success": {{}}, "last_error": {{"a": NaN}}}}'.encode(),
        f'{{"dprelease": "{VERSION}", "last_success": {{"a": 1}}, "last_success": {{"b": 1}}, "last_error": {{}}}}'.encode(),
    ],
)  # fmt: skip
def test_what_has_no_one_meaning_is_no_memory(tmp_path, data):
    path = tmp_path / "health.json"
    fresh = said(path)
    path.write_bytes(data)
    assert said(path) == fresh


def test_a_success_is_kept(tmp_path):
    path = tmp_path / "health.json"
    first = Health(path)
    first.success("visits", "2024-04", NOW)
    first.write("ok", NOW, {})
    kept = path.read_text()
    assert '"period": "2024-04"' in kept
    assert said(path) == kept
