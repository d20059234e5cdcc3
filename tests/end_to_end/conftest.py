"""What whole jobs leave out where it is not their subject: all is there in `make evidence`, and always in those of `WHOLE`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rules_alone import built_in_rules_only
from tests.sizes import FULL

WHOLE = {
    "test_any_epsilon", "test_canary", "test_flights", "test_karate", "test_newcomer", "test_readme",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def smaller_jobs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the built-in rules validate alone."""
    with pytest.MonkeyPatch.context() as patch:
        if not FULL and request.path.stem not in WHOLE:
            built_in_rules_only(patch)
        yield
