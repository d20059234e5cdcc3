"""Schema files and mappings as a checked `TableSchema`.

After `models` has checked the shape, this checks what relates several keys: ends on the step's
grid, defaults inside their domain, unit columns of a usable kind, sizes that the adjacency allows,
and the default release. Nothing later re-checks.

A number column without `step` gets the largest power of ten of which every end is a multiple and
that cuts the range into at least 1000 steps: [0, 120] gets 0.1, [0, 0.25] gets 0.0001.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from dprelease.errors import ArgumentError, ConfigError
from dprelease.numeric import exact, plain
from dprelease.schema.column import Column, Kind
from dprelease.schema.domain import Domain
from dprelease.schema.faults import checked
from dprelease.schema.models import (
    As,
    ColumnModel,
    EdgeUnitModel,
    NodeFile,
    NullDefault,
    RowsModel,
    SchemaModel,
    UserModel,
)
from dprelease.schema.naming import nearest
from dprelease.schema.paths import confined, project_root, read_keys
from dprelease.schema.table import Rows, TableSchema
from dprelease.schema.unit import Adjacency, EdgeUnit, RowUnit, Unit, UserUnit
from dprelease.schema.yaml_marks import Document, Marks, load_yaml

__all__ = ["load_schema", "schema_from_dict"]

LEAST_STEPS = 1000
NUMERIC = (Kind.integer, Kind.number)
KEYED = (Kind.category, Kind.boolean)
_FITS: Mapping[str, tuple[Kind, ...]] = {
    "measure": NUMERIC,
    "range": NUMERIC,
    "forbidden": NUMERIC,
    "step": NUMERIC,
    "values": (Kind.category,),
    "values_from": (Kind.category,),
    "other": (Kind.category,),
}


def load_schema(path: str | Path) -> TableSchema:
    """Read and check one schema file.

    Raises:
        ConfigError: DPR10x (not strict YAML), DPR110 unknown key, DPR111 missing key, DPR112 wrong
            value, DPR113 not a number, DPR114 domain or step, DPR115 unit, DPR116 path out of the
            project, DPR117 key file, DPR118 rows, and for the release block DPR12x, DPR13x,
            DPR119; `where` is `file:line`.
    """
    document = load_yaml(path)
    folder = Path(path).resolve().parent
    return _build(document, folder, project_root(folder))


def schema_from_dict(
    data: Mapping[str, object], origin: str = "dict", base: Path | None = None
) -> TableSchema:
    """Check a mapping of the same shape as a schema file.

    Args:
        data: the declaration; numbers may be int, float, Decimal, Fraction or decimal text.
        origin: names the mapping in messages.
        base: the folder that `values_from` and `keys_from` are relative to; default: the current.

    Raises:
        ConfigError: as `load_schema`.
    """
    folder = (base or Path.cwd()).resolve()
    if not isinstance(data, Mapping):
        raise ConfigError("a schema is a mapping", where=origin, code="DPR109")
    return _build(Document(dict(data), Marks(origin)), folder, project_root(folder))


def _build(document: Document, folder: Path, root: Path) -> TableSchema:
    from dprelease.query.derived import check_derived
    from dprelease.query.merge import merge_release

    marks = document.marks
    model = checked(SchemaModel, document.data, marks)
    builder = _Builder(marks, folder, root)
    columns = {name: builder.column(name, c) for name, c in model.columns.items()}
    check_derived(columns)
    adjacency = Adjacency(model.adjacency)
    raw = document.data.get("release")
    block: dict[str, object] = dict(raw) if isinstance(raw, Mapping) else {}
    if isinstance(block.get("keys_from"), str):
        block["keys_from"] = confined(
            str(block["keys_from"]),
            base=folder,
            root=root,
            origin=marks.at("release", "keys_from"),
        )
    schema = TableSchema(
        name=model.name,
        unit=builder.unit(model.unit, columns),
        adjacency=adjacency,
        columns=columns,
        rows=builder.rows(model.rows, adjacency),
        release_raw=block,
        release_lines=marks.below("release"),
        origin=marks.at(),
        root=root,
    )
    if raw is None:
        return schema
    where = marks.at("release")
    # a block may leave epsilon or statistics to the caller: what it does say is checked now
    missing = {
        key: value
        for key, value in (("epsilon", 1), ("statistics", ["count"]))
        if block.get(key) is None and not (key == "statistics" and block.get("sql") is not None)
    }
    release = merge_release(schema, missing or None, origin=where)
    if missing:
        return schema
    return replace(schema, release=release)


class _Builder:
    """Turn checked models into frozen declarations, with a place for every error."""

    def __init__(self, marks: Marks, folder: Path, root: Path) -> None:
        self.marks = marks
        self.folder = folder
        self.root = root

    def _fail(
        self, what: str, *place: str | int, why: str | None = None, fix: str, code: str
    ) -> NoReturn:
        raise ConfigError(what, where=self.marks.at(*place), why=why, fix=fix, code=code)

    # --- columns

    def column(self, name: str, model: ColumnModel) -> Column:
        kind = Kind(model.kind)
        for key in model.model_fields_set & _FITS.keys():
            if kind not in _FITS[key] and getattr(model, key) is not None:
                self._fail(
                    f"`{key}` does not fit a column of kind {kind}",
                    "columns",
                    name,
                    key,
                    fix=f"remove it, or use kind {' or '.join(_FITS[key])}",
                    code="DPR112",
                )
        domain = self._domain(name, model)
        step = self._step(name, kind, model, domain)
        column = Column(
            name=name,
            kind=kind,
            domain=domain,
            step=step,
            measure=model.measure,
            values=self._values(name, model) if kind is Kind.category else (),
            other=model.other.label if isinstance(model.other, As) else None,
            derived=model.derived,
            origin=self.marks.at("columns", name),
        )
        return self._nulls(column, model)

    def _domain(self, name: str, model: ColumnModel) -> Domain | None:
        if model.range is None:
            if model.forbidden:
                self._fail(
                    "`forbidden` needs a `range`",
                    "columns",
                    name,
                    "forbidden",
                    fix="add e.g. `range: [0, 120]`",
                    code="DPR114",
                )
            return None
        try:
            return Domain(model.range[0], model.range[1], forbidden=model.forbidden)
        except ArgumentError as error:
            key = "forbidden" if "forbidden" in error.what else "range"
            fix = error.fix or "write two finite numbers, the smaller one first"
            self._fail(error.what, "columns", name, key, why=error.why, fix=fix, code="DPR114")

    def _step(
        self, name: str, kind: Kind, model: ColumnModel, domain: Domain | None
    ) -> Fraction | None:
        place = ("columns", name, "step")
        ends = _ends(domain)
        if kind is Kind.integer and any(end.denominator != 1 for end in ends):
            self._fail(
                "an integer column's range and forbidden intervals end at whole numbers",
                "columns",
                name,
                "range",
                fix="round the ends, or use `kind: number`",
                code="DPR114",
            )
        if model.step is None:
            if kind is Kind.integer:
                return Fraction(1)
            if domain is None or not domain.is_finite:
                return None
            step = _default_step(domain)
            if step is None:
                self._fail(
                    "no decimal step fits the range",
                    "columns",
                    name,
                    "range",
                    why="an end is not a decimal number",
                    fix=f"add `step: {plain(_common_step(ends))}`, or round the ends",
                    code="DPR114",
                )
            return step
        step = model.step
        whole = isinstance(step, Fraction) and step > 0
        if not whole or (kind is Kind.integer and step.denominator != 1):
            wanted = "a whole number" if kind is Kind.integer else "a finite number"
            fix = "e.g. `step: 1`" if kind is Kind.integer else "e.g. `step: 0.1`"
            self._fail(f"`step` must be {wanted} above 0", *place, fix=fix, code="DPR114")
        off = next((end for end in ends if end % step), None)
        if off is not None:
            proposal = _common_step([*ends, step])
            self._fail(
                f"{plain(off)} is not a multiple of the step {plain(step)}",
                *place,
                why="a value clamped to that end would be rounded out of the range",
                fix=f"use `step: {plain(proposal)}`, or move the end",
                code="DPR114",
            )
        return step  # type: ignore[no-any-return]

    def _values(self, name: str, model: ColumnModel) -> tuple[str, ...]:
        if (model.values is None) == (model.values_from is None):
            self._fail(
                f"the category `{name}` needs either `values` or `values_from`",
                "columns",
                name,
                why="group keys come from the declaration, never from the data",
                fix='add e.g. `values: ["a", "b"]`; a free text used in filters is an identifier',
                code="DPR111",
            )
        if model.values_from is not None:
            origin = self.marks.at("columns", name, "values_from")
            path = confined(model.values_from, base=self.folder, root=self.root, origin=origin)
            return tuple(key for (key,) in read_keys(path, (name,), origin))
        assert model.values is not None
        seen: set[str] = set()
        for i, value in enumerate(model.values):
            if value in seen:
                self._fail(
                    f"the value `{value}` appears twice",
                    "columns",
                    name,
                    "values",
                    i,
                    fix="remove one of them",
                    code="DPR112",
                )
            seen.add(value)
        if not seen:
            self._fail(
                "`values` is empty",
                "columns",
                name,
                "values",
                fix="list at least one value",
                code="DPR112",
            )
        return tuple(model.values)

    def _nulls(self, column: Column, model: ColumnModel) -> Column:
        place = ("columns", column.name, "nulls")
        if isinstance(model.nulls, As):
            if column.kind not in KEYED:
                self._fail(
                    "`nulls: {as: …}` names a group key",
                    *place,
                    why=f"a column of kind {column.kind} is not a group key",
                    fix="use `nulls: drop` or `nulls: {default: VALUE}`",
                    code="DPR112",
                )
            return replace(column, nulls="as", null_label=model.nulls.label)
        if not isinstance(model.nulls, NullDefault):
            return column
        value = model.nulls.default
        if column.kind is Kind.boolean and isinstance(value, bool):
            return replace(column, nulls="default", null_default=Fraction(int(value)))
        if column.kind not in NUMERIC:
            fix = "use true or false" if column.kind is Kind.boolean else "use `nulls: drop`"
            self._fail(
                f"this default does not fit a column of kind {column.kind}",
                *place,
                fix=fix,
                code="DPR112",
            )
        try:
            number = exact(value, "the default")
        except ArgumentError as error:
            self._fail(error.what, *place, fix="write a number", code="DPR113")
        domain, step = column.domain, column.step
        fits = isinstance(number, Fraction) and (step is None or number % step == 0)
        if not fits or (domain is not None and not domain.has(Fraction(number))):
            near = domain.nearest(number) if domain and isinstance(number, Fraction) else None
            self._fail(
                f"the default {plain(number)} is not an allowed value of `{column.name}`",
                *place,
                why=f"allowed: {domain}" + (f" in steps of {plain(step)}" if step else ""),
                fix=f"e.g. {{default: {plain(near)}}}" if near is not None else "choose another",
                code="DPR114",
            )
        return replace(column, nulls="default", null_default=Fraction(number))

    # --- unit and sizes

    def unit(self, model: object, columns: Mapping[str, Column]) -> Unit:
        if isinstance(model, UserModel):
            self._unit_column(model.user, columns, "user")
            return UserUnit(model.user, model.max_groups, model.max_rows_per_group, model.max_rows)
        if isinstance(model, EdgeUnitModel):
            edge = model.edge
            for key, name in (("source", edge.source), ("target", edge.target)):
                self._unit_column(name, columns, "edge", key)
            labels = self._nodes(edge.nodes)
            count = edge.nodes if isinstance(edge.nodes, int) else len(labels)
            if edge.source == edge.target or count < 2:
                self._fail(
                    "an edge joins two different columns of at least two nodes",
                    "unit",
                    "edge",
                    fix="e.g. `edge: {source: a, target: b, k: 2, nodes: 34}`",
                    code="DPR115",
                )
            return EdgeUnit(edge.source, edge.target, edge.k, count, labels)
        return RowUnit()

    def _nodes(self, model: object) -> tuple[str, ...]:
        """Return the declared nodes; none for a count."""
        if isinstance(model, NodeFile):
            origin = self.marks.at("unit", "edge", "nodes")
            path = confined(model.values_from, base=self.folder, root=self.root, origin=origin)
            return tuple(key for (key,) in read_keys(path, ("node",), origin))
        if not isinstance(model, list):
            return ()
        if len(set(model)) < len(model):
            self._fail(
                "a node appears twice",
                "unit",
                "edge",
                "nodes",
                fix="list every node once",
                code="DPR115",
            )
        return tuple(model)

    def _unit_column(self, name: str, columns: Mapping[str, Column], *place: str) -> None:
        column = columns.get(name)
        if column is None:
            near = nearest(name, columns)
            self._fail(
                f"the unit names an unknown column `{name}`",
                "unit",
                *place,
                fix=f"did you mean `{near}`?" if near else f"declare `{name}` under `columns`",
                code="DPR122",
            )
        if column.derived is not None:
            self._fail(
                f"`{name}` is derived and cannot identify a unit",
                "unit",
                *place,
                why="rows of one unit are found by what the source stores",
                fix="name a stored column",
                code="DPR115",
            )
        allowed = [Kind.identifier, Kind.category, Kind.integer]
        if place[0] == "edge":
            allowed.append(Kind.node)
        if column.kind not in allowed:
            self._fail(
                f"`{name}` is of kind {column.kind} and cannot identify a unit",
                "unit",
                *place,
                fix=f"declare it as {'node' if place[0] == 'edge' else 'identifier'}",
                code="DPR115",
            )

    def rows(self, model: RowsModel | None, adjacency: Adjacency) -> Rows:
        if model is None:
            return Rows()
        if model.exact is not None and adjacency is not Adjacency.substitution:
            self._fail(
                "`rows: {exact: …}` needs `adjacency: substitution`",
                "rows",
                "exact",
                why="when rows are added or removed, their number is private",
                fix="use `max` (a public cap), or change the adjacency",
                code="DPR118",
            )
        if model.exact is not None and model.max is not None and model.max < model.exact:
            self._fail("`max` is below `exact`", "rows", "max", fix="remove `max`", code="DPR118")
        guess = model.expected
        return Rows(
            maximum=model.max if model.max is not None else model.exact,
            expected=guess if isinstance(guess, int) else None,
            expected_by_key=dict(guess) if isinstance(guess, dict) else {},
            exact=model.exact,
        )


def _ends(domain: Domain | None) -> list[Fraction]:
    pieces = domain.exact_pieces if domain is not None else ()
    return [end for piece in pieces for end in piece if isinstance(end, Fraction)]


def _default_step(domain: Domain) -> Fraction | None:
    """Return the default step of a finite domain (see the module's docstring), or None."""
    ends = _ends(domain)
    width = domain.width
    assert isinstance(width, Fraction)
    bottom = math.lcm(*(end.denominator for end in ends))
    for prime in (2, 5):
        while bottom % prime == 0:
            bottom //= prime
    if bottom != 1:
        return None  # no power of ten divides the ends
    step = Fraction(10) ** len(str(int(width)))
    while any(end % step for end in ends) or (width and width / step < LEAST_STEPS):
        step /= 10
    return step


def _common_step(ends: list[Fraction]) -> Fraction:
    """Return the greatest number of which all of `ends` are multiples."""
    bottom = math.lcm(*(end.denominator for end in ends))
    top = math.gcd(*(int(end * bottom) for end in ends))
    return Fraction(top or 1, bottom)
