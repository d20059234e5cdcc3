"""Model errors as `ConfigError`s: the first one in the file, with its line, then the others."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from dprelease.core.errors import ConfigError
from dprelease.schema.naming import nearest
from dprelease.schema.synonyms import KINDS, meant
from dprelease.schema.yaml_marks import Marks, Part, Places

if TYPE_CHECKING:
    from pydantic import BaseModel

    Model = TypeVar("Model", bound=BaseModel)

SHOWN = 5


def checked(model: type[Model], data: Mapping[str, object], marks: Places, *place: Part) -> Model:
    """Return `data` as a `model`; `place` is where `data` stands in the file.

    Raises:
        ConfigError: unknown key (DPR110), missing key (DPR111), wrong value (DPR112), text that
            must be quoted (DPR108), not a number (DPR113), or the field's own code.
    """
    from pydantic import ValidationError

    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        details = error.errors(include_url=False)
    faults = [_fault(detail, marks, place) for detail in details]
    faults.sort(key=lambda f: _line(f.where or ""))
    first, others = faults[0], faults[1:]
    if others:
        more = [f"also {f.where}: {f.what}" for f in others[:SHOWN]]
        if len(others) > SHOWN:
            more.append(f"and {len(others) - SHOWN} more")
        why = "\n         ".join([*([first.why] if first.why else []), *more])
        quoted = [str(f.fix) for f in faults[:20] if f.code == first.code == "DPR108"]
        fix = "; ".join(quoted).replace("; quote it:", ",") or first.fix
        first = ConfigError(first.what, where=first.where, why=why, fix=fix, code=first.code)
    raise first from None


def _line(where: str) -> int:
    tail = where.rpartition(":")[2]
    return int(tail) if tail.isdigit() else 0


def _fault(detail: Any, marks: Places, place: tuple[Part, ...]) -> ConfigError:
    kind, loc, ctx = detail["type"], tuple(detail["loc"]), detail.get("ctx") or {}
    name = ".".join(str(part) for part in loc if part not in _TAGS)
    extra = tuple(ctx[k] for k in ("under", "key") if k in ctx)
    written = [p for of, p in pairwise(("", *loc)) if (of, p) not in _FORMS]
    where = marks.line_of(*place, *written, *extra)
    if kind.startswith("DPR"):
        prefix = f"{name}: " if name and kind in ("DPR112", "DPR113", "DPR108") else ""
        what = str(ctx.get("what") or detail["msg"])
        fix = _NUMBERS.get(str(loc[-1])) if loc and ctx.get("of_field") else None
        if "statistics" in loc[-1:] and isinstance(detail.get("input"), Mapping):
            fix = 'write each as a text: ["mean(age)", "sum(age)"]'
        fix = fix or ctx.get("fix") or None
        word = marks.written(*place, *loc) if "word" in ctx and isinstance(marks, Marks) else None
        if word:  # the text as it stands in the file: `NULL`, `True`
            kind, what, fix = "DPR108", f"`{word}` is not text", f'quote it: "{word}"'
        return ConfigError(prefix + what, where=where, fix=fix, code=kind)
    if kind == "missing":
        key = str(loc[-1])
        return ConfigError(
            f"the key `{key}` is missing",
            where=where,
            fix=_EXAMPLES.get(key, f"add `{key}: …`"),
            code="DPR111",
        )
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", str(ctx.get("expected", "")))
        wrong = detail.get("input")
        near = None
        if isinstance(wrong, str):
            near = meant(wrong, KINDS) if loc[-1] == "kind" else None
            near = near if near in allowed else nearest(wrong, allowed)
        listed = isinstance(loc[-1], int)
        instead = (
            "take it out of the list" if listed else f"write one of them: {', '.join(allowed)}"
        )
        if name == "unit":  # a word names no column: whose rows belong together must be said
            return ConfigError(
                f"unit: `{wrong}` says not whose rows belong together",
                where=where,
                why="the unit is who is protected: one row, or all rows of one person",
                fix="write `unit: row`, or name the column of ids: "
                "`unit: {user: COLUMN, max_groups: 1, max_rows_per_group: 1}`",
                code="DPR112",
            )
        return ConfigError(
            f"{name}: not one of {', '.join(allowed)}",
            where=where,
            fix=f"did you mean `{near}`?" if near else instead,
            code="DPR112",
        )
    if kind in _SHAPES:
        what, fix = _SHAPES[kind]
        return ConfigError(f"{name}: {what}", where=where, fix=fix, code="DPR112")
    return ConfigError(
        f"{name}: {detail['msg'][:1].lower()}{detail['msg'][1:]}", where=where, code="DPR112"
    )


_SHAPES = {
    "dict_type": (
        "a mapping of names is needed here",
        "write a line `NAME: …` for each, indented; in a draft, answer the lines that begin with `# ANSWER`",
    ),
    "too_short": ("at least one is needed here", "name one, or leave the key out"),
    "tuple_type": ("a list is needed here", "write it in brackets, `[ … ]`, also a single one"),
    "list_type": ("a list is needed here", "write a line `- …` for each, indented"),
}
_NUMBERS = {
    "epsilon": "write a number above 0, e.g. 1.0",
    "delta": "write a number from 0 to below 1, e.g. 0.000001",
}
_TAGS = frozenset({"row", "word", "all", "keys"})
_FORMS = frozenset({("nulls", "default"), ("nulls", "as"), ("other", "as")})
"""What is read as one of several forms: its name stands in no file."""
_EXAMPLES = {
    "dprelease": "start the file with `dprelease: schema/1` (or pipeline/1)",
    "adjacency": "add `adjacency: add_remove` (the number of rows is private), or substitution",
    "unit": "add `unit: row`, or `unit: {user: COLUMN, max_groups: 1, max_rows_per_group: 1}`",
    "columns": "declare the columns: `columns: {age: {kind: integer, range: [0, 120]}}`",
    "max_groups": "add `max_groups: 1`: groups kept per person",
    "max_rows_per_group": "add `max_rows_per_group: 1`: rows kept per person and group",
    "kind": "add e.g. `kind: number`",
    "name": "add `name: my_table`",
}
