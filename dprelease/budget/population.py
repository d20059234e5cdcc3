"""One budget for each member of a population: what the releases of all its datasets cost one of them together.

Law      docs/theory/composition.md#one-member-over-all-tables. A member is k units of a dataset that a
         release can have read: one, or as many as the intervals that its window meets. The release costs
         the member what the group rule says for k (`group_rule`; k^2 rho), and releases add up over all datasets.
Relation that of the dataset that came first. Where it replaces, a dataset that adds or removes counts twice
         as many units: one member goes and another comes. Where it adds or removes, a dataset that replaces
         counts as it is: its losses cover a unit that is replaced by none, unless a size is public.
Interval a population protects whole members, or each member's rows of one interval; then k counts the units in
         it that the window meets, and intervals are told apart as those of a dataset are (`timeline`, `parallel`).
Record   an event "population" declares its terms; a later one raises the figures, and the latest counts. An
         event "member" says that a dataset joins for good, with all debits that it has. No table holds
         them. A ledger with such an event has schema version 7: software that would overlook it refuses it.
Units    epsilon and rho in nats, rounded up to nano-units, delta to atto-units; budgets are rounded down.
Limits   whom a dataset's ids name is declared, and nobody can check that two datasets hold the same people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dprelease.budget.accountant import ATTO, Cost
from dprelease.budget.exact_rho import rho_of_pure
from dprelease.budget.parallel import TimedCost, remainder
from dprelease.budget.person import group_rule, window_of_debit
from dprelease.budget.record import Budget, Declaration, check_identifier, declaration_of
from dprelease.budget.rho_filter import check_composition, spent_epsilon, worth
from dprelease.budget.timeline import ALWAYS, Instants, Timeline, timeline
from dprelease.core.codec import Stored
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import NANO, nano_up
from dprelease.core.periods import Every, known_every

VERSION = 7
"""Schema version of a ledger that holds a population."""

_DAYS = {"week": 7, "month": 31, "quarter": 92, "year": 366}
_MONTHS = {"quarter": 3, "year": 12}
_WITHIN = {"day": _DAYS, "month": _MONTHS, "quarter": {"year": 4}}
"""How many intervals of a dataset lie in one of a population, at most; no week lies in one month or year."""


Debit = tuple[Fraction, Fraction, Fraction | None, Instants, bool]
"""What is counted of a debit: its epsilon, delta and rho, the window that it reads, and whether a size is public."""

PUBLIC_SIZE = "its number of rows is public, and members of the population come and go"


class UncountableError(ValueError):
    """A release that costs a member no number that could be added up; its text says why."""


@dataclass(frozen=True, slots=True)
class Population:
    """The terms of one population's budget.

    Attributes:
        interval: None for whole members; nano_rho: of one that composes by zCDP.
        adjacency: of the dataset that came first, and the calendar of its intervals, where they count.
    """

    name: str
    nano_epsilon: int
    atto_delta: int = 0
    composition: str = "basic"
    interval: Every | None = None
    adjacency: str | None = None
    calendar: str | None = None
    nano_rho: int | None = None

    @classmethod
    def declared(
        cls,
        name: str | None,
        epsilon: object,
        delta: object = 0,
        composition: str = "basic",
        interval: str | None = None,
    ) -> Population | None:
        """Return what somebody declares, before a dataset has joined; None where neither name nor epsilon is given.

        Raises:
            ConfigError, ArgumentError: one of the two is missing (DPR675); a malformed name, number, composition
                or interval (DPR150, DPR606, DPR640, DPR650, DPR653, DPR654).
        """
        if name is None and epsilon is None:
            return None
        if name is None or epsilon is None:
            raise ArgumentError(
                f"a population and its budget are stated together: {name or 'no name'}, {epsilon or 'no budget'}",
                fix="name it in the schema, `population: NAME`, and state its epsilon beside the dataset's budget:"
                " `--population-epsilon E`, population_epsilon=E, or `population: {epsilon: E}` in a pipeline's `budget`",
                code="DPR675",
            )
        budget = Cost.stated(epsilon, delta)
        check_composition(composition, budget)
        every = None if interval is None else known_every(interval)
        return cls(check_identifier(name, "population"), 0, 0, composition, every).raised(budget)

    def raised(self, more: Cost) -> Population:
        total = self.budget + more
        nano_rho = worth(total) if self.composition == "zcdp" else None
        return replace(self, **asdict(total), nano_rho=nano_rho)

    @property
    def terms(self) -> tuple[str | None, ...]:
        """What no raise changes."""
        return self.name, self.composition, self.interval, self.adjacency, self.calendar

    @property
    def budget(self) -> Cost:
        return Cost(self.nano_epsilon, self.atto_delta)


@dataclass(frozen=True, slots=True)
class MemberLoss(Stored):
    """What the most charged member has lost by everything so far, of what budget.

    Attributes:
        tables: datasets that releases were made of; interval: whose rows of a member are meant, None for all.
        delta: spent beside epsilon; where rho adds up, the whole one.
    """

    population: str
    tables: int
    spent: Fraction
    total: Fraction
    delta: Fraction = Fraction(0)
    total_delta: Fraction = Fraction(0)
    composition: str = "basic"
    interval: str | None = None

    @property
    def member(self) -> str:
        """Whose loss it is, in words: one of the members in one week."""
        return member_words(self.population, self.interval)


def member_words(population: str, interval: str | None) -> str:
    """Return what one member of a population is called, the same by every table and everywhere."""
    return f"one of the {population}" + ("" if interval is None else f" in one {interval}")


@dataclass(slots=True)
class Populations:
    """A ledger's populations, datasets and debits: followed event by event, and asked then."""

    known: dict[str, list[Population]] = field(default_factory=dict)
    datasets: dict[str, Declaration] = field(default_factory=dict)
    member: dict[str, str] = field(default_factory=dict)
    debits: dict[str, list[Debit]] = field(default_factory=dict)

    def note(self, kind: str, body: Mapping[str, Any]) -> str | None:
        """Note one event of the chain; return what is wrong with it."""
        match kind:
            case "dataset":
                self.datasets[str(body["name"])] = declaration_of(body)
            case "debit":
                said = body["entry"]
                dataset, window = str(said["dataset"]), window_of_debit(said)
                rho = Fraction(said["rho"]) if "rho" in said else None
                sized = any("public_size" in mechanism for mechanism in said["mechanisms"])
                debit = Fraction(said["epsilon"]), Fraction(said["delta"]), rho, window, sized
                self.debits.setdefault(dataset, []).append(debit)
                return self._uncountable(self.member.get(dataset), dataset, [debit])
            case "population":
                terms = {k: v for k, v in body.items() if k not in ("kind", "nonce")}
                return self._declare(Population(**terms))
            case "member":
                dataset, name = body["dataset"], body["population"]
                why = "it has one" if dataset in self.member else self.why_apart(name, dataset)
                self.member[dataset] = name
                return None if why is None else f"gives a dataset a population: {why}"
        return None

    def why_apart(self, name: str, dataset: str) -> str | None:
        """Return why the dataset cannot join the population, None if it can."""
        terms, line = self.known[name][-1], _line(self.datasets[dataset])
        if not line.person:
            return "its unit is no person, or one of an interval without a time: how much of it a member is cannot be known"
        if terms.interval is not None and not _most(line, terms.interval):
            own = f"one {line.per}" if line.per else "all times"
            return f"its unit is a person's rows of {own}, the population's a member's of one {terms.interval}"
        if terms.calendar not in (None, line.calendar):
            return f"its intervals are not counted by the population's calendar, {terms.calendar}"
        return self._uncountable(name, dataset, self.debits.get(dataset, []))

    def timed_costs(self, name: str) -> list[TimedCost]:
        """Return what every debit of the population's datasets costs a member."""
        return [
            timed
            for dataset, population in self.member.items()
            if population == name
            for debit in self.debits.get(dataset, ())
            for timed in member_costs(self.known[name][-1], self.datasets[dataset], debit)
        ]

    def budget(self, name: str) -> Budget:
        """Return the budget, and what is left of it to the most charged member; negative where it is passed."""
        terms = self.known[name][-1]
        return remainder(terms.budget, terms.nano_rho, self.timed_costs(name), pairs=False)

    def costs_as_its_unit(self, dataset: str) -> bool:
        """Return whether every debit costs a member what it costs one unit: epsilon and delta add up, and a member is one unit."""
        if dataset not in self.member:
            return False
        terms, said = self.known[self.member[dataset]][-1], self.datasets[dataset]
        return terms.nano_rho is None and _line(said).per is None and _steps(terms, said) == 1

    def loss(self, dataset: str) -> MemberLoss | None:
        """Return what one member of the dataset's population has lost; None where it is of none."""
        name = self.member.get(dataset)
        if name is None:
            return None
        terms, now = self.known[name][-1], self.budget(name)
        tables = sum(self.member.get(other) == name for other in self.debits)
        figures = now.spent, now.epsilon, now.spent_delta, now.delta
        return MemberLoss(name, tables, *figures, terms.composition, terms.interval)

    def knows(self, dataset: str, said: MemberLoss) -> bool:
        """Return whether a member has lost here what a release of the dataset states, by as many tables, or more."""
        now = self.loss(dataset)
        if now is None or (now.member, now.composition) != (said.member, said.composition):
            return False
        spent, rho, at = now.spent, self.budget(now.population).spent_rho, said.total_delta
        if rho is not None and 0 < at < 1:  # a delta that was raised since makes less epsilon of it
            spent = spent_epsilon(int(rho * NANO), at)
        enough = spent >= said.spent and now.tables >= said.tables
        return enough and (rho is not None or now.delta >= said.delta)

    def _uncountable(self, name: str | None, dataset: str, debits: Sequence[Debit]) -> str | None:
        """Return why one of the dataset's debits cannot be counted for the population, None if all can."""
        try:
            for debit in debits if name is not None else ():
                member_costs(self.known[str(name)][-1], self.datasets[dataset], debit)
        except UncountableError as why:
            return str(why)
        return None

    def _declare(self, new: Population) -> str | None:
        before, wrong, rho = self.known.setdefault(new.name, []), None, new.nano_rho
        if before:
            old, lower = before[-1], new.nano_epsilon < before[-1].nano_epsilon
            if lower or new.atto_delta < old.atto_delta or new.terms != old.terms:
                wrong = "changes a population's terms"
            elif self.budget(new.name).over:
                wrong = "comes after debits that exceed the population's budget"
        worth_more = rho is not None and spent_epsilon(rho, new.budget.delta) > new.budget.epsilon
        if worth_more or (rho is None) != (new.composition == "basic"):
            wrong = "states more rho than the population's budget is worth"
        before.append(new)
        return wrong


def one_name(named: str | None, said: str | None) -> str | None:
    """Return a population's name, given or said by a schema; ArgumentError DPR675 if these are two."""
    if None not in (named, said) and named != said:
        raise ArgumentError(
            f"the schema says `population: {said}`, and beside it {named} is given",
            fix="leave the second out, or change the schema",
            code="DPR675",
        )
    return named or said


@lru_cache(maxsize=65_536)
def member_costs(terms: Population, dataset: Declaration, debit: Debit) -> tuple[TimedCost, ...]:
    """Return what one debit costs a member, for each stretch of time that it reads alike.

    Raises:
        UncountableError: no number bounds it, a size is public, or it has no rho and the population counts rho.
    """
    line, out = _line(dataset), []
    epsilon, delta, rho, window, sized = debit
    if sized and is_replaced_by_none(terms, dataset):
        raise UncountableError(PUBLIC_SIZE)
    if terms.nano_rho is None:
        rho = Fraction(0)
    elif rho is None and not delta:
        rho = rho_of_pure(epsilon)
    if rho is None:
        raise UncountableError(
            "an (epsilon, delta) alone has no rho, and the population counts rho"
        )
    for instants, units in _stretches(line, terms.interval, window):
        if units is None:
            raise UncountableError(
                f"a release without a period reads every {line.per} of a member, and no number bounds them"
            )
        count = units * _steps(terms, dataset)
        total, probability = group_rule(epsilon, delta, count)
        cost = Cost(nano_up(total), min(ATTO, math.ceil(probability * ATTO)))
        out.append(TimedCost(instants, cost, nano_up(count**2 * rho)))
    return tuple(out)


def _steps(terms: Population, dataset: Declaration) -> int:
    """Return how many units of the dataset tell two neighbours of the population apart, where a member is one."""
    return 2 if (terms.adjacency, dataset[0]) == ("substitution", "add_remove") else 1


def is_replaced_by_none(terms: Population, dataset: Declaration) -> bool:
    """Return whether members come and go, and the dataset's units are replaced: its losses hold while no size is public."""
    return (terms.adjacency, dataset[0]) == ("add_remove", "substitution")


@lru_cache(maxsize=65_536)
def _stretches(
    line: Timeline, interval: Every | None, window: Instants
) -> tuple[tuple[Instants, int | None], ...]:
    """Return how many units of a member a release holds in each interval of a population, by stretches of time."""
    count = 1 if line.per is None else line.met(window)
    if interval is None:
        return ((ALWAYS, count),)
    whole, most = Timeline(interval, line.zone, line.apart), _most(line, interval)
    low, high = line.instants(window)
    if low is None or high is None or most == 1:
        return ((whole.instants(window), most if count is None else min(count, most)),)
    out: list[tuple[Instants, int | None]] = []
    step = timedelta(microseconds=1)
    last, _ = whole.instants((high - step, high))
    while low < high:
        instants = whole.instants((low, low + step))
        if out and interval == "week" and last is not None and low < last:
            instants = low, last  # all weeks between the first and the last have seven days
        cut = min(instants[1] or high, high)
        count = min(line.met((low, cut)) or 0, most)
        if out and out[-1][1] == count:
            instants = out.pop()[0][0], instants[1]
        out.append((instants, count))
        low = cut
    return tuple(out)


def _most(line: Timeline, interval: Every) -> int:
    """Return how many of a dataset's units lie in one interval of a population, at most; 0 if they do not."""
    return 1 if line.per == interval else _WITHIN.get(line.per or "", {}).get(interval, 0)


@lru_cache(maxsize=1024)
def _line(dataset: Declaration) -> Timeline:
    return timeline(*dataset)
