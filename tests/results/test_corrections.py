"""The record of corrections: append-only, chained, bound to the release it speaks of."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprelease.core.errors import ArgumentError, VerificationError
from dprelease.results import corrections
from dprelease.results.corrections import add, current, parse

SHA = "ab" * 32
BY = {"pipeline": "weekly", "period": "2026-W02", "release": "cd" * 32}


def entry(data=None, **changed):
    given = {
        "action": "withdraw", "period": "2026-W01", "release": SHA, "reason": "test rows",
        "at": "2026-02-03T06:00:00Z",
    }  # fmt: skip
    return add(data, **{**given, **changed})


def three():
    data = entry()
    data = entry(data, period="2026-W02", action="supersede", by=BY, reason="late rows")
    return entry(data, period="2026-W03")


def test_entries_come_back_in_order_and_say_what_happened():
    found = parse(three())
    assert [e.period for e in found] == ["2026-W01", "2026-W02", "2026-W03"]
    assert found[0].says() == "withdrawn on 2026-02-03: test rows"
    assert found[1].says() == "superseded by weekly 2026-W02 on 2026-02-03: late rows"
    assert found[1].prev == found[0].hash
    assert parse(None) == ()


def test_the_latest_entry_of_a_period_is_its_standing():
    data = entry(entry(action="supersede", by=BY), reason="its successor is wrong too")
    assert len(parse(data)) == 2
    assert current(parse(data))["2026-W01"].word == "withdrawn"


def test_the_same_again_changes_nothing_whatever_the_time():
    data = entry()
    assert entry(data, at="2027-01-01T00:00:00Z") == data
    assert entry(data, reason="another") != data


def entries(data):
    return json.loads(data)["entries"]


def broken(mutate):
    document = json.loads(three())
    mutate(document["entries"])
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "mutate",
    [
        lambda e: e[0].update(reason="changed"),
        lambda e: e[1].update(period="2026-W09"),
        lambda e: e[1].update(at="2020-01-01T00:00:00Z"),
        lambda e: e[1]["by"].update(period="2026-W09"),
        lambda e: e[0].update(release="00" * 32),
        lambda e: e.pop(0),
        lambda e: e.pop(1),
        lambda e: e.reverse(),
        lambda e: e[2].update(hash="0" * 64),
        lambda e: e[1].update(by=None),
        lambda e: e[1].update(action="delete"),
        lambda e: e[1].pop("reason"),
        lambda e: e[0].update(reason=7),
    ],
)
def test_an_edit_a_dropped_or_a_moved_entry_is_found(mutate):
    with pytest.raises(VerificationError) as refused:
        parse(broken(mutate))
    assert refused.value.code == "DPR830"


def test_the_twin_that_skips_the_chain_would_believe_an_edit(monkeypatch):
    monkeypatch.setattr(corrections, "_digest", lambda entry: entry.hash)
    parse(broken(lambda e: e[2].update(reason="changed")))  # the control of the test above


def test_the_end_cut_off_is_not_found_by_the_file_alone():
    """Said in the module: who must know keeps the newest hash."""
    assert len(parse(broken(lambda e: e.pop()))) == 2


@given(
    st.binary(max_size=60) | st.sampled_from([b"[]", b"{}", b"null", b'{"dprelease":"status/2"}'])
)
def test_anything_else_is_refused_with_a_code(data):
    with pytest.raises(VerificationError):
        parse(data)


@pytest.mark.parametrize("reason", ["", "  \n ", "x" * 1001, "bell \x07"])
def test_a_reason_is_public_text(reason):
    with pytest.raises(ArgumentError) as refused:
        entry(reason=reason)
    assert refused.value.code == "DPR691"


@given(st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=40))
def test_any_printable_reason_survives(reason):
    assert parse(entry(reason=f" {reason}\n"))[0].reason == reason
