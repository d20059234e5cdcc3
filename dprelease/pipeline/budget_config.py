"""A pipeline's ledger, whole budget and public folder, which need no schema. Units: epsilon in nats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dprelease.budget.connection import Place, PostgresPlace
from dprelease.budget.population import Population
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import plain
from dprelease.core.periods import Every
from dprelease.pipeline.secret_reference import SecretReference, refuse_references, secret_at
from dprelease.schema.declaration_file import DeclarationFile, must_be
from dprelease.schema.faults import checked
from dprelease.schema.model_values import Identifier, Number, Strict, Text, fault
from dprelease.schema.paths import project_root
from dprelease.schema.yaml_marks import load_yaml


class PopulationModel(Strict):
    """What one member of the schema's population may lose by the releases of all its datasets."""

    epsilon: Number = Field(description="In nats; every dataset of the population states the same.")
    delta: Number = Field(0, description="A small probability beside it.")
    composition: Literal["basic", "zcdp"] = Field("basic", description="How releases add up.")
    interval: Every | None = Field(
        None, description="Protect each member's rows of one interval; by default whole members."
    )


class BudgetModel(Strict):
    """The durable budget that runs are charged to."""

    ledger: Text = Field(
        description='Path of the ledger file; or a PostgreSQL server by reference: "${env:NAME}".'
    )
    dataset: Identifier = Field(description="The dataset whose budget is charged.")
    epsilon: Number = Field(description="The dataset's whole budget, in nats.")
    delta: Number = Field(0, description="The dataset's whole delta.")
    composition: Literal["basic", "zcdp"] = Field(
        "basic", description="How releases add up; zcdp needs a delta."
    )
    population: PopulationModel | None = Field(
        None, description="The budget that the schema's population shares over all its datasets."
    )
    per_period: Number | None = Field(
        None, description="What one period of the dataset may cost over all pipelines, in nats."
    )
    approval: Literal["required"] | None = Field(
        None, description="Let runs be charged only for what `dprelease approve` has recorded."
    )
    on_crash: Literal["redraw", "charge_again"] = Field(
        "redraw",
        description="A run that crashed before its draw was stored: draw under the same debit, "
        "or pay again first.",
    )
    anchor: Text | None = Field(
        None, description="A second place for the ledger's head: a file that runs must find."
    )
    signing_key: Text | None = Field(
        None, description='Ed25519 key that signs the head, by reference: "${env:NAME}".'
    )


def _formats(value: object) -> object:
    if not isinstance(value, list | tuple) or not value:
        raise fault("DPR112", "a list of formats is needed here", "e.g. [parquet, csv, html]")
    return list(value)


class PublishModel(Strict):
    """Where releases go."""

    to: Text = Field(description="The public folder.")
    formats: Annotated[list[Identifier], BeforeValidator(_formats)] = Field(
        ["parquet", "csv", "html"], description="What to write beside the manifest."
    )
    signing_key: Text | None = Field(
        None, description="Ed25519 key that signs every release, by reference."
    )


class BudgetFileModel(Strict):
    """What the ledger's commands read of a pipeline file."""

    budget: BudgetModel
    publish: PublishModel


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """The dataset's ledger and whole budget; epsilon in nats.

    Attributes:
        per_period: what one period may cost over all pipelines; None for no cap.
        approved: whether runs are charged only for what the ledger holds an approval of.
        on_crash: "redraw" under the same debit, or "charge_again" first.
        anchor: a second place for the ledger's head, signed if there is a `signing_key`.
        origin: where its epsilon stands, for messages.
    """

    ledger: Place
    dataset: str
    epsilon: Fraction
    delta: Fraction = Fraction(0)
    composition: str = "basic"
    per_period: Fraction | None = None
    approved: bool = False
    on_crash: str = "redraw"
    anchor: Path | None = None
    signing_key: SecretReference | None = None
    population: Population | None = None
    origin: str = ""


def pipeline_file(path: Path) -> tuple[DeclarationFile, Mapping[str, object]]:
    """Return a pipeline file, whose references stand where they may, and what it says."""
    document = load_yaml(path)
    must_be("pipeline/1", document.data, document.marks)
    folder = path.resolve().parent
    file = DeclarationFile(document.marks, folder, project_root(folder))
    refuse_references(file, document.data)
    return file, document.data


def load_budget(path: Path) -> tuple[BudgetConfig, Path, Path]:
    """Return a pipeline's budget, without its population, public folder and root, whatever else it says.

    Raises:
        ConfigError: as `load_pipeline`, of these two blocks alone.
    """
    file, said = pipeline_file(path)
    parts = {key: said[key] for key in ("budget", "publish") if key in said}
    model = checked(BudgetFileModel, parts, file.marks)
    alone = model.budget.model_copy(update={"population": None})
    public = file.path(model.publish.to, "publish", "to")
    return read_budget(file.below("budget"), alone, None, public), public, file.root


def read_budget(
    file: DeclarationFile, budget: BudgetModel, population: str | None, public: Path
) -> BudgetConfig:
    """Return the budget of a file's block.

    Args:
        public: where releases go.

    Raises:
        ConfigError: numbers that bound nothing (DPR145), a place where only releases stand (DPR174), or a signed head
            without one (DPR184).
    """
    if not isinstance(budget.epsilon, Fraction) or budget.epsilon <= 0:
        file.fail(
            f"the budget's epsilon is {plain(budget.epsilon)}",
            "epsilon",
            fix="give a finite number above 0",
            code="DPR145",
        )
    delta = Fraction(0) if budget.delta == 0 else budget.delta
    if not isinstance(delta, Fraction) or not 0 <= delta < 1:
        file.fail(
            f"the budget's delta is {plain(delta)}",
            "delta",
            fix="give a number from 0 to below 1",
            code="DPR145",
        )
    ledger: Place
    if budget.ledger.startswith("${"):
        secret = secret_at(file, budget.ledger, "ledger")
        ledger = PostgresPlace(f"PostgreSQL {budget.ledger}", secret.reveal_to_source)
    else:
        ledger = file.path(budget.ledger, "ledger")
    cap = budget.per_period
    if cap is not None and (not isinstance(cap, Fraction) or cap <= 0):
        file.fail(
            f"the cap per period is {plain(cap)}",
            "per_period",
            fix="give a finite number above 0, or leave it out",
            code="DPR145",
        )
    return BudgetConfig(
        ledger,
        budget.dataset,
        budget.epsilon,
        delta,
        budget.composition,
        per_period=cap,
        approved=budget.approval == "required",
        origin=file.line_of("epsilon"),
        on_crash=budget.on_crash,
        anchor=_second_place(file, budget, ledger, public),
        signing_key=None
        if budget.signing_key is None
        else secret_at(file, budget.signing_key, "signing_key"),
        population=_population(file, budget, population),
    )


def _second_place(
    file: DeclarationFile, budget: BudgetModel, ledger: Place, public: Path
) -> Path | None:
    """Return the place of the head, which is public: in no period's folder, and the ledger in no public one at all."""
    if budget.signing_key is not None and budget.anchor is None:
        file.fail(
            "a signed head needs a place",
            "signing_key",
            fix="add e.g. `anchor: ../heads/clinic.json`",
            code="DPR184",
        )
    anchor = None if budget.anchor is None else file.path(budget.anchor, "anchor")
    ours = {}
    if isinstance(ledger, Path) and ledger.is_relative_to(public):
        ours["ledger"] = (
            "the ledger lies in the public folder",
            "it holds the salt and the draws of releases that are withheld: who reads it learns more than is released",
            "name a place outside `publish.to`; `dprelease ledger move FROM TO` copies a ledger there, then delete the old file",
        )
    if anchor is not None and public in anchor.parents[2:]:
        ours["anchor"] = (
            "the head's second place lies in the folder of a period",
            "the folder of a period holds its release and nothing else",
            "name another place, e.g. `anchor: ../heads/clinic.json`",
        )
    for key, (what, why, fix) in ours.items():
        file.fail(what, key, why=why, fix=fix, code="DPR174")
    return anchor


def _population(file: DeclarationFile, budget: BudgetModel, name: str | None) -> Population | None:
    """Return the budget of the schema's population: both are stated (DPR168), or neither."""
    population = budget.population
    terms = (
        (population.epsilon, population.delta, population.composition, population.interval)
        if population
        else (None,)
    )
    try:
        return Population.declared(name, *terms)
    except ArgumentError as error:
        file.fail(error.what, "population", fix=str(error.fix), code="DPR168")
