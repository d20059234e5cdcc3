"""The single values of declaration files, as pydantic types: text, numbers, names, lists, mappings.

Numbers stay exact (`Fraction`, or a float infinity); text is never a number, a boolean or a date
that YAML re-read. An error's type is its DPR code, and its context may hold `fix` and `key`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Exact, exact
from dprelease.schema.labels import BLANK
from dprelease.schema.naming import is_shown, nearest
from dprelease.schema.synonyms import meant
from dprelease.schema.yaml_marks import Ambiguous

NAME = r"[A-Za-z0-9_-]{1,64}"


def fault(code: str, message: str, fix: str = "", **context: object) -> PydanticCustomError:
    """Return an error whose type is `code`; the text is context, so that its braces stay."""
    error_type: Any = code
    return PydanticCustomError(error_type, "fault", {"what": message, "fix": fix, **context})


class Strict(BaseModel):
    """Base: unknown keys are errors that name the nearest known one."""

    # a model is built when it is first read: a command needs few of them
    model_config = ConfigDict(
        defer_build=True, extra="forbid", frozen=True, arbitrary_types_allowed=True
    )
    words: ClassVar[Mapping[str, str]] = {}
    """Other programs' words for keys."""

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            raise fault("DPR112", "a mapping is needed here", cls._keys_text())
        known = cls._keys()
        for key in value:
            if key not in known:
                near = meant(str(key), cls.words) or nearest(str(key), known)
                raise fault(
                    "DPR110",
                    f"unknown key `{key}`",
                    f"did you mean `{near}`?" if near else cls._keys_text(),
                    key=key,
                )
        return dict(value)

    @classmethod
    def _keys(cls) -> list[str]:
        return [f.alias or name for name, f in cls.model_fields.items()]

    @classmethod
    def _keys_text(cls) -> str:
        keys = cls._keys()
        named = ", ".join(keys)
        return f"known keys: {named}" if len(keys) > 1 else f"the only key here is `{named}`"


def _shown(value: object) -> str:
    if isinstance(value, Ambiguous):
        return value.text
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)[:60]


def _text(value: object) -> str:
    if isinstance(value, str):
        if not is_shown(value):
            raise fault("DPR112", "text holds a control character", "remove it")
        return value
    if isinstance(value, Ambiguous):
        why = f"`{value.text}` is {value.reading} in YAML, text is needed here"
        raise fault("DPR108", why, f'quote it: "{value.text}"')
    if isinstance(value, bool | int | float | Decimal):
        shown = _shown(value)
        raise fault("DPR108", f"`{shown}` is not text", f'quote it: "{shown}"', word=True)
    raise fault(
        "DPR112", "text is needed here", 'write a text, e.g. "name" or "age >= 18"', word=True
    )


def one_line(value: object) -> str:
    """Return a text whose lines, folded in the file, are one."""
    return _text(" ".join(value.split()) if isinstance(value, str) else value)


def _label(value: object) -> str:
    plain = isinstance(value, int) and not isinstance(value, bool)
    text = str(value) if plain else _text(value)
    if text != text.strip(BLANK):
        shown = text.strip(BLANK)
        fix = f'write "{shown}"; cells with blanks at their ends are counted as it, too'
        raise fault("DPR112", f"the value `{text[:60]}` has blanks at its ends", fix)
    return text


def _identifier(value: object) -> str:
    text = _text(value)
    if not re.fullmatch(NAME, text):
        fix = "use 1 to 64 of A-Z a-z 0-9 _ -"
        raise fault("DPR144", f"`{text[:60]}` is not a valid name", fix)
    return text


def _number(value: object) -> Exact:
    if isinstance(value, Ambiguous):
        why = f"`{value.text}` is {value.reading} in YAML, a number is needed here"
        raise fault("DPR113", why, "write a decimal number, without leading zeros or underscores")
    if not isinstance(value, int | float | Decimal | Fraction | str) or isinstance(value, bool):
        what = f"a number is needed here, not {_kind(value)}"
        raise fault("DPR113", what, "e.g. 0.5", of_field=True)
    try:
        number = exact(value)
    except ArgumentError as error:
        what = error.what.replace("value", f"`{_shown(value)}`")
        raise fault("DPR113", what, error.fix or "write a number") from None
    if isinstance(number, Fraction) and number and not _LEAST <= abs(number) <= _MOST:
        raise fault("DPR113", f"`{_shown(value)}` is out of range", "from 1e-300 to 1e300, or 0")
    return number


_MOST = Fraction(10**300)  # planning compares errors as doubles
_LEAST = 1 / _MOST


def _sql(value: object) -> str:
    """Text of several lines; what it may say is the SQL door's to check."""
    if not isinstance(value, str):
        return _text(value)
    if not is_shown(re.sub(r"[\n\r\t]", "", value)):
        raise fault("DPR112", "the SQL holds a control character", "remove it")
    return value


def _whole(value: object) -> int:
    number = _number(value)
    if isinstance(number, Fraction) and number.denominator == 1 and number >= 1:
        return int(number)
    raise fault("DPR113", "a whole number of at least 1 is needed here", "e.g. 1")


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, Ambiguous | str | int | float | Decimal | Fraction | None):
        return f"`{_shown(value)}`"
    return f"an object of type {type(value).__name__}"  # never its text: a column's is of rows


class _Real:
    """A number of any size: `Fraction` or an infinity."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_number)


NUMBER_JSON = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^[-+0-9.eE/]+$"}]}
Number = Annotated[Any, _Real, WithJsonSchema(NUMBER_JSON)]
Whole = Annotated[int, BeforeValidator(_whole), WithJsonSchema({"type": "integer", "minimum": 1})]
Text = Annotated[str, BeforeValidator(_text), WithJsonSchema({"type": "string"})]
Sql = Annotated[str, BeforeValidator(_sql), WithJsonSchema({"type": "string"})]
Label = Annotated[
    str,
    BeforeValidator(_label),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]}),
]
Identifier = Annotated[
    str,
    BeforeValidator(_identifier),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME}$"}),
]


def listed(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, list):
        raise fault(
            "DPR112", f"a list is needed here, not {_kind(value)}", f"write {_as_list(value)}"
        )
    return value


def _as_list(value: object) -> str:
    """Return `value` as the list that was meant: "f, m" holds two texts, "mean(x, y)" is one."""
    if not isinstance(value, str) or '"' in value:
        return "[a, b]"
    text = value[:60]
    parts = [text] if set(text) & set("([{") else [part.strip() for part in text.split(",")]
    shown = ", ".join(f'"{part}"' for part in parts if part)
    return f"[{shown}]" if shown else "[a, b]"


def _pair(value: object) -> object:
    value = listed(value)
    if isinstance(value, list) and len(value) != 2:
        raise fault("DPR112", f"two numbers are needed here, not {len(value)}", "e.g. [0, 100]")
    return value


def _ends(value: object, numbers: ValidatorFunctionWrapHandler) -> object:
    """Return the first and the last of two days, where they are dates; else a pair of numbers."""
    ends = listed(value)
    if not isinstance(ends, list) or len(ends) != 2:
        return _pair(value)
    if not isinstance(ends[0], Ambiguous | str | date):
        return numbers(ends)
    texts = [end.text if isinstance(end, Ambiguous) else str(end) for end in ends]
    if not all(re.fullmatch(r"\d{4}-\d\d-\d\d", text) for text in texts):
        return numbers(ends)
    try:
        days = tuple(map(date.fromisoformat, texts))
    except ValueError:
        days = (date.max, date.min)
    if not days[0].year >= 1000 or days[0] > days[1]:
        what = "two days of the calendar are needed here, the first one first"
        raise fault("DPR112", what, "e.g. [2024-01-01, 2025-12-31]")
    return days


def list_or_none(value: object) -> object:
    return [] if value is None else listed(value)


Pair = Annotated[list[Number], BeforeValidator(_pair), Field(min_length=2, max_length=2)]
_END_JSON = {"anyOf": [*NUMBER_JSON["anyOf"], {"type": "string", "format": "date"}]}
Ends = Annotated[
    list[Number],
    WrapValidator(_ends),
    WithJsonSchema({"type": "array", "items": _END_JSON, "minItems": 2, "maxItems": 2}),
]
Labels = Annotated[list[Label], BeforeValidator(listed)]
Texts = Annotated[list[Text], BeforeValidator(list_or_none)]


STATISTIC_OPTIONS: dict[str, Any] = {
    "statistic": {"type": "string", "description": "e.g. mean(age)"},
    "as": {"type": "string", "description": "The published name."},
    "domain": {
        "type": "object",
        "additionalProperties": False,
        "description": "Valid published values.",
        "properties": {
            "range": {"type": "array", "minItems": 2, "maxItems": 2},
            "forbidden": {"type": "array", "items": {"type": "array"}},
            "step": NUMBER_JSON,
        },
    },
    "share": {**NUMBER_JSON, "description": "Fixed part of epsilon, 0 to 1."},
    "weight": {
        **NUMBER_JSON,
        "description": "How many times its error counts where the rest of epsilon is split.",
    },
    "max_error": {
        **NUMBER_JSON,
        "description": "Expected error to stay within, in the statistic's unit.",
    },
    "expected": {
        **NUMBER_JSON,
        "description": "Public guess of a correlation, for pricing only.",
    },
    "accurate_for": {
        "enum": ["ranges"],
        "description": "Of a histogram: sums of neighbouring bins matter more than single bins.",
    },
    "spikes": {
        "enum": ["allow", "forbid"],
        "description": "Whether values may heap at the ends of the domain.",
    },
    "mechanism": {"type": "string", "description": "Pins a mechanism family."},
    "max_rows_per_group": {
        "type": "integer",
        "minimum": 1,
        "description": "Rows of one unit in one group that this statistic keeps, at most the unit's.",
    },
    "note": {"type": "string", "description": "A public sentence for the report."},
    "title": {"type": "string", "description": "Its heading on public pages."},
    "interval": {
        "type": "boolean",
        "description": "Of a quantile: whether a part of epsilon draws a 95 % interval for it.",
    },
    "certain": {
        "type": "boolean",
        "description": "Of a count, a sum or a histogram: whether its noise ends, so that it is within a"
        " stated distance for certain. Needs a `delta`.",
    },
    "where": {
        "type": "string",
        "description": "The condition on a row: the statistic is of the rows where it is true.",
    },
    "winsorize": {
        **NUMBER_JSON,
        "description": "Share of the rows at each end, below 1/2, that are clamped to limits drawn first:"
        " another statistic, published as `winsorised_…` with its limits.",
    },
    "weighted_by": {
        "type": "string",
        "description": "Of a mean, sum, count or proportion: the column that says how much a row counts,"
        " with a range that starts at 0 or above. Another statistic, published as `weighted_…`.",
    },
    "edges_from": {
        "type": "string",
        "description": "Of a histogram, instead of its edges: a CSV file of them; its header is `edge`.",
    },
}
"""The options of a statistic that is written as a mapping, in the JSON schema of schema files."""
STATISTIC_JSON: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "description": "e.g. mean(age)"},
        {
            "type": "object",
            "required": ["statistic"],
            "additionalProperties": False,
            "properties": STATISTIC_OPTIONS,
        },
    ]
}
"""A statistic in them: a text, or such a mapping."""
