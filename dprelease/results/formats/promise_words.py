"""Who is protected, and which two worlds are compared: the words of a report's first paragraph."""

from __future__ import annotations

from dprelease.results.formats.public_words import PublicWords
from dprelease.schema.unit import EdgeUnit, RowUnit, UserUnit


def promise(words: PublicWords, adjacency: str) -> dict[str, str]:
    """Return who is protected and which two worlds are compared, for the first paragraph."""
    unit, named = words.unit, words.about.unit_name is not None
    many = isinstance(unit, EdgeUnit) and unit.k > 1
    who, what = f"any {words.one}", "those" if many else "that"
    if isinstance(unit, UserUnit) and unit.per is None and not named:
        who, what = "any one participant", "their data"
    elif isinstance(unit, UserUnit):
        what = f"those {words.rows}"
    elif isinstance(unit, RowUnit):
        what += f" {words.about.unit_name.one if words.about.unit_name else 'row'}"
    else:
        what += " connections" if many else " connection"
    plural = what.startswith("those")
    other = "as without them" if plural else "as without it"
    if adjacency == "substitution":
        other = "as with others instead" if plural else "as with anything else in its place"
    return {"who": who, "what": what, "other": other}
