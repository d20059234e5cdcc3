"""The most accurate private law on a small grid: a linear programme, certified in integers.

Among *all* laws on the grid with loss at most epsilon for answers at most `sensitivity` apart,
answers anywhere in the hull, this one has the smallest expected error, on average over answers or
for the worst one (up to the repair, about 1e-6). It is the yardstick of every other family.

Privacy. The law drawn is the integer table of `forms/rows.py`, certified over all pairs; the
solver only proposes (`calibration/grid_program.py`).

Place    no noise: explicit rows; form `forms/rows.py`.
Theorem  `docs/theory/kernels-and-boundaries.md#optimal-tables`;
         `docs/theory/certificates.md#explicit-rows`.
Erratum  none known.
Units    sensitivity, step, locations: the domain's unit; epsilon in nats.
Sources  `docs/theory/kernels-and-boundaries.md#optimal-tables`; the programme is the definition of pure
         differential privacy, linear in the table.
Limits   at most 64 hull points; the planner prices it only where that is quick
         (`PLANNED_PAIRS` constraints). Loss is not bounded below epsilon for smaller distances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, cast

from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Number, exact, exp_lower, positive
from dprelease.mechanisms.arguments import as_float, check_domain
from dprelease.mechanisms.calibration import grid_program as programme
from dprelease.mechanisms.forms.rows import RowLaw
from dprelease.mechanisms.law import Criterion, GridLaw, GridRequest, Loss
from dprelease.mechanisms.unit_law import GridCurves, UnitLaw, on_grid
from dprelease.schema.domain import Domain

PLANNED_PAIRS: dict[Criterion, int] = {"average": 8_000, "worst": 40_000}
"""Most constraints that `grid_laws` prices: about 0.2 s and 2 s. For averages the staircase is so
close that more would not pay; judged by the worst answer it can be 20 % off on small grids."""
_EPSILON_RANGE = (Fraction(1, 1000), Fraction(12))
"""Outside it the solver's tolerance, or the range of 44-bit weights, would show."""


@dataclass(frozen=True, slots=True)
class OptimalGrid(GridCurves):
    """The linear-programming optimum on the multiples of `step` in `domain`."""

    domain: Domain
    sensitivity: Fraction
    epsilon: Fraction
    step: Fraction
    objective: Loss = "absolute"
    criterion: Criterion = "average"

    @classmethod
    def calibrate(
        cls,
        domain: Domain,
        *,
        sensitivity: Number,
        epsilon: Number,
        step: Number = 1,
        loss: Loss = "absolute",
        criterion: Criterion = "average",
    ) -> OptimalGrid:
        """Return the optimum for `loss` (absolute or squared), by average or worst answer.

        Raises:
            ArgumentError: not a Domain (DPR629), invalid numbers (DPR605, DPR606), an unknown
                loss or criterion (DPR682), or a grid or epsilon out of range (DPR695).
        """
        check_domain(domain)
        if loss not in ("absolute", "squared") or criterion not in ("average", "worst"):
            raise ArgumentError(
                "loss is absolute or squared, criterion is average or worst",
                fix='write loss="absolute", criterion="average"',
                code="DPR682",
            )
        distance, budget = positive(sensitivity, "sensitivity"), positive(epsilon, "epsilon")
        made = cls(domain, distance, budget, positive(step, "step"), loss, criterion)
        made.on_grid()
        return made

    @property
    def scale(self) -> float:
        """sensitivity / epsilon, in the domain's unit; the table itself has no scale."""
        return as_float(self.sensitivity / self.epsilon, "sensitivity / epsilon")

    def loss(self, *, sensitivity: Number) -> float:
        """Return the certified loss for a distance up to `sensitivity`, in nats."""
        law = self.on_grid().law
        distance = max(1, int(-(-positive(sensitivity, "sensitivity") // self.step)))
        other = replace(cast("RowLaw", law), sensitivity=distance)
        return float(other.certify().epsilon_upper)

    @property
    def _grid_law(self) -> UnitLaw:
        return self.on_grid()

    def on_grid(self, step: Number | None = None) -> UnitLaw:
        """Return the certified law; `step` defaults to the mechanism's own.

        Raises:
            ArgumentError: see `unit_law.on_grid`, and DPR695.
        """
        size = self.step if step is None else exact(step, "step")

        def build(request: GridRequest) -> list[GridLaw]:
            judged = GridRequest(
                request.allowed, request.sensitivity, request.epsilon, request.loss,
                criterion=self.criterion,
            )  # fmt: skip
            _check_size(judged)
            law = _solve(judged)
            return [] if law is None else [law]

        return on_grid(
            self.domain, size, self.sensitivity, self.epsilon, build, loss=self.objective
        )

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return the optimum, where it can be priced quickly and point masses are allowed."""
        low, high = _EPSILON_RANGE
        points = request.allowed.hull_steps + 1
        if not request.point_masses or request.splits or not low <= request.epsilon <= high:
            return []
        if points > programme.POINT_LIMIT:
            return []
        if (
            programme.pairs(request.allowed, request.capped_sensitivity)
            > PLANNED_PAIRS[request.criterion]
        ):
            return []
        law = _solve(request)
        return [] if law is None else [law]

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw:
        """Rebuild the table law."""
        return RowLaw.from_json(value)


def _check_size(request: GridRequest) -> None:
    low, high = _EPSILON_RANGE
    if request.allowed.hull_steps >= programme.POINT_LIMIT or not low <= request.epsilon <= high:
        raise ArgumentError(
            "the optimal table is for small grids and moderate epsilon",
            why=f"it takes at most {programme.POINT_LIMIT} grid points and 0.001 <= epsilon <= 12",
            fix="use `staircase`, within a few percent of it, or a coarser step",
            code="DPR695",
        )


@lru_cache(maxsize=256)
def _solve(request: GridRequest) -> RowLaw | None:
    allowed = request.allowed
    slack = Fraction(1, 2**22)
    while slack < Fraction(1, 2**10):
        limit = max(1.0, float(exp_lower(request.epsilon) * (1 - 2 * slack)))
        found = programme.optimum(
            allowed, request.capped_sensitivity, limit, request.loss, request.criterion
        )
        if found is None:
            return None
        outputs, rows = programme.integer_rows(found[0], request, slack)
        law = RowLaw(
            allowed, request.sensitivity, request.epsilon, request.loss, "optimal_grid",
            tuple(range(allowed.lower, allowed.upper + 1)),
            tuple(allowed.points()[outputs].tolist()),
            tuple(tuple(row) for row in rows),
        )  # fmt: skip
        if law.certify().epsilon_upper <= request.epsilon:
            return law
        slack *= 8
    return None
