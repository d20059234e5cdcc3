"""Which blocks are drawn: statistics that share cells share a block and its budget.

The mean, variance and standard deviation of one column come from one set of Bernstein cells; a
mean alone prefers two sums. Covariance and correlation of two columns come from one tensor, and so
do the moments of either column if no null leaves a row out: only then are they over the same rows.
Here a statistic's declared domain is intersected with the one that follows from its columns (*induced*), and a named
`mechanism` and `spikes: forbid` leave out measurements. What has no proved form is refused with the nearest forms that
have one. So are columns of one published table that would share a name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from fractions import Fraction

from dprelease.core import registry
from dprelease.core.errors import PlanError
from dprelease.core.patience import tick
from dprelease.measurements.base import family_named, family_of
from dprelease.measurements.members import BlockLayout, Member
from dprelease.measurements.of_scalar import rises_or_falls, scalar_of
from dprelease.measurements.several_columns import shared_rows
from dprelease.query.bounded import Code, Fixed
from dprelease.query.cleaning import must_be_exact
from dprelease.query.resolved import Statistic
from dprelease.query.spec import Query
from dprelease.release_plan.statistic import CERTAIN_NAMES, TIDY_NAMES, WIDE_PARTS
from dprelease.schema.naming import did_you_mean
from dprelease.schema.release_spec import StatisticSpec
from dprelease.statistics.base import StatisticKind, kind_named
from dprelease.statistics.measurement import Axis, Context, Measurement
from dprelease.statistics.types_of_change import keeps_every_row


def layouts(query: Query) -> tuple[tuple[BlockLayout, ...], ...]:
    """Return the layouts that a request may have: `layout`, and perhaps one with one block for moments of the same rows.

    Raises:
        PlanError: as `layout`; no statistic is asked for (DPR201), or two columns share a name (DPR207).
    """
    if not query.statistics:
        raise PlanError(
            "nothing to release: no statistics are asked for",
            where=query.spec.origin,
            fix="list at least one, e.g. `statistics: [count]`",
            code="DPR201",
        )
    by, origin = query.spec.by, query.spec.origin
    certain = bool([s for s in query.statistics if s.spec.certain])
    check_names(by, [s.spec.name for s in query.statistics], (), origin, certain=certain)
    apart = layout(query)
    columns = [c for b in apart for m in b.members for c in m.kind.columns(m.statistic)]
    check_names(by, (), columns, origin, certain=certain)
    return (apart,) if len(apart) == 1 else (apart, *_one_size(query, apart))


def check_names(
    by: Sequence[str],
    names: Sequence[str],
    columns: Sequence[str],
    origin: str,
    *,
    certain: bool,
) -> None:
    """Refuse columns of one published table that would share a name.

    Args:
        names: of the statistics; columns: what they publish.
        certain: whether the noise of some has an end: then columns of certain intervals are published too.

    Raises:
        PlanError: two are equal (DPR207).
    """
    taken, parts = {*TIDY_NAMES, *names}, WIDE_PARTS[certain]
    taken |= set(CERTAIN_NAMES) if certain else set()
    for name in by:
        if name in taken:
            raise PlanError(
                f"the grouping column `{name}` has the name of a published column",
                where=origin,
                why="two columns of one table cannot share a name",
                fix="rename the statistic with `as`, or the column in the schema and a view",
                code="DPR207",
            )
    companions = {f"{c}_{part}": c for c in columns for part in parts}
    for name in (*by, *columns):
        if name in companions:
            raise PlanError(
                f"`{name}` is also what the table of all groups calls a column of `{companions[name]}`",
                where=origin,
                why=f"beside every published column stand {', '.join(f'<name>_{p}' for p in parts)}",
                fix="rename one of the two with `as`",
                code="DPR207",
            )


def layout(query: Query) -> tuple[BlockLayout, ...]:
    """Group the statistics of `query` into blocks, in order of first appearance.

    Raises:
        PlanError: an empty domain (DPR206), a constant (DPR208), or no measurement that respects
            `spikes: forbid` (DPR210) or a named mechanism (DPR211).
    """
    members = [member_of(query, s) for s in query.statistics]
    for name in registry.JOINING:
        members = family_named(name).together(members, query)
    # what some statistic's first choice shares, others of the same subject share too, if they can
    joint = {_subject(m) for m in members if any(map(_shared, m.options[:1]))}
    groups: dict[tuple[object, ...], list[Member]] = {}
    chosen: dict[tuple[object, ...], tuple[Measurement, ...]] = {}
    for member in members:
        options = member.options
        if _subject(member) in joint and any(map(_shared, options)):
            options = tuple(filter(_shared, options))
        spec = member.statistic.spec
        key = (*options[0].key, member.max_rows, spec.mechanism, spec.certain, _own_block(member))
        groups.setdefault(key, []).append(member)
        before = chosen.setdefault(key, options)
        keys = {o.key for o in options}
        chosen[key] = tuple(o for o in before if o.key in keys)
    return tuple(BlockLayout(tuple(groups[k]), chosen[k]) for k in groups)


def _one_size(query: Query, apart: tuple[BlockLayout, ...]) -> tuple[tuple[BlockLayout, ...], ...]:
    """Return the layout with one block for all moments of the same rows, if two blocks or more hold such."""
    found = [b for b in apart if all(_shareable_columns(query, m) is not None for m in b.members)]
    found.sort(key=lambda block: block.members[0].kind.of_rows)  # counts last: no column
    if len(found) < 2 or found[0].members[0].kind.of_rows:
        return ()
    one, names = _one_block(query, found), [block.name for block in found]
    return (tuple(one if b is found[0] else b for b in apart if b.name not in names[1:]),)


def _one_block(query: Query, blocks: Sequence[BlockLayout]) -> BlockLayout:
    """Return one block of all their members: one column is measured as before, of several it is `shared_rows`."""
    members = [m for block in blocks for m in block.members]
    own = {m.statistic.column: m.statistic.code for m in members if m.statistic.column is not None}
    # a statistic of two columns takes the codes of statistics of one of them
    for i, m in enumerate(members):
        pairs = zip(m.statistic.columns, m.statistic.codes, strict=True)
        codes = tuple(own.get(column) or code for column, code in pairs)
        members[i] = replace(m, statistic=replace(m.statistic, codes=codes))
    powers = [(m.kind.degree or 0, _shareable_columns(query, m) or {}) for m in members]
    if len({code for _, columns in powers for code in columns}) == 1:
        options = tuple(o for o in blocks[0].options if family_of(o).part(o, 0) is not None)
        views: list[int | None] = [0 if m.kind.of_rows else None for m in members]
    else:
        options, views = shared_rows(powers)
    seen = zip(members, views, strict=True)
    return BlockLayout(tuple(replace(m, options=options, view=v) for m, v in seen), options)


def _shareable_columns(query: Query, member: Member) -> dict[Code, Axis] | None:
    """Return the columns of a statistic, if it may share its number of rows with others, else None."""
    spec, context, of_rows = member.statistic.spec, member.statistic, member.kind.of_rows
    own: tuple[object, ...] = spec.mechanism, spec.share, spec.max_error, spec.max_rows
    own += context.weight, context.public_rows, spec.domain if of_rows else None
    plain = spec.spikes and spec.weight == 1 and member.kind.degree is not None
    if not plain or any(each is not None for each in own):
        return None
    one = () if context.code is None else (context.code,)
    axis = Axis(context.scale, context.lowest, context.step)
    columns = dict(zip(context.codes, context.axes, strict=True)) or dict.fromkeys(one, axis)
    declared = query.schema.columns.values()
    return columns if all(keeps_every_row(declared, code) for code in columns) else None


def _own_block(member: Member) -> str | None:
    """Return the name of a statistic that shares its block with none: a law without point masses fits one domain."""
    spec = member.statistic.spec
    if family_of(member.options[0]).one_law:  # a box has a side for every domain
        return None
    return None if spec.spikes or member.domain == member.induced else spec.name


def _shared(measurement: Measurement) -> bool:
    """Return whether more than one statistic can be computed from it."""
    return family_of(measurement).shared


def _subject(member: Member) -> tuple[object, ...]:
    """Return what is equal of statistics that may share cells: columns, rows per unit, named mechanism."""
    return member.statistic.subject, member.max_rows, member.statistic.spec.mechanism


def member_of(query: Query, statistic: Statistic) -> Member:
    """Return one statistic with its domain and measurements; PlanError as `layout`."""
    tick()
    spec = statistic.spec
    statistic_kind = kind_named(statistic.function)
    context = Context(
        **{part.name: getattr(statistic, part.name) for part in fields(Statistic)},
        cap=query.schema.rows.maximum or _declared_cap(statistic),
        expected=None if query.where or spec.where or query.tables else query.expected,
        groups=query.groups.count,
    )
    if context.scale == 0 and not statistic_kind.constant:
        raise PlanError(
            f"{spec.text} is a constant: its column can hold one value only",
            where=spec.origin,
            why="there is nothing to protect and nothing to learn",
            fix="leave it out, or widen the column's range",
            code="DPR208",
        )
    induced = domain = statistic_kind.domain(context)
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
    options = _admissible(statistic, statistic_kind.measurements(context))
    for measure in options[0].measures:
        for code in (measure.code, measure.other):
            if isinstance(code, Fixed):
                must_be_exact(code, spec.origin)  # before noise is sought for a range without end
    scalar = scalar_of(statistic_kind, options)
    if scalar is not None and not spec.spikes:
        _check_function(statistic, statistic_kind, scalar, whole=domain == induced)
    return Member(context, statistic_kind, domain, options, induced)


def _check_function(
    statistic: Statistic, statistic_kind: StatisticKind, scalar: Measurement, *, whole: bool
) -> None:
    """Refuse `spikes: forbid` for a function of one drawn number that would make point masses of a law without any."""
    spec = statistic.spec
    if not whole:
        raise PlanError(
            f"no proved form of {spec.text} without point masses on a domain of its own",
            where=spec.origin,
            why=f"it is a function of a released {scalar.cells[0]}; mapping that into the domain makes point masses",
            fix="remove `spikes: forbid` or `domain`, or ask for the released value itself with this domain",
            code="DPR210",
        )
    if not rises_or_falls(statistic_kind, scalar):
        raise PlanError(
            f"no proved form of {spec.text} without point masses",
            where=spec.origin,
            why=f"it has the same value for many values of a released {scalar.cells[0]}",
            fix="remove `spikes: forbid`",
            code="DPR210",
        )


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
    return kind_named(statistic.function).cap(low, high, column)


def _check_known(spec: StatisticSpec) -> None:
    """Refuse the name of a mechanism that does not exist."""
    known = registry.names("mechanisms") + registry.third_party_names("mechanisms")
    name = spec.mechanism or ""
    if name not in known and name in registry.REMOVED:
        raise PlanError(
            f"the mechanism `{name}` was removed",
            where=spec.origin,
            why="others are as accurate; the version that published with it verifies what it published",
            fix=registry.REMOVED[name],
            code="DPR211",
        )
    if name not in known:
        raise PlanError(
            f"there is no mechanism `{name}`",
            where=spec.origin,
            fix=did_you_mean(name, known, "`dprelease kinds` lists them"),
            code="DPR211",
        )


def _admissible(statistic: Statistic, options: tuple[Measurement, ...]) -> tuple[Measurement, ...]:
    """Return the measurements that respect `spikes: forbid` and a named mechanism; PlanError as `layout`."""
    spec = statistic.spec
    admissible = options
    if not spec.spikes:
        admissible = tuple(o for o in options if not family_of(o).point_masses)
        if not admissible:
            raise PlanError(
                f"no proved form of {spec.text} without point masses",
                where=spec.origin,
                why="it is post-processed from noisy components, which puts mass on the ends of its domain",
                fix=kind_named(statistic.function).without_point_masses(),
                code="DPR210",
            )
    if spec.mechanism is not None:
        admissible = tuple(o for o in admissible if family_of(o).takes(spec.mechanism))
        if not admissible:
            families = sorted({f for o in options for f in family_of(o).pins()})
            _check_known(spec)
            raise PlanError(
                f"`{spec.mechanism}` cannot draw {spec.text} here",
                where=spec.origin,
                why="the statistic is measured in a way this mechanism has no proof for",
                fix=f"pin one of: {', '.join(families)}; or leave `mechanism` out",
                code="DPR211",
            )
    return admissible
