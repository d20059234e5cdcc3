"""Two plans beside each other: what a change of schema, pipeline or epsilon does to a release.

A plan is public, so its differences are. Statistics are matched by their published names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

from dprelease.core.codec import Stored
from dprelease.core.codec_notes import Note
from dprelease.core.numeric import plain
from dprelease.core.strict_json import canonical_json
from dprelease.query.bounded import Fixed
from dprelease.release_plan.curve import error_of
from dprelease.release_plan.plan import ReleasePlan
from dprelease.release_plan.statistic import PlannedStatistic
from dprelease.schema.unit import describe

if TYPE_CHECKING:
    from rich.console import RenderableType

_LISTED = 5


@dataclass(frozen=True, slots=True)
class Change(Stored):
    """One difference.

    Attributes:
        statistic: the published name, behind its table's; empty for the release as a whole.
        what: what differs, e.g. `epsilon`, `domain`, or `added`.
        before, after: as text; "–" where there is none.
        remark: how much it is, e.g. `half` of an error, else empty.
    """

    statistic: str
    what: str
    before: str
    after: str
    remark: Annotated[str, Note.always] = ""


def compare(before: ReleasePlan, after: ReleasePlan) -> tuple[Change, ...]:
    """Return every difference that a reader of the release would meet; none if they are equal."""
    old = {s.called: s for s in before.statistics}
    new = {s.called: s for s in after.statistics}
    found = list(_whole(before, after))
    found += [Change(n, "removed", old[n].text, "–") for n in old if n not in new]
    for name, statistic in new.items():
        if name in old:
            found += _one(name, before, old[name], after, statistic)
        else:
            found.append(Change(name, "added", "–", f"{statistic.text}, {statistic.error_text}"))
    return tuple(found)


def _whole(before: ReleasePlan, after: ReleasePlan) -> Iterator[Change]:
    pairs = [
        ("schema", before.schema, after.schema),
        ("delta", f"{float(before.delta):.3g}", f"{float(after.delta):.3g}"),
        (
            "protects",
            describe(before.adjacency, before.unit),
            describe(after.adjacency, after.unit),
        ),
        ("loss", before.loss, after.loss),
        ("by", ", ".join(before.by) or "–", ", ".join(after.by) or "–"),
        ("where", before.where or "–", after.where or "–"),
        ("composition", _method(before), _method(after)),
        ("rules", _rules(before), _rules(after)),
    ]
    old, new = _cells(before), _cells(after)
    pairs += [(f"cells of {name}", old[name], new[name]) for name in old if name in new]
    if before.epsilon != after.epsilon:
        yield _epsilon("", before.epsilon, after.epsilon)
    yield from (Change("", what, a, b) for what, a, b in pairs if a != b)
    if before.by == after.by:
        for what, some, others in (
            ("groups added", after.keys, before.keys),
            ("groups removed", before.keys, after.keys),
        ):
            known = set(others)
            keys = [" / ".join(k) for k in some if k not in known]
            if keys:
                more = f" and {len(keys) - _LISTED:,} more" if len(keys) > _LISTED else ""
                text = ", ".join(keys[:_LISTED]) + more
                yield Change("", what, *(("–", text) if what == "groups added" else (text, "–")))


def _one(
    name: str, before: ReleasePlan, old: PlannedStatistic, after: ReleasePlan, new: PlannedStatistic
) -> Iterator[Change]:
    spent, spends = before.block(old.block).epsilon, after.block(new.block).epsilon
    if spent != spends:
        yield _epsilon(name, spent, spends)
    for what, a, b in (
        ("statistic", old.text, new.text),
        ("mechanism", old.mechanism, new.mechanism),
        ("domain", str(old.domain), str(new.domain)),
        ("step", str(plain(old.step)), str(plain(new.step))),
        ("columns", ", ".join(old.columns), ", ".join(new.columns)),
        ("sensitivity", old.sensitivity_text, new.sensitivity_text),
        ("spikes", _point_masses(old), _point_masses(new)),
    ):
        if a != b:
            yield Change(name, what, a, b)
    if old.error_text != new.error_text:
        yield Change(
            name,
            "expected error",
            old.error_text,
            new.error_text,
            _times(error_of(before, old), error_of(after, new)),
        )


def _epsilon(name: str, before: Fraction, after: Fraction) -> Change:
    texts = (f"{float(before):.4g}", f"{float(after):.4g}")
    return Change(name, "epsilon", *texts, _times(float(before), float(after)))


def _times(before: float | None, after: float | None) -> str:
    if not before or after is None:
        return ""
    ratio = after / before
    return f"×{ratio:.2f}" if ratio < 10 else f"×{ratio:.3g}"


def _method(plan: ReleasePlan) -> str:
    return "basic/1" if plan.composition is None else plan.composition.method


def _rules(plan: ReleasePlan) -> str:
    return "–" if plan.rules is None else canonical_json(plan.rules.to_json())


def _cells(plan: ReleasePlan) -> dict[str, str]:
    """Return how the cells of each column of numbers are read, beyond its range."""
    return {
        c.column: f"step {plain(c.step)}" + (c.default is not None) * ", a value for nulls"
        for c in plan.query.codes
        if isinstance(c, Fixed)
    }


def _point_masses(statistic: PlannedStatistic) -> str:
    return "allowed" if statistic.spikes else "forbidden"


def differences(changes: tuple[Change, ...], before: str, after: str) -> RenderableType:
    """Return the changes as a rich table under the two plans' names, for the terminal."""
    from rich.table import Table
    from rich.text import Text

    if not changes:
        return Text(f"no difference: {after} plans the same as {before}")
    table = Table(show_lines=False, header_style="bold", expand=False)
    for header in ("statistic", "what", before, after, ""):
        table.add_column(Text(header), overflow="fold")
    for c in changes:
        row = (c.statistic or "the release", c.what, c.before, c.after, c.remark)
        table.add_row(*(Text(cell) for cell in row))
    return table
