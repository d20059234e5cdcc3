"""Every way to store a cell, with cells that are ordinary and cells that are not.

A `Stored` is one type of one library: what a table says of itself in public. Two tables whose columns
are the same `Stored` differ in cells alone, so nothing but the draw may tell them apart.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

CANARY = "CANARY7053"
ROWS = 12
LONG = "z" * (3 << 20)


@dataclass(frozen=True)
class Stored:
    """A storage type.

    Attributes:
        kind: the Arrow type, or the name of a DuckDB type.
        usual, hostile: cells; of an Arrow timestamp or date64 counts, of a DuckDB type SQL.
    """

    kind: Any
    usual: tuple[Any, ...]
    hostile: tuple[Any, ...]

    def cells(self, hostile: int) -> list[Any]:
        """Return ROWS cells, the last `hostile` of them not ordinary."""
        some = [self.usual[i % len(self.usual)] for i in range(ROWS - hostile)]
        return some + [self.hostile[i % len(self.hostile)] for i in range(hostile)]

    def array(self, hostile: int) -> pa.Array:
        cells, kind = self.cells(hostile), self.kind
        if pa.types.is_timestamp(kind) or pa.types.is_date64(kind):
            return pa.array(cells, pa.int64()).view(kind)
        if kind in (pa.string(), pa.large_string()):
            raw = pa.binary() if kind == pa.string() else pa.large_binary()
            return pa.array([c.encode() if isinstance(c, str) else c for c in cells], raw).view(
                kind
            )
        if pa.types.is_dictionary(kind):
            return pa.array(cells, kind.value_type).dictionary_encode()
        if kind == pa.uuid():
            storage = pa.array([None if c is None else c.bytes for c in cells], pa.binary(16))
            return pa.ExtensionArray.from_storage(kind, storage)
        return pa.array(cells, kind)


TEXTS = (
    None, "", " ", CANARY, f"{CANARY}\0\ud800".encode("utf-8", "surrogatepass"), b"\xff\xfe", "\0", "a\0", "A", "ａ",
    "nan", "inf", "-inf", "1e400", "1e-400", "-1e308", "9" * 400, "0x10", "1_0", "١٢", "+5", "5.", ".5", "1,5", "=1+1",
    "true", "2020-01-01", "0000-00-00", "9999-12-31T23:59:59.999999999", "290309-12-22 (BC)", "infinity", "epoch",
    "2020-01-01T00:00:00+99:99", "2020-02-30", "24:00:00", "now", "today", "NULL", "NaT", "\n", '"', ",", LONG,
)  # fmt: skip
WHOLE = (None, 0, 1, -1)
SPANS = (
    2**63 - 1,
    -(2**63) + 1,
    2**62,
    -(2**62),
    2**53,
    253402300799,
    253402300800,
    -62135596801,
    None,
)
FLOATS = (
    None,
    0.0,
    -0.0,
    1e308,
    -1e308,
    5e-324,
    float("nan"),
    float("inf"),
    -float("inf"),
    2.0**53,
    2.0**63,
)
DAY = 86_400

ARROW: dict[str, Stored] = {
    "null": Stored(pa.null(), (None,), (None,)),
    "bool": Stored(pa.bool_(), (True, False), (None,)),
    **{
        f"int{bits}": Stored(getattr(pa, f"int{bits}")(), (1, 2), (*WHOLE, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))
        for bits in (8, 16, 32, 64)
    },
    **{
        f"uint{bits}": Stored(getattr(pa, f"uint{bits}")(), (1, 2), (None, 0, 2**bits - 1))
        for bits in (8, 16, 32, 64)
    },
    "float16": Stored(pa.float16(), (1.0, 2.5), tuple(np.float16(x) if x is not None else None for x in (None, -0.0, 65504, np.nan, np.inf))),
    "float32": Stored(pa.float32(), (1.0, 2.5), (None, -0.0, 3.4e38, 1e-45, float("nan"), float("inf"), -float("inf"))),
    "float64": Stored(pa.float64(), (1.0, 2.5), FLOATS),
    "decimal32": Stored(pa.decimal32(9, 2), (Decimal(1), Decimal("2.50")), (None, Decimal("-9999999.99"))),
    "decimal64": Stored(pa.decimal64(18, 0), (Decimal(1), Decimal(2)), (None, Decimal(10**18 - 1))),
    "decimal128": Stored(pa.decimal128(38, 9), (Decimal(1), Decimal("2.5")), (None, Decimal(10**29 - 1), Decimal("-1e-9"))),
    "decimal128, no fraction": Stored(pa.decimal128(38, 0), (Decimal(1), Decimal(2)), (None, Decimal(10**38 - 1))),
    "decimal128, negative scale": Stored(pa.decimal128(5, -3), (Decimal(1000),), (None, Decimal("99999000"))),
    "decimal256": Stored(pa.decimal256(76, 2), (Decimal(1), Decimal("2.50")), (None, Decimal(10**74 - 1), Decimal(-(10**73)))),
    "decimal128, all fraction": Stored(pa.decimal128(38, 38), (Decimal("0.5"), Decimal(0)), (None, -Decimal("0." + "9" * 38))),
    "decimal256, few digits": Stored(pa.decimal256(3, 2), (Decimal(1), Decimal("2.50")), (None, Decimal("-9.99"))),
    "text": Stored(pa.string(), ("a", "b", "1", "2020-01-01"), TEXTS),
    "large text": Stored(pa.large_string(), ("a", "b", "1", "2020-01-01"), TEXTS),
    "text view": Stored(pa.string_view(), ("a", "1"), (None, "", CANARY, "\0", "1e400", LONG)),
    "bytes": Stored(pa.binary(), (b"a", b"1"), (None, b"", b"\xff", b"\0", CANARY.encode(), LONG.encode())),
    "large bytes": Stored(pa.large_binary(), (b"a", b"1"), (None, b"", b"\xff", CANARY.encode())),
    "bytes view": Stored(pa.binary_view(), (b"a", b"1"), (None, b"", b"\xff")),
    "fixed bytes": Stored(pa.binary(2), (b"ab", b"10"), (None, b"\xff\xfe", b"\0\0")),
    "uuid": Stored(pa.uuid(), (uuid.UUID(int=1),), (None, uuid.UUID(int=2**128 - 1))),
    "coded text": Stored(pa.dictionary(pa.int32(), pa.string()), ("a", "b"), (None, CANARY, "", "1e400")),
    "coded whole": Stored(pa.dictionary(pa.int32(), pa.int64()), (1, 2), (None, 2**63 - 1)),
    "date32": Stored(pa.date32(), (date(2020, 1, 1), date(2026, 11, 10)), (None, date(1, 1, 1), date(9999, 12, 31))),
    "date32, far": Stored(pa.date32(), (18262, 20767), (2**31 - 1, -(2**31), -(2**31) + 1, 10**8, None)),
    "date64": Stored(pa.date64(), (18262 * DAY * 1000,), (None, *(s for s in SPANS if s), 1)),
    **{
        f"timestamp {unit} {zone}": Stored(
            pa.timestamp(unit, zone), (1577836800 * per, 1794304800 * per), (*SPANS, 9_223_372_036_854_775_807, 1)
        )
        for unit, per in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9))
        for zone in (None, "UTC", "Europe/Dublin")
    },
    "span": Stored(pa.duration("us"), (1,), (None, 2**63 - 1)),
    "time": Stored(pa.time64("us"), (1,), (None, 86_399_999_999)),
    "list": Stored(pa.list_(pa.float64()), ([1.0],), (None, [], [None])),
    "struct": Stored(pa.struct([("k", pa.string())]), ({"k": "a"},), (None, {"k": CANARY})),
    "map": Stored(pa.map_(pa.string(), pa.int64()), ([("a", 1)],), (None, [])),
}  # fmt: skip
"""Types of Arrow: also of polars, of pandas on Arrow, of Parquet and of Arrow files."""

_AT = ("'2020-01-01'", "'2026-11-10 10:00:00'")
SQL: dict[str, Stored] = {
    "BOOLEAN": Stored("BOOLEAN", ("true", "false"), ("NULL",)),
    **{
        f"{sign}{name}": Stored(f"{sign}{name}", ("1", "2"), ("NULL", "0", f"'{low if not sign else 0}'", f"'{high if not sign else 2 * high + 1}'"))
        for name, low, high in (
            ("TINYINT", -128, 127), ("SMALLINT", -(2**15), 2**15 - 1), ("INTEGER", -(2**31), 2**31 - 1),
            ("BIGINT", -(2**63), 2**63 - 1), ("HUGEINT", -(2**127), 2**127 - 1),
        )
        for sign in ("", "U")
    },
    "BIGNUM": Stored("BIGNUM", ("1", "2"), ("NULL", f"'{10**50}'", f"'-{10**300}'")),
    "FLOAT": Stored("FLOAT", ("1", "2.5"), ("NULL", "'nan'", "'inf'", "'-inf'", "3.4e38", "'-0.0'")),
    "DOUBLE": Stored("DOUBLE", ("1", "2.5"), ("NULL", "'nan'", "'inf'", "'-inf'", "1e308", "5e-324", "'-0.0'")),
    "DECIMAL": Stored("DECIMAL(38,10)", ("1", "2.5"), ("NULL", f"'{10**28 - 1}'", "'-0.0000000001'")),
    "DECIMAL, all fraction": Stored("DECIMAL(38,38)", ("0.5", "0"), ("NULL", f"'-0.{'9' * 38}'")),
    "VARCHAR": Stored("VARCHAR", ("'a'", "'1'"), ("NULL", "''", f"'{CANARY}'", "'1e400'", "chr(0)", "'2020-13-01'", f"repeat('z', {3 << 20})")),
    "VARCHAR NOCASE": Stored("VARCHAR COLLATE NOCASE", ("'a'", "'b'"), ("NULL", "'A'", "'B'", "'Ａ'")),
    "VARCHAR NOACCENT": Stored("VARCHAR COLLATE NOACCENT", ("'a'", "'b'"), ("NULL", "'á'")),
    "ENUM": Stored(f"ENUM('a', 'b', '', '{CANARY}', '1')", ("'a'", "'1'"), ("NULL", "''", f"'{CANARY}'")),
    "UUID": Stored("UUID", ("'00000000-0000-0000-0000-000000000001'",), ("NULL", "'ffffffff-ffff-ffff-ffff-ffffffffffff'")),
    "BLOB": Stored("BLOB", ("'a'", "'1'"), ("NULL", "''", "'\\xFF'::BLOB", "'\\x00'::BLOB", "'\\xC3'::BLOB", f"'{CANARY}'")),
    "BIT": Stored("BIT", ("'1'",), ("NULL", "'0101'")),
    "DATE": Stored("DATE", ("'2020-01-01'", "'2026-11-10'"), ("NULL", "'infinity'", "'-infinity'", "'0044-03-15 (BC)'", "'5877642-06-25 (BC)'", "'5881580-07-10'")),
    "TIME": Stored("TIME", ("'10:00:00'",), ("NULL", "'24:00:00'")),
    "INTERVAL": Stored("INTERVAL", ("'1 day'",), ("NULL",)),
    "TIMESTAMP": Stored("TIMESTAMP", _AT, ("NULL", "'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'")),
    "TIMESTAMPTZ": Stored("TIMESTAMP WITH TIME ZONE", _AT, ("NULL", "'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00+00'", "'294247-01-10 04:00:54.775806+00'")),
    "TIMESTAMP_S": Stored("TIMESTAMP_S", _AT, ("NULL", "'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54'")),
    "TIMESTAMP_MS": Stored("TIMESTAMP_MS", _AT, ("NULL", "'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54'")),
    "TIMESTAMP_NS": Stored("TIMESTAMP_NS", _AT, ("NULL", "'infinity'", "'-infinity'", "'1677-09-22 00:00:00'", "'2262-04-11 23:47:16.854775806'")),
    "LIST": Stored("INTEGER[]", ("[1]",), ("NULL", "[]")),
    "STRUCT": Stored("STRUCT(k VARCHAR)", ("{'k': 'a'}",), ("NULL", f"{{'k': '{CANARY}'}}")),
    "JSON": Stored("JSON", ("'1'", "'\"a\"'"), ("NULL", f"'{{\"k\": \"{CANARY}\"}}'", "'null'")),
}  # fmt: skip
"""Types of DuckDB: of its tables and relations."""


class Unprintable:
    def __str__(self) -> str:
        raise ValueError(CANARY)

    __repr__ = __hash__ = __float__ = __str__  # type: ignore[assignment]


class Posing:
    __class__ = property(Unprintable.__str__)  # type: ignore[assignment]


OBJECTS: tuple[Any, ...] = (
    None, float("nan"), float("inf"), -0.0, 1e308, 10**400, 10**5000, -(2**63), 2**64, CANARY, f"{CANARY}\0\ud800", "", b"\xff",
    bytearray(b"a"), True, Decimal("NaN"), Decimal("sNaN"), Decimal("1e999"), Decimal("1e999999999"), pd.NaT, pd.NA,
    pd.Timestamp.max, pd.Timestamp.min, pd.Timestamp("2020-01-01", tz="Europe/Dublin"), pd.Period("2020-01"),
    pd.Interval(0, 1), date.min, datetime.max, datetime(2020, 1, 1, tzinfo=UTC), [CANARY], {"k": CANARY}, {1, 2}, complex(1, 2),
    np.longdouble("1.5"), np.longdouble("nan"), np.longdouble("1e4000"), np.clongdouble(1), np.float16(3), np.int8(-1),
    np.uint64(2**64 - 1), np.bool_(True), np.datetime64("2020-01-01"), np.datetime64("NaT", "s"), np.datetime64(2**62, "s"),
    np.timedelta64(1, "D"), np.timedelta64("NaT", "s"), np.bytes_(b"\xff"), np.str_("a"), np.array([1]), uuid.UUID(int=1), object,
    object(), len, Unprintable(), Posing(), LONG,
)  # fmt: skip
"""Cells of an object column of pandas."""

LINES: tuple[bytes, ...] = (
    b"", b'"', b'"never closed', b"a", b"a,b,c,d,e,f,g,h,i,j,k,l", b"\xff" * 20, b"\0,\0,\0", b"a\r,b", b"\r\r", b"," * 5000,
    b'a,"' + LONG.encode() + b'"', LONG.encode(), b'"a"b,"c', b"\xef\xbb\xbfa,b", b"a;b;c", b"who,cat,x", b'a,"b', b"#",
)  # fmt: skip
"""Lines in the place of a line of a CSV file."""
