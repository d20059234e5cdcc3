"""Guards of `dprelease/mechanisms` and `dprelease/numeric.py`: what a certificate may say."""

from __future__ import annotations

from tests.mutation.guard import Guard

GUARDS = (
    Guard(
        "a claimed loss is believed",
        "mechanisms/certificate.py",
        "proved = claim if ratio <= exp_lower(claim) else log_upper(ratio)",
        "proved = claim",
        ("tests/mechanisms/test_law.py", "tests/mechanisms/certifiers/test_table_laplace.py"),
    ),
    Guard(
        "nano-units are rounded down",
        "numeric.py",
        "return math.ceil(value * NANO)",
        "return math.floor(value * NANO)",
        ("tests/test_numeric.py", "tests/budget/test_accountant.py"),
    ),
    Guard(
        "a lower bound of the exponential is an upper one",
        "numeric.py",
        "return Fraction(total, one)",
        "return Fraction(total + one // 2**100, one)",
        ("tests/test_numeric.py",),
    ),
    Guard(
        "an upper bound of the exponential is a lower one",
        "numeric.py",
        "return exp_lower(x, bits + 8) * (1 + Fraction(1, 1 << (bits - 4)))",
        "return exp_lower(x, bits + 8)",
        ("tests/test_numeric.py",),
    ),
    Guard(
        "an upper bound of the logarithm is not checked",
        "mechanisms/certificate.py",
        "    while exp_lower(bound) < ratio:\n        bound, step = bound * (1 + step), 2 * step\n",
        "",
        ("tests/mechanisms/test_law.py",),
    ),
    Guard(
        "zero is drawn twice as often",
        "mechanisms/kernels/laplace.py",
        "good = ~(minus & (size == 0))",
        "good = np.ones(size.size, dtype=bool)",
        ("tests/mechanisms/kernels/test_noise.py", "tests/audit/test_sampler.py"),
    ),
    Guard(
        "ties of a coin are not settled",
        "mechanisms/kernels/sampling.py",
        "        out[i] = _settle(rest, den, bits)\n",
        "        out[i] = True\n",
        ("tests/mechanisms/kernels/test_sampling.py",),
    ),
    Guard(
        "a uniform integer is not rejected",
        "entropy.py",
        "good = value < bound if bound < 2**63 else np.ones(todo.size, dtype=bool)",
        "value, good = value % bound, np.ones(todo.size, dtype=bool)",
        ("tests/test_entropy.py",),
    ),
    Guard(
        "losses are rounded down before they are composed",
        "budget/composition.py",
        "counted = sorted(Counter(-(-n // common) for n in nanos).items())",
        "counted = sorted(Counter(max(1, n // common) for n in nanos).items())",
        ("tests/budget/test_composition.py",),
    ),
    Guard(
        "optimal composition takes rho for a pure loss",
        "budget/composition.py",
        "return pure_epsilon(pure, delta / 2) + zcdp_epsilon(sum(rhos, Fraction(0)), delta / 2)",
        "return pure_epsilon(pure, delta) + zcdp_epsilon(sum(rhos, Fraction(0)), delta)",
        ("tests/budget/test_composition.py",),
    ),
    Guard(
        "the rho of noise counts every step by itself",
        "budget/exact_rho.py",
        "saved = 2 * a * (1 - far) / (each * (1 - a * a))",
        "saved = 2 * a / (1 + a)",
        ("tests/budget/test_exact_rho.py",),
    ),
    Guard(
        "the rho of any pure loss is that of bounded range",
        "budget/exact_rho.py",
        "return min(epsilon * epsilon / 2, _up(",
        "return min(epsilon * epsilon / 8, _up(",
        ("tests/budget/test_exact_rho.py",),
    ),
    Guard(
        "the rho of cells takes all moves for single steps",
        "measurements/cells.py",
        "square = sensitivity.total * sensitivity.in_group",
        "square = sensitivity.total",
        ("tests/measurements/test_rho.py",),
    ),
    Guard(
        "the rho of scalars takes all moves for single steps",
        "measurements/scalar.py",
        "square = total * min(each, max(1, self.law.allowed.hull_steps))",
        "square = total",
        ("tests/measurements/test_rho.py",),
    ),
    Guard(
        "noise that keeps a sum is drawn for bins that do not",
        "measurements/balanced.py",
        "if not sensitivity.kept or self.noise.cells != self.count:",
        "if self.noise.cells != self.count:",
        ("tests/measurements/test_balanced.py",),
    ),
    Guard(
        "bins that end before the column are taken for all of it",
        "aggregates/bin_moves.py",
        "return meet and rising[0][0] <= reach[0] and reach[1] <= rising[-1][1]",
        "return meet",
        ("tests/measurements/test_balanced.py",),
    ),
    Guard(
        "bins of a private number of rows keep their sum",
        "recompute.py",
        'if encoding.public_rows is None or encoding.form != "linear" or not alone:',
        'if encoding.form != "linear" or not alone:',
        ("tests/measurements/test_balanced.py",),
    ),
    Guard(
        "every attempt at noise that keeps a sum counts",
        "mechanisms/forms/balanced.py",
        "kept = np.flatnonzero((free[:, -1] >= np.abs(last)).astype(bool))",
        "kept = np.arange(todo.size)",
        ("tests/mechanisms/forms/test_balanced.py",),
    ),
)
