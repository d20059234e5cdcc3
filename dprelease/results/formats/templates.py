"""How every page is made of its template: texts are escaped, unknown names are errors, parts are shared.

A template may import another of this folder, as two pages do with the dots and bars of `dot_plot.html.j2`.
"""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined

from dprelease.results.formats.word_breaks import breaks, isolated


def text_of(name: str) -> str:
    """Return a file of this folder: a template, a style sheet, a script."""
    return resources.files("dprelease.results.formats").joinpath(name).read_text(encoding="utf-8")


def with_parts() -> Environment:
    """Return what compiles a page's template, with the words' filters and the parts of this folder."""
    environment = Environment(
        loader=FunctionLoader(text_of),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(breaks=breaks, isolated=isolated)
    return environment
