"""What somebody who reads published folders can count: real runs, and the same publication again.

`Pipeline.run` is the command line on a table in a file: configuration, engine, plan, charge, draw,
validation, publication, and what the file says when it is parsed. `Run.again` repeats the part after
the query, drawing by the wall and writing by the format, as often as a test asks; nothing here knows
a mechanism.
"""

from __future__ import annotations

import io
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from typer.testing import CliRunner

from dprelease.audit.repeated import RELEASE, releases
from dprelease.cli import app
from dprelease.pipeline import planned
from dprelease.query.answer import Answer
from dprelease.query.spec import Query
from dprelease.release_plan.plan import ReleasePlan
from dprelease.results.draw import Draw, assemble, decode
from dprelease.results.formats import csv_
from dprelease.wall import execute

PIPELINE = """\
dprelease: pipeline/1
name: pair
source: {csv: rows.csv}
schema: schema.yaml
budget: {ledger: .dprelease/ledger.db, dataset: pair, epsilon: 20%s}
publish: {to: public, formats: [csv]}
"""
NUMBERS = ("value", "lower", "upper", "estimate", "unbiased", "consistent")
ABSENT = -2e300
NULL = -1e300

Columns = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class Run:
    """One run: what was published, and the wall's own plan and answer to publish again."""

    plan: ReleasePlan
    answer: Answer
    text: bytes

    def again(self, count: int) -> Columns:
        """Return what `count` publications say, read back from the bytes of their files."""
        noised = releases(self.plan, self.answer, count)
        return seen_in(csv_.write(noised, {})[csv_.TIDY_FILE], self.plan, count)

    def values_again(self, count: int) -> Columns:
        """Return the published values alone, from the table that the files are written of."""
        table = releases(self.plan, self.answer, count).table
        values = table["value"].to_numpy().reshape(count, -1)
        return {f"value[{j}]": values[:, j] for j in range(values.shape[1])}


class Pipeline:
    """A project whose table is replaced between runs, each from a new ledger."""

    def __init__(self, folder: Path, schema: str, monkeypatch: Any) -> None:
        self.folder, self._seen = folder, []
        folder.mkdir(parents=True)
        (folder / "schema.yaml").write_text(schema, encoding="utf-8")
        delta = ", delta: 0.01" if '"delta"' in schema else ""
        (folder / "pair.yaml").write_text(PIPELINE % delta, encoding="utf-8")
        honest = execute.drawn

        def watched(plan: ReleasePlan, exact: Any, **rest: Any) -> bytes:
            payload = honest(plan, exact, **rest)
            self._seen.append((plan, exact.reveal_to_mechanism(), decode(plan, payload)))
            return payload

        plan, plans = planned.make_plan, []

        def made_once(query: Query, **_rest: bool) -> ReleasePlan:
            """Return the plan of equal requests, made before a row is read; what else was thought of is left out."""
            same = next((p for q, p in plans if q == query), None)
            if same is None:
                same = plan(query, brief=True)
                plans.append((query, same))
            return same

        self._watched, self._made_once, self._patch = watched, made_once, monkeypatch

    def run(self, rows: str) -> Run:
        """Run the pipeline over `rows`, the text of a CSV file."""
        text = self.published(rows)
        plan, answer, cells = self._seen.pop()
        table = assemble(plan.by, plan.keys, plan.statistics, plan.blocks, cells)
        # what is repeated ends in the bytes that this run published
        assert csv_.write(Draw(plan, table, cells), {})[csv_.TIDY_FILE] == text
        return Run(plan, answer, text)

    def published(self, rows: str) -> bytes:
        """Return the bytes that one run over `rows` publishes, from an empty ledger and folder."""
        for name in (".dprelease", "public"):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / ".dprelease").mkdir()
        (self.folder / "rows.csv").write_text(rows, encoding="utf-8")
        self._command("ledger", "init", self.folder / "pair.yaml")
        with self._patch.context() as patch:
            patch.setattr(execute, "drawn", self._watched)
            patch.setattr(planned, "make_plan", self._made_once)
            self._command("run", self.folder / "pair.yaml", "--quiet")
        return (self.folder / "public" / "pair" / "once" / csv_.TIDY_FILE).read_bytes()

    @staticmethod
    def _command(*arguments: object) -> None:
        said = CliRunner().invoke(app, [str(a) for a in arguments])
        assert said.exit_code == 0, said.output


def seen_in(text: bytes, plan: ReleasePlan, count: int) -> Columns:
    """Return `(count,)` features of `count` publications in one file.

    Per group and published column: the numbers, whether the line is there at all, and of the value
    the length of its text, its last digit and the lowest bits of its double.
    """
    table = arrow_csv.read_csv(
        io.BytesIO(text),
        convert_options=arrow_csv.ConvertOptions(
            column_types={
                n: pa.utf8() for n in (RELEASE, *plan.by, "statistic", "status", *NUMBERS)
            }
        ),
    )
    names = [c for s in plan.statistics for c in s.columns]
    lines = [table[c].to_pylist() for c in (RELEASE, *plan.by, "statistic")]
    place = {
        (*key, name): i for i, (key, name) in enumerate((k, n) for k in plan.keys for n in names)
    }
    width = len(place)
    at = np.array([int(n) * width + place[tuple(rest)] for n, *rest in zip(*lines, strict=True)])
    out: Columns = {}

    def add(name: str, values: np.ndarray[Any, Any], missing: float) -> None:
        full = np.full(count * width, missing)
        full[at] = values
        full = full.reshape(count, width)
        out.update({f"{name}[{j}]": full[:, j] for j in range(width)})

    for name in NUMBERS:
        texts = table[name].to_pylist()
        numbers = np.array([float(t) if t else NULL for t in texts])
        add(name, numbers, ABSENT)
        if name == "value":
            add("length of value", np.array([float(len(t)) for t in texts]), -1.0)
            add(
                "last digit of value",
                np.array([float(ord(t[-1])) if t else 0.0 for t in texts]),
                -1.0,
            )
            add("last bits of value", (numbers.view(np.int64) & 0xFF).astype(float), -1.0)
    add("status", np.array([float(len(s)) for s in table["status"].to_pylist()]), -1.0)
    present = np.zeros(count * width)
    present[at] = 1.0
    out |= {f"line {j} is there": present.reshape(count, width)[:, j] for j in range(width)}
    return out
