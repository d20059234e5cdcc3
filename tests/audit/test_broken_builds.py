"""Deliberately broken builds: each is caught, and the test says by which layer.

A: exact loss between neighbouring tables. B: draws against the law's table. C: black box on draws.
The leak test's own mutants are in `tests/end_to_end/test_non_interference.py`.
Plans are made with the fault in place and never pass the wall, which would refuse most of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from fractions import Fraction

import numpy as np
import pytest

from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.black_box import strongest_event
from dprelease.audit.neighbours import neighbouring_tables
from dprelease.audit.pairs import pair_loss
from dprelease.audit.repeated import features_of
from dprelease.audit.sampler import draws_fit
from dprelease.engines import reference
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements import base, scalar, truncated_mean
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.mechanisms.certifiers.table_laplace import BoundedLaplaceLaw
from dprelease.planning.make import make_plan
from dprelease.statistics import ranks
from dprelease.wall import execute
from tests.planning.requests import USER, asked
from tests.wall.test_recompute import plan_of

DRAWS = 20_000
FEW = {"max": 60}
"""Rows of most plans here: what is broken shows on any, and small ones are planned in no time."""


@dataclass(frozen=True)
class Seen:
    """What the layers say about one plan."""

    exact: bool
    fits: bool
    black_box: bool

    @property
    def caught(self):
        return "".join(
            layer
            for layer, good in zip("ABC", (self.exact, self.fits, self.black_box), strict=True)
            if not good
        )


def looked_at(plan, draws=DRAWS):
    """Return which layers find nothing, over all neighbouring tables of the plan; A alone at 0.

    Tables with the same integers are one.
    """
    engine = ReferenceEngine()
    exact, found, known = True, [], set()
    for pair in neighbouring_tables(plan, most=4):
        both = [answer_of(plan, rows, engine) for rows in (pair.first, pair.second)]
        cells = [cells_of(plan, a) for a in both]
        key = repr([[block.tolist() for block in made] for made in cells])
        if key in known:
            continue
        known.add(key)
        cost = pair_loss(plan, *cells)
        if plan.delta:
            exact &= cost.delta_at_least(plan.epsilon) <= plan.delta
        else:
            exact &= cost.within(plan.epsilon)
        found.append((cost.nats, both))
    fits = black_box = True
    if draws:
        for block in plan.blocks:
            law = block.law
            if isinstance(law, ScalarCellLaw):
                ends = (law.law.allowed.lower, law.law.allowed.upper)
                fits &= min(draws_fit(law.law, a, min(draws, DRAWS)) for a in ends) > 1e-9
        for _, both in sorted(found, key=lambda f: -f[0])[:2]:
            one, other = (features_of(plan, a, both, draws) for a in both)
            bound = strongest_event(one, other, delta=float(plan.delta))
            black_box &= bound.epsilon <= plan.epsilon
    return Seen(exact, fits, black_box)


# -- the mutants: each a function that breaks something, and the plan on which it shows --------------


def half_the_sensitivity(patch):
    honest = base.sensitivity

    def half(*arguments, **kwargs):
        s = honest(*arguments, **kwargs)
        return replace(
            s, l1_per_group=-(-s.l1_per_group // 2), l1_over_groups=-(-s.l1_over_groups // 2)
        )

    patch.setattr(base, "sensitivity", half)
    return asked(["sum(x)"], rows=FEW)


def truncation_without_a_new_scale(patch):
    def plain(request):
        p = math.ceil(2**60 * math.exp(-float(request.epsilon) / request.sensitivity))
        return BoundedLaplaceLaw(
            request.allowed, request.sensitivity, request.epsilon, request.loss, p
        )

    patch.setattr(BoundedLaplaceLaw, "calibrate", staticmethod(plain))
    spec = {"statistic": "sum(x)", "mechanism": "bounded_laplace", "domain": {"range": [0, 20]}}
    return asked([spec])


def exact_size(patch):
    """A mean divides by its exact number of rows, and publishes it."""
    honest = truncated_mean.MeanLaw.draw

    class Size(ScalarCellLaw):
        def draw(self, exact, bits):
            return exact[:, :1]

    def draw(self, exact, bits):
        size = Size(*(getattr(self.size, f.name) for f in fields(self.size)))
        return honest(replace(self, size=size), exact, bits)

    patch.setattr(truncated_mean.MeanLaw, "draw", draw)
    spec = {"statistic": "mean(x)", "mechanism": "bounded_laplace", "domain": {"step": 0.5}}
    return asked([spec], rows={"max": 40})


def not_a_number_is_not_clamped(patch):
    honest = reference._value

    def value(code, row, clean):
        x = row.get(getattr(code, "column", ""))
        # the reader turns not-a-number into null, so the engine would have to see it first
        seen = x is None and not isinstance(code, reference.Condition)
        return 10**6 if seen else honest(code, row, clean)

    patch.setattr(reference, "_value", value)
    return asked(["sum(x)"], rows={"max": 100})


def groups_not_split(patch):
    honest = base.sensitivity

    def one_group(*arguments, **kwargs):
        s = honest(*arguments, **kwargs)
        return replace(s, l1_over_groups=s.l1_per_group, changed_groups=1, chain_length=1)

    patch.setattr(base, "sensitivity", one_group)
    return asked(["count"], by=["g"], adjacency="substitution")


def domain_ends_at_n(patch):
    """The upper end of a truncated count is the exact count."""

    def draw(self, exact, bits):
        raw = self.law.draw_raw(np.full(exact.shape[0], self.law.allowed.upper), bits)
        return np.minimum(raw.astype(object), exact[:, 0])[:, None]

    patch.setattr(ScalarCellLaw, "draw", draw)
    spec = {"statistic": "count", "spikes": "forbid", "domain": {"range": [0, 40]}}
    return asked([spec], rows={"max": 40})


def a_float_sum(patch):
    """Half precision, in the order of the table: a later row is rounded by what came before."""
    honest = reference._sum

    def rounded(rows, query):
        answer = honest(rows, query)
        for place, primitive in enumerate(query.primitives):
            total = np.float16(0)
            for row, _ in rows:
                total = total + np.float16(8 * reference._summand(primitive, row.codes) + 2040)
            answer.sums[0, place] = int(total)
        return answer

    patch.setattr(reference, "_sum", rounded)
    return asked(["sum(x)"], rows=FEW)


def delta_ignored(patch):
    """Normal noise of a thirtieth of its variance, at the price of all of it."""
    from dprelease.mechanisms.forms.vector import GaussianCells

    honest = GaussianCells.calibrate.__func__

    def narrow(cls, l2_square, rho):
        good = honest(cls, l2_square, rho)
        return cls(l2_square, -(-good.square // 30))

    patch.setattr(GaussianCells, "calibrate", classmethod(narrow))
    patch.setattr(
        GaussianCells, "rho", property(lambda self: Fraction(self.l2_square, 60 * self.square))
    )
    spec = {"statistic": "histogram(x, [0, 2, 5, 10])", "mechanism": "rectified_gaussian"}
    return asked([spec], delta=1e-6, unit=USER, by=["g"], epsilon=2)


def sum_of_budgets_halved(patch):
    from dprelease.allocation import spend

    honest = spend.allocate

    def twice(blocks, epsilon, *rest, **kwargs):
        return [2 * e for e in honest(blocks, epsilon, *rest, **kwargs)]

    patch.setattr(spend, "allocate", twice)
    return asked(["count", "sum(x)"], rows=FEW)


def redrawn_until_valid(patch):
    """Noise of an unbounded law, drawn again until it lies in the domain."""

    def draw(self, exact, bits):
        low, high = self.law.allowed.lower, self.law.allowed.upper
        ends = np.array([min(max(int(c), low), high) for c in exact[:, 0]])
        raw = self.law.draw_raw(ends, bits)
        while (out := (raw < low) | (raw > high)).any():
            raw[out] = self.law.draw_raw(ends[out], bits)
        return raw.astype(object)[:, None]

    patch.setattr(ScalarCellLaw, "draw", draw)
    spec = {"statistic": "count", "mechanism": "discrete_laplace", "domain": {"range": [0, 8]}}
    return asked([spec])


def answer_moved_into_the_union(patch):
    honest = ScalarCellLaw.draw

    def snapped(self, exact, bits):
        steps = np.array([int(c) for c in exact[:, 0]], dtype=np.int64)
        return honest(self, self.law.allowed.nearest(steps).astype(object)[:, None], bits)

    patch.setattr(ScalarCellLaw, "draw", snapped)
    domain = {"range": [0, 40], "forbidden": [[0, 15]]}
    return asked(
        [{"statistic": "count", "mechanism": "discrete_laplace", "domain": domain}], epsilon=2
    )


def spread_of_ranks_halved(patch):
    patch.setattr(ranks, "spreads", lambda a, b, offset: (1, 1))
    return asked(["median(x)"], epsilon=2)


def contributions_not_bounded(patch):
    patch.setattr(reference, "row_cap", lambda query, primitive: 10**6)
    honest = reference._bound
    patch.setattr(
        reference,
        "_bound",
        lambda rows, query, salt: honest(rows, replace(query, max_groups=9), salt),
    )
    return asked(
        ["count"], unit={"user": "who", "max_groups": 1, "max_rows_per_group": 2}, by=["g"]
    )


def the_same_noise_again(patch):
    """Every run repeats one stream: whoever knows it subtracts it."""
    from dprelease.core.entropy import ReplayBits

    class Same(ReplayBits):
        def __init__(self):
            super().__init__("a seed")

        def read(self, count):
            return b"\x10" * count

    patch.setattr(execute, "SystemBits", Same)
    spec = {"statistic": "sum(x)", "mechanism": "bounded_laplace", "domain": {"range": [0, 20]}}
    return asked([spec])


def too_little_noise(patch):
    honest = BoundedLaplaceLaw.draw_raw

    def quiet(self, answers, bits):
        kept = np.clip(answers, self.allowed.lower, self.allowed.upper)
        return kept + (honest(self, answers, bits) - kept) // 2

    patch.setattr(BoundedLaplaceLaw, "draw_raw", quiet)
    spec = {"statistic": "sum(x)", "mechanism": "bounded_laplace", "domain": {"range": [0, 20]}}
    return asked([spec])


MUTANTS = {
    half_the_sensitivity: "A",
    truncation_without_a_new_scale: "A",
    exact_size: "C",
    not_a_number_is_not_clamped: "A",
    groups_not_split: "A",
    domain_ends_at_n: "C",
    a_float_sum: "A",
    delta_ignored: "A",
    sum_of_budgets_halved: "A",
    redrawn_until_valid: "C",
    answer_moved_into_the_union: "C",
    spread_of_ranks_halved: "A",
    contributions_not_bounded: "A",
    the_same_noise_again: "C",
    too_little_noise: "B",
}


DRAWS_OF = {exact_size: 2_000, redrawn_until_valid: 60_000}
"""Fewer draws where each takes long and the fault shows in every one; more where it is slight: the
redrawn plan's bound is 1.13 to 1.15 against a claim of 1, and the whole one's 0.93 to 0.95."""


@pytest.mark.parametrize(
    ("break_it", "layer"), MUTANTS.items(), ids=lambda v: getattr(v, "__name__", v)
)
def test_a_broken_build_is_caught(break_it, layer, monkeypatch, evidence):
    draws = 0 if layer == "A" else DRAWS_OF.get(break_it, DRAWS)
    scalar.priced_laws.cache_clear()
    with monkeypatch.context() as patch:
        query = break_it(patch)
        # held to what was asked for, whatever the broken planner says of itself
        seen = looked_at(replace(make_plan(query), epsilon=query.epsilon), draws)
    scalar.priced_laws.cache_clear()
    assert layer in seen.caught
    # the control: the same request, unbroken, passes all layers
    assert not looked_at(make_plan(query), draws).caught
    evidence(
        f"broken build: {break_it.__name__.replace('_', ' ')}",
        f"1 plan, its extreme pairs, {draws:,} draws",
        f"caught by {' and '.join(seen.caught)}",
    )


def test_the_mutants_are_many_and_use_every_layer():
    assert len(MUTANTS) >= 12
    assert set(MUTANTS.values()) == {"A", "B", "C"}


@pytest.mark.parametrize("keep", [False, True], ids=["simple", "parallel edges kept"])
def test_parallel_edges(keep, monkeypatch):
    """A star taken back and forth is one star: as parallel edges it moves twice as far."""
    plan = plan_of([{"statistic": "degree(0)"}], nodes=8, k=2)
    if keep:

        def every(primitive, rows):
            ends = [(r.codes[primitive.code], r.codes[primitive.other]) for r in rows]
            return np.array(ends, dtype=np.int64).reshape(-1, 2)

        monkeypatch.setattr(reference, "_edges", every)
    engine = ReferenceEngine()
    pair = next(p for p in neighbouring_tables(plan) if "back and forth" in p.name)
    first, second = (answer_of(plan, rows, engine) for rows in (pair.first, pair.second))
    degrees = [np.bincount(a.tables[0].ravel(), minlength=8)[0] for a in (first, second)]
    assert (abs(int(degrees[1]) - int(degrees[0])) > 2) == keep
