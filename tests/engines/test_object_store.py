"""Addresses of objects, how they are listed, and what is said where a store refuses."""

from __future__ import annotations

import io
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import SourceError
from dprelease.engines import object_store
from dprelease.engines.duckdb import DuckDBEngine
from dprelease.engines.object_store import parsed
from dprelease.engines.source import Source, as_source, object_source
from dprelease.query.bounded import BoundedQuery, GroupKeys, Primitive
from dprelease.schema.column import Column, Kind
from tests.engines.object_server import KEY, SECRET, ObjectServer, configured, served

X = Column("x", Kind.integer)
COUNT = BoundedQuery((X,), GroupKeys((), ((),)), (), (Primitive("rows"),))


def parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    with served() as state:
        configured(monkeypatch, state)
        yield state


def keys(source: Source) -> list[str]:
    objects: Any = source.payload
    return [one.key for one in objects]


def refused(text: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        as_source(text)
    assert caught.value.spent == "nothing"
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    return caught.value


NAMES = ("v/1.parquet", "v/10.parquet", "v/a/2.parquet", "v/a/b/3.parquet", "v/.h.parquet")
NAMES += ("v/.h/4.parquet", "v/_SUCCESS", "w/[1].parquet", "v é/x=%2F/5.parquet")
PATTERNS = ("v/1.parquet", "v/*.parquet", "v/1*.parquet", "v/[0-9].parquet", "v/*/*.parquet")
PATTERNS += ("v/**/*.parquet", "**/*.parquet", "*/1.parquet", "v/.h*", "v/.*/*.parquet", "v é/*/*")
PATTERNS += ("v/**", "w/[[]1].parquet", "v/**/b/**/*.parquet", "nothing/*.parquet")


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_objects_as_it_matches_files(pattern: str, tmp_path: Path) -> None:
    """Against Python's own matching of files, by a store that is a folder."""
    import glob

    for name in NAMES:
        path = tmp_path / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    files = glob.glob(pattern, root_dir=tmp_path / "bucket", recursive=True)
    wanted = sorted(f"bucket/{f}" for f in files if (tmp_path / "bucket" / f).is_file())
    store = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    found = sorted(object_store._listed(store, f"bucket/{pattern}"))
    assert found == wanted
    assert bool(wanted) == (pattern != "nothing/*.parquet")


def test_every_page_of_a_listing_is_read(server: ObjectServer) -> None:
    for i in range(7):
        server.objects[f"clinic/v/{i}.parquet"] = parquet(x=[i])
    server.objects["clinic/v/deeper/8.parquet"] = parquet(x=[8])
    source = as_source("s3://clinic/v/*.parquet")
    assert keys(source) == [f"clinic/v/{i}.parquet" for i in range(7)]
    assert keys(as_source("s3://clinic/v/3.parquet")) == ["clinic/v/3.parquet"]
    assert len(keys(as_source("s3://clinic/**/*.parquet"))) == 8
    engine = DuckDBEngine()
    engine.preflight(source, COUNT)
    assert engine.compute(source, COUNT, b"").reveal_to_mechanism().sums[0, 0] == 7


@pytest.mark.parametrize(
    "text",
    [
        f"s3://{KEY}:{SECRET}@clinic/v/*.parquet",
        f"s3://clinic/v/*.parquet?access_key={KEY}&secret_key={SECRET}",
        f"az://clinic/v.parquet?sv=2024&sig={SECRET}",
        f"s3://clinic:9000/{SECRET}.parquet",
        f"https://{SECRET}/v.parquet",
        f"file:///{SECRET}.parquet",
        "s3://clinic",
        "s3://clinic/",
        "s3://clinic//v.parquet",
        "s3://clinic/../v.parquet",
        "s3://clinic/v/../w.parquet",
        "s3:///v.parquet",
        "gs://clinic/a\0b.parquet",
    ],
)
def test_a_faulty_address_is_refused_and_not_quoted(text: str) -> None:
    error = refused(text)
    assert error.code == "DPR525"
    assert SECRET not in str(error) and KEY not in str(error)


def test_what_is_not_there_is_refused(server: ObjectServer) -> None:
    server.objects["clinic/v/1.parquet"] = parquet(x=[1])
    for text in ("s3://clinic/v/*.csv", "s3://clinic/v", "s3://clinic/2.parquet"):
        assert refused(text).code == "DPR501", text
    server.objects["clinic/v/2.parquet"] = b"PAR1 no parquet PAR1"
    with pytest.raises(SourceError) as caught:
        DuckDBEngine().preflight(as_source("s3://clinic/v/*.parquet"), COUNT)
    assert caught.value.code == "DPR502"
    assert "clinic/v/2.parquet" in str(caught.value)


def test_a_refusal_is_named_and_holds_no_credential(
    server: ObjectServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    server.objects["clinic/v/1.parquet"] = parquet(x=[1])
    assert keys(as_source("s3://clinic/v/*.parquet"))  # the right key is let in
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET[::-1])
    wrong = refused("s3://clinic/v/*.parquet")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    server.refuse = (403, "AccessDenied")
    denied = refused("s3://clinic/v/*.parquet")
    server.refuse = None
    missing = refused("s3://no-such-bucket/v/1*.parquet")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    silent = refused("s3://clinic/v/*.parquet")
    assert "SIGNATURE_DOES_NOT_MATCH" in wrong.what and "ACCESS_DENIED" in denied.what
    assert {wrong.code, denied.code, silent.code} == {"DPR524"}
    assert missing.code in ("DPR501", "DPR524")
    streams = capfd.readouterr()
    for told in (str(wrong), str(denied), str(silent), str(missing), streams.out, streams.err):
        assert not {SECRET, SECRET[::-1], KEY} & set(told.split()) and SECRET not in told
        assert KEY not in told


def test_neither_a_source_nor_its_objects_show_a_store(server: ObjectServer) -> None:
    server.objects["clinic/v/1.parquet"] = parquet(x=[1])
    source = as_source("s3://clinic/v/1.parquet")
    objects: Any = source.payload
    one = objects[0].only((0,))
    assert repr(source) == "Source(kind='objects', name='s3://clinic/v/1.parquet')"
    assert repr(one) == "StoredObject(key='clinic/v/1.parquet')"


def test_each_scheme_has_its_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which class, and what it is given: neither cloud is asked."""
    made: list[tuple[str, dict[str, Any]]] = []

    def maker(name: str) -> Any:
        def make(**options: Any) -> Any:
            made.append((name, options))
            return pyarrow.fs.LocalFileSystem()

        return make

    for name in object_store.SCHEMES.values():
        monkeypatch.setattr(pyarrow.fs, name, maker(name))
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "clinic")
    for scheme in ("s3", "gs", "az"):
        with pytest.raises(SourceError, match="no object matches"):
            as_source(f"{scheme}://no-such-folder-here/v.parquet")
    assert made == [
        ("S3FileSystem", {}),
        ("GcsFileSystem", {"retry_time_limit": timedelta(minutes=1)}),
        ("AzureFileSystem", {"account_name": "clinic"}),
    ]


@pytest.mark.parametrize("failed", [pa.ArrowException, pa.ArrowKeyError, RuntimeError, OSError])
def test_whatever_a_store_s_reader_raises_is_one_refusal(
    failed: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Azure's reader raises a bare ArrowException where it finds no credentials."""

    class Store:
        def get_file_info(self, _: Any) -> Any:
            raise failed(SECRET)

    monkeypatch.setattr(object_store, "_store", lambda _: Store())
    error = refused("az://clinic/*.parquet")
    assert error.code == "DPR524" and SECRET not in str(error)


def test_an_installation_without_a_cloud_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pyarrow.fs, "AzureFileSystem")
    assert refused("az://clinic/v.parquet").code == "DPR507"


@pytest.mark.parametrize("failed", [ValueError, pa.ArrowException])
def test_a_store_that_cannot_be_set_up_is_refused(
    failed: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(**_: Any) -> Any:
        raise failed(SECRET)

    monkeypatch.setattr(pyarrow.fs, "GcsFileSystem", broken)
    error = refused("gs://clinic/v.parquet")
    assert error.code == "DPR524" and SECRET not in str(error)


def test_an_address_is_read_once() -> None:
    assert parsed("gs://clinic.example.org/a b/x=1/*.parquet") == (
        "gs",
        "clinic.example.org/a b/x=1/*.parquet",
    )
    store = pyarrow.fs.LocalFileSystem()
    with pytest.raises(SourceError) as caught:
        object_source("s3://no-such-folder-here/*.parquet", store=store)
    assert caught.value.code == "DPR501"
