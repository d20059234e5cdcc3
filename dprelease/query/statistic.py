"""Statistics as text: `mean(age)`, `histogram(hour, [0, 6, 12, 18, 24])`, or a mapping of options.

Only the form is checked here; `dprelease.query.merge` and `.spec` check names and kinds against a schema.
Arguments are texts: an unquoted column, a condition as written, a quantile's p, a histogram's edges.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import islice, permutations
from typing import NoReturn

from dprelease.core.errors import ConfigError, PlanError
from dprelease.core.numeric import edges_text, plain
from dprelease.core.patience import tick
from dprelease.core.strict_json import json_text
from dprelease.query.arguments import NumberColumn, RequestContext, syntax_of, syntaxes, unquoted
from dprelease.query.statistic_options import DOMAIN, OPTIONS, Options
from dprelease.schema.column import NUMERIC, Column, Kind
from dprelease.schema.domain import Domain
from dprelease.schema.naming import nearest, plain_letters, quoted
from dprelease.schema.release_spec import ReleaseSpec, StatisticSpec
from dprelease.schema.synonyms import STATISTICS, meant
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import EdgeUnit

MAX_TEXT = 4096
_MOST_TRIED = 1000
"""Choices of columns that are tried as an example."""
MAX_LISTED = 2**20
"""Characters of a text with a list: the edges of a histogram."""
_SYMBOLS = {
    ">=": " ge ",
    "<=": " le ",
    "!=": " ne ",
    "<>": " ne ",
    "==": " eq ",
    ">": " gt ",
    "<": " lt ",
    "=": " eq ",
    "+": " plus ",
    "*": " times ",
    "/": " over ",
    "%": " mod ",
}


def parse_statistics(
    items: Sequence[object],
    *,
    origin: str,
    lines: Mapping[tuple[str | int, ...], str] | None = None,
    schema: TableSchema | None = None,
) -> tuple[StatisticSpec, ...]:
    """Parse a list of statistics and refuse two with one published name.

    Args:
        items: texts or mappings.
        origin: `file:line` of the list.
        lines: place relative to the list, `(2, "as")`, to `file:line`.
        schema: for the columns that a refusal names.

    Raises:
        ConfigError: as `parse_statistic`, or a name is used twice (DPR134).
    """
    lines = lines or {}
    specs: list[StatisticSpec] = []
    for i, item in enumerate(items):
        where = lines.get((i,), f"{origin}, item {i + 1}")
        if isinstance(item, str) and _open_brackets(item) > 0:
            _comma_split([str(x) for x in items[i:] if isinstance(x, str | int | float)], where)
        below = {str(k[1]): v for k, v in lines.items() if len(k) == 2 and k[0] == i}
        spec = parse_statistic(item, origin=where, lines=below, schema=schema)
        taken = next((s for s in specs if s.name == spec.name), None)
        if taken is not None:
            raise ConfigError(
                f"two statistics are published as `{spec.name}`",
                where=spec.origin,
                why=f"the other one stands at {taken.origin}",
                fix=f'give one a name of its own: {{statistic: "{spec.text}", as: OTHER_NAME}}',
                code="DPR134",
            )
        specs.append(spec)
    return tuple(specs)


def parse_statistic(
    item: object,
    *,
    origin: str,
    lines: Mapping[str, str] | None = None,
    schema: TableSchema | None = None,
) -> StatisticSpec:
    """Parse one statistic, a text or a mapping with the key `statistic`.

    Args:
        item: `mean(age)`, or `{statistic: mean(age), as: …, domain: …, share: …, weight: …,
            max_error: …, expected: …, accurate_for: …, spikes: allow|forbid, mechanism: …,
            max_rows_per_group: …, certain: …, where: …, winsorize: …, weighted_by: …, edges_from: …}`.
        origin: `file:line`.
        lines: option name to `file:line`.
        schema: as in `parse_statistics`.

    Raises:
        ConfigError: syntax (DPR130), unknown statistic (DPR131), a comma split by YAML (DPR132),
            wrong arguments (DPR133), faulty option (DPR135), unknown option (DPR110).
    """
    tick()
    if isinstance(item, str):
        text, where = split_where(item) if "where" in item else (item, "")
        function, arguments = _call(text, origin, schema)
        name = _default_name(function, arguments, where)
        return StatisticSpec(item.strip(), function, arguments, name, where=where, origin=origin)
    if not isinstance(item, Mapping):
        raise ConfigError(
            "a statistic is a text or a mapping",
            where=origin,
            fix=f"write e.g. {_example(schema)}",
            code="DPR130",
        )
    return _from_mapping(item, origin, lines or {}, schema)


def _from_mapping(
    item: Mapping[object, object],
    origin: str,
    lines: Mapping[str, str],
    schema: TableSchema | None,
) -> StatisticSpec:
    text = item.get("statistic")
    for key in item:
        if isinstance(text, str) and _open_brackets(text) > 0 and str(key).endswith(")"):
            _comma_split([text, str(key)], lines.get("statistic", origin))
        if key not in OPTIONS:
            raise _unknown_key(str(key), item[key], lines.get(str(key), origin))
    if not isinstance(text, str):
        raise ConfigError(
            "a statistic's mapping needs the key `statistic` with a text",
            where=lines.get("statistic", origin),
            fix=f"write e.g. {{statistic: {_example(schema)}, as: NAME}}",
            code="DPR130",
        )
    options = Options(item, origin, lines)
    text, where = options.where(*split_where(text))
    text = options.with_edges(text)
    function, arguments = _call(text, lines.get("statistic", origin), schema)
    winsorised = options.winsorize(function)
    if winsorised is not None:  # another statistic, under its own name
        text = f"{winsorised[0]}{text.strip()[len(function) :].rstrip()[:-1]}, {winsorised[1]})"
        function, arguments = _call(text, lines.get("winsorize", origin), schema)
    weighted = options.weighted_by(function, arguments)
    if weighted is not None:  # likewise
        first = text.strip()[len(function) :].strip()[1:-1] if arguments else ""
        text = f"{weighted[0]}({', '.join(filter(None, (first, weighted[1])))})"
        function, arguments = _call(text, lines.get("weighted_by", origin), schema)
    domain, step = options.domain()
    return StatisticSpec(
        text=f"{text.strip()} where {where}" if where else text.strip(),
        function=function,
        arguments=arguments,
        where=where,
        name=options.name() or _default_name(function, arguments, where),
        domain=domain,
        step=step,
        share=options.share(),
        weight=options.weight(),
        max_error=options.max_error(),
        spikes=options.choice("spikes", ("allow", "forbid"), "allow") == "allow",
        mechanism=options.mechanism(),
        max_rows=options.max_rows(),
        note=options.note(),
        title=options.title(),
        interval=options.interval(function),
        certain=options.certain(function),
        expected=options.expected(function),
        accurate_for=options.accurate_for(function),
        origin=origin,
    )


def _unknown_key(name: str, value: object, where: str) -> ConfigError:
    """Return the refusal of a key that a statistic does not have, with the nearest one."""
    if _open_brackets(name) > 0:
        _comma_split([name, "…"], where)
    near = nearest(name, (*OPTIONS, *DOMAIN))
    guess = f"did you mean `{near}`?" if near else f"known keys: {', '.join(OPTIONS)}"
    within = near if near in DOMAIN else name
    return ConfigError(
        f"unknown key `{name}`",
        where=where,
        fix=f"it is part of the domain: `domain: {{{within}: {str(value)[:60]}}}`"
        if within in DOMAIN
        else guess,
        code="DPR110",
    )


def split_where(text: str) -> tuple[str, str]:
    """Return a statistic's text without the condition on its rows, and that.

    >>> split_where("mean(age) where sex = 'f'"), split_where("proportion(a = ' where ')")
    (('mean(age)', "sex = 'f'"), ("proportion(a = ' where ')", ''))
    """
    for found in re.finditer(r"\swhere\s", text):
        if _open_brackets(text[: found.start()]) == 0:
            return text[: found.start()].strip(), text[found.end() :].strip()
    return text, ""


def _example(
    schema: TableSchema | None, function: str = "mean(age)", given: Sequence[str] = ()
) -> str:
    """Return a statistic in quotes that works as it stands: of what is given where that fits, of the schema's columns, else of new ones."""
    syntax = syntax_of(function.partition("(")[0])
    assert syntax is not None  # its name is known
    edge = schema.unit if schema and isinstance(schema.unit, EdgeUnit) else None
    if schema is None or syntax.arguments.of_edges != bool(edge):
        return f'"{syntax.example}"'
    name, _, inside = syntax.example.partition("(")
    slots = split_arguments(inside[:-1], "")
    named = [found[0] for slot in slots if (found := re.match(r"[a-z]\w*", slot))]
    new = {n: Column(n, Kind.number, Domain(1, 100), Fraction(1)) for n in named}
    whole = replace(schema, columns={**new, **schema.columns})
    context = RequestContext(whole, ReleaseSpec((), Fraction(1)), None)
    first = unquoted(given[0]) if given else ""
    known = sorted(schema.columns.values(), key=lambda c: (c.name != first, c.kind not in NUMERIC))
    known += [column for column in new.values() if column.name not in schema.columns]
    known = [Column(label, Kind.node) for label in edge.node_labels[:1]] if edge else known
    for kept in (given[: syntax.most], ()):
        for chosen in islice(permutations(known, len(named)), _MOST_TRIED):
            left = iter(chosen)
            made = [
                slot
                if slot[0].isdigit()
                else _argument(slot, chosen[0] if slot[0] == "[" else next(left))
                for slot in slots
            ]
            made[: len(kept)] = kept
            text = f"{name}({', '.join(made)})" if made else name
            try:
                read = syntax.arguments.read(tuple(made), "")
                spec = syntax.arguments.check(StatisticSpec(text, name, read, ""), whole)
                syntax.arguments.resolve(spec, context)
            except (ConfigError, PlanError):
                continue
            shown = f"'{text}'" if '"' in text else f'"{text}"'
            shown = f"{{statistic: {shown}, {syntax.option}}}" if syntax.option else shown
            number = "{kind: number, range: [1, 100]}"
            declared = [f"`{c.name}: {number}`" for c in chosen if new.get(c.name) is c]
            return shown + f", and declare {' and '.join(declared)}" * bool(declared)
    return f'"{syntax.example}"'


def _argument(slot: str, column: Column) -> str:
    """Return an example's argument of another column: `age`, `age > 65`, `[0, 20, 40]`."""
    name, ends = quoted(column.name), column.domain
    if ends is not None and ends.is_finite and column.step is not None:
        low, high = column.grid.lower, column.grid.upper
        points = [point * column.step for point in (low, (low + high) // 2, high)]
        if slot[0] == "[":
            return edges_text(points)
        return f"{name} > {plain(points[1])}" if ">" in slot else name
    label = column.values[0].replace("'", "''") if column.values and ">" in slot else None
    return name if label is None else f"{name} = '{label}'"


def _call(text: str, origin: str, schema: TableSchema | None = None) -> tuple[str, tuple[str, ...]]:
    """Return the function and its arguments' texts."""
    body = text.strip()
    most = MAX_LISTED if "[" in text else MAX_TEXT
    if len(text) > most:
        raise ConfigError(
            "a statistic is too long",
            where=origin,
            why=f"it has {len(text):,} characters, and at most {most:,} are read",
            fix=f"write a function of a column, e.g. {_example(schema)}",
            code="DPR130",
        )
    if _open_brackets(body) > 0:
        _comma_split([body, "…"], origin)
    found = re.fullmatch(r"([A-Za-z_]\w*)\s*(?:\((.*)\))?", body, re.DOTALL)
    if found is None:
        asked, named, name = re.sub(r"\s+(?i:as)\s+(\w+)$", r"\n\1", body).partition("\n")
        raise ConfigError(
            f"`{body[:60]}` is not a statistic",
            where=origin,
            fix=f"write {{statistic: {json_text(asked)}, as: {name}}}"
            if named
            else f"write a name and its arguments: {_example(schema)}",
            code="DPR130",
        )
    function, inside = found.group(1), found.group(2)
    syntax = syntax_of(function)
    if syntax is None:
        known = tuple(syntaxes())
        near = meant(function, STATISTICS) or nearest(function, known, alike=0.7)  # sem is no sum
        near = near or nearest(function.rpartition("_")[0], known)
        raise ConfigError(
            f"unknown statistic `{function}`",
            where=origin,
            fix=f"did you mean `{near}`?" if near else f"available: {', '.join(known)}",
            code="DPR131",
        )
    arguments = () if inside is None else split_arguments(inside, origin)
    if not syntax.least <= len(arguments) <= syntax.most:
        column = schema.columns.get(unquoted(arguments[0])) if schema and arguments else None
        takes, why = syntax.arguments, None
        if column is not None and isinstance(takes, NumberColumn) and not takes.fits(column):
            why = f"nor a column of kind {column.kind}; {takes.instead(column)}"
        raise ConfigError(
            f"`{function}` takes {syntax.arity}, not {len(arguments)}",
            where=origin,
            why=why,
            fix=f"write e.g. {_example(schema, function, arguments)}",
            code="DPR133",
        )
    try:
        return function, syntax.arguments.read(arguments, origin)
    except ConfigError as refused:
        fix = refused.fix or f"write e.g. {_example(schema, function, arguments)}"
        raise refused.from_error(refused, fix=fix) from None


@lru_cache(maxsize=64)
def split_arguments(text: str, origin: str) -> tuple[str, ...]:
    """Split at commas outside brackets and quotes; no text gives no arguments."""
    parts, depth, quote, current = [], 0, "", ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        if char == "," and depth == 0 and not quote:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    parts.append(current.strip())
    if parts == [""]:
        return ()
    if depth != 0 or quote or "" in parts:
        raise ConfigError(
            "a statistic's arguments are not well formed",
            where=origin,
            why="a bracket or quote is not closed, or an argument is empty",
            fix="close it, or write a column's name with such signs in quotes: mean(\"it's\")",
            code="DPR130",
        )
    return tuple(parts)


def _open_brackets(text: str) -> int:
    bare = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    return bare.count("(") - bare.count(")")


def _comma_split(pieces: list[str], where: str) -> NoReturn:
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += f", {piece}"
        if _open_brackets(whole) <= 0:
            break
    if _open_brackets(whole) > 0:
        whole = whole.removesuffix(", …") + ", …)"
    raise ConfigError(
        f"`{pieces[0]}` is not closed: YAML split it at a comma",
        where=where,
        why="inside [ ] and { } a comma ends an unquoted text",
        fix=f'put quotes around it: "{whole}"',
        code="DPR132",
    )


def _default_name(function: str, arguments: tuple[str, ...], where: str = "") -> str:
    """Return a safe identifier for the published column."""
    syntax = syntax_of(function)
    text = " ".join(
        [function, *(arguments if syntax is None else syntax.arguments.named(arguments))]
        + (["where", where] if where else [])
    )
    for symbol, word in _SYMBOLS.items():
        text = text.replace(symbol, word)
    text = plain_letters(text)
    return re.sub(r"[^A-Za-z0-9]+", "_", text.replace("_", " ")).strip("_")[:63].strip("_")
