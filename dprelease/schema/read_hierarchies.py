"""Hierarchies of a schema's declaration: levels, and the file that holds every key's labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dprelease.schema.column import Column, Kind
from dprelease.schema.declaration_file import DeclarationFile
from dprelease.schema.hierarchy import Hierarchy
from dprelease.schema.naming import did_you_mean
from dprelease.schema.paths import read_keys
from dprelease.schema.table_models import HierarchyModel


def read_hierarchies(
    file: DeclarationFile,
    models: Mapping[str, HierarchyModel] | None,
    columns: Mapping[str, Column],
) -> dict[str, Hierarchy]:
    """Return the declared hierarchies by name.

    Raises:
        ConfigError: a level that is not a column or is one twice (DPR153), a key file that cannot be read
            or whose rows are not the column's keys, each with one parent (DPR117, DPR153).
    """
    out: dict[str, Hierarchy] = {}
    levels: dict[str, str] = {}
    for name, model in (models or {}).items():
        here = file.below("hierarchies", name)
        found = _one(here, name, model, columns)
        for level in found.levels:
            if level in levels:
                here.fail(
                    f"the level `{level}` stands in two hierarchies, `{levels[level]}` and `{name}`",
                    "levels",
                    why="a table that names it would not say which one it means",
                    fix="give one of the two levels another name",
                    code="DPR153",
                )
            levels[level] = name
        out[name] = found
    return out


def _one(
    file: DeclarationFile, name: str, model: HierarchyModel, columns: Mapping[str, Column]
) -> Hierarchy:
    levels = tuple(model.levels)
    if len(levels) < 2 or len(set(levels)) < len(levels):
        file.fail(
            f"the hierarchy `{name}` needs at least two levels, each once",
            "levels",
            fix="e.g. `levels: [country, region, district]`, the last one a column",
            code="DPR153",
        )
    column = columns.get(levels[-1])
    if column is None or column.kind not in (Kind.category, Kind.boolean):
        file.fail(
            f"the last level `{levels[-1]}` of `{name}` is not a category or boolean column",
            "levels",
            why="rows are grouped by the last level; the others are functions of it",
            fix=did_you_mean(levels[-1], columns, "put the column of the finest level last"),
            code="DPR153",
        )
    stored = next((level for level in levels[:-1] if level in columns), None)
    if stored is not None:
        file.fail(
            f"the level `{stored}` of `{name}` is also a column",
            "levels",
            why="a coarse label is made from the finest one, never read from a row",
            fix="take the column out of the schema, or give the level another name",
            code="DPR153",
        )
    keys = _keys(file, name, model, levels)
    _check_keys(file, name, levels, keys, column)
    strange = next((level for level in model.titles if level not in levels[:-1]), None)
    if strange is not None:
        file.fail(
            f"`{name}` has no level `{strange}` to give a title",
            "titles",
            strange,
            fix=f"give that column its own `title`: `{strange}: {{kind: …, title: …}}`"
            if strange == levels[-1]
            else f"its levels are: {', '.join(levels[:-1])}",
            code="DPR153",
        )
    return Hierarchy(name, levels, keys, dict(model.titles))


def _keys(
    file: DeclarationFile, name: str, model: HierarchyModel, levels: tuple[str, ...]
) -> tuple[tuple[str, ...], ...]:
    if (model.keys is None) == (model.keys_from is None):
        file.fail(
            f"the hierarchy `{name}` needs `keys_from`, or its rows as `keys`",
            fix="e.g. `keys_from: places.csv`, a file whose header is the levels",
            code="DPR153",
        )
    if model.keys_from is not None:
        path = file.path(model.keys_from, "keys_from")
        return read_keys(path, levels, file.line_of("keys_from"))
    return tuple(tuple(key) for key in model.keys or ())


def _check_keys(
    file: DeclarationFile,
    name: str,
    levels: tuple[str, ...],
    keys: tuple[tuple[str, ...], ...],
    column: Column,
) -> None:
    """Every key of the column has one row, and every label one parent."""
    short = next((key for key in keys if len(key) != len(levels)), None)
    bottom = [key[-1] for key in keys if key]
    known, below = set(column.keys), Counter(bottom)
    twice = next((label for label, count in below.items() if count > 1), None)
    strange = next((label for label in bottom if label not in known), None)
    missing = next((label for label in column.keys if label not in below), None)
    problem = fix = None
    if short is not None:
        problem, fix = "a row has not one label per level", f"each row is {', '.join(levels)}"
    elif twice is not None:
        problem, fix = f"`{twice}` of `{levels[-1]}` has two rows", "keep one of them"
    elif strange is not None:
        problem = f"`{strange}` is not a declared value of `{levels[-1]}`"
        fix = f"add it to the values of `{levels[-1]}`, or correct it"
    elif missing is not None:
        problem = f"`{missing}` of `{levels[-1]}` has no row"
        fix = "list every declared value, `other` and the key of nulls too: tables could not add up"
    else:
        problem, fix = _parents(levels, keys)
    if problem is not None:
        file.fail(f"hierarchy `{name}`: {problem}", "keys_from", fix=fix or "", code="DPR153")


def _parents(
    levels: tuple[str, ...], keys: tuple[tuple[str, ...], ...]
) -> tuple[str | None, str | None]:
    """Return what is wrong with a label that lies in two parents; (None, None) if there is none."""
    for at in range(len(levels) - 2, 0, -1):
        parent: dict[str, str] = {}
        for key in keys:
            if parent.setdefault(key[at], key[at - 1]) != key[at - 1]:
                return (
                    f"`{key[at]}` of `{levels[at]}` lies in two of `{levels[at - 1]}`",
                    "give the two different labels",
                )
    return None, None
