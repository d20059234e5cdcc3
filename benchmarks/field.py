"""Are the defaults good in the field? Some 2,000 ordinary requests, each beside the same request with nothing chosen.

For each request of `field_corpus.py` its plan's errors, on its rows (`field_laws.py`), beside

    a  equal shares, every statistic drawn alone
    b  every admissible mechanism named by a pin, at the default's shares
    d  what the plan states: of the rows that each group has and the statistic knows, and of those that are declared

A ratio is the default's error over the other's, of which at least one step counts (a row, of a rank). It is an exception
where it passes its bound by four standard errors. Bounds: the mean ratio of a request to (a) is at most 1.1, none is above
1.5; no pin is better by more than a tenth (the mean of its block); what is stated is within a factor of 1.25 of what is
measured. `field_page.py` writes the page: every exception with its reason, what twenty requests err from end to end
(`field_whole.py`) and what other libraries err on some thirty (`field_peers.py`).

    make field                                       # at most 60 minutes on two cores
    python benchmarks/field.py --requests 200        # a part: the first ones hold all pairs of levels
    python benchmarks/field.py --minutes 10          # as many as there is time for
    python benchmarks/field.py --only 17             # one request, in full; nothing is written

One request of four, by chance, is judged by (b) and (d), for which it is planned many times over; all are by (a). Several values
by rank that are chosen together take milliseconds a draw: they are drawn 500 times, and 2,000 times where that leaves a bound open.

Of every hundred requests those of few statistics come first: where time ends early, more are done. What was measured stays
in .bench/field/measured.jsonl: the next run goes on there, while the library is the same.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import field_page
import field_peers
import field_whole
import numpy as np
from field_corpus import SEED, Asked, Request, requests, table_of
from field_laws import DRAWS, FEW_DRAWS, FIRST_DRAWS, SLOW, Error, Rows, errors

from dprelease.allocation.share import Priced, Share
from dprelease.allocation.spend import Spending, spend
from dprelease.audit.answers import answer_of, cells_of
from dprelease.core import registry
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import DpreleaseError
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.measurements.base import family_of
from dprelease.measurements.candidate import Candidate
from dprelease.measurements.members import BlockLayout
from dprelease.planning.layout import layouts
from dprelease.planning.make import mean_error
from dprelease.planning.prices import Prices
from dprelease.planning.write import written
from dprelease.query.load import Schema
from dprelease.query.merge import merge_release
from dprelease.query.spec import Query, resolve

MEASURED = Path(__file__).parents[1] / ".bench" / "field" / "measured.jsonl"
GROUPS = 4
"""Groups whose errors are measured, of all sizes."""
PART = 4
"""One of so many requests is judged by all bounds."""
SECONDS = 60
"""Of processor time for one request; one that takes longer is listed."""


@dataclass(frozen=True)
class Plan:
    """Priced blocks, and who they are: `default`, `alone`, or the mechanism that one block is pinned to."""

    kind: str
    priced: tuple[Priced, ...]


def query_of(request: Request, expected: int | None = None) -> Query:
    declared = request.schema()
    if expected is not None:
        declared["rows"]["expected"] = expected
    schema = Schema.from_dict(declared)
    return resolve(schema, merge_release(schema))


def _names(block: BlockLayout) -> tuple[str, ...]:
    return tuple(m.statistic.spec.name for m in block.members)


def _draws_as(one: Candidate, other: Candidate) -> bool:
    """Return whether the two draw the same way from the same cells."""
    return one.measures_as(other.measurement) and one.law.mechanism == other.law.mechanism


def known_error(prices: Prices, priced: Priced) -> bool:
    """Return whether the plan states an error of a block."""
    kind = family_of(priced.best.measurement)
    return kind.judged and (prices.sizes[priced.block.table][1] or not kind.sized)


def in_part(request: Request) -> bool:
    """Return whether a request is judged by all bounds."""
    return int(np.random.default_rng((SEED, request.number, 4)).integers(PART)) == 0


def plans(query: Query, prices: Prices, *, pins: bool = True) -> Iterator[Plan]:
    """Yield the default, every statistic alone at an equal share, and every pin at the default's shares."""
    ways = [spend(w, query.epsilon, query.spec.delta, query.loss, prices) for w in layouts(query)]
    chosen = min(ways, key=lambda way: mean_error(way, prices))
    yield Plan("default", chosen.priced)
    equal = Fraction(1, len(query.statistics))
    apart = [
        b for s in query.statistics for b in layouts(_of(query, [s.spec.name], share=equal))[0]
    ]
    alone = spend(apart, query.epsilon, query.spec.delta, query.loss, prices)
    yield Plan("alone", alone.priced)
    for priced in chosen.priced if pins else ():
        for mechanism in registry.names("mechanisms"):
            pinned = _pinned(query, prices, priced, mechanism)
            if pinned and [p.best.law for p in pinned] != [priced.best.law]:
                yield Plan(mechanism, pinned)


def _pinned(query: Query, prices: Prices, priced: Priced, mechanism: str) -> tuple[Priced, ...]:
    """Return the block's statistics drawn by `mechanism` at the block's share; nothing where it cannot draw them."""
    members = priced.block.members
    rivals = [c for c in priced.ranked if c.law.mechanism == mechanism]
    if len(members) == 1 and rivals:
        moved = prices.sensitivity(rivals[0].measurement, priced.block)
        return (replace(priced, ranked=tuple(rivals), sensitivity=moved),)
    try:
        blocks = layouts(_of(query, [m.statistic.spec.name for m in members], mechanism=mechanism))[
            0
        ]
        return tuple(prices.priced(b, _part(priced.share, len(blocks))) for b in blocks)
    except DpreleaseError:
        return ()


def _of(query: Query, names: Sequence[str], **more: Any) -> Query:
    """Return the query of some of its statistics, `more` of each of them."""
    kept = [s for s in query.statistics if s.spec.name in names]
    return replace(query, statistics=tuple(replace(s, spec=replace(s.spec, **more)) for s in kept))


def _part(share: Share, parts: int) -> Share:
    if share.rho is not None:
        return Share.concentrated(share.rho / parts)
    return Share(share.epsilon / parts, split=share.split)


Figures = dict[str, dict[str, Any]]
"""By a statistic's name: what was measured of it, and what its plan says."""


class _Measuring:
    """The rows of a request, and errors of its plans on them."""

    def __init__(self, request: Request, prices: Prices, bits: RandomBits | None) -> None:
        self.table = table_of(request)
        self.prices, self.bits = prices, bits
        self.groups = _some_groups(self.table.group, request.groups)
        self.rows = [Rows(self.table, g) for g in self.groups]
        names = (s.spec.name for s in prices.query.statistics)
        self.asked = dict(zip(names, request.asked, strict=True))
        self.of_size: dict[int, tuple[Prices, dict[tuple[str, ...], BlockLayout]]] = {}

    def cells(self, every: Sequence[Plan]) -> list[list[Any]]:
        """Return the exact cells of all blocks of all plans, by one question to the engine."""
        query, together = self.prices.query, tuple(p for plan in every for p in plan.priced)
        spent = Spending(together, query.epsilon, None)
        plan = written(query, spent, self.prices, query.spec.by, ())
        found = iter(cells_of(plan, answer_of(plan, self.table.arrow(), DuckDBEngine())))
        return [[next(found) for _ in each.priced] for each in every]

    def figures(self, plan: Plan, cells: Sequence[Any], draws: int) -> Figures:
        out: Figures = {}
        for priced, exact in zip(plan.priced, cells, strict=True):
            members = priced.block.members
            names = [m.statistic.spec.name for m in members]
            wanted, own = [self.asked[n] for n in names], [exact[[g]] for g in self.groups]
            each = errors(priced.best, members, wanted, own, self.rows, draws, self.bits)
            for i, (error, step) in enumerate(each):
                out[names[i]] = _figures(self.prices, priced, i, error, step)
        return out

    def sized(self, plan: Plan, request: Request) -> dict[str, list[float] | None]:
        """Return what the plan would state of its statistics, least and greatest, if the rows that they know were declared."""
        out: dict[str, list[float] | None] = {}
        for priced in plan.priced:
            for i, member in enumerate(priced.block.members):
                name = member.statistic.spec.name
                of = self.asked[name].columns
                known = [max(1, r.known(*of)[0].size if of else r.count) for r in self.rows]
                if not known_error(self.prices, priced):
                    out[name] = None
                    continue
                each = [self._stated(request, priced, i, n) for n in known]
                out[name] = [float(np.mean(ends)) for ends in zip(*each, strict=True)]
        return out

    def _stated(self, request: Request, priced: Priced, index: int, rows: int) -> Sequence[float]:
        """Return the least and greatest error that is stated of a law if so many rows are expected."""
        if rows not in self.of_size:
            query = query_of(request, rows)
            blocks = {_names(block): block for way in layouts(query) for block in way}
            self.of_size[rows] = Prices(query, brief=True), blocks
        prices, blocks = self.of_size[rows]
        ranked = prices.priced(blocks[_names(priced.block)], priced.share).ranked
        best = next(c for c in ranked if _draws_as(c, priced.best))
        stated = best.stated[index] if best.stated else (best.errors[index],)
        return min(stated), max(stated)


def measured(
    request: Request, bits: RandomBits | None = None, *, by_all: bool = True
) -> dict[str, Any]:
    """Return what was measured of one request.

    bits: of what is drawn, the system's by default; by_all: by all bounds, not by (a) alone.
    """
    prices = Prices(query_of(request), brief=True)
    every = list(plans(prices.query, prices, pins=by_all))
    measuring = _Measuring(request, prices, bits)
    exact = measuring.cells(every)
    default, alone = (measuring.figures(every[i], exact[i], DRAWS) for i in range(2))
    slow = any(row["family"] in SLOW for row in default.values())
    if slow and field_page.open_to_more_of(default, alone):
        default = measuring.figures(every[0], exact[0], 4 * DRAWS)
    pins = []
    for plan, cells in zip(every[2:], exact[2:], strict=True):
        first = measuring.figures(plan, cells, FIRST_DRAWS)
        if any(field_page.open_to_more(default[n], first[n]) for n in first):
            first = measuring.figures(plan, cells, FEW_DRAWS)
        pins.append((plan, first))
    rows = _rows(default, alone, pins, measuring.asked)
    sized = measuring.sized(every[0], request) if by_all else {}
    rows = [{**row, "sized": sized.get(row["name"])} for row in rows]
    return {"request": asdict(request), "by_all": by_all, "statistics": rows}


def _some_groups(group: Any, many: int) -> list[int]:
    """Return at most `GROUPS` groups, from the smallest to the largest."""
    by_size = np.argsort(np.bincount(group, minlength=many), kind="stable")
    return [int(g) for g in by_size[np.unique(np.linspace(0, many - 1, GROUPS).astype(int))]]


def _figures(
    prices: Prices, priced: Priced, index: int, error: Error, step: Fraction
) -> dict[str, Any]:
    best, kind = priced.best, family_of(priced.best.measurement)
    stated = best.stated[index] if best.stated else (best.errors[index],)
    return {
        "block": priced.block.name,
        "family": best.measurement.family,
        "mechanism": best.law.mechanism,
        "epsilon": float(priced.share.epsilon),
        "rho": None if priced.share.rho is None else float(priced.share.rho),
        "error": error.mean,
        "sd": error.sd,
        "step": float(step),
        "width": float(priced.block.members[index].domain.width),
        "stated": [min(stated), max(stated)] if known_error(prices, priced) else None,
        "by_rank": not kind.judged,
    }


def _rows(
    default: Figures,
    alone: Figures,
    pins: Sequence[tuple[Plan, Figures]],
    asked: dict[str, Asked],
) -> list[dict[str, Any]]:
    """Return a row per statistic: the default's figures, those alone, and the pins of its block."""
    out = []
    for name, what in asked.items():
        own = {plan.kind: figures[name] for plan, figures in pins if name in figures}
        out.append({"name": name, "text": what.text, **default[name], "alone": alone[name], "pins": own})  # fmt: skip
    return out


# --- running ----------------------------------------------------------------------------------


def _late(*_: Any) -> None:
    raise TimeoutError(f"longer than {SECONDS} s of processor time")


def one(request: Request, *, whole: bool = False) -> dict[str, Any]:
    """Return what was measured of a request, or why nothing was; and how long it took.

    whole: and what releases of it from end to end show.
    """
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    began = time.process_time()
    try:
        found = measured(request, by_all=in_part(request))
        if whole:
            groups = _some_groups(table_of(request).group, request.groups)
            query, alone = query_of(request), found["statistics"]
            found["whole"] = field_whole.compared(request, query, groups, alone)
    except (DpreleaseError, TimeoutError) as problem:
        said = getattr(problem, "what", str(problem))
        code = getattr(problem, "code", "")
        found = {"request": asdict(request), "refused": f"{code} {said}".strip()}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {**found, "seconds": round(time.process_time() - began, 2)}


def _comparable() -> list[Request]:
    return [r for r in requests(2000) if field_peers.comparable(r)][: field_peers.MANY]


def beside(environments: dict[str, str | None], digest: str) -> None:
    """Measure what other libraries err, where their environments are; it is written down beside the rest."""
    known = {f["request"]["number"]: f for f in kept(digest) if "statistics" in f}
    some = [r for r in _comparable() if r.number in known]
    found: dict[str, Any] = {"library": digest, "peers": {}}
    for library, python in environments.items():
        if python is not None:
            found["peers"][library] = field_peers.errors(library, python, some)
    if found["peers"]:
        with MEASURED.open("a", encoding="utf-8") as file:
            file.write(json.dumps(found) + "\n")


def library() -> str:
    """Return a digest of the library and of this benchmark: what was measured belongs to it."""
    here = Path(__file__).parent
    files = [*sorted((here.parent / "dprelease").rglob("*.py")), *sorted(here.glob("field*.py"))]
    kept = [f for f in files if f.name != "field_page.py"]
    return hashlib.sha256(b"".join(f.read_bytes() for f in kept)).hexdigest()[:16]


def kept(digest: str) -> list[dict[str, Any]]:
    """Return what was measured before, with the same library."""
    if not MEASURED.exists():
        return []
    lines = [json.loads(line) for line in MEASURED.read_text(encoding="utf-8").splitlines()]
    return [line for line in lines if line.get("library") == digest]


def run(wanted: Iterable[Request], minutes: float, workers: int, digest: str) -> None:
    """Measure until all are done or the time is over; each is written down at once."""
    until = time.monotonic() + 60 * minutes
    left = iter(wanted)
    whole = {r.number for r in field_whole.chosen(requests(500))}
    MEASURED.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers) as pool, MEASURED.open("a", encoding="utf-8") as file:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            while len(running) < workers and time.monotonic() < until:
                request = next(left, None)
                if request is None:
                    break
                running.add(pool.submit(one, request, whole=request.number in whole))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                found = {"library": digest, **future.result()}
                file.write(json.dumps(found) + "\n")
                file.flush()
                print(field_page.line(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=2000, help="the first so many")
    parser.add_argument("--minutes", type=float, default=55, help="no request begins later")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", type=int, help="one request, printed")
    parser.add_argument("--peers", help="the Python of the environment with OpenDP")
    parser.add_argument("--google", help="the Python of the environment with Google's library")
    parser.add_argument("--page", action="store_true", help="measure nothing: the page anew")
    parser.add_argument("--to", type=Path, default=Path(__file__).parent / "results" / "field.md")
    given = parser.parse_args()
    if given.only is not None:
        print(json.dumps(one(requests(given.only + 1)[-1]), indent=1))
        return
    digest = library()
    known = {f["request"]["number"] for f in kept(digest) if "request" in f}
    wanted = [r for r in requests(given.requests) if r.possible and r.number not in known]
    wanted.sort(key=lambda r: (r.number // 100, r.statistics, r.number))
    if not given.page:
        others = _comparable() if given.peers or given.google else []
        wanted += [r for r in others if r.number not in known and r not in wanted]
        run(wanted, given.minutes, given.workers, digest)
        beside({"OpenDP": given.peers, "Google": given.google}, digest)
    found = kept(digest)
    if not found:
        raise SystemExit("nothing was measured with this library: the page stays as it is")
    text = field_page.page(found)
    given.to.write_text(text, encoding="utf-8")
    print(f"wrote {os.path.relpath(given.to)}")


if __name__ == "__main__":
    main()
