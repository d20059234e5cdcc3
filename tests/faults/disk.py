"""A disk that forgets what was not synced: replay of a traced write and fsync sequence.

Model    A file is what its last fsync made durable plus the writes since; a folder is the entries
         its last fsync made durable plus the changes since. At a power cut each unsynced write is
         kept, dropped or torn at 512 bytes, and of each folder's changes any first part is kept.
         That is weaker than what ext4 or XFS give (an fsync of a new file keeps its name there),
         so it holds for them too. A rename is one change: it is kept or not.
Input    `strace -f -y -xx`. A call that another thread interrupts takes effect when it returns.
         Files named `*-shm` are left out: SQLite makes the shared memory anew.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["CALLS", "Disk", "Event", "read_trace"]

CALLS = (
    "openat,open,creat,write,pwrite64,fsync,fdatasync,ftruncate,rename,renameat,renameat2,link,"
    "linkat,unlink,unlinkat,mkdir,mkdirat,symlink,symlinkat,rmdir"
)
SECTOR = 512

_LINE = re.compile(r"(?:\d+ +)?(\w+)\((.*)\) = (\d+)(?:<.*>)?$")
_BEGUN = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_PLACE = re.compile(r"(?:AT_FDCWD|\d+)<((?:\\x[0-9a-f]{2}|[^>\\])*)>")


@dataclass(frozen=True, slots=True)
class Event:
    """One successful call: its name, paths made absolute, data and numbers."""

    call: str
    paths: tuple[str, ...]
    data: bytes = b""
    number: int = 0
    creates: bool = False
    truncates: bool = False


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", "")) if "\\x" in text else text.encode()


def _joined(folder: str, name: str) -> str:
    return name if name.startswith("/") else f"{folder}/{name}"


def read_trace(path: Path) -> Iterator[Event]:
    """Yield the successful calls of a trace in the order in which they returned."""
    begun: dict[str, str] = {}  # thread -> the first part of its call
    for written in path.read_text(encoding="latin-1").splitlines():
        thread, _, rest = written.partition(" ")
        if rest.endswith(_BEGUN):
            begun[thread] = rest.removesuffix(_BEGUN)
            continue
        resumed = _RESUMED.match(rest.lstrip())
        line = written if resumed is None else begun.pop(thread) + resumed[1]
        found = _LINE.match(line.lstrip())
        if found is None:
            continue
        call, arguments, result = found[1], found[2], int(found[3])
        texts = [_bytes(t) for t in _TEXT.findall(arguments)]
        places = [_bytes(p).decode() for p in _PLACE.findall(arguments)]
        if call in {"write", "pwrite64"}:
            offset = int(arguments.rsplit(", ", 1)[1]) if call == "pwrite64" else -1
            yield Event(call, (places[0],), texts[0][:result], offset)
        elif call in {"fsync", "fdatasync"}:
            yield Event("fsync", (places[0],))
        elif call == "ftruncate":
            yield Event(call, (places[0],), number=int(arguments.rsplit(", ", 1)[1]))
        elif call in {"symlink", "symlinkat"}:
            folder = places[0] if places else ""
            yield Event("symlink", (_joined(folder, texts[1].decode()),), texts[0])
        else:
            names = [t.decode() for t in texts]
            if places and len(places) == len(names):
                names = [_joined(p, n) for p, n in zip(places, names, strict=True)]
            elif places:
                names = [_joined(places[0], n) for n in names]
            kind = {"openat": "open", "renameat": "rename", "renameat2": "rename"}.get(call, call)
            kind = kind.removesuffix("at") if kind in {"linkat", "unlinkat", "mkdirat"} else kind
            creates, truncates = "O_CREAT" in arguments, "O_TRUNC" in arguments
            yield Event(kind, tuple(names), creates=creates, truncates=truncates)


@dataclass(slots=True, eq=False)
class _File:
    durable: bytes = b""
    writes: list[tuple[int, bytes | None]] = field(default_factory=list)  # None: truncate
    length: int = 0
    link: bytes | None = None

    def content(self, keep: list[int]) -> bytes:
        """Return the durable bytes with the first `keep[i]` bytes of write i applied."""
        data = bytearray(self.durable)
        for (offset, new), kept in zip(self.writes, keep, strict=True):
            if new is None:
                if kept:
                    data = data[:offset].ljust(offset, b"\0")
            elif kept:
                data = data.ljust(offset, b"\0")
                data[offset : offset + kept] = new[:kept]
        return bytes(data)

    def all_of_it(self) -> list[int]:
        return [1 if new is None else len(new) for _, new in self.writes]


@dataclass(slots=True, eq=False)
class _Folder:
    now: dict[str, _File | _Folder] = field(default_factory=dict)
    durable: dict[str, _File | _Folder] = field(default_factory=dict)
    changes: list[dict[str, _File | _Folder | None]] = field(default_factory=list)

    def change(self, new: dict[str, _File | _Folder | None]) -> None:
        self.changes.append(new)
        _apply(self.now, new)


def _apply(entries: dict[str, _File | _Folder], new: dict[str, _File | _Folder | None]) -> None:
    for name, node in new.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _durable(folder: Path) -> _Folder:
    """Return a folder as it is, all of it synced."""
    made = _Folder()
    for path in folder.iterdir():
        if path.is_dir():
            made.durable[path.name] = _durable(path)
        else:
            data = path.read_bytes()
            made.durable[path.name] = _File(durable=data, length=len(data))
    made.now = dict(made.durable)
    return made


class Disk:
    """The folder `root`: at first it holds durably what it holds now, or nothing if `empty`."""

    def __init__(self, root: Path, *, empty: bool = False) -> None:
        self.root = str(root)
        self.top = _Folder() if empty else _durable(root)

    def _find(self, path: str) -> tuple[_Folder, str] | None:
        """Return the folder of a path below the root, and its last name."""
        if not path.startswith(self.root + "/"):
            return None
        *outer, name = path[len(self.root) + 1 :].split("/")
        folder = self.top
        for part in outer:
            inner = folder.now[part]
            assert isinstance(inner, _Folder)
            folder = inner
        return folder, name

    def _node(self, path: str) -> _File | _Folder | None:
        if path == self.root:
            return self.top
        found = self._find(path)
        return None if found is None else found[0].now.get(found[1])

    def play(self, event: Event) -> bool:
        """Apply one event; return whether it touched the root."""
        if any(path.endswith("-shm") for path in event.paths):
            return False
        places = [self._find(path) for path in event.paths]
        if event.call == "fsync":
            return self._sync(self._node(event.paths[0]))
        if any(place is None for place in places) or not places:
            return False
        folder, name = places[0]
        node = folder.now.get(name)
        match event.call:
            case "open":
                if isinstance(node, _File) and event.truncates:
                    node.writes.append((0, None))
                    node.length = 0
                    return True
                if not event.creates or node is not None:
                    return False
                folder.change({name: _File()})
            case "mkdir":
                folder.change({name: _Folder()})
            case "symlink":
                folder.change({name: _File(link=event.data)})
            case "unlink" | "rmdir":
                folder.change({name: None})
            case "link":
                other, new = places[1]
                other.change({new: node})
            case "rename":
                other, new = places[1]
                assert other is folder, "a rename between folders is not modelled"
                folder.change({name: None, new: node})
            case "write" | "pwrite64":
                if not isinstance(node, _File):
                    return False
                at = node.length if event.number < 0 else event.number
                node.writes.append((at, event.data))
                node.length = max(node.length, at + len(event.data))
            case "ftruncate":
                assert isinstance(node, _File)
                node.writes.append((event.number, None))
                node.length = event.number
            case other_call:
                raise AssertionError(other_call)
        return True

    def _sync(self, node: _File | _Folder | None) -> bool:
        if isinstance(node, _File):
            node.durable = node.content(node.all_of_it())
            node.writes.clear()
        elif isinstance(node, _Folder):
            node.durable = dict(node.now)
            node.changes.clear()
        return node is not None

    def after_power_cut(self, target: Path, chance: random.Random | None, *, keep: bool) -> None:
        """Write to `target` what a power cut now leaves behind.

        Args:
            chance: picks what happens to every unsynced change; None treats all alike.
            keep: without `chance`, whether unsynced changes are kept or dropped.
        """
        self._write(self.top, target, chance, keep)

    def _write(
        self, folder: _Folder, target: Path, chance: random.Random | None, keep: bool
    ) -> None:
        entries = dict(folder.durable)
        count = len(folder.changes) if keep else 0
        if chance is not None:
            count = chance.randint(0, len(folder.changes))
        for change in folder.changes[:count]:
            _apply(entries, change)
        target.mkdir(exist_ok=True)
        for name, node in entries.items():
            if isinstance(node, _Folder):
                self._write(node, target / name, chance, keep)
            elif node.link is not None:
                (target / name).symlink_to(node.link.decode())
            else:
                kept = node.all_of_it() if keep else [0] * len(node.writes)
                if chance is not None:
                    kept = [_torn(chance, whole) for whole in node.all_of_it()]
                (target / name).write_bytes(node.content(kept))
                (target / name).chmod(0o600)


def _torn(chance: random.Random, whole: int) -> int:
    """Return how much of a write survives: all, nothing, or some sectors."""
    kind = chance.random()
    if kind < 0.4:
        return whole
    if kind < 0.7:
        return 0
    return min(whole, SECTOR * chance.randint(0, whole // SECTOR))
