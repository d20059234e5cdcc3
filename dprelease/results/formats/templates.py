"""How every page is made of its template: texts are escaped, unknown names are errors, parts are shared.

A template may import another of this folder, as two pages do with the dots and bars of `dot_plot.html.j2`.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from dprelease.results.formats.word_breaks import breaks, isolated


def text_of(name: str) -> str:
    """Return a file of this folder: a template, a style sheet, a script."""
    return resources.files("dprelease.results.formats").joinpath(name).read_text(encoding="utf-8")


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
