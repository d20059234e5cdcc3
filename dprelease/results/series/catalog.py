"""`catalog.jsonld`: a series for data catalogues, as DCAT 3 and schema.org in one JSON-LD document.

A series is a `dcat:DatasetSeries` and a `schema:Dataset`; each period is a `dcat:Dataset` in it, with one
distribution per data file: media type, size, SHA-256. What was withdrawn or superseded stays listed and
says so. Addresses are relative to this file, so it holds wherever the folder is served.

Source  w3.org/TR/vocab-dcat-3, schema.org/Dataset, spdx.org/rdf/terms.
Limits  the newest `LIMIT` periods.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from dprelease.core.strict_json import json_text
from dprelease.release_plan.weak import weak_sentence
from dprelease.results.formats.licences import licence_url
from dprelease.results.formats.over_time import loss_words
from dprelease.results.formats.public_words import PublicWords
from dprelease.results.formats.words import period_words
from dprelease.results.series.collect import PAGE, Period, PublishedSeries
from dprelease.schema.about import About

FILE = "catalog.jsonld"
LIMIT = 2000
_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "schema": "https://schema.org/",
    "spdx": "http://spdx.org/rdf/terms#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
_MEDIA = {
    "csv": "text/csv",
    "parquet": "application/vnd.apache.parquet",
    "html": "text/html",
    "json": "application/json",
    "yaml": "application/yaml",
}
_IANA = "https://www.iana.org/assignments/media-types/"
_BY = {key: {"@id": "#publisher"} for key in ("dct:publisher", "schema:publisher")}


def write(series: PublishedSeries) -> bytes:
    """Return the document, UTF-8."""
    newest = series.periods[-1] if series.periods else None
    words = PublicWords(series.pipeline) if newest is None else newest.words
    node: dict[str, Any] = {
        "@context": _CONTEXT,
        "@id": "./",
        "@type": ["dcat:DatasetSeries", "schema:Dataset"],
        **_described(words, words.title),
        "dct:identifier": series.pipeline,
        "schema:identifier": series.pipeline,
        "dcat:landingPage": {"@id": PAGE},
        "schema:url": {"@id": PAGE},
    }
    if series.tracks:
        node["schema:variableMeasured"] = list(dict.fromkeys(t.title for t in series.tracks))
    listed = [_period(period) for period in reversed(series.periods[-LIMIT:])]
    if listed:
        node["schema:hasPart"] = [{"@id": part["@id"]} for part in listed]
        node["@included"] = listed
    # a line per key, and one per period
    lines = [
        f"{json_text(key)}:{json_text(value)}" for key, value in node.items() if key != "@included"
    ]
    if listed:
        lines.append('"@included":[\n' + ",\n".join(map(json_text, listed)) + "\n]")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8")


def _period(period: Period) -> dict[str, Any]:
    words = period.words
    when = period_words(period.name) or period.name
    note = f"Differentially private, {loss_words(period.epsilon, period.delta)}"
    note += f"; protected: {words.one}."
    note += weak_sentence(period.epsilon, words.data)
    if period.correction is not None:
        note = f"This release does not stand: {period.correction.says()}. {note}"
    node: dict[str, Any] = {
        "@id": f"{period.name}/",
        "@type": ["dcat:Dataset", "schema:Dataset"],
        **_titled(f"{words.title}, {when}", note),
        **_licensed(words.about),
        **({} if words.about.publisher is None else _BY),
        "dct:identifier": period.release,
        "schema:identifier": period.release,
        "dcat:inSeries": {"@id": "./"},
        "schema:isPartOf": {"@id": "./"},
        "schema:creativeWorkStatus": "Published" if period.stands else period.word.capitalize(),
    }
    if period.scheduled is not None:
        node["dct:issued"] = {"@type": "xsd:dateTime", "@value": period.scheduled}
        node["schema:datePublished"] = period.scheduled
    if period.window is not None:
        node |= _covered(*period.window)
    files = [_file(period, name) for name in sorted(period.files)]
    node["dcat:distribution"] = files
    node["schema:distribution"] = [{"@id": file["@id"]} for file in files]
    return node


def _covered(start: str, end: str) -> dict[str, Any]:
    last = (datetime.fromisoformat(end) - timedelta(seconds=1)).isoformat()
    return {
        "dct:temporal": {
            "@type": "dct:PeriodOfTime",
            "dcat:startDate": {"@type": "xsd:dateTime", "@value": start},
            "dcat:endDate": {"@type": "xsd:dateTime", "@value": last},
        },
        "schema:temporalCoverage": f"{start}/{last}",
    }


def _file(period: Period, name: str) -> dict[str, Any]:
    size, digest = period.files[name]
    place = {"@id": f"{period.name}/{name}"}
    media = _MEDIA.get(name.rpartition(".")[2], "application/octet-stream")
    return {
        **place,
        "@type": ["dcat:Distribution", "schema:DataDownload"],
        "dct:title": name,
        "schema:name": name,
        "dcat:accessURL": place,
        "dcat:downloadURL": place,
        "schema:contentUrl": place,
        "dcat:mediaType": {"@id": _IANA + media},
        "schema:encodingFormat": media,
        "dcat:byteSize": {"@type": "xsd:nonNegativeInteger", "@value": str(size)},
        "schema:contentSize": f"{size} B",
        "spdx:checksum": {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
            "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": digest},
        },
    }


def _described(words: PublicWords, title: str) -> dict[str, Any]:
    """Return title, description, licence, publisher, contact and keywords in both vocabularies."""
    about = words.about
    text = about.description or "Differentially private statistics: every number carries noise."
    node: dict[str, Any] = {**_titled(title, text), **_licensed(about)}
    if about.publisher is not None:
        page = (
            {} if about.publisher.url is None else {"foaf:homepage": {"@id": about.publisher.url}}
        )
        node["dct:publisher"] = {
            "@id": "#publisher",
            "@type": ["foaf:Agent", "schema:Organization"],
            "foaf:name": about.publisher.name,
            "schema:name": about.publisher.name,
            **page,
        }
        node["schema:publisher"] = _BY["schema:publisher"]
    if about.contact is not None:
        web = about.contact.startswith("http")
        key = "vcard:hasURL" if web else "vcard:hasEmail"
        place = {"@id": about.contact if web else f"mailto:{about.contact}"}
        node["dcat:contactPoint"] = {"@type": "vcard:Kind", key: place}
    if about.keywords:
        node |= {"dcat:keyword": list(about.keywords), "schema:keywords": list(about.keywords)}
    return node


def _titled(title: str, text: str) -> dict[str, Any]:
    return {
        "dct:title": title,
        "schema:name": title,
        "dct:description": text,
        "schema:description": text,
    }


def _licensed(about: About) -> dict[str, Any]:
    if about.licence is None:
        return {}
    url = licence_url(about.licence)
    if url is None:  # words: a licence document of its own
        named = {"@type": "dct:LicenseDocument", "dct:title": about.licence}
        return {"dct:license": named, "schema:license": about.licence}
    return {"dct:license": {"@id": url}, "schema:license": {"@id": url}}
