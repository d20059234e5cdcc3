"""`catalog.jsonld` against the vocabularies: every property with a value of the kind that they ask for.

The table of ranges is read off DCAT 3, DCAT-AP 3 (what is mandatory), and schema.org; no library reads it here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import pytest

import dprelease as dp
from dprelease.results.series.write import refresh
from tests.results.series.made import year
from tests.several_tables import people, schema

TEXT, PLACE, NODE = "text", "an address", "something described"
XSD = {
    "xsd:dateTime": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?",
    "xsd:nonNegativeInteger": r"\d+",
    "xsd:hexBinary": r"([0-9a-f]{2})+",
}
RANGES: Mapping[str, tuple[str, ...]] = {
    "dct:title": (TEXT,), "dct:description": (TEXT,), "dct:identifier": (TEXT,),
    "dct:license": (PLACE, NODE), "dct:publisher": (PLACE, NODE), "dct:temporal": (NODE,),
    "dct:issued": ("xsd:dateTime",), "dcat:startDate": ("xsd:dateTime",), "dcat:endDate": ("xsd:dateTime",),
    "dcat:landingPage": (PLACE,), "dcat:inSeries": (PLACE,), "dcat:distribution": (NODE,),
    "dcat:contactPoint": (NODE,), "dcat:keyword": (TEXT,), "dcat:accessURL": (PLACE,),
    "dcat:downloadURL": (PLACE,), "dcat:mediaType": (PLACE,), "dcat:byteSize": ("xsd:nonNegativeInteger",),
    "spdx:checksum": (NODE,), "spdx:algorithm": (PLACE,), "spdx:checksumValue": ("xsd:hexBinary",),
    "foaf:name": (TEXT,), "foaf:homepage": (PLACE,), "vcard:hasEmail": (PLACE,), "vcard:hasURL": (PLACE,),
    "schema:name": (TEXT,), "schema:description": (TEXT,), "schema:identifier": (TEXT,), "schema:url": (PLACE,),
    "schema:license": (PLACE, TEXT), "schema:publisher": (PLACE,), "schema:keywords": (TEXT,),
    "schema:variableMeasured": (TEXT,), "schema:hasPart": (PLACE,), "schema:isPartOf": (PLACE,),
    "schema:creativeWorkStatus": (TEXT,), "schema:datePublished": (TEXT,), "schema:temporalCoverage": (TEXT,),
    "schema:distribution": (PLACE,), "schema:contentUrl": (PLACE,), "schema:encodingFormat": (TEXT,),
    "schema:contentSize": (TEXT,),
}  # fmt: skip
MANDATORY = {
    "dcat:DatasetSeries": {"dct:title", "dct:description"},
    "dcat:Dataset": {"dct:title", "dct:description", "dcat:distribution"},
    "dcat:Distribution": {"dcat:accessURL"},
    "foaf:Agent": {"foaf:name"},
    "vcard:Kind": set(),
    "dct:PeriodOfTime": {"dcat:startDate"},
    "dct:LicenseDocument": {"dct:title"},
    "spdx:Checksum": {"spdx:algorithm", "spdx:checksumValue"},
    "schema:Dataset": {"schema:name", "schema:description"},
    "schema:DataDownload": {"schema:contentUrl"},
    "schema:Organization": {"schema:name"},
}


def faults(document: Mapping[str, Any]) -> Iterator[str]:
    """Say what is not DCAT, no schema.org or no JSON-LD about a document."""
    prefixes = set(document["@context"])
    defined = {node["@id"] for node in _nodes(document) if "@type" in node and "@id" in node}
    for node in _nodes(document):
        types = node.get("@type", [])
        for kind in [types] if isinstance(types, str) else types:
            if kind not in MANDATORY:
                yield f"{kind}: no type that is known"
            yield from (f"{kind} lacks {key}" for key in MANDATORY.get(kind, set()) - set(node))
        for key, value in node.items():
            if key.startswith("@"):
                continue
            if key.partition(":")[0] not in prefixes or key not in RANGES:
                yield f"{key}: no property that is known"
                continue
            for one in value if isinstance(value, list) else [value]:
                if _kind(one) not in RANGES[key]:
                    yield f"{key}: {one!r} is {_kind(one)}"
                place = str(one.get("@id", "")) if isinstance(one, dict) else ""
                if place.startswith("#") and place not in defined:
                    yield f"{key}: {place} is described nowhere"


def _nodes(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for one in value:
            yield from _nodes(one)
    elif isinstance(value, dict) and "@value" not in value:
        if set(value) != {"@id"}:
            yield value
        for key, one in value.items():
            if key != "@context":
                yield from _nodes(one)


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return TEXT
    if not isinstance(value, dict):
        return type(value).__name__
    if "@value" in value:
        pattern = XSD.get(value.get("@type", ""), "(?!)")
        return value["@type"] if re.fullmatch(pattern, str(value["@value"])) else "no such value"
    if set(value) == {"@id"}:
        return PLACE if re.fullmatch(r"[^\s<>\"{}|\\^`]+", value["@id"]) else "no address"
    return NODE


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    folder = year(tmp_path_factory.mktemp("catalog"), 2)
    refresh(folder)
    return json.loads((folder / "catalog.jsonld").read_text(encoding="utf-8"))


def test_the_catalogue_is_what_the_vocabularies_ask_for(document):
    assert list(faults(document)) == []
    assert document["@included"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dcat:byteSize", 12),
        ("dcat:mediaType", "text/csv"),
        ("dcat:accessURL", None),
        ("dcat:downloadURL", {"@id": "a b.csv"}),
        ("dcat:maker", "me"),
        ("schema:publisher", {"@id": "#nobody"}),
    ],
)
def test_what_is_wrong_is_found(document, key, value):
    broken = deepcopy(document)
    file = broken["@included"][0]["dcat:distribution"][0]
    if value is None:
        del file[key]
    else:
        file[key] = value
    assert len(list(faults(broken))) == 1


def test_every_file_that_is_listed_is_there(document, tmp_path):
    folder = year(tmp_path, 2)
    listed = [f["@id"] for part in document["@included"] for f in part["dcat:distribution"]]
    assert listed and all((folder / place).is_file() for place in listed)


def test_a_series_of_several_tables_reads_well(tmp_path):
    """A loss is a decimal, not a fraction; a table without groups has no dot behind its name."""
    made = schema(release={"epsilon": "0.4"})
    ledger = dp.create_ledger(tmp_path / "ledger.db", made, epsilon=1)
    folder = dp.release(people(), made, ledger=ledger, period="2026").publish(tmp_path / "public")
    [held] = json.loads((folder.parent / "catalog.jsonld").read_text("utf-8"))["@included"][:1]
    assert "ε = 0.4;" in held["dct:description"]
    page = (folder.parent / "index.html").read_text("utf-8")
    assert "nation" in page and "nation ·" not in page
    assert "Number of rows in regions" in page  # the control


@pytest.mark.parametrize(("epsilon", "weak"), [("10", False), ("10.5", True)])
def test_an_epsilon_above_ten_is_called_weak(tmp_path, epsilon, weak):
    made = schema(release={"epsilon": epsilon})
    ledger = dp.create_ledger(tmp_path / "ledger.db", made, epsilon=20)
    folder = dp.release(people(), made, ledger=ledger, period="2026").publish(tmp_path / "public")
    [held] = json.loads((folder.parent / "catalog.jsonld").read_text("utf-8"))["@included"][:1]
    assert f"ε = {epsilon};" in held["dct:description"]
    assert ("says next to nothing" in held["dct:description"]) is weak
