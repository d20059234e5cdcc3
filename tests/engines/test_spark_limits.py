"""Limits of a local Spark: settings that it starts with, or a refusal that says where to set them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprelease.core.errors import ConfigError
from dprelease.engines import spark
from dprelease.engines.limits import Limits
from dprelease.engines.source import as_source
from dprelease.engines.spark import SparkEngine, local_settings
from dprelease.pipeline import preflight
from tests.engines import own_java
from tests.engines.spark_session import needs_spark, session
from tests.engines.test_spark import SUMS


@needs_spark
def test_a_session_that_starts_here_has_them() -> None:
    done = own_java.ended()
    assert done.stdout.split() == ["local[1]", "1", "True", "True"], done.stderr[-2000:]


@needs_spark
def test_a_session_that_runs_without_them_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = as_source(session().createDataFrame([("a", 1.0)], "site STRING, x DOUBLE"))
    engine = preflight.engine_named("spark", Limits(threads=7))
    with pytest.raises(ConfigError) as refused:
        engine.preflight(frame, SUMS)
    assert refused.value.code == "DPR149"
    assert "started without them" in str(refused.value)
    monkeypatch.setattr(SparkEngine, "_under_limits", lambda _self, session: session)
    engine.preflight(frame, SUMS)  # the guard's broken twin goes on


def test_a_cluster_has_limits_of_its_own() -> None:
    for options in ({"master": "yarn"}, {"remote": lambda: "sc://host"}):
        with pytest.raises(ConfigError) as refused:
            preflight.engine_named("spark", Limits(threads=2), options)
        assert refused.value.code == "DPR149"
        assert "host" not in str(refused.value)
        assert preflight.engine_named("spark", Limits(), options) is not None
    with pytest.raises(ConfigError) as refused:
        preflight.engine_named("spark", Limits(max_temp=1 << 30))
    assert refused.value.code == "DPR110"


def test_too_little_memory_is_refused_before_java_starts() -> None:
    with pytest.raises(ConfigError, match="512 MiB"):
        local_settings(None, 100 << 20, None)
    assert local_settings(2, 1 << 30, Path("/spill")) == {
        "spark.master": "local[2]",
        "spark.driver.memory": "1024m",
        "spark.local.dir": "/spill",
    }
    assert spark.local_settings(None, None, None) == {}
