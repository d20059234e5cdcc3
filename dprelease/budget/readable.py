"""A ledger as it is looked at: budgets, debits, their bytes, the chain. Nothing here writes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from fractions import Fraction

from dprelease.budget import (
    backend,
    chain,
    cited,
    declarations,
    period_cap,
    refusals,
    rho_filter,
    rows,
    stored,
)
from dprelease.budget.approval import ApprovalRequest, Approved, approvals, must_cover
from dprelease.budget.connection import LAST, Connection, Place
from dprelease.budget.parallel import TimeStretch, stretches
from dprelease.budget.population import Populations
from dprelease.budget.record import Anchor, Budget, Entry, EntryRow, Key, LedgerReport
from dprelease.budget.rows import balance, spent_by
from dprelease.budget.timeline import ALWAYS, Instants, Timeline
from dprelease.core.errors import LedgerError


class ReadableLedger:
    """What can be asked of a ledger. Every answer is of one transaction that writes nothing."""

    __slots__ = ("path",)

    def __init__(self, path: Place) -> None:
        """Name a ledger without looking at it; use `open` or `create`."""
        self.path = path

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _check(self) -> None:
        backend.must_stand(self.path)
        with self._read() as db:
            found = chain.problems(db, deep=False)
        if found:
            raise refusals.corrupt(self.path, "; ".join(found))

    def _read(self) -> AbstractContextManager[Connection]:
        return backend.transaction(self.path, write=False, debited=False)

    # -- budgets and approvals --------------------------------------------------------------

    def approvals(self, dataset: str | None = None) -> list[Approved]:
        """Return all approvals in order, or those of one dataset."""
        with self._read() as db:
            return approvals(db, dataset)

    def must_be_approved(self, entry: Entry, wanted: ApprovalRequest | None) -> None:
        """Refuse before the charge what the charge would refuse for want of an approval.

        Raises:
            BudgetError, LedgerError: as `approval.must_cover`.
        """
        with self._read() as db:
            if rows.find(db, entry.key) is None:
                must_cover(db, entry, wanted, entry.key.period, self.path)

    def per_period(self, dataset: str) -> Fraction | None:
        """Return what one period of the dataset may cost over all pipelines, or None."""
        with self._read() as db:
            cap = period_cap.capped(db, dataset)
        return None if cap is None else cap.epsilon

    def datasets(self) -> tuple[str, ...]:
        """Return the names of the datasets that have a budget here, in order."""
        with self._read() as db:
            found = db.execute("SELECT name FROM dataset ORDER BY name").fetchall()
        return tuple(str(row[0]) for row in found)

    def budget(self, dataset: str, window: Instants = ALWAYS) -> Budget:
        """Return what the dataset may spend, has spent and has left.

        Args:
            window: of the rows that a release would read; its units alone are looked at.

        Raises:
            LedgerError: the dataset has no budget here (DPR407).
        """
        with self._read() as db:
            declarations.declared(db, dataset, self.path)
            return balance(db, dataset, window)

    def timeline(self, dataset: str) -> Timeline:
        """Return how the dataset's losses lie in time."""
        with self._read() as db:
            return declarations.timeline_of(db, dataset)

    def stretches(self, dataset: str) -> list[TimeStretch]:
        """Return what the dataset's debits cost the units of each stretch of time, in order."""
        with self._read() as db:
            return stretches(rows.timed_costs(db, dataset))

    def composition(self, dataset: str) -> str:
        """Return how the dataset's budget adds up: "basic" (also if it has none here) or "zcdp"."""
        with self._read() as db:
            return "basic" if rho_filter.rho_budget(db, dataset) is None else "zcdp"

    def spent_at(
        self,
        dataset: str,
        seq: int,
        delta: Fraction | None = None,
        debits: Sequence[EntryRow] | None = None,
    ) -> tuple[Fraction, Fraction]:
        """Return the epsilon and delta that the dataset's debits up to `seq` have cost: both are the promise's.

        Args:
            delta: of a dataset that adds up by zCDP; its present one by default.
            debits: the dataset's, if they are read already.
        """
        known = self.entries(dataset) if debits is None else debits
        entries = [r.entry for r in known if r.anchor.seq <= seq]
        with self._read() as db:
            return spent_by(db, dataset, entries, delta)

    def populations(self, seq: int | None = None) -> Populations:
        """Return the populations, their terms, datasets and debits, as of event `seq`."""
        with self._read() as db:
            return declarations.populations(db, LAST if seq is None else seq)

    def salt(self, dataset: str) -> bytes:
        """Return the dataset's 32 secret bytes for contribution bounding; never publish them.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or the salt was changed (DPR403).
        """
        with self._read() as db:
            declarations.declared(db, dataset, self.path)
            return declarations.stored_salt(db, dataset, self.path)

    # -- debits and the chain ----------------------------------------------------------------

    def payload(self, key: Key) -> bytes | None:
        """Return the drawn bytes, checked against the chain, or None.

        Raises:
            LedgerError: the key has no debit (DPR412), or the bytes were changed (DPR403).
        """
        with self._read() as db:
            return stored.stored_payload(db, rows.debit_seq(db, key, self.path), self.path)

    def files(self, key: Key) -> dict[str, bytes] | None:
        """Return the committed files by name, checked against the chain, or None.

        Raises:
            LedgerError: the key has no debit (DPR412), or the bytes were changed (DPR403).
        """
        with self._read() as db:
            return stored.stored_files(db, rows.debit_seq(db, key, self.path), self.path) or None

    def state(self, key: Key) -> str:
        """Return charged, drawn, ready, published or failed.

        Raises:
            LedgerError: the key has no debit (DPR412).
        """
        with self._read() as db:
            return stored.state(db, rows.debit_seq(db, key, self.path))[0]

    def has(self, key: Key) -> bool:
        """Return whether the key is debited."""
        with self._read() as db:
            return rows.find(db, key) is not None

    def plan_hash(self, key: Key) -> str | None:
        """Return the hash of the plan that the key is debited for, or None."""
        with self._read() as db:
            seq = rows.find(db, key)
            return None if seq is None else rows.entry_row(db, seq).entry.plan_hash

    def entries(self, dataset: str | None = None) -> list[EntryRow]:
        """Return all debits in order, or those of one dataset."""
        where, values = ("", ()) if dataset is None else ("WHERE dataset = ? ", (dataset,))
        with self._read() as db:
            numbers = db.execute(f"SELECT seq FROM entry {where}ORDER BY seq", values).fetchall()
            return [rows.entry_row(db, int(seq)) for (seq,) in numbers]

    def head(self) -> Anchor:
        """Return the chain's head, for an export or a second location."""
        with self._read() as db:
            return chain.head(db)

    def anchor_ok(self, anchor: Anchor) -> bool:
        """Return whether this ledger's chain has `anchor`, or `reconcile` recorded it."""
        if not 0 < anchor.seq < 2**63:  # read from a file: no database holds such an event
            return False
        with self._read() as db:
            row = db.execute("SELECT hash FROM chain WHERE seq = ?", (anchor.seq,)).fetchone()
            own = row == (anchor.head_hash,) and anchor.ledger_id == chain.ledger_id(db)
            return own or anchor in cited.origins(db)

    def adopted_manifest(self, key: Key) -> str | None:
        """Return the SHA-256 of the manifest that `reconcile` recorded for the key, or None."""
        with self._read() as db:
            return cited.adopted_manifest(db, key)

    def verify(self) -> LedgerReport:
        """Check the whole file: SQLite integrity, chain, tables, sums, every stored byte."""
        try:
            with self._read() as db:
                found = chain.problems(db, deep=True)
                if found:
                    return LedgerReport(False, tuple(found), 0)
                (count,) = db.execute("SELECT COUNT(*) FROM entry").fetchone()
                return LedgerReport(True, (), int(count), chain.head(db))
        except LedgerError as error:
            return LedgerReport(False, (error.what,), 0)
