"""The ledger's head in a second place, for pipelines that name one (`budget.anchor`).

    check    before a run          the ledger holds that head, signed by the key if one is named
    export   after every commit    the head replaced, in `budget/head_file.py`

`reconcile` replaces a head that the ledger does not hold: that is the recovery after a restore, a
decision of the operator and on the record.
"""

from __future__ import annotations

from dprelease.budget.head_file import check_head, write_head
from dprelease.budget.ledger import Ledger
from dprelease.budget.signature import Signer, load_signer
from dprelease.core.errors import LedgerError, WithheldError
from dprelease.pipeline.budget_config import BudgetConfig


def init(budget: BudgetConfig, ledger: Ledger) -> None:
    """Make the head if its place is empty, else check it.

    Raises:
        LedgerError: as `check`, or it cannot be written (DPR423).
    """
    if budget.anchor is not None and not budget.anchor.exists():
        export(budget, ledger)
    check(budget, ledger)


def check(budget: BudgetConfig, ledger: Ledger) -> None:
    """Refuse a ledger that does not hold the head in its second place; do nothing without one.

    Raises:
        LedgerError: as `check_head` (DPR419, DPR420), or a faulty key (DPR421, DPR422).
        SourceError: the key's reference leads nowhere (DPR520).
    """
    if budget.anchor is not None:
        signer = _signer(budget)
        check_head(budget.anchor, ledger, None if signer is None else signer.public_key)


def export(budget: BudgetConfig, ledger: Ledger, *, replace: bool = False) -> None:
    """Replace the head in its second place, unless it is later; do nothing without one.

    Args:
        replace: also a later one, after `reconcile`.

    Raises:
        LedgerError: it cannot be written (DPR423), or a faulty key (DPR421, DPR422).
    """
    if budget.anchor is None:
        return
    try:
        write_head(budget.anchor, ledger.head(), _signer(budget), replace=replace)
    except OSError as error:
        raise LedgerError(
            "the ledger's head could not be written to its second place",
            where=str(budget.anchor),
            why=error.strerror or "the system refused",
            fix="make room or give access, then run again",
            code="DPR423",
        ) from None


def export_after_charge(budget: BudgetConfig, ledger: Ledger) -> None:
    """As `export`, within a run: its debit is made, so a failure says so.

    Raises:
        WithheldError: it cannot be written (DPR712).
    """
    try:
        export(budget, ledger)
    except LedgerError as failed:
        fix = "make room or give access, then run again: a repeat costs nothing"
        raise WithheldError.from_error(failed, fix=fix, code="DPR712") from None


def _signer(budget: BudgetConfig) -> Signer | None:
    if budget.signing_key is None:
        return None
    return load_signer(budget.signing_key.reveal_to_source(), "budget.signing_key")
