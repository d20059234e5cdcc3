"""Guards of noise that ends: what it costs, how it is divided, and where an exact number lies for certain."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_LOSS = "tests/mechanisms/kernels/test_ending_laplace.py"
_BLOCKS = "tests/measurements/test_ending.py"
_FOLDERS = "tests/end_to_end/test_certain.py"
_RULES = "tests/results/test_certain_rules.py"

_kernel = partial(Guard, file="mechanisms/kernels/ending_laplace.py", tests=(_LOSS,))
_law = partial(Guard, file="measurements/ending.py", tests=(_BLOCKS, _FOLDERS))
_wall = partial(Guard, file="wall/ending_noise.py", tests=(_LOSS, _BLOCKS))

GUARDS = (
    _kernel(
        "noise that ends is priced for one cell, however many a unit moves",
        old="stays = (1 - self.outermost(steps)) ** whole",
        new="stays = 1 - self.outermost(steps)",
    ),
    _kernel(
        "noise that ends is priced for the last point alone",
        old="near = self.rate * (self.bound + 1), self.rate * (self.bound + 1 - count)",
        new="near = self.rate * (self.bound + 1), self.rate * self.bound",
    ),
    _kernel(
        "what is left of a unit's moves costs nothing",
        old="1 - (stays * (1 - self.outermost(rest)) if rest else stays)",
        new="1 - stays",
    ),
    _kernel(
        "draws beyond the bound are kept",
        old="inside = abs(drawn) <= self.bound",
        new="inside = abs(drawn) <= self.bound + 1",
    ),
    _law(
        "moves of noise that ends are claimed smaller than they are",
        old="if claimed[0] < steps or claimed[1] < sensitivity.l1_over_groups:",
        new="if claimed[1] < sensitivity.l1_over_groups:",
    ),
    _law(
        "the certain interval is a step too short",
        old="low, high = raw - self.bound, raw + self.bound",
        new="low, high = raw - self.bound // 2, raw + self.bound // 2",
    ),
    _wall(
        "the wall counts one cell, however many a unit moves",
        old="possible = _possible(rate, bound, most) ** (total // most)",
        new="possible = _possible(rate, bound, most)",
    ),
    _wall(
        "the wall keeps the claim where it finds more",
        old="delta=max(delta, proof.delta)",
        new="delta=Fraction(0)",
    ),
    Guard(
        "a block's own delta is believed",
        "release_plan/guarantee.py",
        "short = block.rho is not None or found.delta > block.delta",
        "short = block.rho is not None",
        (_BLOCKS,),
    ),
    Guard(
        "deltas of blocks may add up to more than that of the plan",
        "release_plan/guarantee.py",
        "if sum(p.delta for p in proofs) > plan.delta:",
        "if False:",
        (_BLOCKS,),
    ),
    Guard(
        "other blocks are composed with the whole delta beside noise that ends",
        "budget/composition.py",
        "delta - basic([p.delta for p in ended])",
        "delta",
        ("tests/budget/test_composition.py",),
    ),
    Guard(
        "noise that ends has a rho",
        "wall/execute.py",
        "return None if any(proof.delta for proof in found) else total_rho(found)",
        "return total_rho([replace(proof, delta=Fraction(0)) for proof in found])",
        (_BLOCKS, _FOLDERS),
    ),
    Guard(
        "a replaced bin is taken to move by less than a unit's rows",
        "statistics/sensitivity.py",
        "in_a_cell=m * (min(added, replaced) if positive else replaced)",
        "in_a_cell=min(added, replaced) if positive else replaced",
        (_BLOCKS,),
    ),
    Guard(
        "sums of certain ends are those of one cell",
        "fitting/interval.py",
        "np.add.at(total, inside, np.where(empty, 0, end))",
        "total[inside] = end",
        (_FOLDERS,),
    ),
    Guard(
        "a difference for certain is taken of the ends as they stand",
        "reading/quantity.py",
        "low, high = a - d, b - c",
        "low, high = a - c, b - d",
        ("tests/reading/test_derive.py", _FOLDERS),
    ),
    Guard(
        "a suppressed cell keeps its certain ends, whose middle is the noisy number",
        "results/rules.py",
        'for name in ("value", *CERTAIN_NAMES, "estimate", "unbiased", "consistent"):',
        'for name in ("value", "estimate", "unbiased", "consistent"):',
        (_RULES,),
    ),
    Guard(
        "a suppressed row with certain ends passes validation",
        "results/validate/rules.py",
        "np.where(table.missing[mine], np.isnan(least) & np.isnan(most), sure)",
        "table.missing[mine] | sure",
        (_RULES,),
    ),
    Guard(
        "what a suppressed cell enters is certain by what was not published",
        "reading/interval.py",
        "ends = [q.domain if q.suppressed else q.certain for q in found]",
        "ends = [q.certain for q in found]",
        (_RULES,),
    ),
    Guard(
        "certain ends of rounded tables are rounded inwards",
        "results/one_fit.py",
        "return low // each * each, -(-high // each) * each",
        "return -(-low // each) * each, high // each * each",
        (_RULES,),
    ),
    Guard(
        "certain ends of rounded tables end at the greatest multiple",
        "results/one_fit.py",
        "math.ceil(domain.upper / self.fit.step_size),",
        "math.floor(domain.upper / self.fit.step_size / each) * each,",
        (_RULES,),
    ),
    Guard(
        "certain ends are rounded to the nearest step",
        "results/draw.py",
        "outward(np.clip(low, *statistic.domain.hull), statistic.step, np.floor)",
        "outward(np.clip(low, *statistic.domain.hull), statistic.step, np.round)",
        (_RULES,),
    ),
)
