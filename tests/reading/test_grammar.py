"""What an expression over published values may say, and what it is told when it may not."""

from __future__ import annotations

import pytest

from dprelease.core.errors import ConfigError
from dprelease.query.nodes import Arithmetic, canonical_text
from dprelease.reading.grammar import PREVIOUS, Across, Names, Reference, parse, references

BY = {"carrier": {"UA", "AA"}, "sex": {"f", "m"}}


def read(text):
    return parse(text, Names(["late", "count", "departures[5,9)"], BY), ["people"])


def test_groups_periods_and_public_columns():
    first, second, third = references(
        read("late[carrier='UA', sex='f']@2026-W45 / count@previous + people")
    )
    assert first.where == (("carrier", "UA"), ("sex", "f"))
    assert first.period == "2026-W45"
    assert (second.name, second.period) == ("count", PREVIOUS)
    assert third.public


def test_names_of_other_characters_take_double_quotes():
    assert references(read('"departures[5,9)" / count'))[0].name == "departures[5,9)"


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("late['active?'='yes']", 'did you mean `"active?"`?'),
        ('late["active"=yes]', 'did you mean `"active?"`?'),
        ("late['sex'=f]", "did you mean `sex`?"),
        ('late[sex="f"]', "did you mean 'f'?"),
    ],
)
def test_a_fix_is_written_as_an_expression_takes_it(text, fix):
    """Each fix, put in place of what was wrong, is read."""
    names = {"active?": {"yes", "no"}, "sex": {"f", "m"}}
    with pytest.raises(ConfigError) as caught:
        parse(text, Names(["late"], names), [])
    assert caught.value.fix == fix


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("growth(count)", "count / count@previous - 1"),
        ("rate(late, count, 1000)", "1000 * late / count"),
        ("index(count, '2026-W01')", "100 * (count / count@2026-W01)"),
        ("index(count, late)", "100 * (count / late)"),
    ],
)
def test_functions_are_short_for_what_they_say(text, same):
    assert read(text) == read(same)


def test_a_minus_after_a_period_is_a_minus():
    tree = read("count@2026-W45 - count@2026-W44")
    assert isinstance(tree, Arithmetic)
    assert [r.period for r in references(tree)] == ["2026-W45", "2026-W44"]
    assert [r.period for r in references(read("count@2026-01-31 -count@2026"))] == [
        "2026-01-31",
        "2026",
    ]


def test_over_several_groups():
    assert read("share(late)") == Across("share", read("late"))
    assert read("standardise(late / people, people)").how == "standardise"
    assert isinstance(read("rank(late)"), Across)


@pytest.mark.parametrize(
    ("text", "what", "fix", "code"),
    [
        ("lat / count", "unknown column `lat`", "did you mean `late`?", "DPR122"),
        ("late[carier='UA']", "`carier` is not a key column", "did you mean `carrier`?", "DPR163"),
        ("late[carrier='UB']", "no group 'UB'", "'UA'", "DPR164"),
        ("shares(late)", "unknown function", "did you mean `share`?", "DPR124"),
        ("rate(late, count)", "`rate` takes 3", "rate(cases, people, 100000)", "DPR162"),
        ("index(late, 2001)", "not the number 2001", "index(…, '2001')", "DPR162"),
        ("1 + rank(late)", "`rank` stands alone", "rank(expression)", "DPR120"),
        ("late > 3", "unexpected `>`", "", "DPR120"),
        ("late[carrier='UA'", "ends too early", "", "DPR120"),
        ("", "ends too early", "", "DPR120"),
        ("(" * 100 + "late", "nested too deeply", "", "DPR121"),
        ("late % 2 / 'x'", "needs numbers", "", "DPR123"),
        ("late[T.categ='x']", "`T.categ` is not a name", 'double quotes: "T.categ"', "DPR120"),
    ],
)
def test_faults_point_at_a_character_and_name_a_fix(text, what, fix, code):
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert what in str(caught.value)
    assert fix in str(caught.value)
    assert caught.value.code == code


def test_numbers_that_are_nowhere_are_led_to_the_public_table():
    with pytest.raises(ConfigError, match="`public=`") as caught:
        parse("rate(late, residents, 1000)", Names(["late", "count"], BY), ())
    assert "published columns: count, late" in str(caught.value)
    with pytest.raises(ConfigError) as caught:  # with one at hand the name is the fault
        parse("rate(late, residents, 1000)", Names(["late", "count"], BY), ["people"])
    assert "`public=`" not in str(caught.value)


def test_the_expression_language_of_rows_has_none_of_it():
    from dprelease.query.expression import parse_expression

    for text in ("late@previous", "late[carrier='UA']"):
        with pytest.raises(ConfigError):
            parse_expression(text, {}, origin="t")


def test_references_print_like_columns():
    assert canonical_text(Reference("late", read("late").type)) == "late"
