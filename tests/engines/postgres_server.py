"""A PostgreSQL server of its own in a temporary folder, reachable by a Unix socket only."""

from __future__ import annotations

import atexit
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tests.in_memory import in_memory


def binaries() -> Path | None:
    """Return the newest installed server's folder, or None."""
    found = sorted(
        glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda p: float(p.split("/")[4])
    )
    if found:
        return Path(found[-1]).parent
    own = shutil.which("initdb")
    return Path(own).parent if own and shutil.which("pg_ctl") else None


@contextmanager
def server(*, durable: bool = False) -> Iterator[str]:
    """Start a server and yield its connection string; root runs it as `postgres`.

    Args:
        durable: with fsync, as a ledger needs it.
    """
    # not below pytest's folder: a socket's path is at most 107 bytes, and that folder is private
    home = _own_folder("pg")
    data = str(home / "data")
    try:
        subprocess.run(["cp", "-a", str(_made()), data], check=True)
        options = f"-c listen_addresses='' -c unix_socket_directories={home} -c fsync={'on' if durable else 'off'}"
        _call(home, "pg_ctl", "-D", data, "-o", options, "-w", "-l", str(home / "log"), "start")
        try:
            yield f"host={home} user=tester dbname=postgres"
        finally:
            if (home / "data" / "postmaster.pid").exists():
                stop(f"host={home}")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@cache
def _made() -> Path:
    """Return the data of a new cluster, made once in a process; every server gets a copy."""
    home = _own_folder("pgnew")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    words = ("-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync", "--locale=C")
    _call(home, "initdb", "-D", str(home / "data"), *words)
    return home / "data"


def _own_folder(prefix: str) -> Path:
    """Make a folder that belongs to whom the server runs as."""
    home = Path(tempfile.mkdtemp(prefix=prefix, dir=in_memory()))
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        os.chown(home, account.pw_uid, account.pw_gid)
    return home


def stop(dsn: str) -> None:
    """Stop a server of `server` as a power cut does."""
    home = _home(dsn)
    _call(home, "pg_ctl", "-D", str(home / "data"), "-m", "immediate", "-w", "stop")


def start(dsn: str) -> None:
    """Start it again, with the options it had."""
    home = _home(dsn)
    _call(home, "pg_ctl", "-D", str(home / "data"), "-w", "-l", str(home / "log"), "restart")


def _home(dsn: str) -> Path:
    return Path(dsn.split(maxsplit=1)[0].removeprefix("host="))


def _call(home: Path, program: str, *words: str) -> None:
    folder, who = binaries(), dict[str, Any]()
    assert folder is not None
    if os.geteuid() == 0:
        account = pwd.getpwnam("postgres")
        who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    subprocess.run(
        [str(folder / program), *words],
        check=True, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **who,
    )  # fmt: skip
