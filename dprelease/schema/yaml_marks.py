"""YAML read strictly, with the place of every key.

A subset of YAML: mappings with string keys, lists, scalars. Duplicate keys, anchors, aliases,
tags, several documents, more than 1 MiB or deep nesting are errors. Plain scalars are read by the
rules below, not by YAML 1.1, under which `NO` is false, `010` is 8, `12:30:00` is 45000 and
`1e-6` is text:

* decimal numbers become `int` or `Written`, a `Decimal`, so that 0.1 stays one tenth;
* `true`, `false`, `null`, `~` and nothing mean what they say;
* whatever YAML 1.1 would re-read (other booleans, re-based or sexagesimal numbers, dates) becomes
  an `Ambiguous`, which no field accepts: the error says "quote it".
"""

from __future__ import annotations

import codecs
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Protocol, Self

import yaml

from dprelease.core.errors import ConfigError

MAX_BYTES = 1 << 20
MAX_DEPTH = 24
MAX_NUMBER = 400

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")
_INTEGER = re.compile(r"0|-?[1-9]\d*")  # those whose digits say how they were written
_NULLS = ("", "~", "null", "Null", "NULL")
_REREAD = (
    (re.compile(r"yes|no|on|off", re.IGNORECASE), "a boolean"),
    (re.compile(r"[-+]?0[0-9_]+"), "a number in base 8"),
    (re.compile(r"[-+]?0[box][0-9a-fA-F_]+"), "a number in another base"),
    (re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?"), "a number in base 60"),
    (re.compile(r"[-+]?\d[\d_]*_[\d_]*(\.[\d_]*)?|[-+]?\d[\d_]*\.[\d_]*_[\d_]*"), "a number"),
    (re.compile(r"\d{4}-\d\d?-\d\d?([Tt ].*)?"), "a date"),
)

Part = str | int
Place = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """An unquoted scalar that YAML would read as something else than its text."""

    text: str
    reading: str


class Written(Decimal):
    """A number that shows as it stands in the file: `+44`, `1e3`, `.5`, `.inf`."""

    def __new__(cls, text: str) -> Self:
        number = super().__new__(cls, text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        number.text = text
        return number

    text: str

    def __str__(self) -> str:
        return self.text


class Places(Protocol):
    """Whatever knows where a key stands."""

    def line_of(self, *place: Part) -> str:
        """Return `file:line` for a path of keys."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Where every key and item stands; `lines[place]` is 1-based, `place` a path of keys.

    `words[place]` is how a truth value or a null is written there.
    """

    file: str
    lines: Mapping[Place, int] = field(default_factory=dict)
    words: Mapping[Place, str] = field(default_factory=dict)

    def line_of(self, *place: Part) -> str:
        """Return `file:line` of the deepest known part of `place`, else a dotted path.

        Parts that are not in the file (a union's tag, a missing key) are skipped.
        """
        known = self._known(place)
        if known in self.lines:
            return f"{self.file}:{self.lines[known]}"
        dotted = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in place)
        return f"{self.file}{': ' if dotted else ''}{dotted.lstrip('.')}"

    def written(self, *place: Part) -> str | None:
        """Return the text of a truth value or a null, as it stands in the file; None if unknown."""
        return self.words.get(self._known(place))

    def _known(self, place: Place) -> Place:
        known: Place = ()
        for part in place:
            if (*known, part) in self.lines:
                known = (*known, part)
        return known

    def below(self, *place: Part) -> dict[Place, str]:
        """Return `file:line` per place under `place`, relative to it."""
        size = len(place)
        return {
            key[size:]: f"{self.file}:{line}"
            for key, line in self.lines.items()
            if key[:size] == place
        }


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed file: plain data and the place of its parts."""

    data: dict[str, object]
    marks: Marks
    path: Path | None = None


def load_yaml(path: str | Path) -> Document:
    """Read one YAML file whose top is a mapping.

    Raises:
        ConfigError: unreadable (DPR101), not YAML (DPR102), duplicate key (DPR103), anchor or
            alias (DPR104), tag (DPR105), key that is not text (DPR106), too large or too deep
            (DPR107), empty or not a mapping (DPR109).
    """
    file = Path(path)
    try:
        if file.is_dir():
            inside = min(file.glob("*.y*ml"), default="schemas/clinic.yaml")
            raise ConfigError(
                "this is a folder, not a file",
                where=str(path),
                fix=f"name the file in it, e.g. {inside}",
                code="DPR101",
            )
        if not file.is_file():
            raise ConfigError(
                "the file does not exist",
                where=str(path),
                fix="check the path",
                code="DPR101",
            )
        if file.suffix.lower() in (".csv", ".parquet"):
            raise ConfigError(
                "the file is a table, and a YAML file is read here",
                where=str(path),
                fix="name a pipeline or a schema; "
                f"`dprelease schema draft {shlex.quote(str(path))}` drafts one from a table",
                code="DPR102",
            )
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError):
        raise ConfigError("the file cannot be read", where=str(path), code="DPR101") from None
    if len(raw) > MAX_BYTES:
        raise ConfigError(
            "the file is too large",
            where=str(path),
            why=f"the limit is {MAX_BYTES} bytes",
            fix="move long lists of values to a CSV file: values_from",
            code="DPR107",
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _no_text(str(path), raw) from None
    document = parse_yaml(text, str(path))
    return Document(document.data, document.marks, file)


def _no_text(path: str, raw: bytes) -> ConfigError:
    what, fix = "the file is not UTF-8 text", "save it as UTF-8"
    if raw.startswith(b"SQLite format 3\0"):
        what = "the file is a SQLite database, such as a ledger, and a YAML file is read here"
        fix = f"`dprelease ledger show --ledger {shlex.quote(path)}`; all commands take a ledger as --ledger FILE"
    elif b"\0" in raw and not raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        what, fix = (
            "the file is no text, and a YAML file is read here",
            "name a pipeline or a schema",
        )
    return ConfigError(what, where=path, fix=fix, code="DPR102")


def parse_yaml(text: str, file: str, *, typed: bool = True) -> Document:
    """Parse YAML text; `file` names it in messages.

    Args:
        typed: whether plain scalars are read by the rules above; else each is its text, but for a null.

    Raises:
        ConfigError: as `load_yaml`.
    """
    loader: Any = _StrictLoader.__new__(_StrictLoader)
    reader = _Reader(file, typed=typed)
    try:
        loader.start(text, file)
        node = loader.get_single_node()
        if not isinstance(node, yaml.MappingNode):
            raise ConfigError(
                "the file is empty" if node is None else "the file is not a mapping",
                where=f"{file}:1",
                fix="start with `dprelease: schema/1` or `dprelease: pipeline/1`",
                code="DPR109",
            )
        data = reader.mapping(node, ())
    except yaml.YAMLError as error:
        raise _syntax(error, file) from None
    finally:
        loader.dispose()
    return Document(data, reader.marks)


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader without aliases, anchors, tags or deep nesting."""

    def start(self, text: str, file: str) -> None:
        self.file = file
        self.depth = 0
        yaml.SafeLoader.__init__(self, text)

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        where = f"{self.file}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise ConfigError(
                "anchors and aliases are not allowed",
                where=where,
                why="a reader must see what a file says without following references",
                fix="write the value out; text that starts with & or * is quoted",
                code="DPR104",
            )
        if getattr(event, "tag", None) is not None:
            raise ConfigError(
                "tags are not allowed",
                where=where,
                fix="remove the tag; text that starts with ! is quoted",
                code="DPR105",
            )
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ConfigError(
                "the file is nested too deeply",
                where=where,
                why=f"the limit is {MAX_DEPTH} levels",
                code="DPR107",
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _syntax(error: yaml.YAMLError, file: str) -> ConfigError:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
    if "another document" in str(problem):
        problem = "several documents in one file"
    return ConfigError(
        "the file is not valid YAML",
        where=f"{file}:{mark.line + 1}" if mark is not None else file,
        why=str(problem).splitlines()[0],
        fix=_syntax_fix(str(problem)),
        code="DPR102",
    )


def _syntax_fix(problem: str) -> str:
    """Return what usually mends a problem, which PyYAML names by its rule alone."""
    if "'\\t'" in problem:
        return "indent with spaces; YAML takes no tabs"
    if "mapping values are not allowed" in problem:
        return "write a space after every colon, here or on the line before, and quote text that holds one"
    return "check indentation, and quote text that begins with one of @ ` % | > or holds any of ( ) [ ] { } , : #"


class _Reader:
    """Makes plain data of nodes; `marks` learns where each of them stands."""

    def __init__(self, file: str, *, typed: bool) -> None:
        self.typed = typed
        self.lines: dict[Place, int] = {(): 1}
        self.words: dict[Place, str] = {}
        self.marks = Marks(file, self.lines, self.words)

    def mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, object]:
        out: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, line)
            if key in out:
                raise ConfigError(
                    f"the key `{key}` appears twice",
                    where=f"{self.marks.file}:{line}",
                    why=f"it was given at line {self.lines[(*place, key)]} already",
                    fix="keep one of them",
                    code="DPR103",
                )
            self.lines[(*place, key)] = line
            out[key] = self._value(value_node, (*place, key))
        return out

    def _value(self, node: yaml.Node, place: Place) -> object:
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, place)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for i, item in enumerate(node.value):
                self.lines[(*place, i)] = item.start_mark.line + 1
                items.append(self._value(item, (*place, i)))
            return items
        assert isinstance(node, yaml.ScalarNode)
        value = self._scalar(node)
        if value is None or isinstance(value, bool):
            self.words[place] = node.value
        return value

    def _scalar(self, node: yaml.ScalarNode) -> object:
        if not self.typed and (node.style is not None or node.value not in _NULLS):
            return node.value
        return _scalar(node, f"{self.marks.file}:{node.start_mark.line + 1}")

    def _key(self, node: yaml.Node, line: int) -> str:
        value = self._scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(value, str) and "\0" not in value:
            return value
        shown = node.value if isinstance(node, yaml.ScalarNode) else None
        reading = f"YAML reads it as {value.reading}" if isinstance(value, Ambiguous) else None
        raise ConfigError(
            f"the key `{shown}` is not text" if shown else "a key is not text",
            where=f"{self.marks.file}:{line}",
            why=reading,
            fix=f'quote it: "{shown}"' if shown else "use plain names as keys",
            code="DPR106",
        )


def _scalar(node: yaml.ScalarNode, where: str) -> object:
    text: str = node.value
    if node.style is not None:
        return text
    if text in _NULLS:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for pattern, reading in _REREAD:
        if pattern.fullmatch(text):
            return Ambiguous(text, reading)
    if re.fullmatch(r"[-+]?\.inf", text, re.IGNORECASE):
        return Written(text)
    if text.lower() == ".nan":
        return Written(text)
    if _NUMBER.fullmatch(text):
        if len(text) > MAX_NUMBER:
            raise ConfigError("a number is too long", where=where, code="DPR107")
        if _INTEGER.fullmatch(text):
            return int(text)
        try:
            return Written(text)
        except InvalidOperation:
            raise ConfigError("a number is out of range", where=where, code="DPR107") from None
    return text
