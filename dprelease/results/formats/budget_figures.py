"""The report's two pictures of the budget: what is left of it, and what another epsilon would buy.

Both are functions of the manifest. Geometry by `chart`: percentages across, pixels down, no
markup.

    burn-down   one bar per debit, as high as what it left of the dataset's budget; then, hollow,
                the bars of further releases at this one's price, where losses simply add up
    price list  per statistic, the error the plan expected at this epsilon and at others, read off
                the manifest's `what_if` (`planning.make.what_if`)

Limits  the burn-down holds the last debits only, and 8 hollow bars at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dprelease.core.numeric import fraction_from_json, short
from dprelease.release_plan.curve import expected
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.release_plan.weak import WEAK_ABOVE, weak_promise
from dprelease.results.formats.chart import Scale, slots
from dprelease.results.formats.numbers import figure_text

TOP = 18
HEIGHT = 96
FOOT = 22
_AHEAD = 8


@dataclass(frozen=True, slots=True)
class Left:
    """One bar: what a debit leaves. `kind`: past, this or next."""

    at: float
    width: float
    y: float
    height: float
    kind: str
    spent: str
    left: str
    name: str


@dataclass(frozen=True, slots=True)
class BurnDown:
    """Bars in time order. `more`: how many releases like this one still fit; None if unknown."""

    bars: tuple[Left, ...]
    height: int
    base: int
    top: int
    more: int | None


@dataclass(frozen=True, slots=True)
class Step:
    """One epsilon of a curve: a dot at (`at`, `y`)."""

    at: float
    y: float
    epsilon: str
    error: str
    now: bool


@dataclass(frozen=True, slots=True)
class ErrorCurve:
    """One statistic's expected error at a few epsilons, evenly spaced as each doubles the last."""

    title: str
    measure: str
    steps: tuple[Step, ...]
    height: int
    base: int


def budget_figure(
    budget: Mapping[str, Any] | None, epsilon: Fraction, *, apart: bool = False
) -> dict[str, Any] | None:
    """Return the budget's bar and its burn-down; None without a budget.

    Args:
        apart: whether releases of disjoint times do not add up: then the bar is the most charged
            unit's, and no number of further releases is known.
    """
    if budget is None:
        return None
    spent, total = fraction_from_json(budget["spent"]), fraction_from_json(budget["total"])
    if total <= 0:
        return None
    history = [Fraction(h) for h in budget.get("history", ())]
    last = history[-2] if len(history) > 1 and not apart else max(spent - epsilon, Fraction(0))
    before = min(last, spent)
    return {
        "spent": short(spent),
        "total": short(total),
        "weak": weak_promise(spent) if epsilon <= WEAK_ABOVE else None,
        "left": short(max(total - spent, Fraction(0))),
        "before_share": _share(before, total),
        "this_share": _share(spent - before, total),
        "apart": apart,
        "burn": _burn(history, total, epsilon)
        if history and history[-1] == spent and not apart
        else None,
    }


def _share(part: Fraction, whole: Fraction) -> float:
    return round(float(min(part / whole, Fraction(1)) * 100), 3)


def _burn(history: Sequence[Fraction], total: Fraction, epsilon: Fraction) -> BurnDown:
    spent = history[-1]
    before = history[-2] if len(history) > 1 else None
    # Losses composed otherwise than by their sum have no fixed price per release.
    adds = epsilon > 0 and (spent == epsilon if before is None else spent - before == epsilon)
    more = max(0, int((total - spent) / epsilon)) if adds else None
    ahead = [spent + epsilon * k for k in range(1, min(more or 0, _AHEAD) + 1)]
    points = [*history, *ahead]
    base = TOP + HEIGHT
    scale = Scale(0.0, 1.0, base, TOP, digits=2)
    bars = []
    for i, (cost, slot) in enumerate(zip(points, slots(len(points), 0.8, least=6), strict=True)):
        left = max(total - cost, Fraction(0))
        y = scale.inside(float(left / total))
        place = i - len(history) + 1
        kind = "past" if place < 0 else "this" if place == 0 else "next"
        name = {"past": f"{-place} before", "this": "this release", "next": f"{place} more"}[kind]
        bars.append(
            Left(
                slot.at, slot.width, y, round(base - y, 2), kind, short(cost), short(left), name,
            )
        )  # fmt: skip
    return BurnDown(tuple(bars), base + FOOT, base, TOP, more)


def price_list(
    manifest: Mapping[str, Any],
    statistics: Sequence[PlannedStatistic],
    title_of: Callable[[PlannedStatistic], tuple[str, str]],
) -> dict[str, Any] | None:
    """Return a curve per statistic and the epsilons, this release's included; None without any.

    Args:
        title_of: a statistic's heading, and the unit that stands beside it.
    """
    own = fraction_from_json(manifest["guarantee"]["epsilon"])
    others: list[tuple[Fraction, Mapping[str, float]]] = [
        (fraction_from_json(point["epsilon"]), point["errors"])
        for point in manifest.get("what_if", ())
    ]
    if not others:
        return None
    now = {
        s.name: error
        for s in statistics
        if (error := expected(s, manifest["plan"]["loss"])) is not None
    }
    points = sorted([*(p for p in others if p[0] != own), (own, now)], key=lambda p: p[0])
    curves = []
    for s in statistics:
        known = [(e, errors.get(s.name)) for e, errors in points]
        if s.name in now and sum(error is not None for _, error in known) > 1:
            curves.append(_curve(title_of(s), known, own))
    if not curves:
        return None
    return {
        "epsilons": [{"text": short(e), "now": e == own} for e, _ in points],
        "curves": curves,
    }


def _curve(
    title: tuple[str, str], known: Sequence[tuple[Fraction, float | None]], own: Fraction
) -> ErrorCurve:
    top = max(error for _, error in known if error is not None)
    base = TOP + HEIGHT
    scale = Scale(0.0, top, base, TOP + 14, digits=2)
    steps = []
    for i, (epsilon, error) in enumerate(known):
        if error is not None:
            at, y = round(100 * (i + 0.5) / len(known), 3), scale.position(error)
            steps.append(Step(at, y, short(epsilon), f"±{figure_text(error)}", epsilon == own))
    return ErrorCurve(*title, tuple(steps), base + FOOT, base)
