"""What an error says of the budget once a run has charged it.

Most errors say "nothing was spent", which is true where they are raised and false for a run that has
paid a moment before: a server that goes away between charge and draw, a file that is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dprelease.errors import PUBLISHED, DpreleaseError, WithheldError
from dprelease.receipt import Receipt


@contextmanager
def paid(receipt: Receipt) -> Iterator[None]:
    """Let no error inside say that nothing was spent, if this run made the debit.

    Raises:
        WithheldError: in place of such an error (DPR717).
    """
    try:
        yield
    except DpreleaseError as error:
        if not receipt.fresh or error.spent != "nothing":
            raise
        failed = error
    else:
        return
    why = f" ({failed.why})" if failed.why else ""
    raise WithheldError(
        "the release is paid for, and the run cannot go on",
        where=failed.where,
        why=f"{failed.what}{why}, {failed.code}",
        fix="mend that and run again: the debit stands, a repeat costs nothing",
        code="DPR717",
    ) from None


@contextmanager
def published() -> Iterator[None]:
    """Let an error inside say that the release is published already.

    Raises:
        WithheldError: in place of any error of ours (DPR716).
    """
    try:
        yield
    except DpreleaseError as error:
        failed = error
    else:
        return
    why = f" ({failed.why})" if failed.why else ""
    raise WithheldError(
        "the release is published, but the ledger or its head could not record that it is",
        where=failed.where,
        why=f"{failed.what}{why}, {failed.code}",
        fix="mend that and run again: it records what is missing, and costs nothing",
        code=PUBLISHED,
    ) from None
