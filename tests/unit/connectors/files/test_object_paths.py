"""Paths of object stores: what they mean, what is refused, and that patterns mean there what they mean on a disk."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firesteel.common.errors import ProgramError
from firesteel.connectors.files.arrow_files import _matches
from firesteel.connectors.files.paths import find_files, is_uri, joined, local_path, parent, place

NAMES = ["a", "b", "ab", ".a", "_b"]
PATTERNS = ["*", "a*", "*/*", "**", "**/a", "*/**/b", "[ab]", "[ab]/?", ".*", "**/*b*/*", "*/b", "x*"]


def test_a_place_means_the_same_everywhere(tmp_path: Path) -> None:
    assert place("s3://bucket/a/b/", "files") == "s3://bucket/a/b"
    assert place("S3A://bucket//a/./b/../c", "files") == "s3://bucket/a/c"
    assert place("s3://bucket", "files") == place("s3://bucket/", "files") == "s3://bucket"
    assert place("s3://bucket/../../a", "files") == "s3://bucket/a"
    assert place("s3://bucket/a b%20c", "files") == "s3://bucket/a b%20c"
    assert place("gcs://bucket/a", "files") == "gs://bucket/a"
    assert place("hdfs://host:8020/a", "files") == "hdfs://host:8020/a"
    assert place("abfss://container@account.dfs.core.windows.net/a", "files").startswith("abfss://container@")
    assert place(tmp_path.as_uri(), "files") == str(tmp_path)
    assert [is_uri(each) for each in ("s3://bucket", "/a/b")] == [True, False]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("ftp://host/a", "'ftp://host/a'; mount the storage"),
        (
            "s3://key:very-secret@bucket/a",
            "do not take keys in a URI, because it is printed; write 's3://bucket/a'",
        ),
        ("s3:///a", "need the name of a bucket"),
    ],
)
def test_what_is_no_place_is_refused_without_showing_keys(path: str, sentence: str) -> None:
    with pytest.raises(ProgramError) as caught:
        place(path, "file sources")
    assert sentence in str(caught.value)
    assert "very-secret" not in str(caught.value)


def test_what_needs_a_local_path_says_what_does_not() -> None:
    with pytest.raises(ProgramError, match="use FileSource or FileSink"):
        local_path("s3://bucket/a", "text files")


def test_folders_of_a_store_end_at_its_bucket() -> None:
    assert [parent(each) for each in ("s3://b/a/c", "s3://b/a", "s3://b")] == ["s3://b/a", "s3://b", "s3://b"]
    assert joined("s3://bucket", "2024/01") == "s3://bucket/2024/01"
    assert joined("s3://bucket/out", "../../above") == "s3://bucket/above"


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4), max_size=8),
    st.sampled_from(PATTERNS),
)
def test_patterns_mean_in_stores_what_they_mean_on_disks(
    tmp_path_factory: pytest.TempPathFactory, paths: list[list[str]], pattern: str
) -> None:
    base = tmp_path_factory.mktemp("tree")
    for path in paths:
        file = base.joinpath(*path)
        with contextlib.suppress(FileExistsError, NotADirectoryError, IsADirectoryError):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x")
    every = [path.relative_to(base).parts for path in sorted(base.rglob("*")) if path.is_file()]
    found = ["/".join(names) for names in every if _matches(names, pattern.split("/"))]
    try:
        expected = [str(Path(each).relative_to(base)) for each in find_files(str(base / pattern))]
    except FileNotFoundError:
        expected = []
    assert sorted(found) == sorted(expected)
