"""Where a ledger on a PostgreSQL server is, by reference: shown without its secret."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PostgresPlace:
    """A ledger in the schema `dprelease_ledger` of a database.

    Attributes:
        name: how it is shown, never the connection string.
    """

    name: str
    _dsn: Callable[[], str] = field(repr=False)

    def reveal_to_driver(self) -> str:
        """Return the connection string, for opening a connection only."""
        return self._dsn()

    def __str__(self) -> str:
        return self.name
