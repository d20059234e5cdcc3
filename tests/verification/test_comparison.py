"""Files against the bytes they should have; a Parquet table may be another writer's, and no more."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dprelease.core.errors import VerificationError
from dprelease.core.strict_json import read_file
from dprelease.results.published_folder import listing
from dprelease.verification import comparison
from dprelease.verification.comparison import as_published, differences, holds, paths_apart

TABLE = pa.table(
    {"key": [f"g{i % 7}" for i in range(3000)], "value": pa.array(range(3000), pa.float64())}
).replace_schema_metadata({b"dprelease": b"{}"})


def written(table=TABLE, **options):
    sink = io.BytesIO()
    pq.write_table(table, sink, **{"compression": "zstd", "version": "2.6", **options})
    return sink.getvalue()


MADE = written()
SAME = {
    "another compression level": {"compression_level": 9},
    "no statistics": {"write_statistics": False},
    "another data page version": {"data_page_version": "2.0"},
}
OTHER = {
    "plain text, no dictionary": {"use_dictionary": False, "compression": "none"},
    "other row groups": {"row_group_size": 1000},
}


@pytest.mark.parametrize("name", SAME)
def test_another_writer_s_file_of_the_same_table_is_the_release_s(tmp_path, name):
    data = written(**SAME[name])
    assert data != MADE
    (tmp_path / "data.parquet").write_bytes(data)
    assert as_published(tmp_path / "data.parquet", MADE) == data


@pytest.mark.parametrize("name", OTHER)
def test_a_file_that_holds_more_or_is_cut_otherwise_is_not(tmp_path, name):
    (tmp_path / "data.parquet").write_bytes(written(**OTHER[name]))
    assert as_published(tmp_path / "data.parquet", MADE) == MADE


def resealed(change):
    """Return the file with another footer: a forger who writes Thrift."""
    size = int.from_bytes(MADE[-8:-4], "little")
    footer = change(MADE[-8 - size : -8])
    return MADE[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def short(text):
    return bytes([len(text)]) + text


WRITER = pq.ParquetFile(io.BytesIO(MADE)).metadata.created_by.encode()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda f: f.replace(short(WRITER), short(b"p17, 72, HIV")), id="rows as the writer"
        ),
        pytest.param(
            lambda f: f.replace(short(WRITER), short(WRITER + b" p17")), id="rows behind the writer"
        ),
        pytest.param(
            lambda f: f[:-1] + b"\x08\xc8\x01" + short(b"p17, 72, HIV") + b"\x00",
            id="a field nobody reads",
        ),
        pytest.param(lambda f: f.replace(short(b"{}"), short(b"[]")), id="other metadata"),
    ],
)
def test_a_footer_holds_nothing_else(tmp_path, change):
    data = resealed(change)
    assert data != MADE
    assert pq.read_table(io.BytesIO(data)).equals(TABLE)
    (tmp_path / "data.parquet").write_bytes(data)
    assert as_published(tmp_path / "data.parquet", MADE) == MADE


def test_metadata_is_that_of_the_file_not_only_of_the_arrow_schema_in_it(tmp_path):
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, TABLE.schema, compression="zstd", version="2.6") as writer:
        writer.write_table(TABLE)
        writer.add_key_value_metadata({b"dprelease": b"epsilon is 0"})
    (tmp_path / "data.parquet").write_bytes(sink.getvalue())
    assert as_published(tmp_path / "data.parquet", MADE) == MADE


def test_a_zero_has_the_sign_that_was_published(tmp_path):
    signed = TABLE.set_column(1, "value", pa.array([-0.0, *range(1, 3000)], pa.float64()))
    (tmp_path / "data.parquet").write_bytes(written(signed, write_statistics=False))
    assert as_published(tmp_path / "data.parquet", MADE) == MADE


def test_text_is_compared_by_its_bytes_and_sizes_first(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"1,2\n")
    assert holds(tmp_path / "a.csv", 4, b"1,2\n")
    assert not holds(tmp_path / "a.csv", 4, b"1,3\n")
    assert not holds(tmp_path / "a.csv", 9, b"1,2\n")  # the size that was listed
    assert as_published(tmp_path / "a.csv", b"1,3\n") == b"1,3\n"
    found = listing(tmp_path)
    assert found == {"a.csv": 4}
    assert differences(tmp_path, found, {"b.csv": b""}) == {
        "a.csv": "does not follow from the release",
        "b.csv": "is missing",
    }


def test_nothing_but_regular_files_is_listed_or_read(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"12345")
    with pytest.raises(OSError, match="larger"):
        read_file(tmp_path / "a.csv", 4)
    (tmp_path / "b.csv").symlink_to(tmp_path / "a.csv")
    with pytest.raises(OSError):
        read_file(tmp_path / "b.csv")
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(VerificationError) as caught:
            listing(path)
        assert caught.value.code == "DPR810"


def test_what_differs_is_named_by_its_place():
    assert paths_apart({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}) == ["a[1].b"]
    assert paths_apart({"a": 1}, {"a": 1, "z": 2}) == ["z"]
    assert paths_apart({"a": [1]}, {"a": [1, 2]}) == ["a"]
    assert paths_apart({"a": 1}, {"a": True}) == ["a"]
    assert len(paths_apart(dict.fromkeys("abcdef", 1), dict.fromkeys("abcdef", 2))) == 3
    assert paths_apart({"a": 1}, {"a": 1}) == []


def footer(**said):
    """Return what a footer says of one row group of one column, with other words for some of it."""
    chunk = dict.fromkeys(comparison._CLAIMS) | {"statistics": None, "path_in_schema": "a"}
    column = SimpleNamespace(**{**chunk, "total_uncompressed_size": 1, **said})
    group = SimpleNamespace(
        num_rows=3, column=lambda _: column, sorting_columns=said.get("sorting_columns", ())
    )
    return SimpleNamespace(
        num_rows=3, num_row_groups=1, num_columns=1, metadata={}, row_group=lambda _: group
    )


@pytest.mark.parametrize("claim", comparison._CLAIMS)
def test_a_footer_claims_nothing_more_of_a_column(claim):
    """Key and value pairs of a column, Bloom filters, page indexes: our writer makes none."""
    assert comparison._same_row_groups(footer(), footer())
    assert not comparison._same_row_groups(footer(**{claim: "p17, 72, HIV"}), footer())


def test_a_column_s_statistics_are_those_of_its_values_or_left_out():
    """Writers of other versions leave them out; other ones would be a second statement about the values."""
    names = (
        "has_min_max",
        "min",
        "max",
        "null_count",
        "distinct_count",
        "num_values",
        "physical_type",
    )
    ours = SimpleNamespace(**dict.fromkeys((*names, "has_null_count", "has_distinct_count"), 1))
    theirs = SimpleNamespace(**{**vars(ours), "min": 0, "max": 72})
    assert comparison._same_row_groups(footer(statistics=ours), footer(statistics=ours))
    assert comparison._same_row_groups(footer(), footer(statistics=ours))
    assert not comparison._same_row_groups(footer(statistics=theirs), footer(statistics=ours))


def test_a_file_that_claims_to_be_sorted_is_not_the_release_s(tmp_path):
    data = written(sorting_columns=[pq.SortingColumn(1)])
    path = tmp_path / "data.parquet"
    path.write_bytes(data)
    assert as_published(path, MADE) == MADE != data
