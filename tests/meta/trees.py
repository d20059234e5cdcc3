"""The syntax trees of the library, made once for all tests of a process that read them."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from tests.meta.lines import sources


@cache
def library() -> dict[str, ast.Module]:
    """Return path -> tree of every module, as `dprelease/…`.

    They are hundreds of thousands of objects that live as long as the process. No search for garbage
    looks at them, neither now nor later.
    """
    gc.collect()
    with no_garbage():
        made = {path: ast.parse(text) for path, text in sources()}
        for tree in made.values():
            walked(tree)
        gc.freeze()
    return made


@contextmanager
def no_garbage() -> Iterator[None]:
    """Search for no garbage while trees are made, which are none: it takes three times as long."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@cache
def walked(tree: ast.AST) -> tuple[ast.AST, ...]:
    """Return every node of a tree, itself among them, but for `Load` and `Store`, which say nothing."""
    return tuple(node for node in ast.walk(tree) if not isinstance(node, ast.expr_context))
