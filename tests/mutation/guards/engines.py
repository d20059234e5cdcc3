"""Guards of `dprelease/engines`: which rows count, as what, and what the statement may reach."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_bounding = partial(
    Guard,
    file="engines/bounding_sql.py",
    tests=(
        "tests/engines/test_bounding_sql.py",
        "tests/engines/test_duckdb.py",
        "tests/contracts/test_engines.py",
    ),
)
_statement = partial(
    Guard,
    file="engines/bounded_sql.py",
    tests=(
        "tests/engines/test_bounded_sql.py",
        "tests/engines/test_duckdb.py",
        "tests/contracts/test_engines.py",
    ),
)
_codes = partial(
    Guard,
    file="engines/code_sql.py",
    tests=("tests/engines/test_duckdb.py", "tests/contracts/test_engines.py"),
)
_duckdb = partial(
    Guard,
    file="engines/duckdb.py",
    tests=(
        "tests/engines/test_duckdb.py",
        "tests/engines/test_in_memory.py",
        "tests/security/test_engine_lock.py",
        "tests/contracts/test_engines.py",
    ),
)
_request = partial(
    Guard,
    file="engines/request.py",
    tests=("tests/engines/test_request.py", "tests/engines/test_duckdb.py"),
)

_postgres = partial(Guard, tests=("tests/engines/test_postgres_settings.py",))

GUARDS = (
    Guard(
        "a server's sum that overflowed is taken for an answer",
        "engines/tally.py",
        "out[group] = list(map(int, sums))",
        "out[group] = list(sums)",
        ("tests/engines/test_spark_sql.py",),
    ),
    Guard(
        "rows without a code are rows at every code of a tally",
        "engines/tally.py",
        'this=is_null(column("tally")), expression=not_null(column("code"))',
        'this=is_null(column("tally")), expression=exp.true()',
        ("tests/contracts/test_crosses.py",),
    ),
    Guard(
        "many tallies are counted row by row, and the sums beside them are lost",
        "engines/tally.py",
        "return len(self.sets) >= MANY and not self.others",
        "return len(self.sets) >= MANY",
        ("tests/contracts/test_crosses.py",),
    ),
    Guard(
        "one empty cell makes texts of a column's truth values, and none of them a number",
        "engines/typed_sql.py",
        'default=try_cast(truth, "DOUBLE")',
        "default=exp.null()",
        ("tests/contracts/test_cells.py",),
    ),
    Guard(
        "a key is another one in a column that one empty cell made a column of doubles",
        "engines/row_sql.py",
        'unmet = case((is_null(column("value", alias)), spelt(declared, cell)))',
        "unmet = case((exp.false(), spelt(declared, cell)))",
        ("tests/contracts/test_cells.py",),
    ),
    Guard(
        "a declared value that the stored type never has is let through beside others that it has",
        "engines/physical.py",
        "if not writes(stored, label)), None)",
        "if not any(writes(stored, one) for one in column.values)), None)",
        ("tests/contracts/test_cells.py",),
    ),
    Guard(
        "a decimal is compared with a one that its type may not hold",
        "engines/typed_sql.py",
        "    value = _double(stored, make)\n    branches",
        "    value = make()\n    branches",
        ("tests/engines/test_typed_sql.py",),
    ),
    Guard(
        "a wide decimal of few digits passes preflight and stops the engine",
        "engines/in_memory.py",
        "    if t.is_decimal256(kind):",
        "    if False:",
        ("tests/engines/test_in_memory.py",),
    ),
    _bounding(
        "a unit keeps all its groups",
        old='few = exp.LTE(this=column("r"), expression=number(self.query.max_groups))',
        new='few = exp.GTE(this=column("r"), expression=number(1))',
    ),
    _bounding(
        "a unit counts as light by the largest of its caps",
        old="return min(caps, default=1)",
        new="return max(caps, default=1)",
    ),
    _bounding(
        "rows are chosen without the salt",
        old="        joined = self.salt()\n",
        new='        joined = exp.Literal.string("")\n',
    ),
    _bounding(
        "rows are chosen by their place in the table",
        old="key = self._hash([*self._unit(), *cells])",
        new="key = self._hash([*self._unit()])",
    ),
    _bounding(
        "a total cap counts groups one after the other",
        old='row = _ordered(exp.RowNumber(), self.keys, [column("n"), column("r")])',
        new='row = _ordered(exp.RowNumber(), self.keys, [column("r"), column("n")])',
    ),
    _bounding(
        "rows are numbered over all groups of a unit",
        old='row = _ordered(exp.RowNumber(), [*self.keys, "g"], [key])',
        new='row = _ordered(exp.RowNumber(), ["g"], [key])',
    ),
    _bounding(
        "a person is bounded over all intervals together",
        old='return ("u",) if self.query.per is None else ("u", INTERVAL)',
        new='return ("u",) if self.query.per is None else ("u",)',
    ),
    _bounding(
        "a person counts in every group of a cell",
        old='apart = [column("u", "t"), column(f"m{j}", "k")]',
        new='apart = [column("u", "t"), column("g", "t")]',
    ),
    _bounding(
        "rows beyond the total cap are the first of a cell",
        old='            select = select.where(few, copy=False)\n        return Stage("placed", select)',
        new='        return Stage("placed", select)',
    ),
    _bounding(
        "an interval chooses its rows as another one does",
        old="interval = () if self.query.per is None else (INTERVAL,)",
        new="interval = ()",
    ),
    Guard(
        "rows are ordered by the digest's bytes, not by its digits",
        file="engines/hash_sql.py",
        old="each = exp.Lambda(this=swapped,",
        new="each = exp.Lambda(this=_name(),",
        tests=("tests/engines/test_bounding_sql.py", "tests/contracts/test_engines.py"),
    ),
    _codes(
        "persons are counted once per interval",
        old='if primitive.kind == "persons" and query.per is not None:',
        new='if primitive.kind == "persons" and query.per is True:',
    ),
    Guard(
        "rows without a time are of an interval",
        file="engines/row_sql.py",
        old='out.append(not_null(try_cast(self._value(self.query.per.column), "TIMESTAMP")))',
        new="pass",
        tests=("tests/contracts/test_intervals.py", "tests/contracts/test_engines.py"),
    ),
    Guard(
        "an interval ends where a clock shows its last day again",
        file="engines/interval_sql.py",
        old='return exp.Least(this=try_cast(shifted, "DATE"), expressions=[last], ignore_nulls=True)',
        new='return try_cast(shifted, "DATE")',
        tests=("tests/engines/test_interval_sql.py",),
    ),
    Guard(
        "a period holds its own end",
        file="engines/row_sql.py",
        old="(exp.LT, window.end)",
        new="(exp.LTE, window.end)",
        tests=("tests/engines/test_duckdb.py", "tests/pipeline/test_date_periods.py"),
    ),
    Guard(
        "a unit is the value of its declared kind",
        file="engines/row_sql.py",
        old="unit = make() if self._whole_unit else canonical(physical, make)",
        new="unit = typed(declared.kind, physical, make)",
        tests=("tests/contracts/test_identity.py",),
    ),
    Guard(
        "expressions read the raw cell",
        file="engines/row_sql.py",
        old='return column(self.clean.get(name, self.place[name]), "t")',
        new='return column(self.place[name], "t")',
        tests=("tests/query/test_cleaning.py",),
    ),
    _statement(
        "rows of no unit count",
        old='            conditions.append(not_null(column(UNIT, "t")))\n',
        new="            pass\n",
    ),
    _statement(
        "an edge from a node to itself counts",
        old="            conditions.append(exp.NEQ(this=one, expression=other))\n",
        new="",
        tests=("tests/engines/test_graph.py", "tests/engines/test_bounded_sql.py"),
    ),
    _statement(
        "an edge counts as often as it stands there",
        old='select = self._select(aliased(low, "low"), aliased(high, "high")).distinct(copy=False)',
        new='select = self._select(aliased(low, "low"), aliased(high, "high"))',
        tests=("tests/engines/test_graph.py", "tests/engines/test_bounded_sql.py"),
    ),
    _statement(
        "a total cap is not applied",
        old="if query.user is not None and query.max_rows_total is not None:",
        new="if False:",
    ),
    _codes(
        "a primitive counts all rows of a unit",
        old="    if query.user is not None and cap < most_rows:\n        conditions.append(",
        new="    if False:\n        conditions.append(",
    ),
    _codes(
        "a tally counts all rows of a unit",
        old="    if query.user is not None and cap < most_rows:\n        few = ",
        new="    if False:\n        few = ",
    ),
    _codes(
        "numbers above the range are not clamped",
        old="    return exp.Least(this=raised, expressions=[high], ignore_nulls=True)\n",
        new="    return raised\n",
    ),
    _codes(
        "whole numbers below the range are not clamped",
        old="(exp.LT(this=make(), expression=low.copy()), low.copy()),",
        new="(exp.LT(this=make(), expression=low.copy()), make()),",
        tests=("tests/engines/test_parquet_rows.py",),
    ),
    _codes(
        "a null becomes the lower end",
        old='    return try_cast(exp.Add(this=whole, expression=known), "BIGINT")\n',
        new='    return try_cast(whole, "BIGINT")\n',
    ),
    _duckdb(
        "the optimizer believes what a file says of its values",
        old='    "statistics_propagation",\n',
        new="",
        tests=("tests/engines/test_parquet_rows.py",),
    ),
    _duckdb(
        "a filter believes what a file says of its values",
        old='    "filter_pushdown",\n',
        new="",
        tests=("tests/engines/test_parquet_rows.py",),
    ),
    Guard(
        "row groups are chosen without a look at their rows",
        file="engines/object_rows.py",
        old='rows.rows.stored, "place"):',
        new='rows.rows.stored, "place")[:1]:',
        tests=("tests/engines/test_object_rows.py",),
    ),
    Guard(
        "an address of objects may hold a password",
        file="engines/object_store.py",
        old='if not _BUCKET.fullmatch(bucket) or "?" in path or',
        new="if",
        tests=("tests/engines/test_object_store.py",),
    ),
    Guard(
        "times of 96 bits are read as nanoseconds",
        file="engines/parquet_rows.py",
        old="""        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
            return file.schema_arrow""",
        new="        return pq.read_schema(path)",
        tests=("tests/engines/test_object_rows.py",),
    ),
    Guard(
        "texts keep the collation of their table",
        file="engines/typed_sql.py",
        old='    return exp.Collate(this=text, expression=exp.to_identifier("BINARY", quoted=True))\n',
        new="    return text\n",
        tests=("tests/contracts/test_identity.py",),
    ),
    _duckdb(
        "the statement may read files",
        old='    "SET enable_external_access = false",\n',
        new="",
    ),
    _duckdb(
        "the statement may change settings",
        old='    "SET lock_configuration = true",\n',
        new="",
    ),
    _duckdb(
        "the statement may read Python variables",
        old='    "SET python_enable_replacements = false",\n',
        new="",
    ),
    _duckdb(
        "an engine's own error is chained",
        old="        except Exception:  # noqa: BLE001 - not chained: see the module's docstring\n            return None\n",
        new="        except ZeroDivisionError:\n            return None\n",
    ),
    _request(
        "sums may overflow",
        old="def _check_overflow(query: BoundedQuery, primitive: Primitive) -> None:\n",
        new="def _check_overflow(query: BoundedQuery, primitive: Primitive) -> None:\n    return\n",
    ),
    Guard(
        "a cell that cannot be calculated stops an unproven view",
        "query/wide_view.py",
        "    _make_total(tree)\n    return tree\n",
        "    return tree\n",
        ("tests/query/test_wide_view.py",),
    ),
    Guard(
        "a subquery of two rows stops an unproven view",
        "engines/duckdb.py",
        '    "SET scalar_subquery_error_on_multiple_rows = false",\n',
        "",
        ("tests/query/test_wide_view.py",),
    ),
    _duckdb(
        "a statement that was planned before the charge keeps the salt that it was planned with",
        old="used | {SALT: salt.hex()} if SALT in used else used",
        new="used",
    ),
    _duckdb(
        "the statement is not planned before the charge",
        old='self._run(connection, f"{_PLAN}{sql}", used).fetchall()',
        new="pass",
    ),
    Guard(
        "an unproven view names columns that Parquet's slower way does not read",
        "engines/duckdb_tables.py",
        'unread = {n: ("", physical) for n, (_, physical) in there.items()}',
        "unread = there",
        ("tests/engines/test_duckdb_view.py",),
    ),
    _duckdb(
        "of two ways over Parquet one is planned before the charge",
        old="(True, False) if slower else (False,)",
        new="(False,)",
    ),
    Guard(
        "a public key that PostgreSQL gets occurs twice",
        "engines/postgres_public.py",
        "        if key in seen:\n",
        "        if key in set():\n",
        ("tests/engines/test_postgres_view.py",),
    ),
    Guard(
        "rows count in PostgreSQL that came while the release ran",
        "engines/postgres.py",
        "isolation_level = IsolationLevel.REPEATABLE_READ\n",
        "isolation_level = IsolationLevel.READ_COMMITTED\n",
        ("tests/engines/test_postgres_promises.py",),
    ),
    Guard(
        "PostgreSQL logs the salt of a statement that fails",
        "engines/postgres.py",
        '"SET LOCAL log_parameter_max_length_on_error TO 0"',
        '"SELECT 1"',
        ("tests/engines/test_postgres_promises.py",),
    ),
    Guard(
        "a cell with a backslash ends the statement in PostgreSQL",
        "engines/postgres_cells.py",
        " AND strpos({cell}, E'\\\\\\\\') = 0",
        "",
        ("tests/engines/test_postgres_engine.py",),
    ),
    Guard(
        "a point without digits is cast in PostgreSQL",
        "engines/postgres_cells.py",
        "WHEN '.' THEN {size} > 1",
        "WHEN '.' THEN {size} > 0",
        ("tests/engines/test_postgres_engine.py",),
    ),
    Guard(
        "an unproven view runs in PostgreSQL",
        "engines/postgres_view.py",
        "    if view is not None and (not view.proven or view.private is None):\n",
        "    if view is not None and view.private is None and view.proven:\n",
        ("tests/engines/test_postgres_view.py",),
    ),
    Guard(
        "instants with a zone are taken from Arrow through DuckDB",
        "engines/duckdb_tables.py",
        "        _check_instants(relation,",
        "        _ = (relation,",
        ("tests/engines/test_duckdb.py",),
    ),
    _postgres(
        "a text is compared by the collation of its column before it is cast",
        file="engines/postgres_cells.py",
        old="""f'{raw}::text COLLATE "C"'""",
        new='f"{raw}::text"',
    ),
    _postgres(
        "the greatest doubles are read with a digit less",
        file="engines/postgres_cells.py",
        old=" AND abs({value}) < {_NONE_HALF_WAY}",
        new="",
        tests=("tests/engines/test_postgres_engine.py",),
    ),
    _postgres(
        "ten at the head of a double's text stays ten",
        file="engines/postgres_cells.py",
        old="^-?10e",
        new="^none",
        tests=("tests/engines/test_postgres_engine.py",),
    ),
    _postgres(
        "a database says how the statement's constants are read",
        file="engines/postgres.py",
        old="SET LOCAL standard_conforming_strings TO on",
        new="SET LOCAL escape_string_warning TO off",
    ),
    _postgres(
        "a role's time limit ends a statement after the charge",
        file="engines/postgres.py",
        old="SET LOCAL statement_timeout TO 0",
        new="SET LOCAL escape_string_warning TO off",
    ),
    _postgres(
        "a table is planned and never opened before the charge",
        file="engines/postgres_engine.py",
        old="SELECT FROM {session.table} LIMIT 0",
        new="SELECT",
    ),
    _postgres(
        "a database says what a null of an array is",
        file="engines/postgres.py",
        old="SET LOCAL array_nulls TO on",
        new="SET LOCAL escape_string_warning TO off",
    ),
    Guard(
        "Ctrl-C while a statement is planned is a fault of DuckDB's version",
        "engines/scan.py",
        "        if pressed.is_set():\n            raise KeyboardInterrupt from None\n        raise\n",
        "        raise\n",
        ("tests/engines/test_scan.py",),
    ),
)
