"""Guards of the wall: what a plan may claim, and who may draw."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_execute = partial(
    Guard,
    file="wall/execute.py",
    tests=(
        "tests/wall/test_execute.py",
        "tests/wall/test_recompute.py",
        "tests/measurements/test_ranks.py",
    ),
)
_parts = partial(Guard, file="wall/parts.py", tests=("tests/wall/test_parts.py",))
_cells = partial(
    Guard,
    file="measurements/scalar.py",
    tests=("tests/measurements/test_law.py", "tests/wall/test_execute.py"),
)
_total = partial(
    Guard,
    file="release_plan/guarantee.py",
    tests=("tests/wall/test_execute.py", "tests/planning/test_delta.py"),
)

_held = partial(
    Guard,
    tests=(
        "tests/measurements/test_base.py",
        "tests/measurements/test_ranks.py",
        "tests/wall/test_execute.py",
    ),
)

_spectral = partial(
    Guard,
    file="wall/form_sensitivity.py",
    tests=("tests/wall/test_form_sensitivity.py",),
)

_forged = partial(Guard, tests=("tests/wall/test_forged_places.py",))

GUARDS = (
    _forged(
        "a block's places are a plan's own, or Python says so",
        file="wall/execute.py",
        old="    except UNREADABLE:  # what is raised",
        new="    except MemoryError:  # what is raised",
    ),
    _forged(
        "a table that a plan does not have ends a search without a code",
        file="core/errors.py",
        old="AssertionError, RecursionError, StopIteration,",
        new="AssertionError, RecursionError,",
    ),
    _forged(
        "a code of no shape ends a search without a code",
        file="query/task.py",
        old="if key in value), Fixed)",
        new="if key in value))",
    ),
    _forged(
        "a choice by rank may have any loss",
        file="mechanisms/forms/scores.py",
        old="> _FAR:",
        new="> 10**99:",
    ),
    _spectral(
        "the wall lets eigenvalues lie apart by one row's part alone, without 2 / sqrt 3",
        old="apart = _TWO_BY_ROOT_THREE * _row_part(rows) + 2",
        new="apart = _row_part(rows) + 2",
    ),
    _spectral(
        "the wall forgets what a solver misses",
        old="+ 2 * count * missed",
        new="",
    ),
    _spectral(
        "the wall forgets that each eigenvalue is rounded",
        old="return floor(apart / step) + count",
        new="return floor(apart / step)",
    ),
    _spectral(
        "the wall forgets a column's product with itself",
        old="(sum(widths, Fraction(0)) ** 2 + square) / 2",
        new="sum(widths, Fraction(0)) ** 2 / 2",
    ),
    _spectral(
        "the wall rounds 2 / sqrt 3 down",
        old="isqrt((4 << 2 * _BITS) // 3) + 1",
        new="isqrt((4 << 2 * _BITS) // 3)",
    ),
    _execute(
        "repeatable bits are drawn from",
        old="if type(source) is not SystemBits:",
        new="if False:",
    ),
    _parts(
        "a law is believed by a class of its own",
        old="    blocks = decode(kind, encode(plan.blocks, kind))\n",
        new="    return plan\n    blocks = plan.blocks\n",
        tests=("tests/wall/test_execute.py",),
    ),
    _execute(
        "an unproved eigenvalue is not said to be one",
        old="if measurement.form in OBSERVED and not any(SPARSE in note for note in plan.notes):",
        new="if False:",
    ),
    _execute(
        "a law draws another measurement than its own",
        old="    if why:\n",
        new="    if False:\n",
    ),
    _held(
        "a choice has other candidates than its column has codes",
        file="measurements/ranks.py",
        old="if [(c.grid, c.step) for c in codes if isinstance(c, Fixed)] != [(law.allowed, law.step)]:",
        new="if False:",
    ),
    _held(
        "an engine counts less far from a rank than the law weighs",
        file="measurements/ranks.py",
        old="if not all(p.near is None or p.near.last >= law.law.last for p in used):",
        new="if False:",
    ),
    _held(
        "a mean's law is at another scale than its column",
        file="measurements/truncated_mean.py",
        old="if not why and isinstance(law, MeanLaw) and law.scale != measurement.scale:",
        new="if False:",
    ),
    _held(
        "a measurement is made of cells of another form",
        file="measurements/base.py",
        old="if measurement.form not in self.forms:",
        new="if False:",
    ),
    _held(
        "a measurement is drawn by another's law",
        file="measurements/base.py",
        old="if law.tag not in self.draws:",
        new="if False:",
    ),
    _execute(
        "a public number of rows is not counted",
        old="    if not declared:\n        return\n",
        new="    return\n",
        tests=(
            "tests/wall/test_execute.py",
            "tests/pipeline/test_stages.py",
            "tests/test_facade.py",
        ),
    ),
    _cells(
        "cells are certified for the sensitivity in one group",
        file="measurements/cells.py",
        old="if self.noise.l1_sensitivity < sensitivity.l1_over_groups:",
        new="if self.noise.l1_sensitivity < sensitivity.l1_per_group:",
    ),
    _cells(
        "a number's law covers any move",
        old="if self.law.sensitivity < needed or (not self.linear and self.changed_groups < sensitivity.changed_groups):",
        new="if not self.linear and self.changed_groups < sensitivity.changed_groups:",
    ),
    _cells(
        "a number is charged for fewer groups than are changed",
        old="if self.law.sensitivity < needed or (not self.linear and self.changed_groups < sensitivity.changed_groups):",
        new="if self.law.sensitivity < needed:",
    ),
    _cells(
        "a truncated law covers moves that are split over groups",
        old="if self.linear and sensitivity.changed_groups > 1 and not covers_splits(self.law):",
        new="if False:",
    ),
    _cells(
        "reflected noise is taken for noise that is added",
        old="if not isinstance(self.law, AdditiveLaw):",
        new='if not hasattr(self.law, "noise"):',
    ),
    _cells(
        "rounding is counted once over all groups",
        file="measurements/scalar_grid.py",
        old="return min(moving * each, (q * s.l1_over_groups + moving * (p - 1)) // p)",
        new="return -(-s.l1_over_groups * q // p)",
    ),
    _cells(
        "a public constant may move",
        file="measurements/constant.py",
        old='        if sensitivity.l1_over_groups != 0:\n            raise underclaimed("sensitivity")\n        return Fraction(0)\n',
        new="        return Fraction(0)\n",
    ),
    _cells(
        "a step may be negative",
        old="if self.step_size <= 0 or self.step <= 0:",
        new="if False:",
    ),
    Guard(
        "normal noise covers any sensitivity",
        "measurements/gaussian.py",
        "if sensitivity.l2_squared is None or self.noise.l2_square < sensitivity.l2_squared:",
        "if sensitivity.l2_squared is None:",
        ("tests/wall/test_execute.py", "tests/planning/test_delta.py"),
    ),
    Guard(
        "normal noise covers a sensitivity without a proved square",
        "measurements/gaussian.py",
        "if sensitivity.l2_squared is None or self.noise.l2_square < sensitivity.l2_squared:",
        "if sensitivity.l2_squared is not None and self.noise.l2_square < sensitivity.l2_squared:",
        (
            "tests/wall/test_execute.py",
            "tests/planning/test_delta.py",
            "tests/measurements/test_law.py",
        ),
    ),
    Guard(
        "a choice covers any spread",
        "measurements/ranks.py",
        '        if self.law.spread < sensitivity.l1_over_groups:\n            raise underclaimed("sensitivity")\n',
        "",
        ("tests/measurements/test_ranks.py", "tests/wall/test_execute.py"),
    ),
    Guard(
        "a choice covers the spread of one group",
        "measurements/ranks.py",
        "if self.law.spread < sensitivity.l1_over_groups:",
        "if self.law.spread < sensitivity.l1_per_group:",
        ("tests/measurements/test_ranks.py", "tests/wall/test_execute.py"),
    ),
    Guard(
        "a truncated mean makes fewer moves than a unit",
        "measurements/truncated_mean.py",
        "if self.chain_length < sensitivity.chain_length:",
        "if False:",
        ("tests/measurements/test_law.py", "tests/wall/test_execute.py"),
    ),
    Guard(
        "a truncated mean reaches less far than its rows",
        "measurements/truncated_mean.py",
        "if self.sum_sensitivity < sum_sensitivity(sensitivity, self.scale * self.step_size):",
        "if False:",
        ("tests/measurements/test_law.py", "tests/wall/test_execute.py"),
    ),
    Guard(
        "a box covers any change of a component",
        "measurements/graph_box.py",
        "if stated < min(needed, part.allowed.hull_steps):",
        "if False:",
        ("tests/measurements/test_graph_box.py", "tests/wall/test_execute.py"),
    ),
    Guard(
        "another package's code draws what a plan's file names",
        "core/registry.py",
        "offers = [] if kind in _OWN else [",
        "offers = [",
        ("tests/core/test_registry.py",),
    ),
    Guard(
        "losses of changed groups are one loss",
        "measurements/scalar.py",
        "found = Proof(pure=(total / self.changed_groups,) * self.changed_groups)",
        "found = Proof(pure=(total / self.changed_groups,))",
        (
            "tests/measurements/test_law.py",
            "tests/wall/test_execute.py",
            "tests/planning/test_delta.py",
        ),
    ),
    _total(
        "a block costs more than it claims",
        old="if short or claimed > block.epsilon:",
        new="if short:",
    ),
    _total(
        "blocks cost more than the plan",
        old="if total > plan.epsilon:",
        new="if False:",
    ),
    _total(
        "the plan's rho is believed",
        old="return stated < total_rho(proofs)",
        new="return False",
    ),
    _total(
        "the plan's composed epsilon is believed",
        old="stated.evidence.epsilon_upper < compose(method, proofs, plan.delta)\n        or ",
        new="",
    ),
    _total(
        "a block's rho is believed",
        old="short = block.rho is None or found.rho > block.rho or not plan.delta",
        new="short = block.rho is None or not plan.delta",
    ),
    _parts(
        "a law of any class is drawn",
        old="        own = own and type(mine.law) is type(block.law)\n",
        new="",
        tests=("tests/wall/test_execute.py",),
    ),
    _parts(
        "a plan's loss is what it says of itself",
        old="own = type(plan.epsilon) is type(plan.delta) is Fraction",
        new="own = True",
        tests=("tests/wall/test_execute.py",),
    ),
    _parts(
        "a block is of any class",
        old="own = own and type(mine) is Block and type",
        new="own = own and type",
    ),
    _parts(
        "a measurement is of any class",
        old=" and type(mine.measurement) is Measurement",
        new="",
    ),
    _parts(
        "a query is of any class",
        old="own and type(plan.query) is BoundedQuery and ",
        new="own and ",
    ),
    _parts(
        "blocks are in any sequence",
        old=" and type(plan.blocks) is tuple",
        new="",
    ),
    _parts(
        "two blocks have one name",
        old="        if block.name in names:",
        new="        if block.name == 1:",
    ),
    _parts(
        "two columns have one name",
        old="            if (statistic.table, column) in names:",
        new="            if column == 1:",
    ),
    _parts(
        "a statistic is of any block",
        old="if statistic.block not in names:",
        new="if statistic.block == 1:",
    ),
    _parts(
        "a statistic has any step",
        old="if statistic.step <= 0:",
        new="if statistic.step < 0:",
    ),
    _parts(
        "a measurement has any step",
        old="if measurement.step_size <= 0:",
        new="if measurement.step_size < 0:",
    ),
    _parts(
        "the engine's groups are any",
        old="if not found and plan.query.groups.keys != plan.keys:",
        new="if not found and len(plan.query.groups.keys) != len(plan.keys):",
    ),
    _parts(
        "a block has any number of cells",
        old=" and max(1, len(made)) != cells:",
        new=" and not cells:",
    ),
    _parts(
        "cells that are sums themselves are any number",
        old="made = measurement.primitives if measurement.alone else",
        new="made = block.cells if measurement.alone else",
    ),
    _parts(
        "found keys are published by whatever is drawn first",
        old="if found and len(plan.blocks) != 1:",
        new="if found and not plan.blocks:",
    ),
    _parts(
        "found keys are published by nothing",
        old="if found and len(plan.blocks) != 1:",
        new="if found and len(plan.blocks) > 1:",
    ),
    _parts(
        "found keys have several numbers",
        old=" or (found and cells != 1):",
        new=":",
    ),
    _parts(
        "found keys are published by any noise",
        old="if block.law.of_keys != found or",
        new="if block.law.of_keys > found or",
    ),
    _parts(
        "declared groups are drawn as found keys",
        old="if block.law.of_keys != found or",
        new="if block.law.of_keys < found or",
    ),
)
