"""An exact answer that has not yet been noised.

Anything computed from private rows travels inside a `Secret` from the engine to the sampler.
It has no repr of its content, does not pickle, copy, compare, hash or iterate, so that it
cannot reach a log line, an exception or a file by accident. The one way out is
`reveal_to_mechanism`, whose name can be searched for (a test holds its callers to `execute`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

from dprelease.core.errors import DpreleaseError

T = TypeVar("T")


class Secret(Generic[T]):
    """Hold one exact answer; show nothing."""

    __slots__ = ("__value",)

    def __init__(self, value: T) -> None:
        self.__value = value

    def reveal_to_mechanism(self) -> T:
        """Return the exact answer. Only the wall (`dprelease.wall.execute`) may call this."""
        return self.__value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return "Secret(***)"

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("a Secret cannot be copied, compared, pickled or iterated")

    __reduce_ex__ = _refuse
    __eq__ = _refuse
    __hash__ = _refuse
    __iter__ = _refuse
    __len__ = _refuse
    __bool__ = _refuse
    __copy__ = _refuse
    __deepcopy__ = _refuse


def unquoted(call: Callable[[], T], refusal: DpreleaseError) -> T:
    """Return what `call` returns; where it fails, what is raised may quote a row or a secret, and is dropped.

    Nothing is chained: a traceback would show it. Our own errors pass, as they hold public facts.

    Raises:
        DpreleaseError: `refusal`, in place of any other error.
    """
    try:
        return call()
    except Exception as error:
        if isinstance(error, DpreleaseError):
            raise
    raise refusal
