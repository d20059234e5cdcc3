"""Domains: finite unions of closed intervals, and their points on a grid.

A `Domain` is a declared range minus open forbidden intervals, so the allowed set is closed. Its
ends are exact rationals (a decimal such as 0.1 means one tenth, not the nearest double) or
infinite. A `GridSet` is the set of integers k such that offset + k * step lies in a domain: a finite
union of integer runs. All arithmetic is exact; the float views are for display and vectorised tests.

Units: a domain is in its column's or statistic's own unit, a grid set in steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from dprelease.core.codec_notes import Digits, WrittenAs
from dprelease.core.errors import ArgumentError
from dprelease.core.numeric import Exact, Number, exact, plain

Piece = tuple[Exact, Exact]


def _is_finite(value: Exact) -> bool:
    return isinstance(value, Fraction)


@dataclass(frozen=True, slots=True, init=False)
class Domain:
    """A finite union of disjoint closed intervals; single points are allowed.

    >>> D = Domain(0, 120, forbidden=[(40, 60)])
    >>> D.pieces
    ((0.0, 40.0), (60.0, 120.0))
    >>> D.hull
    (0.0, 120.0)
    >>> bool(D.contains(50))
    False
    """

    exact_pieces: tuple[Piece, ...]

    def __init__(
        self,
        lower: Number,
        upper: Number,
        forbidden: Iterable[Sequence[Number]] = (),
    ) -> None:
        """Build `[lower, upper]` minus the open intervals in `forbidden`.

        Raises:
            ArgumentError: an end is NaN or not a number, lower > upper, a forbidden interval is
                not a pair (a, b) with a < b, or nothing is left (DPR601, DPR602).
        """
        low, high = exact(lower, "lower"), exact(upper, "upper")
        if low > high:
            raise ArgumentError(
                f"the range [{plain(low)}, {plain(high)}] is empty",
                why="its lower end lies above its upper end",
                fix="write the smaller end first",
                code="DPR601",
            )
        if low == math.inf or high == -math.inf:
            raise ArgumentError(
                f"the range [{plain(low)}, {plain(high)}] holds no number", code="DPR601"
            )
        pieces = _allowed(low, high, _forbidden(forbidden))
        if not pieces:
            raise ArgumentError(
                "nothing is allowed: the forbidden intervals cover the whole range",
                fix="shrink a forbidden interval or widen the range",
                code="DPR601",
            )
        object.__setattr__(self, "exact_pieces", tuple(pieces))

    @classmethod
    def from_pieces(cls, pieces: Iterable[Sequence[Number]]) -> Domain:
        """Build the union of the given closed intervals; touching ones are merged."""
        parts = sorted((exact(a, "piece"), exact(b, "piece")) for a, b in pieces)
        if not parts or any(a > b for a, b in parts):
            raise ArgumentError("a domain needs intervals [a, b] with a <= b", code="DPR601")
        merged = [parts[0]]
        for a, b in parts[1:]:
            if a <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(b, merged[-1][1]))
            else:
                merged.append((a, b))
        out = object.__new__(cls)
        object.__setattr__(out, "exact_pieces", tuple(merged))
        return out

    @property
    def pieces(self) -> tuple[tuple[float, float], ...]:
        """The allowed intervals as floats, in order."""
        return tuple((float(a), float(b)) for a, b in self.exact_pieces)

    @property
    def lower(self) -> Exact:
        return self.exact_pieces[0][0]

    @property
    def upper(self) -> Exact:
        return self.exact_pieces[-1][1]

    @property
    def hull(self) -> tuple[float, float]:
        """The smallest closed interval holding the domain, as floats."""
        return float(self.lower), float(self.upper)

    @property
    def forbidden(self) -> tuple[tuple[float, float], ...]:
        """The open gaps between allowed intervals, as floats."""
        return tuple((float(a), float(b)) for a, b in self.exact_gaps)

    @property
    def exact_gaps(self) -> tuple[Piece, ...]:
        """The open gaps between allowed intervals, exact."""
        ends = self.exact_pieces
        return tuple((ends[i][1], ends[i + 1][0]) for i in range(len(ends) - 1))

    @property
    def is_finite(self) -> bool:
        return _is_finite(self.lower) and _is_finite(self.upper)

    @property
    def width(self) -> Exact:
        """Width of the hull."""
        return self.upper - self.lower if self.is_finite else math.inf

    def contains(self, values: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Return, per value, whether it is finite and allowed (NaN and infinities are not).

        Ends are compared as doubles, so the nearest double to an end counts as that end.
        """
        array = np.asarray(values, dtype=float)
        inside = np.zeros(array.shape, dtype=bool)
        for a, b in self.pieces:
            inside |= (array >= a) & (array <= b)
        allowed: npt.NDArray[np.bool_] = inside & np.isfinite(array)
        return allowed

    def has(self, value: Fraction) -> bool:
        """Return whether `value` is allowed, ends compared exactly (`contains` compares doubles)."""
        return any(a <= value <= b for a, b in self.exact_pieces)

    def nearest(self, value: Fraction) -> Fraction:
        """Return the nearest allowed point, ties to the lower one.

        For *noised* values and for single rows only: applied to an exact statistic this map is
        not 1-Lipschitz, and a gap would multiply its sensitivity
        (`docs/theory/domains-and-grids.md#never-into-a-gap`).
        """
        best: Fraction | None = None
        for a, b in self.exact_pieces:
            point = min(max(Fraction(value), a), b)
            if not isinstance(point, Fraction):  # pragma: no cover - clamping a finite value
                continue
            if best is None or abs(point - value) < abs(best - value):
                best = point
        assert best is not None
        return best

    def intersect(self, other: Domain) -> Domain | None:
        """Return the points allowed by both, or None when there is none."""
        parts = [
            (max(a, c), min(b, d))
            for a, b in self.exact_pieces
            for c, d in other.exact_pieces
            if max(a, c) <= min(b, d)
        ]
        return Domain.from_pieces(parts) if parts else None

    def on_grid(self, step: Fraction, offset: Fraction = Fraction(0)) -> GridSet:
        """Return the integers k with `offset + k * step` allowed; the domain must be finite.

        Raises:
            ArgumentError: the domain is infinite (DPR603) or holds no grid point (DPR604).
        """
        if not self.is_finite:
            raise ArgumentError(
                "a grid needs a finite domain", fix="declare both ends of the range", code="DPR603"
            )
        runs = []
        for a, b in self.exact_pieces:
            low, high = math.ceil((a - offset) / step), math.floor((b - offset) / step)
            if low <= high:
                runs.append((low, high))
        if not runs:
            raise ArgumentError(
                f"no multiple of the step {plain(step)} is allowed",
                why=f"the domain is {self}",
                fix="choose a smaller step or a wider domain",
                code="DPR604",
            )
        return GridSet.from_runs(runs)

    def to_json(self) -> dict[str, list[object]]:
        """Return `{"range": [l, u], "forbidden": [[a, b], ...]}`.

        Numbers are exact: one that no JSON number says, such as 1/3, is written as text.
        """
        out: dict[str, list[object]] = {"range": [plain(self.lower), plain(self.upper)]}
        out["forbidden"] = [[plain(a), plain(b)] for a, b in self.exact_gaps]
        return out

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Domain:
        """Return what `to_json` wrote; ValueError, TypeError, LookupError or ArgumentError for anything else."""
        if not value.keys() <= {"range", "forbidden"}:
            raise ValueError("not a domain")
        low, high = value["range"]
        return cls(low, high, forbidden=value.get("forbidden", []))

    def __str__(self) -> str:
        return " ∪ ".join(
            f"{{{plain(a)}}}" if a == b else f"[{plain(a)}, {plain(b)}]"
            for a, b in self.exact_pieces
        )

    def __repr__(self) -> str:
        return f"Domain({self})"


@dataclass(frozen=True, slots=True)
class Box:
    """A product of domains, one per coordinate, for multivariate mechanisms.

    >>> Box([(0, 10), (1, 9)]).sides[1].hull
    (1.0, 9.0)
    """

    sides: tuple[Domain, ...]

    def __init__(self, sides: Iterable[Domain | Sequence[Number]]) -> None:
        if not isinstance(sides, Iterable):
            raise ArgumentError(
                "a box takes its sides in a list", fix="write Box([domain])", code="DPR601"
            )
        parts: list[Domain] = []
        for side in sides:
            if isinstance(side, Domain):
                parts.append(side)
            elif isinstance(side, str) or not hasattr(side, "__len__") or len(side) != 2:
                raise ArgumentError(
                    "a box's side is a Domain or a pair of ends", fix="write (0, 10)", code="DPR601"
                )
            else:
                parts.append(Domain(side[0], side[1]))
        if not parts:
            raise ArgumentError("a box needs at least one side", code="DPR601")
        object.__setattr__(self, "sides", tuple(parts))


@dataclass(frozen=True, slots=True)
class GridSet:
    """A non-empty finite union of integer runs, disjoint, not adjacent, in order; in steps."""

    runs: tuple[tuple[int, int], ...]

    @classmethod
    def from_runs(cls, runs: Iterable[tuple[int, int]]) -> GridSet:
        """Sort and merge overlapping or adjacent runs."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted(runs):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        return cls(tuple(merged))

    def __len__(self) -> int:
        return sum(high - low + 1 for low, high in self.runs)

    def __contains__(self, point: int) -> bool:
        return any(low <= point <= high for low, high in self.runs)

    @property
    def lower(self) -> int:
        return self.runs[0][0]

    @property
    def upper(self) -> int:
        return self.runs[-1][1]

    @property
    def hull_steps(self) -> int:
        """Steps from the lowest to the highest point."""
        return self.upper - self.lower

    def points(self) -> npt.NDArray[np.int64]:
        """Return all points in order, shape `(len(self),)`."""
        return np.concatenate([np.arange(a, b + 1, dtype=np.int64) for a, b in self.runs])

    def contains(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Vectorised membership, same shape as `values`."""
        inside = np.zeros(values.shape, dtype=bool)
        for low, high in self.runs:
            inside |= (values >= low) & (values <= high)
        return inside

    def places(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many points lie below each value, which for a point is its place from 0 on."""
        out = np.zeros(values.shape, dtype=np.int64)
        for low, high in self.runs:
            out += np.clip(values - low, 0, high - low + 1)
        return out

    def points_at(self, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the point at each place, counted from 0; places beyond the set give its first or last point."""
        runs = np.array(self.runs, dtype=np.int64)
        ends = np.cumsum(runs[:, 1] - runs[:, 0] + 1)
        inside = np.clip(places, 0, ends[-1] - 1)
        run = np.searchsorted(ends, inside, side="right")
        return np.asarray(runs[run, 1] - (ends[run] - 1 - inside))

    def nearest(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the nearest point per value, ties to the lower one. For noised values only."""
        out = np.clip(values, self.lower, self.upper)
        for (_, left), (right, _) in zip(self.runs, self.runs[1:], strict=False):
            gap = (out > left) & (out < right)
            out = np.where(gap & (out - left <= right - out), left, np.where(gap, right, out))
        return out


def _gridset(runs: tuple[tuple[int, int], ...]) -> GridSet:
    if not runs or any(low > high for low, high in runs):
        raise ValueError("a grid set needs runs, each from its lower end to its upper one")
    return GridSet.from_runs(runs)


WrittenDomain = Annotated[Domain, WrittenAs(Domain.to_json, Domain.from_json, of=Mapping[str, Any])]
"""A domain in a stored dataclass: its range and its gaps, as schemas say it."""

Runs = Annotated[GridSet, WrittenAs(lambda g: g.runs, _gridset, of=tuple[tuple[int, int], ...])]
"""A grid set in a stored dataclass: its runs, `[[low, high], ...]`."""

LongRuns = Annotated[
    GridSet, WrittenAs(lambda g: g.runs, _gridset, of=tuple[tuple[Digits, Digits], ...])
]
"""The same, where steps may pass 2**53: as text."""


def _forbidden(forbidden: Iterable[Sequence[object]]) -> list[Piece]:
    """Return the open intervals as they are declared, in their order; DPR602 for a faulty one."""
    if isinstance(forbidden, str) or not isinstance(forbidden, Iterable):
        raise ArgumentError(
            "`forbidden` is a list of intervals", fix="write [(a, b)]", code="DPR602"
        )
    gaps: list[Piece] = []
    for pair in forbidden:
        if isinstance(pair, str) or not hasattr(pair, "__len__") or len(pair) != 2:
            raise ArgumentError(
                "a forbidden interval needs two ends",
                fix="write it as (a, b) with a < b",
                code="DPR602",
            )
        a, b = exact(pair[0], "forbidden"), exact(pair[1], "forbidden")
        if a >= b:
            raise ArgumentError(
                f"the forbidden interval ({plain(a)}, {plain(b)}) is empty",
                why="a forbidden interval is open: its ends stay allowed",
                fix="write it as (a, b) with a < b",
                code="DPR602",
            )
        gaps.append((a, b))
    return gaps


def _allowed(low: Exact, high: Exact, gaps: Iterable[Piece]) -> list[Piece]:
    """Return [low, high] without open intervals: closed pieces in order, single points included."""
    pieces: list[Piece] = []
    start: Exact = low
    for a, b in sorted(gaps):
        if b <= start:
            continue
        if a >= high:
            break
        if a >= start:
            pieces.append((start, a))
        start = b
    if start <= high:
        pieces.append((start, high))
    return pieces
