"""Per-instance numbers say that they are for the curator, and nothing on the release path can
reach them."""

from __future__ import annotations

import ast
import copy
import json
import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dprelease
from dprelease import diagnostics
from dprelease.core.errors import ArgumentError
from dprelease.diagnostics import CuratorOnly
from dprelease.mechanisms import BoundedGaussian
from dprelease.schema.domain import Domain

LAW = BoundedGaussian(Domain(-1, 1), scale=0.5)
SOURCES = Path(dprelease.__file__).parent


@cache
def results() -> dict[str, object]:
    t = np.array([0.0, 0.5])
    return {
        "fisher": diagnostics.fisher_information_loss(LAW, t),
        "renyi": diagnostics.renyi_divergence(LAW, t, t + 0.1, 2.0),
        "instance": diagnostics.per_instance_rdp(LAW, t, 0.1, 2.0),
        "composed": diagnostics.composed_rdp(LAW, t, 0.1, 2.0),
        "jacobian": diagnostics.composed_fisher_information_loss(LAW, t, np.eye(2)),
        "one number": diagnostics.fisher_information_loss(LAW, 0.0),
    }


@pytest.mark.parametrize("name", list(results()))
def test_every_result_is_marked_in_every_printed_form(name: str) -> None:
    value = results()[name]
    assert isinstance(value, CuratorOnly)
    for text in (repr(value), str(value), f"{value}", f"{value!s}"):
        assert "curator only" in text


def test_the_mark_survives_arithmetic_reductions_and_indexing() -> None:
    eta = diagnostics.fisher_information_loss(LAW, [0.0, 0.5])
    for value in (eta + 1, 2 * eta, np.sqrt(eta), eta.sum(), eta.max(), eta[0], eta[:1], eta > 1):
        assert isinstance(value, CuratorOnly)
        assert "curator only" in repr(value)
    assert isinstance(copy.copy(eta), CuratorOnly)
    plain = np.asarray(eta)  # the deliberate way out
    assert type(plain) is np.ndarray
    assert f"{diagnostics.fisher_information_loss(LAW, 0.0):.3f}".startswith("1.759 (curator only")
    assert float(diagnostics.fisher_information_loss(LAW, 0.0)) == pytest.approx(1.7592513220684791)


def test_results_are_not_stored() -> None:
    eta = diagnostics.fisher_information_loss(LAW, [0.0, 0.5])
    with pytest.raises(ArgumentError, match="DPR673"):
        pickle.dumps(eta)
    with pytest.raises(ArgumentError, match="DPR673"):
        eta.tobytes()
    with pytest.raises(TypeError):
        json.dumps({"eta": eta})
    unmarked = np.asarray(eta)
    assert pickle.loads(pickle.dumps(unmarked)).shape == (2,)  # control: it is the mark


def imported_names(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def test_no_stage_of_a_release_imports_the_diagnostics(tmp_path: Path) -> None:
    def offenders(files: list[Path]) -> list[Path]:
        prefix = "dprelease.diagnostics"
        named = [f for f in files if "diagnostics" in f.read_text(encoding="utf-8")]
        return [f for f in named if any(n.startswith(prefix) for n in imported_names(f))]

    files = [f for f in SOURCES.rglob("*.py") if SOURCES / "diagnostics" not in f.parents]
    assert len(files) > 50
    # `dprelease/__init__` may name the package for lazy loading; a type-checking import is idle.
    assert [f for f in offenders(files) if f != SOURCES / "__init__.py"] == []
    twin = tmp_path / "publish.py"
    twin.write_text("from dprelease import diagnostics\n", encoding="utf-8")
    assert offenders([twin]) == [twin]


def test_the_diagnostics_import_no_mechanism_and_no_stage() -> None:
    allowed = (
        "dprelease.diagnostics",
        "dprelease.core.errors",
        "dprelease.core.numeric",
        "dprelease.schema.domain",
    )
    for path in (SOURCES / "diagnostics").glob("*.py"):
        inside = {n for n in imported_names(path) if n.startswith("dprelease")}
        assert all(n.startswith(allowed) for n in inside), path


@pytest.mark.parametrize(
    "name", [*(n for n in diagnostics.__all__ if n != "CuratorOnly"), "CuratorOnly"]
)
def test_every_public_name_says_curator_only_in_its_documentation(name: str) -> None:
    text = (getattr(diagnostics, name).__doc__ or "") + (diagnostics.__doc__ or "")
    assert "urator" in text
    if name != "CuratorOnly":
        assert "Curator only" in (getattr(diagnostics, name).__doc__ or "")
