"""The laws are those that were recorded: a change of one integer, proof or draw shows here.

An eleventh of them with each change, all of them under `make evidence`. They are made by a process that is told to
leave out what only newer processors have: so every x86-64 machine compares to the last digit.
"""

from __future__ import annotations

import copy
import json
import os
import platform
import subprocess
import sys

import pytest

from tests.golden import laws
from tests.golden.records import differences, read
from tests.sizes import whole

EVERY = whole(11, 1)
PLAIN = {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4"}
MAKE = """
import json
from tests.golden import laws, records
print(json.dumps({"arithmetic": records.arithmetic(), "records": laws.records(%d)}))
"""


@pytest.fixture(scope="module")
def made():
    plain = PLAIN if platform.machine() == "x86_64" else {}
    run = subprocess.run(
        [sys.executable, "-c", MAKE % EVERY],
        env={**os.environ, **plain},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def test_every_law_is_as_recorded(made) -> None:
    stored = read("laws")
    if EVERY > 1:
        known = {k: v for k, v in stored["records"].items() if k in made["records"]}
        stored = {**stored, "records": known}
    assert differences(stored, made) == []


def test_the_records_cover_every_mechanism_with_laws_and_refusals(made) -> None:
    found = made["records"]
    assert len(found) >= 600 / EVERY
    drawn = {key.split()[0] for key, record in found.items() if "draws" in record}
    assert {
        "bounded_gaussian", "bounded_laplace", "discrete_laplace", "optimal_grid", "staircase",
        "rectified_laplace", "reflected_laplace", "scores", "cells",
        "gaussian", "box", "RectifiedGaussian", "StochasticSign", "Exponential",
    } <= drawn  # fmt: skip
    assert any(record["law"].startswith("refused") for record in found.values() if "law" in record)


@pytest.mark.parametrize("field", ["json", "proof", "figures", "draws", "epsilon", "law"])
def test_a_changed_record_shows(made, field) -> None:
    changed = copy.deepcopy(made)
    key = next(k for k, record in changed["records"].items() if "draws" in record)
    changed["records"][key][field] = "another"
    (line,) = differences(made, changed)
    assert line.startswith(f"{key}: {field}")


def test_on_another_processor_only_digests_may_differ(made) -> None:
    changed = copy.deepcopy(made)
    key = next(k for k, record in changed["records"].items() if "draws" in record)
    changed["arithmetic"] = "another"
    changed["records"][key]["json"] = "0123456789ab"
    assert differences(made, changed) == []
    for field, wrong in (("epsilon", 1.001), ("law", "another"), ("json", "no digest")):
        wrecked = copy.deepcopy(changed)
        kept = wrecked["records"][key][field]
        wrecked["records"][key][field] = kept * wrong if isinstance(kept, float) else wrong
        assert len(differences(made, wrecked)) == 1, field


@pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86-64's kernels")
def test_another_kernel_of_matrix_products_is_another_arithmetic() -> None:
    """Products of matrices differ in their last digits where all elementary functions agree."""
    code = "from tests.golden.records import arithmetic; print(arithmetic())"
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_CORETYPE": kernel},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for kernel in ("Haswell", "Prescott")
    }
    assert len(digests) == 2


def test_requests_are_the_same_every_time() -> None:
    assert laws.requests() == laws.requests()
