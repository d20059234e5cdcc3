"""Guards of `dprelease/results/validate/`: values outside their domain are withheld."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_rules = partial(
    Guard, file="results/validate/rules.py", tests=("tests/results/validate/test_rules.py",)
)
_joint = partial(
    Guard,
    file="results/validate/joint.py",
    tests=("tests/results/validate/test_rules.py", "tests/results/validate/test_surely.py"),
)

GUARDS = (
    Guard(
        "the process beside a run runs the user's script again",
        "results/validate/gx_process.py",
        '        main.__spec__ = ModuleSpec("dprelease.__main__", None)',
        "        pass",
        ("tests/results/validate/test_gx_process.py",),
    ),
    _rules(
        "a group may be there twice",
        old='result("groups", times == 1),',
        new='result("groups", times >= 1),',
    ),
    _rules(
        "a value may be infinite",
        old='result("finite", np.isfinite(value) | missing),',
        new='result("finite", ~np.isnan(value) | missing),',
    ),
    _rules(
        "a value may lie outside its domain",
        old='result("domain", statistic.domain.contains(value) | missing),',
        new='result("domain", np.ones(value.size, dtype=bool)),',
    ),
    _rules(
        "a value may lie between steps",
        old="    return np.asarray(near & np.isfinite(values))\n",
        new="    return np.asarray(np.isfinite(values))\n",
    ),
    _rules(
        "a large value may lie between steps",
        old="        near[i] = float(multiple) == values[i]\n",
        new="        near[i] = True\n",
    ),
    _rules(
        "a fitted value may lie outside its domain",
        old="statistic.domain.contains(fitted) & on_step(fitted, statistic.step)",
        new="on_step(fitted, statistic.step)",
    ),
    _rules(
        "an interval may be upside down",
        old="ordered = on_step(lower, statistic.step) & on_step(upper, statistic.step) & (lower <= upper)",
        new="ordered = on_step(lower, statistic.step) & on_step(upper, statistic.step)",
    ),
    _rules(
        "an interval may end between steps",
        old="ordered = on_step(lower, statistic.step) & on_step(upper, statistic.step) & (lower <= upper)",
        new="ordered = np.isfinite(lower) & np.isfinite(upper) & (lower <= upper)",
    ),
    _rules(
        "a status may be any word",
        old='result("status", legal),',
        new='result("status", np.ones(value.size, dtype=bool)),',
    ),
    _rules(
        "rows of no declared group may be there",
        old="stray = int((table.slot < 0).sum())",
        new="stray = 0",
    ),
    _rules(
        "what is not certain counts as holding",
        old="unsettled = known[:, ~rule.surely_holds(known)]",
        new="unsettled = known[:, :0]",
    ),
    _joint(
        "a variance may exceed what its mean allows",
        old="return [(0, b, 0), (b, ceiling + t, size + np.abs(b) + t)]",
        new="return [(0, b, 0)]",
    ),
    _joint(
        "a standard deviation may exceed what its mean allows",
        old="return [(np.maximum(0, b - t) ** 2, ceiling, size + (np.abs(b) + t) ** 2)]",
        new="return [(0 * b, ceiling, size)]",
    ),
    _joint(
        "a standard deviation need not be the root of its variance",
        old="                (a - s, (b + t) ** 2, size),\n",
        new="",
    ),
    _joint(
        "what is nearly too large counts as certain",
        old="b - a >= size * 2.0**-40",
        new="b - a >= -size * 2.0**-8",
    ),
    Guard(
        "a Great Expectations that imports is not tried out before the charge",
        "results/validate/gx.py",
        "            gx_process.try_out()\n",
        "            with gx_process.undisturbed():\n                pass\n",
        ("tests/results/validate/test_gx.py",),
    ),
    Guard(
        "the process beside a run leaves its thread behind",
        "results/validate/gx_process.py",
        "        made.shutdown()  # its",
        "        made.shutdown(wait=False)  # its",
        ("tests/results/validate/test_gx_process.py",),
    ),
)
