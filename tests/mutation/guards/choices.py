"""Guards of several values chosen one inside the other."""

from __future__ import annotations

from tests.mutation.guard import Guard

GUARDS = (
    Guard(
        "choices of a level without room for rounding",
        file="statistics/recursive_ranks.py",
        old="row = math.ceil(2 * changes[0]) + 2 * len(level)",
        new="row = math.ceil(2 * changes[0])",
        tests=("tests/contracts/test_recursive_rank_sensitivities.py",),
    ),
    Guard(
        "a row moves the aim between others by half of itself at most",
        file="statistics/recursive_ranks.py",
        old="return max(node.part, 1 - node.part)",
        new="return Fraction(1, 2)",
        tests=("tests/contracts/test_recursive_rank_sensitivities.py",),
    ),
    Guard(
        "a replaced row moves choices of a level like an added one",
        file="statistics/recursive_ranks.py",
        old="out.append((row, math.ceil(2 * swapped) + 2 * len(level)))",
        new="out.append((row, row))",
        tests=("tests/contracts/test_recursive_rank_sensitivities.py",),
    ),
    Guard(
        "only the costliest level of choices is charged",
        file="statistics/recursive_ranks.py",
        old="return sum(row for row, _ in levels), sum(swap for _, swap in levels)",
        new="return max(row for row, _ in levels), max(swap for _, swap in levels)",
        tests=("tests/contracts/test_recursive_rank_sensitivities.py",),
    ),
    Guard(
        "choices one inside the other for a smaller spread than their query has",
        file="measurements/recursive_ranks.py",
        old="self.step <= 0 or self.law.spread < sensitivity.l1_over_groups",
        new="self.step <= 0",
        tests=("tests/planning/test_recursive_quantiles.py",),
    ),
    Guard(
        "choices one inside the other at other targets than their query's",
        file="measurements/recursive_ranks.py",
        old="isinstance(law, RecursiveRanksLaw) and law.weights != measurement.weights",
        new="False",
        tests=("tests/planning/test_recursive_quantiles.py",),
    ),
    Guard(
        "choices one inside the other where each by itself finds what many rows share",
        file="measurements/recursive_ranks.py",
        old="return _NEARER * mine < times * alone",
        new="return True",
        tests=("tests/planning/test_recursive_quantiles.py",),
    ),
    Guard(
        "values by themselves that cost as much where rho adds up",
        file="measurements/recursive_ranks.py",
        old="math.sqrt(many / part_of_rho(made.weights)) if by_rho else many",
        new="many",
        tests=("tests/planning/test_recursive_quantiles.py",),
    ),
    Guard(
        "the levels of choices cost the rho of one",
        file="measurements/several_ranks.py",
        old="max(Fraction(sum(s * s for s in spread), sum(spread) ** 2) for spread in both)",
        new="max(Fraction(max(spread) ** 2, 8 * sum(spread) ** 2) for spread in both)",
        tests=("tests/measurements/test_rho.py",),
    ),
    Guard(
        "every draw of a segment is kept",
        file="mechanisms/forms/recursive_scores.py",
        old="good = np.array([rest < int(law.weights(self.scores(copy, copy))[0])])",
        new="good = np.array([True])",
        tests=("tests/mechanisms/forms/test_recursive_scores.py",),
    ),
    Guard(
        "a segment weighs as its last copy",
        file="mechanisms/forms/recursive_scores.py",
        old="self._copies.stretches(first)[0], self._copies.stretches(last)[1]",
        new="self._copies.stretches(last)[0], self._copies.stretches(first)[1]",
        tests=("tests/mechanisms/forms/test_recursive_scores.py",),
    ),
    Guard(
        "a chosen copy parts the rows at its stretch's start",
        file="mechanisms/forms/recursive_scores.py",
        old="(upto - below) * (2 * level + 1)",
        new="(upto - below) * (2 * level)",
        tests=("tests/mechanisms/forms/test_recursive_scores.py",),
    ),
    Guard(
        "quantiles one inside the other are stated as if no two rows shared a value",
        file="measurements/recursive_ranks.py",
        old="return math.ceil(own + self.per_row_shared * sharing)",
        new="return math.ceil(own + self.per_row_shared)",
        tests=("tests/contracts/test_recursive_rank_errors.py",),
    ),
    Guard(
        "the last digit of an error decides how a block is drawn",
        "allocation/choose.py",
        "ranked = sorted(found, key=lambda c: ranking(c.price(judge)))",
        "ranked = sorted(found, key=lambda c: c.price(judge))",
        ("tests/allocation/test_choose.py",),
    ),
)
