"""A plan made again is the plan; another choice than the request admits is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.allocation.share import Share
from dprelease.allocation.spend import added_up
from dprelease.core.errors import VerificationError
from dprelease.core.strict_json import canonical_json
from dprelease.planning.again import near, plan_again
from dprelease.planning.layout import layouts
from dprelease.planning.prices import Prices
from dprelease.planning.write import write_plan
from dprelease.query.request import request_from_json
from dprelease.query.written import request_to_json
from tests.folders import CASES


def read_back(plan):
    asked = json.loads(canonical_json(request_to_json(plan.request)))
    return request_from_json(asked)


@pytest.mark.parametrize(
    "name",
    ["groups of users", "a week", "no point masses", "normal noise", "ranks", "goals", "a view"],
)
def test_request_and_choice_give_the_plan(name):
    plan = CASES[name]()
    query = read_back(plan)
    assert request_to_json(query) == request_to_json(plan.request)
    assert plan_again(query, json.loads(canonical_json(plan.to_json()))).hash == plan.hash


def test_other_integers_of_a_solver_pass_where_they_serve_as_well():
    """What another machine's floating point proposes: a different rate, the same error to a millionth."""
    plan = CASES["no point masses"]()
    query, stated = read_back(plan), plan.to_json()
    law = next(b["law"]["law"] for b in stated["blocks"] if b["law"]["draw"] == "scalar")
    assert "p" in law or "noise" in law or "rate" in law
    key = next(k for k in ("p", "rate") if k in law) if "noise" not in law else "noise"
    old = json.dumps(law[key])
    if key == "p":
        law[key] = type(law[key])(int(law[key]) - 1)
    else:
        rate = law["noise"]["rate"] if key == "noise" else law["rate"]
        top, _, bottom = rate.partition("/")
        less = (
            f"{int(top) * 10**6 - 1}/{int(bottom or 1) * 10**6}"
            if int(top) < 10**6
            else f"{int(top) - 1}/{bottom}"
        )
        law[key] = {"rate": less} if key == "noise" else less
    assert json.dumps(law[key]) != old
    again = plan_again(query, stated)
    assert [b.law.to_json() for b in again.blocks] == [b["law"] for b in stated["blocks"]]


@pytest.mark.parametrize("part", ["share", "name"])
def test_another_choice_is_refused(part):
    plan = CASES["groups of users"]()
    stated = plan.to_json()
    if part == "share":
        stated["blocks"][0]["share"] = {"epsilon": "3/2"}
    else:
        stated["blocks"][0]["name"] = "other"
    with pytest.raises(VerificationError) as caught:
        plan_again(read_back(plan), stated)
    assert caught.value.code == "DPR805"


def test_a_budget_that_misses_the_declared_errors_is_refused():
    """All is priced and added up by our own code, at a tenth of what the goals need."""
    plan = CASES["goals"]()
    query = read_back(plan)
    prices = Prices(query)
    priced = tuple(
        prices.priced(block, Share(Fraction(part["share"]["epsilon"]) / 10))
        for block, part in zip(layouts(query)[0], plan.to_json()["blocks"], strict=True)
    )
    cheaper = write_plan(
        query,
        added_up("basic/1", priced, query.epsilon, query.spec.delta, prices),
        Prices(query),
    )
    assert cheaper.epsilon == plan.epsilon / 10
    with pytest.raises(VerificationError, match="was not made from its request") as caught:
        plan_again(query, json.loads(canonical_json(cheaper.to_json())))
    assert "max_error" in (caught.value.why or "")


def test_figures_are_near_to_a_millionth():
    assert near(1.0, 1.0 + 1e-9)
    assert not near(1.0, 1.0 + 1e-5)
    assert near(None, None)
    assert not near(None, 0.0)


def written(query, name, change):
    """Return the JSON of a plan of the case whose blocks are priced as `change(prices, block, part)` says."""
    stated, prices = CASES[name]().to_json(), Prices(query)
    priced = tuple(
        change(prices, block, part)
        for block, part in zip(layouts(query)[0], stated["blocks"], strict=True)
    )
    spending = added_up("basic/1", priced, query.epsilon, query.spec.delta, prices)
    return json.loads(canonical_json(write_plan(query, spending, Prices(query)).to_json()))


def refused(query, stated):
    with pytest.raises(VerificationError) as caught:
        plan_again(query, stated)
    assert caught.value.code == "DPR805"
    return caught.value.why


def test_a_plan_written_by_these_tools_is_admitted():
    """The control of the three below."""
    query = read_back(CASES["shares, weights, notes"]())

    def honest(prices, block, part):
        return prices.priced(block, Share.from_json(part["share"]))

    assert plan_again(query, written(query, "shares, weights, notes", honest)).epsilon == 2


def test_a_declared_share_is_kept():
    query = read_back(CASES["shares, weights, notes"]())

    def less(prices, block, part):
        return prices.priced(block, Share(Fraction(part["share"]["epsilon"]) * Fraction(9, 10)))

    said = refused(query, written(query, "shares, weights, notes", less))
    assert "its declared share of epsilon is another one" in said


def test_the_epsilon_of_a_share_of_rho_is_that_of_its_rho():
    """No law of normal noise uses it, so that nothing else told when it was another number."""
    plan = CASES["normal noise"]()
    stated = json.loads(canonical_json(plan.to_json()))
    stated["blocks"][0]["share"]["epsilon"] = "0"
    assert "is not that of its rho" in refused(read_back(plan), stated)


def test_the_law_that_is_drawn_is_the_best_of_its_rivals():
    query = read_back(CASES["groups of users"]())

    def second(prices, block, part):
        priced = prices.priced(block, Share.from_json(part["share"]))
        first = next(
            c for c in priced.ranked if c.price(query.judge) > priced.best.price(query.judge) * 1.01
        )
        others = tuple(c for c in priced.ranked if c is not first)
        moved = prices.sensitivity(first.measurement, block)
        return replace(priced, ranked=(first, *others), sensitivity=moved)

    assert "is not the best of its laws" in refused(
        query, written(query, "groups of users", second)
    )


def test_the_split_stays_within_the_epsilon():
    """All is that of a request for epsilon 2; this one allows 1."""
    plan = CASES["groups of users"]()
    query = read_back(plan)
    smaller = replace(query, spec=replace(query.spec, epsilon=Fraction(1)))
    assert smaller.epsilon == 1
    stated = json.loads(canonical_json(plan.to_json()))
    assert "1 may be spent, by basic/1 it is 2" in refused(smaller, stated)


def test_a_law_with_a_tenth_more_noise_is_another_law():
    plan = CASES["no point masses"]()
    stated = json.loads(canonical_json(plan.to_json()))
    law = next(b["law"]["law"] for b in stated["blocks"] if b["law"]["draw"] == "scalar")
    key = next(k for k in ("p", "rate") if k in law)
    law[key] = (
        type(law[key])(int(law[key]) - int(law[key]) // 10)
        if key == "p"
        else str(Fraction(law[key]) * 9 / 10)
    )
    assert "its law has other integers, and is another law" in refused(read_back(plan), stated)


@pytest.mark.parametrize("figure", ["expected_error", "worst_error"])
def test_stated_errors_are_those_of_the_laws(figure):
    plan = CASES["groups of users"]()
    stated = json.loads(canonical_json(plan.to_json()))
    option = next(o for s in stated["statistics"] for o in s["options"] if o[figure])
    option[figure] *= 1.01
    assert "its stated errors are not those of its laws" in refused(read_back(plan), stated)


def test_a_rival_of_an_earlier_version_stands_in_the_order_of_price():
    plan = CASES["groups of users"]()
    rival = {"mechanism": "randomized_response", "note": ""}
    for more, drawn in ((1.5, True), (1, True), (0.99, False)):
        stated = json.loads(canonical_json(plan.to_json()))
        options = next(
            s["options"] for s in stated["statistics"] if s["options"][-1]["worst_error"]
        )
        figures = {n: more * options[-1][n] for n in ("expected_error", "worst_error")}
        options.append(rival | figures)
        if drawn:
            assert plan_again(read_back(plan), stated).to_json() == stated
        else:
            assert "its stated errors are not" in refused(read_back(plan), stated)
    first = json.loads(canonical_json(plan.to_json()))
    options = next(s["options"] for s in first["statistics"])
    options.insert(0, rival | {n: options[0][n] for n in ("expected_error", "worst_error")})
    assert "its stated errors are not" in refused(read_back(plan), first)


def test_advice_is_that_of_the_planner():
    plan = CASES["ranks"]()
    stated = json.loads(canonical_json(plan.to_json()))
    advised = [o for s in stated["statistics"] for o in s["options"]]
    assert not any("advice" in option for option in advised)
    assert plan_again(read_back(plan), stated).hash == plan.hash
    advised[0]["advice"] = "is better whatever it costs"
    assert "its stated errors are not those of its laws" in refused(read_back(plan), stated)
