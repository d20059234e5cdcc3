"""Guards of keys that are found: what they cost, which are published, and what no text of another may reach."""

from __future__ import annotations

from functools import partial

from tests.mutation.guard import Guard

_LOSS = "tests/mechanisms/kernels/test_selecting.py"
_BLOCKS = "tests/measurements/test_found.py"
_FOLDERS = "tests/end_to_end/test_keys.py"

_kernel = partial(Guard, file="mechanisms/kernels/selecting.py", tests=(_LOSS,))
_law = partial(Guard, file="measurements/found.py", tests=(_BLOCKS,))
_audit = partial(Guard, tests=("tests/audit/test_found.py",))
_wall = partial(Guard, file="wall/ending_noise.py", tests=(_LOSS, _BLOCKS))

GUARDS = (
    _kernel(
        "a key of nobody may be published",
        old="np.where(place <= persons,",
        new="np.where(place <= persons + 1,",
    ),
    _kernel(
        "a key is looked at in one order of neighbours",
        old="Fraction(max(up, down), TOTAL * one)",
        new="Fraction(up, TOTAL * one)",
    ),
    _kernel(
        "keys are published more often than their delta allows",
        old="units = int(delta * TOTAL)",
        new="units = 2 * int(delta * TOTAL)",
    ),
    _kernel(
        "the interval forgets that only published numbers are seen",
        old="few = (1 - level) / 2 * all_shown",
        new="few = (1 - level) * 4 * all_shown",
    ),
    _law(
        "one key is paid for, however many a person has",
        old="delta = 1 - (1 - self.of_a_key) ** self.keys",
        new="delta = self.of_a_key",
    ),
    _law(
        "a person who counts twice at a key is taken for one",
        old="if not whole or steps > 1 or self.keys < sensitivity.l1_over_groups:",
        new="if not whole or self.keys < sensitivity.l1_over_groups:",
    ),
    _law(
        "weights that are no law pass",
        old="whole = sum(self.noise.weights) == TOTAL",
        new="whole = True",
    ),
    _wall(
        "the wall counts one key",
        old="1 - (1 - delta_of_a_key(weights, epsilon)) ** keys",
        new="delta_of_a_key(weights, epsilon)",
    ),
    _wall(
        "the wall looks at one order of neighbours",
        old="Fraction(max(more, fewer), total * r)",
        new="Fraction(fewer, total * r)",
    ),
    _audit(
        "an audit of found keys looks at one order of neighbours",
        file="audit/found.py",
        old="Fraction(more.sum(axis=1).max(), TOTAL * one)",
        new="Fraction(more.sum(axis=1)[0], TOTAL * one)",
    ),
    _audit(
        "a key that one table alone can have published costs nothing in an audit",
        file="audit/found.py",
        old="np.log(np.maximum(r, e**-200))",
        new="np.log(np.maximum(r, p))",
    ),
    _audit(
        "an audit compares keys by their places",
        file="audit/answers.py",
        old="    if first.keys is None:\n",
        new="    if True:\n",
    ),
    _audit(
        "an engine may give other keys than the slow obvious one",
        file="audit/plan.py",
        old="one.keys == other.keys and ",
        new="",
    ),
    Guard(
        "keys are found among doubles, whose text one empty cell can change",
        file="engines/physical.py",
        old="if found and stored.get(column.name) is Physical.float:",
        new="if False:",
        tests=(_FOLDERS,),
    ),
    Guard(
        "a pipeline without keys is run as one that finds them",
        file="cli/run.py",
        old="if of_keys and not config.release.found:",
        new="if False:",
        tests=(_FOLDERS,),
    ),
    Guard(
        "every key of the rows is committed",
        file="results/draw.py",
        old="places = np.flatnonzero(raw)",
        new="places = np.arange(len(raw))",
        tests=(_FOLDERS,),
    ),
    Guard(
        "texts that may be no label are keys",
        file="engines/label_sql.py",
        old="(unfit, other), blank",
        new="blank",
        tests=(_FOLDERS,),
    ),
    Guard(
        "keys that nobody can have found verify",
        file="verification/fits.py",
        old="return list(keys) == sorted(labels)",
        new="return True",
        tests=(_FOLDERS,),
    ),
    Guard(
        "a label of other rows is a key of the list",
        file="schema/read_column.py",
        old='for label in labels.intersection(read["values"]):',
        new="for label in ():",
        tests=("tests/reading/test_key_list.py",),
    ),
)
