"""The reference page of error codes, read from the source: which class, what was spent, what is said.

A call that carries the code tells its words; a code that is raised through a variable is told by the
docstrings that name it, and a class's own code by the class. A code without words fails the build.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

from mkdocs.exceptions import PluginError

import dprelease
from dprelease import errors

PACKAGE = Path(dprelease.__file__).parent
CODE = re.compile(r"DPR[1-9]\d\d")
MENTION = re.compile(r"([^.,;:()]+)\(([^()]*DPR[1-9]\d\d[^()]*)\)")
CLASSES = {
    one.default_code[:4]: one
    for one in (getattr(errors, name) for name in errors.__all__)
    if issubclass(one, errors.DpreleaseError) and one is not errors.DpreleaseError
}
"""`DPR1` -> ConfigError: a code's first digit is its class."""


def page() -> str:
    """Return the page.

    Raises:
        PluginError: a code of the package is explained nowhere.
    """
    out = [
        "# Error codes",
        "",
        "Every error says what, where, why, how to fix it, and what was spent.",
        "",
    ]
    out += ["| code | class | spent | exit | says |", "|---|---|---|---|---|"]
    for code, said in sorted(words().items()):
        if not said:
            msg = f"{code} has neither words beside it nor a docstring that names it"
            raise PluginError(msg)
        one = CLASSES[code[:4]]
        shown = " · ".join(said[:3]).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
        out.append(f"| `{code}` | {one.__name__} | {one.spent} | {one.exit_status} | {shown} |")
    return "\n".join(out) + "\n"


def words() -> dict[str, list[str]]:
    """Return code -> what is said with it, in order of the files, each once."""
    called: dict[str, dict[str, None]] = defaultdict(dict)
    told: dict[str, dict[str, None]] = defaultdict(dict)
    for one in CLASSES.values():
        told[one.default_code][(one.__doc__ or "").split("\n")[0]] = None
    texts = [p.read_text(encoding="utf-8") for p in sorted(PACKAGE.rglob("*.py"))]
    for source in filter(CODE.search, texts):  # to parse the rest takes as long again
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call):
                for code in _codes(node):
                    called[code] |= dict.fromkeys(filter(None, [_said(node)]))
            elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = " ".join((ast.get_docstring(node) or "").split())
                for before, within in MENTION.findall(text):
                    for code in CODE.findall(within):
                        if before.strip():
                            told[code][before.strip().removeprefix("or ")] = None
    return {code: list(called.get(code) or told.get(code) or {}) for code in {*called, *told}}


def _codes(call: ast.Call) -> list[str]:
    parts = [*call.args, *(k.value for k in call.keywords)]
    return [
        str(p.value) for p in parts if isinstance(p, ast.Constant) and CODE.fullmatch(str(p.value))
    ]


def _said(call: ast.Call) -> str:
    """Return the first text among a call's arguments that is not the code itself."""
    named = [k.value for k in call.keywords if k.arg == "what"]
    return next((t for t in map(_text, [*named, *call.args]) if t and not CODE.fullmatch(t)), "")


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values)
    return ""
