"""Which blocks are drawn: statistics that share cells share a block and its budget.

The mean, variance and standard deviation of one column come from one set of Bernstein cells; a
mean alone prefers two sums. Covariance and correlation of two columns come from one tensor, and so
do the moments of either column if no null leaves a row out: only then are they over the same rows. Declared and induced output domains are intersected here, pins and
`spikes: forbid` filter the encodings, and what has no proved form is refused with the nearest
forms that have one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dprelease import registry
from dprelease.aggregates.base import Aggregate, aggregate_named
from dprelease.aggregates.encoding import CHOICES, Context, Encoding
from dprelease.aggregates.graph import graph_box
from dprelease.errors import PlanError
from dprelease.patience import tick
from dprelease.planning.joint_quantiles import together
from dprelease.query.bounded import Fixed
from dprelease.query.spec import Query, Statistic
from dprelease.schema.domain import Domain

__all__ = ["WITHOUT_ATOMS", "BlockLayout", "Member", "layout", "member_of"]

_CELLS = (
    "two_sums",
    "bernstein2",
    "bins",
    "soft_table",
    "tensor",
    "pairs",
    "spectrum",
    "matrix",
    "laplacian",
)
_JOINT = ("bernstein2", "tensor")
"""Families that hold more than one statistic: whoever can be computed from one that is drawn
anyway, is."""
WITHOUT_ATOMS = ("bounded_laplace", "reflected_laplace", "bounded_gaussian")
"""Families that draw a mean without atoms at whatever size is released."""


@dataclass(frozen=True, slots=True)
class Member:
    """One statistic with its final domain and admissible encodings, preferred first."""

    statistic: Statistic
    aggregate: Aggregate
    context: Context
    domain: Domain
    options: tuple[Encoding, ...]
    induced: Domain
    view: int | None = None
    """The column a statistic of one looks at in a block of several."""

    @property
    def max_rows(self) -> int | None:
        return self.statistic.spec.max_rows

    @property
    def measure(self) -> str:
        """The unit of the published value, for labels."""
        return self.aggregate.unit(self.statistic)


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """One block: its members and the encodings every member can be computed from."""

    members: tuple[Member, ...]
    options: tuple[Encoding, ...]
    table: str | None = None
    """The table whose cells are drawn, of a release of several."""

    @property
    def name(self) -> str:
        names = "+".join(m.statistic.spec.name for m in self.members)
        return names if self.table is None else f"{self.table}.{names}"

    @property
    def max_rows(self) -> int | None:
        return self.members[0].max_rows


def layout(query: Query) -> tuple[BlockLayout, ...]:
    """Group the statistics of `query` into blocks, in order of first appearance.

    Raises:
        PlanError: an empty domain (DPR206), a constant (DPR208), no encoding under the pins
            (DPR210, DPR211).
    """
    members = _with_tensors(_with_box([member_of(query, s) for s in query.statistics]))
    members = together(members, query.schema.adjacency)
    joint = {_subject(m) for m in members if any(o.family in _JOINT for o in m.options[:1])}
    groups: dict[tuple[object, ...], list[Member]] = {}
    chosen: dict[tuple[object, ...], tuple[Encoding, ...]] = {}
    for member in members:
        options = member.options
        if _subject(member) in joint and any(o.family in _JOINT for o in options):
            options = tuple(o for o in options if o.family in _JOINT)
        key = (*options[0].key, member.max_rows, member.statistic.spec.mechanism, _alone(member))
        groups.setdefault(key, []).append(member)
        kept = chosen.setdefault(key, options)
        keys = {o.key for o in options}
        chosen[key] = tuple(o for o in kept if o.key in keys)
    return tuple(BlockLayout(tuple(groups[k]), chosen[k]) for k in groups)


def _with_box(members: list[Member]) -> list[Member]:
    """Draw lambda_2 and degrees of a graph together where all are pinned to bounded Gaussian noise.

    They move together anyway, and one law over a box is what the bounded Gaussian paper releases.
    """
    pinned = [
        m
        for m in members
        if m.context.graph is not None
        and m.statistic.spec.mechanism == "bounded_gaussian"
        and m.options[0].form in ("connectivity", "degree")
        and m.max_rows is None
    ]
    first = [m for m in pinned if m.options[0].form == "connectivity"]
    rest = [m for m in pinned if m.options[0].form == "degree"]
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


def _with_tensors(members: list[Member]) -> list[Member]:
    """Let moments of one column look at a tensor that a correlation makes anyway.

    With covariances drawn as soft tables or cross products a tensor costs them nothing extra
    either: it serves as soon as a moment of one of the two columns, over the same rows, is asked for.
    """
    tensors = [o for m in members for o in m.options if o.family == "tensor" and _shares(m)]
    wanted = {o.key for m in members for o in m.options[:1] if o.family == "tensor"}
    seen = {}
    for member in members:
        if not _shares(member) or not member.aggregate.of_moments:
            continue
        code = member.statistic.code
        for tensor in tensors:
            codes = (tensor.measures[0].code, tensor.measures[0].other)
            kept = all(isinstance(c, Fixed) and c.default is not None for c in codes)
            if kept and code in codes:
                wanted.add(tensor.key)
                seen[member.statistic.spec.name] = tensor, codes.index(code)
                break

    def settled(member: Member) -> Member:
        found = seen.get(member.statistic.spec.name)
        if found is not None:
            return replace(member, options=(found[0],), view=found[1])
        if _shares(member) and any(o.key in wanted for o in member.options):
            return replace(member, options=tuple(o for o in member.options if o.key in wanted))
        return member

    return [settled(m) for m in members]


def _shares(member: Member) -> bool:
    spec = member.statistic.spec
    return spec.spikes and spec.mechanism is None and spec.max_rows is None


def _alone(member: Member) -> str | None:
    """A spike-free law must respect the declared domain itself, which it does for one statistic."""
    spec = member.statistic.spec
    if member.view is not None:  # one law, every member's domain is a side of it
        return None
    return None if spec.spikes or member.domain == member.induced else spec.name


def _subject(member: Member) -> tuple[object, ...]:
    return member.context.subject, member.max_rows, member.statistic.spec.mechanism


def member_of(query: Query, statistic: Statistic) -> Member:
    """Return one statistic with its domain and encodings; PlanError as `layout`."""
    tick()
    spec = statistic.spec
    aggregate = aggregate_named(statistic.function)
    context = Context(
        spec=spec,
        column=statistic.column,
        condition=statistic.condition,
        code=statistic.code,
        edges=statistic.edges,
        columns=statistic.columns,
        codes=statistic.codes,
        public_rows=statistic.public_rows,
        cap=query.schema.rows.maximum or _declared_cap(statistic),
        groups=len(query.groups.keys),
        graph=statistic.graph,
    )
    if context.scale == 0 and not aggregate.constant:
        raise PlanError(
            f"{spec.text} is a constant: its column can hold one value only",
            where=spec.origin,
            why="there is nothing to protect and nothing to learn",
            fix="leave it out, or widen the column's range",
            code="DPR208",
        )
    induced = domain = aggregate.domain(context)
    if spec.domain is not None:
        common = domain.intersect(spec.domain)
        if common is None:
            raise PlanError(
                f"no value of {spec.text} can lie in its declared domain",
                where=spec.origin,
                why=f"the statistic lies in {domain}, the declared domain is {spec.domain}",
                fix="declare a domain that overlaps the statistic's own",
                code="DPR206",
            )
        domain = common
    options = _admissible(statistic, aggregate.encodings(context))
    if aggregate.root and not spec.spikes and domain != induced:
        raise PlanError(
            f"no proved form of {spec.text} without spikes on a domain of its own",
            where=spec.origin,
            why="it is the root of a released variance; mapping that into the domain makes spikes",
            fix="allow spikes, leave out `domain`, or ask for variance(...) with a domain",
            code="DPR210",
        )
    return Member(statistic, aggregate, context, domain, options, induced)


def _declared_cap(statistic: Statistic) -> int | None:
    """Return the number of rows that a declared domain of a count or a sum stands for.

    A finite domain caps a count as well as `rows.max` does; it says nothing about the rows behind a
    mean or a variance.
    """
    domain, column = statistic.spec.domain, statistic.column
    if domain is None:
        return None
    low, high = domain.lower, domain.upper
    if not isinstance(low, Fraction) or not isinstance(high, Fraction):
        return None
    return aggregate_named(statistic.function).cap(low, high, column)


def _admissible(statistic: Statistic, options: tuple[Encoding, ...]) -> tuple[Encoding, ...]:
    spec = statistic.spec
    kept = options
    if not spec.spikes:
        kept = tuple(o for o in kept if o.family not in _CELLS)
        if not kept:
            raise PlanError(
                f"no proved form of {spec.text} without spikes",
                where=spec.origin,
                why="it is post-processed from noisy cells, which puts mass on the ends of its domain",
                fix=aggregate_named(statistic.function).without_spikes(),
                code="DPR210",
            )
    elif spec.mechanism is None:
        return kept
    if spec.mechanism is not None:
        kept = tuple(o for o in kept if _draws(o, spec.mechanism))
        if not kept:
            families = sorted({f for o in options for f in _families(o)})
            raise PlanError(
                f"`{spec.mechanism}` cannot draw {spec.text} here",
                where=spec.origin,
                why="the statistic is measured in a way this mechanism has no proof for",
                fix=f"pin one of: {', '.join(families)}; or leave `mechanism` out",
                code="DPR211",
            )
    return kept


def _families(encoding: Encoding) -> tuple[str, ...]:
    match encoding.family:
        case "scalar":
            return registry.names("mechanisms") + registry.third_party_names("mechanisms")
        case "truncated_mean":
            return WITHOUT_ATOMS
        case _ if encoding.form in CHOICES:
            return ("exponential",)
        case "graph_box":
            return ("bounded_gaussian",)
        case "constant":
            return ()
        case _:
            return ("discrete_laplace", "rectified_gaussian", "rectified_laplace")


def _draws(encoding: Encoding, mechanism: str) -> bool:
    return encoding.family == "constant" or mechanism in _families(encoding)
