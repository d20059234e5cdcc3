"""`dp.open_ledger`: a ledger that exists, for looking at and for raising a budget.

The protocol of a release is not here: debits and draws are made by releases alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dprelease.budget.connection import Place
from dprelease.budget.ledger import Budget, Ledger, LedgerReport
from dprelease.core.numeric import Number
from dprelease.core.periods import every_of, parse_period

if TYPE_CHECKING:
    import pyarrow as pa


def open_ledger(place: str | Path | Place) -> LedgerView:
    """Open an existing ledger, checked in full; never create one.

    Args:
        place: its file, or a PostgreSQL server by reference: "${env:NAME}".

    Raises:
        LedgerError: as `Ledger.open`, DPR401 if there is none.
    """
    return LedgerView(Ledger.open(place))


class LedgerView:
    """The budgets and debits of one ledger. Every answer is read anew."""

    __slots__ = ("_ledger",)

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __repr__(self) -> str:
        return f"open_ledger({str(self._ledger.path)!r})"

    def datasets(self) -> tuple[str, ...]:
        """Return the names of the datasets that have a budget here, in order."""
        return self._ledger.datasets()

    def balance(self, dataset: str, *, during: str | None = None) -> Budget:
        """Return what the dataset may spend, has spent and has left.

        Args:
            during: a period, 2026-W46: what is left to a release of its rows, where the dataset's
                losses are told apart by time.

        Raises:
            LedgerError: the dataset has no budget here (DPR407).
            ArgumentError: `during` names no period (DPR640).
        """
        if during is None:
            return self._ledger.budget(dataset)
        zone = self._ledger.timeline(dataset).zone
        return self._ledger.budget(dataset, parse_period(during, every_of(during), zone))

    def add(self, dataset: str, *, epsilon: Number, delta: Number = 0) -> Budget:
        """Raise the dataset's budget *by* epsilon (and delta), on the record for good.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or the storage failed (DPR402).
            ArgumentError: epsilon is not positive (DPR606, DPR650).
        """
        return self._ledger.add_budget(dataset, epsilon, delta)

    def entries(self, dataset: str | None = None) -> pa.Table:
        """Return every debit: entry, dataset, pipeline, period, epsilon, delta, state, early, plan_hash.

        epsilon and delta are exact, as "p/q" text; early is when the period closes, for one that
        was paid for before that.
        """
        import pyarrow as pa

        rows = self._ledger.entries(dataset)
        columns = {
            "entry": [row.anchor.seq for row in rows],
            "dataset": [row.entry.key.dataset for row in rows],
            "pipeline": [row.entry.key.pipeline for row in rows],
            "period": [row.entry.key.period for row in rows],
            "epsilon": [str(row.entry.epsilon) for row in rows],
            "delta": [str(row.entry.delta) for row in rows],
            "state": [row.state for row in rows],
            "early": [row.entry.early for row in rows],
            "plan_hash": [row.entry.plan_hash for row in rows],
        }
        return pa.table(
            {
                name: pa.array(values, pa.int64() if name == "entry" else pa.string())
                for name, values in columns.items()
            }
        )

    def verify(self) -> LedgerReport:
        """Check the whole hash chain, the sums and every stored byte."""
        return self._ledger.verify()
