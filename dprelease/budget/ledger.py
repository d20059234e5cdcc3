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
from contextlib import contextmanager
from pathlib import Path

from dprelease.budget import (
    backend,
    chain,
    cited,
    declarations,
    moving,
    period_cap,
    refusals,
    rho_filter,
    steps,
)
from dprelease.budget.accountant import Cost
from dprelease.budget.approval import Approval, ApprovalRequest
from dprelease.budget.backend import named_place
from dprelease.budget.citation import read_citations
from dprelease.budget.connection import Connection, Place
from dprelease.budget.population import Population
from dprelease.budget.readable import ReadableLedger
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
from dprelease.budget.timeline import timeline
from dprelease.core.numeric import counted, plain

__all__ = ["Anchor", "Budget", "Entry", "EntryRow", "Key", "Ledger", "LedgerReport", "Receipt"]


class Ledger(ReadableLedger):
    """One ledger, written only by what the protocol says. It holds no connection, so it is safe across forks."""

    __slots__ = ()

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
        population: Population | None = None,
        public_size: bool = False,
    ) -> Ledger:
        """Create the ledger if needed and the dataset's budget in it; a no-op if both exist.

        Args:
            epsilon, delta: the dataset's whole budget (rounded down to 1e-9 and 1e-18).
            unit: JSON; limits named `max_*` are not compared (see `protected_unit`).
            anchors: public folders whose manifests this ledger must account for.
            composition: "basic" (epsilons and deltas add up) or "zcdp" (`rho_filter`). Fixed at creation.
            per_period: epsilon that one period may cost over all pipelines (`period_cap`).
            time: JSON of the time that losses are added up by (`schema.table.declared_time`).
            population: whose members the units are, with the budget that they share; public_size: of the schema.

        Raises:
            LedgerError: the dataset has another budget, adjacency, unit, time or cap here (DPR414,
                DPR411, DPR418) or population (DPR429, DPR430); a manifest of the dataset names another, or an older, ledger (DPR404, DPR405);
                or as `open`.
            ConfigError, ArgumentError: a malformed name, number, unit or composition (DPR150, DPR644, DPR65x).
        """
        check_identifier(dataset, "dataset")
        unit, time = declaration_text(adjacency, unit), time_text(time)
        budget = Cost.stated(epsilon, delta)
        rho_filter.check_composition(composition, budget)
        cap = None if per_period is None else Cost.stated(per_period, 0)
        if cap is not None:
            period_cap.must_count(timeline(adjacency, unit, time), dataset)
        # Manifests first, ledger second: what is published by now is committed by then.
        citations = [c for c in read_citations(anchors) if c.entry.key.dataset == dataset]
        ledger = cls(named_place(path))
        backend.make(ledger.path, _name, allowed=not citations)
        ledger._check()
        with ledger._write() as db:
            declared = declarations.declaration(db, dataset)
            if declared is None:
                if citations:
                    raise refusals.foreign(ledger.path, citations[-1].entry.key)
                declarations.insert_dataset(db, dataset, budget, adjacency, unit, composition, time)
                if cap is not None:
                    declarations.insert_cap(db, dataset, cap)
            elif declared != (adjacency, protected_unit(unit), time):
                raise refusals.other_declaration(ledger.path, dataset)
            else:
                declarations.must_be_same_budget(db, dataset, budget, cap, composition, ledger.path)
                cited.must_account(db, citations, ledger.path)
            declarations.join(db, dataset, population, ledger.path, public_size=public_size)
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
            cited.must_account(db, citations, ledger.path)
        return ledger

    @contextmanager
    def _write(self, *, debited: bool = False) -> Iterator[Connection]:
        with backend.transaction(self.path, write=True, debited=debited) as db:
            moving.must_be_here(db, self.path)
            yield db

    # -- budgets ---------------------------------------------------------------------------

    def add_budget(self, dataset: str, epsilon: object, delta: object = 0) -> Budget:
        """Raise a dataset's budget *by* epsilon (and delta), on the record.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or as `charge`.
            ArgumentError: epsilon is not positive (DPR606, DPR650).
        """
        more = Cost.stated(epsilon, delta)
        with self._write() as db:
            declarations.declared(db, dataset, self.path)
            raised = declarations.total(db, dataset) + more
            Cost.budget(raised.epsilon, raised.delta)  # the sum, too, must fit 64-bit integers
            declarations.insert_budget(db, dataset, more)
        return self.budget(dataset)

    def add_population(self, name: str, epsilon: object, delta: object = 0) -> Budget:
        """Raise a population's budget *by* epsilon (and delta), on the record.

        Raises:
            LedgerError: there is no such population here (DPR431), or as `charge`.
            ArgumentError: epsilon is not positive (DPR606, DPR650).
        """
        more = Cost.stated(epsilon, delta)
        with self._write() as db:
            return declarations.raise_population(db, name, more, self.path)

    def cap_period(self, dataset: str, epsilon: object) -> None:
        """Let one period of the dataset cost at most `epsilon` from now on, on the record.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or as `charge`.
            ArgumentError: epsilon is not positive (DPR606, DPR650), or the budget caps every interval
                by itself (DPR655).
        """
        cap = Cost.stated(epsilon, 0)
        with self._write() as db:
            declarations.declared(db, dataset, self.path)
            period_cap.must_count(declarations.timeline_of(db, dataset), dataset)
            declarations.insert_cap(db, dataset, cap)

    def approve(self, approval: Approval, signer: Signer | None = None) -> int:
        """Record that a request is approved; return the event's number.

        Raises:
            LedgerError: the dataset has no budget here (DPR407), or its approvals are signed by another
                key (DPR428), or as `charge`.
        """
        with self._write() as db:
            declarations.declared(db, approval.dataset, self.path)
            return steps.approve(db, self.path, approval, signer)

    # -- the protocol ----------------------------------------------------------------------

    def charge(
        self, entry: Entry, *, again: bool = False, wanted: ApprovalRequest | None = None
    ) -> Receipt:
        """T1: debit `entry` durably, once per key.

        Args:
            again: pay once more for a key that is debited but has no payload: the run that paid
                may have drawn before it ended. For operators who do not trust that a crash is
                independent of the values drawn; runs of one key at one time may pay twice too.
            wanted: what an approval is held against, where one is needed.

        Raises:
            BudgetError: it does not fit what is left (DPR301 epsilon, DPR302 delta, DPR303 rho,
                DPR305 the period's cap), or its population's (DPR309, DPR310), or is not approved (DPR306 to DPR308).
            LedgerError: the key exists with another plan (DPR410), the dataset has another
                adjacency or unit (DPR411) or no budget here (DPR407), or the storage failed
                (DPR402).
            InternalError: the commit failed; the debit may be recorded (DPR900).
        """
        with self._write() as db:
            return steps.charge(db, self.path, entry, again=again, wanted=wanted)

    def draw_once(self, key: Key, draw: Callable[[], bytes], *, width: int | None) -> bytes:
        """T2: return the key's payload, drawing it inside the write transaction if there is none.

        Args:
            draw: reads the random bits and returns the payload; called at most once per key,
                unless the process dies in between. It must not use this ledger.
            width: the payload's length in bytes, known before the draw; None only where the
                caller's encoding has a fixed width by construction.

        Raises:
            LedgerError: the key has no debit (DPR412), or was published from another copy of
                this ledger (DPR416).
            WithheldError: the entry has failed before (DPR710), the draw raised or gave the
                wrong width, which is terminal (DPR711), or the storage failed (DPR712).
        """
        with self._write(debited=True) as db:
            data = steps.draw(db, self.path, key, draw, width)
        if data is None:
            raise refusals.failed_draw(self.path, key)
        return data

    def commit_files(self, key: Key, files: Mapping[str, bytes]) -> None:
        """T3: commit the bytes of all files; the first writer wins, a repeat must be identical.

        Raises:
            LedgerError: the key has no debit or no draw (DPR412), or other bytes are
                committed already (DPR413).
            WithheldError: the entry has failed (DPR710) or the storage failed (DPR712).
        """
        contents = {name: bytes(data) for name, data in sorted(files.items())}
        with self._write(debited=True) as db:
            steps.commit_files(db, self.path, key, contents)

    def mark_published(self, key: Key) -> None:
        """Record that the committed files are in place; idempotent.

        Raises:
            LedgerError: no files are committed for the key (DPR412).
            WithheldError: the entry has failed (DPR710) or the storage failed (DPR712).
        """
        with self._write(debited=True) as db:
            steps.publish(db, self.path, key)

    def fail(self, key: Key, code: str) -> None:
        """Withhold the key for good: the budget stays spent and it is never drawn again.

        Only before its files are committed: they are built after validation, and another process
        may be publishing them.

        Raises:
            LedgerError: the key has no debit, or its files are committed (DPR412).
            WithheldError: the storage failed (DPR712).
        """
        check_identifier(code, "error code")
        with self._write(debited=True) as db:
            steps.fail(db, self.path, key, code)

    def reconcile(self, manifests: Iterable[Path]) -> int:
        """Debit everything that manifests cite and this ledger lacks; return how many.

        After a restore from a backup. A release that is debited here but whose bytes are not is
        marked published, so that it is never drawn again. A dataset joins the population that its releases
        state, if it had joined after the backup. All or nothing.

        Args:
            manifests: public folders or `release.json` files.

        Raises:
            BudgetError: they do not fit the budget (DPR301, DPR302): raise it first, on record.
            LedgerError: a key is here with another plan (DPR410), a dataset has no budget here
                (DPR407) or another unit (DPR411), or a manifest does not parse (DPR406), or states a
                population that is not known here (DPR429).
        """
        citations = read_citations(manifests)
        with self._write() as db:
            missing = [
                citation
                for citation in citations
                if cited.relevant(db, citation) and not cited.accounted(db, citation)
            ]
            for citation in missing:
                cited.adopt(db, citation, self.path)
        return len(missing)

    def unknown_losses(self, manifests: Iterable[Path]) -> list[str]:
        """Return what releases state that a member has lost and this ledger does not know: of each population the newest."""
        citations, populations, out = read_citations(manifests), self.populations(), {}
        for citation in citations:
            said, key = citation.member, citation.entry.key
            now = populations.loss(key.dataset)
            if said is not None and now is not None and not populations.knows(key.dataset, said):
                out[said.population] = (
                    f"{key} states that {said.member} has lost epsilon {plain(said.spent)}, delta {plain(said.delta)}, by"
                    f" {counted(said.tables, 'table')}; this ledger knows of epsilon {plain(now.spent)}, delta {plain(now.delta)}, by {now.tables}:"
                    " release nothing before the folders of its other datasets are reconciled, too; a debit that was never published is lost"
                )
        return list(out.values())


def _name(db: Connection) -> int:
    return chain.append(db, "ledger", {"ledger_id": secrets.token_hex(16)})
