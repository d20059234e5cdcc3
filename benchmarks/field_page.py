"""The page of `field.py`: how many requests keep the law, and every exception with its reason."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from field_laws import DRAWS

__all__ = ["Exceptional", "exceptions", "line", "open_to_more", "open_to_more_of", "page", "ratio"]

MEAN, WORST, PIN, STATED = 1.1, 1.5, 1.1, 1.25
WIDE = 0.04
"""Of a domain's width: noise of a mean size above it reaches from end to end."""
SURE = 4.0
"""Standard errors by which a bound must be passed."""

WHY: dict[str, tuple[str, str]] = {
    "split": (
        "its share is smaller than an equal one",
        "an equal part is what it gets where it is drawn alone; here a block of several took more",
    ),
    "share": (
        "a sum of its own block gets more than an equal share, the others less",
        "what one block gets for all its statistics is not what each gets alone",
    ),
    "ranks together": (
        "several quantiles are drawn together",
        "together they err less; one of them may err more than alone: each has the noise of a choice among several, which counts where alone it would be exact to a few ranks. Choices one inside the other are taken only if they err half as much where single ones are that exact",
    ),
    "cells together": (
        "several statistics are computed from the same noisy cells",
        "cells that serve all of them are wider than those of one; what they share is one size and sums of its rows",
    ),
    "composed": (
        "the release composes by pure epsilon, and alone all would compose by zCDP",
        "a delta is spent in the way that is better for the release as a whole: quantiles drawn together cost more rho than alone.",
    ),
    "aim": (
        "a least or greatest value aims at another row",
        "how many rows inside the end it aims has the least error over public tables; two numbers far apart may err alike there, and which is better depends on whether the rows fill the declared range",
    ),
    "form": (
        "the same share, and another form or law",
        "the planner's figures rank the forms otherwise than these rows do",
    ),
    "pin": (
        "a mechanism that a request may name errs less",
        "the planner's figures rank the laws otherwise than these rows do",
    ),
    "ends pinned": (
        "a law that a request may name errs less at this answer",
        "laws are ranked by their error averaged over answers anywhere in the domain; near an end of it, or of a count far below a generous `rows.max`, another one is better",
    ),
    "flips": (
        "permute-and-flip errs less than the exponential mechanism",
        "a ledger that composes by zCDP charges up to four times the rho for it, so that a plan does not take it by itself; the plan says so",
    ),
    "size": (
        "stated for the size that was declared, a tenth of the rows",
        "the plan can only know what `expected` says; the figure is said to be for that size",
    ),
    "nulls": (
        "stated for rows that are all known",
        "`expected` counts rows, and the statistic is of those whose cell is known: fewer",
    ),
    "groups": (
        "stated for a group of the expected size",
        "groups have from a half to one and a half times the mean number of rows or, where there are few, from none to several; `expected: {by_key: …}` says more",
    ),
    "ends": (
        "the noise is as wide as what the value may be",
        "the plan averages over answers anywhere in the domain; these rows' answer lies near an end or the middle of it, where clamping and remaps err less or more",
    ),
    "spread": (
        "these rows lie closer together than the plan supposes",
        "the figure is stated for values that fill the range and for an sd of 5 % of it (`expected_sd` says more); those rows lie closer, or at one end",
    ),
    "rows": (
        "stated for an average over answers",
        "the plan averages over answers anywhere in the domain; these rows' answer lies near an end",
    ),
}  # fmt: skip
"""Cause -> (what it is, why)."""


@dataclass(frozen=True)
class Exceptional:
    """One exception: of which bound, which request and statistic, how large, and its cause."""

    bound: str
    request: dict[str, Any]
    text: str
    size: float
    cause: str
    more: str = ""


def ratio(mine: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
    """Return an error over another one, of which at least one step counts, and its standard error."""
    step = 1.0 if mine["by_rank"] and not _end(mine) else max(mine["step"], other["step"])
    least = max(other["error"], step)
    value = mine["error"] / least
    relative = other["sd"] / least
    return value, math.hypot(mine["sd"] / least, value * relative)


def open_to_more(mine: dict[str, Any], pin: dict[str, Any]) -> bool:
    """Return whether more draws of a pin could show it to be better than the default."""
    value, sd = ratio(mine, pin)
    return pin["sd"] > 0 and not value + 2 * SURE * sd < 1


def open_to_more_of(mine: dict[str, dict[str, Any]], alone: dict[str, dict[str, Any]]) -> bool:
    """Return whether more draws could show on which side of its bounds a request is."""
    each = [ratio(row, alone[name]) for name, row in mine.items() if row["error"] >= 0]  # not NaN
    values, sd = [v for v, _ in each], math.hypot(*(s for _, s in each))
    if any(abs(value - WORST) <= SURE * s for value, s in each if s):
        return True
    return bool(each) and abs(sum(values) - MEAN * len(each)) <= SURE * sd


def _end(row: dict[str, Any]) -> bool:
    """Return whether it is a least or greatest value, whose error is in its own unit."""
    return str(row.get("text", row["block"])).startswith(("min", "max"))


def exceptions(found: dict[str, Any]) -> list[Exceptional]:
    """Return what one request shows above the bounds."""
    request = found["request"]
    rows = [s for s in found["statistics"] if not math.isnan(s["error"])]
    out: list[Exceptional] = []
    ratios = [ratio(s, {**s["alone"], "text": s["text"]}) for s in rows]
    for row, (value, sd) in zip(rows, ratios, strict=True):
        if value - SURE * sd > WORST:
            out.append(Exceptional("worst", request, row["text"], value, _why_alone(row, rows), _shares(row)))  # fmt: skip
    if ratios:
        mean = statistics.fmean(v for v, _ in ratios)
        sd = math.hypot(*(s for _, s in ratios)) / len(ratios)
        if mean - SURE * sd > MEAN:
            worst = max(range(len(rows)), key=lambda i: ratios[i][0])
            out.append(Exceptional("mean", request, rows[worst]["text"], mean, _why_alone(rows[worst], rows)))  # fmt: skip
    out += _pins(request, rows)
    out += [e for row in rows if (e := _stated(request, row)) is not None]
    return out


def _shares(row: dict[str, Any]) -> str:
    mine, alone = row["epsilon"], row["alone"]["epsilon"]
    return f"{row['family']} at {mine:.3g}, alone {row['alone']['family']} at {alone:.3g}"


def _why_alone(row: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    """Return the cause of an error that is larger than alone."""
    sharing = sum(r["block"] == row["block"] for r in rows)
    if sharing > 1:
        return "ranks together" if "ranks" in row["family"] else "cells together"
    if row["by_rank"] and _end(row):
        return "aim"
    if (row["rho"] is None) != (row["alone"]["rho"] is None):
        return "composed"
    mine = row["rho"] if row["rho"] is not None else row["epsilon"]
    alone = row["alone"]["rho"] if row["rho"] is not None else row["alone"]["epsilon"]
    return "split" if alone is None or mine < 0.95 * alone else "form"


def _pins(request: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[Exceptional]:
    """Return the pins that are better than a block's default, by the mean over its statistics."""
    blocks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        blocks[row["block"]].append(row)
    out = []
    for members in blocks.values():
        for mechanism in members[0]["pins"]:
            each = [ratio(m, {**m["pins"][mechanism], "text": m["text"]}) for m in members]
            value = statistics.fmean(v for v, _ in each)
            sd = math.hypot(*(s for _, s in each)) / len(each)
            if value - SURE * sd > PIN:
                cause = _why_pinned(members, mechanism)
                more = f"{members[0]['family']} by {members[0]['mechanism']}, pinned {mechanism}"
                text = " + ".join(m["text"] for m in members)
                out.append(Exceptional("pin", request, text, value, cause, more))
    return out


def _why_pinned(members: Sequence[dict[str, Any]], mechanism: str) -> str:
    """Return the cause of a pin that is better than the default."""
    if mechanism == "permute_and_flip" and len(members) == 1:
        return "flips"
    if len(members) > 1:
        return "ranks together" if "ranks" in members[0]["family"] else "cells together"
    return "ends pinned" if members[0]["family"] == "scalar" else "pin"


def _stated(request: dict[str, Any], row: dict[str, Any]) -> Exceptional | None:
    """Return a stated error that is not within its factor of the measured one."""
    if row["stated"] is None or row["sized"] is None:
        return None
    at_size = _off(row, row["sized"])
    bound, off = ("stated", at_size) if at_size else ("declared", _off(row, row["stated"]))
    if not off:
        return None
    cause = _why_stated(row) if at_size else _why_declared(request, row)
    low, high = row["sized" if at_size else "stated"]
    said = f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
    return Exceptional(bound, request, row["text"], off, cause, f"stated {said}, measured {row['error']:.3g}; {row['family']}")  # fmt: skip


def _off(row: dict[str, Any], stated: Sequence[float]) -> float | None:
    """Return by which factor the measured error is not the stated one; None within the bound.

    What is rarer than one draw in some hundreds may be in none of them.
    """
    low, high = stated
    measured, sure = row["error"], SURE * row["sd"] + SURE**2 * row["step"] / DRAWS
    if low / STATED <= measured + sure and measured - sure <= high * STATED:
        return None
    return measured / high if measured > high else low / measured if measured else math.inf


def _why_declared(request: dict[str, Any], row: dict[str, Any]) -> str:
    """Return why the declared number of rows is not the one that a statistic is of."""
    if request["expected"] == "a tenth":
        return "size"
    return "nulls" if request["nulls"] and row["text"] != "count" else "groups"


def _why_stated(row: dict[str, Any]) -> str:
    """Return the cause of a stated error that is not the measured one."""
    if row["sized"][1] > WIDE * row["width"]:
        return "ends"
    spread = row["text"].startswith(("std", "variance", "mean", "cov", "corr"))
    return "spread" if spread else "rows"


# --- words ------------------------------------------------------------------------------------


def line(found: dict[str, Any]) -> str:
    """Return one request's result for the terminal."""
    head = f"{found['request']['number']:>5} {found['seconds']:6.1f} s  "
    if "refused" in found:
        return f"{head}refused: {found['refused']}"
    said = Counter(e.bound for e in exceptions(found))
    return head + (", ".join(f"{n} {b}" for b, n in said.items()) or "keeps the law")


BOUNDS = {
    "mean": f"mean of a request's ratios at most {MEAN}",
    "worst": f"no ratio above {WORST}",
    "pin": "no pin better by more than a tenth",
    "stated": f"stated for the rows that there are: within a factor {STATED} of measured",
    "declared": f"stated for the rows that were declared: within a factor {STATED} of measured",
}


def page(measured: Iterable[dict[str, Any]], of: int = 2000) -> str:
    """Return the page."""
    every_line = list(measured)
    asked = [f for f in every_line if "request" in f]
    known = sorted(asked, key=lambda f: f["request"]["number"])
    done = [f for f in known if "statistics" in f]
    part = [f for f in done if f.get("by_all", True)]
    late = [f for f in known if "refused" in f]
    every = [e for f in done for e in exceptions(f)]
    rows = [s for f in done for s in f["statistics"] if not math.isnan(s["error"])]
    ratios = [ratio(s, {**s["alone"], "text": s["text"]})[0] for s in rows]
    spent = sum(f["seconds"] for f in known) / 60
    out = [
        (
            f"{len(done):,} of the corpus's {of:,} requests, {len(rows):,} statistics, in {spent:.0f} minutes of processor time; "
            f"{datetime.now(UTC):%Y-%m-%d}, dprelease {metadata.version('dprelease')}. {len(late)} were refused or took too long."
        ),
        f"{len(part):,} of them, by chance, were also judged by pins and by what their plans state.",
        f"By number of statistics: {_levels(known, 'statistics')}; by rows: {_levels(known, 'size')}; by groups: {_levels(known, 'groups')}.",
        "",
        "| law | judged | kept | exceptions |",
        "|---|---|---|---|",
    ]
    judged = {
        "mean": len(done),
        "worst": len(rows),
        "pin": len({(f["request"]["number"], s["block"]) for f in part for s in f["statistics"]}),
        "stated": sum(s["sized"] is not None for s in rows),
    }
    judged["declared"] = judged["stated"] - len([e for e in every if e.bound == "stated"])
    for bound, words in BOUNDS.items():
        broken = _count(e for e in every if e.bound == bound)
        out.append(f"| {words} | {judged[bound]:,} | {judged[bound] - broken:,} | {broken:,} |")
    if ratios:
        out += ["", f"Ratios to every statistic alone at an equal share: {_spread(ratios)}."]
    others = [f["peers"] for f in every_line if "peers" in f]
    out += [
        "",
        *_causes(every),
        *_whole(done),
        *_peers(done, others),
        *_list(every),
        *_refusals(late),
    ]
    return "\n".join(out) + "\n"


def _levels(known: Sequence[dict[str, Any]], factor: str) -> str:
    """Return how many requests were measured at each level of a factor."""
    many = Counter(f["request"][factor] for f in known)
    return ", ".join(f"{level:,} × {number}" for level, number in sorted(many.items()))


def _count(some: Iterable[Exceptional]) -> int:
    return len({(e.request["number"], e.text) for e in some})


def _spread(values: Sequence[float]) -> str:
    ordered = sorted(values)
    at: Callable[[float], float] = lambda q: ordered[min(len(ordered) - 1, int(q * len(ordered)))]  # noqa: E731
    return f"mean {statistics.fmean(ordered):.2f}, median {at(0.5):.2f}, nine of ten below {at(0.9):.2f}, largest {ordered[-1]:.3g}"  # fmt: skip


def _causes(every: Sequence[Exceptional]) -> list[str]:
    groups: dict[tuple[str, str], list[Exceptional]] = defaultdict(list)
    for e in every:
        groups[e.bound, e.cause].append(e)
    out = ["| exceptions of | cause | requests | statistics | largest | why |", "|---|---|---|---|---|---|"]  # fmt: skip
    for (bound, cause), some in sorted(groups.items(), key=lambda g: (list(BOUNDS).index(g[0][0]), -len(g[1]))):  # fmt: skip
        what, why = WHY[cause]
        requests = len({e.request["number"] for e in some})
        out.append(f"| {BOUNDS[bound]} | {what} | {requests:,} | {_count(some):,} | {max(e.size for e in some):.3g} | {why} |")  # fmt: skip
    return [*out, ""]


def _list(every: Sequence[Exceptional]) -> list[str]:
    """Return every exception: per bound and cause, a line per request."""
    groups: dict[tuple[str, str], dict[int, list[Exceptional]]] = defaultdict(lambda: defaultdict(list))  # fmt: skip
    for e in every:
        groups[e.bound, e.cause][e.request["number"]].append(e)
    out = []
    for (bound, cause), requests in groups.items():
        out += [f"**{BOUNDS[bound]}: {WHY[cause][0]}**", ""]
        for some in requests.values():
            said = "; ".join(f"`{e.text[:60]}` {e.size:.2f}" + (f" ({e.more})" if e.more else "") for e in some[:6])  # fmt: skip
            rest = f"; {len(some) - 6} more" if len(some) > 6 else ""
            out.append(f"* {_words(some[0].request)}: {said}{rest}")
        out.append("")
    return out


def _words(request: dict[str, Any]) -> str:
    """Return which request it is."""
    parts = [f"{request['number']}", request["column"], f"{request['size']:,} rows"]
    parts += [f"{request['groups']:,} groups"] if request["groups"] > 1 else []
    parts += [f"{100 * request['nulls']:g} % null"] if request["nulls"] else []
    parts += [f"cap {request['cap']:,}", f"expected {request['expected']}"]
    parts += [f"ε {request['epsilon']:g}"] + (["δ"] if request["delta"] else [])
    parts += ["persons"] if request["unit"] == "person" else []
    parts += ["replaced"] if request["adjacency"] == "substitution" else []
    return ", ".join(parts)


def _whole(done: Sequence[dict[str, Any]]) -> list[str]:
    """Return how far errors of whole releases lie from those of the laws alone."""
    each = [w["off"] for f in done for w in f.get("whole", [])]
    if not each:
        return []
    many = sum("whole" in f for f in done)
    return [
        (f"End to end: {many} requests were also released whole, 200 times each, through engine, wall and table. Of "
        f"{len(each)} mean errors, {sum(abs(o) > SURE for o in each)} differ from those of the laws alone by more than four standard errors."),
        "",
    ]  # fmt: skip


def _peers(done: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]) -> list[str]:
    """Return what other libraries err on the same rows, at an equal share of epsilon each."""
    if not others:
        return []
    mine = {f["request"]["number"]: f for f in done}
    out = ["| request | " + " | ".join(f"{name}: error over ours, each statistic" for name in others[-1]) + " |"]  # fmt: skip
    out += ["|---|" + "---|" * len(others[-1])]
    for number in sorted({int(n) for found in others[-1].values() for n in found}):
        if number not in mine:
            continue
        cells = []
        for found in others[-1].values():
            errors = found.get(str(number), found.get(number, []))
            pairs = zip(mine[number]["statistics"], errors, strict=True)
            cells.append("; ".join(f"`{s['text'][:40]}` {_times(e, s)}" for s, e in pairs if e is not None))  # fmt: skip
        if any(cells):
            out.append(f"| {_words(mine[number]['request'])} | {' | '.join(cells)} |")
    return [
        'Other libraries on the same rows, one statistic after the other at an equal share of ε, where they have a call for it. Above 1 they err more; a row or a step counts at least. They are told the same ranges and the same `rows.max`; whole numbers are summed as such. "–": some of their draws were no number.',
        "",
        *out,
        "",
    ]


def _times(theirs: float, row: dict[str, Any]) -> str:
    least = 1.0 if row["by_rank"] and not _end(row) else row["step"]
    if not math.isfinite(theirs):
        return "–"
    return f"{max(theirs, least) / max(row['error'], least):.2g}"


def _refusals(late: Sequence[dict[str, Any]]) -> list[str]:
    if not late:
        return []
    said = Counter(f["refused"] for f in late)
    return ["Refused or too slow:", "", *(f"* {n} × {why}" for why, n in said.most_common()), ""]
