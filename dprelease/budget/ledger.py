"""The durable budget: debit before draw, one draw per key, bytes before publication.

Promises (each has a test and a broken twin)
    a debit is committed and fsynced before the first random bit is read; after any crash the sum
    of debits is within the budget; a key (dataset, pipeline, period) is debited once and drawn
    once, and a repeat returns the same bytes for nothing; all files are committed before one is
    published; a missing, corrupt, older or foreign ledger ends the run; an edit, deletion,
    reordering or rollback is found by `verify`, given one later manifest.

Protocol (`steps`, one write transaction each)
    charge        T1  the debit, once per key
    draw_once     T2  the payload, drawn inside the transaction
    commit_files  T3  the files; then they are published

Who may read the file. It is for its operator and an auditor: plans, costs, released numbers, and
one secret per dataset, the salt that picks a unit's rows when contributions are bounded. The salt
appears in no listing, message, manifest or hash except as its SHA-256.

Limits   two ledgers for the same data; an operator who reads the data; disks that lie; timing.
         Files at 0600; a folder made for the ledger at 0700, one that existed is left as it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from pathlib import Path

from dprelease.budget import (
    approving,
    backend,
    chain,
    moving,
    period_cap,
    refusals,
    rho_filter,
    rows,
    steps,
)
from dprelease.budget.accountant import Cost
from dprelease.budget.approval import Approval, Approved, Asked, approvals, must_cover
from dprelease.budget.citation import read_citations
from dprelease.budget.connection import Connection, Place
from dprelease.budget.named_place import named_place
from dprelease.budget.parallel import Stretch, stretches
from dprelease.budget.record import (
    Anchor,
    Budget,
    Entry,
    EntryRow,
    Key,
    LedgerReport,
    Receipt,
    check_identifier,
    declaration_text,
    protected_unit,
    time_text,
)
from dprelease.budget.signature import Signer
from dprelease.budget.standing import spent_by, standing
from dprelease.budget.timeline import ALWAYS, Reach, Timeline, timeline
from dprelease.errors import LedgerError
from dprelease.numeric import positive

__all__ = ["Anchor", "Budget", "Entry", "EntryRow", "Key", "Ledger", "LedgerReport", "Receipt"]


class Ledger:
    """One ledger: a file, or on a server. Safe across processes, threads and forks: it holds no connection."""

    __slots__ = ("path",)

    def __init__(self, path: Place) -> None:
        """Name a ledger without looking at it; use `open` or `create`."""
        self.path = path

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    # -- opening ---------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        path: Place | str,
        *,
        dataset: str,
        epsilon: object,
        delta: object = 0,
        adjacency: str,
        unit: str,
        anchors: Iterable[Path] = (),
        composition: str = "basic",
        per_period: object = None,
        time: str | None = None,
    ) -> Ledger:
        """Create the ledger if needed and the dataset's budget in it; a no-op if both exist.

        Args:
            epsilon, delta: the dataset's whole budget (rounded down to 1e-9 and 1e-18).
            unit: JSON; limits named `max_*` are not compared (see `protected_unit`).
            anchors: public folders whose manifests this ledger must account for.
            composition: "basic" (epsilons and deltas add up) or "zcdp" (rho adds up, up to what
                the declared epsilon and delta are worth; see `rho_filter`). Fixed at creation.
            per_period: epsilon that one period may cost over all pipelines (`period_cap`).
            time: JSON of the time that losses are added up by (`schema.time.declared_time`).

        Raises:
            LedgerError: the dataset has another budget, adjacency, unit, time or cap here (DPR414,
                DPR411, DPR418); a manifest of the dataset names another, or an older, ledger (DPR404, DPR405);
                or as `open`.
            ConfigError, ArgumentError: a malformed name, number, unit or composition (DPR150,
                DPR650, DPR651, DPR653, DPR654).
        """
        check_identifier(dataset, "dataset")
        unit, time = declaration_text(adjacency, unit), time_text(time)
        budget = _budget(epsilon, delta)
        rho_filter.check_composition(composition, budget)
        cap = None if per_period is None else _budget(per_period, 0)
        if cap is not None:
            period_cap.must_count(timeline(adjacency, unit, time), dataset)
        # Manifests first, ledger second: what is published by now is committed by then.
        citations = [c for c in read_citations(anchors) if c.entry.key.dataset == dataset]
        ledger = cls(named_place(path))
        backend.make(ledger.path, _name, allowed=not citations)
        ledger._check()
        with ledger._write() as db:
            declared = rows.declaration(db, dataset)
            if declared is None:
                if citations:
                    raise refusals.foreign(ledger.path, citations[-1].entry.key)
                rows.insert_dataset(db, dataset, budget, adjacency, unit, composition, time)
                if cap is not None:
                    rows.insert_cap(db, dataset, cap)
                return ledger
            if declared != (adjacency, protected_unit(unit), time):
                raise refusals.other_declaration(ledger.path, dataset)
            rows.must_be_same_budget(db, dataset, budget, cap, composition, ledger.path)
            rows.must_account(db, citations, ledger.path)
        return ledger

    @classmethod
    def open(cls, path: Place | str, *, public: Path | None = None) -> Ledger:
        """Open an existing ledger, checked in full; never create one.

        Args:
            public: the public folder; the ledger must account for every manifest in it.

        Raises:
            LedgerError: missing (DPR401), unreadable (DPR402), corrupt or not a ledger (DPR403),
                older than a manifest (DPR404), foreign (DPR405), a manifest that does not parse
                (DPR406), on a network file system (DPR408), or a setting not taken (DPR409); with
                `public`, moved (DPR427).
        """
        ledger = cls(named_place(path))
        # Manifests first, ledger second: what is published by now is committed by then.
        citations = read_citations([public]) if public is not None else []
        ledger._check()
        with ledger._read() as db:
            if public is not None:
                moving.must_be_here(db, ledger.path)
            rows.must_account(db, citations, ledger.path)
        return ledger

    def _check(self) -> None:
        backend.must_stand(self.path)
        with self._read() as db:
            found = chain.problems(db, deep=False)
        if found:
            raise refusals.corrupt(self.path, "; ".join(found))

    def _read(self) -> AbstractContextManager[Connection]:
        return backend.transaction(self.path, write=False, charged=False)

    @contextmanager
    def _write(self, *, charged: bool = False) -> Iterator[Connection]:
        with backend.transaction(self.path, write=True, charged=charged) as db:
            moving.must_be_here(db, self.path)
            yield db

    # -- budgets ---------------------------------------------------------------------------

    def add_budget(self, dataset: str, epsilon: object, delta: object = 0) -> Budget:
        """Raise a dataset's budget *by* epsilon (and delta), on the record.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or as `charge`.
            ArgumentError: epsilon is not positive (DPR606, DPR650).
        """
        more = _budget(epsilon, delta)
        with self._write() as db:
            rows.declared(db, dataset, self.path)
            raised = rows.total(db, dataset) + more
            Cost.budget(raised.epsilon, raised.delta)  # the sum, too, must fit 64-bit integers
            rows.insert_budget(db, dataset, more)
        return self.budget(dataset)

    def cap_period(self, dataset: str, epsilon: object) -> None:
        """Let one period of the dataset cost at most `epsilon` from now on, on the record.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or as `charge`.
            ArgumentError: epsilon is not positive (DPR606, DPR650), or the budget caps every interval
                by itself (DPR655).
        """
        cap = _budget(epsilon, 0)
        with self._write() as db:
            rows.declared(db, dataset, self.path)
            period_cap.must_count(rows.timeline_of(db, dataset), dataset)
            rows.insert_cap(db, dataset, cap)

    def approve(self, approval: Approval, signer: Signer | None = None) -> int:
        """Record that a request is approved; return the event's number.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or its approvals are signed by another
                key (DPR428), or as `charge`.
        """
        with self._write() as db:
            rows.declared(db, approval.dataset, self.path)
            return approving.record(db, self.path, approval, signer)

    def approvals(self, dataset: str | None = None) -> list[Approved]:
        """Return all approvals in order, or those of one dataset."""
        with self._read() as db:
            return approvals(db, dataset)

    def must_be_approved(self, entry: Entry, asked: Asked | None) -> None:
        """Refuse before the charge what the charge would refuse for want of an approval.

        Raises:
            BudgetError, LedgerError: as `approval.must_cover`.
        """
        with self._read() as db:
            if rows.find(db, entry.key) is None:
                must_cover(db, entry, asked, entry.key.period, self.path)

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

    def budget(self, dataset: str, window: Reach = ALWAYS) -> Budget:
        """Return what the dataset may spend, has spent and has left.

        Args:
            window: of the rows that a release would read; its units alone are looked at.

        Raises:
            LedgerError: the dataset has no budget here (DPR407).
        """
        with self._read() as db:
            rows.declared(db, dataset, self.path)
            return standing(db, dataset, window)

    def timeline(self, dataset: str) -> Timeline:
        """Return how the dataset's losses lie in time."""
        with self._read() as db:
            return rows.timeline_of(db, dataset)

    def stretches(self, dataset: str) -> list[Stretch]:
        """Return what the dataset's debits cost the units of each stretch of time, in order."""
        with self._read() as db:
            return stretches(rows.charges(db, dataset))

    def composition(self, dataset: str) -> str:
        """Return how the dataset's budget adds up: "basic" (also if it has none here) or "zcdp"."""
        with self._read() as db:
            return "basic" if rho_filter.rho_budget(db, dataset) is None else "zcdp"

    def spent_at(self, dataset: str, seq: int, delta: Fraction | None = None) -> Fraction:
        """Return the epsilon that the dataset's debits up to `seq` have cost together.

        Args:
            delta: of a dataset that adds up by zCDP; its present one by default.
        """
        kept = [r.entry for r in self.entries(dataset) if r.anchor.seq <= seq]
        with self._read() as db:
            return spent_by(db, dataset, kept, delta)

    def salt(self, dataset: str) -> bytes:
        """Return the dataset's 32 secret bytes for contribution bounding; never publish them.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or the salt was changed (DPR403).
        """
        with self._read() as db:
            rows.declared(db, dataset, self.path)
            return rows.stored_salt(db, dataset, self.path)

    # -- the protocol ----------------------------------------------------------------------

    def charge(self, entry: Entry, *, again: bool = False, asked: Asked | None = None) -> Receipt:
        """T1: debit `entry` durably, once per key.

        Args:
            again: pay once more for a key that is debited but has no payload: the run that paid
                may have drawn before it ended. For operators who do not trust that a crash is
                independent of the values drawn; runs of one key at one time may pay twice too.
            asked: what an approval is held against, where one is needed.

        Raises:
            BudgetError: it does not fit what is left (DPR301 epsilon, DPR302 delta, DPR303 rho,
                DPR305 the period's cap), or is not approved (DPR306 to DPR308).
            LedgerError: the key exists with another plan (DPR410), the dataset has another
                adjacency or unit (DPR411) or no budget here (DPR407), or the storage failed
                (DPR402).
            InternalError: the commit failed; the debit may be recorded (DPR900).
        """
        with self._write() as db:
            return steps.charge(db, self.path, entry, again=again, asked=asked)

    def draw_once(self, key: Key, draw: Callable[[], bytes], *, width: int | None) -> bytes:
        """T2: return the key's payload, drawing it inside the write transaction if there is none.

        Args:
            draw: reads the random bits and returns the payload; called at most once per key,
                unless the process dies in between. It must not use this ledger.
            width: the payload's length in bytes, known before the draw; None only where the
                caller's encoding has a fixed width by construction.

        Raises:
            LedgerError: the key is not charged (DPR412), or was published from another copy of
                this ledger (DPR416).
            WithheldError: the entry has failed before (DPR710), the draw raised or gave the
                wrong width, which is terminal (DPR711), or the storage failed (DPR712).
        """
        with self._write(charged=True) as db:
            data = steps.draw(db, self.path, key, draw, width)
        if data is None:
            raise refusals.failed_draw(self.path, key)
        return data

    def commit_files(self, key: Key, files: Mapping[str, bytes]) -> None:
        """T3: commit the bytes of all files; the first writer wins, a repeat must be identical.

        Raises:
            LedgerError: nothing is charged or drawn for the key (DPR412), or other bytes are
                committed already (DPR413).
            WithheldError: the entry has failed (DPR710) or the storage failed (DPR712).
        """
        given = {name: bytes(data) for name, data in sorted(files.items())}
        with self._write(charged=True) as db:
            steps.commit_files(db, self.path, key, given)

    def mark_published(self, key: Key) -> None:
        """Record that the committed files are in place; idempotent.

        Raises:
            LedgerError: no files are committed for the key (DPR412).
            WithheldError: the entry has failed (DPR710) or the storage failed (DPR712).
        """
        with self._write(charged=True) as db:
            steps.publish(db, self.path, key)

    def fail(self, key: Key, code: str) -> None:
        """Withhold the key for good: the budget stays spent and it is never drawn again.

        Only before its files are committed: they are built after validation, and another process
        may be publishing them.

        Raises:
            LedgerError: the key is not charged, or its files are committed (DPR412).
            WithheldError: the storage failed (DPR712).
        """
        check_identifier(code, "error code")
        with self._write(charged=True) as db:
            steps.fail(db, self.path, key, code)

    # -- looking ---------------------------------------------------------------------------

    def payload(self, key: Key) -> bytes | None:
        """Return the drawn bytes, checked against the chain, or None.

        Raises:
            LedgerError: the key is not charged (DPR412), or the bytes were changed (DPR403).
        """
        with self._read() as db:
            return rows.stored_payload(db, rows.charged(db, key, self.path), self.path)

    def files(self, key: Key) -> dict[str, bytes] | None:
        """Return the committed files by name, checked against the chain, or None.

        Raises:
            LedgerError: the key is not charged (DPR412), or the bytes were changed (DPR403).
        """
        with self._read() as db:
            return rows.stored_files(db, rows.charged(db, key, self.path), self.path) or None

    def state(self, key: Key) -> str:
        """Return charged, drawn, ready, published or failed.

        Raises:
            LedgerError: the key is not charged (DPR412).
        """
        with self._read() as db:
            return rows.state(db, rows.charged(db, key, self.path))[0]

    def has(self, key: Key) -> bool:
        """Return whether the key is debited."""
        with self._read() as db:
            return rows.find(db, key) is not None

    def entries(self, dataset: str | None = None) -> list[EntryRow]:
        """Return all debits in order, or those of one dataset."""
        where, values = ("WHERE dataset = ? ", (dataset,)) if dataset else ("", ())
        with self._read() as db:
            numbers = db.execute(f"SELECT seq FROM entry {where}ORDER BY seq", values).fetchall()
            return [rows.entry_row(db, int(seq)) for (seq,) in numbers]

    def head(self) -> Anchor:
        """Return the chain's head, for an export or a second location."""
        with self._read() as db:
            return chain.head(db)

    def anchor_ok(self, anchor: Anchor) -> bool:
        """Return whether this ledger's chain has `anchor`, or `reconcile` recorded it."""
        with self._read() as db:
            row = db.execute("SELECT hash FROM chain WHERE seq = ?", (anchor.seq,)).fetchone()
            own = row == (anchor.head_hash,) and anchor.ledger_id == chain.ledger_id(db)
            return own or anchor in rows.origins(db)

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

    def reconcile(self, manifests: Iterable[Path]) -> int:
        """Debit everything that manifests cite and this ledger lacks; return how many.

        After a restore from a backup. A release that is debited here but whose bytes are not is
        marked published, so that it is never drawn again. All or nothing.

        Args:
            manifests: public folders or `release.json` files.

        Raises:
            BudgetError: they do not fit the budget (DPR301, DPR302): raise it first, on record.
            LedgerError: a key is here with another plan (DPR410), a dataset has no budget here
                (DPR407) or another unit (DPR411), or a manifest does not parse (DPR406).
        """
        citations = read_citations(manifests)
        with self._write() as db:
            missing = [
                citation
                for citation in citations
                if rows.relevant(db, citation) and not rows.accounted(db, citation)
            ]
            for citation in missing:
                rows.adopt(db, citation, self.path)
        return len(missing)


def _budget(epsilon: object, delta: object) -> Cost:
    return Cost.budget(positive(epsilon, "epsilon"), positive(delta, "delta", allow_zero=True))


def _name(db: Connection) -> int:
    return chain.append(db, "ledger", {"ledger_id": secrets.token_hex(16)})
