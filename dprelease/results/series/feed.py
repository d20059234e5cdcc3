"""`feed.xml`: an Atom feed (RFC 4287) of a pipeline's releases and their corrections.

Newest first, at most `LIMIT` entries. An entry's identity is its release's SHA-256, so it stays
the same entry when it is withdrawn; then its title says so and it is updated to that instant.
Otherwise its time is the scheduled instant of the release, or the end of its window, or with neither
the day of publication that its manifest notes: a run that was late, or a page that is rebuilt, changes
nothing. Links are relative to the feed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from dprelease.release_plan.weak import weak_sentence
from dprelease.results.formats.html import FILE as REPORT
from dprelease.results.formats.over_time import loss_words
from dprelease.results.formats.public_words import PublicWords
from dprelease.results.formats.words import period_words
from dprelease.results.series.collect import PAGE, Period, PublishedSeries

FILE = "feed.xml"
LIMIT = 100
NAMESPACE = "http://www.w3.org/2005/Atom"
_NEVER = "1970-01-01T00:00:00Z"


def write(series: PublishedSeries) -> bytes:
    """Return the feed, UTF-8."""
    ET.register_namespace("", NAMESPACE)
    feed = ET.Element(f"{{{NAMESPACE}}}feed")
    newest = list(reversed(series.periods))[:LIMIT]
    origin = series.periods[0] if series.periods else None
    _put(feed, "id", f"urn:sha256:{origin.release}:feed" if origin else "urn:dprelease:empty")
    words = newest[0].words if newest else PublicWords(series.pipeline)
    _put(feed, "title", words.title)
    subtitle = "Differentially private statistics, one release per period"
    _put(feed, "subtitle", words.about.description or subtitle)
    _put(feed, "updated", max(map(_updated, newest), default=_NEVER))
    _author(feed, words)
    for word in words.about.keywords:
        _put(feed, "category", term=word)
    if words.about.licence is not None:
        _put(feed, "rights", words.about.licence)
    _put(feed, "link", rel="self", type="application/atom+xml", href=FILE)
    _put(feed, "link", rel="alternate", type="text/html", href=PAGE)
    _put(feed, "generator", "dprelease")
    for period in newest:
        _entry(feed, period)
    ET.indent(feed, " ")
    text: str = ET.tostring(feed, encoding="unicode")
    return ('<?xml version="1.0" encoding="utf-8"?>\n' + text + "\n").encode("utf-8")


def _author(feed: ET.Element, words: PublicWords) -> None:
    publisher, contact = words.about.publisher, words.about.contact
    author = _put(feed, "author")
    _put(author, "name", words.name if publisher is None else publisher.name)
    if publisher is not None and publisher.url is not None:
        _put(author, "uri", publisher.url)
    if contact is not None and not contact.startswith("http"):
        _put(author, "email", contact)


def _entry(feed: ET.Element, period: Period) -> None:
    entry = _put(feed, "entry")
    when = period_words(period.name) or period.name
    title = f"{period.words.title}, {when}"
    summary = f"Privacy loss {loss_words(period.epsilon, period.delta)}; protected: {period.words.protected}."
    if period.over_time:
        summary += f" Over time, as of this release: {period.over_time}."
    summary += weak_sentence(period.epsilon, period.words.data)
    if period.correction is not None:
        said = period.correction.says()
        title = f"{period.correction.word.capitalize()}: {title}"
        summary = f"{said[:1].upper()}{said[1:]}. {summary}"
    elif period.early is not None:
        title = f"Early: {title}"
        summary = f"Released before the period closes at {period.early}: later rows are missing. {summary}"
    _put(entry, "id", f"urn:sha256:{period.release}")
    _put(entry, "title", title)
    _put(entry, "updated", _updated(period))
    _put(entry, "published", _published(period))
    target = f"{period.name}/{REPORT}" if period.report else f"{period.name}/"
    _put(entry, "link", rel="alternate", type="text/html", href=target)
    _put(entry, "summary", summary)


def _published(period: Period) -> str:
    if period.scheduled is not None:
        return period.scheduled
    if period.window is not None:
        end = datetime.fromisoformat(period.window[1]).astimezone(UTC)
        return end.strftime("%Y-%m-%dT%H:%M:%SZ")
    if period.published is not None:  # the manifest's own: a page that is made again has the same
        return f"{period.published}T00:00:00Z"
    return _NEVER


def _updated(period: Period) -> str:
    published = _published(period)
    return published if period.correction is None else max(published, period.correction.at)


def _put(parent: ET.Element, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    made = ET.SubElement(parent, f"{{{NAMESPACE}}}{name}", attributes)
    made.text = text
    return made
