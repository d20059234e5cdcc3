"""Tell when a pipeline's files change: polling of times and sizes, no service, no thread.

A file is what its size and modification time say; editors that replace a file instead of writing
it are seen as well, and a file that is gone for a moment is a change when it is back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from dprelease.pipeline.config import PipelineConfig

Stamp = tuple[int, int] | None

_NAMES = ("values_from", "keys_from", "zeros_from", "edges_from")


def stamp(path: Path) -> Stamp:
    """Return (modification time in ns, size), or None if there is no such file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def files_of(config: PipelineConfig) -> tuple[Path, ...]:
    """Return the public files that a plan is made from: pipeline, schema, lists of keys."""
    pipeline = Path(config.origin.rpartition(":")[0])
    schema = Path(config.schema.origin.rpartition(":")[0])
    listed = [
        base / name  # `latest` is watched as the link that it is
        for base, block in ((pipeline.parent, config.raw), (schema.parent, _raw(schema)))
        for name in _named(block)
    ]
    found = dict.fromkeys((pipeline.resolve(), schema.resolve(), *listed))
    return tuple(path for path in found if path.is_file())


def _raw(schema: Path) -> object:
    from dprelease.schema.yaml_marks import load_yaml

    return load_yaml(schema).data


def _named(block: object) -> Iterator[str]:
    """Yield the files that a document names."""
    if isinstance(block, dict):
        for key, value in block.items():
            if key in _NAMES and isinstance(value, str):
                yield value
            elif key == "keys" and isinstance(value, str | list):
                folders = [value] if isinstance(value, str) else value
                yield from (f"{folder}/release.json" for folder in folders)
            else:
                yield from _named(value)
    elif isinstance(block, list):
        for value in block:
            yield from _named(value)


def changes(
    files: Callable[[], Sequence[Path]],
    pause: Callable[[], bool],
    look: Callable[[Path], Stamp] = stamp,
) -> Iterator[None]:
    """Yield once per change of any of the files, for as long as `pause` says so.

    Args:
        files: what to look at; asked again after each change.
        pause: waits a moment; False ends the watch.
        look: the stamp of a file.
    """
    watched = {path: look(path) for path in files()}
    while pause():
        seen = {path: look(path) for path in watched}
        if seen != watched and all(s is not None for s in seen.values()):
            # First remembered, then told: a change while the plan is made is seen the next time.
            yield
            watched = seen | {path: look(path) for path in files() if path not in seen}
