"""The shape of what is published beyond statistics: several tables, public totals, rules.

Shape only, as in `models`; what relates tables to columns is checked in `query.tables`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from dprelease.schema.about import Title
from dprelease.schema.model_values import (
    Identifier,
    Label,
    Number,
    Strict,
    Text,
    Texts,
    Whole,
    listed,
)
from dprelease.schema.release_spec import Rules, Suppress

KeyRows = list[list[Label]]
File = Annotated[Any, WithJsonSchema({"type": "string"})]
"""A path: text in a file, absolute once the file was read."""


class HierarchyModel(Strict):
    """Coarser levels of one column."""

    levels: Texts = Field(description="From coarse to fine; the last one is the column.")
    keys_from: Text | None = Field(
        None, description="CSV file with every key's labels; its header names the levels."
    )
    keys: KeyRows | None = Field(None, description="The rows of such a file.")
    titles: dict[Text, Title] = Field({}, description="What levels are called on public pages.")


class FoundModel(Strict):
    """Which list of keys is found: every person counts at no more than `max_keys` of them."""

    column: Text = Field(description="A category without `values`, or a text.")
    epsilon: Number = Field(description="Privacy loss in nats, above 0.")
    delta: Number = Field(description="The probability that more is said, above 0.")
    max_keys: Whole = Field(1, description="Keys that one person counts at.")


class DetailModel(Strict):
    """How fine the finest table is published."""

    statistic: Text = Field(description="The statistic whose error decides: its published name.")
    max_error: Number | None = Field(
        None, description="Expected error after fitting that a number may have, in its unit."
    )
    max_relative_error: Number | None = Field(
        None, description="The same as a part of the average size; a draw of its own tells sizes."
    )
    share: Number | None = Field(
        None, description="Part of epsilon for that draw: 0.05 by default."
    )
    levels: Texts | None = Field(
        None,
        description="Coarser tables that rows may stand at, coarse to fine; by default the next one.",
    )


class TableModel(Strict):
    """One table of a release of several."""

    name: Identifier | None = Field(
        None, description="Its name, and that of its files; by default its columns, joined by `_`."
    )
    by: Texts | None = Field(
        None, description="Grouping columns, or levels of a hierarchy; [] for one row."
    )
    all_pairs: Texts | None = Field(
        None,
        description="Instead of `by`: every two of these columns, each of them, and the total.",
    )
    statistics: Annotated[list[Any], BeforeValidator(listed)] = Field(
        description="What to publish, as in a release of one table."
    )
    share: Number | None = Field(None, description="Part of epsilon for its own measurement.")
    zeros_from: File | None = Field(
        None, description="CSV file of groups that can hold no row; its header is `by`."
    )
    zeros: KeyRows | None = Field(None, description="The rows of such a file.")
    detail: DetailModel | None = Field(None, description="How fine this table is published.")


class TotalModel(Strict):
    """A public total: a number of the bounded table that the publisher knows from elsewhere."""

    table: Identifier = Field(description="The table that it stands in.")
    statistic: Text = Field(description="The statistic's published name.")
    values_from: File | None = Field(
        None, description="CSV file: the table's `by`, then `value`; one line per group."
    )
    values: KeyRows | None = Field(None, description="The rows of such a file.")


class SuppressModel(Strict):
    """Which cells are published without a value."""

    below: Whole = Field(description="Cells whose noisy count is less than this are suppressed.")
    statistic: Text | None = Field(
        None,
        description="The count that decides: its published name; the table's `count` by default.",
    )


class RulesModel(Strict):
    """Rules that act on released numbers."""

    suppress: SuppressModel | None = Field(None, description="Leaves small cells out.")
    sparse: bool = Field(
        False,
        description="Files and pages hold published cells only, and how many were suppressed.",
    )
    round: Whole | None = Field(None, description="Numbers of rows are multiples of this.")


def rules_of(model: RulesModel) -> Rules | None:
    """Return the rules as plans hold them; None where there are none."""
    suppression = model.suppress
    suppress = None if suppression is None else Suppress(suppression.below, suppression.statistic)
    found = Rules(suppress, model.sparse, model.round if model.round != 1 else None)
    return None if found == Rules() else found
