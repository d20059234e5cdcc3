"""Paths that a configuration names: never out of the project, never a device, a pipe or a link out."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from dprelease.core.errors import ConfigError, DpreleaseError
from dprelease.engines.source import file_source
from dprelease.pipeline.run import init_ledger, load_pipeline, open_source, run
from dprelease.pipeline.secret_reference import SecretReference
from dprelease.schema.paths import confined, confined_glob, read_keys
from dprelease.schema.yaml_marks import load_yaml
from tests.end_to_end.projects import clinic, tree

OUT = [
    "..", "../x", "a/../../x", "/etc/passwd", "/", "//etc/passwd", "/dev/zero", "/proc/self/environ",
    "./../..", "a/b/../../../x", "link/x", "link/../x", "link", "../root2/x", "../rootx",
]  # fmt: skip
ODD = ["", "\0", "a\0b", "x" * 5000 + "/..", "a" * 300]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    (made / "data").mkdir(parents=True)
    (tmp_path / "root2").mkdir()
    (tmp_path / "root2" / "x.csv").write_text("a\n1\n")
    (made / "data" / "x.csv").write_text("a\n1\n")
    (made / "link").symlink_to(tmp_path / "root2")
    return made


@pytest.mark.parametrize("text", [*OUT, *ODD[:3]])
def test_what_leads_out_is_refused(text: str, root: Path) -> None:
    for read in (confined, confined_glob):
        with pytest.raises(ConfigError) as caught:
            read(text, base=root, root=root, origin="f.yaml:3")
        assert caught.value.code == "DPR116"
        assert caught.value.where == "f.yaml:3"


@pytest.mark.parametrize(
    "text", ["data/x.csv", "./data", "data/../data/x.csv", "a b/ü", "...", "~", "%2e%2e/x"]
)
def test_what_stays_inside_is_not(text: str, root: Path) -> None:
    assert confined(text, base=root, root=root, origin="o").is_relative_to(root)


@pytest.mark.parametrize(
    "pattern", ["**/*.csv", "data/**/*.csv", "data/*/*.csv", "da*/out/*.csv", "[d]*/**/x.csv"]
)
def test_a_pattern_does_not_follow_a_link_out(pattern: str, root: Path, tmp_path: Path) -> None:
    (root / "link").unlink()
    assert confined_glob(pattern, base=root, root=root, origin="o")
    (root / "data" / "out").symlink_to(tmp_path / "root2")
    with pytest.raises(ConfigError) as caught:
        confined_glob(pattern, base=root, root=root, origin="o")
    assert caught.value.code == "DPR116"


def test_a_link_made_after_the_check_is_not_followed_out(root: Path, tmp_path: Path) -> None:
    pattern = confined_glob("data/*.csv", base=root, root=root, origin="o")
    (root / "data" / "late.csv").symlink_to(tmp_path / "root2" / "x.csv")
    with pytest.raises(ConfigError) as caught:
        file_source("csv", pattern, root=root)
    assert caught.value.code == "DPR116"
    assert file_source("csv", pattern).payload  # control: without the root it would be read


def test_a_run_looks_again(tmp_path: Path) -> None:
    """The door passes the root on: a link that appears between reading and running leads nowhere."""
    project = tmp_path / "project"
    pipeline = clinic(project)
    pipeline.write_text(pipeline.read_text().replace("visits.csv", "*.csv"))
    config = load_pipeline(pipeline)
    (tmp_path / "outside.csv").write_text((project / "data" / "visits.csv").read_text())
    (project / "data" / "more.csv").symlink_to(tmp_path / "outside.csv")
    before = tree(project / "public")
    with pytest.raises(ConfigError) as caught:
        run(config, period="2026-W46")
    assert caught.value.code == "DPR116" and caught.value.spent == "nothing"
    assert tree(project / "public") == before == {}


def test_a_folder_named_like_a_pattern_is_itself(tmp_path: Path) -> None:
    root = tmp_path / "a[b]"
    root.mkdir()
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "x.csv").write_text("a\n1\n")
    (root / "x.csv").write_text("a\n1\n")
    pattern = confined_glob("*.csv", base=root, root=root, origin="o")
    assert file_source("csv", pattern, root=root).payload == (root / "x.csv",)


# -- pipes and devices -------------------------------------------------------------------------


def at_once(call: Callable[[], object]) -> object:
    """Return what `call` raises; a call that waits for a pipe's other end fails the test."""
    got: list[object] = []

    def work() -> None:
        try:
            got.append(call())
        except BaseException as error:
            got.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(20)
    assert got, "it waits"
    return got[0]


def test_a_named_pipe_is_never_waited_for(tmp_path: Path) -> None:
    project = tmp_path / "project"
    pipeline = clinic(project)
    pipe = project / "data" / "pipe"
    os.mkfifo(pipe)
    text = pipeline.read_text()

    def with_source(source: str) -> object:
        pipeline.write_text(text.replace("{csv: ../data/visits.csv}", source))
        return open_source(load_pipeline(pipeline).source)

    reference = SecretReference("${file:data/pipe}", base=project, root=project, origin="o")
    calls: dict[str, Callable[[], object]] = {
        "DPR101": lambda: load_yaml(pipe),
        "DPR117": lambda: read_keys(pipe, ("a",), "o"),
        "DPR501": lambda: with_source("{csv: ../data/pipe}"),
        "DPR501 parquet": lambda: with_source("{parquet: ../data/pip*}"),
        "DPR501 duckdb": lambda: with_source("{duckdb: {database: ../data/pipe, table: t}}"),
        "DPR502": lambda: with_source("{arrow: ../data/pipe}"),
        "DPR520": reference.reveal_to_source,
    }
    for code, call in calls.items():
        error = at_once(call)
        assert isinstance(error, DpreleaseError), (code, error)
        assert error.code == code.split()[0]


def test_a_ledger_is_not_a_pipe_link_or_device(tmp_path: Path) -> None:
    pipeline = clinic(tmp_path / "project")
    ledger = tmp_path / "project" / ".dprelease" / "ledger.db"
    real = tmp_path / "real.db"
    ledger.rename(real)
    for make in (
        lambda: os.mkfifo(ledger),
        lambda: ledger.symlink_to(real),
        lambda: ledger.mkdir(),
    ):
        make()
        for door in (
            lambda: run(pipeline, period="2026-W46"),
            lambda: init_ledger(load_pipeline(pipeline)),
        ):
            error = at_once(door)
            assert isinstance(error, DpreleaseError), error
            assert error.spent == "nothing"
        ledger.rmdir() if ledger.is_dir() and not ledger.is_symlink() else ledger.unlink()
    assert not (tmp_path / "project" / "public").exists()


def test_a_secret_is_read_from_a_plain_file_only(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("dsn\n")
    (tmp_path / "dsn").write_text("dsn\n")
    reference = SecretReference("${file:dsn}", base=tmp_path, root=tmp_path, origin="o")
    assert reference.reveal_to_source() == "dsn"
    (tmp_path / "dsn").unlink()
    (tmp_path / "dsn").symlink_to("/dev/zero")  # swapped after the check
    error = at_once(reference.reveal_to_source)
    assert isinstance(error, DpreleaseError) and error.code == "DPR520"
    (tmp_path / "dsn").unlink()
    (tmp_path / "dsn").mkdir()
    error = at_once(reference.reveal_to_source)
    assert isinstance(error, DpreleaseError) and error.code == "DPR520"


def test_arrow_files_are_read_when_they_are_files(tmp_path: Path) -> None:
    """Control for the pipe: the same door reads a real file."""
    project = tmp_path / "project"
    pipeline = clinic(project)
    with pa.OSFile(str(project / "data" / "v.arrow"), "wb") as sink:
        table = pa.table({"a": [1]})
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    pipeline.write_text(
        pipeline.read_text().replace("{csv: ../data/visits.csv}", "{arrow: ../data/v.arrow}")
    )
    assert open_source(load_pipeline(pipeline).source).kind == "arrow"


def test_keys_hold_no_control_character(tmp_path: Path) -> None:
    file = tmp_path / "keys.csv"
    for bad in ("a\x1b[2J", "a\x00", "a\u2028b", '"a\nb"'):
        file.write_bytes(f"region\nnorth\n{bad}\n".encode())
        with pytest.raises(ConfigError) as caught:
            read_keys(file, ("region",), "o")
        assert caught.value.code == "DPR117"
    file.write_text(
        "region\nnord-est\n\u0646\u0645\u06cc\u200c\u062e\n", encoding="utf-8"
    )  # a joiner is a letter's part
    assert len(read_keys(file, ("region",), "o")) == 2
