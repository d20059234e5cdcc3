"""The `detail` of a table, read: what decides how fine it is published.

Which tables its rows may stand at is `planning.tables.detail`'s to find.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NoReturn

from dprelease.core.errors import ConfigError
from dprelease.core.numeric import exact, plain
from dprelease.schema.table import DetailSpec
from dprelease.schema.table_models import DetailModel

SHARE = Fraction(1, 20)
"""The part of epsilon that tells sizes, where none is declared."""


def detail_spec(model: DetailModel, names: Sequence[str], origin: str) -> DetailSpec:
    """Return the declaration.

    Args:
        names: published names of the table's statistics.

    Raises:
        ConfigError: no such statistic, no goal, or a number that is none (DPR154, DPR119).
    """
    if model.statistic not in names:
        _fail(
            f"the table publishes no `{model.statistic}`",
            f"name one of: {', '.join(names)}",
            origin,
        )
    error = _positive(model.max_error, "max_error", origin)
    relative = _positive(model.max_relative_error, "max_relative_error", origin)
    share = _positive(model.share, "share", origin)
    if error is None and relative is None:
        _fail("`detail` has no goal", "add `max_error` or `max_relative_error`", origin)
    if share is not None and relative is None:
        _fail(
            "`share` pays for a draw that tells sizes, and `max_error` needs none",
            "leave it out, or add `max_relative_error`",
            origin,
        )
    if share is not None and share >= 1:
        _fail(f"the share is {plain(share)}", "a part of epsilon: more than 0, less than 1", origin)
    if model.levels is not None and not model.levels:
        _fail("`levels` names no table", "name a coarser table, or leave it out", origin)
    if relative is not None and share is None:
        share = SHARE
    return DetailSpec(model.statistic, error, relative, share, tuple(model.levels or ()), origin)


def _positive(value: object, name: str, origin: str) -> Fraction | None:
    if value is None:
        return None
    number = exact(value)
    if not isinstance(number, Fraction) or number <= 0:
        _fail(f"`{name}` is {plain(number)}", "a number above 0", origin, "DPR119")
    return number


def _fail(what: str, fix: str, origin: str, code: str = "DPR154") -> NoReturn:
    raise ConfigError(what, where=origin, fix=fix, code=code)
