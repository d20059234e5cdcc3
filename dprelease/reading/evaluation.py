"""An expression over published values, evaluated row by row into quantities.

A row of the result fixes the key columns in `by`. A published name stands for its value in the row's
group, pooled over the key columns that `by` leaves out; `standardise` runs over these columns
instead, and `total` and `rank` over all rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dprelease.core.errors import ArgumentError
from dprelease.core.periods import every_of, following_period, names_a_period
from dprelease.query import nodes as n
from dprelease.query.nodes import Node
from dprelease.reading.grammar import PREVIOUS, Across, Reference, references
from dprelease.reading.public_table import PublicTable
from dprelease.reading.quantity import Quantity, added, combined, number
from dprelease.reading.released_values import Key, ReleasedValues
from dprelease.schema.naming import texts_given


class Periods:
    """The releases that an expression may speak of: one, or those of a series."""

    def __init__(
        self, current: ReleasedValues, name: str | None, others: Mapping[str, ReleasedValues]
    ) -> None:
        self.current, self._name, self._others = current, name, others

    def named(self, period: str | None) -> ReleasedValues:
        """Return the release of a period, None being the current one.

        Raises:
            ArgumentError: there is no such period (DPR664).
        """
        if period is None:
            return self.current
        names = list(self._others)
        wanted = self.before() if period == PREVIOUS else period
        if wanted in names:
            return self._others[wanted]
        side = "before" if period == PREVIOUS else f"`{period}` beside"
        raise ArgumentError(
            f"there is no period {side} {self._name or 'this release'} that stands",
            where="derive(...)",
            why="other periods are read from the folders beside a publication",
            fix=f"published are: {'…, ' * (len(names) > 5)}{', '.join(names[-5:])}"
            if names
            else "read it with dp.read(folder)",
            code="DPR664",
        )

    def before(self) -> str | None:
        """Return the name of the period before the current one, of those that are here."""
        names = list(self._others)
        at = names.index(self._name) if self._name in names else 0
        return names[at - 1] if at else None

    def gap(self) -> tuple[str, ...]:
        """Say that periods lie between the current one and the one before it here, if some do."""
        own, before = self._name or "", self.before() or ""
        if not (names_a_period(own) and names_a_period(before)):
            return ()
        between = following_period(before, every_of(before)) != own
        return (f"compared with {before}: no period in between stands here",) * between


def result_keys(
    tree: Node, values: ReleasedValues, wanted: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the result's key columns: those asked for, coarser levels of them too, or those that some name leaves open.

    Raises:
        ArgumentError: an unknown column (DPR661).
    """
    by = values.by
    if wanted is not None:
        known, wanted = (*values.levels, *by), texts_given(wanted)
        for name in wanted:
            if name not in known:
                raise ArgumentError(
                    f"`{name}` is not a key column of the release",
                    where="by",
                    fix=f"its key columns are: {', '.join(by) or 'none'}"
                    + (f"; their coarser levels: {', '.join(values.levels)}" * bool(values.levels)),
                    code="DPR661",
                )
        return tuple(name for name in known if name in wanted)
    free = set(_free(tree, by))
    return tuple(name for name in by if name in free)


def _free(tree: Node, by: Sequence[str]) -> set[str]:
    if isinstance(tree, Reference) and tree.table is not None:
        return set(by) if tree.keyed else set()
    if isinstance(tree, Reference):
        return set() if tree.public else set(by) - {column for column, _ in tree.where}
    if isinstance(tree, Across):
        return _free(tree.operand, by) if tree.how in ("rank", "share", "top") else set()
    return set().union(*(_free(child, by) for child in n.children(tree)))


def _in_its_place(
    own: ReleasedValues, other: ReleasedValues, row: Mapping[str, str], where: Mapping[str, str]
) -> Sequence[int]:
    """Return the groups of another table at a row's place, but for the columns that the name fixes."""
    sharing = own.groups_sharing_rows(other, row)
    if not where:
        return sharing
    still = [i for i, column in enumerate(other.by) if column not in where]
    here = {tuple(other.keys[group][i] for i in still) for group in sharing}
    return [g for g in other.groups_in(where) if tuple(other.keys[g][i] for i in still) in here]


def _no_group(node: Reference, values: ReleasedValues, row: Mapping[str, str]) -> ArgumentError:
    """Return the refusal of a name that means no published group in a row of the result."""
    where = dict(node.where)
    fixed = {**row, **where}
    left = [label for column, label in row.items() if column not in where]
    if not where or not left or node.table is not None:
        return ArgumentError(
            f"`{node.name}` has no group {' · '.join(fixed.values())}",
            where="derive(...)",
            why=None if node.period is None else f"in period {node.period}",
            fix="ask for groups that were published",
            code="DPR664",
        )
    written = f"{node.name}[{', '.join(f'{c}={_quoted(label)}' for c, label in where.items())}]"
    coarser = (name for name, other in values.others.items() if _has(other, node.name, where))
    table = next(coarser, None)
    return ArgumentError(
        f"`{written}` is not a published group in the row {' · '.join(left)}",
        where="derive(...)",
        why=f"it fixes {', '.join(where)}; the other key columns are the row's, and nothing was published of both",
        fix=f"name the table of whole groups: {table}.{written}"
        if table is not None
        else f"leave the other key columns out: by={list(where)!r}, or --by {','.join(where)}",
        code="DPR664",
    )


def _has(other: ReleasedValues, name: str, where: Mapping[str, str]) -> bool:
    return name in other.columns and set(other.by) == set(where)


def _quoted(label: str) -> str:
    return "'" + label.replace("'", "''") + "'"


class Evaluation:
    """One expression over one period."""

    def __init__(self, periods: Periods, keys: Sequence[str], public: PublicTable | None) -> None:
        self.periods, self.keys, self.public = periods, tuple(keys), public
        self.rows: tuple[Key, ...] = tuple(dict.fromkeys(periods.current.labelled(keys)))
        self._totals: dict[object, Quantity] = {}
        self._of_parts: set[object] = set()

    def remarks(self, node: Node, used: Sequence[Key]) -> tuple[str, ...]:
        """Say which rows are left out, as another period that the expression names has other groups, or that it pools other ones; and which periods lie between."""
        mine, named = self.periods.current, {n.period for n in references(node) if n.table is None}
        gap = self.periods.gap() if PREVIOUS in named else ()
        if all(set(mine.keys) == set(self.periods.named(name).keys) for name in named):
            return gap
        gone = [" · ".join(row) for row in self.rows if row not in set(used)]
        said = ["the periods do not have the same groups: pooled are those of each"]
        more = f" and {len(gone) - 5:,} more" * (len(gone) > 5)
        out = [f"left out, as not in the other period: {', '.join(gone[:5])}{more}"]
        return gap + tuple(said * (len(self.keys) < len(mine.by)) + out * bool(gone))

    def lacks(self, node: Node, row: Key) -> bool:
        """Return whether a group of this period was not published in another one that the expression names."""
        fixed = dict(zip(self.keys, row, strict=True))
        return any(
            not self.periods.named(name.period).groups_in(fixed | dict(name.where))
            for name in references(node)
            if name.period is not None and name.table is None
        )

    def quantity(self, node: Node, row: Key) -> Quantity:
        """Return the quantity of one row.

        Raises:
            ArgumentError: as its parts (DPR660 to DPR666).
        """
        return self._evaluated(node, dict(zip(self.keys, row, strict=True)))

    def _evaluated(self, node: Node, row: dict[str, str]) -> Quantity:
        match node:
            case Reference(public=True):
                assert self.public is not None
                return number(self.public.number(node.name, row))
            case Reference():
                return self._published(node, row)
            case n.Literal(value=float(value)):
                return number(Fraction(repr(value)))
            case n.Negate():
                return combined("*", number(Fraction(-1)), self._evaluated(node.operand, row))
            case n.Arithmetic(op=op) if op in ("+", "-", "*", "/"):
                left, right = self._evaluated(node.left, row), self._evaluated(node.right, row)
                return combined(op, left, right)
            case Across(how="total"):
                return self._total(node.operand)
            case Across(how="share"):
                return self._share(node.operand, row)
            case Across(how="standardise"):
                return self._standardised(node, row)
        raise ArgumentError(
            "an expression over published values knows + - * / and a few functions",
            where="derive(...)",
            fix="write e.g. late / count, share(count), growth(count)",
            code="DPR660",
        )

    def _published(self, node: Reference, row: dict[str, str]) -> Quantity:
        own = values = self.periods.named(node.period)
        fixed = {**row, **dict(node.where)}
        if node.table is not None:
            values = own.others.get(node.table, own)
        gone = node.table is not None and values is own
        if gone or node.name not in values.columns:
            named = node.name if node.table is None else f"{node.table}.{node.name}"
            raise ArgumentError(
                f"period `{node.period}` has no `{named}`",
                where="derive(...)",
                fix="ask for periods of the same definition",
                code="DPR664",
            )
        groups = values.groups_in(fixed)
        if node.table is not None:
            groups = _in_its_place(own, values, row, dict(node.where))
        if not groups:
            raise _no_group(node, values, row)
        return values.pooled(node.name, groups)

    def _share(self, operand: Node, row: dict[str, str]) -> Quantity:
        own, total = self._evaluated(operand, row), self._total(operand)
        found = combined("/", own, total)
        within = (0.0, 1.0) if operand in self._of_parts else found.domain
        return replace(found, domain=within)

    def _total(self, operand: Node) -> Quantity:
        if operand not in self._totals:
            found = [self.quantity(operand, row) for row in self.rows]
            self._totals[operand] = added(found)
            if all(
                part.domain[0] >= 0 for part in found
            ):  # a public number has its own in each row
                self._of_parts.add(operand)
        return self._totals[operand]

    def _standardised(self, node: Across, row: dict[str, str]) -> Quantity:
        values = self.periods.current
        assert node.weights is not None
        total, weight = None, number(Fraction(0))
        for group in values.groups_in(row):
            inner = dict(zip(values.by, values.keys[group], strict=True))
            share = self._evaluated(node.weights, inner)
            part = combined("*", share, self._evaluated(node.operand, inner))
            total = part if total is None else combined("+", total, part)
            weight = combined("+", weight, share)
        assert total is not None
        return combined("/", total, weight)
