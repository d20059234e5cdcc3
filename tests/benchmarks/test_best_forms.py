"""The page of best forms: what is measured anew replaces its own row, and a ratio above 1.1 has a reason or says so."""

from __future__ import annotations

from tests.benchmarks.test_scripts import load

ROW = "| {} | {} | 1 | 5 | 55 | 5 | scalar, staircase | 0.6 | 0.5 | {} | 0.7 | 0.6 | {} |"


def test_a_ratio_has_a_reason_or_says_that_none_was_separated() -> None:
    script = load("best_forms")
    name = "row, add or remove"
    kept = script.told(ROW.format("count", name, "1.05", "1.10"), "day")
    known = script.told(ROW.format("count", name, "1.14", "1.25"), "day")
    average = script.told(ROW.format("sum(x)", name, "1.05", "1.25"), "day")
    none = script.told(ROW.format("sum(x)", name, "1.31", "1.00"), "day")
    assert kept.endswith("| day |  |")
    assert "Ghosh" in known
    assert "judge: worst" in average
    persons = "person of 2 rows, replace"
    assert script.reason("count", persons) == script.NOT_SEPARATED
    assert none.endswith(f"| {script.NOT_SEPARATED} |")
    assert {text for text, _, _ in script.REASONS} <= set(script.STATISTICS)
    assert all(any(part in world for world in script.WORLDS) for _, part, _ in script.REASONS)


def test_only_what_is_measured_anew_is_replaced() -> None:
    script = load("best_forms")
    name, other = list(script.WORLDS)[:2]
    before = [script.told(ROW.format("sum(x)", w, "1.31", "1.20"), "old") for w in (other, name)]
    page = script.merged("\n".join(before), [])
    again = script.merged(page, [script.told(ROW.format("sum(x)", name, "1.00", "1.00"), "new")])
    rows = [line for line in again.splitlines() if line.startswith("| sum")]
    assert [(name in row, "| new |" in row) for row in rows] == [(True, True), (False, False)]
    assert "of 2 rows 1 are above" in again
    assert script.merged(again, []) == again
