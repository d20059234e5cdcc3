"""`create_ledger`: the budget of a dataset, and of the people in it, before its first release."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dprelease.budget.ledger import Ledger
from dprelease.budget.population import Population, one_name
from dprelease.core.numeric import Number
from dprelease.core.periods import Every
from dprelease.query.load import SchemaLike, as_schema
from dprelease.release_plan.promise import declared_by


def create_ledger(
    path: str | Path,
    schema: SchemaLike,
    *,
    epsilon: Number,
    delta: Number = 0,
    dataset: str | None = None,
    composition: Literal["basic", "zcdp"] = "basic",
    population: str | None = None,
    population_epsilon: Number | None = None,
    population_delta: Number = 0,
    population_composition: Literal["basic", "zcdp"] = "basic",
    population_interval: Every | None = None,
) -> Path:
    """Create a ledger, or a dataset's budget in one; a no-op if both exist unchanged.

    Args:
        path: the ledger's file, on a local disk (back it up like the data), or a PostgreSQL server
            by reference: "${env:NAME}".
        schema: declares who is protected; a dataset's releases must all protect the same unit.
        epsilon, delta: everything that may ever be spent on the dataset.
        dataset: its name; the schema's by default.
        composition: "basic", or "zcdp" (with a delta): releases add up by their rho.
        population: whom the units are, as the schema says by default. population_epsilon, population_delta,
            population_composition: what one member may lose by all its datasets; stated again, a dataset joins.
        population_interval: protect each member's rows of one interval; whole members by default.

    Returns:
        `path`, for `release(..., ledger=...)`.

    Raises:
        LedgerError: the dataset or population has another budget, adjacency or unit here, it cannot join, or
            the folder cannot hold a ledger.
        BudgetError: what the dataset has cost a member does not fit (DPR309).
        ConfigError, ArgumentError: a faulty schema, name or number, or half a population (DPR675).
    """
    table = as_schema(schema)
    terms = population_epsilon, population_delta, population_composition, population_interval
    Ledger.create(
        path,
        dataset=table.name if dataset is None else dataset,
        epsilon=epsilon,
        delta=delta,
        composition=composition,
        **declared_by(table),
        population=Population.declared(one_name(population, table.population), *terms),
        public_size=table.rows.exact is not None,
    )
    return Path(path)
