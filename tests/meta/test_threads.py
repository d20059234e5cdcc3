"""Linear algebra has one thread in each of several workers of tests."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import numpy as np
import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="a process alone has all cores")
def test_linear_algebra_of_a_worker_has_one_thread() -> None:
    libraries = sorted((Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas64_*"))
    if not libraries:
        pytest.skip("this numpy has another library of linear algebra")
    threads = ctypes.CDLL(str(libraries[0])).scipy_openblas_get_num_threads64_()
    assert threads == int(os.environ["OPENBLAS_NUM_THREADS"])
