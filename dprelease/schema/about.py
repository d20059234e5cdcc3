"""What a publisher says about a table or a publication in words: title, licence, contact, unit.

Words only. They are part of neither the ledger's unit nor the plan's hash, so they may be corrected at
any time; what is published already keeps its own. They are written by whoever publishes, never made
of the data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from dprelease.core.strict_json import json_text
from dprelease.schema.model_values import Strict, Text, fault, list_or_none, one_line

ROWS = "rows"
"""What rows are called where nobody says it."""

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


def _rows(value: object) -> object:
    return ROWS if value in (None, "") else value


_JSON = WithJsonSchema({"type": "string"})
_TEXT_OR_NULL = WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}]})
Title = Annotated[str, BeforeValidator(_words(200)), _JSON]
Licence = Annotated[str, BeforeValidator(_licence), _JSON]
Description = Annotated[str, BeforeValidator(_words(4000)), _JSON]
Web = Annotated[str, BeforeValidator(_web), WithJsonSchema({"type": "string", "format": "uri"})]
Contact = Annotated[str, BeforeValidator(_contact), _JSON]


class Publisher(Strict):
    """Who publishes."""

    name: Title = Field(description="The publisher's name.")
    url: Web | None = Field(default=None, description="The publisher's address on the web.")


class UnitName(Strict):
    """What the protected unit is called on public pages."""

    one: Title = Field(description="One of them: patient.")
    many: Title = Field(description="Many of them: patients.")
    rows: Annotated[Text, BeforeValidator(_rows), _TEXT_OR_NULL] = Field(
        default=ROWS, description="What their rows are: visits. By default rows."
    )


class Words(Strict):
    """Words about a publication: shown and published, and part of nothing that is priced."""

    title: Title | None = Field(default=None, description="A heading for public pages.")
    description: Description | None = Field(default=None, description="A paragraph for readers.")
    licence: Licence | None = Field(
        default=None, description="An SPDX identifier, CC-BY-4.0, or an address, or a name."
    )
    publisher: Annotated[Publisher, BeforeValidator(_publisher)] | None = Field(
        default=None, description="Who publishes."
    )
    contact: Contact | None = Field(
        default=None, description="Mail address or web page for questions."
    )
    revisions: Description | None = Field(
        default=None, description="Your policy of revisions, in words."
    )
    keywords: Annotated[tuple[Title, ...], BeforeValidator(list_or_none)] = Field(
        default=(), description="Words to be found by."
    )


class About(Words):
    """The same of a table, and what its unit is called; None and () where nothing is said."""

    unit_name: Annotated[UnitName, BeforeValidator(_unit_name)] | None = Field(
        default=None, description="The protected unit in words, for public pages only."
    )

    def to_json(self) -> dict[str, Any]:
        """Return what is said, as a schema says it."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def over(self, other: About) -> About:
        """Return what is said here, and what `other` says where nothing is said here."""
        return other.model_copy(update={name: value for name, value in self if value})


def about_of(declared: Words) -> About:
    """Return the words of a checked declaration, which says other things too."""
    return About.model_construct(**dict(declared))  # takes its own keys alone


def about_from_json(schema: Mapping[str, Any]) -> About:
    """Return the words of a schema's JSON, of which nothing else is read.

    Raises:
        ValueError: they have another shape than a schema's words.
    """
    known = About.model_fields
    return About.model_validate({k: schema[k] for k in known if schema.get(k) is not None})
