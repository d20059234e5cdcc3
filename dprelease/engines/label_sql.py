"""Joins of rows with public tables: key labels, whole keys, and the values behind label codes.

A joined table holds each text once, so a row meets at most one of its rows: a join neither drops nor
repeats rows by what another row holds. Texts are
compared as `schema.labels` says.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa
from sqlglot import exp

from dprelease.engines.code_sql import aliased, all_of, column, is_null, named_table
from dprelease.engines.request import declared_labels
from dprelease.engines.row_sql import RowStages
from dprelease.engines.typed_sql import Make, case, number, trimmed, try_cast
from dprelease.query.bounded import Label
from dprelease.schema.column import Column, Kind
from dprelease.schema.labels import BLANK, texts_of
from dprelease.schema.naming import LONGEST_KEY, UNFIT


class LabelStages(RowStages):
    """The joins, beside the stages of the rows."""

    def _key(self) -> exp.Expression:
        """Return the one key column under its own name."""
        name = self.place[self.query.groups.columns[0].name]
        return aliased(column(name, "t"), name)

    def _with_label(self, select: exp.Select, i: int) -> exp.Select:
        """Join key column `i` with its public labels and select the label's number as `g{i}`."""
        declared = self.query.groups.columns[i]
        if self.query.groups.found:
            return select.select(aliased(self._found_key(declared), f"g{i}"), copy=False)
        numbers = self._label_numbers(i)
        own = {v: v for v in declared_labels(self.query, i)}
        name, alias = f"labels_{i}", f"l{i}"
        text = partial(self._value, declared.name)
        if declared.kind is Kind.boolean:
            text = partial(_as_text, text)
        elif declared.values:
            own = texts_of(declared.values, declared.lists)
        values = pa.array(own, pa.string())
        labels = pa.array([numbers.get(v) for v in own.values()], pa.int32())
        self.tables[name] = pa.table({"value": values, "label": labels})

        keyed = declared if declared.kind is not Kind.boolean else None
        select, found = self._meeting(select, name, alias, keyed, text)
        null, other = numbers.get(declared.null_key), numbers.get(declared.other)
        label = found("label")  # null where no text is met
        if null is not None or other is not None:
            # an undeclared text that happens to spell `other` or the null label is not that key
            label = case(
                (is_null(self._value(declared.name)), _label(null)),
                (is_null(found("value")), _label(other)),
                default=label,
            )
        return select.select(aliased(label, f"g{i}"), copy=False)

    def _found_key(self, declared: Column) -> exp.Expression:
        """Return the key of a cell as `schema.naming.found_key` says it: by its own text alone."""
        cell = partial(self._value, declared.name)
        null, other = (
            exp.Null() if k is None else self._bind(k, "VARCHAR")
            for k in (declared.null_key, declared.other)
        )

        def short(text: exp.Expression) -> exp.Expression:
            length = exp.Length(this=text)
            few = exp.Between(this=length, low=number(1), high=number(LONGEST_KEY))
            return case((few, text.copy()), default=other.copy())

        unfit = exp.RegexpLike(this=cell(), expression=self._bind(UNFIT, "VARCHAR"))
        first, last = (
            exp.Like(this=cell(), expression=self._bind(pattern, "VARCHAR"))
            for pattern in (f"{BLANK}%", f"%{BLANK}")
        )
        blank = exp.Or(this=first, expression=last), short(trimmed(cell()))  # taking off is slow
        return case((is_null(cell()), null), (unfit, other), blank, default=short(cell()))

    def _label_numbers(self, place: int) -> dict[str | None, int]:
        """Return a number per label that occurs in a key at `place`, in order of occurrence."""
        labels = self.query.groups.labels(place)
        return dict(zip(labels, range(len(labels)), strict=True))

    def _join_keys(self, select: exp.Select, width: int) -> exp.Select:
        keys = self.query.groups.keys
        table = {"g": pa.array(range(len(keys)), pa.int32())}
        same = []
        for i in range(width):
            numbers = self._label_numbers(i)
            table[f"k{i}"] = pa.array([numbers[k[i]] for k in keys], pa.int32())
            same.append(exp.EQ(this=column(f"k{i}", "k"), expression=column(f"g{i}", "t")))
        self.tables["group_keys"] = pa.table(table)
        return select.join(named_table("group_keys", "k"), on=all_of(same), copy=False)

    def _join_values(
        self, select: exp.Select, j: int, code: Label
    ) -> tuple[exp.Select, exp.Expression]:
        """Join the rows with the public values behind code `j`; return them and the code."""
        every = (*self.query.columns, *self.query.groups.columns)
        declared = next((c for c in every if c.name == code.column), None)
        texts = {v: v for v in code.values}
        if declared is not None and declared.values and code.column not in self.clean:
            spelt = texts_of(declared.values, declared.lists)
            texts = {t: v for t, v in spelt.items() if v in texts}
        else:
            declared = None
        places = {v: place for place, v in enumerate(code.values)}
        numbers = pa.array([places[v] for v in texts.values()], pa.int64())
        name, alias = f"values_{j}", f"d{j}"
        self.tables[name] = pa.table({"value": pa.array(texts, pa.string()), "code": numbers})
        text = partial(self._clean, code.column)
        select, found = self._meeting(select, name, alias, declared, text)
        return select, found("code")


def _as_text(cell: Make) -> exp.Expression:
    return try_cast(cell(), "VARCHAR")


def _label(found: int | None) -> exp.Expression:
    return exp.Null() if found is None else number(found)
