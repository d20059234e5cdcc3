"""What a publisher says about a table or a publication in words: title, licence, contact, unit.

Words only. They are part of neither the ledger's unit nor the plan's hash, so they may be corrected at
any time; what is published already keeps its own. They are written by whoever publishes, never made
of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dprelease.core.codec import Stored

ROWS = "rows"
"""What rows are called where nobody says it."""


@dataclass(frozen=True, slots=True)
class Publisher:
    """Who publishes; url: an address on the web."""

    name: str
    url: str | None = None


@dataclass(frozen=True, slots=True)
class UnitName:
    """What the protected unit is called: one of them, many of them, and their rows."""

    one: str
    many: str
    rows: str = ROWS


@dataclass(frozen=True, slots=True)
class About(Stored):
    """See the module; None and () where nothing is said.

    Attributes:
        licence: an SPDX identifier, an address, or the licence's name.
        contact: a mail address or an address on the web.
        revisions: the publisher's policy of revisions, in their words.
    """

    title: str | None = None
    description: str | None = None
    licence: str | None = None
    publisher: Publisher | None = None
    contact: str | None = None
    revisions: str | None = None
    keywords: tuple[str, ...] = ()
    unit_name: UnitName | None = None

    def over(self, other: About) -> About:
        """Return what is said here, and what `other` says where nothing is said here."""
        mine = {f.name: v for f in fields(self) if (v := getattr(self, f.name))}
        return replace(other, **mine)
