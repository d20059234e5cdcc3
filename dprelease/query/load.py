"""Schema files and mappings as a checked `Schema`, the default release in its query language included.

After `models` has checked the shape, this checks what relates several keys: ends on the step's
grid, defaults inside their domain, unit columns of a usable kind, sizes that the adjacency allows,
and the default release. Nothing later re-checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dprelease.core.caller import path_from, plain_values
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.query.arguments import syntax_of
from dprelease.query.derived import with_derived
from dprelease.query.merge import merge_release
from dprelease.schema.about import about_of
from dprelease.schema.block_paths import with_paths
from dprelease.schema.declaration_file import DeclarationFile, must_be
from dprelease.schema.faults import checked
from dprelease.schema.models import SchemaModel
from dprelease.schema.naming import quoted
from dprelease.schema.paths import project_root
from dprelease.schema.read_column import read_column
from dprelease.schema.read_hierarchies import read_hierarchies
from dprelease.schema.read_unit import read_rows, read_time, read_unit
from dprelease.schema.show import html
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import Adjacency
from dprelease.schema.yaml_marks import Document, Marks, load_yaml


class Schema(TableSchema):
    """A table's public declaration, read and checked: `dp.Schema.load("schema.yaml")`."""

    __slots__ = ()

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read and check a schema file; ConfigError names file, line and fix."""
        return load_schema(path)

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Schema:
        """Check a mapping of the same shape as a schema file."""
        return schema_from_dict(data)

    def _repr_html_(self) -> str:
        return html(self)


SchemaLike = TableSchema | str | Path | Mapping[str, object]
"""A schema, a path to its file, or a mapping of the same shape."""


def as_schema(schema: SchemaLike) -> TableSchema:
    """Return the schema that `schema` is or names.

    Raises:
        ArgumentError: it is none of `SchemaLike` (DPR678).
        ConfigError: as `load_schema`.
    """
    if isinstance(schema, TableSchema):
        return schema
    if isinstance(schema, Mapping):
        return schema_from_dict(schema)
    if isinstance(schema, str | Path):
        return load_schema(schema)
    raise ArgumentError(
        f"cannot read a schema from an object of type {type(schema).__name__}",
        fix="pass dp.Schema.load(...), a path to a schema file, or a mapping of the same shape",
        code="DPR678",
    )


def load_schema(path: str | Path) -> Schema:
    """Read and check one schema file.

    Raises:
        ConfigError: DPR10x (not strict YAML), DPR110 unknown key, DPR111 missing key, DPR112 wrong
            value, DPR113 not a number, DPR114 domain or step, DPR115 unit, DPR116 path out of the
            project, DPR117 key file, DPR118 rows, DPR138 and DPR139 derived columns, DPR152 time, DPR167 population, DPR156
            another kind of file, DPR157 a category's values, DPR158 a key that is not of its column's kind, and for the release block DPR12x, DPR13x,
            DPR119; `where` is `file:line`.
        ArgumentError: it is no path (DPR642).
    """
    file = path_from(path, "a schema", "schemas/clinic.yaml")
    document = load_yaml(path)
    folder = file.resolve().parent
    return _build(document, folder, project_root(folder))


def schema_from_dict(
    data: Mapping[str, object], origin: str = "dict", base: Path | None = None
) -> Schema:
    """Check a mapping of the same shape as a schema file.

    Args:
        data: the declaration; numbers may be int, float, Decimal, Fraction, decimal text, or numpy's.
        origin: names the mapping in messages.
        base: the folder that `values_from` and `keys_from` are relative to; default: the current.

    Raises:
        ConfigError: as `load_schema`.
    """
    folder = (base or Path.cwd()).resolve()
    if not isinstance(data, Mapping):
        raise ConfigError("a schema is a mapping", where=origin, code="DPR109")
    return _build(Document(plain_values(data), Marks(origin)), folder, project_root(folder))


def _build(document: Document, folder: Path, root: Path) -> Schema:
    marks = document.marks
    must_be("schema/1", document.data, marks)
    model = checked(SchemaModel, document.data, marks)
    file = DeclarationFile(marks, folder, root)
    columns = with_derived(
        {
            name: read_column(file.below("columns", name), name, c)
            for name, c in model.columns.items()
        }
    )
    adjacency = Adjacency(model.adjacency)
    raw = document.data.get("release")
    block = with_paths(file.released, raw) if isinstance(raw, Mapping) else {}
    unit = read_unit(file.below("unit"), model.unit, columns)
    schema = Schema(
        name=model.name,
        unit=unit,
        adjacency=adjacency,
        columns=columns,
        rows=read_rows(file.below("rows"), model.rows, adjacency),
        population=model.population,
        time=read_time(file, model.time, unit, columns),
        about=about_of(model),
        hierarchies=read_hierarchies(file, model.hierarchies, columns),
        release_raw=block,
        release_lines=marks.below("release"),
        origin=marks.line_of(),
        root=root,
    )
    if raw is None:
        return schema
    where = marks.line_of("release")
    # a block may leave epsilon or statistics to the caller: what it does say is checked now
    missing = {
        key: value
        for key, value in (("epsilon", 1), ("statistics", ["count"]))
        if block.get(key) is block.get("keys") is None
        and not (key == "statistics" and (block.get("sql") or block.get("tables")) is not None)
    }
    release = merge_release(schema, missing or None, origin=where)
    read = (release.where, *(statistic.condition for statistic in release.statistics))
    conditions = tuple(condition for condition in read if condition is not None)
    return replace(schema, release=None if missing else release, conditions=conditions)


def overrides(keys: Mapping[str, object]) -> dict[str, object]:
    """Return what a caller gives in place of a release block's keys."""
    listed = {name: plain_values(value) for name, value in keys.items() if value is not None}
    if isinstance(listed.get("tables"), tuple):
        listed["tables"] = list(listed["tables"])
    if isinstance(listed.get("statistics"), Mapping):
        listed["statistics"] = _by_column(listed["statistics"])
    return listed


def _by_column(statistics: Mapping[object, Any]) -> object:
    """Return what pandas' `agg` takes as a list: `{"age": ["mean", "std"]}`, `{"total": ("age", "sum")}`.

    Raises:
        ConfigError: one statistic with its options, or a function that is not known by its name (DPR112).
    """
    if "statistic" in statistics:
        fix = "write `statistics=[{…}]`, this mapping in a list"
        raise ConfigError("statistics: a list is needed here", fix=fix, code="DPR112")
    listed: list[object] = []
    for column, names in statistics.items():
        is_pair = hasattr(names, "aggfunc")  # pandas.NamedAgg
        pair = (names.column, names.aggfunc) if is_pair else names
        if isinstance(pair, tuple) and len(pair) == 2 and syntax_of(str(pair[0])) is None:
            of, name = pair
            listed.append({"statistic": _called(name, quoted(str(of))), "as": str(column)})
            continue
        each = names if isinstance(names, list | tuple) else [names]
        listed += [_called(name, quoted(str(column))) for name in each]
    # `size` of two columns is one
    return [item for i, item in enumerate(listed) if item not in listed[:i]]


_PANDAS = {"size": "count", "len": "count", "nunique": "count_distinct({})"}
"""Names of pandas and Python for statistics that are written otherwise."""


def _called(name: object, column: str) -> str:
    """Return the statistic of a column that pandas knows by a name, or by a function of Python's or numpy's own."""
    if getattr(name, "__module__", None) in ("builtins", "numpy"):
        name = getattr(name, "__name__", name)
    if not isinstance(name, str) or not name.isidentifier():
        raise ConfigError(
            f"statistics of {column}: a name is needed here, not an object of type {type(name).__name__}",
            where="statistics",
            why="a function would see the rows, and nobody knows what one row changes in it",
            fix=f'name statistics, e.g. ["mean({column})", "sum({column})"]',
            code="DPR112",
        )
    return _PANDAS.get(name, f"{name}({{}})").format(column)
