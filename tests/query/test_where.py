"""A statistic's own `where`: the same statistic of the rows where a condition is true, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dprelease as dp
from dprelease.audit.answers import answer_of, cells_of
from dprelease.core.errors import ConfigError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.reference import ReferenceEngine
from dprelease.query.statistic import parse_statistic, split_where
from dprelease.results.consistency import consistent
from tests.several_tables import PLACES, TREE, people, schema
from tests.sizes import FULL

FRAME = pd.DataFrame(
    {
        "sex": ["f", "m", "m", None, "x"] * 30,
        "age": [*range(100)] + [None] * 30 + [0] * 20,
        "y": [0.0, 1.5, None] * 50,
        "b": [True, False, None] * 50,
    }
)
SCHEMA = {
    "dprelease": "schema/1",
    "name": "people",
    "unit": "row",
    "adjacency": "add_remove",
    "rows": {"max": 1000, "expected": 150},
    "columns": {
        "sex": {"kind": "category", "values": ["f", "m"], "nulls": {"as": "none"}},
        "age": {"kind": "integer", "range": [0, 90]},
        "y": {"kind": "number", "range": [0, 2], "step": 0.5},
        "b": {"kind": "boolean"},
        "old": {"kind": "boolean", "from": "age >= 65"},
    },
}
WHERE = ("sex = 'f'", "sex in ('m', 'none') and not b", "y is null", "old or age = 3", "age > 20")
STATISTICS = (
    "count", "sum(age)", "mean(age)", "variance(age)", "proportion(y > 1)", "proportion(b)",
    "median(age)", "histogram(age, [0, 30, 65, 90])", "cdf(y, [0, 1])", "count_distinct(sex)", "covariance(age, y)",
    "ratio(age, y)", "weighted_mean(age, y)",
)  # fmt: skip


def asked(statistics, where=None, **changed):
    filtered = {} if where is None else {"where": where}
    return {**SCHEMA, "release": {"epsilon": 1, "statistics": statistics, **filtered, **changed}}


def option(text, where=None):
    domain = {"domain": {"range": [0, 50]}} if text.startswith("ratio") else {}
    return {"statistic": text, **domain, **({} if where is None else {"where": where})}


# -- what it is ----------------------------------------------------------------------------


def cells(plan, engine):
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    return [c.tolist() for c in cells_of(plan, answer_of(plan, table, engine))]


@pytest.mark.parametrize("texts", [STATISTICS, *((t,) for t in STATISTICS if FULL)], ids=", ".join)
@pytest.mark.parametrize("where", WHERE)
def test_it_is_the_statistic_of_the_rows_that_a_filter_would_keep(texts, where) -> None:
    """All statistics in one plan; in `make evidence` each alone as well."""
    own, filtered = (
        dp.plan(asked(*one))
        for one in (([option(t, where) for t in texts],), ([option(t) for t in texts], where))
    )
    for engine in (ReferenceEngine(), DuckDBEngine()):
        assert cells(own, engine) == cells(filtered, engine)


def test_each_statistic_has_rows_of_its_own_and_a_group_its_own_numbers() -> None:
    made = asked(
        ["count", *(option(t, w) for t in ("count", "sum(age)") for w in WHERE)], by=["sex"]
    )
    plan = dp.plan(made)
    own = cells(plan, ReferenceEngine())
    assert own == cells(plan, DuckDBEngine())
    for block, found in zip(plan.blocks, own, strict=True):
        [statistic] = [s for s in plan.statistics if s.block == block.name]
        text, where = split_where(statistic.text)
        alone = dp.plan(asked([text], where or None, by=["sex"]))
        assert found == cells(alone, ReferenceEngine())[0], statistic.text


def test_rows_are_cleaned_before_the_condition_and_the_column_is_read() -> None:
    """A null with a default is that default; what the condition leaves out has none."""
    columns = {**SCHEMA["columns"], "age": {**SCHEMA["columns"]["age"], "nulls": {"default": 90}}}
    made = {**asked(["sum(age) where age = 90", "count where age = 90"]), "columns": columns}
    rows = int(((FRAME["age"] >= 90) | FRAME["age"].isna()).sum())
    total, count = (c[0][0] for c in cells(dp.plan(made), ReferenceEngine()))
    assert (total, count) == (90 * rows, rows)


# -- how it is written ---------------------------------------------------------------------


def test_a_text_and_an_option_say_the_same() -> None:
    one = parse_statistic("mean(age)  where sex = 'f' ", origin="here")
    two = parse_statistic({"statistic": "mean(age)", "where": "sex = 'f'"}, origin="here")
    assert (one.identity, one.name, one.function, one.where) == (
        two.identity,
        two.name,
        two.function,
        two.where,
    )
    assert two.name == "mean_age_where_sex_eq_f"
    assert parse_statistic(two.text, origin="here") == two
    assert split_where("proportion(sex = ' where ')") == ("proportion(sex = ' where ')", "")
    assert split_where("histogram(a, [1, 2])\nwhere (b)") == ("histogram(a, [1, 2])", "(b)")


def test_a_request_is_read_back(tmp_path) -> None:
    statistics = [option(t, w) for t, w in zip(STATISTICS, WHERE * 3, strict=False)]
    ledger = dp.create_ledger(tmp_path / "l.db", SCHEMA, epsilon=1)
    release = dp.release(FRAME, asked(statistics), ledger=ledger)
    folder = release.publish(tmp_path / "public")
    assert dp.verify(folder).ok
    assert dp.read(folder).table == release.table
    page = (folder / "report.html").read_text()
    assert "Mean of age, where y is null" in page
    assert release.manifest["plan"]["statistics"][0]["statistic"] == "count where sex = 'f'"


@pytest.mark.parametrize(
    ("statistic", "code"),
    [
        ("count where", "DPR130"),
        ({"statistic": "count", "where": ""}, "DPR135"),
        ({"statistic": "count", "where": ["sex = 'f'"]}, "DPR135"),
        ({"statistic": "count where b", "where": "b"}, "DPR135"),
        ("count where sexes = 'f'", "DPR122"),
        ("count where sex = 'z'", "DPR164"),
        ("mean(age) where age", "DPR127"),
        ("count where b where old", "DPR120"),
        ("count(persons) where b", "DPR133"),
    ],
)
def test_what_is_no_condition_is_refused(statistic, code) -> None:
    with pytest.raises(ConfigError) as caught:
        dp.plan(asked([statistic]))
    assert caught.value.code == code


@pytest.mark.parametrize(
    "condition", ["'sex' = 'f'", "'f' = 'sex'", "'sex' in ('f', 'm')", "'sex' is not null", "b and 'sex' = 'f'"]
)  # fmt: skip
def test_a_column_in_single_quotes_is_refused_where_no_row_would_be_read(condition) -> None:
    with pytest.raises(ConfigError, match="write the column without single quotes: sex") as caught:
        dp.plan(asked([f"proportion({condition})"]))
    assert caught.value.code == "DPR127"


def test_a_mask_is_told_what_a_condition_is() -> None:
    with pytest.raises(ConfigError) as caught:
        FRAME.dp.plan(SCHEMA, epsilon=1, statistics=["count"], where=FRAME.age >= 18)
    assert caught.value.fix == 'write a text, e.g. "name" or "age >= 18"'


ODD = ("Body Mass (g)", "net-income", "Height [cm]", "new?", "#visits", "Pay €")


@pytest.mark.parametrize(
    ("asks", "fix"),
    [
        *((f"proportion({name} > 4)", "double quotes") for name in ODD),
        ("proportion(Body Mass (g) > 4)", 'double quotes: "Body Mass (g)"'),
        ("proportion(net-income > 4)", 'double quotes: "net-income"'),
        ("mean(body mass (g))", "did you mean `Body Mass (g)`?"),
        ("mean([Body Mass (g)])", "did you mean `Body Mass (g)`?"),
    ],
)
def test_an_odd_name_without_its_quotes_is_told_how_it_is_written(asks, fix) -> None:
    odd = {name: {"kind": "integer", "range": [0, 90]} for name in ODD}
    with pytest.raises(ConfigError) as caught:
        dp.plan({**asked([asks]), "columns": odd})
    assert fix in str(caught.value.fix)


def test_a_label_may_be_called_like_a_column() -> None:
    cell = {"kind": "category", "values": ["sex", "age"]}
    asks = asked(["count where label = 'sex'"])
    assert dp.plan({**asks, "columns": {**asks["columns"], "label": cell}}).statistics


def test_a_graph_has_no_rows_to_choose() -> None:
    made = {
        "dprelease": "schema/1",
        "name": "friends",
        "unit": {"edge": {"source": "a", "target": "b", "k": 1, "nodes": 5}},
        "adjacency": "add_remove",
        "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}, "x": {"kind": "boolean"}},
        "release": {"epsilon": 1, "statistics": ["degree(0) where x"]},
    }
    with pytest.raises(ConfigError) as caught:
        dp.plan(made)
    assert caught.value.code == "DPR133"


# -- what follows --------------------------------------------------------------------------


def test_a_public_number_of_rows_says_nothing_of_some_of_them() -> None:
    made = {**asked(["count", "count where b", "mean(age) where old"]), "adjacency": "substitution"}
    made = {**made, "rows": {"exact": 150}}
    plan = dp.plan(made)
    [constant, some, mean] = plan.statistics
    assert plan.block(constant.block).public
    assert not plan.block(some.block).public
    assert plan.block(mean.block).measurement.public_rows is None


def test_rules_between_statistics_are_of_the_same_rows() -> None:
    """Quantiles of men and women are not put in one order; those of the same rows are."""
    texts = ["quantile(age, 0.2) where sex = 'm'", "quantile(age, 0.8) where sex = 'f'"]
    for where, moved in (("sex = 'f'", False), ("sex = 'm'", True)):
        plan = dp.plan(asked([texts[0], f"quantile(age, 0.8) where {where}"]))
        values = [np.array([[70.0]]), np.array([[20.0]])]
        found = consistent(plan.statistics, plan.blocks, values)
        assert (found[0][0, 0] != 70.0) == moved


def test_tables_that_add_up_keep_counts_of_some_rows_apart() -> None:
    each = [
        "count",
        "count where income > 50",
        "sum(income)",
        "sum(income) where sex = 'f'",
        "mean(age) where sex = 'f'",
    ]
    made = schema([{**t, "statistics": each} for t in TREE], release={"epsilon": 900})
    data = people()
    release = dp.release(data, made)
    assert release.validate().ok
    kept = data[data["district"].isin(PLACES) & data["sex"].isin(["f", "m"])]
    nation = release.to_pandas("nation").iloc[0]
    women = kept[kept["sex"] == "f"]
    assert nation["count"] == len(kept)
    assert nation["count_where_income_gt_50"] == (kept["income"] > 50).sum()
    assert abs(nation["sum_income"] - kept["income"].sum()) < 100
    assert abs(nation["sum_income_where_sex_eq_f"] - women["income"].sum()) < 100
    assert abs(nation["mean_age_where_sex_eq_f"] - women["age"].mean()) < 1
    regions = release.to_pandas("regions")
    assert regions["count_where_income_gt_50"].sum() == nation["count_where_income_gt_50"]


def test_a_column_may_be_called_like_a_filtered_one() -> None:
    name = "age where b"
    made = asked(["sum(age) where b", {"statistic": f'sum("{name}")', "as": "other"}])
    made["columns"] = {**SCHEMA["columns"], name: {"kind": "integer", "range": [0, 9]}}
    table = pa.Table.from_pandas(FRAME.assign(**{name: 1}), preserve_index=False)
    plan = dp.plan(made)
    found = [c[0][0] for c in cells_of(plan, answer_of(plan, table, ReferenceEngine()))]
    assert found[1] == len(FRAME)
    assert found[0] == FRAME[FRAME["b"] == True]["age"].clip(0, 90).sum()  # noqa: E712


def test_of_a_person_it_chooses_among_the_rows_that_are_kept_and_the_plan_says_so() -> None:
    unit = {"user": "id", "max_groups": 1, "max_rows_per_group": 1}
    columns = {**SCHEMA["columns"], "id": {"kind": "identifier"}}
    rows = [(f"p{i // 10}", i % 10 == 0) for i in range(1000)]
    table = pa.table({"id": [r[0] for r in rows], "b": [r[1] for r in rows]})
    said = "of the rows kept; a release's own `where` takes rows away before"
    own, filtered = (
        dp.plan({**asked(*one), "unit": unit, "columns": columns})
        for one in ((["count where b"],), (["count"], "b"))
    )
    found = [cells_of(p, answer_of(p, table, ReferenceEngine()))[0][0, 0] for p in (own, filtered)]
    assert found[0] < found[1] == 100
    assert said in " ".join(str(own).split())
    assert said not in " ".join(str(filtered).split())
