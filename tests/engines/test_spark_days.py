"""Local days that Spark looks up in arrays: those of the calendar, at every odd instant of every zone."""

from __future__ import annotations

import pytest

from dprelease.engines import spark_days
from dprelease.engines.code_sql import column
from dprelease.engines.interval_sql import first_day
from dprelease.engines.spark_sql import translated
from dprelease.query.intervals import Intervals
from tests.engines.spark_session import needs_spark, session
from tests.engines.test_interval_sql import ZONES, odd_instants
from tests.sizes import FULL

pytestmark = needs_spark


def by_spark(per, moments):
    """Return the first days as Spark computes them, and the statement."""
    from sqlglot import exp

    day = first_day(per, per.stretches(), lambda: column("t"))
    sql, _ = translated(exp.select(exp.alias_(day, "day")).from_("moments"), {}, {})
    texts = [[m.replace(tzinfo=None).isoformat(sep=" ")] for m in moments]
    frame = (
        session().createDataFrame(texts, "text string").selectExpr("CAST(text AS TIMESTAMP) AS t")
    )
    frame.createOrReplaceTempView("moments")
    try:
        return [row.day for row in session().sql(sql).collect()], sql
    finally:
        session().catalog.dropTempView("moments")


@pytest.mark.parametrize("zone", ZONES if FULL else ZONES[:3])
def test_spark_and_the_calendar_agree(zone):
    moments = odd_instants(zone)
    lengths = ("day", "quarter") if FULL else ("quarter",)
    for every in lengths if zone == "Europe/Dublin" else ("day",):
        per = Intervals("t", every, zone)
        found, sql = by_spark(per, moments)
        assert found == [per.first_day(m) for m in moments]
        assert ("ELEMENT_AT" in sql.upper()) == (len(per.stretches()) > spark_days._FEW)


def test_a_twin_that_counts_no_stretch_within_its_year_is_another_day(monkeypatch):
    moments = odd_instants("Europe/Dublin")
    monkeypatch.setattr(spark_days, "_most", lambda before: 0)
    per = Intervals("t", "day", "Europe/Dublin")
    assert by_spark(per, moments)[0] != [per.first_day(m) for m in moments]
