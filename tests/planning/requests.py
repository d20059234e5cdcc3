"""Schemas and plans for tests: a small table declaration with whatever the test is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dprelease.core.entropy import RandomBits
from dprelease.measurements.law import draw_from_json
from dprelease.planning.make import make_plan
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import Query, resolve
from dprelease.release_plan.block import Block
from dprelease.release_plan.plan import ReleasePlan
from dprelease.schema.table import TableSchema
from dprelease.wall import execute

USER = {"user": "who", "max_groups": 2, "max_rows_per_group": 3}
X = {"kind": "number", "range": [0, 10], "step": 0.5}


def declared(
    statistics: object,
    *,
    epsilon: object = 1,
    unit: object = "row",
    adjacency: str = "add_remove",
    rows: Mapping[str, Any] | None = None,
    x: Mapping[str, Any] | None = None,
    groups: Sequence[str] = ("a", "b", "c"),
    columns: Mapping[str, Any] | None = None,
    **release: object,
) -> TableSchema:
    """Return a table with a user column `who`, a number `x` and a category `g`."""
    return Schema.from_dict(
        {
            "dprelease": "schema/1",
            "name": "small",
            "unit": unit,
            "adjacency": adjacency,
            "rows": {"max": 10_000} if rows is None else dict(rows),
            "columns": {
                "who": {"kind": "identifier"},
                "x": dict(X if x is None else x),
                "g": {"kind": "category", "values": list(groups)},
                **(columns or {}),
            },
            "release": {"epsilon": epsilon, "statistics": statistics, **release},
        }
    )


def asked(*args: Any, **kwargs: Any) -> Query:
    schema = declared(*args, **kwargs)
    return resolve(schema, merge_release(schema))


def planned(*args: Any, **kwargs: Any) -> ReleasePlan:
    """Return the plan of `declared(...)`, checked by the wall."""
    plan = make_plan(asked(*args, **kwargs))
    execute.check(plan)
    return plan


PUBLIC_X = {"kind": "number", "range": [0, 10], "step": 0.5, "nulls": {"default": 5}}


def public(statistics: object, n: int = 900, **kwargs: Any) -> ReleasePlan:
    """Return a plan over a public number of rows."""
    return planned(statistics, adjacency="substitution", rows={"exact": n}, x=PUBLIC_X, **kwargs)


def forged(block: Block, *, law: Any = None, **measurement: Any) -> Block:
    """Return the block as its JSON would be read with these parts of its measurement or law exchanged."""
    said = block.to_json()
    said["measurement"] |= measurement
    said["law"] |= law or {}
    said |= {"cells": said["measurement"]["cells"], "family": said["measurement"]["family"]}
    said["mechanism"] = draw_from_json(said["law"]).mechanism
    return Block.from_json(said)


def drawn(
    plan: ReleasePlan, block: Block, exact: npt.NDArray[Any], bits: RandomBits
) -> npt.NDArray[Any]:
    """Draw `block` from exact cells with repeatable bits: what the wall does with the system's."""
    return block.law.draw(np.asarray(exact, dtype=object), bits)
