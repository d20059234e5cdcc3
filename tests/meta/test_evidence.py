"""The table is written and read back without loss."""

from __future__ import annotations

from tests.evidence import TABLE, rows_of, table


def test_rows_survive_a_rewrite():
    rows = {"kill -9": ("100 rounds", "1.5", "120 kills"), "race": ("50", "2.0", "ok")}
    assert rows_of(table(rows)) == rows
    assert rows_of(table({})) == {}


def test_the_committed_table_is_one_of_ours():
    rows = rows_of(TABLE.read_text(encoding="utf-8"))
    assert {"kill -9", "power loss", "same key", "race for the last budget"} <= set(rows)
    assert all(float(seconds) >= 0 for _, seconds, _ in rows.values())
