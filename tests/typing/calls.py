"""Right and wrong calls of the public doors, for mypy alone: `tests.meta.test_types` reads its verdict.

A line that ends in `# refused: CODE` must be refused with that code, every other one accepted.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import dprelease as dp
from dprelease import BudgetErorr  # refused: attr-defined

frame = pd.DataFrame({"age": [1, 2]})
schema = dp.Schema.load("schema.yaml")

# --- names of the package
dp.relaese(frame, schema)  # refused: attr-defined
wrong_domain: dp.Domian  # refused: name-defined

# --- plan
plan: dp.ReleasePlan = dp.plan(schema)
dp.plan("schema.yaml", epsilon=1, delta="1e-9", statistics=["count", {"statistic": "mean(age)"}])
dp.plan(Path("schema.yaml"), epsilon=Decimal("0.5"), by=("region",), where="age > 3")
dp.plan({"name": "x"}, epsilon=Fraction(1, 2), statistics=("count",), by=[])
dp.plan(schema, epsilon=np.int64(1), delta=np.float32(1e-6))
frame.dp.plan(schema, epsilon=np.float64(0.5), delta=np.float16(0))
dp.plan(1)  # refused: arg-type
dp.plan(schema, epsilon=np.bool_(True))  # refused: arg-type
dp.plan(schema, epsilon=np.arange(2.0))  # refused: arg-type
dp.plan(schema, epsilon=np.complex64(1))  # refused: arg-type
dp.plan(schema, 1)  # refused: call-arg
dp.plan(schema, epsilon=[1])  # refused: arg-type
dp.plan(schema, statistics=1)  # refused: arg-type
dp.plan(schema, statistics=[1])  # refused: list-item
dp.plan(schema, by=7)  # refused: arg-type
dp.plan(schema, where=["age > 3"])  # refused: arg-type
dp.plan(schema, epsilom=1)  # refused: call-arg
wrong_plan: dp.Release = dp.plan(schema)  # refused: assignment

# --- release: every kind of table, and nothing else
released: dp.Release = dp.release(frame, schema, epsilon=1, ledger="ledger.db", period="2026-W46")
dp.release(pl.DataFrame({"age": [1]}), schema)
dp.release(pl.LazyFrame({"age": [1]}), schema)
dp.release(pa.table({"age": [1]}), schema)
dp.release(duckdb.connect("visits.duckdb").table("visits"), schema)
dp.release(Path("visits.parquet"), schema, dataset="clinic", ledger=Path("ledger.db"))
dp.release([1, 2], schema)  # refused: arg-type
dp.release({"age": [1, 2]}, schema)  # refused: dict-item
dp.release(pd.Series([1, 2]), schema)  # refused: arg-type
dp.release(pl.Series([1, 2]), schema)  # refused: arg-type
dp.release(frame["age"].sum, schema)  # refused: arg-type
dp.release(frame)  # refused: call-arg
dp.release(frame, schema, seed=1)  # refused: call-arg
dp.release(frame, schema, period=46)  # refused: arg-type

# --- what a release offers
wide: pd.DataFrame = released.to_pandas(intervals=False)
place: Path = released.publish("public")
released.plot("mean_age", group=["north", "f"])
released.plot(group=3)  # refused: arg-type
released.table = pa.table({})  # refused: misc
released.to_pandas(True)  # refused: arg-type

# --- SQL, ledgers, pipelines
dp.sql("SELECT COUNT(*) FROM visits", schema, epsilon="1/2", visits=frame)
dp.sql("SELECT COUNT(*) FROM visits", schema, visits=3)  # refused: arg-type
dp.sql("SELECT COUNT(*) FROM visits", schema, epsilon=np.uint8(1), visits=frame)
dp.create_ledger("ledger.db", schema, epsilon=10, composition="zcdp", delta=1e-9)
dp.create_ledger("ledger.db", schema, epsilon=np.int32(10), delta=np.float32(1e-9))
dp.create_ledger("ledger.db", schema)  # refused: call-arg
dp.create_ledger("ledger.db", schema, epsilon=1, composition="advanced")  # refused: arg-type
dp.open_ledger("ledger.db").add("clinic", epsilon=1)
dp.open_ledger("ledger.db").add("clinic", epsilon=None)  # refused: arg-type
dp.open_ledger(3)  # refused: arg-type
folder: Path = dp.run("pipeline.yaml", period="2026-W46").folder
dp.run("pipeline.yaml", early="yes")  # refused: arg-type

# --- folders, read and computed with
published: dp.Publication = dp.read("public/2026-W46", verify=False)
dp.read(46)  # refused: arg-type
dp.read("public/2026-W46", True)  # refused: call-arg
people = pa.table({"region": ["north"], "people": [7]})
share: dp.Derived = published.derive("count / people", by=["region"], public=people, level=0.9)
published.derive("count / people", public=pd.DataFrame({"people": [7]}))
released.derive("count / people", public=Path("people.csv"))
published.derive("count / people", public=7)  # refused: arg-type
published.derive("count / people", public=pd.Series([7]))  # refused: arg-type
published.derive("count / people", public={"people": [7]})  # refused: arg-type
published.derive(count=1)  # refused: call-arg
dp.read_series("public").derive("growth(count)", public=pl.DataFrame({"people": [7]}))
dp.read_series("public")["2026-W46"].derive("count", by=3)  # refused: arg-type
dp.read_series(["public"])  # refused: arg-type
dp.diff(published, "public/2026-W45", adjust="none")
dp.diff(published, released, adjust="bonferroni")  # refused: arg-type
checked: bool = dp.verify("public/2026-W46", ledger="ledger.db").ok
dp.verify(released)  # refused: arg-type
dp.verify("public/2026-W46", "ledger.db")  # refused: call-arg

# --- the accessor, with and without the plugin
dp.Accessor(frame).release(schema, epsilon=1)
dp.Accessor(frame).release(schema, epsilon={})  # refused: arg-type
again: dp.Release = frame.dp.release(schema, epsilon=1)
frame.dp.release(schema, epsilon={})  # refused: arg-type
frame.dp.releese(schema)  # refused: attr-defined
column: pd.Series[int] = frame.age  # what is not an accessor stays a column

# --- domains
ages = dp.Domain(0, "119.5", forbidden=[(40, Decimal(60)), [Fraction(141, 2), 71.5]])
dp.Domain(float("-inf"), 0, np.array([[-2, -1]]))
dp.Domain([], 1)  # refused: arg-type
dp.Domain({"a": 1}, 2)  # refused: arg-type
dp.Domain(0, print)  # refused: arg-type
dp.Domain(0, None)  # refused: arg-type
dp.Domain(0, 1, forbidden=[[print]])  # refused: list-item
dp.Domain(0, 1, forbidden=3)  # refused: arg-type
dp.Domain.from_pieces([(0, 1), ("3/2", 2.5)])
dp.Domain.from_pieces([(0, None)])  # refused: list-item
box = dp.Box([ages, (0, 10), ["0.5", Fraction(3, 2)]])
dp.Box(ages)  # refused: arg-type
dp.Box([(0, None)])  # refused: list-item
dp.Box([3])  # refused: list-item

# --- mechanisms
laplace = dp.mechanisms.BoundedLaplace(ages, scale="2.5", answers="domain")
dp.mechanisms.BoundedLaplace.calibrate(ages, sensitivity=1, epsilon=Decimal(1), delta="1e-9")
laplace.on_grid(Fraction(1, 2), sensitivity=3).pmf("12.5")
dp.mechanisms.BoundedLaplace(box, scale=1)  # refused: arg-type
dp.mechanisms.BoundedLaplace(ages, scale=None)  # refused: arg-type
dp.mechanisms.BoundedLaplace(ages, scale=1, answers="all")  # refused: arg-type
dp.mechanisms.BoundedLaplace.calibrate(ages, sensitivity=None, epsilon=1)  # refused: arg-type
dp.mechanisms.BoundedLaplace.calibrate(ages, sensitivity=1, epsilon=["x"])  # refused: arg-type
laplace.on_grid([1])  # refused: arg-type
laplace.loss(sensitivity=b"1")  # refused: arg-type
gaussian = dp.mechanisms.BoundedGaussian(ages, scale=Fraction(5, 2))
dp.mechanisms.BoundedGaussian(box, scale=[1, "2", 3.5], sensitivity=np.array([1.0, 2.0, 3.0]))
dp.mechanisms.BoundedGaussian.calibrate(
    box, sensitivity=(1, 2, 3), epsilon=1, scale_ratios=[1, 2, 3]
)
both = dp.mechanisms.BoundedGaussian.calibrate(
    box, sensitivity={"l2": 2, "per_coordinate": [1, 2, 2]}, epsilon="0.5", rule="exact"
)
both.on_grid(["0.5", 1, 0.5], sensitivity=both.sensitivity)
dp.mechanisms.BoundedGaussian(ages, scale=print)  # refused: arg-type
dp.mechanisms.BoundedGaussian.calibrate(ages, sensitivity={1}, epsilon=1)  # refused: arg-type
dp.mechanisms.BoundedGaussian.calibrate(ages, sensitivity=1, epsilon=b"")  # refused: arg-type
dp.mechanisms.BoundedGaussian.calibrate(box, sensitivity={"l1": 1}, epsilon=1)  # refused: arg-type
dp.mechanisms.BoundedGaussian(ages, scale=1, answers="all")  # refused: arg-type
gaussian.delta(epsilon=1, sensitivity=object())  # refused: arg-type
gaussian.on_grid({1})  # refused: arg-type
dp.mechanisms.Staircase(ages, sensitivity=1, epsilon="1/2").on_grid(1, loss="squared")
dp.mechanisms.Staircase.calibrate(ages, sensitivity=1, epsilon=[1])  # refused: arg-type
dp.mechanisms.Staircase(ages, scale=1, epsilon=1).on_grid(1, loss="cubed")  # refused: arg-type
dp.mechanisms.DiscreteLaplace.calibrate(ages, sensitivity=1, epsilon=1, step="0.5").on_grid()
dp.mechanisms.DiscreteLaplace(ages, scale=1, step=None)  # refused: arg-type
dp.mechanisms.RectifiedLaplace.calibrate(ages, sensitivity=1, epsilon=1).on_grid(1)
dp.mechanisms.RectifiedLaplace(ages, scale=[1])  # refused: arg-type
reflected = dp.mechanisms.ReflectedLaplace(dp.Domain(0, 1), scale="0.5")
reflected.loss(sensitivity=None)  # refused: arg-type
dp.mechanisms.Exponential.for_scores(7, spread=1, epsilon="0.5")
dp.mechanisms.Exponential.for_scores(7, spread=1, epsilon=None)  # refused: arg-type
dp.mechanisms.OptimalGrid.calibrate(ages, sensitivity=1, epsilon=1, step=4, criterion="worst")
dp.mechanisms.OptimalGrid.calibrate(ages, sensitivity=1, epsilon=1, step=[4])  # refused: arg-type
rectified = dp.mechanisms.RectifiedGaussian(ages, scale=2)
rectified.on_grid("0.5").rho(sensitivity=1)
rectified.on_grid(None)  # refused: arg-type
sign = dp.mechanisms.StochasticSign(scale="1.5")
dp.mechanisms.StochasticSign(scale=[1])  # refused: arg-type

# --- diagnostics, of mechanisms of normal noise
eta: dp.diagnostics.CuratorOnly = dp.diagnostics.fisher_information_loss(gaussian, [0.5, 1])
dp.diagnostics.fisher_information_loss(sign, 0.5)
dp.diagnostics.fisher_information_loss("no mechanism", 0.5)  # refused: arg-type
dp.diagnostics.fisher_information_loss(laplace, 0.5)  # refused: arg-type
dp.diagnostics.fisher_information_loss(gaussian, print)  # refused: arg-type
dp.diagnostics.composed_fisher_information_loss(both, [1, 2, 1], np.eye(3))
dp.diagnostics.composed_fisher_information_loss(None, [1], [[1]])  # refused: arg-type
dp.diagnostics.renyi_divergence(rectified, 1, [2, 3], alpha=2)
dp.diagnostics.renyi_divergence(dp.mechanisms.BoundedGaussian, 1, 2, alpha=2)  # refused: arg-type
dp.diagnostics.renyi_divergence(rectified, 1, 2, alpha="2")  # refused: arg-type
dp.diagnostics.per_instance_rdp(gaussian, np.arange(3.0), 1, alpha=1.5)
dp.diagnostics.per_instance_rdp(ages, 1, 1, alpha=1.5)  # refused: arg-type
dp.diagnostics.composed_rdp(both, [1, 2, 1], [1, 1, 1], alpha=2)
dp.diagnostics.composed_rdp(3, [1, 2], 1, alpha=2)  # refused: arg-type

# --- errors
try:
    dp.plan(schema)
except (dp.ConfigError, dp.PlanError, dp.BudgetError, dp.LedgerError) as refused:
    said: str = refused.what
    status: int = refused.exit_status
except dp.DpreleaseError as error:
    fix: str | None = error.fix
    cost: str = error.fixes  # refused: attr-defined

try:
    dp.plan(schema)
except dp.BudgetErorr:  # refused: attr-defined
    pass
except BudgetErorr:
    pass
