"""The shape of `release.json` (release/2), for readers in other languages and for tests.

It is the source of `dprelease schema json-schema --of manifest`. Keys may be added within a
version, so readers pass over what they do not know; none is removed or changes its meaning.
Exact numbers are "p/q" strings. The shape says nothing about truth: `dprelease verify` does.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Rational = Annotated[str, Field(pattern=r"^-?\d+(/[1-9]\d*)?$", description="Exact: p or p/q.")]
Decimal = Annotated[str, Field(pattern=r"^\d+(\.\d+)?(e-?\d+)?(/[1-9]\d*)?$")]
Whole = Annotated[str, Field(pattern=r"^-?\d+$")]
INSTANT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Open(BaseModel):
    """An object that may gain keys within this version."""

    model_config = ConfigDict(extra="allow", strict=True)


class PersonModel(Open):
    """What one person in every interval loses at most."""

    epsilon: Rational
    delta: Rational
    rho: Rational | None = Field(None, description="Where losses add up by zCDP.")


class GuaranteeModel(Open):
    """What is promised, to whom."""

    statement: str = Field(description="The guarantee in one sentence.")
    epsilon: Rational
    delta: Rational
    adjacency: Literal["add_remove", "substitution"]
    unit: str | dict[str, Any] = Field(description="The protected unit, as schemas declare it.")
    protects: str = Field(description="How two neighbouring tables differ, in words.")
    time: dict[str, Any] | None = Field(
        None,
        description="Column, timezone, dates, immutable: by what losses are added up over time.",
    )
    window: list[str | None] | None = Field(
        None,
        description="First instant of the rows that were read, and the first one after; null: open.",
    )
    person: PersonModel | None = Field(
        None,
        description="Where the unit is a person's rows of an interval: what the whole person loses "
        "by this release; null: no bound.",
    )


class StatisticModel(Open):
    """One statistic of the plan."""

    name: str
    statistic: str = Field(description="As it was asked for, `mean(age)`.")
    function: str
    block: str
    columns: list[str] | dict[str, str] = Field(
        description="Published columns; more than 64 bins by their `name` and `edges`."
    )
    domain: Any = Field(description="Allowed values: exact ends and forbidden intervals.")
    step: Rational
    measure: str
    mechanism: str
    error_text: str


class BlockModel(Open):
    """One draw: a law over integers, charged once."""

    name: str
    family: str
    cells: list[str] | dict[str, str]
    epsilon: Rational
    mechanism: str
    measurement: dict[str, Any]
    law: dict[str, Any] = Field(description="Exact weights, or what they are recomputed from.")
    certificate: dict[str, Any] = Field(description="`epsilon_upper` is the proved loss, p/q.")


class PlanModel(Open):
    """Everything that was decided before any row was read."""

    by: list[str] = Field(description="Key columns.")
    keys: list[list[str]] = Field(description="Every group, from declarations.")
    window: list[str] | None = Field(description="First instant, and the first one after.")
    where: str | None
    loss: str
    statistics: list[StatisticModel] = Field(min_length=1)
    blocks: list[BlockModel]
    allow: list[str] = Field([], description="What is observed and not proved, allowed by name.")
    notes: list[str]


class AnchorModel(Open):
    """The ledger's head right after the debit."""

    ledger_id: str
    seq: int = Field(ge=1)
    head_hash: Sha256


class BudgetModel(Open):
    """The data set's budget as of the debit."""

    spent: Rational
    total: Rational
    history: list[Rational] = Field([], description="Spent after each debit, the newest last.")
    composition: Literal["basic", "zcdp"] = Field("basic", description="How debits add up.")
    delta: Rational = Field(
        description="Spent, like epsilon; the total one where debits add up by zCDP."
    )
    person: PersonModel | None = Field(
        None, description="What a whole person has lost by all debits so far; null: no bound."
    )
    member: dict[str, Any] | None = Field(
        None,
        description="Of a population's member: `spent` of `total` over `tables`, `delta` of `total_delta`.",
    )


class ApprovalModel(Open):
    """Who let this be released: an event of the ledger, and what it approved."""

    event: int = Field(ge=1, description="The ledger's event that records the approval.")
    request: Sha256 = Field(
        description="Of the request without its period's name, zone tables and words."
    )


class ReceiptModel(Open):
    """What was paid, under which key, and where that is written down. Given, not derived."""

    epsilon: Decimal
    delta: Decimal
    protects: str
    pipeline: str | None
    period: str | None
    dataset: str | None
    scheduled: str | None = Field(None, pattern=INSTANT)
    published: str | None = Field(None, pattern=r"^\d{4}-\d\d-\d\d$")
    early: str | None = Field(None, pattern=INSTANT)
    ledger: AnchorModel | None
    budget: BudgetModel | None
    approval: ApprovalModel | None = Field(None, description="Where the pipeline needed one.")


class RequestModel(Open):
    """What was asked: everything else that is derived follows from it, the draw and the receipt."""

    schema_: dict[str, Any] = Field(
        alias="schema", description="A schema, as schema/1 files say it."
    )
    release: dict[str, Any] = Field(description="A release block; `keys` are a key file's groups.")
    period: dict[str, str] | None = Field(
        description="Column, length, zone, name, zone tables, delay."
    )
    view: dict[str, Any] | None = Field(description="The curator's view, and its tables.")
    formats: list[str] = Field(description="What was to be written.")
    report: int | None = Field(None, description="Edition of the report, where there is one.")


class DrawModel(Open):
    """What was drawn, from the laws in `plan.blocks`. Given, not derived."""

    cells: dict[str, list[list[Whole]]] = Field(description="Noisy integers: block, group, cell.")
    fits: dict[str, Any] | None = Field(
        None,
        description="Of several tables: values in steps by statistic and table, and proofs of them.",
    )


class OtherBudgetModel(Open):
    """What the plan would expect at another epsilon."""

    epsilon: Rational
    errors: dict[str, float] = Field(description="Expected error per statistic, in its unit.")


class FileModel(Open):
    """One file of the folder."""

    sha256: Sha256
    bytes: int = Field(ge=0)


class ManifestModel(Open):
    """`release.json`: everything a stranger needs to check a release."""

    dprelease: Literal["release/2"] = Field(description="Format and version of this file.")
    request: RequestModel | None
    draw: DrawModel
    receipt: ReceiptModel
    pipeline: str | None
    period: str | None
    scheduled: str | None = Field(
        None,
        pattern=INSTANT,
        description="When the period was due, by its calendar.",
    )
    published: str | None = Field(
        None,
        pattern=r"^\d{4}-\d\d-\d\d$",
        description="The day of publication (UTC), as committed to the ledger.",
    )
    early: str | None = Field(
        None,
        pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$",
        description="When the period closes, if it was released before that: later rows are missing.",
    )
    dataset: str | None
    guarantee: GuaranteeModel
    plan: PlanModel
    plan_hash: Sha256
    validation: dict[str, Any]
    ledger: AnchorModel | None
    budget: BudgetModel | None
    what_if: list[OtherBudgetModel] = Field([], description="The same plan at other budgets.")
    over_time: str | None = Field(
        description="What one unit, and a whole person, have lost as of this release, in words."
    )
    software: dict[str, str]
    files: dict[str, FileModel] = Field(description="Every other file of the folder.")
