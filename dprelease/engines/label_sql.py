"""Joins of rows with public tables: key labels, whole keys, and the values behind label codes.

A joined table holds each text once, so a row meets at most one of its rows: a join neither drops nor
repeats rows by what another row holds. Texts are compared as stored (`identity`).
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from dprelease.engines.code_sql import aliased, column, is_null, named_table
from dprelease.engines.request import declared_labels
from dprelease.engines.row_sql import RowStages
from dprelease.engines.typed_sql import case, number, try_cast
from dprelease.query.bounded import Label
from dprelease.schema.column import Kind

__all__ = ["LabelStages"]


class LabelStages(RowStages):
    """The joins, beside the stages of the rows."""

    def _key(self) -> exp.Expression:
        """Return the one key column under its own name."""
        name = self.place[self.query.groups.columns[0].name]
        return aliased(column(name, "t"), name)

    def _with_label(self, select: exp.Select, i: int) -> exp.Select:
        """Join key column `i` with its public labels and select the label's number as `g{i}`."""
        declared = self.query.groups.columns[i]
        numbers = self._label_numbers(i)
        own = declared_labels(self.query, i)
        name, alias = f"labels_{i}", f"l{i}"
        values = pa.array(own, pa.string())
        labels = pa.array([numbers.get(v) for v in own], pa.int32())
        self.tables[name] = pa.table({"value": values, "label": labels})
        text = self._value(declared.name)
        if declared.kind is Kind.boolean:
            text = try_cast(text, "VARCHAR")

        null, other = numbers.get(declared.null_key), numbers.get(declared.other)
        label = column("label", alias)  # null where no text is met
        if null is not None or other is not None:
            # an undeclared text that happens to spell `other` or the null label is not that key
            label = case(
                (is_null(self._value(declared.name)), _label(null)),
                (is_null(column("value", alias)), _label(other)),
                default=label,
            )
        same = exp.EQ(this=column("value", alias), expression=text)
        select = select.join(named_table(name, alias), on=same, join_type="left", copy=False)
        return select.select(aliased(label, f"g{i}"), copy=False)

    def _label_numbers(self, place: int) -> dict[str | None, int]:
        """Return a number per label that occurs in a key at `place`, in order of occurrence."""
        return {v: i for i, v in enumerate(dict.fromkeys(k[place] for k in self.query.groups.keys))}

    def _join_keys(self, select: exp.Select, width: int) -> exp.Select:
        keys = self.query.groups.keys
        table = {"g": pa.array(range(len(keys)), pa.int32())}
        on: exp.Expression = exp.true()
        for i in range(width):
            numbers = self._label_numbers(i)
            table[f"k{i}"] = pa.array([numbers[k[i]] for k in keys], pa.int32())
            same = exp.EQ(this=column(f"k{i}", "k"), expression=column(f"g{i}", "t"))
            on = same if i == 0 else exp.And(this=on, expression=same)
        self.tables["group_keys"] = pa.table(table)
        return select.join(named_table("group_keys", "k"), on=on, copy=False)

    def _join_values(self, select: exp.Select, j: int, code: Label) -> exp.Select:
        """Join the rows with the public values behind code `j`, each value once."""
        name, alias = f"values_{j}", f"d{j}"
        values = pa.array(code.values, pa.string())
        self.tables[name] = pa.table(
            {"value": values, "code": pa.array(range(len(values)), pa.int64())}
        )
        same = exp.EQ(this=column("value", alias), expression=self._clean(code.column))
        return select.join(named_table(name, alias), on=same, join_type="left", copy=False)


def _label(found: int | None) -> exp.Expression:
    return exp.Null() if found is None else number(found)
