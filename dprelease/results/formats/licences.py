"""Licences by their SPDX identifiers: the addresses of those that public statistics usually have."""

from __future__ import annotations

import re

_KNOWN = {
    "CC0-1.0": "https://creativecommons.org/publicdomain/zero/1.0/",
    "CC-BY-4.0": "https://creativecommons.org/licenses/by/4.0/",
    "CC-BY-SA-4.0": "https://creativecommons.org/licenses/by-sa/4.0/",
    "CC-BY-NC-4.0": "https://creativecommons.org/licenses/by-nc/4.0/",
    "DL-DE-BY-2.0": "https://www.govdata.de/dl-de/by-2-0",
    "DL-DE-ZERO-2.0": "https://www.govdata.de/dl-de/zero-2-0",
    "OGL-UK-3.0": "https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/",
    "ODbL-1.0": "https://opendatacommons.org/licenses/odbl/1-0/",
    "ODC-By-1.0": "https://opendatacommons.org/licenses/by/1-0/",
    "PDDL-1.0": "https://opendatacommons.org/licenses/pddl/1-0/",
}


def licence_url(licence: str) -> str | None:
    """Return the address of a licence, None where only its name is known."""
    if licence.startswith(("http://", "https://")):
        return licence
    return next((u for name, u in _KNOWN.items() if name.casefold() == licence.casefold()), None)


def licence_entry(licence: str) -> dict[str, str]:
    """Return a licence as data packages list it: a name or a path, and a title.

    >>> licence_entry("CC0-1.0")["name"], licence_entry("Our own terms")
    ('CC0-1.0', {'name': 'Our-own-terms', 'title': 'Our own terms'})
    """
    url = licence_url(licence)
    path = {} if url is None else {"path": url}
    if url == licence:
        return path
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", licence).strip("-") or "licence"
    return {"name": name, **path, **({} if name == licence else {"title": licence})}
