"""Views: what is proved row by row, what is refused, and what an opt-in is called."""

from __future__ import annotations

from typing import Any

import pytest

from dprelease.core.errors import ConfigError, DpreleaseError, PlanError
from dprelease.planning.make import make_plan
from dprelease.query.load import schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.read_view import parse_view
from dprelease.query.spec import resolve
from dprelease.query.view import UNPROVEN, View
from dprelease.release_plan.plan import ReleasePlan
from dprelease.wall.recompute import recompute

PRIVATE, PUBLIC = ("visits", "other visits"), ("postcodes", "areas")
SQL = """SELECT v.pid AS patient_id, p.region, v.age, -- years
  if(v.age > 65 and a.name = 'x', 1, 0) AS old
FROM visits v
LEFT JOIN postcodes AS p ON p.code = v.postcode AND v.year = p.year
JOIN areas a ON a.id = p.area
WHERE v.age >= 18 AND coalesce(p.region, '~') <> 'n'"""


def view(sql: str, *allow: str) -> View:
    return parse_view(sql, private=PRIVATE, public=PUBLIC, allow=allow, origin="p.yaml:4")


def test_a_view_row_by_row() -> None:
    found = view(SQL)
    assert (found.proven, found.keeps_rows) == (True, False)
    assert found.private == ("visits", "v")
    assert found.tables == ("visits", "postcodes", "areas")
    first, second = found.joins
    assert (first.alias, first.kind) == ("p", "left")
    assert first.keys == (("code", ("v", "postcode")), ("year", ("v", "year")))
    assert (second.alias, second.kind, second.keys) == ("a", "inner", (("id", ("p", "area")),))
    assert [(c.name, c.place) for c in found.columns] == [
        ("patient_id", ("v", "pid")),
        ("region", ("p", "region")),
        ("age", ("v", "age")),
        ("old", None),
    ]
    assert found.columns[3].text == """if ( "v.age" > 65 and "a.name" = 'x' , 1 , 0 )"""
    assert found.where == """"v.age" >= 18 AND coalesce ( "p.region" , '~' ) <> 'n'"""
    assert "years" not in found.sql


@pytest.mark.parametrize(
    ("sql", "keeps"),
    [
        ("SELECT pid, age a, age + 1 AS next FROM visits", True),
        ('SELECT "other visits".pid FROM "other visits"', True),
        ("SELECT v.pid FROM visits v LEFT JOIN postcodes p ON p.code = v.code", True),
        ("SELECT v.pid FROM visits v INNER JOIN postcodes p ON p.code = v.code", False),
        ("SELECT v.pid FROM visits v JOIN postcodes p ON v.code == p.code", False),
        ("SELECT pid FROM visits WHERE age > 3", False),
    ],
)
def test_only_filters_and_inner_joins_take_rows_away(sql: str, keeps: bool) -> None:
    assert view(sql).keeps_rows is keeps


WIDER = {
    "SELECT max(age) AS age FROM visits GROUP BY ALL HAVING max(age) > 3": "DPR260",
    "SELECT count(DISTINCT age) AS ages FROM visits": "DPR260",
    "SELECT median(age) AS age FROM visits GROUP BY pid": "DPR263",
    "SELECT DISTINCT pid FROM visits": "DPR260",
    "SELECT pid FROM visits LIMIT 3": "DPR260",
    "SELECT pid FROM visits ORDER BY age": "DPR260",
    "SELECT pid FROM visits UNION ALL SELECT pid FROM visits": "DPR260",
    "SELECT pid, row_number() OVER (PARTITION BY pid ORDER BY age) AS n FROM visits": "DPR260",
    "SELECT pid FROM (SELECT pid FROM visits) v": "DPR260",
    "SELECT pid FROM visits WHERE age > (SELECT avg(age) FROM visits)": "DPR260",
    "WITH a AS (SELECT pid FROM visits) SELECT pid FROM a": "DPR260",
    'SELECT v.pid FROM visits v JOIN "other visits" o ON o.pid = v.pid': "DPR262",
    "SELECT v.pid FROM visits v, postcodes p": "DPR262",
    "SELECT v.pid FROM visits v CROSS JOIN postcodes p": "DPR262",
    "SELECT v.pid FROM visits v RIGHT JOIN postcodes p ON p.code = v.code": "DPR262",
    "SELECT v.pid FROM visits v JOIN postcodes p ON p.code > v.code": "DPR262",
    "SELECT v.pid FROM visits v JOIN postcodes p ON p.code = v.code OR p.code = v.area": "DPR262",
    "SELECT v.pid FROM visits v JOIN postcodes p ON p.code = 3": "DPR262",
    "SELECT v.pid FROM visits v JOIN postcodes p ON p.code = p.area": "DPR262",
    "SELECT * FROM visits": "DPR263",
    "SELECT age + 1 FROM visits": "DPR263",
    "SELECT v.age FROM visits v JOIN postcodes p ON p.code = v.code JOIN areas a ON v.x = a.id "
    "AND a.id IN (1)": "DPR262",
}


@pytest.mark.parametrize("sql", WIDER)
def test_wider_views_are_refused_unless_accepted_unproven(sql: str) -> None:
    with pytest.raises(PlanError) as caught:
        view(sql)
    assert caught.value.code == WIDER[sql]
    assert "line 1, column" in (caught.value.where or "")
    with pytest.raises(PlanError):
        view(sql, "another-shortcut")
    accepted = view(sql, UNPROVEN)
    assert (accepted.proven, accepted.keeps_rows) == (False, False)
    again = view(accepted.sql, UNPROVEN)
    assert again.sql == accepted.sql


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT pid FROM postcodes", "DPR261"),
        ("SELECT pid FROM elsewhere", "DPR261"),
        ("SELECT pid FROM s.visits", "DPR261"),
        ("SELECT pid FROM read_csv('/etc/passwd')", "DPR261"),
        ("SELECT pid FROM '/etc/passwd'", "DPR261"),
        ("SELECT v.pid FROM visits v JOIN elsewhere e ON e.a = v.a", "DPR261"),
        ("SELECT v.pid FROM visits v JOIN postcodes v ON v.a = v.a", "DPR261"),
        ("SELECT pid, age AS PID FROM visits", "DPR263"),
        ("DELETE FROM visits", "DPR260"),
        ("SELECT 'a FROM visits", "DPR120"),
        ("SELECT (pid FROM visits", "DPR120"),
        ("SELECT pid FROM visits WHERE age] > 1", "DPR120"),
        ("SELECT pid FROM visits AS", "DPR262"),
        ("SELECT pid AS FROM visits", "DPR263"),
        ("SELECT pid AS, age FROM visits", "DPR263"),
        ("", "DPR260"),
    ],
)
def test_a_faulty_view_is_refused_with_its_code(sql: str, code: str) -> None:
    with pytest.raises((PlanError, ConfigError)) as caught:
        view(sql)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT random() AS x FROM visits", "DPR264"),
        ("SELECT now() AS x FROM visits", "DPR264"),
        ("SELECT getenv('HOME') AS x FROM visits", "DPR264"),
        ("SELECT content FROM read_text('/etc/passwd')", "DPR261"),
        ("SELECT * FROM read_csv('/etc/passwd')", "DPR261"),
        ("SELECT pid FROM visits, read_csv('/etc/passwd')", "DPR261"),
        ("SELECT (SELECT content FROM read_text('/etc/passwd')) AS x FROM visits", "DPR261"),
        ("SELECT * FROM '/etc/passwd'", "DPR261"),
        ("SELECT * FROM information_schema.tables", "DPR261"),
        ("SELECT * FROM elsewhere", "DPR261"),
        ("SELECT pid FROM visits; DROP TABLE visits", "DPR260"),
        ("COPY visits TO '/tmp/x'", "DPR260"),
        ("ATTACH '/tmp/x'", "DPR260"),
        ("SELECT pid FROM visits WHERE", "DPR120"),
        ("SELECT $1 FROM visits", "DPR264"),
        ("SELECT error('x') FROM visits", "DPR264"),
    ],
)
def test_an_accepted_view_still_reads_declared_tables_only(sql: str, code: str) -> None:
    with pytest.raises((PlanError, ConfigError)) as caught:
        view(sql, UNPROVEN)
    assert caught.value.code == code


def test_casts_of_an_accepted_view_cannot_fail() -> None:
    sql = view("SELECT max(CAST(age AS INT)) AS x FROM visits GROUP BY pid::DATE", UNPROVEN).sql
    assert sql.count("TRY_CAST") == 2
    assert " CAST" not in sql


# --- plans


COLUMNS = {
    "pid": {"kind": "identifier"},
    "age": {"kind": "integer", "range": [0, 120], "nulls": {"default": 0}},
}


def declared(**changes: Any) -> Any:
    base = {
        "dprelease": "schema/1",
        "name": "t",
        "unit": "row",
        "adjacency": "substitution",
        "rows": {"exact": 900},
        "columns": COLUMNS,
        "release": {"epsilon": 1, "statistics": ["mean(age)"]},
    }
    return schema_from_dict({**base, **changes})


def plan(sql: str | None, *allow: str, **changes: Any) -> ReleasePlan:
    schema = declared(**changes)
    seen = None if sql is None else view(sql, *allow)
    return make_plan(resolve(schema, merge_release(schema), view=seen))


def test_under_substitution_a_view_that_takes_rows_away_makes_their_number_private() -> None:
    whole = plan(None).blocks[0].measurement
    kept = plan("SELECT pid, age FROM visits").blocks[0].measurement
    fewer = plan("SELECT pid, age FROM visits WHERE age > 3").blocks[0].measurement
    wider = (
        plan("SELECT pid, max(age) AS age FROM visits GROUP BY pid", UNPROVEN).blocks[0].measurement
    )
    assert [e.public_rows for e in (whole, kept, fewer, wider)] == [900, 900, None, None]


def test_the_wall_does_not_believe_a_public_number_behind_a_filter() -> None:
    from dataclasses import replace

    honest = plan("SELECT pid, age FROM visits")
    block = honest.blocks[0]

    def check(keeps: bool) -> None:
        assert honest.query.view is not None
        query = replace(honest.query, view=replace(honest.query.view, keeps_rows=keeps))
        recompute(
            query,
            block.measurement,
            tuple(block.measurement.primitives),
            block.measurement.max_rows,
            unit=honest.unit,
            adjacency=honest.adjacency,
            groups=1,
            whole=True,
            per=None,
        )

    check(keeps=True)
    with pytest.raises(DpreleaseError) as caught:
        check(keeps=False)
    assert caught.value.code == "DPR902"


def test_plan_and_hash_carry_the_view_and_its_word_for_unproven() -> None:
    plain = plan("SELECT pid, age FROM visits")
    assert plain.hash != plan(None).hash
    assert plain.to_json()["query"]["view"] == {
        "sql": "SELECT pid, age FROM visits",
        "proven": True,
        "keeps_rows": True,
    }
    assert "at most one per row" in " ".join(plain.notes)
    assert "observed" not in " ".join(plain.notes)
    wide = plan("SELECT pid, max(age) AS age FROM visits GROUP BY pid", UNPROVEN)
    assert any(n.startswith(f"observed, not proved ({UNPROVEN})") for n in wide.notes)
    for each in (plain, wide):
        back = ReleasePlan.from_json(each.to_json())
        assert back.query.view is not None
        assert back.query.view.keeps_rows == (each is plain)


PERSON = {
    "unit": {"user": "pid", "max_groups": 1, "max_rows_per_group": 1},
    "adjacency": "add_remove",
    "rows": {"max": 10},
}


def test_a_view_that_groups() -> None:
    found = view(
        "SELECT v.pid, p.region, count(*) AS visits, count(DISTINCT v.ward) AS wards, "
        "sum(if(v.urgent, 1, 0)) AS urgent FROM visits v JOIN postcodes p ON p.code = v.postcode "
        "WHERE v.age > 3 GROUP BY v.pid, p.region"
    )
    assert found.groups == (("v", "pid"), ("p", "region"))
    assert [c.over for c in found.columns] == [None, None, "COUNT", "COUNT DISTINCT", "SUM"]
    assert [c.text for c in found.columns[2:4]] == ["1", '"v.ward"']
    assert (found.proven, found.keeps_rows, found.where) == (True, False, '"v.age" > 3')
    plain = "SELECT pid, max(age) AS age FROM visits GROUP BY pid"
    assert view(plain).keeps_rows is False
    # with the opt-in it stays what folders were published as
    assert (view(plain, UNPROVEN).proven, view(plain, UNPROVEN).groups) == (False, ())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT pid, age FROM visits GROUP BY pid",
        "SELECT pid, age + 1 AS age FROM visits GROUP BY pid, age",
        "SELECT pid, max(age) FROM visits GROUP BY pid",
        "SELECT pid, sum(age) / count(*) AS age FROM visits GROUP BY pid",
        "SELECT pid, count(*) AS age FROM visits GROUP BY pid, age + 1",
        "SELECT pid, count(*) AS age FROM visits GROUP BY",
        "SELECT pid, count(*) AS age FROM visits GROUP pid",
        "SELECT pid, count() AS age FROM visits GROUP BY pid",
        "SELECT pid, count(DISTINCT) AS age FROM visits GROUP BY pid",
        "SELECT DISTINCT pid FROM visits GROUP BY pid",
        "SELECT pid, count(*) AS age FROM visits GROUP BY pid HAVING count(*) > 3",
        "SELECT pid, count(*) AS age FROM visits GROUP BY pid ORDER BY pid",
        "SELECT pid, count(*) AS age FROM visits GROUP BY DISTINCT pid",
        "SELECT pid, count(*) AS age FROM visits GROUP BY ALL",
        "SELECT pid, count(*) OVER () AS age FROM visits GROUP BY pid",
        "SELECT pid, count(*) FILTER (WHERE age > 1) AS age FROM visits GROUP BY pid",
    ],
)
def test_other_groups_are_refused(sql: str) -> None:
    with pytest.raises(DpreleaseError) as caught:
        plan(sql, **PERSON)
    assert caught.value.code in ("DPR120", "DPR260", "DPR263"), str(caught.value)


def test_what_is_computed_of_two_statistics_is_sent_to_the_schema() -> None:
    with pytest.raises(PlanError, match="stands alone") as caught:
        plan("SELECT pid, max(age) - min(age) AS age FROM visits GROUP BY pid", **PERSON)
    assert "`from`" in str(caught.value.why)


@pytest.mark.parametrize("item", ["age", "median(age) AS age"])
def test_an_item_of_no_group_is_told_one_that_is_read(item: str) -> None:
    with pytest.raises(PlanError) as caught:
        plan(f"SELECT pid, {item} FROM visits GROUP BY pid", **PERSON)
    fix = caught.value.fix or ""
    [written] = [part for part in fix.removeprefix("write ").split(", or ") if "MIN(" in part]
    written = written.partition(";")[0].replace("v.column", "age").replace("name", "age")
    assert plan(f"SELECT pid, {written} FROM visits GROUP BY pid", **PERSON).hash


def test_rows_are_grouped_by_a_whole_person_alone() -> None:
    by_person = "SELECT pid, max(age) AS age FROM visits GROUP BY pid"
    assert "one unit's rows alone" in " ".join(plan(by_person, **PERSON).notes)
    time = {"time": {"column": "at"}}
    columns = {**COLUMNS, "at": {"kind": "timestamp"}}
    timed = {**PERSON, **time, "columns": columns}
    monthly = {**PERSON["unit"], "per": "month"}
    for sql, changes, code in (
        (by_person, {}, "DPR260"),  # the row unit: other units' rows are in the group
        (by_person, {**timed, "unit": monthly}, "DPR260"),  # months of one person meet in it
        ("SELECT max(pid) AS pid, max(age) AS age FROM visits GROUP BY age", PERSON, "DPR263"),
        ("SELECT max(age) AS age FROM visits GROUP BY age", PERSON, "DPR263"),
        (by_person, timed, "DPR263"),  # no time: no row would lie in a period
        ("SELECT pid, age, max(other) AS at FROM visits GROUP BY pid, age", timed, "DPR263"),
    ):
        with pytest.raises(PlanError) as caught:
            plan(sql, **changes)
        assert caught.value.code == code
    for time_of in ('min("at") AS at', "max(visits.at) AS at"):
        plan(f"SELECT pid, max(age) AS age, {time_of} FROM visits GROUP BY pid", **timed)


def test_a_unit_is_passed_on_as_the_private_table_stores_it() -> None:
    plan("SELECT pid, age FROM visits", **PERSON)
    for sql in (
        # under one name a ledger would add up the losses of two kinds of persons
        "SELECT id AS pid, age FROM visits",
        "SELECT age, id % 10 AS pid FROM visits",
        "SELECT age FROM visits",
        "SELECT v.age, p.code AS pid FROM visits v JOIN postcodes p ON p.code = v.code",
    ):
        with pytest.raises(PlanError) as caught:
            plan(sql, **PERSON)
        assert caught.value.code == "DPR263"
