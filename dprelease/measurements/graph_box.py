"""The draw of count bounded cells by one bounded Gaussian law over their box.

lambda_2 of a graph and degrees of its nodes move together when an edge appears, so nothing is gained
by looking at them apart: the loss of the block is at most the sum over the cells of their own
certified losses, each at the most that its cell can move (`mechanisms.certifiers.box_gaussian`). All
cells have one common scale in the box's unit. Outputs lie in the box and have no point masses.

Units: grid steps of each cell, cell i stands for steps[i] times itself. Shapes: `(1, cells)`.
Sources: Chen & Hale, "The Bounded Gaussian Mechanism for Differential Privacy" (their Table 1);
certificate: `docs/theory/certificates.md#boxes`;
sensitivities: `docs/theory/graphs-and-spectra.md#laplacian-eigenvalues`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt

from dprelease.core.codec_notes import Note
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import ranking, shown
from dprelease.measurements.base import Claim, MeasurementFamily
from dprelease.measurements.candidate import Candidate, Option, Pricing
from dprelease.measurements.law import Law, Objects, underclaimed
from dprelease.measurements.members import Loss, Member
from dprelease.mechanisms.certifiers.box_gaussian import BoundedGaussianBoxLaw
from dprelease.mechanisms.law import GridRequest, grid_laws
from dprelease.query.spec import Query
from dprelease.schema.domain import Box, Domain
from dprelease.statistics.base import Floats, Reading
from dprelease.statistics.graph import Connectivity, Degree, graph_box, one_cell
from dprelease.statistics.graph_sensitivity import OBSERVED
from dprelease.statistics.measurement import Measurement
from dprelease.statistics.sensitivity import Sensitivity


@dataclass(frozen=True, slots=True)
class GraphBoxLaw(Law):
    """One point of a box per group; `law.steps[i]` is the step size of cell i."""

    tag: ClassVar[str] = "box"

    law: BoundedGaussianBoxLaw
    mechanism: Annotated[str, Note.unstored] = "bounded_gaussian"

    @classmethod
    def calibrate(
        cls,
        domains: Sequence[Domain],
        step_sizes: Sequence[Fraction],
        linf: Sequence[int],
        epsilon: Fraction,
    ) -> GraphBoxLaw:
        """Return the draw of (nearly) smallest common scale whose certificate is within `epsilon`.

        Args:
            domains: of the cells, in their units; step_sizes: unit of one grid step.
            linf: the sensitivity of every component by itself, in grid steps.

        Raises:
            ArgumentError: an infinite side (DPR603), a grid that is too fine (DPR622) or without points (DPR604).
        """
        box, steps = Box(list(domains)), tuple(step_sizes)
        per_coordinate = tuple(k * g for k, g in zip(linf, steps, strict=True))
        start = 0.3 * _scale(
            domains, per_coordinate, epsilon
        )  # too narrow: it is widened until proved
        law = BoundedGaussianBoxLaw.calibrate(
            box, steps, None, per_coordinate, epsilon, (start,) * len(steps)
        )
        return cls(law)

    @classmethod
    def decided(cls, law: Any) -> Any:
        """Return what the request decides of it: the sides share their epsilon by floating point."""
        if not isinstance(law, Mapping) or law.get("draw") != cls.tag:
            return law
        sides = [{k: v for k, v in dict(s).items() if k != "epsilon"} for s in law["law"]["laws"]]
        box = Law.decided(law["law"]) | {"laws": [Law.decided(side) for side in sides]}
        return Law.decided(law) | {"law": box}

    def certify(self, sensitivity: Sensitivity) -> Fraction:
        law, linf = self.law, sensitivity.linf_per_component
        if law.l2 is not None or not linf or len(linf) != len(law.laws):
            raise underclaimed("sensitivity")
        if min(law.steps) <= 0:
            raise underclaimed("step")
        for stated, needed, part in zip(law.moved, linf, law.laws, strict=True):
            if stated < min(needed, part.allowed.hull_steps):
                raise underclaimed("sensitivity")
        return law.certify().epsilon_upper

    def draw(self, exact: Objects, bits: RandomBits) -> Objects:
        out = np.empty(exact.shape, dtype=object)
        for i, law in enumerate(self.law.laws):
            low, high = law.allowed.lower, law.allowed.upper
            answers = np.array([min(max(int(c), low), high) for c in exact[:, i]], dtype=np.int64)
            out[:, i] = law.draw_raw(answers, bits).astype(object)
        return out

    def _values(self, steps: npt.NDArray[np.int64], i: int) -> Floats:
        num, den = self.law.steps[i].as_integer_ratio()
        return np.asarray(steps.astype(np.float64) * num / den)

    def cells(self, raw: Objects) -> Floats:
        parts = [self._values(raw[:, i].astype(np.int64), i) for i in range(raw.shape[1])]
        return np.stack(parts, axis=1)

    def box(self, raw: Objects, level: float) -> tuple[Floats, Floats]:
        low, high = np.empty(raw.shape), np.empty(raw.shape)
        for i, law in enumerate(self.law.laws):
            ends = law.interval(raw[:, i].astype(np.int64), level)
            # half a step more: an eigenvalue was rounded to the grid before the draw
            half = 0.0 if self.law.steps[i] == 1 else float(self.law.steps[i]) / 2
            low[:, i] = self._values(ends[0], i) - half
            high[:, i] = self._values(ends[1], i) + half
        return low, high

    def drawable(self, raw: Objects) -> npt.NDArray[np.bool_]:
        inside = np.ones(raw.shape[0], dtype=bool)
        for i, law in enumerate(self.law.laws):
            inside &= law.allowed.contains(raw[:, i].astype(np.int64))
        return inside

    def published_step(self, member: Member) -> Fraction:
        return self.law.steps[member.view or 0]

    def own_errors(self, members: Sequence[Member], loss: Loss) -> tuple[float, ...]:
        del members  # one per cell
        return tuple(average for average, _ in box_errors(self, loss))

    def evidence(self) -> dict[str, Any]:
        return {"law": self.law.certificate.to_json(), "groups_charged": 1}


def _scale(domains: Sequence[Domain], moves: Sequence[Fraction], epsilon: Fraction) -> float:
    """Return a scale that is enough: the sum of the sides' c w / scale^2 is epsilon."""
    total = 0.0
    for domain, move in zip(domains, moves, strict=True):
        if not domain.is_finite:
            raise ArgumentError(
                "a box has finite sides", fix="declare finite domains", code="DPR603"
            )
        width = float(domain.width)
        total += width * min(float(move), width)
    return math.sqrt(max(total, 2.0**-40) / float(epsilon))


def box_errors(whole: GraphBoxLaw, loss: str) -> tuple[tuple[float, float], ...]:
    """Return the (average, worst) expected error per cell, in its unit (or its square)."""
    out = []
    for law, step in zip(whole.law.laws, whole.law.steps, strict=True):
        error = law.table.expected_error(loss)  # type: ignore[arg-type]
        unit = float(step) if loss == "absolute" else float(step) ** 2
        out.append((error.average * unit, error.worst * unit))
    return tuple(out)


class GraphBox(MeasurementFamily):
    """lambda_2 of a graph and degrees of nodes, each bounded by itself."""

    family = "graph_box"
    draws = ("box",)
    forms = ("graph_box",)
    mechanisms = ("bounded_gaussian",)
    one_law = True

    def priced(self, pricing: Pricing) -> list[Candidate]:
        """Return one bounded Gaussian law over the members' domains, in the order of the cells."""
        members = pricing.block.members
        step_sizes = (pricing.measurement.step_size, *([Fraction(1)] * (len(members) - 1)))
        each = pricing.sensitivity.linf_per_component
        law = GraphBoxLaw.calibrate([m.domain for m in members], step_sizes, each, pricing.epsilon)
        if pricing.only_as and not pricing.only_as.errors:
            none = (0.0,) * len(members)
            return [Candidate(pricing.measurement, law, none, none)]
        average, worst = zip(*box_errors(law, pricing.loss), strict=True)
        return [Candidate(pricing.measurement, law, average, worst)]

    def rivals(
        self, member: Member, best: Candidate, pricing: Pricing, claimed: Claim
    ) -> list[Option]:
        """Return the best law of `member` by itself, and the best one without point masses, as options.

        A pin to one law over a box is the publisher's choice; the plan says beside it what other
        laws reach at an equal share of the same epsilon, so that the choice is an informed one.
        """
        del claimed
        place, count = member.view or 0, len(pricing.block.members)
        step_size = best.measurement.step_size if place == 0 else Fraction(1)
        share, each = pricing.epsilon / count, pricing.sensitivity.linf_per_component[place]
        note = f"by itself at epsilon/{count}"
        out = []
        for point_masses in (True, False):
            request = GridRequest(
                member.domain.on_grid(step_size), each, share, pricing.loss, point_masses
            )
            try:
                laws = grid_laws(request)
            except ArgumentError:
                continue
            if not laws:
                continue
            law = min(laws, key=lambda law: ranking(law.expected_error().average))
            error = law.expected_error()
            unit = float(step_size if pricing.loss == "absolute" else step_size * step_size)
            said = note if point_masses else f"{note}, without spikes"
            out.append(Option(law.family, error.average * unit, error.worst * unit, said))
        return out

    def together(self, members: list[Member], query: Query) -> list[Member]:
        """Draw lambda_2 and degrees of a graph together where all are pinned to bounded Gaussian noise.

        They move together anyway, and one law over a box is what the bounded Gaussian paper releases.
        """
        del query
        pinned = [
            m
            for m in members
            if m.statistic.graph is not None
            and m.statistic.spec.mechanism in self.mechanisms
            and isinstance(m.kind, Connectivity | Degree)
            and m.options[0].form not in OBSERVED
            and m.max_rows is None
        ]
        first = [m for m in pinned if isinstance(m.kind, Connectivity)]
        rest = [m for m in pinned if isinstance(m.kind, Degree)]
        if len(first) != 1 or not rest:
            return members
        box = graph_box([m.options[0] for m in (*first, *rest)])
        names = [m.statistic.spec.name for m in (*first, *rest)]
        out = []
        for member in members:
            name = member.statistic.spec.name
            if name in names:
                out.append(replace(member, options=(box,), view=names.index(name)))
            else:
                out.append(member)
        return sorted(out, key=lambda m: m.statistic.spec.name != names[0])

    def sensitivity_text(self, best: Candidate, s: Sensitivity, member: Member) -> str:
        place = member.view or 0
        steps = s.linf_per_component[place] * (
            best.measurement.step_size if place == 0 else Fraction(1)
        )
        return f"{shown(steps)}, together with {len(s.linf_per_component) - 1} more"

    def typical(self, best: Candidate, member: Member, size: int, *, narrow: bool) -> Floats:
        whole = best.law
        assert isinstance(whole, GraphBoxLaw)
        hulls = [law.allowed for law in whole.law.laws]
        return np.array([(h.lower + h.upper) / 2 for h in hulls])

    def seen(
        self, measurement: Measurement, cells: Floats, reading: Reading, view: int
    ) -> tuple[Measurement, Floats, Reading]:
        return one_cell(measurement, cells, reading, view)


family = GraphBox()
