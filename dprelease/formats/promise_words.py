"""Who is protected, and which two worlds are compared: the words of a report's first paragraph."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["promise"]


def promise(unit: object, adjacency: str) -> dict[str, str]:
    """Return who is protected and which two worlds are compared, for the first paragraph."""
    who, what = "any one participant", "their data"
    if unit == "row":
        who, what = "any one row", "that row"
    elif isinstance(unit, Mapping) and "edge" in unit:
        k = unit["edge"]["k"]
        who = "any one connection" if k == 1 else f"any {k} connections"
        what = "that connection" if k == 1 else "those connections"
    other = "as without it" if not what.startswith("those") else "as without them"
    if adjacency == "substitution":
        other = (
            "as with anything else in its place"
            if not what.startswith("those")
            else "as with others instead"
        )
    return {"who": who, "what": what, "other": other}
