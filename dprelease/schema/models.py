"""The shape of schema/1 files: pydantic models, used for checking and for the JSON Schema.

Shape only: keys, types, single values (`model_values`). What relates several keys is checked in
`load` and in what it calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from dprelease.core.periods import Every
from dprelease.schema.about import About, Description, Title
from dprelease.schema.model_values import (
    STATISTIC_JSON,
    Ends,
    Identifier,
    Label,
    Labels,
    Number,
    Pair,
    Sql,
    Strict,
    Text,
    Texts,
    Whole,
    fault,
    list_or_none,
    listed,
)
from dprelease.schema.synonyms import UNITS
from dprelease.schema.table_models import (
    FoundModel,
    HierarchyModel,
    RulesModel,
    TableModel,
    TotalModel,
)


class As(Strict):
    """A replacement key."""

    label: Label = Field(alias="as", description="The key that these values go to.")


class NullDefault(Strict):
    """A replacement value."""

    default: Annotated[Any, WithJsonSchema({"type": ["number", "boolean"]})] = Field(
        description="The allowed value that replaces a null."
    )


def _nulls_tag(value: object) -> str | None:
    if value == "drop":
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
    return "word" if value == "drop" else "as" if isinstance(value, Mapping) else None


Other = Annotated[
    Annotated[Literal["drop"], Tag("word")] | Annotated[As, Tag("as")],
    Discriminator(
        _other_tag,
        custom_error_type="DPR112",
        custom_error_message="`other` is drop or {as: KEY}",
    ),
]


class ExpectedModel(Strict):
    """Public guesses of a column's values."""

    sd: Number = Field(description="Their standard deviation, in the column's unit.")


class KeyListsModel(Strict):
    """Published folders whose keys a column's values are."""

    keys: Annotated[
        list[Text],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else listed(value)),
        Field(min_length=1),
        WithJsonSchema({"type": ["string", "array"], "items": {"type": "string"}}),
    ] = Field(description="The folder, e.g. public/pages/latest; or several: all their keys.")


ValuesFrom = Annotated[
    Annotated[Text, Tag("word")] | Annotated[KeyListsModel, Tag("keys")],
    Discriminator(lambda value: "keys" if isinstance(value, Mapping) else "word"),
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
    title: Title | None = Field(None, description="What public pages call it.")
    description: Description | None = Field(None, description="What it is, for readers.")
    range: Ends | None = Field(
        None,
        description="Lowest and highest valid value; rows clamp. Of dates: the days whose parts are keys.",
    )
    forbidden: Annotated[list[Pair], BeforeValidator(list_or_none)] = Field(
        [], description="Open intervals that hold no valid value."
    )
    step: Number | None = Field(None, description="Fixed-point step that divides every end.")
    expected: ExpectedModel | None = Field(
        None, description="Public guesses of the values, for pricing only."
    )
    nulls: Nulls = Field("drop", description="What a null becomes.")
    values: Labels | None = Field(None, description="The public values of a category.")
    values_from: ValuesFrom | None = Field(
        None,
        description="CSV file with the public values, its header is the column's name; or"
        " {keys: FOLDER}: the keys that were published there.",
    )
    other: Other = Field("drop", description="Where undeclared values go.")


class UserModel(Strict):
    """All rows of one person, or those of one interval, are protected together."""

    words = UNITS

    user: Text = Field(description="The column that identifies a person.")
    per: Every | None = Field(
        None,
        description="Protects a person's rows of one interval of the schema's `time`; the caps are "
        "then per person and interval.",
    )
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
    Annotated[Whole, Tag("count")]
    | Annotated[Labels, Tag("list")]
    | Annotated[NodeFile, Tag("file")],
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


class TimeModel(Strict):
    """The instant of a row."""

    column: Text = Field(description="A stored date or timestamp column.")
    timezone: Text = Field(
        "UTC", description="Zone in which days begin, for timestamps; a date has no zone."
    )
    immutable: bool = Field(
        False,
        description="Declares that a row's time never changes between runs, and that every column "
        "used is a function of its own row, or of rows of the same unit: then the losses of "
        "disjoint periods do not add up, or where rows are replaced are at most the two largest.",
    )


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


Statistics = Annotated[
    list[Annotated[Any, WithJsonSchema(STATISTIC_JSON)]], BeforeValidator(listed)
]


Shortcut = Literal["unproven-view", "sparse-eigenvalue", "visible-timeout", "missing-column"]
"""What `query.view`, `query.graph` and `query.shortcuts` call them."""


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
    loss: Literal["absolute", "squared"] | None = Field(None, description="What is minimised.")
    judge: Literal["average", "worst"] | None = Field(
        None, description="Compare laws by their error averaged over answers, or at the worst one."
    )
    composition: Literal["basic", "zcdp"] | None = Field(
        None, description="How the ledger adds up; a release with a ledger at hand is told by it."
    )
    statistics: Statistics | None = Field(None, description="What to publish.")
    tables: list[TableModel] | None = Field(
        None, description="Several tables that add up, instead of by and statistics."
    )
    keys: FoundModel | None = Field(
        None, description="A list of keys that nobody declared, instead of all statistics."
    )
    totals: list[TotalModel] | None = Field(
        None, description="Public numbers of the tables, stated by the publisher."
    )
    rules: RulesModel | None = Field(None, description="What is done to released numbers.")
    allow: Annotated[list[Shortcut], BeforeValidator(list_or_none)] = Field(
        [],
        description="What is accepted by name: shortcuts without a proof, and files that lack a column.",
    )


class SchemaModel(About):
    """A table's public declaration."""

    dprelease: Literal["schema/1"] = Field(description="Format and version of this file.")
    name: Identifier = Field(description="The table's name.")
    unit: UnitField = Field(description="Who is protected.")
    adjacency: Literal["add_remove", "substitution"] = Field(
        description="Which tables are neighbours."
    )
    population: Identifier | None = Field(
        None,
        description="Whom the units are: persons that datasets of this population share, and one budget with them.",
    )
    time: TimeModel | None = Field(None, description="When a row happened.")
    rows: RowsModel | None = Field(None, description="Public sizes.")
    columns: dict[Text, ColumnModel] = Field(min_length=1, description="The declared columns.")
    hierarchies: dict[Text, HierarchyModel] | None = Field(
        None, description="Coarser levels of a column, which tables may group by."
    )
    release: ReleaseModel | None = Field(None, description="The default release.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.population is not None and not isinstance(self.unit, UserModel):
            raise fault(
                "DPR167",
                "only a table whose unit is a person has a population: nobody knows whose rows or edges are whose",
                "declare `unit: {user: COLUMN, …}`, or leave `population` out",
                key="population",
            )
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
