"""Every guard that the mutation run breaks, by the part of the library it stands in."""

from __future__ import annotations

from tests.mutation.guard import Guard
from tests.mutation.guards import (
    certain,
    choices,
    engines,
    fitting,
    found_keys,
    laws,
    ledger,
    population,
    publication,
    recomputation,
    sensitivities,
    sources,
    validation,
    verification,
    wall,
    weights,
    windows,
)

__all__ = ["AREAS"]

AREAS: dict[str, tuple[Guard, ...]] = {
    "sensitivities": sensitivities.GUARDS,
    "recomputation": recomputation.GUARDS,
    "choices": choices.GUARDS,
    "wall": wall.GUARDS,
    "weights": weights.GUARDS,
    "laws": laws.GUARDS,
    "engines": engines.GUARDS,
    "sources": sources.GUARDS,
    "ledger": ledger.GUARDS,
    "populations": population.GUARDS,
    "windows": windows.GUARDS,
    "publication": publication.GUARDS,
    "verification": verification.GUARDS,
    "validation": validation.GUARDS,
    "fitting": fitting.GUARDS,
    "certain": certain.GUARDS,
    "found keys": found_keys.GUARDS,
}
