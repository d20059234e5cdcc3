"""Guards of weighted statistics and ratios of sums."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_moves = partial(
    Guard,
    file="wall/code_sensitivity.py",
    tests=("tests/contracts/test_weighted_sensitivities.py",),
)

_where = partial(Guard, tests=("tests/query/test_where.py",))

GUARDS = (
    _where(
        "a statistic of some rows is of all of them",
        "query/derived.py",
        """f'case when ({where}) then "{quoted}" end'""",
        """f'"{quoted}"'""",
    ),
    _where(
        "rows that a condition leaves out have a null's default",
        "query/derived.py",
        "made=made, null_default=None, null_label=None",
        "made=made",
    ),
    _where(
        "rows are counted whether their condition is true or false",
        "statistics/count.py",
        "int(context.code is not None)),)",
        "0),)",
    ),
    _where(
        "persons of some rows are counted by all their rows",
        "statistics/count.py",
        "if spec.where and kind is persons:",
        "if spec.where and kind is None:",
    ),
    _where(
        "quantiles of different rows are put in one order",
        "results/consistency.py",
        "return found.identity if found.where else found.arguments",
        "return found.arguments",
    ),
    _where(
        "sums of different rows are fitted as one number",
        "planning/tables/families.py",
        "key: Key = (statistic.function, statistic.spec.identity)",
        "key: Key = (statistic.function, statistic.spec.arguments)",
    ),
    _where(
        "a share of some rows is of all of them",
        "query/arguments.py",
        'f"case when ({spec.where}) then ({spec.arguments[0]}) end"',
        'f"({spec.arguments[0]})"',
    ),
    _moves(
        "a weighted row cannot come or go",
        old="return row, max(row, swap) if absent else swap",
        new="return row, swap",
    ),
    _moves(
        "only the heaviest weight and the greatest value are tried",
        old="for a, b in product((0, top[0]), (0, top[1]))",
        new="for a, b in ((top[0], top[1]),)",
    ),
    Guard(
        "a row of a ratio has both columns",
        file="statistics/types_of_change.py",
        old="*(() if keeps_every_row(query.columns, c) else (None,))",
        new="",
        tests=("tests/contracts/test_weighted_sensitivities.py",),
    ),
    Guard(
        "sums of a ratio may be over different rows of a unit",
        file="wall/recompute.py",
        old="if len({p.max_rows for p in used}) > 1:",
        new="if len({p.max_rows for p in used}) > 9:",
        tests=("tests/contracts/test_weighted_sensitivities.py",),
    ),
    Guard(
        "a label is multiplied with a weight",
        file="wall/recompute.py",
        old="if low or isinstance(query.codes[code], Label):",
        new="if low:",
        tests=("tests/contracts/test_weighted_sensitivities.py",),
    ),
    Guard(
        "weights may be negative",
        file="query/weight.py",
        old="if code.grid.lower < 0:",
        new="if code.grid.upper < 0:",
        tests=("tests/statistics/test_weighted.py",),
    ),
    Guard(
        "rows without a weight are publicly many",
        file="query/weight.py",
        old="size = None if weight.code.default is None else found.public_rows",
        new="size = found.public_rows",
        tests=("tests/statistics/test_weighted.py",),
    ),
    Guard(
        "a quotient of sums over different rows is read as a weighted mean",
        file="query/select_calls.py",
        old="if column is not None and column.null_default is None:",
        new="if column is None:",
        tests=("tests/query/test_select_sums.py",),
    ),
)
