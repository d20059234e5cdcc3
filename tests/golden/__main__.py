"""`python -m tests.golden make [PART ...]` stores the records, `compare` says what differs now.

`since COMMIT [PART ...]` counts what differs from the records of a commit, for the list in README.md.
"""

from __future__ import annotations

import sys

from tests.golden.records import (
    PARTS,
    counted,
    differences,
    digest,
    make,
    path_of,
    read,
    read_at,
    write,
)


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in {"make", "compare", "since"}:
        print(__doc__)
        return 2
    if arguments[0] == "since":
        commit, *named = arguments[1:]
        for part in named or PARTS:
            print(f"{part}: {counted(read_at(commit, part), read(part))}")
        return 0
    parts = arguments[1:] or [p for p in PARTS if path_of(p).with_suffix(".py").exists()]
    found = 0
    for part in parts:
        if arguments[0] == "make":
            print(f"{part}: {write(part)} records, digest {digest(read(part)['records'])}")
            continue
        lines = differences(read(part), make(part))
        found += len(lines)
        print("\n".join(lines) if lines else f"{part}: as stored")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
