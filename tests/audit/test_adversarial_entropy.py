"""Sources of bits that fail, for every class that draws: stuck, repeating, counting, and forked.

A stuck source must end in a value of the domain or a refusal, never in a loop or an invalid value;
after a fork, parent and children must not draw the same.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import pkgutil
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from dprelease import measurements, mechanisms
from dprelease.audit.answers import answer_of, cells_of
from dprelease.audit.neighbours import neighbouring_tables
from dprelease.core.choice_tree import halves
from dprelease.core.entropy import SystemBits
from dprelease.core.errors import InternalError
from dprelease.engines.reference import ReferenceEngine
from dprelease.measurements.law import RAW_LIMIT
from dprelease.mechanisms.bounded_laplace import BoundedLaplace
from dprelease.mechanisms.certifiers.box_gaussian import BoundedGaussianBoxLaw
from dprelease.mechanisms.certifiers.closed_form_gaussian import BoundedGaussianWideLaw
from dprelease.mechanisms.certifiers.closed_form_laplace import BoundedLaplaceWideLaw
from dprelease.mechanisms.forms.flips import FlipLaw
from dprelease.mechanisms.forms.joint_scores import Heaps, JointExponential, SequenceLaw
from dprelease.mechanisms.forms.recursive_scores import Copies, _Choice
from dprelease.mechanisms.forms.scores import ScoreLaw
from dprelease.mechanisms.forms.vector import CellNoise, GaussianCells
from dprelease.mechanisms.kernels.gaussian import DiscreteGaussianNoise
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.mechanisms.stochastic_sign import StochasticSign
from dprelease.schema.domain import Domain, GridSet
from dprelease.statistics.recursive_ranks import steps
from tests.planning.requests import X, planned
from tests.sizes import FULL, some, whole
from tests.wall.test_recompute import TOGETHER, plan_of

COUNT = whole(10, 40)
TIMES = 40 // COUNT
REQUESTS = [
    GridRequest(GridSet.from_runs([(0, 60)]), 5, Fraction(1)),
    GridRequest(GridSet.from_runs([(-9, 2), (20, 20), (31, 40)]), 3, Fraction(1, 2)),
]
NOISES = [CellNoise.calibrate(7, Fraction(1)), DiscreteGaussianNoise(900)]
NOISES += [GaussianCells(1, square) for square in some((4, 900, 10**9), 2)]
NORMAL = {"statistic": "histogram(x, [0, 2, 5, 10])", "mechanism": "rectified_gaussian"}
WIDE = (BoundedLaplaceWideLaw, BoundedGaussianWideLaw)


@cache
def plans():
    """Return one plan for each way that a block is drawn."""
    return {
        "a mean": planned(["mean(x)"], rows={"max": 60}),
        "a mean without point masses": planned(
            [{"statistic": "mean(x)", "spikes": "forbid", "domain": {"step": 0.5}}],
            rows={"max": 60},
        ),
        "a median": planned(["median(x)"]),
        "a median by coins": planned([{"statistic": "median(x)", "mechanism": "permute_and_flip"}]),
        "quartiles of a wide range": planned(
            [f"quantile(x, {p})" for p in (0.25, 0.5, 0.75)],
            rows={"expected": 100, "max": 1000},
            x={"kind": "integer", "range": [0, 10**6]},
        ),
        "quintiles": planned([f"quantile(x, {p})" for p in (0.2, 0.4, 0.6, 0.8)]),
        "a median with an interval": planned([{"statistic": "median(x)", "interval": True}]),
        "a winsorised mean": planned([{"statistic": "mean(x)", "winsorize": 0.1}]),
        "a ratio": planned(
            ["ratio(x, w)"],
            rows={"max": 60},
            x={**X, "nulls": {"default": 0}},
            columns={"w": {"kind": "integer", "range": [1, 4], "nulls": {"default": 1}}},
        ),
        "bins": planned(["histogram(x, [0, 2, 5, 10])"]),
        "bins of a public size": planned(
            ["histogram(x, [0, 2, 5, 10])"],
            adjacency="substitution",
            rows={"exact": 60},
            x={**X, "nulls": {"default": 0}},
        ),
        "a count": planned(["count"]),
        "normal bins": planned([NORMAL], delta=0.000001),
        "a box": plan_of(TOGETHER),
    }


def of_law(law, answer):
    def inside(drawn):
        return law.allowed.contains(law.finish(drawn)).all()

    return lambda: law.draw_raw(np.full(COUNT, answer), SystemBits()), inside


def of_block(block, exact):
    """Return the draw of a block of a plan for the exact cells of one group, `COUNT` times."""
    law = block.law

    def inside(raw):
        return np.isfinite(law.cells(raw)).all() and all(
            abs(int(v)) <= RAW_LIMIT for v in raw.ravel()
        )

    return lambda: law.draw(np.tile(exact[:1], (COUNT, 1)), SystemBits()), inside


@cache
def every_sampler():
    """Return name -> (class, draw, is it valid) of everything that turns bits into values."""
    out = {}
    laws = [law for request in REQUESTS for law in grid_laws(request)]
    laws += [kind.calibrate(REQUESTS[0]) for kind in WIDE]
    for i, law in enumerate(laws):
        ends = (law.allowed.lower, law.allowed.upper)
        for answer in ends if FULL else ends[i % 2 :][:1]:  # one of them in turn
            out[f"{law.family} {i} at {answer}"] = (type(law), *of_law(law, answer))
            for part in filter(None, (getattr(law, "table", None), getattr(law, "noise", None))):
                out.setdefault(f"inside {type(part).__name__}", (type(part), *of_law(law, answer)))
    for noise in NOISES:
        drawn = (lambda n=noise: n.sample(COUNT, SystemBits())), lambda d: d.shape == (COUNT,)
        out[f"{type(noise).__name__} {getattr(noise, 'square', '')}"] = (type(noise), *drawn)
    choice = ScoreLaw.calibrate(12, spread=2, epsilon=1)
    for name, law in (("a choice", choice), ("coins", FlipLaw.from_scores(choice))):
        out[name] = (
            type(law),
            lambda law=law: law.draw_scores(np.zeros((COUNT, 12), dtype=np.int64), SystemBits()),
            lambda drawn: ((drawn >= 0) & (drawn < 12)).all(),
        )
    heaps = Heaps(np.array([0, 4, 9, 12]), np.array([3, 1, 0, 5]), (3, 6))
    joint = JointExponential(SequenceLaw.calibrate(12, spread=7, epsilon=1), heaps)
    out["a joint choice"] = (
        JointExponential,
        lambda: np.array([joint.draw(SystemBits()) for _ in range(COUNT)]),
        lambda drawn: all(found == sorted(found) and len(found) == 2 for found in drawn.tolist()),
    )
    places, upto = np.array([2, 5, 9]), np.array([4, 5, 20])
    copies = Copies(places, np.array([0, 4, 5]), upto, 12, 20, 16)
    nodes = halves([1, 3], 4)
    inside = ScoreLaw.calibrate(12 * 16, spread=2**16, epsilon=1, joint=True)
    out["one inside the other"] = (
        Copies,
        lambda: np.array(
            [copies.draw(inside, nodes, steps(nodes), SystemBits()) for _ in range(COUNT)]
        ),
        lambda drawn: all(0 <= a <= b < 192 for a, b in drawn.tolist()),
    )
    one = _Choice(copies, nodes[0].part, (0, 191), (0, 640), steps(nodes)[0])
    out["one of them"] = (
        _Choice,
        lambda: np.array([one.draw(inside, SystemBits()) for _ in range(COUNT)]),
        lambda drawn: ((drawn >= 0) & (drawn < 192)).all(),
    )
    sign = StochasticSign(scale=1).on_grid(Fraction(1, 8))
    out["a sign"] = (
        type(sign),
        lambda: sign.draw_with(np.zeros(COUNT), SystemBits()),
        lambda drawn: np.isin(drawn, (-1, 1)).all(),
    )
    unit = BoundedLaplace.calibrate(Domain(0, 10), sensitivity=1, epsilon=1).on_grid(1)
    out["a law in the unit of its domain"] = (
        type(unit),
        lambda: unit.draw_with(np.zeros(COUNT), SystemBits()),
        lambda drawn: ((drawn >= 0) & (drawn <= 10)).all(),
    )
    box = plans()["a box"].blocks[0].law.law
    out["a box's points"] = (
        BoundedGaussianBoxLaw,
        lambda: box.draw_with(np.zeros((COUNT, len(box.laws))), SystemBits()),
        lambda drawn: np.isfinite(drawn).all(),
    )
    for name, plan in plans().items():
        rows = next(neighbouring_tables(plan)).first
        cells = cells_of(plan, answer_of(plan, rows, ReferenceEngine()))
        for block, exact in zip(plan.blocks, cells, strict=True):
            kind = type(block.law)
            out[f"{name}, {kind.__name__}"] = (kind, *of_block(block, exact))
    return out


def classes_that_draw():
    """Return every class of the library with a method that turns bits into values."""
    found = set()
    for package in (mechanisms, measurements):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            for value in vars(importlib.import_module(module.name)).values():
                if not isinstance(value, type) or getattr(value, "_is_protocol", False):
                    continue
                for name in ("draw", "draw_raw", "draw_runs", "draw_scores", "draw_with", "sample"):
                    method = value.__dict__.get(name)
                    if "bits" in getattr(getattr(method, "__code__", None), "co_varnames", ()):
                        found.add(value)
    return found


def test_every_class_that_draws_is_here():
    unused = {
        "ConstantLaw",
        "DiscreteLaplaceNoise",
        "EndingLaplaceNoise",
        "EndingLaw",
        "FoundLaw",
        "JointOfCopies",
        "RecursiveOfCopies",
    }  # draws nothing; tests/mechanisms/kernels/test_ending_laplace.py and test_selecting.py draw from their noise; is what `CellNoise` draws from; were replaced and refuse to draw
    known, found = {kind for kind, _, _ in every_sampler().values()}, classes_that_draw()
    assert len(found) >= 17
    untried = {c for c in found if not any(issubclass(kind, c) for kind in known)}
    assert {c.__name__ for c in untried} <= unused


STREAMS = {
    "all zero": lambda n: bytes(n),
    "all one": lambda n: b"\xff" * n,
    "repeating": lambda n: (b"\x00\xff\x5a" * (n // 3 + 1))[:n],
    "counting": lambda n: (bytes(range(256)) * (n // 256 + 1))[:n],
    "alternating bits": lambda n: b"\xaa" * n,
}


@pytest.mark.parametrize("stream", STREAMS)
def test_broken_system_bits_end_and_stay_in_the_domain(stream, monkeypatch, evidence):
    """A value of the domain, or a refusal; never a loop and never a value outside.

    Bits that are all one never pass a rejection step, so everything refuses them.
    """
    refusals, samplers = {}, every_sampler()
    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", STREAMS[stream])
        for name, (_, draw, valid) in samplers.items():
            try:
                drawn = draw()
            except InternalError as error:
                refusals[name] = error.code
            else:
                assert valid(drawn), name
    assert set(refusals.values()) <= {"DPR904"}
    assert (len(refusals) == len(samplers)) == (stream == "all one")
    evidence(
        f"stuck entropy: {stream}",
        f"{len(samplers)} samplers, {COUNT} values each",
        f"{len(refusals)} refused, {len(samplers) - len(refusals)} inside their domain",
    )


def drawn_by_all(times):
    """Return a digest per sampler of what it draws now, `times` times `COUNT` values."""
    return [
        hashlib.sha256(repr([draw().tolist() for _ in range(times)]).encode()).digest()
        for _, draw, _ in every_sampler().values()
    ]


def drawn_after_forks(children, times):
    """Return what this process draws, then what each of its forked children draws."""
    drawn_by_all(1)  # whatever state there could be exists before the fork
    readers = []
    for _ in range(children):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            os.write(write, b"".join(drawn_by_all(times)))
            os._exit(0)
        os.close(write)
        readers.append((read, child))
    seen = [drawn_by_all(times)]
    for read, child in readers:
        with os.fdopen(read, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        seen.append([told[i : i + 32] for i in range(0, len(told), 32)])
    return list(zip(*seen, strict=True))


class PooledBits(SystemBits):
    """The same bits, read ahead: children of a fork inherit the pool."""

    pool = b""

    @classmethod
    def read(cls, count):
        if len(cls.pool) < count:
            cls.pool += os.urandom(count + 2**20)
        out, cls.pool = cls.pool[:count], cls.pool[count:]
        return out


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_children_draw_differently(monkeypatch, evidence):
    """`TIMES` times: draws of a randomized response of two outputs are alike in two processes with a chance of 2e-9.

    Of ten draws it was 0.007: once is enough for the control, where more than half must be alike.
    """
    found = dict(zip(every_sampler(), drawn_after_forks(2, TIMES), strict=True))
    assert [name for name, digests in found.items() if len(set(digests)) < 3] == []
    with monkeypatch.context() as patch:
        patch.setattr(SystemBits, "read", lambda self, count: PooledBits.read(count))
        pooled = drawn_after_forks(1, 1)
    assert sum(len(set(digests)) < 2 for digests in pooled) > len(pooled) / 2
    evidence(
        "fork safety",
        f"{len(found)} samplers, 2 children",
        "all draw differently; a pool of bits does not",
    )
