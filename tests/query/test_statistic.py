"""Statistics as text and as mappings: forms, names, options and faults."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from fractions import Fraction

import pytest

from dprelease.core.errors import ConfigError
from dprelease.query.arguments import NumberColumn, syntaxes
from dprelease.query.load import Schema, schema_from_dict
from dprelease.query.statistic import parse_statistic, parse_statistics, split_arguments
from dprelease.schema.column import Column
from dprelease.schema.domain import Domain


@pytest.mark.parametrize(
    ("text", "function", "arguments", "name"),
    [
        ("count", "count", (), "count"),
        ("count(*)", "count", (), "count"),
        ("count(persons)", "count", ("persons",), "count_persons"),
        (" mean( age ) ", "mean", ("age",), "mean_age"),
        ('mean("my ""x"" col")', "mean", ('my "x" col',), "mean_my_x_col"),
        ("proportion(age > 65)", "proportion", ("age > 65",), "proportion_age_gt_65"),
        (
            "proportion(region in ('a', 'b'))",
            "proportion",
            ("region in ('a', 'b')",),
            "proportion_region_in_a_b",
        ),
        (
            "histogram(hour, [0, 6.5, 12])",
            "histogram",
            ("hour", "[0, 6.5, 12]"),
            "histogram_hour",
        ),
        ("quantile(delay, 0.9)", "quantile", ("delay", "0.9"), "quantile_delay_0_9"),
        ("covariance(a, b)", "covariance", ("a", "b"), "covariance_a_b"),
        ("eigenvalues(a, b, c)", "eigenvalues", ("a", "b", "c"), "eigenvalues_a_b_c"),
        ("degree(node)", "degree", ("node",), "degree_node"),
        ('mean("Größe (cm)")', "mean", ("Größe (cm)",), "mean_Groesse_cm"),
        ('mean("Grösse_cm")', "mean", ("Grösse_cm",), "mean_Groesse_cm"),
        ('sum("Café (€)")', "sum", ("Café (€)",), "sum_Cafe_euro"),
        ('sum("年齢")', "sum", ("年齢",), "sum_u5e74_u9f62"),
    ],
)
def test_a_statistic_is_read_from_its_text(
    text: str, function: str, arguments: tuple[str, ...], name: str
) -> None:
    spec = parse_statistic(text, origin="f.yaml:3")
    assert (spec.function, spec.arguments, spec.name) == (function, arguments, name)
    assert (spec.weight, spec.spikes, spec.origin) == (Fraction(1), True, "f.yaml:3")
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", spec.name)


@pytest.mark.parametrize("form", syntaxes().values(), ids=syntaxes())
def test_every_form_s_example_parses(form: object) -> None:
    example = form.example  # type: ignore[attr-defined]
    assert parse_statistic(example, origin="x").text == example


def test_a_statistic_is_read_from_a_mapping() -> None:
    spec = parse_statistic(
        {
            "statistic": "mean(bmi)",
            "as": "bmi_mean",
            "domain": {"range": [10, 80], "forbidden": [[Decimal("39.5"), 40.5]], "step": "0.01"},
            "share": 0.35,
            "weight": 2,
            "spikes": "forbid",
            "mechanism": "staircase",
            "max_rows_per_group": 1,
        },
        origin="f.yaml:3",
    )
    assert spec.domain == Domain(10, 80, forbidden=[(39.5, 40.5)])
    assert spec.step == Fraction(1, 100)
    assert (spec.share, spec.weight) == (Fraction(7, 20), Fraction(2))
    assert (spec.name, spec.spikes, spec.mechanism, spec.max_rows) == (
        "bmi_mean",
        False,
        "staircase",
        1,
    )


FAULTS: list[tuple[object, str, str]] = [
    ("meen(x)", "DPR131", "mean"),
    ("avg(x)", "DPR131", "did you mean `mean`?"),
    ("kurtosis(x)", "DPR131", "available"),
    ("", "DPR130", "mean(age)"),
    ("mean age", "DPR130", "mean(age)"),
    ("mean(" + "a" * 100_000 + ")", "DPR130", "mean(age)"),
    ("mean(a) + 1", "DPR130", ""),
    ("mean(a,)", "DPR130", ""),
    ("mean(')", "DPR130", ""),
    ("mean(it's)", "DPR130", 'in quotes: mean("it\'s")'),
    (None, "DPR130", ""),
    (["mean(a)"], "DPR130", ""),
    ("mean()", "DPR133", "mean(age)"),
    ("mean", "DPR133", "mean(age)"),
    ("mean(a, b)", "DPR133", ""),
    ("quantile(x)", "DPR133", ""),
    ("quantile(x, 0)", "DPR133", "quantile(age, 0.9)"),
    ("quantile(x, 50%)", "DPR133", ""),
    ("histogram(x)", "DPR133", "[0, 6"),
    ("histogram(x, 3)", "DPR133", "[0, 6"),
    ("histogram(x, [3])", "DPR133", ""),
    ("histogram(x, [3, 1])", "DPR133", ""),
    ("histogram(x, [0, inf])", "DPR133", ""),
    ("covariance(a", "DPR132", '"covariance(a, …)"'),
    ({"statistic": "covariance(a", "b)": None}, "DPR132", '"covariance(a, b)"'),
    ({"covariance(a": None, "b)": None}, "DPR132", "covariance(a, …)"),
    ({"statistic": "mean(x)", "wieght": 2}, "DPR110", "weight"),
    ({"as": "x"}, "DPR130", "statistic"),
    ({"statistic": "mean(x)", "as": "b c"}, "DPR135", ""),
    ({"statistic": "mean(x)", "as": "1b"}, "DPR135", ""),
    ({"statistic": "mean(x)", "as": 3}, "DPR135", ""),
    ({"statistic": "mean(x)", "share": 1.5}, "DPR135", "part"),
    ({"statistic": "mean(x)", "share": 0}, "DPR135", ""),
    ({"statistic": "mean(x)", "weight": -1}, "DPR135", ""),
    ({"statistic": "mean(x)", "weight": "inf"}, "DPR135", ""),
    ({"statistic": "mean(x)", "weight": True}, "DPR135", ""),
    ({"statistic": "mean(x)", "spikes": True}, "DPR135", "allow"),
    ({"statistic": "mean(x)", "mechanism": 3}, "DPR135", ""),
    ({"statistic": "mean(x)", "max_rows_per_group": 0}, "DPR135", ""),
    ({"statistic": "mean(x)", "max_rows_per_group": True}, "DPR135", ""),
    ({"statistic": "mean(x)", "domain": [0, 1]}, "DPR135", "range"),
    ({"statistic": "mean(x)", "domain": {"rang": [0, 1]}}, "DPR110", "range"),
    ({"statistic": "mean(x)", "domain": {"range": [1, 0]}}, "DPR135", "smaller"),
    ({"statistic": "mean(x)", "domain": {"range": [0]}}, "DPR135", ""),
    ({"statistic": "mean(x)", "domain": {"range": [0, "inf"]}}, "DPR135", "number"),
    ({"statistic": "mean(x)", "domain": {"forbidden": [[0, 1]]}}, "DPR135", "range"),
    ({"statistic": "mean(x)", "domain": {"range": [0, 1], "forbidden": 3}}, "DPR135", ""),
    ({"statistic": "mean(x)", "domain": {"range": [0, 1], "forbidden": [3]}}, "DPR135", ""),
    (
        {"statistic": "mean(x)", "domain": {"range": [0, 100], "forbidden": [[200, 300]]}},
        "DPR135",
        "widen",
    ),
    ({"statistic": "mean(x)", "domain": {"range": [0, 1], "step": 0}}, "DPR135", ""),
]


@pytest.mark.parametrize(("item", "code", "fix"), FAULTS, ids=[str(f[0])[:40] for f in FAULTS])
def test_a_faulty_statistic_is_refused_with_code_place_and_fix(
    item: object, code: str, fix: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_statistic(item, origin="f.yaml:3")
    assert (caught.value.code, caught.value.where) == (code, "f.yaml:3")
    assert fix in (caught.value.fix or "")


def people(**columns: object) -> Schema:
    return schema_from_dict(
        {
            "dprelease": "schema/1",
            "name": "people",
            "unit": "row",
            "adjacency": "add_remove",
            "columns": columns,
            "release": {"epsilon": 1, "statistics": ["count"]},
        }
    )


def test_a_histogram_of_a_category_is_told_to_group_by_it() -> None:
    schema = people(ward={"kind": "category", "values": ["a", "b"]})
    with pytest.raises(ConfigError, match=r"by: \[ward\]"):
        parse_statistic("histogram(ward)", origin="f.yaml:3", schema=schema)


def test_options_are_located() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_statistic(
            {"statistic": "mean(x)", "weight": 0}, origin="f.yaml:3", lines={"weight": "f.yaml:5"}
        )
    assert caught.value.where == "f.yaml:5"


def test_a_list_split_at_a_comma_prints_the_whole_statistic() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_statistics(["count", "eigenvalues(a", "b", "c)", "mean(x)"], origin="f.yaml:3")
    assert caught.value.code == "DPR132"
    assert '"eigenvalues(a, b, c)"' in (caught.value.fix or "")


def test_duplicate_names_are_refused_and_as_helps() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_statistics(["mean(a)", "mean( a )"], origin="f.yaml:3")
    assert caught.value.code == "DPR134"
    specs = parse_statistics(
        ["mean(a)", {"statistic": "mean(a)", "as": "again"}], origin="f.yaml:3"
    )
    assert [s.name for s in specs] == ["mean_a", "again"]


def test_splitting_respects_quotes_and_brackets() -> None:
    assert split_arguments("a, [1, 2], 'x, y', f(b, c)", "x") == (
        "a",
        "[1, 2]",
        "'x, y'",
        "f(b, c)",
    )


def test_fuzz_never_raises_anything_else() -> None:
    pick = random.Random(3)
    pieces = [
        *syntaxes(),
        "(",
        ")",
        ",",
        "[",
        "]",
        "'",
        '"',
        "age",
        "1",
        "-",
        " ",
        "\n",
        "é",
        ">",
        "*",
    ]
    codes: set[str] = set()
    for _ in range(2000):
        text = "".join(pick.choices(pieces, k=pick.randint(0, 8)))
        try:
            parse_statistic(text, origin="f.yaml:3")
        except ConfigError as error:
            codes.add(error.code)
    assert codes == {"DPR130", "DPR131", "DPR132", "DPR133"}


class _AboveZero(NumberColumn):
    """A column of numbers above 0, as a statistic of one's own may ask for."""

    def fits(self, column: Column) -> bool:
        return super().fits(column) and column.domain is not None and column.domain.lower > 0


@pytest.mark.parametrize(
    ("lower", "says"), [(0, "another range for `income`"), (1, None), ("b", "a share of rows")]
)
def test_a_column_that_a_statistic_does_not_take_is_named_with_a_way_out(
    lower: object, says: str | None
) -> None:
    income = (
        {"kind": "category", "values": ["b"]}
        if lower == "b"
        else {"kind": "integer", "range": [lower, 9]}
    )
    schema = people(income=income)
    spec = parse_statistic("mean(income)", origin="here")
    if says is None:
        assert _AboveZero().check(spec, schema) is spec
        return
    with pytest.raises(ConfigError, match="does not take `income`, a column of kind") as caught:
        _AboveZero().check(spec, schema)
    assert caught.value.code == "DPR133"
    assert says in str(caught.value.fix)
