"""The Atom feed: what RFC 4287 asks for, stable times and identities, corrections."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest

from dprelease.results.series import feed
from dprelease.results.series.collect import collect
from dprelease.results.series.correct import supersede, withdraw
from tests.results.series.made import year

A = {"a": feed.NAMESPACE}
NOON = datetime(2027, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path):
    return year(tmp_path, 4, formats=("parquet", "html"))


def parsed(folder):
    return ET.fromstring(feed.write(collect(folder)))


def one(node, path):
    found = node.findall(path, A)
    assert len(found) == 1, path
    return found[0].text


def test_required_elements_newest_first(folder):
    root = parsed(folder)
    assert root.tag == f"{{{feed.NAMESPACE}}}feed"
    assert one(root, "a:title") == "Weekly"
    assert one(root, "a:author/a:name") == "weekly"
    entries = root.findall("a:entry", A)
    assert [one(e, "a:title") for e in entries] == [
        f"Weekly, week {i} of 2026" for i in (4, 3, 2, 1)
    ]
    assert len({one(e, "a:id") for e in entries} | {one(root, "a:id")}) == 5
    for entry in entries:
        for name in ("id", "title", "updated", "published", "summary"):
            assert one(entry, f"a:{name}")
    assert one(root, "a:updated") == max(one(e, "a:updated") for e in entries)
    [link] = entries[0].findall("a:link", A)
    assert (link.get("rel"), link.get("href")) == ("alternate", "2026-W04/report.html")


def test_times_are_the_scheduled_instants_and_ids_the_releases(folder):
    entry = parsed(folder).findall("a:entry", A)[0]
    assert one(entry, "a:published") == one(entry, "a:updated") == "2026-01-04T06:00:00Z"
    digest = hashlib.sha256((folder / "2026-W04" / "release.json").read_bytes()).hexdigest()
    assert one(entry, "a:id") == f"urn:sha256:{digest}"


def test_a_correction_updates_its_entry_and_keeps_its_identity(folder):
    before = [one(e, "a:id") for e in parsed(folder).findall("a:entry", A)]
    withdraw(folder / "2026-W01", reason="a < b & c", now=lambda: NOON)
    supersede(folder / "2026-W02", by=folder / "2026-W03", reason="late rows", now=lambda: NOON)
    root = parsed(folder)
    entries = root.findall("a:entry", A)
    assert [one(e, "a:id") for e in entries] == before
    assert one(entries[3], "a:title") == "Withdrawn: Weekly, week 1 of 2026"
    assert "a < b & c" in one(entries[3], "a:summary")
    assert one(entries[2], "a:title").startswith("Superseded: ")
    assert "by weekly 2026-W03" in one(entries[2], "a:summary")
    assert one(entries[3], "a:updated") == one(root, "a:updated") == "2027-01-01T12:00:00Z"
    assert one(entries[3], "a:published") == "2026-01-01T06:00:00Z"


def test_a_long_series_shows_its_newest(folder, monkeypatch):
    monkeypatch.setattr(feed, "LIMIT", 2)
    assert len(parsed(folder).findall("a:entry", A)) == 2


def test_no_period_no_entry(tmp_path):
    (tmp_path / "weekly").mkdir()
    assert parsed(tmp_path / "weekly").findall("a:entry", A) == []
