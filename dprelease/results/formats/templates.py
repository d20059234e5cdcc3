"""How every page is made of its template: texts are escaped, unknown names are errors, parts are shared.

A template may import another of this folder, as two pages do with the dots and bars of `dot_plot.html.j2`.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined, Template
from markupsafe import Markup

from dprelease.results.formats.word_breaks import breaks, isolated


def text_of(name: str) -> str:
    """Return a template, a style sheet or a script: a file of this folder, or by its path in the library."""
    path = name if "/" in name else f"results/formats/{name}"
    return resources.files("dprelease").joinpath(path).read_text(encoding="utf-8")


@cache
def page_template(name: str, *styles: str, script: str = "") -> Template:
    """Return a page's template, with its style sheets and its script, by their names (`text_of`)."""
    parts = with_parts("".join(map(text_of, styles)), text_of(script) if script else "")
    return parts.from_string(text_of(name))


def with_parts(style: str, script: str = "") -> Environment:
    """Return what compiles a page's template: the words' filters, the parts of this folder, the style and script, with their hashes."""
    environment = Environment(
        loader=FunctionLoader(text_of),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,  # a page is rendered once or twice: to fold constants takes longer
    )
    environment.filters.update(breaks=breaks, isolated=isolated)
    # Style and script are ours and hold no data: the only texts that skip escaping.
    environment.globals.update(style=Markup(style), pin=_pin(style))  # noqa: S704
    environment.globals.update(script=Markup(script), script_pin=_pin(script))  # noqa: S704
    return environment


def _pin(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
