"""How long the library is, counted in code lines.

A code line holds a token that is not a comment and no docstring; a text that stands alone below a name
is a docstring too. A line of a longer text that is code, a template of SQL say, counts.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "dprelease"
NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip
OPENING = {kind for kind, name in tokenize.tok_name.items() if name.endswith("STRING_START")}
CLOSING = {kind for kind, name in tokenize.tok_name.items() if name.endswith("STRING_END")}


def sources(library: Path = LIBRARY) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of every source file."""
    for path in sorted(library.rglob("*.py")):
        yield path.relative_to(library.parent).as_posix(), path.read_text(encoding="utf-8")


def code_lines(text: str) -> int:
    """Return how many lines of a source text are code."""
    return counted(text)[0]


def counted(text: str, nodes: Iterable[ast.AST] | None = None) -> tuple[int, int]:
    """Return (code lines, tokens of code); a formatted string is one token, in every version of Python.

    Args:
        nodes: of the text's syntax tree, where it was made before.
    """
    docstrings: set[int] = set()
    for node in ast.walk(ast.parse(text)) if nodes is None else nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                docstrings.update(_span(node))
    held: set[int] = set()
    count, depth = 0, 0
    for kind, _, start, end, _ in tokenize.generate_tokens(io.StringIO(text).readline):
        if kind not in NO_CODE:
            held.update(range(start[0], end[0] + 1))
            depth -= kind in CLOSING
            count += not depth and kind not in OPENING
            depth += kind in OPENING
    return len(held - docstrings), count


def functions(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    """Yield (name, lines) of every function, its decorators left out."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, len(_span(node))


def _span(node: ast.stmt) -> range:
    assert node.end_lineno is not None
    return range(node.lineno, node.end_lineno + 1)
