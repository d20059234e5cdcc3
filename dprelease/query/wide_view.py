"""Views without a proof: any query over declared tables whose tree has known nodes only.

Reached with `allow: [unproven-view]` alone. That one unit's rows of the tables reach only that
unit's rows of the view is then the curator's word; this module keeps out what is not a query of the
declared tables (functions that read files, clocks, randomness, commands).

What fails at a cell is null: written casts are TRY_CAST, and every calculation and comparison of
single rows is in TRY, so that `text = 1` or a product beyond 64 bits stops nothing. A subquery of two
rows gives one of them (`engines.duckdb`). DuckDB offers no such thing for what is left, and one cell
can end the run there, after the charge (`STOPS`): two columns compared with each other (wrapped, a join
would be a product of its tables), sums of decimals that no DECIMAL(38) holds, and calculations on
aggregates and window functions. The plan says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dprelease.core.errors import ConfigError, PlanError
from dprelease.query.sql_text import SqlText
from dprelease.query.view import View

if TYPE_CHECKING:
    from sqlglot import exp

_ROWWISE = (
    "Abs", "Add", "And", "Between", "Case", "Ceil", "Coalesce", "DPipe", "DateTrunc", "Day", "Div",
    "EQ", "Extract", "Floor", "GT", "GTE", "Greatest", "Hour", "In", "IntDiv", "Is", "LT", "LTE",
    "Least", "Length", "Lower", "Minute", "Mod", "Month", "Mul", "NEQ", "Neg", "Not", "Nullif", "Or",
    "Quarter", "Round", "Sub", "Substring", "TimestampTrunc", "Trim", "Upper", "Year",
)  # fmt: skip
"""Nodes that make one value of the values of one row; DuckDB's casts inside them raise."""

_NODES = (
    "Abs", "Alias", "And", "Between", "Boolean", "CTE", "Case", "Cast", "Ceil", "Coalesce",
    "Column", "DPipe", "DataType", "DataTypeParam", "DateTrunc", "Day", "Distinct", "Exists",
    "Extract", "Filter", "Floor", "From", "Greatest", "Group", "Having", "Hour", "Identifier", "If",
    "In", "Is", "Join", "Least", "Length", "Limit", "Literal", "Lower", "Minute", "Month", "Neg",
    "Not", "Null", "Nullif", "Offset", "Or", "Order", "Ordered", "Paren", "Quarter", "Round",
    "RowNumber", "Select", "Star", "Subquery", "Substring", "Table", "TableAlias", "TimestampTrunc",
    "Trim", "TryCast", "Tuple", "Upper", "Var", "Where", "Window", "WindowSpec", "With", "Year",
    "Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "EQ", "NEQ", "LT", "LTE", "GT", "GTE",
    "Union", "Intersect", "Except", "Count", "Sum", "Avg", "Min", "Max", "Median", "Rank",
    "DenseRank", "Lag", "Lead", "FirstValue", "LastValue", "ArgMax", "ArgMin", "AnyValue",
    "LogicalAnd", "LogicalOr", "StddevPop", "VariancePop",
)  # fmt: skip


def parse_wide_view(read: SqlText, tables: tuple[str, ...]) -> View:
    """Return the unproven view.

    Raises:
        ConfigError: not SQL (DPR120).
        PlanError: not one query (DPR260), an undeclared table (DPR261), or a node that no view may
            have (DPR264).
    """
    tree = _parsed(read.clean, read.origin)
    _check(tree, tables, read.origin)
    return View(sql=tree.sql(dialect="duckdb"), proven=False, keeps_rows=False, tables=tables)


def names_in(view: View) -> frozenset[str] | None:
    """Return what an unproven view names, in lower case, the columns that it reads among it.

    None: any column may be read, by a star or a natural join.
    """
    from sqlglot import exp

    tree = _parsed(view.sql, "view")
    stars = (star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count))
    natural = (join for join in tree.find_all(exp.Join) if join.args.get("method"))
    if any(True for _ in (*stars, *natural)):
        return None
    return frozenset(name.name.lower() for name in tree.find_all(exp.Identifier))


def wide_tree(view: View, stored: dict[str, str]) -> exp.Query:
    """Return a fresh tree of an unproven view over the tables' own names.

    Args:
        stored: declared table -> identifier of its rows.
    """
    from sqlglot import exp

    tree = _parsed(view.sql, "view")
    _check(tree, view.tables, "view")
    for table in list(tree.find_all(exp.Table)):
        if table.name in stored:
            alias = table.alias or table.name
            table.set("this", exp.to_identifier(stored[table.name], quoted=True))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    _make_total(tree)
    return tree


def _make_total(tree: exp.Query) -> None:
    """Put everything that is calculated of one row into TRY, in place."""
    from sqlglot import exp

    over_rows = (exp.AggFunc, exp.Window, exp.Query, exp.Subquery, exp.Exists, exp.RowNumber)
    for holder in list(tree.find_all(exp.Where, exp.Having, exp.If)):
        if isinstance(holder.this, exp.Column):  # a text in a condition's place would be cast
            boolean = exp.DataType.build("BOOLEAN", dialect="duckdb")
            holder.set("this", exp.TryCast(this=holder.this.copy(), to=boolean))
    found = [node for node in tree.walk() if type(node).__name__ in _ROWWISE]
    for node in reversed(found):  # from the leaves up: a node is replaced after what it holds
        between = isinstance(node, exp.Predicate) and all(
            isinstance(side, exp.Column) for side in (node.this, node.args.get("expression"))
        )
        public = node.find_ancestor(exp.Limit, exp.Offset) is not None
        if not between and not public and node.find(*over_rows) is None:
            node.replace(exp.Anonymous(this="TRY", expressions=[node.copy()]))


def _parsed(sql: str, origin: str) -> exp.Query:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        trees = [t for t in sqlglot.parse(sql, read="duckdb") if t is not None]
    except SqlglotError:
        raise ConfigError(
            "the view's SQL cannot be read",
            where=origin,
            fix="check its brackets and the order of its clauses",
            code="DPR120",
        ) from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise PlanError("a view is one SELECT", where=origin, fix="write one query", code="DPR260")
    tree = trees[0]
    for cast in list(tree.find_all(exp.Cast)):
        if not isinstance(cast, exp.TryCast):  # CAST raises, and quotes the cell
            cast.replace(exp.TryCast(this=cast.this, to=cast.args["to"]))
    return tree


def _check(tree: exp.Query, tables: tuple[str, ...], origin: str) -> None:
    from sqlglot import exp

    for node in tree.walk():
        kind = type(node).__name__
        if kind not in _NODES:
            raise PlanError(
                f"a view may not contain `{node.sql(dialect='duckdb')[:60]}`",
                where=origin,
                why="functions that read files, clocks or random numbers would leave the tables",
                fix="leave it out, or prepare the column in the source",
                code="DPR264",
            )
        if isinstance(node, exp.Table) and not _declared(node, tables):
            raise PlanError(
                f"`{node.sql(dialect='duckdb')[:60]}` is not a declared table",
                where=origin,
                fix=f"declared: {', '.join(tables)}",
                code="DPR261",
            )


def _declared(table: exp.Table, tables: tuple[str, ...]) -> bool:
    """Whether a table is declared, or a name that the statement itself gives."""
    from sqlglot import exp

    plain = isinstance(table.this, exp.Identifier) and not table.args.get("db")
    root = table.root()
    own = {cte.alias for cte in root.find_all(exp.CTE)}
    return plain and (table.name in tables or table.name in own)
