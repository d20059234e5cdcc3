"""What is wrong with the values that a folder states of its fits: constraints, and proofs that prove too little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dprelease.core.strict_json import canonical_json
from dprelease.release_plan.block import Cells
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.fitted import Fits, broken, one_fit
from dprelease.schema.column import Column
from dprelease.schema.naming import found_key


def faults(plan: ReleasePlan, cells: Cells, fits: Fits) -> list[str]:
    """Return what is wrong with stated values: constraints that do not hold, proofs that prove too little."""
    assert plan.tables is not None
    if set(fits) != {fit.name for fit in plan.tables.fits}:
        return ["the fitted values are of other statistics"]
    if any(set(stated) != {"values", "proof"} for stated in fits.values()):
        return ["the fitted values are of another shape"]
    wrong = broken(plan, fits).items()
    if found := [f"{name}: {problem}" for name, problems in wrong for problem in problems]:
        return found
    for fit in plan.tables.fits:
        each, stated = one_fit(plan, fit, cells), fits[fit.name]
        off = each.distance(fits)
        # A proof that leaves room (gaps, margins) leaves it to nobody, and neither do values that are
        # equally near, or the multipliers, of which many prove the same: the fit is made again.
        again = each.nearest(fits)
        if again.values != _lists(stated["values"]):
            said = "not the nearest allowed ones" if any(off.values()) else "not those of the fit"
            found.append(f"{fit.name}: its values are {said}")
        elif not _same(again.proof, stated["proof"]):
            found.append(f"{fit.name}: its proof is not that of the fit")
    return found


def _same(made: object, stated: object) -> bool:
    """Return whether two JSON values are one text: 1.0 and True are not 1."""
    return canonical_json(made) == canonical_json(stated)


def _lists(values: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    return {name: list(cells) for name, cells in values.items()}


def are_found(keys: Sequence[str], column: Column) -> bool:
    """Return whether keys of a column can have been found: different labels, in their order."""
    known = {column.other, column.null_key}
    labels = {k for k in keys if k in known or found_key(k, None, None) == k}
    return list(keys) == sorted(labels)
