"""One release of a mean, watched: `python -m tests.meta.walk` prints what it loads, runs and meets, as JSON.

It has a process of its own, in which nothing of the library is loaded before.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

WANTED = "mean(years)"
SCHEMA = {
    "dprelease": "schema/1",
    "adjacency": "add_remove",
    "name": "t",
    "unit": "row",
    "columns": {
        "years": {"kind": "integer", "range": [0, 100]},
        "region": {"kind": "category", "values": ["n", "s"]},
    },
    "release": {"epsilon": "1", "by": ["region"], "statistics": [WANTED]},
}


def holders(thing: object, text: str, room: str = "dprelease", deep: int = 5) -> set[str]:
    """Return the classes of a room that hold `text`, in a field or in an object of theirs: of `thing` and inside it."""
    if not deep or not type(thing).__module__.startswith(room):
        return set()
    fields = [
        x for x in _fields(thing) if isinstance(x, str) or type(x).__module__.startswith(room)
    ]
    found = {name for field in fields for name in holders(field, text, room, deep - 1)}
    return found | {type(thing).__name__} if found or text in fields else found


def _fields(thing: object) -> Iterator[object]:
    slots = [name for c in type(thing).__mro__ for name in vars(c).get("__slots__", ())]
    for name in (*getattr(thing, "__dict__", ()), *slots):
        yield getattr(thing, name, None)


def main() -> None:
    import pandas as pd

    import dprelease  # noqa: F401 - `df.dp`

    warnings.simplefilter("ignore")
    frame = pd.DataFrame({"years": [20, 30, 40, 50] * 50, "region": ["n", "s"] * 100})
    run: set[tuple[str, str]] = set()
    modules: dict[str, None] = {}
    held: set[str] = set()

    def watch(at: FrameType, event: str, value: Any) -> None:
        place, code = at.f_globals.get("__name__", ""), at.f_code
        if not place.startswith("dprelease") or not code.co_flags & 1:
            return
        if event == "call":
            run.add((place, code.co_qualname))
            modules[place] = None
        elif event == "return":
            for thing in (value, *at.f_locals.values()):
                held.update(holders(thing, WANTED))

    sys.setprofile(watch)
    frame.dp.release(SCHEMA)
    sys.setprofile(None)
    loaded = sum(m.split(".")[0] == "dprelease" for m in sys.modules)
    found = {
        "loaded": loaded,
        "functions": len(run),
        "modules": [*modules],
        "holders": sorted(held),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
