"""Names, canonical text, and the unit that is compared."""

from __future__ import annotations

import json
import string
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.budget.record import Entry, Key, canonical, protected_unit
from dprelease.core.errors import ArgumentError, ConfigError
from tests.budget.samples import entry
from tests.sizes import whole

TRAVERSAL = ["", "..", "a/b", "a\\b", "a.b", "a b", "a\n", "\x00", "é", "x" * 65, ".hidden", "٣"]


@pytest.mark.parametrize("name", TRAVERSAL)
@pytest.mark.parametrize("part", ["dataset", "pipeline", "period"])
def test_names_that_could_leave_a_folder_are_refused(name, part):
    with pytest.raises(ConfigError) as caught:
        Key(**{"dataset": "d", "pipeline": "p", "period": "t", part: name})
    assert caught.value.code == "DPR150"
    if name.isprintable():
        assert f"`{name[:60]}`" in caught.value.what


@settings(max_examples=whole(25, 100))
@given(st.text(f"{string.ascii_letters}{string.digits}_-", min_size=1, max_size=64))
def test_plain_names_are_keys(name):
    assert str(Key(name, name, name)) == f"{name}/{name}/{name}"


def test_an_entry_survives_json():
    asked = entry(epsilon=Fraction(1, 3), delta=Fraction(1, 10**7))
    read = Entry.from_json(json.loads(canonical(asked.to_json())))
    assert read.to_json() == asked.to_json()
    assert (read.epsilon, read.delta) == (Fraction(1, 3), Fraction(1, 10**7))


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": Fraction(0)},
        {"epsilon": 0.5},
        {"delta": Fraction(1)},
        {"plan_hash": ""},
        {"plan_hash": "a b c d e f g h"},
        {"adjacency": "both"},
        {"unit": "row"},
        {"unit": None},
        {"accountant": "advanced/1"},
        {"mechanisms": [{"epsilon": Fraction(1, 2)}]},
        {"mechanisms": [{"epsilon": float("nan")}]},
    ],
)
def test_malformed_entries_are_refused(change):
    with pytest.raises(ArgumentError):
        replace(entry(), **change)


def test_the_unit_is_kept_in_one_text():
    asked = replace(entry(), unit='{"user": "größe",  "max_groups": 2}')
    assert asked.unit == '{"max_groups":2,"user":"gr\\u00f6\\u00dfe"}'


def test_contribution_limits_do_not_change_who_is_protected():
    small = canonical({"user": "patient", "max_groups": 1})
    nested = canonical({"user": {"column": "patient", "max_groups": 1}})
    assert protected_unit(small) == canonical({"user": "patient"})
    assert protected_unit(nested) == canonical({"user": {"column": "patient"}})
    edges = [canonical({"edge": {"k": k}}) for k in (1, 2)]
    assert protected_unit(edges[0]) != protected_unit(edges[1])
