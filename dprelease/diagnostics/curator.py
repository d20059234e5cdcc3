"""`CuratorOnly`: numbers that depend on exact answers, and say so wherever they are shown.

An array of float64 that computes like any other, keeps its type through arithmetic, prints its
marking, and refuses to be pickled or stored. JSON encoders refuse it as they refuse every array.
It is not a `Secret`: the curator is meant to read it. `float(x)` or `numpy.asarray(x)` is the
deliberate way out.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dprelease.core.errors import ArgumentError

MARK = "curator only, never publish"


class CuratorOnly(np.ndarray[Any, np.dtype[np.float64]]):
    """Per-instance numbers; made by this package only."""

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        # NumPy would turn a sum or a comparison into a bare scalar and lose the marking.
        return np.asarray(array).view(CuratorOnly)

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(np.asarray(self)[key]).view(CuratorOnly)

    def __repr__(self) -> str:
        return f"CuratorOnly({np.array2string(np.asarray(self))}; {MARK})"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if self.ndim:
            return repr(self)
        return f"{format(float(self), spec)} ({MARK})"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise ArgumentError(
            "a per-instance number cannot be pickled or stored",
            why="it is a function of an exact answer, so storing it would publish the answer",
            fix="read it where it is computed",
            code="DPR673",
        )

    __reduce__ = _refuse
    __reduce_ex__ = _refuse
    dump = _refuse
    dumps = _refuse
    tofile = _refuse
    tobytes = _refuse


def marked(values: npt.NDArray[np.float64]) -> CuratorOnly:
    """Return `values` marked."""
    out: CuratorOnly = np.asarray(values, dtype=np.float64).view(CuratorOnly)
    return out
