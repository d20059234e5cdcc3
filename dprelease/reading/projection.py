"""Intervals of functions that have no pivot: a joint region of their parts, projected.

The parts of an expression are its linear forms, ratios and measured values. A region that holds all
of them together with probability >= level is the product of one interval per part, each at
1 - (1 - level) / parts (Bonferroni: right however the parts depend on each other). Two or more values
of one measurement, a mean and a variance of the same cells, count as one part: its region is a box
of the cells, cut into small boxes so that the values move together. The expression's range over the
region, by interval arithmetic, contains its true value whenever the region contains the parts: so
its coverage is at least the level, mostly above it.

Sources: `docs/theory/intervals.md#derived-values`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import cast

import numpy as np
import numpy.typing as npt

from dprelease.reading.forms import Linear, RatioForm
from dprelease.reading.linear_interval import linear_ends, ratio_ends
from dprelease.reading.quantity import Function, Measured, Quantity, span

Floats = npt.NDArray[np.float64]
Range = tuple[Floats, Floats]
_PIECES = {1: 4096, 2: 64, 3: 16, 4: 8}
"""Into how many pieces each side of a box of so many cells is cut."""
_MOST = 2**20


def projected(quantity: Quantity, level: float) -> tuple[float, float]:
    """Return the ends of the interval at `level`, inside the quantity's domain."""
    parts = dict(_parts(quantity))
    joint = _joint(parts)
    single = [key for key in parts if not any(key in keys for keys in joint.values())]
    share = 1 - (1 - level) / _risks(quantity)
    ranges: dict[Hashable, Range] = {key: _alone(parts[key], share) for key in single}
    sizes = 1
    for place, keys in enumerate(joint.values()):
        boxes = _boxes([parts[key] for key in keys], share, room=_MOST // sizes)
        sizes *= boxes[0].shape[0]
        shape = (1,) * place + (-1,) + (1,) * (len(joint) - place - 1)
        for key in keys:
            low, high = _over(parts[key], *boxes)
            ranges[key] = low.reshape(shape), high.reshape(shape)
    low, high = _range(quantity, ranges)
    ends = float(np.min(low)), float(np.max(high))
    return max(ends[0], quantity.domain[0]), min(ends[1], quantity.domain[1])


def reach(quantity: Quantity, level: float) -> float:
    """Return at which level an expression is known if each of its parts is at `level`."""
    return 1 - (1 - level) * _risks(quantity)


def _risks(quantity: Quantity) -> int:
    """Return how many parts of an expression may miss; public numbers never do."""
    parts = dict(_parts(quantity))
    fixed = {k for k, p in parts.items() if isinstance(p.form, Linear) and not p.form.terms}
    together = sum(len(keys) - 1 for keys in _joint(parts).values())
    return max(1, len(parts) - len(fixed) - together)


def part_ends(part: Quantity, level: float) -> tuple[float, float]:
    """Return the interval of a linear form, a ratio or a measured value, inside its domain."""
    form, (low, high) = part.form, part.domain
    if isinstance(form, Linear):
        ends = linear_ends(form, level, part.domain)
    elif isinstance(form, RatioForm):
        ends = ratio_ends(form, level, part.domain)
    else:
        ends = cast("Measured", form).ends(level)
    return min(max(ends[0], low), high), max(min(ends[1], high), low)


def _parts(quantity: Quantity) -> Iterator[tuple[Hashable, Quantity]]:
    if isinstance(quantity.form, Function):
        yield from _parts(quantity.form.left)
        yield from _parts(quantity.form.right)
        return
    yield _key(quantity), quantity


def _key(part: Quantity) -> Hashable:
    """Return what tells a part from others: its form, and the domain that its values are moved into."""
    form = part.form
    if isinstance(form, Linear):
        return ("linear", part.domain, form.constant, frozenset(form.terms.items()))
    if isinstance(form, RatioForm):
        both = (form.top, form.bottom)
        return ("ratio", part.domain, *((f.constant, frozenset(f.terms.items())) for f in both))
    return cast("Measured", form).key


def _measurement(part: Quantity) -> Hashable | None:
    """Return the one measurement that a part is read from; None if there are several."""
    form = part.form
    if isinstance(form, Linear):
        sources = list(form.terms)
    elif isinstance(form, RatioForm):
        sources = [*form.top.terms, *form.bottom.terms]
    else:
        return cast("Measured", form).measurement
    found = {(s.release, s.block, s.group) for s in sources}
    return found.pop() if len(found) == 1 else None


def _joint(parts: dict[Hashable, Quantity]) -> dict[Hashable, list[Hashable]]:
    """Return the measurements of two values or more, one of them without a pivot."""
    found: dict[Hashable, list[Hashable]] = {}
    for key, part in parts.items():
        measurement = _measurement(part)
        if measurement is not None:
            found.setdefault(measurement, []).append(key)

    def boxed(keys: list[Hashable]) -> bool:
        measured = [
            parts[k].form for k in keys if not isinstance(parts[k].form, Linear | RatioForm)
        ]
        return bool(measured) and all(
            cast("Measured", m).cell_box(0.5) is not None for m in measured
        )

    return {m: keys for m, keys in found.items() if len(keys) > 1 and boxed(keys)}


def _alone(part: Quantity, level: float) -> Range:
    low, high = part_ends(part, level)
    return np.asarray(low), np.asarray(high)


def _boxes(parts: list[Quantity], level: float, room: int) -> Range:
    """Return the pieces of the box of cells of one measurement, `(boxes, cells)` each."""
    measured = next(p.form for p in parts if not isinstance(p.form, Linear | RatioForm))
    box = cast("Measured", measured).cell_box(level)
    assert box is not None
    low, high = box
    pieces = _PIECES.get(low.size, 2)
    while pieces > 1 and pieces**low.size > room:
        pieces -= 1
    edges = [np.linspace(a, b, pieces + 1) for a, b in zip(low, high, strict=True)]
    lows = np.meshgrid(*(e[:-1] for e in edges), indexing="ij")
    highs = np.meshgrid(*(e[1:] for e in edges), indexing="ij")
    return (
        np.stack([x.ravel() for x in lows], axis=1),
        np.stack([x.ravel() for x in highs], axis=1),
    )


def _over(part: Quantity, low: Floats, high: Floats) -> Range:
    form = part.form
    if isinstance(form, Linear):
        found = _linear_over(form, low, high)
    elif isinstance(form, RatioForm):
        top, bottom = _linear_over(form.top, low, high), _linear_over(form.bottom, low, high)
        found = _ratio_over(form, low, high) if (bottom[0] > 0).all() else span("/", top, bottom)
    else:
        found = cast("Measured", form).over_box(low, high)
    return np.clip(found[0], *part.domain), np.clip(found[1], *part.domain)


def _weights(form: Linear, cells: int) -> Floats:
    out = np.zeros(cells)
    for source, weight in form.cells:
        out[source.cell] += float(weight)
    return out


def _linear_over(form: Linear, low: Floats, high: Floats) -> Range:
    weights = _weights(form, low.shape[1])
    up, down = np.maximum(weights, 0), np.minimum(weights, 0)
    constant = float(form.constant)
    return low @ up + high @ down + constant, high @ up + low @ down + constant


def _ratio_over(form: RatioForm, low: Floats, high: Floats) -> Range:
    """Return the range of a linear-fractional function: it has its extremes at corners."""
    top, bottom = (_weights(f, low.shape[1]) for f in (form.top, form.bottom))
    found = []
    for corner in np.ndindex(*(2,) * low.shape[1]):
        cells = np.where(np.array(corner) == 1, high, low)
        above = cells @ top + float(form.top.constant)
        found.append(above / (cells @ bottom + float(form.bottom.constant)))
    return np.minimum.reduce(found), np.maximum.reduce(found)


def _range(quantity: Quantity, ranges: dict[Hashable, Range]) -> Range:
    if not isinstance(quantity.form, Function):
        return ranges[_key(quantity)]
    f = quantity.form
    low, high = span(f.op, _range(f.left, ranges), _range(f.right, ranges))
    return np.maximum(low, quantity.domain[0]), np.minimum(high, quantity.domain[1])
