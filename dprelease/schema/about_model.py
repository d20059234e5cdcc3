"""The shape of a publication's words in schema/1 and pipeline/1 files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from dprelease.core.strict_json import json_text
from dprelease.schema.about import About, Publisher, UnitName
from dprelease.schema.model_values import Strict, Text, fault, list_or_none, one_line

_MAIL = re.compile(r"[^@\s<>\"]+@[^@\s<>\"]+\.[^@\s<>\"]+")
_WEB = re.compile(r"https?://[^\s<>\"]+")


def _words(most: int) -> Callable[[object], str]:
    """Return a reader of one paragraph: folded lines are joined."""

    def read(value: object) -> str:
        text = one_line(value)
        if not 1 <= len(text) <= most:
            fix = "shorten it" if text else "write one, or leave the key out"
            raise fault("DPR112", f"a text of 1 to {most:,} characters is needed here", fix)
        return text

    return read


def _licence(value: object) -> str:
    if not isinstance(value, str):
        what = f"`{str(value)[:60]}` is not a licence"
        raise fault("DPR112", what, "name one, e.g. CC-BY-4.0, or give its address")
    return _words(200)(value)


def _publisher(value: object) -> object:
    """Refuse a text before the model does: what is meant is known."""
    if isinstance(value, str):
        written = f"write {{name: {json_text(value[:200])}}}"
        raise fault("DPR112", "a publisher is a mapping with a name", written)
    return value


def _unit_name(value: object) -> object:
    if isinstance(value, str):
        written = "write both words: {one: patient, many: patients}"
        raise fault("DPR112", "a unit's name is a mapping", written)
    return value


def _web(value: object) -> str:
    text = one_line(value)
    if not _WEB.fullmatch(text) or len(text) > 500:
        raise fault("DPR112", "an address on the web is needed here", 'e.g. "https://example.org"')
    return text


def _contact(value: object) -> str:
    text = one_line(value) if isinstance(value, str) else ""
    if not (_MAIL.fullmatch(text) or _WEB.fullmatch(text)) or len(text) > 500:
        fix = "write one, e.g. statistics@example.org or https://example.org/contact"
        raise fault("DPR112", "a mail address or an address on the web is needed here", fix)
    return text


_JSON = WithJsonSchema({"type": "string"})
Title = Annotated[str, BeforeValidator(_words(200)), _JSON]
Licence = Annotated[str, BeforeValidator(_licence), _JSON]
Description = Annotated[str, BeforeValidator(_words(4000)), _JSON]
Web = Annotated[str, BeforeValidator(_web), WithJsonSchema({"type": "string", "format": "uri"})]
Contact = Annotated[str, BeforeValidator(_contact), _JSON]


class PublisherModel(Strict):
    """Who publishes."""

    name: Title = Field(description="The publisher's name.")
    url: Web | None = Field(None, description="The publisher's address on the web.")


class UnitNameModel(Strict):
    """What the protected unit is called on public pages."""

    one: Title = Field(description="One of them: patient.")
    many: Title = Field(description="Many of them: patients.")
    rows: Text | None = Field(None, description="What their rows are: visits. By default rows.")


class AboutModel(Strict):
    """Words about a publication: shown and published, and part of nothing that is priced."""

    title: Title | None = Field(None, description="A heading for public pages.")
    description: Description | None = Field(None, description="A paragraph for readers.")
    licence: Licence | None = Field(
        None, description="An SPDX identifier, CC-BY-4.0, or an address, or a name."
    )
    publisher: Annotated[PublisherModel, BeforeValidator(_publisher)] | None = Field(
        None, description="Who publishes."
    )
    contact: Contact | None = Field(None, description="Mail address or web page for questions.")
    revisions: Description | None = Field(None, description="Your policy of revisions, in words.")
    keywords: Annotated[list[Title], BeforeValidator(list_or_none)] = Field(
        [], description="Words to be found by."
    )


class SchemaAboutModel(AboutModel):
    """The same of a table, and what its unit is called."""

    unit_name: Annotated[UnitNameModel, BeforeValidator(_unit_name)] | None = Field(
        None, description="The protected unit in words, for public pages only."
    )


def about_of(model: AboutModel) -> About:
    """Return what a checked declaration says."""
    publisher = model.publisher
    unit = model.unit_name if isinstance(model, SchemaAboutModel) else None
    return About(
        title=model.title,
        description=model.description,
        licence=model.licence,
        publisher=None if publisher is None else Publisher(publisher.name, publisher.url),
        contact=model.contact,
        revisions=model.revisions,
        keywords=tuple(model.keywords),
        unit_name=None
        if unit is None
        else UnitName(unit.one, unit.many, *([unit.rows] if unit.rows else [])),
    )


def about_from_json(schema: Mapping[str, Any]) -> About:
    """Return the words of a schema's JSON, of which nothing else is read.

    Raises:
        ValueError: they have another shape than a schema's words.
    """
    known = SchemaAboutModel.model_fields
    words = {key: schema[key] for key in known if schema.get(key) is not None}
    return about_of(SchemaAboutModel.model_validate(words))
