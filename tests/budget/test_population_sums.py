"""What a population's ledger admits, against sums that share nothing with it.

Every random ledger has two or three datasets of one population: with and without intervals, under both
relations, composed either way. What a member loses by each debit is worked out here from the sentences of
docs/theory/composition.md, in decimals of eighty digits, with intervals counted day by day. Windows begin and
end in the middle of days, weeks and months, over the end of a year and when clocks change.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest

from dprelease.budget.ledger import Ledger
from dprelease.core.errors import BudgetError, LedgerError
from dprelease.core.periods import instant_text
from tests.budget.populations import MEMBERS, entry, joined, terms
from tests.sizes import whole

BEGIN = datetime(2023, 12, 18)
ZONES = {"dates": ZoneInfo("UTC")}
PERIODS = [
    "2023-W52",
    "2024-W01",
    "2024-02-28",
    "2024-02-29",
    "2024-W09",
    "2024-W10",
    "2024-02",
    "2024-03",
    "2024-Q1",
    "2024",
]
ORDER = ("day", "month", "quarter", "year")
MOST = {("day", "week"): 7, ("day", "month"): 31, ("day", "quarter"): 92, ("day", "year"): 366,
        ("month", "quarter"): 3, ("month", "year"): 12, ("quarter", "year"): 4}  # fmt: skip


def label(day, every):
    """Return the interval that a day lies in."""
    year, week, _ = day.isocalendar()
    return {
        "day": day,
        "week": (year, week),
        "month": (day.year, day.month),
        "quarter": (day.year, (day.month + 2) // 3),
        "year": day.year,
    }[every]


def days(asked, zone):
    """Return the days of a window, in the zone; None for one without ends."""
    if asked.window[0] is None:
        return None
    ends = [
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) for text in asked.window
    ]
    here = ZONES.get(zone) or ZoneInfo(zone)
    first = ends[0].astimezone(here).date()
    last = (ends[1] - timedelta(microseconds=1)).astimezone(here).date()
    return [first + timedelta(days=k) for k in range((last - first).days + 1)]


@dataclass
class Own:
    """The sums of one population, by themselves."""

    composition: str
    interval: str | None
    epsilon: Fraction
    delta: Fraction
    relation: str | None = None
    zone: str | None = None
    members: dict = field(default_factory=dict)
    spent: list = field(default_factory=list)

    def may_join(self, dataset):
        per, _, zone, _ = dataset
        if self.interval is None:
            return True
        within = per == self.interval or (per, self.interval) in MOST
        return per is not None and within and self.zone in (None, zone)

    def cost(self, dataset, asked):
        """Return (label or None, nano epsilon, atto delta, nano rho) per interval; None: no number."""
        per, adjacency, zone, immutable = dataset
        read, met = days(asked, zone), {None: 1}
        if per is not None:
            met = {None: None if read is None else len({label(day, per) for day in read})}
        if per is not None and self.interval is not None:
            most = MOST.get((per, self.interval), 1)
            if read is None or not immutable:  # what may have moved is counted wherever it is
                met = {None: most if read is None else min(met[None], most)}
            else:
                met = {}
                for day in read:
                    met.setdefault(label(day, self.interval), set()).add(label(day, per))
                met = {one: len(units) for one, units in met.items()}
        if None in met.values():
            return None
        twice = 2 if (self.relation, adjacency) == ("substitution", "add_remove") else 1
        parts = [(one, *self.price(asked, count * twice)) for one, count in met.items()]
        return None if any(None in part[1:] for part in parts) else parts

    def price(self, asked, count):
        """Return nano epsilon, atto delta and nano rho of so many units; None for no rho."""
        with localcontext() as context:
            context.prec = 80
            e, d = (Decimal(x.numerator) / x.denominator for x in (asked.epsilon, asked.delta))
            factor = ((e * count).exp() - 1) / (e.exp() - 1) if count > 1 else Decimal(1)
            atto = math.ceil(min(Decimal(1), d * factor) * 10**18)
            rho = None
            if asked.rho is not None:
                rho = Decimal(asked.rho.numerator) / asked.rho.denominator
            elif asked.delta == 0:
                rho = e * (1 - (-e).exp()) / (1 + (-e).exp())
            if rho is None:
                nano_rho = None if self.composition == "zcdp" else 0
            else:
                nano_rho = math.ceil(count**2 * rho * 10**9)
        return math.ceil(count * asked.epsilon * 10**9), atto, nano_rho

    def fits(self, more):
        parts = [part for release in [*self.spent, more] for part in release]
        names = {part[0] for part in parts}
        worst = [0, 0, 0]
        for name in names:
            for i in range(3):
                total = sum(part[i + 1] for part in parts if part[0] in (None, name))
                worst[i] = max(worst[i], total)
        if self.composition == "zcdp":
            return rho_worth(worst[2] / 1e9, float(self.delta)) - float(self.epsilon)
        over = worst[0] > self.epsilon * 10**9 or worst[1] > self.delta * 10**18
        return 1.0 if over else -1.0


def rho_worth(rho, delta):
    """Return the epsilon of rho-zCDP at delta: the least over orders, by a fine grid and then halving."""
    if rho == 0:
        return 0.0

    def at(x):
        a = 1 + math.exp(x)
        return a * rho + (math.log(1 / delta) - math.log(a)) / (a - 1) + math.log1p(-1 / a)

    best, step = min((i / 8 for i in range(-60, 120)), key=at), 1 / 8
    while step > 1e-9:
        best = min((best - step, best, best + step), key=at)
        step *= 0.6
    return at(best)


NEAR = {
    "week": ["day", "week"],
    "month": ["day", "month", "week"],
    "quarter": ["day", "month", "quarter"],
    "year": ["day", "month", "quarter", "year"],
}


@dataclass
class Tally:
    admitted: int = 0
    refused: int = 0
    over_admitted: int = 0
    wrongly_refused: int = 0


class Trial:
    """One random ledger beside its own sums."""

    def __init__(self, place, seed, intervals=(None,)):
        self.place, self.tally = place, Tally()
        self.rng = rng = random.Random(seed)
        by, interval = rng.choice(["basic", "zcdp"]), rng.choice(intervals)
        epsilon = Fraction(rng.randint(2, 40), rng.choice([1, 2, 3]))
        if interval not in (None, "week"):
            epsilon *= rng.choice([1, 10])
        delta = Fraction(0)
        if by == "zcdp" or rng.random() < 0.7:
            delta = Fraction(1, 10 ** rng.randint(4, 9))
        self.asked = terms(epsilon, delta=delta, composition=by, interval=interval)
        whole_nano = Fraction(math.floor(epsilon * 10**9), 10**9)
        self.own = Own(by, interval, whole_nano, Fraction(math.floor(delta * 10**18), 10**18))
        self.kinds = {}
        zones = rng.choice([["UTC"], ["UTC", "America/New_York"], ["America/New_York"], ["dates"]])
        for i in range(rng.randint(2, 3)):
            per = rng.choice(NEAR.get(interval, [None, "day", "week", "month"]))
            relation = rng.choice(["add_remove", "substitution"])
            self.kinds[f"d{i}"] = per, relation, rng.choice(zones), rng.random() < 0.8
        self.late, self.waiting = rng.choice([None, "d1"]), []

    def run(self):
        for name in self.kinds:
            if name == self.late:
                self.ledger = joined(self.place, name, None, **self.said(name))
            else:
                self.join(name, [])
        for n in range(14):
            name = self.rng.choice(list(self.kinds))
            if name in self.own.members:
                self.charge(name, self.debit(name, n))
            elif name == self.late:
                self.before_it_joins(name, self.debit(name, n))
        ledger = Ledger.open(self.place)  # also where no dataset could join
        assert ledger.verify().ok, ledger.verify().problems
        assert ledger.populations().member == dict.fromkeys(self.own.members, MEMBERS)
        return self.tally

    def said(self, name):
        words = ("per", "adjacency", "timezone", "immutable")
        return dict(zip(words, self.kinds[name], strict=True))

    def join(self, name, waiting):
        """Let a dataset join, with what it has cost already."""
        own, parts = self.own, None
        may = own.may_join(self.kinds[name]) and None not in waiting
        if may:
            parts = [part for release in waiting for part in release]
            room = own.fits(parts) if parts else -1.0
        try:
            self.ledger = joined(self.place, name, self.asked, **self.said(name))
        except (LedgerError, BudgetError) as refused:
            expected = {"DPR309"} if may else {"DPR430"}
            self.tally.wrongly_refused += refused.code not in expected
            self.tally.wrongly_refused += may and room < -1e-6 * float(own.epsilon)
            return
        self.tally.over_admitted += not may or room > 1e-9 * float(own.epsilon)
        if own.relation is None:
            _, own.relation, own.zone, _ = self.kinds[name]
        own.members[name] = self.kinds[name]
        own.spent += waiting

    def debit(self, name, n):
        rng = self.rng
        delta, rho, period = Fraction(0), None, None
        if rng.random() < 0.4:
            delta = Fraction(rng.randint(1, 99), 10 ** rng.randint(8, 12))
        if rng.random() < 0.4:
            rho = Fraction(rng.randint(1, 400), 1000)
        more = self.said(name)
        if self.kinds[name][0] is not None:
            period = rng.choice([None, *PERIODS, *PERIODS])
        if self.kinds[name][0] is not None and rng.random() < 0.5:
            more["window"] = self.window(self.kinds[name][2])
        more = {"delta": delta, "rho": rho, "period": period, **more}
        return entry(name, f"r{n}", epsilon=Fraction(rng.randint(1, 30), 20), **more)

    def window(self, zone):
        """Return a window that begins and ends anywhere; of dates: at midnights."""
        rng, ends = self.rng, []
        first = rng.randrange(95 * 24)
        for hour in (first, first + rng.choice([1, 30, 240, 800, 2000]) + rng.randrange(24)):
            midnight = zone == "dates" or rng.random() < 0.3
            here = BEGIN + timedelta(hours=hour - hour % 24 if midnight else hour)
            here += timedelta(days=hour != first and midnight)
            ends.append(here.replace(tzinfo=ZONES.get(zone) or ZoneInfo(zone)))
        return tuple(instant_text(end) for end in ends)

    def before_it_joins(self, name, one):
        self.ledger.charge(one)
        self.waiting.append(self.own.cost(self.kinds[name], one))
        if len(self.waiting) == 2:
            self.late = None
            self.join(name, self.waiting)

    def charge(self, name, one):
        cost = self.own.cost(self.kinds[name], one)
        over = 1.0 if cost is None else self.own.fits(cost)
        try:
            self.ledger.charge(one)
        except BudgetError as refused:
            self.tally.refused += 1
            self.tally.wrongly_refused += refused.code != ("DPR310" if cost is None else "DPR309")
            self.tally.wrongly_refused += over < -1e-6 * float(self.own.epsilon)
        else:
            self.tally.admitted += 1
            self.tally.over_admitted += over > 1e-9 * float(self.own.epsilon)
            self.own.spent.append(cost)


@pytest.mark.parametrize("seed", range(whole(8, 200)))
def test_own_sums_admit_and_refuse_the_same(tmp_path, seed):
    found = Trial(tmp_path / "l.db", seed).run()
    assert (found.over_admitted, found.wrongly_refused) == (0, 0)


@pytest.mark.parametrize("interval", NEAR)
@pytest.mark.parametrize("seed", range(whole(4, 100)))
def test_own_sums_of_one_interval_admit_and_refuse_the_same(tmp_path, seed, interval):
    found = Trial(tmp_path / "l.db", seed, (interval,)).run()
    assert (found.over_admitted, found.wrongly_refused) == (0, 0)


def test_the_sums_have_both_outcomes(tmp_path):
    """Control: many debits of such ledgers are refused, and many admitted."""
    found = [
        Trial(tmp_path / f"{seed}.db", seed, (None, *NEAR)).run() for seed in range(1000, 1008)
    ]
    assert sum(t.admitted for t in found) > 20
    assert sum(t.refused for t in found) > 10
