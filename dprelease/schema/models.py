"""The shape of schema/1 files: pydantic models, used for checking and for the JSON Schema.

Shape only: keys, types, single values. What relates several keys is checked in `load`. Numbers
stay exact (`Fraction`, or a float infinity); text is never a number, a boolean or a date that
YAML re-read. An error's type is its DPR code, and its context may hold `fix` and `key`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from dprelease.errors import ArgumentError
from dprelease.numeric import Exact, exact
from dprelease.schema.naming import nearest
from dprelease.schema.yaml_marks import Ambiguous

__all__ = [
    "ColumnModel",
    "Identifier",
    "Label",
    "Number",
    "ReleaseModel",
    "SchemaModel",
    "Sql",
    "Strict",
    "Text",
    "Whole",
]

NAME = r"[A-Za-z0-9_-]{1,64}"


def fault(code: str, message: str, fix: str = "", **context: object) -> PydanticCustomError:
    """Return an error whose type is `code`; the text is context, so that its braces stay."""
    error_type: Any = code
    return PydanticCustomError(error_type, "fault", {"what": message, "fix": fix, **context})


class Strict(BaseModel):
    """Base: unknown keys are errors that name the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: object) -> object:
        if not isinstance(value, Mapping):
            raise fault("DPR112", "a mapping is needed here", f"known keys: {cls._keys_text()}")
        known = cls._keys()
        for key in value:
            if key not in known:
                near = nearest(str(key), known)
                raise fault(
                    "DPR110",
                    f"unknown key `{key}`",
                    f"did you mean `{near}`?" if near else f"known keys: {cls._keys_text()}",
                    key=key,
                )
        return dict(value)

    @classmethod
    def _keys(cls) -> list[str]:
        return [f.alias or name for name, f in cls.model_fields.items()]

    @classmethod
    def _keys_text(cls) -> str:
        return ", ".join(cls._keys())


def _shown(value: object) -> str:
    if isinstance(value, Ambiguous):
        return value.text
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)[:60]


def _text(value: object) -> str:
    if isinstance(value, str):
        if not value.isprintable():
            raise fault("DPR112", "text holds a control character", "remove it")
        return value
    if isinstance(value, Ambiguous):
        why = f"`{value.text}` is {value.reading} in YAML, text is needed here"
        raise fault("DPR108", why, f'quote it: "{value.text}"')
    if isinstance(value, bool | int | float | Decimal):
        shown = _shown(value)
        raise fault("DPR108", f"`{shown}` is not text", f'quote it: "{shown}"')
    raise fault("DPR112", "text is needed here", 'e.g. "name"')


def _label(value: object) -> str:
    plain = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if plain else _text(value)


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
        raise fault("DPR113", f"a number is needed here, not {_kind(value)}", "e.g. 0.5")
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
    if any(not c.isprintable() and c not in "\n\r\t" for c in value):
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
    return f"`{_shown(value)}`"


class _Real:
    """A number of any size: `Fraction` or an infinity."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_number)


_NUMBER_JSON = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^[-+0-9.eE/]+$"}]}
Number = Annotated[Any, _Real, WithJsonSchema(_NUMBER_JSON)]
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


def _listed(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    if not isinstance(value, list):
        raise fault("DPR112", f"a list is needed here, not {_kind(value)}", "e.g. [a, b]")
    return value


def _pair(value: object) -> object:
    value = _listed(value)
    if isinstance(value, list) and len(value) != 2:
        raise fault("DPR112", f"two numbers are needed here, not {len(value)}", "e.g. [0, 100]")
    return value


def _null_empty(value: object) -> object:
    return [] if value is None else _listed(value)


Pair = Annotated[list[Number], BeforeValidator(_pair), Field(min_length=2, max_length=2)]
Labels = Annotated[list[Label], BeforeValidator(_listed)]
Texts = Annotated[list[Text], BeforeValidator(_null_empty)]


class As(Strict):
    """A replacement key."""

    label: Label = Field(alias="as", description="The key that these values go to.")


class NullDefault(Strict):
    """A replacement value."""

    default: Annotated[Any, WithJsonSchema({"type": ["number", "boolean"]})] = Field(
        description="The allowed value that replaces a null."
    )


def _nulls_tag(value: object) -> str | None:
    if isinstance(value, str):
        return "word"
    if isinstance(value, Mapping):
        return "as" if "as" in value else "default"
    return None


Nulls = Annotated[
    Annotated[Literal["drop"], Tag("word")]
    | Annotated[NullDefault, Tag("default")]
    | Annotated[As, Tag("as")],
    Discriminator(
        _nulls_tag,
        custom_error_type="DPR112",
        custom_error_message="`nulls` is drop, {default: VALUE} or {as: KEY}",
    ),
]


def _other_tag(value: object) -> str | None:
    return "word" if isinstance(value, str) else "as" if isinstance(value, Mapping) else None


Other = Annotated[
    Annotated[Literal["drop"], Tag("word")] | Annotated[As, Tag("as")],
    Discriminator(
        _other_tag,
        custom_error_type="DPR112",
        custom_error_message="`other` is drop or {as: KEY}",
    ),
]


class ColumnModel(Strict):
    """One declared column."""

    kind: Literal[
        "identifier", "category", "boolean", "integer", "number", "date", "timestamp", "node"
    ] = Field(description="What the column holds.")
    derived: Text | None = Field(
        None, alias="from", description="Expression over the row's other columns that makes it."
    )
    measure: Text | None = Field(None, description="The unit's name, for labels.")
    range: Pair | None = Field(None, description="Lowest and highest valid value; rows clamp.")
    forbidden: Annotated[list[Pair], BeforeValidator(_null_empty)] = Field(
        [], description="Open intervals that hold no valid value."
    )
    step: Number | None = Field(None, description="Fixed-point step that divides every end.")
    nulls: Nulls = Field("drop", description="What a null becomes.")
    values: Labels | None = Field(None, description="The public values of a category.")
    values_from: Text | None = Field(
        None, description="CSV file with the public values; its header is the column's name."
    )
    other: Other = Field("drop", description="Where undeclared values go.")


class UserModel(Strict):
    """All rows of one person are protected together."""

    user: Text = Field(description="The column that identifies a person.")
    max_groups: Whole = Field(description="Groups kept per person.")
    max_rows_per_group: Whole = Field(description="Rows kept per person and group.")
    max_rows: Whole | None = Field(None, description="Rows kept per person over all groups.")


class NodeFile(Strict):
    """A file of public node labels."""

    values_from: Text = Field(description="CSV file with the public nodes; its header is `node`.")


def _nodes_tag(value: object) -> str:
    if isinstance(value, Mapping):
        return "file"
    return "list" if isinstance(value, list | tuple) else "count"


Nodes = Annotated[
    Annotated[Whole, Tag("count")] | Annotated[Labels, Tag("list")] | Annotated[NodeFile, Tag("file")],
    Discriminator(_nodes_tag),
]


class EdgeModel(Strict):
    """Edges of a simple graph over a public node set."""

    source: Text = Field(description="Column of one end.")
    target: Text = Field(description="Column of the other end.")
    k: Whole = Field(description="Number of protected edges.")
    nodes: Nodes = Field(description="Public number of nodes, or their labels.")


class EdgeUnitModel(Strict):
    """The edge unit."""

    edge: EdgeModel


def _no_node(value: object) -> object:
    del value
    raise fault(
        "DPR115",
        "a node with all its edges cannot be protected",
        "protect edges, `{edge: {source: a, target: b, k: 1, nodes: 34}}`: one node can carry n - 1 "
        "edges, so hiding it would take noise over the whole domain",
    )


NodeUnit = Annotated[Any, BeforeValidator(_no_node), WithJsonSchema({"not": {}})]


def _unit_tag(value: object) -> str | None:
    if isinstance(value, str):
        return "row"
    if isinstance(value, Mapping):
        if "node" in value:
            return "node"
        return "edge" if "edge" in value else "user"
    return None


UnitField = Annotated[
    Annotated[Literal["row"], Tag("row")]
    | Annotated[UserModel, Tag("user")]
    | Annotated[EdgeUnitModel, Tag("edge")]
    | Annotated[NodeUnit, Tag("node")],
    Discriminator(
        _unit_tag,
        custom_error_type="DPR115",
        custom_error_message="`unit` is row, {user: COLUMN, …} or {edge: …}",
    ),
]


def _expected_tag(value: object) -> str:
    return "keys" if isinstance(value, Mapping) else "all"


class RowsModel(Strict):
    """Public sizes."""

    max: Whole | None = Field(None, description="Public cap on the number of rows.")
    expected: (
        Annotated[
            Annotated[Whole, Tag("all")] | Annotated[dict[Text, Whole], Tag("keys")],
            Discriminator(_expected_tag),
        ]
        | None
    ) = Field(None, description="Public guess of rows per group, for pricing only.")
    exact: Whole | None = Field(
        None, description="The public number of rows; under substitution only."
    )


_STATISTIC_JSON: dict[str, Any] = {
    "anyOf": [
        {"type": "string", "description": "e.g. mean(age)"},
        {
            "type": "object",
            "required": ["statistic"],
            "additionalProperties": False,
            "properties": {
                "statistic": {"type": "string", "description": "e.g. mean(age)"},
                "as": {"type": "string", "description": "The published name."},
                "domain": {
                    "type": "object",
                    "additionalProperties": False,
                    "description": "Valid published values.",
                    "properties": {
                        "range": {"type": "array", "minItems": 2, "maxItems": 2},
                        "forbidden": {"type": "array", "items": {"type": "array"}},
                        "step": _NUMBER_JSON,
                    },
                },
                "share": {**_NUMBER_JSON, "description": "Fixed part of epsilon, 0 to 1."},
                "weight": {**_NUMBER_JSON, "description": "Steers the rest of epsilon."},
                "max_error": {
                    **_NUMBER_JSON,
                    "description": "Expected error to stay within, in the statistic's unit.",
                },
                "spikes": {"enum": ["allow", "forbid"]},
                "mechanism": {"type": "string", "description": "Pins a mechanism family."},
                "max_rows_per_group": {"type": "integer", "minimum": 1},
                "note": {"type": "string", "description": "A public sentence for the report."},
            },
        },
    ]
}
Statistics = Annotated[
    list[Annotated[Any, WithJsonSchema(_STATISTIC_JSON)]], BeforeValidator(_listed)
]


class ReleaseModel(Strict):
    """What to release, and how much privacy to spend on it."""

    epsilon: Number | None = Field(
        None,
        description="Privacy loss in nats, above 0; may be left out if every statistic has a "
        "max_error.",
    )
    delta: Number | None = Field(None, description="0 (pure) or a small probability.")
    sql: Sql | None = Field(None, description="One SELECT instead of by, where and statistics.")
    by: Texts = Field([], description="Grouping columns.")
    keys_from: Annotated[Any, WithJsonSchema({"type": "string"})] | None = Field(
        None, description="CSV file with the public groups; its header names the `by` columns."
    )
    where: Text | None = Field(None, description="A condition on one row's columns.")
    loss: Literal["absolute", "squared"] | None = Field(
        None, description="What the planner minimises."
    )
    judge: Literal["average", "worst"] | None = Field(
        None, description="Compare laws by their error averaged over answers, or at the worst one."
    )
    statistics: Statistics | None = Field(None, description="What to publish.")
    allow: Texts = Field([], description="Shortcuts without a proof that are accepted, by name.")


class SchemaModel(Strict):
    """A table's public declaration."""

    dprelease: Literal["schema/1"] = Field(description="Format and version of this file.")
    name: Identifier = Field(description="The table's name.")
    unit: UnitField = Field(description="Who is protected.")
    adjacency: Literal["add_remove", "substitution"] = Field(
        description="Which tables are neighbours."
    )
    rows: RowsModel | None = Field(None, description="Public sizes.")
    columns: dict[Text, ColumnModel] = Field(min_length=1, description="The declared columns.")
    release: ReleaseModel | None = Field(None, description="The default release.")

    @model_validator(mode="after")
    def _distinct_names(self) -> Self:
        seen: dict[str, str] = {}
        for name in self.columns:
            folded = name.casefold()
            if folded in seen or not 1 <= len(name) <= 128:
                raise fault(
                    "DPR112",
                    f"`{name[:60]}` is not a usable column name"
                    + (f" beside `{seen[folded]}`" if folded in seen else ""),
                    "names differ in more than case and have 1 to 128 characters",
                    key=name,
                    under="columns",
                )
            seen[folded] = name
        return self
