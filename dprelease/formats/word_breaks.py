"""Where a published name may be broken into lines: after its underscores, not in the middle of a word."""

from __future__ import annotations

from markupsafe import Markup

__all__ = ["breaks"]


def breaks(name: str) -> Markup:
    """Return the name as HTML, escaped, with a possible line break after each underscore.

    >>> str(breaks("mean_age<"))
    'mean_<wbr>age&lt;'
    """
    return Markup("_<wbr>").join(name.split("_"))
