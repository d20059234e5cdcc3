"""Random sequences of runs, crashes, changed plans and clocks, against a model of forty lines."""

from __future__ import annotations

import contextlib
import shutil
import time
from fractions import Fraction

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dprelease.budget.ledger import Ledger
from dprelease.core.errors import BudgetError, LedgerError
from tests.budget.samples import entry, key, killed_in_fork, new_ledger, release
from tests.faults.protocol import POINTS, Dying, published
from tests.faults.sizes import SEQUENCES, memory_folder

PERIODS = st.sampled_from(("2030-01", "2030-02", "2030-03"))
PLANS = st.sampled_from(("a" * 64, "b" * 64))
COSTS = st.sampled_from((Fraction(1, 10), Fraction(1, 3)))
DEBITED = set(POINTS[1:])  # the points at which the debit is durable
DRAWN = set(POINTS[5:])
OUT = set(POINTS[9:])


class Reference:
    """What the ledger should do, without files, processes or hashes."""

    def __init__(self, budget: Fraction) -> None:
        self.budget = budget
        self.plans: dict[str, tuple[str, Fraction]] = {}
        self.drawn: set[str] = set()
        self.out: set[str] = set()

    def spent(self) -> Fraction:
        return sum((entry(epsilon=e).cost.epsilon for _, e in self.plans.values()), Fraction(0))

    def charge(self, period: str, plan: str, epsilon: Fraction) -> str | None:
        """Return the code of the refusal, or None."""
        if period in self.plans:
            return None if self.plans[period] == (plan, epsilon) else "DPR410"
        if self.spent() + entry(epsilon=epsilon).cost.epsilon > self.budget:
            return "DPR301"
        self.plans[period] = (plan, epsilon)
        return None

    def run(self, period: str, plan: str, epsilon: Fraction) -> str | None:
        refused = self.charge(period, plan, epsilon)
        if refused is None:
            self.drawn.add(period)
            self.out.add(period)
        return refused

    def crash(self, period: str, plan: str, epsilon: Fraction, point: str) -> None:
        was, before = period in self.plans, period in self.drawn
        if point in DEBITED or was:
            if self.charge(period, plan, epsilon) is not None:
                return
            if before or point in DRAWN:
                self.drawn.add(period)
            if point in OUT:
                self.out.add(period)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = memory_folder()
        self.public = self.folder / "public"
        self.ledger = new_ledger(self.folder, epsilon="0.5")
        self.model = Reference(Fraction(1, 2))
        self.bytes: dict[str, bytes] = {}
        self.clock = time.time

    def teardown(self) -> None:
        time.time = self.clock
        shutil.rmtree(self.folder)

    @rule(period=PERIODS, plan=PLANS, epsilon=COSTS)
    def run(self, period, plan, epsilon) -> None:
        expected, code = self.model.run(period, plan, epsilon), None
        try:
            release(self.ledger, entry(period, plan=plan, epsilon=epsilon), self.public)
        except (BudgetError, LedgerError) as refused:
            code = refused.code
        assert code == expected

    @rule(period=PERIODS, plan=PLANS, epsilon=COSTS, point=st.sampled_from(POINTS))
    def crash(self, period, plan, epsilon, point) -> None:
        def work() -> None:
            Dying.arm(point)
            with contextlib.suppress(BudgetError, LedgerError):
                release(self.ledger, entry(period, plan=plan, epsilon=epsilon), self.public)

        died = killed_in_fork(work)
        if died:
            self.model.crash(period, plan, epsilon, point)
        else:  # the point was not passed: refused, or already done
            self.model.run(period, plan, epsilon)

    @rule(amount=st.sampled_from(("0.1", "0.25")))
    def raise_budget(self, amount) -> None:
        self.ledger.add_budget("clinic", amount)
        self.model.budget += Fraction(amount)

    @rule(years=st.sampled_from((-1, 1)))
    def move_the_clock(self, years) -> None:
        shift = years * 365 * 86400
        time.time = lambda now=self.clock: now() + shift

    @invariant()
    def agrees(self) -> None:
        ledger = Ledger.open(self.ledger.path, public=self.public)
        assert ledger.verify().ok
        assert ledger.budget("clinic").spent == self.model.spent() <= self.model.budget
        assert {row.entry.key.period for row in ledger.entries()} == set(self.model.plans)
        for period in self.model.plans:
            data = ledger.payload(key(period))
            assert (data is not None) == (period in self.model.drawn)
            if data is not None:
                assert self.bytes.setdefault(period, data) == data  # L3: never another draw
        seen = published(self.public)
        assert set(seen) == self.model.out
        for period, files in seen.items():
            assert files == ledger.files(key(period))


Machine.TestCase.settings = settings(
    max_examples=SEQUENCES,
    stateful_step_count=10,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_sequences_follow_the_model(evidence):
    Machine.TestCase("runTest").runTest()
    evidence("state machine", f"{SEQUENCES} sequences of up to 10 steps", "matches the model")
