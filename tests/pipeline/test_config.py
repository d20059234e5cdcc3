"""Pipeline files: what is read, every fault with its code and line, secrets never shown."""

from __future__ import annotations

import os
import pickle
import random
from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import pytest

from dprelease.core.errors import ConfigError, DpreleaseError, SourceError
from dprelease.pipeline.config import PipelineConfig, load_pipeline
from dprelease.pipeline.secret_reference import SecretReference
from tests.schema.declarations import CLINIC
from tests.sizes import whole

WEEKLY = """\
dprelease: pipeline/1
name: clinic_weekly
source: {parquet: ../data/visits/*.parquet}
schema: ../schemas/clinic.yaml
engine: duckdb
period: {column: visited_at, every: week, delay: 2d}
release: {epsilon: 0.5}
budget: {ledger: ../.dprelease/ledger.db, dataset: clinic, epsilon: 12}
publish: {to: ../public, formats: [parquet, csv, html]}
schedule: {cron: "0 6 * * MON", timezone: Europe/Dublin, catch_up: 4}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for folder in ("schemas", "pipelines", "data/visits", ".dprelease"):
        (root / folder).mkdir(parents=True)
    (root / "schemas/clinic.yaml").write_text(CLINIC)
    return root


def read(project: Path, text: str) -> PipelineConfig:
    file = project / "pipelines" / "weekly.yaml"
    file.write_text(text, encoding="utf-8")
    return load_pipeline(file)


def test_the_weekly_pipeline(project: Path) -> None:
    config = read(project, WEEKLY)
    assert config.name == "clinic_weekly"
    assert config.root == project
    assert config.source.kind == "parquet"
    assert config.source.path == str(project / "data/visits/*.parquet")
    assert config.schema.name == "clinic"
    assert config.release.epsilon == Fraction(1, 2)
    assert config.release.by == ("region",)
    assert config.period is not None
    assert (config.period.every, config.period.delay) == ("week", timedelta(days=2))
    assert config.period.timezone == "UTC"
    assert config.budget.ledger == project / ".dprelease/ledger.db"
    assert config.budget.epsilon == 12
    assert config.publish.to == project / "public"
    assert config.schedule is not None
    assert config.schedule.catch_up == 4
    assert config.origin.endswith("weekly.yaml:1")


def test_a_minimal_pipeline(project: Path) -> None:
    cut = [
        s for s in WEEKLY.splitlines() if s.split(":")[0] not in ("engine", "period", "schedule")
    ]
    config = read(project, "\n".join(s for s in cut if not s.startswith("release")))
    assert config.period is None
    assert config.schedule is None
    assert config.release.epsilon == 1
    assert config.publish.formats == ("parquet", "csv", "html")


@pytest.mark.parametrize(
    ("source", "kind", "table"),
    [
        ("{csv: ../data/visits.csv}", "csv", None),
        ("{duckdb: {database: ../data/x.duckdb, table: visits}}", "duckdb", "visits"),
        ('{postgres: {dsn: "${env:CLINIC_DSN}", table: visits}}', "postgres", "visits"),
        ('{postgres: {dsn: "${file:../.dprelease/dsn}", table: visits}}', "postgres", "visits"),
    ],
)
def test_a_source_is_read_with_its_kind_and_table(
    project: Path, source: str, kind: str, table: str | None
) -> None:
    config = read(project, WEEKLY.replace("{parquet: ../data/visits/*.parquet}", source))
    assert (config.source.kind, config.source.table) == (kind, table)


def test_spark_goes_with_its_engine(project: Path) -> None:
    text = WEEKLY.replace("{parquet: ../data/visits/*.parquet}", "{spark: {table: visits}}")
    assert read(project, text.replace("engine: duckdb", "engine: spark")).engine == "spark"
    with pytest.raises(ConfigError) as caught:
        read(project, text)
    assert caught.value.code == "DPR140"


def test_spark_reads_files_as_well_and_may_be_elsewhere(project: Path) -> None:
    assert read(project, WEEKLY.replace("engine: duckdb", "engine: spark")).engine_options() == {}
    config = read(
        project, WEEKLY.replace("engine: duckdb", "engine: {kind: spark, master: 'local[2]'}")
    )
    assert (config.engine, config.engine_options()) == ("spark", {"master": "local[2]"})
    remote = "engine: {kind: spark, remote: '${env:SPARK_ADDRESS}'}"
    config = read(project, WEEKLY.replace("engine: duckdb", remote))
    assert list(config.engine_options()) == ["remote"]
    assert "SPARK_ADDRESS" not in repr(config.spark)
    arrow = WEEKLY.replace("parquet: ../data/visits/*.parquet", "arrow: ../data/a.arrow")
    with pytest.raises(ConfigError) as caught:
        read(project, arrow.replace("engine: duckdb", "engine: spark"))
    assert caught.value.code == "DPR140"


# old text, new text, code, line
FAULTS: list[tuple[str, str, str, int]] = [
    ("pipeline/1", "schema/1", "DPR156", 1),
    ("name: clinic_weekly", "name: ../x", "DPR144", 2),
    ("name: clinic_weekly\n", "", "DPR111", 1),
    ("{parquet: ../data/visits/*.parquet}", "{}", "DPR140", 3),
    ("{parquet: ../data/visits/*.parquet}", "x.parquet", "DPR112", 3),
    ("{parquet: ", "{csv: a.csv, parquet: ", "DPR140", 3),
    ("parquet: ../data", "parqet: ../data", "DPR110", 3),
    ("../data/visits/*.parquet", "../../visits/*.parquet", "DPR116", 3),
    ("../data/visits/*.parquet", "/etc/*.conf", "DPR116", 3),
    ("../data/visits/*.parquet", "../data/*/../../../*.parquet", "DPR116", 3),
    ("../data/visits/*.parquet", '"${env:X}"', "DPR142", 3),
    ("{parquet: ../data/visits/*.parquet}", "{postgres: {dsn: x, table: t}}", "DPR142", 3),
    ("{parquet: ../data/visits/*.parquet}", "{postgres: {table: t}}", "DPR111", 3),
    ("../schemas/clinic.yaml", "../schemas/none.yaml", "DPR101", 0),
    ("../schemas/clinic.yaml", "../../clinic.yaml", "DPR116", 4),
    ("engine: duckdb", "engine: duckdbb", "DPR112", 5),
    ("engine: duckdb", "engine: {kind: duckdb, master: local}", "DPR140", 5),
    ("engine: duckdb", "engine: {kind: spark, master: local, remote: '${env:X}'}", "DPR140", 5),
    ("engine: duckdb", "engine: {kind: spark, remote: 'sc://host'}", "DPR142", 5),
    ("engine: duckdb", "engine: {kind: spark, master: '${env:X}'}", "DPR142", 5),
    ("column: visited_at", "column: visitedat", "DPR122", 6),
    ("column: visited_at", "column: age", "DPR141", 6),
    ("every: week", "every: weekly", "DPR112", 6),
    ("delay: 2d", "delay: 2 days", "DPR141", 6),
    ("delay: 2d", "delay: 2", "DPR108", 6),
    ("delay: 2d", "timezone: Mars", "DPR141", 6),
    ("delay: 2d", "dealy: 2d", "DPR110", 6),
    ("{epsilon: 0.5}", "{epsilon: 0}", "DPR119", 7),
    ("{epsilon: 0.5}", "{by: [age]}", "DPR136", 7),
    ("{epsilon: 0.5}", "{where: agee > 1}", "DPR122", 7),
    ("{epsilon: 0.5}", "{statistics: [covariance(age, bmi)]}", "DPR132", 7),
    ("{epsilon: 0.5}", "{keys_from: ../../x.csv}", "DPR116", 7),
    ("{epsilon: 0.5}", "{keys_from: x.csv}", "DPR117", 7),
    ("{epsilon: 0.5}", "[epsilon]", "DPR112", 7),
    ("ledger: ../.dprelease/ledger.db", "ledger: /tmp/ledger.db", "DPR116", 8),
    ("ledger: ../.dprelease/ledger.db", "ledger: ../public/budget/ledger.db", "DPR174", 8),
    ("to: ../public", "to: ../.dprelease", "DPR174", 8),
    ("epsilon: 12", "epsilon: 12, anchor: ../public/clinic/2026-W46/a.json", "DPR174", 8),
    ("dataset: clinic", "dataset: a b", "DPR144", 8),
    ("epsilon: 12", "epsilon: 0", "DPR145", 8),
    ("epsilon: 12", "epsilon: 1_2", "DPR113", 8),
    ("epsilon: 12", "epsilon: 12, delta: 2", "DPR145", 8),
    ("to: ../public", "to: ../../public", "DPR116", 9),
    ("formats: [parquet, csv, html]", "formats: [parqet]", "DPR146", 9),
    ("formats: [parquet, csv, html]", "formats: []", "DPR112", 9),
    ("formats: [parquet, csv, html]", "formats: [csv, csv]", "DPR146", 9),
    ('"0 6 * * MON"', '"0 6 * *"', "DPR143", 10),
    ('"0 6 * * MON"', '"61 6 * * MON"', "DPR143", 10),
    ('"0 6 * * MON"', '"0 6 * * 1 0"', "DPR143", 10),
    ("Europe/Dublin", "localtime", "DPR143", 10),
    ("catch_up: 4", "catch_up: -1", "DPR113", 10),
    ("Europe/Dublin", "Europe/Dublni", "DPR143", 10),
    ("period: {column: visited_at, every: week, delay: 2d}\n", "", "DPR143", 9),
    ("catch_up: 4", "catchup: 4", "DPR110", 10),
]


@pytest.mark.parametrize(
    ("old", "new", "code", "line"), FAULTS, ids=[f"{i}-{f[1][:30]}" for i, f in enumerate(FAULTS)]
)
def test_a_fault_is_named_with_its_code_and_line(
    project: Path, old: str, new: str, code: str, line: int
) -> None:
    assert old in WEEKLY
    with pytest.raises(ConfigError) as caught:
        read(project, WEEKLY.replace(old, new, 1))
    assert caught.value.code == code, str(caught.value)
    if line:
        where = (caught.value.where or "").split(",")[0]
        assert where == f"{project / 'pipelines/weekly.yaml'}:{line}", str(caught.value)


def test_a_format_that_is_named_twice_is_to_be_named_once(project: Path) -> None:
    """The fix asked whether that very format was meant."""
    with pytest.raises(ConfigError) as caught:
        read(project, WEEKLY.replace("[parquet, csv, html]", "[csv, csv]"))
    assert (caught.value.what, caught.value.fix) == ("repeated format `csv`", "name it once")


def test_a_fault_in_the_schema_names_the_schema(project: Path) -> None:
    (project / "schemas/clinic.yaml").write_text(CLINIC.replace("[0, 120]", "[120, 0]"))
    with pytest.raises(ConfigError) as caught:
        read(project, WEEKLY)
    assert "clinic.yaml:10" in (caught.value.where or "")


def test_matched_files_may_not_lead_out(project: Path) -> None:
    outside = project.parent / "secret.parquet"
    outside.write_bytes(b"x")
    os.symlink(outside, project / "data/visits/a.parquet")
    with pytest.raises(ConfigError) as caught:
        read(project, WEEKLY)
    assert caught.value.code == "DPR116"


def test_secrets_are_never_shown(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    canary = "postgres://user:hunter2-canary@host/db"
    (project / ".dprelease/dsn").write_text(canary + "\n")
    monkeypatch.setenv("CLINIC_DSN", canary)
    for reference in ("${env:CLINIC_DSN}", "${file:../.dprelease/dsn}"):
        source = f'{{postgres: {{dsn: "{reference}", table: t}}}}'
        config = read(project, WEEKLY.replace("{parquet: ../data/visits/*.parquet}", source))
        dsn = config.source.dsn
        assert dsn is not None
        assert dsn.reveal_to_source() == canary
        assert "canary" not in f"{config!r} {dsn} {dsn!r} {dsn:>9} {config.raw}"
        assert repr(dsn) == "***"
        with pytest.raises(TypeError):
            pickle.dumps(dsn)


def test_a_missing_secret_is_found_when_it_is_used(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLINIC_DSN", raising=False)
    for reference in ("${env:CLINIC_DSN}", "${file:../.dprelease/none}"):
        source = f'{{postgres: {{dsn: "{reference}", table: t}}}}'
        config = read(project, WEEKLY.replace("{parquet: ../data/visits/*.parquet}", source))
        assert config.source.dsn is not None
        with pytest.raises(SourceError) as caught:
            config.source.dsn.reveal_to_source()
        assert caught.value.code == "DPR520"


@pytest.mark.parametrize(
    "reference",
    ["${env:A}${env:B}", "x${env:A}", "${env:a b}", "${cmd:ls}", "${file:/etc/passwd}", ""],
)
def test_faulty_references(project: Path, reference: str) -> None:
    source = f'{{postgres: {{dsn: "{reference}", table: t}}}}'
    with pytest.raises(ConfigError) as caught:
        read(project, WEEKLY.replace("{parquet: ../data/visits/*.parquet}", source))
    assert caught.value.code in ("DPR142", "DPR116")


def test_a_select_stands_for_the_block(project: Path) -> None:
    sql = '{sql: "SELECT region, COUNT(*) FROM clinic WHERE age > 3 GROUP BY region", epsilon: 0.5}'
    release = read(project, WEEKLY.replace("{epsilon: 0.5}", sql)).release
    assert (release.by, release.where.source) == (("region",), "age > 3")
    assert [s.text for s in release.statistics] == ["count"]
    with pytest.raises(DpreleaseError) as caught:
        read(project, WEEKLY.replace("{epsilon: 0.5}", sql.replace("COUNT(*)", "VARIANCE(age)")))
    assert caught.value.code == "DPR257"
    assert (caught.value.where or "").endswith("weekly.yaml:7, line 1, column 16")


VIEW = """{view: "SELECT v.patient_id, p.region, v.age FROM visits v LEFT JOIN postcodes p ON p.code = v.code",
  tables: {visits: {parquet: ../data/visits/*.parquet}, unused: {csv: ../data/u.csv}},
  public_tables: {postcodes: {csv: ../data/postcodes.csv}}}"""


def test_a_view_names_its_tables(project: Path) -> None:
    config = read(project, WEEKLY.replace("{parquet: ../data/visits/*.parquet}", VIEW))
    assert config.source.kind == "view"
    assert config.source.view is not None
    assert config.source.view.keeps_rows
    assert {name: table.kind for name, table in config.source.tables.items()} == {
        "visits": "parquet",
        "postcodes": "csv",
    }
    assert config.source.tables["postcodes"].path == str(project / "data/postcodes.csv")


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("LEFT JOIN", "RIGHT JOIN", "DPR262"),
        ("v.age FROM", "max(v.age) AS age FROM", "DPR260"),
        ("{csv: ../data/postcodes.csv}", '{postgres: {dsn: "${env:A}", table: t}}', "DPR140"),
        ("{csv: ../data/postcodes.csv}", "{csv: ../../x.csv}", "DPR116"),
        ("{csv: ../data/postcodes.csv}", "{csv: a.csv, parquet: b.parquet}", "DPR140"),
        ("{csv: ../data/postcodes.csv}", '{view: "SELECT a FROM b"}', "DPR110"),
        ("{postcodes:", "{visits:", "DPR140"),
        ("{view:", "{csv: x.csv, view:", "DPR140"),
        (
            '{view: "SELECT v.patient_id, p.region, v.age FROM visits v LEFT JOIN postcodes p ON p.code = v.code"',
            "{csv: x.csv",
            "DPR140",
        ),
        (
            "{visits: {parquet: ../data/visits/*.parquet}, unused: {csv: ../data/u.csv}}",
            "{}",
            "DPR140",
        ),
    ],
)
def test_faulty_views(project: Path, old: str, new: str, code: str) -> None:
    assert old in VIEW
    with pytest.raises(DpreleaseError) as caught:
        read(project, WEEKLY.replace("{parquet: ../data/visits/*.parquet}", VIEW.replace(old, new)))
    assert caught.value.code == code
    assert caught.value.spent == "nothing"


def test_a_wider_view_needs_its_name_in_allow(project: Path) -> None:
    wide = VIEW.replace("v.age FROM", "max(v.age) AS age FROM").replace(
        "p.code = v.code", "p.code = v.code GROUP BY v.patient_id, p.region HAVING max(v.age) > 3"
    )
    text = WEEKLY.replace("{parquet: ../data/visits/*.parquet}", wide)
    with pytest.raises(DpreleaseError):
        read(project, text)
    config = read(project, text.replace("{epsilon: 0.5}", "{epsilon: 0.5, allow: [unproven-view]}"))
    assert config.source.view is not None
    assert not config.source.view.proven


def test_mutated_files_never_raise_anything_else(project: Path) -> None:
    pick = random.Random(8)
    bits = ["", " ", "\n", ":", "- ", "[", "]", "{", "}", ",", '"', "#", "0", "-1", "NO", "null"]
    bits += ["&a", "*a", "!!str", "${env:X}", "..", "/", "\\", "*", "[a", "\x7f", "é", "1e9", "010"]
    seen: list[ConfigError] = []
    lines = WEEKLY.splitlines(keepends=True)
    for _ in range(whole(150, 300)):
        text = list(lines)
        i = pick.randrange(len(text))
        at = pick.randrange(len(text[i]) + 1)
        text[i] = text[i][:at] + pick.choice(bits) + text[i][at + pick.randrange(3) :]
        if pick.random() < 0.3:
            text.pop(pick.randrange(len(text)))
        try:
            read(project, "".join(text))
        except ConfigError as error:
            seen.append(error)
    assert all(e.code.startswith("DPR1") and e.where for e in seen)
    assert len({e.code for e in seen}) >= 8


@pytest.mark.parametrize("text", ["", " ", "\n", " \t "])
def test_a_blank_connection_string_is_none(text, monkeypatch, tmp_path):
    """psycopg takes a blank one for the server of this machine."""
    (tmp_path / "dsn").write_text(text)
    monkeypatch.setenv("CLINIC_DSN", text)
    for reference, said in (
        ("${env:CLINIC_DSN}", "variable CLINIC_DSN is not set, or blank"),
        ("${file:dsn}", "blank"),
    ):
        secret = SecretReference(reference, base=tmp_path, root=tmp_path, origin="p.yaml:3")
        with pytest.raises(SourceError) as caught:
            secret.reveal_to_source()
        assert caught.value.code == "DPR520"
        assert said in caught.value.why
    monkeypatch.setenv("CLINIC_DSN", " dbname=clinic\n")  # the fix, followed
    secret = SecretReference("${env:CLINIC_DSN}", base=tmp_path, root=tmp_path, origin="p.yaml:3")
    assert secret.reveal_to_source() == "dbname=clinic"
