"""A place in memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.sizes import memory_folder


@pytest.fixture
def place() -> Iterator[Path]:
    folder = memory_folder()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
