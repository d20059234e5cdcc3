"""Hierarchies, tables and totals: read from files and mappings, refused where they cannot add up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dprelease as dp
from dprelease.core.errors import DpreleaseError
from dprelease.query.load import load_schema, schema_from_dict
from dprelease.query.request import request_from_json
from dprelease.query.spec import resolve
from dprelease.query.written import request_for_all_periods, request_to_json
from tests.several_tables import BOTH, PLACES, REGION, TREE, USER, schema

FINE = {"name": "districts", "by": ["district"], "statistics": ["count"]}
ADDED = ["count", "sum(income)"]
NATION = {"name": "nation", "by": [], "statistics": ["count"]}


def refused(made: dict[str, Any]) -> DpreleaseError:
    with pytest.raises(DpreleaseError) as caught:
        dp.plan(made)
    assert caught.value.fix
    return caught.value


def test_a_file_names_its_lists_and_reads_them(tmp_path: Path) -> None:
    (tmp_path / ".dprelease").mkdir()
    rows = "".join(f"{REGION[p]},{p}\n" for p in PLACES)
    (tmp_path / "places.csv").write_text(f"region,district\n{rows}")
    (tmp_path / "zeros.csv").write_text("district,sex\nd0,m\n")
    (tmp_path / "s.yaml").write_text(
        f"""dprelease: schema/1
name: people
unit: row
adjacency: add_remove
rows: {{max: 5000}}
columns:
  district: {{kind: category, values: [{", ".join(PLACES)}]}}
  sex: {{kind: category, values: [f, m]}}
hierarchies:
  place: {{levels: [region, district], keys_from: places.csv}}
release:
  epsilon: 1
  tables:
    - {{name: regions, by: [region], share: 0.4, statistics: [count]}}
    - {{name: districts, by: [district, sex], statistics: [count], zeros_from: zeros.csv}}
"""
    )
    found = load_schema(tmp_path / "s.yaml")
    assert found.hierarchies["place"].labels("region") == tuple(REGION[p] for p in PLACES)
    assert found.release is not None
    regions, districts = found.release.tables
    assert (regions.name, regions.by, float(regions.share or 0)) == ("regions", ("region",), 0.4)
    assert districts.zeros == (("d0", "m"),)
    query = resolve(found, found.release)
    assert query.tables is not None
    assert ("d0", "m") not in query.groups.keys
    assert len(query.groups.keys) == 2 * len(PLACES) - 1
    again = request_from_json(request_to_json(query))
    assert again.spec == query.spec or again.spec.tables[1].zeros == query.spec.tables[1].zeros
    assert request_to_json(again) == request_to_json(query)


def test_cells_are_crosses_of_levels() -> None:
    made = schema_from_dict(schema())
    assert made.release is not None
    tables = resolve(made, made.release).tables
    assert tables is not None
    assert tables.named("nation").keys == ((),)
    assert tables.named("regions").keys == (("r0",), ("r1",))
    districts = tables.named("districts")
    assert districts.keys[:3] == (("d0", "f"), ("d0", "m"), ("d1", "f"))
    for key, cell in zip(tables.groups.keys, tables.named("regions").of, strict=True):
        assert tables.named("regions").keys[cell] == (REGION[key[0]],)


def test_a_table_may_show_a_level_beside_its_column() -> None:
    both = {"name": "places", "by": ["region", "district"], "statistics": ["count"]}
    plan = dp.plan(schema([NATION, both]))
    assert plan.tables is not None
    assert plan.tables.named("places").keys == tuple((REGION[p], p) for p in PLACES)


WHOLE = {"levels": ["region", "district"], "keys": [[REGION[p], p] for p in PLACES]}


def test_a_title_of_a_level_is_words_only() -> None:
    plain = dp.plan(schema())
    titled = dp.plan(schema(hierarchies={"place": {**WHOLE, "titles": {"region": "Part"}}}))
    assert titled.hash == plain.hash
    assert plain.request is not None and titled.request is not None
    assert request_for_all_periods(plain.request) == request_for_all_periods(titled.request)
    assert request_to_json(plain.request) != request_to_json(titled.request)


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({"levels": ["region"], "keys": [["r"]]}, "DPR153", "two levels"),
        ({"levels": ["region", "town"], "keys": []}, "DPR153", "last level"),
        ({"levels": ["sex", "district"], "keys": []}, "DPR153", "also a column"),
        ({"levels": ["region", "district"]}, "DPR153", "keys_from"),
        ({"levels": ["region", "district"], "keys": [["r0", "d0"]]}, "DPR153", "has no row"),
        (
            {"levels": ["region", "district"], "keys": [["r", p] for p in [*PLACES, "d9"]]},
            "DPR153",
            "not a declared value",
        ),
        (
            {"levels": ["region", "district"], "keys": [["r", p] for p in [*PLACES, "d0"]]},
            "DPR153",
            "two rows",
        ),
        (
            {
                "levels": ["land", "region", "district"],
                "keys": [[f"l{i}", "r", p] for i, p in enumerate(PLACES)],
            },
            "DPR153",
            "lies in two of",
        ),
        ({**WHOLE, "titles": {"town": "Town"}}, "DPR153", "its levels are: region"),
        ({**WHOLE, "titles": {"district": "Place"}}, "DPR153", "give that column its own `title`"),
    ],
)
def test_a_hierarchy_that_is_none_is_refused(change: dict[str, Any], code: str, said: str) -> None:
    found = refused(schema(hierarchies={"place": change}))
    assert (found.code, said in str(found)) == (code, True), str(found)


@pytest.mark.parametrize(
    ("tables", "release", "code"),
    [
        ([], {}, "DPR154"),
        (TREE, {"by": ["sex"]}, "DPR137"),
        (TREE, {"statistics": ["count"]}, "DPR137"),
        (TREE, {"keys_from": "k.csv"}, "DPR137"),
        ([NATION, {**FINE, "name": "Nation"}], {}, "DPR154"),
        ([NATION, {**FINE, "name": "nation_wide"}], {}, "DPR154"),
        ([NATION, {**FINE, "name": "report"}], {}, "DPR154"),
        ([NATION, {**FINE, "by": ["distrct"]}], {}, "DPR122"),
        ([NATION, {**FINE, "by": ["income"]}], {}, "DPR136"),
        ([NATION, {**FINE, "by": ["district", "district"]}], {}, "DPR136"),
        ([NATION, {**FINE, "share": 1.5}], {}, "DPR119"),
        ([{**NATION, "share": 0.6}, {**FINE, "share": 0.6}], {}, "DPR119"),
        ([NATION, {**FINE, "detail": {"statistic": "count"}}], {}, "DPR154"),
        ([NATION, {**FINE, "statistics": [{"statistic": "count", "max_error": 0.5}]}], {}, "DPR240"),
        (
            [NATION, {**FINE, "statistics": [{"statistic": "count", "max_rows_per_group": 1}]}],
            {},
            "DPR154",
        ),
        ([NATION, {**FINE, "statistics": [{"statistic": "count", "share": 0.5}]}], {}, "DPR154"),
        ([NATION, {**FINE, "statistics": [{"statistic": "count", "spikes": "forbid"}]}], {}, "DPR154"),
        ([NATION, {**FINE, "statistics": ["count_distinct(income)"]}], {}, "DPR292"),
        ([NATION, {**FINE, "statistics": ["count", {"statistic": "count", "as": "n"}]}], {}, "DPR290"),
        ([NATION, {**NATION, "name": "land"}], {}, "DPR290"),
        ([NATION, {**FINE, "zeros": [["d9"]]}], {}, "DPR291"),
        ([NATION, {**FINE, "zeros": [[p] for p in PLACES]}], {}, "DPR291"),
        ([{**FINE, "name": "a", "statistics": ADDED}, {"name": "b", "by": ["sex"], "statistics": ADDED}], {}, "DPR290"),
        ([NATION, {**FINE, "by": ["district"], "statistics": [{"statistic": "count", "as": "status_"}, {"statistic": "sum(income)", "as": "status__lower"}]}], {}, "DPR207"),
        (
            [
                {**NATION, "statistics": [{"statistic": "count", "domain": {"range": [100, 5000]}}]},
                {**FINE, "statistics": [{"statistic": "count", "domain": {"range": [0, 10]}}]},
            ],
            {},
            "DPR281",
        ),
        (TREE, {"totals": [{"table": "town", "statistic": "count", "values": [["1"]]}]}, "DPR154"),
        (TREE, {"totals": [{"table": "nation", "statistic": "n", "values": [["1"]]}]}, "DPR154"),
        (TREE, {"totals": [{"table": "nation", "statistic": "count", "values": [["x"]]}]}, "DPR154"),
        (TREE, {"totals": [{"table": "nation", "statistic": "count", "values": [["600"]]}]}, "DPR294"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_add_up_is_refused_before_the_charge(
    tables: list[dict[str, Any]], release: dict[str, Any], code: str
) -> None:
    found = refused(schema(tables, release=release))
    assert found.code == code, str(found)


def test_persons_add_up_only_where_a_unit_is_in_one_group() -> None:
    tables = [{**t, "statistics": ["count(persons)"]} for t in TREE]
    one = dp.plan(schema(tables, unit={**USER, "max_groups": 1}))
    assert one.tables is not None
    assert [f.name for f in one.tables.fits] == ["count(persons)"]
    assert not any("in each of its cells" in note for note in one.notes)


def test_persons_of_several_groups_are_counted_once_in_each_cell_of_a_table() -> None:
    tables = [{**t, "statistics": ["count", "count(persons)"]} for t in TREE]
    plan = dp.plan(schema(tables, unit=USER))
    assert plan.tables is not None
    alone = [(f.name, [t.table for t in f.tables]) for f in plan.tables.fits if "per" in f.name]
    names = ("nation", "regions", "districts")
    assert alone == [(f"count(persons) of {name}", [name]) for name in names]
    moved = {
        t: plan.block(f"{t}.count_persons").measurement.sensitivity["l1_over_groups"] for t in names
    }  # of two groups, and not of two rows in each
    assert moved == {"nation": "1", "regions": "2", "districts": "2"}
    kinds = {p.kind: p.cells for p in plan.query.primitives if "persons" in p.kind}
    assert set(kinds) == {"persons", "persons_in_cells"}  # the finest groups are counted as ever
    (said,) = [note for note in plan.notes if "in each of its cells" in note]
    assert "nation, regions, districts" in said and "2 of the finest groups" in said


def test_totals_are_stated_where_they_may_be() -> None:
    totals = [{"table": "nation", "statistic": "count", "values": [["600"]]}]
    given = {"adjacency": "substitution", "rows": {"exact": 600}, "release": {"totals": totals}}
    plan = dp.plan(schema(**given))
    assert any("stated by the publisher, not protected" in note for note in plan.notes)
    assert not any(
        b.table == "nation" and "count" in b.name for b in plan.blocks
    )  # known: not measured
    assert any(b.table == "nation" for b in plan.blocks)  # its sum is not known
    nation = next(s for s in plan.statistics if (s.table, s.name) == ("nation", "count"))
    assert (nation.planned_error, nation.error_text) == (0, "stated by the publisher")
    assert refused(schema(**{**given, "unit": USER, "rows": {"max": 600}})).code == "DPR294"
    filtered = {**given, "release": {"totals": totals, "where": "income > 0"}}
    assert refused(schema(**filtered)).code == "DPR294"
    half = [{"table": "regions", "statistic": "count", "values": [["r0", "300"]]}]
    assert refused(schema(**{**given, "release": {"totals": half}})).code == "DPR294"


SEXES = {"kind": "category", "values": ["f", "m"]}
EVERY = {**SEXES, "other": {"as": "rest"}, "nulls": {"as": "rest"}}
BY_SEX = [NATION, {"name": "sexes", "by": ["sex"], "statistics": ["count"]}]


def of_sexes(column: dict[str, Any] = EVERY, **changed: Any) -> dict[str, Any]:
    given = {"adjacency": "substitution", "rows": {"exact": 600}, "hierarchies": {}}
    made = schema(BY_SEX, **{**given, **changed})
    return {**made, "columns": {**made["columns"], "sex": column}}


def test_the_public_number_of_rows_is_the_total_of_a_table_without_groups() -> None:
    plan = dp.plan(of_sexes())
    nation, sexes = plan.statistics
    assert (nation.planned_error, nation.error_text) == (0, "stated by the publisher")
    assert [b.table for b in plan.blocks] == ["sexes"]
    alone = dp.plan({**of_sexes(), "adjacency": "add_remove", "rows": {"max": 600}})
    assert sexes.planned_error < 0.9 * 2 * alone.statistics[1].planned_error


@pytest.mark.parametrize(
    "made",
    [
        of_sexes({**EVERY, "nulls": "drop"}),
        of_sexes({**SEXES, "nulls": {"as": "rest"}}),
        of_sexes(release={"where": "income > 0"}),
        of_sexes(adjacency="add_remove", rows={"max": 600}),
        of_sexes(unit=USER, rows={"max": 600}),
        of_sexes(rows={"max": 600}),
        of_sexes(release={"tables": [NATION, {**BY_SEX[1], "zeros": [["rest"]]}]}),
    ],
    ids=["nulls", "others", "where", "added", "users", "private", "zeros"],
)
def test_the_number_of_rows_is_not_public_where_a_row_can_be_in_no_group(
    made: dict[str, Any],
) -> None:
    plan = dp.plan(made)
    assert all(s.error_text != "stated by the publisher" for s in plan.statistics)


def test_a_level_of_one_group_is_the_table_of_all_rows() -> None:
    land = {"place": {"levels": ["land", "district"], "keys": [["all", p] for p in PLACES]}}
    tables = [
        {**NATION, "by": ["land"]},
        {"name": "sexes", "by": ["sex"], "statistics": ["count"]},
        {**FINE, "by": ["district", "sex"]},
    ]
    plan = dp.plan(
        schema(tables, hierarchies=land)
    )  # as `by: []`, its domain caps the margin of sexes
    assert plan.tables is not None
    structure = plan.tables.structure(["nation", "sexes", "districts"])
    assert [structure.tables[j].name for j in structure.chain] == ["nation", "sexes", "districts"]
    twice = refused(schema([NATION, *tables[1:], {**tables[0], "name": "land"}], hierarchies=land))
    assert twice.code == "DPR290"
    assert "`nation` and `land` have the same groups" in str(twice)


def test_what_a_refusal_of_tables_says_to_do_is_taken() -> None:
    sexes = {"name": "sexes", "by": ["sex"], "statistics": ["proportion(income > 3)"]}
    regions, fine = ({**sexes, "name": "r", "by": [k]} for k in ("region", "district"))
    fine = {**fine, "name": "f", "by": ["district", "sex"]}
    tables = [NATION, sexes, regions, fine]
    capped = refused(schema(tables))  # the table of all rows is there: what is asked of it decides
    assert (capped.code, "publish its statistics in the table of all rows" in str(capped)) == (
        "DPR283",
        True,
    )
    dp.plan(schema([{**NATION, "statistics": ["count", *sexes["statistics"]]}, *tables[1:]]))

    ages = {"name": "ages", "by": ["age_group", "sex"], "statistics": ["count"], "share": 0.5}
    columns = schema()["columns"] | {"age_group": {"kind": "category", "values": ["old", "young"]}}
    apart = [ages, {"name": "places", "by": ["district", "sex"], "statistics": ["count"]}]
    shared = refused(schema(apart, columns=columns))
    assert (shared.code, "`count` alone, without" in str(shared)) == ("DPR290", True)
    dp.plan(schema([{k: v for k, v in ages.items() if k != "share"}, apart[1]], columns=columns))

    pairs = {"all_pairs": ["district", "sex"], "statistics": ["count"]}
    twice = refused(schema([pairs, {"by": ["sex"], "statistics": ["count"]}]))
    assert (twice.code, "leave one out" in str(twice)) == ("DPR154", True)
    dp.plan(schema([pairs]))
    levels = refused(schema([pairs | {"all_pairs": ["district", "region", "sex"]}]))
    assert (levels.code, "`all_pairs` takes one level" in str(levels)) == ("DPR290", True)


def test_a_caller_replaces_tables_by_one_table_and_back() -> None:
    one = dp.plan(schema(), by=["sex"], statistics=["count"])
    assert one.tables is None
    assert one.by == ("sex",)
    back = dp.plan(schema(release={}), tables=[NATION, FINE])
    assert back.tables is not None
    assert [t.name for t in back.tables.tables] == ["nation", "districts"]
    assert BOTH
