from __future__ import annotations

from dataclasses import replace
from typing import Any

import dprelease as dp
from dprelease.release_plan.tables import FitTable
from dprelease.results.formats.hierarchy import layers, not_adding_up
from dprelease.results.formats.public_words import planned_words as words_of
from tests.several_tables import TREE, USER, schema

MARGINS = [
    {"name": "nation", "by": [], "statistics": ["count"]},
    {"name": "regions", "by": ["region"], "statistics": ["count"]},
    {"name": "sexes", "by": ["sex"], "statistics": ["count"]},
    {"name": "districts", "by": ["district", "sex"], "statistics": ["count"]},
]


def drawn(made: dict[str, Any]) -> list[list[tuple[str, list[str]]]]:
    plan = dp.plan(made)
    return [[(t["name"], t["of"]) for t in layer] for layer in layers(plan.tables, words_of(plan))]


def test_tables_stand_below_those_that_they_add_up_to() -> None:
    assert drawn(schema(MARGINS)) == [
        [("nation", [])],
        [("regions", ["nation"]), ("sexes", ["nation"])],
        [("districts", ["regions", "sexes"])],  # and not the nation again
    ]
    assert drawn(schema(list(reversed(MARGINS)))) == [
        [("nation", [])],
        [("sexes", ["nation"]), ("regions", ["nation"])],
        [("districts", ["sexes", "regions"])],
    ]


def test_the_hierarchy_says_where_numbers_come_from() -> None:
    totals = [{"table": "nation", "statistic": "count", "values": [["600"]]}]
    count = [{**t, "statistics": ["count"]} for t in TREE]
    made = schema(
        [count[0], {**count[1], "share": 0.5}, count[2]],
        adjacency="substitution",
        rows={"exact": 600},
        release={"totals": totals},
    )
    plan = dp.plan(made)
    tables, words = plan.tables, words_of(plan)
    assert tables is not None
    found = {
        t["name"]: (t["origin"], t["groups"]) for layer in layers(tables, words) for t in layer
    }
    assert found == {
        "nation": ("stated by the publisher", 1),
        "regions": ("measured", 2),
        "districts": ("measured", 12),
    }
    (fit,) = tables.fits
    none = FitTable("nation", "count", "count", None)
    added = replace(tables, fits=(replace(fit, tables=(none, fit.in_table("regions"))),))
    assert layers(added, words)[0][0]["origin"] == "not measured, added up"
    # a set: one block is behind all of them
    together = replace(tables, fits=(replace(fit, tables=(none,)),))
    assert layers(together, words)[0][0]["origin"] == "measured together with the others"


def test_the_hierarchy_names_what_does_not_add_up() -> None:
    several = ["count", "count(persons)", "mean(income)"]
    tables = [{**t, "statistics": several} for t in TREE]
    apart = {"computed": ["mean(income)"], "apart": ["count(persons)"], "drawn": []}
    assert not_adding_up(dp.plan(schema(tables, unit=USER))) == apart
    one = schema(tables, unit={**USER, "max_groups": 1})
    assert not_adding_up(dp.plan(one)) == {**apart, "apart": []}
    bins = [
        {**TREE[0], "statistics": ["count"]},
        {**TREE[2], "statistics": ["count", "sum(income)"]},
    ]
    assert not_adding_up(dp.plan(schema(bins))) == {"computed": [], "apart": [], "drawn": []}
