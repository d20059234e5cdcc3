"""What a release asks for, computed once more with pandas and numpy from the documentation's words.

Nothing here is imported from the library and nothing of it is read: a row is cleaned as
docs/concepts.md says, conditions are three-valued as in SQL, and each statistic is a line of numpy.
`tests/reference/test_plain_answers.py` compares it with releases at an epsilon of several hundred.

A table is a pandas frame of raw cells; a column's declaration is the mapping that a schema file has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

Row = dict[str, Any]
Declared = Mapping[str, Mapping[str, Any]]
Test = Callable[[Row], bool | None]


# -- one cell -----------------------------------------------------------------------------------


def is_missing(cell: Any) -> bool:
    return cell is None or cell is pd.NaT or (isinstance(cell, float) and math.isnan(cell))


def clean(cell: Any, declared: Mapping[str, Any]) -> Any:
    """Return the value that everything reads: by its null policy, range, step, gaps or values."""
    kind, nulls = declared["kind"], declared.get("nulls", "drop")
    if is_missing(cell):
        if isinstance(nulls, dict) and "default" in nulls:
            return (
                _number(nulls["default"], declared)
                if kind in ("integer", "number")
                else nulls["default"]
            )
        return nulls["as"] if isinstance(nulls, dict) and kind == "category" else None
    if kind in ("integer", "number"):
        return _number(cell, declared)
    if kind == "category":
        if cell in declared["values"]:
            return cell
        other = declared.get("other", "drop")
        return other["as"] if isinstance(other, dict) else None
    return bool(cell) if kind == "boolean" else cell


def _number(cell: Any, declared: Mapping[str, Any]) -> float:
    step = declared.get("step", 1 if declared["kind"] == "integer" else None)
    gaps = tuple(map(tuple, declared.get("forbidden", [])))
    return _allowed(float(cell), *declared["range"], step, gaps)


@cache
def _allowed(cell: float, least: Any, most: Any, width: Any, gaps: tuple[Any, ...]) -> float:
    """Clamp, round to the step with halves up, then leave a forbidden interval by the nearer end."""
    low, high, step = (Fraction(str(number)) for number in (least, most, width))
    if math.isinf(cell):
        value = high if cell > 0 else low
    else:
        value = min(max(Fraction(Decimal(repr(cell))), low), high)
    value = math.floor(value / step + Fraction(1, 2)) * step
    for left, right in gaps:
        left, right = Fraction(str(left)), Fraction(str(right))
        if left < value < right:
            value = left if value - left <= right - value else right
    return float(value)


def keys_of(declared: Mapping[str, Any]) -> list[str]:
    """Return the public keys of a column: its values, then `other`, then null's, each once."""
    known = ["false", "true"] if declared["kind"] == "boolean" else list(declared["values"])
    for policy in (declared.get("other"), declared.get("nulls")):
        if isinstance(policy, dict) and "as" in policy and policy["as"] not in known:
            known.append(policy["as"])
    return known


def key_of(value: Any, declared: Mapping[str, Any]) -> str | None:
    """Return the group of a cleaned value, None for a row that is in no group."""
    if value is None:  # a category's null has its key already; what is left is undeclared
        nulls = declared.get("nulls") if declared["kind"] == "boolean" else None
        return nulls["as"] if isinstance(nulls, dict) and "as" in nulls else None
    return ("false", "true")[value] if declared["kind"] == "boolean" else value


# -- three-valued logic -------------------------------------------------------------------------


def both(*parts: bool | None) -> bool | None:
    return False if False in parts else None if None in parts else True


def either(*parts: bool | None) -> bool | None:
    return True if True in parts else None if None in parts else False


def no(part: bool | None) -> bool | None:
    return None if part is None else not part


def holds(test: Callable[..., bool], *values: Any) -> bool | None:
    """Return the test of the values, null where one of them is."""
    return None if any(value is None for value in values) else bool(test(*values))


# -- the table ----------------------------------------------------------------------------------


def cleaned_rows(
    frame: pd.DataFrame, declared: Declared, derived: Mapping[str, Callable[[Row], Any]]
) -> list[Row]:
    """Return the rows with every column cleaned; derived ones are made of cleaned ones, in order."""
    stored = [name for name in declared if name not in derived]
    columns = {name: frame[name].astype(object).tolist() for name in stored}
    rows = []
    for cells in zip(*columns.values(), strict=True):
        row = {n: clean(cell, declared[n]) for n, cell in zip(columns, cells, strict=True)}
        for name, make in derived.items():
            row[name] = clean(make(row), declared[name])
        rows.append(row)
    return rows


def grouped(
    rows: Sequence[Row], by: Sequence[str], declared: Declared
) -> dict[tuple[str, ...], list[Row]]:
    """Return every declared group's rows, empty groups too."""
    groups: dict[tuple[str, ...], list[Row]] = {
        key: [] for key in itertools.product(*(keys_of(declared[name]) for name in by))
    }
    for row in rows:
        key = tuple(key_of(row[name], declared[name]) for name in by)
        if None not in key:
            groups[key].append(row)  # type: ignore[index]
    return groups


# -- the statistics -----------------------------------------------------------------------------


def known(rows: Sequence[Row], *names: str) -> np.ndarray:
    """Return the rows' values where none is null, `(rows, names)`; booleans are 0 and 1."""
    cells = [[row[name] for name in names] for row in rows]
    return np.array([c for c in cells if None not in c], dtype=float).reshape(-1, len(names))


def inverse_cdf(values: np.ndarray, p: Fraction) -> float:
    """Return the least value with a share of at least p at or below it."""
    ordered = np.sort(values)
    return float(ordered[max(0, math.ceil(p * len(ordered)) - 1)])


def statistic(name: str, arguments: Sequence[Any], rows: Sequence[Row]) -> list[float] | None:
    """Return the statistic's published numbers, None where it has no value (no rows)."""
    if name == "count":
        return [len(rows)]
    if name == "persons":
        return [len({row[arguments[0]] for row in rows})]
    if name == "proportion":
        found = [truth for row in rows if (truth := arguments[0](row)) is not None]
        return [float(np.mean(found))] if found else None
    if name == "count_distinct":
        column, possible = arguments
        return [len({row[column] for row in rows} & set(possible))]
    if name in ("covariance", "correlation", "eigenvalues"):
        values = known(rows, *arguments)
        if not len(values):
            return None
        centred = values - values.mean(axis=0)
        matrix = centred.T @ centred / len(values)
        if name == "covariance":
            return [matrix[0, 1]]
        if name == "eigenvalues":
            return sorted(np.linalg.eigvalsh(matrix), reverse=True)
        spread = math.sqrt(matrix[0, 0] * matrix[1, 1])
        return [matrix[0, 1] / spread] if spread else None
    values = known(rows, arguments[0])[:, 0]
    if name == "sum":
        return [float(values.sum())]
    if name == "histogram":
        edges = arguments[1]
        bins = [((values >= a) & (values < b)).sum() for a, b in itertools.pairwise(edges)]
        bins[-1] += (values == edges[-1]).sum()
        return [float(count) for count in bins]
    if not len(values):
        return None
    plain = {"mean": np.mean, "variance": np.var, "std": np.std, "min": np.min, "max": np.max}
    if name in plain:
        return [float(plain[name](values))]
    return [
        inverse_cdf(values, Fraction(str(arguments[1])) if name == "quantile" else Fraction(1, 2))
    ]
