"""Whatever object a cell holds, a plain value comes out: nothing raises, recurses or runs after it."""

from __future__ import annotations

import enum
import warnings
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dprelease.engines.in_memory import pandas_array
from dprelease.engines.plain_cell import plain_cell


def fails(*_: object, **__: object) -> Any:
    raise ZeroDivisionError("CANARY")


NAMES = (
    "__str__", "__repr__", "__format__", "__eq__", "__ne__", "__lt__", "__hash__", "__bool__", "__len__",
    "__iter__", "__float__", "__int__", "__index__", "__bytes__", "__getattr__", "__array__", "__getitem__",
    "encode", "decode", "isoformat", "is_nan", "is_integer", "adjusted", "item", "strip", "lower",
)  # fmt: skip
HOOKS = dict.fromkeys(NAMES, fails)
CLASS = {"__class__": property(fails)}
BASES: dict[type, tuple[tuple[Any, ...], object]] = {
    object: ((), None),
    str: (("a",), "a"),
    bytes: ((b"a",), b"a"),
    bytearray: ((b"a",), b"a"),
    int: ((2**70,), 2**70),
    float: ((2.5,), 2.5),
    Decimal: (("1.50",), Decimal("1.50")),
    date: ((2020, 1, 2), date(2020, 1, 2)),
    datetime: ((2020, 1, 2, 3), datetime(2020, 1, 2, 3)),
    list: (([1],), None),
    dict: ((), None),
    np.float64: ((2.5,), 2.5),
    np.str_: (("a",), "a"),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("hooks", [HOOKS, {**HOOKS, **CLASS}], ids=["methods", "class as well"])
def test_a_subclass_that_raises_everywhere_is_its_base(base: type, hooks: dict[str, Any]) -> None:
    arguments, plain = BASES[base]
    cell = type("Hostile", (base,), dict(hooks))(*arguments)
    found = plain_cell(cell)
    assert type(found) is type(plain)
    assert found == plain
    assert pandas_array(pd.Series([cell, "b"], dtype=object)).to_pylist()[1] == "b"


class Nested(tzinfo):
    utcoffset = dst = tzname = fails


class Word(str):
    __slots__ = ()


class Colour(enum.Enum):
    red = 1


class Recursive:
    def __str__(self) -> str:
        return str(self)


deep: list[Any] = []
for _ in range(100_000):  # deeper than any version of Python writes
    deep = [deep]
cyclic: list[Any] = []
cyclic.append(cyclic)


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        (np.longdouble("1.5"), 1.5),
        (np.longdouble("nan"), float("nan")),
        (np.longdouble("-inf"), -np.inf),
        (np.longdouble(2) ** 63 + 1, "9.223372036854775809e+18"),
        (np.longdouble("1e4000"), "1e+4000"),
        (np.clongdouble(1), "(1+0j)"),
        (np.float16(3), 3.0),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.bool_(True), True),
        (np.datetime64("2020-01-02"), datetime(2020, 1, 2)),
        (np.datetime64("2020-01-02T03:04:05.000000001"), "2020-01-02T03:04:05.000000001"),
        (np.datetime64("NaT", "s"), None),
        (np.timedelta64("NaT", "s"), None),
        (np.timedelta64(1, "D"), "1 days"),
        (np.bytes_(b"a"), b"a"),
        (np.array(["a"]), None),
        (pd.NaT, None),
        (pd.Timestamp(1), pd.Timestamp(1)),
        (pd.NA, None),
        (Decimal("sNaN"), None),
        (Decimal("1e999999999"), "1E+999999999"),
        (Decimal("-Infinity"), Decimal("-Infinity")),
        (complex(1, 2), "(1+2j)"),
        (memoryview(b"a"), b"a"),
        (Word("a"), "a"),
        (Colour.red, "Colour.red"),
        (UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        ([1, [2]], "[1, [2]]"),
        (deep, None),
        (cyclic, "[[...]]"),
        (Recursive(), None),
        (object(), None),
        (10**5000, 10**5000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_cells_of_every_make(cell: object, plain: object) -> None:
    found = plain_cell(cell)
    assert type(found) is type(plain) or (found is None and plain is None)
    assert found == plain or repr(found) == repr(plain) == "nan"


def test_distant_numpy_instants_stay_apart() -> None:
    cells = [np.datetime64(n, "s") for n in (0, 2**62, 2**62 + 1)]  # microseconds would wrap
    assert len({str(plain_cell(cell)) for cell in cells}) == 3


def test_no_cell_recurses_warns_or_prints(capfd: pytest.CaptureFixture[str]) -> None:
    cells = [
        np.longdouble("1e4000"),
        np.float32(3e38),
        np.clongdouble("nan"),
        deep,
        Recursive(),
        10**5000,
    ]
    cells += [
        datetime(2020, 1, 1, tzinfo=Nested()),
        datetime(2020, 1, 1, tzinfo=UTC),
        Decimal("1e999999999"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        texts = pandas_array(pd.Series(cells, dtype=object)).to_pylist()
    assert texts[:2] == ["1e+4000", "3" + texts[1][1:]]
    assert capfd.readouterr() == ("", "")


def test_one_odd_cell_changes_no_other(recwarn: pytest.WarningsRecorder) -> None:
    """Of an object column and of a Categorical: the type and all other cells stay."""
    usual: list[object] = [1.5, 2, date(2020, 1, 2), pd.Timestamp("2020-01-02T03"), True, None, "a"]
    for odd in (np.longdouble(1), "odd", b"\xff", 10**400, [1], object(), complex(1), pd.NaT):
        for make in (list, lambda cells: pd.Categorical(pd.Index(cells, dtype=object))):
            for at in range(2):
                some = usual[at:] if at else usual
                try:
                    series = pd.Series(
                        make([*some, odd]), dtype=None if make is not list else object
                    )  # type: ignore[operator]
                except TypeError:  # no category: not hashable
                    continue
                alone = pd.Series(make(some), dtype=None if make is not list else object)  # type: ignore[operator]
                one, other = pandas_array(series), pandas_array(alone)
                assert one.type == other.type
                assert one.to_pylist()[:-1] == other.to_pylist()


@pytest.mark.parametrize(
    "cells",
    [
        [1, 2],
        [1.5, 2.5],
        [date(2020, 1, 2)] * 2,
        [pd.Timestamp("2020-01-02")] * 2,
        [True, False],
    ],
)
def test_the_type_of_a_categorical_is_not_read_off_its_categories(cells: list[object]) -> None:
    kinds = {
        pandas_array(pd.Series([*cells, *odd], dtype="category")).type for odd in ([], ["odd"])
    }
    assert len(kinds) == 1


def test_a_categorical_of_durations_fits_no_declaration_as_durations_do() -> None:
    cells = pd.Series([pd.Timedelta(1)] * 2)
    kinds = {pandas_array(cells).type, pandas_array(cells.astype("category")).type}
    assert kinds == {pa.list_(pa.float64(), 2)}
