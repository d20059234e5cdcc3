"""The most memory that this process has held since its program began.

`ru_maxrss` is not that: Linux keeps it through exec, so a child starts with the peak of the parent that
started it, and a small job below a parent that had just made its data prints the parent's figure.
`VmHWM` belongs to the memory of the program itself and starts anew.

    python benchmarks/peak.py      # the control: a child that does nothing, one that holds 300 MB,
                                   # both below a parent that holds 600 MB
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

__all__ = ["control", "control_line", "peak_bytes"]

PARENT, HELD = 600, 300
"""MB (2^20 bytes) that the control's parent holds, and its second child."""
NOTHING = 100
"""A child that does nothing must stay below so many MB: Python alone takes 10 to 20."""


def peak_bytes() -> int:
    """Return the high-water mark of this program's resident memory, in bytes.

    Raises:
        OSError: the system has no /proc: on anything but Linux memory is not measured.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * 1024  # "kB" in that file are 1,024 bytes
    raise OSError("/proc/self/status has no VmHWM")


def hold(size: int) -> bytearray:
    """Return `size` MB (2^20 bytes), every page of them written."""
    held = bytearray(size << 20)
    held[::4096] = b"\1" * len(held[::4096])
    return held


def control() -> dict[str, float]:
    """Return what is measured below a large parent, in MB.

    `nothing` and `held` are the two children's peaks; `inherited` is what `ru_maxrss` says of the
    first.

    Raises:
        SystemExit: the measurement cannot be trusted here: a child shows its parent's memory, or not
            its own.
    """
    done = subprocess.run(
        [sys.executable, __file__, "--parent"], capture_output=True, text=True, check=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    if not (
        found["parent"] >= PARENT and found["nothing"] < NOTHING and HELD <= found["held"] < PARENT
    ):
        raise SystemExit(f"peak memory cannot be measured here: {found}")
    return found


def control_line() -> str:
    """Return the sentence of `control` for a table's head."""
    found = control()
    return (
        f"Peak memory is the high-water mark of the job's own program. Control of the same run, below a "
        f"parent of {found['parent']:,.0f} MB: a child that does nothing {found['nothing']:,.0f} MB, "
        f"one that holds {HELD} MB {found['held']:,.0f} MB."
    )


def _as_parent() -> dict[str, float]:
    held = hold(PARENT)
    nothing, inherited = _child(0)
    other, _ = _child(HELD)
    assert held[0] == 1  # it is still held
    return {
        "parent": peak_bytes() / 2**20,
        "nothing": nothing,
        "held": other,
        "inherited": inherited,
    }


def _child(size: int) -> tuple[float, float]:
    command = [sys.executable, __file__, "--child", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    own, inherited = done.stdout.split()
    return float(own), float(inherited)


def main() -> None:
    """Run the control, or be its parent or child."""
    if sys.argv[1:2] == ["--child"]:
        held = hold(int(sys.argv[2]))
        inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(peak_bytes() / 2**20, inherited / 2**20)
        del held
    elif sys.argv[1:2] == ["--parent"]:
        print(json.dumps(_as_parent()))
    else:
        print(control_line())


if __name__ == "__main__":
    main()
