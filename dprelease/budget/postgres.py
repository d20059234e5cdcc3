"""The ledger on a PostgreSQL server, for several hosts: the same rows, chain and protocol.

Choices
    one writer   an advisory lock of the session is taken before the transaction begins, so its
        snapshot is newer than the last commit; SELECT ... FOR UPDATE would need the right to
        UPDATE, which the ledger's role must not have. The transaction is SERIALIZABLE as well:
        whoever writes without the lock makes one of the two fail.
    readers      REPEATABLE READ, READ ONLY: they see one moment and never make a writer fail.
    durable      synchronous_commit = on, and fsync and full_page_writes of the server, are read
        back on every connection; a server without them is refused.
    append-only  triggers abort UPDATE, DELETE and TRUNCATE, keep the chain in order and check the
        budget again. Grant a run's role USAGE on the schema and SELECT, INSERT on its tables and
        nothing else; whoever runs `dprelease ledger init` first owns them.
    one ledger per database, in the schema `dprelease_ledger`.

Limits   a connection pool between the two that moves sessions about (transaction pooling) breaks
         the lock: connect to the server itself. A server's owner can do what a file's owner can:
         the chain, the manifests and the head's second place show it.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dprelease.budget import refusals, storage
from dprelease.budget.connection import Connection, PostgresPlace
from dprelease.core.errors import DpreleaseError, LedgerError

if TYPE_CHECKING:
    import psycopg

_SCHEMA = "dprelease_ledger"
_LOCK = 0x6470726C
_TABLES = ("chain", "dataset", "budget", "entry", "payload", "file", "state", "version")

_AFTER_A_DEBIT = ("payload", "file", "state")

_FUNCTIONS = {
    "refuse_change": "BEGIN RAISE EXCEPTION 'append-only'; END",
    "chain_in_order": """BEGIN
        IF NEW.seq <> (SELECT COALESCE(MAX(seq), 0) + 1 FROM chain)
          OR NEW.prev_hash <> COALESCE(
               (SELECT hash FROM chain ORDER BY seq DESC LIMIT 1), NEW.prev_hash)
        THEN RAISE EXCEPTION 'chain order'; END IF; RETURN NEW; END""",
    "entry_in_budget": """BEGIN
        IF (SELECT SUM(nano_epsilon) FROM entry WHERE dataset = NEW.dataset)
           > (SELECT COALESCE(SUM(nano_epsilon), 0) FROM budget WHERE dataset = NEW.dataset)
          OR (SELECT SUM(atto_delta) FROM entry WHERE dataset = NEW.dataset)
           > (SELECT COALESCE(SUM(atto_delta), 0) FROM budget WHERE dataset = NEW.dataset)
        THEN RAISE EXCEPTION 'over budget'; END IF; RETURN NULL; END""",
}
_FUNCTIONS = {name: re.sub(r"\s+", " ", text) for name, text in _FUNCTIONS.items()}

# name -> (table, function, when)
_TRIGGERS = {
    f"{table}_no_change": (table, "refuse_change", "BEFORE UPDATE OR DELETE OR TRUNCATE ON")
    for table in _TABLES
} | {
    "chain_in_order": ("chain", "chain_in_order", "BEFORE INSERT ON"),
    "entry_in_budget": ("entry", "entry_in_budget", "AFTER INSERT ON"),
}

_SETTINGS = {"synchronous_commit": "on", "fsync": "on", "full_page_writes": "on"}


def _statements() -> Iterator[str]:
    """Yield what makes the schema: SQLite's tables in PostgreSQL's words, functions, triggers."""
    yield f"CREATE SCHEMA IF NOT EXISTS {_SCHEMA}"
    for name in _TABLES[:-1]:
        text = storage.DDL[name].removesuffix(" STRICT")
        text = re.sub(r"\bINTEGER\b", "BIGINT", text).replace(" BLOB ", " BYTEA ")
        yield text
    yield "CREATE TABLE version (number BIGINT PRIMARY KEY)"
    for name, body in _FUNCTIONS.items():
        yield f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$"
    for name, (table, function, when) in _TRIGGERS.items():
        each = "STATEMENT" if function == "refuse_change" else "ROW"
        yield f"CREATE TRIGGER {name} {when} {table} FOR EACH {each} EXECUTE FUNCTION {function}()"
    yield f"INSERT INTO version VALUES ({storage.SCHEMA_VERSION})"


class _Session:
    """A psycopg connection under SQLite's words."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self.raw = raw

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        values = tuple(parameters)
        if not values:
            return self.raw.execute(sql.encode())
        return self.raw.execute(sql.replace("%", "%%").replace("?", "%s").encode(), values)

    def executemany(self, sql: str, parameters: Any) -> None:
        for values in parameters:
            self.execute(sql, values)

    def schema_version(self) -> int:
        return int(self.execute("SELECT MAX(number) FROM version").fetchone()[0])

    def insert_version(self, version: int) -> None:
        self.execute("INSERT INTO version VALUES (?)", (version,))

    def closed_tables(self) -> list[str]:
        rows = self.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = ?::regnamespace"
            " AND relname = ANY (?) AND (NOT has_table_privilege(oid, 'INSERT') OR row_security_active(oid))"
            " ORDER BY relname",
            (_SCHEMA, list(_AFTER_A_DEBIT)),
        )
        return [name for (name,) in rows.fetchall()]

    def storage_problems(self) -> list[str]:
        """Return what is wrong with the tables' guards."""
        triggers = self.execute(
            "SELECT t.tgname, c.relname, p.proname FROM pg_trigger t"
            " JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid"
            " WHERE NOT t.tgisinternal AND t.tgenabled = 'O' AND c.relnamespace = ?::regnamespace",
            (_SCHEMA,),
        ).fetchall()
        functions = self.execute(
            "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = ?::regnamespace", (_SCHEMA,)
        ).fetchall()
        unchecked = self.execute(
            "SELECT 1 FROM pg_constraint WHERE connamespace = ?::regnamespace"
            " AND NOT convalidated LIMIT 1",
            (_SCHEMA,),
        ).fetchone()
        expected = {(name, table, function) for name, (table, function, _) in _TRIGGERS.items()}
        if set(triggers) != expected or dict(functions) != _FUNCTIONS or unchecked:
            return ["the tables or their append-only triggers were changed"]
        return []


def _driver() -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "a ledger on a PostgreSQL server needs the library `psycopg`",
            fix='pip install "dprelease[postgres]"',
            code="DPR424",
        ) from None
    return psycopg


def _open(place: PostgresPlace, *, lock: bool) -> psycopg.Connection[Any]:
    """Connect, set and read back; with `lock`, be the only writer until the connection closes."""
    raw: psycopg.Connection[Any] = _driver().connect(
        place.reveal_to_driver(), autocommit=True, connect_timeout=20
    )
    try:
        raw.execute(f"SET search_path = {_SCHEMA}, pg_temp")
        raw.execute("SET synchronous_commit = on")
        raw.execute("SET lock_timeout = '60s'")
        for name, wanted in _SETTINGS.items():
            row = raw.execute(f"SHOW {name}".encode()).fetchone()
            if row is None or row[0] != wanted:
                raise LedgerError(
                    "the ledger's server did not take a setting it needs",
                    where=str(place),
                    why=f"{name} did not read back as {wanted}: a committed debit could be lost",
                    fix=f"set {name} = {wanted} on the server",
                    code="DPR409",
                )
        if lock:
            raw.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
    except BaseException:
        raw.close()
        raise
    return raw


@contextmanager
def transaction(
    place: PostgresPlace, *, write: bool, debited: bool = False
) -> Iterator[Connection]:
    """As `storage.transaction`, on the server.

    Raises:
        LedgerError, WithheldError, InternalError: as there; or the driver is missing (DPR424).
    """
    driver = _driver()
    errors = driver.Error
    raw: psycopg.Connection[Any] | None = None
    committing = False
    failure: DpreleaseError | None = None
    try:
        raw = _open(place, lock=write)
        raw.execute(
            "BEGIN ISOLATION LEVEL SERIALIZABLE"
            if write
            else "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
        )
        yield _Session(raw)
        committing = write
        raw.execute("COMMIT")
    except errors as error:
        # The state's code only: a message may quote what was stored, or where.
        if _is_away(driver, error) and not committing and not debited:
            failure = refusals.unreachable(place, _reported(error))
        else:
            failure = storage.storage_error(
                place, _reported(error), committing=committing, debited=debited
            )
    finally:
        if raw is not None:
            with contextlib.suppress(errors):
                raw.close()  # rolls back, and gives the lock back
    if failure is not None:
        raise failure from None


def place_new(
    place: PostgresPlace, first: Callable[[Connection], object], *, allowed: bool
) -> bool:
    """Make the ledger on the server unless there is one; return whether the place holds one.

    Raises:
        LedgerError: the server does not answer (DPR425) or refuses (DPR402, DPR409).
    """
    driver = _driver()
    try:
        with contextlib.closing(_open(place, lock=True)) as raw:
            if raw.execute("SELECT to_regclass(%s)", (f"{_SCHEMA}.chain",)).fetchone() != (None,):
                return True
            if not allowed:
                return False
            raw.execute("BEGIN")
            for statement in _statements():
                raw.execute(statement.encode())
            first(_Session(raw))
            raw.execute("COMMIT")
            return True
    except driver.Error as error:
        failure = LedgerError(
            "the ledger cannot be created",
            where=str(place),
            why=_reported(error),
            fix="check the server, and that this role may create a schema; later runs need only"
            " SELECT and INSERT",
            code="DPR402",
        )
        if _is_away(driver, error):
            failure = refusals.unreachable(place, _reported(error))
    raise failure


def exists(place: PostgresPlace) -> bool:
    """Return whether the place holds a ledger; a reader, which waits for no writer.

    Raises:
        LedgerError: the server does not answer (DPR425) or refuses (DPR402, DPR409).
    """
    with transaction(place, write=False) as db:
        return bool(
            db.execute("SELECT to_regclass(?)", (f"{_SCHEMA}.chain",)).fetchone() != (None,)
        )


def identity(place: PostgresPlace) -> tuple[object, ...]:
    """Return what two names of one database share, and no two databases do.

    Raises:
        LedgerError: the server does not answer (DPR425) or refuses (DPR402, DPR409).
    """
    with transaction(place, write=False) as db:
        found = db.execute("SELECT pg_postmaster_start_time(), current_database()").fetchone()
        return tuple(found)


def _reported(error: Exception) -> str:
    return f"the server reported {getattr(error, 'sqlstate', None) or type(error).__name__}"


def _is_away(driver: Any, error: Exception) -> bool:
    """Return whether the connection failed or was lost: no state at all, class 08 or 57P."""
    state = getattr(error, "sqlstate", None)
    return isinstance(error, driver.OperationalError) and (
        state is None or state.startswith(("08", "57P"))
    )
