"""GROUP BY of the SQL door with several grouping sets: what DuckDB groups by, as tables; all else refused."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import dprelease as dp
from dprelease.core.errors import DpreleaseError
from dprelease.pipeline.planned import plan_release
from dprelease.query.load import schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.select import parse_select
from dprelease.release_plan.plan import ReleasePlan
from tests.several_tables import people, schema

PEOPLE = schema_from_dict({k: v for k, v in schema().items() if k != "release"})
TEXTS = [
    "sex",
    "(district, sex)",
    "ROLLUP(district)",
    "ROLLUP(district, sex)",
    "ROLLUP((district, sex), age)",
    "CUBE(district, sex)",
    "CUBE((district, sex), age)",
    "GROUPING SETS ((district, sex), (district), ())",
    "GROUPING SETS (district, sex, (district, sex))",
    "GROUPING SETS (ROLLUP(district, sex), age)",
    "GROUPING SETS (GROUPING SETS (age), CUBE(sex))",
    "district, ROLLUP(sex)",
    "ROLLUP(district), CUBE(sex)",
    "sex, GROUPING SETS (district, (district, sex, age))",
    "people.district, rollup (people.sex)",
]


def planned(sql: str) -> ReleasePlan:
    return plan_release(PEOPLE, {"sql": sql, "epsilon": 1}, origin="sql(...)", table="people")


def sets_of(text: str) -> list[list[str]]:
    """Return the keys of each table that `text` asks for."""
    block = parse_select(f"SELECT COUNT(*) FROM people GROUP BY {text}", PEOPLE).block
    tables: Any = block.get("tables", [block])
    return [table["by"] for table in tables]


@pytest.mark.parametrize("text", TEXTS)
def test_the_tables_are_the_grouping_sets_of_a_database(text: str) -> None:
    columns = [c for c in ("district", "sex", "age") if c in text]
    people_ = people()
    with duckdb.connect() as base:
        base.register("people", people_)
        mask = f"GROUPING({', '.join(columns)})"
        found = base.sql(f"SELECT DISTINCT {mask} FROM people GROUP BY {text}").fetchall()
    places = [1 << i for i in reversed(range(len(columns)))]
    theirs = {
        frozenset(c for c, bit in zip(columns, places, strict=True) if not m & bit)
        for (m,) in found
    }
    ours = sets_of(text)
    assert {frozenset(keys) for keys in ours} == theirs
    assert len(ours) == len(theirs)


def test_order_and_names_are_those_of_the_text() -> None:
    assert sets_of("ROLLUP(region, district)") == [["region", "district"], ["region"], []]
    assert sets_of("CUBE(a, b)") == [["a", "b"], ["a"], ["b"], []]
    sql = 'SELECT sex, COUNT(*) AS n FROM people GROUP BY ROLLUP(sex, "a b")'
    block: Any = parse_select(sql, PEOPLE).block
    assert [t["name"] for t in block["tables"]] == ["by_sex_a_b", "by_sex", "all_rows"]
    assert block["tables"][1] == {
        "name": "by_sex", "by": ["sex"], "statistics": [{"statistic": "count", "as": "n"}]
    }  # fmt: skip


def test_the_plan_is_that_of_the_same_tables() -> None:
    sql = "SELECT COUNT(*), SUM(income) FROM people WHERE income > 0 GROUP BY ROLLUP(region, district)"
    both = ["count", "sum(income)"]
    same = [
        {"name": "by_region_district", "by": ["region", "district"], "statistics": both},
        {"name": "by_region", "by": ["region"], "statistics": both},
        {"name": "all_rows", "by": [], "statistics": both},
    ]
    asked = planned(sql)
    assert asked.hash == dp.plan(PEOPLE, tables=same, where="income > 0", epsilon=1).hash
    given = merge_release(schema_from_dict(schema()), {"sql": sql})
    assert [t.name for t in given.tables] == ["by_region_district", "by_region", "all_rows"]
    alone = merge_release(schema_from_dict(schema()), {"sql": "SELECT COUNT(*) FROM people"})
    assert (alone.tables, alone.by) == ((), ())


def test_totals_of_tables_that_were_replaced_are_left_out() -> None:
    totals = [{"table": "nation", "statistic": "count", "values": [["600"]]}]
    stated = schema(adjacency="substitution", rows={"exact": 600}, release={"totals": totals})
    sql = "SELECT COUNT(*) FROM people GROUP BY ROLLUP(district)"
    assert merge_release(schema_from_dict(stated), {"sql": sql}).totals == ()
    own = [{"table": "all_rows", "statistic": "count", "values": [["600"]]}]
    assert merge_release(schema_from_dict(stated), {"sql": sql, "totals": own}).totals


@pytest.mark.filterwarnings("ignore::dprelease.core.errors.UnledgeredWarning")
def test_what_is_published_adds_up() -> None:
    sql = "SELECT district, COUNT(*) FROM people GROUP BY GROUPING SETS ((district, sex), sex, ())"
    release = dp.sql(sql, PEOPLE, epsilon=1, people=people())
    cells = release.to_pandas("by_district_sex")
    sexes = release.to_pandas("by_sex").set_index("sex")["count"]
    assert dict(cells.groupby("sex")["count"].sum()) == dict(sexes)
    assert release.to_pandas("all_rows")["count"][0] == sexes.sum()


FAULTS = {
    "ROLLUP(sex, sex)": ("DPR255", 38),
    "GROUPING SETS (sex, (sex))": ("DPR255", 38),
    "ROLLUP(sex), ROLLUP(district), sex": ("DPR255", 38),
    "CUBE(a, b, c, d, e, f)": ("DPR255", 38),
    "CUBE(a, b, c), CUBE(d, e, f)": ("DPR255", 38),
    "ROLLUP(lower(sex))": ("DPR255", 45),
    "ROLLUP(1)": ("DPR255", 45),
    "ROLLUP(sex": ("DPR120", 44),
    "ROLLUP()": ("DPR255", 45),
    "GROUPING SETS sex": ("DPR255", 52),
    "GROUPING SETS (" * 30 + "sex" + ")" * 30: ("DPR255", 158),
    "GROUPING SETS (ALL)": ("DPR255", 53),
    "sex WITH ROLLUP": ("DPR251", 42),
    "ROLLUP(sex) HAVING COUNT(*) > 1": ("DPR251", 50),
    "ROLLUP(agge)": ("DPR122", 45),
    "ROLLUP(age)": ("DPR136", 45),
}


@pytest.mark.parametrize("text", FAULTS, ids=lambda text: text[:40])
def test_everything_else_is_refused_where_it_stands(text: str) -> None:
    code, column = FAULTS[text]
    with pytest.raises(DpreleaseError) as caught:
        merge_release(PEOPLE, {"epsilon": 1, "sql": f"SELECT COUNT(*) FROM people GROUP BY {text}"})
    assert (caught.value.code, caught.value.fix is not None) == (code, True)
    assert (caught.value.where or "").startswith(f"SQL, line 1, column {column}"), (
        caught.value.where
    )


@pytest.mark.parametrize(
    ("item", "text", "code"),
    [
        ("VAR_POP(income)", "ROLLUP(sex)", "DPR292"),
        ("COUNT(*), SUM(income)", "GROUPING SETS (sex, region)", "DPR290"),
        ("COUNT(*)", "ROLLUP(district, region)", "DPR290"),
        ("GROUPING(sex), COUNT(*)", "ROLLUP(sex)", "DPR257"),
        ("income, COUNT(*)", "ROLLUP(sex)", "DPR255"),
    ],
)
def test_what_cannot_add_up_is_refused_with_its_place(item: str, text: str, code: str) -> None:
    sql = f"SELECT {item} FROM people GROUP BY {text}"
    with pytest.raises(DpreleaseError) as caught:
        planned(sql)
    assert caught.value.code == code
    assert "SQL, line 1, column" in str(caught.value)


def test_averages_are_quotients_of_fitted_sums() -> None:
    plan = planned("SELECT AVG(income), COUNT(*) FROM people GROUP BY ROLLUP(sex)")
    assert plan.tables is not None
    assert [(r.table, r.top, r.bottom) for r in plan.tables.ratios] == [
        (table, "sum of income around the middle", "count") for table in ("by_sex", "all_rows")
    ]
