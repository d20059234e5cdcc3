"""One way to write a frozen dataclass as JSON, and to read it back from a file that is not trusted.

The declared types are the format. A field has the key of its name and is left out where it has its
default, so that a new field with a default changes no stored file:

    Fraction          "p/q" (or "p"), exact
    int               a JSON integer; text from 2**53 on, which JSON readers round
    float             a finite JSON number
    str bool None     as they are
    Enum, Literal     their value
    datetime, date    ISO 8601
    tuple             a list; tuple[A, B] one of exactly two values, tuple[A, ...] of any number
    Mapping[str, A]   an object
    dataclass         an object with one key per field
    A | None          null, or A
    A | B             dataclasses with a `tag`, which is written under the key `kind`
    Any, object       JSON data, passed on as it is

What a type cannot say is said beside it: `count: Annotated[int, AtLeast(1)]`; see `StoredAs`, `AtLeast`,
`Note`, `Tagged`, and `WrittenAs` for a type with JSON of its own. A dataclass that is `Stored` may hold `constants` that
stand beside its fields, and complete what was read (`completed`).

`encode` trusts its argument. `decode` trusts nothing: whatever JSON value it is given, it returns an
object of the declared type or raises one bounded `ConfigError` that says where. Give it what
`strict_json.read_json` returned, so that its size is bounded too.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from dprelease.core.codec_notes import AtLeast, Digits, Note, StoredAs, Tagged, WrittenAs
from dprelease.core.codec_values import PLAIN, Coder, Fault, expected, guarded, one_of, same, text
from dprelease.core.errors import ConfigError
from dprelease.core.numeric import long_list, short_list

T = TypeVar("T")


class Stored:
    """A frozen dataclass that is written and read by its declared types.

    Attributes:
        constants: keys that stand beside the fields, each with the class attribute that it holds.
        derived: properties that are written beside the fields, and must be what the fields say.
    """

    __slots__ = ()
    constants: ClassVar[Mapping[str, str]] = {}
    derived: ClassVar[tuple[str, ...]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return its JSON, exact; `from_json` is the inverse."""
        out: dict[str, Any] = encode(self)
        return out

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Return what `to_json` wrote; ConfigError (DPR180) for anything else."""
        return decode(cls, value)

    def completed(self) -> Self:
        """Return the object to use in place of this one, which was just read: its fields have their types.

        Raises:
            ValueError, ArgumentError: the fields do not belong together; `decode` raises DPR180 for it.
        """
        return self


def encode(value: object, kind: Any = None) -> Any:
    """Return `value` as JSON data; equal values give equal JSON.

    Args:
        kind: the declared type, where it is not `type(value)`: a union, for its tag.
    """
    declared: Any = type(value) if kind is None else kind
    return _coder(declared).encode(value)


@overload
def decode(kind: type[T], value: object, name: str = ...) -> T: ...
@overload
def decode(kind: object, value: object, name: str = ...) -> Any: ...
def decode(kind: Any, value: object, name: str = "") -> Any:
    """Return the object that `encode` wrote as `value`.

    Args:
        name: of the stored value, for the error: "release.json: plan".

    Raises:
        ConfigError: it is not one of `kind` (DPR180).
    """
    try:
        return _coder(kind).decode(value)
    except Fault as fault:
        place, why = ".".join(reversed(fault.path)).replace(".[", "["), fault.why
    except RecursionError:
        place, why = "", "it is nested too deeply"
    raise ConfigError(  # out here, so that no chained exception holds a value of the file
        f"a stored {getattr(kind, '__name__', 'value')} does not parse",
        where=": ".join(part for part in (name, place) if part) or None,
        why=why,
        fix="use the file unchanged",
        code="DPR180",
    )


@cache
def _coder(kind: Any) -> Coder:
    """Return how values of one declared type are written and read.

    Raises:
        TypeError: the type has no JSON form; the mistake of a programmer, not of a file.
    """
    if get_origin(kind) is Annotated:
        base, *notes = get_args(kind)
        return _annotated(base, tuple(notes))
    if get_origin(kind) in (Union, types.UnionType):
        return _union(get_args(kind), "kind")
    if kind in PLAIN:
        return PLAIN[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return Coder(same, one_of({v: v for v in args}))
    if origin is tuple:
        return _many(args[0]) if args[-1] is Ellipsis else _row(args)
    if isinstance(origin, type) and issubclass(origin, Mapping) and args[0] is str:
        return _mapping(args[1])
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Coder(lambda v: v.value, one_of({member.value: member for member in kind}))
    # only what `dataclass` itself decorated: a subclass that it did not may have other fields
    own = kind.__dict__ if isinstance(kind, type) else {}
    if "__init__" in own and getattr(own.get("__dataclass_params__"), "init", False):
        return _record(kind, {})
    raise TypeError(f"no JSON form for {kind!r}: say it with `WrittenAs`")


def _annotated(base: Any, notes: tuple[object, ...]) -> Coder:
    for note in notes:
        if isinstance(note, WrittenAs):
            return _through(note)
        if isinstance(note, Tagged):
            return _union(get_args(base), note.key)
        if note is Note.short:
            return _many(get_args(base)[0], short=True)
    coder = _coder(base)
    for note in notes:
        if note is Note.as_text:
            if base is not int:
                raise TypeError(f"`Note.as_text` is said of {base!r}, which is not an integer")
            coder = Coder(str, coder.decode)
        if isinstance(note, AtLeast):
            if not {*(get_args(base) or (base,))} <= {int, float, Fraction, type(None), Digits}:
                raise TypeError(f"`AtLeast` is said of {base!r}, which is not a number")
            coder = Coder(coder.encode, _at_least(coder.decode, note.least))
    return coder


def _through(note: WrittenAs) -> Coder:
    inner, back = _coder(note.of), guarded(note.decode)
    return Coder(lambda v: inner.encode(note.encode(v)), lambda v: back(inner.decode(v)))


def _at_least(read: Callable[[Any], Any], least: int) -> Callable[[Any], Any]:
    def bounded(value: Any) -> Any:
        number = read(value)
        if number is not None and number < least:
            raise Fault(f"it is below {least}")
        return number

    return bounded


# --- values made of others --------------------------------------------------------------------


def _inside(read: Callable[[Any], Any], value: Any, name: str) -> Any:
    try:
        return read(value)
    except Fault as fault:
        fault.path.append(name)
        raise


def _items(read: Sequence[Callable[[Any], Any]], value: Sequence[Any]) -> tuple[Any, ...]:
    pairs = zip(read, value, strict=True)
    return tuple(_inside(part, item, f"[{i}]") for i, (part, item) in enumerate(pairs))


def _many(kind: Any, *, short: bool = False) -> Coder:
    """Return the coder of `tuple[kind, ...]`."""
    coder = _coder(kind)

    def read(value: Any) -> tuple[Any, ...]:
        if short and not isinstance(value, list):
            return guarded(long_list)(value)  # type: ignore[no-any-return]
        listed = expected(list, "a list")(value)
        return _items([coder.decode] * len(listed), listed)

    each = list if coder.encode is same else lambda v: [coder.encode(item) for item in v]
    return Coder(short_list if short else each, read)


def _row(kinds: tuple[Any, ...]) -> Coder:
    """Return the coder of a tuple of exactly these types."""
    coders = [_coder(kind) for kind in kinds]

    def write(value: tuple[Any, ...]) -> list[Any]:
        return [coder.encode(item) for coder, item in zip(coders, value, strict=True)]

    def read(value: Any) -> tuple[Any, ...]:
        if len(expected(list, "a list")(value)) != len(coders):
            raise Fault(f"a list of {len(coders)} is needed, not of {len(value):,}")
        return _items([coder.decode for coder in coders], value)

    return Coder(write, read)


def _mapping(kind: Any) -> Coder:
    coder = _coder(kind)

    def read(value: Any) -> dict[str, Any]:
        pairs = expected(dict, "an object")(value).items()
        return {text(name): _inside(coder.decode, item, name) for name, item in pairs}

    return Coder(lambda v: {name: coder.encode(item) for name, item in v.items()}, read)


class _Field(NamedTuple):
    """One stored field: its attribute, its keys, the default that is left out (or MISSING), its coder.

    `inline`: its value is an object whose keys (`keys`) stand among those of the record; else it has one key.
    """

    name: str
    keys: tuple[str, ...]
    default: Any
    coder: Coder
    inline: bool


@cache
def _stored_fields(cls: Any) -> tuple[_Field, ...]:
    hints = get_type_hints(cls, include_extras=True)
    out = []
    for field in fields(cls):
        kind, default = hints[field.name], field.default
        notes = get_args(kind)[1:] if get_origin(kind) is Annotated else ()
        if field.default_factory is not MISSING:
            default = field.default_factory()
        if not field.init or Note.unstored in notes:
            if default is MISSING and field.init:
                raise TypeError(f"{cls.__name__}.{field.name} is not stored and has no default")
            continue
        if Note.always in notes:
            default = MISSING
        inline = Note.inline in notes
        key = next((note.name for note in notes if isinstance(note, StoredAs)), field.name)
        keys = _keys(get_args(kind)[0]) if inline else (key,)
        out.append(_Field(field.name, keys, default, _coder(kind), inline))
    for name in cls.derived if issubclass(cls, Stored) else ():
        kind = get_type_hints(getattr(cls, name).fget, include_extras=True)["return"]
        out.append(_Field(name, (name,), MISSING, _coder(kind), False))
    every: tuple[str, ...] = sum((field.keys for field in out), ())
    if len(set(every)) < len(every):
        raise TypeError(f"two fields of {cls.__name__} have one key")
    return tuple(out)


def _keys(cls: Any) -> tuple[str, ...]:
    return tuple(key for field in _stored_fields(cls) for key in field.keys)


def _record(cls: Any, tag: dict[str, Any]) -> Coder:
    """Return the coder of a dataclass; its fields are looked up on first use, so it may hold its own type."""

    def write(value: Any) -> dict[str, Any]:
        out: dict[str, Any] = tag | _constants(cls)
        for field in _stored_fields(cls):
            part = getattr(value, field.name)
            if field.default is MISSING or part != field.default:
                encoded = field.coder.encode(part)
                out |= encoded if field.inline else {field.keys[0]: encoded}
        return out

    def read(value: Any) -> Any:
        stored = expected(dict, "an object")(value)
        constants = _constants(cls)
        if unknown := stored.keys() - tag.keys() - constants.keys() - set(_keys(cls)):
            raise Fault(f"it has an unknown key, `{min(unknown)}`")
        for key, constant in constants.items():  # 1 and true are equal, and two values
            if type(stored.get(key)) is not type(constant) or stored[key] != constant:
                raise Fault(f"its `{key}` is not `{constant}`")
        values = {}
        for field in _stored_fields(cls):
            key = field.keys[0]
            if field.inline:
                part = {k: stored[k] for k in field.keys if k in stored}
                values[field.name] = field.coder.decode(part)
            elif key in stored:
                values[field.name] = _inside(field.coder.decode, stored[key], key)
            elif field.default is MISSING:
                raise Fault(f"it has no `{key}`")
        return guarded(_made)((cls, values))

    return Coder(write, read)


def _made(read: tuple[Any, dict[str, Any]]) -> Any:
    """Return the object of a class with the values that were read: one argument, as `guarded` takes."""
    cls, values = read
    if not issubclass(cls, Stored):
        return cls(**values)
    derived = dict(zip(cls.derived, map(values.pop, cls.derived), strict=True))
    made = cls(**values)
    for name, part in derived.items():
        if getattr(made, name) != part:
            raise Fault(f"its `{name}` is not what the rest of it says")
    return made.completed()


@cache
def _constants(cls: Any) -> dict[str, Any]:
    """Return what stands beside the fields of a `Stored` class."""
    named = cls.constants if issubclass(cls, Stored) else {}
    return {key: getattr(cls, attribute) for key, attribute in named.items()}


def _union(members: tuple[Any, ...], key: str) -> Coder:
    """Return the coder of `A | None`, of tagged dataclasses, or of both together."""
    kinds = [member for member in members if member is not type(None)]
    inner = _coder(kinds[0]) if len(kinds) == 1 else _tagged(kinds, key)
    if len(kinds) == len(members):
        return inner
    return Coder(
        lambda v: None if v is None else inner.encode(v),
        lambda v: None if v is None else inner.decode(v),
    )


def _tagged(kinds: Sequence[Any], key: str) -> Coder:
    for kind in kinds:
        if not (is_dataclass(kind) and isinstance(getattr(kind, "tag", None), str)):
            raise TypeError(f"{kind!r} is one of several and has no `tag`")
    records = {kind.tag: (kind, _record(kind, {key: kind.tag})) for kind in kinds}
    if len(records) < len(kinds):
        raise TypeError("two members of a union have one tag")

    def write(value: Any) -> Any:
        if type(value) not in kinds:
            raise TypeError(f"{type(value).__name__} is not a member of the union")
        kind, coder = records[value.tag]
        if key in _keys(kind):
            raise TypeError(f"{kind.__name__} has a field `{key}`: name the tag with `Tagged`")
        return coder.encode(value)

    def read(value: Any) -> Any:
        name = expected(dict, "an object")(value).get(key)
        if not isinstance(name, str) or name not in records:
            raise Fault(f"its `{key}` is none of the known ones")
        return records[name][1].decode(value)

    return Coder(write, read)
