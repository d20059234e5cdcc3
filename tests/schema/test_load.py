"""Schema files: what is read, and every fault with its code and line."""

from __future__ import annotations

import os
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import get_args

import pytest

from dprelease.core.errors import ConfigError
from dprelease.query.graph import SPARSE
from dprelease.query.load import load_schema, schema_from_dict
from dprelease.query.merge import merge_release
from dprelease.query.shortcuts import MISSING_COLUMN, VISIBLE_TIMEOUT
from dprelease.query.view import UNPROVEN
from dprelease.schema.column import Kind
from dprelease.schema.models import Shortcut
from dprelease.schema.table import TableSchema
from dprelease.schema.unit import Adjacency, EdgeUnit, RowUnit, UserUnit
from tests.schema.declarations import CLINIC
from tests.sizes import whole


def read(folder: Path, text: str) -> TableSchema:
    file = folder / "clinic.yaml"
    file.write_text(text, encoding="utf-8")
    return load_schema(file)


def minimal(**changes: object) -> dict[str, object]:
    base: dict[str, object] = {
        "dprelease": "schema/1",
        "name": "t",
        "unit": "row",
        "adjacency": "add_remove",
        "columns": {"x": {"kind": "number", "range": [0, 1]}, "g": {"kind": "boolean"}},
    }
    return {k: v for k, v in {**base, **changes}.items() if v is not None}


def test_the_clinic(tmp_path: Path) -> None:
    schema = read(tmp_path, CLINIC)
    assert schema.name == "clinic"
    assert schema.unit == UserUnit("patient_id", 2, 3)
    assert schema.adjacency is Adjacency.add_remove
    assert (schema.rows.maximum, schema.rows.expected) == (5_000_000, 40_000)
    age, bmi, region = (schema.columns[c] for c in ("age", "bmi", "region"))
    assert (age.kind, age.step, age.measure) == (Kind.integer, Fraction(1), "years")
    assert bmi.step == Fraction(1, 10)
    assert bmi.domain is not None
    assert bmi.domain.pieces == ((10.0, 60.0), (70.0, 80.0))
    assert region.keys == ("north", "south", "east")
    assert schema.columns["smoker"].keys == ("false", "true", "unknown")
    assert region.origin.endswith("clinic.yaml:8")
    release = schema.release
    assert release is not None
    assert (release.epsilon, release.by) == (Fraction(1), ("region",))
    assert release.delta == 0
    assert [s.name for s in release.statistics] == [
        "count",
        "mean_age",
        "proportion_age_gt_65",
        "bmi_variance",
    ]
    assert release.statistics[3].origin.endswith("clinic.yaml:22")


def test_decimals_stay_exact(tmp_path: Path) -> None:
    schema = read(tmp_path, CLINIC.replace("epsilon: 1.0", "epsilon: 0.1"))
    assert schema.release is not None
    assert schema.release.epsilon == Fraction(1, 10)
    assert schema.release.epsilon != Fraction(0.1)  # control: through a double it would differ
    small = read(tmp_path, CLINIC.replace("epsilon: 1.0", "epsilon: 1.0\n  delta: 1e-6"))
    assert small.release is not None
    assert small.release.delta == Fraction(1, 10**6)


# old text, new text, code, line
FAULTS: list[tuple[str, str, str, int]] = [
    ("schema/1", "schema/2", "DPR112", 1),
    ("dprelease: schema/1", "name2: x", "DPR110", 1),
    ("name: clinic", "name: a/b", "DPR144", 2),
    ("name: clinic", "name: 2013", "DPR108", 2),
    ("name: clinic", "name: NO", "DPR108", 2),
    ("name: clinic", "nam: clinic", "DPR110", 2),
    ("user: patient_id, max_groups: 2, max_rows_per_group: 3", "user: patient_id", "DPR111", 3),
    ("user: patient_id", "user: patientid", "DPR122", 3),
    ("user: patient_id", "user: smoker", "DPR115", 3),
    ("max_groups: 2", "max_groups: 0", "DPR113", 3),
    ("max_groups: 2", "max_groups: 1.5", "DPR113", 3),
    ("max_groups: 2", "max_groups: yes", "DPR113", 3),
    ("max_groups: 2", "max_group: 2", "DPR110", 3),
    ("{user: patient_id, max_groups: 2, max_rows_per_group: 3}", "rows", "DPR112", 3),
    ("{user: patient_id, max_groups: 2, max_rows_per_group: 3}", "5", "DPR115", 3),
    ("{user: patient_id, max_groups: 2, max_rows_per_group: 3}", "", "DPR115", 3),
    ("adjacency: add_remove", "adjacency: add-remove", "DPR112", 4),
    ("adjacency: add_remove\n", "", "DPR111", 1),
    ("max: 5000000", "max: 5_000_000", "DPR113", 5),
    ("max: 5000000", "max: -1", "DPR113", 5),
    ("max: 5000000", "exact: 900", "DPR118", 5),
    ("expected: 40000", "expected: {north: 0}", "DPR113", 5),
    ("expected: 40000", "expected: 5000001", "DPR118", 5),
    ("{max: 5000000, expected: 40000}", "100", "DPR112", 5),
    ("kind: identifier", "kind: identifer", "DPR112", 7),
    ("{kind: identifier}", "identifier", "DPR112", 7),
    ("{kind: identifier}", "{}", "DPR111", 7),
    ("{kind: identifier}", "{kind: identifier, range: [0, 1]}", "DPR158", 7),
    ("{kind: identifier}", "{kind: identifier, nulls: {default: 1}}", "DPR158", 7),
    ("{kind: identifier}", "{kind: identifier, nulls: {as: x}}", "DPR158", 7),
    ('"north"', "NO", "DPR108", 8),
    ('"north"', "010", "DPR108", 8),
    ('"north"', "12:30:00", "DPR108", 8),
    ('"north"', "2013-01-01", "DPR108", 8),
    ('"north"', "true", "DPR108", 8),
    ('"north"', "1.0", "DPR108", 8),
    ('"north"', "1e-6", "DPR108", 8),
    ('"north"', "null", "DPR108", 8),
    ('"north"', '"south"', "DPR157", 8),
    ('values: ["north", "south", "east"], ', "", "DPR111", 15),
    ('["north", "south", "east"]', "[]", "DPR157", 8),
    ('["north", "south", "east"]', "north", "DPR112", 8),
    ("other: drop", "other: keep", "DPR112", 8),
    ("other: drop", "other: {is: x}", "DPR110", 8),
    ("other: drop", "values_from: x.csv", "DPR111", 8),
    ("{kind: timestamp}", "{kind: timestamp, step: 1}", "DPR158", 9),
    ("visited_at:", "AGE:", "DPR112", 10),
    ("[0, 120]", "[0]", "DPR112", 10),
    ("[0, 120]", "[120, 0]", "DPR114", 10),
    ("[0, 120]", "[0, 120.5]", "DPR114", 10),
    ("[0, 120]", "[.nan, 120]", "DPR113", 10),
    ("[0, 120]", "[0, x]", "DPR113", 10),
    ("[0, 120]", "[0, 1e999]", "DPR113", 10),
    ("[0, 120]", "[0, true]", "DPR113", 10),
    ("[0, 120]", "[.inf, .inf]", "DPR114", 10),
    ("[0, 120]", "[0, 120], step: 0.5", "DPR114", 10),
    ("step: 0.1", "step: 0.3", "DPR114", 11),
    ("step: 0.1", "step: 0", "DPR114", 11),
    ("step: 0.1", "step: .inf", "DPR114", 11),
    ("step: 0.1", "setp: 0.1", "DPR110", 11),
    ("[[60, 70]]", "[60, 70]", "DPR112", 11),
    ("[[60, 70]]", "[[70, 60]]", "DPR114", 11),
    ("[[60, 70]]", "[[0, 100]]", "DPR114", 11),
    ("range: [10, 80], ", "", "DPR114", 11),
    ("step: 0.1", "step: 0.1, nulls: {default: 65}", "DPR114", 11),
    ("step: 0.1", "step: 0.1, nulls: {default: 25.05}", "DPR114", 11),
    ("step: 0.1", "step: 0.1, nulls: {default: x}", "DPR113", 11),
    ("step: 0.1", "step: 0.1, nulls: {defautl: 25}", "DPR110", 11),
    ("step: 0.1", "step: 0.1, nulls: keep", "DPR112", 11),
    ('{as: "unknown"}', "{default: 0}", "DPR158", 12),
    ("epsilon: 1.0", "epsilon: 0", "DPR119", 14),
    ("epsilon: 1.0", "epsilon: -1", "DPR119", 14),
    ("epsilon: 1.0", "epsilon: .inf", "DPR119", 14),
    ("epsilon: 1.0", "epsilon: .nan", "DPR113", 14),
    ("epsilon: 1.0", "epsilon: one", "DPR113", 14),
    ("epsilon: 1.0", "epsilon: 1_0", "DPR113", 14),
    ("epsilon: 1.0", "epsilon: 01", "DPR113", 14),
    ("epsilon: 1.0", "epsilom: 1.0", "DPR110", 14),
    ("epsilon: 1.0", "epsilon: 1.0\n  delta: 1", "DPR119", 15),
    ("epsilon: 1.0", "epsilon: 1.0\n  epsilon: 10", "DPR103", 15),
    ("[region]", "[regoin]", "DPR122", 15),
    ("[region]", "[age]", "DPR136", 15),
    ("[region]", "[region, region]", "DPR136", 15),
    ("[region]", "region", "DPR112", 15),
    ('"age >= 18"', '"agee >= 18"', "DPR122", 16),
    ('"age >= 18"', '"age"', "DPR127", 16),
    ('"age >= 18"', "18", "DPR108", 16),
    ("loss: absolute", "loss: abs", "DPR112", 17),
    ("- mean(age)", "- meen(age)", "DPR131", 20),
    ("- mean(age)", "- mean(region)", "DPR133", 20),
    ("- mean(age)", "- mean(ag)", "DPR122", 20),
    ("- mean(age)", "- degree(node)", "DPR133", 20),
    ("- mean(age)", "- covariance(age, age)", "DPR133", 20),
    ("- mean(age)", '- {statistic: "mean(age)", as: region}', "DPR134", 20),
    (
        "- mean(age)",
        '- {statistic: "mean(age)", share: 0.7}\n    - {statistic: "sum(age)", share: 0.7}',
        "DPR119",
        18,
    ),
    ("- mean(age)", "- {statistic: covariance(age, bmi)}", "DPR132", 20),
    ("- mean(age)", "- [covariance(age, bmi)]", "DPR130", 20),
    ("- mean(age)", "- 3", "DPR130", 20),
    ("proportion(age > 65)", "proportion(agee > 65)", "DPR122", 21),
    ("proportion(age > 65)", "proportion(0 < age < 65)", "DPR125", 21),
    ("weight: 2", "wieght: 2", "DPR110", 22),
    ("as: bmi_variance", "as: mean_age", "DPR134", 22),
]


@pytest.mark.parametrize(
    ("old", "new", "code", "line"), FAULTS, ids=[f"{i}-{f[1][:30]}" for i, f in enumerate(FAULTS)]
)
def test_a_faulty_schema_is_refused_with_code_and_line(
    tmp_path: Path, old: str, new: str, code: str, line: int
) -> None:
    assert old in CLINIC
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, CLINIC.replace(old, new, 1))
    error = caught.value
    assert error.code == code, str(error)
    where = (error.where or "").split(",")[0]
    assert where == f"{tmp_path / 'clinic.yaml'}:{line}", str(error)


def test_nearest_names_and_all_faults_are_shown(tmp_path: Path) -> None:
    text = CLINIC.replace("measure: years", "mesure: years").replace("step: 0.1", "step: x")
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert caught.value.fix == "did you mean `measure`?"
    assert "clinic.yaml:11" in (caught.value.why or "")


@pytest.mark.parametrize(
    ("ends", "step"),
    [
        ([0, 120], "0.1"),
        ([0, "0.25"], "0.0001"),
        ([0, 1], "0.001"),
        ([0, 1000], "1"),
        ([0, 1001], "1"),
        ([0, 10**6], "1000"),
        ([-5, 10**6], "1"),
        ([7, 7], "1"),
        ([Decimal("1e-9"), Decimal("2e-9")], "1e-12"),
    ],
)
def test_the_default_step(ends: list[object], step: str) -> None:
    schema = schema_from_dict(minimal(columns={"x": {"kind": "number", "range": ends}}))
    assert schema.columns["x"].step == Fraction(step)
    domain = schema.columns["x"].domain
    assert domain is not None
    assert all(end % Fraction(step) == 0 for end in domain.exact_pieces[0])


def test_a_step_is_proposed_where_no_power_of_ten_fits() -> None:
    with pytest.raises(ConfigError) as caught:
        schema_from_dict(minimal(columns={"x": {"kind": "number", "range": ["1/3", 1]}}))
    assert (caught.value.code, caught.value.where) == ("DPR114", "dict: columns.x.range")
    assert "step: 1/3" in (caught.value.fix or "")


def test_infinite_ranges_are_kept_for_the_planner_to_refuse() -> None:
    schema = schema_from_dict(
        minimal(
            columns={"x": {"kind": "number", "range": [0, float("inf")]}, "y": {"kind": "number"}}
        )
    )
    assert schema.columns["x"].step is None
    assert schema.columns["y"].domain is None


def test_units_from_a_dict() -> None:
    assert isinstance(schema_from_dict(minimal()).unit, RowUnit)
    edges = {
        "columns": {"a": {"kind": "node"}, "b": {"kind": "node"}},
        "unit": {"edge": {"source": "a", "target": "b", "k": 2, "nodes": 34}},
        "release": {"epsilon": 1, "statistics": ["algebraic_connectivity", "degree(node)"]},
    }
    assert schema_from_dict(minimal(**edges)).unit == EdgeUnit("a", "b", 2, 34)
    for change in ({"source": "b"}, {"nodes": 1}, {"target": "c"}, {"k": 0}, {"nodez": 3}):
        edge = {"source": "a", "target": "b", "k": 2, "nodes": 34, **change}
        with pytest.raises(ConfigError):
            schema_from_dict(minimal(**{**edges, "unit": {"edge": edge}}))


def test_sizes_and_defaults_from_a_dict() -> None:
    schema = schema_from_dict(
        minimal(
            adjacency="substitution",
            rows={"exact": 900, "expected": {"true": 500}},
            columns={
                "x": {"kind": "number", "range": [0, 1], "nulls": {"default": 0.5}},
                "g": {"kind": "boolean", "nulls": {"default": True}},
                "c": {"kind": "category", "values": [1, 2], "other": {"as": "rest"}},
            },
        )
    )
    assert (schema.rows.exact, schema.rows.maximum) == (900, 900)
    assert schema.rows.expected_by_key == {"true": 500}
    assert schema.columns["x"].null_default == Fraction(1, 2)
    assert schema.columns["g"].null_default == 1
    assert schema.columns["c"].keys == ("1", "2", "rest")
    with pytest.raises(ConfigError) as caught:
        schema_from_dict(minimal(adjacency="substitution", rows={"exact": 9, "max": 3}))
    assert caught.value.code == "DPR118"


def test_a_group_is_not_expected_to_be_larger_than_the_table() -> None:
    assert schema_from_dict(minimal(rows={"max": 10, "expected": 10})).rows.expected == 10
    with pytest.raises(
        ConfigError, match="100 rows of one group, and all groups together have at most 10"
    ):
        schema_from_dict(minimal(rows={"max": 10, "expected": 100}))


@pytest.mark.parametrize("value", [None, [], "x", 3, {1: 2}, {"dprelease": {}}])
def test_what_is_not_a_schema(value: object) -> None:
    with pytest.raises(ConfigError):
        schema_from_dict(value)  # type: ignore[arg-type]


# --- key files


def with_keys(folder: Path, reference: str) -> TableSchema:
    text = CLINIC.replace('values: ["north", "south", "east"]', f"values_from: {reference}")
    return read(folder, text)


def test_values_from(tmp_path: Path) -> None:
    (tmp_path / "regions.csv").write_text('region\nnorth\n"so,uth"\n\neast\n')
    assert with_keys(tmp_path, "regions.csv").columns["region"].values == (
        "north",
        "so,uth",
        "east",
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "regin\nnorth\n",
        "region\n",
        "region\nnorth\nnorth\n",
        "region\na,b\n",
        'region\n""\n',
        'region\n"open\n',
    ],
)
def test_faulty_key_files(tmp_path: Path, content: str) -> None:
    (tmp_path / "regions.csv").write_text(content)
    with pytest.raises(ConfigError) as caught:
        with_keys(tmp_path, "regions.csv")
    assert caught.value.code == "DPR117"
    assert "clinic.yaml:8" in (caught.value.where or "")


@pytest.mark.parametrize(
    "reference", ["../x.csv", "/etc/passwd", "a/../../x.csv", "link.csv", "folder/x.csv", '"\\0"']
)
def test_paths_may_not_leave_the_project(tmp_path: Path, reference: str) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "x.csv").write_text("region\nnorth\n")
    os.symlink(tmp_path / "x.csv", project / "link.csv")
    os.symlink(tmp_path, project / "folder")
    with pytest.raises(ConfigError) as caught:
        with_keys(project, reference)
    assert caught.value.code in ("DPR116", "DPR112")
    if reference == "../x.csv":  # control: a wider root allows it
        (tmp_path / ".dprelease").mkdir()
        assert with_keys(project, reference).columns["region"].values == ("north",)


def test_keys_from(tmp_path: Path) -> None:
    keys = tmp_path / "keys.csv"
    block = "by: [region, smoker]\n  keys_from: keys.csv"
    keys.write_text("region,smoker\nnorth,true\neast,unknown\n")
    release = read(tmp_path, CLINIC.replace("by: [region]", block)).release
    assert release is not None
    assert release.keys_from == (("north", "true"), ("east", "unknown"))
    for content in ("region,smoker\nwest,true\n", "smoker,region\ntrue,north\n"):
        keys.write_text(content)
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, CLINIC.replace("by: [region]", block))
        assert caught.value.code == "DPR117"


# --- merging


def test_merging_is_key_by_key_and_lists_replace(tmp_path: Path) -> None:
    schema = read(tmp_path, CLINIC)
    merged = merge_release(schema, {"epsilon": 0.5, "statistics": ["count"]}, "arguments")
    assert merged.epsilon == Fraction(1, 2)
    assert [s.name for s in merged.statistics] == ["count"]
    assert (merged.by, merged.where.source) == (("region",), "age >= 18")
    bare = merge_release(
        schema, {"by": None, "where": None, "statistics": "mean(bmi)"}, "arguments"
    )
    assert (bare.by, bare.where) == ((), None)
    assert merge_release(schema).statistics == schema.release.statistics  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("override", "code", "place"),
    [
        ({"epsilon": 0}, "DPR119", "epsilon"),
        ({"epsilon": "much"}, "DPR113", "epsilon"),
        ({"epsilon": None}, "DPR111", None),
        ({"statistics": []}, "DPR111", "statistics"),
        ({"statistics": ["mean(agee)"]}, "DPR122", "statistics"),
        ({"by": ["age"]}, "DPR136", "by"),
        ({"where": "age"}, "DPR127", "where"),
        ({"epsilno": 1}, "DPR110", None),
        ({"delta": -1}, "DPR119", "delta"),
        ({"keys_from": 3}, "DPR112", "keys_from"),
        ({"statistics": 5}, "DPR112", "statistics"),
    ],
)
def test_faulty_overrides(
    tmp_path: Path, override: dict[str, object], code: str, place: str | None
) -> None:
    with pytest.raises(ConfigError) as caught:
        merge_release(read(tmp_path, CLINIC), override, "arguments")
    assert caught.value.code == code
    if place is not None:
        assert (caught.value.where or "").startswith(f"arguments: {place}")


def test_an_incomplete_block_is_checked_but_gives_no_release(tmp_path: Path) -> None:
    schema = read(tmp_path, CLINIC.replace("  epsilon: 1.0\n", ""))
    assert schema.release is None
    assert merge_release(schema, {"epsilon": 2}).epsilon == 2
    with pytest.raises(ConfigError):
        read(tmp_path, CLINIC.replace("  epsilon: 1.0\n", "").replace("mean(age)", "mean(agee)"))


# --- fuzz


def test_mutated_files_never_raise_anything_else(tmp_path: Path) -> None:
    pick = random.Random(5)
    bits = [
        "",
        " ",
        "\n",
        ":",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ",",
        '"',
        "'",
        "#",
        "0",
        "-1",
        "1e9",
        "NO",
    ]
    bits += ["null", "&a", "*a", "!!str", "\t", "é", "010", ".inf", "true", "x: 1\n", "|", ">", "%"]
    file = tmp_path / "clinic.yaml"
    seen: list[ConfigError] = []
    lines = CLINIC.splitlines(keepends=True)
    for _ in range(whole(250, 700)):
        text = list(lines)
        for _ in range(pick.randint(1, 3)):
            i = pick.randrange(len(text))
            match pick.randrange(4):
                case 0:
                    text[i] = ""
                case 1:
                    text[i] += pick.choice(text)
                case 2:
                    at = pick.randrange(len(text[i]) + 1)
                    text[i] = text[i][:at] + pick.choice(bits) + text[i][at + pick.randrange(4) :]
                case _:
                    words = text[i].split(" ")
                    words[pick.randrange(len(words))] = pick.choice(bits)
                    text[i] = " ".join(words)
        file.write_text("".join(text), encoding="utf-8")
        try:
            load_schema(file)
        except ConfigError as error:
            seen.append(error)
    assert all((e.where or "").startswith(str(file)) for e in seen)
    assert all(e.code.startswith("DPR1") for e in seen)
    assert len({e.code for e in seen}) >= 10


def test_mutated_mappings_never_raise_anything_else() -> None:
    pick = random.Random(6)
    values: list[object] = [
        None,
        True,
        0,
        -1,
        1.5,
        float("nan"),
        float("inf"),
        "",
        "x",
        [],
        {},
        [[]],
    ]
    values += [{"as": None}, {"default": []}, b"x", object(), (1, 2), 10**400, "1e500", {1: 2}]
    values += ["mean(x)", {"statistic": "mean(x)"}, [0, 1], [[0, 1]], "row", {"user": "x"}]

    def mutate(node: object) -> object:
        if pick.random() < 0.03:
            return pick.choice(values)
        if isinstance(node, dict):
            return {k: mutate(v) for k, v in node.items() if pick.random() > 0.01}
        if isinstance(node, list):
            return [mutate(v) for v in node]
        return node

    base = minimal(
        unit={"user": "i", "max_groups": 1, "max_rows_per_group": 1},
        rows={"max": 5, "expected": {"a": 1}},
        columns={
            "i": {"kind": "identifier"},
            "x": {"kind": "number", "range": [0, 1], "forbidden": [[0.4, 0.6]], "step": 0.1},
            "g": {"kind": "category", "values": ["a", "b"], "other": {"as": "c"}},
        },
        release={
            "epsilon": 1,
            "by": ["g"],
            "where": "x > 0.5",
            "statistics": ["count", {"statistic": "mean(x)", "domain": {"range": [0, 1]}}],
        },
    )
    good = 0
    seen: list[ConfigError] = []
    for _ in range(1300):
        try:
            schema_from_dict(mutate(base))  # type: ignore[arg-type]
            good += 1
        except ConfigError as error:
            seen.append(error)
    assert all(e.code.startswith("DPR1") and e.where for e in seen)
    assert good > 20


def test_a_misspelt_shortcut_is_refused_with_the_nearest_name() -> None:
    """It would otherwise be found out only where the shortcut is refused, or never."""
    known = get_args(Shortcut)
    assert set(known) == {UNPROVEN, SPARSE, VISIBLE_TIMEOUT, MISSING_COLUMN}
    for name in known:
        schema = schema_from_dict(
            minimal(release={"epsilon": 1, "statistics": ["count"], "allow": [name]})
        )
        assert schema.release is not None
    for wrong, fix in (
        ("unproven-views", "did you mean `unproven-view`?"),
        ("x", "take it out of the list"),
    ):
        with pytest.raises(ConfigError) as caught:
            schema_from_dict(
                minimal(release={"epsilon": 1, "statistics": ["count"], "allow": [wrong]})
            )
        assert (caught.value.code, caught.value.fix) == ("DPR112", fix)


@pytest.mark.parametrize(
    ("title", "fix"),
    [
        ("   ", "write one line"),
        ("two\nlines", "write one line"),
        ("", "write one line"),
        (7, "quote it"),
    ],
)
def test_a_statistic_is_not_called_nothing(title: object, fix: str) -> None:
    release = {"epsilon": 1, "statistics": [{"statistic": "count", "title": title}]}
    with pytest.raises(ConfigError) as caught:
        schema_from_dict(minimal(release=release))
    assert "`title`" in caught.value.what
    assert fix in (caught.value.fix or "")
    named = {"epsilon": 1, "statistics": [{"statistic": "count", "title": " Rows "}]}
    assert schema_from_dict(minimal(release=named))


def test_every_unquoted_text_is_quoted_in_the_fix(tmp_path: Path) -> None:
    """Whoever follows it comes to no second refusal of the same kind."""
    asked = (
        "dprelease: schema/1\nname: t\nunit: row\nadjacency: add_remove\nrows: {max: 9}\ncolumns:\n"
    )
    text = f"{asked}  y: {{kind: category, values: [a, 2013-01-01, 012, NO]}}\n"
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    assert caught.value.code == "DPR108"
    assert caught.value.fix == 'quote it: "2013-01-01", "012", "NO"'
