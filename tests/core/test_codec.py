"""One codec: what it writes it reads back, equal values have equal JSON, hostile JSON is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass, replace
from datetime import UTC, date, datetime
from enum import Enum
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprelease.core.codec import Stored, decode, encode
from dprelease.core.codec_notes import AtLeast, Digits, Note, StoredAs, Tagged, WrittenAs
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import MOST_DIGITS
from dprelease.core.strict_json import read_json
from tests.sizes import sized


class Colour(Enum):
    red = "r"
    blue = "b"


@dataclass(frozen=True, slots=True)
class Circle:
    radius: Annotated[Fraction, AtLeast(0)]
    tag: ClassVar[str] = "circle"


@dataclass(frozen=True, slots=True)
class Square:
    side: int
    tag: ClassVar[str] = "square"

    def __post_init__(self) -> None:
        if self.side % 2:
            raise ArgumentError("a side is even", code="DPR605")


Shape = Annotated[Circle | Square, Tagged("shape")]
Set = Annotated[frozenset[int], WrittenAs(sorted, lambda v: frozenset(map(int, v)))]


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    count: Annotated[int, AtLeast(1)]
    exact: Fraction
    shape: Shape
    either: Circle | Square
    rate: float = 0.5
    good: bool = True
    loss: Literal["absolute", "squared"] = "absolute"
    colour: Colour = Colour.red
    when: datetime | None = None
    day: date | None = None
    runs: tuple[tuple[int, int], ...] = ()
    shapes: Annotated[tuple[Circle, ...], StoredAs("all shapes")] = ()
    extra: Mapping[str, Fraction] = field(default_factory=dict)
    anything: Any = None
    numbers: Set = frozenset()
    below: Sample | None = None
    secret: Annotated[str, Note.unstored] = "not written"


BIG = 10**30
whole = st.integers(-BIG, BIG)
exact = st.fractions(min_value=-BIG, max_value=BIG)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
circles = st.builds(Circle, st.fractions(min_value=0, max_value=BIG))
squares = st.builds(Square, whole.map(lambda i: 2 * i))
samples = st.deferred(
    lambda: st.builds(
        Sample,
        name=texts,
        count=st.integers(1, BIG),
        exact=exact,
        shape=circles | squares,
        either=circles | squares,
        rate=st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9),
        good=st.booleans(),
        loss=st.sampled_from(["absolute", "squared"]),
        colour=st.sampled_from(Colour),
        when=st.none() | st.datetimes(timezones=st.just(UTC)),
        day=st.none() | st.dates(),
        runs=st.lists(st.tuples(whole, whole), max_size=3).map(tuple),
        shapes=st.lists(circles, max_size=3).map(tuple),
        extra=st.dictionaries(texts, exact, max_size=3),
        anything=st.none() | st.lists(st.booleans(), max_size=3),
        numbers=st.frozensets(st.integers(-9, 9), max_size=3),
        below=st.none() | samples,
    )
)

PLAIN = Sample("a", 2, Fraction(1, 3), Circle(Fraction(2)), Square(4), below=None)
FULL = Sample(
    "é", 2**70, Fraction(-7, 3), Square(2), Circle(Fraction(1, 2)), 1.5, False, "squared",
    Colour.blue, datetime(2026, 11, 22, 15, tzinfo=UTC), date(2026, 11, 22), ((1, 2), (-3, 2**60)),
    (Circle(Fraction(0)),), {"half": Fraction(1, 2)}, [None, {"x": 1}], frozenset({3, 1}), PLAIN,
)  # fmt: skip


def text_of(value: object) -> str:
    return json.dumps(value, allow_nan=False, sort_keys=True)


@given(samples)
@settings(max_examples=sized(60, 2000))
def test_what_is_written_is_read_back_and_written_alike_again(sample):
    text = text_of(encode(sample))
    again = decode(Sample, read_json(text))
    assert again == sample
    assert text_of(encode(again)) == text


def test_the_format_is_the_declared_types():
    assert encode(PLAIN) == {
        "name": "a",
        "count": 2,
        "exact": "1/3",
        "shape": {"shape": "circle", "radius": "2"},
        "either": {"kind": "square", "side": 4},
    }
    full = encode(FULL)
    assert full["count"] == str(2**70)
    assert full["runs"] == [[1, 2], [-3, str(2**60)]]
    assert full["all shapes"] == [{"radius": "0"}]
    assert (full["colour"], full["when"], full["day"]) == (
        "b", "2026-11-22T15:00:00+00:00", "2026-11-22",
    )  # fmt: skip
    assert full["numbers"] == [1, 3]
    assert full["below"] == encode(PLAIN)
    assert "secret" not in full


def test_values_of_types_that_are_no_dataclass():
    kind = tuple[Shape, ...]
    stored = encode((Circle(Fraction(1)), Square(2)), kind)
    assert stored == [{"shape": "circle", "radius": "1"}, {"shape": "square", "side": 2}]
    assert decode(kind, stored) == (Circle(Fraction(1)), Square(2))
    assert encode(Circle(Fraction(1)), Shape) == stored[0]


def test_an_integer_in_the_place_of_a_float_is_written_as_it_is_read_back():
    sample = Sample("a", 1, Fraction(1), Circle(Fraction(1)), Square(2), rate=3)
    assert text_of(encode(sample)["rate"]) == text_of(
        encode(decode(Sample, encode(sample)))["rate"]
    )


def test_a_new_field_with_a_default_changes_no_stored_file():
    old = make_dataclass("Thing", [("a", int)], frozen=True)
    new = make_dataclass("Thing", [("a", int), ("b", tuple[int, ...], ())], frozen=True)
    assert encode(new(1)) == encode(old(1)) == {"a": 1}
    assert decode(new, encode(old(1))) == new(1)


HOSTILE = [
    None, True, False, 0, 1, -1, 2, 0.5, 1e308, 10**400, 10**MOST_DIGITS, "", "x", "1/0", "1/",
    "nan", "inf", "1e999999999", "9" * (MOST_DIGITS + 1), "9" * 10**6, "\ud800", "2026-99-99", "circle",
    [], [1], [1, 2], [[1, 2, 3]], [[1]], [[]], ["x"], {}, {"x": 1}, {"shape": "circle"},
    {"shape": "triangle"}, {"shape": ["circle"]}, {"shape": "square", "side": 3}, {"\ud800": "1"},
    {"kind": "square", "side": "9" * 5000}, {"": "1/0"},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every value inside `value`."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip
    return [path, *(p for key, item in inner for p in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize("hostile", HOSTILE, ids=lambda v: repr(v)[:30])
def test_a_hostile_value_at_any_place_is_refused_in_one_way_or_is_a_value(hostile):
    stored = encode(FULL)
    refused = made_of = 0
    for path in places(stored):
        try:
            made = decode(Sample, replaced(stored, path, hostile), "release.json")
        except ConfigError as error:
            refused += error.code == "DPR180" and len(str(error).encode()) <= 2000
        else:
            assert path, "the whole file was replaced"
            assert decode(Sample, encode(made)) == made
            made_of += 1
    assert refused + made_of == len(places(stored))
    assert refused > 5  # the control: it does refuse


def test_a_missing_an_unknown_and_a_repeated_key_are_refused():
    stored = encode(PLAIN)
    for name in stored:
        with pytest.raises(ConfigError, match=f"it has no `{name}`"):
            decode(Sample, {k: v for k, v in stored.items() if k != name})
    with pytest.raises(ConfigError, match="unknown key, `secret`"):
        decode(Sample, {**stored, "secret": "x"})
    with pytest.raises(
        ConfigError, match="unknown key, `shapes`"
    ):  # stored under its `StoredAs` alone
        decode(Sample, {**stored, "shapes": []})


@pytest.mark.parametrize(
    ("change", "where", "why"),
    [
        ({"count": 0}, "release.json: count", "it is below 1"),
        ({"count": True}, "release.json: count", "the number is not a number"),
        ({"count": 1.0}, "release.json: count", "the number is not a number"),
        ({"good": 1}, "release.json: good", "true or false is needed, not a number"),
        ({"loss": "none"}, "release.json: loss", "none of the known values"),
        ({"runs": [[1, 2], [1]]}, "release.json: runs[1]", "a list of 2 is needed, not of 1"),
        ({"extra": {"a": "1/0"}}, "release.json: extra.a", "not a number"),
        ({"below": {"name": 1}}, "release.json: below.name", "text is needed, not a number"),
        ({"shape": {"shape": "x"}}, "release.json: shape", "`shape` is none of the known ones"),
        ({"either": {"kind": "square", "side": 3}}, "release.json: either", "a side is even"),
        ({"numbers": ["x"]}, "release.json: numbers", "ValueError while it was read"),
        ({"rate": 10**400}, "release.json: rate", "OverflowError while it was read"),
    ],
)
def test_a_refusal_says_where_and_why(change, where, why):
    with pytest.raises(ConfigError) as caught:
        decode(Sample, {**encode(PLAIN), **change}, "release.json")
    assert caught.value.where == where
    assert why in (caught.value.why or "")


def test_a_refusal_never_repeats_the_stored_value():
    for name in encode(FULL):
        with pytest.raises(ConfigError) as caught:
            decode(Sample, {**encode(FULL), name: ["marked value"], "anything": None, "x": 1})
        assert "marked" not in str(caught.value)


def test_deep_nesting_is_refused():
    deep: Any = encode(PLAIN)
    for _ in range(5000):
        deep = {**encode(PLAIN), "below": deep}
    with pytest.raises(ConfigError, match="nested too deeply"):
        decode(Sample, deep)


@dataclass(frozen=True)
class Kinded:
    kind: str
    tag: ClassVar[str] = "kinded"


@dataclass(frozen=True)
class Untagged:
    a: int


@dataclass(frozen=True, init=False)
class OwnInit:
    a: int

    def __init__(self) -> None: ...


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (complex, 1j),
        (set[int], {1}),
        (OwnInit, OwnInit()),
        (Circle | Untagged, Untagged(1)),
        (Circle | Kinded, Kinded("x")),
        (Annotated[str, AtLeast(1)], "x"),
        (make_dataclass("A", [("a", Annotated[int, Note.unstored])]), None),
        (make_dataclass("A", [("a", int), ("b", Annotated[int, StoredAs("a")])]), None),
    ],
    ids=range(8),
)
def test_a_type_without_a_json_form_is_the_mistake_of_its_author(kind, value):
    with pytest.raises(TypeError):
        encode(value, kind) if value is not None else decode(kind, {"a": 1})


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_a_float_that_json_lacks_is_not_written(value):
    with pytest.raises(ValueError, match="infinity"):
        encode(Sample("a", 1, Fraction(1), Circle(Fraction(1)), Square(2), rate=value))


@dataclass(frozen=True, slots=True)
class Place:
    street: str
    number: Annotated[Digits, AtLeast(1)]


Few = Annotated[frozenset[int], WrittenAs(sorted, frozenset, tuple[Digits, ...])]


@dataclass(frozen=True, slots=True)
class House(Stored):
    kind: ClassVar[str] = "house"
    floors: ClassVar[int] = 2
    constants: ClassVar[Mapping[str, str]] = {"kind": "kind", "levels": "floors"}

    at: Annotated[Place, Note.inline]
    rooms: Annotated[Few, Note.always] = frozenset()
    note: Annotated[str | None, Note.always] = None
    far: Annotated[Digits | None, AtLeast(0)] = None

    def completed(self) -> House:
        if self.at.number == 13:
            raise ValueError("13")
        return self if self.note is None else replace(self, note=self.note.strip())


HOUSE = House(Place("a", 7), frozenset({3, 1}))
WRITTEN = {
    "kind": "house",
    "levels": 2,
    "street": "a",
    "number": "7",
    "rooms": ["1", "3"],
    "note": None,
}


def test_a_stored_class_writes_its_constants_and_what_is_always_written():
    assert HOUSE.to_json() == WRITTEN
    assert House.from_json(WRITTEN) == HOUSE
    assert House.from_json({**WRITTEN, "number": 7, "far": 2**70}).far == 2**70


@dataclass(frozen=True)
class Tile(Stored):
    side: int

    derived: ClassVar[tuple[str, ...]] = ("area",)

    @property
    def area(self) -> int:
        return self.side**2


def test_what_follows_from_the_fields_is_written_and_has_to_follow():
    assert Tile(3).to_json() == {"side": 3, "area": 9}
    assert Tile.from_json({"side": 3, "area": 9}) == Tile(3)
    for refused in ({"side": 3, "area": 8}, {"side": 3}, {"side": 3, "area": "nine"}):
        with pytest.raises(ConfigError):
            Tile.from_json(refused)


def test_what_was_read_is_completed():
    assert House.from_json({**WRITTEN, "note": " b "}).note == "b"


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "hut"},
        {"kind": None},
        {"levels": True},
        {"levels": 2.0},
        {"number": "13"},
        {"number": 0},
        {"far": -1},
        {"rooms": "13"},
        {"rooms": [1.5]},
        {"at": {}},
        {"street": None},
    ],
    ids=str,
)
def test_a_stored_class_refuses_what_it_did_not_write(change):
    with pytest.raises(ConfigError) as caught:
        House.from_json(WRITTEN | change)
    assert caught.value.code == "DPR180"


@pytest.mark.parametrize("key", WRITTEN)
def test_what_is_always_written_is_missed(key):
    with pytest.raises(ConfigError):
        House.from_json({k: part for k, part in WRITTEN.items() if k != key})


def test_two_fields_of_one_key_are_the_mistake_of_their_author():
    kind = make_dataclass(
        "Two", [("street", str), ("at", Annotated[Place, Note.inline])], frozen=True
    )
    with pytest.raises(TypeError, match="one key"):
        encode(kind("a", Place("b", 1)))
