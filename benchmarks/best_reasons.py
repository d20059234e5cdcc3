"""Why a row of `best_forms.py` is above 1.1: the kind of reason, and why the planner does not choose what is better.

    few rows     with 1,000 rows at most 1.1 times the bound, or the best known form
    best known   at most 1.1 times the best known form, here and with 1,000 rows; no law is known to reach the bound
    few values   as before, but on columns of more values than three (`best_wide`)
    loss         none of these: a form is known that is better, and which

A loss says why it stays, each from numbers that are computed here:

    by place     the tables that were looked at lie about the middle of the range, which a plan does not know: with
                 rows about every tenth of it, the choice is within 1.1 of every known form from so many values on
    no interval  counts of every value whose noise adds up to zero are better; every published value has a proved
                 interval, and theirs needs a law that is not computed (a box about the counts is wider)
    not built    none of these
"""

from __future__ import annotations

from collections.abc import Sequence

from best_wide import VALUES, Wide, first_kept, wide
from best_worlds import World, values_of

__all__ = ["KEPT", "KINDS", "MANY_ROWS", "WHYS", "reason"]

KEPT = 1.1
MANY_ROWS = 1_000
DRAWS = 4_000
KINDS = ("few rows", "best known", "few values", "loss")
WHYS = ("by place", "no interval", "not built")
_COUNTS = "counts of values"
_RANKS = ("median", "quantile", "min", "max")
_NO_LAW = {
    "cdf": "a share of a private whole is a quotient of two dependent sums, whose law is not computed",
    "covariance": "sums of such counts have an exact law, their products only a box",
    "correlation": "sums of such counts have an exact law, their products only a box",
}
_ADDING_UP = "publications-that-add-up.md#bins-whose-noise-adds-up-to-zero"


def reason(
    world: World,
    text: str,
    epsilon: float,
    here: tuple[str, float],
    many: tuple[float | None, tuple[str, float] | None],
) -> tuple[str, str]:
    """Return the kind of reason why a ratio is above `KEPT`, and its words with their numbers.

    Args:
        here: the best known form on the small tables, and the ratio to it; many: the same with 1,000 rows, after the
            ratio to the bound there.
    """
    bound, known_there = many
    if bound is not None and round(bound, 2) <= KEPT:
        return "few rows", f"few rows: {bound:.2f} of the bound with {MANY_ROWS:,}"
    if known_there and round(known_there[1], 2) <= KEPT:
        if round(here[1], 2) <= KEPT:
            said = "" if bound is None else f"; a bound that one law may not reach: {bound:.2f}"
            return "best known", f"best known: {here[1]:.2f} of it{said}"
        return "few rows", f"few rows: {known_there[1]:.2f} of the best known with {MANY_ROWS:,}"
    name, by = known_there or here
    if known_there is None and round(by, 2) <= KEPT:
        return "best known", f"best known: {by:.2f} of it"
    better = f"{name} is better by {by:.2f}"
    if len(values_of(text)) > 3 or text.startswith(("cdf", "histogram")):
        return "loss", f"loss: {better}; {_without_a_law(world, text, name)}"
    found = wide(world, text, epsilon, DRAWS)
    ratios = [w.ratio for w in found]
    if (start := first_kept(ratios, KEPT)) < len(VALUES):
        return "few values", (
            f"few values: {better}; on columns of {_from(start)} values "
            f"the choice is at most {max(ratios[start:]):.2f} of any known form"
        )
    last = found[-1]
    placed = () if text.startswith(_RANKS) else wide(world, text, epsilon, DRAWS, placed=True)
    why = _by_place(placed) if placed else "not built"
    return (
        "loss",
        f"loss: {better}, on a column of {last.values} values {last.form} by {last.ratio:.2f}; {why}",
    )


def _from(start: int) -> str:
    return f"{VALUES[start]} to {VALUES[-1]}" if start < len(VALUES) - 1 else f"{VALUES[-1]}"


def _without_a_law(world: World, text: str, form: str) -> str:
    """Return why counts whose noise adds up to zero are not what is drawn."""
    name = text.partition("(")[0]
    replaced = world.adjacency == "substitution"
    if form != _COUNTS or not replaced or name not in _NO_LAW or (name == "cdf" and world.public):
        return "not built"
    return f"no interval: {_NO_LAW[name]} ({_ADDING_UP})"


def _by_place(found: Sequence[Wide]) -> str:
    """Return from how many values on the choice is best over rows that lie anywhere."""
    ratios = [w.ratio for w in found]
    start = first_kept(ratios, KEPT)
    if start == len(VALUES):
        return "not built"
    fewer = [w.form for w in found[:start]]
    said = "; fewer are best counted, by `histogram`" if set(fewer) == {_COUNTS} else ""
    return (
        f"by place: with rows about every tenth of the range, on columns of {_from(start)} values the choice is "
        f"at most {max(ratios[start:]):.2f} of any known form{said}"
    )
