"""A secret shows nothing and cannot leave by accident."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from dprelease.core.secret import Secret

CANARY = "canary-4711"


def test_nothing_is_shown() -> None:
    secret = Secret(CANARY)
    shown = f"{secret} {secret!r} {secret!s} {secret:>40} %s" % secret
    assert CANARY not in shown
    assert "Secret(***)" in shown
    assert CANARY in f"{[CANARY]}"  # control: the check would see it


@pytest.mark.parametrize(
    "leak",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        hash,
        iter,
        len,
        bool,
        list,
        lambda s: s == CANARY,
        lambda s: s != CANARY,
        lambda s: s in [CANARY],
        lambda s: {s: 1},
        json.dumps,
        lambda s: s.__dict__,
        lambda s: vars(s),
    ],
)
def test_no_accidental_way_out(leak: object) -> None:
    with pytest.raises((TypeError, AttributeError)) as caught:
        leak(Secret(CANARY))  # type: ignore[operator]
    assert CANARY not in str(caught.value)


def test_the_one_way_out() -> None:
    assert Secret(CANARY).reveal_to_mechanism() == CANARY
