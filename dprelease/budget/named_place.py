"""What a caller calls a ledger: a file's path, or a PostgreSQL server by reference.

One naming everywhere: `budget: {ledger: …}` of a pipeline, `--ledger` of a command, `ledger=` of a function.
A connection string itself is refused: it would stand in shell histories, logs and messages.
"""

from __future__ import annotations

import re
from pathlib import Path

from dprelease.budget import location
from dprelease.budget.connection import Place, PostgresPlace
from dprelease.core.errors import ConfigError, SourceError
from dprelease.core.given import given_path
from dprelease.core.secret_text import parse_reference, read_secret

# A path has lost one of the two slashes.
_STRING = re.compile(
    r"postgres(ql)?:/|(host|hostaddr|port|dbname|user|service)\s*=|.*\bpassword\s*=", re.IGNORECASE
)


def named_place(name: Place | str) -> Place:
    """Return the place that a name means; `${file:PATH}` is relative to the working folder.

    Raises:
        ConfigError: a faulty reference, or a connection string (DPR142).
        ArgumentError: it is no path (DPR642).
    """
    if isinstance(name, PostgresPlace):
        return name
    path = given_path(name, "a ledger", "ledger.db")
    text = str(name)
    if not text.startswith("${") and not _STRING.match(text):
        return location.absolute(path)
    found = parse_reference(text)
    if found is None:
        raise ConfigError(
            "a ledger on a server is named by reference only",
            where="the name of the ledger",
            why="a connection string would stand in shell histories and logs",
            fix="put it into a variable or a file, and write ${env:NAME} or ${file:PATH}",
            code="DPR142",
        )
    kind, target = found
    where = str(Path(target).resolve()) if kind == "file" else target

    def reveal() -> str:
        secret = read_secret(kind, where)
        if not secret:
            raise SourceError(
                "the connection string of the ledger is not available",
                where=text,
                why="the environment variable or file it refers to is missing or empty",
                fix="set it, then run again",
                code="DPR520",
            )
        return secret

    return PostgresPlace(f"PostgreSQL {text}", reveal)
