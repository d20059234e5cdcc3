"""Guards of what a source is: which files, which columns, how its cells are written."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_folders = partial(Guard, tests=("tests/engines/test_folders.py",))
_signs = partial(Guard, tests=("tests/engines/test_csv_signs.py",))

GUARDS = (
    _folders(
        "a file is read once for each name that leads to it",
        file="engines/source.py",
        old="        path, folders = Path(match).resolve(), folders_in(Path(match).parts[fixed:-1])\n",
        new="        path, folders = Path(match).absolute(), folders_in(Path(match).parts[fixed:-1])\n",
    ),
    _folders(
        "a file lies in two folders of one key",
        file="engines/source.py",
        old="        if named.setdefault(path, folders) != folders:  # by links\n",
        new="        if named.setdefault(path, folders) is None:\n",
    ),
    _folders(
        "folders above the pattern are columns",
        file="engines/source.py",
        old="    fixed = len(plain.parts) if plain.is_file() else first_pattern(plain.parts)\n",
        new="    fixed = 0\n",
    ),
    _folders(
        "DuckDB reads each folder above a file as a column",
        file="engines/duckdb_tables.py",
        old="        alike = alike or (bool(hive) and not all(map(_folders_alone, paths, source.folders)))\n",
        new="",
    ),
    _folders(
        "a folder replaces a column of the file",
        file="engines/parquet_rows.py",
        old="        if source.keys.count(column.name) + (column.name in stored) > 1:\n",
        new="        if source.keys.count(column.name) > 1:\n",
    ),
    Guard(
        "of a column that a file has twice one is read",
        file="engines/parquet_rows.py",
        old="        if twice := [file for file, count in counted.items() if count > 1]:\n",
        new="        if twice := [file for file, count in counted.items() if count > 2]:\n",
        tests=("tests/engines/test_parquet_rows.py",),
    ),
    Guard(
        "a file without a used column counts as nulls",
        file="engines/parquet_rows.py",
        old="        if every and not missing:\n",
        new="        if every and missing:\n",
        tests=("tests/pipeline/test_missing_column.py",),
    ),
    _signs(
        "a header with ; says nothing of numbers and is read",
        file="engines/csv_header.py",
        old="(columns and between == _MOSTLY_COMMA) or (numbers",
        new="(numbers and between != _MOSTLY_COMMA",
    ),
    _signs(
        "a column alone is read with a point",
        file="engines/csv_header.py",
        old='(numbers and between != ",")',
        new="(numbers and between not in (*_DELIMITERS, _NO_DELIMITER))",
    ),
    _signs(
        "whole numbers between tabs are read with a point",
        file="engines/csv_header.py",
        old="kinds = (Kind.number,) if between == _NO_DELIMITER else _NUMBERS",
        new="kinds = (Kind.number,)",
    ),
    _signs(
        "the lines of a column alone are cut at commas",
        file="engines/csv_header.py",
        old="    return Header(delimiter if shown else _NO_DELIMITER, names)\n",
        new="    return Header(delimiter, names)\n",
    ),
    _signs(
        "a point is a decimal sign beside the comma",
        file="engines/csv_rows.py",
        old='    other = cells if decimal == "." else ',
        new="    other = cells if decimal else ",
    ),
    _signs(
        "a number of its own spelling is joined by its text",
        file="engines/duckdb_view.py",
        old="    if both and source.dialect.decimal is not None:\n",
        new="    if both and source.dialect.decimal is None:\n",
    ),
    Guard(
        "plain scalars of a contract are read by their look",
        file="schema/importers/contracts.py",
        old="return parse_yaml(text, str(path), typed=False).data",
        new="return parse_yaml(text, str(path)).data",
        tests=("tests/schema/importers/test_contracts.py",),
    ),
    Guard(
        "a contract's format of days is known in any case",
        file="schema/importers/keys.py",
        old="{said, said.lower()} & set(values)",
        new="said.lower() in map(str.lower, values)",
        tests=("tests/schema/importers/test_contracts.py",),
    ),
    Guard(
        "a column in an expression is compared between its steps",
        file="query/nodes.py",
        old='    found = _linear(Arithmetic("-", left, right))\n',
        new='    found = isinstance(left, ColumnRef) and _linear(Arithmetic("-", left, right)) or None\n',
        tests=("tests/release_plan/test_steps.py",),
    ),
    Guard(
        "a label beyond what its column's type holds counts nothing",
        file="engines/physical.py",
        old="    if never is None and stored in _VALUES:\n",
        new="    if never is None and stored not in _VALUES:\n",
        tests=("tests/contracts/test_cells.py",),
    ),
)
