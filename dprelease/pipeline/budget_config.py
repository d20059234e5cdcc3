"""A pipeline's ledger and whole budget. Units: epsilon in nats."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from dprelease.budget.connection import Place, PostgresPlace
from dprelease.budget.population import Population
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import plain
from dprelease.pipeline.models import BudgetModel
from dprelease.pipeline.secret_reference import SecretReference, secret_at
from dprelease.schema.declaration_file import DeclarationFile


@dataclass(frozen=True, slots=True)
class BudgetConfig:
    """The dataset's ledger and whole budget; epsilon in nats.

    Attributes:
        per_period: what one period may cost over all pipelines; None for no cap.
        approved: whether runs are charged only for what the ledger holds an approval of.
        on_crash: "redraw" under the same debit, or "charge_again" first.
        anchor: a second place for the ledger's head, signed if there is a `signing_key`.
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


def read_budget(file: DeclarationFile, budget: BudgetModel, population: str | None) -> BudgetConfig:
    """Return the budget of a file's block; ConfigError DPR145 for numbers that bound nothing."""
    if not isinstance(budget.epsilon, Fraction) or budget.epsilon <= 0:
        file.fail(
            f"the budget's epsilon is {plain(budget.epsilon)}",
            "budget",
            "epsilon",
            fix="give a finite number above 0",
            code="DPR145",
        )
    delta = Fraction(0) if budget.delta == 0 else budget.delta
    if not isinstance(delta, Fraction) or not 0 <= delta < 1:
        file.fail(
            f"the budget's delta is {plain(delta)}",
            "budget",
            "delta",
            fix="give a number from 0 to below 1",
            code="DPR145",
        )
    ledger: Place
    if budget.ledger.startswith("${"):
        secret = secret_at(file, budget.ledger, "budget", "ledger")
        ledger = PostgresPlace(f"PostgreSQL {budget.ledger}", secret.reveal_to_source)
    else:
        ledger = file.path(budget.ledger, "budget", "ledger")
    cap = budget.per_period
    if cap is not None and (not isinstance(cap, Fraction) or cap <= 0):
        file.fail(
            f"the cap per period is {plain(cap)}",
            "budget",
            "per_period",
            fix="give a finite number above 0, or leave it out",
            code="DPR145",
        )
    if budget.signing_key is not None and budget.anchor is None:
        file.fail(
            "a signed head needs a place",
            "budget",
            "signing_key",
            fix="add e.g. `anchor: ../heads/clinic.json`",
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
        on_crash=budget.on_crash,
        anchor=None if budget.anchor is None else file.path(budget.anchor, "budget", "anchor"),
        signing_key=None
        if budget.signing_key is None
        else secret_at(file, budget.signing_key, "budget", "signing_key"),
        population=_population(file, budget, population),
    )


def _population(file: DeclarationFile, budget: BudgetModel, name: str | None) -> Population | None:
    """Return the budget of the schema's population: both are stated (DPR168), or neither."""
    asked = budget.population
    given = (asked.epsilon, asked.delta, asked.composition, asked.interval) if asked else (None,)
    try:
        return Population.declared(name, *given)
    except ArgumentError as error:
        file.fail(error.what, "budget", "population", fix=str(error.fix), code="DPR168")
