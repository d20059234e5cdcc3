"""Layer C: what published files tell about which of two neighbouring tables was released.

Every table goes through the command line, from its file to the published one. The part after the
query is then repeated, bytes included, and a statistical test that knows no mechanism looks for an
event that is likelier under one table than epsilon allows: numbers, the length and last digit of
their texts, the lowest bits of their doubles, and whether a line is there at all. Half of the
publications choose the event, the other half test it (Clopper-Pearson, alpha 1e-6 per pair).

Sizes: a few thousand publications from fixed entropy, of one pair per world (of all in `make evidence`);
`DPRELEASE_NIGHTLY=1` takes a hundred times as many values from the system's. Limits: a lower bound on these
pairs; `dprelease.audit` has the exact ones.
"""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
import pytest

from dprelease.audit.black_box import ALPHA, strongest_event
from dprelease.core.entropy import ReplayBits
from dprelease.measurements.scalar import ScalarCellLaw
from dprelease.results.formats import csv_
from dprelease.wall import execute
from tests.end_to_end import projects
from tests.end_to_end.neighbour_files import WORLDS, rows, schema
from tests.end_to_end.watched_runs import Pipeline
from tests.sizes import FULL, NIGHTLY, sized

own_rules = projects.own_rules
pytestmark = pytest.mark.usefixtures("own_rules")
FILES = sized(2_000, 20_000)
VALUES = sized(2_000, 200_000)
PAIRS = sum(len(w.pairs) for w in WORLDS.values())


def fixed_entropy(monkeypatch, label):
    """Let the operating system's generator be one stream, except at night."""
    if not NIGHTLY:
        monkeypatch.setattr(os, "urandom", ReplayBits(label).read)


class Seen:
    """What the publications of one table show: all of some files, and the values of more releases."""

    def __init__(self, run):
        self.files = run.again(FILES)
        self.values = {n: v for n, v in self.files.items() if n.startswith("value[")}
        if VALUES > FILES:
            self.values = run.values_again(VALUES)


def bound_of(first, second, delta=0.0):
    """Return the stronger of two bounds: by the values alone, and by all that the files show."""
    both = ((first.values, second.values), (first.files, second.files))
    found = (strongest_event(*seen, alpha=ALPHA / 2, delta=delta) for seen in both)
    return max(found, key=lambda b: b.epsilon)


def taken(world):
    """Return the pairs of this run: the first of a world; all in `make evidence`."""
    return world.pairs if FULL else world.pairs[:1]


@pytest.mark.statistical
@pytest.mark.parametrize("name", WORLDS)
def test_no_event_is_likelier_than_epsilon_allows(name, tmp_path, monkeypatch, evidence):
    fixed_entropy(monkeypatch, name)
    world = WORLDS[name]
    pairs = taken(world)
    pipeline = Pipeline(tmp_path / "project", world.schema, monkeypatch)
    wanted = {table for pair in pairs for table in pair}
    runs = {t: pipeline.run(rows) for t, rows in world.tables.items() if t in wanted}
    seen = {table: Seen(run) for table, run in runs.items()}
    bounds = []
    for first, second in pairs:
        plan = runs[first].plan
        bound = bound_of(seen[first], seen[second], float(plan.delta))
        assert bound.epsilon <= plan.epsilon, (first, second, bound)
        bounds.append(bound.epsilon)
    evidence(
        f"black box through `dprelease run`: {name}",
        f"pairs: {len(pairs)}, runs: {len(runs)}; {VALUES:,} values, {FILES:,} files per table",
        f"epsilon at least {max(bounds):.3g}, claimed {float(plan.epsilon):g}",
    )


def test_there_are_pairs_enough_and_each_differs():
    assert PAIRS >= 60
    for world in WORLDS.values():
        assert all(world.tables[a] != world.tables[b] for a, b in world.pairs)
        assert {n for pair in world.pairs for n in pair} == set(world.tables)


# -- broken twins: each through the same path, each with the feature that gives it away -----------------


def too_little_noise(patch):
    honest = ScalarCellLaw.draw

    def quiet(self, exact, bits):
        return exact + (honest(self, exact, bits) - exact) // 3

    patch.setattr(ScalarCellLaw, "draw", quiet)


def parity_kept(patch):
    """Noise in steps of two: the answer's last bit is in the published number's."""
    honest = ScalarCellLaw.draw

    def draw(self, exact, bits):
        raw = honest(self, exact, bits)
        return raw + (raw + exact) % 2

    patch.setattr(ScalarCellLaw, "draw", draw)


def empty_groups_left_out(patch):
    """A group without rows has no line in the file, though its key is public.

    The rules that every release is held to see such a table; this one is cut while it is written.
    """
    last, honest, written = [], execute._cells, csv_.encoded

    def cells(plan, block, answer):
        last.append(honest(plan, block, answer))
        return last[-1]

    def encode(header, columns):
        if "statistic" in header:
            full = np.repeat([c[0] > 0 for c in last[-1]], len(columns[0]) // len(last[-1]))
            columns = [column.filter(pa.array(full)) for column in columns]
        return written(header, columns)

    patch.setattr(execute, "_cells", cells)
    patch.setattr(csv_, "encoded", encode)


def far_draws_replaced_by_the_answer(patch):
    """A release that would be wide of the mark is exact instead."""
    honest = ScalarCellLaw.draw

    def draw(self, exact, bits):
        raw = honest(self, exact, bits)
        return np.where(abs(raw - exact) > 1, exact, raw)

    patch.setattr(ScalarCellLaw, "draw", draw)


COUNT = [{"statistic": "count", "mechanism": "bounded_laplace", "domain": {"range": [0, 40]}}]
PLAIN = {"no row": rows(), "one row": rows("n,10,4,a")}
GROUPED = {"no row": rows("u,1,1,b"), "one row": rows("u,1,1,b", "n,10,4,a")}
TWINS = {
    too_little_noise: (schema(COUNT), PLAIN, "value"),
    parity_kept: (schema(COUNT), PLAIN, "last digit of value"),
    empty_groups_left_out: (schema(COUNT, by=["g"]), GROUPED, "line"),
    far_draws_replaced_by_the_answer: (schema(COUNT), PLAIN, "value"),
}


HONEST = {}
"""Schema -> what the unbroken build shows of its two tables: twins of one schema share it."""


def shown(text, tables, folder, patch, break_it=None):
    """Return the plan's epsilon, and what 2,000 publications of each table show."""
    pipeline = Pipeline(folder, text, patch)
    if break_it is not None:
        break_it(patch)
    runs = [pipeline.run(r) for r in tables.values()]
    return float(runs[0].plan.epsilon), [r.again(2_000) for r in runs]


@pytest.mark.statistical
@pytest.mark.parametrize("break_it", TWINS, ids=lambda t: t.__name__)
def test_a_broken_twin_is_caught_through_the_same_path(break_it, tmp_path, monkeypatch, evidence):
    monkeypatch.setattr(os, "urandom", ReplayBits(break_it.__name__).read)
    text, tables, feature = TWINS[break_it]
    if text not in HONEST:
        with monkeypatch.context() as patch:
            HONEST[text] = shown(text, tables, tmp_path / "honest", patch)
    claimed, honest = HONEST[text]
    with monkeypatch.context() as patch:
        _, broken = shown(text, tables, tmp_path / "broken", patch, break_it)
    found = {}
    for which, both in ((False, honest), (True, broken)):
        alone = [{n: v for n, v in s.items() if n.startswith(feature)} for s in both]
        found[which] = [strongest_event(*seen).epsilon for seen in (both, alone)]
    assert all(e <= claimed for e in found[False])
    assert all(e > claimed for e in found[True]), found
    evidence(
        f"black box, broken twin: {break_it.__name__.replace('_', ' ')}",
        "1 pair, 2,000 files per table",
        f"caught by C: epsilon at least {max(found[True]):.3g}, claimed {claimed:g}",
    )
