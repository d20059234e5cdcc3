"""The options of a statistic that is written as a mapping: their names, and a reader of each.

Units: domains, steps and errors in the statistic's unit; a share is a part of epsilon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import Number, exact, plain
from dprelease.query.arguments import syntax_of, syntaxes
from dprelease.schema.domain import Domain
from dprelease.schema.model_values import STATISTIC_OPTIONS
from dprelease.schema.naming import did_you_mean, is_shown, quoted
from dprelease.schema.paths import read_keys
from dprelease.schema.release_spec import StatisticSpec

OPTIONS = tuple(STATISTIC_OPTIONS)
DOMAIN = tuple(STATISTIC_OPTIONS["domain"]["properties"])
"""The keys of the option `domain`."""
MAX_NOTE = 500
MAX_TITLE = 200
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Options:
    """Readers of one mapping's options; None counts as not given.

    Every reader raises ConfigError for a faulty value (DPR135; an unknown key of a domain: DPR110).
    """

    item: Mapping[object, object]
    origin: str
    lines: Mapping[str, str]

    def _fail(self, key: str, what: str, fix: str) -> NoReturn:
        raise ConfigError(what, where=self.lines.get(key, self.origin), fix=fix, code="DPR135")

    def _positive(self, key: str) -> Fraction | None:
        value = self.item.get(key)
        if value is None:
            return None
        try:
            number = exact(value, key)
        except ArgumentError:
            number = Fraction(0)
        if (
            not isinstance(number, Fraction) or not 0 < number <= 10**300
        ):  # planned with as a double
            self._fail(key, f"`{key}` must be a finite number above 0", f"e.g. `{key}: 0.5`")
        return number

    def name(self) -> str | None:
        value = self.item.get("as")
        if value is None:
            return None
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            self._fail(
                "as",
                "`as` must be a plain name",
                "letters, digits and underscores, not starting with a digit, at most 63",
            )
        return value

    def share(self) -> Fraction | None:
        share = self._positive("share")
        if share is not None and share > 1:
            self._fail("share", "`share` is more than 1", "a share is a part of epsilon: 0 to 1")
        return share

    def weight(self) -> Fraction:
        if isinstance(self.item.get("weight"), str):
            self._fail(
                "weight",
                "`weight` is a number that steers the budget, not a column of weights",
                "a weighted statistic is asked for with `weighted_by: COLUMN`",
            )
        weight = self._positive("weight")
        return Fraction(1) if weight is None else weight

    def max_error(self) -> Fraction | None:
        return self._positive("max_error")

    def expected(self, function: str) -> Fraction | None:
        value = self.item.get("expected")
        if value is None:
            return None
        syntax = syntax_of(function)
        if syntax is None or not syntax.guess:
            self._fail(
                "expected",
                f"`expected` is a guess of a correlation, not of `{function}`",
                "remove it; for `std` and others guess the column's: `expected: {sd: 12}`",
            )
        try:
            number = exact(value, "expected")
        except ArgumentError:
            number = Fraction(2)
        if not isinstance(number, Fraction) or not -1 <= number <= 1:
            self._fail("expected", "a correlation lies in [-1, 1]", "e.g. `expected: 0.6`")
        return number

    def accurate_for(self, function: str) -> str | None:
        if self.item.get("accurate_for") is None:
            return None
        syntax = syntax_of(function)
        if syntax is None or not syntax.accurate_for:
            self._fail(
                "accurate_for",
                f"`accurate_for` is an option of a histogram, not of `{function}`",
                'write {statistic: "histogram(age, [0, 20, 40, 60])", accurate_for: ranges}, or leave it out',
            )
        return self.choice("accurate_for", syntax.accurate_for, "")

    def _truth(self, key: str) -> bool:
        value = self.item.get(key)
        if value is not None and not isinstance(value, bool):
            self._fail(key, f"`{key}` is true or false", f"`{key}: true`")
        return bool(value)

    def interval(self, function: str) -> bool:
        value = self._truth("interval")
        syntax = syntax_of(function)
        if value and (syntax is None or not syntax.interval):
            self._fail(
                "interval",
                f"`interval` is an option of quantiles, not of `{function}`",
                "leave it out: other statistics have one without it, a least or greatest value has none",
            )
        return value

    def certain(self, function: str) -> bool:
        value = self._truth("certain")
        syntax = syntax_of(function)
        if value and (syntax is None or not syntax.certain):
            known = ", ".join(name for name, form in syntaxes().items() if form.certain)
            self._fail(
                "certain",
                f"`{function}` has no certain interval",
                f"{known} have one; what is computed from them has one by `derive(…, certain=True)`",
            )
        others = ("mechanism", "accurate_for", "spikes")
        other = next((o for o in others if value and self.item.get(o) not in (None, "allow")), None)
        if other is not None:
            self._fail(
                "certain",
                f"`certain` and `{other}` both say how the noise is drawn",
                "keep one of the two",
            )
        return value

    def where(self, text: str, where: str) -> tuple[str, str]:
        """Return a statistic's text and the condition on its rows: of the text, or of the option."""
        value = self.item.get("where")
        if value is None:
            return text, where
        if not isinstance(value, str) or not value.strip() or where:
            what = "`where` is one condition on the rows of its statistic"
            self._fail("where", what, "where: \"sex = 'f'\"")
        return text, value.strip()

    def winsorize(self, function: str) -> tuple[str, str] | None:
        """Return the statistic that is meant and the share at each end as a text; None without the option."""
        share = self._positive("winsorize")
        if share is None:
            return None
        syntax = syntax_of(function)
        if syntax is None or not syntax.winsorised:
            known = (name for name, form in syntaxes().items() if form.winsorised)
            self._fail(
                "winsorize",
                f"`{function}` has no winsorised form",
                f"one of {', '.join(known)} has",
            )
        return syntax.winsorised, str(plain(share))

    def weighted_by(self, function: str, arguments: tuple[str, ...]) -> tuple[str, str] | None:
        """Return the statistic that is meant and its column of weights as a text; None without the option."""
        column = self.item.get("weighted_by")
        if column is None:
            return None
        if not isinstance(column, str) or not column.strip():
            self._fail(
                "weighted_by", "`weighted_by` is the name of a column", "`weighted_by: weight`"
            )
        if self.item.get("winsorize") is not None:
            self._fail(
                "weighted_by",
                "a statistic is winsorised or weighted, not both",
                "narrow the ranges of both columns in the schema",
            )
        syntax = syntax_of(function)
        if syntax is None or not syntax.weighted or not syntax.arguments.weighable(arguments):
            known = ", ".join(name for name, form in syntaxes().items() if form.weighted)
            said = ", ".join(arguments)
            self._fail(
                "weighted_by",
                f"`{function}{f'({said})' if said else ''}` has no weighted form",
                f"{known} of rows have one; a ratio of two sums is ratio(a, b)",
            )
        return syntax.weighted, quoted(column.strip())

    def with_edges(self, text: str) -> str:
        """Return a statistic's text with the edges of the file that is named, if one is."""
        path = self.item.get("edges_from")
        if path is None:
            return text
        origin, body = self.lines.get("edges_from", self.origin), text.strip()
        if not isinstance(path, Path) or not re.fullmatch(r"\w+\([^,\[]+\)", body):
            self._fail(
                "edges_from",
                "`edges_from` is a file of a histogram's edges, and the histogram is of a column alone",
                '{statistic: "histogram(income)", edges_from: edges.csv}',
            )
        edges = ", ".join(edge for (edge,) in read_keys(path, ("edge",), origin))
        return f"{body[:-1]}, [{edges}])"

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        value = self.item.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or value not in allowed:
            self._fail(key, f"`{key}` is one of {', '.join(allowed)}", f"`{key}: {allowed[0]}`")
        return value

    def mechanism(self) -> str | None:
        value = self.item.get("mechanism")
        if value is None:
            return None
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            self._fail("mechanism", "`mechanism` must be a name", "e.g. `mechanism: staircase`")
        return value

    def note(self) -> str | None:
        value = self.item.get("note")
        if value is None:
            return None
        if not isinstance(value, str) or not 0 < len(value) <= MAX_NOTE:
            self._fail("note", f"`note` is a text of at most {MAX_NOTE} characters", "quote it")
        return value

    def title(self) -> str | None:
        value = self.item.get("title")
        if value is None:
            return None
        if not isinstance(value, str):
            self._fail("title", "`title` is a text", "quote it")
        if not is_shown(value) or not value.strip() or len(value) > MAX_TITLE:
            what = f"`title` is one line of 1 to {MAX_TITLE} characters, not all of them blanks"
            self._fail("title", what, "write one line, or leave `title` out")
        return value

    def max_rows(self) -> int | None:
        value = self.item.get("max_rows_per_group")
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            self._fail(
                "max_rows_per_group",
                "`max_rows_per_group` must be a whole number of at least 1",
                "`max_rows_per_group: 1`",
            )
        return value

    def domain(self) -> tuple[Domain | None, Fraction | None]:
        value = self.item.get("domain")
        if value is None:
            return None, None
        if not isinstance(value, Mapping):
            self._fail("domain", "`domain` is a mapping", "`domain: {range: [0, 100]}`")
        for key in value:
            if key not in DOMAIN:
                fix = did_you_mean(str(key), DOMAIN, f"known keys: {', '.join(DOMAIN)}")
                raise ConfigError(
                    f"unknown key `{key}`",
                    where=self.lines.get("domain", self.origin),
                    fix=fix,
                    code="DPR110",
                )
        step = Options({"step": value.get("step")}, self.origin, {"step": self._line()})
        return self._range(value), step._positive("step")

    def _line(self) -> str:
        return self.lines.get("domain", self.origin)

    def _range(self, value: Mapping[object, object]) -> Domain | None:
        ends, gaps = value.get("range"), value.get("forbidden")
        if ends is None and not gaps:
            return None
        if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
            self._fail("domain", "a domain needs `range` with two ends", "`range: [0, 100]`")
        gaps = [] if gaps is None else gaps
        if not isinstance(gaps, Sequence) or isinstance(gaps, str):
            self._fail("domain", "`forbidden` is a list of pairs", "`forbidden: [[40, 60]]`")
        for gap in gaps:
            if not isinstance(gap, Sequence) or isinstance(gap, str) or len(gap) != 2:
                self._fail("domain", "`forbidden` is a list of pairs", "`forbidden: [[40, 60]]`")
        try:
            domain = Domain(ends[0], ends[1], forbidden=gaps)
        except ArgumentError as error:
            raise ConfigError(
                error.what, where=self._line(), why=error.why, fix=error.fix, code="DPR135"
            ) from None
        if not domain.is_finite:
            self._fail("domain", "a statistic's domain is finite", "give both ends a number")
        self._forbid_inside(gaps, domain.hull)
        return domain

    def _forbid_inside(self, gaps: Sequence[Sequence[Number]], hull: tuple[float, float]) -> None:
        """Refuse forbidden intervals that forbid nothing: one was a slip of the pen, and unnoticed."""
        for low, high in gaps:
            if float(high) <= hull[0] or float(low) >= hull[1]:
                self._fail(
                    "domain",
                    f"the forbidden interval ({low}, {high}) lies outside the range",
                    "take it out, or widen the range",
                )


def not_certain(certain: StatisticSpec, delta: Fraction) -> ConfigError:
    """Return why nothing can pay for noise that ends."""
    what, why = "under zcdp", "noise that ends has no rho, so that no budget of rho can pay for it"
    fix = "leave `certain` out, or release from a dataset whose budget adds up epsilon and delta"
    if delta == 0:
        what = "without a delta"
        why = "noise that ends says more than epsilon allows with a small probability, the delta"
        fix = "declare e.g. `delta: 0.000001`, or leave `certain` out"
    return ConfigError(
        f"{certain.text} cannot be certain {what}",
        where=certain.origin,
        why=why,
        fix=fix,
        code="DPR135",
    )
