"""The contract of a grid law: what is drawn, how it is certified, how it is priced.

A *grid law* releases one integer per group, in steps of a public grid. The exact answer, an
integer too, is clamped to the hull of the allowed set first (1-Lipschitz, so it costs nothing)
and never snapped onto the allowed set (that map is not 1-Lipschitz across a gap).

Privacy. A law's certificate bounds, in exact rationals, the largest likelihood ratio between
answers at most `sensitivity` steps apart, over *all* pairs of answers in the hull, gaps included, and
compares it with a rational lower bound of e^epsilon. Everything after the raw draw (the remap
into the allowed set, intervals) is a fixed function of the raw draw: post-processing.

Units    answers, sensitivity, outputs: grid steps. epsilon: nats. Errors: steps, or steps squared.
Sources  `docs/theory/domains-and-grids.md#clamp-to-the-hull`;
         `docs/theory/certificates.md#what-a-certificate-says`.
Limits   hulls must lie within +-2**60 steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from operator import methodcaller
from typing import Annotated, Any, Literal, Protocol, cast

import numpy as np
import numpy.typing as npt

from dprelease.core import registry
from dprelease.core.codec_notes import WrittenAs
from dprelease.core.entropy import RandomBits
from dprelease.core.errors import ArgumentError, ConfigError
from dprelease.core.numeric import ranking
from dprelease.mechanisms.arguments import IntArray
from dprelease.mechanisms.certificate import Certificate
from dprelease.schema.domain import GridSet

Loss = Literal["absolute", "squared"]
Criterion = Literal["average", "worst"]

Ends = tuple[int, int]
"""The least and the greatest of some answers, in steps."""

HULL_LIMIT = 2**60
"""Largest absolute grid point, in steps: answers plus saturated noise stay inside int64."""


@dataclass(frozen=True, slots=True)
class GridRequest:
    """One integer scalar to release per group.

    Attributes:
        allowed: allowed outputs, in steps; answers live anywhere in its hull, gaps included.
        sensitivity: in steps, at least 1; each law caps it at the hull itself.
        epsilon: the loss to spend, in nats, above 0.
        loss: what "best" means.
        point_masses: False admits only laws without point masses at borders and gap edges.
        splits: one unit may change several coordinates with L1 total `sensitivity`: only laws that
            cover that (`covers_splits`) are admissible, and the hull caps nothing.
        criterion: judge a law by its error averaged over answers, or by its worst answer.
    """

    allowed: GridSet
    sensitivity: int
    epsilon: Fraction
    loss: Loss = "absolute"
    point_masses: bool = True
    splits: bool = False
    criterion: Criterion = "average"

    def __post_init__(self) -> None:
        if self.sensitivity < 1:
            raise ArgumentError(
                "the sensitivity must be at least one grid step",
                why=f"it is {self.sensitivity}; without sensitivity there is nothing to protect",
                fix="give a sensitivity of at least one step",
                code="DPR620",
            )
        if self.epsilon <= 0:
            raise ArgumentError(
                "epsilon must be above 0", fix="give a positive epsilon", code="DPR606"
            )
        if max(abs(self.allowed.lower), abs(self.allowed.upper)) > HULL_LIMIT:
            raise ArgumentError(
                "the grid is too fine for this domain",
                why="its points, counted in steps, pass 2**60",
                fix="use a coarser step",
                code="DPR621",
            )

    @property
    def capped_sensitivity(self) -> int:
        """Steps that two neighbouring (clamped) answers can be apart: the sensitivity, at most the hull, at least 1."""
        if self.splits:
            return self.sensitivity
        return max(1, min(self.sensitivity, self.allowed.hull_steps))


@dataclass(frozen=True, slots=True)
class ExpectedError:
    """Expected error of a law, in steps (absolute) or steps squared (squared).

    `average` is over answers uniform on the hull, or on a part of it; `worst` is the largest over answers.
    """

    average: float
    worst: float

    def by(self, criterion: Criterion) -> float:
        """Return the figure a request is judged by."""
        return self.average if criterion == "average" else self.worst


class GridLaw(Protocol):
    """What every grid law offers; all arrays are int64 of shape `(groups,)`, in steps."""

    @property
    def family(self) -> str:
        """The registered mechanism name."""

    @property
    def allowed(self) -> GridSet:
        """Allowed outputs."""

    @property
    def sensitivity(self) -> int:
        """The sensitivity asked for, not yet capped at the hull."""

    @property
    def epsilon(self) -> Fraction:
        """The loss asked for; `certificate.epsilon_upper` is at most this."""

    @property
    def certificate(self) -> Certificate:
        """The proof; the same as `certify()`."""

    def certify(self) -> Certificate:
        """Recompute the proof from the law's integers alone."""

    def draw_raw(self, answers: IntArray, bits: RandomBits) -> IntArray:
        """Clamp the answers to the hull and draw; additive laws may leave the hull."""

    def finish(self, raw: IntArray) -> IntArray:
        """Map raw draws into `allowed`; a fixed function."""

    def interval(self, raw: IntArray, level: float = 0.95) -> tuple[IntArray, IntArray]:
        """Return a confidence interval per clamped answer, inside the hull."""

    def expected_error(self) -> ExpectedError:
        """Return the price of this law, a function of public numbers only."""

    def pmf(self, answer: int) -> dict[int, Any]:
        """Return {output: probability} for one answer: Fractions for rational laws."""

    def to_json(self) -> dict[str, Any]:
        """Return all integers of the law; `law_from_json` is the inverse."""

    def describe(self) -> str:
        """Return one line for a plan."""


class _Family(Protocol):
    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]: ...

    @classmethod
    def grid_law_from_json(cls, value: dict[str, Any]) -> GridLaw: ...


class Unpriced:
    """A mechanism without laws for integers: it offers nothing where laws are priced."""

    __slots__ = ()

    @classmethod
    def grid_laws(cls, request: GridRequest) -> list[GridLaw]:
        """Return its laws for the request: none, unless it says otherwise."""
        del request
        return []


def grid_laws(request: GridRequest) -> list[GridLaw]:
    """Return the best law of every admissible built-in family, best by `criterion` first.

    A family that refuses the request (its grid too fine, its gaps too wide) counts only if no
    other one takes it.

    Raises:
        ArgumentError: every admissible family refused (DPR622, DPR626, DPR627): the first refusal.
    """
    laws: list[GridLaw] = []
    refusals: list[ArgumentError] = []
    for name in registry.names("mechanisms"):
        family = cast("_Family", registry.load("mechanisms", name))
        try:
            laws.extend(_admissible(family.grid_laws(request), request))
        except ArgumentError as refusal:
            refusals.append(refusal)
    if refusals and not laws:
        raise refusals[0]
    return sorted(laws, key=lambda law: ranking(law.expected_error().by(request.criterion)))


def family_laws(request: GridRequest, name: str) -> list[GridLaw]:
    """Return the laws of one family, asked for by name: the way to one of another package.

    Raises:
        ArgumentError: unknown family (DPR610), it refuses the request, or it makes laws under
            another name, which nobody could rebuild (DPR617).
    """
    family = cast("_Family", registry.load("mechanisms", name))
    laws = _admissible(family.grid_laws(request), request)
    if any(law.family != name for law in laws):
        raise ArgumentError(
            f"the mechanism `{name}` makes laws of another name",
            why="a manifest names the family that must read its law back",
            fix="let the laws' `family` be the name of the entry point",
            code="DPR617",
        )
    return laws


def covers_splits(law: GridLaw) -> bool:
    """Return whether a law's certificate is for a unit whose changes are spread over several coordinates.

    It says so by an attribute `splits`: the loss of several draws together, for changes of at most
    `sensitivity` steps in total, is then at most `certificate.epsilon_upper`. A law without the attribute
    is proved for one coordinate.
    """
    return bool(getattr(law, "splits", False))


def _admissible(laws: list[GridLaw], request: GridRequest) -> list[GridLaw]:
    return [law for law in laws if covers_splits(law)] if request.splits else laws


def law_from_json(value: dict[str, Any]) -> GridLaw:
    """Rebuild a law from its `to_json`; also one that is drawn no more.

    Raises:
        ArgumentError: unknown family (DPR610).
        ConfigError: a number is missing, malformed or inconsistent (DPR180).
    """
    name = str(value.get("family"))
    current = name not in registry.REMOVED
    family: Any = registry.load("mechanisms" if current else "removed", name)
    try:
        law: GridLaw = family.grid_law_from_json(value) if current else family.from_json(value)
        return law
    except (KeyError, TypeError, ValueError, ZeroDivisionError, ArgumentError) as problem:
        raise ConfigError(
            "a stored law does not parse",
            why=f"{type(problem).__name__} in law `{value.get('family')}`",
            fix="use the file unchanged",
            code="DPR180",
        ) from None


WrittenLaw = Annotated[GridLaw, WrittenAs(methodcaller("to_json"), law_from_json)]
"""A law in a stored dataclass: its family knows how it is written."""


def rho_upper(law: GridLaw) -> Fraction:
    """Return a rho for which the law is rho-zCDP: its own proof, or epsilon^2 / 2."""
    pure = law.certificate.epsilon_upper**2 / 2
    own: Fraction | None = getattr(law, "rho_upper", None)
    return pure if own is None else min(pure, own)


@lru_cache(maxsize=32)  # the laws of one request ask the same
def choose_answers(
    allowed: GridSet, most: int = 65, near: Ends | None = None
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    """Return at most about `most` answers and the share of all that each stands for: those of the hull, or `near` in it.

    Ends, and the edges and middles of the widest gaps, are always among them: the worst answers live there.
    Shapes `(answers,)`, read-only; the shares sum to 1.
    """
    low, high = allowed.lower, allowed.upper
    if near is not None:
        low, high = (min(max(end, low), high) for end in near)
    if high - low < most:
        answers = np.arange(low, high + 1, dtype=np.int64)
        return _frozen(answers, np.full(answers.size, 1.0 / answers.size))
    marks = {low, high}
    gaps = sorted(pairwise(allowed.runs), key=lambda pair: pair[0][1] - pair[1][0])  # widest first
    for (_, left), (right, _) in gaps[:8]:
        marks |= {q for q in (left, (left + right) // 2, right) if low < q < high}
    count = max(2, most - len(marks))
    marks |= {low + (high - low) * i // (count - 1) for i in range(count)}
    answers = np.array(sorted(marks), dtype=np.int64)
    middles = (answers[1:] + answers[:-1]) / 2
    edges = np.concatenate([[low - 0.5], middles, [high + 0.5]])
    share = np.diff(edges)
    return _frozen(answers, share / share.sum())


def _frozen(
    answers: IntArray, share: npt.NDArray[np.float64]
) -> tuple[IntArray, npt.NDArray[np.float64]]:
    answers.flags.writeable = share.flags.writeable = False
    return answers, share
