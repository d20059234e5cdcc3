"""What accuracy costs is what the planner then charges; the plan of anything that has one."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.pipeline.config import load_pipeline
from dprelease.pipeline.explore import explore, needed, plan_of, releases_left, wish
from dprelease.pipeline.planned import plan_pipeline
from dprelease.pipeline.starter import create_starter
from dprelease.release_plan.curve import error_of

FEW = (Fraction(2),)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clinic")
    create_starter(folder)
    made = load_pipeline(folder / "pipelines" / "clinic_weekly.yaml")
    count, _, age, *_ = made.release.statistics
    return replace(made, release=replace(made.release, statistics=(count, age)))


@pytest.fixture(scope="module")
def plan(config):
    return plan_pipeline(config)


@pytest.mark.parametrize(("name", "error"), [("count", 4), ("mean(age)", "0.5")])
def test_the_epsilon_that_is_named_suffices_and_little_less_does_not(config, plan, name, error):
    need = needed(config, name, Fraction(error), plan)
    asked = next(s for s in config.release.statistics if name in (s.name, s.text))

    def alone(epsilon):
        release = replace(config.release, epsilon=epsilon, statistics=(asked,))
        made = plan_pipeline(replace(config, release=release))
        return error_of(made, made.statistics[0])

    assert alone(need.alone) <= float(error)
    assert alone(need.alone * Fraction(3, 4)) > float(error)  # it holds at the worst place
    assert need.in_all > need.alone
    assert need.releases == releases_left(config, plan_pipeline(config), need.in_all) > 0
    assert json.loads(json.dumps(need.to_json()))["releases"] == need.releases
    assert "takes epsilon" in str(need)


def test_the_curve_goes_through_the_plan(config, plan):
    curve = explore(config, plan, FEW)
    own = curve.points[curve.own]
    assert own.epsilon == plan.epsilon
    assert own.errors == tuple(error_of(plan, s) for s in plan.statistics)
    assert curve.note == ""


def test_without_a_guess_of_the_size_the_planner_s_own_is_used(config):
    schema = replace(config.schema, rows=replace(config.schema.rows, expected=None))
    blind = replace(config, schema=schema)
    assert any(s.planned_error is None for s in plan_pipeline(blind).statistics)
    curve = explore(blind, factors=())
    assert all(e is not None for p in curve.points for e in p.errors)


def test_goals_on_every_statistic_are_left_out_of_the_curve(config):
    goal = replace(config.release.statistics[0], max_error=Fraction(3))
    only = replace(config, release=replace(config.release, epsilon=Fraction(0), statistics=(goal,)))
    curve = explore(only, factors=FEW)
    assert "max_error" in curve.note
    assert len({p.errors for p in curve.points}) == len(curve.points)


@pytest.mark.parametrize("text", ["count", "=2", "count=0", "count=-1", "count=inf", "count=x"])
def test_a_wish_that_does_not_read_is_refused(text):
    with pytest.raises(ArgumentError) as caught:
        wish(text)
    assert caught.value.code == "DPR612"


def test_a_wish_reads_names_with_signs_and_errors_with_plus_minus():
    assert wish("proportion(bmi >= 30)=±0.01") == ("proportion(bmi >= 30)", Fraction(1, 100))


def test_an_unknown_statistic_is_refused_with_its_neighbour(config, plan):
    with pytest.raises(ArgumentError, match="did you mean `mean_age`") as caught:
        needed(config, "mean_aeg", Fraction(1), plan)
    assert caught.value.code == "DPR613"


def test_a_published_manifest_has_a_plan_and_other_json_has_none(config, plan, tmp_path):
    (tmp_path / "release.json").write_text(json.dumps({"plan": plan.to_json()}))
    assert plan_of(tmp_path).statistics == plan.statistics
    for text in ("[]", "{}", "{", '{"plan": 1}'):
        (tmp_path / "release.json").write_text(text)
        with pytest.raises(ConfigError) as caught:
            plan_of(tmp_path / "release.json")
        assert caught.value.code == "DPR181"
